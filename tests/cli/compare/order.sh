#!/bin/sh
# The nearest result first, what all have in common above the table, graded reservations, --sort, --why, and --min-ratio for CI.
. "$TEST_DIR/common.inc"
FOLDER=$TOP/results/epyc-2core-2026-11-27
ONE=$FOLDER/bert_fp32_1_thread.repro.tar.zst
TWO=$FOLDER/bert_fp32_2x1.repro.tar.zst
order() { sed -n 's/^ *\([0-9][0-9]*\)  *[a-zA-Z].*x  .*/\1/p' out.txt | head -n "$1" | paste -sd' '; } # lines of the table that have a ratio

exit_of 0 "$REPRO" compare "$BUNDLE" "$FIRST" "$ONE" "$TWO"
[ "$(order 3)" = '4 3 2' ] || { cat out.txt >&2; fail "the nearest first: $(order 3)"; }
says_in 'all: unit sequences/s, model bert-base, precision fp32, batch 32' out.txt
awk 'length > 100 && /  / { exit 1 }' out.txt || { cat out.txt >&2; fail "a table is wider than 100 columns"; }
grep -q 'why it matters' out.txt && fail "the confounders of many results without --why"
grep -q 'large: hardware +' out.txt && grep -q 'large: threads ' out.txt && grep -q 'moderate: accumulation +' out.txt || { cat out.txt >&2; fail "no grades"; }
exit_of 0 "$REPRO" compare "$BUNDLE" "$FIRST" "$ONE" "$TWO" --sort given
[ "$(order 3)" = '2 3 4' ] || fail "as given: $(order 3)"
exit_of 0 "$REPRO" compare "$BUNDLE" "$ONE" "$FIRST" "$TWO" --sort ratio
[ "$(order 3)" = '3 4 2' ] || fail "by ratio: $(order 3)"
exit_of 0 "$REPRO" compare "$BUNDLE" "$FIRST" "$ONE" "$TWO" --why
grep -q '^confounder  *effect ' out.txt && grep -q '^threads  *large ' out.txt || { cat out.txt >&2; fail "--why lists nothing"; }
exit_of 0 "$REPRO" compare "$BUNDLE" "$ONE" "$TWO" --json
jq -e '[.pairs[].b] == [2, 1] and (.pairs[0].distance < .pairs[1].distance) and (.pairs[1].confounders[0] | .key == "threads" and .effect == "large") and
    (.rows | length) == 3' out.txt >answer.txt || { jq .pairs out.txt >&2; fail "the JSON"; }
# of many published results the first is of the same batch, precision and number of devices
exit_of 0 "$REPRO" compare "$BUNDLE" published:dlperf_v100 --json
jq -e '.pairs[0].b as $i | .rows[$i] | .precision == "fp32" and .batch_per_device == 32 and .devices == 1' out.txt >answer.txt || fail "not the nearest"
[ "$("$REPRO" compare "$BUNDLE" published:dlperf_v100 | wc -l)" -lt 80 ] || fail "a comparison with a table is longer than the table"
exit_of 0 "$REPRO" compare "$BUNDLE" "$ONE" "$TWO" --format csv
cut -d, -f1 out.txt | tail -n +2 | paste -sd' '

exit_of 0 "$REPRO" compare "$BUNDLE" "$TWO" --min-ratio 1.05
exit_of 5 "$REPRO" compare "$BUNDLE" "$TWO" --min-ratio 1.06
words
exit_of 5 "$REPRO" compare "$BUNDLE" "$ONE" "$TWO" --min-ratio 0.97
words
exit_of 2 "$REPRO" compare "$BUNDLE" "$TWO" --min-ratio 0
exit_of 2 "$REPRO" compare "$BUNDLE" "$TWO" --min-ratio 0.9x
exit_of 5 "$REPRO" compare "$BUNDLE" 'published:dlperf_v100#model=resnet50-v1.5,gpus=1' --min-ratio 0.1
