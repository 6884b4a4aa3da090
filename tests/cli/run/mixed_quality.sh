#!/bin/sh
# What mixed precision costs in 300 steps: the mean loss of the last 50 is within 0.005 of strict fp32's. tests/golden/mixed_quality.txt has the
# means that were measured; RP_GOLDEN_UPDATE=1 writes it. Fp16 has the loss scale that PyTorch begins with, so that no step is skipped. BERT has
# a fifth of its recipe's learning rate. At the recipe's own rate the encoder's gradients vanish while the heads learn, the next large one moves
# every weight of the encoder by three times the rate, and the loss jumps for some steps. When that happens depends on the last bits: in fp16
# after step 296, where the gradient of the same weights is the same in fp32.
# timeout: 3600
# exhaustive
. "$TEST_DIR/common.inc"
need jq
[ "${LONG:-0}" != 0 ] || skip "takes a quarter of an hour: LONG=1"
golden=$TOP/tests/golden/mixed_quality.txt
mean() { # RECIPE OPTION...: of the losses of the last 50 of 300 steps
    "$REPRO" run "$@" --steps 300 --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false -f -o run.zst \
        >out.txt 2>err.txt || { cat err.txt >&2; fail "no bundle of $1"; }
    "$REPRO" inspect run.zst steps/rank0.jsonl | jq -r 'select(.step >= 250) | .loss' >losses.txt
    [ "$(wc -l <losses.txt)" = 50 ] || fail "$(wc -l <losses.txt) losses"
    while read -r loss; do printf '%.9f\n' "$loss"; done <losses.txt | awk -v name="$1" '{ sum += $1 } END { printf "%s %.6f\n", name, sum / 50 }'
}
{
    mean bert_tiny_fp32 --set optimizer.learning_rate=2e-4
    mean bert_tiny_fp16 --set optimizer.learning_rate=2e-4 --set train.loss_scale_initial=65536 --set train.loss_scale_window=2000
    mean gpt_tiny_fp32
    mean gpt_tiny_bf16
} >means.txt
[ -z "${RP_GOLDEN_UPDATE:-}" ] || cp means.txt "$golden"
cat means.txt
awk '{ mean[$1] = $2 }
    function far(a, b) { return mean[a] - mean[b] > 0.005 || mean[b] - mean[a] > 0.005 }
    END { exit far("bert_tiny_fp16", "bert_tiny_fp32") || far("gpt_tiny_bf16", "gpt_tiny_fp32") }' means.txt || fail "$(cat means.txt)"
cmp means.txt "$golden" || fail "other means than recorded"
