#!/bin/sh
# The committed bundle as an MLPerf log: these very lines, and read back the throughput of the bundle. What does not verify is not exported.
. "$TOP/tests/common.inc"
need jq
bundle=$TOP/results/epyc-2core-2026-11-27/bert_fp32.repro.tar.zst
exit_of 0 "$REPRO" export mllog "$bundle" -o log.txt
diff "$TEST_DIR/export_mllog.expected" log.txt >diff.txt || { cat diff.txt >&2; fail "other lines than expected"; }
sed 's/^:::MLLOG //' log.txt | jq -es 'all(has("namespace") and has("time_ms") and has("event_type") and has("key") and has("metadata")) and
    (map(.time_ms) | . == sort)' >/dev/null || fail "not the lines of an MLPerf log, in order"
exit_of 0 "$REPRO" import mllog log.txt --json
jq -e --argjson is "$("$REPRO" inspect "$bundle" run.json | jq .results.throughput.value)" \
    '.rows[0].throughput | .unit == "sequences/s" and (.value / $is - 1 | fabs < 1e-4)' out.txt >/dev/null ||
    fail "read back it is another throughput"

# the round trip: the same work on the same machine, by the word of a log that nobody signed
"$REPRO" import mllog log.txt -o log.json >made.txt
exit_of 0 "$REPRO" compare "$bundle" log.json --json
jq -e '.verdict == "comparable with reservations" and (.pairs[0].ratio.value - 1 | fabs < 1e-9) and .rows[1].label == .rows[0].label and
    (.pairs[0].confounders | map(.key) - ["evidence", "timed_window", "estimator"] == [])' out.txt >/dev/null ||
    { jq '.verdict, .pairs' out.txt >&2; fail "not the same result after a round trip"; }

exit_of 0 "$REPRO" export mllog "$bundle" --org 'Some Lab' --status onprem --trust "$(dirname "$bundle")/key.pem"
says_in '"key": "submission_org", "value": "Some Lab"' out.txt
says_in '"key": "submission_status", "value": "onprem"' out.txt
says_in '"verdict": "verified: ' out.txt
exit_of 2 "$REPRO" export mllog "$bundle" -o log.txt
says exists
exit_of 2 "$REPRO" export mlog "$bundle"
exit_of 2 "$REPRO" export mllog "$bundle" --org "$(printf 'a\033b')"
"$REPRO" key new -o other.key >other.txt
sed -n '3,$p' other.txt >other.pem
cp "$bundle" given.repro.tar.zst
exit_of 6 "$REPRO" export mllog given.repro.tar.zst --trust other.pem -o not.txt
words
[ ! -e not.txt ] || fail "a log of a bundle that another key signed"
head -c 30000 "$bundle" >cut.repro.tar.zst
exit_of 4 "$REPRO" export mllog cut.repro.tar.zst
