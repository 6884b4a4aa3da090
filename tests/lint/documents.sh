#!/bin/bash
# What is generated equals what is written: README.md names every command, every recipe and no make target that does not
# exist. It has at most 150 lines, code of 100 columns and table cells of 120, which web pages show without a scroll bar.
set -eu
cd "$TOP"
[ -f README.md ] || { echo "there is no README.md" && exit 1; }
bad=0
for command in $("$REPRO" help --json | jq -r '.commands[].name' | cut -d' ' -f1 | sort -u); do
    case $command in help) continue ;; esac
    grep -qwE "repro[ \`]+$command|\`$command" README.md || { echo "README.md does not mention the command '$command'" && bad=1; }
done
while read -r _ target; do
    grep -qE "^$target:|^\.PHONY:.* $target( |\$)" Makefile env/goals.mk || { echo "the documents say 'make $target', which does not exist" && bad=1; }
done < <(grep -ohE '\bmake [a-z-]+' README.md src/README.md | sort -u)
awk -F'|' '
    function bad(what) { print "README.md:" FNR ": " what; failed = 1 }
    /^```/ { code = !code; next }
    code && length > 100 { bad("a line of code of " length " columns; at most 100") }
    !code && /^\|/ { for (i = 2; i < NF; i++) if (length($i) > 122) bad("a table cell of " length($i) - 2 " characters; at most 120") }
    END { if (FNR > 150) bad(FNR " lines; at most 150"); exit failed }' README.md || bad=1
for recipe in recipes/*.yaml; do
    name=$(basename "$recipe" .yaml)
    "$REPRO" recipes show "$name" | cmp -s - "$recipe" || { echo "'repro recipes show $name' is not $recipe" && bad=1; }
done
exit $bad
