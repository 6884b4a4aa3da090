/* The definition of a GEMM, quick enough for large cases, and random numbers.
 *
 * What:    define_gemm(): what a backend must compute for struct rp_gemm, by plain loops; random_word(): xorshift, the
 *          same numbers everywhere.
 */
#pragma once

#include "base/buf.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static inline uint32_t random_word(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

#if defined __x86_64__
#define DEFINE_TARGET __attribute__((target("avx2,fma"), optimize("O3")))
#define DEFINE_QUICKLY (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#else
#define DEFINE_TARGET __attribute__((optimize("O3")))
#define DEFINE_QUICKLY 1
#endif

/* s[n] = chains over k of a * b[k, n] + (+0); each product and sum one fma */
DEFINE_TARGET static inline void define_chains(float *s, const float *a, long step, const float *b, int k, int n)
{
    memset(s, 0, (size_t)n * sizeof *s);
    for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++)
            s[j] = __builtin_fmaf(a[i * step], b[(size_t)i * (size_t)n + (size_t)j], s[j]);
    for (int j = 0; j < n; j++)
        s[j] = s[j] + 0.0f;
}

static inline void define_gemm(const struct rp_gemm *g)
{
    const int length = g->segment ? g->segment : g->k;
    if (!DEFINE_QUICKLY) {
        rp_reference_ops.gemm(NULL, g);
        return;
    }
    RP_FREE float *row = rp_alloc((size_t)g->n * sizeof *row), *total = rp_alloc((size_t)g->n * sizeof *total);
    RP_FREE float *b = rp_alloc((size_t)g->k * (size_t)g->n * sizeof *b); /* [k, n] */
    for (int k = 0; k < g->k; k++)
        for (int j = 0; j < g->n; j++)
            b[(size_t)k * (size_t)g->n + (size_t)j] = g->tb ? g->b[j * g->ldb + k] : g->b[k * g->ldb + j];
    for (long i = 0; i < g->m; i++) {
        for (long k = 0; k < g->k; k += length) {
            const float *a = g->ta ? g->a + k * g->lda + i : g->a + i * g->lda + k;
            define_chains(row, a, g->ta ? g->lda : 1, b + k * g->n, g->k - k < length ? (int)(g->k - k) : length, g->n);
            for (int j = 0; j < g->n; j++)
                total[j] = k ? total[j] + row[j] : row[j];
        }
        for (int j = 0; j < g->n; j++) {
            float x = g->bias ? total[j] + g->bias[j] : total[j];
            g->c[i * g->ldc + j] = g->add ? x + g->add[i * g->ldadd + j] : x;
        }
    }
}
