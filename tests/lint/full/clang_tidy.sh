#!/bin/bash
# clang-tidy, with the checks of .clang-tidy.
# timeout: 1800
set -eu
cd "$TOP"
command -v clang-tidy >/dev/null || { echo "clang-tidy is not installed" && exit 77; }
isa() {
    case $1 in
    *_avx2.c) echo -mavx2 -mfma -mf16c ;;
    *_avx512.c) echo -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma ;;
    esac
}
export -f isa
printf '%s\n' src/*.c src/*/*.c src/*/*/*.c | xargs -P "${JOBS:-2}" -I {} bash -c \
    'clang-tidy --quiet "$1" -- -std=gnu11 -D_GNU_SOURCE -Isrc -I. $(isa "$1") 2>/dev/null || { echo "$1: clang-tidy objects" && exit 1; }' tidy {}
