#!/bin/sh
# timeout: 900
# The session of README.md: its command prints the lines that stand there, in their order; those of checks that it does not show are left out.
# Without LONG=1 the step is trained again in the instruction set of this machine, ten seconds instead of two minutes: the words are the same.
# With --update the block is written again: the same checks, and everything that follows the checks.
. "$TEST_DIR/common.inc"
awk '/^## A session/ { section = 1 } section && /^```/ { if (block++) exit; next } block == 1' "$TOP/README.md" >session
command=$(sed -n '1s|^\$ build/repro ||p' session)
[ "$command" ] || fail "README.md has no session that begins with '\$ build/repro'"
[ "${LONG:-0}" != 0 ] || command=$(echo "$command" | sed 's/ --isa [a-z0-9]*//')
scratch=$PWD status=0
# shellcheck disable=SC2086 # the words of a command line
(cd "$TOP" && "$REPRO" $command) >out.txt 2>err.txt || status=$?
[ "$status" = 0 ] || { cat out.txt err.txt >&2; fail "'$command' exits with $status"; }
sed 1d session >is
# Lines of checks that the session shows, by their names; then everything after the checks.
awk 'NR == FNR { if (!NF) rest = 1; else if (!rest) shown[$2] = 1; next } !NF { after = 1 } after || $2 in shown' is out.txt >should
shown=$(sed '/^$/,$d' is | wc -l) all=$(sed '/^$/,$d' out.txt | wc -l)
if [ "${UPDATE:-}" ]; then
    awk -v count="$shown of $all checks are shown" '
        { sub(/[0-9]+ of [0-9]+ checks are shown/, count) }
        /^## A session/ { section = 1 }
        section && /^```/ && ++fence == 2 { while ((getline line <"should") > 0) print line }
        section && fence == 1 && !/^```/ && !/^\$ / { next }
        { print }' "$TOP/README.md" >new
    cmp -s new "$TOP/README.md" || cp new "$TOP/README.md"
    exit 0
fi
# A time is another one everywhere.
for file in is should; do sed -Ei 's/[0-9]+(\.[0-9]+)? (ms|s|min|h)\b/TIME/g' "$scratch/$file"; done
diff -u is should >&2 || fail "README.md: the session has other lines than 'repro $command' prints; tests/run.sh --update cli/verify/readme writes them"
grep -q "$shown of $all checks are shown" "$TOP/README.md" || fail "README.md: $shown of $all checks are shown"
