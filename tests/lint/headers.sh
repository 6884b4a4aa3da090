#!/bin/bash
# Every header compiles alone, and twice. A header named *.inc.h is a text for a kernel file and is exempt.
set -eu
cd "$TOP"
bad=0
for header in src/*/*.h src/*/*/*.h; do
    case $header in *.inc.h) continue ;; esac
    printf '#include "%s"\n#include "%s"\n' "${header#src/}" "${header#src/}" |
        gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma \
            -Isrc -fsyntax-only -x c - || { echo "$header does not compile alone" && bad=1; }
done
exit $bad
