#include "comm/launcher.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>

/* mark: with it and the size there, this launcher is the one. */
static const struct {
    const char *name, *mark, *rank, *size;
} launchers[] = {{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"torchrun", "LOCAL_RANK", "RANK", "WORLD_SIZE"},
                 {"mpiexec of MPICH or Intel MPI", "PMI_RANK", "PMI_RANK", "PMI_SIZE"},
                 {"mpiexec of MPICH", "PMI_ID", "PMI_ID", "PMI_SIZE"},
                 {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                 {"PyTorchJob", "RANK", "RANK", "WORLD_SIZE"}};

int rp_launch_detect(struct rp_launch *l, struct rp_err *err)
{
    *l = (struct rp_launch){.size = 1};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *rank = getenv(launchers[i].rank), *size = getenv(launchers[i].size);
        struct rp_launch found = {launchers[i].name, launchers[i].rank, launchers[i].size, 0, 1};
        /* Launchers write numbers. Anything else is another program's variable, perhaps a secret: ignored, and not shown. */
        if (!getenv(launchers[i].mark) || !rank || !size || rp_parse_count(rank, &found.rank) < 0 || rp_parse_count(size, &found.size) < 0)
            continue;
        *l = found;
        if (l->rank >= l->size)
            return rp_fail(err, RP_USAGE, "%s, set by %s, is %" PRId64 ", expected 0 to %s - 1, which is %" PRId64, l->rank_variable, l->launcher, l->rank,
                           l->size_variable, l->size - 1);
        return 0;
    }
    return 0;
}

int rp_launch_require_one(struct rp_err *err)
{
    struct rp_launch l;
    if (rp_launch_detect(&l, err) < 0)
        return -1;
    if (l.size == 1)
        return 0;
    return rp_fail(err, RP_USAGE,
                   "this is process %" PRId64 " of %" PRId64 ", started by %s, and each of them would train the whole model on all CPUs: "
                   "a run has one rank so far; start one process, or with `env -u %s` for runs that are to be separate",
                   l.rank, l.size, l.launcher, l.size_variable);
}
