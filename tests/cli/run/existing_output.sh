#!/bin/sh
# An existing file is never overwritten unasked, and a directory that cannot be written is found before training.
. "$TEST_DIR/common.inc"
echo precious >there
status=0
"$REPRO" run bert_tiny_fp32 --steps 1 -o there >out.txt 2>err.txt || status=$?
[ "$status" = 2 ] || fail "exit status $status, expected 2"
[ "$(cat there)" = precious ] || fail "the file was overwritten"
grep -q -- --force err.txt || fail "no remedy named"
status=0
"$REPRO" run bert_tiny_fp32 --steps 1 -o missing/dir/x.repro.tar.zst >out.txt 2>err.txt || status=$?
[ "$status" = 3 ] || fail "exit status $status, expected 3"
