/* Convolutions in mixed precision: products of gathered operands. A window of one pixel without stride and padding is a
 * product of matrices. */
#include "backend/cuda/inner.h"

enum conv16_direction { FORWARD, DGRAD, WGRAD };

static const struct tile {
    int size, blocks, from;
    enum rp_cuda_kernel kernel[3][2]; /* by direction and enum rp_tc_format */
} tiles[] = {
#define BOTH(direction, size)                                                                                          \
    {                                                                                                                  \
        RP_KERNEL_conv16_##direction##_f16_##size##x##size, RP_KERNEL_conv16_##direction##_bf16_##size##x##size        \
    }
    {128, 2, 80, {BOTH(forward, 128), BOTH(dgrad, 128), BOTH(wgrad, 128)}},
    {64, 3, 70, {BOTH(forward, 64), BOTH(dgrad, 64), BOTH(wgrad, 64)}},
#undef BOTH
};
#define TILES ((int)(sizeof tiles / sizeof *tiles))

/* As rp_cuda_gemm16() estimates it. */
static double cost(const struct rp_cuda *c, const struct tile *t, const struct rp_gemm16_args *g)
{
    const double down = (g->m + t->size - 1) / t->size, across = (g->n + t->size - 1) / t->size,
                 at_once = (double)c->multiprocessors * t->blocks;
    const int64_t rounds = (int64_t)((down * across * g->segments + at_once - 1) / at_once);
    return (double)rounds * t->blocks * t->size * t->size * (t->size < 128 ? 1.5 : 1.0);
}

static const struct tile *choose(const struct rp_cuda *c, const struct rp_gemm16_args *g)
{
    const struct tile *best = NULL;
    int turn = c->convs % TILES;
    for (int i = 0; i < TILES; i++) {
        const struct tile *t = &tiles[c->gemm_rotates ? (i + turn) % TILES : i];
        if (c->image->arch < t->from || rp_cuda_gemm16_shared(c, t->size, t->size) > c->gpu.shared_max)
            continue;
        if (!best || (!c->gemm_rotates && cost(c, t, g) < cost(c, best, g)))
            best = t;
    }
    RP_BUG_IF(!best);
    return best;
}

/* Results of segments are in the workspace until all are there: many are computed in bands of rows of C. */
static void launch(struct rp_cuda *c, struct rp_conv16_args *a, enum conv16_direction direction)
{
    const struct rp_gemm16_args all = a->g;
    const int is_bf16 = rp_arithmetic_of(c->dev.numerics)->format == RP_TC_BF16;
    const enum rp_cuda_kernel sum = is_bf16 ? RP_KERNEL_gemm16_sum_bf16 : RP_KERNEL_gemm16_sum_f16;
    const size_t row = rp_cuda_low_row_bytes(all.n, all.segments);
    const struct tile *t = choose(c, &all);
    int64_t band = row ? (int64_t)(c->workspace_bytes / row) : INT32_MAX;
    RP_BUG_IF(band < 1 || a->backward != (direction == DGRAD)); /* which way taps go is the kernel's */
    band -= band > 64 ? band % 64 : 0; /* keeps the alignment */
    c->convs++;
    for (int64_t i = 0; i < all.m; i += band) {
        struct rp_gemm16_args *g = &a->g;
        g->m = (int)(all.m - i < band ? all.m - i : band);
        g->c = (char *)all.c + (size_t)(i * g->ldc) * (g->f32 ? sizeof(float) : sizeof(uint16_t));
        g->add = all.add ? (const uint16_t *)all.add + i * g->ldadd : NULL;
        g->a = direction == WGRAD ? all.a + i : all.a;
        a->first_row = direction == WGRAD ? 0 : (int)i;
        g->part = g->segments > 1 ? rp_cuda_workspace(c, (size_t)g->m * row) : NULL;
        const int64_t down = (g->m + t->size - 1) / t->size, across = (g->n + t->size - 1) / t->size;
        rp_cuda_launch(c, t->kernel[direction][is_bf16],
                       (struct rp_grid){(unsigned)(down * across), (unsigned)g->segments, 1},
                       rp_cuda_gemm16_shared(c, t->size, t->size), a);
        if (g->segments > 1)
            rp_cuda_launch(c, sum, rp_cuda_spread(c, sum, (size_t)g->m * ((size_t)g->n + 1) / 2), 0, g);
    }
}

static int is_aligned(const void *x, int numbers, int pitch)
{
    return (uintptr_t)x % ((size_t)numbers * sizeof(uint16_t)) == 0 && pitch % numbers == 0;
}

static const uint16_t *numbers(const rp_stored *x)
{
    return (const uint16_t *)(const void *)x;
}

/* What forward and backward have in common: the gathered image has `channels`. */
static struct rp_conv16_args window(const struct rp_conv *v, int channels)
{
    const int each = rp_low_channels(channels), row = rp_low_row(v->kernel_w, channels);
    return (struct rp_conv16_args){.g = {.segments = 1},
                                   .channels = channels,
                                   .depth = channels,
                                   .each = each,
                                   .row = row,
                                   .kernel_h = v->kernel_h,
                                   .kernel_w = v->kernel_w,
                                   .stride = v->stride,
                                   .pad_top = v->pad_top,
                                   .pad_left = v->pad_left,
                                   .tap_down = v->kernel_w,
                                   .tap_across = 1,
                                   .taps = v->kernel_h * v->kernel_w,
                                   .step = 1,
                                   .by_row = RP_CONV_BY(row),
                                   .by_each = RP_CONV_BY(each),
                                   .by_taps = RP_CONV_BY(v->kernel_w * channels),
                                   .by_channels = RP_CONV_BY(channels),
                                   .by_stride = RP_CONV_BY(v->stride)};
}

/* The image that is gathered, and the one whose pixels are rows or k-steps. */
static void set_images(struct rp_conv16_args *a, const struct rp_conv *v, int backward)
{
    a->backward = backward;
    a->height = backward ? v->out_h : v->in_h;
    a->width = backward ? v->out_w : v->in_w;
    a->to_height = backward ? v->in_h : v->out_h;
    a->to_width = backward ? v->in_w : v->out_w;
    a->by_to_height = RP_CONV_BY(a->to_height);
    a->by_to_width = RP_CONV_BY(a->to_width);
}

static void set_product(struct rp_gemm16_args *g, long m, int n, long k, int length)
{
    g->m = (int)m;
    g->n = n;
    g->k = (int)k;
    g->length = length;
    g->segments = rp_cuda_low_segments((int)k, length);
    g->ldpart = rp_cuda_low_pitch(n);
}

void rp_cuda_conv16_forward(struct rp_cuda *c, rp_stored *y, const rp_stored *x, const rp_stored *w,
                            const struct rp_conv *v)
{
    struct rp_conv16_args a = window(v, v->in_c);
    if (rp_cuda_is_pointwise(v)) {
        const struct rp_gemm g = {.tb = 1,
                                  .m = (int)rp_conv_rows(v),
                                  .n = v->out_c,
                                  .k = v->in_c,
                                  .a = x,
                                  .lda = v->in_c,
                                  .b = w,
                                  .ldb = v->in_c,
                                  .c = y,
                                  .ldc = v->out_c};
        rp_cuda_gemm16(c, &g);
        return;
    }
    set_product(&a.g, rp_conv_rows(v), v->out_c, (long)v->kernel_h * a.row, RP_LOW_CHAIN);
    a.g.a = numbers(x);
    a.g.b = numbers(w);
    a.g.c = y;
    a.g.ldc = v->out_c;
    a.g.fast_a = is_aligned(x, 8, v->in_c);
    a.g.fast_b = is_aligned(w, 8, v->in_c);
    a.g.pairs = is_aligned(y, 2, v->out_c);
    set_images(&a, v, 0);
    launch(c, &a, FORWARD);
}

/* One of the two sides of a phase, `phase` of 0 to stride - 1. */
struct phase_side {
    int first, pixels; /* the first pixel of x, how many */
    int taps;          /* from tap `phase` on, `stride` apart */
    int shift;         /* the pixel of dy that the first pixel meets by tap `phase` */
};

static struct phase_side phase_of(int phase, int stride, int pad, int pixels, int taps)
{
    const int first = (phase + pad * (stride - 1)) % stride;
    return (struct phase_side){.first = first,
                         .pixels = first < pixels ? (pixels - first + stride - 1) / stride : 0,
                         .taps = phase < taps ? (taps - phase + stride - 1) / stride : 0,
                         .shift = (first + pad - phase) / stride};
}

/* all: the product of all pixels and taps */
static void launch_phases(struct rp_cuda *c, const struct rp_conv16_args *all, const struct rp_conv *v)
{
    for (int i = 0; i < v->stride * v->stride; i++) {
        const struct phase_side down = phase_of(i / v->stride, v->stride, v->pad_top, v->in_h, v->kernel_h),
                          across = phase_of(i % v->stride, v->stride, v->pad_left, v->in_w, v->kernel_w);
        struct rp_conv16_args a = *all;
        const int none = down.taps * across.taps == 0;
        if (down.pixels * across.pixels == 0)
            continue;
        a.kernel_h = none ? 0 : down.taps;
        a.kernel_w = none ? 1 : across.taps;
        a.row = a.kernel_w * a.each;
        a.by_row = RP_CONV_BY(a.row);
        a.stride = 1;
        a.by_stride = RP_CONV_BY(1);
        a.pad_top = down.shift;
        a.pad_left = across.shift;
        a.tap = i / v->stride * v->kernel_w + i % v->stride;
        a.tap_down = v->stride * v->kernel_w;
        a.tap_across = v->stride;
        a.step = v->stride;
        a.at_h = down.first;
        a.at_w = across.first;
        a.all_height = v->in_h;
        a.all_width = v->in_w;
        a.to_height = down.pixels;
        a.to_width = across.pixels;
        a.by_to_height = RP_CONV_BY(a.to_height);
        a.by_to_width = RP_CONV_BY(a.to_width);
        a.g.m = v->batch * down.pixels * across.pixels;
        a.g.k = a.kernel_h * a.row;
        launch(c, &a, DGRAD);
    }
}

void rp_cuda_conv16_dgrad(struct rp_cuda *c, rp_stored *dx, const rp_stored *dy, const rp_stored *w,
                          const rp_stored *add, const struct rp_conv *v)
{
    struct rp_conv16_args a = window(v, v->out_c);
    if (rp_cuda_is_pointwise(v)) {
        const struct rp_gemm g = {.m = (int)rp_conv_rows(v),
                                  .n = v->in_c,
                                  .k = v->out_c,
                                  .a = dy,
                                  .lda = v->out_c,
                                  .b = w,
                                  .ldb = v->in_c,
                                  .c = dx,
                                  .ldc = v->in_c,
                                  .add = add,
                                  .ldadd = v->in_c};
        rp_cuda_gemm16(c, &g);
        return;
    }
    set_product(&a.g, (long)v->batch * v->in_h * v->in_w, v->in_c, (long)v->kernel_h * a.row, RP_LOW_CHAIN);
    a.g.a = numbers(dy);
    a.g.b = numbers(w);
    a.g.c = dx;
    a.g.add = add;
    a.g.ldc = a.g.ldadd = v->in_c;
    a.g.fast_a = is_aligned(dy, 8, v->out_c);
    a.g.fast_b = is_aligned(w, 8, v->in_c);
    a.g.pairs = is_aligned(dx, 2, v->in_c);
    set_images(&a, v, 1);
    if (v->stride > 1 && a.each % 16 == 0 && a.g.segments == 1)
        launch_phases(c, &a, v);
    else
        launch(c, &a, DGRAD);
}

void rp_cuda_conv16_wgrad(struct rp_cuda *c, float *dw, const rp_stored *dy, const rp_stored *x,
                          const struct rp_conv *v)
{
    const int rows = (int)rp_conv_rows(v), taps = rp_conv_taps(v);
    struct rp_conv16_args a = window(v, v->in_c);
    if (rp_cuda_is_pointwise(v)) {
        const struct rp_gemm g = {.ta = 1,
                                  .m = v->out_c,
                                  .n = v->in_c,
                                  .k = rows,
                                  .a = dy,
                                  .lda = v->out_c,
                                  .b = x,
                                  .ldb = v->in_c,
                                  .c32 = dw,
                                  .ldc = v->in_c};
        rp_cuda_gemm16(c, &g);
        return;
    }
    set_product(&a.g, v->out_c, taps, rows, rp_low_segment(v->out_c, taps, rows));
    a.g.a = numbers(dy);
    a.g.b = numbers(x);
    a.g.c = dw;
    a.g.f32 = 1;
    a.g.in_tree = 1;
    a.g.lda = v->out_c;
    a.g.ldc = taps;
    a.g.fast_a = is_aligned(dy, 8, v->out_c);
    a.g.fast_b = is_aligned(x, 8, v->in_c);
    a.g.pairs = (uintptr_t)dw % 8 == 0 && taps % 2 == 0;
    set_images(&a, v, 0);
    launch(c, &a, WGRAD);
}
