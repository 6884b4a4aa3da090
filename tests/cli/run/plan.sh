#!/bin/sh
# --plan allocates and writes nothing; a batch that cannot fit is refused with the largest that does.
. "$TEST_DIR/common.inc"
"$REPRO" run bert_fp32 --plan >plan.txt
grep -q parameters plan.txt || fail "no parameters row"
[ -z "$(find . -name '*.repro.tar*')" ] || fail "a bundle was written"
"$REPRO" run bert_fp32 --plan --json | grep -q '"total_bytes"' || fail "no JSON plan"
grep -q '^training: 7 steps, about [0-9.]* to [0-9.]* [a-z]* here$' plan.txt || { cat plan.txt >&2; fail "no time"; }
# GPUs of four sizes, planned without one; of gpt also each way to recompute, and the ranks whose arithmetic one computes
"$REPRO" run gpt_tiny_fp32 --plan >plan.txt
grep -q '^GPUs of 16 / 32 / 80 / 141 GB: fits yes / yes / yes / yes; largest batch ' plan.txt || fail "no GPUs"
grep -q '^none *(this) .* 1\.000$' plan.txt && grep -q '^full ' plan.txt || fail "no ways to recompute"
grep -q 'arithmetic of' plan.txt && fail "more ranks than one"
"$REPRO" run gpt/DP_PP_8x1x4_512_1536x16 --plan >plan.txt 2>err.txt || [ $? = 7 ] || fail "no plan of a case"
words plan.txt 'ranks'
if command -v jq >/dev/null; then
    "$REPRO" run bert_fp32 --plan --json | jq -e '(.recompute | not) and .ranks_of_arithmetic == 1 and all(.gpus[]; .fits)' >answer.txt || fail "of BERT"
    { "$REPRO" run gpt/MP_PP_1x8x4_512_2304x24 --plan --json 2>err.txt || [ $? = 7 ]; } >plan.json
    jq -e '.ranks_of_arithmetic == 32 and [.gpus[].gb] == [16, 32, 80, 141] and [.gpus[].fits] == [false, false, true, true] and
        .recompute.full.gpus == .gpus and all(.gpus[]; .fits == (.max_batch >= 16)) and ([.gpus[].max_batch] | . == sort) and
        .recompute.none.total_bytes > .recompute.selective.total_bytes and .recompute.selective.total_bytes > .recompute.full.total_bytes and
        .recompute.none.hardware_flops_per_sample == .flops_per_sample and .recompute.full.hardware_flops_per_sample == .hardware_flops_per_sample and
        .hardware_flops_per_sample > 1.1 * .flops_per_sample and .hardware_flops_per_sample < .flops_per_sample * 4 / 3' plan.json >answer.txt ||
        { cat plan.json >&2; fail "the plan of a case"; }
fi
exit_of 7 "$REPRO" run bert_fp32 --set train.batch_size=65536 -o no.repro.tar.zst # 5 TB
words | sed 's/[0-9][0-9.]*/N/g; s/N\.N/N/g' # 21.06 GiB, and 1006.11
[ ! -e no.repro.tar.zst ] || fail "a bundle was written"
# A GPU that is named is meant: nothing else takes its place.
exit_of 2 "$REPRO" run bert_tiny_fp32 --plan --backend cpu --device 0
words
printf 'run:\n  device: "0"\n' | cat "$TOP/recipes/bert_tiny_fp32.yaml" - >named.yaml
exit_of 2 "$REPRO" run named.yaml --plan --backend cpu
"$REPRO" run bert_tiny_fp32 --plan --backend cuda >out.txt 2>err.txt && exit 0 # there is one here
for option in --plan --no-ledger; do
    exit_of 7 "$REPRO" run bert_tiny_fp32 --device GPU-01234567-0123-0123-0123-0123456789ab $option -o no.repro.tar.zst
    says --device
    [ ! -e no.repro.tar.zst ] || fail "a bundle was written"
done
exit_of 7 "$REPRO" run named.yaml --plan
exit_of 0 "$REPRO" run named.yaml --plan --set run.device=

# chunks of HDF5 that a reader keeps unpacked count
exit_of 0 "$REPRO" run bert_tiny_fp32 --plan --set data.format=bert_hdf5 --json
with=$(jq .total_bytes out.txt)
exit_of 0 "$REPRO" run bert_tiny_fp32 --plan --set data.format=bert_tfrecord --json
[ $((with - $(jq .total_bytes out.txt))) = 134217728 ] || fail "the reader of HDF5 takes 128 MiB: $with"
