#!/bin/bash
# A limit of file sizes is met like a full disk: exit 3, the file named, and nothing half written left behind.
. "$TEST_DIR/common.inc"
limited() { # COMMAND...: files of 4 KiB at most
    (ulimit -f 4 && exec "$@")
}
exit_of 3 limited "$REPRO" capture -o env.json
says env.json
[ ! -e env.json ] || fail "a part of the document was left"
exit_of 3 limited "$REPRO" data unpack bert_sample.tar.zst --store st
says "bert_sample.tar.zst"
exit_of 0 "$REPRO" data unpack bert_sample.tar.zst --store st
# at the end of a run, too
exit_of 3 limited "$REPRO" run bert_tiny_fp32 --store st --steps 1 --set measure.repeats=1 --set measure.warmup_steps=0 -o x.repro.tar.zst
says x.repro.tar.zst
[ ! -e x.repro.tar.zst ] || fail "a part of the bundle was left"
