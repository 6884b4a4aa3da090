#!/bin/sh
# Ranks on GPUs in mixed precision, by the NCCL of the tests and by sockets: losses, norms and state roots of one rank on a CPU. By data with
# divided optimizer state, and with LONG=1 by tensors and stages too. timeout: 200
# shellcheck disable=SC2086 # several words
. "$TEST_DIR/common.inc"
nccl=$BUILD/fake/nccl
[ -e "$nccl/libnccl.so.2" ] || skip "the library of tests/fake/nccl.c is not built"
few_words
narrow="$short --set measure.timed_steps=1 --batch-size 1 --set train.tensor_core=tc16
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
    [ "$(wc -l <one.jsonl)" -gt 1 ] || fail "no steps"
}
many() { # LAYOUT TRANSPORT OPTION...: the bits of the last `one`, on every rank
    layout=$1 transport=$2
    shift 2
    env LD_LIBRARY_PATH="$shim:$nccl" SHIM_DEVICES=4 SHIM_DEFER=2 "$REPRO" run "$@" --backend cuda --layout "$layout" \
        --set "run.transport=$transport" --force -o many.repro.tar.zst >out.txt 2>err.txt || fail "$layout, $transport: $(tail -n 1 err.txt)"
    "$REPRO" inspect many.repro.tar.zst facts.json >facts.json
    for rank in $(jq -r '.rank | keys[]' facts.json); do
        bits_of many.repro.tar.zst "$rank" | cmp - one.jsonl || fail "$layout, $transport: rank $rank and the CPU differ"
    done
    "$REPRO" verify many.repro.tar.zst >verify.txt 2>&1 || { cat verify.txt >&2; fail "$layout, $transport: the bundle does not verify"; }
    jq -e 'all(.rank[].device.tensor_core; .outcome == "proved" and .edges == 0)' facts.json >answer.txt || fail "$layout: GPUs that were not tested"
}
one $bert $two
many 2x1x1 nccl $bert $two
jq -e '(.rank | length) == 2 and all(.rank[]; .exchange.connections.nccl == "2.20.5" and .exchange.bytes_per_step > 0)' facts.json >answer.txt ||
    { jq .rank facts.json >&2; fail "not by NCCL"; }
if [ "${LONG:-0}" != 0 ]; then
    many 2x1x1 sockets $bert $two
    many 2x1x1 nccl $bert $two --set parallel.optimizer_state=replicated
    one $gpt
    many 2x1x2 nccl $gpt
    one $gpt --set parallel.tensor=2
    many 1x2x2 nccl $gpt --set parallel.tensor=2
    many 2x2x1 sockets $gpt --set parallel.tensor=2
    one $bert $four
    many 4x1x1 nccl $bert $four
    many 4x1x1 sockets $bert $four
fi
