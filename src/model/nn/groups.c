#include "model/nn/groups.h"

#include "base/buf.h"
#include "base/sort.h"

float rp_sum128(const float *x, int n)
{
    float lane[128] = {0};
    for (int i = 0; i < n; i++)
        lane[i & 127] += x[i];
    for (int half = 64; half > 0; half >>= 1)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

void rp_group_rows_in(struct rp_row_groups *g, const int32_t *keys, int n, int32_t from, int32_t end)
{
    /* the staging copy is writable; all other users get const pointers */
    int32_t *key = (int32_t *)g->key, *start = (int32_t *)g->start, *source = (int32_t *)g->source;
    RP_FREE int64_t *pair = rp_alloc((size_t)n * sizeof *pair);
    int used = 0;
    for (int i = 0; i < n; i++)
        if (keys[i] >= from && keys[i] < end)
            pair[used++] = (int64_t)(keys[i] - from) << 32 | i;
    rp_sort_int64(pair, (size_t)used);
    g->n = 0;
    for (int i = 0; i < used; i++) {
        int32_t k = (int32_t)(pair[i] >> 32);
        if (i == 0 || k != key[g->n - 1]) {
            key[g->n] = k;
            start[g->n++] = i;
        }
        source[i] = (int32_t)pair[i];
    }
    start[g->n] = used;
}

void rp_group_rows(struct rp_row_groups *g, const int32_t *keys, int n)
{
    rp_group_rows_in(g, keys, n, 0, INT32_MAX);
}
