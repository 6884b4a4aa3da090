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
# What could not be read at the start or written at the end is found before training too.
for option in '--save missing/dir/x.safetensors' '--init missing.safetensors'; do
    status=0
    # shellcheck disable=SC2086
    "$REPRO" run bert_tiny_fp32 --steps 1 -o late.repro.tar.zst $option >out.txt 2>err.txt || status=$?
    [ "$status" = 3 ] || fail "$option: exit status $status, expected 3"
    [ ! -e late.repro.tar.zst ] || fail "$option: training had begun"
done
