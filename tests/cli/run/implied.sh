#!/bin/sh
# What a command line implies: micro-batches for all ranks, a title that stays true, another sample, and notes about each.
. "$TEST_DIR/common.inc"
need jq
key() { jq -r --arg k "$1" '.recipe[$k] | "\(.value), \(.origin)"' facts.json; }
short="--steps 1 --set measure.repeats=1 --set measure.warmup_steps=1 --set measure.ceilings=false"

# two ranks of a recipe with one micro-batch: each keeps its batch, and the step grows
"$REPRO" recipes show bert_tiny_fp32 | sed 's/accumulation_steps: 2/accumulation_steps: 1/' >one.yaml
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run one.yaml --ranks 2 --threads 1 $short -o ranks.repro.tar.zst
says '2 ranks: the batch of each stays, and a step has 2 micro-batches instead of 1 (train.accumulation_steps=2)'
says "16 samples a step instead of the recipe's 8, at its learning rate of 0.001"
grep -q '^2 ranks on 1 node: 2 threads of ' out.txt || grep -q '^2 ranks on 1 node: 1 thread of ' out.txt || fail "the ranks are not named"
"$REPRO" inspect ranks.repro.tar.zst facts.json >facts.json
[ "$(key train.accumulation_steps)" = '2, command line' ] || fail "micro-batches: $(key train.accumulation_steps)"
verified ranks.repro.tar.zst --replay 1
# enough micro-batches are divided, as before; a number that the command line gives is meant
exit_of 0 "$REPRO" run bert_tiny_fp32 --ranks 2 --plan
! grep -q 'micro-batches instead\|samples a step' err.txt || fail "two micro-batches were multiplied"
exit_of 2 "$REPRO" run one.yaml --ranks 2 --plan --set train.accumulation_steps=1
says 'start at most 1 rank'
exit_of 0 "$REPRO" run one.yaml --layout 4x1x1 --plan
says 'train.accumulation_steps=4'

# the title names precision and batch of this run, unless it was given; the learning rate too
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run bert_tiny_fp32 --threads 1 $short --batch-size 2 --set train.precision=bf16 -o title.repro.tar.zst
says "4 samples a step instead of the recipe's 16"
"$REPRO" inspect title.repro.tar.zst facts.json >facts.json
[ "$(key title)" = 'BERT tiny pre-training, bf16, batch 2, command line' ] || fail "title: $(key title)"
exit_of 0 "$REPRO" run bert_tiny_fp32 --plan --batch-size 2 --set optimizer.learning_rate=1e-4
! grep -q 'samples a step' err.txt || fail "a note about a learning rate that was given"

# another sequence length in one step: the sample is made for it, and replays
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run bert_tiny_fp32 --threads 1 $short --set task.seq_length=64 --set task.max_predictions_per_seq=10 -o seq.repro.tar.zst
"$REPRO" inspect seq.repro.tar.zst facts.json | jq -e '.data.pinned' >answer.txt || fail "the sample is not pinned"
verified seq.repro.tar.zst --replay 1
words verify.txt '^note +data'
grep -q 'bit-equal: 1 step and 1 state root' verify.txt || { cat verify.txt >&2; fail "no replay"; }
exit_of 2 "$REPRO" run bert_tiny_fp32 --set task.seq_length=8 --set task.max_predictions_per_seq=4
says 'the sample for task.seq_length 8'

exit_of 0 "$REPRO" run bert_tiny_fp32 --threads 999 --plan
says '999 threads on '
# --data: samples of the user's own
exit_of 0 "$REPRO" data make bert own --sequences 64
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run bert_tiny_fp32 --threads 1 $short --data own -o own.repro.tar.zst
"$REPRO" inspect own.repro.tar.zst facts.json | jq -e '.data.pinned | not' >answer.txt || fail "own samples are pinned"
