#!/bin/sh
# `estimate`: its bytes are those that a run records and sends, in one level and in two; --from takes the time of a bundle; what it cannot
# estimate is refused.
. "$TEST_DIR/common.inc"
model="$bert --set train.accumulation_steps=2"
sizes() { # FILE FILTER
    jq -e "$2" "$1" >answer.txt || { jq . "$1" >&2; fail "$1: not $2"; }
}
exit_of 0 "$REPRO" estimate --json --check
sizes out.txt '(.measured | length) > 10 and all(.measured[]; .role == "outside" or (.deviation | fabs) < 0.05)'
exit_of 0 "$REPRO" estimate --check
exit_of 0 "$REPRO" estimate bert_fp32
exit_of 0 "$REPRO" estimate --json bert_fp32
sizes out.txt '.estimate and (.sizes | map(.gpus)) == [1, 8, 16, 32, 64, 128, 256, 512, 1024] and .sizes[0].bytes_per_step == 0 and
    all(.sizes[]; .efficiency[0] > 0 and .efficiency[0] <= .efficiency[1] and .efficiency[1] <= 1) and all(.sizes[1:][]; .exchange_s[0] > 0) and
    .sizes[-1].levels == 2 and .sizes[-1].hosts == 128'
recipe_of() { # keys of $bert without options of run
    echo "bert_tiny_fp32 $width --set model.num_hidden_layers=1 --set train.batch_size=1 --set train.accumulation_steps=2"
}
# The same number of bytes as a run of as many ranks: per_host of them on each of two hosts, or all on one.
like_run() { # RANKS PER_HOST LEVELS
    # shellcheck disable=SC2046
    exit_of 0 "$REPRO" estimate --json $(recipe_of) --gpus "$1" --per-host "$2"
    cp out.txt estimate.json
    for steps in 1 2; do
        rm -f job.repro.tar.zst
        # shellcheck disable=SC2086
        if [ "$1" = "$2" ]; then
            exit_of 0 "$REPRO" run $model --set parallel.data="$1" --ranks "$1" --steps $steps -o job.repro.tar.zst
        else
            new_key
            REPRO_HOST=b "$REPRO" run $model --set parallel.data="$1" --steps $steps --nodes 2 --node-rank 1 --ranks-per-node "$2" --join "127.0.0.1:$TEST_PORT" >other.txt 2>&1 &
            other=$!
            REPRO_HOST=a exit_of 0 "$REPRO" run $model --set parallel.data="$1" --steps $steps --nodes 2 --node-rank 0 --ranks-per-node "$2" --join "127.0.0.1:$TEST_PORT" -o job.repro.tar.zst
            wait $other || { cat other.txt >&2; fail "the other host"; }
            unset REPRO_JOB_KEY
        fi
        "$REPRO" inspect job.repro.tar.zst facts.json >"facts$steps.json"
    done
    jq -en --argjson levels "$3" --slurpfile e estimate.json --slurpfile one facts1.json --slurpfile two facts2.json '
        $e[0].sizes[0] as $is | [$one[0], $two[0] | .rank | map(.exchange)] as [$a, $b] |
        $is.levels == $levels and all($b[]; .levels == $levels) and
        # the rank that sends most; what leaves a host and what does not may be of different ranks
        ($b | map(.bytes_per_step) | max) as $most | $is.bytes_per_step >= $most and $is.bytes_per_step < 1.02 * $most and
        ($b | map(.bytes_per_step_between_hosts) | max) as $far | $is.bytes_per_step_between_hosts >= $far and $is.bytes_per_step_between_hosts <= 1.02 * $far and
        # what a second step really sent: nothing less, and losses and sums besides
        all(range($a | length); ($b[.].sent_bytes - $a[.].sent_bytes) as $real | $real >= $b[.].bytes_per_step and $real < $b[.].bytes_per_step * 1.02)' >answer.txt ||
        { jq .sizes estimate.json >&2; jq '.rank | map(.exchange)' facts1.json facts2.json >&2; fail "$1 ranks, $2 a host: other bytes than the run's"; }
}
like_run 3 3 1
like_run 4 2 2

# The time of a measured bundle in place of the peak.
# shellcheck disable=SC2046,SC2086
exit_of 0 "$REPRO" run $model --steps 4 -o one.repro.tar.zst
# shellcheck disable=SC2046
exit_of 0 "$REPRO" estimate --json $(recipe_of) --from one.repro.tar.zst --within 10 --between 1 --per-host 4 --gpus 1,4,8
"$REPRO" inspect one.repro.tar.zst run.json >one.json
jq -en --slurpfile e out.txt --slurpfile r one.json '$e[0].sizes[0].samples_per_s as $s | $r[0].results.throughput.value as $is | $s[0] <= $is * 1.001 and
    $s[1] >= $is * 0.999 and $e[0].machine.within_bytes_per_s == [10e9, 10e9] and $e[0].machine.between_bytes_per_s == [1e9, 1e9]' >answer.txt ||
    { jq . out.txt >&2; fail "not the speed of the bundle"; }
refused() { # OPTION...
    exit_of 2 "$REPRO" estimate "$@"
}
exit_of 5 "$REPRO" estimate bert_fp32 --from one.repro.tar.zst --within 10 --between 1
# shellcheck disable=SC2046
exit_of 5 "$REPRO" estimate --json $(recipe_of) --set train.precision=bf16 --from one.repro.tar.zst --within 10 --between 1
says "computed in repro-fp32/1, the recipe is in repro-bf16-tc16/0"
refused
refused bert_fp32 --check
refused bert_fp32 --from one.repro.tar.zst # processors, and links of GPUs
refused bert_fp32 --from job.repro.tar.zst --within 10 --between 1 # several ranks
refused bert_fp32 --machine abacus
refused bert_fp32 --set train.precision=fp16 # no share of a peak was measured
refused bert_fp32 --gpus 12
refused bert_fp32 --gpus 8,,
refused bert_fp32 --gpus 2048
refused bert_fp32 --within fast
refused bert_fp32 --set train.batch_size=max
refused gpt_tiny_fp32 --set parallel.tensor=2
