#!/bin/sh
# A command on two hosts, which are network namespaces: captures of both, and their processes in one bundle; a host that
# is cut off ends the other within seconds, in a sealed failed bundle. timeout: 120
hosts=2
. "$TOP/tests/cli/ranks/hosts.inc"
start_on() { # HOST WORD...: its process in the background
    number=$1
    shift
    REPRO_HOST=host$number ip netns exec "$(host_ns "$number")" "$REPRO" exec --nodes 2 --node-rank "$number" \
        --join 192.0.2.1:61400 "$@" >"out$number.txt" 2>"err$number.txt" &
    members="$members $!"
}
new_key
members=
for host in 0 1; do
    # shellcheck disable=SC2086 # several words
    start_on $host --log csv $table -o two.repro.tar.zst \
        -- sh -c '[ "$1" = 0 ] || sleep 0.2; exec ./train.sh' train $host
done
for one in $members; do
    wait "$one" || { cat err?.txt >&2; fail "status $?"; }
done
exit_of 0 "$REPRO" verify two.repro.tar.zst --all
says_in "2 nodes" out.txt
"$REPRO" inspect two.repro.tar.zst >members.txt
for member in env/node1.before.json env/node1.after.json log/process1.stdout; do
    grep -q "$member" members.txt || fail "no $member: $(cat members.txt)"
done
"$REPRO" inspect two.repro.tar.zst facts.json | jq -e '(.process | map(.node) == [0, 1]) and
    (.process[1].clock.error_ns > 0) and .log.process == 0 and
    .launch.kind == "nodes" and
        .launch.size == 2' >answer.txt ||
    fail "other facts: $("$REPRO" inspect two.repro.tar.zst facts.json | jq -c '.process, .launch')"
exit_of 0 "$REPRO" report two.repro.tar.zst --format html

# cut off
new_key
members=
for host in 0 1; do
    start_on $host -o cut.repro.tar.zst -- sh -c 'touch begun$1; sleep 100' host $host
done
wait_until "$(member_of 0)" test -e begun0
wait_until "$(member_of 1)" test -e begun1
link 1 down
began=$(date +%s)
status=0
wait "$(member_of 0)" || status=$?
[ $status = 7 ] || { cat err0.txt >&2; fail "status $status after a host was cut off"; }
[ $(($(date +%s) - began)) -lt 30 ] || fail "it took $(($(date +%s) - began)) s"
! wait "$(member_of 1)" || fail "the host that was cut off ends well"
members=
"$REPRO" inspect cut.repro.tar.zst facts.json | jq -e '.status == "failed" and .ended_by == 1 and
    (.reason | test("^process 1 of the command was gone: ") and (test("192.0.2") | not))' >answer.txt ||
    fail "$("$REPRO" inspect cut.repro.tar.zst facts.json | jq -c '[.status, .reason]')"
exit_of 10 "$REPRO" verify cut.repro.tar.zst
says_in "rank 1 (" err0.txt
exit 0
