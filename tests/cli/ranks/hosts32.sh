#!/bin/sh
# Four hosts with eight ranks each: 32 ranks have the bits of one.
# timeout: 400
# serial
. "$TEST_DIR/hosts.inc"
per_host=8
few_words
model="$bert $bert_few --set train.accumulation_steps=32"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $model --steps 2 -o one.repro.tar.zst
start_hosts --steps 2
all_succeed
ranks_in job.repro.tar.zst 32
same_bits one.repro.tar.zst job.repro.tar.zst
jq -e '.run.world.nodes == 4 and all(.facts.rank[]; .exchange.levels == 2)' bits.json >answer.txt || { jq '.run.world, .facts' bits.json >&2; fail "other hosts"; }
verified job.repro.tar.zst --replay 1 --data few/bert
