#!/bin/bash
# coverage.sh DIRECTORY [LIST]: merges the files that PTX_COVERAGE=DIRECTORY collected.
#
# A line for each kernel of each architecture: instructions that were executed, of all. LIST has the others: a line "PATTERN COUNT REASON" allows
# COUNT instructions of each kernel "compute_80 rp_add" that the pattern of awk matches; the counts of several lines add up. Status 1 if under
# 97 % were executed, or if more instructions of a kernel were not than LIST has.
set -u
cat "$1"/* | tr -d '\0' | awk -v list="${2:-/dev/null}" '
function both(a, b,   i, o) {
    for (i = 1; i <= length(a); i++)
        o = o (substr(a, i, 1) substr(b, i, 1) == "00" ? "0" : "1")
    return o
}
{
    k = $1 " " $2
    if (!(k in hits)) { hits[k] = $3; next }
    if ("x" hits[k] != "x" $3) hits[k] = both(hits[k], $3) # x: else they are compared as numbers
}
END {
    while ((getline line <list) > 0)
        if (line !~ /^#/ && split(line, word) > 2) {
            pattern[++n] = word[1]; count[n] = word[2]
            reason[n] = line; sub(/^[^ ]* *[0-9]* */, "", reason[n])
        }
    for (k in hits) {
        all = length(hits[k]); done = gsub("1", "1", hits[k]); total += all; executed += done; kernels++
        why = ""; known = 0
        for (i = 1; i <= n && done < all; i++)
            if (k ~ pattern[i]) { why = why (why == "" ? ": " : "; ") reason[i]; known += count[i]; }
        if (all - done > known) { why = why ": " all - done - known " WITHOUT A REASON"; bad = 1 }
        if (all - done < known) why = why " (" known " are listed)"
        printf "%-46s %6d of %6d%s\n", k, done, all, why | "sort"
    }
    close("sort")
    share = total ? 100 * executed / total : 0
    printf "%d kernels, %d of %d instructions executed (%.1f %%)\n", kernels, executed, total, share
    exit !(share >= 97 && !bad)
}'
