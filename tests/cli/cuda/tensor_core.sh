#!/bin/sh
# In mixed precision a run on a GPU has the losses, norms and state roots of one on the CPU: all three models, both precisions, tensor cores of
# two families, steps that overflow. The recipe has the family, the bundle verifies and is replayed on the CPU. timeout: 400
# shellcheck disable=SC2086 # several words
. "$TEST_DIR/common.inc"
few_words
narrow="--set model.hidden_size=32 --set model.intermediate_size=64 --set model.num_attention_heads=2 --set model.num_hidden_layers=1"
both() { # NAME FAMILY RECIPE OPTION...
    name=$1 family=$2 recipe=$3
    shift 3
    "$REPRO" run "$recipe" --backend cpu $short --set "train.tensor_core=$family" "$@" -o "$name-cpu.repro.tar.zst" >out.txt 2>err.txt ||
        fail "CPU: $(tail -n 1 err.txt)"
    on_gpu SHIM_DEFER=2 SHIM_ORDER=2 SHIM_LATE=1 "$REPRO" run "$recipe" $short "$@" -o "$name-gpu.repro.tar.zst" >out.txt 2>err.txt ||
        fail "GPU: $(tail -n 1 err.txt)"
    says_in "device: cuda" err.txt
    steps_of "$name-cpu.repro.tar.zst" >cpu.jsonl
    steps_of "$name-gpu.repro.tar.zst" >gpu.jsonl
    cmp cpu.jsonl gpu.jsonl || fail "$name: GPU and CPU differ"
    [ "$(wc -l <gpu.jsonl)" -gt 1 ] || fail "$name: no steps"
    [ "$("$REPRO" inspect "$name-gpu.repro.tar.zst" facts.json | jq -r '.recipe["train.tensor_core"].value')" = "$family" ] ||
        fail "$name: the recipe does not name the tensor cores"
    "$REPRO" inspect "$name-gpu.repro.tar.zst" facts.json >facts.json
    jq -e '.rank[0].device.tensor_core | .outcome == "proved" and (.sums_sha256 | length == 64) and .edges == 0 and .instruction == "mma"' facts.json >answer.txt ||
        fail "$name: the test of its tensor cores is not in the bundle"
}
one="--set measure.timed_steps=2 --set train.accumulation_steps=1"
small="--batch-size 2 --set model.width=8 --set task.image_size=32"
both bert tc16 bert_tiny_fp16 $bert_few $one $narrow --batch-size 1 --set train.loss_scale_initial=1024
both resnet tc16 resnet50_tiny_bf16 $one $small
both gpt tc16 gpt_tiny_bf16 $gpt_few $one $narrow --batch-size 1 --set task.seq_length=33
both overflow tc16 resnet50_tiny_fp16 $one $small --set train.loss_scale_initial=1099511627776
"$REPRO" inspect overflow-gpu.repro.tar.zst run.json | jq -e '.results.loss_scaling.skipped > 0' >answer.txt || fail "nothing overflowed"
"$REPRO" verify bert-gpu.repro.tar.zst --replay 1 --data few/bert >verify.txt 2>&1 || { cat verify.txt >&2; fail "the bundle of the GPU does not verify"; }
says_in "bit-equal" verify.txt
tested="tensor cores tested before the run: the sums of repro-fp16-tc16/0"
says_in "; $tested" verify.txt
"$REPRO" report bert-gpu.repro.tar.zst --any-key -o report.md >out.txt 2>err.txt || fail "no report"
says_in "Start-up test: $tested" report.md
"$REPRO" report bert-gpu.repro.tar.zst --any-key -o page.html >out.txt 2>err.txt || fail "no page"
says_in "; $tested)" page.html
# Another family is passed over, and a named one is refused.
on_gpu "$REPRO" run bert_tiny_fp16 $bert_few $short $one $narrow --batch-size 1 --set train.tensor_core=tc8 -o other.repro.tar.zst >out.txt 2>err.txt || fail "no CPU in its place"
says_in "device: cpu" err.txt
exit_of 7 on_gpu "$REPRO" run bert_tiny_fp16 $bert_few $short $one $narrow --batch-size 1 --set train.tensor_core=tc8 --backend cuda
says "its tensor cores are of another kind; set train.tensor_core to auto"
"$REPRO" version --json | jq -e '.gpu_worker.device_code | any(.arch == "sm_70" or .arch == "compute_70")' >answer.txt || exit 0 # ARCHS was given
shim=$BUILD/shim/700
export SHIM_CAPABILITY=70
both volta tc4 resnet50_tiny_fp16 $one $small --set train.loss_scale_initial=1024
exit_of 7 on_gpu "$REPRO" run bert_tiny_bf16 $bert_few $short $one $narrow --batch-size 1 --backend cuda
says "its tensor cores have no bf16; set train.precision to fp16"
