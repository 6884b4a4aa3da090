#!/bin/sh
# tests/gpu/check.sh on the days that it has to survive: what it counts, what it leaves, how it ends. The first days
# have the program and the tests' own driver; on the others a script answers in the place of repro, and scripts in that
# of nvidia-smi, PyTorch, compute-sanitizer, ncu and cuda-gdb, and the two calls of a borrowed machine run from a pack.
# Without LONG=1 the driver executes no self-test: tests/cli/cuda/selftest.sh does.
# timeout: 400
. "$TEST_DIR/common.inc"
check=$TOP/tests/gpu/check.sh
day() { # NAME EXIT-STATUS VARIABLE=VALUE... COMMAND...
    name=$1
    shift
    exit_of "$@"
    [ "$(wc -c <out.txt)" -le 12000 ] || fail "$name: $(wc -c <out.txt) characters of output"
}
holds() { # JQ-CONDITION on result.json
    jq -e "$1" gpu-check/result.json >answer.txt 2>&1 && return
    jq 'del(.about.version)' gpu-check/result.json >&2
    fail "$name: not so: $1"
}
parts_are() { # NAME=END...
    [ "$(jq -r '[.about.parts[] | "\(.name)=\(.end)"] | join(" ")' gpu-check/result.json)" = "$*" ] && return
    jq -c .about.parts gpu-check/result.json >&2
    fail "$name: parts are not $*"
}

# --- repro on the tests' own driver ---
count=$(grep -c '^OP(' "$TOP/src/ops/ops.def")
few_words
day shim 0 on_gpu SMALLER="$bert_few --batch-size 1 --set model.hidden_size=32 --set model.intermediate_size=64 --set model.num_attention_heads=2
    --set model.num_hidden_layers=1 --set measure.timed_steps=1" "$check" "$REPRO" ranks
holds '.ranks | map(.transport) == ["1 rank by shared memory", "1 rank by shared memory"]'
holds '.ranks[0].devices == ["Shim GPU", "Shim GPU"]'
holds '.ranks[1].devices | .[0] == "Shim GPU" and .[1] != "Shim GPU"'
holds '.about.failed == 0 and .about.passed == 2 and .about.skipped == 1 and (.about.version.version | length > 0)'
grep -q 'BEGIN PUBLIC KEY' gpu-check/key.pem || fail "no public key is left"
if grep -rqs 'PRIVATE KEY' gpu-check; then fail "a private key is left"; fi
if [ "${LONG:-0}" != 0 ]; then
    day ops 0 on_gpu "$check" "$REPRO" ops
    holds "(.ops | length == 3 and all(.status == 0 and .operations == $count and .wrong == []))"
else # nothing is executed, so that the bits are wrong
    day ops 1 on_gpu SHIM_IDLE="$PWD/idle.txt" AFTER_FAILED_OPS='' "$check" "$REPRO" ops
    holds "(.ops | length == 3 and all(.status == 5 and .operations == $count and (.wrong | length) > 40))"
fi
holds '.kernels.count > 50 and .kernels.ran == .kernels.count and .kernels.never == []'
# A graph never ends: one run is lost, the self-test reaches its end without graphs, and no other run begins. The bits are wrong, as before.
day hang 1 on_gpu SHIM_IDLE="$PWD/idle.txt" SHIM_HANG=cuGraphLaunch:1 HANG_SECONDS=5 "$check" "$REPRO" bits bundle capture
parts_are bits=hang bundle=passed-over capture=done
holds '.probes == [.probes[0]] and .probes[0].status == 5 and .probes[0].stopped == null and .probes[0].operations == '"$count"' and .about.failed == 1'
# A kernel never ends: the message names its operation, case and shape.
day stopped 1 on_gpu SHIM_HANG=cuLaunchKernel:9 HANG_SECONDS=5 "$check" "$REPRO" ops
parts_are ops=hang
holds '.ops == [.ops[0]] and (.ops[0].stopped | (.op | length > 0) and .case > 0 and (.shape | length > 0))'
holds '.ops[0].stopped as $s | .probes[0].stopped == $s and (.about.failures[0] | contains($s.op) and contains($s.shape))'
# A kernel fails: the same, but no other word for it than what the driver says.
day crashed 1 on_gpu SHIM_FAIL=cuLaunchKernel:9:719 "$check" "$REPRO" ops
parts_are ops=crash
holds '.ops[0].stopped.case > 0 and (.about.failures[0] | contains("719") or contains("LAUNCH_FAILED"))'
# The tools, which start the GPU worker. A kernel fails, and with LONG=1 the driver executes nothing, so that the bits are wrong: neither is lost.
cat >compute-sanitizer <<'EOS'
#!/bin/sh
echo "$*" >>"$CALLS"
while [ $# -gt 1 ]; do
    case $1 in --tool) tool=$2 ;; --log-file) exec >"$2" ;; --target-processes | --print-limit) ;; *) exit 2 ;; esac
    shift 2
done
echo "========= COMPUTE-SANITIZER"
case "$SANITIZER $tool" in
slow*memcheck) exec sleep 60 ;;
found*memcheck) echo "========= Invalid __global__ read of size 4 bytes" && exec sleep 60 ;;
none*) echo "========= Device not supported" && exit 1 ;;
esac
"$1" || echo "========= Target application returned an error"
case "$SANITIZER $tool" in
*racecheck) echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
wrong*) echo "========= Invalid __global__ read of size 4 bytes" && echo "========= ERROR SUMMARY: 2 errors" ;;
*) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
EOS
cat >ncu <<'EOS'
#!/bin/sh
case "$*" in
--import*) echo "  rp_gemm_128x128_tn (6, 16, 1)x(256, 1, 1)" ;;
*) echo "$*" >>"$CALLS"
    for program; do :; done
    "$program" && echo report >launches.ncu-rep ;;
esac
EOS
chmod +x compute-sanitizer ncu
export CALLS="$PWD/calls"
ends=3 variable=SHIM_FAIL=cuLaunchKernel:9:719
[ "${LONG:-0}" = 0 ] || ends=5 variable=SHIM_IDLE=$PWD/idle.txt
PATH=$PWD:$PATH SANITIZER=good day tools 1 on_gpu "$variable" "$check" "$REPRO" sanitizer
parts_are sanitizer=done
holds ".sanitizer | map([.tool, .status, .errors]) == [[\"memcheck\", $ends, 0], [\"racecheck\", $ends, 0], [\"synccheck\", $ends, 0]]"
[ $ends = 3 ] || holds ".sanitizer | all(.operations == $count)"
holds ".about.failed == 3 and (.about.failures | all(contains(\"the self-test ends with $ends\")))"
grep -q '/repro-gpu-[0-9a-f]*$' calls || fail "the tools do not start the GPU worker: $(cat calls)"
PATH=$PWD:$PATH day counters 0 on_gpu SHIM_IDLE="$PWD/idle.txt" "$check" "$REPRO" profile
parts_are profile=done
holds '.about.passed == 1 and .about.failed == 0'
[ "$(grep -c ' ms$' gpu-check/profile/speed.err)" -gt 40 ] || fail "the operations were not called under ncu"
shim=$PWD # nothing is there
day driverless 7 on_gpu "$check" "$REPRO" ops

# --- a program that answers at once ---
cat >played <<'EOS'
#!/bin/sh
# DAY: good, wrong (bits and a kernel that never runs), never (only the latter), crash (every run), hang (whole runs),
# stop (an operation), stop-gemm (only with every GEMM kernel in turn), dead (runs hang, then
# opening the device too), gone (runs hang, then there is no device), unknown (runs hang, then the self-test takes long),
# sleep (runs that never end), cut (ended from outside)
watched() { # as repro does it; one signal ends both
    [ -n "${RP_GPU_TOOL:-}" ] || return 0
    set -f
    $RP_GPU_TOOL true &
    tool=$!
    trap 'kill $tool; exit 1' TERM
    wait $tool
}
case "$*" in
*--plan*) ;;
key* | version*) exec "$REAL" "$@" ;;
capture*) echo '{"probes": {"gpu": {"devices": {"gpu0": {"name": {"value": "Played GPU"}, "sm_count": {"value": 132},
    "compute_capability": {"value": "9.0"}}}}}}' ;;
*--speed*) watched && cat "$SPEED" ;;
selftest*)
    watched || { echo "the GPU worker left early" >&2 && exit 70; }
    echo "${RP_CUDA_GEMM:-chosen} ${RP_CUDA_ATTENTION:-chosen} ${RP_CUDA_GRAPHS:-1} $RP_GPU_TIMEOUT_MS" >>"$CALLS"
    case "$*" in *--tensor-core*) echo "mixed precision" >>"$CALLS" ;; esac
    a=1 b=0 c=0 wrong=0 status=0 stopped=
    [ -z "${RP_CUDA_GEMM:-}" ] || a=0 b=2
    [ -z "${RP_CUDA_ATTENTION:-}" ] || a=0 c=3
    case $DAY in
    wrong) c=0 wrong=3 status=5 ;;
    never) c=0 ;;
    dead) [ "${RP_CUDA_GRAPHS:-1}" = 1 ] || status=7 stopped=', "stopped": {"op": "opening the device", "case": 0, "shape": ""}' ;;
    unknown) [ "${RP_CUDA_GRAPHS:-1}" = 1 ] || exec sleep 60 ;;
    stop-gemm) [ "${RP_CUDA_GEMM:-}" != rotate ] || status=7 ;;
    stop) status=7 ;;
    gone) [ "${RP_CUDA_GRAPHS:-1}" = 1 ] || { echo "no CUDA-capable device" >&2 && exit 7; } ;;
    esac
    case $DAY$status in stop*7) sleep 1; stopped=', "stopped": {"op": "gelu_forward", "case": 3, "shape": "2x64"}' ;; esac
    echo "{\"operations\": [{\"op\": \"gemm\", \"cases\": 7, \"failed\": $wrong}, {\"op\": \"add\", \"cases\": 2, \"failed\": 0}],
        \"kernels\": {\"gemm_a\": $a, \"gemm_b\": $b, \"attention_c\": $c}$stopped}"
    exit $status ;;
verify*) ;;
inspect*facts.json) echo '{"plan": {"batch": 32}, "rank": [{"exchange": {"connections": {"tls": 1}}}, {}]}' ;;
inspect*run.json) echo '{"model": {"flops_per_sample": 8e10}, "results": {"throughput": {"value": 480}}, "rank": [{}, {}], "world": {"slowest": 0},
    "telemetry": {"clock_sm_hz": {"median": 1.5e9}, "power_w": {"mean": 600}}}' ;;
inspect*)
    case "$DAY $*" in wrong*lamb-cuda*) loss=0x1p+1 ;; *) loss=0x1p+0 ;; esac
    echo "{\"step\": 0, \"loss\": \"$loss\"}"
    ;;
run*"--backend cuda"*)
    case "$*" in *run.hang_seconds=*) ;; *) echo "a run that may hang for minutes" >&2 && exit 9 ;; esac
    case $DAY in
    crash) printf '%0400d\n' 7 >&2 && exit 3 ;;
    stop-gemm) echo "run ${RP_CUDA_GEMM:-chosen}" >>"$CALLS" ;;
    hang | dead | gone | unknown) sleep 1 && echo "run.hang_seconds" >&2 && exit 7 ;;
    sleep) exec sleep 60 ;;
    cut) kill -TERM "$(cat "$PID_FILE")" && exec sleep 60 ;;
    esac
    for bundle; do case $bundle in
        resnet50_fp32.repro.tar.zst) head -c 17000000 /dev/urandom >"$bundle" ;;
        *.zst) echo bundle >"$bundle" ;;
        esac; done
    echo "480 samples of images/s, and more" ;;
run*) ;;
esac
EOS
cat >python <<'EOS'
#!/bin/sh
case "$PEERS $*" in
absent*) echo "no PyTorch here" >&2; exit 77 ;;
*speed_torch*tensor-core*)
    jq -c '.speed[0] | {what, name, shape, peer: "cublas_bf16", label: "cuBLAS, bf16", strict: false, begin: 1, end: 9e9, seconds: 2.4e-4}' ;;
*speed_torch*) [ "$(jq '.speed | length')" = 4 ] || exit 9
    jq -c '. as [$peer, $name, $i, $result] | $ours[0].speed[$i] | {what, name: ($name // .name), shape, peer: $peer,
        label: $peer, strict: true, begin: 1, end: 9e9} + $result' --slurpfile ours "$SPEED" <<END
["cublas", null, 0, {"seconds": 6e-4}]
["cublas_pedantic", null, 0, {"seconds": 9e-4}]
["cublas", "another", 0, {"seconds": 9}]
["sdpa_math", null, 1, {"seconds": 2e-3}]
["cudnn", null, 2, {"error": "no memory"}]
END
    ;;
*gpu_peers*bf16*) sleep 0.6
    echo '{"who": "pytorch compile bf16", "model": "bert", "forced": "", "attention": "FLASH_ATTENTION", "batch": 32,
        "samples_per_s": 320, "strict": false, "begin": 1, "end": 9e9}' | tr '\n' ' ' ;;
*gpu_peers*) sleep 0.6
    echo '{"who": "pytorch eager", "model": "bert", "forced": "", "attention": "EFFICIENT_ATTENTION, 3xTF32", "batch": 32,
        "tf32": false, "samples_per_s": 240, "tokens_per_s": 30720, "peak_bytes": 5, "strict": false, "begin": 1,
        "end": 9e9}' | tr '\n' ' '
    echo
    echo '{"who": "pytorch compile", "model": "bert", "forced": "", "error": "no compiler"}'
    [ "$PEERS" != failing ] || { echo '{"who": "pyt'; echo "the process died" >&2; exit 3; } ;;
esac
EOS
cat >nvidia-smi <<'EOS'
#!/bin/sh
case "$SMI $*" in
stuck*clocks.sm,power*) exec sleep 60 ;;
*clocks.sm,power.draw,temperature.gpu*) echo "1500, 600.5, 61" ;;
*clocks.max.sm*) echo "Played GPU, 580.1, 1500 MHz, 1980 MHz, 700 W, 31" ;;
*PERFORMANCE*) echo "        SW Power Cap                      : Active" ;;
*) exit 9 ;;
esac
EOS
cat >speed.json <<'EOS'
{"speed": [
    {"what": "forward NT", "name": "qkv", "shape": "4096x2304x768", "seconds": 3e-4, "flops": 14495514624, "bytes": 3e7},
    {"what": "causal attention forward", "name": "12 heads of 64", "shape": "4x1024", "seconds": 1e-3, "flops": 1e9, "bytes": 1e7},
    {"what": "convolution", "name": "3x3/2 to 128", "shape": "32x56x56x128", "seconds": 2e-3, "flops": 1e9, "bytes": 1e7},
    {"what": "copy", "name": "", "shape": "12288x768", "seconds": 1e-3, "flops": 0, "bytes": 1e9}]}
EOS
cat >nvcc <<'EOS'
#!/bin/sh
echo "nvcc $*" >>"$CALLS"
while [ "$1" != -o ]; do shift; done
cat >"$2" <<'END'
#!/bin/sh
echo '{"device": "Played GPU"}'
for k in 16 64; do
    echo '{"format": "fp16", "class": "any", "k": '$k', "instruction": "mma.m16n8k16", "results": 5, "differ": 0}'
done
END
chmod +x "$2"
EOS
cat >cuda-gdb <<'EOS'
#!/bin/bash
echo "gdb ${RP_CUDA_GEMM:-chosen} ${RP_CUDA_ATTENTION:-chosen} ${RP_CUDA_GRAPHS:-1} ${CUDA_LAUNCH_BLOCKING:-0} $*" >>"$CALLS"
trap 'echo "=> 0x7f: BAR.SYNC" && exit 0' INT
sleep 20 &
wait
EOS
cat >timeout <<'EOS'
#!/bin/sh
# A process that is stuck in the driver: the one that waits for it does not end either.
case "$SMI $*" in stuck-run*" run "*hang_seconds*) exec sleep 30 ;; *) exec "$TIMEOUT" "$@" ;; esac
EOS
TIMEOUT=$(command -v timeout)
chmod +x played python nvidia-smi nvcc cuda-gdb timeout
mkdir kept temporary packed
export REAL="$REPRO" SPEED="$PWD/speed.json" PID_FILE="$PWD/pid" PYTHON="$PWD/python" PATH="$PWD:$PATH"
export TIMEOUT TMPDIR="$PWD/temporary" KEEP=kept DAY=good PEERS=good SANITIZER=good SMI=good

# --- the two calls of a borrowed machine, from a pack ---
call() { # NAME EXIT-STATUS ARCHIVES VARIABLE=VALUE... CALL...: OUT is left in ./back, the results in ./gpu-check
    archives=$3
    called=$1
    expected=$2
    shift 3
    rm -rf back gpu-check calls
    mkdir back
    day "$called" "$expected" env OUT="$PWD/back" "$@"
    files=$(cd back && echo *)
    [ "$files" = "$archives" ] || fail "$name: what comes back is '$files', not '$archives'"
    [ "$(find back -type f | wc -l)" -le 8 ] || fail "$name: more than 8 files"
    [ -z "$(find back -size +16777215c)" ] || fail "$name: a file has 16 MiB or more"
    for file in back/*.tar.gz; do tar -xzf "$file"; done
    cp back/result.json gpu-check/
}
cp played packed/repro
"$TOP/env/pack-gpu-check.sh" packed >pack.txt || fail "the pack: $(cat pack.txt)"
mkdir machine
tar -xzf packed/gpu-check.tar.gz -C machine
[ "$(machine/gpu-check/tests/gpu/tools/jq -n 1)" = 1 ] || fail "the jq of the pack does not run"
for program in speed_torch gpu_peers bert_torch gpt_torch resnet50_torch torch_steps; do
    [ -s machine/gpu-check/tests/bench/$program.py ] || fail "the pack has no $program.py"
done
sed -n 's/^#include "\(.*\)"/\1/p' machine/gpu-check/tests/gpu/tensor_* >headers.txt
[ -s headers.txt ] || fail "tensor_probe.cu includes nothing"
while read -r header; do
    [ -s "machine/gpu-check/tests/gpu/$header" ] || [ -s "machine/gpu-check/src/$header" ] ||
        fail "the pack has no $header"
done <headers.txt
call1=machine/gpu-check/tests/gpu/call1.sh call2=machine/gpu-check/tests/gpu/call2.sh

call "call 1" 0 "bits.tar.gz bundle.tar.gz ops.tar.gz peers.tar.gz result.json speed.tar.gz tensor.tar.gz train.tar.gz" "$call1"
parts_are ops=done tensor=done bits=done train=done bundle=done speed=done peers=done
grep -q '^Played GPU, 580.1' out.txt || fail "call 1 does not show the GPU"
grep -q '^throttled: SW Power Cap' out.txt || fail "call 1 does not show why the GPU was throttled"
holds '.about | .failed == 0 and .failures == [] and .out_of_time == false and .gpu_dead == false and .left_behind == 0'
holds '.bits | length == 9 and all(.equal)'
holds '[.train[] | "\(.model) \(.asked)"] == ["bert 32", "gpt 4", "resnet50 128"]'
holds '.train[1].tokens_per_s == 480 * 1024 and .train[2].tokens_per_s == null and .train[0].clock_mhz == 1500'
holds '(.train[0].of_peak - 480 * 8e10 / (132 * 128 * 2 * 1.5e9) | fabs) < 1e-6'
holds '.machine.units == 132 * 128 and .speed.clock.mhz == 1500 and (.speed.rows | length == 4)'
holds '(.speed.rows[0].of_peak - 14495514624 / 3e-4 / (132 * 128 * 2 * 1.5e9) | fabs) < 1e-6'
holds '.speed.rows[3].of_peak == null'
holds '.speed.rows[0].peers | map([.peer, .strict, .clock_mhz]) == [["cublas", true, 1500], ["cublas_pedantic", true, 1500]]'
holds '([.speed.rows[0].peers[].of_peer] | map(. * 1000 | round)) == [2000, 3000] and .speed.rows[2].peers[0].error == "no memory"'
holds '.peers | map([.who, .ours_over_it, .clock_mhz]) == [["pytorch eager", 2, 1500], ["pytorch compile", null, null]]'
holds '.peers[1].error == "no compiler" and .peers[0].strict == false'
holds '.bundles == ["bert_fp32.repro.tar.zst"]'
holds '.figures | length == 8 and .["runs equal on GPU and CPU"] == "9 of 9" and (.operations | contains("3 of 3"))'
grep -qF 'compute_90a,code=sm_90a' calls || fail "nvcc does not compile for wgmma"
grep -qE -- '-I [^ ]*machine/gpu-check/tests/gpu/../../src ' calls || fail "nvcc is not told where the model is"
holds '.tensor | map([.instruction, .results, .differ]) == [["mma.m16n8k16", 10, 0]]'
for part in ops tensor bits train bundle speed peers; do
    tar -tzf "back/$part.tar.gz" >members.txt || fail "no archive of $part"
    for member in "$part/log.txt" result.json key.pem; do
        grep -qx "gpu-check/$member" members.txt || fail "the archive of $part has no $member"
    done
done
for pass in 'chosen chosen 1 20000' 'rotate chosen 1 20000' 'chosen rotate 1 20000'; do
    grep -qx "$pass" calls || fail "no pass of the self-test with '$pass'"
done
call "call 2, good" 0 "bundles.tar.gz capture.tar.gz profile.tar.gz result.json" "$call2" good
parts_are capture=done bundles=done profile=done
holds '.bundles == ["gpt2_124m_fp32.repro.tar.zst", "resnet50_fp32.repro.tar.zst"]'
grep -q 'bundles.tar.gz is without the bundles' gpu-check/log.txt || fail "an archive is too large"
grep -qF -- '(n[tn]|tn)|' calls || fail "not the kernels of ncu"
grep -q 'ncu: 1 launches' out.txt || fail "the report of ncu is not read"
call "call 2, mixed" 0 "mixed.tar.gz peers16.tar.gz result.json speed16.tar.gz tensor.tar.gz train16.tar.gz" "$call2" mixed
parts_are mixed=done train16=done speed16=done tensor=done peers16=done
holds '(.speed16.rows[0].of_peak - 14495514624 / 3e-4 / (132 * 2048 * 2 * 1.5e9) | fabs) < 1e-6 and .speed == null'
holds '.figures["GEMM in bf16, time of cuBLAS over ours"] == 0.8 and .figures["GEMM in bf16, best share of the peak"] == 0.06'
holds '.bits | length == 6 and all(.equal)'
holds '[.train16[] | "\(.model) \(.asked)"] == ["bert 64", "gpt 64", "resnet50 256"] and .train == null'
holds '(.train16[0].of_peak - 480 * 8e10 / (132 * 2048 * 2 * 1.5e9) | fabs) < 1e-6'
holds '.peers16 | map([.who, .ours_over_it, .strict]) == [["pytorch compile bf16", 1.5, false]]'
holds '.figures["BERT-base b64 in bf16, sequences/s"] == "480 at 1500 MHz, ours over pytorch compile bf16 1.5"'
call "call 2, tools" 0 "profile.tar.gz result.json sanitizer.tar.gz" "$call2" tools
parts_are sanitizer=done profile=done
holds '.sanitizer | map([.tool, .errors]) == [["memcheck", 0], ["racecheck", 0], ["synccheck", 0]]'
# Parts that ops replaces where bits are wrong, and the call that follows.
call "call 1, wrong bits" 1 "bits.tar.gz capture.tar.gz ops.tar.gz result.json sanitizer.tar.gz tensor.tar.gz" DAY=wrong SANITIZER=wrong "$call1"
parts_are ops=done sanitizer=done bits=done capture=done tensor=done
holds '.ops | map(.status) == [5, 5, 5] and all(.wrong[0].op == "gemm" and .wrong[0].failed == 3)'
holds '.kernels | .never == ["attention_c"] and .ran == 2 and .count == 3'
holds '.about.failures | any(contains("attention_c"))'
holds '(.bits | map(select(.equal | not)) | map(.name) == ["lamb"]) and (.sanitizer | map(.errors) == [2, 0, 2])'
holds '.about.failed == 3 + 1 + 1 + 3'
call "call 1, an operation hangs" 1 "capture.tar.gz ops.tar.gz result.json" DAY=stop HANG_SECONDS=1 \
    AFTER_FAILED_OPS="sanitizer capture" "$call1"
parts_are ops=hang sanitizer=passed-over capture=done
holds '.ops | map(.stopped) == [{"op": "gelu_forward", "case": 3, "shape": "2x64"}]'
holds '.probes[0].stopped.op == "gelu_forward" and (.about.failures[0] | contains("gelu_forward") and contains("2x64"))'
if grep -q '^throttled' out.txt; then fail "nvidia-smi is asked again after a hang"; fi
call "call 2, ops" 1 "cuda-gdb.txt ops.tar.gz result.json" DAY=stop-gemm HANG_SECONDS=1 GDB_SECONDS=1 "$call2" ops
parts_are ops=hang sanitizer=passed-over
grep -q '^gdb rotate chosen 0 1 -batch .*selftest' calls || fail "not the pass that hung: $(grep '^gdb' calls)"
grep -q 'BAR.SYNC' out.txt || fail "no line of cuda-gdb in the output"
rm -rf back machine packed temporary/*

# --- the other parts, and what goes wrong ---
day rest 0 "$check" ./played mixed train ranks sizes recipes
holds '.about.parts | length == 5 and all(.end == "done")'
holds '.bits | map(.name) == ["bert_fp16", "gpt_fp16", "resnet_fp16", "bert_bf16", "resnet_bf16", "base_bf16"] and all(.equal)'
grep -qx 'mixed precision' calls || fail "mixed precision was not compared"
holds '.train | length == 7 and (.[3:] | map("\(.model) \(.asked)")) == ["bert 96", "bert max", "resnet50 max", "bert 64"]'
holds '.bundles | length == 6'
day "wrong bits in mixed precision" 1 env DAY=wrong "$check" ./played mixed
holds '.about.failed == 2 and (.about.failures | all(contains("mixed precision")))'
# The first pass is without wgmma. A kernel that hangs in the second one costs neither the first pass nor the runs.
day "hang of a kernel of mixed precision" 1 env DAY=stop-gemm HANG_SECONDS=1 "$check" ./played mixed
parts_are mixed=done
holds '.about.failed == 1 and (.bits | length == 6 and all(.equal))'
[ "$(grep -c '^run mma$' calls)" = 6 ] || fail "runs after the hang do not leave wgmma out: $(cat calls)"
# Every bit is right, and one kernel never ran: a failure, and no reason to drop whole runs.
day "kernel that never runs" 1 env DAY=never AFTER_FAILED_OPS="sanitizer bits" "$check" ./played ops train
parts_are ops=done train=done
holds '.kernels.never == ["attention_c"] and .about.failed == 1 and (.ops | all(.status == 0))'
# Every run fails, in many words: the output stays within what comes back, and a crash costs nothing but its own run.
day "every run fails" 1 env DAY=crash "$check" ./played bits sizes recipes
parts_are bits=done sizes=done recipes=done
holds '.about.failed == 9 + 4 + 6 and .probes == null and (.bits | length == 9 and all(.equal == null))'

day "hang in a run" 1 env DAY=hang HANG_SECONDS=1 "$check" ./played ops bits train speed sizes
parts_are ops=done bits=hang train=passed-over speed=done sizes=passed-over
holds '.about.failed == 1 and (.probes | length == 1 and .[0].status == 0) and (.about.parts[1].seconds < 5)'
grep -q '^chosen chosen 0 1000$' calls || fail "the probe is not without graphs"
day "dead GPU" 1 env DAY=dead HANG_SECONDS=1 "$check" ./played bits speed peers
parts_are bits=hang speed=passed-over peers=passed-over
holds '.about.gpu_dead and .about.failed == 1 and .about.skipped >= 2 and .probes[0].status == 7'
tar -xOzf kept/bits.tar.gz gpu-check/result.json | jq -e .about.gpu_dead >answer.txt || fail "no word of it in the archive"
day "GPU that is gone" 1 env DAY=gone HANG_SECONDS=1 "$check" ./played bits speed
parts_are bits=hang speed=passed-over
holds '.about.gpu_dead'
# The probe is cut off by the end of the check: the hang is known, whether the GPU answers is not.
day "probe without time" 1 env DAY=unknown HANG_SECONDS=1 MINUTES=0.06 "$check" ./played bits speed
parts_are bits=hang speed=time
holds '.about.gpu_dead == false and .about.out_of_time and .probes[0].status == 75'
# A process that cannot be killed: it is left behind 4 s after its limit, which is 2 % of 60 s.
day "stuck process" 1 env SMI=stuck-run SCALE=2 "$check" ./played bits speed
parts_are bits=hang speed=done
holds '.about.left_behind == 1 and .about.parts[0].seconds < 8 and .probes[0].status == 0'
# nvidia-smi does not end, and the signals that a reader's end would send are ignored: the sampler ends all the same.
day "stuck nvidia-smi" 0 env SMI=stuck sh -c 'trap "" PIPE TERM; exec "$0" "$@"' "$check" ./played speed
holds '.about.parts[0].seconds < 4 and .speed.clock == null'
day "sampler without SIGPIPE" 0 sh -c 'trap "" PIPE; exec "$0" "$@"' "$check" ./played peers
holds '.about.parts[0].seconds < 4 and .peers[0].clock_mhz == 1500'
# A limit that is reached is a failure, also that of a part: 2 % of 60 s for a run, 2 % of 200 s for the part.
day "limits" 1 env DAY=sleep SCALE=2 "$check" ./played bits
parts_are bits=limit
holds '.about.failed >= 3 and .about.out_of_time == false and .about.parts[0].seconds < 9'
# The seconds that the caller gives to a part are its share of the time.
day "given seconds" 75 env DAY=sleep "$check" ./played bits:1 speed
parts_are bits=time speed=done
holds '.about.failed == 0 and .about.out_of_time'
# Only the end of the whole check is no failure.
day "no time" 75 env MINUTES=0 "$check" ./played bits train
parts_are bits=time train=time
day "time runs out" 75 env DAY=sleep MINUTES=0.02 "$check" ./played bits train
parts_are bits=time train=time
holds '.about.failed == 0 and .about.out_of_time'
day "no PyTorch" 0 env PEERS=absent "$check" ./played speed peers
holds '.about.failed == 0 and .about.skipped == 2 and (.speed.rows | length == 4) and .peers == null'
day "failing PyTorch" 0 env PEERS=failing "$check" ./played peers
holds '(.peers | length == 2) and .about.failed == 0 and .about.passed == 1 and .about.skipped == 2'
day "sanitizer that cannot work here" 0 env SANITIZER=none "$check" ./played sanitizer
holds '.about.skipped == 3 and (.sanitizer | all(.errors == null))'
day "slow memcheck" 0 env SANITIZER=slow "$check" ./played sanitizer:5
holds '.about.failed == 0 and .about.skipped == 1 and (.sanitizer | map(.errors) == [null, 0, 0])'
day "slow memcheck that found something" 1 env SANITIZER=found "$check" ./played sanitizer:5
holds '.about.failed == 1 and (.about.failures[0] | contains("Invalid __global__ read")) and .about.skipped == 0'
rm kept/*
day "ended from outside" 1 env DAY=cut sh -c 'echo $$ >pid; exec "$0" "$@"' "$check" ./played ops bits
tar -xzf kept/bits.tar.gz
holds '.about.failed == 1 and (.about.parts | map(.name) == ["ops"]) and (.ops | length == 3)'
grep -q '^not ok  bits: ended from outside' out.txt || fail "$name: no word of it"
day "unknown part" 1 "$check" ./played capture_everything
holds '.about.failed == 1 and .about.parts == []'
