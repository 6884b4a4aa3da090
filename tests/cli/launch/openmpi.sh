#!/bin/sh
# Four processes of mpirun (Open MPI) find each other, with the printed script too; without a key, or with recipes that differ, nobody goes on.
. "$TEST_DIR/common.inc"
need mpirun.openmpi jq
ln -s "$(command -v mpirun.openmpi)" bin/mpirun
new_key
exit_of 0 mpirun -n 4 -x REPRO_JOB_KEY repro run
agreed 4 openmpi

unset REPRO_JOB_KEY
exit_of 2 mpirun -n 2 "$REPRO" launch whoami --meet
says '-x REPRO_JOB_KEY'
# shellcheck disable=SC2016 # expanded by each process
{
    exit_of 7 mpirun -n 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] || exec sleep 60; exec "$REPRO" doctor --json'
    jq -e '.findings[] | select(.check == "launcher") | .severity == "stop" and (.remedy | contains("-x REPRO_JOB_KEY"))' out.txt >answer.txt ||
        { cat out.txt >&2; fail "doctor does not stop for mpirun without a key"; }
    new_key
    exit_of 5 mpirun -n 3 sh -c 'exec "$REPRO" launch whoami --meet --recipe "r$((OMPI_COMM_WORLD_RANK / 2))"'
}
says "'r1'"

# The printed script, as it is.
unset REPRO_JOB_KEY
echo "localhost slots=4" >hosts
"$REPRO" launch openmpi --nodes 1 --ranks-per-node 4 --gpus-per-node 0 >job.sh
exit_of 0 sh job.sh
agreed 4 openmpi

# The command of the printed MPIJob, whose mpirun starts no rank itself; here all hosts of the operator's file are this one.
new_key
echo "$REPRO_JOB_KEY" >key
chmod 600 key
unset REPRO_JOB_KEY
"$REPRO" launch kubeflow-mpijob --image i --nodes 1 --ranks-per-node 4 --recipe bert_tiny_fp32 >job.yaml
# shellcheck disable=SC2016 # expanded by job.sh
sed -n '/^ *- |$/,/^    Worker:/p' job.yaml | sed '1d; $d; s|/etc/mpi/hostfile|hosts|; s|/run/repro/key|key|; s|repro run .* --join|"$REPRO" launch whoami --meet --json --join|; s| -o .*||' >job.sh
exit_of 0 sh -eu job.sh
jq -s -e 'length == 4 and (map(.index) | sort) == [0, 1, 2, 3] and all(.[]; .launcher == "openmpi" and .world == 4)' out.txt >answer.txt ||
    { cat job.sh out.txt err.txt >&2; fail "the command of an MPIJob"; }
