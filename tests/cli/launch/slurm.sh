#!/bin/bash
# A Slurm of this test's own (munged, slurmctld, slurmd): srun with and without PMI, a batch script, mpirun and mpiexec in an allocation, and the
# printed scripts.
# timeout: 400
# serial
. "$TEST_DIR/common.inc"
PATH=$PATH:/usr/sbin:/sbin
need jq srun sbatch sinfo munged slurmctld slurmd
user=$(id -un)
port=$((20000 + $$ % 5000 * 2))
mkdir -m 700 m
mkdir state spool
dd if=/dev/urandom of=m/key bs=128 count=1 2>dd.txt
chmod 400 m/key
cat >slurm.conf <<END
ClusterName=scratch
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$PWD/m/s
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool
SlurmctldPidFile=$PWD/ctld.pid
SlurmdPidFile=$PWD/d.pid
SlurmctldLogFile=$PWD/ctld.log
SlurmdLogFile=$PWD/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=localhost NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=8 RealMemory=500 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
END
export SLURM_CONF="$PWD/slurm.conf"
daemons=()
# Ends what was started here, by process id; the working directories of its children go with it.
# shellcheck disable=SC2317,SC2329 # called by the trap
end_daemons() {
    kill "${daemons[@]}" 2>/dev/null || :
    wait 2>/dev/null || :
}
trap end_daemons EXIT
munged --force --foreground -S "$PWD/m/s" --key-file="$PWD/m/key" --pid-file="$PWD/m/pid" --log-file="$PWD/m/log" --seed-file="$PWD/m/seed" >m/out 2>&1 &
daemons+=($!)
for _ in $(seq 100); do [ ! -S m/s ] || break; sleep 0.1; done
slurmctld -D -f "$SLURM_CONF" >ctld.out 2>&1 &
daemons+=($!)
slurmd -D -N localhost -f "$SLURM_CONF" >d.out 2>&1 &
daemons+=($!)
for _ in $(seq 300); do
    [ "$(sinfo -h -o %T 2>sinfo.txt || :)" != idle ] || break
    sleep 0.2
done
[ "$(sinfo -h -o %T 2>sinfo.txt)" = idle ] || skip "Slurm does not start here: $(tail -q -n 1 ctld.log d.log sinfo.txt 2>/dev/null | tail -n 1)"

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
"$REPRO" inspect job.repro.tar.zst run.json |
    jq -e '.status == "complete" and .world.ranks == 2 and .world.launch.launcher == "srun"' >answer.txt || fail "the bundle of srun"
exit_of 0 "$REPRO" verify job.repro.tar.zst --replay 1
