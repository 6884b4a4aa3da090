#!/bin/sh
# What capture costs, by figures that hold on a busy machine too: processor time and memory of its processes. tests/bench/capture.sh
# measures how long it takes.
. "$TOP/tests/common.inc"
need jq "${CC:-gcc}"
${CC:-gcc} -O2 -o startup "$TOP/tests/bench/startup.c"
(cd "$TOP" && "$OLDPWD/startup" 5 "everything=$REPRO capture --json" "page=$REPRO capture" \
    "three=$REPRO capture --json --probe cpu,memory,kernel") >figures.jsonl
cat figures.jsonl
# 165, 165 and 4 ms of a Xeon; a processor whose other thread is busy takes up to twice as many for the same work
jq -s -e '.[0].cpu_ms <= 400 and .[1].cpu_ms <= 400 and .[2].cpu_ms <= 50' figures.jsonl >answer.txt || fail "capture takes too long"
# The kernel maps whole runs of the program's file that are in its cache, up to all of it; repro-gpu, unpacked in memory, is 13 MiB.
jq -s -e --argjson file "$(($(stat -c %s "$REPRO") / 1024))" 'all(.rss_kib <= 26 * 1024 + $file)' figures.jsonl >answer.txt || fail "capture takes too much memory"
