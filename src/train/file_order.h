/* The order of a tensor's dimensions and elements in files.
 *
 * What:    convolutions are [out, in, kh, kw] in files and [out, kh, kw, in] here; all others are the same.
 * Flow:    checkpoint.c and checkpoint_save.c, the one reading what the other wrote.
 * Owner:   nothing.
 * Extend:  never: files of others have this order.
 */
#pragma once

#include "train/safetensors.h"
#include "train/state.h"

/* What a file has of this entry: its name, type and shape; of all ranks' parts. */
static inline struct rp_st_tensor rp_in_file(const struct rp_state_entry *e)
{
    struct rp_st_tensor s = {.name = e->name, .dtype = "F32", .dims = rp_tensor_dims(e->t)};
    for (int i = 0; i < s.dims; i++)
        s.shape[i] = rp_tensor_whole_dim(e->t, !e->t->channels_first || i == 0 ? i : i == 1 ? 3 : i - 1);
    return s;
}

/* Where element i of the file is here, of a tensor with channels_first. */
static inline size_t rp_from_file(const struct rp_tensor *t, size_t i)
{
    const size_t in = (size_t)t->dim[3], window = (size_t)(t->dim[1] * t->dim[2]), each = in * window;
    return i / each * each + i % window * in + i % each / window;
}
