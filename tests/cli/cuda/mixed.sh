#!/bin/sh
# Ranks on GPUs and on processors in one job, on two hosts: run.transport sockets connects them through host memory. The bits are those of one
# rank, the bundle names each rank's device and verifies; without it the job is refused. Ranks that share a GPU. timeout: 200
# shellcheck disable=SC2086 # several words
. "$TEST_DIR/common.inc"
few_words
width="--set model.hidden_size=32 --set model.intermediate_size=64 --set model.num_attention_heads=2 --set model.num_hidden_layers=1"
bert="bert_tiny_fp32 $short $bert_few $width --set measure.timed_steps=2 --set train.accumulation_steps=4 --batch-size 1 --no-ledger"
gpt="gpt_tiny_fp32 $short $gpt_few $width --set measure.timed_steps=1 --set train.accumulation_steps=2 --batch-size 1 --set task.seq_length=16
    --set parallel.tensor=2 --no-ledger"
key=$("$REPRO" launch key)
start() { # PROCESS HOST OPTION...
    process=$1 name=$2
    shift 2
    env "REPRO_JOB_KEY=$key" "REPRO_HOST=$name" "LD_LIBRARY_PATH=$shim" SHIM_DEVICES=1 "$REPRO" run "$@" --node-rank "$process" --join "127.0.0.1:$TEST_PORT" --force \
        -o job.repro.tar.zst >"out.$process" 2>"err.$process" &
    eval "process$process=$!"
}
finish() { # PROCESSES: all end well
    # shellcheck disable=SC2154 # by eval
    for i in $(seq 0 $(($1 - 1))); do
        eval "wait \"\$process$i\"" || { cat err.? >&2; fail "process $i"; }
    done
}
like_one() { # BUNDLE RANKS: the bits of one.repro.tar.zst on every rank, and it verifies
    steps_of one.repro.tar.zst | jq -c 'del(.counters)' >one.jsonl
    for i in $(seq 0 $(($2 - 1))); do
        "$REPRO" inspect "$1" "steps/rank$i.jsonl" | jq -c '{step, loss, loss_parts, grad_norm, learning_rate, state_root}' | cmp - one.jsonl || fail "rank $i of $1 has other bits"
    done
    "$REPRO" verify "$1" >verify.txt 2>&1 || { cat verify.txt >&2; fail "$1 does not verify"; }
    "$REPRO" inspect "$1" facts.json >facts.json
}
"$REPRO" run $bert --backend cpu -o one.repro.tar.zst >out.txt 2>err.txt || fail "one rank"
for all in --set=run.transport=sockets --set=run.transport=auto; do
    start 0 a $bert $all --nodes 3 --backend cpu --isa scalar --threads 1
    start 1 a $bert $all --nodes 3 --backend cuda
    start 2 b $bert $all --nodes 3 --backend cuda --ranks-per-node 2
    [ $all = --set=run.transport=sockets ] || break
    finish 3
done
for i in 0 1 2; do
    eval "wait \"\$process$i\"" && fail "process $i joins a job of other devices"
    grep -q "differ in backend.*'cuda', rank 0 (.*) 'cpu'" "err.$i" || { cat "err.$i" >&2; fail "process $i does not name the backends"; }
done
like_one job.repro.tar.zst 4
jq -e '[.rank[] | [.node, .device.kind, .device.index]] == [[0, "cpu", null], [0, "cuda", 0], [1, "cuda", 0], [1, "cuda", 0]] and
    all(.rank[].exchange.connections; .shared_memory == 1 and .tls == 2)' facts.json >answer.txt ||
    { jq .rank facts.json >&2; fail "other devices or connections"; }
"$REPRO" compare job.repro.tar.zst one.repro.tar.zst --json >compared.json || fail "compare"
jq -e '[.. | objects | select(has("device_model")) | .device_model] | index("GPUs and CPUs") != null' compared.json >answer.txt || fail "compare does not see the devices"
"$REPRO" report job.repro.tar.zst -o page.html >out.txt 2>&1 || { cat out.txt >&2; fail "report"; }
"$REPRO" verify job.repro.tar.zst --replay 1 --data few/bert >verify.txt 2>&1 || { cat verify.txt >&2; fail "replay on one rank"; }

# Tensors divided between a GPU and a processor.
"$REPRO" run $gpt --backend cpu --force -o one.repro.tar.zst >out.txt 2>err.txt || fail "one rank of gpt"
start 0 a $gpt --set run.transport=sockets --nodes 2 --layout 1x2x1 --backend cuda
start 1 b $gpt --set run.transport=sockets --nodes 2 --layout 1x2x1 --backend cpu
finish 2
like_one job.repro.tar.zst 2
# In mixed precision they store other numbers of bits: they divide micro-batches alone.
low="bert_tiny_fp16 $short $bert_few $width --set measure.timed_steps=1 --set train.accumulation_steps=2 --batch-size 1 --no-ledger
    --set train.tensor_core=tc16 --set train.loss_scale_initial=1024"
low_gpt="gpt_tiny_bf16 $short $gpt_few $width --set measure.timed_steps=1 --set train.accumulation_steps=2 --batch-size 1 --set task.seq_length=16
    --set parallel.tensor=2 --no-ledger --set train.tensor_core=tc16"
start 0 a $low_gpt --set run.transport=sockets --nodes 2 --layout 1x2x1 --backend cuda
start 1 b $low_gpt --set run.transport=sockets --nodes 2 --layout 1x2x1 --backend cpu
for i in 0 1; do
    eval "wait \"\$process$i\"" && fail "process $i divides tensors of 16 and of 32 bits"
done
grep -q "can divide micro-batches alone" err.0 err.1 || { cat err.? >&2; fail "another reason"; }
if [ "${LONG:-0}" != 0 ]; then
    "$REPRO" run $low --backend cpu --force -o one.repro.tar.zst >out.txt 2>err.txt || fail "one rank in mixed precision"
    start 0 a $low --set run.transport=sockets --nodes 2 --backend cuda
    start 1 b $low --set run.transport=sockets --nodes 2 --backend cpu
    finish 2
    like_one job.repro.tar.zst 2
fi
exit_of 2 "$REPRO" run $bert --backend cpu --ranks 2 --set run.transport=nccl
says "nccl connects GPUs"
no_worker_left
