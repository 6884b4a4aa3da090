#!/bin/bash
# Two processes with a network each, as in two containers of one machine: one host, two places, and rank 0 has to be where the others look.
. "$TOP/tests/common.inc"
need ip unshare nsenter jq
[ "$(id -u)" = 0 ] || skip "only root can make networks"
unshare -n sleep 200 2>unshare.txt &
a=$!
unshare -n sleep 200 2>>unshare.txt &
b=$!
trap 'kill $a $b 2>/dev/null || :' EXIT
for _ in $(seq 100); do
    [ "$(readlink "/proc/$a/ns/net")" = "$(readlink /proc/self/ns/net)" ] || [ "$(readlink "/proc/$b/ns/net")" = "$(readlink /proc/self/ns/net)" ] || break
    sleep 0.05
done
at() { # PID COMMAND...: in its network
    local pid=$1
    shift
    nsenter -t "$pid" -n "$@"
}
at $a ip link add va type veth peer name vb netns $b 2>ip.txt || skip "no networks can be made here: $(cat unshare.txt ip.txt | tail -n 1)"
at $a ip addr add 192.0.2.1/24 dev va
at $b ip addr add 192.0.2.2/24 dev vb
for pid in $a $b; do at "$pid" ip link set lo up; done
at $a ip link set va up
at $b ip link set vb up
# Without a loopback interface ranks of one host do not wait for each other.
exit_of 7 unshare -n timeout 30 "$REPRO" run bert_tiny_fp32 --ranks 2 --steps 1 --threads 1 --set measure.ceilings=false -q -o none.repro.tar.zst
says "the loopback interface is down ('ip link set lo up')"
new_key
whoami="$REPRO launch whoami --meet --json -q --nodes 2"

# shellcheck disable=SC2086 # several words
at $a $whoami --node-rank 0 --ranks-per-node 2 --join 192.0.2.1 >lead.txt &
# shellcheck disable=SC2086
exit_of 0 at $b $whoami --node-rank 1 --ranks-per-node 2 --join 192.0.2.1
wait $!
jq -e '.world == 4 and .first_rank == 2 and .local_rank == 0 and (.members | map(.host)) == [0, 0] and (.members | map(.network_namespace)) == [0, 1]' out.txt >answer.txt ||
    { cat out.txt >&2; fail "two places of one host"; }

# srun's list names a host that is not the leader's: it ends at once, and so does a member that finds nobody there.
slurm="SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=192.0.2.[2-3]"
# shellcheck disable=SC2086
exit_of 2 at $a env $slurm SLURM_PROCID=0 "$REPRO" launch whoami --meet -q
words
# shellcheck disable=SC2086
exit_of 7 at $a env $slurm SLURM_PROCID=1 "$REPRO" launch whoami --meet -q --join-timeout 2
words
