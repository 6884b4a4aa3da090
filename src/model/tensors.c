#include "model/tensors.h"

#include "base/buf.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN(bytes) (((bytes) + 63) & ~(size_t)63)

void rp_tensors_add(struct rp_tensors *l, const struct rp_tensor *t)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->t = rp_realloc(l->t, (size_t)l->cap * sizeof *l->t);
    }
    struct rp_tensor *x = &l->t[l->n++];
    *x = *t;
    x->count = 1;
    for (int i = 0; i < 4 && t->dim[i]; i++)
        x->count *= (size_t)t->dim[i];
    for (int i = 0; x->shared && i < l->n - 1; i++)
        if (l->t[i].shared && !strcmp(l->t[i].name, x->name)) {
            RP_BUG_IF(l->t[i].count != x->count || l->t[i].room != x->room);
            x->offset = l->t[i].offset;
            return;
        }
    size_t bytes = rp_tensor_bytes(x);
    x->offset = x->joined ? l->bytes : ALIGN(l->bytes);
    l->bytes = x->offset + (bytes > x->room ? bytes : x->room);
    l->elements += x->count;
}

void rp_tensors_end(struct rp_tensors *l)
{
    l->bytes = ALIGN(l->bytes);
}

void rp_tensors_bind(const struct rp_tensors *l, void *block, ptrdiff_t delta)
{
    for (int i = 0; i < l->n; i++) {
        void *x = (char *)block + l->t[i].offset;
        if (l->t[i].at)
            memcpy((char *)l->t[i].at + delta, &x, sizeof x);
    }
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
    return t->count * rp_dtype_bytes(t->dtype);
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

size_t rp_tensor_shard_element(const struct rp_tensor *t, int parallel, int i, size_t j)
{
    const size_t shards = (size_t)rp_tensor_shards(t, parallel), pieces = t->pieces ? (size_t)t->pieces : 1;
    if (shards == 1 || (t->shard == 1 && pieces == 1))
        return (size_t)i * (t->count / shards) + j;
    const size_t rows = t->shard == 2 ? (size_t)t->dim[0] : 1, cols = t->count / rows, each = cols / pieces / shards;
    const size_t wide = pieces * each, column = j % wide;
    return j / wide * cols + (column / each * shards + (size_t)i) * each + column % each;
}

size_t rp_tensor_parts(const struct rp_tensor *t, int parallel, size_t floats)
{
    size_t shards = (size_t)rp_tensor_shards(t, parallel);
    return shards * ((t->count / shards + floats - 1) / floats);
}

size_t rp_tensors_largest(const struct rp_tensors *l)
{
    size_t n = 0;
    for (int i = 0; i < l->n; i++)
        if (rp_tensor_bytes(&l->t[i]) > n)
            n = rp_tensor_bytes(&l->t[i]);
    return n;
}
