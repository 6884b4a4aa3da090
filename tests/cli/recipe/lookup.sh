#!/bin/sh
# A path with or without .yaml wins over an embedded name; recipes/NAME without such a file is the embedded one.
. "$TEST_DIR/common.inc"
parameters() { plan --json "$@" || { cat err.txt >&2; fail "'$*'"; }; jq .parameters plan.txt; }
embedded=$(parameters bert_tiny_fp32)
for name in recipes/bert_tiny_fp32 recipes/bert_tiny_fp32.yaml ./recipes/bert_tiny_fp32 bert_tiny_fp32.yaml; do
    [ "$(parameters "$name")" = "$embedded" ] || fail "$name is not the embedded recipe"
done
"$REPRO" recipes show bert_tiny_fp32 | sed 's/num_hidden_layers: 2/num_hidden_layers: 3/' >three.txt # not yet under the name that would win
mv three.txt bert_tiny_fp32.yaml
own=$(parameters bert_tiny_fp32)
[ "$own" != "$embedded" ] || fail "the embedded recipe won over a file"
[ "$(parameters bert_tiny_fp32.yaml)" = "$own" ] || fail "with its ending it is another one"
[ "$(parameters recipes/bert_tiny_fp32)" = "$embedded" ] || fail "recipes/ is not the embedded one"
mkdir recipes && cp bert_tiny_fp32.yaml recipes/
[ "$(parameters recipes/bert_tiny_fp32)" = "$own" ] || fail "the file recipes/bert_tiny_fp32.yaml was not taken"
printf '{"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 128, "vocab_size": 30522, "model_type": "bert"}' >small.json
small=$(parameters bert_tiny_fp32 --set model.config=small.json)
[ "$small" -lt "$embedded" ] || fail "model.config was not read"
