#!/bin/sh
# Processes of one job with different instruction sets and threads, on two hosts: the bits of one rank, the bundle names each rank's, and it
# verifies, also against a processor that lacks what one of them used.
# timeout: 120
. "$TEST_DIR/common.inc"
model="bert_tiny_fp32 $(echo "$quick" | sed 's/--threads 1//') $width --set model.num_hidden_layers=1 --batch-size 1 --set train.accumulation_steps=4 --steps 2"
wide=avx2
! grep -qw avx512vl /proc/cpuinfo || wide=avx512
grep -qw avx2 /proc/cpuinfo || skip "this processor has no AVX2"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $model --threads 1 -o one.repro.tar.zst
new_key
start() { # PROCESS HOST OPTION...
    process=$1
    export REPRO_HOST="$2"
    shift 2
    # shellcheck disable=SC2086
    "$REPRO" run $model --nodes 3 --node-rank "$process" --join "127.0.0.1:$TEST_PORT" -o job.repro.tar.zst "$@" >"out.$process" 2>"err.$process" &
    eval "process$process=$!"
}
start 0 a --isa scalar --threads 1
start 1 a --isa $wide --threads 2 --ranks-per-node 2
start 2 b --isa avx2 --threads 1
# shellcheck disable=SC2154 # by eval
{ wait "$process0" && wait "$process1" && wait "$process2"; } || { cat err.? >&2; fail "ranks with different settings"; }
ranks_in job.repro.tar.zst 4
same_bits one.repro.tar.zst job.repro.tar.zst
jq -e --arg wide $wide '[.facts.rank[] | [.node, .device.isa, .device.threads]] == [[0, "scalar", 1], [0, $wide, 2], [0, $wide, 2], [1, "avx2", 1]]' bits.json >answer.txt ||
    { jq .facts.rank bits.json >&2; fail "the bundle names other devices"; }
verified job.repro.tar.zst --replay 1
says_in 'bit-equal' verify.txt
"$REPRO" compare job.repro.tar.zst one.repro.tar.zst --json >compared.json
jq -e '[.. | objects | select(has("isa")) | .isa] | index("mixed") != null' compared.json >answer.txt || fail "compare does not see that they differ"

# a job whose recipes differ is refused by all: the first key that affects the result, its values, and whose they are
start 0 a --threads 1 --set title=one
start 1 a --threads 1 --set title=two --set optimizer.learning_rate=0.25
start 2 b --threads 1 --set title=one
for i in 0 1 2; do
    eval "wait \"\$process$i\"" && fail "process $i joins a job of another recipe"
    grep -q "differ in recipe key optimizer.learning_rate (and in 1 more): process 1 (.*) has '0.25', rank 0 (.*) '" "err.$i" ||
        { cat "err.$i" >&2; fail "process $i does not name the key"; }
done
