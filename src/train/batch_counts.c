/* Counters of batches next to running statistics, from files. */
#include "train/batch_counts.h"

#include "base/buf.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define BATCHES_MAX ((int64_t)1 << 62)

char *rp_batch_counter_name(const struct rp_public *p, const struct rp_tensor *buffer)
{
    char name[RP_TENSOR_NAME];
    rp_tensor_name(name, buffer);
    if (!p || !p->counted || !rp_ends_with(name, p->counted))
        return NULL;
    return rp_asprintf("%.*s%s", (int)(strlen(name) - strlen(p->counted)), name, p->counter);
}

int rp_is_batch_counter(const struct rp_public *p, const struct rp_tensors *buffers, const struct rp_st_tensor *t)
{
    int is_counter = 0;
    for (int i = 0; !is_counter && i < buffers->n; i++) {
        RP_FREE char *name = rp_batch_counter_name(p, &buffers->t[i]);
        is_counter = name && strcmp(name, t->name) == 0;
    }
    return is_counter;
}

static int read_counter(int64_t *count, const struct rp_st *st, const struct rp_st_tensor *t, struct rp_err *err)
{
    char shape[128];
    rp_st_shape(shape, t->dims, t->shape);
    if (strcmp(t->dtype, "I64") != 0 || t->dims != 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s', tensor '%s' is %s of shape %s, expected I64 of shape []: as PyTorch counts batches; "
                       "a file without it counts from 0",
                       st->path, t->name, t->dtype, shape);
    if (rp_st_read(st, t, 0, count, sizeof *count, err) < 0)
        return -1;
    return *count >= 0 && *count <= BATCHES_MAX
               ? 0
               : rp_fail(err, RP_MALFORMED, "'%s', tensor '%s' is %lld, expected a number of batches: 0..2^62",
                         st->path, t->name, (long long)*count);
}

int rp_batch_counts_read(int64_t **before, const struct rp_st *st, const struct rp_public *p,
                         const struct rp_tensors *buffers, int64_t step, struct rp_err *err)
{
    *before = NULL;
    for (int i = 0; i < buffers->n; i++) {
        RP_FREE char *name = rp_batch_counter_name(p, &buffers->t[i]);
        const struct rp_st_tensor *t = name ? rp_st_find(st, name) : NULL;
        int64_t count = step;
        if (!name)
            continue;
        if (!*before)
            *before = rp_alloc((size_t)buffers->n * sizeof **before);
        if (t && read_counter(&count, st, t, err) < 0) {
            free(*before);
            *before = NULL;
            return -1;
        }
        (*before)[i] = count - step;
    }
    return 0;
}
