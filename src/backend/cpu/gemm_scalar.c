/* The plain kernel: 4 x 8 tiles, one scalar fma at a time. For CPUs without AVX2 and as the thing others are compared
 * with.
 *
 * It exists twice on x86-64: with the FMA instruction, and with the library's fmaf() where the CPU has none. Both round
 * once, so the bits agree; the second is some fifty times slower. */
#include "backend/cpu/gemm.h"

#include <math.h>
#include <string.h>

#define MR 4
#define NR 8

/* fmaf() becomes one instruction where the function around it is compiled for FMA. A is read with two strides. */
static inline __attribute__((always_inline)) void tile(const struct rp_tile *t, int rows, long row_step, long k_step)
{
    for (int i = 0; i < rows; i++) {
        float s[NR];
        for (int j = 0; j < NR; j++)
            s[j] = t->from && j < t->cols ? t->from[i * t->ldfrom + j] : 0.0f;
        const float *a = t->a + i * row_step, *b = t->b;
        const struct rp_gemm_run all = {t->k, 0}, *run = t->runs ? t->runs : &all;
        for (long k = 0; k < t->k; b += run->skip, run++)
            for (const long end = k + run->steps; k < end; k++, b += NR)
                for (int j = 0; j < NR; j++)
                    s[j] = fmaf(a[k * k_step], b[j], s[j]);
        for (int j = 0; j < t->cols; j++) {
            float x = t->sum ? t->sum[i * t->ldsum + j] + s[j] : s[j];
            if (t->last) {
                x += 0.0f;
                x = t->bias ? x + t->bias[j] : x;
                x = t->add ? x + t->add[i * t->ldadd + j] : x;
            }
            t->c[i * t->ldc + j] = x;
        }
    }
}

static void in_place(const struct rp_tile *t, int rows)
{
    tile(t, rows, t->lda, 1);
}

static void packed(const struct rp_tile *t, int rows)
{
    tile(t, rows, 1, RP_GEMM_GROUP);
}

#if defined __x86_64__
__attribute__((target("fma"))) static void in_place_fma(const struct rp_tile *t, int rows)
{
    tile(t, rows, t->lda, 1);
}

__attribute__((target("fma"))) static void packed_fma(const struct rp_tile *t, int rows)
{
    tile(t, rows, 1, RP_GEMM_GROUP);
}
#endif

static void copy_row(float *dst, long stride, const float *src, const float *ahead, int panels)
{
    (void)ahead;
    for (int p = 0; p < panels; p++)
        memcpy(dst + p * stride, src + (long)p * NR, NR * sizeof *dst);
}

static void transpose(float *dst, const float *src, long ld, int cols)
{
    for (int j = 0; j < cols; j++)
        for (int k = 0; k < 16; k++)
            dst[k * NR + j] = src[j * ld + k];
}

static void copy_group(float *dst, const float *src, long ld, int k)
{
    for (int p = 0; p < k; p++)
        memcpy(dst + (long)p * RP_GEMM_GROUP, src + p * ld, RP_GEMM_GROUP * sizeof *dst);
}

const struct rp_gemm_kernel rp_gemm_scalar = {MR,   NR, NR,       MR,        0,         in_place, packed,
                                              NULL, 0,  copy_row, transpose, copy_group};
#if defined __x86_64__
const struct rp_gemm_kernel rp_gemm_scalar_fma = {MR,   NR, NR,       MR,        0,         in_place_fma, packed_fma,
                                                  NULL, 0,  copy_row, transpose, copy_group};
#endif
