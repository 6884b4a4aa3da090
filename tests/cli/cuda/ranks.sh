#!/bin/sh
# Ranks on GPUs, as processes with the driver and the NCCL of the tests: losses, norms and state roots of one rank on a CPU, by data, tensors and
# stages; a rank that dies, hangs, or fails ends the run in a sealed bundle that names it, and no process is left. timeout: 300
# shellcheck disable=SC2086 # $short, $gpt and $bert are words
. "$TEST_DIR/common.inc"
nccl=$BUILD/fake/nccl
[ -e "$nccl/libnccl.so.2" ] || skip "the library of tests/fake/nccl.c is not built"
few_words
on_gpus() { # VARIABLE=VALUE... COMMAND...
    env LD_LIBRARY_PATH="$shim:$nccl" SHIM_DEVICES=4 "$@"
}
bits_of() { # BUNDLE [RANK]
    "$REPRO" inspect "$1" "steps/rank${2:-0}.jsonl" | jq -c '{step, loss, loss_parts, grad_norm, state_root}'
}
bert="bert_tiny_fp32 $short $bert_few --set measure.timed_steps=2 --set train.accumulation_steps=3 --batch-size 1 --set model.hidden_size=32
    --set model.intermediate_size=64 --set run.overlap_kib=16"
gpt="gpt_tiny_fp32 $short $gpt_few --set measure.timed_steps=2 --set train.accumulation_steps=2 --batch-size 1 --set task.seq_length=16
    --set model.hidden_size=32 --set model.intermediate_size=128"
one() { # NAME OPTION...: on one rank of a CPU
    name=$1
    shift
    "$REPRO" run "$@" --backend cpu -o "$name.repro.tar.zst" >out.txt 2>err.txt || fail "$name: $(tail -n 1 err.txt)"
    bits_of "$name.repro.tar.zst" >"$name.jsonl"
    [ "$(wc -l <"$name.jsonl")" -gt 2 ] || fail "$name: no steps"
}
many() { # NAME LAYOUT VARIABLE=VALUE OPTION...: the bits of NAME
    name=$1 layout=$2 variable=$3
    shift 3
    rm -f many.repro.tar.zst
    on_gpus "$variable" "$REPRO" run "$@" --backend cuda --layout "$layout" -o many.repro.tar.zst >out.txt 2>err.txt ||
        fail "$name, $layout: $(tail -n 1 err.txt)"
    bits_of many.repro.tar.zst >many.jsonl
    cmp "$name.jsonl" many.jsonl || fail "$name, $layout: GPUs and CPU differ"
    "$REPRO" verify many.repro.tar.zst >verify.txt 2>&1 || { cat verify.txt >&2; fail "$name, $layout: the bundle does not verify"; }
}
one bert $bert
many bert 3x1x1 SHIM_DEFER=2 $bert
"$REPRO" inspect many.repro.tar.zst facts.json >facts.json
jq -e 'all(.rank[]; .exchange.connections.nccl == "2.20.5")' facts.json >answer.txt || { jq .rank facts.json >&2; fail "not by NCCL"; }
jq -e '[.rank[].device.index] | sort == [0, 1, 2]' facts.json >answer.txt || { jq .rank facts.json >&2; fail "ranks without a GPU each"; }
bits_of many.repro.tar.zst 2 | cmp - bert.jsonl || fail "rank 2 has other bits"
one gpt $gpt --set parallel.tensor=2
many gpt 1x2x2 SHIM_DEFER=1 $gpt --set parallel.tensor=2
if [ "${LONG:-0}" != 0 ]; then
    many gpt 2x2x1 PLAY_NCCL_DELAY_MS=2 $gpt --set parallel.tensor=2
    one optimizer $gpt --set optimizer.name=lamb --save one.safetensors
    many optimizer 2x1x2 PLAY_NCCL_POLLS=0 $gpt --set optimizer.name=lamb --save many.safetensors
    cmp one.safetensors many.safetensors || fail "the checkpoints differ"
fi

broken() { # STATUS RANK VARIABLE=VALUE OPTION...: RANK is the one to be named, or any
    want=$1 named=$2 variable=$3
    shift 3
    rm -f run.repro.tar.zst
    exit_of "$want" on_gpus "$variable" "$REPRO" run $bert --backend cuda --ranks 3 "$@" -o run.repro.tar.zst
    if [ "$named" = any ]; then
        words | sed 's/rank [0-9]: //'
    else
        says "rank $named: "
        words
    fi
    no_worker_left
}
failed() { # as broken, with a bundle
    broken "$@"
    "$REPRO" inspect run.repro.tar.zst facts.json | jq -e '.status == "failed" and (.reason | length > 20)' >answer.txt || fail "the bundle is not marked failed"
    verified run.repro.tar.zst
}
failed 7 1 PLAY_NCCL_FAULT=1:20:die
failed 7 any PLAY_NCCL_FAULT=2:20:hang --set run.hang_seconds=8 >hang.txt
grep -q -e 'within 16 s' -e 'for 8 s' hang.txt || { cat hang.txt >&2; fail "a hang"; } # the second where the CPUs are busy
failed 7 1 PLAY_NCCL_FAULT=1:20:system
broken 7 any PLAY_NCCL_VERSION=22005,21803,22005
broken 7 any SHIM_DEVICES=2
if [ "${LONG:-0}" != 0 ]; then
    {
        failed 7 1 PLAY_NCCL_FAULT=1:20:stop --set run.hang_seconds=10
        failed 3 2 PLAY_NCCL_FAULT=2:20:call
        broken 7 1 PLAY_NCCL_FAULT=1:0:die
        broken 7 any PLAY_NCCL_VERSION=21304
    } >long.txt
fi
