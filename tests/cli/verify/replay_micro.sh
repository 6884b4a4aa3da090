#!/bin/sh
# A step that is too long to train again is checked in parts: forward passes of some of its micro-batches, chosen by the verifier, of runs of
# several ranks and stages, of a model with statistics and in mixed precision; the level stays what it was.
. "$TEST_DIR/common.inc"
train() { # BUNDLE RECIPE STEPS OPTION...
    bundle=$1 recipe=$2 steps=$3
    shift 3
    exit_of 0 "$REPRO" run "$recipe" --threads 1 --steps "$steps" --set measure.warmup_steps=0 --set measure.repeats=1 \
        --set measure.ceilings=false -f -o "$bundle" "$@"
}
micro() { # STATUS ARGUMENT...: the numbers of a draw differ from call to call
    status=$1
    shift
    check "$status" replay "$@" | sed 's/chosen here ([0-9, and]*)/chosen here (WHICH)/'
}
train bert.zst bert_tiny_fp32 2 --layout 2x1x1 --set train.accumulation_steps=3 --set parallel.data=2 --set train.batch_size=4 \
    --set train.global_batch_size=0
micro 0 bert.zst --replay-micro 2
jq -e '(.replay.micro_batches.numbers | length == 2 and .[0] < .[1]) and .replay.micro_batches.of == 6 and .replay.steps == 0
    and (.levels.computed | .reached == "no" and (.text | contains("2 of 6 forward passes of step 0")))' out.txt >/dev/null ||
    { cat out.txt >&2; fail "another document"; }
micro 0 bert.zst --replay-micro 99 --isa scalar --threads 2
jq -e '.replay.micro_batches.numbers == [0, 1, 2, 3, 4, 5]' out.txt >/dev/null || fail "not all of them"
grep -q 'replay: 6 of 6 micro-batches of step 0, .* s here$' err.txt || fail "no estimate: $(cat err.txt)"
says_in 'replay  micro-batch 6/6' err.txt
for rank in 0 1; do
    exit_of 0 "$REPRO" inspect bert.zst "steps/rank$rank.jsonl"
    jq -se '[.[] | select(.step >= 0) | .micro_losses | split(" ") | length] == [3, 3]' out.txt >/dev/null || fail "rank $rank has other losses"
done

# stages and parts of tensors, whose losses only the last ranks know
few_words
# shellcheck disable=SC2086 # words
train gpt.zst gpt_tiny_fp32 2 $gpt_few --layout 1x2x2 --set parallel.tensor=2 --set train.accumulation_steps=4 --save end.safetensors
micro 0 gpt.zst --replay-micro 4 --data few/gpt
# a model with running statistics, in 16 bits; the state after its steps is where another step would begin
train resnet.zst resnet50_tiny_bf16 2 --set train.accumulation_steps=2 --set evidence.state_root_every=1 --save two.safetensors
train resnet.zst resnet50_tiny_bf16 3 --set train.accumulation_steps=2 --set evidence.state_root_every=1
micro 0 resnet.zst --replay-micro 1
micro 0 resnet.zst --replay-micro 2:2 --init two.safetensors
micro 5 resnet.zst --replay-micro 1:2 --init two.safetensors
micro 7 resnet.zst --replay-micro 2:1
micro 7 resnet.zst --replay-micro 1 --replay-limit 1h,1M
make_bundle one.zst
micro 7 one.zst --replay-micro 1

for wrong in 0 -1 1: :1 a 1:0 1:2:3 2x 99999999999999999999; do
    refuse 2 bert.zst "--replay-micro=$wrong"
done
refuse 2 bert.zst --replay-micro 1 --replay 1
refuse 2 bert.zst --replay-micro 1 --state end.safetensors
