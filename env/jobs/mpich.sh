#!/bin/sh
# repro: 8 ranks on 2 nodes, by mpiexec of MPICH (Hydra) or Intel MPI.
# ./hosts has a line with the name of each node; repro and the recipe are at the same path on all of them.
set -eu
# A new key for this job. Hydra hands the environment over, unencrypted on the cluster's network. Where others could listen, take a key file on
# a shared file system instead: (umask 077; repro launch key >key), and --job-key key after the recipe.
REPRO_JOB_KEY=$(repro launch key)
export REPRO_JOB_KEY
exec mpiexec -f hosts -n 8 -ppn 4 repro run bert_fp32 --set train.accumulation_steps=8 -o repro.repro.tar.zst
