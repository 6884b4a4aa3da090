/* One tile of a GEMM, computed by one block.
 *
 * Every element of C is one chain over its segment's k in ascending order, held in a register: s = fma(a, b, s) from +0, then + (+0).
 * The assignment of elements to threads, and the order in which a thread advances its chains, do not affect the bits.
 *
 *   global  --copies-->  shared: stages of DEPTH k-steps, [k][row] of A then of B  --float4-->  registers: thread_rows x thread_columns
 *
 * A stage is overwritten by asynchronous copies (sm_80 on) or through registers. Rows in shared memory are 4 floats longer than the tile,
 * so that neither the transposing 4-byte stores nor the 16-byte loads have bank conflicts. A thread's rows are groups of four, adjacent to
 * those of the 4 or 8 lanes in the same column of lanes; neighbouring lanes share a column, which lets two quarters of a warp share a
 * 16-byte load.
 *
 * Ragged k: the first stage of a segment begins before it and has zeros there, which leave every chain at +0; all others are whole, so the
 * loop checks nothing. Ragged rows or columns: the last tile is moved back inside the matrix, computes some elements a second time and does
 * not write them. (ANY checks each element instead.)
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
#define TURNING 0          /* a C compiler vectorises this order; the bits are the same */
#else
#define TURNING 1
#endif

struct gemm_shape {
    int blocks, rows, columns, thread_rows, thread_columns, warps_down, warps_across;
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

/* The copies of this thread for one operand: some passes over a tile, each of which covers whole rows of it or whole k-steps. Distances
 * between elements of the matrix are in bytes, those within a stage in floats. */
struct gemm_side {
    const float *base;    /* of the matrix */
    const char *from;     /* the thread's first element of the tile to be copied next */
    int64_t pass, tile;   /* from there to that of the next pass, and of the next tile */
    int to, to_pass;      /* its place in a stage */
    int k, k_pass;        /* its k-step within the tile */
    int row, row_pass;    /* its row in the matrix, which has `rows`: checked for ANY */
    int rows;
    int64_t odd;          /* R, 192 rows: two passes cover 128, then one the last 64: from the first element to the one there */
    int odd_to, odd_k;
};

/* Rows that one pass of 16-byte copies covers: a power of two. */
RP_DEVICE int gemm_wide(int tile_rows)
{
    return tile_rows == 192 ? 128 : tile_rows;
}
RP_DEVICE int gemm_copies(int tile_rows, int threads, enum rp_gemm_how how)
{
    return tile_rows * DEPTH / threads / (how == RP_GEMM_R ? 4 : 1);
}
RP_DEVICE int gemm_is_odd(int i, int tile_rows, int threads, enum rp_gemm_how how)
{
    return how == RP_GEMM_R && i >= gemm_wide(tile_rows) * DEPTH / threads / 4;
}

/* A pass of K is HALVES copies. */
RP_DEVICE int gemm_pass(int i, enum rp_gemm_how how)
{
    return how == RP_GEMM_K ? i / HALVES : i;
}
RP_DEVICE int gemm_half(int i, enum rp_gemm_how how)
{
    return how == RP_GEMM_K ? i % HALVES * 8 : 0;
}
/* The offset of copy i from `to` (or odd_to): constant except for ANY. */
RP_DEVICE int gemm_place(const struct gemm_side *x, int i, int tile_rows, int threads, enum rp_gemm_how how)
{
    return gemm_is_odd(i, tile_rows, threads, how) ? 0 : gemm_pass(i, how) * x->to_pass + gemm_half(i, how) * (tile_rows + RP_GEMM_PAD);
}

/* Of the tile with first row `row` and first k-step k0. A row of the matrix is contiguous in k if by_k. */
RP_DEVICE void gemm_begin(struct gemm_side *x, const float *base, int64_t pitch, int by_k, int tile_rows, int threads, enum rp_gemm_how how,
                          int row, int rows, int k0)
{
    const int t = (int)threadIdx.x, vectors = how == RP_GEMM_R ? gemm_wide(tile_rows) / 4 : tile_rows, room = tile_rows + RP_GEMM_PAD;
    const int along_k = how == RP_GEMM_K || (how == RP_GEMM_ANY && by_k), steps = how == RP_GEMM_K ? 8 : DEPTH;
    const int r = along_k ? t / steps : t % vectors * (how == RP_GEMM_R ? 4 : 1);
    const int64_t row_pitch = along_k ? pitch : 1, k_pitch = along_k ? 1 : pitch;
    x->base = base;
    x->k = along_k ? t % steps : t / vectors;
    x->row = row + r;
    x->rows = rows;
    x->row_pass = along_k ? threads / steps : 0;
    x->k_pass = along_k ? 0 : threads / vectors;
    x->from = (const char *)(base + x->row * row_pitch + (k0 + x->k) * k_pitch);
    x->tile = 4 * DEPTH * k_pitch;
    x->pass = 4 * (x->row_pass * row_pitch + x->k_pass * k_pitch);
    x->to = x->k * room + r;
    x->to_pass = x->row_pass + x->k_pass * room;
    RP_OPAQUE64(x->pass); /* else these are computed again for every tile */
    RP_OPAQUE(x->to);
    if (how == RP_GEMM_R && tile_rows == 192) {
        x->odd_k = t / 16;
        x->odd = 4 * ((x->odd_k - x->k) * pitch + (128 + t % 16 * 4 - r));
        x->odd_to = x->odd_k * room + 128 + t % 16 * 4;
        RP_OPAQUE64(x->odd);
        RP_OPAQUE(x->odd_to);
    }
}

/* One copy, to `place` floats after `to`. Without asynchronous copies the data stay in registers, `held`, until gemm_put().
 * guard: if !inside, zeros are stored, and `from` is any readable address. */
RP_DEVICE void gemm_copy_one(float *held, rp_smem to, int place, const void *from, int sixteen, int guard, int inside)
{
#if RP_ASYNC
    (void)held;
    if (sixteen && guard)
        rp_copy16_or_zero_to(to, place, from, inside);
    else if (sixteen)
        rp_copy16_to(to, place, from);
    else if (guard)
        rp_copy4_or_zero_to(to, place, from, inside);
    else
        rp_copy4_to(to, place, from);
#else
    (void)to, (void)place;
    if (!sixteen) {
        held[0] = !guard || inside ? rp_load4(from) : 0.0f;
        return;
    }
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (!guard || inside)
        v = rp_load16(from);
    held[0] = v.x;
    held[1] = v.y;
    held[2] = v.z;
    held[3] = v.w;
#endif
}

/* Starts copying the next tile; its first `front` k-steps are zeros (guard: front may be > 0). */
RP_DEVICE void gemm_copy(struct gemm_side *x, float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how, int guard,
                         int front)
{
    const int sixteen = how == RP_GEMM_R, any = how == RP_GEMM_ANY;
    const char *at = x->from;
    rp_smem to = rp_smem_of(stage + x->to);
    RP_OPAQUE_SMEM(to); /* so that the offsets between copies are constants of the instructions */
    RP_UNROLL
    for (int i = 0; i < gemm_copies(tile_rows, threads, how); i++, held += sixteen ? 4 : 1) {
        const int odd = gemm_is_odd(i, tile_rows, threads, how), pass = gemm_pass(i, how), half = gemm_half(i, how);
        const char *from = odd ? x->from + x->odd : at + 4 * half;
        int inside = 1;
        if (guard)
            inside = (odd ? x->odd_k : x->k + pass * x->k_pass + half) >= front;
        if (any)
            inside = inside && x->row + pass * x->row_pass < x->rows;
        if (!inside)
            from = (const char *)x->base;
        gemm_copy_one(held, odd ? rp_smem_of(stage + x->odd_to) : to, gemm_place(x, i, tile_rows, threads, how), from, sixteen,
                      guard || any, inside);
        if (how != RP_GEMM_K || half == 8 * (HALVES - 1)) {
            at += x->pass;
            RP_OPAQUE64(at);
        }
    }
    x->from += x->tile;
}

#if !RP_ASYNC
RP_DEVICE void gemm_put(const struct gemm_side *x, const float *held, float *stage, int tile_rows, int threads, enum rp_gemm_how how)
{
    RP_UNROLL
    for (int i = 0; i < gemm_copies(tile_rows, threads, how); i++) {
        float *to = stage + (gemm_is_odd(i, tile_rows, threads, how) ? x->odd_to : x->to) + gemm_place(x, i, tile_rows, threads, how);
        if (how == RP_GEMM_R)
            *(float4 *)(void *)to = make_float4(held[4 * i], held[4 * i + 1], held[4 * i + 2], held[4 * i + 3]);
        else
            *to = held[i];
    }
}
#endif

/* ---- the chains ---- */

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

/* One k-step of all chains. Every other row goes backwards, so that consecutive instructions share an operand, which is read from the
 * register file once. */
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
RP_DEVICE void gemm_landed(const struct gemm_side *a, const struct gemm_side *b, const float *held, float *stage,
                           const struct gemm_shape *s)
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
        RP_UNROLL
        for (int k = 0; k < DEPTH - 1; k++) {
            gemm_load(fa[(k + 1) & 1], at_a, (k + 1) * pitch_a, tm, lm);
            gemm_load(fb[(k + 1) & 1], at_b, (k + 1) * pitch_b, tn, ln);
            gemm_multiply(sum, fa[k & 1], fb[k & 1], tm, tn);
        }
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
    int tile, segment;
    const float *before, *bias, *add; /* added; each may be NULL */
    float *to;
    int64_t pitch_before, pitch_to, pitch_add;
    int row0, column0;                /* of the tile as computed */
    int row1, column1, rows, columns; /* elements that are written: from (row1, column1), before (rows, columns) */
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

/* BAND rows of each thread (this one is t): from shared memory to C or `part`, `width` floats at a time. Several are in flight at once,
 * because each may wait for loads of what is added to it. */
RP_DEVICE void gemm_write_band(const struct gemm_out *o, const struct gemm_shape *s, const float *band, int t, int number, int width)
{
    const int lanes = gemm_lanes_down(s), vectors = s->columns / width, room = s->columns + RP_GEMM_PAD, threads = gemm_threads(s);
    const int count = s->rows / s->thread_rows * BAND * vectors / threads, registers = 65536 / threads / s->blocks;
    const int most = registers <= 128 || count % 4 ? 2 : count % 6 ? 4 : 6;
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
                    gemm_add(x[u], o->add + row[u] * o->pitch_add + column[u], width);
        }
        RP_UNROLL
        for (int u = 0; u < most; u++)
            if (own[u])
                gemm_set(o->to + row[u] * o->pitch_to + column[u], x[u], width);
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

/* Where a segment reads the sum so far and writes its result, depending on the mode. */
RP_DEVICE void gemm_aim(struct gemm_out *o, const struct rp_gemm_args *g, int segment)
{
    const int parallel = g->mode == RP_GEMM_PARALLEL, last = !parallel && segment == g->segments - 1;
    o->before = !parallel && segment ? g->part : (const float *)NULL;
    o->pitch_before = g->ldpart;
    o->to = last ? g->c : parallel ? g->part + segment * (g->m * g->ldpart) : g->part;
    o->pitch_to = last ? g->ldc : g->ldpart;
    o->bias = last ? g->bias : (const float *)NULL;
    o->add = last ? g->add : (const float *)NULL;
    o->pitch_add = g->ldadd;
}

/* ---- blocks ---- */

/* The number of a block gives its tile and segment: tiles are ordered in bands of 8 rows of tiles, by column within a band, so that
 * concurrent blocks share operands in the cache; all tiles of a segment come before the next segment. In SERIAL mode a block may wait for
 * one with a lower number. Blocks need not start in the order of their indices, so they draw numbers from an atomic counter; the number
 * stays at the front of shared memory. */
RP_DEVICE void gemm_draw(const struct rp_gemm_args *g, unsigned *drawn)
{
    if (g->mode != RP_GEMM_SERIAL)
        return;
    if (threadIdx.x == 0) {
        *drawn = atomicAdd(g->semaphores, 1u);
        if (*drawn == gridDim.x - 1)
            atomicAdd(g->semaphores, 0u - gridDim.x); /* back to 0; a plain store would race with the other blocks' relaxed atomics */
    }
    __syncthreads();
}
RP_DEVICE unsigned gemm_number(const struct rp_gemm_args *g, const unsigned *drawn)
{
    return g->mode == RP_GEMM_SERIAL ? *drawn : blockIdx.x;
}

RP_DEVICE void gemm_wait(const struct rp_gemm_args *g, int tile, int segment)
{
    if (g->mode != RP_GEMM_SERIAL || !segment)
        return;
    if (threadIdx.x == 0)
        while (rp_load_acquire(g->semaphores + 1 + tile) != (unsigned)segment)
            ;
    __syncthreads();
}
RP_DEVICE void gemm_signal(const struct rp_gemm_args *g, int tile, int segment)
{
    if (g->mode != RP_GEMM_SERIAL)
        return;
    if (threadIdx.x == 0) /* the barrier at the end of gemm_write() orders the other threads' writes before this release */
        rp_store_release(g->semaphores + 1 + tile, segment == g->segments - 1 ? 0u : (unsigned)segment + 1);
}

RP_DEVICE int gemm_least(int a, int b)
{
    return a < b ? a : b;
}

/* The tile of this block. */
RP_DEVICE void gemm_find(struct gemm_out *o, const struct rp_gemm_args *g, const struct gemm_shape *s, unsigned number)
{
    const int down = (g->m + s->rows - 1) / s->rows, across = (g->n + s->columns - 1) / s->columns;
    const int tile = (int)(number % (unsigned)(down * across));
    const int band = tile / (8 * across), height = gemm_least(8, down - 8 * band), rest = tile - 8 * band * across;
    o->tile = tile;
    o->segment = (int)(number / (unsigned)(down * across));
    o->rows = g->m;
    o->columns = g->n;
    o->row1 = (8 * band + rest % height) * s->rows;
    o->column1 = rest / height * s->columns;
    o->row0 = s->how_a == RP_GEMM_ANY ? o->row1 : gemm_least(o->row1, g->m - s->rows);
    o->column0 = s->how_b == RP_GEMM_ANY ? o->column1 : gemm_least(o->column1, g->n - s->columns);
}

RP_DEVICE void gemm_block(const struct rp_gemm_args *g, const struct gemm_shape *s)
{
    unsigned *drawn = RP_SHARED(unsigned);
    float *shared = RP_SHARED(float) + RP_GEMM_FRONT;
    const int segments = g->mode == RP_GEMM_WHOLE ? g->segments : 1;
    gemm_draw(g, drawn);
    RP_NO_UNROLL
    for (int done = 0; done < segments; done++) {
        struct gemm_out o;
        struct gemm_side a, b;
        float sum[144];
        int row, column;
        gemm_corner(s, (int)threadIdx.x, &row, &column);
        gemm_find(&o, g, s, gemm_number(g, drawn));
        const int from = (o.segment + done) * g->segment, end = gemm_least(g->k, from + g->segment);
        const int stages = (end - from + DEPTH - 1) / DEPTH, k0 = end - stages * DEPTH;
        gemm_begin(&a, g->a, g->lda, !g->ta, s->rows, gemm_threads(s), s->how_a, o.row0, g->m, k0);
        gemm_begin(&b, g->b, g->ldb, g->tb, s->columns, gemm_threads(s), s->how_b, o.column0, g->n, k0);
        RP_UNROLL
        for (int i = 0; i < s->thread_rows * s->thread_columns; i++)
            sum[i] = 0.0f;
        gemm_chains(sum, &a, &b, s, shared, row, column, stages, from - k0);
        unsigned number = gemm_number(g, drawn);
        RP_REMATERIALISE(number); /* the chains need the registers */
        gemm_find(&o, g, s, number);
        gemm_wait(g, o.tile, o.segment + done);
        gemm_aim(&o, g, o.segment + done);
        gemm_write(&o, sum, s, shared, g->wide);
        gemm_signal(g, o.tile, o.segment + done);
    }
}
