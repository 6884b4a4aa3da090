#!/bin/bash
# coverage.sh DIRECTORY [REASONS]: what the files of PTX_COVERAGE in DIRECTORY say together.
#
# A line for each kernel of each architecture: instructions that were executed, of all. REASONS names kernels that have others, by a pattern of
# awk, and why: "PATTERN REASON". Status 1 if under 97 % were executed, or if a kernel without a reason has instructions that were not.
set -u
cat "$1"/* | tr -d '\0' | awk -v reasons="${2:-/dev/null}" '
function both(a, b,   i, o) {
    for (i = 1; i <= length(a); i++)
        o = o (substr(a, i, 1) substr(b, i, 1) == "00" ? "0" : "1")
    return o
}
{
    k = $1 " " $2
    if (!(k in hits)) { hits[k] = $3; next }
    if (hits[k] != $3) hits[k] = both(hits[k], $3)
}
END {
    while ((getline line <reasons) > 0)
        if (line !~ /^#/ && line != "") { n++; pattern[n] = line; sub(/ .*/, "", pattern[n]); reason[n] = line; sub(/^[^ ]* */, "", reason[n]) }
    for (k in hits) {
        all = length(hits[k]); done = gsub("1", "1", hits[k]); total += all; executed += done; kernels++
        why = ""
        for (i = 1; i <= n && done < all; i++) if (k ~ pattern[i]) { why = reason[i]; used[i] = 1; break }
        if (done < all && why == "") { why = "NO REASON IS KNOWN"; bad = 1 }
        printf "%-46s %6d of %6d%s\n", k, done, all, why == "" ? "" : ": " why | "sort"
    }
    close("sort")
    share = total ? 100 * executed / total : 0
    printf "%d kernels, %d of %d instructions executed (%.1f %%)\n", kernels, executed, total, share
    exit !(share >= 97 && !bad)
}'
