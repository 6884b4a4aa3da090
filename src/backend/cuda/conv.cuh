/* The operands of a convolution as a GEMM: elements are gathered from images while they are copied to shared memory.
 *
 *   forward   A PIXELS    rows: pixels of y; k = (tap, channel of x)        B FILTERS   columns: channels of y; the
 *                                                                                       same k, as w has it
 *   dgrad     A PIXELS    rows: pixels of x; k = (tap, channel of y)        B TAPS      columns: channels of x; the
 *                                                                                       same k
 *   wgrad     A ROWS      rows: channels of y; k = pixels of y              B WINDOWS   columns: (tap, channel of x); k
 *                                                                                       = pixels of y
 *
 * PIXELS and FILTERS are copied along k, 4 bytes at a time; the others along their rows, 16 bytes at a time or
 * (TAPS1, ROWS1, WINDOWS1) 4. What lies outside of the image is +0 in shared memory. Rows after the last one of
 * FILTERS, TAPS, ROWS and WINDOWS repeat the last one; their results are not written. PIXELS and TAPS divide k into
 * tap and channel for each copy: a division is two instructions.
 *
 * A table in shared memory has an element for each pixel that windows begin at: of PIXELS for each row of the tile,
 * of WINDOWS for each k-step of a chain, which is divided into image, row and column there and not for each copy:
 *   x  the offset in the gathered image, of the first tap: modulo 2^32, as the tap may be outside
 *   y  bits 0 to 14: rows of the window that are outside of the image; 16 to 30: columns; bit 31 is set: a copy that
 *      needs it copies nothing. A pixel that does not exist has every bit set.
 *   w  (PIXELS) the row of C
 *
 * A thread copies several columns of the same pixels of WINDOWS: thread t has pixel t / lanes of a pass, and there the
 * columns 4 (t % lanes) to + 3 of each 4 * lanes columns. At least 8 lanes store 128 bytes without a bank conflict.
 */
#pragma once

#include "backend/cuda/gemm_copy.cuh"

#define NOTHING 0x80000000u
#define CHUNKS 4 /* of a pixel's columns, at most */

struct conv_side {
    struct gemm_side g;              /* its places in a stage, and for ROWS all */
    int k;                           /* of the thread's first copy of the next tile */
    const uint4 *rows;               /* PIXELS: the table, from this thread's first row on */
    const uint2 *pixels;             /* WINDOWS: the table, from the thread's first pixel of the next tile on */
    unsigned first;                  /* the offset of the thread's row or column for k = 0 */
    /* PIXELS, TAPS: k = (tap_h * taps_w + tap_w) * channels + channel */
    unsigned channels, by_channels, taps_w, by_taps_w;
    unsigned pitch_h, pitch_w, pitch_channel;
    unsigned tap[CHUNKS];            /* WINDOWS: of the thread's columns: the offset from the first tap */
    unsigned needs[CHUNKS];          /* and bits of the table */
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
    const int last = g->g.m - conv_width(how);
    conv_begin(x, g->g.a, g->g.m, tile_rows, threads, how, row, g->g.m, k);
    x->g.from -= x->g.row > last ? 4l * (x->g.row - last) : 0;
}

/* Threads that copy neighbouring columns of a pixel, and how often a pixel's columns and a tile's pixels take them. */
RP_DEVICE int conv_lanes(int tile_rows, int threads, enum rp_gemm_how how)
{
    return how == RP_GEMM_WINDOWS1 ? tile_rows : threads / DEPTH > 8 ? threads / DEPTH : 8;
}
RP_DEVICE int conv_chunks(int tile_rows, int threads, enum rp_gemm_how how)
{
    return tile_rows / conv_width(how) / conv_lanes(tile_rows, threads, how);
}
RP_DEVICE int conv_pixels(int tile_rows, int threads, enum rp_gemm_how how) /* of a pass */
{
    return threads / conv_lanes(tile_rows, threads, how);
}
/* The place of a copy of WINDOWS after `to`. */
RP_DEVICE int conv_place(int pass, int chunk, int tile_rows, int threads, enum rp_gemm_how how)
{
    return pass * conv_pixels(tile_rows, threads, how) * (tile_rows + RP_GEMM_PAD) +
           chunk * conv_lanes(tile_rows, threads, how) * conv_width(how);
}

/* pixels: the table, from the first of the tile on */
RP_DEVICE void conv_begin_windows(struct conv_side *x, const struct rp_conv_wgrad_args *g, const uint2 *pixels,
                                  int tile_rows, int threads, enum rp_gemm_how how, int row)
{
    const int width = conv_width(how), lanes = conv_lanes(tile_rows, threads, how), last = g->g.n - width;
    const int t = (int)threadIdx.x, pixel = t / lanes;
    x->g.base = g->g.b;
    x->g.to = pixel * (tile_rows + RP_GEMM_PAD) + t % lanes * width;
    x->pixels = pixels + pixel;
    RP_UNROLL
    for (int i = 0; i < conv_chunks(tile_rows, threads, how); i++) {
        const int own = row + (t % lanes + i * lanes) * width, column = own < last ? own : last;
        const int tap = column / g->conv.in_c, h = tap / g->conv.kernel_w, w = tap - h * g->conv.kernel_w;
        x->tap[i] = (unsigned)((h * g->conv.in_w + w) * g->conv.in_c + column - tap * g->conv.in_c);
        x->needs[i] = 1u << h | 65536u << w;
    }
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
    /* all before the first copy: ptxas separates loads of shared memory from copies to it */
    RP_UNROLL
    for (int pass = 0; pass < passes; pass++)
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

RP_DEVICE void conv_copy_windows(struct conv_side *x, float *held, float *stage, int tile_rows, int threads,
                                 enum rp_gemm_how how)
{
    const int width = conv_width(how), apart = conv_pixels(tile_rows, threads, how);
    uint2 pixel[DEPTH];
    rp_smem to = rp_smem_of(stage + x->g.to);
    RP_OPAQUE_SMEM(to);
    RP_UNROLL
    for (int pass = 0; pass < DEPTH / apart; pass++) /* all before the first copy, as above */
        pixel[pass] = x->pixels[pass * apart];
    RP_UNROLL
    for (int pass = 0; pass < DEPTH / apart; pass++) {
        RP_UNROLL
        for (int i = 0; i < conv_chunks(tile_rows, threads, how); i++, held += width) {
            const int inside = !(pixel[pass].y & x->needs[i]);
            const unsigned at = inside ? pixel[pass].x + x->tap[i] : 0;
            const int place = conv_place(pass, i, tile_rows, threads, how);
            gemm_copy_one(held, to, place, x->g.base + at, width == 4, 1, inside);
        }
    }
    x->pixels += DEPTH;
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
        conv_copy_windows(x, held, stage, tile_rows, threads, how);
    else
        gemm_copy(&x->g, held, stage, tile_rows, threads, conv_form(how), guard, front);
}

#if !RP_ASYNC
RP_DEVICE void conv_put(const struct conv_side *x, const float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how)
{
    const int is_wide = how == RP_GEMM_WINDOWS;
    if (!is_wide && how != RP_GEMM_WINDOWS1) {
        gemm_put(&x->g, held, stage, tile_rows, threads, conv_form(how));
        return;
    }
    RP_UNROLL
    for (int pass = 0; pass < DEPTH / conv_pixels(tile_rows, threads, how); pass++) {
        RP_UNROLL
        for (int i = 0; i < conv_chunks(tile_rows, threads, how); i++, held += conv_width(how)) {
            float *to = stage + x->g.to + conv_place(pass, i, tile_rows, threads, how);
            if (is_wide)
                *(float4 *)(void *)to = make_float4(held[0], held[1], held[2], held[3]);
            else
                *to = *held;
        }
    }
}
#endif

#define GEMM_SIDE conv_side
#define GEMM_COPY conv_copy
#define GEMM_PUT conv_put
#include "backend/cuda/gemm.cuh"
