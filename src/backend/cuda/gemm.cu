/* GEMM: a kernel for each tile of gemm.def, and the sum over the segments of a parallel split-K. */
#include "backend/cuda/gemm.cuh"

RP_DEVICE int gemm_segments(const struct rp_gemm_args *g, int group)
{
    return group == g->groups - 1 ? g->last_segments : g->segments;
}

/* Where a segment reads the sum so far and writes its result, depending on the mode. */
RP_DEVICE void gemm_aim(struct gemm_out *o, const struct rp_gemm_args *g, int segment)
{
    const int parallel = g->mode == RP_GEMM_PARALLEL, last = !parallel && segment == gemm_segments(g, o->group) - 1;
    float *part = g->part + (parallel ? segment : o->group) * (g->m * g->ldpart);
    o->before = !parallel && segment ? part : (const float *)NULL;
    o->pitch_before = g->ldpart;
    o->to = last ? g->c + o->group * (g->m * g->ldc) : part;
    o->pitch_to = last ? g->ldc : g->ldpart;
    o->bias = last ? g->bias : (const float *)NULL;
    o->add = last ? g->add : (const float *)NULL;
    o->pitch_add = g->ldadd;
}

/* The number of a block gives its group, tile and segment: tiles are ordered in bands of 8 rows of tiles, by column within a band, so that
 * concurrent blocks share operands in the cache; all tiles of a group come before the next group, and all groups of a segment before the
 * next segment. In SERIAL mode a block may wait for one with a lower number. Blocks need not start in the order of their indices, so they draw numbers from an atomic counter; the number
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

/* The block before takes microseconds to write its tile: the pauses between looks grow to a fraction of that. Threads of this block read
 * the tile after the barrier, which the fence of this thread precedes. */
RP_DEVICE void gemm_wait(const struct rp_gemm_args *g, int tile, int segment)
{
    if (g->mode != RP_GEMM_SERIAL || !segment)
        return;
    if (threadIdx.x == 0) {
        unsigned pause = 32;
        while (rp_load_relaxed(g->semaphores + 1 + tile) != (unsigned)segment) {
            rp_sleep(pause);
            pause = pause < 256 ? 2 * pause : pause;
        }
        rp_fence();
    }
    __syncthreads();
}
RP_DEVICE void gemm_signal(const struct rp_gemm_args *g, int tile, int group, int segment)
{
    if (g->mode != RP_GEMM_SERIAL)
        return;
    if (threadIdx.x == 0) /* the barrier at the end of gemm_write() orders the other threads' writes before this release */
        rp_store_release(g->semaphores + 1 + tile, segment == gemm_segments(g, group) - 1 ? 0u : (unsigned)segment + 1);
}

/* The tile of this block. */
RP_DEVICE void gemm_find(struct gemm_out *o, const struct rp_gemm_args *g, const struct gemm_shape *s, unsigned number)
{
    const int down = (g->m + s->rows - 1) / s->rows, across = (g->n + s->columns - 1) / s->columns, tiles = down * across;
    const int all = (int)(number % (unsigned)(tiles * g->groups)), group = (int)((unsigned)all / (unsigned)tiles), tile = all - group * tiles;
    const int band = tile / (8 * across), height = gemm_least(8, down - 8 * band), rest = tile - 8 * band * across;
    o->place = (const uint4 *)NULL;
    o->tile = all;
    o->group = group;
    o->segment = (int)(number / (unsigned)(tiles * g->groups));
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
    int more = 1;
    gemm_draw(g, drawn);
    RP_NO_UNROLL
    for (int done = 0; more; done++) {
        struct gemm_out o;
        struct gemm_side a, b;
        float sum[144];
        int row, column;
        gemm_corner(s, (int)threadIdx.x, &row, &column);
        gemm_find(&o, g, s, gemm_number(g, drawn));
        if (o.segment >= gemm_segments(g, o.group)) /* the last group is shorter */
            return;
        const int from = o.group * g->group_k + (o.segment + done) * g->segment, end = gemm_least(g->k, from + g->segment);
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
        gemm_signal(g, o.tile, o.group, o.segment + done);
        more = g->mode == RP_GEMM_WHOLE && done + 1 < gemm_segments(g, o.group);
    }
}

#define TILE(name, threads, blocks, rows, columns, thread_rows, thread_columns, down, across, how_a, how_b, from, before, rate)            \
    RP_KERNEL(gemm_##name)                                                                                                                 \
    {                                                                                                                                      \
        const struct gemm_shape s = {blocks, rows, columns, thread_rows, thread_columns, down, across, RP_GEMM_##how_a, RP_GEMM_##how_b};  \
        if (__CUDA_ARCH__ >= 10 * from && __CUDA_ARCH__ < 10 * before)                                                                     \
            gemm_block(&a, &s);                                                                                                            \
        else                                                                                                                               \
            RP_TRAP();                                                                                                                     \
    }
#include "backend/cuda/gemm.def"
#undef TILE

/* c = ((part 0 + part 1) + part 2) + ... + bias + add, `width` floats a thread */
RP_DEVICE void gemm_sum(const struct rp_gemm_args *g, int width)
{
    const unsigned across = (unsigned)(g->n / width), count = (unsigned)g->m * across;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int row = (int)(i / across), column = (int)(i % across) * width;
        const float *part = g->part + row * g->ldpart + column;
        float x[4];
        gemm_get(x, part, width);
        for (int segment = 1; segment < g->segments; segment++)
            gemm_add(x, part += g->m * g->ldpart, width);
        if (g->bias)
            gemm_add(x, g->bias + column, width);
        if (g->add)
            gemm_add(x, g->add + row * g->ldadd + column, width);
        gemm_set(g->c + row * g->ldc + column, x, width);
    }
}

RP_KERNEL(gemm_sum)
{
    if (a.wide)
        gemm_sum(&a, 4);
    else
        gemm_sum(&a, 1);
}
