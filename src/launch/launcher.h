/* The launcher of several processes of one job, and which of them this one is.
 *
 * What:    rank and size from the variables of mpirun, torchrun, mpiexec, srun and others and of jobs in Kubernetes, or
 *          from options.
 * Flow:    options, environment -> rp_launch_detect() -> rendezvous.h -> join.h; `doctor` and `launch whoami` show it,
 *          a bundle records it.
 * Owner:   the strings are static.
 * Extend:  a row of launchers.def, whose head has the rest.
 *
 * One process per rank (mpirun, torchrun, mpiexec, srun), or one per node, which starts the ranks of its node itself
 * (jobs in Kubernetes, --node-rank). What a launcher says of local ranks is recorded, but does not choose a device:
 * join.h compares hosts for that.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

enum rp_launch_kind {
    RP_LAUNCH_ALONE, /* no launcher */
    RP_LAUNCH_RANKS, /* one process per rank */
    RP_LAUNCH_NODES  /* one process per node */
};

/* What a user says of it; zero or NULL: nothing. */
struct rp_launch_opts {
    const char *launcher;          /* --launcher: id of a row; others are not looked at */
    int64_t nodes, ranks_per_node; /* --nodes, --ranks-per-node */
    int64_t node_rank1;            /* --node-rank, plus 1 */
    const char *rank_from, *size_from; /* --rank-from, --size-from: variables of a launcher that has no row */
    int several;                   /* the caller expects several processes: there is a key of the job */
};

struct rp_launch {
    enum rp_launch_kind kind;
    int row;                        /* of launchers.def; -1: none, or options */
    const char *launcher, *name;    /* "openmpi", "Open MPI's mpirun"; NULL: alone */
    const char *rank_variable, *size_variable; /* what decided; "--node-rank" */
    const char *key_remedy;         /* how every process gets the key */
    int64_t rank, size;             /* of processes: 0 of 1 when alone; size 0: to be asked for, see rendezvous.h */
    int64_t local_rank, local_size; /* as the launcher says; -1 and 0: not said */
    int64_t node, nodes;            /* likewise */
    int64_t ranks_per_node;         /* of RP_LAUNCH_NODES: 0: not said, one */
    /* NULL, or a hint to the user; of RP_LAUNCH_ALONE with .several: why this process cannot join a job */
    const char *note;
};

/* RP_USAGE: rank and size are no place of a job, or two launchers disagree. Variables that are not numbers are
 * ignored. */
int rp_launch_detect(struct rp_launch *l, const struct rp_launch_opts *o /* or NULL */,
                     struct rp_err *err) rp_must_check;
/* {"launcher", "kind", "rank", "size", ...}: the launcher and the names of the variables that decided, no names of
 * hosts. */
json_t *rp_launch_to_json(const struct rp_launch *l);
const char *rp_launch_ids(void); /* "openmpi|torchrun|...": what --launcher takes */
