#!/bin/sh
# GPT: the recorded losses, norms and root of gpt_tiny_fp32 in every instruction set and recomputation mode; a tensor-parallel degree is
# replayed and has other roots; what is wrong with data ends with its place. RP_GOLDEN_UPDATE=1 writes the recorded values.
. "$TEST_DIR/common.inc"
need jq
golden=$TOP/tests/golden/gpt_tiny_fp32.txt
train() { # FILE OPTION...
    file=$1
    shift
    "$REPRO" run gpt_tiny_fp32 --steps 3 --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false -o "$file" "$@" >out.txt 2>err.txt ||
        { cat err.txt >&2; fail "no bundle $file"; }
    "$REPRO" inspect "$file" steps/rank0.jsonl | jq -r 'select(.step >= 0) | "\(.step) \(.loss) \(.grad_norm)"' >lines.txt
    "$REPRO" inspect "$file" run.json | jq -r '"root \(.results.state_root_last)"' >>lines.txt
}
train plain.zst --threads 2
[ -z "${RP_GOLDEN_UPDATE:-}" ] || cp lines.txt "$golden"
cmp lines.txt "$golden" || { cat lines.txt >&2; fail "other bits than recorded"; }
for isa in scalar avx2; do
    mode=selective
    [ "$isa" = scalar ] || mode=full
    "$REPRO" selftest --json 2>/dev/null | grep -q "\"$isa\"" || continue
    train again.zst --isa "$isa" --threads 1 --set "train.recompute=$mode"
    cmp lines.txt "$golden" || { cat lines.txt >&2; fail "$isa, recompute $mode: other bits"; }
    rm again.zst
done
"$REPRO" verify plain.zst --replay 2 >verify.txt 2>err.txt || { cat verify.txt err.txt >&2; fail "replay"; }
grep -q '^passed *replay  *bit-equal' verify.txt || fail "$(grep replay verify.txt)"

train parts.zst --set parallel.tensor=2 --save parts.safetensors
grep -q "$(tail -n 1 "$golden")" lines.txt && fail "the degree changes no root"
"$REPRO" verify parts.zst --replay 3 --isa scalar --state parts.safetensors >verify.txt 2>err.txt || { cat verify.txt err.txt >&2; fail "replay of a degree"; }
grep -q '^passed *replay  *bit-equal.*every element of the last state' verify.txt || fail "$(grep replay verify.txt)"

# ids beyond the vocabulary, sequences longer than the positions, parts that do not divide
exit_of 4 "$REPRO" run gpt_tiny_fp32 --set model.vocab_size=1000 --set model.padded_vocab_size=1024 -o a.zst
exit_of 2 "$REPRO" run gpt_tiny_fp32 --set task.seq_length=129 -o a.zst
exit_of 2 "$REPRO" run gpt_tiny_fp32 --set parallel.tensor=3 -o a.zst
exit_of 2 "$REPRO" run bert_tiny_fp32 --set parallel.tensor=2 -o a.zst
exit_of 2 "$REPRO" run gpt_tiny_fp32 --set model.padded_vocab_size=50000 -o a.zst
