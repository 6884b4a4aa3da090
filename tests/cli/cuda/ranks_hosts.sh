#!/bin/sh
# Two processes of a job that count as different hosts, with two ranks on GPUs each: NCCL's id reaches every rank through the job's connection,
# gradients are first summed within a host, and the bits are those of one rank. timeout: 200
# shellcheck disable=SC2086 # $short and $bert are words
. "$TEST_DIR/common.inc"
nccl=$BUILD/fake/nccl
[ -e "$nccl/libnccl.so.2" ] || skip "the library of tests/fake/nccl.c is not built"
[ "${LONG:-0}" != 0 ] || skip "takes a minute: LONG=1"
bert="bert_tiny_fp32 $short --set measure.timed_steps=1 --set train.accumulation_steps=4 --batch-size 1"
bits_of() { # BUNDLE
    "$REPRO" inspect "$1" steps/rank0.jsonl | jq -c '{step, loss, loss_parts, grad_norm, state_root}'
}
key=$("$REPRO" launch key)
process() { # NUMBER VERSIONS OPTION...: the played GPUs of both hosts have the same UUIDs, which is an experiment of NCCL's
    number=$1 versions=$2
    shift 2
    env "REPRO_JOB_KEY=$key" LD_LIBRARY_PATH="$shim:$nccl" SHIM_DEVICES=2 NCCL_MULTI_RANK_GPU_ENABLE=1 "PLAY_NCCL_VERSION=$versions" "REPRO_HOST=host$number" \
        "$REPRO" run $bert --backend cuda --nodes 2 --node-rank "$number" --join "127.0.0.1:$TEST_PORT" --ranks 2 "$@"
}
process 1 22005 -o follow.repro.tar.zst >follow.txt 2>&1 &
exit_of 0 process 0 22005 -o lead.repro.tar.zst
wait $! || { cat follow.txt >&2; fail "process 1 failed"; }
exit_of 0 "$REPRO" run $bert --backend cpu -o one.repro.tar.zst
bits_of one.repro.tar.zst >one.jsonl
bits_of lead.repro.tar.zst | cmp - one.jsonl || fail "two hosts have other bits than one rank"
"$REPRO" verify lead.repro.tar.zst >verify.txt 2>&1 || { cat verify.txt >&2; fail "the bundle does not verify"; }
"$REPRO" inspect lead.repro.tar.zst facts.json | jq -e '[.rank[].node] == [0, 0, 1, 1] and [.rank[].device.index] == [0, 1, 0, 1] and
    all(.rank[].exchange; .levels == 2 and .connections.nccl == "2.20.5")' >answer.txt || fail "other devices or another plan"
# A host with another version: the reason has both, in the bundle of the process that leads.
process 1 21803 -o other.repro.tar.zst >follow.txt 2>&1 &
exit_of 7 process 0 22005 -o mixed.repro.tar.zst
says 2.20.5
says 2.18.3
wait $! && fail "process 1 does not fail"
no_worker_left
