#!/bin/sh
# Ctrl-C ends a run within a second, whatever it is doing, and seals a bundle marked incomplete: between short steps, in the middle of
# a matrix product of many seconds, while initialising and while saving.
# timeout: 300
# serial
. "$TEST_DIR/common.inc"
# A wide layer in plain code on one thread: one product takes many seconds, and in it the worker hears nothing.
wide="--isa scalar --threads 1 --batch-size 16 --set train.accumulation_steps=1 --set model.num_hidden_layers=1"
wide="$wide --set model.hidden_size=1024 --set model.intermediate_size=16384"
# interrupt_at PATTERN DELAY OPTION...: Ctrl-C DELAY s after the messages match PATTERN. A busy machine may be slow once: the best of
# three counts.
interrupt_at() {
    pattern=$1 delay=$2 best='' left=3
    shift 2
    while [ "$left" -gt 0 ]; do
        left=$((left - 1))
        rm -f endless.repro.tar.zst out.txt err.txt
        "$REPRO" run bert_tiny_fp32 -o endless.repro.tar.zst "$@" >out.txt 2>err.txt &
        parent=$!
        i=0
        until grep -q "$pattern" err.txt 2>/dev/null; do
            i=$((i + 1))
            [ "$i" -lt 10000 ] || fail "no '$pattern' in the messages in time"
            kill -0 "$parent" 2>/dev/null || { cat err.txt >&2; fail "the run ended before '$pattern'"; }
            sleep 0.01
        done
        sleep "$delay"
        worker=$(cat "/proc/$parent/task/$parent/children")
        worker=${worker%% *}
        t0=$(date +%s%N)
        kill -INT "$parent"
        status=0
        wait "$parent" || status=$?
        ms=$((($(date +%s%N) - t0) / 1000000))
        [ "$status" = 130 ] || { cat err.txt >&2; fail "'$pattern': exit status $status, expected 130"; }
        [ "$(tail -n 1 out.txt)" = endless.repro.tar.zst ] || fail "'$pattern': the last line of stdout is not the bundle"
        "$REPRO" inspect endless.repro.tar.zst run.json >record.json
        jq -e '.status == "incomplete"' record.json >answer.txt || fail "'$pattern': the bundle is marked $(jq .status record.json)"
        "$REPRO" verify endless.repro.tar.zst >verify.txt 2>&1 || { cat verify.txt >&2; fail "'$pattern': the bundle does not verify"; }
        expect_gone "$worker"
        [ "${best:-$ms}" -lt "$ms" ] || best=$ms
        [ "$best" -gt 1500 ] || break
    done
    [ "$best" -le 1500 ] || fail "'$pattern': took $best ms to end"
    echo "'$pattern': $best ms"
}
interrupt_at timed 0 --steps 1000000 --threads 1
# shellcheck disable=SC2086 # several words
interrupt_at warm-up 1 $wide
grep -q 'after 0 steps' err.txt || { cat err.txt >&2; fail "a step was over before the interrupt: nothing was tested"; }
# shellcheck disable=SC2086
interrupt_at initialising 0 $wide

# While saving: no unfinished file is left, not even by a worker that is killed.
mkdir save
saving="--steps 1 --set measure.warmup_steps=0 --set measure.repeats=1 --set model.hidden_size=1024 --save save/x"
# shellcheck disable=SC2086
interrupt_at saving 0 $saving
[ -z "$(find save -type f ! -name x)" ] || { ls -l save >&2; fail "half a checkpoint is left"; }
rm -rf save out.txt err.txt && mkdir save
# shellcheck disable=SC2086
"$REPRO" run bert_tiny_fp32 $saving -o killed.repro.tar.zst >out.txt 2>err.txt &
parent=$!
until [ -n "$(find save -name '*.part')" ]; do
    kill -0 "$parent" 2>/dev/null || { cat err.txt >&2; fail "nothing is saved"; }
    sleep 0.01
done
worker=$(cat "/proc/$parent/task/$parent/children")
kill -KILL "${worker%% *}"
status=0
wait "$parent" || status=$?
[ "$status" = 7 ] || { cat err.txt >&2; fail "exit status $status, expected 7"; }
[ -z "$(ls save)" ] || { ls -l save >&2; fail "a worker that was killed left half a checkpoint"; }
