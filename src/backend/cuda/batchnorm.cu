/* Batch norm over rows of channels, forward and backward.
 *
 * Bytes moved, with N = rows * width * 4: statistics read N for each of the two sums (the mean's is colsum() of
 * pointwise.cu); the output reads N, or 2 N with an addend, and writes N. Backward, the sums read dy and x, or with a
 * ReLU y as well; the second pass, which needs both sums of a column before its first element, reads the same again and
 * writes dx, or dx and dadd. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/stored.cuh"
#include "backend/cuda/strip.cuh"
#include "backend/cuda/tree.cuh"
#include "ops/ops.h"

#define PREFETCH 16          /* rows whose loads run ahead of the arithmetic */
#define PREFETCH_BACKWARD 8

RP_DEVICE float normalised(float x, float mean, float rstd)
{
    return (x - mean) * rstd;
}
/* The gradient after a ReLU; y: its output. */
RP_DEVICE float passed(float dy, float y)
{
    return y > 0.0f ? dy : 0.0f;
}

/* ---- sums over 64 rows ---- */

RP_KERNEL(batchnorm_squares)
{
    const struct strip s = strip_of(a.rows, a.width);
    const rp_stored *x = a.x + s.at;
    const long ld = a.width;
    if (!s.rows)
        return;
    float sum = 0.0f, mean = a.mean[s.column];
    for (int i = 0; i < s.rows; i += PREFETCH) {
        float v[PREFETCH];
        RP_UNROLL
        for (int k = 0; k < PREFETCH; k++, x += ld)
            v[k] = i + k < s.rows ? rp_stored_get(x) : mean;
        RP_UNROLL
        for (int k = 0; k < PREFETCH; k++) {
            float d = v[k] - mean;
            sum = i + k < s.rows ? sum + d * d : sum;
        }
    }
    a.work[s.out] = sum;
}

/* relu: a.y is read */
RP_DEVICE void backward_sums(const rp_args_batchnorm_sums *a, const struct strip *s, int relu)
{
    const rp_stored *dy = a->dy + s->at, *x = a->x + s->at, *y = relu ? a->y + s->at : (const rp_stored *)NULL;
    const long ld = a->width;
    const float mean = a->mean[s->column], rstd = a->rstd[s->column];
    float dgamma = 0.0f, dbeta = 0.0f;
    for (int i = 0; i < s->rows; i += PREFETCH_BACKWARD) {
        float g[PREFETCH_BACKWARD], v[PREFETCH_BACKWARD];
        RP_UNROLL
        for (int k = 0; k < PREFETCH_BACKWARD; k++, dy += ld, x += ld) {
            g[k] = i + k < s->rows ? rp_stored_get(dy) : 0.0f;
            v[k] = i + k < s->rows ? rp_stored_get(x) : 0.0f;
            if (relu) {
                g[k] = i + k < s->rows ? passed(g[k], rp_stored_get(y)) : 0.0f;
                y += ld;
            }
        }
        RP_UNROLL
        for (int k = 0; k < PREFETCH_BACKWARD; k++) {
            dgamma = i + k < s->rows ? dgamma + g[k] * normalised(v[k], mean, rstd) : dgamma;
            dbeta = dbeta + g[k]; /* never -0, so +0 for a missing row changes nothing */
        }
    }
    a->work[s->out] = dgamma;
    a->work[a->part + s->out] = dbeta;
}

RP_KERNEL(batchnorm_sums)
{
    const struct strip s = strip_of(a.rows, a.width);
    if (!s.rows)
        return;
    if (a.y)
        backward_sums(&a, &s, 1);
    else
        backward_sums(&a, &s, 0);
}

#ifndef RP_STORE
/* The tree over the blocks' sums, divided by the rows; and, where a variance is wanted, what rows are scaled by. */
RP_KERNEL(column_mean)
{
    int first = (int)blockIdx.x * RP_TREE_COLUMNS, warp = (int)(threadIdx.x / RP_WARP);
    struct rp_tree t = {a.work + first, 0, a.blocks, a.width, RP_TREE_COLUMNS, a.width - first};
    float mean = rp_tree_sum(&t, RP_SHARED(float)) * a.inv;
    if (rp_lane() != 0 || warp >= RP_TREE_COLUMNS || warp >= t.inside)
        return;
    a.mean[first + warp] = mean;
    if (a.rstd)
        a.rstd[first + warp] = 1.0f / sqrtf(mean + a.eps);
}
#endif

/* ---- whole tensors: four neighbouring channels of a row at a time ---- */

struct quad {
    size_t at;  /* of the first element in the tensor */
    int column;
    long n;     /* elements of the row from there on */
};

RP_DEVICE struct quad quad_of(unsigned number, int width)
{
    const unsigned quads = ((unsigned)width + 3) / 4, row = number / quads;
    struct quad q;
    q.column = (int)(number - row * quads) * 4;
    q.at = (size_t)row * (unsigned)width + (unsigned)q.column;
    q.n = width - q.column;
    return q;
}
#define EACH_QUAD(a, one)                                                                                                                  \
    for (size_t i_ = rp_thread(); i_ < (a)->quads; i_ += rp_threads())                                                                     \
        if ((a)->wide)                                                                                                                     \
            one(a, quad_of((unsigned)i_, (a)->width), 1);                                                                                  \
        else                                                                                                                               \
            one(a, quad_of((unsigned)i_, (a)->width), 0)

RP_DEVICE float4 normalised4(float4 x, float4 mean, float4 rstd)
{
    return make_float4(normalised(x.x, mean.x, rstd.x), normalised(x.y, mean.y, rstd.y), normalised(x.z, mean.z, rstd.z),
                       normalised(x.w, mean.w, rstd.w));
}
RP_DEVICE float4 passed4(float4 dy, float4 y)
{
    return make_float4(passed(dy.x, y.x), passed(dy.y, y.y), passed(dy.z, y.z), passed(dy.w, y.w));
}

RP_DEVICE void apply4(const rp_args_batchnorm_apply *a, struct quad q, int wide)
{
    const int c = q.column;
    float4 h = normalised4(rp_stored_get4(a->x + q.at, q.n, wide), rp_get4(a->mean + c, q.n, wide),
                           rp_get4(a->rstd + c, q.n, wide));
    float4 g = rp_get4(a->gamma + c, q.n, wide), b = rp_get4(a->beta + c, q.n, wide);
    float4 v = make_float4(fmaf(h.x, g.x, b.x), fmaf(h.y, g.y, b.y), fmaf(h.z, g.z, b.z), fmaf(h.w, g.w, b.w));
    if (a->add)
        v = rp_add4(v, rp_stored_get4(a->add + q.at, q.n, wide));
    rp_stored_put4(a->y + q.at, a->relu ? passed4(v, v) : v, q.n, wide);
}
RP_KERNEL(batchnorm_apply)
{
    EACH_QUAD(&a, apply4);
}

RP_DEVICE float gradient(float dz, float xhat, float s1, float s2, float scale)
{
    return fmaf(-xhat, s2, dz - s1) * scale;
}

RP_DEVICE void backward4(const rp_args_batchnorm_backward *a, struct quad q, int wide)
{
    const int c = q.column;
    const float4 inv = make_float4(a->inv, a->inv, a->inv, a->inv), rstd = rp_get4(a->rstd + c, q.n, wide);
    float4 dz = rp_stored_get4(a->dy + q.at, q.n, wide);
    if (a->y)
        dz = passed4(dz, rp_stored_get4(a->y + q.at, q.n, wide));
    float4 h = normalised4(rp_stored_get4(a->x + q.at, q.n, wide), rp_get4(a->mean + c, q.n, wide), rstd);
    float4 s1 = rp_mul4(rp_get4(a->dbeta + c, q.n, wide), inv), s2 = rp_mul4(rp_get4(a->dgamma + c, q.n, wide), inv);
    float4 scale = rp_mul4(rp_get4(a->gamma + c, q.n, wide), rstd);
    if (a->dadd)
        rp_stored_put4(a->dadd + q.at, dz, q.n, wide);
    rp_stored_put4(a->dx + q.at,
            make_float4(gradient(dz.x, h.x, s1.x, s2.x, scale.x), gradient(dz.y, h.y, s1.y, s2.y, scale.y),
                        gradient(dz.z, h.z, s1.z, s2.z, scale.z), gradient(dz.w, h.w, s1.w, s2.w, scale.w)),
            q.n, wide);
}
RP_KERNEL(batchnorm_backward)
{
    EACH_QUAD(&a, backward4);
}
