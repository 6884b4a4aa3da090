#!/bin/bash
# Every shell script and what they share pass shellcheck, with every check that .shellcheckrc does not name. A script that has passed is checked
# again when it, the settings, any *.inc or shellcheck itself is another: BUILD/lint/shellcheck has a line for each that passed.
# Two thirds of the time would go to functions of *.inc that a script does not call, again for each script that includes them: it is checked in a
# directory where the *.inc are without these. Each *.inc is also checked itself, whole.
# exhaustive
set -euo pipefail
cd "$TOP"
command -v shellcheck >/dev/null || { echo "shellcheck is not installed" && exit 77; }
passed=$BUILD/lint/shellcheck
mkdir -p "$BUILD/lint"
touch "$passed"
find env tests src .ci -type f \( -name '*.sh' -o -name '*.inc' -o -name run -o -name repro-cc \) ! -path 'tests/fuzz/*' | sort >"$HOME/files.txt"
[ "$(wc -l <"$HOME/files.txt")" -gt 100 ] || { echo "only $(wc -l <"$HOME/files.txt") scripts" && exit 1; }
shared=$({ shellcheck --version && cat .shellcheckrc "$0" && grep '\.inc$' "$HOME/files.txt" | xargs cat; } | sha256sum | cut -d' ' -f1)
xargs sha256sum <"$HOME/files.txt" | sed "s/^/$shared /" >"$HOME/keys.txt"
grep -vxFf "$passed" "$HOME/keys.txt" | cut -d' ' -f4- >"$HOME/new.txt" || :
xargs -r grep -LE '^\. "\$(TOP|top|TEST_DIR)/.*\.inc"' <"$HOME/new.txt" >"$HOME/alone.txt" || :
grep -e '\.inc$' "$HOME/new.txt" >>"$HOME/alone.txt" || :
sort -u -o "$HOME/alone.txt" "$HOME/alone.txt"
grep -vxFf "$HOME/alone.txt" "$HOME/new.txt" >"$HOME/including.txt" || :

# HOME/SCRIPT.d/SCRIPT, and each *.inc that it includes at its place below HOME/SCRIPT.d, with the functions whose names stand in the script or in
# what is kept of the *.inc. A function ends with its line, or with } or ) at the begin of one; comments belong to what follows them.
awk -v home="$HOME" '
    function load(file,    line, open, text) { # its parts: name[file, i], the function or "", and what[file, i]
        parts[file] = 0
        while ((getline line <file) > 0) {
            text = text line "\n"
            if (!open && line ~ /^[a-z_0-9]+\(\) [{(]/) {
                name[file, parts[file] + 1] = substr(line, 1, index(line, "(") - 1)
                open = line !~ /[})]$/
            } else if (open) {
                open = line !~ /^[})]/
            } else if (line ~ /^#/ && line !~ /shellcheck shell=/) {
                continue
            }
            if (open) continue
            what[file, ++parts[file]] = text
            text = ""
        }
        close(file)
    }
    function use(text,    n, word, file) { # what is named and included in it
        for (n = split(text, word, /[^A-Za-z0-9_]+/); n; n--) said[word[n]]
        while (match(text, /\. "\$(TOP|top|TEST_DIR)\/[^"]*\.inc"/)) {
            file = substr(text, RSTART + 4, RLENGTH - 5)
            text = substr(text, RSTART + RLENGTH)
            sub(/^(TOP|top)\//, "", file)
            sub(/^TEST_DIR/, folder, file)
            while (sub(/[^\/]+\/\.\.\//, "", file)) continue
            if (!(file in parts)) load(file)
            included[file]
        }
    }
    function put(path, text,    at) {
        out[path] = text
        at = path
        sub(/\/[^\/]*$/, "", at)
        directories = directories " " at
    }
    {
        body = ""
        while ((getline line <$0) > 0) body = body line "\n"
        close($0)
        folder = $0
        sub(/\/[^\/]*$/, "", folder)
        delete said
        delete included
        delete kept
        use(body)
        do {
            more = 0
            for (file in included)
                for (i = 1; i <= parts[file]; i++)
                    if (!((file, i) in kept) && (name[file, i] == "" || name[file, i] in said)) {
                        kept[file, i]
                        use(what[file, i])
                        more = 1
                    }
        } while (more)
        put(home "/" $0 ".d/" $0, body)
        for (file in included) {
            text = ""
            for (i = 1; i <= parts[file]; i++) if ((file, i) in kept) text = text what[file, i]
            put(home "/" $0 ".d/" file, text)
        }
    }
    END {
        print directories | "xargs mkdir -p"
        close("xargs mkdir -p")
        for (path in out) {
            printf "%s", out[path] >path
            close(path)
        }
    }' "$HOME/including.txt"
cp .shellcheckrc "$HOME/"
# shellcheck disable=SC2317 # called by xargs
check() { # SCRIPT
    cd "$HOME/$1.d" && shellcheck "$1"
}
export -f check
xargs -r -n 1 -P "$(nproc)" bash -c 'check "$0"' <"$HOME/including.txt"
xargs -r -n 1 -P "$(nproc)" shellcheck <"$HOME/alone.txt"
cp "$HOME/keys.txt" "$passed"
