#!/bin/sh
# repro: 8 ranks on 2 nodes, by srun from a login node or within an allocation.
set -eu
# A new key for this job; srun hands the environment over.
REPRO_JOB_KEY=$(repro launch key)
export REPRO_JOB_KEY
# --gpus-per-node and not --gpus-per-task: every rank has to see all GPUs of its node, or NCCL cannot use NVLink between them.
exec srun --job-name=repro --nodes=2 --ntasks=8 --ntasks-per-node=4 --export=ALL --kill-on-bad-exit=1 --cpu-bind=none \
    --gpus-per-node=4 \
    repro run bert_fp32 --set train.accumulation_steps=8 -o repro.repro.tar.zst
