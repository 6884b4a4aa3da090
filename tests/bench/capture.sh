#!/bin/sh
# Capture: all of it, three probes, and every probe alone. The aims: 300 ms, 50 ms, 32 MiB, without a GPU.
# usage: capture.sh [BUILD]      environment: RUNS=20
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
out=$build/bench
mkdir -p "$out"
cd "$top" # the repository whose state is captured
${CC:-gcc} -O2 -o "$out/startup" "$top/tests/bench/startup.c"
"$out/startup" "${RUNS:-20}" "everything=$build/repro capture --json" "page=$build/repro capture" \
    "cpu,memory,kernel=$build/repro capture --json --probe cpu,memory,kernel" >"$out/capture.jsonl"
sed -n 's/^PROBE(\([a-z_]*\)).*/\1/p' "$top/src/capture/probes.def" | while read -r probe; do
    "$out/startup" "${RUNS:-20}" "$probe=$build/repro capture --json --probe $probe"
done >>"$out/capture.jsonl"
awk -F '"who": "|", "runs": |, "[a-z_]*": |}' '
    BEGIN { printf "%-20s %10s %8s %8s %8s %8s\n", "probes", "median ms", "min", "max", "CPU ms", "MiB" }
    { printf "%-20s %10s %8s %8s %8s %8.1f\n", $2, $4, $5, $6, $7, $8 / 1024 }' "$out/capture.jsonl"
