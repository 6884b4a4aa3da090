/* Pipeline stages within a step: the order of forward and backward passes, and what travels between stages.
 *
 * What:    1F1B: stage r of p makes min(micro-batches, p - r - 1) forward passes, then one forward and one backward in
 *          turn, then the backward passes that are left; at most p - r sets of activations are in use. Micro-batches
 *          are visited in order, forward and backward, so the tree over them is that of one rank. One stage: forward,
 *          backward, forward, ...
 * Flow:    rp_pipeline_sum() -> gradients of data-parallel ranks (exchange.h) -> rp_pipeline_share_losses(),
 *          rp_pipeline_add_tied() -> update -> rp_pipeline_return_tied().
 * Owner:   all is in struct rp_train.
 * Extend:  another schedule replaces rp_pipeline_sum(); the order of backward passes must stay.
 *
 * Sends complete when the peer receives. Stage r sends the output of micro-batch f and receives the gradient of b in
 * one exchange, while stage r + 1 receives f, computes, and sends b:
 *
 *   r:      F(f)  |  send f, receive b                        |  B(b)  send b to r - 1  receive f + 1 from r - 1 ...
 *   r + 1:        |  receive f   F(f)  ...   B(b)   send b    |
 */
#pragma once

#include "train/inner.h"

/* Sets of activations of a rank with `own` micro-batches. */
int rp_pipeline_sets(const struct rp_comm *c, int64_t own);
/* The own micro-batches, as far as the tree merges them. */
int rp_pipeline_sum(struct rp_train *t, int64_t step, struct rp_grad_tree *tree, struct rp_err *err) rp_must_check;
/* The losses of the last stage, the sum and those of its micro-batches, on every stage. */
int rp_pipeline_share_losses(struct rp_train *t, struct rp_losses *sum, struct rp_err *err) rp_must_check;
/* Weights that two stages use: the gradient of the second user is added to the own share of the owner's. */
int rp_pipeline_add_tied(struct rp_train *t, struct rp_err *err) rp_must_check;
/* After the update: the second user gets the new weights. */
int rp_pipeline_return_tied(struct rp_train *t, struct rp_err *err) rp_must_check;
