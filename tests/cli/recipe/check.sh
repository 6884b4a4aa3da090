#!/bin/sh
# All mistakes of a recipe at once, in the order of the file; a recipe on standard input; names that were meant.
. "$TEST_DIR/common.inc"
cat >bad.yaml <<END
workload: bert
title: [a, b]
train:
  batch_size: foo
  nope: [a, {b: c}]
  batch_size: 8
model:
  hidden_size: 100
  vocab_size: {a: 1, b: [2, 3]}
  num_attention_heads: 12
backend:
  cpu:
    measure.timed_steps: 1000000
    train.precision: fp16
schedule:
  warmup_steps: 20000000
END
exit_of 2 "$REPRO" recipes check bad.yaml
cat out.txt err.txt
"$REPRO" recipes check - <bad.yaml >piped.txt 2>err.txt && fail "the same on standard input is right"
sed 's/^bad.yaml/stdin/' out.txt | cmp - piped.txt
exit_of 2 "$REPRO" run bad.yaml
words
# what is no YAML ends the reading, after the mistakes before it
printf 'train:\n  nope: 1\n  batch_size: "a\n' >cut.yaml
exit_of 4 "$REPRO" recipes check cut.yaml
cat out.txt err.txt
printf 'a: &x [1]\nnope: *x\n' >anchor.yaml
exit_of 4 "$REPRO" recipes check anchor.yaml
cat out.txt err.txt
exit_of 0 "$REPRO" recipes check bert_fp32
[ ! -s out.txt ] || fail "an embedded recipe has mistakes"
"$REPRO" recipes list --json | jq -r '.recipes[].name' >names.txt
while read -r name; do "$REPRO" recipes check "$name" </dev/null || fail "$name"; done <names.txt

"$REPRO" recipes show bert_tiny_fp32 | plan - --json
[ "$(jq .parameters plan.txt)" = "$("$REPRO" run bert_tiny_fp32 --plan --json 2>err.txt | jq .parameters)" ] || fail "another recipe on standard input"
{ head -c 262145 /dev/zero | tr '\0' '#'; } | plan - && fail "a recipe that is too long"
says 'standard input has more than 262144 bytes'

for word in bert resnet50 bert_base bert-base resnet-50 resnet gpt2 bert_large bert_pf32; do
    exit_of 3 "$REPRO" run "$word"
    echo "$word: $(sed -n "s/.*did you mean '\(.*\)'?$/\1/p" err.txt)"
done
