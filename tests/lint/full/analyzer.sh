#!/bin/bash
# gcc -fanalyzer and the warnings of the build as errors.
# timeout: 1800
set -eu
cd "$TOP"
isa() {
    case $1 in
    *_avx2.c) echo -mavx2 -mfma -mf16c ;;
    *_avx512.c) echo -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512 ;;
    esac
}
export -f isa
# Left out: two checks of gcc 12 that do not follow the cleanup attribute and owner transfer, and one that sees no test of the result.
printf '%s\n' src/*.c src/*/*.c src/*/*/*.c | xargs -P "${JOBS:-2}" -I {} bash -c \
    'gcc -std=gnu11 -O2 -ffp-contract=off -D_GNU_SOURCE -Isrc -I. $(isa "$1") -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes \
        -Wformat=2 -Wundef -Werror -fanalyzer -Wno-format-truncation -Wno-analyzer-malloc-leak -Wno-analyzer-fd-leak -c "$1" -o /dev/null' gcc {}
