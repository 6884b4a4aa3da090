#!/bin/sh
# Bundles of ResNet beside published results: images a second and speed-up in the layout of DLPerf, and what else differs than speed.
. "$TEST_DIR/common.inc"
need jq
train() { # FILE OPTION...
    file=$1
    shift
    "$REPRO" run "$@" --threads 1 --steps 1 --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false -o "$file" >train.txt 2>err.txt ||
        { cat err.txt >&2; fail "no bundle $file"; }
}
rate() { # FILE: as tables show it, which is the figure of the bundle to its last digit
    "$REPRO" compare --layout dlperf "$1" --json 2>/dev/null >rate.json
    "$REPRO" inspect "$1" run.json | jq --slurpfile layout rate.json -er '.results.throughput.value as $is | [$layout[0].blocks[].rows // [] | .[]][1][3]
        | select((tonumber - $is | fabs) <= 0.005 or (tonumber / $is - 1 | fabs) < 0.001)' || { cat rate.json >&2; fail "not the figure of $1"; }
}
train tiny.zst resnet50_tiny_fp32
train small.zst resnet50_tiny_fp32 --set task.image_size=32 --set optimizer.momentum=0.5
train whole.zst resnet50_dlperf_ngc_pytorch_fp32 --batch-size 1
tiny=$(rate tiny.zst)
DL="published:dlperf_v100#model=resnet50-v1.5,precision=fp32"

has_row() { # CELLS: the first cells of a row of some table, as a JSON list
    jq -e --argjson row "$1" '[.blocks[].rows // [] | .[]] | any(.[:($row | length)] == $row)' out.txt >answer.txt ||
        { jq -c '.blocks[].rows // empty | .[]' out.txt >&2; fail "no row $1"; }
}
exit_of 0 "$REPRO" compare --layout dlperf tiny.zst tiny.zst --json
has_row "[\"1\", \"1\", \"$tiny (first of 2)\"]"
has_row "[\"1\", \"0 (CPU)\", \"8\", \"$tiny\", \"images/s\", \"1.00\"]"
has_row "[\"1\", \"0 (CPU)\", \"8\", \"$tiny\", \"images/s\", \"-\"]"

# the published model beside it, in a table of its own batch size, with the published speed-ups
exit_of 0 "$REPRO" compare --layout dlperf whole.zst "$DL" --json
has_row "[\"1\", \"0 (CPU)\", \"1\", \"$(rate whole.zst)\", \"images/s\", \"1.00\"]"
has_row '["4", "8", "128", "10917.09", "images/s", "29.72"]'
jq -e '[.blocks[].heading // empty | select(test("per device"))] | length == 2 and all(startswith("resnet50-v1.5, fp32, "))' out.txt >answer.txt ||
    fail "not one model at two batch sizes"

# another momentum is a reservation, other pixels are another model
momentum() { # STATE OURS THEIRS
    jq -e --arg state "$1" --arg a "$2" --arg b "$3" '.pairs[0].confounders | any(.key == "optimizer" and .state == $state and .a == $a and .b == $b)' \
        out.txt >answer.txt || { jq .pairs out.txt >&2; fail "the momentum is not named"; }
}
exit_of 0 "$REPRO" compare whole.zst "$DL,framework=OneFlow,gpus=1" --json
momentum differs "sgd, momentum 0.125" "sgd, momentum 0.875"
exit_of 0 "$REPRO" compare whole.zst "$DL,framework=NGC PyTorch,gpus=1" --json
jq -e '.pairs[0].confounders | any(.key == "optimizer") | not' out.txt >answer.txt || fail "the same momentum is named"
exit_of 5 "$REPRO" compare tiny.zst small.zst --json
momentum differs "sgd, momentum 0.9 (Nesterov)" "sgd, momentum 0.5 (Nesterov)"
jq -e '.pairs[0].confounders[0] | .key == "model" and (.a | endswith("64x64 pixels")) and (.b | endswith("32x32 pixels"))' out.txt >answer.txt ||
    { jq .pairs out.txt >&2; fail "other pixels are the same model"; }
