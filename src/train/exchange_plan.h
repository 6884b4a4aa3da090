/* What data-parallel ranks exchange in a step, for any number of them, without a device and without starting any.
 *
 * What:    the bytes of train/exchange.h by where they go, and how often ranks wait for each other.
 * Flow:    declared net + ranks + ranks of a host -> struct rp_exchange_plan.
 * Owner:   the net is borrowed; nothing is kept.
 * Extend:  another quantity of an exchange is a field and a line of count_rank().
 *
 * Every rank has as many micro-batches, and shares are cut as for an exchange during the backward pass. Ranks are
 * numbered host by host. The bytes are those that a run records as bytes_per_step, and what it really sends except for
 * some kilobytes of losses and sums for norms.
 */
#pragma once

#include "model/model.h"

#include <stdint.h>

/* To ranks of the same host, and to others. */
struct rp_exchange_bytes {
    uint64_t within, between;
};

struct rp_exchange_plan {
    int ranks, hosts, levels;      /* levels 0: one rank */
    uint64_t weights;              /* bytes of all weights: what a ring all-reduce of the gradient reduces */
    /* sent by the rank that sends most: nodes of the tree; its share of the new weights, in mixed precision as 16-bit
     * copies */
    struct rp_exchange_bytes gradients, updated;
    uint64_t merged;               /* bytes that a rank reads and writes to merge nodes, at most */
    int calls_within, calls_between; /* exchanges of many messages at once: within the host only, or also with others */
};

/* micros: micro-batches of each rank. per_host divides ranks, or is larger. bucket: floats, of rp_overlap_bucket(). */
void rp_exchange_count(struct rp_exchange_plan *out, const struct rp_net *m, int64_t micros, int ranks, int per_host,
                       size_t bucket);
