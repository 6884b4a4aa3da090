#!/bin/bash
# coverage.sh NAME LEAST DIRECTORY [LIST [ONLY]]: merges the files that PTX_COVERAGE=DIRECTORY or SASS_COVERAGE=DIRECTORY collected. NAME is what stands
# before the number of an architecture: compute_ or sm_. In these files 1 is an instruction that was executed, - one that does not count (padding), s one
# of the slow ways of divisions and roots, which need no line in LIST.
#
# A line for each kernel, "rp_add.70.80" where the architectures 70 and 80 have the same text of it: instructions that were executed, of all.
# LIST has the others: a line "PATTERN COUNT REASON" allows COUNT instructions of each kernel that the pattern of awk matches; the counts of
# several lines add up. Status 1 if a line of LIST is of no kernel, if under LEAST % of an architecture were executed, or if more
# instructions of a kernel were not executed than LIST has. ONLY: a pattern of the kernels that count.
set -u
cat "$3"/* | tr -d '\0' | awk -v name="$1" -v least="$2" -v list="${4:-/dev/null}" -v only="${5:-}" '
function both(a, b,   i, o) {
    for (i = 1; i <= length(a); i++)
        o = o (substr(a, i, 1) == "1" || substr(b, i, 1) == "1" ? "1" : substr(a, i, 1))
    return o
}
$2 !~ only { next }
{
    gsub("-", "", $4)
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
        all = length(hits[k]); done = gsub("1", "1", hits[k]); slow = gsub("s", "s", hits[k])
        kernel = k; sub(/ .*/, "", kernel)
        for (a = 1; a < 1000; a++)
            if ((k, a) in of) { kernel = kernel "." a; kernels[a]++; executed[a] += done; total[a] += all }
        for (i = 1; i <= n; i++)
            matches[i] += kernel ~ pattern[i]
        why = slow ? ": " slow " of the slow ways of divisions and roots" : ""; known = slow
        for (i = 1; i <= n && done < all; i++)
            if (kernel ~ pattern[i]) { why = why (why == "" ? ": " : "; ") reason[i]; known += count[i] }
        if (all - done > known) { why = why ": " all - done - known " WITHOUT A REASON"; bad = 1 }
        if (all - done < known) why = why " (" known " are listed)"
        printf "%-60s %6d of %6d%s\n", kernel, done, all, why | "sort"
    }
    close("sort")
    for (i = 1; i <= n; i++) # a pattern that ends with [.] is of all architectures
        if (only == "" && !matches[i] && pattern[i] ~ /\[[.]\]$/) { print list ": there is no kernel " pattern[i]; bad = 1 }
    for (a = 1; a < 1000; a++)
        if (a in archs) {
            share = 100 * executed[a] / total[a]
            printf "%s%d: %d kernels, %d of %d instructions executed (%.1f %%)\n", name, a, kernels[a], executed[a], total[a], share
            bad = bad || share < least
        }
    exit bad || NR == 0
}'
