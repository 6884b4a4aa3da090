/* A rank's place among others: its share of the host's processors, and its connections.
 *
 * What:    from the job of one of several ranks to a communicator.
 * Flow:    rp_world_place() -> sizes for plans; rp_world_share_cpus(), before the device is opened; LISTEN, PEERS ->
 *          rp_world_open(), or struct rp_device_ranks for devices with memory of their own.
 * Owner:   rp_world_place() borrows the rank's list of hosts; rp_world_open() returns a communicator that the caller
 *          closes.
 * Extend:  another transport through host memory is chosen in rp_world_open(); between devices, it is a struct
 *          rp_device_ranks that their worker has.
 *
 * Ranks on devices with memory of their own exchange through that of the host (RP_ROUTE_STAGED) where run.transport is
 * sockets, and only then can others train on processors.
 */
#pragma once

#include "comm/comm.h"
#include "worker/job.h"

/* Groups and hosts without connections: for plans. */
void rp_world_place(struct rp_comm *c, const struct rp_rank_of *rank, const struct rp_recipe *r);
/* gpus: ranks of the job on GPUs. */
enum rp_route rp_world_route(const struct rp_recipe *r, int gpus);
/* Ranks on GPUs of this rank's host; index: how many of them have a lower number. */
int rp_world_gpus_here(const struct rp_rank_of *rank, int *index);
/* A rank among those that may use the same processors: all of its host, or where a launcher binds processes to
 * processors, those whose processes have the same ones. */
struct rp_cpu_sharers {
    int index, ranks; /* how many of them have a lower number; how many they are */
};
struct rp_cpu_sharers rp_world_cpu_sharers(const struct rp_rank_of *rank);
/* Processors that rp_world_share_cpus() leaves to a rank, of those that this process may use. */
int rp_world_cpus(struct rp_cpu_sharers s);
/* Keeps this process on its part of the processors that it may use: ranks do not compete for them. */
void rp_world_share_cpus(struct rp_cpu_sharers s);
/* Those that this process may run on now: "0-3,8"; free() it. NULL: unknown. */
char *rp_world_cpu_list(void);

struct rp_world_opts {
    const struct rp_rank_of *rank;
    int listener;
    const json_t *peers; /* body of the PEERS frame */
    enum rp_route route; /* as rp_world_place() found */
    double silence_s; /* after which the parent counts a rank as hung */
    int (*waiting)(void *arg, int rank);
    void *waiting_arg;
    int *lost; /* a rank that cannot be connected, as rp_comm.lost; NULL: not asked */
};
/* A port for others to connect to; the descriptor belongs to rp_world_open(). */
int rp_world_listen(const struct rp_rank_of *rank, int *port, struct rp_err *err) rp_must_check;
struct rp_comm *rp_world_open(const struct rp_world_opts *o, struct rp_err *err) rp_must_check;

#define RP_DEVICE_NUMBER 16

/* The ranks of devices with memory of their own: a worker that has such devices passes one to rp_worker_train(). The
 * device is chosen when the ranks know each other's hosts, and the ranks are connected before memory is planned, so
 * that what a connection takes is not free. */
struct rp_device_ranks {
    /* The number of the device that this rank takes; "": the one that *o names. share: ranks of a host may have one
     * together. */
    int (*choose)(const struct rp_rank_of *rank, const struct rp_device_opts *o, int share,
                  char device[RP_DEVICE_NUMBER], struct rp_err *err);
    /* A communicator that is not connected yet, for a rank that rp_world_place() placed; borrows placed->host. o: with
     * the chosen device. *about: what the others have to know, for the LISTEN frame. */
    struct rp_comm *(*prepare)(const struct rp_comm *placed, const struct rp_device_opts *o, json_t **about,
                               struct rp_err *err);
    /* o->listener is unused; on failure only close() is left */
    int (*connect)(struct rp_comm *c, const struct rp_world_opts *o, struct rp_err *err);
};
