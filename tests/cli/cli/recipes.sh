#!/bin/sh
# The embedded recipes are listed, printed byte for byte, and every key is explained.
. "$TEST_DIR/common.inc"
"$REPRO" recipes --json >list.json
for name in bert_fp32 bert_fp32_b96 bert_fp32_max bert_large_fp32 bert_adam_fp32 bert_lamb_fp32 bert_tiny_fp32 bert_fp16_b64 bert_bf16; do
    jq -e --arg n "$name" '[.recipes[].name] | index($n)' list.json >answer.txt || fail "$name is not embedded"
    "$REPRO" recipes show "$name" >shown.yaml
    [ "$("$REPRO" recipes show "$name" --json | jq -r .sha256)" = "$(sha256sum <shown.yaml | cut -c1-64)" ] || fail "$name: not its bytes"
    "$REPRO" recipes show ./shown | cmp - shown.yaml
done
# every recipe below its model and precision, and nowhere else
"$REPRO" recipes >list.txt
below_headings() { awk '/^  / { print $1 ": " heading } /^[a-z]/ { heading = $0 }' "$1"; }
below_headings list.txt >shown.txt
jq -r '.recipes[] | select(.group | not) | "\(.name): \(.model), \(.precision)"' list.json | cmp - shown.txt
[ "$(grep -c '^[a-z]' list.txt)" = "$(sed 's/.*: //' shown.txt | sort -u | wc -l | awk '{ print $1 + 1 }')" ] || fail "a heading twice"
# the cases of the GPT report: one line in the list, each by name, and each as the table has it
[ "$(grep -c gpt/ list.txt)" = 1 ] && grep -q '^gpt/\.\.\.: 36 recipes' list.txt || fail "the cases are not one line"
"$REPRO" recipes list | cmp - list.txt
"$REPRO" recipes list gpt >shown.txt
below_headings shown.txt | sed 's/:.*//' >cases.txt
[ "$(wc -l <cases.txt)" = 36 ] || fail "not 18 cases in two precisions"
[ "$("$REPRO" recipes list gpt --json | jq -r '.recipes[] | select(.group == "gpt").name')" = "$(cat cases.txt)" ] || fail "other names in JSON"
sed '1d;s/,.*//;s|^|gpt/|' "$TOP/results/published/gpt_v100.csv" | uniq | sed 'p;s/$/_fp16/' | sort >table.txt
sort cases.txt | cmp - table.txt || fail "other cases than the table's"
while read -r name; do
    "$REPRO" recipes show "$name" >shown.yaml
    (cd "$TOP" && env/gen-gpt-case.sh "${name#gpt/}") | cmp - shown.yaml || fail "$name is not what the table gives"
done <cases.txt
exit_of 2 "$REPRO" recipes list bert
words
"$REPRO" recipes keys --json >keys.json
"$REPRO" recipes keys >keys.txt
[ "$(jq '.keys | length' keys.json)" -ge 40 ] || fail "too few keys"
for key in $(jq -r '.keys[].key' keys.json); do
    grep -qx -e "$key" keys.txt || fail "$key is not explained"
done
[ "$(jq -r '.keys[] | select(.key == "run.isa").expected' keys.json)" = 'auto|scalar|avx2|avx512|neon' ] || fail "the choices of run.isa"
for model in bert gpt resnet50; do
    jq --arg m "$model" '[.keys[] | select(.models | index($m)).key]' keys.json >expected.txt
    "$REPRO" recipes keys --json "$model" | jq '[.keys[].key]' | cmp - expected.txt
    "$REPRO" recipes keys "$model" >of_model.txt
    for key in $(jq -r '.[]' expected.txt); do grep -qx -e "$key" of_model.txt || fail "$model: $key is not explained"; done
done
grep -qx 'model.type_vocab_size' of_model.txt && fail "a key of bert among those of resnet50"
[ "$("$REPRO" recipes keys run.isa --json | jq -r '.keys[].key')" = run.isa ] || fail "not one key"
[ "$("$REPRO" recipes keys optimizer --json | jq '[.keys[].key | select(startswith("optimizer.") | not)] | length')" = 0 ] || fail "keys of other sections"
exit_of 2 "$REPRO" recipes keys gtp
words
exit_of 2 "$REPRO" recipes keys run.hang_second
words
exit_of 3 "$REPRO" recipes show bert_fp3
