#!/bin/bash
# Every architecture's machine code that nvdisasm reads, executed: `make sass-check` compiles it and starts this (tests/run.sh does not).
#
#   tests/sass/full/check.sh [--mixed] [ARCH...]     90 75 80 86 89 100 120 unless some are named; --mixed: of mixed precision alone
#
# For each architecture: every operation against its definition on GPUs of 1, 4 and 132 multiprocessors, with every kernel in turn, in other
# orders, with the code for lanes that came apart and for quotients near the ends of the range, with reciprocals that are wrong in the last
# place; the tests of operations, attention and matrix products of the CUDA backend; a training step of each model against the CPU backend; and the
# same in mixed precision.
# JOBS parts at a time. At the end what was executed of each kernel (tests/simt/coverage.sh). Status 0 if nothing differs, at least 94 % were
# executed, and not_executed.txt has the rest. SASS_COVERAGE=DIRECTORY keeps what was executed.
set -u
cd "$(dirname "$0")/../../.." || exit 2
export TOP=$PWD BUILD=${BUILD:-$PWD/build} LC_ALL=C NO_COLOR=1
export REPRO=$BUILD/repro TEST_DIR=$TOP/tests/sass
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'kill $(jobs -rp); exit 1' INT TERM
export HOME=$scratch SASS_COVERAGE=${SASS_COVERAGE:-$scratch/coverage}
mkdir -p "$SASS_COVERAGE"
# shellcheck source=tests/simt/parts.inc
. "$TOP/tests/simt/parts.inc"
if [ ! -e "$BUILD/sass/sm_90/gemm.sass" ]; then
    echo "there is no text of the machine code: env/fetch-nvdisasm.sh could not have the disassembler" >&2
    exit 1
fi
every="RP_CUDA_GEMM=rotate RP_CUDA_ATTENTION=rotate"
short="--set measure.timed_steps=1 --batch-size"
is_mixed=
[ "${1:-}" != --mixed ] || { is_mixed=1 && shift; }
[ $# -gt 0 ] || set -- 90 75 80 86 89 100 120
for arch; do
    part "$arch gemm16" gemm16 "$arch" SASS_RACES=1 LONG=1
    part "$arch stored" stored "$arch" SASS_RACES=1 LONG=1
    part "$arch attention16" mixed test_cuda_attention16 ATTENTION16 "$arch" SASS_RACES=1 LONG=1
    part "$arch conv16" mixed test_cuda_conv16 CONV16 "$arch" SASS_RACES=1 LONG=1
    part "$arch selftest, mixed" selftest "$arch" --tensor-core SASS_RACES=1
    part "$arch models, mixed" low_steps "$arch"
done
[ -z "$is_mixed" ] || set --
for arch; do
    # shellcheck disable=SC2086 # words
    {
        part "$arch selftest, 1" selftest "$arch" SASS_RACES=1 SHIM_MULTIPROCESSORS=1 $every
        part "$arch selftest, 4" selftest "$arch" SASS_RACES=1 $every
        part "$arch selftest, 132" selftest "$arch" SASS_RACES=1 SHIM_MULTIPROCESSORS=132
        part "$arch selftest, apart" selftest "$arch" SASS_DIVERGED=1 SASS_SLOW=1 $every
        part "$arch selftest, reversed" selftest "$arch" SASS_RACES=1 SHIM_ORDER=1
        part "$arch selftest, scrambled" selftest "$arch" SHIM_ORDER=2 SHIM_RESIDENT=5 SHIM_SEED=7 SASS_ERROR=1 $every
        part "$arch bert" same_steps "$arch" bert_tiny_fp32 $short 2
        part "$arch gpt" small_gpt "$arch" 1 1 --set train.recompute=selective
        part "$arch resnet50" same_steps "$arch" resnet50_tiny_fp32 $short 2 --set task.image_size=32
    }
    part "$arch test_cuda_ops" own_test "$arch" ops
    part "$arch test_cuda_ops, apart" own_test "$arch" ops SASS_DIVERGED=1 SASS_SLOW=1 SASS_ERROR=1 LONG=0
    part "$arch test_cuda_attention" own_test "$arch" attention
    part "$arch test_cuda_attention, apart" own_test "$arch" attention SASS_DIVERGED=1 SASS_SLOW=1 LONG=0
    part "$arch test_cuda_gemm" own_test "$arch" gemm
    part "$arch test_cuda_conv" own_test "$arch" conv
done
finish sm_ "$([ -n "$is_mixed" ] && echo 90 || echo 94)" "$SASS_COVERAGE" "${is_mixed:+_b?f16}"
