#!/bin/sh
# Ctrl-C ends a replay before its last step, with its own exit status, and no worker stays behind.
. "$TEST_DIR/common.inc"
"$REPRO" run resnet50_tiny_fp32 --threads 1 --steps 12 --set measure.warmup_steps=1 --set measure.repeats=1 --set measure.ceilings=false -o a.repro.tar.zst >run.txt 2>&1
"$REPRO" verify a.repro.tar.zst --replay 13 --isa scalar --threads 1 >out.txt 2>err.txt &
pid=$!
wait_until "$pid" grep -q "step 1/" err.txt
worker=$(cat "/proc/$pid/task/$pid/children")
kill -INT "$pid"
status=0
wait "$pid" || status=$?
[ "$status" = 130 ] || { cat out.txt err.txt >&2; fail "exit status $status, expected 130"; }
says "interrupted after"
says "skipped  replay"
says "inconclusive:"
for w in $worker; do
    wait_gone "$w"
done
