/* One tile of a matrix product by one block.
 *
 * Every element of C is one chain over its segment's k in ascending order, held in a register: s = fma(a, b, s) from +0, then + (+0).
 * What is free is which thread has which element, and in which order the chains of one thread take turns.
 *
 *   global  --copies-->  shared: stages of DEPTH k-steps, [k][row] of A then of B  --float4-->  registers: thread_rows x thread_columns
 *
 * A stage is overwritten by copies that run beside the arithmetic (sm_80 on) or through registers. Rows in shared memory are 4 floats
 * longer than the tile, so that neither the transposing 4-byte stores nor the 16-byte loads meet in a bank. A thread's rows are groups of
 * four, those of the 4 or 8 lanes below each other side by side; neighbouring lanes are below each other, which lets two quarters of a
 * warp share a 16-byte load.
 *
 * Ragged k: the first tile of a segment begins before it and has zeros there, which leave every chain at +0; all others are whole, and the
 * loop has nothing to check. Ragged rows or columns: the last tile moves back inside the matrix, computes some elements once more and
 * leaves them alone when it writes. (ANY checks each element instead.)
 *
 * Everything here is inlined with constant sizes; loops over registers are unrolled.
 */
#include "backend/cuda/device.h"

#define DEPTH RP_GEMM_DEPTH(RP_ASYNC)
#define STAGES RP_GEMM_STAGES(RP_ASYNC)
#define BAND RP_GEMM_BAND(RP_ASYNC)
#define HALVES (DEPTH / 8) /* copies of 8 k-steps in a row of a tile */
#define MOST 16            /* rows or columns of a thread */
#ifdef RP_SHIM
#define TURNING 0          /* a C compiler makes vectors of this order; the bits are the same */
#else
#define TURNING 1
#endif

struct gemm_shape {
    int rows, columns, thread_rows, thread_columns, warps_down, warps_across;
    enum rp_gemm_how how_a, how_b;
};

RP_DEVICE int gemm_threads(const struct gemm_shape *s)
{
    return 32 * s->warps_down * s->warps_across;
}
RP_DEVICE int gemm_lanes_down(const struct gemm_shape *s)
{
    return s->rows / (s->warps_down * s->thread_rows);
}
RP_DEVICE int gemm_lanes_across(const struct gemm_shape *s)
{
    return s->columns / (s->warps_across * s->thread_columns);
}

/* ---- an operand ---- */

/* What this thread copies of one operand. */
struct gemm_side {
    const float *from;    /* its first element of the tile to be copied next */
    int64_t pass, tile;   /* from there to its next one, and to the next tile's first */
    int64_t odd;          /* R, 192 rows: to its element among the last 64 */
    int to, to_odd, k;    /* places of both in a stage; k-step of the first within the tile */
    const float *base;    /* of the matrix */
    int64_t row_pitch, k_pitch;
    int row, end, k0;     /* ANY: first row of the tile, rows of the matrix, k of the tile to be copied next */
    int by_k;             /* ANY: k is contiguous */
};

/* Rows that one pass of 16-byte copies covers: a power of two. */
RP_DEVICE int gemm_wide(int rows)
{
    return rows == 192 ? 128 : rows;
}
RP_DEVICE int gemm_copies(int rows, int threads, enum rp_gemm_how how)
{
    return rows * DEPTH / threads / (how == RP_GEMM_R ? 4 : 1);
}
/* Copies of R before the one into the last 64 of 192 rows. */
RP_DEVICE int gemm_even(int rows, int threads)
{
    return gemm_wide(rows) * DEPTH / threads / 4;
}

/* Row and k-step of copy i of this thread within the tile. */
RP_DEVICE int gemm_row(const struct gemm_side *x, int i, int rows, int threads, enum rp_gemm_how how)
{
    const int t = (int)threadIdx.x;
    if (how == RP_GEMM_K || (how == RP_GEMM_ANY && x->by_k))
        return i / HALVES * (threads / 8) + t / 8;
    if (how == RP_GEMM_R)
        return i < gemm_even(rows, threads) ? t % (gemm_wide(rows) / 4) * 4 : 128 + t % 16 * 4;
    return (t + i * threads) % rows;
}
RP_DEVICE int gemm_step(const struct gemm_side *x, int i, int rows, int threads, enum rp_gemm_how how)
{
    const int t = (int)threadIdx.x, first = gemm_even(rows, threads);
    if (how == RP_GEMM_K || (how == RP_GEMM_ANY && x->by_k))
        return i % HALVES * 8 + t % 8;
    if (how == RP_GEMM_R)
        return i < first ? t / (gemm_wide(rows) / 4) + i * (threads / (gemm_wide(rows) / 4)) : t / 16 + (i - first) * (threads / 16);
    return (t + i * threads) / rows;
}
/* Its place in a stage: what differs between copies is a constant. */
RP_DEVICE int gemm_place(const struct gemm_side *x, int i, int rows, int threads, enum rp_gemm_how how)
{
    const int pitch = rows + RP_GEMM_PAD;
    if (how == RP_GEMM_K)
        return x->to + i / HALVES * (threads / 8) + i % HALVES * 8 * pitch;
    if (how == RP_GEMM_R1)
        return x->to + i * (threads / rows) * pitch;
    if (how == RP_GEMM_R)
        return i < gemm_even(rows, threads) ? x->to + i * (threads / (gemm_wide(rows) / 4)) * pitch : x->to_odd;
    return gemm_step(x, i, rows, threads, how) * pitch + gemm_row(x, i, rows, threads, how);
}

RP_DEVICE void gemm_begin(struct gemm_side *x, const float *base, int64_t pitch, int by_k, int rows, int threads, enum rp_gemm_how how, int row,
                          int end, int k0)
{
    const int first = gemm_even(rows, threads), room = rows + RP_GEMM_PAD;
    x->base = base;
    x->by_k = by_k;
    x->row_pitch = by_k ? pitch : 1;
    x->k_pitch = by_k ? 1 : pitch;
    x->row = row;
    x->end = end;
    x->k0 = k0;
    if (how == RP_GEMM_ANY)
        return;
    const int r = gemm_row(x, 0, rows, threads, how), k = gemm_step(x, 0, rows, threads, how);
    x->k = k;
    x->from = base + (row + r) * x->row_pitch + (k0 + k) * x->k_pitch;
    x->tile = DEPTH * x->k_pitch;
    x->pass = how == RP_GEMM_K ? threads / 8 * pitch : threads / (how == RP_GEMM_R1 ? rows : gemm_wide(rows) / 4) * pitch;
    x->to = k * room + r;
    RP_OPAQUE(x->to); /* or it is computed again for every tile */
    if (how == RP_GEMM_R && rows == 192) {
        const int r2 = gemm_row(x, first, rows, threads, how), k2 = gemm_step(x, first, rows, threads, how);
        x->odd = (k2 - k) * pitch + (r2 - r);
        x->to_odd = k2 * room + r2;
        RP_OPAQUE(x->to_odd);
    }
}

/* One copy of 4 or 16 bytes, or zeros. Without copies beside the arithmetic it ends in `held` until the arithmetic is done. */
RP_DEVICE void gemm_copy_one(const struct gemm_side *x, float *held, float *to, const float *from, enum rp_gemm_how how, int guard, int inside)
{
#if RP_ASYNC
    (void)held;
    if (how != RP_GEMM_R && !guard)
        rp_copy4(to, from);
    else if (how != RP_GEMM_R)
        rp_copy4_or_zero(to, inside ? from : x->base, inside);
    else if (!guard || inside)
        rp_copy16(to, from);
    else
        *(float4 *)(void *)to = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#else
    (void)x, (void)to;
    if (how == RP_GEMM_R) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (!guard || inside)
            v = *(const float4 *)(const void *)from;
        held[0] = v.x;
        held[1] = v.y;
        held[2] = v.z;
        held[3] = v.w;
    } else
        *held = !guard || inside ? *from : 0.0f;
#endif
}

/* Start copying the next tile; its first `front` k-steps are zeros (guard: they may be, or ANY). */
RP_DEVICE void gemm_copy(struct gemm_side *x, float *held, float *stage, int rows, int threads, enum rp_gemm_how how, int guard, int front)
{
    const float *at = x->from;
    RP_UNROLL
    for (int i = 0; i < gemm_copies(rows, threads, how); i++, held += how == RP_GEMM_R ? 4 : 1) {
        float *to = stage + gemm_place(x, i, rows, threads, how);
        if (how == RP_GEMM_ANY) {
            const int r = x->row + gemm_row(x, i, rows, threads, how), k = gemm_step(x, i, rows, threads, how);
            gemm_copy_one(x, held, to, x->base + r * x->row_pitch + (x->k0 + k) * x->k_pitch, how, 1, r < x->end && k >= front);
            continue;
        }
        const int odd = how == RP_GEMM_R && i >= gemm_even(rows, threads);
        const int k = guard ? gemm_step(x, i, rows, threads, how) : 0;
        gemm_copy_one(x, held, to, how == RP_GEMM_K ? at + i % HALVES * 8 : odd ? x->from + x->odd : at, how, guard, k >= front);
        if (how != RP_GEMM_K || i % HALVES == HALVES - 1)
            at += x->pass;
    }
    x->from += x->tile;
    x->k0 += DEPTH;
}

#if !RP_ASYNC
RP_DEVICE void gemm_put(const struct gemm_side *x, const float *held, float *stage, int rows, int threads, enum rp_gemm_how how)
{
    RP_UNROLL
    for (int i = 0; i < gemm_copies(rows, threads, how); i++) {
        float *to = stage + gemm_place(x, i, rows, threads, how);
        if (how == RP_GEMM_R)
            *(float4 *)(void *)to = make_float4(held[4 * i], held[4 * i + 1], held[4 * i + 2], held[4 * i + 3]);
        else
            *to = held[i];
    }
}
#endif

/* ---- the chains ---- */

/* `count` rows of one k-step, in groups of four, from `at` on; the groups of `lanes` lanes lie between. */
RP_DEVICE void gemm_load(float *f, const float *at, int count, int lanes)
{
    RP_UNROLL
    for (int i = 0; i < count; i += 4) {
        const float4 v = *(const float4 *)(const void *)(at + i * lanes);
        f[i] = v.x;
        f[i + 1] = v.y;
        f[i + 2] = v.z;
        f[i + 3] = v.w;
    }
}

/* One k-step of all chains. Every other row goes backwards, so that one operand of each instruction is that of the one before: it is read
 * from the register file once. */
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
RP_DEVICE void gemm_copy_both(struct gemm_side *a, struct gemm_side *b, float *held, float *stage, const struct gemm_shape *s, int guard,
                              int front)
{
    gemm_copy(a, held, stage, s->rows, gemm_threads(s), s->how_a, guard, front);
    gemm_copy(b, held + MOST, stage + DEPTH * (s->rows + RP_GEMM_PAD), s->columns, gemm_threads(s), s->how_b, guard, front);
}
RP_DEVICE void gemm_landed(const struct gemm_side *a, const struct gemm_side *b, const float *held, float *stage, const struct gemm_shape *s)
{
#if RP_ASYNC
    (void)a, (void)b, (void)held, (void)stage, (void)s;
    rp_copy_wait(STAGES - 2);
#else
    gemm_put(a, held, stage, s->rows, gemm_threads(s), s->how_a);
    gemm_put(b, held + MOST, stage + DEPTH * (s->rows + RP_GEMM_PAD), s->columns, gemm_threads(s), s->how_b);
#endif
}
RP_DEVICE void gemm_end_of_copies(void)
{
#if RP_ASYNC
    rp_copy_commit();
#endif
}

/* The chains of one segment, `tiles` stages long. row, column: this thread's first within the tile. */
RP_DEVICE void gemm_chains(float *sum, struct gemm_side *a, struct gemm_side *b, const struct gemm_shape *s, float *shared, int row,
                           int column, int tiles, int front)
{
    const int pitch_a = s->rows + RP_GEMM_PAD, pitch_b = s->columns + RP_GEMM_PAD, stage = DEPTH * (pitch_a + pitch_b);
    const int tm = s->thread_rows, tn = s->thread_columns, lm = gemm_lanes_down(s), ln = gemm_lanes_across(s);
    const float *at_a = shared + row, *at_b = shared + DEPTH * pitch_a + column;
    float fa[2][MOST], fb[2][MOST], held[2 * MOST];
    RP_UNROLL
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < tiles)
            gemm_copy_both(a, b, held, shared + i * stage, s, i == 0, i == 0 ? front : 0);
        gemm_end_of_copies();
    }
    if (RP_ASYNC || tiles)
        gemm_landed(a, b, held, shared, s);
    __syncthreads();
    gemm_load(fa[0], at_a, tm, lm);
    gemm_load(fb[0], at_b, tn, ln);
    int now = 0, next = (STAGES - 1) * stage;
    RP_NO_UNROLL
    for (int tile = 0; tile < tiles; tile++) {
        const int more = tile + STAGES - 1 < tiles;
        if (more)
            gemm_copy_both(a, b, held, shared + next, s, 0, 0);
        gemm_end_of_copies();
        RP_UNROLL
        for (int k = 0; k < DEPTH - 1; k++) {
            gemm_load(fa[(k + 1) & 1], at_a + now + (k + 1) * pitch_a, tm, lm);
            gemm_load(fb[(k + 1) & 1], at_b + now + (k + 1) * pitch_b, tn, ln);
            gemm_multiply(sum, fa[k & 1], fb[k & 1], tm, tn);
        }
        if (RP_ASYNC || more)
            gemm_landed(a, b, held, shared + next, s);
        __syncthreads(); /* the next stage is there, and nobody reads this one any more */
        now = now == (STAGES - 1) * stage ? 0 : now + stage;
        next = next == (STAGES - 1) * stage ? 0 : next + stage;
        gemm_load(fa[0], at_a + now, tm, lm); /* stale after the last tile, and unused */
        gemm_load(fb[0], at_b + now, tn, ln);
        gemm_multiply(sum, fa[(DEPTH - 1) & 1], fb[(DEPTH - 1) & 1], tm, tn);
    }
}

/* ---- writing ---- */

/* Where a segment's sums go. */
struct gemm_out {
    const float *before, *bias, *add; /* each NULL: nothing to add */
    float *to;
    int64_t pitch_before, pitch_to, pitch_add;
    int row0, column0;                /* of the tile as computed */
    int row1, column1, rows, columns; /* what of the matrix is this tile's own: from, and before */
};

/* `width` floats, 1 or 4. */
RP_DEVICE void gemm_get(float *x, const float *from, int width)
{
    if (width == 4)
        gemm_load(x, from, 4, 0);
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

/* BAND rows of every thread: from shared memory to where they belong, `width` floats at a time. Several are under way at once, because
 * each may have to wait for what is added to it. */
RP_DEVICE void gemm_write_band(const struct gemm_out *o, const struct gemm_shape *s, const float *band, int number, int width)
{
    const int lanes = gemm_lanes_down(s), vectors = s->columns / width, room = s->columns + RP_GEMM_PAD, threads = gemm_threads(s);
    const int count = s->rows / s->thread_rows * BAND * vectors / threads, most = count % 6 == 0 ? 6 : count % 4 == 0 ? 4 : 2;
    const int base = number * BAND / 4 * 4 * lanes + number * BAND % 4;
    RP_NO_UNROLL
    for (int first = 0; first < count; first += most) {
        float x[6][4];
        int row[6], column[6], own[6];
        RP_UNROLL
        for (int u = 0; u < most; u++) {
            const int v = (first + u) * threads + (int)threadIdx.x, q = v / vectors, c = v % vectors * width, h = q / BAND;
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
                    gemm_add(x[u], o->add + row[u] * o->pitch_add + column[u], width);
        }
        RP_UNROLL
        for (int u = 0; u < most; u++)
            if (own[u])
                gemm_set(o->to + row[u] * o->pitch_to + column[u], x[u], width);
    }
}

/* sum: thread_rows x thread_columns of this thread; row, column: where they begin within the tile. Ends with everything written, and
 * shared memory free again. */
RP_DEVICE void gemm_write(const struct gemm_out *o, const float *sum, const struct gemm_shape *s, float *shared, int row, int column, int wide)
{
    const int lanes = gemm_lanes_down(s), per_warp = s->rows / s->warps_down, room = s->columns + RP_GEMM_PAD;
    float *mine = shared + (row / per_warp * lanes + row % per_warp / 4) * BAND * room + column;
    RP_NO_UNROLL
    for (int number = 0; number < s->thread_rows / BAND; number++) {
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
            gemm_write_band(o, s, shared, number, 4);
        else
            gemm_write_band(o, s, shared, number, 1);
    }
    __syncthreads();
}

/* Segments may be added where they end up, or apart to be added later, or in turns. */
RP_DEVICE void gemm_aim(struct gemm_out *o, const struct rp_gemm_args *g, int segment)
{
    const int apart = g->mode == RP_GEMM_APART, last = !apart && segment == g->segments - 1;
    o->before = !apart && segment ? g->part : (const float *)NULL;
    o->pitch_before = g->ldpart;
    o->to = last ? g->c : apart ? g->part + segment * (g->m * g->ldpart) : g->part;
    o->pitch_to = last ? g->ldc : g->ldpart;
    o->bias = last ? g->bias : (const float *)NULL;
    o->add = last ? g->add : (const float *)NULL;
    o->pitch_add = g->ldadd;
}

/* ---- blocks ---- */

/* What this block does: tiles come in bands of 8 rows of tiles, columns within, so that those that run together share operands in the
 * cache; all tiles of a segment before the next segment. In turns a block may wait for one with a lower number: they are drawn from a
 * counter, because blocks need not start in the order of their indices. */
RP_DEVICE unsigned gemm_number(const struct rp_gemm_args *g, unsigned *shared)
{
    if (g->mode != RP_GEMM_TURNS)
        return blockIdx.x;
    if (threadIdx.x == 0) {
        *shared = atomicAdd(g->turns, 1u);
        if (*shared == gridDim.x - 1)
            *g->turns = 0; /* for the next launch; nobody draws any more */
    }
    __syncthreads();
    const unsigned number = *shared;
    __syncthreads();
    return number;
}

RP_DEVICE void gemm_wait(const struct rp_gemm_args *g, unsigned tile, int segment)
{
    if (g->mode != RP_GEMM_TURNS || !segment)
        return;
    if (threadIdx.x == 0)
        while (rp_load_acquire(g->turns + 1 + tile) != (unsigned)segment)
            ;
    __syncthreads();
}
RP_DEVICE void gemm_pass_on(const struct rp_gemm_args *g, unsigned tile, int segment)
{
    if (g->mode != RP_GEMM_TURNS)
        return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        rp_store_release(g->turns + 1 + tile, segment == g->segments - 1 ? 0u : (unsigned)segment + 1);
}

RP_DEVICE int gemm_least(int a, int b)
{
    return a < b ? a : b;
}

RP_DEVICE void gemm_block(const struct rp_gemm_args *g, const struct gemm_shape *s)
{
    const int down = (g->m + s->rows - 1) / s->rows, across = (g->n + s->columns - 1) / s->columns;
    const unsigned number = gemm_number(g, RP_SHARED(unsigned)), tiles = (unsigned)down * (unsigned)across, tile = number % tiles;
    const int band = (int)tile / (8 * across), height = gemm_least(8, down - 8 * band), rest = (int)tile - 8 * band * across;
    const int lane = threadIdx.x & 31, warp = (int)threadIdx.x >> 5, lanes = gemm_lanes_down(s);
    const int below = (lane & 1) | (lanes == 4 ? lane >> 4 << 1 : (lane >> 3 & 3) << 1), beside = lane >> 1 & (lanes == 4 ? 7 : 3);
    const int row = warp / s->warps_across * (s->rows / s->warps_down) + 4 * below;
    const int column = warp % s->warps_across * (s->columns / s->warps_across) + 4 * beside;
    struct gemm_out o;
    o.rows = g->m;
    o.columns = g->n;
    o.row1 = (8 * band + rest % height) * s->rows;
    o.column1 = rest / height * s->columns;
    o.row0 = s->how_a == RP_GEMM_ANY ? o.row1 : gemm_least(o.row1, g->m - s->rows);
    o.column0 = s->how_b == RP_GEMM_ANY ? o.column1 : gemm_least(o.column1, g->n - s->columns);
    const int whole = g->mode == RP_GEMM_WHOLE, first = whole ? 0 : (int)(number / tiles), last = whole ? g->segments - 1 : first;
    RP_NO_UNROLL
    for (int segment = first; segment <= last; segment++) {
        struct gemm_side a, b;
        float sum[144];
        const int from = segment * g->segment, end = gemm_least(g->k, from + g->segment), stages = (end - from + DEPTH - 1) / DEPTH;
        gemm_begin(&a, g->a, g->lda, !g->ta, s->rows, gemm_threads(s), s->how_a, o.row0, g->m, end - stages * DEPTH);
        gemm_begin(&b, g->b, g->ldb, g->tb, s->columns, gemm_threads(s), s->how_b, o.column0, g->n, end - stages * DEPTH);
        RP_UNROLL
        for (int i = 0; i < s->thread_rows * s->thread_columns; i++)
            sum[i] = 0.0f;
        gemm_chains(sum, &a, &b, s, RP_SHARED(float), row, column, stages, from - (end - stages * DEPTH));
        gemm_wait(g, tile, segment);
        gemm_aim(&o, g, segment);
        gemm_write(&o, sum, s, RP_SHARED(float), row, column, g->wide);
        gemm_pass_on(g, tile, segment);
    }
}
