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
