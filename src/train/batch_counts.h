/* PyTorch's num_batches_tracked: a counter next to the running statistics of every batch norm.
 *
 * What:    an int64 scalar of a file for each buffer whose name ends in rp_public.counted. No arithmetic here depends
 *          on it.
 * Flow:    --init: file -> rp_batch_counts_read() -> rp_trained.batches_before; --save: that and the number of steps ->
 *          file.
 * Owner:   the caller frees what is returned.
 * Extend:  a model whose files have counters names them in its rp_public.
 *
 * A step counts as one batch, whatever its micro-batches, since running statistics move once a step. A file without
 * counters has seen the steps of its optimizer state, and none without that.
 */
#pragma once

#include "model/public.h"
#include "train/safetensors.h"
#include "train/state.h"

/* Name of the counter next to a buffer, without the model's prefix; NULL: it has none, or p is NULL. free() it. */
char *rp_batch_counter_name(const struct rp_public *p, const struct rp_tensor *buffer);
/* Whether a tensor of a file is such a counter: it is no part of the state, nor of its root. */
int rp_is_batch_counter(const struct rp_public *p, const struct rp_tensors *buffers, const struct rp_st_tensor *t);
/* [buffers] by buffer: batches before step 0, where the file's weights have seen `step` steps; NULL: no buffer has a
 * counter, or *err. */
int rp_batch_counts_read(int64_t **before, const struct rp_st *st, const struct rp_public *p,
                         const struct rp_tensors *buffers, int64_t step, struct rp_err *err) rp_must_check;
