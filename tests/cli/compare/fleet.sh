#!/bin/sh
# Of four and more results of the same settings and hardware, compare and report give median and spread, and name the
# outliers.
. "$TEST_DIR/common.inc"
need jq
node() { # NUMBER THROUGHPUT [MODEL [KEY=VALUE [DEVICE]]]
    printf 'step,throughput\n1,%s\n2,%s\n3,%s\n' "$2" "$2" "$2" >"node$1.csv"
    exit_of 0 "$REPRO" import csv "node$1.csv" --unit sequences/s --set "model=${3:-bert-base}" --set "device_model=${5:-CPU}" \
        ${4:+--set "$4"} -o "node$1.json" -f
}
node 1 101
node 2 102.5
node 3 100
node 4 80
node 5 103
exit_of 0 "$REPRO" compare node1.json node2.json node3.json node4.json node5.json
says_in '5 results of the same settings and hardware: median 101.00 sequences/s, 80.000 (4) to 103.00 (5), spread 22.8 %' \
    out.txt
says_in 'outlier: 4 (node4.csv), 20.8 % below the median' out.txt
[ "$(grep -c outlier out.txt)" = 1 ] || fail "other outliers"
exit_of 0 "$REPRO" compare node1.json node2.json node3.json node4.json node5.json --json
jq -e '(.fleet.highest - 103 | fabs) < 1e-9 and (.fleet.spread - 23 / 101 | fabs) < 1e-9
    and (.fleet.outliers[0].deviation + 21 / 101 | fabs) < 1e-9
    and (.fleet | [.results, .median, .lowest, .unit, (.outliers | length), .outliers[0].row])
        == [5, 101, 80, "sequences/s", 1, 3]' out.txt >answer.txt || fail "the JSON: $(jq -c .fleet out.txt)"
cp out.txt fleet.json
exit_of 0 "$REPRO" schema compare fleet.json
# A node that is faster is one too; deviations below 1 % are none, however close the others are.
node 4 120
node 2 101
node 3 101
node 5 101.5
exit_of 0 "$REPRO" compare node1.json node2.json node3.json node4.json node5.json
says_in 'outlier: 4 (node4.csv), 18.8 % above the median' out.txt
[ "$(grep -c outlier out.txt)" = 1 ] || fail "other outliers"
# Three results are no fleet, nor are those of other settings, which are left out of a larger one.
exit_of 0 "$REPRO" compare node1.json node2.json node4.json --json
jq -e 'has("fleet") == false' out.txt >answer.txt || fail "three results"
node 6 10 bert-large
exit_of 5 "$REPRO" compare node1.json node2.json node3.json node5.json node6.json --json --all
jq -e '.fleet | .results == 4 and .lowest == 101 and .outliers == []' out.txt >answer.txt ||
    fail "another model: $(jq -c .fleet out.txt)"
exit_of 5 "$REPRO" compare node6.json node1.json node2.json node3.json node5.json --json --all
jq -e '.fleet.results == 4' out.txt >answer.txt || fail "the first result decides"
for hardware in 'isa=avx2 CPU' 'devices=2 CPU' 'nodes=2 CPU' 'threads=4 CPU' ' B200'; do
    node 6 50 bert-base "${hardware% *}" "${hardware#* }"
    "$REPRO" compare node1.json node2.json node3.json node5.json node6.json --json --all >out.txt 2>err.txt || :
    jq -e '.fleet | .results == 4 and .lowest == 101' out.txt >answer.txt || fail "$hardware is in the fleet: $(jq -c .fleet out.txt)"
done
# Of two fleets of one size, the first.
for i in 6 7 8 9; do node $i 10 bert-large; done
"$REPRO" compare node1.json node2.json node6.json node7.json node3.json node5.json node8.json node9.json --json --all >out.txt 2>err.txt || :
jq -e '.fleet.results == 4 and .fleet.lowest == 101' out.txt >answer.txt || fail "the second of two fleets: $(jq -c .fleet out.txt)"
# The limit: 3.5 / 0.6745 = 5.19 times the median deviation, here 1.
node 1 100
node 2 101
node 3 102
node 4 103
node 5 96
exit_of 0 "$REPRO" compare node1.json node2.json node3.json node4.json node5.json --json
jq -e '.fleet | .median == 101 and .outliers == []' out.txt >answer.txt || fail "5 deviations: $(jq -c .fleet out.txt)"
node 5 95.5
exit_of 0 "$REPRO" compare node1.json node2.json node3.json node4.json node5.json --json
jq -e '[.fleet.outliers[].row] == [4]' out.txt >answer.txt || fail "5.5 deviations: $(jq -c .fleet out.txt)"
# Bundles, in both forms of a report: the fleet has no file names, which the body of a page does not depend on.
for i in 1 2 3 4; do make_bundle $i.zst --set seed.data=$i --no-ledger; done
exit_of 0 "$REPRO" compare 1.zst 2.zst 3.zst 4.zst --json
line=$(jq -r '.fleet | "\(.results) results of the same settings and hardware: median"' out.txt)
[ "$line" = "4 results of the same settings and hardware: median" ] || fail "of bundles: $line"
exit_of 0 "$REPRO" report 1.zst 2.zst 3.zst 4.zst -o page.html
says_in "$line" page.html
exit_of 0 "$REPRO" report 1.zst 2.zst 3.zst 4.zst -o page.md
says_in "$line" page.md
! grep 'outlier: .*zst' page.html page.md || fail "a file name in the body"
