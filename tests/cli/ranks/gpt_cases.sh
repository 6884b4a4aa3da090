#!/bin/sh
# The cases of the GPT report in fp32 and fp16, made small, with as many ranks as their degrees have: the same bits as one rank. Every ninth of
# the 36, and with LONG=1 all of them.
# timeout: 900
# exhaustive
. "$TEST_DIR/common.inc"
few_words
cases=0 every=9
[ "${LONG:-0}" = 0 ] || every=1
for name in $("$REPRO" recipes list gpt | sed -n 's/^  \([^ ]*\).*/\1/p'); do
    cases=$((cases + 1))
    [ $((cases % every)) = 0 ] || continue
    degrees=$(echo "$name" | sed -nE 's/.*_([0-9]+x[0-9]+x[0-9]+)_.*/\1/p')
    tensor=$(echo "$degrees" | cut -d x -f 2) pipeline=$(echo "$degrees" | cut -d x -f 3)
    ranks=$(($(echo "$degrees" | tr x '*')))
    layers=$((pipeline > 2 ? pipeline : 2)) heads=$((tensor > 4 ? tensor : 4))
    small="$name $quick $gpt_few --batch-size 1 --steps 1 --set task.seq_length=16 --set model.hidden_size=64 --set model.intermediate_size=64
        --set model.num_attention_heads=$heads --set model.num_hidden_layers=$layers"
    # one micro-batch after another through the stages, but fewer than in the report
    [ "$pipeline" = 1 ] || small="$small --set train.accumulation_steps=$((2 * pipeline))"
    # shellcheck disable=SC2086 # several words
    exit_of 0 "$REPRO" run $small -f -o one.repro.tar.zst
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" run $small --layout "$degrees" -f -o many.repro.tar.zst
    ranks_in many.repro.tar.zst "$ranks"
    same_bits one.repro.tar.zst many.repro.tar.zst
    jq -e --arg d "$degrees" '.run.world.ranks == 1 or (.facts.layout | "\(.data)x\(.tensor)x\(.pipeline)" == $d)' bits.json >answer.txt || fail "another layout than $degrees"
    verified many.repro.tar.zst
done
[ "$cases" = 36 ] || fail "$cases cases"
