#!/bin/sh
# In a root that holds nothing but the program the sample is there and can be trained.
. "$TEST_DIR/common.inc"
make_root
env -i "$change_root" root /repro data check embedded:bert_sample.tar.zst --json >check.json
jq -e '.records >= 2000 and .seq_length == 128' check.json >answer.txt || fail "no sample"
# without HOME there is no place for a key: the message says how to go on, and that works
exit_of 2 env -i "$change_root" root /repro run bert_tiny_fp32 --steps 1 -o /b.repro.tar.zst
words
env -i "$change_root" root /repro key new -o /key.pem >out.txt
exit_of 0 env -i "$change_root" root /repro run bert_tiny_fp32 --steps 1 --key /key.pem -o /b.repro.tar.zst
"$REPRO" inspect root/b.repro.tar.zst facts.json >record.json
[ "$(jq -r .data.digest record.json)" = "$(jq -r .digest check.json)" ] || fail "other data"
jq -e .data.pinned record.json >answer.txt || fail "not pinned"
