#!/bin/sh
# A rank that is killed, that stops or that cannot go on, Ctrl-C, and a disk that is full at the end: the run ends within 10 s, the bundle is
# sealed, verifies, names the rank, and has the honest steps that all ranks completed; no process is left.
# timeout: 300
. "$TEST_DIR/common.inc"
model="$bert --set train.accumulation_steps=4 --set run.overlap_kib=16"
steps=0
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $model --steps 100 -o honest.repro.tar.zst
begin() { # OPTION...: four ranks that train for hours, $parent and their processes $ranks
    rm -f endless.repro.tar.zst err.txt
    # shellcheck disable=SC2086
    "$REPRO" run $model --ranks 4 --steps 1000000 -o endless.repro.tar.zst "$@" >out.txt 2>err.txt &
    parent=$!
    wait_until "$parent" grep -q 'timed  step' err.txt
    sleep 0.2 # some more steps
    ranks=$(children "$parent")
    [ "$(echo "$ranks" | wc -l)" = 4 ] || fail "4 ranks are the processes '$ranks'"
}
process_of() { # RANK
    echo "$ranks" | sed -n "$(($1 + 1))p"
}
ends() { # EXIT_STATUS STATUS REASON WORD: $parent, within 10 s from now; WORD is in its messages
    began=$(milliseconds) status=0
    wait "$parent" || status=$?
    took=$(($(milliseconds) - began))
    [ "$status" = "$1" ] || { cat err.txt >&2; fail "exit status $status, expected $1"; }
    [ "$took" -lt 10000 ] || fail "the end took $took ms"
    echo "$2 in $took ms: $(tail -n 1 err.txt)"
    [ "$(tail -n 1 out.txt)" = endless.repro.tar.zst ] || fail "the last line of stdout is not the bundle"
    # shellcheck disable=SC2086
    none_left $ranks
    status_of endless.repro.tar.zst "$2" "$3"
    says_in "$4" err.txt
    verified endless.repro.tar.zst
    prefix_of honest.repro.tar.zst endless.repro.tar.zst 4
    steps=$((steps + steps_before - 1))
}
for rank in 0 2; do
    begin
    kill -KILL "$(process_of $rank)"
    ends 7 failed "unavailable, rank $rank, timed after step [0-9]+(, [a-z ]+)?, signal 9: " memory
done
begin
kill -SEGV "$(process_of 3)"
ends 70 failed 'bug, rank 3, timed after step [0-9]+(, [a-z ]+)?, signal 11: ' signal
for rank in 0 1; do
    begin --set run.hang_seconds=3
    kill -STOP "$(process_of $rank)"
    ends 7 failed "unavailable, rank $rank, timed after step" run.hang_seconds
done
begin
kill -INT "$parent"
ends 130 incomplete 'interrupted, after [0-9]+ steps?$' interrupted
begin
kill -TERM "$parent"
ends 130 incomplete 'interrupted, after [0-9]+ steps?$' interrupted
# Ctrl-C in a terminal goes to all of them.
begin
# shellcheck disable=SC2086
kill -INT "$parent" $ranks
ends 130 incomplete 'interrupted, after [0-9]+ steps?$' interrupted
# The parent dies: so do its ranks.
begin
kill -KILL "$parent"
wait "$parent" || :
# shellcheck disable=SC2086
none_left $ranks

[ "$steps" -gt 0 ] || fail "no bundle has a step"

# No room for the bundle: it goes where temporary files go.
mkdir small tmp
if mount -t tmpfs -o size=64k none small 2>mount.txt; then
    trap 'umount small' EXIT
    head -c 50000 /dev/zero >small/filler
    # shellcheck disable=SC2086
    TMPDIR="$PWD/tmp" exit_of 3 "$REPRO" run $model --ranks 2 --steps 2 -o small/x.repro.tar.zst
    [ ! -e small/x.repro.tar.zst ] || fail "a part of the bundle is left"
    verified "$(tail -n 1 out.txt)"
else
    echo "cannot mount a small file system: $(cat mount.txt)"
fi
