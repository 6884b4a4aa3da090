#!/bin/sh
# Whole captures of machines that tests/fake plays: what is found reaches the document with serial numbers hidden, and a driver that fails,
# hangs, crashes, leaves or prints in the middle costs the GPU's values and nothing else.
. "$TOP/tests/common.inc"
"$REPRO" version --json | jq -e .gpu_worker >/dev/null || skip "this build has no GPU worker"
[ -e "$BUILD/fake/570/libnvidia-ml.so.1" ] || skip "the library of tests/fake is not built"
machine() { # AGE FILE
    LD_LIBRARY_PATH="$BUILD/fake/$1" RP_FAKE_NVML="$2" RP_GPU_TIMEOUT_MS="${limit:-10000}" "$REPRO" capture --probe gpu,kernel --json \
        >env.json 2>err.txt || fail "capture failed: $(cat err.txt)"
    jq -e '.probes.kernel.release.state == "ok"' env.json >/dev/null || fail "the kernel's values are missing"
}
is() { # FILTER EXPECTED
    got=$(jq -r ".probes.gpu | $1" env.json)
    [ "$got" = "$2" ] || fail "$1: '$got', expected '$2'"
}
fakes=$TOP/tests/fake

machine 440 "$fakes/v100_sxm2_8.txt"
is '.worker.value, .driver_version, .count.value, (.devices | length)' "present
null
8
8"
jq -e '.probes.nvidia.version.value == "440.33.01"' env.json >/dev/null || fail "no version of the driver"
is '[.devices.gpu0.topology[].value] | join(" ")' "NV1 NV1 NV2 NV2 SYS SYS SYS"
is '[.devices.gpu7.topology[].value] | join(" ")' "SYS SYS SYS NV1 NV2 NV1 NV2"
is '.devices.gpu5.processes.value, .devices.gpu5.gsp_firmware.state' "2
absent"
# What the matrix has is not once more in each GPU.
LD_LIBRARY_PATH="$BUILD/fake/440" RP_FAKE_NVML="$fakes/v100_sxm2_8.txt" "$REPRO" capture --probe gpu,topology --json >both.json 2>err.txt ||
    fail "capture failed: $(cat err.txt)"
jq -e '(.probes.topology.matrix | .rows.GPU0.value[:8] == ["X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"] and
    (.cpu_affinity.value | length) == 8) and all(.probes.gpu.devices[]; (has("topology") or has("cpu_affinity")) | not)' both.json >/dev/null ||
    fail "connections are twice or not in the document: $(jq -c .probes.topology.matrix both.json)"
# Serial numbers and UUIDs are hashes, each its own.
is '[.devices[] | .uuid.value, .serial.value | select(test("^sha256:[0-9a-f]{64}$"))] | unique | length' 16
! grep -qE '"(GPU-0000|0324918)' env.json || fail "a serial number is in clear"
jq -e '[.. | objects | has("hide")] | any | not' env.json >/dev/null || fail "a mark of the worker's is left in the document"

machine 570 "$fakes/errors.txt"
is '.worker.value, .count.value' "present
2"
is '[.devices | .. | objects | select(.state == "ok")] | length' 0

limit=700 machine 570 "$fakes/hang.txt"
is '.worker.state, .devices' "error
null"
is '.worker.detail' "$(jq -r .probes.gpu.worker.detail env.json | grep "did not answer 'nvml' within 0.7 s")"

# In the middle of the fourth device.
breaks() { # VALUE: of a line of the file; the worker's own words are printed
    { cat "$fakes/h100_8.txt" && echo "gpu3 nvmlDeviceGetUUID $1"; } >broken.txt
    machine 570 broken.txt
    is '.worker.state, .devices' "error
null"
    jq -r .probes.gpu.worker.detail env.json
}
breaks '!crash' | grep -q 'crashed (signal 11' || fail "a crash is not called one: $(breaks '!crash')"
breaks '!exit' | grep -q . || fail "no word about a worker that left"
breaks '!print' | grep -q . || fail "no word about rubbish"
! grep -q rubbish env.json err.txt || fail "the library's output shows"

# The library of another driver than the kernel's.
machine 440 "$fakes/h100_8.txt"
is '.worker.value, .count.state, .count.detail' "present
error
NVML error 18: the driver's words for 18"
