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
objects=$out/conv
peers=${PEERS:-$build/peers}
mkdir -p "$objects"

if [ ! -e "$peers/.torch-ready" ]; then
    python3 -m venv "$peers"
    "$peers/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
    touch "$peers/.torch-ready"
fi

# --- ours: the backend's files for these operations as a shared library ---
flags="-std=gnu11 -O2 -fPIC -ffp-contract=off -D_GNU_SOURCE -I$top/src"
cpu=$top/src/backend/cpu
for source in "$top"/src/base/err.c "$top"/src/base/text.c "$top"/src/base/buf.c "$cpu"/gemm*.c "$cpu"/ops*.c "$cpu"/pool.c "$cpu"/isa.c \
    "$top"/tests/bench/conv_bench.c; do
    case $source in
    *_avx2.c) isa="-mavx2 -mfma -mf16c" ;;
    *_avx512.c) isa="-mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512" ;;
    *) isa= ;;
    esac
    # shellcheck disable=SC2086
    ${CC:-gcc} $flags $isa -c "$source" -o "$objects/$(basename "$source" .c).o"
done
${CC:-gcc} -shared -o "$out/libconv.so" "$objects"/*.o -lm -lpthread

for isa in ${ISAS:-avx512 avx2}; do
    case $isa in
    avx512) flag=avx512vl max=AVX512_CORE ;;
    *) flag=$isa max=AVX2 ;;
    esac
    if ! grep -qw "$flag" /proc/cpuinfo; then
        echo "conv.sh: $isa skipped: this CPU has none"
        continue
    fi
    for threads in ${THREADS:-1 2}; do
        ONEDNN_MAX_CPU_ISA=$max \
            "$peers/bin/python" "$top/tests/bench/conv_torch.py" "$out/libconv.so" "$isa" "$threads" "${REPEATS:-5}" "${BATCH:-32}" \
            "$out/conv-$isa-$threads.json" "$@"
        echo
    done
done
