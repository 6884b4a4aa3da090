#!/bin/sh
# What is measured beside a run on the GPU: its clock, its memory, and samples of NVML, which tests/fake/nvml.c plays. A GPU that hangs is
# found although samples go on, and so is a library that is not there. timeout: 300
# shellcheck disable=SC2086 # $short is words
. "$TEST_DIR/common.inc"
fake=$BUILD/fake/570
[ -e "$fake/libnvidia-ml.so.1" ] || skip "the library of tests/fake is not built"
few_words
cat "$TOP/tests/fake/h100_8.txt" - >machine.txt <<EOF
gpu* nvmlDeviceGetCurrentClocks* 12
EOF
run() { # STATUS VARIABLE OPTION...
    want=$1 variable=$2
    shift 2
    exit_of "$want" env LD_LIBRARY_PATH="$shim:$fake" RP_FAKE_NVML="$PWD/machine.txt" SHIM_NAME="NVIDIA H100 80GB HBM3" "$variable" "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few \
        --set measure.timed_steps=2 --batch-size 2 --set train.accumulation_steps=1 "$@" --force -o run.repro.tar.zst
    documents run.repro.tar.zst >both.json
    verified run.repro.tar.zst
}
says_of_run() { # JQ EXPRESSION
    jq -e "$1" both.json >answer.txt || { jq '.facts.rank, .run.telemetry, .run.results' both.json >&2; fail "not so: $1"; }
}
run 0 SHIM_DEVICES=1
"$REPRO" inspect run.repro.tar.zst steps/rank0.jsonl | jq -s -e 'map(select(.step >= 0)) | length == 2 and
    all(.device_ns > 0.8 * (.end_ns - .start_ns) and .device_ns <= 1.001 * (.end_ns - .start_ns) + 2000)' >answer.txt || fail "the device's time is no part of the steps'"
says_of_run '.run.results.device_share > 0.8 and .run.results.device_share < 1.001'
says_of_run '.facts | .plan.total_bytes as $planned | .rank[0].device_bytes | .reserved == $planned and .used >= .reserved'
says_of_run '.run.telemetry | .timed >= 10 and .every == 1 and .clock_sm_hz.median == 1980000000 and .power_w.min == 118.042 and any(.throttle[]; .reason == "sw_power_cap" and .share == 1)'
says_in "throttled: " verify.txt
says_in "sw_power_cap in 100 %" verify.txt
"$REPRO" report run.repro.tar.zst --format md >report.md
says_in "| power | 118.0 | 118.0 | 118.0 | 118.0 | W |" report.md
# Samples are no sign of life.
run 7 SHIM_HANG=cuGraphLaunch:2 --set run.hang_seconds=2
words
says_of_run '.facts.status == "failed" and .run.telemetry.count >= 15'
# A driver that hangs in NVML delays nothing; no library, no samples, and the reason.
cp "$TOP/tests/fake/hang.txt" machine.txt
run 0 SHIM_DEVICES=1
says_of_run '.facts.status == "complete"'
jq -r '.facts.rank[0].no_telemetry' both.json
fake=$PWD # nothing is there
run 0 SHIM_DEVICES=1
says_of_run '.facts.rank[0].no_telemetry | test("libnvidia-ml.so.1")'
says_in "none: libnvidia-ml.so.1" verify.txt
