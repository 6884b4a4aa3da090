#!/bin/sh
# Numbers that are not finite stop a run with status 5: in the file of --init before the first step, naming its tensor; in training
# naming step, tensor and operation. What was done until then is sealed, marked failed, and verifies.
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" run bert_tiny_fp32 --steps 1 --save x.safetensors -o clean.repro.tar.zst
# Layout: u64 size of the header, little-endian; header in JSON; data, at offsets counted from the end of the header.
header=$(od -An -tu8 -N8 x.safetensors | tr -d ' ')
# stopped TENSOR BYTES: with BYTES as the tensor's first number
stopped() {
    offset=$(tail -c +9 x.safetensors | head -c "$header" | jq --arg t "$1" '.[$t].data_offsets[0]')
    cp x.safetensors bad.safetensors
    # shellcheck disable=SC2059 # BYTES are escapes
    printf "$2" | dd of=bad.safetensors bs=1 seek=$((8 + header + offset)) conv=notrunc 2>/dev/null
    exit_of 5 "$REPRO" run bert_tiny_fp32 --steps 2 --init bad.safetensors -o bad.repro.tar.zst --force
    [ "$(tail -n 1 out.txt)" = bad.repro.tar.zst ] || fail "the last line of stdout is not the bundle"
    "$REPRO" inspect bad.repro.tar.zst facts.json >record.json
    [ "$(jq -r .status record.json)" = failed ] || fail "the bundle is marked $(jq -r .status record.json)"
    verified bad.repro.tar.zst
    words
    jq -e '.reason | startswith("mismatch, ") and endswith("numbers are not finite")' record.json >/dev/null || fail "the bundle does not say why"
}
tensor=bert.encoder.layer.1.output.dense.weight
stopped $tensor '\000\000\200\177'
[ "$("$REPRO" inspect bad.repro.tar.zst steps/rank0.jsonl | grep -c '"phase":"\(warm-up\|timed\)"')" = 0 ] || fail "there was a step"
# the largest float: the first product with a number above 1 overflows
stopped bert.encoder.layer.1.attention.self.query.weight '\377\377\177\177'
