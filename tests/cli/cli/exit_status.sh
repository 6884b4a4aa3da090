#!/bin/sh
# One status per kind of failure, and the message names the file.
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" version
exit_of 2 "$REPRO" run bert_tiny_fp32 --set train.batchsize=3 --plan
says train.batch_size
exit_of 3 "$REPRO" run bert_tinyfp32 # a recipe is a file first
words
exit_of 3 "$REPRO" verify missing.repro.tar.zst
says missing.repro.tar.zst
exit_of 3 "$REPRO" inspect .
exit_of 3 "$REPRO" key show missing.pem
says missing.pem
printf 'not a bundle' >x.repro.tar.zst
exit_of 4 "$REPRO" verify x.repro.tar.zst
says x.repro.tar.zst
exit_of 4 "$REPRO" inspect x.repro.tar.zst
exit_of 7 "$REPRO" run bert_fp32 --set train.batch_size=65536 --plan
words | sed 's/[0-9][0-9.]*/N/g; s/N\.N/N/g'
exit_of 7 sh -c 'ulimit -s 128 && exec "$0" version' "$REPRO"
says "ulimit -s"
