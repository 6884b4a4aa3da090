#!/bin/sh
# A policy decides with its own exit status, says which rule is broken, and is read before any bundle is; the shipped one holds.
. "$TEST_DIR/common.inc"
for bundle in "$TOP"/results/*/bert_fp32.repro.tar.zst; do
    key=$(dirname "$bundle")/key.pem
    exit_of 0 "$REPRO" verify "$bundle" --trust "$key" --policy "$TOP/results/policy.yaml"
    says "rules hold"
    [ "$(tail -n 1 out.txt)" = verified ] || fail "not verified"
done
exit_of 5 "$REPRO" verify "$bundle" --policy "$TOP/results/policy.yaml" # signed by the named key, which nobody here trusts
says "key is 'note', allowed is 'passed'"
printf 'min_steps: 100\nmin_repeats: 3\ncomplete: true\n' >mine.yaml
exit_of 5 "$REPRO" verify --json "$bundle" --trust "$key" -p mine.yaml
says '"verdict": "failed"'
says '"rule": "complete"'
says "6 timed steps, 100 asked for"
printf 'replayed: 1\n' >mine.yaml
exit_of 5 "$REPRO" verify "$bundle" -p mine.yaml
make_bundle
exit_of 0 "$REPRO" verify a.repro.tar.zst -p mine.yaml --replay 1
exit_of 0 "$REPRO" report a.repro.tar.zst -o a.html
printf 'checks: {report_file: note}\n' >mine.yaml
exit_of 5 "$REPRO" verify a.repro.tar.zst -p mine.yaml
says "report_file is 'skipped', allowed is 'note'"
exit_of 0 "$REPRO" verify a.repro.tar.zst -p mine.yaml --report a.html
sed 's/repro-page/repro-pages/' a.html >other.html # by another version: not decided, and not what was asked for
exit_of 5 "$REPRO" verify a.repro.tar.zst -p mine.yaml --report other.html
says "report_file is 'skipped', allowed is 'note'"
exit_of 7 "$REPRO" verify a.repro.tar.zst --report other.html
printf 'max_failed_before: 0\n' >mine.yaml
exit_of 5 "$REPRO" verify a.repro.tar.zst -p mine.yaml
says "no ledger was given (--ledger)"
printf 'min_steps: 1\nmin_stops: 1\n' >mine.yaml
exit_of 2 "$REPRO" verify a.repro.tar.zst -p mine.yaml
says "mine.yaml:2:1: unknown rule 'min_stops': did you mean 'min_steps'?"
exit_of 3 "$REPRO" verify a.repro.tar.zst -p none.yaml
says "none.yaml"
[ ! -s out.txt ] || fail "a table without a policy"

exit_of 0 "$REPRO" verify --list
for id in container signature peak step_variation outliers loss policy claims; do
    grep -q "^$id  *[a-z]*  *[a-z]" out.txt || fail "no check $id in the list"
done
exit_of 0 "$REPRO" verify --list --json
says '"severity": "warn"'
exit_of 2 "$REPRO" verify --list a.repro.tar.zst
exit_of 2 "$REPRO" verify
