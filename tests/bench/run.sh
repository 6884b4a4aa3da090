#!/bin/sh
# Every benchmark, one after the other; `make bench` calls it on a machine that has nothing else to do.
# usage: run.sh [BUILD]      raw records and tables: BUILD/bench; environment as in the single scripts
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
mkdir -p "$build/bench"
table=$build/bench/table.txt
{
    echo "commit $("$build/repro" version --json | sed -n 's/.*"commit": "\([^"]*\)".*/\1/p')"
    sed -n 's/^model name[[:space:]]*: /processor /p' /proc/cpuinfo | head -n 1
    echo "processors $(nproc), load before $(cut -d' ' -f1 /proc/loadavg)"
} >"$table"
for bench in limits startup capture verify ranks scaling gemm neon 'training bert' 'training gpt' 'training resnet50' 'training amp' attention conv images; do
    echo "bench: $bench (some minutes; so far in $table)" >&2
    printf '\n== %s ==\n' "$bench" >>"$table"
    # shellcheck disable=SC2086
    "$here/${bench%% *}.sh" ${bench#"${bench%% *}"} "$build" >>"$table" 2>"$build/bench/${bench##* }.err" || {
        cat "$build/bench/${bench##* }.err" >&2
        exit 1
    }
done
cat "$table"
