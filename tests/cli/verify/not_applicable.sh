#!/bin/sh
# A check that has nothing to check is not applicable: it neither counts as passed nor satisfies a policy, however lenient.
. "$TEST_DIR/common.inc"
make_bundle bare.zst --set measure.ceilings=false
exit_of 0 "$REPRO" verify bare.zst --json
cp out.txt bare.json
# What such a run lacks: every other check compared something.
for id in countersignatures timestamps ceilings telemetry energy outliers challenge agreement; do
    state=$(jq -r --arg id "$id" '.checks[] | select(.check == $id).state' bare.json)
    [ "$state" = not_applicable ] || fail "$id is '$state', not 'not_applicable'"
done
jq -r '.checks[] | select(.state == "not_applicable") | "\(.check): \(.text)"' bare.json
# The counts are those of the table, without `policy` and `claims`, which are no checks of the bundle.
jq -e '(reduce (.checks[] | select(.severity != "info" and .check != "policy").state) as $s ({}; .[$s] += 1)) as $is | .counts as $n |
    all("passed", "note", "warning", "failed", "not_applicable", "skipped"; ($is[.] // 0) == $n[.]) and
    $n.applicable == $n.passed + $n.note + $n.warning + $n.failed' bare.json >answer.txt || fail "counts: $(jq -c .counts bare.json)"
jq -e '.counts as $n | .levels.consistent.text | contains("\($n.passed) of \($n.applicable) checks passed")' bare.json >answer.txt ||
    fail "level consistent: $(jq -c '.counts, .levels.consistent' bare.json)"
# A run that has more to check passes more checks, never fewer.
exit_of 0 "$REPRO" run bert_tiny_fp32 --threads 1 --steps 5 --set measure.repeats=1 -o more.zst
exit_of 0 "$REPRO" verify more.zst --json
[ "$(jq .counts.passed out.txt)" -gt "$(jq .counts.passed bare.json)" ] || fail "more steps and ceilings pass no more checks"
# The weakest demand that a policy can make of each check.
for id in $(jq -r '.checks[] | select(.severity != "info" and .check != "policy") | .check' bare.json); do
    echo "checks: {$id: warning}" >weak.yaml
    case $(jq -r --arg id "$id" '.checks[] | select(.check == $id).state' bare.json) in
        skipped | not_applicable) expected=9 ;;
        *) expected=0 ;;
    esac
    exit_of $expected "$REPRO" verify bare.zst --policy weak.yaml
done
