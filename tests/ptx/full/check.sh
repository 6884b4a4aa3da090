#!/bin/bash
# Every architecture's PTX, executed: `make ptx-check` compiles it and starts this (tests/run.sh does not).
#
#   tests/ptx/full/check.sh [ARCH...]     80 70 86 100 75 89 90 120 unless some are named
#
# For each: every operation against its definition in four orders of threads, variants of training of both models against the CPU backend,
# and the tests of the CUDA backend; less where the PTX has the text of architectures before. At the end what was executed of each kernel
# (coverage.sh). Status 0 if nothing differs, at least 97 % were executed, and not_executed.txt has the rest. PTX_COVERAGE=DIRECTORY keeps
# what was executed.
set -u
cd "$(dirname "$0")/../../.." || exit 2
export TOP=$PWD BUILD=${BUILD:-$PWD/build} LC_ALL=C NO_COLOR=1
export REPRO=$BUILD/repro TEST_DIR=$TOP/tests/ptx
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch PTX_COVERAGE=${PTX_COVERAGE:-$scratch/coverage}
mkdir -p "$PTX_COVERAGE" "$scratch/work"
cd "$scratch/work" || exit 2
bad=0
cases=0
part() { # NAME COMMAND...: in a shell of its own, because fail() ends it
    local label=$1 begin=$SECONDS status=0 compared
    shift
    # shellcheck source=tests/ptx/common.inc
    ( . "$TEST_DIR/common.inc" && "$@" ) >"$scratch/log" 2>&1 || status=$?
    [ $status = 0 ] || bad=$((bad + 1))
    compared=$(grep -o '[0-9]* \(cases\|products\|steps\)\b' "$scratch/log" | awk '{n += $1} END {print n + 0}')
    cases=$((cases + compared))
    printf '%-28s %s %6d cases %4d s\n' "$label" "$([ $status = 0 ] && echo equal || echo DIFFERS)" "$compared" $((SECONDS - begin))
    [ $status = 0 ] || tail -n 3 "$scratch/log" | cut -c 1-300
}
own_test() { # ARCH NAME: its tensors are not the driver's memory
    local directory=$BUILD/gpu/device/compute_$1 races=1 shared=0
    [ "$2" != large ] || races=0 # its tensors are too large to watch each word
    [ "$2" != attention ] || shared=232448 # of sm_90: each kernel also with more keys than the GPU has shared memory for
    (cd "$TOP" && env PTX_STRICT=0 PTX_RACES="$races" PTX_DIR="$directory" SHIM_CAPABILITY="$1" SHIM_SHARED="$shared" \
        "$BUILD/native/tests/cuda/test_cuda_$2")
}
# Sets `new` to the files whose text no architecture before has, except for the name of the target.
texts=" "
find_new() { # ARCH
    local file text
    new=" "
    for file in "$BUILD/gpu/device/compute_$1"/*; do
        case ${file##*/} in *.*) continue ;; esac
        text=${file##*/}$(sed '/^\.target/d; /^\/\//d' "$file" | md5sum | cut -c 1-32)
        [[ $texts = *" $text "* ]] || new+="${file##*/} "
        texts+="$text "
    done
}
[ $# -gt 0 ] || set -- 80 70 86 100 75 89 90 120
for arch; do
    find_new "$arch"
    if [ "$new" = " " ]; then # only what the host chooses by the capability of the GPU is new
        part "$arch selftest, known text" selftest "$arch" PTX_RACES=1 RP_CUDA_GEMM=rotate
        part "$arch adamw, known text" same_steps "$arch" bert_tiny_fp32 --set measure.timed_steps=1 --batch-size 2
        continue
    fi
    part "$arch selftest" selftest "$arch" PTX_RACES=1 RP_CUDA_GEMM=rotate
    part "$arch selftest, split" selftest "$arch" PTX_RACES=1 PTX_SPLIT=1 SHIM_ORDER=2
    part "$arch selftest, reversed" selftest "$arch" PTX_RACES=1 SHIM_ORDER=1
    part "$arch selftest, scrambled" selftest "$arch" SHIM_ORDER=2 SHIM_RESIDENT=5 SHIM_SEED=7
    part "$arch gpt" small_gpt "$arch" --batch-size 2 --set measure.timed_steps=2 --set parallel.tensor=2 --set train.recompute=selective
    part "$arch adamw" same_steps "$arch" bert_tiny_fp32 --set measure.timed_steps=2 --batch-size 3
    part "$arch test_cuda_ops" own_test "$arch" ops
    part "$arch test_cuda_large" own_test "$arch" large
    [[ $new != *" attention"* ]] || part "$arch test_cuda_attention" own_test "$arch" attention
    [[ $new = *" gemm "* ]] || continue
    part "$arch test_cuda_gemm" own_test "$arch" gemm
    part "$arch lamb" same_steps "$arch" bert_tiny_fp32 --set measure.timed_steps=2 --set optimizer.name=lamb --set train.accumulation_steps=3 --batch-size 1
    part "$arch plain" same_steps "$arch" bert_tiny_fp32 --set measure.timed_steps=1 --set model.hidden_dropout_prob=0 \
        --set model.attention_probs_dropout_prob=0 --batch-size 2 --set optimizer.bias_correction=true
done
echo "$cases cases, $SECONDS s"
bash "$TEST_DIR/full/coverage.sh" "$PTX_COVERAGE" "$TEST_DIR/full/not_executed.txt" || bad=$((bad + 1))
[ $bad = 0 ] || echo "$bad parts failed"
[ $bad = 0 ]
