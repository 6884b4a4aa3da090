#!/bin/sh
# --profile trains, prints where the time of a step goes, and leaves nothing behind.
# timeout: 60
. "$TEST_DIR/common.inc"
need jq
for recipe in bert_tiny_fp32 resnet50_tiny_fp32 gpt_tiny_fp32; do
    "$REPRO" run $recipe --profile --steps 2 --set measure.warmup_steps=1 --save kept.safetensors --json >profile.json 2>err.txt ||
        { cat err.txt >&2; fail "$recipe"; }
    "$REPRO" run $recipe --plan --json >plan.json 2>err.txt
    # all of the time is somewhere; the products are those of the model, whose formula counts the first convolution's data
    # gradient and not the scores that attention computes again
    jq -e --slurpfile plan plan.json '.profile | (.operations | map(.seconds) | add) as $in | (.operations | map(.flops) | add) as $flops |
        .steps == 2 and .step_s > 0 and .other_s >= 0 and .other_share < 0.5 and (($in + .other_s) / .step_s | . > 0.999 and . < 1.001) and
        (.operations | map(.share) | add | . > 0.5 and . <= 1) and (.operations | map(.seconds) | . == (sort | reverse)) and
        .gemm_flops_per_s > 1e9 and .copy_bytes_per_s > 1e8 and
        ($flops / ($plan[0].flops_per_sample * .samples) | . > 0.85 and . < 1.05) and
        all(.operations[]; .calls >= 1 and .bytes > 0 and (.flops > 0) == (.flops_per_s != null) and (.flops > 0) == (.of_gemm != null) and
            (.flops > 0) == (.of_copy == null))' profile.json >answer.txt || { cat profile.json >&2; fail "the profile of $recipe"; }
done
exit_of 0 "$REPRO" schema run-output profile.json
jq -e '.profile.operations | map(select(.op == "gemm") | .form) | sort == ["NN", "NT", "TN"]' profile.json >answer.txt || fail "forms of products"
# tensor-parallel segments and stages are computed by one rank
"$REPRO" run gpt_tiny_fp32 --profile --steps 1 --set parallel.tensor=2 >profile.txt 2>err.txt || { cat err.txt >&2; fail "segments"; }
grep -q '^bias_add  ' profile.txt || fail "no bias after the sum over segments"
grep -q '^between operations  ' profile.txt && grep -q '^a step of [0-9]* sequences: ' profile.txt && grep -q '^the fastest matrix product here: ' profile.txt ||
    { cat profile.txt >&2; fail "the table"; }
find . "$HOME" -name '*.repro.tar*' -o -name '*.safetensors' -o -name 'ledger*' -o -name '*.pem' >left.txt
[ ! -s left.txt ] || { cat left.txt >&2; fail "it leaves files behind"; }
exit_of 2 "$REPRO" run bert_tiny_fp32 --profile --ranks 2
says 'leave out --ranks'
exit_of 2 "$REPRO" run bert_tiny_fp32 --profile --runs 2
says 'for one run'
exit_of 2 "$REPRO" run bert_tiny_fp32 --profile --plan
says 'leave one of them out'
