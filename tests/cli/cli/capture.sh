#!/bin/sh
# `capture` prints a summary, writes a file only when asked, and --json is the document itself.
. "$TEST_DIR/common.inc"
"$REPRO" capture >summary.txt
[ "$(wc -l <summary.txt)" -ge 5 ] || fail "a short summary"
[ "$(find . -type f | wc -l)" = 1 ] || fail "files were written unasked"
"$REPRO" capture -o env.json | cut -c1-10 >first.txt
jq -e . env.json >parsed.json
"$REPRO" capture -o - | jq -e . >parsed.json
"$REPRO" capture --json | jq -e . >parsed.json
exit_of 3 "$REPRO" capture -o missing/dir/env.json
# A file that exists is replaced only on demand, and what is no file never; a pipe that nobody reads is not waited for.
echo precious >there
exit_of 2 "$REPRO" capture --probe cpu -o there
words
[ "$(cat there)" = precious ] || fail "the file was replaced"
ln -s nowhere link
exit_of 2 "$REPRO" capture --probe cpu -o link
[ ! -e nowhere ] || fail "the link was followed"
exit_of 0 "$REPRO" capture --probe cpu -o there --force
jq -e .probes.cpu there >parsed.json
mkfifo fifo
mkdir dir
for other in fifo dir; do
    exit_of 2 timeout 10 "$REPRO" capture --probe cpu -o $other
    words
    exit_of 2 timeout 10 "$REPRO" capture --probe cpu -o $other --force
done
[ -p fifo ] && [ -d dir ] || fail "something was replaced by a file"
exit_of 0 "$REPRO" capture --probe cpu -o /dev/null
# Beside a file the page is a courtesy, which --quiet leaves out and a closed stdout cannot get.
exit_of 0 "$REPRO" capture --probe cpu -q -o quiet.json
[ ! -s out.txt ] && jq -e .probes.cpu quiet.json >parsed.json || fail "--quiet prints $(cat out.txt)"
exit_of 0 "$REPRO" capture --probe cpu -q
[ -s out.txt ] || fail "without a file the page is the result"
status=0
"$REPRO" capture --probe cpu -o closed.json >&- 2>err.txt || status=$?
[ $status = 0 ] && [ ! -s err.txt ] && jq -e .probes.cpu closed.json >parsed.json || fail "the file is written, and the status $status: $(cat err.txt)"
exit_of 2 "$REPRO" capture --probe cpu -o ''
