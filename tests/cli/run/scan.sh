#!/bin/sh
# run --scan and --runs: a bundle for each run, and one table whose figures are those of the bundles.
. "$TOP/tests/common.inc"
need jq
small="--set measure.ceilings=false --threads 1 --steps 1 --set measure.warmup_steps=1 --set measure.repeats=1 --set train.accumulation_steps=1"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run resnet50_tiny_fp32 $small --scan train.batch_size=1,2 --scan seed.data=7,8 --runs 2 --json
says "run 8 of 8: train.batch_size=2 seed.data=8"
cp out.txt scan.json
exit_of 0 "$REPRO" schema run-output scan.json
jq -e '(.scan | length) == 4 and (.runs | length) == 8
    and ([.scan[].bundles[]] | length == (unique | length))
    and (.scan | all(.runs == 2 and (.bundles | length) == 2 and .unit == "images/s"))
    and [.scan[].settings | ."train.batch_size" + " " + ."seed.data"] == ["1 7", "1 8", "2 7", "2 8"]' scan.json >answer.txt ||
    fail "the rows: $(jq -c '.scan, (.runs | length)' scan.json)"
# the repetitions of a setting are spread over the whole time
jq -e '[.runs[].settings."train.batch_size"] | add == "11221122"' scan.json >answer.txt || fail "the order"
# figures and settings are those of the bundles
i=0
while [ $i -lt 4 ]; do
    jq -r ".scan[$i].bundles[]" scan.json >bundles.txt
    while read -r bundle; do
        verified "$bundle" --no-ledger
        "$REPRO" inspect "$bundle" run.json >run.json
        "$REPRO" inspect "$bundle" facts.json >facts.json
        jq -r '.recipe | ."train.batch_size".value, ."seed.data".value' facts.json >is.txt
        jq -r ".scan[$i].settings | .\"train.batch_size\", .\"seed.data\"" scan.json | cmp -s - is.txt ||
            fail "$bundle has other settings"
        jq .results.throughput.value run.json
    done <bundles.txt | jq -s --slurpfile s scan.json --argjson i $i 'sort as $v | ($s[0].scan[$i]) as $row
        | ($row.median - ($v[0] + $v[1]) / 2 | fabs) < 1e-9 and $row.lowest == $v[0] and $row.highest == $v[1]
        and ($row.spread - ($v[1] - $v[0]) / $row.median | fabs) < 1e-9' >answer.txt
    grep -qx true answer.txt || fail "the figures of row $i: $(jq -c ".scan[$i]" scan.json)"
    i=$((i + 1))
done
# Text: a table, then the path of each bundle. What fails does not end the series, and the status is that of the worst.
# shellcheck disable=SC2086
exit_of 7 "$REPRO" run resnet50_tiny_fp32 $small --scan model.width=8,1024 -q # 3 TB
says "1 of 2 runs failed: model.width=1024"
[ "$(sed -n 1p out.txt | tr -s ' ')" = "model.width runs median unit lowest highest spread last loss" ] ||
    fail "the head: $(cat out.txt)"
sed -n 2p out.txt | grep -q '^8 .* 1  .*images/s .* 0\.0 %' || fail "the row of the run: $(cat out.txt)"
sed -n 3p out.txt | grep -q '^1024  *0 ' || fail "the row of the failure: $(cat out.txt)"
[ "$(wc -l <out.txt)" = 4 ] || fail "other lines: $(cat out.txt)"
[ -s "$(tail -n 1 out.txt)" ] || fail "no bundle at the end"
# Ctrl-C in the first run ends the series.
"$REPRO" run resnet50_tiny_fp32 --threads 1 --steps 100000 --runs 2 --no-ledger >out.txt 2>err.txt &
pid=$!
wait_until $pid grep -q 'timed  step' err.txt
kill -INT $pid
status=0
wait $pid || status=$?
[ "$status" = 130 ] || { cat err.txt >&2; fail "interrupted, it exits with $status"; }
! grep -q 'run 2 of 2' err.txt || fail "another run begins after Ctrl-C"
[ -s "$(tail -n 1 out.txt)" ] || fail "no bundle of the interrupted run"
# Mistakes are found before the first run.
for args in "--scan train.batch_size=1,x" "--scan nothing=1,2" "--scan train.batch_size" "--scan =1" "--runs 0" \
    "--scan train.batch_size=1,,2" "--runs 2 -o x.zst" "--runs 2 --plan" "--runs 2 --save x" \
    "--scan train.batch_size=1,2 --batch-size 4" "--scan seed.data=1,2 --hosts localhost,b"; do
    # shellcheck disable=SC2086
    exit_of 2 "$REPRO" run bert_tiny_fp32 $args
    ! grep -q 'run 1 of' err.txt || fail "'$args' is found late"
done
