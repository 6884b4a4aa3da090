#!/bin/sh
# repro: 8 ranks on 2 nodes in containers of enroot (Slurm's plugin pyxis): sbatch THIS_FILE
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
# A new key for this job. The environment gets into the container; --container-env keeps an image from replacing the variable.
REPRO_JOB_KEY=$("$program" launch key)
# Recorded: a container does not show its image.
REPRO_IMAGE='registry.example.com/repro:cuda'
export REPRO_JOB_KEY REPRO_IMAGE
# The signing key and its ledger are those of this user on the shared file system: a container's own would be new for each job.
config=${XDG_CONFIG_HOME:-$HOME/.config}
mkdir -p "$config/repro"
export XDG_CONFIG_HOME="$config"
exec srun --export=ALL --kill-on-bad-exit=1 --cpu-bind=none --container-image='registry.example.com/repro:cuda' --container-env=REPRO_JOB_KEY,REPRO_IMAGE,XDG_CONFIG_HOME \
    --container-mounts="$PWD:$PWD,$program:/usr/local/bin/repro:ro,$config/repro:$config/repro" --container-workdir="$PWD" --no-container-mount-home \
    /usr/local/bin/repro run bert_fp32 --set train.accumulation_steps=8 -o "repro-$SLURM_JOB_ID.repro.tar.zst"
