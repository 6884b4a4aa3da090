#!/bin/sh
# repro: 8 ranks on 2 nodes, by torchrun: start this on every node, with the same two variables.
#   HEAD            host name of the first node
#   REPRO_JOB_KEY   the key of the job, from: repro launch key
set -eu
: "${HEAD:?host name of the first node}" "${REPRO_JOB_KEY:?the same on every node, made by: repro launch key}"
export REPRO_JOB_KEY
# --no-python: repro is a program of its own. The agent keeps MASTER_PORT; repro takes a port that follows from the job's id.
exec torchrun --no-python --nnodes=2 --nproc-per-node=4 --max-restarts=0 \
    --rdzv-backend=c10d --rdzv-endpoint="$HEAD:29400" --rdzv-id=repro \
    repro run bert_fp32 --set train.accumulation_steps=8 -o repro.repro.tar.zst
