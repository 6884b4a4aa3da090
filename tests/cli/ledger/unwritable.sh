#!/bin/sh
# A ledger that cannot be written costs no measurement: it is said, and it is in the bundle.
. "$TEST_DIR/common.inc"
REPRO_LEDGER=/dev/null short_run a.repro.tar.zst
words err.txt 'not in the'
"$REPRO" inspect a.repro.tar.zst facts.json | jq -c '.ledger | {reason}'
exit_of 0 "$REPRO" verify a.repro.tar.zst --no-ledger
words out.txt 'ledger:'
[ ! -e ledger.jsonl ] && [ ! -e "$verified" ] || fail "--no-ledger wrote a line"
exit_of 0 "$REPRO" verify a.repro.tar.zst
says_in '"verdict":"verified"' "$verified"
[ ! -e ledger.jsonl ] || fail "a verification is no attempt"
short_run c.repro.tar.zst
exit_of 0 "$REPRO" ledger check --bundle a.repro.tar.zst
words out.txt 'ledger:'

# what the user mistyped is no verdict on a bundle, and no line
lines=$(wc -l <"$verified")
mistyped() { # STATUS ARGUMENT...
    expected=$1
    shift
    exit_of "$expected" "$REPRO" verify "$@"
    [ ! -s out.txt ] || { cat out.txt >&2; fail "verify $*: a verdict"; }
    [ "$(wc -l <"$verified")" = "$lines" ] || fail "verify $*: a line in the record"
}
mistyped 2 a.repro.tar.zst --trust nosuch
mistyped 3 a.repro.tar.zst --trust ./nosuch.pem
mistyped 3 a.repro.tar.zst --ledger nosuch
mistyped 3 a.repro.tar.zst --baseline nosuch
mistyped 3 a.repro.tar.zst --original nosuch
mistyped 3 a.repro.tar.zst --replay 1 --init nosuch
echo hello >notes.txt
for option in ledger baseline original; do
    mistyped 2 a.repro.tar.zst --$option notes.txt
    says "--$option: expected a"
    says "'notes.txt'"
done
mistyped 2 a.repro.tar.zst --ledger c.repro.tar.zst
mistyped 2 a.repro.tar.zst --baseline "$verified"
mistyped 3 nosuch
mistyped 3 .

short_run b.repro.tar.zst --no-ledger
"$REPRO" inspect b.repro.tar.zst facts.json | jq -e '.ledger.reason | contains("--no-ledger")' >answer.txt || fail "not in facts.json"
[ "$(events)" = "started sealed" ] || fail "--no-ledger wrote a line"

# the end of a run is not written to another ledger than its start
rm -f err.txt
mv ledger.jsonl all.jsonl
sleep 1 # within one second the first lines of two ledgers are the same: recipe, time and position
start_endless
mv ledger.jsonl moved.jsonl
mv all.jsonl ledger.jsonl
kill -INT "$parent"
expect_end 130 interrupted incomplete
words err.txt 'not in the'
[ "$(jq -r .event moved.jsonl)" = started ] || fail "the ledger that was moved"
[ "$(events)" = "started sealed" ] || fail "an end without its start: $(events)"
rm "$verified"
exit_of 0 "$REPRO" verify a.repro.tar.zst

# a failed verification is an attempt too
head -c 1000 b.repro.tar.zst >cut.zst
exit_of 4 "$REPRO" verify cut.zst
tail -n 1 "$verified" | jq -e '.verdict == "failed" and .check == "container" and .exit == 4 and .bundle == {name: "cut.zst"}' >answer.txt ||
    { tail -n 1 "$verified" >&2; fail "not the line of a failed verification"; }
exit_of 0 "$REPRO" ledger check --verified
words out.txt .
exit_of 0 "$REPRO" ledger check --verified --json
jq -e '.verified == 1 and .refused == 1 and .inconclusive == 0' out.txt >answer.txt || fail "ledger check --json"

# what a crash left of a line is kept, and said
printf '{"at":"2026' >>"$verified"
exit_of 0 "$REPRO" verify a.repro.tar.zst
words
[ "$(cat "$verified.torn")" = '{"at":"2026' ] || fail "the torn line is not there"
exit_of 0 "$REPRO" ledger check --verified
words out.txt torn
# a full disk
was=$(sha256sum <"$verified")
(ulimit -f 0 && exec "$REPRO" verify a.repro.tar.zst) >/dev/null 2>&1 || fail "a full disk makes verify exit with $?"
[ "$was" = "$(sha256sum <"$verified")" ] || fail "a full disk changed the ledger"
