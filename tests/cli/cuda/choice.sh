#!/bin/sh
# Which device trains: --backend and --device, what auto takes, and what is said where there is none. timeout: 120
. "$TEST_DIR/common.inc"
plan() { # VARIABLE... -- OPTION...: the plan, its exit status in $status
    variables=
    while [ "$1" != -- ]; do
        variables="$variables $1"
        shift
    done
    shift
    status=0
    # shellcheck disable=SC2086
    on_gpu $variables "$REPRO" run bert_tiny_fp32 --plan "$@" >out.txt 2>err.txt || status=$?
}
expect() { # STATUS: the message of a plan that is refused goes to choice.out
    [ "$status" = "$1" ] || { cat out.txt err.txt >&2; fail "status $status, expected $1"; }
    [ "$status" = 0 ] || words
}
# The plan of a GPU is made from its free memory, whatever the machine has; the process is no part of it.
plan SHIM_MEMORY=3000000000 -- --json
expect 0
jq -e '.available_bytes == 3000000000 - 134217728 and .total_bytes == (.bytes | add)' out.txt >answer.txt || { cat out.txt; fail "another memory"; }
plan SHIM_MEMORY=3000000000 -- --batch-size 30000
expect 7
plan SHIM_MEMORY=3000000000 -- --batch-size max --json
expect 0
jq -e '.batch == .max_batch and .batch > 100' out.txt >answer.txt || fail "max is not the largest"
plan -- --backend cuda --device 1
expect 7
plan SHIM_DEVICES=2 -- --backend cuda --device 1
expect 0
plan SHIM_DEVICES=2 -- --backend cuda --device GPU-11111111-1111-1111-1111-111111111111
expect 0
plan SHIM_DEVICES=2 -- --backend cuda --device MIG-10101010-1010-1010-1010-101010101010
expect 0
plan SHIM_DEVICES=2 -- --backend cuda --device GPU-12345678-1111-1111-1111-111111111111
expect 7
plan SHIM_DEVICES=2 SHIM_MEMORY=3000000000 -- --device 1 --json # without --backend a GPU that is named is meant too
expect 0
jq -e '.available_bytes == 3000000000 - 134217728' out.txt >answer.txt || { cat out.txt; fail "not the plan of the GPU that was named"; }
plan -- --device 1
expect 7
plan -- --backend cuda --device first
expect 2
plan SHIM_VERSION=11080 -- --backend cuda
expect 7
plan SHIM_CAPABILITY=61 -- --backend cuda
expect 7
plan SHIM_DEVICES=0 -- --backend cuda
expect 7
# A sequence that no kernel of this GPU has room for is refused by the plan, with what fits: an allocation would fail here.
wide='--set model.hidden_size=1024 --set model.num_attention_heads=1 --set model.max_position_embeddings=1024'
# shellcheck disable=SC2086
{
plan SHIM_SHARED=63000 SHIM_FAIL=cuMemAlloc_v2:1:2 -- $wide --set task.seq_length=1024
expect 7
exit_of 7 on_gpu SHIM_SHARED=63000 "$REPRO" run bert_tiny_fp32 --backend cuda $wide --set task.seq_length=1024 -o long.repro.tar.zst
words
[ ! -e long.repro.tar.zst ] || fail "a run that no device can do was begun"
plan SHIM_SHARED=63000 -- --backend cuda $wide --set task.seq_length=512
expect 0
plan SHIM_SHARED=63000 -- --backend cpu $wide --set task.seq_length=1024
expect 0
}
# A GPU that others keep to themselves, or whose memory they hold, is none, for that reason.
plan SHIM_FAIL=cuDevicePrimaryCtxRetain:1:46 -- --backend cuda
expect 7
plan SHIM_FAIL=cuDevicePrimaryCtxRetain:1:2 -- --backend cuda
expect 7
plan SHIM_FAIL=cuDevicePrimaryCtxRetain:1:46 -- --json
expect 0
jq -e '.bytes.backend_buffers > 1000000' out.txt >answer.txt || fail "not the plan of the CPU"
# What max has planned fits when the driver has taken for itself what it needs, blocks are rounded up, and 2 MiB more are gone each time. The GPU
# computes nothing, and the run notices that its own bundle does not verify: 70.
exit_of 70 on_gpu SHIM_IDLE="$PWD/idle.txt" SHIM_MEMORY=700000000 SHIM_GRAIN=2097152 SHIM_OWN=2097152 "$REPRO" run bert_tiny_fp32 --backend cuda \
    --batch-size max --steps 1 --set train.accumulation_steps=1 --set measure.ceilings=false -o max.repro.tar.zst
words
"$REPRO" inspect max.repro.tar.zst facts.json | jq -e '.plan.batch > 20 and .plan.batch == .plan.max_batch' >answer.txt || fail "max is another batch"
# auto falls back to the CPU where no GPU can be used, and does not ask where the CPU was meant.
plan SHIM_DEVICES=0 -- --json
expect 0
jq -e '.bytes.backend_buffers > 1000000' out.txt >answer.txt || fail "not the plan of the CPU"
plan SHIM_HANG=cuInit -- --backend cpu
expect 0
shim=$PWD # nothing is there
plan -- --backend cuda
expect 7
plan -- --device 0
expect 7
