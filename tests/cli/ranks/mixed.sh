#!/bin/sh
# Processes of one job with other instruction sets and numbers of threads: the bits of one rank, whichever of them leads.
. "$TEST_DIR/common.inc"
common="--set train.accumulation_steps=4 --set data.shuffle=true --steps 2"
plain() { # MODEL: its options without those that differ here
    echo "$1" | sed 's/--threads 1//'
}
REPRO_JOB_KEY=$("$REPRO" launch key)
export REPRO_JOB_KEY
sets="scalar"
for flag in avx2 avx512f; do
    ! grep -qw "$flag" /proc/cpuinfo || sets="$sets ${flag%f}"
done
count=$(echo "$sets" | wc -w)
[ "$count" -gt 1 ] || skip "this processor has one instruction set"
mixed() { # MODEL ISA...: one process each, with 2 and 1 threads in turn; the first leads
    model=$(plain "$1")
    shift
    number=0 threads=2
    rm -f job.repro.tar.zst
    for isa; do
        # shellcheck disable=SC2086 # several words
        REPRO_HOST=host$number "$REPRO" run $model $common --isa "$isa" --threads $threads --nodes $# --node-rank $number --join 127.0.0.1:$port \
            -o job.repro.tar.zst >"out.$number" 2>"err.$number" &
        last=$!
        pids="${pids:-} $last"
        number=$((number + 1)) threads=$((3 - threads))
    done
    for one in $pids; do
        wait "$one" || { cat err.* >&2; fail "a process ends with $?"; }
    done
    pids=
    port=$((port + 1))
    ranks_in job.repro.tar.zst $#
    same_bits one.repro.tar.zst job.repro.tar.zst
    for number in $(seq 0 $(($# - 1))); do
        jq -r ".world.rank[$number].device | tostring" bits.json
    done >devices.txt
    [ "$(sort -u devices.txt | wc -l)" = $# ] || { cat devices.txt >&2; fail "the ranks have the same device"; }
}
port=$((20000 + $$ % 20000))
for model in "$bert" "$gpt" "$resnet"; do
    # shellcheck disable=SC2046,SC2086
    exit_of 0 "$REPRO" run $(plain "$model") $common --isa scalar --threads 1 -f -o one.repro.tar.zst
    # shellcheck disable=SC2086
    mixed "$model" $sets
    [ "${LONG:-0}" = 0 ] || for first in $sets; do
        # shellcheck disable=SC2046,SC2086
        mixed "$model" $first $sets
    done
done
echo "$count instruction sets in one job"
