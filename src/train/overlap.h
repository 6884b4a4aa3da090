/* The exchange of gradients during the backward pass of the last micro-batch.
 *
 * What:    a thread that exchanges buckets of gradients (optim/shares.h) as soon as the backward pass has completed
 *          them, while the training thread computes the gradients of earlier layers. The same pieces in the same order
 *          as without it: the bits are the same.
 * Flow:    rp_overlap_bucket() decides -> rp_overlap_new(); per step rp_overlap_begin(), backward() of the last
 *          micro-batch, which announces complete gradients (rp_net_gradients_ready()), rp_overlap_end(); what is left
 *          is exchanged by the training thread (exchange.h).
 * Owner:   between begin() and end() the exchange, its room and its communicator belong to the thread, otherwise to the
 *          caller.
 * Extend:  another transport with op->duplicate needs its route in rp_overlap_bucket() for overlap of
 *          tensor-parallel ranks.
 *
 * A communicator is used by one thread at a time. Tensor-parallel ranks exchange in every layer of the backward pass:
 * there the thread has one of its own (rp_comm_ops.duplicate), with which it exchanges in the data-parallel group.
 * These do not overlap:
 *   tensor-parallel ranks on GPUs     NCCL's manual wants two communicators of one device at different times, or they
 *                                     may wait for each other for ever ("Using multiple NCCL communicators
 *                                     concurrently"; NVIDIA/nccl issues 195 and 1174)
 *   pipeline stages > 0               pass on gradients after the backward pass; they are done before the first stage
 *                                     is, which has overlap
 *   devices that exchange             through host memory (RP_ROUTE_STAGED): copies would wait for the device
 * At the end of the backward pass the thread completes the piece at hand and stops. A rank whose backward pass is late
 * delays that piece by as much as it would have delayed the exchange after it.
 *
 * The thread has operations of its own, which only add and copy floats: those of ops/reference.c, as the device's
 * belong to the training thread, or a second queue of a GPU (rp_backend.second_queue), attached to the communicator
 * meanwhile. That queue waits for the gradients of a bucket when the training thread announces them, and the thread
 * gives the communicator back when its queue is empty. A failure in it is reported by the next rp_net_alive() of the
 * training thread, or by rp_overlap_end(). While the training thread waits for the thread, it calls rp_comm.waiting()
 * in its place.
 */
#pragma once

#include "optim/grad_tree.h"
#include "recipe/recipe.h"
#include "train/exchange.h"

/* Least floats of a bucket; 0: no overlap. The same on all ranks. */
size_t rp_overlap_bucket(const struct rp_recipe *r, const struct rp_comm *c);
/* Whether a rank with such buckets has a thread. */
int rp_overlap_here(size_t bucket, const struct rp_comm *c);

struct rp_overlap;
/* Borrows all. block: gradient blocks; room: of the exchange. */
struct rp_overlap *rp_overlap_new(struct rp_exchange *x, float *const *block, float *room, struct rp_err *err);
void rp_overlap_free(struct rp_overlap *o);

/* m will do the backward pass of micro-batch `index`, the last of this rank, into the leaf of the tree. */
void rp_overlap_begin(struct rp_overlap *o, struct rp_net *m, const struct rp_grad_tree *tree, int64_t index);
/* After it. failed: it did not end well; then *err stays as it is. Otherwise all of the leaf has been merged
 * (rp_grad_tree_push_merged()). */
int rp_overlap_end(struct rp_overlap *o, int failed, struct rp_err *err) rp_must_check;
