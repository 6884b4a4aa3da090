#!/bin/bash
# A Slurm of this test's own (munged, slurmctld, slurmd): srun with and without PMI, a batch script, mpirun and mpiexec in an allocation, and the
# printed scripts.
# timeout: 400
# serial
. "$TEST_DIR/common.inc"
. "$TEST_DIR/slurm.inc"
on() {
    shift
    "$@"
}
trap end_slurm EXIT
start_slurm localhost

new_key
exit_of 0 srun -n 4 repro run
agreed 4 srun
if srun --mpi=list 2>&1 | grep -qw pmi2; then
    exit_of 0 srun --mpi=pmi2 -n 3 repro run
    agreed 3 srun
fi
exit_of 0 srun -n 1 "$REPRO" launch whoami --json
jq -e '.kind == "alone"' out.txt >answer.txt || fail "a single task is not alone"

# A batch script: one process unless several are meant; what srun, mpirun and mpiexec start in it.
cat >batch.sh <<'END'
#!/bin/sh
"$REPRO" launch whoami --meet >meant.txt 2>&1
echo $? >>meant.txt
srun -n 2 repro run || exit
mkdir srun && mv who.* srun/
for launcher in mpirun.openmpi mpiexec.hydra; do
    command -v $launcher >/dev/null || continue
    $launcher -n 3 $([ $launcher = mpiexec.hydra ] || echo -x REPRO_JOB_KEY) repro run || exit
    mkdir $launcher && mv who.* $launcher/
done
unset REPRO_JOB_KEY
"$REPRO" launch whoami >alone.txt 2>&1
END
sbatch -W -n 3 -o batch.out batch.sh >sbatch.txt || { cat batch.out >&2; fail "the batch script fails"; }
[ "$(tail -n 1 meant.txt)" = 2 ] && grep -q srun meant.txt || { cat meant.txt >&2; fail "a batch script with a key is not refused"; }
[ "$(grep -c '^one process' alone.txt)" = 1 ] && grep -q '^note: .*srun' alone.txt || { cat alone.txt >&2; fail "a batch script"; }
mv srun/who.* . && agreed 2 srun
if [ -d mpirun.openmpi ]; then mv mpirun.openmpi/who.* . && agreed 3 openmpi; fi
if [ -d mpiexec.hydra ]; then mv mpiexec.hydra/who.* . && agreed 3 mpich; fi

# The printed scripts, as they are but for the exclusive nodes.
unset REPRO_JOB_KEY
"$REPRO" launch srun --nodes 1 --ranks-per-node 4 --gpus-per-node 0 >job.sh
exit_of 0 sh job.sh
agreed 4 srun
"$REPRO" launch sbatch --nodes 1 --ranks-per-node 3 --gpus-per-node 0 >job.sh
exit_of 0 sbatch -W -o job.out job.sh
agreed 3 srun

# Real training by srun: one bundle, which names the launcher.
unset REPRO_JOB_KEY
new_key
exit_of 0 srun -n 2 "$REPRO" run bert_tiny_fp32 --threads 1 --steps 1 --batch-size 1 --set model.hidden_size=32 --set model.intermediate_size=64 \
    --set measure.ceilings=false --set measure.warmup_steps=0 --set measure.repeats=1 --no-ledger -o job.repro.tar.zst
"$REPRO" inspect job.repro.tar.zst facts.json |
    jq -e '.status == "complete" and (.rank | length) == 2 and .launch.launcher == "srun"' >answer.txt || fail "the bundle of srun"
exit_of 0 "$REPRO" verify job.repro.tar.zst --replay 1

# Another program's command under srun: one bundle with the log of task 1; a task that fails ends the others.
rm job.repro.tar.zst
# shellcheck disable=SC2016 # for the tasks
words='[ "$SLURM_PROCID" = 1 ] || exec sleep "$0"
    i=0 && echo step,timestamp
    while [ $i -lt 9 ]; do echo "$i,$(date +%s.%N)" && i=$((i + 1)) && sleep 0.02; done
    exit "$1"'
new_key
exit_of 0 srun -n 3 "$REPRO" exec --log csv --set global_batch=64 --unit images/s -o job.repro.tar.zst -- sh -c "$words" 0 0
facts() { # JQ
    "$REPRO" inspect job.repro.tar.zst facts.json >facts.json
    jq -e "$1" facts.json >answer.txt || { jq '.status, .ended_by, .launch, .process, .log' facts.json >&2; fail "a command under srun: $1"; }
}
facts '.status == "complete" and .launch.launcher == "srun" and (.process | map(.exit_status) == [0, 0, 0]) and .log.process == 1'
exit_of 0 "$REPRO" verify job.repro.tar.zst
rm job.repro.tar.zst
new_key
exit_of 3 srun -n 2 "$REPRO" exec -o job.repro.tar.zst -- sh -c "$words" 60 3
facts '.status == "failed" and .ended_by == 1 and .process[1].exit_status == 3'
exit_of 10 "$REPRO" verify job.repro.tar.zst
