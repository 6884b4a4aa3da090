#!/bin/sh
# A policy has its own exit status and names the broken rule; a bad one is refused before the bundle is read; the example in results/ holds.
. "$TEST_DIR/common.inc"
for bundle in "$TOP"/results/*/bert_fp32.repro.tar.zst; do
    key=$(dirname "$bundle")/key.pem
    check 0 policy "$bundle" --trust "$key" --policy "$TOP/results/policy.yaml"
done
bundle=$TOP/results/epyc-2core-2026-11-27/bert_fp32.repro.tar.zst # six timed steps
key=$(dirname "$bundle")/key.pem
check 0 policy "$bundle" --policy "$TOP/results/policy.yaml" # which names the signer
make_bundle a.repro.tar.zst
policy() { # STATUS RULES ARGUMENT...
    status=$1
    printf %b "$2" >mine.yaml
    shift 2
    check "$status" policy "$@" --policy mine.yaml
}
policy 9 'min_steps: 100\nmin_repeats: 3\ncomplete: true\n' "$bundle" --trust "$key"
policy 9 'replayed: 1\n' "$bundle"
policy 0 'replayed: 1\n' a.repro.tar.zst --replay 1
policy 9 'checks: {replay: note}\n' a.repro.tar.zst
policy 9 'max_failed_before: 0\n' a.repro.tar.zst
printf 'min_steps: 1\nmin_stops: 1\n' >mine.yaml
refuse 2 a.repro.tar.zst -p mine.yaml
# Names of signers that this machine does not know: of the trust store, of a file. All of them at once, before the bundle is read.
printf 'complete: true\nsigned_by: [nobody, ./none.pem]\ncountersigned_by: [SHA256:abc]\n' >mine.yaml
exit_of 2 "$REPRO" verify none.zst -p mine.yaml
says_in "mine.yaml:2:12: signed_by: 'nobody' is not a public key file, a fingerprint or a name in the trust store" err.txt
says_in "; 2:12: signed_by: " err.txt
says_in "; 3:19: countersigned_by: 'SHA256:abc' is not a fingerprint" err.txt
printf 'checks: {report_file: note}\n' >mine.yaml # of earlier programs
refuse 2 a.repro.tar.zst -p mine.yaml
refuse 3 a.repro.tar.zst -p none.yaml
refuse 2 --list a.repro.tar.zst
refuse 2
exit_of 0 "$REPRO" verify --list --json
jq -e '.checks | length > 30 and all(.severity | IN("fatal", "fail", "warn", "info"))' out.txt >answer.txt || fail "--list --json"
"$REPRO" verify --list | grep -c '^[a-z]' | grep -qx "$(jq '.checks | length' out.txt)" || fail "--list"
