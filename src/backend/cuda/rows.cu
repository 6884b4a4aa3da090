/* Rows: embeddings, layer norm and its gradient, dropout, gathering rows and adding them up.
 *
 * Bytes moved, with N = rows * width * 4:
 *   layer norm        reads N or, with a residual, 2 N, writes 2 N: a warp keeps its row in registers between the three
 *                     passes.
 *   its gradient      reads dy and xhat and writes dz and dx, 4 N. The two sums of a row must be known before its first
 *                     element is written, and a column sum needs 64 rows of one column in one thread; so layernorm_sums
 *                     reads the rows, and layernorm_columns reads them again from the L2 cache: the host cuts the rows
 *                     into parts that fit there. Alternatives cost more: one pass that writes dz and one that adds up
 *                     columns read 3 N more and forbid dz == dy; 64 rows do not fit into one block, and with 4096 rows
 *                     half of an H100 would idle.
 *   everything else   each tensor once. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/stored.cuh"
#include "backend/cuda/tree.cuh"
#include "ops/ops.h"
#include "ops/philox.h"

/* ---- pieces of 128 columns, one for each warp ---- */

struct piece {
    long row;
    int column; /* of this lane's first element */
    long at;    /* of the same in the tensor */
    int n;      /* elements of the row from this one on */
};

/* 0: this warp has no piece. */
RP_DEVICE int piece_of(struct piece *p, int rows, int width)
{
    unsigned pieces = ((unsigned)width + RP_PIECE - 1) / RP_PIECE, number = rp_warp();
    p->row = (long)(number / pieces);
    p->column = (int)(number % pieces) * RP_PIECE + 4 * rp_lane();
    p->at = p->row * width + p->column;
    p->n = width - p->column;
    return p->row < rows;
}

RP_KERNEL(embed_forward)
{
    struct piece p;
    if (!piece_of(&p, a.rows, a.width))
        return;
    long word = (long)a.ids[p.row] * a.width + p.column;
    long position = (a.position_ids ? (long)a.position_ids[p.row] : (long)((unsigned)p.row % (unsigned)a.seq)) * a.width + p.column;
    float4 sum = rp_stored_get4(a.word + word, p.n, a.wide);
    if (a.type)
        sum = rp_add4(sum, rp_stored_get4(a.type + ((long)a.type_ids[p.row] * a.width + p.column), p.n, a.wide));
    rp_stored_put4(a.z + p.at, rp_add4(sum, rp_stored_get4(a.position + position, p.n, a.wide)), p.n, a.wide);
}

RP_KERNEL(gather_rows)
{
    struct piece p;
    if (piece_of(&p, a.n, a.width))
        rp_stored_put4(a.y + p.at, rp_stored_get4(a.x + (long)a.index[p.row] * a.width + p.column, p.n, a.wide), p.n, a.wide);
}

#ifndef RP_STORE
RP_KERNEL(copy_columns)
{
    struct piece p;
    if (piece_of(&p, a.rows, a.cols))
        rp_put4(a.dst + (p.row * a.ldd + p.column), rp_get4(a.src + (p.row * a.lds + p.column), p.n, a.wide), p.n, a.wide);
}
#endif

RP_KERNEL(bias_add)
{
    struct piece p;
    if (piece_of(&p, a.rows, a.width))
        rp_stored_put4(a.y + p.at, rp_add4(rp_get4(a.x + p.at, p.n, a.wide), rp_get4(a.bias + p.column, p.n, a.wide)), p.n, a.wide);
}

/* What a layer norm keeps: strict fp32 xhat, other stores the sum that is normalised, with its mean. */
#ifdef RP_STORE
#define MEAN(row) a.mean[row]
#define RSTD(row) a.rstd[row]
#define NORMALISED(kept, mean, rstd) (((kept) - (mean)) * (rstd))
/* past the end h is not 0 */
#define NORM_PRODUCT(dh, h, n, wide) ((wide) ? rp_mul4(dh, h) : rp_first4(rp_mul4(dh, h), n))
#else
#define MEAN(row) 0.0f
#define RSTD(row) 0.0f
#define NORMALISED(kept, mean, rstd) ((void)(mean), (void)(rstd), (kept))
#define NORM_PRODUCT(dh, h, n, wide) rp_mul4(dh, h)
#endif
RP_DEVICE float4 normalised4(float4 v, float mean, float rstd)
{
    return make_float4(NORMALISED(v.x, mean, rstd), NORMALISED(v.y, mean, rstd), NORMALISED(v.z, mean, rstd),
                       NORMALISED(v.w, mean, rstd));
}

RP_KERNEL(layernorm_apply)
{
    const int wide = RP_BASE.wide;
    struct piece p;
    if (!piece_of(&p, RP_BASE.rows, RP_BASE.width))
        return;
    float4 h = normalised4(rp_stored_get4(RP_BASE.kept + p.at, p.n, wide), MEAN(p.row), RSTD(p.row));
    float4 g = rp_get4(RP_BASE.gamma + p.column, p.n, wide), b = rp_get4(RP_BASE.beta + p.column, p.n, wide);
    rp_stored_put4(RP_BASE.y + p.at, make_float4(fmaf(h.x, g.x, b.x), fmaf(h.y, g.y, b.y), fmaf(h.z, g.z, b.z), fmaf(h.w, g.w, b.w)),
                   p.n, wide);
}

/* ---- dropout ---- */

/* A row's place in the counters of its site. */
struct draw {
    uint32_t quad, sample; /* quad: e / 4 of its first element */
};
RP_DEVICE struct draw draw_of(const struct rp_dropout *d, long row, int width)
{
    uint32_t sample = (uint32_t)row / (uint32_t)d->rows_per_sample, in_sample = (uint32_t)row - sample * (uint32_t)d->rows_per_sample;
    struct draw w = {in_sample * (uint32_t)(rp_mask_stride(width) / 4), d->first_sample + sample};
    return w;
}

/* Bit k: element column + k of the row is kept. n: elements of the row from `column` on. */
RP_DEVICE unsigned decide4(const struct rp_dropout *d, struct draw w, int column, int n)
{
    uint32_t x[4] = {w.quad + (uint32_t)column / 4u, w.sample, d->site, d->step};
    rp_philox(x, d->seed);
    unsigned kept = 0;
    RP_UNROLL
    for (int k = 0; k < 4; k++)
        kept |= (unsigned)(k < n && x[k] >= d->threshold) << k;
    return kept;
}

RP_DEVICE float4 dropped(float4 v, unsigned kept, float scale)
{
    return make_float4(kept & 1 ? v.x * scale : 0.0f, kept & 2 ? v.y * scale : 0.0f, kept & 4 ? v.z * scale : 0.0f,
                       kept & 8 ? v.w * scale : 0.0f);
}

/* Eight lanes' decisions are one word of the mask. All lanes of the warp take part. */
RP_DEVICE void put_decisions(uint8_t *mask, unsigned kept, long row, int column, int width)
{
    unsigned word = kept << (4 * (rp_lane() & 7));
    word |= __shfl_xor_sync(RP_ALL_LANES, word, 1);
    word |= __shfl_xor_sync(RP_ALL_LANES, word, 2);
    word |= __shfl_xor_sync(RP_ALL_LANES, word, 4);
    if ((rp_lane() & 7) == 0)
        *(uint32_t *)(void *)(mask + row * (rp_mask_stride(width) / 8) + column / 8) = word;
}

RP_DEVICE unsigned get_decisions(const uint8_t *mask, long row, int column, int width)
{
    return (unsigned)mask[row * (rp_mask_stride(width) / 8) + column / 8] >> (column & 4);
}

RP_KERNEL(dropout_forward)
{
    struct piece p;
    if (!piece_of(&p, a.rows, a.width))
        return;
    float4 v = rp_stored_get4(a.x + p.at, p.n, a.wide);
    if (a.drop.threshold) {
        unsigned kept = decide4(&a.drop, draw_of(&a.drop, p.row, a.width), p.column, p.n);
        put_decisions(a.mask, kept, p.row, p.column, a.width);
        v = dropped(v, kept, a.drop.scale);
    }
    rp_stored_put4(a.y + p.at, v, p.n, a.wide);
}

RP_KERNEL(dropout_backward)
{
    struct piece p;
    if (!piece_of(&p, a.rows, a.width))
        return;
    float4 v = rp_stored_get4(a.dy + p.at, p.n, a.wide);
    if (a.drop.threshold)
        v = dropped(v, get_decisions(a.mask, p.row, p.column, a.width), a.drop.scale);
    rp_stored_put4(a.dx + p.at, v, p.n, a.wide);
}

/* ---- layer norm ---- */

/* A row as one lane sees it; its pieces are 128 columns apart. */
struct norm_row {
    long row, at; /* at: this lane's first element in the tensor */
    int first, n; /* its first column, and the columns from there to the end */
};
/* 0: this warp has none. */
RP_DEVICE int norm_row_of(struct norm_row *r, int rows, int width)
{
    r->row = rp_warp();
    r->first = 4 * rp_lane();
    r->at = r->row * width + r->first;
    r->n = width - r->first;
    return r->row < rows;
}

/* Decides columns first + j .. first + j + 3 and writes the decisions to the mask. */
RP_DEVICE unsigned norm_decide(const struct rp_layernorm_forward_args *a, const struct norm_row *r, struct draw w, int j)
{
    unsigned kept = decide4(&a->drop, w, r->first + j, r->n - j);
    put_decisions(a->mask, kept, r->row, r->first + j, a->width);
    return kept;
}

/* z - mean for the first n elements, +0 for the others. */
RP_DEVICE float4 norm_centred(float4 z, float mean, int n, int wide)
{
    return rp_first4(make_float4(z.x - mean, z.y - mean, z.z - mean, z.w - mean), wide && n > 0 ? 4 : n);
}

/* d = z - mean -> xhat, which strict fp32 keeps, and y. gamma, beta: of this piece. */
RP_DEVICE void norm_output(rp_stored *y, rp_stored *xhat, const float *gamma, const float *beta, float4 d, float rstd, int n, int wide)
{
    float4 g = rp_get4(gamma, n, wide), b = rp_get4(beta, n, wide);
    float4 h = make_float4(d.x * rstd, d.y * rstd, d.z * rstd, d.w * rstd);
#ifdef RP_STORE
    (void)xhat;
#else
    rp_put4(xhat, h, n, wide);
#endif
    rp_stored_put4(y, make_float4(fmaf(h.x, g.x, b.x), fmaf(h.y, g.y, b.y), fmaf(h.z, g.z, b.z), fmaf(h.w, g.w, b.w)), n, wide);
}

/* Aligned rows of at most KEPT pieces, which stay in registers. */
#define KEPT (RP_NORM_KEPT / RP_PIECE)

RP_DEVICE void norm_add_residual(float4 z[KEPT], const rp_stored *residual, int n)
{
    RP_UNROLL
    for (int half = 0; half < KEPT; half += KEPT / 2) {
        float4 v[KEPT / 2];
        RP_UNROLL
        for (int c = 0; c < KEPT / 2; c++)
            v[c] = rp_stored_get4(residual + (half + c) * RP_PIECE, n - (half + c) * RP_PIECE, 1);
        RP_UNROLL
        for (int c = 0; c < KEPT / 2; c++)
            z[half + c] = rp_rounded4(rp_add4(z[half + c], v[c]));
    }
}

/* z of the row. */
RP_DEVICE void norm_input(float4 z[KEPT], const struct rp_layernorm_forward_args *a, const struct norm_row *r)
{
    const rp_stored *x = a->x + r->at;
    RP_UNROLL
    for (int c = 0; c < KEPT; c++) /* on their way while the decisions are made */
        z[c] = rp_stored_get4(x + c * RP_PIECE, r->n - c * RP_PIECE, 1);
    if (a->drop.threshold) {
        struct draw w = draw_of(&a->drop, r->row, a->width);
        unsigned kept = 0; /* 4 bits for each piece */
        RP_NO_UNROLL
        for (int c = 0; c * RP_PIECE < a->width; c++)
            kept |= norm_decide(a, r, w, c * RP_PIECE) << 4 * c;
        RP_UNROLL
        for (int c = 0; c < KEPT; c++)
            z[c] = dropped(z[c], kept >> 4 * c, a->drop.scale);
    }
    if (a->residual)
        norm_add_residual(z, a->residual + r->at, r->n);
    if (a->z) {
        RP_UNROLL
        for (int c = 0; c < KEPT; c++)
            rp_stored_put4(a->z + r->at + c * RP_PIECE, z[c], r->n - c * RP_PIECE, 1);
    }
#ifdef RP_STORE
    RP_UNROLL
    for (int c = 0; c < KEPT; c++)
        rp_stored_put4(a->kept + r->at + c * RP_PIECE, z[c], r->n - c * RP_PIECE, 1);
#endif
}

#ifdef RP_STORE
#define PUT_MEAN(row, x) (a.mean[row] = (x))
#else
#define PUT_MEAN(row, x) ((void)0)
#endif

RP_KERNEL(layernorm_kept)
{
    struct norm_row r;
    float4 z[KEPT], sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (!norm_row_of(&r, RP_BASE.rows, RP_BASE.width))
        return;
    norm_input(z, &RP_BASE, &r);
    RP_UNROLL
    for (int c = 0; c < KEPT; c++)
        sum = rp_add4(sum, z[c]);
    float mean = rp_sum128(sum) * RP_BASE.inv;
    sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    RP_UNROLL
    for (int c = 0; c < KEPT; c++) {
        z[c] = norm_centred(z[c], mean, r.n - c * RP_PIECE, 1);
        sum = rp_add4(sum, rp_mul4(z[c], z[c]));
    }
    float var = rp_sum128(sum) * RP_BASE.inv, rstd = 1.0f / sqrtf(var + RP_BASE.eps);
    if (rp_lane() == 0) {
        RP_BASE.rstd[r.row] = rstd;
        PUT_MEAN(r.row, mean);
    }
    rp_stored *y = RP_BASE.y + r.at, *xhat = RP_BASE.kept + r.at;
    const float *gamma = RP_BASE.gamma + r.first, *beta = RP_BASE.beta + r.first;
    RP_UNROLL
    for (int c = 0; c < KEPT; c++)
        norm_output(y + c * RP_PIECE, xhat + c * RP_PIECE, gamma + c * RP_PIECE, beta + c * RP_PIECE, z[c], rstd, r.n - c * RP_PIECE, 1);
}

/* Any rows: z is what is kept, in strict fp32 until its sums are known. */
RP_KERNEL(layernorm_forward)
{
    struct norm_row r;
    struct draw w = {0, 0};
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const int wide = RP_BASE.wide;
    if (!norm_row_of(&r, RP_BASE.rows, RP_BASE.width))
        return;
    if (RP_BASE.drop.threshold)
        w = draw_of(&RP_BASE.drop, r.row, RP_BASE.width);
    for (int j = 0; j < RP_BASE.width; j += RP_PIECE) {
        float4 v = rp_stored_get4(RP_BASE.x + r.at + j, r.n - j, wide);
        if (RP_BASE.drop.threshold)
            v = dropped(v, norm_decide(&RP_BASE, &r, w, j), RP_BASE.drop.scale);
        if (RP_BASE.residual)
            v = rp_rounded4(rp_add4(v, rp_stored_get4(RP_BASE.residual + r.at + j, r.n - j, wide)));
        if (RP_BASE.z)
            rp_stored_put4(RP_BASE.z + r.at + j, v, r.n - j, wide);
        rp_stored_put4(RP_BASE.kept + r.at + j, v, r.n - j, wide);
        sum = rp_add4(sum, v);
    }
    float mean = rp_sum128(sum) * RP_BASE.inv;
    sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int j = 0; j < r.n; j += RP_PIECE) {
        float4 d = norm_centred(rp_stored_get4(RP_BASE.kept + r.at + j, r.n - j, wide), mean, r.n - j, wide);
        sum = rp_add4(sum, rp_mul4(d, d));
    }
    float var = rp_sum128(sum) * RP_BASE.inv, rstd = 1.0f / sqrtf(var + RP_BASE.eps);
    if (rp_lane() == 0) {
        RP_BASE.rstd[r.row] = rstd;
        PUT_MEAN(r.row, mean);
    }
    for (int j = 0; j < r.n; j += RP_PIECE) {
        float4 d = norm_centred(rp_stored_get4(RP_BASE.kept + r.at + j, r.n - j, wide), mean, r.n - j, wide);
        norm_output(RP_BASE.y + r.at + j, RP_BASE.kept + r.at + j, RP_BASE.gamma + r.first + j, RP_BASE.beta + r.first + j, d, rstd, r.n - j,
                    wide);
    }
}

RP_DEVICE void norm_sums(const struct rp_layernorm_sums_args *a, long row, float mean, float rstd, int wide)
{
    float4 sum1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), sum2 = sum1;
    RP_UNROLL_BY(2)
    for (int j = 4 * rp_lane(); j < a->width; j += RP_PIECE) {
        int n = a->width - j;
        float4 dy = rp_stored_get4(a->dy + row * a->width + j, n, wide);
        float4 h = normalised4(rp_stored_get4(a->kept + row * a->width + j, n, wide), mean, rstd);
        float4 dh = rp_mul4(dy, rp_get4(a->gamma + j, n, wide));
        sum1 = rp_add4(sum1, dh);
        sum2 = rp_add4(sum2, NORM_PRODUCT(dh, h, n, wide));
    }
    float s1 = rp_sum128(sum1) * a->inv, s2 = rp_sum128(sum2) * a->inv;
    if (rp_lane() == 0)
        *(float2 *)(void *)(a->sums + 2 * row) = make_float2(s1, s2);
}

/* sums[row] = {s1, s2}; a warp for each row. */
RP_KERNEL(layernorm_sums)
{
    long row = RP_BASE.row0 + (long)rp_warp();
    if (row >= RP_BASE.end)
        return;
    if (RP_BASE.wide)
        norm_sums(&RP_BASE, row, MEAN(row), RSTD(row), 1);
    else
        norm_sums(&RP_BASE, row, MEAN(row), RSTD(row), 0);
}

#define PREFETCH 8 /* rows whose loads run ahead of the arithmetic */

/* One column of 64 rows. Pointers: at the next row. */
struct column {
    const rp_stored *dy, *add, *kept; /* add may be NULL */
    const uint32_t *mask; /* the word with the column's decision */
    rp_stored *dz, *dx;   /* dx may be NULL without dropout */
    long ld, mask_ld;
    float gamma, dgamma, dbeta, dbias;
    int bit;
};

/* The next `ahead` rows, of which n exist. about: {s1, s2, rstd, mean} of each. ahead, dropout, add: constants. */
RP_DEVICE void norm_columns(struct column *c, const float4 *about, int n, float scale, const int ahead, const int dropout, const int add)
{
    float g[PREFETCH], h[PREFETCH], more[PREFETCH];
    uint32_t kept[PREFETCH];
    RP_UNROLL
    for (int k = 0; k < ahead; k++, c->dy += c->ld, c->kept += c->ld, c->mask += c->mask_ld) {
        more[k] = add && k < n ? rp_stored_get(c->add + k * c->ld) : 0.0f;
        g[k] = k < n ? rp_stored_get(c->dy) : 0.0f;
        h[k] = k < n ? NORMALISED(rp_stored_get(c->kept), about[k].w, about[k].z) : 0.0f;
        kept[k] = dropout && k < n ? *c->mask : 0;
    }
    if (add)
        c->add += ahead * c->ld;
    RP_UNROLL
    for (int k = 0; k < ahead; k++, c->dz += c->ld) {
        float d = fmaf(-h[k], about[k].y, g[k] * c->gamma - about[k].x) * about[k].z;
        if (add)
            d = d + more[k];
        d = rp_rounded(d);
        float e = d;
        if (dropout)
            e = kept[k] >> c->bit & 1 ? rp_rounded(d * scale) : 0.0f;
        if (k < n) {
            c->dgamma = c->dgamma + g[k] * h[k];
            c->dbeta = c->dbeta + g[k];
            c->dbias = c->dbias + e;
            rp_stored_put(c->dz, d);
            if (dropout || c->dx)
                rp_stored_put(c->dx, e);
        }
        if (dropout || c->dx)
            c->dx += c->ld;
    }
}

/* 64 rows of 128 columns: a thread for each column. */
RP_KERNEL(layernorm_columns)
{
    float4 *about = RP_SHARED(float4);
    unsigned strips = ((unsigned)RP_BASE.width + blockDim.x - 1) / blockDim.x;
    long block = RP_BASE.row0 / RP_COLSUM_ROWS + (long)(blockIdx.x / strips), row0 = block * RP_COLSUM_ROWS, left = RP_BASE.end - row0;
    int column = (int)(blockIdx.x % strips * blockDim.x + threadIdx.x), rows = left < RP_COLSUM_ROWS ? (int)left : RP_COLSUM_ROWS;
    if (threadIdx.x < RP_COLSUM_ROWS) {
        long row = row0 + ((int)threadIdx.x < rows ? threadIdx.x : 0);
        float2 s = *(const float2 *)(const void *)(RP_BASE.sums + 2 * row);
        about[threadIdx.x] = make_float4(s.x, s.y, RP_BASE.rstd[row], MEAN(row));
    }
    __syncthreads();
    if (column >= RP_BASE.width)
        return;
    long at = row0 * RP_BASE.width + column, out = block * RP_BASE.width + column;
    long mask_ld = rp_mask_stride(RP_BASE.width) / 32;
    const uint32_t *mask = (const uint32_t *)(const void *)RP_BASE.mask + row0 * mask_ld + column / 32;
    struct column c = {RP_BASE.dy + at, RP_BASE.add ? RP_BASE.add + at : 0, RP_BASE.kept + at, mask, RP_BASE.dz + at,
                       RP_BASE.dx ? RP_BASE.dx + at : 0, RP_BASE.width, mask_ld, RP_BASE.gamma[column], 0.0f, 0.0f, 0.0f, column & 31};
    /* three loads for each row would take too many registers */
    const int ahead = RP_BASE.add ? PREFETCH / 2 : PREFETCH;
    for (int i = 0; i < rows; i += ahead)
        if (RP_BASE.threshold && RP_BASE.add)
            norm_columns(&c, about + i, rows - i, RP_BASE.scale, PREFETCH / 2, 1, 1);
        else if (RP_BASE.threshold)
            norm_columns(&c, about + i, rows - i, RP_BASE.scale, PREFETCH, 1, 0);
        else if (RP_BASE.add)
            norm_columns(&c, about + i, rows - i, RP_BASE.scale, PREFETCH / 2, 0, 1);
        else
            norm_columns(&c, about + i, rows - i, RP_BASE.scale, PREFETCH, 0, 0);
    RP_BASE.work[out] = c.dgamma;
    RP_BASE.work[RP_BASE.part + out] = c.dbeta;
    if (RP_BASE.bias)
        RP_BASE.work[2 * RP_BASE.part + out] = c.dbias;
}

/* ---- rows added up ---- */

/* A warp for one group and 128 columns: 8 rows at a time, in a binary counter. stack: of this thread, with a stride of
 * blockDim.x. */
RP_DEVICE void group_sum(const rp_args_row_sums *a, const struct piece *p, long first, long end, float4 *stack, int wide)
{
    const size_t stride = blockDim.x;
    int top = 0;
    for (long i = first, leaf = 0; i < end; i += RP_TREE_LEAF, leaf++) {
        float4 v[RP_TREE_LEAF];
        RP_UNROLL
        for (int k = 0; k < RP_TREE_LEAF; k++)
            v[k] = rp_stored_get4(a->src + (i + k < end ? (long)a->source[i + k] * a->width + p->column : 0), i + k < end ? p->n : 0,
                                  wide);
        RP_UNROLL
        for (int step = 1; step < RP_TREE_LEAF; step *= 2)
            RP_UNROLL
            for (int k = 0; k < RP_TREE_LEAF; k += 2 * step)
                v[k] = i + k + step < end ? rp_add4(v[k], v[k + step]) : v[k];
        for (long bit = leaf; bit & 1; bit >>= 1)
            v[0] = rp_add4(stack[(size_t)--top * stride], v[0]);
        stack[(size_t)top++ * stride] = v[0];
    }
    float4 t = stack[(size_t)--top * stride];
    while (top)
        t = rp_add4(stack[(size_t)--top * stride], t);
    float *dst = a->dst + (long)a->key[p->row] * a->width + p->column;
    rp_put4(dst, a->add ? rp_add4(rp_get4(dst, p->n, wide), t) : t, p->n, wide);
}

/* Groups of at most RP_GROUP_SMALL rows. */
RP_KERNEL(row_sums)
{
    struct piece p;
    if (!piece_of(&p, a.n, a.width))
        return;
    long first = a.start[p.row], end = a.start[p.row + 1];
    if (end - first > RP_GROUP_SMALL)
        return;
    if (a.wide)
        group_sum(&a, &p, first, end, RP_SHARED(float4) + threadIdx.x, 1);
    else
        group_sum(&a, &p, first, end, RP_SHARED(float4) + threadIdx.x, 0);
}

/* Groups of more than a.small rows, one after the other, by a block for each strip of columns. Blocks distribute the
 * groups between them; each examines as many groups at a time as it has threads. */
RP_KERNEL(row_sums_long)
{
    const int warps = (int)(blockDim.x / RP_WARP), warp = (int)(threadIdx.x / RP_WARP);
    unsigned *found = RP_SHARED(unsigned); /* one word for each warp */
    float *shared = RP_SHARED(float) + warps;
    int first = (int)blockIdx.x * a.columns;
    struct rp_tree t = {a.src + first, a.source, 0, a.width, a.columns, a.width - first};
    for (long g0 = blockIdx.y; g0 < a.n; g0 += (long)gridDim.y * blockDim.x) {
        long mine = g0 + (long)threadIdx.x * gridDim.y;
        unsigned is_long = __ballot_sync(RP_ALL_LANES, mine < a.n && a.start[mine + 1] - a.start[mine] > a.small);
        __syncthreads(); /* the words of the round before have been read */
        if (rp_lane() == 0)
            found[warp] = is_long;
        __syncthreads();
        for (int w = 0; w < warps; w++)
            for (unsigned bits = found[w]; bits; bits &= bits - 1) {
                long g = g0 + (long)(w * RP_WARP + __ffs((int)bits) - 1) * gridDim.y;
                t.source = a.source + a.start[g];
                t.rows = a.start[g + 1] - a.start[g];
                float sum = rp_tree_sum(&t, shared);
                if (rp_lane() == 0 && warp < t.columns && warp < t.inside) {
                    float *dst = a.dst + (long)a.key[g] * a.width + first + warp;
                    *dst = a.add ? *dst + sum : sum;
                }
                __syncthreads(); /* the next group uses the same shared memory */
            }
    }
}

#ifndef RP_STORE
/* Column sums from the sums of blocks of rows: block y has part y. */
RP_KERNEL(column_tree)
{
    int first = (int)blockIdx.x * RP_TREE_COLUMNS, warp = (int)(threadIdx.x / RP_WARP);
    struct rp_tree t = {a.work + (long)blockIdx.y * a.part + first, 0, a.blocks, a.width, RP_TREE_COLUMNS, a.width - first};
    float sum = rp_tree_sum(&t, RP_SHARED(float));
    if (rp_lane() == 0 && warp < RP_TREE_COLUMNS && warp < t.inside)
        a.sum[blockIdx.y][first + warp] = sum;
}
#endif
