#!/bin/sh
# An infinite weight stops the run: status 5, step and tensor named, and what was done until then is sealed, marked and verifies.
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" run bert_tiny_fp32 --steps 1 --save x.safetensors -o clean.repro.tar.zst
# Layout: u64 size of the header, little-endian; header in JSON; data, at offsets counted from the end of the header.
tensor=bert.encoder.layer.1.output.dense.weight
header=$(od -An -tu8 -N8 x.safetensors | tr -d ' ')
offset=$(tail -c +9 x.safetensors | head -c "$header" | jq --arg t "$tensor" '.[$t].data_offsets[0]')
printf '\000\000\200\177' | dd of=x.safetensors bs=1 seek=$((8 + header + offset)) conv=notrunc 2>/dev/null # +Inf
exit_of 5 "$REPRO" run bert_tiny_fp32 --steps 2 --init x.safetensors -o bad.repro.tar.zst
[ "$(tail -n 1 out.txt)" = bad.repro.tar.zst ] || fail "the last line of stdout is not the bundle"
"$REPRO" inspect bad.repro.tar.zst run.json >record.json
[ "$(jq -r .status record.json)" = failed ] || fail "the bundle is marked $(jq -r .status record.json)"
"$REPRO" verify bad.repro.tar.zst >verify.txt 2>&1 || { cat verify.txt >&2; fail "the sealed bundle does not verify"; }
grep -q "step [0-9]*, micro-batch 0: .*not finite.*'$tensor'" err.txt || { cat err.txt >&2; fail "the message does not name step and tensor"; }
jq -e --arg t "'$tensor'" '.reason | contains($t)' record.json >/dev/null || fail "the bundle does not say why"
