#!/bin/bash
# Every shell script and what they share pass shellcheck, with every check that .shellcheckrc does not name.
set -eu
cd "$TOP"
command -v shellcheck >/dev/null || { echo "shellcheck is not installed" && exit 77; }
find env tests src .ci -type f \( -name '*.sh' -o -name '*.inc' -o -name run -o -name repro-cc \) ! -path 'tests/fuzz/*' -print0 |
    sort -z | xargs -0 shellcheck
