#!/bin/sh
# What a reader waits for: `verify` of large bundles against `openssl dgst -sha256` over the same file, both on one core, in turns;
# `compare` of 1,000 bundles on all cores; `report` of one. The aims: 0.9x the speed of openssl where bytes only have to be hashed, 64 MiB,
# 10 s, 500 ms. About two minutes, and 300 MB below BUILD/bench.
# usage: verify.sh [BUILD]      environment: RUNS=9 (of verify; a third of it for compare), BUNDLES=1000, MIB=100, RECORDS=280000
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
out=$build/bench
work=$out/verify
runs=${RUNS:-9}
bundles=${BUNDLES:-1000}
core=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
generator=$build/native/tests/bench/bundle_gen
rm -rf "$work"
mkdir -p "$work/many"
${CC:-gcc} -O2 -o "$out/startup" "$top/tests/bench/startup.c"
cd "$work"

# Real ones: a tiny model trained with a few seeds, then copies that take turns.
seeds=4
for seed in $(seq $seeds); do
    "$build/repro" run bert_tiny_fp32 --set seed.init="$seed" -o "seed$seed.repro.tar.zst" >run.log 2>&1 || {
        cat run.log >&2
        exit 1
    }
done
for i in $(seq "$bundles"); do
    cp "seed$((i % seeds + 1)).repro.tar.zst" "many/$i.repro.tar.zst"
done
"$generator" bytes.repro.tar.zst bytes "${MIB:-100}"
"$generator" records.repro.tar.zst records "${RECORDS:-280000}"
printf '#!/bin/sh\nexec "%s" compare many/*.repro.tar.zst\n' "$build/repro" >compare # as it is typed: the shell lists the files
chmod +x compare

measure() { # RUNS NAME=COMMAND...: one JSON line for each
    "$out/startup" "$@" >>"$out/verify.jsonl"
}
: >"$out/verify.jsonl"
for what in bytes records; do
    file=$what.repro.tar.zst
    measure "$runs" "$what, openssl=taskset -c $core openssl dgst -sha256 $file" "$what, verify=taskset -c $core $build/repro verify --any-key $file"
done
measure $((runs / 3 + 1)) "$bundles bundles, compare=./compare"
measure "$runs" "one bundle, verify=$build/repro verify seed1.repro.tar.zst" \
    "one bundle, report=$build/repro report seed1.repro.tar.zst --force -o page.html"
awk -F '"who": "|", "runs": |, "[a-z_]*": |}' '
    BEGIN { printf "%-24s %10s %9s %9s %9s %8s %8s\n", "what", "median ms", "min", "max", "CPU ms", "MiB", "speed" }
    {
        speed = ""
        if ($2 ~ /, openssl$/) ours = $4
        else if (ours) { speed = sprintf("%.2fx", ours / $4); ours = 0 }
        printf "%-24s %10s %9s %9s %9s %8.1f %8s\n", $2, $4, $5, $6, $7, $8 / 1024, speed
    }' "$out/verify.jsonl"
rm -rf "$work"
