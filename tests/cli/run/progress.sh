#!/bin/sh
# --progress json: every line on standard error is one object, errors too; --quiet leaves only the error.
. "$TEST_DIR/common.inc"
need jq
short="--threads 1 --set measure.repeats=1 --set measure.warmup_steps=1 --set measure.ceilings=false"
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run bert_tiny_fp32 $short --steps 2 --progress json -o a.repro.tar.zst
while IFS= read -r line; do
    printf '%s\n' "$line" | jq -e 'type == "object" and (.event | IN("phase", "step", "note"))' >answer.txt || fail "not an event: $line"
done <err.txt
jq -se '[.[] | select(.event == "step") | [.phase, .step, .steps]] == [["warm-up", 1, 1], ["timed", 1, 2], ["timed", 2, 2]]' err.txt >answer.txt ||
    { cat err.txt >&2; fail "not the steps"; }
jq -se 'all(.[] | select(.event == "step"); .loss > 1 and .rate > 0 and .unit == "sequences/s") and
    ([.[] | select(.event == "phase").phase] | index("sealing")) and any(.[]; .event == "note" and (.text | startswith("next: repro verify ")))' err.txt >answer.txt ||
    { cat err.txt >&2; fail "the events"; }
[ "$(tail -n 1 out.txt)" = a.repro.tar.zst ] || fail "standard output has changed"
# shellcheck disable=SC2086
exit_of 2 "$REPRO" run bert_tiny_fp32 $short --progress json -o a.repro.tar.zst
tail -n 1 err.txt | jq -e '.event == "error" and .exit == 2 and .code == "usage" and (.message | contains("exists"))' >answer.txt ||
    { cat err.txt >&2; fail "no error event"; }
# shellcheck disable=SC2086
exit_of 2 "$REPRO" run bert_tiny_fp32 $short --progress json -q -o a.repro.tar.zst
[ "$(wc -l <err.txt)" = 1 ] && jq -e '.event == "error"' err.txt >answer.txt || { cat err.txt >&2; fail "--quiet leaves more than the error"; }
exit_of 2 "$REPRO" run bert_tiny_fp32 --progress xml
