#!/bin/sh
# The self-test passes here, covers more than one operation, and its report is complete.
. "$TEST_DIR/common.inc"
"$REPRO" selftest --json >report.json
jq -e '.["SHA-256"] and .Ed25519 and ([.operations[] | select(.failed > 0)] | length == 0)' report.json >answer.txt || { cat report.json >&2; fail "the report"; }
[ "$(jq '[.operations[].op] | unique | length' report.json)" -ge 10 ] || fail "few operations are covered"
[ "$(jq '[.operations[].isa] | unique | index("scalar")' report.json)" != null ] || fail "the scalar kernels are not covered"
