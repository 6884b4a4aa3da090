#!/bin/sh
# Real logs give the medians that DLPerf's own script took of them, to the last digit that it prints.
. "$TOP/tests/common.inc"
need jq
exit_of 0 "$REPRO" import dlperf "$TOP"/tests/vectors/dlperf/*/*.log --json
jq -r '.rows[] | "\(.nodes) \(.gpus_per_node) \(.batch_per_device) \(.throughput.value * 100 | round / 100) \(.links | length)"' out.txt >medians.txt
printf '%s\n' '1 1 128 321.74 5' '1 8 128 2458.22 5' '4 8 128 9415.85 5' | diff - medians.txt || fail "other medians"
# They meet the published table under its own name of the model
"$REPRO" import dlperf "$TOP"/tests/vectors/dlperf/1n1g/*.log -o ours.json >made.txt
exit_of 0 "$REPRO" compare ours.json 'published:dlperf_v100#model=resnet50-v1.5,precision=fp32,batch=128,gpus=1,framework=TensorFlow 2.x' --json
jq -e '.pairs[0].ratio.value - 1 | fabs < 1e-3' out.txt >/dev/null || { jq '.verdict, .pairs' out.txt >&2; fail "not the published figure of these logs"; }
exit_of 0 "$REPRO" import dlperf "$TOP"/tests/vectors/dlperf/*/*.log --json
# What the logs print is the rate of all steps since the last line: the same, but for rounding
jq -e '[.provenance.figures[] | .printed.value / .throughput.value - 1 | fabs] | max < 0.002' out.txt >/dev/null || fail "far from the printed rates"
