/* One tile of a GEMM, computed by one block.
 *
 * Every element of C is one chain over its segment's k in ascending order, held in a register: s = fma(a, b, s) from
 * +0, then + (+0). The assignment of elements to threads, and the order in which a thread advances its chains, do not
 * affect the bits.
 *
 *   global  --copies-->  shared: stages of DEPTH k-steps, [k][row] of A then of B  --float4-->  registers: thread_rows
 *                                                                                               x thread_columns
 *
 * A stage is overwritten by asynchronous copies (sm_80 on) or through registers. Rows in shared memory are 4 floats
 * longer than the tile, so that neither the transposing 4-byte stores nor the 16-byte loads have bank conflicts. A
 * thread's rows are groups of four, adjacent to those of the 4 or 8 lanes in the same column of lanes; neighbouring
 * lanes share a column, which lets two quarters of a warp share a 16-byte load.
 *
 * Ragged k: the first stage of a segment begins before it and has zeros there, which leave every chain at +0; all
 * others are whole, so the loop checks nothing. Ragged rows or columns: the last tile is moved back inside the matrix,
 * computes some elements a second time and does not write them. (ANY checks each element instead.)
 *
 * Everything here is inlined with constant sizes; loops over registers are unrolled.
 */
#pragma once

#include "backend/cuda/gemm_copy.cuh"

/* ---- the chains ---- */

#ifndef GEMM_SIDE /* conv.cuh has operands of another kind */
#define GEMM_SIDE gemm_side
#define GEMM_COPY gemm_copy
#define GEMM_PUT gemm_put
#endif

RP_DEVICE void gemm_four(float *x, const float *from)
{
    const float4 v = *(const float4 *)(const void *)from;
    x[0] = v.x;
    x[1] = v.y;
    x[2] = v.z;
    x[3] = v.w;
}

/* `count` rows of one k-step, in groups of four; the groups of `lanes` lanes lie between. */
RP_DEVICE void gemm_load(float *f, rp_smem at, int floats, int count, int lanes)
{
    RP_UNROLL
    for (int i = 0; i < count; i += 4)
        gemm_four(f + i, rp_smem_at(at, floats + i * lanes));
}

/* One k-step of all chains. Every other row goes backwards, so that consecutive instructions share an operand, which is
 * read from the register file once. */
RP_DEVICE void gemm_multiply(float *sum, const float *a, const float *b, int rows, int columns)
{
    RP_UNROLL
    for (int i = 0; i < rows; i++)
        RP_UNROLL
        for (int q = 0; q < columns; q++) {
            const int j = TURNING && (i & 1) ? columns - 1 - q : q;
            sum[i * columns + j] = fmaf(a[i], b[j], sum[i * columns + j]);
        }
}

/* Both operands; held: 2 * MOST floats. */
RP_DEVICE void gemm_copy_both(struct GEMM_SIDE *a, struct GEMM_SIDE *b, float *held, float *stage, const struct gemm_shape *s, int guard,
                              int front)
{
    GEMM_COPY(a, held, stage, s->rows, gemm_threads(s), s->how_a, guard, front);
    GEMM_COPY(b, held + MOST, stage + DEPTH * (s->rows + RP_GEMM_PAD), s->columns, gemm_threads(s), s->how_b, guard, front);
}
RP_DEVICE void gemm_landed(const struct GEMM_SIDE *a, const struct GEMM_SIDE *b, const float *held, float *stage,
                           const struct gemm_shape *s)
{
#if RP_ASYNC
    (void)a, (void)b, (void)held, (void)stage, (void)s;
    rp_copy_wait(STAGES - 2);
#else
    GEMM_PUT(a, held, stage, s->rows, gemm_threads(s), s->how_a);
    GEMM_PUT(b, held + MOST, stage + DEPTH * (s->rows + RP_GEMM_PAD), s->columns, gemm_threads(s), s->how_b);
#endif
}
RP_DEVICE void gemm_end_of_copies(void)
{
#if RP_ASYNC
    rp_copy_commit();
#endif
}

/* How many k-steps of a stage are unrolled: all, if their instructions fit the instruction cache. 12 x 12 chains have
 * 39 KB of them, which an H200 executes 6 % slower than 20 KB: a loop over three quarters of the stage, then the last
 * quarter. Up to 28 KB a loop in the stage saves nothing and costs 2 %. */
RP_DEVICE int gemm_unrolled(const struct gemm_shape *s)
{
    const int bytes = 16 * s->thread_rows * s->thread_columns * DEPTH; /* of FFMA */
    return bytes > 30 << 10 ? DEPTH / 4 : DEPTH;
}

/* `count` k-steps from at_a and at_b on. Operands of the first are in fa[0] and fb[0]; those of the step after the last
 * are loaded, to fa[0] and fb[0] again if count is even. */
RP_DEVICE void gemm_steps(float *sum, float fa[2][MOST], float fb[2][MOST], const struct gemm_shape *s, rp_smem at_a,
                          rp_smem at_b, int count)
{
    const int pitch_a = s->rows + RP_GEMM_PAD, pitch_b = s->columns + RP_GEMM_PAD;
    const int tm = s->thread_rows, tn = s->thread_columns;
    RP_UNROLL
    for (int k = 0; k < count; k++) {
        gemm_load(fa[(k + 1) & 1], at_a, (k + 1) * pitch_a, tm, gemm_lanes_down(s));
        gemm_load(fb[(k + 1) & 1], at_b, (k + 1) * pitch_b, tn, gemm_lanes_across(s));
        gemm_multiply(sum, fa[k & 1], fb[k & 1], tm, tn);
    }
}

/* The chains of one segment, `tiles` stages long. row, column: this thread's first within the tile. */
RP_DEVICE void gemm_chains(float *sum, struct GEMM_SIDE *a, struct GEMM_SIDE *b, const struct gemm_shape *s, float *shared, int row,
                           int column, int tiles, int front)
{
    const int pitch_a = s->rows + RP_GEMM_PAD, pitch_b = s->columns + RP_GEMM_PAD, stage = DEPTH * (pitch_a + pitch_b);
    const int tm = s->thread_rows, tn = s->thread_columns, lm = gemm_lanes_down(s), ln = gemm_lanes_across(s);
    const int unrolled = gemm_unrolled(s);
    float fa[2][MOST], fb[2][MOST], held[2 * MOST];
    rp_smem at_a = rp_smem_of(shared + row), at_b = rp_smem_of(shared + DEPTH * pitch_a + column);
    int now = 0, next = (STAGES - 1) * stage;
    RP_OPAQUE_SMEM(at_a); /* else they are computed again for every use */
    RP_OPAQUE_SMEM(at_b);
    RP_UNROLL
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < tiles)
            gemm_copy_both(a, b, held, shared + i * stage, s, i == 0, i == 0 ? front : 0);
        gemm_end_of_copies();
    }
    if (RP_ASYNC || tiles)
        gemm_landed(a, b, held, shared, s);
    __syncthreads();
    gemm_load(fa[0], at_a, 0, tm, lm);
    gemm_load(fb[0], at_b, 0, tn, ln);
    RP_NO_UNROLL
    for (int tile = 0; tile < tiles; tile++) {
        const int more = tile + STAGES - 1 < tiles, step = now == (STAGES - 1) * stage ? -(STAGES - 1) * stage : stage;
        if (more)
            gemm_copy_both(a, b, held, shared + next, s, 0, 0);
        gemm_end_of_copies();
        rp_smem part_a = at_a, part_b = at_b;
        RP_NO_UNROLL
        for (int k = unrolled; k < DEPTH; k += unrolled) {
            gemm_steps(sum, fa, fb, s, part_a, part_b, unrolled);
            part_a = RP_SMEM_AFTER(part_a, unrolled * pitch_a);
            part_b = RP_SMEM_AFTER(part_b, unrolled * pitch_b);
        }
        gemm_steps(sum, fa, fb, s, part_a, part_b, unrolled - 1);
        if (RP_ASYNC || more)
            gemm_landed(a, b, held, shared + next, s);
        __syncthreads(); /* the next stage is complete, and no thread reads this one any more */
        next = now;
        now += step;
        at_a = RP_SMEM_AFTER(at_a, step);
        at_b = RP_SMEM_AFTER(at_b, step);
        gemm_load(fa[0], at_a, 0, tm, lm); /* after the last tile: stale and unused */
        gemm_load(fb[0], at_b, 0, tn, ln);
        gemm_multiply(sum, fa[(DEPTH - 1) & 1], fb[(DEPTH - 1) & 1], tm, tn);
    }
}

/* ---- writing ---- */

/* The tile and segment of a block, and where the results are written. */
struct gemm_out {
    int tile, group, segment;         /* tile: of all groups */
    const float *before, *bias, *add; /* added; each may be NULL */
    float *to;
    int64_t pitch_before, pitch_to, pitch_add;
    int row0, column0;                /* of the tile as computed */
    int row1, column1, rows, columns; /* elements that are written: from (row1, column1), before (rows, columns) */
    /* w of element i: the row of the matrix that row i of the tile is written to; NULL: row0 + i */
    const uint4 *place;
};

/* `width` floats, 1 or 4. */
RP_DEVICE void gemm_get(float *x, const float *from, int width)
{
    if (width == 4)
        gemm_four(x, from);
    else
        x[0] = *from;
}
RP_DEVICE void gemm_add(float *x, const float *from, int width)
{
    float y[4];
    gemm_get(y, from, width);
    RP_UNROLL
    for (int e = 0; e < width; e++)
        x[e] = x[e] + y[e];
}
RP_DEVICE void gemm_set(float *to, const float *x, int width)
{
    if (width == 4)
        *(float4 *)(void *)to = make_float4(x[0], x[1], x[2], x[3]);
    else
        *to = x[0];
}

RP_DEVICE int gemm_place_of(const struct gemm_out *o, int row)
{
    return o->place ? (int)o->place[row - o->row0].w : row;
}

/* BAND rows of each thread (this one is t): from shared memory to C or `part`, `width` floats at a time. Several are in
 * flight at once, because each may wait for loads of what is added to it. */
RP_DEVICE void gemm_write_band(const struct gemm_out *o, const struct gemm_shape *s, const float *band, int t, int number, int width)
{
    const int lanes = gemm_lanes_down(s), vectors = s->columns / width, room = s->columns + RP_GEMM_PAD, threads = gemm_threads(s);
    const int count = s->rows / s->thread_rows * BAND * vectors / threads, registers = 65536 / threads / s->blocks;
    const int most = RP_GEMM_IN_FLIGHT(count, registers);
    const int base = number * BAND / 4 * 4 * lanes + number * BAND % 4;
    RP_NO_UNROLL
    for (int first = 0; first < count; first += most) {
        float x[6][4];
        int row[6], column[6], own[6];
        RP_UNROLL
        for (int u = 0; u < most; u++) {
            const int v = (first + u) * threads + t, q = v / vectors, c = v % vectors * width, h = q / BAND;
            row[u] = o->row0 + h / lanes * (s->rows / s->warps_down) + h % lanes * 4 + q % BAND + base;
            column[u] = o->column0 + c;
            own[u] = row[u] >= o->row1 && row[u] < o->rows && column[u] >= o->column1 && column[u] < o->columns;
            gemm_get(x[u], band + q * room + c, width);
        }
        if (o->before) {
            RP_UNROLL
            for (int u = 0; u < most; u++)
                if (own[u])
                    gemm_add(x[u], o->before + row[u] * o->pitch_before + column[u], width);
        }
        if (o->bias) {
            RP_UNROLL
            for (int u = 0; u < most; u++)
                if (own[u])
                    gemm_add(x[u], o->bias + column[u], width);
        }
        if (o->add) {
            RP_UNROLL
            for (int u = 0; u < most; u++)
                if (own[u])
                    gemm_add(x[u], o->add + gemm_place_of(o, row[u]) * o->pitch_add + column[u], width);
        }
        RP_UNROLL
        for (int u = 0; u < most; u++)
            if (own[u])
                gemm_set(o->to + gemm_place_of(o, row[u]) * o->pitch_to + column[u], x[u], width);
    }
}

/* The thread's first row and column within the tile. */
RP_DEVICE void gemm_corner(const struct gemm_shape *s, int t, int *row, int *column)
{
    const int lane = t & 31, warp = t >> 5, lanes = gemm_lanes_down(s);
    const int below = (lane & 1) | (lanes == 4 ? lane >> 4 << 1 : (lane >> 3 & 3) << 1), beside = lane >> 1 & (lanes == 4 ? 7 : 3);
    *row = warp / s->warps_across * (s->rows / s->warps_down) + 4 * below;
    *column = warp % s->warps_across * (s->columns / s->warps_across) + 4 * beside;
}

/* sum: thread_rows x thread_columns of this thread. On return everything is written and shared memory may be reused. */
RP_DEVICE void gemm_write(const struct gemm_out *o, const float *sum, const struct gemm_shape *s, float *shared, int wide)
{
    const int lanes = gemm_lanes_down(s), per_warp = s->rows / s->warps_down, room = s->columns + RP_GEMM_PAD;
    int t = (int)threadIdx.x;
    RP_NO_UNROLL
    for (int number = 0; number < s->thread_rows / BAND; number++) {
        int row, column;
        RP_REMATERIALISE(t); /* addresses are computed here: the sums need the registers */
        gemm_corner(s, t, &row, &column);
        float *mine = shared + (row / per_warp * lanes + row % per_warp / 4) * BAND * room + column;
        __syncthreads();
        RP_UNROLL
        for (int i = 0; i < s->thread_rows; i++)
            if (i / BAND == number) {
                RP_UNROLL
                for (int j = 0; j < s->thread_columns; j += 4) {
                    const float *x = sum + i * s->thread_columns + j;
                    *(float4 *)(void *)(mine + i % BAND * room + j * gemm_lanes_across(s)) =
                        make_float4(x[0] + 0.0f, x[1] + 0.0f, x[2] + 0.0f, x[3] + 0.0f);
                }
            }
        __syncthreads();
        if (wide)
            gemm_write_band(o, s, shared, t, number, 4);
        else
            gemm_write_band(o, s, shared, t, number, 1);
    }
    __syncthreads();
}

RP_DEVICE int gemm_least(int a, int b)
{
    return a < b ? a : b;
}
