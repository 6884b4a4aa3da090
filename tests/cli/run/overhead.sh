#!/bin/sh
# Samples, records and progress between two steps cost at most 0.5 % of a step, and the memory that a run takes is within 5 % of its
# plan. On a busy machine others run between two steps now and then: the lower quartile of the gaps counts.
# timeout: 120
# serial
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" run bert_tiny_fp32 --steps 16 --threads 1 --set measure.repeats=1 --batch-size 16 -o o.repro.tar.zst
"$REPRO" inspect o.repro.tar.zst run.json >record.json
"$REPRO" inspect o.repro.tar.zst steps/rank0.jsonl | jq -s '[.[] | select(.phase == "timed")] |
    ([range(1; length) as $i | .[$i].start_ns - .[$i - 1].end_ns] | sort | .[length / 4 | floor]) / (map(.end_ns - .start_ns) | min)' >share
jq -e '. > 0 and . <= 0.005' share >answer.txt || fail "$(cat share) of a step passes between two steps"
jq -e '.results.between_steps_s > 0' record.json >answer.txt || fail "the bundle does not say what passed between the steps"
jq -e '.peak_rss_bytes / .plan.total_bytes | . > 0.95 and . < 1.05' record.json >answer.txt ||
    fail "peak memory and plan differ by more than 5 %: $(jq -c '[.peak_rss_bytes, .plan.total_bytes]' record.json)"
echo "$(cat share) of a step between steps; memory $(jq '.peak_rss_bytes / .plan.total_bytes' record.json) of the plan"
