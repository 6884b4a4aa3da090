#!/bin/bash
# Two ranks of one thread against one rank of two threads: the same micro-batches, in turns, so that a drifting clock or a busy neighbour meets
# both. The aim: 0.95x. What the exchange costs beyond its bytes: against the same bytes through shared memory, and memcpy of them, measured in
# the same round. Then TLS between two hosts (network namespaces, as root) against plain TCP.
# usage: scaling.sh [BUILD]      environment: RECIPE=bert_fp32 BATCH=32 ROUNDS=5 STEPS=2 (timed, of each run) MIB=256
# The table goes to standard output, raw records to BUILD/bench/scaling.jsonl: one object per run, with the load of the machine before it.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
out=$build/bench/scaling
recipe=${RECIPE:-bert_fp32} batch=${BATCH:-32} rounds=${ROUNDS:-5} steps=${STEPS:-2}
mkdir -p "$out"
[ -e "$out/key.pem" ] || "$build/repro" key new -o "$out/key.pem" >"$out/key.txt"
raw=$build/bench/scaling.jsonl
: >"$raw"

TIMEFORMAT='%U + %S'
train() { # ROUND RANKS THREADS
    local bundle=$out/$2x$3.repro.tar.zst load status=0
    load=$(cut -d' ' -f1 /proc/loadavg)
    { time "$build/repro" run "$recipe" --batch-size "$batch" --set train.accumulation_steps=2 --ranks "$2" --threads "$3" --no-ledger --key "$out/key.pem" \
        --set measure.ceilings=false --set measure.warmup_steps=1 --set measure.timed_steps="$steps" --set measure.repeats=1 --force -o "$bundle" \
        >"$out/run.txt" 2>"$out/err.txt" || status=$?; } 2>"$out/cpu.txt"
    [ "$status" = 0 ] || { cat "$out/err.txt" >&2 && exit 1; }
    { "$build/repro" inspect "$bundle" facts.json && "$build/repro" inspect "$bundle" run.json; } | jq -cs --argjson round "$1" --argjson threads "$3" --argjson load "$load" --argjson cpu "$(tail -n 1 "$out/cpu.txt" | awk '{ print $1 + $3 }')" '
        .[0].rank as $facts | .[1] | {round: $round, who: "\(.world.ranks)x\($threads)", load_before: $load, cpu_s: $cpu, steps: [.results.windows[].steps] | add, samples_per_s: .results.throughput.value,
        window_s: ([.results.windows[].seconds] | add), state_root_last: .results.state_root_last,
        rank: [.rank | to_entries[] | {rank: .key} + (.value | {timed_s, exchange_s, wait_s}) + ($facts[.key].exchange // {} | {bytes_per_step, connections})]}'
}
ring() { # ROUND BYTES: of as many bytes as a step exchanges
    local mib=$((($2 + (1 << 20) - 1) >> 20))
    "$build/native/tests/bench/ranks_bench" "$((mib > 0 ? mib : 1))" 5 | jq -cR --argjson round "$1" --argjson mib "$mib" 'select(test("shared memory +[0-9.]+ GB/s")) |
        capture("memory +(?<ring>[0-9.]+) GB/s .*bytes +(?<copy>[0-9.]+) GB/s") |
        {round: $round, who: "ring", mib: $mib, gb_per_s: (.ring | tonumber), memcpy_gb_per_s: (.copy | tonumber)}'
}
for ((round = 1; round <= rounds; round++)); do
    for who in $(printf '%s\n' '2 1' '1 2' | tr ' ' x | shuf); do # a new order every round
        train "$round" "${who%x*}" "${who#*x}" >>"$raw"
    done
    ring "$round" "$(jq -s 'map(select(.who == "2x1"))[-1].rank[0].bytes_per_step' "$raw")" >>"$raw"
done
[ "$(jq -r 'select(.who != "ring").state_root_last' "$raw" | sort -u | wc -l)" = 1 ] || { echo "scaling.sh: the runs have different bits" >&2 && exit 1; }

echo "$recipe, 2 micro-batches of $batch; ranks x threads; CPU s: processor time of the whole run, 2x1 by 1x2; rank 0's exchange a step: bytes of both"
echo "directions, seconds without waiting, by those of the same bytes through shared memory and by memcpy"
jq -r -s '
    def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
    def r3: . * 1000 | round / 1000;
    [group_by(.round)[] | (map({(.who): .}) | add) as $w | $w["2x1"].rank[0] as $x | $w.ring as $ring |
        (($x.exchange_s - $x.wait_s) / $w["2x1"].steps) as $own | (2e-9 * $x.bytes_per_step) as $gb |
        {round: .[0].round, load: (map(.load_before // 0) | max), one: $w["1x2"].samples_per_s, two: $w["2x1"].samples_per_s,
         ratio: ($w["2x1"].samples_per_s / $w["1x2"].samples_per_s), cpu: ($w["2x1"].cpu_s / $w["1x2"].cpu_s), share: ($x.exchange_s / $x.timed_s), waited: ($x.wait_s / $x.timed_s),
         gb: $gb, own: $own, by_ring: ($own / ($gb / $ring.gb_per_s)), by_copy: ($own / ($gb / $ring.memcpy_gb_per_s))}] as $r |
    (["round", "load", "1x2 /s", "2x1 /s", "2x1/1x2", "CPU s", "exchange", "of it waiting", "GB", "s", "by ring", "by memcpy"] | @tsv),
    ($r[] | [.round, .load, (.one | r3), (.two | r3), (.ratio | r3), (.cpu | r3), "\(.share * 1000 | round / 10) %", "\(.waited * 1000 | round / 10) %", (.gb | r3),
             (.own | r3), (.by_ring | r3), (.by_copy | r3)] | @tsv),
    (["median", "", ($r | map(.one) | median | r3), ($r | map(.two) | median | r3), ($r | map(.ratio) | median | r3), ($r | map(.cpu) | median | r3),
      "\($r | map(.share) | median * 1000 | round / 10) %", "\($r | map(.waited) | median * 1000 | round / 10) %", "", ($r | map(.own) | median | r3),
      ($r | map(.by_ring) | median | r3), ($r | map(.by_copy) | median | r3)] | @tsv)' "$raw" |
    awk -F '\t' '{ printf "%-7s %6s %9s %9s %9s %7s %10s %14s %7s %7s %9s %10s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 }'

# Two hosts.
PATH=$PATH:/usr/sbin:/sbin
a=repro-bench-$$-a b=repro-bench-$$-b
remove() {
    ip netns del $a 2>/dev/null || :
    ip netns del $b 2>/dev/null || :
}
if command -v ip >/dev/null && ip netns add $a 2>"$out/netns.txt" && trap remove EXIT && ip netns add $b && ip -n $a link add eth0 type veth peer name eth0 netns $b 2>"$out/netns.txt"; then
    for host in "$a 192.0.2.1" "$b 192.0.2.2"; do
        ip -n "${host% *}" addr add "${host#* }/24" dev eth0
        ip -n "${host% *}" link set eth0 up
        ip -n "${host% *}" link set lo up
    done
    "$build/native/tests/bench/ranks_bench" "${MIB:-256}" 5 $a 192.0.2.1 $b 192.0.2.2 | tee "$build/bench/scaling-hosts.txt" | sed 1d
else
    echo "no network namespaces here: $(head -n 1 "$out/netns.txt" 2>/dev/null)"
fi
