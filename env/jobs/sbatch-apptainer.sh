#!/bin/sh
# repro: 8 ranks on 2 nodes in containers of Apptainer or Singularity: sbatch THIS_FILE
#SBATCH --job-name=repro
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --signal=TERM@60
set -eu
# repro comes from the host: a static program runs in any image. The image brings NCCL.
program=$(command -v repro)
# A new key for this job; srun and Apptainer hand the environment over (not with --cleanenv).
REPRO_JOB_KEY=$("$program" launch key)
# Recorded: a container does not show its image.
REPRO_IMAGE='docker://registry.example.com/repro:cuda'
export REPRO_JOB_KEY REPRO_IMAGE
# The signing key and its ledger are those of this user on the shared file system: a container's own would be new for each job.
config=${XDG_CONFIG_HOME:-$HOME/.config}
mkdir -p "$config/repro"
export XDG_CONFIG_HOME="$config"
exec srun --export=ALL --kill-on-bad-exit=1 --cpu-bind=none apptainer exec \
    --nv \
    --bind "$PWD" --bind "$program:/usr/local/bin/repro:ro" --bind "$config/repro" --pwd "$PWD" 'docker://registry.example.com/repro:cuda' \
    /usr/local/bin/repro run bert_fp32 --set train.accumulation_steps=8 -o "repro-$SLURM_JOB_ID.repro.tar.zst"
