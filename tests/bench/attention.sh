#!/bin/sh
# Our causal attention against PyTorch's, both in one process (the virtual environment of training.sh).
# usage: attention.sh [BUILD] [BATCHxSEQxHEADSxDIM...]      environment: THREADS="1 2"  ISAS="avx512 avx2"  REPEATS=7  CC=gcc  CLOCK=cpu  PEERS=BUILD/peers
# Tables go to standard output, raw times to BUILD/bench/attention-ISA-THREADS.json.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$top/build}
[ $# -eq 0 ] || shift
out=$build/bench
peers=${PEERS:-$build/peers}
mkdir -p "$out"

. "$top/tests/bench/common.inc"
have_torch "$peers"
compile_kernels "$out/attention" "$top/tests/bench/attention_bench.c" -fPIC
${CC:-gcc} -shared -o "$out/libattention.so" "$out/attention"/*.o -lm -lpthread

for isa in ${ISAS:-avx512 avx2}; do
    has_isa "$isa" || continue
    for threads in ${THREADS:-1 2}; do
        "$top/tests/bench/peer.sh" "$peers/bin/python" "$top/tests/bench/attention_torch.py" "$out/libattention.so" "$isa" "$threads" "${REPEATS:-7}" \
            "$out/attention-$isa-$threads.json" "$@"
        echo
    done
done
