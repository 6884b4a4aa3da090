#include "data/token_docs.h"

#include <stdlib.h>

void rp_token_docs_fini(struct rp_token_docs *d)
{
    free(d->id);
    free(d->end);
    *d = (struct rp_token_docs){0};
}

void rp_token_docs_reserve(struct rp_token_docs *d, size_t ids)
{
    if (d->ids_cap - d->ids >= ids)
        return;
    d->ids_cap = 2 * d->ids_cap + ids + 1024;
    d->id = rp_realloc(d->id, d->ids_cap * sizeof *d->id);
}

static size_t start_of(const struct rp_token_docs *d, int64_t i)
{
    return i ? d->end[i - 1] : 0;
}

void rp_token_docs_close(struct rp_token_docs *d)
{
    if (d->ids == start_of(d, d->n))
        return;
    if (d->n == d->n_cap) {
        d->n_cap = 2 * d->n_cap + 64;
        d->end = rp_realloc(d->end, (size_t)d->n_cap * sizeof *d->end);
    }
    d->end[d->n++] = d->ids;
}

int64_t rp_token_docs_length(const struct rp_token_docs *d, int64_t i)
{
    return (int64_t)(d->end[i] - start_of(d, i)) + 1;
}

void rp_token_docs_write(struct rp_buf *out, const struct rp_token_docs *d, int64_t first, int64_t end, int eod_before,
                         int width)
{
    for (int64_t i = first; i < end; i++) {
        if (eod_before)
            rp_buf_add(out, &d->eod, (size_t)width);
        for (size_t k = start_of(d, i); k < d->end[i]; k++)
            rp_buf_add(out, &d->id[k], (size_t)width);
        if (!eod_before)
            rp_buf_add(out, &d->eod, (size_t)width);
    }
}
