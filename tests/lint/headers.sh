#!/bin/bash
# Every header compiles alone, and twice by `#pragma once`. A header named *.inc.h is a text for a kernel file and is exempt, and one that its
# own .c file includes first compiles alone whenever that does.
. "$TEST_DIR/sources.inc"
bad=0
for header in $(here src/*/*.h src/*/*/*.h); do
    case $header in *.inc.h) continue ;; esac
    grep -qx '#pragma once' "$header" || { echo "$header has no #pragma once" && bad=1; }
    ! grep -m 1 '^#include' "${header%h}c" 2>/dev/null | grep -qxF "#include \"${header#src/}\"" || continue
    # shellcheck disable=SC2046,SC2086
    printf '#include "%s"\n#include "%s"\n' "${header#src/}" "${header#src/}" |
        gcc $(options "$header") $warnings -Wno-unused-function -fsyntax-only -x c - || { echo "$header does not compile alone" && bad=1; }
done
exit $bad
