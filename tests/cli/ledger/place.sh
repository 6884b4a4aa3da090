#!/bin/sh
# The ledger is beside the key: no data option moves it, and a ledger that was begun anew is noticed.
. "$TEST_DIR/common.inc"
unset REPRO_LEDGER
keys=$XDG_CONFIG_HOME/repro
place() { # BUNDLE JQ
    "$REPRO" inspect "$1" facts.json | jq -e ".ledger | $2" >answer.txt || { "$REPRO" inspect "$1" facts.json | jq .ledger >&2; fail "$1: not $2"; }
}
check() { # STATUS BUNDLE OPTION...: the state of the check ledger
    expected=$1
    shift
    exit_of "$expected" "$REPRO" verify --json "$@"
    jq -r '.checks[] | select(.check == "ledger").state' out.txt
}
short_run a.zst
[ "$(find "$keys" -name 'ledger-????????????????.jsonl' | wc -l)" = 1 ] || fail "no ledger beside the key"
place a.zst '.position == 1 and .begun == .at and .key_made_known_from == "creation" and .overlapping == 0'
[ "$(check 0 a.zst)" = note ] || fail "a first line is no note"
mkdir elsewhere
mkdir -p "$XDG_CACHE_HOME"
rm -r "$XDG_CACHE_HOME"
REPRO_STORE=$PWD/elsewhere short_run b.zst --store "$PWD/elsewhere"
place b.zst '.position == 3 and .earlier == 1 and .key_made_known_from == "creation"'
[ "$(check 0 b.zst)" = passed ] || fail "a third line is a note"
exit_of 0 "$REPRO" ledger list --json
jq -e '.lines | map(.event) == ["started", "sealed", "started", "sealed"]' out.txt >answer.txt || fail "not the ledger of the default key"
printf 'in_ledger: true\nmax_attempts_before: 0\n' >p.yaml
exit_of 0 "$REPRO" verify a.zst --policy p.yaml --json --no-ledger
jq -e '(.policy | map(.holds) == [true, true]) and (.checks[] | select(.check == "policy").state) == "note"' out.txt >answer.txt ||
    fail "a policy passes line 1 in silence"
words out.txt '"text": "2 rules'
echo 'checks: {ledger: passed}' >strict.yaml
exit_of 9 "$REPRO" verify a.zst --policy strict.yaml --no-ledger
exit_of 0 "$REPRO" verify b.zst --policy strict.yaml --no-ledger

# the same line twice: a copy of the ledger from before
cp "$keys"/ledger-*.jsonl old.copy
short_run c.zst
cp old.copy "$(find "$keys" -name 'ledger-????????????????.jsonl')"
short_run d.zst
place c.zst '.position == 5'
place d.zst '.position == 5'
[ "$(check 0 c.zst)" = passed ] || fail "c is the first in line 5"
[ "$(check 0 d.zst)" = warning ] || fail "a forked ledger"
statement() {
    "$REPRO" inspect "$1" statement.dsse.json | sha256sum | cut -c 1-64
}
jq -e --arg c "$(statement c.zst)" --arg d "$(statement d.zst)" '.forked.positions == [5, 5] and .forked.statements == [$d, $c]' out.txt \
    >answer.txt || fail "not both bundles"
lines=$(wc -l <"$keys/verified.jsonl")
exit_of 0 "$REPRO" report d.zst --format md --json
jq -e '.bundles[0].checks[] | select(.check == "ledger").state == "warning"' out.txt >answer.txt || fail "a report forgives d"
[ "$(wc -l <"$keys/verified.jsonl")" = "$lines" ] || fail "a report was recorded"
exit_of 0 "$REPRO" verify d.zst --json --no-ledger
words out.txt 'forked or restarted' | sed 's|), and .*|)"|' # which is there where both began in one second
echo 'no_warnings: true' >warn.yaml
exit_of 9 "$REPRO" verify d.zst --policy warn.yaml --no-ledger
exit_of 5 "$REPRO" verify c.zst --ledger "$(find "$keys" -name 'ledger-????????????????.jsonl')" --no-ledger # it is the ledger of d
[ "$(check 0 d.zst)" = warning ] || fail "d is forgiven the second time"
[ "$(check 0 a.zst)" = note ] || fail "a and its ledger are as before"
# begun anew; the key is older, and is known from its file
rm "$keys"/ledger-*
mkdir -p "$XDG_CACHE_HOME/repro"
: >"$XDG_CACHE_HOME/repro/ledger.jsonl" # where older versions had it
touch -d 2026-01-02T03:04:05Z "$keys/key.pem"
short_run e.zst
words err.txt 'an older version'
place e.zst '.position == 1 and .earlier == 0 and .key_made == "2026-01-02T03:04:05Z" and .key_made_known_from == "file"'
[ "$(check 0 e.zst --no-ledger)" = warning ] || fail "a restarted ledger"
# which is noticed at any line, and by a file of the signer that lacks the lines of earlier bundles
for i in 1 2 3; do
    short_run more$i.zst
done
new=$(find "$keys" -name 'ledger-????????????????.jsonl')
place more3.zst '.position == 7'
[ "$(check 0 more3.zst --no-ledger)" = warning ] || fail "a restarted ledger that is longer than the old one"
says_in 'of a ledger begun' out.txt
[ "$(check 0 more3.zst --ledger "$new" --no-ledger)" = warning ] || fail "a ledger without the lines that were seen"
cp old.copy theirs.jsonl # of a and b alone
[ "$(check 0 b.zst --ledger theirs.jsonl --no-ledger)" = note ] || fail "a ledger that was exported before c"
says_in '1 later line' out.txt
# a run without the ledger of its key
short_run none.zst --no-ledger
[ "$(check 0 none.zst --no-ledger)" = warning ] || fail "a run beside the ledger"
words out.txt 'its key has one'
exit_of 0 "$REPRO" ledger check --json
jq -e '.key_made == "2026-01-02T03:04:05Z"' out.txt >answer.txt || fail "the key's time is not in the ledger"
exit_of 5 "$REPRO" verify d.zst --ledger "$(find "$keys" -name 'ledger-????????????????.jsonl')" --no-ledger
# a verifier who has seen nothing has the note, and the dates
mv "$keys/verified.jsonl" seen.jsonl
[ "$(check 0 e.zst --no-ledger)" = note ] || fail "line 1"
words_anywhere out.txt 'begins with'

# each key has its own, beside it
mkdir team
"$REPRO" key new -o team/k.pem >key.txt
short_run f.zst --key team/k.pem
[ "$(find team -name 'ledger-*.jsonl' | wc -l)" = 1 ] || fail "no ledger beside the other key"
place f.zst '.position == 1'
exit_of 5 "$REPRO" verify e.zst --ledger "$(find team -name 'ledger-*.jsonl')" --no-ledger
# a ledger that was named is still of one key
REPRO_LEDGER=$(find team -name 'ledger-*.jsonl') short_run g.zst
words err.txt 'not in the'
place g.zst '.reason != null'
