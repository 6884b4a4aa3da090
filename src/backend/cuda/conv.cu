/* Convolutions as implicit GEMMs: a kernel for each tile of conv.def, and the tree over the groups of a weight
 * gradient. conv.cuh gathers the operands; the chains are those of the GEMM, and so is the way they are written. A
 * weight gradient is a GEMM with groups, whose chains may be split over blocks; other sums are not. */
#include "backend/cuda/conv.cuh"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/tree.cuh"

/* ---- forward and data gradient ---- */

/* The tile of this block within a part. */
RP_DEVICE void conv_find(struct gemm_out *o, const struct gemm_shape *s, int rows, int columns, unsigned tile)
{
    const unsigned down = (unsigned)((rows + s->rows - 1) / s->rows), across = (unsigned)((columns + s->columns - 1) / s->columns);
    const unsigned band = tile / (8 * across), left = down - 8 * band, height = left < 8 ? left : 8, rest = tile - 8 * band * across;
    o->row0 = o->row1 = (int)(8 * band + rest % height) * s->rows;
    o->column0 = o->column1 = (int)(rest / height) * s->columns;
    o->rows = rows;
    o->columns = columns;
    o->before = o->bias = (const float *)NULL;
    o->pitch_before = 0;
}

/* Bits 0 to n - 1. */
RP_DEVICE unsigned conv_below(int n)
{
    return (1u << (n < 0 ? 0 : n < RP_CONV_KERNEL_MOST ? n : RP_CONV_KERNEL_MOST)) - 1;
}
/* Bits for taps i whose pixel first + direction * i is outside of `size` pixels. */
RP_DEVICE unsigned conv_outside(int first, int direction, int size)
{
    const unsigned within = direction > 0 ? conv_below(size - first) & ~conv_below(-first)
                                          : conv_below(first + 1) & ~conv_below(first + 1 - size);
    return conv_below(RP_CONV_KERNEL_MOST) & ~within;
}

/* The table of this tile's rows. */
RP_DEVICE void conv_fill(uint4 *table, const struct rp_conv_args *g, const struct rp_conv_part *p, int tile_rows, int threads, int row0)
{
    const unsigned rows = (unsigned)g->images * (unsigned)p->height * (unsigned)p->width;
    for (int r = (int)threadIdx.x; r < tile_rows; r += threads) {
        const unsigned row = (unsigned)(row0 + r), line = row / (unsigned)p->width, image = line / (unsigned)p->height;
        const int y = (int)(line - image * (unsigned)p->height), x = (int)(row - line * (unsigned)p->width);
        const int h = y * g->step + p->top, w = x * g->step + p->left;
        uint4 e = make_uint4(0, ~0u, 0, 0);
        if (row < rows) {
            e.x = ((image * (unsigned)g->height + (unsigned)h) * (unsigned)g->width + (unsigned)w) * (unsigned)g->channels;
            e.y = NOTHING | conv_outside(h, g->direction, g->height) | conv_outside(w, g->direction, g->width) << 16;
            e.w = (image * (unsigned)g->to_height + (unsigned)(y * g->to_step + p->to_top)) * (unsigned)g->to_width +
                  (unsigned)(x * g->to_step + p->to_left);
        }
        table[r] = e;
    }
}

/* How many of `taps` taps, from `first` on and `step` apart, are before tap n; *is_one: and whether n is one. */
RP_DEVICE int conv_before(int n, int first, int step, int taps, int *is_one)
{
    const int before = n <= first ? 0 : gemm_least(taps, (n - first + step - 1) / step);
    *is_one = n >= first && (n - first) % step == 0 && before < taps;
    return before;
}
/* Terms of the part among the first `terms` of all. */
RP_DEVICE int conv_present(const struct rp_conv_args *g, const struct rp_conv_part *p, int terms)
{
    const int tap = terms / g->channels, tap_h = tap / g->kernel_w;
    int row, column;
    const int h = conv_before(tap_h, p->tap_top, g->tap_step, p->taps_h, &row);
    const int w = conv_before(tap - tap_h * g->kernel_w, p->tap_left, g->tap_step, p->taps_w, &column);
    return terms >= g->terms ? p->taps_h * p->taps_w * g->channels
                             : (h * p->taps_w + (row ? w : 0)) * g->channels + (row && column ? terms - tap * g->channels : 0);
}

/* Floats of stages, or of the band that is written. */
RP_DEVICE int conv_floats(const struct gemm_shape *s)
{
    const int stages = STAGES * DEPTH * (s->rows + s->columns + 2 * RP_GEMM_PAD);
    const int band = s->rows / s->thread_rows * BAND * (s->columns + RP_GEMM_PAD);
    return stages > band ? stages : band;
}

RP_DEVICE void conv_block(const struct rp_conv_args *g, const struct gemm_shape *s, int dgrad)
{
    uint4 *table = RP_SHARED(uint4);
    float *shared = RP_SHARED(float) + 4 * s->rows, *saved = shared + conv_floats(s) + threadIdx.x;
    const int threads = gemm_threads(s), results = s->thread_rows * s->thread_columns;
    int number = 0, row, column, from = 0, is_begun = 0;
    float sum[96];
    struct gemm_out o;
    while (dgrad && number + 1 < g->parts && blockIdx.x >= (unsigned)g->part[number + 1].first)
        number++;
    const struct rp_conv_part *p = &g->part[number];
    conv_find(&o, s, g->images * p->height * p->width, g->columns, blockIdx.x - (unsigned)p->first);
    conv_fill(table, g, p, s->rows, threads, o.row0);
    gemm_corner(s, (int)threadIdx.x, &row, &column);
    RP_UNROLL
    for (int i = 0; i < results; i++)
        sum[i] = 0.0f;
    RP_NO_UNROLL
    for (int before = 0; before < g->terms; before += g->segment) {
        const int last = g->terms - before <= g->segment, end = conv_present(g, p, last ? g->terms : before + g->segment);
        const int stages = (end - from + DEPTH - 1) / DEPTH, k0 = end - stages * DEPTH;
        struct conv_side a, b;
        if (end == from)
            continue; /* a chain without terms is +0 */
        if (is_begun) { /* the sum so far */
            RP_UNROLL
            for (int i = 0; i < results; i++) {
                saved[i * threads] = sum[i] + 0.0f;
                sum[i] = 0.0f;
            }
        }
        __syncthreads(); /* the table is complete, and the chains before have read their last stage */
        conv_begin_pixels(&a, g, p, table, s->rows, threads, k0);
        if (dgrad)
            conv_begin_taps(&b, g, p, s->columns, threads, s->how_b, o.column0, k0);
        else {
            conv_begin(&b, g->b, 0, s->columns, threads, RP_GEMM_FILTERS, o.column0, g->columns, k0);
            b.pitch_h = (unsigned)g->terms;
        }
        gemm_chains(sum, &a, &b, s, shared, row, column, stages, from - k0);
        if (is_begun) {
            RP_UNROLL
            for (int i = 0; i < results; i++)
                sum[i] = saved[i * threads] + (sum[i] + 0.0f);
        }
        is_begun = 1;
        from = end;
    }
    o.to = g->c;
    o.add = dgrad ? g->add : (const float *)NULL;
    o.pitch_to = o.pitch_add = g->columns;
    o.place = dgrad ? table : (const uint4 *)NULL;
    gemm_write(&o, sum, s, shared, s->how_b == RP_GEMM_TAPS || g->wide);
}

/* ---- weight gradient ---- */

/* The table of a chain: `rows` rows from `first` on, of which those before `from` do not exist. */
RP_DEVICE void conv_fill_chain(uint2 *table, const struct rp_conv_wgrad_args *g, int threads, int first, int from,
                               int rows)
{
    const struct rp_conv *v = &g->conv;
    for (int r = (int)threadIdx.x; r < rows; r += threads) {
        const unsigned row = (unsigned)(first + r), line = conv_divide(row, g->by_out_w);
        const unsigned image = conv_divide(line, g->by_out_h);
        const int h = (int)(line - image * (unsigned)v->out_h) * v->stride - v->pad_top;
        const int w = (int)(row - line * (unsigned)v->out_w) * v->stride - v->pad_left;
        uint2 e = make_uint2(0, ~0u);
        if (first + r >= from) {
            e.x = ((image * (unsigned)v->in_h + (unsigned)h) * (unsigned)v->in_w + (unsigned)w) * (unsigned)v->in_c;
            e.y = NOTHING | conv_outside(h, 1, v->in_h) | conv_outside(w, 1, v->in_w) << 16;
        }
        table[r] = e;
    }
}

/* The table is written after the barrier at the end of gemm_write() of the segment before. */
RP_DEVICE void conv_begin_both(struct conv_side *a, struct conv_side *b, const struct rp_conv_wgrad_args *g,
                               const struct gemm_shape *s, const struct gemm_out *o, int k0, int from, int stages)
{
    uint2 *table = (uint2 *)(void *)(RP_SHARED(float) + RP_GEMM_FRONT);
    const int threads = gemm_threads(s);
    conv_fill_chain(table, g, threads, k0, from, stages * DEPTH);
    __syncthreads();
    conv_begin_rows(a, g, s->rows, threads, s->how_a, o->row0, k0);
    conv_begin_windows(b, g, table, s->columns, threads, s->how_b, o->column0);
}

#define GEMM_ARGS rp_conv_wgrad_args
#define GEMM_OF(args) (&(args)->g)
#define GEMM_BEGIN(a, b, args, s, o, k0, from, stages) conv_begin_both(a, b, args, s, o, k0, from, stages)
#define GEMM_FRONT (RP_GEMM_FRONT + 2 * RP_CONV_CHAIN)
#define GEMM_ADDS 0
#define GEMM_WIDE(args, s) ((s)->how_b == RP_GEMM_WINDOWS || (args)->g.wide)
#include "backend/cuda/gemm_block.cuh"

/* The tree over a few groups, for four neighbouring weights: 8 groups at a time, in a binary counter. stack: of this
 * thread. */
RP_DEVICE void groups4(const rp_args_group_tree *a, size_t i, long n, int wide)
{
    float4 *stack = RP_SHARED(float4) + threadIdx.x;
    const size_t stride = blockDim.x;
    int top = 0;
    for (int first = 0; first < a->groups; first += RP_TREE_LEAF) {
        float4 v[RP_TREE_LEAF];
        RP_UNROLL
        for (int k = 0; k < RP_TREE_LEAF; k++)
            v[k] = rp_get4(a->work + ((size_t)(first + k < a->groups ? first + k : 0) * a->n + i), first + k < a->groups ? n : 0, wide);
        RP_UNROLL
        for (int step = 1; step < RP_TREE_LEAF; step *= 2)
            RP_UNROLL
            for (int k = 0; k < RP_TREE_LEAF; k += 2 * step)
                v[k] = first + k + step < a->groups ? rp_add4(v[k], v[k + step]) : v[k];
        for (int bit = first / RP_TREE_LEAF; bit & 1; bit >>= 1)
            v[0] = rp_add4(stack[(size_t)--top * stride], v[0]);
        stack[(size_t)top++ * stride] = v[0];
    }
    float4 sum = stack[(size_t)--top * stride];
    RP_NO_UNROLL
    while (top) /* at most four times */
        sum = rp_add4(stack[(size_t)--top * stride], sum);
    rp_put4(a->out + i, sum, n, wide);
}
RP_KERNEL(group_tree)
{
    RP_EACH4(&a, a.n, a.wide, groups4);
}

/* ---- kernels ---- */

#define TILE(name, block, blocks, rows, columns, thread_rows, thread_columns, down, across, how_a, how_b, from,        \
             before)                                                                                                   \
    RP_KERNEL(name)                                                                                                    \
    {                                                                                                                  \
        const struct gemm_shape s = {blocks, rows, columns, thread_rows, thread_columns, down, across, how_a, how_b};  \
        if (__CUDA_ARCH__ >= 10 * from && __CUDA_ARCH__ < 10 * before)                                                 \
            block;                                                                                                     \
        else                                                                                                           \
            RP_TRAP();                                                                                                 \
    }
#define FORWARD(name, threads, blocks, rows, columns, tr, tc, down, across, vectors, from, before, rate)               \
    TILE(conv_forward_##name, conv_block(&a, &s, 0), blocks, rows, columns, tr, tc, down, across, RP_GEMM_PIXELS,      \
         RP_GEMM_FILTERS, from, before)
#define DGRAD(name, threads, blocks, rows, columns, tr, tc, down, across, vectors, from, before, rate)                 \
    TILE(conv_dgrad_##name, conv_block(&a, &s, 1), blocks, rows, columns, tr, tc, down, across, RP_GEMM_PIXELS,        \
         vectors ? RP_GEMM_TAPS : RP_GEMM_TAPS1, from, before)
#define WGRAD(name, threads, blocks, rows, columns, tr, tc, down, across, vectors, from, before, rate)                 \
    TILE(conv_wgrad_##name, gemm_block(&a, &s), blocks, rows, columns, tr, tc, down, across,                           \
         vectors ? RP_GEMM_ROWS : RP_GEMM_ROWS1, vectors ? RP_GEMM_WINDOWS : RP_GEMM_WINDOWS1, from, before)
#include "backend/cuda/conv.def"
