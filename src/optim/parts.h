/* Which rank has what of the trained state: stages have tensors, tensor-parallel ranks parts of each, data-parallel
 * ranks shares of these.
 *
 * What:    the lists of tensors and the shares of every stage, and arrays with one item per chunk of norms or leaf of
 *          state roots, gathered from all ranks into the order that the arithmetic has for one: tensors in list order,
 *          of each its shards in order.
 * Flow:    recipe + communicator -> struct rp_parts; optim.c gathers sums, state.c digests, checkpoints find the ranks
 *          that have elements.
 * Owner:   struct rp_parts owns its lists; the communicator is borrowed.
 * Extend:  a new way to divide tensors changes rp_tensor_whole_element() and the order in rp_parts_gather().
 *
 * All tensor-parallel ranks of a stage have lists of the same sizes, so that one list stands for all of them.
 */
#pragma once

#include "model/model.h"
#include "optim/shares.h"

struct rp_parts {
    struct rp_comm *comm;
    int stages, ranks, data;  /* of each kind; ranks: tensor-parallel ones */
    int own;                  /* stage */
    int parallel;             /* tensor-parallel degree of the arithmetic */
    struct rp_comm *place;    /* [stages] where a rank like this one is in each stage */
    struct rp_net **net;      /* [stages] sizes */
    struct rp_shares *shares; /* [stages] */
};

/* bucket: as in rp_shares_init() */
void rp_parts_init(struct rp_parts *p, const struct rp_recipe *r, struct rp_comm *comm, size_t bucket);
void rp_parts_fini(struct rp_parts *p);

/* Whether this rank does not have all of the model. */
static inline int rp_parts_are_several(const struct rp_parts *p)
{
    return p->stages * p->ranks > 1;
}
static inline int rp_parts_world_rank(const struct rp_parts *p, int stage, int data, int rank)
{
    return (stage * p->data + data) * p->ranks + rank;
}
static inline const struct rp_tensor *rp_parts_weight(const struct rp_parts *p, int stage, int i)
{
    return &p->net[stage]->tensors[RP_WEIGHT].t[i];
}
/* The stage that owns weight i, and the one that uses it too, or -1. */
int rp_parts_owner(const struct rp_parts *p, int i);
int rp_parts_second_user(const struct rp_parts *p, int i);
/* Chunks of weight i on all ranks. */
size_t rp_parts_chunks(const struct rp_parts *p, int i);
size_t rp_parts_own_chunks(const struct rp_parts *p); /* of all weights in this rank's list */
size_t rp_parts_all_chunks(const struct rp_parts *p);
/* whole: an item of `bytes` for every chunk of all weights, in order; own: for those of this rank's list, which are the
 * same on every data-parallel rank. Host memory. */
int rp_parts_gather(const struct rp_parts *p, void *whole, const void *own, size_t bytes,
                    struct rp_err *err) rp_must_check;
