#!/bin/sh
# A run on the GPU has the losses, norms and state roots of one on the CPU, with accumulation, dropout and both optimizers, graphs or none, in
# whatever order the threads run and however late work of streams is done; its bundle verifies and is replayed on the CPU. timeout: 300
# shellcheck disable=SC2086 # $short is words
. "$TEST_DIR/common.inc"
few_words
[ "${LONG:-0}" != 0 ] || bert_few="$bert_few --set model.hidden_size=64 --set model.intermediate_size=128"
both() { # NAME OPTION...
    name=$1
    shift
    "$REPRO" run bert_tiny_fp32 --backend cpu $short $bert_few "$@" -o "$name-cpu.repro.tar.zst" >out.txt 2>err.txt || fail "CPU: $(tail -n 1 err.txt)"
    on_gpu SHIM_DEFER=2 SHIM_ORDER=2 SHIM_LATE=1 SHIM_RESIDENT=3 "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few "$@" -o "$name-gpu.repro.tar.zst" \
        >out.txt 2>err.txt || fail "GPU: $(tail -n 1 err.txt)"
    steps_of "$name-cpu.repro.tar.zst" >"$name-cpu.jsonl"
    steps_of "$name-gpu.repro.tar.zst" >"$name-gpu.jsonl"
    cmp "$name-cpu.jsonl" "$name-gpu.jsonl" || fail "$name: GPU and CPU differ"
    [ "$(wc -l <"$name-gpu.jsonl")" -gt 1 ] || fail "$name: no steps"
}
both adamw --set measure.timed_steps=2 --batch-size 2
says_in "device: cuda, Shim GPU, device 0, compute capability 9.0" err.txt
both lamb --set measure.timed_steps=2 --set optimizer.name=lamb --set train.accumulation_steps=2 --batch-size 1
[ "${LONG:-0}" = 0 ] || both plain --set measure.timed_steps=1 --set model.hidden_dropout_prob=0 --set model.attention_probs_dropout_prob=0 --batch-size 1 \
    --set optimizer.bias_correction=true
"$REPRO" verify adamw-gpu.repro.tar.zst --replay 2 --data few/bert >verify.txt 2>&1 || { cat verify.txt; fail "the bundle of the GPU does not verify"; }
says_in "bit-equal" verify.txt
"$REPRO" inspect adamw-gpu.repro.tar.zst facts.json | jq -e '.backend == "cuda"' >answer.txt || fail "facts.json names another backend"
# Without graphs, and with the code path of V100 and T4.
on_gpu SHIM_DEFER=1 RP_CUDA_GRAPHS=0 RP_GPU_TOOL=env "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few --set measure.timed_steps=1 --batch-size 2 -o one.repro.tar.zst >out.txt 2>err.txt
head -n 2 adamw-cpu.jsonl >two.jsonl
steps_of one.repro.tar.zst | cmp - two.jsonl || fail "without graphs the bits differ"
"$REPRO" version --json | jq -e '.gpu_worker.device_code | any(.arch == "sm_70" or .arch == "compute_70")' >answer.txt || exit 0 # ARCHS was given
shim=$BUILD/shim/700
on_gpu SHIM_DEFER=1 SHIM_CAPABILITY=75 "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few --set measure.timed_steps=1 --batch-size 2 -o two.repro.tar.zst >out.txt 2>err.txt
steps_of two.repro.tar.zst | cmp - two.jsonl || fail "on an older GPU the bits differ"
