#!/bin/sh
# What happens between two steps is a few system calls for the record, and a run takes the memory of its plan, within 5 %, and
# what the kernel maps of the program's file beyond what runs: it maps whole runs of pages that lie together in its cache.
# tests/bench/limits.sh has the limit in time: 0.5 % of a step.
# timeout: 120
. "$TEST_DIR/common.inc"
run() { # STEPS BATCH_SIZE COMMAND...
    steps=$1 batch=$2
    shift 2
    "$@" "$REPRO" run bert_tiny_fp32 --threads 1 --steps "$steps" --batch-size "$batch" --set measure.repeats=1 --set measure.ceilings=false \
        -o o.repro.tar.zst --force >out.txt 2>err.txt
}
run 4 16 env || fail "$(cat err.txt)"
documents o.repro.tar.zst >record.json
jq -e '.run.results.between_steps_s > 0' record.json >answer.txt || fail "the bundle does not record the time between the steps"
jq -e --argjson file "$(stat -c %s "$REPRO")" '.facts.plan.total_bytes as $plan | .run.peak_rss_bytes | . > 0.95 * $plan and . < 1.05 * $plan + $file' record.json >answer.txt ||
    fail "peak memory and plan differ by more than 5 % and the program: $(jq -c '[.run.peak_rss_bytes, .facts.plan.total_bytes]' record.json)"
need strace
for steps in 4 12; do
    run "$steps" 1 strace -f -qq -o "calls.$steps" || skip "strace does not work here: $(tail -n 1 err.txt)"
done
calls=$((($(wc -l <calls.12) - $(wc -l <calls.4)) / 8))
[ "$calls" -le 40 ] || fail "$calls system calls for each step"
