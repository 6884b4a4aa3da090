#!/bin/bash
# coverage.sh DIRECTORY [LIST]: merges the files that PTX_COVERAGE=DIRECTORY collected.
#
# A line for each kernel, "rp_add.70.80" where the architectures 70 and 80 have the same text of it: instructions that were executed, of all.
# LIST has the others: a line "PATTERN COUNT REASON" allows COUNT instructions of each kernel that the pattern of awk matches; the counts of
# several lines add up. Status 1 if under 97 % of an architecture were executed, or if more instructions of a kernel were not than LIST has.
set -u
cat "$1"/* | tr -d '\0' | awk -v list="${2:-/dev/null}" '
function both(a, b,   i, o) {
    for (i = 1; i <= length(a); i++)
        o = o (substr(a, i, 1) substr(b, i, 1) == "00" ? "0" : "1")
    return o
}
{
    k = $2 " " $3
    of[k, $1] = archs[$1] = 1
    if (!(k in hits)) { hits[k] = $4; next }
    if ("x" hits[k] != "x" $4) hits[k] = both(hits[k], $4) # x: else they are compared as numbers
}
END {
    while ((getline line <list) > 0)
        if (line !~ /^#/ && split(line, word) > 2) {
            pattern[++n] = word[1]; count[n] = word[2]
            reason[n] = line; sub(/^[^ ]* *[0-9]* */, "", reason[n])
        }
    for (k in hits) {
        all = length(hits[k]); done = gsub("1", "1", hits[k])
        name = k; sub(/ .*/, "", name)
        for (a = 1; a < 1000; a++)
            if ((k, a) in of) { name = name "." a; kernels[a]++; executed[a] += done; total[a] += all }
        why = ""; known = 0
        for (i = 1; i <= n && done < all; i++)
            if (name ~ pattern[i]) { why = why (why == "" ? ": " : "; ") reason[i]; known += count[i] }
        if (all - done > known) { why = why ": " all - done - known " WITHOUT A REASON"; bad = 1 }
        if (all - done < known) why = why " (" known " are listed)"
        printf "%-60s %6d of %6d%s\n", name, done, all, why | "sort"
    }
    close("sort")
    for (a = 1; a < 1000; a++)
        if (a in archs) {
            share = 100 * executed[a] / total[a]
            printf "compute_%d: %d kernels, %d of %d instructions executed (%.1f %%)\n", a, kernels[a], executed[a], total[a], share
            bad = bad || share < 97
        }
    exit bad || NR == 0
}'
