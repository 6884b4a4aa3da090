#!/bin/sh
# In a root that holds nothing but the program the sample is there and can be trained.
. "$TEST_DIR/common.inc"
[ "$(id -u)" = 0 ] || skip "only root can change the root directory"
PATH=$PATH:/usr/sbin:/sbin
change_root=$(command -v chroot) || skip "no chroot command"
mkdir root
cp "$REPRO" root/repro
"$change_root" root /repro version >out.txt 2>&1 || skip "this build of repro is not static"
env -i "$change_root" root /repro data check embedded:bert_sample.tar.zst --json >check.json
jq -e '.records >= 2000 and .seq_length == 128' check.json >answer.txt || fail "no sample"
env -i "$change_root" root /repro key new -o /key.pem >out.txt
env -i "$change_root" root /repro run bert_tiny_fp32 --steps 1 --key /key.pem -o /b.repro.tar.zst >out.txt 2>err.txt || { cat err.txt >&2; fail "no run"; }
"$REPRO" inspect root/b.repro.tar.zst run.json >run.json
[ "$(jq -r .data.digest run.json)" = "$(jq -r .digest check.json)" ] || fail "other data"
jq -e .data.pinned run.json >answer.txt || fail "not pinned"
