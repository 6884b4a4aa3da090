#!/bin/sh
# A worker that crashes, hangs or is killed (as by the kernel when memory is short): a bundle marked failed and a status for each.
. "$TEST_DIR/common.inc"
dies() { # SIGNAL STATUS MESSAGE NUMBER OPTION...: the bundle has the number of the signal, where one ended the worker
    signal=$1 expected=$2 message=$3 number=$4
    shift 4
    rm -f err.txt endless.repro.tar.zst
    start_endless "$@"
    kill -"$signal" "$worker"
    expect_end "$expected" "$message" failed
    jq -e --arg n "$number" '.reason | if $n == "" then contains("signal") | not else contains(", signal \($n): ") end' record.json >answer.txt ||
        fail "the reason in the bundle: $(jq -c .reason record.json)"
    words | sed 's/step [0-9]*/step N/g; s/[0-9]* steps/N steps/g; s/(timed[^)]*)/(PHASE)/'
}
dies SEGV 70 signal 11
dies STOP 7 hung '' --set run.hang_seconds=2
dies KILL 7 memory 9
# Stopped together with the worker, as by Ctrl-Z, for longer than run.hang_seconds: that time is no silence of the worker.
rm -f err.txt endless.repro.tar.zst
start_endless --set run.hang_seconds=2 --progress json
kill -STOP "$parent" "$worker"
sleep 3
kill -CONT "$worker" "$parent"
wait_until "$parent" grep -q 'did not run for' err.txt
n=$(grep -c '"step"' err.txt)
until [ "$(grep -c '"step"' err.txt)" -gt "$n" ] || ! kill -0 "$parent"; do sleep 0.1; done
kill -INT "$parent"
expect_end 130 "" incomplete
