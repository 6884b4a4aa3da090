/* How data-parallel ranks divide the trained state: each one updates a range of the weights, and only it has their
 * optimizer slots.
 *
 * What:    ranges of the block of weights, which begin and end between chunks of norms and leaves of state roots.
 * Flow:    list of weights + communicator -> struct rp_shares; optim.c updates and sums within the own share, state.c
 *          digests within it.
 * Owner:   struct rp_shares owns its arrays; the communicator is borrowed.
 * Extend:  another division changes rp_shares_init(); what a rank has of a tensor stays one range.
 *
 * The block is divided into buckets of whole layers, and every bucket among all ranks, so that each rank has a part of
 * what the backward pass completes at any time (train/overlap.h). A share is therefore one range of each bucket.
 * Without overlap there is one bucket.
 *
 * A tensor is cut at multiples of RP_NORM_CHUNK elements of each of its shards, which are also the ends of leaves. A
 * tensor whose shards are columns of the whole (the arithmetic of tensor-parallel ranks, computed by one) is not cut.
 *
 * In mixed precision no rank but the owner of a share needs the masters of its matrices: operations take 16-bit copies.
 * The block of masters is then divided too (rp_shares_divide_masters()): it has of each matrix the own elements, and
 * all of every vector, in list order.
 *
 * Where every host has as many ranks, the ranges of ranks with the same place on their hosts are neighbours: what a
 * host exchanges with others is then one range per rank and bucket, after its ranks have summed among themselves
 * (train/exchange.h).
 */
#pragma once

#include "comm/comm.h"
#include "model/tensors.h"

#include <stddef.h>

#define RP_SHARDS_MAX 64 /* the highest degree of tensor parallelism in keys.def */

/* What a rank has of a bucket. */
struct rp_share {
    size_t lo, hi;             /* floats of the block of weights */
    /* the first of them with optimizer slots: after copies of other stages' weights, which come first */
    size_t slots;
    size_t slots_at;           /* where that one is in an array of the rank's slots */
    size_t first_chunk, end_chunk; /* of all chunks in list order */
};

/* Floats [lo, hi) of the block of weights: whole tensors, and the padding after them. */
struct rp_bucket {
    size_t lo, hi;
    int layer; /* the first of their layers in forward order: after its backward pass all gradients are complete */
};

struct rp_shares {
    struct rp_comm *comm;
    int n, own;          /* ranks of the data group; which this one is */
    /* hosts with n / hosts ranks each, numbered without gaps; 1: one host, or ranks that are not so arranged */
    int hosts;
    int buckets;
    struct rp_bucket *bucket; /* [buckets] in ascending order */
    struct rp_share *of;      /* [n][buckets] */
    const struct rp_tensors *weights;
    int parallel;        /* tensor-parallel degree of the arithmetic */
    /* [weights] floats before each in a block of divided masters; NULL: it is laid out as the list */
    size_t *master;
    size_t masters;      /* floats of the block of masters */
};

/* least: floats of a bucket, unless it is the last; 0: one bucket. */
void rp_shares_init(struct rp_shares *s, const struct rp_tensors *weights, int parallel, struct rp_comm *comm,
                    size_t least);
/* One rank that has everything, whatever the data group is: nothing is gathered. */
void rp_shares_init_whole(struct rp_shares *s, const struct rp_tensors *weights, int parallel, struct rp_comm *comm);
void rp_shares_divide_masters(struct rp_shares *s);
void rp_shares_fini(struct rp_shares *s);

static inline const struct rp_share *rp_share_at(const struct rp_shares *s, int rank, int bucket)
{
    return &s->of[rank * s->buckets + bucket];
}
/* Elements of a weight that a rank's share has; the first of them. 0: none. */
size_t rp_share_of_tensor(const struct rp_shares *s, int rank, const struct rp_tensor *t, size_t *first);
/* Floats of one array of optimizer slots of this rank; where it has the first own element of weight t, `first` as
 * rp_share_of_tensor() found it. */
size_t rp_shares_slots(const struct rp_shares *s);
size_t rp_shares_slot_of(const struct rp_shares *s, const struct rp_tensor *t, size_t first);
/* Where the block of masters of this rank has element `first` of weight i: of a divided matrix the first own one, of
 * all others any. */
size_t rp_shares_master_of(const struct rp_shares *s, int i, size_t first);
/* The rank that has a chunk of all chunks in list order. */
int rp_shares_owner(const struct rp_shares *s, size_t chunk);
/* A contiguous run of a tensor's elements within one shard, with the chunks that it is made of. */
struct rp_run_of_chunks {
    size_t first, count;  /* elements of the tensor */
    size_t chunk, chunks; /* of the tensor's chunks, shard by shard */
};
/* The own runs of weight i in order; returns their number, at most rp_tensor_shards(). A tensor that is not cut has one
 * run for all. */
int rp_shares_runs(const struct rp_shares *s, int i, struct rp_run_of_chunks *run);
/* Whether the shards of a tensor are ranges of its elements. */
int rp_tensor_shards_are_ranges(const struct rp_tensor *t, int parallel);

/* An array of chunks, of which each rank has computed its own: completes it. Of the host, or of the device of this
 * rank. */
int rp_shares_gather(const struct rp_shares *s, void *chunks, size_t bytes, struct rp_err *err) rp_must_check;
int rp_shares_gather_device(const struct rp_shares *s, void *chunks, size_t bytes, struct rp_err *err) rp_must_check;
