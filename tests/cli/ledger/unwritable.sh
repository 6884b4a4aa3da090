#!/bin/sh
# A ledger that cannot be written costs no measurement: it is said, and it is in the bundle.
. "$TEST_DIR/common.inc"
REPRO_LEDGER=/dev/null short_run a.repro.tar.zst
says_in "not in the ledger: ledger '/dev/null': it is no regular file" err.txt
"$REPRO" inspect a.repro.tar.zst run.json | jq -e '.ledger == {reason: "it is no regular file"}' >answer.txt || fail "not in run.json"
exit_of 0 "$REPRO" verify a.repro.tar.zst --no-ledger
says_in "in none: it is no regular file" out.txt
[ ! -e ledger.jsonl ] || fail "--no-ledger wrote a line"
exit_of 0 "$REPRO" verify a.repro.tar.zst
says_in '"verdict":"verified-unknown-key"' ledger.jsonl
exit_of 5 "$REPRO" ledger check --bundle a.repro.tar.zst
says "the run names no place in a ledger: it is no regular file"

short_run b.repro.tar.zst --no-ledger
"$REPRO" inspect b.repro.tar.zst run.json | jq -e '.ledger.reason | contains("--no-ledger")' >answer.txt || fail "not in run.json"
[ "$(events)" = verified ] || fail "--no-ledger wrote a line"

# a failed verification is an attempt too
head -c 1000 b.repro.tar.zst >cut.zst
exit_of 4 "$REPRO" verify cut.zst
tail -n 1 ledger.jsonl | jq -e '.verdict == "failed" and .check == "container" and .exit == 4 and .bundle == {name: "cut.zst"}' >answer.txt ||
    { tail -n 1 ledger.jsonl >&2; fail "not the line of a failed verification"; }

# what a crash left of a line is kept, and said
printf '{"at":"2026' >>ledger.jsonl
exit_of 0 "$REPRO" verify a.repro.tar.zst
says "11 bytes of a torn line"
[ "$(cat ledger.jsonl.torn)" = '{"at":"2026' ] || fail "the torn line is not there"
exit_of 0 "$REPRO" ledger check
says_in "12 bytes of torn lines are kept" out.txt
# a full disk
was=$(sha256sum <ledger.jsonl)
(ulimit -f 0 && exec "$REPRO" verify a.repro.tar.zst) >/dev/null 2>&1 || fail "a full disk makes verify exit with $?"
[ "$was" = "$(sha256sum <ledger.jsonl)" ] || fail "a full disk changed the ledger"
