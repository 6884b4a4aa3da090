/* Options with which several processes become one job, for `run` and `launch whoami`.
 *
 * What:    rows of an option table and what becomes of them: the launcher is found, the key read, the processes joined.
 * Flow:    struct rp_joining_opts -> rp_joining_detect() -> rp_joining_open() -> struct rp_join.
 *          REPRO_HOST takes the place of what identifies this machine, to try several hosts on one: processes with different values are taken
 *          for processes of different machines, which connect by TLS. With --hosts, cli/run_hosts.c gives the place.
 * Owner:   struct rp_joining owns the key and the connections: rp_joining_fini(). It wipes the key.
 * Extend:  an option of a launcher is a row here and a field of rp_launch_opts, rp_rendezvous_opts or rp_job_key_opts.
 */
#pragma once

#include "base/term.h"
#include "cli/opts.h"
#include "launch/join.h"

struct rp_joining_opts {
    const char *launcher, *node_rank, *join, *job_key;
    long nodes, ranks_per_node, port, key_fd, timeout;
    const struct rp_joining_place *place; /* NULL: by options and environment */
};

/* The place of a process of --hosts, on both sides. */
struct rp_joining_place {
    int64_t index, size, ranks; /* of processes; ranks of this one */
    struct rp_job_key key;
    struct rp_rendezvous_talk talk;
    int (*check)(void *arg, struct rp_err *err); /* as in rp_join_opts; NULL: none */
    void *arg;
};

/* o: the field of the command's options that is a struct rp_joining_opts. */
#define RP_JOINING_ROWS(o)                                                                                                                \
    RP_OPTION_TEXT(o.launcher, "launcher", 0, "ID", "which launcher started this process; default by its variables"),                     \
    RP_OPTION_INT(o.nodes, "nodes", 0, 1, RP_JOIN_MAX, "number of processes, one for each node, where no launcher says it"),               \
    RP_OPTION_TEXT(o.node_rank, "node-rank", 0, "N", "number of this process from 0, without a launcher"),                                 \
    RP_OPTION_INT(o.ranks_per_node, "ranks-per-node", 0, 1, 4096, "ranks of each process that is one for a node; default 1"),          \
    RP_OPTION_TEXT(o.join, "join", 0, "HOST[:PORT]", "address of rank 0; default what the launcher offers"),                              \
    RP_OPTION_INT(o.port, "port", 0, 1, 65535, "port of rank 0; default by the id of the job"),                                           \
    RP_OPTION_TEXT(o.job_key, "job-key", 0, "FILE", "key of the job, - for standard input; default $REPRO_JOB_KEY"),                      \
    RP_OPTION_INT(o.key_fd, "job-key-fd", 0, 3, 1023, "read the key of the job from this file descriptor"),                               \
    RP_OPTION_INT(o.timeout, "join-timeout", 0, 1, 86400, "seconds until all processes have to be there; default 120")

struct rp_joining {
    struct rp_launch launch;
    struct rp_rendezvous where;
    struct rp_job_key key;
    struct rp_join join;
};

/* Fills launch and key; nothing is sent. launch.size is 1: one process (kind RP_LAUNCH_ALONE or a job of one). */
int rp_joining_detect(struct rp_joining *j, const struct rp_joining_opts *o, struct rp_err *err) rp_must_check;
/* ranks: those that this process brings. facts, about: as in rp_join_opts. Progress goes to the meter. */
int rp_joining_open(struct rp_joining *j, const struct rp_joining_opts *o, int ranks, const json_t *facts, const json_t *about,
                    struct rp_meter *meter, struct rp_err *err) rp_must_check;
void rp_joining_fini(struct rp_joining *j);
