#include "model/nn/groups.h"

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

/* By the upper halves, byte after byte; equal ones stay in their order. Returns where the result is: x or spare, n words each. */
static const uint64_t *sorted(uint64_t *x, uint64_t *spare, int n)
{
    uint64_t all = 0;
    for (int i = 0; i < n; i++)
        all |= x[i];
    for (int shift = 32; shift < 64 && all >> shift; shift += 8) {
        int at[257] = {0};
        for (int i = 0; i < n; i++)
            at[(x[i] >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++)
            at[i + 1] += at[i];
        for (int i = 0; i < n; i++)
            spare[at[x[i] >> shift & 255]++] = x[i];
        uint64_t *done = spare;
        spare = x;
        x = done;
    }
    return x;
}

void rp_group_rows(struct rp_row_groups *g, const int32_t *keys, int n, uint64_t *work)
{
    /* the staging copy is writable; all other users get const pointers */
    int32_t *key = (int32_t *)g->key, *start = (int32_t *)g->start, *source = (int32_t *)g->source;
    for (int i = 0; i < n; i++)
        work[i] = (uint64_t)(uint32_t)keys[i] << 32 | (uint32_t)i;
    const uint64_t *pair = sorted(work, work + n, n);
    g->n = 0;
    for (int i = 0; i < n; i++) {
        int32_t k = (int32_t)(pair[i] >> 32);
        if (i == 0 || k != key[g->n - 1]) {
            key[g->n] = k;
            start[g->n++] = i;
        }
        source[i] = (int32_t)(uint32_t)pair[i];
    }
    start[g->n] = n;
}
