/* GELU, tanh, their gradients with the column sums of these, and column sums.
 *
 * Bytes moved: each tensor once. A gradient and its column sum are one pass: a thread processes 64 rows of one column,
 * so that a warp reads and writes 128 bytes of a row at a time without exchanges. column_tree adds up the block sums,
 * 1/64 of the tensor. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/stored.cuh"
#include "backend/cuda/strip.cuh"
#include "ops/functions.h"
#include "ops/ops.h"

#define GELU_FORWARD(name, gelu)                                                                                       \
    RP_DEVICE void name##4(const rp_args_##name * a, size_t i, long n, int wide)                                       \
    {                                                                                                                  \
        float4 u = rp_stored_get4(a->u + i, n, wide);                                                                  \
        rp_stored_put4(a->g + i, make_float4(gelu(u.x), gelu(u.y), gelu(u.z), gelu(u.w)), n, wide);                    \
    }                                                                                                                  \
    RP_KERNEL(name)                                                                                                    \
    {                                                                                                                  \
        RP_EACH4(&a, a.n, a.wide, name##4);                                                                            \
    }
GELU_FORWARD(gelu_forward, r_gelu)
GELU_FORWARD(gelu_tanh_forward, r_gelu_tanh)

RP_DEVICE void tanh4(const rp_args_tanh_forward *a, size_t i, long n, int wide)
{
    float4 x = rp_stored_get4(a->x + i, n, wide);
    rp_stored_put4(a->y + i, make_float4(r_tanh(x.x), r_tanh(x.y), r_tanh(x.z), r_tanh(x.w)), n, wide);
}
RP_KERNEL(tanh_forward)
{
    RP_EACH4(&a, a.n, a.wide, tanh4);
}

/* ---- 64 rows of a strip of columns: strip.cuh ---- */

/* Rows whose loads run ahead of the arithmetic. */
#define PREFETCH 4
#define PREFETCH_COLSUM 16

#define GELU_BACKWARD(name, gradient)                                                                                  \
    RP_KERNEL(name)                                                                                                    \
    {                                                                                                                  \
        const struct strip s = strip_of(a.rows, a.width);                                                              \
        const rp_stored *dg = a.dg + s.at, *u = a.u + s.at;                                                            \
        const long ld = a.width;                                                                                       \
        rp_stored *du = a.du + s.at;                                                                                   \
        float sum = 0.0f;                                                                                              \
        for (int i = 0; i < s.rows; i += PREFETCH) {                                                                   \
            float g[PREFETCH], x[PREFETCH];                                                                            \
            RP_UNROLL                                                                                                  \
            for (int k = 0; k < PREFETCH; k++, dg += ld, u += ld) {                                                    \
                g[k] = i + k < s.rows ? rp_stored_get(dg) : 0.0f;                                                      \
                x[k] = i + k < s.rows ? rp_stored_get(u) : 0.0f;                                                       \
            }                                                                                                          \
            RP_UNROLL                                                                                                  \
            for (int k = 0; k < PREFETCH; k++, du += ld) {                                                             \
                float d = rp_rounded(g[k] * gradient(x[k]));                                                           \
                if (i + k < s.rows) {                                                                                  \
                    rp_stored_put(du, d);                                                                              \
                    sum = sum + d;                                                                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        if (s.rows)                                                                                                    \
            a.work[s.out] = sum;                                                                                       \
    }
GELU_BACKWARD(gelu_backward, r_gelu_grad)
GELU_BACKWARD(gelu_tanh_backward, r_gelu_tanh_grad)

RP_KERNEL(tanh_backward)
{
    const struct strip s = strip_of(a.rows, a.width);
    const rp_stored *dy = a.dy + s.at, *y = a.y + s.at;
    const long ld = a.width;
    rp_stored *dx = a.dx + s.at;
    float sum = 0.0f;
    for (int i = 0; i < s.rows; i += PREFETCH) {
        float g[PREFETCH], t[PREFETCH];
        RP_UNROLL
        for (int k = 0; k < PREFETCH; k++, dy += ld, y += ld) {
            g[k] = i + k < s.rows ? rp_stored_get(dy) : 0.0f;
            t[k] = i + k < s.rows ? rp_stored_get(y) : 0.0f;
        }
        RP_UNROLL
        for (int k = 0; k < PREFETCH; k++, dx += ld) {
            float d = rp_rounded(g[k] * fmaf(-t[k], t[k], 1.0f));
            if (i + k < s.rows) {
                rp_stored_put(dx, d);
                sum = sum + d;
            }
        }
    }
    if (s.rows)
        a.work[s.out] = sum;
}

RP_KERNEL(colsum)
{
    const struct strip s = strip_of(a.rows, a.width);
    const rp_stored *x = a.x + s.at;
    const long ld = a.width;
    float sum = 0.0f;
    for (int i = 0; i < s.rows; i += PREFETCH_COLSUM) {
        float v[PREFETCH_COLSUM];
        RP_UNROLL
        for (int k = 0; k < PREFETCH_COLSUM; k++, x += ld)
            v[k] = i + k < s.rows ? rp_stored_get(x) : 0.0f;
        RP_UNROLL
        for (int k = 0; k < PREFETCH_COLSUM; k++)
            sum = sum + v[k]; /* never -0, so +0 for a missing row changes nothing */
    }
    if (s.rows)
        a.work[s.out] = sum;
}
