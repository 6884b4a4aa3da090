/* A communicator: which rank this is, and how ranks exchange bytes.
 *
 * What:    ranks and groups of them, point-to-point and all-to-all exchange, a barrier. No reduction: sums over ranks are nodes of a
 *          canonical tree (optim/grad_tree.h) that the receiving rank merges, so that no library decides the order.
 * Flow:    rp_comm_self() -> struct rp_comm; buffers of the device or the host in, the same out.
 * Owner:   the caller that opens a communicator closes it; buffers are borrowed.
 * Extend:  a transport is a file with a struct rp_comm_ops.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* Ranks with the same share of the model, of a tensor, or stages of one pipeline. */
enum rp_group { RP_GROUP_WORLD, RP_GROUP_DATA, RP_GROUP_TENSOR, RP_GROUP_PIPELINE, RP_GROUPS };

struct rp_comm;
struct rp_comm_ops {
    /* peer: rank within the group. All ranks of the group call the last three. */
    int (*send)(struct rp_comm *c, enum rp_group g, int peer, const void *data, size_t bytes, struct rp_err *err);
    int (*recv)(struct rp_comm *c, enum rp_group g, int peer, void *data, size_t bytes, struct rp_err *err);
    /* in, out: as many pieces of `bytes` as the group has ranks; piece i of in goes to rank i, piece i of out is from it */
    int (*all_to_all)(struct rp_comm *c, enum rp_group g, void *out, const void *in, size_t bytes, struct rp_err *err);
    int (*all_gather)(struct rp_comm *c, enum rp_group g, void *out, const void *in, size_t bytes, struct rp_err *err); /* in: one piece */
    int (*barrier)(struct rp_comm *c, enum rp_group g, struct rp_err *err);
    void (*close)(struct rp_comm *c);
};

struct rp_comm {
    const struct rp_comm_ops *op;
    int rank[RP_GROUPS], size[RP_GROUPS]; /* within each group */
};

struct rp_comm *rp_comm_self(void); /* a world of one */
