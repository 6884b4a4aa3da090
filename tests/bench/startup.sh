#!/bin/sh
# Start-up: `repro version` beside a static program that does nothing and `python3 -c pass`.
# usage: startup.sh [BUILD]      environment: RUNS=200
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
out=$build/bench
mkdir -p "$out"
${CC:-gcc} -O2 -o "$out/startup" "$top/tests/bench/startup.c"
echo 'int main(void) { return 0; }' | ${CC:-gcc} -O2 -static -x c -o "$out/nothing" -
set -- "repro version=$build/repro version" "static program that does nothing=$out/nothing"
if command -v python3 >/dev/null; then
    set -- "$@" "python3 -c pass=python3 -c pass"
fi
"$out/startup" "${RUNS:-200}" "$@" >"$out/startup.jsonl"
awk -F '[:,}] *' 'BEGIN { printf "%-34s %10s %8s %8s\n", "program", "median ms", "min", "max" }
    { gsub(/"/, ""); printf "%-34s %10s %8s %8s\n", $2, $6, $8, $10 }' "$out/startup.jsonl"
