#!/bin/sh
# Layouts of the published reports: figures of the reports in their places, ours next to them, "no evidence" where nothing was measured.
. "$TEST_DIR/common.inc"
need jq
layout() { # NAME RESULT...: its tables as JSON in out.txt
    name=$1
    shift
    exit_of 0 "$REPRO" compare --layout "$name" "$@" --json
}
row() { # CELLS: the first cells of a row of some table, as a JSON list
    jq -e --argjson row "$1" '[.blocks[].rows // [] | .[]] | any(.[:($row | length)] == $row)' out.txt >/dev/null || { jq -c '.blocks[].rows // empty | .[]' out.txt >&2; fail "no row $1"; }
}
DL="published:dlperf_v100#model=bert-base,precision=fp32,batch_mode=fixed,note="
layout dlperf "$DL" "$BUNDLE"
row '["4", "32", "3689.8", "2727.9", "2885.81", "2073.6", "no evidence"]'
row '["1", "1", "152.89", "107.33", "119.6", "132.64", "no evidence"]'
row "[\"1\", \"$DEVICES\", \"no evidence\", \"no evidence\", \"no evidence\", \"no evidence\", \"$RATE\"]"
row '["4", "8", "32", "3689.8", "sequences/s", "24.13"]'
jq -e '[.blocks[] | .columns // [] | .[] | select(test("OneFlow, Tesla V100"))] != []' out.txt >/dev/null || fail "hardware of several kinds is not named"

# in CSV the table of each implementation begins with its heading and title
exit_of 0 "$REPRO" compare --layout dlperf "$DL" --format csv
says ': 32",OneFlow,4,8,32,3689.8,'
says ': 32",PaddlePaddle,4,8,32,2073.6,'
[ "$(grep -c '^section,table,' out.txt)" = "$(grep -c '^$' out.txt | awk '{print $1 + 1}')" ] || fail "a table without names of columns"

# two results of one place: marked in the summary, and neither is a speed-up of the other
layout dlperf "$BUNDLE" "$BUNDLE"
row "[\"1\", \"$DEVICES\", \"$RATE (first of 2)\"]"
row "[\"1\", \"0 (CPU)\", \"32\", \"$RATE\", \"sequences/s\", \"no evidence\"]"
layout gpt published:gpt_v100 published:gpt_v100
jq -e '[.blocks[].rows // [] | .[][]] | any(. == "4.92 (first of 2)")' out.txt >/dev/null || fail "two of one cell"

layout paddle 'published:dlperf_v100#model=bert-base,framework=PaddlePaddle' "$BUNDLE"
row '["32", "2073.6", "3406.36", "3167.68", "5452.35"]'
row '["8", "no evidence", "no evidence", "no evidence", "no evidence"]'
row "[\"processor\", \"$CPU\"]"
jq -e '[.blocks[] | .command // empty] | any(. == "repro run bert_fp32.yaml")' out.txt >/dev/null || fail "no command"

# what compare leaves out, layouts leave out; tables alone are laid out whole
models() {
    jq -r '[.blocks[].heading // empty | select(test("per device")) | split(",")[0]] | unique | join(" ")' out.txt
}
layout dlperf "$BUNDLE" published:dlperf_v100 --all
[ "$(models)" = "bert-base resnet50-v1.5" ] || fail "--all: $(models)"
layout dlperf published:dlperf_v100
[ "$(models)" = "bert-base resnet50-v1.5" ] || fail "a table alone: $(models)"
for name in dlperf paddle mlperf gpt; do
    layout $name "$BUNDLE" published:dlperf_v100
    [ "$(grep -c resnet50 out.txt)" = 1 ] || fail "$name: a result of another model, or no line that counts them"
done

layout gpt published:gpt_v100 "$BUNDLE"
jq -e '[.blocks[] | select(.columns)][0] | (.rows | length) == 18 and (.columns | length) == 13 and
    .rows[0][7:] == ["406.16", "11066", "4.92", "464.12", "14362", "4.31"]' out.txt >/dev/null || fail "the 18 cases"
# the published FLOP/s follow from the latencies to the last digit
jq -e '[.blocks[] | select(.columns)][1] | .columns[9:12] == ["TFLOP/s, as published", "TFLOP/s, published formula", "TFLOP/s, model FLOPs"] and
    (.rows | length) == 36 and all(.rows[]; .[9] == .[10] and (.[11] | tonumber) < 0.76 * (.[10] | tonumber)) and
    ([.rows[] | .[2, 5]] | unique) == ["amp", "full"]' out.txt >/dev/null || { jq -c '.blocks[]' out.txt >&2; fail "the FLOP/s of the report"; }
jq -e '[.blocks[] | select(.columns)] | length == 2' out.txt >/dev/null || fail "differences of published runs"
# one device with the arithmetic of eight ranks: in its cells, with FLOP/s of one device, and with what differs
printf '{"schema": "repro-imported/1", "rows": [{"model": "gpt of 16 x 1536", "framework": "mine", "precision": "fp32", "devices": 1, "nodes": 1,
    "data_parallel": 8, "tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch": 2, "global_batch": 16, "hidden_size": 1536, "layers": 16,
    "sequence_length": 2048, "vocabulary": 50304, "recomputation": "none", "latency_ms": 8000, "task": "pre-training",
    "throughput": {"value": 2, "unit": "sequences/s"}}]}' >eight.json
layout gpt published:gpt_v100 eight.json
row '["DP_8x1x1_16_1536x16", "1", "8", "8x1x1", "2", "16", "1536x16", "417.95", "12404", "38.28", "480.96", "14938", "33.27", "8000.00", "no evidence", "2.000"]'
jq -e '[.blocks[].rows // [] | .[] | select(.[1] == "mine")] | any(.[2:4] == ["fp32", "unknown"] and
    .[5:12] == ["none", "50304", "2.000", "4096", "no evidence", "20.07", "14.27"] and (.[4] | test("^1,.* 8 ranks$")))' out.txt >/dev/null || fail "the FLOP/s of one device"
row '["DP_8x1x1_16_1536x16", "eight.json", "precision", "setting", "amp", "fp32"]'
row '["DP_8x1x1_16_1536x16", "eight.json", "recomputation", "setting", "full", "none"]'
row '["DP_8x1x1_16_1536x16", "eight.json", "number of devices", "machine", "8", "1"]'
jq -e '[.blocks[].rows // [] | .[] | select(.[2] == "model" or .[2] == "hidden size")] == []' out.txt >/dev/null || fail "the same model differs"
layout gpt "$BUNDLE"
jq -e '[.blocks[] | select(.columns)][0] | (.columns | length) == 10 and ([.rows[][7:] | .[]] | unique == ["no evidence"])' out.txt >/dev/null || fail "a cell was made up"
layout mlperf "$BUNDLE"
jq -e --arg rate "$RATE" '.blocks[] | select(.columns) | [.columns, .rows[0]] | transpose | map({key: .[0], value: .[1]}) | from_entries |
    .["time to train (min)"] == "no evidence" and .throughput == $rate and .accelerators == "0"' out.txt >/dev/null || fail "the summary"

# a bundle that does not verify is marked in every table, and the list of a folder has no figure of it
"$REPRO" key new -o other.key | sed -n '3,$p' >other.pem
for name in dlperf paddle mlperf; do
    layout $name "$BUNDLE" --unverified --trust other.pem
    jq -e --arg cell "$RATE (NOT VERIFIED)" '[.blocks[].rows // [] | .[][]] | any(. == $cell)' out.txt >/dev/null || fail "$name: not marked"
done
mkdir -p r/x && cp "$BUNDLE" r/x/a.repro.tar.zst && cp other.pem r/x/key.pem && ln -s /etc r/y
printf 'time,power\n1,2\n' >r/x/power.csv
index() { # STATUS VERDICT: of the one bundle
    exit_of "$1" "$REPRO" compare --layout index r --json
    jq -e --arg is "$2" '[.blocks[] | select(.rows)] | (.[0].rows | length == 1 and (.[0][9] | startswith($is))) and (.[1].rows // [] == [])' out.txt >/dev/null ||
        { cat out.txt >&2; fail "not '$2'"; }
}
index 5 "NOT VERIFIED"
grep -qF "\"$RATE\"" out.txt && fail "a figure of a bundle that does not verify"
cp "$(dirname "$BUNDLE")/key.pem" r/x/key.pem
index 0 "verified: authentic"
rm r/x/key.pem
index 0 "verified, but"
exit_of 2 "$REPRO" compare --layout index r r
exit_of 3 "$REPRO" compare --layout index nothing
exit_of 2 "$REPRO" compare --layout index other.pem
