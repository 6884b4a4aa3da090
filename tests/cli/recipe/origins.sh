#!/bin/sh
# Every key is in the bundle with its value and its origin, beside the exact bytes of the recipe.
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" key new -o key.pem
exit_of 0 "$REPRO" run bert_tiny_fp32 --threads 1 --set train.batch_size=2 --set measure.repeats=1 --steps 1 --set measure.warmup_steps=0 \
    --key key.pem -o b.repro.tar.zst
"$REPRO" inspect b.repro.tar.zst facts.json >resolved.json
origin() { jq -r --arg k "$1" '.recipe.keys[$k].origin // .recipe[$k].origin' resolved.json; }
value() { jq -r --arg k "$1" '(.recipe.keys[$k] // .recipe[$k]).value' resolved.json; }
[ "$(origin train.batch_size)" = "command line" ] || fail "batch: $(origin train.batch_size)"
[ "$(value train.batch_size)" = 2 ] || fail "batch: $(value train.batch_size)"
[ "$(origin measure.timed_steps)" = "command line" ] || fail "a flag: $(origin measure.timed_steps)"
[ "$(origin model.hidden_size)" = recipe ] || fail "recipe: $(origin model.hidden_size)"
[ "$(origin seed.init)" = default ] || fail "default: $(origin seed.init)"
"$REPRO" inspect b.repro.tar.zst recipe.yaml >inside.yaml
"$REPRO" recipes show bert_tiny_fp32 | cmp - inside.yaml
