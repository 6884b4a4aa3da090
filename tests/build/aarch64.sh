#!/bin/bash
# The program for 64-bit Arm, in an emulator: the bits of x86-64. The self test; runs of the three models whose losses, state roots and
# checkpoints are those of this machine; bundles that each program verifies and replays of the other; a captured Arm processor; and what make
# refuses there. `make test` builds it with Debian's libraries (BUILD/aarch64/native/repro), `make ARCH=aarch64 check` the static one that is
# shipped, which is then tested; with CUDA=1 its GPU worker too. With LONG=1 also scalar code, recorded losses, and the sums of every kind of
# tensor core.
# timeout: 1800
. "$TEST_DIR/common.inc"
# shellcheck disable=SC2012 # the names are known
arm=$(ls -t "$BUILD/aarch64/repro" "$BUILD/aarch64/native/repro" 2>/dev/null | head -n 1)
[ -n "$arm" ] || skip "no program for aarch64 was built: make test, or make ARCH=aarch64 check"
[ "$(uname -m)" = x86_64 ] || skip "compares with x86-64"
need qemu-aarch64-static aarch64-linux-gnu-readelf jq
long=$([ "${LONG:-0}" = 0 ] || echo 1)

# Emulated, the program reads this machine's /proc/cpuinfo, unless the file is below -L.
mkdir -p n1/proc
cat >n1/proc/cpuinfo <<'END'
processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1

END
# And its loader and libraries.
libraries=$("$TOP/env/fetch-arm64.sh" --dir "$(deps_dir)")
[ "$arm" = "$BUILD/aarch64/repro" ] || ln -s "$libraries/usr" "$libraries/lib" n1/
export QEMU_CPU=neoverse-n1 QEMU_LD_PREFIX=$PWD/n1
emulated() { qemu-aarch64-static "$arm" "$@"; }
commit() { jq -r .commit; }
[ "$(emulated version --json | commit)" = "$("$REPRO" version --json | commit)" ] ||
    skip "the program for aarch64 is of another commit: make test, or make ARCH=aarch64 check"

# --- the file -------------------------------------------------------------------------------------------------------
if [ "$arm" = "$BUILD/aarch64/repro" ]; then
    aarch64-linux-gnu-readelf -hlWd "$arm" >elf.txt
    grep -q 'Machine: *AArch64' elf.txt && grep -qE 'FLAGS_1.*PIE' elf.txt && grep -q GNU_RELRO elf.txt || fail "not a PIE for aarch64: $(cat elf.txt)"
    ! grep -qE 'INTERP|NEEDED|TEXTREL|RWE' elf.txt || fail "not static, or writable code: $(cat elf.txt)"
    # Without the GPU worker 10.8 MB; with kernels for eight architectures and PTX 20.7, and at most 24 are allowed. Packed, sm_75 to sm_90 take
    # 0.9 MB each, sm_100 and sm_121 1.1, compute_100 1.2.
    most=11
    ! emulated version --json | jq -e .gpu_worker >/dev/null || most=22
    [ "$(stat -c %s "$arm")" -le $((most << 20)) ] || fail "more than $most MiB"
fi

# --- arithmetic -----------------------------------------------------------------------------------------------------
emulated selftest --json >self.json || fail "self test: $(cat self.json)"
grep -q neon self.json && grep -q scalar self.json || fail "not all instruction sets were tested"

# --- capture --------------------------------------------------------------------------------------------------------
emulated capture --json >capture.json 2>err.txt || fail "capture: $(cat err.txt)"
[ "$(jq -r '.probes | .cpu.model_name.value + " " + .cpu.part.value + " " + .kernel.machine.value' capture.json)" = "Neoverse-N1 0xd0c aarch64" ] ||
    fail "the captured processor: $(jq -c '.probes.cpu.model_name, .probes.kernel.machine' capture.json)"

# --- the GPU worker -------------------------------------------------------------------------------------------------
# Eight GPUs that a library of tests/fake plays: every value is the one that the worker for x86-64 captures.
if emulated version --json | jq -e .gpu_worker >/dev/null && [ -e "$BUILD/fake/570/libnvidia-ml.so.1" ]; then
    [ -e n1/lib ] || ln -s "$libraries/usr" "$libraries/lib" n1/
    aarch64-linux-gnu-gcc -std=gnu11 -D_GNU_SOURCE -I"$TOP" -I"$TOP/src" -isystem "$BUILD/aarch64/gpu/include" -DDRIVER=570 -shared -fPIC \
        -Wl,-soname,libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c" -o libnvidia-ml.so.1
    gpus() { # LIBRARIES PROGRAM...
        LD_LIBRARY_PATH=$1 RP_FAKE_NVML=$TOP/tests/fake/h100_8.txt "${@:2}" capture --identify --probe gpu --json 2>err.txt | jq -S .probes.gpu.devices
    }
    if as_on_arm "$arm" version >/dev/null 2>why.txt; then
        gpus "$PWD" as_on_arm "$arm" >gpus.json
        gpus "$BUILD/fake/570" "$REPRO" >gpus.x86.json
        [ "$(jq length gpus.x86.json)" = 8 ] || fail "the played machine has other GPUs"
        cmp -s gpus.x86.json gpus.json ||
            fail "the GPU worker for 64-bit Arm captures other values: $(cat err.txt; diff gpus.x86.json gpus.json | head -n 40)"
    else
        echo "the GPU worker for 64-bit Arm was not started: $(tail -n 1 why.txt)"
    fi
fi

# --- a run on each, and each bundle on the other --------------------------------------------------------------------
few_words
# The options of each model: few words, small batches, one step.
declare -A options=([bert]="bert_tiny_fp32 $bert_few --set train.batch_size=2"
    [gpt]="gpt_tiny_fp32 $gpt_few --set train.batch_size=2 --set task.seq_length=32"
    [resnet]="resnet50_tiny_fp32 --set train.batch_size=2"
    [mixed]="bert_tiny_fp16 $bert_few --set train.batch_size=1")
declare -A data=([bert]="--data few/bert" [gpt]="--data few/gpt" [resnet]="" [mixed]="--data few/bert")
# -q: no estimate of the time, which takes an emulator seven seconds.
small() { # MODEL NAME PROGRAM run [OPTION...]: into NAME.repro.tar.zst, the trained state into NAME.safetensors
    local model=$1 name=$2
    shift 2
    # shellcheck disable=SC2086
    "$@" ${options[$model]} -q --threads 1 --steps 1 --set measure.warmup_steps=0 --set measure.repeats=1 --set train.accumulation_steps=1 \
        --set measure.ceilings=false -o "$name.repro.tar.zst" --save "$name.safetensors" >run.txt 2>err.txt ||
        fail "$model, $name: $(cat run.txt err.txt)"
}
bits() { # BUNDLE: losses, norms and state roots of all steps, and the digests of the trained state
    "$REPRO" inspect "$1" steps/rank0.jsonl | jq -c '[.step, .loss, .grad_norm, .state_root]'
    "$REPRO" inspect "$1" facts.json | jq -c .tensor_root
}
same_bits() { # MODEL ISA [OPTION...]: emulated, against x86.MODEL
    local model=$1 isa=$2 name=$2.$1
    shift 2
    small "$model" "$name" emulated run "$@"
    bits "$name.repro.tar.zst" >"$name.bits"
    cmp -s "x86.$model.bits" "$name.bits" || fail "$model: other bits on aarch64 in $isa code: $(diff "x86.$model.bits" "$name.bits")"
    cmp "x86.$model.safetensors" "$name.safetensors" || fail "$model: another checkpoint on aarch64 in $isa code"
    [ "$("$REPRO" inspect "$name.repro.tar.zst" facts.json | jq -r '.rank[0].device | .name + " " + .isa')" = "Neoverse-N1 $isa" ] || fail "the device"
}
replayed() { # NAME MODEL PROGRAM...
    local model=$2 name=$1
    shift 2
    # shellcheck disable=SC2086
    "$@" verify "$name.repro.tar.zst" --replay 1 ${data[$model]} >verify.txt 2>&1 || fail "$name, by $1: $(cat verify.txt)"
    says_in "bit-equal" verify.txt
}
for model in bert gpt resnet mixed; do
    small $model x86.$model "$REPRO" run
    bits x86.$model.repro.tar.zst >x86.$model.bits
    grep -q '0x1' x86.$model.bits || fail "no losses: $(cat x86.$model.bits)"
    same_bits $model neon
    [ -z "$long" ] && [ $model = mixed ] || replayed neon.$model $model "$REPRO"
    [ -z "$long" ] && [ $model != bert ] || replayed x86.$model $model emulated
    [ -z "$long" ] || same_bits $model scalar --set run.isa=scalar
done
# Beside each other they are two machines, whose differences are shown, also where one has a group of values.
"$REPRO" compare neon.bert.repro.tar.zst x86.bert.repro.tar.zst >compare.txt || fail "compare: $(cat compare.txt)"
grep -Eq 'instruction set .* neon +avx' compare.txt && grep -Eq ' kernel\.machine +aarch64 +x86_64' compare.txt || fail "compare: $(cat compare.txt)"
! grep -E ' absent +absent$' compare.txt >&2 || fail "differences without a difference"
# A checkpoint of either continues on the other.
small bert x86.on "$REPRO" run --init neon.bert.safetensors
small bert neon.on emulated run --init x86.bert.safetensors
cmp <(bits x86.on.repro.tar.zst) <(bits neon.on.repro.tar.zst) || fail "a checkpoint of the other does not continue alike"
if [ -n "$long" ]; then
    emulated selftest --tensor-core --json >self.json || fail "self test in mixed precision: $(cat self.json)"
    emulated run gpt_tiny_fp32 --steps 3 --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false -o golden.zst \
        >run.txt 2>err.txt || fail "gpt_tiny_fp32: $(cat err.txt)"
    "$REPRO" inspect golden.zst steps/rank0.jsonl | jq -r 'select(.step >= 0) | "\(.step) \(.loss) \(.grad_norm)"' >lines.txt
    "$REPRO" inspect golden.zst run.json | jq -r '"root \(.results.state_root_last)"' >>lines.txt
    cmp lines.txt "$TOP/tests/golden/gpt_tiny_fp32.txt" || fail "other losses on aarch64 than recorded: $(cat lines.txt)"
fi

# --- what is not there ----------------------------------------------------------------------------------------------
for words in "all CUDA=1 CUDA_HOME=/nowhere" "tests-built" "all SAN=asan" "all ARCH=riscv64"; do
    # shellcheck disable=SC2086
    exit_of 2 make -C "$TOP" -n ARCH=aarch64 BUILD="$BUILD" $words
    grep -qE 'ARCH(=|: .)(aarch64|riscv64)' err.txt || fail "make $words says: $(cat err.txt)"
done
