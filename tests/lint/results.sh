#!/bin/bash
# results/README.md is what `repro compare --layout index` makes of what lies there; the tables that others published load, with their facts.
set -eu
cd "$TOP"
"$REPRO" compare --layout index results --format md | diff -u results/README.md - ||
    { echo "results/README.md is not current: repro compare --layout index results --format md > results/README.md" && exit 1; }
! grep -q "NOT VERIFIED" results/README.md || { echo "a bundle below results/ does not verify" && exit 1; }
[ "$(grep -c '^| published/' results/README.md)" = "$(find results/published -name '*.csv' | wc -l)" ] || { echo "a table is not listed" && exit 1; }
