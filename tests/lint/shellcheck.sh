#!/bin/bash
# Every shell script passes shellcheck.
set -eu
cd "$TOP"
command -v shellcheck >/dev/null || { echo "shellcheck is not installed" && exit 77; }
{
    find env tests src .ci -type f \( -name '*.sh' -o -name 'run' -o -name 'repro-cc' \) ! -path '*/cli/*'
} | sort | xargs shellcheck -S warning
find tests/cli -name '*.sh' | sort | xargs shellcheck -S warning -e SC1090,SC1091,SC2010,SC2034,SC2154
