#!/bin/sh
# repro: 8 ranks on 2 nodes: sbatch THIS_FILE
#SBATCH --job-name=repro
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --signal=TERM@60
set -eu
# A new key for this job; srun hands the environment over.
REPRO_JOB_KEY=$(repro launch key)
export REPRO_JOB_KEY
# The batch script itself is one process: srun starts the ranks. It gets the time limit's signal, and the run is sealed, marked incomplete.
exec srun --export=ALL --kill-on-bad-exit=1 --cpu-bind=none repro run bert_fp32 --set train.accumulation_steps=8 -o "repro-$SLURM_JOB_ID.repro.tar.zst"
