#!/bin/sh
# The convolutions of ResNet-50 against oneDNN as PyTorch calls it, both in one process (the virtual environment of training.sh).
# usage: conv.sh [BUILD] [PART-OF-A-NAME...]
# environment: THREADS="1 2"  ISAS="avx512 avx2"  REPEATS=5  BATCH=32  CC=gcc  CLOCK=cpu  PEERS=BUILD/peers
# Tables go to standard output, raw times to BUILD/bench/conv-ISA-THREADS.json.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$top/build}
[ $# -eq 0 ] || shift
out=$build/bench
peers=${PEERS:-$build/peers}
mkdir -p "$out"

. "$top/tests/bench/common.inc"
have_torch "$peers"
compile_kernels "$out/conv" "$top/tests/bench/conv_bench.c" -fPIC
${CC:-gcc} -shared -o "$out/libconv.so" "$out/conv"/*.o -lm -lpthread

for isa in ${ISAS:-avx512 avx2}; do
    has_isa "$isa" || continue
    case $isa in
    avx512) max=AVX512_CORE ;;
    *) max=AVX2 ;;
    esac
    for threads in ${THREADS:-1 2}; do
        ONEDNN_MAX_CPU_ISA=$max \
            "$top/tests/bench/peer.sh" "$peers/bin/python" "$top/tests/bench/conv_torch.py" "$out/libconv.so" "$isa" "$threads" \
            "${REPEATS:-5}" "${BATCH:-32}" "$out/conv-$isa-$threads.json" "$@"
        echo
    done
done
