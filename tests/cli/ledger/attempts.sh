#!/bin/sh
# Every attempt leaves its lines, the killed one too, and the bundle of the last says how many were before it.
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" ledger list
words out.txt .
short_run a.repro.tar.zst
[ "$(events)" = "started sealed" ] || fail "after a run: $(events)"

rm -f err.txt
start_endless # killed with everything it had: no line can be written any more, and that shows
kill -9 "$parent" "$worker"
wait "$parent" || :
[ "$(events)" = "started sealed started" ] || fail "after a kill: $(events)"
rm -f err.txt
start_endless
kill -INT "$parent"
expect_end 130 interrupted incomplete # and verifies the bundle
[ "$(events)" = "started sealed started started interrupted" ] || fail "after Ctrl-C: $(events)"

short_run b.repro.tar.zst
jq -es 'map(.n) == [range(1; 8)] and (.[6].bundle.name == "b.repro.tar.zst") and .[6].run == 6 and .[4].exit == 130' ledger.jsonl >answer.txt ||
    { cat ledger.jsonl >&2; fail "not the lines of these attempts"; }
"$REPRO" inspect b.repro.tar.zst facts.json | jq -e '.ledger.position == 6 and .ledger.earlier == 3 and .ledger.overlapping == 0' >answer.txt || fail "another entry"
exit_of 0 "$REPRO" ledger export -o theirs.jsonl
"$REPRO" ledger list --verified >list.txt
grep verified list.txt | grep -qF "recipe $(jq -r 'select(.event == "verified") | .recipe[:12]' "$verified")..." ||
    { cat list.txt >&2; fail "a verification without its recipe"; }
exit_of 2 "$REPRO" ledger list theirs.jsonl --verified
exit_of 0 "$REPRO" ledger check --verified --json
jq -e '.verified == 1 and .started == 0 and (has("key") | not)' out.txt >answer.txt || fail "not the record of verifications"
cmp -s ledger.jsonl theirs.jsonl || fail "the export is not the ledger"
exit_of 0 "$REPRO" verify b.repro.tar.zst --ledger theirs.jsonl --no-ledger --json
jq -e '.ledger == {position: 6, lines: 7, attempt: 4, attempts: 4, sealed: 1, failed: 0, interrupted: 1, open: 1, later: 0, recorded: true}' \
    out.txt >answer.txt || { jq .ledger out.txt >&2; fail "not what the ledger has"; }
exit_of 0 "$REPRO" ledger check --bundle b.repro.tar.zst
words_anywhere out.txt .
[ "$(events | wc -w)" = 7 ] || fail "a check of the ledger is an attempt"

# a line that was cut off, taken out or changed
head -n 5 ledger.jsonl >cut.jsonl
exit_of 0 "$REPRO" ledger check cut.jsonl
exit_of 5 "$REPRO" ledger check cut.jsonl --bundle b.repro.tar.zst
words
exit_of 5 "$REPRO" verify b.repro.tar.zst --ledger cut.jsonl --no-ledger
sed 3d ledger.jsonl >out.jsonl
exit_of 5 "$REPRO" ledger check out.jsonl
words
sed '5s/"exit":130/"exit":0/' ledger.jsonl >changed.jsonl
exit_of 5 "$REPRO" ledger check changed.jsonl
words
exit_of 5 "$REPRO" ledger export changed.jsonl -o not.jsonl
[ ! -e not.jsonl ] || fail "a broken ledger was exported"
# the interrupted run was sealed after all, says a line that was added with all its digests, but without the key
tail -n 1 ledger.jsonl | jq -cS '.previous = .sha256 | .n += 1 | .run = 4 | del(.sha256)' >bare.txt
forge() { # JQ FILE: with bare.txt as changed by JQ, and its digest
    jq -cS "$1" bare.txt >line.txt
    { cat ledger.jsonl && jq -cS --arg s "$(sha256sum <line.txt | cut -c 1-64)" '.sha256 = $s' line.txt; } >"$2"
}
forge . twice.jsonl
exit_of 6 "$REPRO" ledger check twice.jsonl
words
exit_of 6 "$REPRO" ledger list twice.jsonl
exit_of 6 "$REPRO" ledger export twice.jsonl
forge 'del(.signature)' twice.jsonl
exit_of 4 "$REPRO" ledger check twice.jsonl
words
exit_of 4 "$REPRO" verify b.repro.tar.zst --ledger twice.jsonl --no-ledger
head -c 700 ledger.jsonl >torn.jsonl
exit_of 4 "$REPRO" ledger check torn.jsonl
words
exit_of 3 "$REPRO" ledger check none.jsonl
# with stock tools
[ "$(sed -n 5p ledger.jsonl | jq -cS 'del(.sha256)' | sha256sum | cut -c 1-64)" = "$(sed -n 6p ledger.jsonl | jq -r .previous)" ] ||
    fail "stock tools compute another digest"
sed -n 5p ledger.jsonl | jq -r .signature | base64 -d >line.sig
sed -n 5p ledger.jsonl | jq -cS 'del(.sha256, .signature)' >line.txt
sed -n 1p ledger.jsonl | jq -r '"-----BEGIN PUBLIC KEY-----\n" + .key.public + "\n-----END PUBLIC KEY-----"' >public.pem
! command -v openssl >answer.txt || openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in line.txt -sigfile line.sig >answer.txt 2>&1 ||
    { cat answer.txt >&2; fail "the signature of line 5 is not one for OpenSSL"; }
# nothing that names the machine or its user
! jq -c 'del(.signature, .key.public)' ledger.jsonl | grep -qF -e "$PWD" -e "$(uname -n)" || fail "the ledger names the place where it was written"
