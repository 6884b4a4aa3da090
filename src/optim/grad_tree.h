/* The sum over the micro-batches of a step: a balanced tree over their gradients and losses, built with a binary
 * counter.
 *
 * What:    repro-fp32/1 sums micro-batches in a balanced tree over their index, independently of how ranks divide them.
 * Flow:    leaf() -> where to write the next gradient; push() merges aligned siblings; finish() merges what is left.
 * Owner:   blocks are the caller's: as many as rp_grad_tree_blocks() answers.
 * Extend:  another value that is summed over micro-batches is a field of struct rp_losses and a line in merge().
 *
 * Node i of the stack lies in block i. After leaves 0..4: [0,4) in block 0 and [4,5) in block 1. A counter may start at
 * any index (a rank's own range): it merges only [lo, lo+w) with [lo+w, lo+2w) where lo is a multiple of 2w, as the
 * whole tree does.
 */
#pragma once

#include "model/model.h"

#include <stddef.h>
#include <stdint.h>

struct rp_losses {
    float loss, part[RP_LOSS_PARTS_MAX];
};

/* from leaf 0 on 65536 leaves keep at most 17 partial sums; from another one up to twice as many */
#define RP_GRADIENT_BLOCKS 36
/* The most partial sums that a binary counter over leaves [first, first + leaves) holds, with the leaf being written;
 * from 0 on that is floor(log2(leaves)) + 1. */
int rp_grad_tree_blocks(int64_t first, int64_t leaves);

struct rp_grad_tree {
    struct rp_dev *dev;
    float *const *block;
    size_t floats; /* of a block */
    int n, blocks;
    struct {
        int64_t lo, hi; /* leaves [lo, hi) */
        struct rp_losses sum;
    } node[64];
};

/* Whether the nodes [lo, mid) and [mid, hi) are siblings in the tree over all leaves. */
int rp_grad_tree_siblings(int64_t lo, int64_t mid, int64_t hi);
/* floats 0: losses only, without a device and blocks. */
void rp_grad_tree_init(struct rp_grad_tree *t, struct rp_dev *dev, float *const *block, int blocks, size_t floats);
float *rp_grad_tree_leaf(struct rp_grad_tree *t); /* write the gradient here, then rp_grad_tree_push() */
void rp_grad_tree_push(struct rp_grad_tree *t, int64_t index, const struct rp_losses *l);
/* Merges floats [at, at + floats) of leaf `index`, which are final while others are not, as rp_grad_tree_push()
 * would; after all floats of the block rp_grad_tree_push_merged() only counts the leaf. */
void rp_grad_tree_merge_early(const struct rp_grad_tree *t, int64_t index, size_t at, size_t floats);
void rp_grad_tree_push_merged(struct rp_grad_tree *t, int64_t index, const struct rp_losses *l);
/* A node of another counter: [lo, hi) is in the block of rp_grad_tree_leaf(). */
void rp_grad_tree_push_node(struct rp_grad_tree *t, int64_t lo, int64_t hi, const struct rp_losses *l);
/* After all leaves from 0: block[0] is the sum, *l the sums of the losses. */
void rp_grad_tree_finish(struct rp_grad_tree *t, struct rp_losses *l);
