#!/bin/sh
# The head of a ledger as one line: kept or published, it shows a ledger that was cut, rewritten or begun anew.
. "$TEST_DIR/common.inc"
short_run a.zst
exit_of 0 "$REPRO" ledger head
[ "$(wc -l <out.txt)" = 1 ] || fail "not one line"
cp out.txt head.txt
exit_of 0 "$REPRO" ledger head -o same.txt
cmp -s head.txt same.txt || fail "another line in the file"
[ "$(cat head.txt)" = "$(jq -r .subject.digest key.json 2>/dev/null || "$REPRO" key show --json | jq -r .fingerprint) line 2 sha256 $(tail -n 1 ledger.jsonl | jq -r .sha256)" ] ||
    { cat head.txt >&2; fail "not key, number and digest"; }
exit_of 0 "$REPRO" ledger head --json
jq -e '.position == 2 and (.line | endswith("\n"))' out.txt >answer.txt || fail "ledger head --json"
exit_of 0 "$REPRO" ledger check --head head.txt
cp ledger.jsonl before.jsonl
short_run b.zst
exit_of 0 "$REPRO" ledger check --head head.txt
head -n 1 ledger.jsonl >cut.jsonl
exit_of 5 "$REPRO" ledger check cut.jsonl --head head.txt
words
rm ledger.jsonl
short_run c.zst
exit_of 5 "$REPRO" ledger check --head head.txt
exit_of 0 "$REPRO" ledger check before.jsonl --head head.txt
sed 's/line 2/line 02/' head.txt >bad.txt
exit_of 4 "$REPRO" ledger check --head bad.txt
words
: >empty.txt
exit_of 4 "$REPRO" ledger check --head empty.txt
exit_of 3 "$REPRO" ledger check --head none.txt
for of in check list head export; do
    exit_of 2 "$REPRO" ledger $of c.zst
done
words
exit_of 0 "$REPRO" ledger list
words out.txt sealed
