/* Tensors: one list per model, from which all of their properties follow.
 *
 * What:    weights, untrained buffers, activations, scratch and inputs, each with name, type, shape and, where they
 *          matter, initialisation, shard axis, pipeline stage and the operation that writes it.
 * Flow:    a model declares tensors in order -> offsets and bytes of one block per class -> rp_tensors_bind() sets the
 *          model's pointers. Sizes, memory plan, initialisation, decay groups, checkpoints, state roots and the search
 *          for the first NaN walk the same list.
 * Owner:   struct rp_tensors owns its array; names are static text; `at` points into the model.
 *
 * Every tensor is aligned to 64 bytes, except one that is joined to the tensor before it (query, key and value are one
 * matrix to a GEMM); padding between tensors stays zero. The gradient and each optimizer slot have the layout of the
 * block of weights.
 *
 * A rank may hold a part of a model: of every tensor with a shard axis one of `ranks` equal parts, and the tensors of
 * its own stages. The others stay in the list, with no elements and a NULL pointer: a tensor's index is the same on
 * every rank.
 */
#pragma once

#include "ops/dtype.h"

#include <stddef.h>

enum rp_tensor_class {
    /* of a weight that is used twice (`of`): summed over micro-batches on its own, then added to the first, once */
    RP_WEIGHT, RP_BUFFER,
    RP_SECOND_GRADIENT,
    RP_ACTIVATION, RP_SCRATCH, RP_INPUT, RP_TENSOR_CLASSES
};

enum rp_init { RP_INIT_ZERO, RP_INIT_ONE, RP_INIT_NORMAL, RP_INIT_TRUNCATED_NORMAL, RP_INIT_UNIFORM };

struct rp_tensor {
    const char *name;   /* public name of a weight or buffer, a description of others; %d: the number of the layer */
    void *at;           /* the pointer to set, a T ** */
    enum rp_dtype dtype; /* RP_STORED: rp_stored of ops.h, with as many bytes as the list says */
    long dim[4];        /* row-major; 0: no such dimension. Declared whole; in a list those of this rank's part */
    int layer;          /* from 1: number + 1 of the layer that it belongs to; 0: none */
    int stage;          /* layer in forward order, of which pipeline stages are ranges; 0: before the first */
    int stage_again;    /* of a weight that a later layer uses too: that layer; the rank of `stage` owns it. 0: none */
    int shard;          /* 1 + the axis that tensor-parallel ranks divide; 0: whole on every rank */
    int pieces;         /* of the sharded axis: matrices side by side, each divided; 0: 1 */
    int joined;         /* starts directly after the tensor before */
    enum rp_init init;  /* of weights and buffers */
    /* normal: standard deviation sqrt(2 / fan); 0: the recipe's initializer_range; uniform: within +-1 / sqrt(fan) */
    long fan;
    double scale;       /* normal: a factor of the standard deviation; 0: 1 */
    /* of a buffer: a running mean of what each micro-batch writes to rp_net_statistic(), times this factor; 0:
     * constant */
    double statistic;
    /* files have [0, 3, 1, 2] of these dimensions: a convolution's [out, kh, kw, in] as [out, in, kh, kw] */
    int channels_first;
    int of;             /* RP_SECOND_GRADIENT: index of the weight */
    /* one memory for all layers: takes the place of the tensor of the same name that was declared before. Used within
     * one forward or backward pass of a layer only: sets of activations share it too, it follows all others in the
     * block */
    int shared;
    long least;         /* the fewest rows that a file may have; missing rows are 0; 0: all rows */
    size_t room;        /* least elements: what overwrites it may be larger */
    const char *made_by; /* operations that write it, for reports of NaN; NULL: not searched */
    /* set by rp_tensors_add(): */
    size_t offset, count; /* bytes from the start of the block; elements on this rank, 0: a tensor of other stages */
    size_t each;          /* bytes of an element */
    size_t whole;         /* elements on all ranks */
    int ranks;            /* that divide it; 1: whole */
};

struct rp_tensors {
    struct rp_tensor *t;
    int n, cap;
    size_t stored_bytes; /* of an element of type RP_STORED, of the device that will hold it; 0: 4 */
    size_t bytes;    /* of one block */
    size_t shared;   /* of that, at the end: tensors that are shared */
    size_t elements; /* of all tensors, on this rank */
    size_t whole;    /* ... on all ranks, each once */
    int ranks, rank; /* ranks that divide tensors with a shard axis, 0: 1; which of them this is */
    int first, end;  /* layers in forward order that this rank holds: [first, end); end 0: all */
};

#define RP_TENSOR_NAME 128

void rp_tensors_add(struct rp_tensors *l, const struct rp_tensor *t);
void rp_tensors_end(struct rp_tensors *l); /* after the last: places what is shared, rounds the block up to 64 bytes */
/* Sets every pointer. delta: bytes from the struct whose pointers were declared to the one to set, a copy of it; 0:
 * itself. */
void rp_tensors_bind(const struct rp_tensors *l, void *block, ptrdiff_t delta);
/* Sets those of matrices and what has more dimensions to copies of them as operations take them: element i of the
 * list's block at element i of `block`, of `each` bytes. */
void rp_tensors_bind_copies(const struct rp_tensors *l, void *block, size_t each);
/* Sets those of vectors, and of tensors that are not here: of vector i to element at[i] of the block. */
void rp_tensors_bind_vectors(const struct rp_tensors *l, float *block, const size_t *at);
/* The tensor whose pointer is set to x; NULL: none is. */
const struct rp_tensor *rp_tensors_bound(const struct rp_tensors *l, const void *x);
/* Blocks of `sets` sets: shared tensors once. Where set i has a tensor; and sets all pointers to those of set i. */
size_t rp_tensors_set_bytes(const struct rp_tensors *l, int sets);
void *rp_tensors_in_set(const struct rp_tensors *l, void *block, int set, int sets, const struct rp_tensor *t);
void rp_tensors_bind_set(const struct rp_tensors *l, void *block, int set, int sets);
void rp_tensors_fini(struct rp_tensors *l);

int rp_tensor_dims(const struct rp_tensor *t);
size_t rp_tensor_bytes(const struct rp_tensor *t);
/* The name with the layer's number in it. */
const char *rp_tensor_name(char out[RP_TENSOR_NAME], const struct rp_tensor *t);
/* whether it contains one of the words, which are joined with ',' */
int rp_name_excluded(const char *name, const char *words);
int rp_tensors_find(const struct rp_tensors *l, const char *name); /* index, or -1 */
/* Shards that norms and state roots take one after the other, of a tensor with an axis to divide T, of which this rank
 * has an equal part; 1 otherwise. */
static inline int rp_tensor_shards(const struct rp_tensor *t, int parallel)
{
    return t->shard ? parallel / t->ranks : 1;
}
/* Whether this rank holds it, and whether its norm, update and digest are this rank's: not where `stage_again` holds a
 * copy, which has no optimizer slots either. Code that walks the trained state asks this first. */
static inline int rp_tensor_is_owned(const struct rp_tensors *l, const struct rp_tensor *t)
{
    return t->count && (!l->end || (t->stage >= l->first && t->stage < l->end));
}
/* The dimension on all ranks. */
static inline long rp_tensor_whole_dim(const struct rp_tensor *t, int i)
{
    return t->shard == i + 1 ? t->dim[i] * t->ranks : t->dim[i];
}
/* Where element j of a rank's part is in the whole tensor; ascending in j. */
size_t rp_tensor_whole_element(const struct rp_tensor *t, int rank, size_t j);
/* elements that follow each other there too, from each multiple of it on */
size_t rp_tensor_whole_run(const struct rp_tensor *t);
/* Where element j of this rank's shard i is in its part. */
size_t rp_tensor_shard_element(const struct rp_tensor *t, int parallel, int i, size_t j);
/* Parts of `floats` elements, the last of each shard shorter. */
size_t rp_tensor_parts(const struct rp_tensor *t, int parallel, size_t floats);
size_t rp_tensor_whole_parts(const struct rp_tensor *t, int parallel, size_t floats); /* on all ranks */
size_t rp_tensors_largest(const struct rp_tensors *l);             /* bytes of the largest tensor */

static inline float *rp_tensor_in(float *block, const struct rp_tensor *t)
{
    return block + t->offset / sizeof(float);
}
