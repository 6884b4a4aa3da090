#!/bin/sh
# Parameters that will not fit where --save names a file are refused before training, and an old file stays.
. "$TEST_DIR/common.inc"
mkdir small
mount -t tmpfs -o size=300k none small 2>mount.txt || skip "cannot mount a small file system: $(cat mount.txt)"
trap 'umount small' EXIT
echo precious >small/old
exit_of 3 "$REPRO" run bert_tiny_fp32 --steps 1 --force --save small/old -o x.repro.tar.zst
words
[ ! -e x.repro.tar.zst ] || fail "training had begun"
[ "$(cat small/old)" = precious ] || fail "the old file is gone"
