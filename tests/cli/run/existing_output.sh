#!/bin/sh
# An existing file is never overwritten unasked, and a directory that cannot be written is found before training.
. "$TEST_DIR/common.inc"
echo precious >there
exit_of 2 "$REPRO" run bert_tiny_fp32 --steps 1 -o there
[ "$(cat there)" = precious ] || fail "the file was overwritten"
says --force
exit_of 3 "$REPRO" run bert_tiny_fp32 --steps 1 -o missing/dir/x.repro.tar.zst
# What could not be read at the start or written at the end is found before training too.
for option in '--save missing/dir/x.safetensors' '--init missing.safetensors'; do
    # shellcheck disable=SC2086
    exit_of 3 "$REPRO" run bert_tiny_fp32 --steps 1 -o late.repro.tar.zst $option
    [ ! -e late.repro.tar.zst ] || fail "$option: training had begun"
done
