/* A vocabulary that tensor-parallel ranks divide: lookups of rows, and cross-entropy over logits.
 *
 * What:    each of t ranks has V/t rows of the embedding and V/t columns of the logits. A looked-up row is taken from
 *          its rank, never added: a sum with zeros would lose -0. Cross-entropy is computed by whole rows: every rank
 *          gets a share of the rows of all logits, and returns their gradients; so the operation, and with it every
 *          rounding, is that of one rank.
 * Flow:    lookup: declare() -> prepare() on the host -> rows(); loss: use() -> loss().
 * Owner:   pointers are set by the model's lists of tensors.
 */
#pragma once

#include "model/model.h"

#define RP_TENSOR_RANKS_MAX 64 /* as parallel.tensor */

/* R lookups, in the input of a micro-batch. Without ranks nothing is declared. */
struct rp_nn_lookup {
    /* [R] rows of this rank's part that are looked up, own_n = count[rank] of them, in the order of lookups */
    int32_t *own;
    int32_t *place; /* [R] of each lookup among those of all ranks, which follow each other */
    int count[RP_TENSOR_RANKS_MAX]; /* of each rank */
};

/* For declare_input(). */
void rp_nn_lookup_declare(struct rp_net *m, struct rp_nn_lookup *l, int rows);
/* ids of `rows` lookups; each: rows of a rank's part. */
void rp_nn_lookup_prepare(const struct rp_net *m, struct rp_nn_lookup *l, const int32_t *ids, int rows, int each);
/* x [R, width] gets the row of lookup i as its row place[i]; part: this rank's rows. */
void rp_nn_lookup_rows(struct rp_net *m, const struct rp_nn_lookup *l, rp_stored *x, const rp_stored *part, int width);

/* Scratch of rp_nn_loss(); declared if ranks divide the vocabulary. */
struct rp_nn_loss {
    rp_stored *whole; /* [R/t, V] */
};
/* rows: the most of a call; each: columns of a rank's part. */
void rp_nn_loss_declare(struct rp_net *m, struct rp_nn_loss *l, int rows, int each);
/* softmax_xent over this rank's columns of the logits [n, each], which become their own gradient; loss [n] of all
 * rows. */
void rp_nn_loss(struct rp_net *m, const struct rp_nn_loss *l, float *loss, rp_stored *logits, const int32_t *labels,
                const float *coef, int n, int each);
