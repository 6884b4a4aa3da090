#!/bin/bash
# Four hosts with two ranks each: the bits of one rank, with and without a slow network, slow joiners and strangers; a host that is cut off,
# killed or interrupted ends the whole job within 15 s, and process 0 seals a bundle that names it. With LONG=1 more of each.
# timeout: 400
# serial
. "$TEST_DIR/hosts.inc"
per_host=2
model="$bert --set train.accumulation_steps=8"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $model --steps 60 -o honest.repro.tar.zst
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run $model --steps 2 -o one.repro.tar.zst
like_one() { # [BUNDLE]
    ranks_in job.repro.tar.zst 8
    same_bits "${1:-one.repro.tar.zst}" job.repro.tar.zst
    jq -e '.run.world.nodes == 4 and (.facts.rank | map(.node)) == [0, 0, 1, 1, 2, 2, 3, 3] and (.facts.process | map(.host)) == [0, 1, 2, 3] and
        all(.facts.rank[]; .exchange.levels == 2 and .exchange.bytes_per_step_between_hosts > 0)' bits.json >answer.txt || { jq '.run.world, .facts' bits.json >&2; fail "other hosts"; }
    for node in 0 1 2 3; do
        for when in before after; do
            "$REPRO" inspect job.repro.tar.zst "env/node$node.$when.json" | jq -e .probes.memory >answer.txt || fail "no capture of host $node $when"
        done
    done
    verified job.repro.tar.zst --replay 1
    says_in bit-equal verify.txt
}
start_hosts --steps 2
all_succeed
like_one

# The last host comes late, and strangers connect to everything that listens on the first one, before and while ranks find each other.
members=
new_key
rm job.repro.tar.zst
for host in 0 1 2; do start_host $host --steps 2; done
strangers() {
    while :; do
        for port in $(ip netns exec "$(host_ns 0)" ss -Hltn | awk '{n = split($4, part, ":"); print part[n]}'); do
            timeout 1 ip netns exec "$(host_ns 3)" bash -c "exec 3<>/dev/tcp/192.0.2.1/$port && head -c 3000 /dev/urandom >&3 && echo \$\$ >>reached.txt" 2>>stranger.txt || :
        done
        timeout 2 ip netns exec "$(host_ns 2)" bash -c "exec 3<>/dev/tcp/192.0.2.1/61400 && sleep 1" 2>>stranger.txt || :
    done
}
if command -v ss >answer.txt; then
    strangers &
    stranger=$!
fi
sleep 5
start_host 3 --steps 2
all_succeed
if [ -n "${stranger:-}" ]; then
    kill "$stranger"
    wait "$stranger" 2>/dev/null || :
    [ -s reached.txt ] || fail "no stranger got through"
fi
like_one

# Another layout on one host: nothing runs.
members='' ranks=''
new_key
rm job.repro.tar.zst
for host in 0 1 2; do start_host $host --steps 2 --layout 8x1x1; done
start_host 3 --steps 2 --layout 2x1x2
ended 60000
[ "$statuses" = "5 5 5 5 " ] || { tail -n 2 err?.txt >&2; fail "two layouts: $statuses"; }
status_of job.repro.tar.zst failed 'mismatch, rank'
says_in layout err0.txt

# What ends a job of hours. $1 is in the message of the failed check.
report() {
    echo "$1: all processes ended after $took ms with $statuses; $("$REPRO" inspect job.repro.tar.zst facts.json | jq -r .reason)"
}
start_hosts --steps 100000
until_timed
link 2 down
ended 15000
link 2 up
sealed failed 'rank [45]\b'
says_in 192.0.2.3 err0.txt
report "the link of host 2 is down"

start_hosts --steps 100000
until_timed
victim=$(children "$(member_of 2)" | sed -n 2p)
kill -KILL "$victim"
ended 15000
sealed failed 'rank 5\b'
report "rank 5 is killed"

start_hosts --steps 100000
until_timed
kill -TERM "$(member_of 1)"
ended 15000
sealed incomplete '^interrupted, after [0-9]+ steps?$'
says_in 'ranks 2 to 3' err0.txt
report "SIGTERM to host 1"

start_hosts --steps 100000
until_timed
kill -KILL "$(member_of 0)"
ended 15000
[ ! -e job.repro.tar.zst ] || fail "a bundle without process 0"
echo "process 0 is killed: all others ended after $took ms with $statuses"

# One host with another key: nobody trains, and everybody says why.
members=
new_key
for host in 0 1 2; do start_host $host --steps 2 --join-timeout 4; done
new_key
start_host 3 --steps 2 --join-timeout 4
ranks=
ended 15000
[ "${statuses% ? }" = "7 7 7" ] && [ "$statuses" != "7 7 7 0 " ] || { cat err?.txt >&2; fail "another key: $statuses"; }
says_in ': 3' err0.txt
says_in key err3.txt
[ ! -e job.repro.tar.zst ] || fail "a bundle with a wrong key"
echo "another key on host 3: ended after $took ms; $(tail -n 1 err3.txt)"

# A network with 20 ms of delay in each direction.
relayed || skip "python3 is not installed: not tried with a slow network"
wire delay 0.02
start_hosts --steps 2
all_succeed
like_one
echo "with 20 ms of delay: $took ms"
[ "${LONG:-0}" != 0 ] || exit 0

# More of what ends a job, a network that loses a frame in twenty, and a host that is silent for 3 s.
wire delay 0.001

start_hosts --steps 100000
until_timed
kill -KILL "$(member_of 2)"
ended 15000
sealed failed 'rank(s)? [45]\b'
report "the process of host 2 is killed"

# A host dies when all steps are done: they are sealed all the same.
start_hosts --steps 3
wait_until "$(member_of 0)" grep -q sealing err0.txt
kill -KILL "$(member_of 1)"
ranks=
ended 15000
if [ "${statuses%% *}" = 0 ]; then sealed complete ''; else sealed failed 'capturing the hosts after the run'; fi
[ "$steps_before" = 4 ] || fail "$((steps_before - 1)) steps of 3"
echo "the process of host 1 is killed after the last step: all processes ended after $took ms with $statuses"

start_hosts --steps 100000 --set run.hang_seconds=3
until_timed
victim=$(children "$(member_of 1)" | sed -n 1p)
kill -STOP "$victim"
ended 15000
sealed failed 'rank 2\b.*run.hang_seconds'
report "rank 2 stops"

# Its port is taken.
on_host 0 "$REPRO" launch whoami --meet --nodes 2 --node-rank 0 --join 192.0.2.1:61400 --join-timeout 60 >whoami.txt 2>&1 &
holder=$!
wait_until "$holder" grep -q waiting whoami.txt
members=
start_host 0 --steps 2 --join-timeout 4
ended 10000
says_in 61400 err0.txt
[ "$statuses" = "7 " ] || fail "two on one port: $statuses"
# shellcheck disable=SC2046
kill "$holder" $(children "$holder")
wait "$holder" || :
echo "the port is taken: $statuses; $(tail -n 1 err0.txt)"

wire delay 0.001
wire loss 0.05 1
lost=$(lost_frames)
start_hosts --steps 2
all_succeed
like_one
wire loss 0 1
lost=$(($(lost_frames) - lost))
[ "$lost" -gt 10 ] || fail "only $lost frames were lost"
echo "with 5 % of loss, $lost frames: $took ms"
start_hosts --steps 60
wait_until "$(member_of 0)" grep -q timed err0.txt
wire cut veth2
sleep 3
alive "$(member_of 0)" || fail "it had ended before the silence"
wire heal
all_succeed
like_one honest.repro.tar.zst
echo "with 3 s of silence: $took ms after it"
