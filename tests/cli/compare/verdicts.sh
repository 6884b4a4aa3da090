#!/bin/sh
# A verdict, a reason and an exit status each: the same bundle, another device, other work, nothing to compare; bundles that do not verify.
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" compare "$BUNDLE" "$BUNDLE"
exit_of 0 "$REPRO" compare --strict "$BUNDLE" "$BUNDLE" --json
jq -e '.verdict == "comparable" and (.pairs[0].confounders == []) and (.notes | length) == 1' out.txt >/dev/null || fail "the same bundle twice"
exit_of 5 "$REPRO" compare --strict "$BUNDLE" "$FIRST"
exit_of 0 "$REPRO" compare "$BUNDLE" "$FIRST" --json
jq -e '.rows[1].throughput.value == 152.89 and (.pairs[0].ratio.value * .rows[0].throughput.value - 152.89 | fabs < 1e-9)' out.txt >/dev/null || fail "the ratio"
exit_of 5 "$REPRO" compare "$BUNDLE" 'published:dlperf_v100#model=resnet50-v1.5,gpus=1,precision=fp32,framework=PyTorch'
grep -q '[0-9]x ' out.txt && fail "a ratio where nothing can be compared"
exit_of 2 "$REPRO" compare "$BUNDLE"
exit_of 2 "$REPRO" compare "$BUNDLE" 'published:dlperf_v100#gpus=5'
words
exit_of 2 "$REPRO" compare "$BUNDLE" 'published:dlperf_v100#model=bert,gpus=1'
words
exit_of 2 "$REPRO" compare "$BUNDLE" 'published:dlperf_v100#model=bert-base,batch=128,precision=fp32'
words
exit_of 0 "$REPRO" compare "$BUNDLE" "published:dlperf_v100.csv#${FIRST#*#}"
exit_of 2 "$REPRO" compare "$BUNDLE" 'published:dlperf_v100#gpu=5'
words
exit_of 2 "$REPRO" compare "$BUNDLE" published:nothing
printf 'time,power\n1,2\n' >log.csv
exit_of 4 "$REPRO" compare "$BUNDLE" log.csv
words

# two runs of one recipe; what differs between their machines and programs is in test_compare.c
OTHER=$TOP/results/epyc-2core-2026-11-27/bert_fp32_1_thread.repro.tar.zst
exit_of 0 "$REPRO" compare "$BUNDLE" "$OTHER" --json
jq -e '(.verdict | startswith("comparable")) and (.rows | length) == 2 and (.pairs | length) == 1' out.txt >/dev/null ||
    { jq .pairs out.txt >&2; fail "two runs of one recipe"; }

# a table named whole: other models are left out, and counted; what was selected, or is all there is, is not
exit_of 0 "$REPRO" compare "$BUNDLE" published:dlperf_v100 --json
jq -e '(.rows | length) == 105 and .left_out == 64 and ([.rows[].model] | unique) == ["bert-base"]' out.txt >/dev/null || fail "left out"
exit_of 5 "$REPRO" compare "$BUNDLE" published:dlperf_v100 --all --json
jq -e '(.rows | length) == 169 and (has("left_out") | not)' out.txt >/dev/null || fail "all"
exit_of 5 "$REPRO" compare "$BUNDLE" "$FIRST" 'published:dlperf_v100#model=resnet50-v1.5,gpus=1'
exit_of 5 "$REPRO" compare "$BUNDLE" published:gpt_v100
printf '{"schema": "repro-imported/1", "rows": [{"model": "gpt", "throughput": {"value": 5, "unit": "sequences/s"}}]}' >one.json
exit_of 5 "$REPRO" compare "$BUNDLE" one.json # named by itself

# an imported figure is written like one of a bundle, with the interval of its own samples
printf '{"schema": "repro-imported/1", "rows": [{"model": "bert-base", "throughput": {"value": 145.45454545454547, "unit": "sequences/s"},
    "samples": [160, 133.33333333333334]}]}' >i.json # the second is harmonic: 2 / (1 / 160 + 1 / 133.3)
jq -c '.rows[0].sample_groups = [2]' i.json >j.json
exit_of 0 "$REPRO" compare "$BUNDLE" j.json
grep -q ' 145\.45 ' out.txt && grep -q ' 133\.33 to 160\.00 (n = 2)$' out.txt || { cat out.txt >&2; fail "no interval of the samples"; }
says_not "145.4545"
exit_of 0 "$REPRO" compare "$BUNDLE" j.json --json
jq -e '.pairs[0].ratio.records | length == 2 and .[1] == 2' out.txt >/dev/null || fail "the ratio hides how few records it has"
exit_of 3 "$REPRO" compare "$BUNDLE" nothing
exit_of 4 "$REPRO" compare "$BUNDLE" "$TOP/LICENSE"

# figures of a table that scale: recomputed, and the source is taken at its word nowhere
exit_of 0 "$REPRO" compare "published:oneflow_v100_2020-08#model=bert-base" --json
jq -e '.scaling | length == 4 and (.[3].speedup * 100 | round) == 2975 and .[3].claimed == 29.75' out.txt >/dev/null || fail "scaling"
printf 'framework,model,gpus,throughput,unit,speedup\na,m,1,100,images/s,1\na,m,8,700,images/s,7.9\na,m,16,1700,images/s,17\n' >x.csv
exit_of 0 "$REPRO" compare x.csv --json
jq -e '[.notes[] | split(":")[0]] == ["2", "3"]' out.txt >/dev/null || fail "a claimed speed-up of 7.9 that is 7, and 17 times as fast with 16 devices"

# a bundle that was changed is refused, and with --unverified it says so wherever it stands
size=$(wc -c <"$BUNDLE")
{ head -c $((size - 4)) "$BUNDLE"; printf XXXX; } >bad.zst
exit_of 4 "$REPRO" compare "$BUNDLE" bad.zst
words
"$REPRO" key new -o other.key | sed -n '3,$p' >other.pem
exit_of 6 "$REPRO" compare "$BUNDLE" "$BUNDLE" --trust other.pem
exit_of 0 "$REPRO" compare "$BUNDLE" "$BUNDLE" --trust other.pem --unverified
grep -o 'NOT VERIFIED: [^,]*' out.txt | head -n 1
exit_of 0 "$REPRO" compare "$BUNDLE" "$BUNDLE" --trust "$(dirname "$BUNDLE")/key.pem" --json
jq -e 'all(.rows[]; .source.verdict | startswith("verified: ")) and .pairs[0].ratio.low < 1 and .pairs[0].ratio.high > 1' out.txt >/dev/null || fail "json"
cp out.txt once.txt
exit_of 0 "$REPRO" compare "$BUNDLE" "$BUNDLE" --trust "$(dirname "$BUNDLE")/key.pem" --json
cmp once.txt out.txt || fail "the same comparison twice gives other bytes"

# within the width that COLUMNS names, the figures whole
COLUMNS=70 exit_of 0 "$REPRO" compare "$BUNDLE" "$FIRST"
words out.txt ' --format md'
says " 152.89"
awk 'length > 70 && /  / {exit 1}' out.txt || fail "a table is wider than the terminal"
