#!/bin/bash
# Every shell script and what they share pass shellcheck, with every check that .shellcheckrc does not name. A script that has passed is checked
# again when it, the settings, any *.inc or shellcheck itself is another: BUILD/lint/shellcheck has a line for each that passed.
# exhaustive
set -euo pipefail
cd "$TOP"
command -v shellcheck >/dev/null || { echo "shellcheck is not installed" && exit 77; }
passed=$BUILD/lint/shellcheck
mkdir -p "$BUILD/lint"
touch "$passed"
find env tests src .ci -type f \( -name '*.sh' -o -name '*.inc' -o -name run -o -name repro-cc \) ! -path 'tests/fuzz/*' | sort >"$HOME/files.txt"
[ "$(wc -l <"$HOME/files.txt")" -gt 100 ] || { echo "only $(wc -l <"$HOME/files.txt") scripts" && exit 1; }
shared=$({ shellcheck --version && cat .shellcheckrc && grep '\.inc$' "$HOME/files.txt" | xargs cat; } | sha256sum | cut -d' ' -f1)
xargs sha256sum <"$HOME/files.txt" | sed "s/^/$shared /" >"$HOME/keys.txt"
grep -vxFf "$passed" "$HOME/keys.txt" >"$HOME/new.txt" || :
cut -d' ' -f4- "$HOME/new.txt" | xargs -r -n 4 -P "$(nproc)" shellcheck
cp "$HOME/keys.txt" "$passed"
