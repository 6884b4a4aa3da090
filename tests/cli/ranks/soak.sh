#!/bin/bash
# Random faults at random times on four hosts with two ranks each, data-parallel and 2 x 2 x 2 in turn, for SOAK seconds (15): no hang, no lost
# evidence, no wrong number. After each
# job every process has ended by itself; process 0 has sealed a bundle, unless it was killed or nothing had begun; the bundle verifies, its
# records are the first ones of the honest run, it names the host that failed, and a complete one has the honest state root. SEED repeats a
# sequence of faults, up to the scheduling of the machine; HANG are seconds after which a silent rank counts as hung (4), more on a busy machine.
# timeout: 3000
# serial
# exhaustive
. "$TEST_DIR/hosts.inc"
relayed || skip "python3 is not installed"
[ "${LONG:-0}${SOAK:+1}" != 0 ] || skip "takes a minute: LONG=1, or SOAK=seconds"
seed=${SEED:-5}
until=$(($(date +%s) + ${SOAK:-15}))
RANDOM=$((seed % 32768))
echo "SEED=$seed"
per_host=2 steps=40
ends="--steps $steps --set run.hang_seconds=${HANG:-4} --join-timeout 20"
choose() { # KIND: of the next job
    kind=$1
    case $kind in
    data) model="$bert --set train.accumulation_steps=8 $ends" layout="--layout 8x1x1" ;;
    all) model="$gpt --set parallel.tensor=2 --set model.num_hidden_layers=2 --set run.overlap_kib=1 --set train.accumulation_steps=4 $ends" layout="--layout 2x2x2" ;;
    esac
    honest=honest-$kind.repro.tar.zst
    # shellcheck disable=SC2086 # several words
    [ -e "$honest" ] || exit_of 0 "$REPRO" run ${model% --set run.hang*} -o "$honest"
    honest_root=$("$REPRO" inspect "$honest" run.json | jq -r .results.state_root_last)
}
# The bundle goes to a disk of its own, which may be full when it is sealed; then it goes where temporary files go.
bundle=job.repro.tar.zst
mkdir disk tmp
if mount -t tmpfs -o size=4m none disk 2>mount.txt; then
    bundle=disk/job.repro.tar.zst
    # shellcheck disable=SC2317,SC2329 # called by the trap
    remove_disk() {
        remove_hosts
        umount disk
    }
    trap remove_disk EXIT
    export TMPDIR="$PWD/tmp"
else
    echo "no full disk: $(cat mount.txt)"
fi
pick() { # N: $picked, 0 to N - 1; not in a subshell, which would not go on with the sequence
    picked=$((RANDOM % $1))
}
pause() { # MOST: random tenths of a second
    pick "$1"
    sleep "$((picked / 10)).$((picked % 10))"
}
# Changes something, and takes back what does not end the job alone. Sets $what and, as a pattern, $whom a failed bundle may name.
fault() {
    local host rank
    pick 4
    host=$picked
    pick 2
    rank=$(children "$(member_of "$host")" | sed -n "$((picked + 1))p") # nothing if it has not begun
    whom="ranks? ($((2 * host))|$((2 * host + 1)))\\b"
    pick 11
    # A host that is cut off from process 0 is to blame; if it is process 0's own host, those that it cannot reach are.
    [ "$host$picked" != 06 ] && [ "$host$picked" != 08 ] && [ "$host$picked" != 03 ] || whom='rank'
    [ "$picked" != 7 ] || whom='ranks? [4-7]\b'
    case $picked in
    0) what="kill a rank of host $host" && kill -KILL "$rank" 2>/dev/null ;;
    1) what="kill the process of host $host" && kill -KILL "$(member_of "$host")" 2>/dev/null && killed="$killed $host" ;;
    2) what="stop a rank of host $host" && kill -STOP "$rank" 2>/dev/null && pause 80 && kill -CONT "$rank" 2>/dev/null ;;
    3) what="stop the process of host $host" && kill -STOP "$(member_of "$host")" 2>/dev/null && pause 120 && kill -CONT "$(member_of "$host")" 2>/dev/null ;;
    4) what="lose 5 %" && wire loss 0.05 $RANDOM ;;
    5) what="delay 15 ms" && wire delay 0.015 ;;
    6) what="cut host $host off" && wire cut "veth$host" && pause 120 && wire heal ;;
    7) what="partition" && wire cut veth2 && wire cut veth3 && pause 120 && wire heal ;;
    8) what="link of host $host down and up" && link "$host" down && pause 120 && link "$host" up ;;
    9) what="SIGTERM to host $host" && kill -TERM "$(member_of "$host")" 2>/dev/null ;;
    10) what="no room for the bundle" && { head -c 8m /dev/zero >disk/filler 2>/dev/null || :; } ;;
    esac
}
judge() {
    local status
    if [ -e disk/job.repro.tar.zst ]; then
        mv disk/job.repro.tar.zst job.repro.tar.zst
    elif [ "$what" = "no room for the bundle" ] && [ "$bundle" != job.repro.tar.zst ] && [ -s out0.txt ]; then
        mv "$(tail -n 1 out0.txt)" job.repro.tar.zst || fail "SEED=$seed, job $jobs, $what: the bundle is not where it should be"
    fi
    if [ ! -e job.repro.tar.zst ]; then
        case $killed in *0*) echo "$what: ended after $took ms with $statuses: process 0 is dead" && return ;; esac
        ! grep -q 'initialising' err0.txt || { tail -n 5 err?.txt >&2; fail "SEED=$seed, job $jobs, $what: no bundle although training had begun"; }
        echo "$what: ended after $took ms with $statuses: nothing had begun"
        return
    fi
    documents job.repro.tar.zst >record.json
    status=$(jq -r .facts.status record.json)
    verified job.repro.tar.zst
    prefix_of "$honest" job.repro.tar.zst 8
    [ "$status" != complete ] || [ "$steps_before" = $((steps + 1)) ] || fail "SEED=$seed, job $jobs: complete with $((steps_before - 1)) steps"
    [ "$status" != complete ] || [ "$(jq -r .run.results.state_root_last record.json)" = "$honest_root" ] || fail "SEED=$seed, job $jobs: another state root"
    [ "$status" = complete ] || ended_early=$((ended_early + 1))
    [ "$status" = complete ] || jq -e '.facts.reason | length > 10' record.json >answer.txt || fail "SEED=$seed, job $jobs: no reason"
    [ "$status" != failed ] || jq -e --arg whom "$whom" '.facts.reason | test($whom)' record.json >answer.txt || { jq .facts.reason record.json >&2; fail "SEED=$seed, job $jobs, $what: names others than $whom"; }
    echo "$kind, $what: $status with $((steps_before > 0 ? steps_before - 1 : 0)) steps, ended after $took ms with $statuses$(jq -r '.facts.reason // ""' record.json | cut -c 1-100)"
}
# Faults come at any time of a job, as long as one takes on this machine.
choose data
began=$(milliseconds)
start_hosts
all_succeed
tenths=$((($(milliseconds) - began) / 100 + 1))
jobs=0 ended_early=0
while [ "$(date +%s)" -lt "$until" ]; do
    jobs=$((jobs + 1)) what='' whom='' killed='' ranks=''
    rm -f disk/* tmp/*
    [ $((jobs % 2)) = 0 ] && choose data || choose all
    # shellcheck disable=SC2086 # two words
    start_hosts $layout
    pause $tenths
    ranks=$(for one in $members; do children "$one"; done)
    fault || :
    ended 180000 # of a machine that does other things: steps take seconds then
    wire loss 0 1
    wire delay 0
    judge
done
echo "$jobs jobs, $ended_early of them ended early"
[ "$jobs" -lt 20 ] || [ "$ended_early" -gt 0 ] || fail "no fault met a job"
