#!/bin/sh
# A GPU that fails or hangs in the middle of a run: its own message with a remedy, the exit status, a sealed bundle that says failed and
# holds the steps until then, no process left. timeout: 300
# shellcheck disable=SC2086 # $short is words
. "$TEST_DIR/common.inc"
few_words
broken() { # STATUS STEPS VARIABLE=VALUE OPTION...: the message goes to failures.out
    want=$1 steps=$2 variable=$3
    shift 3
    rm -f run.repro.tar.zst
    exit_of "$want" on_gpu "$variable" "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few --set measure.timed_steps=2 --batch-size 2 \
        --set train.accumulation_steps=1 "$@" -o run.repro.tar.zst
    words
    [ "$(tail -n 1 out.txt)" = run.repro.tar.zst ] || fail "the last line of stdout is not the bundle"
    "$REPRO" inspect run.repro.tar.zst facts.json >facts.json
    jq -e '.status == "failed" and (.reason | length > 20)' facts.json >answer.txt || fail "the bundle is not marked failed"
    [ "$(steps_of run.repro.tar.zst | jq -s 'map(select(.step >= 0)) | length')" = "$steps" ] || fail "not $steps steps in the bundle"
    verified run.repro.tar.zst
    no_worker_left
}
count() { # FUNCTION: its calls in a good run
    sed -n "s/^called $1 //p" calls.txt
}
# The process that was asked for the device and the one that trains end in order, and give everything back.
on_gpu SHIM_LOG="$PWD/calls.txt" LD_PRELOAD="$BUILD/fake/ending.so" PLAY_ENDING="$PWD/ending.txt" "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few --set measure.timed_steps=2 --batch-size 2 \
    --set train.accumulation_steps=1 -o good.repro.tar.zst >out.txt 2>err.txt || fail "$(tail -n 1 err.txt)"
[ "$(sort -u ending.txt)" = "repro-gpu ended with status 0" ] && [ "$(wc -l <ending.txt)" = 2 ] || { cat ending.txt >&2; fail "a worker was killed"; }
[ "$(count cuGraphLaunch)" -ge 4 ] || { cat calls.txt; fail "a step is no graph"; }
grep -v -e '^called' -e '^calls' calls.txt | while read -r what n; do # "page-locked block 0" has two words before the number
    case "$n" in 0 | *' 0') ;; *) fail "not given back: $what $n" ;; esac
done
broken 7 0 SHIM_FAIL=cuMemAlloc_v2:5:2
broken 3 1 "SHIM_FAIL=cuGraphLaunch:$(($(count cuGraphLaunch) - 1)):214"
broken 3 0 SHIM_FAIL=cuGraphLaunch:2:719
broken 3 0 SHIM_FAIL=cuStreamSynchronize:40:700
broken 7 0 SHIM_FAIL=cuModuleLoadData:1:209
# A hang ends every phase after run.hang_seconds, and the message names the phase.
broken 7 0 SHIM_HANG=cuGraphLaunch:2 --set run.hang_seconds=2
broken 7 0 SHIM_HANG=cuModuleLoadData:1 --set run.hang_seconds=2
broken 7 0 SHIM_HANG=cuGraphLaunch:1 --set run.hang_seconds=2
broken 7 0 SHIM_HANG=cuMemcpyDtoHAsync_v2:1 --set run.hang_seconds=2
others=$short short=$(echo "$short" | sed 's/--set measure.ceilings=false//')
export SHIM_IDLE="$PWD/idle.txt" # nothing is executed: a ceiling would take an hour
broken 7 0 SHIM_HANG=cuStreamSynchronize:2 --set run.hang_seconds=2
unset SHIM_IDLE
short=$others
# One that comes when the run is complete costs two seconds, and the worker.
exit_of 0 on_gpu SHIM_HANG=cuMemFree_v2:1 "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few --set measure.timed_steps=1 --batch-size 2 \
    --set train.accumulation_steps=1 -o end.repro.tar.zst
"$REPRO" inspect end.repro.tar.zst facts.json | jq -e '.status == "complete"' >answer.txt || fail "the run is not complete"
no_worker_left
# What keeps a run from beginning is no attempt.
refused() { # VARIABLE=VALUE OPTION...
    rm -f run.repro.tar.zst
    variable=$1
    shift
    lines=$(cat ledger-*.jsonl | wc -l)
    exit_of 7 on_gpu "$variable" "$REPRO" run bert_tiny_fp32 --backend cuda $short $bert_few "$@" -o run.repro.tar.zst
    words
    [ ! -e run.repro.tar.zst ] || fail "a bundle of a run that never began"
    [ "$(cat ledger-*.jsonl | wc -l)" = "$lines" ] || fail "a line in the ledger"
    no_worker_left
}
refused SHIM_CAPABILITY=61
refused SHIM_VERSION=11080
refused SHIM_DEVICES=1 --device 3
began=$(date +%s)
refused SHIM_HANG=cuInit --set run.hang_seconds=2
[ $(($(date +%s) - began)) -lt 40 ] || fail "the query before the run takes longer than run.hang_seconds"
shim=$PWD # nothing is there
refused SHIM_DEVICES=1
