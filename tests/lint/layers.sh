#!/bin/bash
# Includes point one way: a folder includes itself and the folders above it in the list `layers` of src/README.md.
set -eu
cd "$TOP"
layers=$(awk '/^```layers$/ {on = 1; next} /^```/ {on = 0} on' src/README.md)
[ "$(wc -l <<<"$layers")" -ge 10 ] || { echo "src/README.md has no fenced block 'layers'" && exit 1; }
# First the names of all files, then their text.
find src -name '*.[ch]' -o -name '*.def' -o -name '*.cuh' | awk -v list="$layers" '
    BEGIN { n = split(list, folder, "\n"); for (i = 1; i <= n; i++) number[folder[i]] = i }
    FILENAME == "-" { exists[$0] = 1; if (split($0, part, "/") > 2) ARGV[ARGC++] = $0; next }
    FNR == 1 {
        split(FILENAME, part, "/")
        from = part[2]
        if (!(from in number)) { print FILENAME ": the folder \"" from "\" is not in the list of src/README.md"; bad = 1; nextfile }
    }
    /^ *# *include *"/ {
        split($0, part, "\"")
        include = part[2]
        to = include
        sub(/\/.*/, "", to)
        checked++
        if (include !~ /\// || !("src/" include in exists)) {
            print FILENAME ":" FNR ": \"" include "\" is not a path below src/"
            bad = 1
        } else if (number[to] > number[from]) {
            print FILENAME ":" FNR ": " from " may not include " to ": it comes later in the list of src/README.md"
            bad = 1
        }
    }
    END {
        if (checked <= 100) { print "only " checked + 0 " includes seen: this check is broken"; bad = 1 }
        exit bad
    }' -
