/* The sum of gradients over data-parallel ranks: nodes of the micro-batch tree travel, and the receiving rank merges
 * them.
 *
 * What:    each rank has summed its own micro-batches as far as the tree allows (optim/grad_tree.h): a list of nodes.
 *          Every rank gets the nodes of all others for its share of the weights (optim/shares.h) and merges them in the
 *          order of the whole tree.
 * Flow:    rp_exchange_open() -> per step rp_exchange_begin(), rp_exchange_piece() until none is left,
 *          rp_exchange_losses(), update of the own share, rp_exchange_block() of the weights. Where every rank updates
 *          all weights, rp_exchange_block() of the gradient instead.
 * Owner:   struct rp_exchange owns its lists; room is memory of the device, of `room` floats, from the caller.
 * Extend:  what is exchanged besides weights is a line in extents_of().
 *
 * Pieces have one order on every rank: buckets from the last to the first, as the backward pass completes them, levels,
 * parts of a share. So it does not matter when a rank exchanges a piece, nor which of its threads does
 * (train/overlap.h). Losses follow the last piece.
 *
 * Where every host has as many ranks, and these own one subtree, the ranks of a host first sum among themselves, and
 * then each with those at the same place on the other hosts: two levels, of which only the second sends between hosts.
 * Otherwise every rank exchanges with all. The bits are the same: `levels` and the bytes are evidence, not arithmetic.
 *
 * In mixed precision operations take 16-bit copies of matrices, and no rank but the owner of a share has its masters
 * (optim/shares.h): after an update ranks gather these copies, 2 bytes an element, and the masters of what is not
 * copied (vectors). A device that keeps 16-bit values as fp32 numbers sends 2 bytes too, so that all ranks send the
 * same bytes.
 *
 * Besides the weights, a share has what was summed for the second use of its weights. Sums of statistics (of batch
 * norms) are small: every rank gets them all.
 */
#pragma once

#include "model/model.h"
#include "optim/grad_tree.h"
#include "optim/shares.h"

#include <stdint.h>

#define RP_EXCHANGE_LEVELS 2

/* Floats of a gradient block. */
struct rp_extent {
    size_t at, floats;
};

/* A node of the tree: leaves [lo, hi). */
struct rp_node {
    int64_t lo, hi;
};

struct rp_exchange_level {
    int n, own;               /* members; which this rank is */
    int *member;              /* [n] ranks of the data group in ascending order */
    struct rp_extent **share; /* [buckets][n] lists of extents, each ended by one of 0 floats */
    size_t *floats;           /* [buckets][n] of each share in all */
    size_t *most;             /* [buckets] of the largest share */
    int *first_node;          /* [n + 1] nodes of member i: first_node[i] to first_node[i + 1] - 1 */
    struct rp_node *node;     /* nodes before this level, of all members in order; at most RP_GRADIENT_BLOCKS of each */
    struct rp_extent *updated; /* [buckets][n] floats of the block of weights that each has after its update */
    uint64_t *updated_bytes;   /* [buckets][n] of these, as they are sent */
};

struct rp_exchange {
    struct rp_comm *comm;
    struct rp_dev *dev;
    const struct rp_shares *shares;
    int levels;
    struct rp_exchange_level level[RP_EXCHANGE_LEVELS]; /* in the order in which gradients are summed */
    struct rp_extent **bucket; /* [buckets] what belongs to each, a list ended by one of 0 floats */
    int copies;       /* updated matrices are sent as 16-bit copies */
    int blocks;       /* gradient blocks that the lists of nodes need */
    size_t piece;     /* floats of a share that are exchanged at once */
    size_t room;      /* floats for the nodes of all members of a level */
    int64_t micros;
    uint64_t sent_bytes, between_bytes; /* that this rank sends in a step; of those, to ranks on other hosts */
    struct {
        int bucket, level;
        size_t part;
    } next; /* the piece that is exchanged next */
};

/* Sizes only; needs no device. One rank: nothing to exchange, and no room. m: declared. micros: micro-batches of a step
 * over all ranks. */
void rp_exchange_open(struct rp_exchange *x, const struct rp_net *m, const struct rp_shares *shares, int64_t micros);
void rp_exchange_close(struct rp_exchange *x);
/* Micro-batches of rank r of n: the first of them; that of rank n is the end. */
static inline int64_t rp_first_micro(int64_t micros, int r, int n)
{
    return micros * r / n;
}

void rp_exchange_begin(struct rp_exchange *x);
/* The bucket of the next piece; -1: none is left. */
int rp_exchange_bucket(const struct rp_exchange *x);
/* block: gradient blocks; the nodes of the own counter lie in block[0], block[1], ... After the last piece the sum over
 * all micro-batches lies in the own extents of block[0]. dev: whose operations add and copy. room: device memory. */
int rp_exchange_piece(struct rp_exchange *x, struct rp_dev *dev, float *const *block, float *room,
                      struct rp_err *err) rp_must_check;
/* *sum: the sums of losses over all micro-batches, on every rank. */
int rp_exchange_losses(struct rp_exchange *x, const struct rp_grad_tree *own, struct rp_losses *sum,
                       struct rp_err *err) rp_must_check;
/* A block with the layout of the weights, of which every rank has computed its share: the shares of all. copies: of its
 * matrices, as operations take them, element i at element i; these are gathered, and of the block, which has divided
 * masters, only vectors. NULL, unless x->copies. */
int rp_exchange_block(struct rp_exchange *x, float *block, rp_stored *copies, struct rp_err *err) rp_must_check;
