#!/bin/sh
# Ctrl-C ends a replay within a second, with its own exit status, and no worker stays behind.
. "$TEST_DIR/common.inc"
"$REPRO" run bert_tiny_fp32 --threads 1 --steps 40 --set measure.warmup_steps=1 --set measure.repeats=1 -o a.repro.tar.zst >run.txt 2>&1
"$REPRO" verify a.repro.tar.zst --replay 41 --isa scalar --threads 1 >out.txt 2>err.txt &
pid=$!
i=0
until grep -q "step 1/" err.txt; do
    i=$((i + 1))
    [ "$i" -lt 300 ] || { kill -9 "$pid"; fail "the replay did not begin"; }
    sleep 0.1
done
worker=$(cat "/proc/$pid/task/$pid/children")
t0=$(date +%s%N)
kill -INT "$pid"
status=0
wait "$pid" || status=$?
t1=$(date +%s%N)
[ "$status" = 130 ] || { cat out.txt err.txt >&2; fail "exit status $status, expected 130"; }
[ $(((t1 - t0) / 1000000)) -lt 1500 ] || fail "took $(((t1 - t0) / 1000000)) ms"
says "interrupted after"
says "skipped  replay"
says "inconclusive:"
for w in $worker; do
    ! kill -0 "$w" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$w/status" || fail "worker $w is still there"
done
