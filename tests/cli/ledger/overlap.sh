#!/bin/sh
# Two runs of one ledger at the same time: the bundle of the second names the first, and so does verify.
. "$TEST_DIR/common.inc"
start_endless
short_run b.zst
"$REPRO" inspect b.zst facts.json | jq -e '.ledger.overlapping == 1 and .ledger.position == 2' >answer.txt || fail "the run in progress is not counted"
words err.txt 'in progress'
rm err.txt
kill -INT "$parent"
wait "$parent" || :
exit_of 0 "$REPRO" verify b.zst --json --no-ledger
jq -e '.checks[] | select(.check == "ledger").state == "note"' out.txt >answer.txt || fail "no note"
exit_of 0 "$REPRO" verify b.zst --ledger ledger.jsonl --no-ledger
words_anywhere out.txt 'ledger  '
exit_of 10 "$REPRO" verify endless.repro.tar.zst --ledger ledger.jsonl --json --no-ledger # it began alone, and one began meanwhile
words_anywhere out.txt 'begins with'
# one that was killed is not in progress
rm -f err.txt
start_endless --force
kill -9 "$parent" "$worker"
wait "$parent" || :
wait_gone "$worker"
short_run c.zst
"$REPRO" inspect c.zst facts.json | jq -e '.ledger.overlapping == 0' >answer.txt || fail "a killed run counts as one in progress"
