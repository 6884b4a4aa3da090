#!/bin/bash
# What exchanging gradients during the backward pass gains: ranks with one thread each, on this machine (shared memory) and as two hosts
# (network namespaces, TLS) with PER_HOST ranks, whose link has so many Mbit/s in each direction; with and without overlap in turn, as the
# clock drifts. Times are medians over all timed steps of a form, of rank 0. Needs root for the hosts.
# usage: overlap.sh REPRO RECIPE [OPTION...]      environment: RATES="local 4000 1000 200" TURNS=3 STEPS=10 PER_HOST=1
#   PER_HOST=2 overlap.sh REPRO gpt_tiny_fp32 --layout 2x2x1 --set parallel.tensor=2    parts of a tensor in one host, samples across both
set -eu
repro=$(realpath "$1")
shift
dir=$(mktemp -d)
trap 'ip netns del "overlap$$-0" 2>/dev/null || :; ip netns del "overlap$$-1" 2>/dev/null || :; rm -rf "$dir"' EXIT
cd "$dir"
quick="--threads 1 --set measure.ceilings=false --set measure.warmup_steps=1 --set measure.repeats=1 --no-ledger --steps ${STEPS:-10}"
make_hosts() {
    ip netns add "overlap$$-0"
    ip netns add "overlap$$-1"
    ip -n "overlap$$-0" link add eth0 type veth peer name eth0 netns "overlap$$-1"
    for host in 0 1; do
        ip -n "overlap$$-$host" addr add "192.0.2.$((host + 1))/24" dev eth0
        ip -n "overlap$$-$host" link set lo up
        ip -n "overlap$$-$host" link set eth0 up
    done
}
limit() { # MBIT
    for host in 0 1; do
        tc -n "overlap$$-$host" qdisc replace dev eth0 root tbf rate "$1mbit" burst 512kb latency 400ms
    done
}
on_hosts() { # OUTPUT OPTION...
    out=$1
    shift
    REPRO_JOB_KEY=$("$repro" launch key)
    export REPRO_JOB_KEY
    for host in 1 0; do
        # shellcheck disable=SC2086 # several words
        REPRO_HOST=host$host ip netns exec "overlap$$-$host" "$repro" run "$@" $quick --nodes 2 --node-rank $host --ranks-per-node ${PER_HOST:-1} \
            --join 192.0.2.1:61400 -f -o "$out" >"out$host.txt" 2>"err$host.txt" &
        processes="${processes:-} $!"
    done
    # shellcheck disable=SC2086
    wait $processes || { cat err?.txt >&2; exit 1; }
    processes=
}
here() { # OUTPUT OPTION...
    out=$1
    shift
    # shellcheck disable=SC2086
    "$repro" run "$@" $quick --ranks $((2 * ${PER_HOST:-1})) -f -o "$out" >out.txt 2>err.txt || { cat err.txt >&2; exit 1; }
}
show() { # RATE FORM
    jq -sr --arg rate "$1" --arg form "$2" '
        def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2] + .[length / 2 - 1]) / 2 end;
        def ms(f): map(f) | median / 1e6 * 100 | round / 100;
        map(select(.phase == "timed")) | [$rate, $form, length, ms(.end_ns - .start_ns), ms(.exchange_ns), ms(.wait_ns), ms(.overlap_ns // 0)] | @tsv' "$2.$1.jsonl"
}
printf 'link, Mbit/s\tform\tsteps\tstep, ms\tin exchanges\tof that waiting\tbeside the backward pass\n'
for rate in ${RATES:-local 4000 1000 200}; do
    how=here
    if [ "$rate" != local ]; then
        ip netns exec "overlap$$-0" true 2>/dev/null || make_hosts
        limit "$rate"
        how=on_hosts
    fi
    for _ in $(seq "${TURNS:-3}"); do
        for form in off 256; do
            $how one.repro.tar.zst "$@" --set "run.overlap_kib=$form"
            "$repro" inspect one.repro.tar.zst steps/rank0.jsonl >>"$form.$rate.jsonl"
            "$repro" inspect one.repro.tar.zst run.json | jq -r '.results.state_root_last' >>roots.txt
        done
    done
    show "$rate" off
    show "$rate" 256
done
"$repro" inspect one.repro.tar.zst facts.json |
    jq -r '.rank[0].exchange | "bytes that rank 0 sends in a step: \(.bytes_per_step); in all groups so far: \(.sent_bytes_by_group)"'
[ "$(sort -u roots.txt | wc -l)" = 1 ] || { echo "state roots differ" >&2; exit 1; }
