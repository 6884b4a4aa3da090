#!/bin/bash
# White space that every editor agrees on, and lines of at most 120 columns. Why clang-format is no judge here is said in
# .clang-format.
set -eu
cd "$TOP"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
for pattern in $'\t' ' $' $'\r'; do
    found=$(grep -nP "$pattern" src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] src/*/*.def tests/*/*.[ch] | head -n 5 || :)
    [ -z "$found" ] || { echo "tab, carriage return or blank at the end of a line:" && echo "$found" && bad=1; }
done
for file in src/*.[ch] src/*/*.[ch] src/*/*/*.[ch]; do
    [ "$(tail -c 1 "$file" | od -An -tx1)" = " 0a" ] || { echo "$file does not end with a newline" && bad=1; }
done
wider() { # COLUMNS FILE...: lines that have more
    awk -v most="$1" 'length($0) > most {print FILENAME ":" FNR ": longer than " most " columns"}' "${@:2}"
}
# Up to 160 columns: the text of device code, by whose lines compiled results are known (env/device-code.sh), and the
# macros of an interpreter, a line each.
wide='^src/backend/cuda/.*[.]cuh?$|^src/backend/cuda/kernels[.]h$|^src/ops/ops[.]h$|^tests/ptx/exec[.]c$'
find src tests -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' | sort >"$tmp/files"
mapfile -t narrow < <(grep -vE "$wide" "$tmp/files")
mapfile -t others < <(grep -E "$wide" "$tmp/files")
found=$(wider 120 "${narrow[@]}" && wider 160 "${others[@]}")
[ -z "$found" ] || { echo "$found" && bad=1; }

# Proof that the width is checked.
printf '%0121d\n' 0 >"$tmp/planted"
[ "$(wider 120 "$tmp/planted")" ] && [ "${#narrow[@]}" -gt 900 ] || { echo "a line of 121 columns was not found" && bad=1; }
exit $bad
