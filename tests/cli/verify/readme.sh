#!/bin/sh
# timeout: 900
# The session of README.md: its command prints the lines that stand there, at 110 columns.
# Without LONG=1 the step is trained again in the instruction set of this machine, ten seconds instead of two minutes: the words are the same.
# With --update the block is written again.
. "$TEST_DIR/common.inc"
awk '/^## A session/ { section = 1 } section && /^```/ { if (block++) exit; next } block == 1' "$TOP/README.md" >session
command=$(sed -n '1s|^\$ build/repro ||p' session)
[ "$command" ] || fail "README.md has no session that begins with '\$ build/repro'"
[ "${LONG:-0}" != 0 ] || command=$(echo "$command" | sed 's/ --isa [a-z0-9]*//')
status=0
# shellcheck disable=SC2086 # the words of a command line
(cd "$TOP" && COLUMNS=110 "$REPRO" $command) >should 2>err.txt || status=$?
[ "$status" = 0 ] || { cat should err.txt >&2; fail "'$command' exits with $status"; }
sed 1d session >is
if [ "${UPDATE:-}" ]; then
    awk '
        /^## A session/ { section = 1 }
        section && /^```/ && ++fence == 2 { while ((getline line <"should") > 0) print line }
        section && fence == 1 && !/^```/ && !/^\$ / { next }
        { print }' "$TOP/README.md" >new
    cmp -s new "$TOP/README.md" || cp new "$TOP/README.md"
    exit 0
fi
# A time is another one everywhere.
for file in is should; do sed -Ei 's/[0-9]+(\.[0-9]+)? (ms|s|min|h)\b/TIME/g' $file; done
diff -u is should >&2 || fail "README.md: the session has other lines than 'repro $command' prints; tests/run.sh --update cli/verify/readme writes them"
