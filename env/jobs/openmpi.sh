#!/bin/sh
# repro: 8 ranks on 2 nodes, by mpirun of Open MPI 4 or 5.
# ./hosts has a line "node01 slots=4" for each node; repro and the recipe are at the same path on all of them.
set -eu
# A new key for this job. -x hands it over; mpirun sends it unencrypted on the cluster's network. Where others could listen, take a key file
# on a shared file system instead: (umask 077; repro launch key >key), and --job-key key in the place of -x.
REPRO_JOB_KEY=$(repro launch key)
export REPRO_JOB_KEY
# No binding: each rank gets its device, and the CPUs near it, after all have found each other.
exec mpirun -n 8 --hostfile hosts --map-by ppr:4:node --bind-to none -x REPRO_JOB_KEY \
    repro run bert_fp32 --set train.accumulation_steps=8 -o repro.repro.tar.zst
