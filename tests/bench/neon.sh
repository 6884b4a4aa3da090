#!/bin/sh
# Instructions of the NEON kernel for products against those of OpenBLAS's, by counting: what no machine of another kind can measure as a time.
# usage: neon.sh [BUILD]      needs Debian's cross compiler (env/setup.sh aarch64) and archive, from which OpenBLAS for 64-bit Arm comes
# A row is the innermost loop of a kernel: its fused multiply-adds of four floats, and what it executes and loads for each of them. The branch that
# skips two prefetches in three loops of four counts as not taken. BUILD/bench has the loops as text.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$top/build}
out=$build/bench/neon
objdump="aarch64-linux-gnu-objdump"
command -v $objdump >/dev/null || { echo "neon.sh: no $objdump; not counted" && exit 0; }
mkdir -p "$out"
deps=$(make -s -C "$top" BUILD="$build" -f - print <<'END'
include Makefile
print: ; @echo $(abspath $(DEPS_DIR))
END
)
kernels=$build/aarch64/native/src/backend/cpu/gemm_neon.o
make -s -C "$top" ARCH=aarch64 BUILD="$build" CUDA= "${kernels#"$top"/}"
"$top/env/fetch-arm64.sh" --package libopenblas0-pthread "$out/openblas" "$deps"
openblas=$(find "$out/openblas" -name 'libopenblasp-*.so' | head -n 1)

count() { # NAME TILE FUNCTION FILE
    $objdump -d --no-show-raw-insn --disassemble="$3" "$4" >"$out/$3.txt"
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(awk -f "$top/tests/bench/neon.awk" "$out/$3.txt")
    [ "$3" -gt 0 ] || { echo "neon.sh: no loop with fmla in $1" >&2 && exit 1; }
    echo "$1 $2 $3 $4 $5" | awk '{printf "%-28s %-8s %5d %12d %15.2f %8.2f\n", $1, $2, $3, $4, $4 / $3, $5 / $3}'
}
printf '%-28s %-8s %5s %12s %15s %8s\n' kernel tile FMAs instructions instructions/FMA loads/FMA
count "repro,A^T" 8x12 packed_8_whole "$kernels"
count "repro,A_in_place" 8x12 in_place_8_whole "$kernels"
for core in NEOVERSEN1 NEOVERSEV1 NEOVERSEN2; do
    count "OpenBLAS,$core" 16x4 sgemm_kernel_$core "$openblas"
done
echo "OpenBLAS $(basename "$openblas" | sed 's/.*-r\(.*\)\.so/\1/') of Debian 12 packs both operands before"
