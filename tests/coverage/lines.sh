#!/bin/bash
# The lines of src/ that no test of `make coverage` reached, by file, those with most of them first.
# usage: make coverage [T=PATTERN] [RANGES=1], or tests/coverage/lines.sh BUILD [RANGES] after the tests
# A refusal is a line that fails with a message (rp_fail() and what is named after it). A line of a header that several files include
# is reached if one of them reaches it. With RANGES the numbers of the lines follow each file, and those of refusals have a "!".
set -euo pipefail
build=$1
ranges=${2:-}
notes_of() { # of sources that are still there
    local notes source
    while IFS= read -r notes; do
        source=${notes#"$build/coverage/"}
        [ ! -f "${source%.gcno}.c" ] || printf '%s\0' "$notes"
    done < <(find "$build/coverage/src" -name '*.gcno' | sort)
}
notes_of | xargs -0 gcov --stdout 2>"$build/coverage/gcov.err" |
    awk -v ranges="$ranges" '
    { split($0, part, ":"); count = part[1]; line = part[2] + 0; gsub(/ /, "", count) }
    line == 0 { if (part[3] == "Source") file = part[4]; next }
    file !~ /^src\// || count == "-" { next }
    { id = file SUBSEP line; refusal = /[^a-z_]rp_(lines_)?fail(_[a-z]+)?\(/ }
    !(id in seen) { seen[id] = 1; lines[file]++; refusals[file] += refusal; if (line > last[file]) last[file] = line }
    refusal { refuses[id] = 1 }
    count !~ /^[#=]/ { reached[id] = 1 }
    END {
        for (file in lines) {
            never = unrefused = 0; text = ""; first = 0
            for (line = 1; line <= last[file] + 1; line++) {
                id = file SUBSEP line
                if (id in seen && !(id in reached)) {
                    never++
                    if (id in refuses) { unrefused++; mark = "!" }
                    if (!first) first = line
                    end = line
                } else if (first && (id in seen || line > last[file])) { # lines without code do not end a range
                    text = text " " first (end > first ? "-" end : "") mark
                    first = 0; mark = ""
                }
            }
            all += lines[file]; of_all += never; all_refusals += refusals[file]; of_refusals += unrefused
            printf "%6d %6d %8d %8d  %s%s\n", never, lines[file], unrefused, refusals[file], file, ranges && text ? ":" text : "" | "sort -k1,1nr -k5"
        }
        close("sort -k1,1nr -k5")
        printf "%6d %6d %8d %8d  all\n", of_all, all, of_refusals, all_refusals
    }' | { printf '%6s %6s %8s %8s\n' never lines never refusals && cat; }
