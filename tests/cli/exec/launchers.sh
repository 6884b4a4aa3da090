#!/bin/sh
# Open MPI and MPICH start `repro exec`: one bundle, which names the launcher; a process that fails ends the job.
# tests/cli/launch/slurm.sh has srun. timeout: 200
# shellcheck disable=SC2086 # several words in $table
. "$TEST_DIR/common.inc"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# The log of the process that the launcher calls 1.
# shellcheck disable=SC2016 # for that process
second='[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" != 1 ] || exec ./train.sh 9 "$0"'
ran=
for launcher in mpirun.openmpi mpiexec.hydra; do
    command -v $launcher >answer.txt || continue
    name=openmpi
    pass="-x REPRO_JOB_KEY"
    [ $launcher = mpirun.openmpi ] || { name=mpich pass=; }

    new_key
    exit_of 0 $launcher -n 3 $pass "$REPRO" exec --log csv $table -o job.repro.tar.zst -- sh -c "$second" 0
    "$REPRO" inspect job.repro.tar.zst facts.json >facts.json
    jq -e --arg name $name '.status == "complete" and .launch.launcher == $name and .launch.size == 3 and
        (.process | map(.exit_status) == [0, 0, 0]) and .log.process == 1' facts.json >answer.txt ||
        { jq '.launch, .process, .log' facts.json >&2; fail "another job of $name"; }
    exit_of 0 "$REPRO" verify job.repro.tar.zst
    rm job.repro.tar.zst

    # the launcher passes on the status of the command, or says that it was not 0
    new_key
    if $launcher -n 2 $pass "$REPRO" exec -o job.repro.tar.zst -- sh -c "$second" 3 >out.txt 2>err.txt; then
        cat err.txt >&2
        fail "$name ends with 0"
    fi
    "$REPRO" inspect job.repro.tar.zst facts.json >facts.json
    jq -e '.status == "failed" and .ended_by == 1 and .process[1].exit_status == 3' facts.json >answer.txt ||
        { jq '.status, .ended_by, .process' facts.json >&2; fail "another failed job of $name"; }
    exit_of 10 "$REPRO" verify job.repro.tar.zst
    rm job.repro.tar.zst
    ran="$ran $name"
done
[ "$ran" ] || skip "neither Open MPI nor MPICH is installed"
