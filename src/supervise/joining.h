/* Options with which several processes become one job, for `run` and `launch whoami`.
 *
 * What:    what becomes of these options: the launcher is found, the key read, the processes joined.
 * Flow:    struct rp_joining_opts -> rp_joining_detect() -> rp_joining_open() -> struct rp_join.
 *          REPRO_HOST takes the place of what identifies this machine, to try several hosts on one: processes with
 *          different values are taken for processes of different machines, which connect by TLS. With --hosts,
 *          cli/run_hosts.c gives the place.
 * Owner:   struct rp_joining owns the key and the connections: rp_joining_fini(). It wipes the key.
 * Extend:  an option of a launcher is a row of RP_JOINING_ROWS (cli/opts.h) and a field of rp_launch_opts,
 *          rp_rendezvous_opts or rp_job_key_opts.
 */
#pragma once

#include "base/term.h"
#include "launch/join.h"

struct rp_joining_opts {
    const char *launcher, *rank_from, *size_from, *node_rank, *join, *job_key;
    long nodes, ranks_per_node, port, key_fd, timeout;
    const struct rp_joining_place *place; /* NULL: by options and environment */
    int keep_pmi;                         /* as in rp_rendezvous_opts */
};

/* The place of a process of --hosts, on both sides. */
struct rp_joining_place {
    int64_t index, size, ranks; /* of processes; ranks of this one */
    struct rp_job_key key;
    struct rp_rendezvous_talk talk;
    int (*check)(void *arg, struct rp_err *err); /* as in rp_join_opts; NULL: none */
    void *arg;
};

struct rp_joining {
    struct rp_launch launch;
    struct rp_rendezvous where;
    struct rp_job_key key;
    struct rp_join join;
};

/* Fills launch and key; nothing is sent. launch.size is 1: one process (kind RP_LAUNCH_ALONE or a job of one). */
int rp_joining_detect(struct rp_joining *j, const struct rp_joining_opts *o, struct rp_err *err) rp_must_check;
/* ranks: those that this process brings. facts, about: as in rp_join_opts. Progress goes to `progress`. */
int rp_joining_open(struct rp_joining *j, const struct rp_joining_opts *o, int ranks, const json_t *facts,
                    const json_t *about, struct rp_progress *progress, struct rp_err *err) rp_must_check;
void rp_joining_fini(struct rp_joining *j);
