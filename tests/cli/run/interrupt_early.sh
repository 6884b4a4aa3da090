#!/bin/sh
# Ctrl-C before training: in a long look at one's own data the run ends, has nothing to seal, and says so.
. "$TEST_DIR/common.inc"
mkdir data
truncate -s 100G data/a.tfrecord || skip "no file with a hole of 100 GB here"
"$REPRO" run bert_tiny_fp32 --set data.path=data -o early.repro.tar.zst >out.txt 2>err.txt &
parent=$!
wait_until "$parent" grep -q unpacking err.txt
sleep 0.5
kill -INT "$parent"
status=0
wait "$parent" || status=$?
[ "$status" = 130 ] || { cat err.txt >&2; fail "exit status $status, expected 130"; }
words
[ ! -s out.txt ] || fail "something on stdout"
[ -z "$(find . -name '*.repro*')" ] || fail "a bundle was written"
