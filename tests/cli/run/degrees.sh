#!/bin/sh
# A run with degrees of parallelism on one rank: the output, the report, the page, inspect and compare name the ranks and count one device.
. "$TEST_DIR/common.inc"
need jq
"$REPRO" run gpt_tiny_fp32 --set parallel.data=2 --set parallel.pipeline=2 --set train.recompute=selective --set task.seq_length=16 \
    --set model.hidden_size=32 --set model.intermediate_size=128 --set measure.ceilings=false --set measure.repeats=1 --steps 2 -o d.repro.tar.zst >out.txt 2>err.txt
words err.txt arithmetic
words out.txt arithmetic
grep -q '^[0-9.]* sequences/s, .*, [0-9.]* tokens/s$' out.txt || fail "no tokens per second"
"$REPRO" verify d.repro.tar.zst >verified.txt
"$REPRO" report d.repro.tar.zst --format md >report.md
words report.md arithmetic
grep -q '^| gpt, 2 layers, hidden size 32 | .* | [0-9]* threads* of [^|]* | ' report.md || fail "other devices than one"
sed -n 's|[0-9.]* tokens/s|N tokens/s|p' report.md
sed -n 's/^\(| achieved FLOP rate, recomputation included |\).*/\1/p' report.md
"$REPRO" inspect d.repro.tar.zst --json | jq -e '.claims.ranks_of_arithmetic == 4' >answer.txt || fail "inspect does not name the ranks"
"$REPRO" inspect d.repro.tar.zst run.json | jq -e '.world.ranks == 1 and .results.samples_per_step == 16 and
    (.results.hardware_flops_per_s / .results.flops_per_s - .model.hardware_flops_per_sample / .model.flops_per_sample | fabs) < 1e-12 and
    .model.hardware_flops_per_sample - .model.flops_per_sample == 2 * 2 * 32 * 16 * 17' >answer.txt || fail "the figures"
"$REPRO" report d.repro.tar.zst -o page.html
grep -q '<dt>tokens</dt>' page.html && grep -q '<dt>GEMM, recomputation included</dt>' page.html || fail "the page has no tokens or hardware FLOPs"
grep -q 'computed by' page.html || fail "the page does not name the ranks"
exit_of 0 "$REPRO" compare d.repro.tar.zst d.repro.tar.zst --json
jq -e '.rows[0] | .devices == .threads and .nodes == 1 and .data_parallel == 2 and .pipeline_parallel == 2 and .vocabulary == 50304 and
    .recomputation == "selective" and .padding == "none"' out.txt >answer.txt || { cat out.txt >&2; fail "compare counts other devices"; }
jq -e '.rows[0] | .tokens_per_s == .throughput.value * 16' out.txt >answer.txt || fail "no tokens per second in the JSON"
exit_of 0 "$REPRO" compare d.repro.tar.zst d.repro.tar.zst --format csv
awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 2 { x = $at["tokens_per_s"] / $at["throughput"]; exit !(x > 15.9 && x < 16.1) }' out.txt ||
    { cat out.txt >&2; fail "no tokens per second in the CSV"; }
exit_of 0 "$REPRO" compare d.repro.tar.zst d.repro.tar.zst --json
jq -r '.notes[] | select(test("arithmetic"))' out.txt
exit_of 5 "$REPRO" compare d.repro.tar.zst 'published:gpt_v100#label=DP_8x1x1_16_1536x16,framework=OneFlow' --json
jq -e '[.pairs[0].confounders[] | select(.state == "differs").key] | contains(["precision", "recomputation", "data_parallel",
    "pipeline_parallel"])' out.txt >answer.txt || { cat out.txt >&2; fail "confounders are missing"; }
# a case of the GPT report by its name, made small: the bundle has the bytes of its recipe
"$REPRO" run gpt/DP_8x1x1_16_1536x16 --set model.hidden_size=32 --set model.intermediate_size=128 --set model.num_attention_heads=4 --set model.num_hidden_layers=1 \
    --set task.seq_length=16 --set measure.ceilings=false --set measure.warmup_steps=0 --steps 1 >out.txt 2>err.txt
bundle=$(tail -n 1 out.txt)
case $bundle in DP_8x1x1_16_1536x16-*.repro.tar.zst) ;; *) fail "the bundle is '$bundle'" ;; esac
"$REPRO" inspect "$bundle" recipe.yaml >recipe.yaml
"$REPRO" recipes show gpt/DP_8x1x1_16_1536x16 | cmp - recipe.yaml
documents "$bundle" | jq -e '.facts.recipe_name == "embedded:gpt/DP_8x1x1_16_1536x16" and .run.results.samples_per_step == 16' >answer.txt || fail "another name or batch"
"$REPRO" verify --all "$bundle" >verified.txt
grep -q '^passed *recipe  *recipes/gpt/DP_8x1x1_16_1536x16.yaml of this program, ' verified.txt || { cat verified.txt >&2; fail "not this program's recipe"; }
