#!/bin/sh
# Samples of the GPUs that a command can use, which tests/fake/nvml.c plays: those that CUDA shows, from its start to
# its end, with the figures that runs have; without a GPU, or without an answer, there is the reason.
# shellcheck disable=SC2086 # several words in $table
. "$TEST_DIR/common.inc"
"$REPRO" version --json | jq -e .gpu_worker >/dev/null || skip "this build has no GPU worker"
fake=$BUILD/fake/570 shim=$BUILD/shim/800
[ -e "$fake/libnvidia-ml.so.1" ] || skip "the library of tests/fake is not built"
cat "$TOP/tests/fake/h100_8.txt" - >machine.txt <<EOF
gpu* nvmlDeviceGetCurrentClocks* 4
EOF
export RP_FAKE_NVML="$PWD/machine.txt"
on() { # FOLDERS [VARIABLE=VALUE...] COMMAND...: with these libraries
    folders=$1
    shift
    exit_of 0 env LD_LIBRARY_PATH="$folders" "$@"
}
says_of() { # BUNDLE MEMBER JQ
    "$REPRO" inspect "$1" "$2" >member.json
    jq -e "$3" member.json >answer.txt ||
        { jq -c '[.device, .no_telemetry, .telemetry]' member.json >&2; fail "$1: not so: $3"; }
}
# all eight, without CUDA; the command is as long as 40 samples of each, more than a socket holds
on "$fake" "$REPRO" exec --log csv $table -o all.repro.tar.zst -- sh -c './train.sh; sleep 4'
says_of all.repro.tar.zst facts.json '.no_telemetry == null and (.device | length == 8 and
    .[0] == {no_telemetry: null, pci_address: "0000:19:00.0", process: 0})'
says_of all.repro.tar.zst run.json '(.device | length == 8 and all(.[]; .telemetry.timed >= 22)) and
    (.telemetry | .ranks == 8 and .power_w.mean > 118 and
    .power_w.mean < 118.1 and .clock_sm_hz.median == 1980000000 and any(.throttle[]; .reason == "sw_power_cap" and
        .share == 1)) and
    (.wall_s as $s | .device[0].telemetry | .energy_j / (.power_w.mean * $s) | . - 1 | fabs < 1e-9) and
    ((.telemetry.energy_j / ([.device[].telemetry.energy_j] | add)) - 1 | fabs < 1e-9)'
"$REPRO" inspect all.repro.tar.zst telemetry/device7.jsonl |
    jq -s -e --argjson p "$("$REPRO" inspect all.repro.tar.zst facts.json | jq .process[0])" \
    'all(.[]; .ns >= $p.start_ns and .ns <= $p.end_ns) and (map(.n) == [range(length)])' >answer.txt ||
        fail "samples from outside the command"
exit_of 0 "$REPRO" verify all.repro.tar.zst
says_in "device samples of 8 GPUs; throttled: device 0: sw_power_cap in 100 %" out.txt
exit_of 0 "$REPRO" report all.repro.tar.zst --format md
says_in "| power | 118.0 | 118.0 | 118.0 | 118.0 | W |" out.txt
says_in "| 7 | 0 |" out.txt
exit_of 0 "$REPRO" report all.repro.tar.zst --format html
says_in "Drawn is device 0; the tables are of all." out.txt
"$REPRO" inspect all.repro.tar.zst telemetry/device0.jsonl | head -n 1 >line.jsonl
exit_of 0 "$REPRO" schema telemetry line.jsonl
# what CUDA shows; what the command hides; a driver that never answers; no library
if [ -e "$shim/libcuda.so.1" ]; then
    on "$shim:$fake" SHIM_DEVICES=1 "$REPRO" exec -q -o one.repro.tar.zst -- sleep 1
    says_of one.repro.tar.zst facts.json '[.device[].pci_address] == ["0000:19:00.0"]'
    exit_of 0 "$REPRO" verify one.repro.tar.zst
fi
on "$fake" CUDA_VISIBLE_DEVICES= "$REPRO" exec -q -o hidden.repro.tar.zst -- true
says_of hidden.repro.tar.zst facts.json '.device == [] and .no_telemetry == "no GPU is visible to the command"'
exit_of 0 "$REPRO" verify hidden.repro.tar.zst
sed 's/^gpu\* nvmlDeviceGetPowerUsage.*/gpu* nvmlDeviceGetPowerUsage !hang/' machine.txt >hangs.txt
grep -q '!hang' hangs.txt || echo 'gpu* nvmlDeviceGetPowerUsage !hang' >>hangs.txt
on "$fake" RP_GPU_TIMEOUT_MS=1000 RP_FAKE_NVML="$PWD/hangs.txt" "$REPRO" exec -q -o hangs.repro.tar.zst -- sleep 1.2
exit_of 0 "$REPRO" verify hangs.repro.tar.zst
on "$PWD" "$REPRO" exec -q -o none.repro.tar.zst -- true
says_of none.repro.tar.zst facts.json '.device == [] and .no_telemetry == "no GPU was found"'
exit_of 0 "$REPRO" verify --all none.repro.tar.zst
says_in "none: no GPU was found" out.txt
"$REPRO" inspect none.repro.tar.zst | grep -q telemetry/ && fail "a member without a GPU"
exit 0
