#!/bin/bash
# Every shell script and what they share pass shellcheck, with every check that .shellcheckrc does not name. A script that has passed is checked
# again when it, the settings, any *.inc or shellcheck itself is another: BUILD/lint/shellcheck has a line for each that passed.
# exhaustive
set -euo pipefail
cd "$TOP"
command -v shellcheck >/dev/null || { echo "shellcheck is not installed" && exit 77; }
passed=$BUILD/lint/shellcheck
mkdir -p "$BUILD/lint" "$HOME/short"
touch "$passed"
find env tests src .ci -type f \( -name '*.sh' -o -name '*.inc' -o -name run -o -name repro-cc \) ! -path 'tests/fuzz/*' | sort >"$HOME/files.txt"
[ "$(wc -l <"$HOME/files.txt")" -gt 100 ] || { echo "only $(wc -l <"$HOME/files.txt") scripts" && exit 1; }
shared=$({ shellcheck --version && cat .shellcheckrc "$0" && grep '\.inc$' "$HOME/files.txt" | xargs cat; } | sha256sum | cut -d' ' -f1)
xargs sha256sum <"$HOME/files.txt" | sed "s/^/$shared /" >"$HOME/keys.txt"
grep -vxFf "$passed" "$HOME/keys.txt" | cut -d' ' -f4- >"$HOME/new.txt" || :
# Each *.inc is checked as it is. Half of the time would go to them again for each script that includes them: those are checked where of an
# *.inc there are only its settings, its functions without what they do, and the variables it has.
{ grep '\.inc$' "$HOME/new.txt" || :; } | xargs -r -n 4 -P "$(nproc)" shellcheck
xargs cp --parents -t "$HOME/short" .shellcheckrc <"$HOME/files.txt"
grep '\.inc$' "$HOME/files.txt" | while read -r inc; do
    awk '/^(# shellcheck|set -|\. )/ {print; next}
        /^ *#/ {next}
        match($0, /^[a-z_0-9]+\(\) /) {print substr($0, 1, RLENGTH) "{ :; }"}
        {
            while (match($0, /\$\{?[A-Za-z_][A-Za-z_0-9]*|[a-z_][a-z_0-9]*\+?=|for [a-z_]+/)) {
                name = substr($0, RSTART, RLENGTH)
                $0 = substr($0, RSTART + RLENGTH)
                gsub(/^(\$\{?|for )|\+?=$/, "", name)
                if (!seen[name]++) all = all " " name "="
            }
        }
        END {if (all) print "export" all}' "$inc" >"$HOME/short/$inc"
done
cd "$HOME/short"
{ grep -v '\.inc$' "$HOME/new.txt" || :; } | xargs -r -n 4 -P "$(nproc)" shellcheck
cp "$HOME/keys.txt" "$passed"
