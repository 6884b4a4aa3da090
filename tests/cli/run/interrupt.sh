#!/bin/sh
# Ctrl-C ends a run without waiting for the work in progress, and seals a bundle marked incomplete: between short steps, in the middle of a
# matrix product of many seconds, while initialising and while saving. tests/bench/limits.sh has the limit in time, 1.5 s.
# timeout: 300
. "$TEST_DIR/common.inc"
# A wide layer in plain code on one thread: one step takes minutes, and the worker reads no frame in it.
wide="--isa scalar --threads 1 --batch-size 16 --set train.accumulation_steps=1 --set model.num_hidden_layers=1"
wide="$wide --set model.hidden_size=1024 --set model.intermediate_size=16384"
interrupt_at() { # PATTERN DELAY OPTION...: Ctrl-C DELAY s after the messages match PATTERN
    pattern=$1 delay=$2
    shift 2
    rm -f endless.repro.tar.zst out.txt err.txt
    "$REPRO" run bert_tiny_fp32 -o endless.repro.tar.zst "$@" >out.txt 2>err.txt &
    parent=$!
    wait_until "$parent" grep -q "$pattern" err.txt
    sleep "$delay"
    worker=$(cat "/proc/$parent/task/$parent/children")
    worker=${worker%% *}
    kill -INT "$parent"
    expect_end 130 "" incomplete
}
interrupt_at timed 0 --steps 1000000 --threads 1
# Under nohup a hangup, which reaches the group, ends neither the run nor its worker.
rm -f endless.repro.tar.zst
trap '' HUP
start_until timed --steps 100 --batch-size 1 -o endless.repro.tar.zst
trap - HUP
worker=$(cat "/proc/$parent/task/$parent/children")
worker=${worker%% *}
kill -HUP "$parent" "$worker"
expect_end 0 "" complete
# shellcheck disable=SC2086 # several words
interrupt_at warm-up 1 $wide
grep -q 'after 0 steps' err.txt || { cat err.txt >&2; fail "it waited for the end of a step"; }
# shellcheck disable=SC2086
interrupt_at initialising 0 $wide
! grep -q warm-up err.txt || { cat err.txt >&2; fail "it went on to the next phase"; }

# While saving: no unfinished file is left, not even by a worker that is killed.
mkdir save
saving="--steps 1 --batch-size 1 --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false --set model.hidden_size=1024 --save save/x"
# shellcheck disable=SC2086
interrupt_at saving 0 $saving
[ -z "$(find save -type f ! -name x)" ] || { ls -l save >&2; fail "half a checkpoint is left"; }
rm -rf save out.txt err.txt && mkdir save
# shellcheck disable=SC2086
"$REPRO" run bert_tiny_fp32 $saving -o killed.repro.tar.zst >out.txt 2>err.txt &
parent=$!
being_saved() { find save -name '*.part' | grep -q .; }
wait_until "$parent" being_saved
worker=$(cat "/proc/$parent/task/$parent/children")
kill -KILL "${worker%% *}"
status=0
wait "$parent" || status=$?
[ "$status" = 7 ] || { cat err.txt >&2; fail "exit status $status, expected 7"; }
[ -z "$(ls save)" ] || { ls -l save >&2; fail "a worker that was killed left half a checkpoint"; }
