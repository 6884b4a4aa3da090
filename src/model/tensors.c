#include "model/tensors.h"

#include "base/buf.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN(bytes) (((bytes) + 63) & ~(size_t)63)

static int holds_stage(const struct rp_tensors *l, int stage)
{
    return !l->end || (stage >= l->first && stage < l->end);
}

/* The part of a whole tensor that this rank holds. */
static void divide_tensor(const struct rp_tensors *l, struct rp_tensor *x)
{
    const int pieces = x->pieces ? x->pieces : 1;
    x->ranks = x->shard && l->ranks ? l->ranks : 1;
    if (x->ranks > 1) {
        long *dim = &x->dim[x->shard - 1];
        RP_BUG_IF(*dim % ((long)x->ranks * pieces) != 0);
        *dim /= x->ranks;
    }
    x->count = holds_stage(l, x->stage) || (x->stage_again && holds_stage(l, x->stage_again))
                   ? x->whole / (size_t)x->ranks
                   : 0;
}

void rp_tensors_add(struct rp_tensors *l, const struct rp_tensor *t)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->t = rp_realloc(l->t, (size_t)l->cap * sizeof *l->t);
    }
    struct rp_tensor *x = &l->t[l->n++];
    *x = *t;
    x->each = t->dtype != RP_STORED ? rp_dtype_bytes(t->dtype) : l->stored_bytes ? l->stored_bytes : sizeof(float);
    x->whole = 1;
    for (int i = 0; i < 4 && t->dim[i]; i++)
        x->whole *= (size_t)t->dim[i];
    divide_tensor(l, x);
    if (!x->shared)
        l->whole += x->whole;
    if (!x->count) {
        x->offset = l->bytes;
        return;
    }
    for (int i = 0; x->shared && i < l->n - 1; i++)
        if (l->t[i].shared && l->t[i].count && !strcmp(l->t[i].name, x->name)) {
            RP_BUG_IF(l->t[i].count != x->count || l->t[i].each != x->each || l->t[i].room != x->room);
            x->offset = l->t[i].offset;
            return;
        }
    size_t *end = x->shared ? &l->shared : &l->bytes;
    x->offset = x->joined ? *end : ALIGN(*end);
    *end = x->offset + (x->count > x->room ? x->count : x->room) * x->each;
    l->elements += x->count;
}

void rp_tensors_end(struct rp_tensors *l)
{
    l->bytes = ALIGN(l->bytes);
    l->shared = ALIGN(l->shared);
    for (int i = 0; i < l->n; i++)
        if (l->t[i].shared && l->t[i].count)
            l->t[i].offset += l->bytes;
    l->bytes += l->shared;
}

static void bind_to(const struct rp_tensor *t, void *x, ptrdiff_t delta)
{
    if (t->at)
        memcpy((char *)t->at + delta, &x, sizeof x);
}

void rp_tensors_bind(const struct rp_tensors *l, void *block, ptrdiff_t delta)
{
    for (int i = 0; i < l->n; i++)
        bind_to(&l->t[i], l->t[i].count ? (char *)block + l->t[i].offset : NULL, delta);
}

void rp_tensors_bind_copies(const struct rp_tensors *l, void *block, size_t each)
{
    for (int i = 0; i < l->n; i++)
        if (l->t[i].count && rp_tensor_dims(&l->t[i]) > 1)
            bind_to(&l->t[i], (char *)block + l->t[i].offset / l->t[i].each * each, 0);
}

void rp_tensors_bind_vectors(const struct rp_tensors *l, float *block, const size_t *at)
{
    for (int i = 0; i < l->n; i++)
        if (!l->t[i].count || rp_tensor_dims(&l->t[i]) < 2)
            bind_to(&l->t[i], l->t[i].count ? block + at[i] : NULL, 0);
}

const struct rp_tensor *rp_tensors_bound(const struct rp_tensors *l, const void *x)
{
    for (int i = 0; i < l->n; i++) {
        const void *is = NULL;
        if (l->t[i].at)
            memcpy(&is, l->t[i].at, sizeof is);
        if (is == x && l->t[i].count)
            return &l->t[i];
    }
    return NULL;
}

size_t rp_tensors_set_bytes(const struct rp_tensors *l, int sets)
{
    return (l->bytes - l->shared) * (size_t)sets + l->shared;
}

void *rp_tensors_in_set(const struct rp_tensors *l, void *block, int set, int sets, const struct rp_tensor *t)
{
    const size_t before = (l->bytes - l->shared) * (size_t)(t->shared ? sets - 1 : set);
    return t->count ? (char *)block + before + t->offset : NULL;
}

void rp_tensors_bind_set(const struct rp_tensors *l, void *block, int set, int sets)
{
    for (int i = 0; i < l->n; i++)
        bind_to(&l->t[i], rp_tensors_in_set(l, block, set, sets, &l->t[i]), 0);
}

void rp_tensors_fini(struct rp_tensors *l)
{
    free(l->t);
    *l = (struct rp_tensors){0};
}

int rp_tensor_dims(const struct rp_tensor *t)
{
    int n = 0;
    while (n < 4 && t->dim[n])
        n++;
    return n;
}

size_t rp_tensor_bytes(const struct rp_tensor *t)
{
    return t->count * t->each;
}

const char *rp_tensor_name(char out[RP_TENSOR_NAME], const struct rp_tensor *t)
{
    const char *number = t->layer ? strstr(t->name, "%d") : NULL;
    if (number)
        snprintf(out, RP_TENSOR_NAME, "%.*s%d%s", (int)(number - t->name), t->name, t->layer - 1, number + 2);
    else
        snprintf(out, RP_TENSOR_NAME, "%s", t->name);
    return out;
}

int rp_name_excluded(const char *name, const char *words)
{
    while (words && *words) {
        size_t n = strcspn(words, ",");
        for (const char *p = name; n && *p; p++)
            if (!strncmp(p, words, n))
                return 1;
        words += n + (words[n] == ',');
    }
    return 0;
}

int rp_tensors_find(const struct rp_tensors *l, const char *name)
{
    char text[RP_TENSOR_NAME];
    for (int i = 0; i < l->n; i++)
        if (!strcmp(rp_tensor_name(text, &l->t[i]), name))
            return i;
    return -1;
}

/* Elements of a shard that follow each other in a tensor of `count` elements that `shards` divide. */
static size_t shard_run(const struct rp_tensor *t, size_t count, size_t shards)
{
    const size_t pieces = t->pieces ? (size_t)t->pieces : 1;
    if (shards == 1 || (t->shard == 1 && pieces == 1))
        return count / shards;
    RP_BUG_IF(t->shard > 2 || t->dim[t->shard]); /* the last axis of a vector or matrix */
    return count / (t->shard == 2 ? (size_t)t->dim[0] : 1) / pieces / shards;
}

/* Where element j of shard i is: rows of `pieces` runs of each shard, side by side. */
static size_t shard_element(const struct rp_tensor *t, size_t count, size_t shards, size_t i, size_t j)
{
    const size_t run = shard_run(t, count, shards);
    return (j / run * shards + i) * run + j % run;
}

size_t rp_tensor_shard_element(const struct rp_tensor *t, int parallel, int i, size_t j)
{
    return shard_element(t, t->count, (size_t)rp_tensor_shards(t, parallel), (size_t)i, j);
}

size_t rp_tensor_whole_element(const struct rp_tensor *t, int rank, size_t j)
{
    return shard_element(t, t->whole, (size_t)t->ranks, t->ranks > 1 ? (size_t)rank : 0, j);
}

size_t rp_tensor_whole_run(const struct rp_tensor *t)
{
    return shard_run(t, t->whole, (size_t)t->ranks);
}

size_t rp_tensor_parts(const struct rp_tensor *t, int parallel, size_t floats)
{
    size_t shards = (size_t)rp_tensor_shards(t, parallel);
    return shards * ((t->count / shards + floats - 1) / floats);
}

size_t rp_tensor_whole_parts(const struct rp_tensor *t, int parallel, size_t floats)
{
    size_t shards = t->shard ? (size_t)parallel : 1;
    return shards * ((t->whole / shards + floats - 1) / floats);
}

size_t rp_tensors_largest(const struct rp_tensors *l)
{
    size_t n = 0;
    for (int i = 0; i < l->n; i++)
        if (rp_tensor_bytes(&l->t[i]) > n)
            n = rp_tensor_bytes(&l->t[i]);
    return n;
}
