#!/bin/sh
# The loss scale of a run whose gradients overflow follows a table computed by hand, also through --save and --init; replay finds the same.
. "$TEST_DIR/common.inc"
need jq
micros=1
# A model of one layer of width 16: an overflow is computed by plain loops.
tiny() { # OUT STEPS OPTION...
    out=$1 steps=$2
    shift 2
    exit_of 0 "$REPRO" run bert_tiny_fp32 -o "$out" --threads 1 --batch-size 1 --set train.precision=fp16 --set train.accumulation_steps="$micros" \
        --set train.loss_scale_window=3 --set model.num_hidden_layers=1 --set model.hidden_size=16 --set model.num_attention_heads=2 \
        --set model.intermediate_size=16 --set schedule.warmup_steps=50 --set evidence.state_root_every=2 --set measure.ceilings=false \
        --set measure.warmup_steps=2 --set measure.repeats=1 --set measure.timed_steps=$((steps - 2)) "$@"
}
scales() { # BUNDLE: "40! 39! 38" as exponents of two, ! where the gradient overflowed
    "$REPRO" inspect "$1" steps/rank0.jsonl |
        jq -r 'select(.step >= 0) | (.loss_scale | sub("0x1p[+]"; "")) + if .overflow == 1 then "!" else "" end' | tr '\n' ' ' | sed 's/ $//'
}
expect() { # BUNDLE TABLE
    [ "$(scales "$1")" = "$2" ] || fail "$1: $(scales "$1"); expected $2"
}
bits() { # BUNDLE...: what the steps computed, without their numbers
    for bundle; do
        "$REPRO" inspect "$bundle" steps/rank0.jsonl |
            jq -c 'select(.step >= 0) | [.loss, .grad_norm, .loss_scale, .overflow, .learning_rate, .state_root]'
    done
}

# No scale is small enough yet: each step halves it; with hysteresis 2 from the second overflow on.
tiny one.zst 12 --set train.loss_scale_initial=1099511627776
expect one.zst "40! 39! 38! 37! 36! 35! 34! 33! 32! 31! 30! 29!"
says_in 'in fp16, tc16, loss scale 1099511627776 to 536870912, 12 steps skipped (10 of 10 timed ones)' out.txt
tiny two.zst 12 --set train.loss_scale_initial=1099511627776 --set train.loss_scale_hysteresis=2
expect two.zst "40! 40! 39! 38! 37! 36! 35! 34! 33! 32! 31! 30!"
for bundle in one.zst two.zst; do
    [ "$("$REPRO" inspect "$bundle" run.json | jq -c '.results | .loss_scaling.skipped, .grad_norm_first, .state_root_first == .state_root_last')" = \
        "$(printf '12\nnull\ntrue')" ] || fail "$bundle: a step changed a weight, or has a norm"
done

# Three steps without an overflow double it, and the count begins again after each overflow.
tiny whole.zst 24
expect whole.zst "16 16 16 17 17! 16 16 16 17! 16 16 16 17 17! 16 16 16 17 17 17! 16 16 16 17!"
tiny patient.zst 12 --set train.loss_scale_hysteresis=2
expect patient.zst "16 16 16 17 17! 17! 16 16 16 17! 17 17!"

# A run that is continued is the run that never stopped; its file has the count of good steps, and of those that were skipped.
tiny first.zst 10 --save state.safetensors
expect first.zst "16 16 16 17 17! 16 16 16 17! 16"
tiny second.zst 14 --init state.safetensors
says_in 'after 10 steps; the loss scale goes on with 65536' err.txt
expect second.zst "16 16 17 17! 16 16 16 17 17 17! 16 16 16 17!"
bits first.zst second.zst >parts.txt
bits whole.zst >whole.txt
cmp parts.txt whole.txt || fail "the continued run has other bits"
"$REPRO" inspect second.zst facts.json | jq -e '.init.loss_scale | [.scale.value, .good, .bad, .at_minimum, .skipped] == [65536, 1, 1, 0, 2]' >answer.txt ||
    fail "$("$REPRO" inspect second.zst facts.json | jq -c .init)"
[ "$("$REPRO" inspect first.zst facts.json | jq -c .init)" = null ] || fail "a run from a seed has a state of the scale"

# Two ranks skip the same steps, in which they exchange no weights.
micros=2
tiny one_rank.zst 10
tiny two_ranks.zst 10 --ranks 2
[ "$(scales one_rank.zst)" = "$(scales two_ranks.zst)" ] || fail "ranks: $(scales two_ranks.zst); one rank $(scales one_rank.zst)"
scales two_ranks.zst | grep -q '!' || fail "no step overflowed: $(scales two_ranks.zst)"

# Everything is found again by a replay, and what verify shows names the arithmetic.
for bundle in one.zst two.zst whole.zst two_ranks.zst; do
    exit_of 0 "$REPRO" verify "$bundle" --replay 24
    says_in 'bit-equal' out.txt
done
exit_of 0 "$REPRO" verify whole.zst --replay 10:14 --init state.safetensors
says_in 'bit-equal: 14 steps from step 10 on' out.txt
exit_of 0 "$REPRO" verify second.zst --replay 14 --init state.safetensors --json
jq -e '.replay.equal and .replay.steps == 14 and (.precision | startswith("fp16, tc16, loss scale 65536 to 131072, 3 steps skipped"))' out.txt >answer.txt ||
    fail "$(jq -c '.replay, .precision' out.txt)"

