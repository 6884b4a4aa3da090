#!/bin/bash
# cppcheck: warnings, performance, portability.
# timeout: 1800
set -eu
cd "$TOP"
command -v cppcheck >/dev/null || { echo "cppcheck is not installed" && exit 77; }
cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --std=c11 --inline-suppr -j "${JOBS:-2}" -D__x86_64__ -D__GNUC__ \
    --suppress=missingInclude --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=internalAstError -Isrc -I. src
