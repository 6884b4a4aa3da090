#!/bin/sh
# The self-test of a GPU: its document, what -v prints while it runs, the kernels that ran, and how it ends if the driver hangs, crashes or fails in
# the middle: with the operation, case and shape in the message. Ten processor seconds: the shim executes one self-test in full. timeout: 300
. "$TEST_DIR/common.inc"
ending=$BUILD/fake/ending.so
[ -e "$ending" ] || skip "the library of tests/fake/ending.c is not built"
selftest() { # STATUS VARIABLE=VALUE... -- OPTION...: its document in selftest.json, its messages in err.txt
    want=$1 variables=
    shift
    while [ "$1" != -- ]; do
        variables="$variables $1"
        shift
    done
    shift
    status=0
    # shellcheck disable=SC2086 # words
    on_gpu $variables "$REPRO" selftest --json -v "$@" >selftest.json 2>err.txt || status=$?
    [ "$status" = "$want" ] || { cat selftest.json err.txt >&2; fail "$variables $*: status $status, expected $want"; }
    no_worker_left
}
holds() { # JQ EXPRESSION
    jq -e "$1" selftest.json >answer.txt || { cat selftest.json >&2; fail "not so: $1"; }
}
reported() { # every operation of the document was reported when it was done
    [ "$(grep -c '^cuda .*: [0-9]* cases, [0-9]* failed$' err.txt)" = "$(jq '[.operations[] | select(.isa == "cuda")] | length' selftest.json)" ] ||
        { cat err.txt >&2; fail "other operations in the document than on stderr"; }
}
# Ends in a case that message and document name alike; the message goes to selftest.out without it. Its operation has a
# row only if the worker could still report cases that differ.
stopped() {
    holds '.stopped | .case > 0 and (.op | length > 2) and (.shape | length > 2)'
    holds '.operations | length > 1'
    reported
    place=$(jq -r '.stopped | "case \(.case) (\(.shape))"' selftest.json) op=$(jq -r .stopped.op selftest.json)
    grep -F "$place" err.txt | grep -qwF "$op" || { cat err.txt >&2; fail "the message does not have '$op' and '$place'"; }
    holds "[.operations[] | select(.failed == 0) | .op] | index(\"$op\") == null"
    words | awk -v place="$place" '{i = index($0, place); print substr($0, 1, i - 1) "PLACE" substr($0, i + length(place))}' | sed "s/$op/OP/"
}

# A library that needs three seconds when the process ends gets them, and what watches the process sees its end. Every tile of the GEMM is used.
selftest 0 RP_CUDA_GEMM=rotate LD_PRELOAD="$ending" PLAY_ENDING="$PWD/ending.txt" SHIM_END_MS=3000 -- --backend cuda
holds '(.operations | length > 40 and all(.failed == 0 and .cases > 0)) and (has("stopped") or has("note") | not)'
holds '.kernels | .fill > 0 and has("gemm_128x128_nt") and (has("gemm_128x128w_nt") | not) and all(. >= 0)'
holds '.kernels | with_entries(select(.key | startswith("gemm_"))) | length > 12 and all(. > 0)'
reported
says_in "kernels: $(jq -r '.kernels | "\(map(select(. > 0)) | length) of \(length)"' selftest.json) ran" err.txt
[ "$(cat ending.txt)" = "repro-gpu ended with status 0" ] || fail "the worker did not end in order: $(cat ending.txt)"
# Mixed precision, with all arithmetics of this GPU: tests/cuda/test_cuda_stored.c compares the same without LONG=1.
if [ "${LONG:-0}" != 0 ]; then
    selftest 0 -- --backend cuda --tensor-core
    holds '[.tested[] | .numerics] == ["repro-fp16-tc16/0", "repro-bf16-tc16/0"] and all(.operations[]; .failed == 0)'
    holds '.kernels | .["gemm16_f16_64x64_nt"] > 0 and .["attention16_keys_bf16_128"] > 0 and .["conv16_wgrad_f16_64x64"] > 0'
    reported
fi
# One that never ends is killed: the result stands, with a note. Nothing is executed here: operations differ, and all of them are compared.
export SHIM_IDLE="$PWD/idle.txt"
selftest 5 SHIM_END_MS=100000 RP_GPU_TIMEOUT_MS=6000 -- --backend cuda
holds '.note | test("within 10 s")' # the end gets no less
holds '(.operations | length > 40 and any(.failed > 0)) and (has("stopped") | not)'
holds '.operations | all((.failed > 0) == has("difference")) and all(.failed == 0 or (.op as $op | .difference | contains($op)))'
words err.txt '^repro: note: '

# Speed of tensor cores, after their sums are right: a row for each product, of the kernels of bf16.
on_gpu SHIM_IDLE_FROM=init_normal RP_CUDA_GEMM=mma RP_GPU_TOOL=env "$REPRO" selftest --speed --tensor-core --backend cuda --json >selftest.json
holds '.speed | length > 100 and all(.flops > 0 and .seconds > 0)'
holds '[.speed[] | select(.name == "large") | .shape] == ["8192x8192x8192", "8192x8192x8192"]'
holds '[.speed[] | select(.what == "forward NT" and .shape == "4096x768x768")] | .[0].bytes == 2 * 768 * (4096 + 4096 + 768)'
for kernel in gemm16_bf16_128x128_nt gemm16_bf16_128x128_tn attention16_keys_bf16_64 attention16_forward_bf16_128 conv16_wgrad_bf16_; do
    grep -q "^$kernel" idle.txt || fail "$kernel was not measured"
done
if grep -qE '^(adam|gemm_|gemm16_f16)' idle.txt; then fail "other kernels were measured: $(cat idle.txt)"; fi
exit_of 2 "$REPRO" selftest --speed --tensor-core --backend cpu

selftest 7 -- --backend cuda --tensor-core
says_in "the tensor cores of Shim GPU do not compute as repro-fp16-tc16/0 has it: kernel gemm16 " err.txt
holds '.stopped.op == "opening the device" and .operations == []'
selftest 7 SHIM_HANG=cuStreamSynchronize:200 RP_GPU_TIMEOUT_MS=6000 -- --backend cuda
stopped
selftest 70 SHIM_CRASH=cuStreamSynchronize:200 -- --backend cuda
stopped
selftest 3 SHIM_FAIL=cuStreamSynchronize:200:700 -- --backend cuda
stopped
holds '.kernels | .fill >= 0'
# Cases that differed before the device failed in the same operation are in its row.
holds '.stopped as $s | .operations[-1] | $s.case > 1 and .op == $s.op and .cases == $s.case - 1 and .failed > 0 and (.difference | contains($s.op))'
# Without --backend a GPU that reports itself unusable is not tested; a worker that crashes or hangs is an error.
selftest 0 SHIM_DEVICES=0 --
holds '(.cuda | length > 10) and (has("stopped") | not) and (.operations | length > 40)'
if [ "${LONG:-0}" != 0 ]; then
    selftest 70 SHIM_CRASH=cuInit --
    holds '.stopped == {"op": "opening the device", "case": 0, "shape": ""} and (has("cuda") | not)'
    says_in "opening the device: the GPU worker crashed" err.txt
fi
selftest 70 SHIM_CRASH=cuInit -- --speed
holds '.backend == "cuda" and .stopped.case == 0'
# Opening gets a minute at least.
began=$(date +%s)
selftest 7 SHIM_HANG=cuModuleLoadData:2 RP_GPU_TIMEOUT_MS=1000 -- --backend cuda
holds '.stopped.case == 0 and (has("cuda") | not) and ([.operations[] | select(.isa == "cuda")] == [])'
[ $(($(date +%s) - began)) -ge 60 ] || fail "a minute has not passed"
words
selftest 7 SHIM_HANG=cuStreamSynchronize:200 RP_GPU_TIMEOUT_MS=6000 --
holds '.stopped.case > 0'

selftest 7 SHIM_HANG=cuStreamSynchronize:60 RP_GPU_TIMEOUT_MS=10000 -- --backend cuda --speed
holds '.stopped.case == (.speed | length) + 1 and .stopped.case > 1'
says_in " in $(jq -r '.stopped | "\(.op), case \(.case) (\(.shape))"' selftest.json)" err.txt
[ "$(grep -c ' ms$' err.txt)" = "$(jq '.speed | length' selftest.json)" ] || { cat err.txt >&2; fail "other rows in the document than on stderr"; }

# The kernels of an older GPU.
[ -e "$BUILD/shim/700/libcuda.so.1" ] || exit 0
"$REPRO" version --json | jq -e '.gpu_worker.device_code | any(.arch == "sm_70" or .arch == "compute_70")' >answer.txt || exit 0 # ARCHS was given
shim=$BUILD/shim/700
selftest 3 SHIM_CAPABILITY=75 SHIM_FAIL=cuStreamSynchronize:5:700 -- --backend cuda
holds '.kernels | has("gemm_128x128w_nt") and (has("gemm_128x128_nt") | not)'
