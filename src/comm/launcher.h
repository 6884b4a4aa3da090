/* The launcher of several processes of one job, and which of them this one is.
 *
 * What:    rank and size from the variables of mpirun (Open MPI), torchrun, MPICH's Hydra and Intel MPI, srun, and Kubeflow's PyTorchJob.
 * Flow:    environment -> rp_launch_detect() -> cli/cmd_run.c, which refuses several processes as long as a run has one rank; `doctor`.
 * Owner:   the strings are static.
 * Extend:  a row of launchers[] in launcher.c, in the order in which launchers win: mpirun within srun has the variables of both.
 *
 * A script under sbatch has SLURM_NTASKS and SLURM_PROCID although it is one process: only a step of srun sets SLURM_STEP_NUM_TASKS. */
#pragma once

#include "base/err.h"

#include <stdint.h>

struct rp_launch {
    const char *launcher, *rank_variable, *size_variable; /* NULL: none started this process */
    int64_t rank, size;                                   /* 0 of 1 without a launcher */
};

/* Fails if the rank is not less than the size. Variables that are not numbers are ignored. */
int rp_launch_detect(struct rp_launch *l, struct rp_err *err) rp_must_check;
/* Fails if this process is one of several. */
int rp_launch_require_one(struct rp_err *err) rp_must_check;
