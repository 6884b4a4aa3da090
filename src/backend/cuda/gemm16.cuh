/* One tile of a GEMM with tensor cores, for one segment of k, by one block.
 *
 * Every element of C is one chain of blocks (ops/tensor_core.h) over its segment's k in ascending order, in the
 * registers of one lane.
 *
 *   global  --copies-->  shared: stages of TC_DEPTH k-steps, A then B  --tc_load()-->  fragments  --tc_multiply()-->  sums
 *
 * A stage is overwritten by asynchronous copies (sm_80 on), or through registers. What is outside of the matrices is
 * zeros, which change no chain: rows, columns and k-steps after the last. An operand whose pieces of 16 bytes are not
 * aligned is read number by number.
 *
 * Everything here is inlined with constant sizes; loops over registers are unrolled.
 */
#pragma once

#include "backend/cuda/tensor_core.cuh"

#define GEMM16_STAGES (RP_ASYNC ? RP_GEMM16_STAGES_ASYNC : RP_GEMM16_STAGES_HELD)
#define GEMM16_MOST 4   /* tiles of 16 that a warp has down or across */
#define GEMM16_PIECES 8 /* that a thread copies of an operand's stage, at most */
#define CONV16_LINES 4
#ifndef GEMM16_WRITERS
/* threads of a block; those after the last part of C only help to write it */
#define GEMM16_WRITERS(s) gemm16_threads(s)
#endif

/* How the pieces of an operand are found: a constant. */
enum {
    GEMM16_MATRIX,
    CONV16_IMAGE,     /* by k: pixels that the taps of a row of C meet */
    CONV16_BACK,      /* the same of dy, where taps go back from a pixel */
    CONV16_FILTERS,   /* by k: the taps of an output channel */
    CONV16_TRANSPOSE, /* by rows: of a tap and output channel the input channels */
    CONV16_PIXELS     /* by rows: of an output pixel the taps of its window */
};

struct gemm16_shape {
    int rows, columns, down, across, a_by_k, b_by_k, format, gather_a, gather_b;
};
RP_DEVICE int gemm16_threads(const struct gemm16_shape *s)
{
    return RP_WARP * s->down * s->across;
}
/* Of a stage of an operand of `rows`, in floats. */
RP_DEVICE int gemm16_floats(int rows)
{
    return rows * TC_DEPTH / 2;
}

/* ---- copies ---- */

/* What a thread copies of an operand: pieces of lines `line` + i * lines, at `piece`. */
struct gemm16_side {
    /* some element of the matrix; the thread's first piece of the stage that is copied next */
    const uint16_t *first, *from;
    int64_t stage, next;          /* elements to the next stage, to the thread's next piece */
    int line, piece, rows, fast;  /* rows: of the matrix from the tile's first one on */
    /* of a convolution, which conv16.cuh has: */
    const struct rp_conv16_args *conv;
    /* of the stage that is copied next; row of the tile's first line or number */
    int k, row;
    /* of an image by k: of each line, the pixel under tap 0, and its image */
    int h[CONV16_LINES], w[CONV16_LINES], at[CONV16_LINES];
};

RP_DEVICE int gemm16_lines(int by_k, int rows, int threads)
{
    return threads / (by_k ? TC_DEPTH / TC_PIECE : rows / TC_PIECE);
}

#include "backend/cuda/conv16.cuh"

RP_DEVICE void gemm16_begin(struct gemm16_side *x, const uint16_t *from, int64_t pitch, int by_k, int tile_rows, int threads, int row0,
                            int rows, int k0, int fast)
{
    const int across = by_k ? TC_DEPTH / TC_PIECE : tile_rows / TC_PIECE;
    x->line = (int)threadIdx.x / across;
    x->piece = (int)threadIdx.x % across;
    x->first = from;
    x->rows = rows - row0;
    x->fast = fast;
    x->next = gemm16_lines(by_k, tile_rows, threads) * pitch;
    x->stage = by_k ? TC_DEPTH : TC_DEPTH * pitch;
    x->from = by_k ? from + (row0 + x->line) * pitch + k0 + TC_PIECE * x->piece
                   : from + (k0 + x->line) * pitch + row0 + TC_PIECE * x->piece;
}

/* How many numbers of piece i are inside of the matrix; left: k-steps of the segment from this stage on. */
RP_DEVICE int gemm16_inside(const struct gemm16_side *x, int by_k, int lines, int i, int left)
{
    const int line = x->line + i * lines, limit = by_k ? x->rows : left;
    return line < limit ? tc_limit((by_k ? left : x->rows) - TC_PIECE * x->piece, TC_PIECE) : 0;
}

/* A piece of a convolution's operand number by number; +0 outside of the image. */
RP_DEVICE uint4 gemm16_gather_taps(const struct gemm16_side *x, int gather, int by_k, int lines, int i, int inside)
{
    const int line = x->line + i * lines, across = TC_PIECE * x->piece;
    uint4 v = make_uint4(0, 0, 0, 0);
    RP_NO_UNROLL
    for (int n = 0; n < inside; n++) {
        const int at = by_k ? conv16_offset(x, gather, i, x->k + across + n, x->row + line) : conv16_offset(x, gather, i, x->k + line, x->row + across + n);
        const uint32_t bits = at < 0 ? 0 : (uint32_t)x->first[at] << 16 * (n % 2);
        v.x |= n / 2 == 0 ? bits : 0;
        v.y |= n / 2 == 1 ? bits : 0;
        v.z |= n / 2 == 2 ? bits : 0;
        v.w |= n / 2 == 3 ? bits : 0;
    }
    return v;
}

/* Piece i of a stage; *inside: how many numbers of it there are. fast: all or none. */
RP_DEVICE const uint16_t *gemm16_piece(const struct gemm16_side *x, int gather, int by_k, int lines, int i, int left, int *inside)
{
    *inside = gemm16_inside(x, by_k, lines, i, left);
    if (gather == GEMM16_MATRIX)
        return *inside ? x->from + i * x->next : x->first;
    const int line = x->line + i * lines, across = TC_PIECE * x->piece;
    const int at = by_k ? conv16_offset(x, gather, i, x->k + across, x->row + line) : conv16_offset(x, gather, i, x->k + line, x->row + across);
    *inside = at < 0 ? 0 : *inside;
    return x->first + (*inside ? at : 0);
}

RP_DEVICE uint4 gemm16_get_piece(const struct gemm16_side *x, int gather, int by_k, int lines, int i, int left, int fast)
{
    int inside;
    if (gather != GEMM16_MATRIX && !fast)
        return gemm16_gather_taps(x, gather, by_k, lines, i, gemm16_inside(x, by_k, lines, i, left));
    const uint16_t *const from = gemm16_piece(x, gather, by_k, lines, i, left, &inside);
    return tc_gather(from, inside, fast);
}

/* The thread's pieces of a stage, to the stage or to `held`. */
RP_DEVICE void gemm16_copy(struct gemm16_side *x, uint4 *held, rp_smem tile, int by_k, int gather, int tile_rows, int threads, int left)
{
    const int lines = gemm16_lines(by_k, tile_rows, threads), pieces = tile_rows * TC_DEPTH / TC_PIECE / threads;
#if RP_ASYNC
    (void)held;
    RP_UNROLL
    for (int i = 0; x->fast && i < pieces; i++) {
        int inside;
        const uint16_t *const from = gemm16_piece(x, gather, by_k, lines, i, left, &inside);
        rp_copy16_part_to(tile, tc_place(by_k, tile_rows, x->line + i * lines, x->piece), from, 2 * inside);
    }
    if (conv16_is_image(gather) && !x->fast) {
        RP_UNROLL
        for (int i = 0; i < pieces; i++) /* lines are in registers, of constant numbers */
            tc_put(tile, tc_place(by_k, tile_rows, x->line + i * lines, x->piece), gemm16_get_piece(x, gather, by_k, lines, i, left, 0));
    }
    RP_NO_UNROLL
    for (int i = 0; !conv16_is_image(gather) && !x->fast && i < pieces; i++)
        tc_put(tile, tc_place(by_k, tile_rows, x->line + i * lines, x->piece), gemm16_get_piece(x, gather, by_k, lines, i, left, 0));
#else
    (void)tile;
    RP_UNROLL
    for (int i = 0; i < pieces; i++)
        held[i] = gemm16_get_piece(x, gather, by_k, lines, i, left, x->fast);
#endif
    x->from += x->stage;
    x->k += TC_DEPTH;
}

#if !RP_ASYNC
RP_DEVICE void gemm16_release(const struct gemm16_side *x, const uint4 *held, rp_smem tile, int by_k, int tile_rows, int threads)
{
    const int lines = gemm16_lines(by_k, tile_rows, threads), pieces = tile_rows * TC_DEPTH / TC_PIECE / threads;
    RP_UNROLL
    for (int i = 0; i < pieces; i++)
        tc_put(tile, tc_place(by_k, tile_rows, x->line + i * lines, x->piece), held[i]);
}
#endif

/* ---- the chains ---- */

RP_DEVICE void gemm16_stage(float *sum, rp_smem a, rp_smem b, const struct gemm16_shape *s)
{
    const int warp = (int)threadIdx.x / RP_WARP, tiles = s->rows / s->down / 16, tiles_across = s->columns / s->across / 16;
    const int row = warp / s->across * 16 * tiles, column = warp % s->across * 16 * tiles_across;
    uint32_t fa[2][GEMM16_MOST * TC_FRAGMENT], fb[2][GEMM16_MOST * TC_FRAGMENT];
    RP_UNROLL
    for (int slice = 0; slice < TC_DEPTH / 16; slice++) {
        RP_UNROLL
        for (int i = 0; i < tiles; i++)
            tc_load(fa[slice] + i * TC_FRAGMENT, a, s->a_by_k, s->rows, row + 16 * i, slice, 0);
        RP_UNROLL
        for (int j = 0; j < tiles_across; j++)
            tc_load(fb[slice] + j * TC_FRAGMENT, b, s->b_by_k, s->columns, column + 16 * j, slice, 1);
    }
    RP_UNROLL
    for (int slice = 0; slice < TC_DEPTH / 16; slice++)
        RP_UNROLL
        for (int i = 0; i < tiles; i++)
            RP_UNROLL
            for (int j = 0; j < tiles_across; j++)
                tc_multiply(sum + 8 * (i * tiles_across + j), fa[slice] + i * TC_FRAGMENT, fb[slice] + j * TC_FRAGMENT, s->a_by_k,
                            s->b_by_k, s->format);
}

RP_DEVICE void gemm16_copy_both(struct gemm16_side *a, struct gemm16_side *b, uint4 *held, rp_smem stage, const struct gemm16_shape *s,
                                int left)
{
    gemm16_copy(a, held, stage, s->a_by_k, s->gather_a, s->rows, gemm16_threads(s), left);
    gemm16_copy(b, held + GEMM16_PIECES, RP_SMEM_AFTER(stage, gemm16_floats(s->rows)), s->b_by_k, s->gather_b, s->columns, gemm16_threads(s),
                left);
}

#if RP_ASYNC
/* `steps` k-steps. Stage n is in place n % GEMM16_STAGES. */
RP_DEVICE void gemm16_chains(float *sum, struct gemm16_side *a, struct gemm16_side *b, const struct gemm16_shape *s, int steps)
{
    const int size = gemm16_floats(s->rows) + gemm16_floats(s->columns), stages = (steps + TC_DEPTH - 1) / TC_DEPTH;
    rp_smem const shared = rp_smem_of(RP_SHARED(float));
    int to = 0, at = 0;
    RP_NO_UNROLL
    for (int n = 0; n < GEMM16_STAGES - 1; n++) {
        if (n < stages)
            gemm16_copy_both(a, b, NULL, RP_SMEM_AFTER(shared, to), s, steps - n * TC_DEPTH);
        rp_copy_commit();
        to += size;
    }
    RP_NO_UNROLL
    for (int n = 0; n < stages; n++) {
        rp_copy_wait(GEMM16_STAGES - 2);
        __syncthreads(); /* stage n is complete, and the one before has been read */
        if (n + GEMM16_STAGES - 1 < stages)
            gemm16_copy_both(a, b, NULL, RP_SMEM_AFTER(shared, to), s, steps - (n + GEMM16_STAGES - 1) * TC_DEPTH);
        rp_copy_commit();
        gemm16_stage(sum, RP_SMEM_AFTER(shared, at), RP_SMEM_AFTER(shared, at + gemm16_floats(s->rows)), s);
        to = to == (GEMM16_STAGES - 1) * size ? 0 : to + size;
        at = at == (GEMM16_STAGES - 1) * size ? 0 : at + size;
    }
}
#else
RP_DEVICE void gemm16_chains(float *sum, struct gemm16_side *a, struct gemm16_side *b, const struct gemm16_shape *s, int steps)
{
    const int size = gemm16_floats(s->rows) + gemm16_floats(s->columns);
    rp_smem const shared = rp_smem_of(RP_SHARED(float));
    uint4 held[2 * GEMM16_PIECES];
    int at = 0;
    if (steps > 0)
        gemm16_copy_both(a, b, held, shared, s, steps);
    RP_NO_UNROLL
    for (int left = steps; left > 0; left -= TC_DEPTH) {
        rp_smem const stage = RP_SMEM_AFTER(shared, at), second = RP_SMEM_AFTER(stage, gemm16_floats(s->rows));
        gemm16_release(a, held, stage, s->a_by_k, s->rows, gemm16_threads(s));
        gemm16_release(b, held + GEMM16_PIECES, second, s->b_by_k, s->columns, gemm16_threads(s));
        __syncthreads(); /* the stage is complete, and the one before has been read */
        if (left > TC_DEPTH)
            gemm16_copy_both(a, b, held, shared, s, left - TC_DEPTH);
        gemm16_stage(sum, stage, second, s);
        at = size - at;
    }
}
#endif

/* ---- the epilogue ---- */

RP_DEVICE float gemm16_get(const void *from, int64_t at, int f32, int format)
{
    return f32 ? ((const float *)from)[at] : tc_value(((const uint16_t *)from)[at], format);
}

/* Two numbers of a row: + bias, + add, rounded last. gather: of the second operand, a constant. Convolutions have no
 * bias, and only data gradients an addend; weight gradients are fp32, and nothing else of convolutions is. */
RP_DEVICE void gemm16_finish(const struct rp_gemm16_args *g, int row, int column, float x, float y, int format,
                             int gather)
{
    const int64_t at = row * g->ldc + column, at_add = row * g->ldadd + column;
    const int both = column + 1 < g->n, f32 = gather == GEMM16_MATRIX ? g->f32 : gather == CONV16_PIXELS;
    if (gather == GEMM16_MATRIX && g->bias) {
        x = x + g->bias[column];
        y = both ? y + g->bias[column + 1] : y;
    }
    if ((gather == GEMM16_MATRIX || gather == CONV16_TRANSPOSE) && g->add) {
        x = x + gemm16_get(g->add, at_add, f32, format);
        y = both ? y + gemm16_get(g->add, at_add + 1, f32, format) : y;
    }
    if (f32) {
        float *const c = (float *)g->c + at;
        if (both && g->pairs) {
            *(float2 *)(void *)c = make_float2(x, y);
        } else {
            c[0] = x;
            if (both)
                c[1] = y;
        }
    } else {
        uint16_t *const c = (uint16_t *)g->c + at;
        const uint32_t low = tc_round(x, format), high = tc_round(y, format);
        if (both && g->pairs) {
            *(uint32_t *)(void *)c = high << 16 | low;
        } else {
            c[0] = (uint16_t)low;
            if (both)
                c[1] = (uint16_t)high;
        }
    }
}

RP_DEVICE void gemm16_write(const struct rp_gemm16_args *g, const struct rp_conv16_args *conv, int row, int column, float x, float y,
                            const struct gemm16_shape *s)
{
    if (row >= g->m || column >= g->n)
        return;
    if (g->segments == 1) {
        const int is_phase = s->gather_b == CONV16_TRANSPOSE && conv->step > 1;
        gemm16_finish(g, is_phase ? conv16_row(conv, row) : row, column, x, y, s->format, s->gather_b);
        return;
    }
    float *const part = g->part + ((int64_t)blockIdx.y * g->m + row) * g->ldpart + column;
    *(float2 *)(void *)part = make_float2(x, y); /* ldpart is even: there is room after the last column */
}

/* Bands of RP_GEMM16_BAND rows through shared memory, so that a warp writes whole lines of C. */
RP_DEVICE void gemm16_epilogue(const struct rp_gemm16_args *g, const struct rp_conv16_args *conv, const float *sum,
                               const struct gemm16_shape *s, int row0, int column0)
{
    const int tiles = s->rows / s->down / 16, tiles_across = s->columns / s->across / 16, warp = (int)threadIdx.x / RP_WARP;
    const int row = warp / s->across * 16 * tiles, column = warp % s->across * 16 * tiles_across, pitch = s->columns + RP_GEMM16_PAD;
    float *const band = RP_SHARED(float);
    RP_NO_UNROLL
    for (int first = 0; first < s->rows; first += RP_GEMM16_BAND) {
        __syncthreads(); /* the last stage, or the band before, has been read */
        RP_UNROLL
        for (int i = 0; row / RP_GEMM16_BAND == first / RP_GEMM16_BAND && i < tiles; i++)
            RP_UNROLL
            for (int j = 0; j < tiles_across; j++)
                RP_UNROLL
                for (int pair = 0; pair < 4; pair++) {
                    const float *const from = sum + 8 * (i * tiles_across + j) + 2 * pair;
                    float *const to = band + (row % RP_GEMM16_BAND + 16 * i + tc_row(pair)) * pitch + column + 16 * j + tc_column(pair);
                    *(float2 *)(void *)to = make_float2(from[0], from[1]);
                }
        __syncthreads();
        RP_NO_UNROLL
        for (int i = (int)threadIdx.x; i < RP_GEMM16_BAND * s->columns / 2; i += GEMM16_WRITERS(s)) {
            const int line = i / (s->columns / 2), at = i % (s->columns / 2) * 2;
            const float2 v = *(const float2 *)(const void *)(band + line * pitch + at);
            gemm16_write(g, conv, row0 + first + line, column0 + at, v.x, v.y, s);
        }
    }
}

/* Bands of 8 tiles down: blocks that run together share rows of A and columns of B. */
RP_DEVICE void gemm16_tile(int *row, int *column, const struct rp_gemm16_args *g, const struct gemm16_shape *s)
{
    const int down = (g->m + s->rows - 1) / s->rows, across = (g->n + s->columns - 1) / s->columns;
    const int band = (int)blockIdx.x / (8 * across), rest = (int)blockIdx.x % (8 * across), high = down - 8 * band < 8 ? down - 8 * band : 8;
    *row = (8 * band + rest % high) * s->rows;
    *column = rest / high * s->columns;
}

RP_DEVICE void gemm16_block(const struct rp_gemm16_args *g, const struct gemm16_shape *s, const struct rp_conv16_args *conv)
{
    const int tiles = s->rows / s->down / 16, tiles_across = s->columns / s->across / 16;
    const int k0 = (int)blockIdx.y * g->length, steps = g->k - k0 < g->length ? g->k - k0 : g->length;
    float sum[8 * GEMM16_MOST * GEMM16_MOST];
    struct gemm16_side a, b;
    int row, column;
    gemm16_tile(&row, &column, g, s);
    RP_UNROLL
    for (int i = 0; i < 8 * tiles * tiles_across; i++)
        sum[i] = 0.0f;
    gemm16_begin(&a, g->a, g->lda, s->a_by_k, s->rows, gemm16_threads(s), row, g->m, k0, g->fast_a);
    gemm16_begin(&b, g->b, g->ldb, s->b_by_k, s->columns, gemm16_threads(s), column, g->n, k0, g->fast_b);
    conv16_begin(&a, conv, s->gather_a, s->rows, gemm16_threads(s), row, k0);
    conv16_begin(&b, conv, s->gather_b, s->columns, gemm16_threads(s), column, k0);
    gemm16_chains(sum, &a, &b, s, steps);
    gemm16_epilogue(g, conv, sum, s, row, column);
}
