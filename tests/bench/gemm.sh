#!/bin/sh
# Our matrix products against MKL and OpenBLAS (both from pip, in a virtual environment under the build directory), and against our own with the sums
# of a tensor core.
# usage: gemm.sh [BUILD]      environment: THREADS="1 2"  ISAS="avx512 avx2"  REPEATS=11  CC=gcc
# Tables go to standard output, raw times to BUILD/bench/gemm-ISA-THREADS.json.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$top/build}
out=$build/bench
venv=$build/peers
mkdir -p "$out"

# --- peers ---
if [ ! -e "$venv/.gemm-ready" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet mkl==2026.2.0 scipy-openblas32==0.3.34.481.3
    touch "$venv/.gemm-ready"
fi
mkl=$(find "$venv/lib" -maxdepth 1 -name 'libmkl_rt.so.*' | sort | tail -n 1)
openblas=$(find "$venv/lib" -name 'libscipy_openblas.so' | head -n 1)
if [ -z "$mkl" ] || [ -z "$openblas" ]; then
    echo "gemm.sh: no libmkl_rt or libscipy_openblas under $venv; remove it and run again" >&2
    exit 1
fi

# --- ours: the backend's files for products, linked against the system's C library, which can load the peers ---
. "$top/tests/bench/common.inc"
compile_kernels "$out/objects" "$top/tests/bench/gemm_bench.c"
${CC:-gcc} -o "$out/gemm_bench" "$out/objects"/*.o -ldl -lm -lpthread

# --- a copy of OpenBLAS per core type, so that one process can hold several ---
peers_for() {
    case $1 in
    avx512) cores="SkylakeX SapphireRapids" ;; # Zen has no AVX-512 kernels: half the speed
    *) cores="Haswell Zen" ;;
    esac
    peers="mkl=$mkl"
    for core in $cores; do
        cp -f "$openblas" "$out/openblas-$core.so"
        peers="$peers $core=$out/openblas-$core.so"
    done
}

for isa in ${ISAS:-avx512 avx2}; do
    has_isa "$isa" || continue
    peers_for "$isa"
    for threads in ${THREADS:-1 2}; do
        # shellcheck disable=SC2086
        LD_LIBRARY_PATH="$venv/lib" MKL_THREADING_LAYER=INTEL MKL_INTERFACE_LAYER=LP64 "$top/tests/bench/peer.sh" \
            "$out/gemm_bench" "$isa" "$threads" "${REPEATS:-11}" "$out/gemm-$isa-$threads.json" $peers tc16 tc8 tc4
    done
done
