#!/bin/bash
# Includes point one way: a folder includes itself and the folders above it in the list `layers` of src/README.md.
set -eu
cd "$TOP"
layers=$(awk '/^```layers$/ {on = 1; next} /^```/ {on = 0} on' src/README.md)
[ "$(wc -l <<<"$layers")" -ge 10 ] || { echo "src/README.md has no fenced block 'layers'" && exit 1; }
number() { grep -nxF "$1" <<<"$layers" | cut -d: -f1; }
bad=0
checked=0
for file in src/*/*.[ch] src/*/*/*.[ch] src/*/*.def src/*/*/*.def; do
    [ -f "$file" ] || continue
    from=${file#src/}
    from=${from%%/*}
    here=$(number "$from")
    [ -n "$here" ] || { echo "$file: the folder '$from' is not in the list of src/README.md" && bad=1 && continue; }
    while IFS=: read -r line include; do
        to=${include%%/*}
        there=$(number "$to")
        checked=$((checked + 1))
        if [[ $include != */* ]] || [ ! -f "src/$include" ]; then
            echo "$file:$line: \"$include\" is not a path below src/"
            bad=1
        elif [ "$there" -gt "$here" ]; then
            echo "$file:$line: $from may not include $to: it comes later in the list of src/README.md"
            bad=1
        fi
    done < <(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p;=' "$file" | awk '/^[0-9]+$/ {n = $0; if (text != "") print n ":" text; text = ""; next} {text = $0}')
done
[ $checked -gt 100 ] || { echo "only $checked includes seen: this check is broken" && exit 1; }
exit $bad
