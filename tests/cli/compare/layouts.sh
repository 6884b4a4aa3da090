#!/bin/sh
# Layouts of the published reports: figures of the reports in their places, ours beside them, "no evidence" wherever nothing was measured.
. "$TEST_DIR/common.inc"
DL="published:dlperf_v100#model=bert-base,precision=fp32,batch_mode=fixed,note="
exit_of 0 "$REPRO" compare --layout dlperf "$DL" "$BUNDLE" --format md
grep -q '^| 4 | 32 | 3689.8 | 2727.9 | 2885.81 | 2073.6 | no evidence |$' out.txt || { cat out.txt >&2; fail "not the row of 32 devices"; }
grep -qF "| 1 | 1 | 152.89 | 107.33 | 119.6 | 132.64 | $RATE |" out.txt || fail "not the row of one device"
says '| 4 | 8 | 32 | 3689.8 | sequences/s | 24.13 |'
says "0 are of bundles verified for this table with a trusted key, 1 of bundles verified but signed by an unknown key"

says "OneFlow, Tesla V100-SXM2-16GB"

# in CSV the table of each implementation says whose it is
exit_of 0 "$REPRO" compare --layout dlperf "$DL" --format csv
says '"bert-base, fp32, batch size per device: 32",OneFlow,4,8,32,3689.8,'
says '"bert-base, fp32, batch size per device: 32",PaddlePaddle,4,8,32,2073.6,'
[ "$(grep -c '^section,table,' out.txt)" = "$(grep -c '^$' out.txt | awk '{print $1 + 1}')" ] || fail "a table without names of columns"
exit_of 0 "$REPRO" compare --layout paddle "$BUNDLE" --format csv
says ',Environment,processor,'

# two results of one place: said in the summary, and neither is a speed-up of the other
exit_of 0 "$REPRO" compare --layout dlperf "$BUNDLE" "$BUNDLE" --format md
says "| 1 | 1 | $RATE (first of 2) |"
says "| 1 | 0 (CPU) | 32 | $RATE | sequences/s | - |"
says "Hardware of all results: 2 threads of $CPU (model "
exit_of 0 "$REPRO" compare --layout gpt published:gpt_v100 published:gpt_v100
says "4.92 (first of 2)"

exit_of 0 "$REPRO" compare --layout paddle 'published:dlperf_v100#model=bert-base,framework=PaddlePaddle' "$BUNDLE" --format md
grep -q '^| 32 | 2073.6 | 3406.36 | 3167.68 | 5452.35 |$' out.txt || { cat out.txt >&2; fail "not the row of 32 cards"; }
grep -q '^| 8 | no evidence | no evidence | no evidence | no evidence |$' out.txt || fail "8 cards of ours are no evidence"
says "| processor | $CPU |"
says "    repro run bert_fp32.yaml"
says ": steps/rank0.jsonl"
says "no evidence: results/published/dlperf\\_v100.csv:69 is the published figure alone"

# what compare leaves out, layouts leave out; tables alone are laid out whole
exit_of 0 "$REPRO" compare --layout dlperf "$BUNDLE" published:dlperf_v100 --all
says "resnet50-v1.5, fp32"
exit_of 0 "$REPRO" compare --layout dlperf published:dlperf_v100
says "resnet50-v1.5, fp32"
says "bert-base, fp32"
for layout in dlperf paddle mlperf gpt; do
    exit_of 0 "$REPRO" compare --layout $layout "$BUNDLE" published:dlperf_v100
    says "64 results of other models left out: resnet50-v1.5 (--all shows them)"
    [ "$(grep -c resnet50 out.txt)" = 1 ] || fail "$layout: a result of another model"
done

exit_of 0 "$REPRO" compare --layout gpt published:gpt_v100 "$BUNDLE" --json
jq -e '.blocks[] | select(.columns) | (.rows | length) == 18 and (.columns | length) == 13 and
    ([.rows[] | .[10]] | unique) == ["no evidence"] and .rows[0][7:10] == ["406.16", "11066", "4.92"]' out.txt >/dev/null || fail "the 18 cases"
exit_of 0 "$REPRO" compare --layout gpt "$BUNDLE" --json
jq -e '.blocks[] | select(.columns) | .columns[7:] == ["latency (ms)", "memory (MiB)", "sequences/s"]' out.txt >/dev/null || fail "odd columns"
jq -e '[.blocks[] | select(.columns) | .rows[][7:] | .[]] | unique == ["no evidence"]' out.txt >/dev/null || fail "a cell was made up"
exit_of 0 "$REPRO" compare --layout mlperf "$BUNDLE" --json
jq -e --arg rate "$RATE" '.blocks[] | select(.columns) | [.columns, .rows[0]] | transpose | map({key: .[0], value: .[1]}) | from_entries |
    .["time to train"] == "no evidence" and .throughput == $rate and .accelerators == "0"' out.txt >/dev/null || fail "the summary"

# a bundle that does not verify is marked in every table, and the list of a folder gives no figure of it
"$REPRO" key new -o other.key | sed -n '3,$p' >other.pem
for layout in dlperf paddle mlperf; do
    exit_of 0 "$REPRO" compare --layout $layout "$BUNDLE" --unverified --trust other.pem
    says "$RATE (NOT VERIFIED)"
done
mkdir -p r/x && cp "$BUNDLE" r/x/a.repro.tar.zst && cp other.pem r/x/key.pem
printf 'time,power\n1,2\n' >r/x/power.csv
exit_of 5 "$REPRO" compare --layout index r --format md
says "| NOT VERIFIED |"
says "Made by: repro compare --layout index r --format md"
says "0 verified with a key that is not there to compare, 1 did NOT verify"
says "no tables of results: x/power.csv (1 CSV files)"
says "1 of the bundles below 'r' did not verify"
says_not "$RATE"
says_not "| x/power.csv |"
cp "$(dirname "$BUNDLE")/key.pem" r/x/key.pem
ln -s /etc r/y
exit_of 0 "$REPRO" compare --layout index r --format md
says "| verified, with the key.pem beside it |"
says "$RATE"
rm r/x/key.pem
exit_of 0 "$REPRO" compare --layout index r
says "1 verified with a key that is not there to compare, 0 did NOT verify"
exit_of 2 "$REPRO" compare --layout index r r
exit_of 3 "$REPRO" compare --layout index nothing
exit_of 2 "$REPRO" compare --layout index other.pem
