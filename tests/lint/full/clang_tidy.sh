#!/bin/bash
# clang-tidy, with the checks of .clang-tidy.
# timeout: 1800
. "$TEST_DIR/../sources.inc"
command -v clang-tidy >/dev/null || { echo "clang-tidy is not installed" && exit 77; }
here src/*.c src/*/*.c src/*/*/*.c | xargs -P "${JOBS:-2}" -I {} bash -c \
    'clang-tidy --quiet "$1" -- $(options "$1") 2>/dev/null || { echo "$1: clang-tidy objects" && exit 1; }' tidy {}
