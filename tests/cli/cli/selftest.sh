#!/bin/sh
# The self-test passes here, covers more than one operation, and its report is complete.
. "$TEST_DIR/common.inc"
"$REPRO" selftest --json >report.json
jq -e '.sha256 and .ed25519 and ([.operations[] | select(.failed > 0)] | length == 0)' report.json >answer.txt || { cat report.json >&2; fail "the report"; }
[ "$(jq '[.operations[].op] | unique | length' report.json)" -ge 10 ] || fail "few operations are covered"
[ "$(jq '[.operations[].isa] | unique | index("scalar")' report.json)" != null ] || fail "the scalar kernels are not covered"
# For people one line an instruction set, and every case of the report is in them.
"$REPRO" selftest >all.txt
grep -v "^cuda  *not tested:" all.txt >out.txt # there may be no GPU, which is said
[ "$(wc -l <out.txt)" = $((2 + $(jq '[.operations[].isa] | unique | length' report.json))) ] || fail "lines: $(cat out.txt)"
[ "$(sed -n 's/.* \([0-9]*\) cases, 0 failed$/\1/p' out.txt | awk '{n += $1} END {print n}')" = "$(jq '[.operations[].cases] | add' report.json)" ] || fail "cases: $(cat out.txt)"
