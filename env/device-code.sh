#!/bin/bash
# Compile one file of device code for one architecture.
#
#   env/device-code.sh ARCH SOURCE OUT [-DNAME=VALUE]...
#   env/device-code.sh --keys "ARCH..." SOURCE...
#
# The second form prints "ARCH NAME KEY" of what would be compiled: equal keys mean equal code
# (tests/build/device_code.keys).
# ARCH is sm_90 or sm_90a (a cubin), or compute_100 (PTX). Beside OUT come OUT.txt, what the compiler and ptxas said, and OUT.d for make.
# From the environment: NVCC, the compiler, or NVRTC="TOOL LIBRARY" (env/gpu/nvrtc.c); RP_GCC; RP_DEVICE_CACHE, a directory in which
# results are kept: the matrix kernels take minutes for all architectures, and most builds and checkouts compile the same text. The
# key covers the text as the preprocessor leaves it, so that a comment costs nothing, the flags and the compiler. NVRTC makes the PTX of
# compute_90 on the way to machine code for sm_90; it is kept too.
set -euo pipefail
# One rounding for each operator that is written; tests/cuda/test_device_code.c reads what came of it.
flags="-std=c++17 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Isrc -I."
if [ -n "${NVCC:-}" ]; then
    compiler=$("$NVCC" --version)
    own=
else
    read -r tool library <<<"$NVRTC"
    compiler=$(grep '^nvidia-cuda-nvrtc' "${library%/lib/*}/sources.txt")
    own=-D__CUDACC_RTC__
fi
text() { # ARCH SOURCE OPTION...: as the preprocessor leaves it
    local number=${1#*_}
    # shellcheck disable=SC2086
    "${RP_GCC:-gcc}" -E -P -x c -D__CUDACC__ $own -D__CUDA_ARCH__="${number%a}0" -Isrc -I. "${@:3}" "$2"
}
key() { # ARCH, of standard input
    { printf '%s\n' "$1" "$flags" "$compiler" && cat; } | sha256sum | cut -c 1-32
}
if [ "$1" = --keys ]; then
    for arch in $2; do
        for source in "${@:3}"; do
            name=${source##*/}
            echo "$arch ${name%.cu} $(text "$arch" "$source" | key "$arch")"
        done
    done
    exit
fi
arch=$1 source=$2 out=$3
shift 3
tmp=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

compile() {
    local kind=-ptx
    [ "${arch#sm_}" = "$arch" ] || kind=-cubin
    # shellcheck disable=SC2086
    if [ -n "${NVCC:-}" ]; then
        "$NVCC" $flags "$@" -arch="$arch" -Xptxas=-v $kind -o "$tmp/code" "$source" >"$tmp/said" 2>&1
    else
        "$tool" "$library" "$arch" "$source" "$tmp/code" -$flags "$@" --ptxas-options=-v >"$tmp/said"
    fi
}
keep() { # DIRECTORY CODE SAID: whole or not at all
    local new
    mkdir -p "${1%/*}"
    new=$(mktemp -d "${1%/*}/.new.XXXXXX")
    cp "$2" "$new/code"
    cp "$3" "$new/said"
    mv -T "$new" "$1" 2>/dev/null || rm -rf "$new"
    find "${1%/*}" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} + 2>/dev/null || :
}

text "$arch" "$source" "$@" -MMD -MP -MT "$out" -MF "$tmp/d" -o "$tmp/text"
key=$(key "$arch" <"$tmp/text")
kept=${RP_DEVICE_CACHE:+$RP_DEVICE_CACHE/$key}
if [ -n "$kept" ] && [ -e "$kept" ]; then
    touch "$kept"
    cp "$kept/code" "$kept/said" "$tmp/"
else
    compile "$@" || { cat "$tmp/said" >&2 && echo "device-code: $source does not compile for $arch" >&2 && exit 1; }
    if [ -n "$kept" ] && [ -e "$tmp/code.ptx" ]; then
        sed '/^ptxas/,$d' "$tmp/said" >"$tmp/said.ptx"
        keep "$RP_DEVICE_CACHE/$(key "compute_${arch#sm_}" <"$tmp/text")" "$tmp/code.ptx" "$tmp/said.ptx"
    fi
    sed -i '/Compile time/d; s/^ptxas *\. */    /' "$tmp/said" # times differ
    [ -z "$kept" ] || keep "$kept" "$tmp/code" "$tmp/said"
fi
mv "$tmp/d" "$out.d"
mv "$tmp/said" "$out.txt"
mv "$tmp/code" "$out"
