#!/bin/sh
# GPT: the recorded losses, norms and root of gpt_tiny_fp32; the same bits in every instruction set and recomputation mode; documents that are kept
# apart; a tensor-parallel degree is replayed and has other roots; what is wrong with data ends with its place. RP_GOLDEN_UPDATE=1 writes the recorded values.
. "$TEST_DIR/common.inc"
need jq
golden=$TOP/tests/golden/gpt_tiny_fp32.txt
steps=3
train() { # FILE OPTION...
    file=$1
    shift
    "$REPRO" run gpt_tiny_fp32 --steps "$steps" --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false -o "$file" "$@" >out.txt 2>err.txt ||
        { cat err.txt >&2; fail "no bundle $file"; }
    "$REPRO" inspect "$file" steps/rank0.jsonl | jq -r 'select(.step >= 0) | "\(.step) \(.loss) \(.grad_norm)"' >lines.txt
    "$REPRO" inspect "$file" run.json | jq -r '"root \(.results.state_root_last)"' >>lines.txt
}
train plain.zst --threads 2
[ -z "${RP_GOLDEN_UPDATE:-}" ] || cp lines.txt "$golden"
cmp lines.txt "$golden" || { cat lines.txt >&2; fail "other bits than recorded"; }
few_words
# shellcheck disable=SC2086 # words
train few.zst --threads 2 $gpt_few
mv lines.txt expected.txt
for isa in scalar avx2; do
    mode=full
    [ "$isa" != scalar ] || mode=selective
    grep -qw "$isa" /proc/cpuinfo || [ "$isa" = scalar ] || continue
    # shellcheck disable=SC2086
    train again.zst --isa "$isa" --threads 1 --set "train.recompute=$mode" $gpt_few
    cmp lines.txt expected.txt || { cat lines.txt >&2; fail "$isa, recompute $mode: other bits"; }
    rm again.zst
done
# documents: Megatron-LM's three options
recorded=$TOP/tests/golden/gpt_tiny_documents.txt
apart="--set task.reset_position_ids=true --set task.reset_attention_mask=true --set task.eod_mask_loss=true"
# shellcheck disable=SC2086 # words
train apart.zst --threads 2 $apart
[ -z "${RP_GOLDEN_UPDATE:-}" ] || cp lines.txt "$recorded"
cmp lines.txt "$recorded" || { cat lines.txt >&2; fail "documents: other bits than recorded"; }
cmp -s "$recorded" "$golden" && fail "documents change nothing"
# shellcheck disable=SC2086
train few-apart.zst --threads 2 $gpt_few $apart
cmp -s lines.txt expected.txt && fail "documents of few words change nothing"
"$REPRO" verify few-apart.zst --replay 1 --isa scalar --data few/gpt >verify.txt 2>err.txt || { cat verify.txt err.txt >&2; fail "replay of documents"; }
grep -q '^passed *replay  *bit-equal' verify.txt || fail "$(grep replay verify.txt)"
exit_of 0 "$REPRO" compare plain.zst apart.zst --json
jq -e '[.pairs[0].confounders[] | select(.key == "documents") | .state, .a, .b] == ["differs", "kept", "masked"]' out.txt >answer.txt ||
    { cat out.txt >&2; fail "documents are no confounder"; }
exit_of 2 "$REPRO" run gpt_tiny_fp32 --set task.reset_position_ids=true --set task.eod_token=50257 -o a.zst
words

"$REPRO" verify plain.zst --replay 2 >verify.txt 2>err.txt || { cat verify.txt err.txt >&2; fail "replay"; }
grep -q '^passed *replay  *bit-equal' verify.txt || fail "$(grep replay verify.txt)"

# shellcheck disable=SC2086 # words
train parts.zst $gpt_few --set parallel.tensor=2 --save parts.safetensors
grep -q "$(tail -n 1 expected.txt)" lines.txt && fail "the degree changes no root"
"$REPRO" verify parts.zst --replay 3 --state parts.safetensors --data few/gpt >verify.txt 2>err.txt || { cat verify.txt err.txt >&2; fail "replay of a degree"; }
grep -q '^passed *replay  *bit-equal.*every element' verify.txt || fail "$(grep replay verify.txt)"

# ids beyond the vocabulary, sequences longer than the positions, parts that do not divide
exit_of 4 "$REPRO" run gpt_tiny_fp32 --set model.vocab_size=1000 --set model.padded_vocab_size=1024 -o a.zst
exit_of 2 "$REPRO" run gpt_tiny_fp32 --set task.seq_length=129 -o a.zst
exit_of 2 "$REPRO" run gpt_tiny_fp32 --set parallel.tensor=3 -o a.zst
exit_of 2 "$REPRO" run bert_tiny_fp32 --set parallel.tensor=2 -o a.zst
exit_of 2 "$REPRO" run gpt_tiny_fp32 --set model.padded_vocab_size=50000 -o a.zst
# a micro-batch in which no token has a loss
head -c 4096 /dev/zero >zeros.bin
exit_of 4 "$REPRO" run gpt_tiny_fp32 --set data.format=tokens --set data.path=zeros.bin --set task.eod_token=0 --set task.eod_mask_loss=true -o z.zst
words
