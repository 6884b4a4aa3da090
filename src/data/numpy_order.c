#include "data/numpy_order.h"

enum { N = 624, M = 397 };

void rp_mt19937_init(struct rp_mt19937 *g, uint32_t seed)
{
    g->word[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        g->word[i] = 1812433253u * (g->word[i - 1] ^ g->word[i - 1] >> 30) + i;
    g->at = N;
}

static void refill(uint32_t *w)
{
    for (int i = 0; i < N; i++) {
        uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % N] & 0x7fffffffu);
        w[i] = w[(i + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
}

uint32_t rp_mt19937_next(struct rp_mt19937 *g)
{
    if (g->at == N) {
        refill(g->word);
        g->at = 0;
    }
    uint32_t y = g->word[g->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

void rp_numpy_shuffle(struct rp_mt19937 *g, uint32_t *v, uint32_t n)
{
    for (uint32_t i = n; i-- > 1;) {
        uint32_t mask = UINT32_MAX >> __builtin_clz(i), j;
        do
            j = rp_mt19937_next(g) & mask;
        while (j > i);
        uint32_t t = v[i];
        v[i] = v[j];
        v[j] = t;
    }
}
