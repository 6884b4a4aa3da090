#!/bin/bash
# White space that every editor agrees on, and the width of 150. Why clang-format is no judge here is said in .clang-format.
set -eu
cd "$TOP"
bad=0
for pattern in $'\t' ' $' $'\r'; do
    found=$(grep -nP "$pattern" src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] src/*/*.def tests/*/*.[ch] | head -n 5 || :)
    [ -z "$found" ] || { echo "tab, carriage return or blank at the end of a line:" && echo "$found" && bad=1; }
done
for file in src/*.[ch] src/*/*.[ch] src/*/*/*.[ch]; do
    [ "$(tail -c 1 "$file" | od -An -tx1)" = " 0a" ] || { echo "$file does not end with a newline" && bad=1; }
    awk -v f="$file" 'length($0) > 150 {print f ":" NR ": longer than 150 characters"; bad = 1} END {exit bad}' "$file" || bad=1
done
exit $bad
