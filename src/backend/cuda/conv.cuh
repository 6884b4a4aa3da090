/* The operands of a convolution as a GEMM: elements are gathered from images while they are copied to shared memory.
 *
 *   forward   A PIXELS    rows: pixels of y; k = (tap, channel of x)        B FILTERS   columns: channels of y; the same k, as w has it
 *   dgrad     A PIXELS    rows: pixels of x; k = (tap, channel of y)        B TAPS      columns: channels of x; the same k
 *   wgrad     A ROWS      rows: channels of y; k = pixels of y              B WINDOWS   columns: (tap, channel of x); k = pixels of y
 *
 * PIXELS and FILTERS are copied along k, 4 bytes at a time; the others along their rows, 16 bytes at a time or (TAPS1, ROWS1, WINDOWS1)
 * 4. What lies outside of the image is +0 in shared memory. Rows after the last one of FILTERS, TAPS, ROWS and WINDOWS repeat the last one;
 * their results are not written. k is divided into tap and channel, or into image, row and column, for each copy: a division is two
 * instructions.
 *
 * PIXELS: a table in shared memory has an element for each row of the tile:
 *   x  its offset in the gathered image, of the first tap: modulo 2^32, as the tap may be outside
 *   y  bits 0 to 14: rows of the window that are outside of the image; 16 to 30: columns; bit 31 is set: a copy that needs it copies
 *      nothing. A row that does not exist has every bit set.
 *   w  the row of C
 */
#pragma once

#include "backend/cuda/gemm_copy.cuh"

#define NOTHING 0x80000000u

struct conv_side {
    struct gemm_side g;              /* its places in a stage, and for ROWS all */
    int k;                           /* of the thread's first copy of the next tile */
    const uint4 *rows;               /* PIXELS: the table, from this thread's first row on */
    unsigned first;                  /* the offset of the thread's row or column for k = 0; WINDOWS: of its channel */
    unsigned channels, by_channels, taps_w, by_taps_w; /* PIXELS, TAPS: k = (tap_h * taps_w + tap_w) * channels + channel */
    unsigned pitch_h, pitch_w, pitch_channel;
    int top, left;                   /* WINDOWS: this thread's tap, from the pixel that output pixel 0 begins with */
    const struct rp_conv_wgrad_args *w;
};

/* The copies of the GEMM that go to the same places of a stage. */
RP_DEVICE enum rp_gemm_how conv_form(enum rp_gemm_how how)
{
    return how == RP_GEMM_PIXELS || how == RP_GEMM_FILTERS                          ? RP_GEMM_K
           : how == RP_GEMM_TAPS || how == RP_GEMM_ROWS || how == RP_GEMM_WINDOWS ? RP_GEMM_R
                                                                                    : RP_GEMM_R1;
}
RP_DEVICE int conv_width(enum rp_gemm_how how) /* elements of a copy along rows */
{
    return conv_form(how) == RP_GEMM_R ? 4 : 1;
}
RP_DEVICE unsigned conv_divide(unsigned n, unsigned by)
{
    return __umulhi(n + (by == ~0u), by);
}

/* ---- the first copies ---- */

/* rows: of the operand, those of the tile begin with `row`; k: the first of the tile */
RP_DEVICE void conv_begin(struct conv_side *x, const float *base, int64_t pitch, int tile_rows, int threads, enum rp_gemm_how how, int row,
                          int rows, int k)
{
    gemm_begin(&x->g, base, pitch, 1, tile_rows, threads, conv_form(how), row, rows, k);
    x->k = k + x->g.k;
}

RP_DEVICE void conv_begin_terms(struct conv_side *x, const struct rp_conv_args *g, const struct rp_conv_part *p)
{
    x->channels = (unsigned)g->channels;
    x->by_channels = g->by_channels;
    x->taps_w = (unsigned)p->taps_w;
    x->by_taps_w = p->by_taps_w;
}
RP_DEVICE void conv_begin_pixels(struct conv_side *x, const struct rp_conv_args *g, const struct rp_conv_part *p, const uint4 *table,
                                 int tile_rows, int threads, int k)
{
    conv_begin(x, g->a, 0, tile_rows, threads, RP_GEMM_PIXELS, 0, tile_rows, k);
    conv_begin_terms(x, g, p);
    x->rows = table + x->g.row;
    x->pitch_w = (unsigned)(g->direction * g->channels);
    x->pitch_h = x->pitch_w * (unsigned)g->width;
}
RP_DEVICE void conv_begin_taps(struct conv_side *x, const struct rp_conv_args *g, const struct rp_conv_part *p, int tile_rows, int threads,
                               enum rp_gemm_how how, int row, int k)
{
    const int last = g->columns - conv_width(how);
    conv_begin(x, g->b, 0, tile_rows, threads, how, row, g->columns, k);
    conv_begin_terms(x, g, p);
    x->first = (unsigned)((p->tap_top * g->kernel_w + p->tap_left) * g->columns + (x->g.row < last ? x->g.row : last));
    x->pitch_w = (unsigned)(g->tap_step * g->columns);
    x->pitch_h = x->pitch_w * (unsigned)g->kernel_w;
    x->pitch_channel = (unsigned)(g->taps * g->columns);
}
RP_DEVICE void conv_begin_rows(struct conv_side *x, const struct rp_conv_wgrad_args *g, int tile_rows, int threads, enum rp_gemm_how how,
                               int row, int k)
{
    const int last = g->m - conv_width(how);
    conv_begin(x, g->dy, g->m, tile_rows, threads, how, row, g->m, k);
    x->g.from -= x->g.row > last ? 4l * (x->g.row - last) : 0;
}
RP_DEVICE void conv_begin_windows(struct conv_side *x, const struct rp_conv_wgrad_args *g, int tile_rows, int threads,
                                  enum rp_gemm_how how, int row, int k)
{
    const int last = g->n - conv_width(how);
    conv_begin(x, g->x, 0, tile_rows, threads, how, row, g->n, k);
    const int column = x->g.row < last ? x->g.row : last, tap = column / g->conv.in_c, tap_h = tap / g->conv.kernel_w;
    x->w = g;
    x->first = (unsigned)(column - tap * g->conv.in_c);
    x->top = tap_h - g->conv.pad_top;
    x->left = tap - tap_h * g->conv.kernel_w - g->conv.pad_left;
}

/* ---- copies ---- */

/* The tap and channel of term k >= 0: `needs` are bits of the table. Returns the offset. */
RP_DEVICE unsigned conv_term(const struct conv_side *x, unsigned k, unsigned pitch_channel, unsigned *needs)
{
    const unsigned tap = conv_divide(k, x->by_channels), h = tap * x->by_taps_w >> 16, w = tap - h * x->taps_w;
    *needs = 1u << h | 65536u << w;
    return h * x->pitch_h + w * x->pitch_w + (k - tap * x->channels) * pitch_channel;
}

RP_DEVICE void conv_copy_pixels(struct conv_side *x, float *held, float *stage, int tile_rows, int threads, int guard, int front)
{
    const int passes = tile_rows * DEPTH / threads / HALVES;
    unsigned offset[HALVES], needs[HALVES];
    uint4 row[MOST];
    rp_smem to = rp_smem_of(stage + x->g.to);
    RP_OPAQUE_SMEM(to);
    RP_UNROLL
    for (int pass = 0; pass < passes; pass++) /* all before the first copy: ptxas separates loads of shared memory from copies to it */
        row[pass] = x->rows[pass * x->g.row_pass];
    RP_UNROLL
    for (int half = 0; half < HALVES; half++) {
        const int is_front = guard && x->g.k + 8 * half < front;
        offset[half] = conv_term(x, is_front ? 0u : (unsigned)(x->k + 8 * half), 1, &needs[half]);
        if (is_front)
            needs[half] = NOTHING;
    }
    RP_UNROLL
    for (int pass = 0; pass < passes; pass++) {
        RP_UNROLL
        for (int half = 0; half < HALVES; half++, held++) {
            const int inside = !(row[pass].y & needs[half]);
            const unsigned at = inside ? row[pass].x + offset[half] : 0;
            gemm_copy_one(held, to, gemm_place(&x->g, pass * HALVES + half, tile_rows, threads, RP_GEMM_K), x->g.base + at, 0, 1, inside);
        }
    }
    x->k += DEPTH;
}

RP_DEVICE void conv_copy_filters(struct conv_side *x, float *held, float *stage, int tile_rows, int threads, int guard, int front)
{
    rp_smem to = rp_smem_of(stage + x->g.to);
    RP_OPAQUE_SMEM(to);
    RP_UNROLL
    for (int pass = 0; pass < tile_rows * DEPTH / threads / HALVES; pass++) {
        const int row = x->g.row + pass * x->g.row_pass, last = x->g.rows - 1;
        const float *from = x->g.base + ((row < last ? row : last) * (int)x->pitch_h + x->k); /* k may be < 0 */
        RP_UNROLL
        for (int half = 0; half < HALVES; half++, held++) {
            const int inside = !guard || x->g.k + 8 * half >= front;
            gemm_copy_one(held, to, gemm_place(&x->g, pass * HALVES + half, tile_rows, threads, RP_GEMM_K),
                          inside ? from + 8 * half : x->g.base, 0, guard, inside);
        }
    }
    x->k += DEPTH;
}

RP_DEVICE void conv_copy_taps(struct conv_side *x, float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how, int guard,
                              int front)
{
    const enum rp_gemm_how form = conv_form(how);
    const int width = conv_width(how);
    rp_smem to = rp_smem_of(stage + x->g.to);
    RP_OPAQUE_SMEM(to);
    RP_UNROLL
    for (int i = 0; i < gemm_copies(tile_rows, threads, form); i++, held += width) {
        const int inside = !guard || x->g.k + i * x->g.k_pass >= front;
        unsigned needs, at = x->first + conv_term(x, inside ? (unsigned)(x->k + i * x->g.k_pass) : 0u, x->pitch_channel, &needs);
        (void)needs;
        gemm_copy_one(held, to, gemm_place(&x->g, i, tile_rows, threads, form), x->g.base + (inside ? at : 0), width == 4, guard, inside);
    }
    x->k += DEPTH;
}

RP_DEVICE void conv_copy_windows(struct conv_side *x, float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how,
                                 int guard, int front)
{
    const enum rp_gemm_how form = conv_form(how);
    const struct rp_conv *c = &x->w->conv;
    const int width = conv_width(how);
    rp_smem to = rp_smem_of(stage + x->g.to);
    RP_OPAQUE_SMEM(to);
    RP_UNROLL
    for (int i = 0; i < gemm_copies(tile_rows, threads, form); i++, held += width) {
        const int is_front = guard && x->g.k + i * x->g.k_pass < front;
        const unsigned row = is_front ? 0u : (unsigned)(x->k + i * x->g.k_pass), line = conv_divide(row, x->w->by_out_w);
        const unsigned image = conv_divide(line, x->w->by_out_h);
        const unsigned h = (line - image * (unsigned)c->out_h) * (unsigned)c->stride + (unsigned)x->top;
        const unsigned w = (row - line * (unsigned)c->out_w) * (unsigned)c->stride + (unsigned)x->left;
        const int inside = !is_front && h < (unsigned)c->in_h && w < (unsigned)c->in_w;
        const unsigned at = ((image * (unsigned)c->in_h + h) * (unsigned)c->in_w + w) * (unsigned)c->in_c + x->first;
        gemm_copy_one(held, to, gemm_place(&x->g, i, tile_rows, threads, form), x->g.base + (inside ? at : 0), width == 4, 1, inside);
    }
    x->k += DEPTH;
}

RP_DEVICE void conv_copy(struct conv_side *x, float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how, int guard,
                         int front)
{
    if (how == RP_GEMM_PIXELS)
        conv_copy_pixels(x, held, stage, tile_rows, threads, guard, front);
    else if (how == RP_GEMM_FILTERS)
        conv_copy_filters(x, held, stage, tile_rows, threads, guard, front);
    else if (how == RP_GEMM_TAPS || how == RP_GEMM_TAPS1)
        conv_copy_taps(x, held, stage, tile_rows, threads, how, guard, front);
    else if (how == RP_GEMM_WINDOWS || how == RP_GEMM_WINDOWS1)
        conv_copy_windows(x, held, stage, tile_rows, threads, how, guard, front);
    else
        gemm_copy(&x->g, held, stage, tile_rows, threads, conv_form(how), guard, front);
}

#if !RP_ASYNC
RP_DEVICE void conv_put(const struct conv_side *x, const float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how)
{
    gemm_put(&x->g, held, stage, tile_rows, threads, conv_form(how));
}
#endif

#define GEMM_SIDE conv_side
#define GEMM_COPY conv_copy
#define GEMM_PUT conv_put
#include "backend/cuda/gemm.cuh"
