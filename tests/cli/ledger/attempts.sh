#!/bin/sh
# Every attempt leaves its lines, the killed one too, and the bundle of the last says how many were before it.
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" ledger list
says_in "nothing was attempted yet" out.txt
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
[ "$(events)" = "started sealed started started interrupted verified" ] || fail "after Ctrl-C: $(events)"

short_run b.repro.tar.zst
jq -es 'map(.n) == [range(1; 9)] and (.[7].bundle.name == "b.repro.tar.zst") and .[7].run == 7 and .[4].exit == 130' ledger.jsonl >answer.txt ||
    { cat ledger.jsonl >&2; fail "not the lines of these attempts"; }
exit_of 0 "$REPRO" verify b.repro.tar.zst --no-ledger
says_in "line 7 of the signer's; runs of this recipe started before it, by their own account: 3" out.txt
exit_of 0 "$REPRO" ledger export -o theirs.jsonl
"$REPRO" ledger list >list.txt
grep verified list.txt | grep -qF "recipe $(jq -r 'select(.event == "verified") | .recipe[:12]' ledger.jsonl)..." ||
    { cat list.txt >&2; fail "a verification without its recipe"; }
cmp -s ledger.jsonl theirs.jsonl || fail "the export is not the ledger"
exit_of 0 "$REPRO" verify b.repro.tar.zst --ledger theirs.jsonl --no-ledger
says_in "line 7 of 8; runs of this recipe before it: 3 (1 sealed, 0 failed, 1 interrupted, 1 without an end); after it: 0" out.txt
exit_of 0 "$REPRO" ledger check --bundle b.repro.tar.zst
says_in "line 7 of 8" out.txt
[ "$(events | wc -w)" = 8 ] || fail "a check of the ledger is an attempt"

# a line that was cut off, taken out or changed
head -n 6 ledger.jsonl >cut.jsonl
exit_of 0 "$REPRO" ledger check cut.jsonl
exit_of 5 "$REPRO" ledger check cut.jsonl --bundle b.repro.tar.zst
says "another ledger, one exported before this run, or one that was cut"
exit_of 5 "$REPRO" verify b.repro.tar.zst --ledger cut.jsonl --no-ledger
sed 3d ledger.jsonl >out.jsonl
exit_of 5 "$REPRO" ledger check out.jsonl
says "line 3: it is numbered as line 4"
sed '5s/"exit":130/"exit":0/' ledger.jsonl >changed.jsonl
exit_of 5 "$REPRO" ledger check changed.jsonl
says "line 5: it was changed"
exit_of 5 "$REPRO" ledger export changed.jsonl -o not.jsonl
[ ! -e not.jsonl ] || fail "a broken ledger was exported"
# the interrupted run was sealed after all, says a line that was added with all its digests
tail -n 1 ledger.jsonl | jq -cS '.previous = .sha256 | .n += 1 | .run = 4 | del(.sha256)' >bare.txt
{ cat ledger.jsonl && jq -cS --arg s "$(sha256sum <bare.txt | cut -c 1-64)" '.sha256 = $s' bare.txt; } >twice.jsonl
exit_of 5 "$REPRO" ledger check twice.jsonl
says "line 9: a second end of the run that line 4 started"
exit_of 5 "$REPRO" ledger list twice.jsonl
exit_of 5 "$REPRO" ledger export twice.jsonl
exit_of 5 "$REPRO" verify b.repro.tar.zst --ledger twice.jsonl --no-ledger
says "line 9: a second end"
head -c 700 ledger.jsonl >torn.jsonl
exit_of 4 "$REPRO" ledger check torn.jsonl
says "torn line"
exit_of 3 "$REPRO" ledger check none.jsonl
# with stock tools
[ "$(sed -n 5p ledger.jsonl | jq -cS 'del(.sha256)' | sha256sum | cut -c 1-64)" = "$(sed -n 6p ledger.jsonl | jq -r .previous)" ] ||
    fail "stock tools compute another digest"
# nothing that names the machine or its user
! grep -qF -e "$PWD" -e "$(uname -n)" ledger.jsonl || fail "the ledger says where it was written"
# that verify writes to it, and export hands that out, is said where it is looked for
"$REPRO" verify --help | tr -s '\n ' ' ' | grep -q "becomes a line of your own ledger .*unless --no-ledger" || fail "verify does not say that it writes to the ledger"
"$REPRO" ledger export --help | tr -s '\n ' ' ' | grep -q "written whole, with what was verified here too" || fail "export does not say what it holds"
