/* Shared by the attention kernels: the elements of each thread, copies of tiles into shared memory, and the three
 * shapes of product.
 *
 * What:    128 threads; thread (row 0..7, col 0..15) owns queries row + 8 i and, of scores, keys col + 16 j, of a
 *          head's columns 4 col + j; j < 4, i < rows. A warp has 4 values of row and 8 of col.
 * Flow:    every tensor has the same layout in shared as in global memory, [row, column], so one copy of a tile serves
 *          both of its products.
 * Extend:  attention.h has the sizes.
 *
 *     dots      s[q,k] += sum over d of x[q,d] y[k,d]     both read along d, four d at a time
 *     rows      o[q,d] += sum over k of p[q,k] v[k,d]     p read along k, four k at a time
 *     columns   c[k,d] += sum over q of p[q,k] g[q,d]     p read across q
 *
 * Each accumulator is a chain in ascending order. `rows` is a constant at every call: all of it is unrolled into
 * registers.
 */
#pragma once

#include "backend/cuda/attention.h"
#include "backend/cuda/device.h"
#include "ops/functions.h"

#define ATT_ROWS 8 /* most rows of a thread */

struct att_owner {
    int row, col, lane, warp;
};

/* x, but the compiler does not know that it is the same each time: values that depend on it are computed again where
 * they are needed, instead of taking registers over a loop. */
RP_DEVICE int att_again(int x)
{
    RP_REMATERIALISE(x);
    return x;
}

/* Bit 0 of the lane belongs to the column and bits 1 and 2 to the row, so that two lanes whose numbers differ by 1 or 2
 * read the same address of one of the operands: such 16-byte reads take half the time. */
RP_DEVICE struct att_owner att_owner(void)
{
    struct att_owner me;
    const int thread = att_again((int)threadIdx.x);
    me.lane = thread & 31;
    me.warp = thread >> 5;
    me.row = (me.lane >> 1 & 3) | (me.warp & 1) << 2;
    me.col = (me.lane & 1) | (me.lane >> 3) << 1 | (me.warp >> 1) << 3;
    return me;
}

RP_DEVICE float4 att_read(const float *p)
{
    return *(const float4 *)(const void *)p;
}
RP_DEVICE void att_write(float *p, float4 v)
{
    *(float4 *)(void *)p = v;
}

/* ---- products ---- */

RP_DEVICE void att_clear(const int rows, float (*s)[4])
{
    RP_UNROLL
    for (int i = 0; i < rows; i++) {
        RP_UNROLL
        for (int j = 0; j < 4; j++)
            s[i][j] = 0.0f;
    }
}

/* x: row `row` of the queries, y: row `col` of the keys; `steps` columns, a multiple of 4 */
RP_DEVICE void att_dots(const int rows, const int steps, float (*s)[4], const float *x, const int ldx, const float *y, const int ldy)
{
    RP_UNROLL
    for (int d = 0; d < steps; d += 4) {
        float4 a[ATT_ROWS];
        RP_UNROLL
        for (int i = 0; i < rows; i++)
            a[i] = att_read(x + 8 * i * ldx + d);
        RP_UNROLL
        for (int j = 0; j < 4; j++) {
            const float4 b = att_read(y + 16 * j * ldy + d);
            RP_UNROLL
            for (int i = 0; i < rows; i++)
                s[i][j] = fmaf(a[i].x, b.x, s[i][j]);
            RP_UNROLL
            for (int i = 0; i < rows; i++)
                s[i][j] = fmaf(a[i].y, b.y, s[i][j]);
            RP_UNROLL
            for (int i = 0; i < rows; i++)
                s[i][j] = fmaf(a[i].z, b.z, s[i][j]);
            RP_UNROLL
            for (int i = 0; i < rows; i++)
                s[i][j] = fmaf(a[i].w, b.w, s[i][j]);
        }
    }
}

/* o[i][.] = a * v, one step of rows x 4 chains; of every second row the other way round, so that two products one after
 * the other have a factor in common: registers are read less often. */
#define ATT_STEP(rows, o, element, v)                                                                                  \
    do {                                                                                                               \
        const float4 v_ = (v);                                                                                         \
        const float factor_[4] = {v_.x, v_.y, v_.z, v_.w};                                                             \
        RP_UNROLL                                                                                                      \
        for (int i = 0; i < (rows); i++) {                                                                             \
            const float a_ = (element);                                                                                \
            RP_UNROLL                                                                                                  \
            for (int n_ = 0; n_ < 4; n_++) {                                                                           \
                const int j_ = i % 2 ? 3 - n_ : n_;                                                                    \
                (o)[i][j_] = fmaf(a_, factor_[j_], (o)[i][j_]);                                                        \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* p: row `row` of the probabilities, v: column 4 col of the first of `steps` keys */
RP_DEVICE void att_rows(const int rows, const int steps, float (*o)[4], const float *p, const int ldp, const float *v, const int ldv)
{
    RP_UNROLL
    for (int k = 0; k < steps; k += 4) {
        float4 a[ATT_ROWS];
        RP_UNROLL
        for (int i = 0; i < rows; i++)
            a[i] = att_read(p + 8 * i * ldp + k);
        ATT_STEP(rows, o, a[i].x, att_read(v + (k + 0) * ldv));
        ATT_STEP(rows, o, a[i].y, att_read(v + (k + 1) * ldv));
        ATT_STEP(rows, o, a[i].z, att_read(v + (k + 2) * ldv));
        ATT_STEP(rows, o, a[i].w, att_read(v + (k + 3) * ldv));
    }
}

/* Keys 4 row + i % 4 + 32 (i / 4), i < 8. p: column 4 row of the first of `steps` queries, g: column 4 col */
RP_DEVICE void att_columns(const int steps, float (*c)[4], const float *p, const int ldp, const float *g, const int ldg)
{
    RP_UNROLL
    for (int q = 0; q < steps; q++) {
        const float4 x = att_read(p + q * ldp), y = att_read(p + q * ldp + 32);
        const float a[8] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
        ATT_STEP(8, c, a[i], att_read(g + q * ldg));
    }
}

/* e^x if bit 0 of `on` is set, else +0; without a branch, so that several are interleaved. A masked score may be above
 * 88. */
RP_DEVICE float att_exp(float x, uint32_t on)
{
    return r_float(r_bits(r_exp_below(x)) & (0u - (on & 1u)));
}

/* ---- tiles ---- */

/* The part of a tensor, from element `at` on, that is copied to a tile; +0 outside of it. whole: columns come in fours,
 * each 16-byte aligned. */
struct att_part {
    const float *from;
    int at, ld, rows, cols, whole;
};

/* Float4s of a tile per thread, and the row and column of number n of this thread; quads: float4s of a row, a power of
 * two. */
#define ATT_FOURS(height, quads) ((height) * (quads) / RP_ATT_THREADS)
#define ATT_ROW(n, quads) (((int)threadIdx.x + (n) * RP_ATT_THREADS) / (quads))
#define ATT_COLUMN(quads) ((int)threadIdx.x % (quads) * 4)

/* Without `whole`: one float at a time. */
RP_DEVICE void att_copy_ragged(const int height, const int quads, float *to, const int pitch, const struct att_part *p)
{
    RP_NO_UNROLL
    for (int n = (int)threadIdx.x; n < height * quads * 4; n += RP_ATT_THREADS) {
        const int row = n / (4 * quads), x = n % (4 * quads), inside = row < p->rows && x < p->cols;
#if RP_ASYNC
        rp_copy4_or_zero(to + row * pitch + x, p->from + (inside ? p->at + row * p->ld + x : 0), inside);
#else
        to[row * pitch + x] = inside ? p->from[p->at + row * p->ld + x] : 0.0f;
#endif
    }
}

#if RP_ASYNC
/* Start copying a tile of height x 4 quads floats. */
RP_DEVICE void att_copy(const int height, const int quads, float *to, const int pitch, const struct att_part *p)
{
    const int first = ATT_ROW(0, quads), x = ATT_COLUMN(quads);
    const int at = p->at + first * p->ld + x, left = x < p->cols ? p->rows - first : 0;
    const rp_smem here = rp_smem_of(to + first * pitch + x);
    if (!p->whole) {
        att_copy_ragged(height, quads, to, pitch, p);
        return;
    }
    RP_UNROLL
    for (int n = 0; n < ATT_FOURS(height, quads); n++) {
        const int down = n * RP_ATT_THREADS / quads, inside = down < left;
        rp_copy16_or_zero_to(here, down * pitch, p->from + (inside ? at + down * p->ld : 0), inside);
    }
}
#else
#define rp_copy_commit() ((void)0)
#define rp_copy_wait(n) ((void)0)

/* Four floats of a row, from column x on. */
RP_DEVICE float4 att_four(const struct att_part *p, int row, int x)
{
    const float *from = p->from + (p->at + row * p->ld + x);
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= p->rows)
        return v;
    if (p->whole)
        return x < p->cols ? att_read(from) : v;
    v.x = x < p->cols ? from[0] : 0.0f;
    v.y = x + 1 < p->cols ? from[1] : 0.0f;
    v.z = x + 2 < p->cols ? from[2] : 0.0f;
    v.w = x + 3 < p->cols ? from[3] : 0.0f;
    return v;
}

RP_DEVICE void att_load(const int height, const int quads, float4 *v, const struct att_part *p)
{
    RP_UNROLL
    for (int n = 0; n < ATT_FOURS(height, quads); n++)
        v[n] = att_four(p, ATT_ROW(n, quads), ATT_COLUMN(quads));
}
RP_DEVICE void att_store(const int height, const int quads, float *to, const int pitch, const float4 *v)
{
    RP_UNROLL
    for (int n = 0; n < ATT_FOURS(height, quads); n++)
        att_write(to + ATT_ROW(n, quads) * pitch + ATT_COLUMN(quads), v[n]);
}
RP_DEVICE void att_copy(const int height, const int quads, float *to, const int pitch, const struct att_part *p)
{
    float4 v[ATT_FOURS(64, 16)];
    if (!p->whole) {
        att_copy_ragged(height, quads, to, pitch, p);
        return;
    }
    att_load(height, quads, v, p);
    att_store(height, quads, to, pitch, v);
}
#endif

/* ---- out ---- */

/* Up to four floats of a row that has `cols` left. */
RP_DEVICE void att_put(float *to, float4 v, int cols, int whole)
{
    if (whole) {
        if (cols > 0)
            att_write(to, v);
        return;
    }
    if (cols > 0)
        to[0] = v.x;
    if (cols > 1)
        to[1] = v.y;
    if (cols > 2)
        to[2] = v.z;
    if (cols > 3)
        to[3] = v.w;
}
/* The end of four chains. */
RP_DEVICE float4 att_ended(const float *s)
{
    return make_float4(s[0] + 0.0f, s[1] + 0.0f, s[2] + 0.0f, s[3] + 0.0f);
}

/* ---- keys ---- */

/* The first key of query `row` of a sample, whose rows begin at `sample` * seq in `first`; 0 without it, and past the
 * sequence. */
RP_DEVICE int att_first(const int32_t *first, int sample, int seq, int row)
{
    return first && row < seq ? first[(size_t)sample * (size_t)seq + (size_t)row] : 0;
}

/* The bits j < 4 of `on` for keys 16 j that are not before key `first`. */
RP_DEVICE uint32_t att_from(uint32_t on, int first)
{
    return first <= 0 ? on : first > 48 ? 0 : on & (~0u << (first + 15) / 16);
}

/* One more than the last key of `keys` that is attended to; NULL: all are. */
RP_DEVICE int att_keys(const uint8_t *keys, int seq, int lane)
{
    int last = 0;
    if (!keys)
        return seq;
    for (int k = lane; k < seq; k += RP_WARP)
        last = keys[k] ? k + 1 : last;
    RP_UNROLL
    for (int x = 16; x > 0; x /= 2) {
        const int other = __shfl_xor_sync(RP_ALL_LANES, last, x);
        last = other > last ? other : last;
    }
    return last;
}
