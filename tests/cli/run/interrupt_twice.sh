#!/bin/sh
# A second Ctrl-C leaves at once and nothing half-written stands under the final name.
. "$TEST_DIR/common.inc"
start_endless
kill -STOP "$worker" # it cannot answer, so the parent is still waiting when the second one comes
kill -INT "$parent"
sleep 0.1
kill -INT "$parent"
status=0
wait "$parent" || status=$?
[ "$status" = 130 ] || fail "exit status $status, expected 130"
[ ! -e endless.repro.tar.zst ] || verified endless.repro.tar.zst
wait_gone "$worker"
