/* A communicator: which rank this is, the groups it belongs to, and how ranks exchange bytes.
 *
 * What:    ranks, groups of them and exchanges: many messages at once. No transport adds numbers: sums over ranks are
 *          nodes of a canonical tree (optim/grad_tree.h) that the receiving rank merges, so that no library decides the
 *          order.
 * Flow:    a transport -> struct rp_comm -> rp_comm_set_coords(); buffers in, the same out: of the host, except for
 *          rp_comm_exchange_device(), whose device was attached.
 * Owner:   the caller that opens a communicator closes it; buffers are borrowed.
 * Extend:  a transport is a file with a struct rp_comm_ops, whose exchange() takes many messages at once. Collectives
 *          are built on it, once for all transports (comm.c). A transport between devices also has exchange_device(),
 *          and reaches worker/loop_connect.c as a struct rp_device_ranks (worker/rank.h). One of the host to which a
 *          device is attached moves the device's memory through windows of its own (RP_ROUTE_STAGED).
 *
 * Above a transport, rp_comm_exchange_device() is for gradients, weights and activations; everything else is on the
 * host. Tests run ranks as threads: tests/unit/ranks.h without sockets, tests/unit/mesh_fixture.h with them; ranks on
 * GPUs with tests/shim and tests/fake/nccl.c.
 *
 * Ranks are numbered with the tensor-parallel index fastest, then the data-parallel one, then the stage: rank =
 * (stage * D + data) * T + tensor. A group of ranks that differ in one of them only is therefore an arithmetic
 * sequence.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Ranks with the same share of the model, of a tensor, or stages of one pipeline. */
enum rp_group { RP_GROUP_WORLD, RP_GROUP_DATA, RP_GROUP_TENSOR, RP_GROUP_PIPELINE, RP_GROUPS };
const char *rp_group_name(enum rp_group g); /* "world", "data", "tensor", "pipeline" */

/* Ranks of each kind; their product is the world. */
struct rp_degrees {
    int data, tensor, pipeline;
};

/* One message between this rank and another one of the group. */
struct rp_transfer {
    int peer;     /* rank within the group, not this one */
    int send;     /* 1: to the peer; 0: from it */
    void *data;   /* of the host or of the device, as the function says */
    size_t bytes; /* the same on both sides; 0: no message */
};

/* Bytes [at, at + bytes) of a buffer. */
struct rp_piece {
    size_t at, bytes;
};

/* How a rank is connected to the others: ranks by shared memory of its host, by TLS, of these on its host because
 * memory cannot be shared; connections that were refused while it opened its own. nccl: the version, or "" without
 * NCCL. */
struct rp_connections {
    int shared_memory, tls, tls_on_host, refused;
    char nccl[32];
};

struct rp_comm;
struct rp_dev;
struct rp_comm_ops {
    /* All transfers at once, in any order, except that those in one direction between two ranks are matched in order.
     * Returns when all are complete. RP_UNAVAILABLE: a peer is gone, named by its world rank; RP_INTERRUPTED: waiting()
     * asked to stop; RP_MISMATCH: sizes differ. After a failure the communicator can only be closed. */
    int (*exchange)(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err);
    void (*close)(struct rp_comm *c);
    /* The same for memory of the attached device, after the operations that it has queued. NULL: it is the host's. */
    int (*exchange_device)(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n, struct rp_err *err);
    /* The opened device of this rank, which outlives the communicator; may be the host's own. NULL: no rank has a
     * device of its own. */
    void (*attach)(struct rp_comm *c, struct rp_dev *dev);
    /* How its ranks are connected, for a bundle. */
    void (*connections)(const struct rp_comm *c, struct rp_connections *out);
    /* The same ranks as a communicator for a second thread, with counts of its own: exchanges within one group, in
     * which c has none meanwhile, nor in the world. Buffers of the host. It is c's, and there is one. NULL: only one
     * thread at a time can exchange. */
    struct rp_comm *(*duplicate)(struct rp_comm *c);
};

/* rp_comm.lost: another rank, but which one is unknown. */
#define RP_LOST_SOME (-2)

/* Counts of all exchanges so far. */
struct rp_comm_count {
    uint64_t sent_bytes, received_bytes; /* counted by rp_comm_exchange() */
    uint64_t sent_in[RP_GROUPS];         /* by group: their sum is sent_bytes */
    uint64_t exchange_ns, wait_ns;       /* in exchanges; of that without any byte moving, counted by the transport */
    /* in exchanges that another thread did while this rank computed, not in exchange_ns (train/overlap.h) */
    uint64_t overlap_ns;
};

/* How messages travel, which is the same on all ranks. */
enum rp_route {
    RP_ROUTE_HOST,   /* between memory of hosts; two threads may exchange in different groups (rp_comm_ops.duplicate) */
    RP_ROUTE_STAGED, /* those of a device with memory of its own pass through its host's */
    RP_ROUTE_DEVICE, /* between devices with memory of their own */
};

struct rp_comm {
    const struct rp_comm_ops *op;
    const char *transport;                  /* "sockets", "NCCL 2.20.5"; NULL: a world of one */
    int rank[RP_GROUPS], size[RP_GROUPS];   /* within each group */
    int first[RP_GROUPS], stride[RP_GROUPS]; /* member i of a group is the world rank first + i * stride */
    const int *host;                        /* [world] number of each rank's host; NULL: one host. Borrowed */
    enum rp_route route;
    /* world rank of the peer whose end made an exchange fail; this one: others say so; RP_LOST_SOME; -1: none */
    int lost;
    /* Called at least every 100 ms of waiting for a peer, with its world rank (-1: the transport does not tell).
     * Nonzero: stop. May be NULL. */
    int (*waiting)(void *arg, int rank);
    void *waiting_arg;
    struct rp_comm_count count;
    int waits_unknown; /* the transport does not tell count.wait_ns: it is left out, as 0 would be a measurement */
};

struct rp_comm *rp_comm_self(void); /* a world of one */

/* Sets the ranks, sizes and members of all groups. The product of the layout is the world. */
void rp_comm_set_coords(struct rp_comm *c, int rank, struct rp_degrees layout);
/* Ranks on the host of this one; index: how many of them have a lower number. */
int rp_comm_ranks_here(const struct rp_comm *c, int *index);
static inline int rp_comm_world_rank(const struct rp_comm *c, enum rp_group g, int member)
{
    return c->first[g] + member * c->stride[g];
}

int rp_comm_exchange(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n,
                     struct rp_err *err) rp_must_check;
int rp_comm_exchange_device(struct rp_comm *c, enum rp_group g, const struct rp_transfer *t, int n,
                            struct rp_err *err) rp_must_check;
/* in: one piece of `bytes`, at its place in out or elsewhere; out: one of every rank. */
int rp_comm_all_gather(struct rp_comm *c, enum rp_group g, void *out, const void *in, size_t bytes,
                       struct rp_err *err) rp_must_check;
/* In place: rank i has piece i of data, and gets the others. */
int rp_comm_all_gather_pieces(struct rp_comm *c, enum rp_group g, void *data, const struct rp_piece *piece,
                              struct rp_err *err) rp_must_check;
/* host memory only, log2(ranks) rounds */
int rp_comm_barrier(struct rp_comm *c, enum rp_group g, struct rp_err *err) rp_must_check;
