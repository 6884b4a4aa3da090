#!/bin/sh
# --plan allocates and writes nothing; a batch that cannot fit is refused with the largest that does.
. "$TEST_DIR/common.inc"
"$REPRO" run bert_fp32 --plan >plan.txt
grep -q parameters plan.txt || fail "no parameters row"
[ -z "$(find . -name '*.repro.tar*')" ] || fail "a bundle was written"
"$REPRO" run bert_fp32 --plan --json | grep -q '"total_bytes"' || fail "no JSON plan"
exit_of 7 "$REPRO" run bert_fp32 --set train.batch_size=20000 -o no.repro.tar.zst
grep -q 'largest that fits is [1-9]' err.txt || { cat err.txt >&2; fail "no batch that fits named"; }
[ ! -e no.repro.tar.zst ] || fail "a bundle was written"
# A GPU that is named is meant: nothing else takes its place.
exit_of 2 "$REPRO" run bert_tiny_fp32 --plan --backend cpu --device 0
words
printf 'run:\n  device: "0"\n' | cat "$TOP/recipes/bert_tiny_fp32.yaml" - >named.yaml
exit_of 2 "$REPRO" run named.yaml --plan --backend cpu
"$REPRO" run bert_tiny_fp32 --plan --backend cuda >out.txt 2>err.txt && exit 0 # there is one here
for option in --plan --no-ledger; do
    exit_of 7 "$REPRO" run bert_tiny_fp32 --device GPU-01234567-0123-0123-0123-0123456789ab $option -o no.repro.tar.zst
    says "cannot be used here"
    says "without run.device (--device) the CPU can train"
    [ ! -e no.repro.tar.zst ] || fail "a bundle was written"
done
exit_of 7 "$REPRO" run named.yaml --plan
exit_of 0 "$REPRO" run named.yaml --plan --set run.device=
