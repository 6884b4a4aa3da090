#!/bin/sh
# Ranks on GPUs in mixed precision, by the NCCL of the tests and by sockets: losses, norms and state roots of one rank on a CPU. By data with
# divided optimizer state, and with LONG=1 by tensors and stages too; faults in what a rank gathers show. timeout: 200
# shellcheck disable=SC2086 # several words
. "$TEST_DIR/common.inc"
nccl=$BUILD/fake/nccl
[ -e "$nccl/libnccl.so.2" ] || skip "the library of tests/fake/nccl.c is not built"
few_words
narrow="$short --set measure.timed_steps=2 --set run.overlap_kib=16 --batch-size 1 --set train.tensor_core=tc16
    --set model.hidden_size=16 --set model.intermediate_size=32 --set model.num_attention_heads=2 --set model.num_hidden_layers=2"
bert="bert_tiny_fp16 $narrow $bert_few --set train.loss_scale_initial=1024"
gpt="gpt_tiny_bf16 $narrow $gpt_few --set task.seq_length=17 --set train.accumulation_steps=2"
two="--set train.accumulation_steps=2" four="--set train.accumulation_steps=4"
bits_of() { # BUNDLE RANK
    "$REPRO" inspect "$1" "steps/rank$2.jsonl" | jq -c '{step, loss, loss_parts, grad_norm, loss_scale, overflow, state_root}'
}
one() { # OPTION...: on one rank of a CPU
    "$REPRO" run "$@" --backend cpu --force -o one.repro.tar.zst >out.txt 2>err.txt || fail "one rank: $(tail -n 1 err.txt)"
    bits_of one.repro.tar.zst 0 >one.jsonl
    [ "$(jq -s 'map(select(.step >= 0)) | length' one.jsonl)" = 2 ] || fail "not two steps: the second shows what ranks gathered after the first"
}
many() { # LAYOUT TRANSPORT OPTION...: the bits of the last `one`, on every rank
    layout=$1 transport=$2
    shift 2
    rm -f groups.txt
    env LD_LIBRARY_PATH="$shim:$nccl" SHIM_DEVICES=4 SHIM_DEFER=2 PLAY_NCCL_LOG="$PWD/groups.txt" "$REPRO" run "$@" --backend cuda \
        --layout "$layout" --set "run.transport=$transport" --force -o many.repro.tar.zst >out.txt 2>err.txt || fail "$layout, $transport: $(tail -n 1 err.txt)"
    "$REPRO" inspect many.repro.tar.zst facts.json >facts.json
    for rank in $(jq -r '.rank | keys[]' facts.json); do
        bits_of many.repro.tar.zst "$rank" | cmp - one.jsonl || fail "$layout, $transport: rank $rank and the CPU differ"
    done
    "$REPRO" verify many.repro.tar.zst >verify.txt 2>&1 || { cat verify.txt >&2; fail "$layout, $transport: the bundle does not verify"; }
    jq -e 'all(.rank[].device.tensor_core; .outcome == "proved" and .edges == 0)' facts.json >answer.txt || fail "$layout: GPUs that were not tested"
}
# After `many` by NCCL, with a fault on rank 1 where it gathers weights after the first step: the group with most messages, as these are runs
# of matrices and of vectors. The bits are not those of one rank.
planted() { # RANKS FAULT OPTION...
    ranks=$1 fault=$2
    shift 2
    group=$(sort -k 3,3nr -k 2,2n groups.txt | awk '$1 == 1 { print $2; exit }')
    [ "${group:-0}" -gt 1 ] || { cat groups.txt >&2; fail "$ranks ranks: no group gathers weights"; }
    env LD_LIBRARY_PATH="$shim:$nccl" SHIM_DEVICES=4 SHIM_DEFER=2 PLAY_NCCL_FAULT="1:$group:$fault" "$REPRO" run "$@" --backend cuda \
        --layout "${ranks}x1x1" --set run.transport=nccl --force -o bad.repro.tar.zst >out.txt 2>err.txt || fail "$fault: $(tail -n 1 err.txt)"
    bits_of bad.repro.tar.zst 1 >bad.jsonl
    jq -s -e 'map(select(.step == 0)) | .[0] == .[1]' bad.jsonl one.jsonl >answer.txt || fail "$ranks ranks: group $group is not the gather"
    jq -s -e 'map(select(.step == 1) | .loss) | .[0] != .[1]' bad.jsonl one.jsonl >answer.txt ||
        fail "$ranks ranks: group $group, '$fault', and the loss of one rank"
}
one $bert $two
many 2x1x1 nccl $bert $two
jq -e '(.rank | length) == 2 and all(.rank[]; .exchange.connections.nccl == "2.20.5" and .exchange.bytes_per_step > 0)' facts.json >answer.txt ||
    { jq .rank facts.json >&2; fail "not by NCCL"; }
divided=$(jq .plan.bytes.parameters facts.json)
planted 2 lost $bert $two
planted 2 swap $bert $two
if [ "${LONG:-0}" != 0 ]; then
    many 2x1x1 sockets $bert $two
    many 2x1x1 nccl $bert $two --set parallel.optimizer_state=replicated
    jq -e --argjson divided "$divided" '.plan.bytes.parameters * 0.75 > $divided' facts.json >answer.txt ||
        fail "$divided bytes of parameters, with whole masters $(jq .plan.bytes.parameters facts.json)"
    one $gpt
    many 2x1x2 nccl $gpt
    one $gpt --set parallel.tensor=2
    many 1x2x2 nccl $gpt --set parallel.tensor=2
    many 2x2x1 sockets $gpt --set parallel.tensor=2
    one $bert $four
    many 4x1x1 nccl $bert $four
    planted 4 lost $bert $four
    planted 4 swap $bert $four
    many 4x1x1 sockets $bert $four
fi
