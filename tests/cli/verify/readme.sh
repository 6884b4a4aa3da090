#!/bin/sh
# timeout: 900
# README.md, "A session": its commands print the lines that stand there, at 100 columns. With --update the block is written
# again. "A run": the same, with the losses to their last digit; speed, machine and time are masked. Training a step of BERT-base again takes
# half a minute of processor time: the session does it with LONG=1 and --update, else the lines that tell of it are passed over.
. "$TEST_DIR/common.inc"
block() { # HEADING: the first block of code below it
    awk -v h="## $1" '$0 == h { section = 1 } section && /^```/ { if (n++) exit; next } n == 1' "$TOP/README.md"
}
block "A session" >session
folder=$(sed -n 's|^\$ cd ||p' session)
command=$(sed -n 's|^\$ repro ||p' session)
[ "$folder" ] && [ "$command" ] || fail "README.md has no session that begins with '\$ cd FOLDER' and '\$ repro COMMAND'"
status=0
if [ "${LONG:-0}" = 0 ] && [ -z "${UPDATE:-}" ]; then
    case $command in *" --replay 1") ;; *) fail "the session does not replay a step: '$command'" ;; esac
    command=${command% --replay 1}
fi
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
case $command in *--replay*) ;; *)
    for file in is should; do
        sed -Ei '/^(verified:|passed +replay|consistent|computed) |skipped: /d; s/  +/ /g' $file
        [ "$(wc -l <$file)" -ge 12 ] || fail "few lines are left: $(cat $file)"
    done
    ;;
esac
# A time is another one everywhere.
for file in is should; do sed -Ei 's/[0-9]+(\.[0-9]+)? (ms|s|min|h)\b/TIME/g' $file; done
diff -u is should >&2 || fail "README.md: the session has other lines than 'repro $command' prints; tests/run.sh --update cli/verify/readme writes them"

# The speed, the machine and the time are others everywhere; the losses are not.
masked() {
    sed -E '1s/[0-9]+(\.[0-9]+)?/N/g; 2s/[0-9]+ threads? of .*/THREADS/; 4s/[0-9]{8}T[0-9]{6}Z/TIME/' "$@"
}
block "A run" >run
command=$(sed -n '1s|^\$ repro ||p' run)
[ "$command" ] || fail "README.md has no run that begins with '\$ repro COMMAND'"
sed 1d run | masked >is
# shellcheck disable=SC2086 # the words of a command line
"$REPRO" $command >out.txt 2>err.txt || { cat err.txt >&2; fail "'$command' fails"; }
masked out.txt >should
[ "$(wc -l <should)" = 4 ] || fail "'$command' prints other lines: $(cat out.txt)"
diff -u is should >&2 || fail "README.md: 'A run' has other lines than 'repro $command' prints"
[ -s "$(tail -n 1 out.txt)" ] || fail "no bundle has the name that '$command' prints last"
