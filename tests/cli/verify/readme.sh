#!/bin/sh
# timeout: 900
# The session of README.md: its commands print the lines that stand there, at 100 columns. With --update the block is written again.
. "$TEST_DIR/common.inc"
awk '/^## A session/ { section = 1 } section && /^```/ { if (block++) exit; next } block == 1' "$TOP/README.md" >session
folder=$(sed -n 's|^\$ cd ||p' session)
command=$(sed -n 's|^\$ repro ||p' session)
[ "$folder" ] && [ "$command" ] || fail "README.md has no session that begins with '\$ cd FOLDER' and '\$ repro COMMAND'"
status=0
# shellcheck disable=SC2086 # the words of a command line
(cd "$TOP/$folder" && COLUMNS=100 "$REPRO" $command) >should 2>err.txt || status=$?
[ "$status" = 0 ] || { cat should err.txt >&2; fail "'$command' exits with $status"; }
sed 1,2d session >is
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
