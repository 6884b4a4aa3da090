#!/bin/bash
# Every architecture's PTX, executed: `make ptx-check` compiles it and starts this (tests/run.sh does not).
#
#   tests/ptx/full/check.sh [--mixed] [ARCH...]     80 70 86 100 75 89 90 120 unless some are named; --mixed: of mixed precision alone
#
# For each architecture: every operation against its definition in several orders of threads, variants of training against the CPU backend, and
# the tests of the CUDA backend, also in mixed precision, whose arithmetic is that of the architecture. A file whose text an architecture before
# has is not executed again in all of these, except in mixed precision: OPS has the operations of the other files. JOBS parts at a time.
# At the end what was executed of each kernel (tests/simt/coverage.sh). Status 0 if nothing differs, at least 96 % were executed (94 % of mixed
# precision), and not_executed.txt has the rest. PTX_COVERAGE=DIRECTORY keeps what was executed.
set -u
cd "$(dirname "$0")/../../.." || exit 2
export TOP=$PWD BUILD=${BUILD:-$PWD/build} LC_ALL=C NO_COLOR=1
export REPRO=$BUILD/repro TEST_DIR=$TOP/tests/ptx
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'kill $(jobs -rp); exit 1' INT TERM
export HOME=$scratch PTX_COVERAGE=${PTX_COVERAGE:-$scratch/coverage}
mkdir -p "$PTX_COVERAGE"
# shellcheck source=tests/simt/parts.inc
. "$TOP/tests/simt/parts.inc"
# Sets `new` to the files whose text no architecture before has, except for the name of the target, and OPS to their operations.
texts=" "
find_new() { # ARCH
    local file text
    new=" "
    OPS=
    for file in "$BUILD/gpu/device/compute_$1"/*; do
        case ${file##*/} in *.*) continue ;; esac
        text=${file##*/}$(sed '/^\.target/d; /^\/\//d' "$file" | md5sum | cut -c 1-32)
        [[ $texts = *" $text "* ]] && continue
        texts+="$text "
        new+="${file##*/} "
        file=${file##*/}
        OPS+=$(sed -n 's/^void rp_cuda_op_\([a-z0-9_]*\)(.*/\1 /p' "$TOP/src/backend/cuda/ops_${file%%_*}.c" | tr -d '\n')
    done
    export OPS
}
is_mixed=
[ "${1:-}" != --mixed ] || { is_mixed=1 && shift; }
[ $# -gt 0 ] || set -- 80 70 86 100 75 89 90 120
for arch; do
    part "$arch gemm16" own_test "$arch" gemm16 GEMM16="$arch"
    part "$arch conv16" own_test "$arch" conv16 CONV16="$arch"
    part "$arch attention16" own_test "$arch" attention16 ATTENTION16="$arch"
    part "$arch stored" own_test "$arch" stored STORED="$arch"
    part "$arch selftest, mixed" selftest "$arch" --tensor-core PTX_RACES=1
    part "$arch models, mixed" low_steps "$arch"
done
own=()
[ -z "$is_mixed" ] || set --
for arch; do
    find_new "$arch"
    [[ $new != *" gemm "* ]] || own+=("$arch")
    # Where the text is known, only what the host chooses by the capability of the GPU is new.
    [ "$new" = " " ] || part "$arch test_cuda_ops" own_test "$arch" ops
    part "$arch selftest" selftest "$arch" PTX_RACES=1 RP_CUDA_GEMM=rotate RP_CUDA_ATTENTION=rotate
    part "$arch adamw" same_steps "$arch" bert_tiny_fp32 --set measure.timed_steps=1 --batch-size 2
done
for arch in "${own[@]}"; do
    part "$arch test_cuda_attention" own_test "$arch" attention
    part "$arch test_cuda_gemm" own_test "$arch" gemm
    part "$arch test_cuda_conv" own_test "$arch" conv
    part "$arch test_cuda_large" own_test "$arch" large
    part "$arch gpt" small_gpt "$arch" 2 2 --set parallel.tensor=2 --set train.recompute=selective
    part "$arch resnet50" same_steps "$arch" resnet50_tiny_fp32 --set measure.timed_steps=1 --batch-size 2 --set task.image_size=32
    part "$arch lamb" same_steps "$arch" bert_tiny_fp32 --set measure.timed_steps=2 --set optimizer.name=lamb --set train.accumulation_steps=3 --batch-size 1
    part "$arch plain" same_steps "$arch" bert_tiny_fp32 --set measure.timed_steps=1 --set model.hidden_dropout_prob=0 \
        --set model.attention_probs_dropout_prob=0 --batch-size 2 --set optimizer.bias_correction=true
    part "$arch selftest, reversed" selftest "$arch" PTX_RACES=1 SHIM_ORDER=1
    part "$arch selftest, scrambled" selftest "$arch" SHIM_ORDER=2 SHIM_RESIDENT=5 SHIM_SEED=7
    part "$arch selftest, split" selftest "$arch" PTX_RACES=1 PTX_SPLIT=1 SHIM_ORDER=2
done
finish compute_ "$([ -n "$is_mixed" ] && echo 94 || echo 96)" "$PTX_COVERAGE" "${is_mixed:+_b?f16}"
