#!/bin/bash
# The printed script of sbatch on two nodes of a Slurm of this test's own, whose networks are namespaces: training to the bits of one rank.
# timeout: 300
hosts=2
. "$TEST_DIR/hosts.inc"
. "$TOP/tests/cli/launch/slurm.inc"
on() { # NODE COMMAND...: in its network, with the cgroups that `ip netns exec` hides
    local ns
    ns=/run/netns/$(host_ns $((${1##*.} - 1)))
    shift
    nsenter --net="$ns" "$@"
}
trap 'end_slurm; remove_hosts' EXIT
start_slurm 192.0.2.1 192.0.2.2
mkdir bin
cat >bin/repro <<'END'
#!/bin/sh
export REPRO_HOST=$SLURMD_NODENAME
[ "$1" = run ] || exec "$REPRO" "$@"
shift
exec "$REPRO" run "$@" ${LENGTH#* }
END
chmod +x bin/repro
export PATH="$PWD/bin:$PATH" LENGTH="$bert --steps 2"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $LENGTH --set train.accumulation_steps=4 -o one.repro.tar.zst
for kind in sbatch srun; do
    repro launch $kind --nodes 2 --ranks-per-node 2 --recipe bert_tiny_fp32 --name job --gpus-per-node 0 >job.sh
    case $kind in
        sbatch) exit_of 0 on 192.0.2.1 sbatch -W -o job.out job.sh ;;
        srun) exit_of 0 on 192.0.2.1 sh job.sh ;;
    esac
    mv job*.repro.tar.zst job.repro.tar.zst 2>mv.txt || : # sbatch's has the number of the job in its name
    ranks_in job.repro.tar.zst 4
    same_bits one.repro.tar.zst job.repro.tar.zst
    jq -e '.run.world.nodes == 2 and (.facts | .launch.launcher == "srun" and .launch.size == 4 and ([.process[].host] == [0, 0, 1, 1]))' bits.json >answer.txt ||
        { jq '.run.world, .facts' bits.json >&2; fail "$kind: not recorded on two nodes"; }
    verified job.repro.tar.zst
    rm job.repro.tar.zst
done
