/* How data-parallel ranks divide the trained state: each one updates a range of the weights, and only it has their optimizer slots.
 *
 * What:    ranges of the block of weights, which begin and end between chunks of norms and leaves of state roots.
 * Flow:    list of weights + communicator -> struct rp_shares; optim.c updates and sums within the own share, state.c digests within it.
 * Owner:   struct rp_shares owns its array; the communicator is borrowed.
 *
 * A tensor is cut at multiples of RP_NORM_CHUNK elements of each of its shards, which are also the ends of leaves. A tensor whose shards
 * are columns of the whole (the arithmetic of tensor-parallel ranks, computed by one) is not cut.
 *
 * Where every host has as many ranks, the shares of ranks with the same place on their hosts are neighbours: what a host exchanges with
 * others is then one range per rank, after its ranks have summed among themselves (train/exchange.h).
 */
#pragma once

#include "comm/comm.h"
#include "model/tensors.h"

#include <stddef.h>

#define RP_SHARDS_MAX 64 /* the highest degree of tensor parallelism in keys.def */

struct rp_share {
    size_t lo, hi;             /* floats of the block of weights */
    size_t slots;              /* the first of them with optimizer slots: after copies of other stages' weights, which come first */
    size_t first_chunk, end_chunk; /* of all chunks in list order */
};

struct rp_shares {
    struct rp_comm *comm;
    int n, own;          /* ranks of the data group; which this one is */
    int hosts;           /* hosts with n / hosts ranks each, numbered without gaps; 1: one host, or ranks that are not so arranged */
    struct rp_share *of; /* [n] */
    const struct rp_tensors *weights;
    int parallel;        /* tensor-parallel degree of the arithmetic */
};

void rp_shares_init(struct rp_shares *s, const struct rp_tensors *weights, int parallel, struct rp_comm *comm);
void rp_shares_fini(struct rp_shares *s);

/* Elements of a weight that the share has; the first of them. 0: none. */
size_t rp_share_of_tensor(const struct rp_share *share, const struct rp_tensor *t, size_t *first);
/* A contiguous run of a tensor's elements within one shard, with the chunks that it is made of. */
struct rp_run_of_chunks {
    size_t first, count;  /* elements of the tensor */
    size_t chunk, chunks; /* of the tensor's chunks, shard by shard */
};
/* The own runs of weight i in order; returns their number, at most rp_tensor_shards(). A tensor that is not cut has one run for all. */
int rp_shares_runs(const struct rp_shares *s, int i, struct rp_run_of_chunks *run);
/* Whether the shards of a tensor are ranges of its elements. */
int rp_tensor_shards_are_ranges(const struct rp_tensor *t, int parallel);

/* What each rank has of an array with `bytes` for every chunk. piece: [n] */
void rp_shares_pieces(const struct rp_shares *s, size_t bytes, struct rp_piece *piece);
/* An array of chunks, of which each rank has computed its own: completes it. memory: of the device if the communicator takes that. */
int rp_shares_gather(const struct rp_shares *s, void *chunks, size_t bytes, struct rp_err *err) rp_must_check;
