/* A block of a GEMM: which tile, group and segments it computes, and the order in which the sums of segments are added.
 *
 * gemm.cu and conv.cu (weight gradients) include it with what the arguments are and how a segment's operands begin:
 *   GEMM_ARGS    the kernel's arguments; GEMM_OF(args): the struct rp_gemm_args in them
 *   GEMM_BEGIN   (a, b, args, shape, out, k0, from, stages): sides a and b for `stages` stages from k-step k0 on, with
 *                zeros before `from`
 *   GEMM_FRONT   floats of shared memory before the stages, RP_GEMM_FRONT of them the block's number
 *   GEMM_ADDS    whether there may be bias or add; GEMM_WIDE(args, shape): whether C is written 4 floats at a time
 */
#pragma once

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
    o->bias = GEMM_ADDS && last ? g->bias : (const float *)NULL;
    o->add = GEMM_ADDS && last ? g->add : (const float *)NULL;
    o->pitch_add = g->ldadd;
}

/* The number of a block gives its group, tile and segment: tiles are ordered in bands of 8 rows of tiles, by column
 * within a band, so that concurrent blocks share operands in the cache; all tiles of a group come before the next
 * group, and all groups of a segment before the next segment. In SERIAL mode a block may wait for one with a lower
 * number. Blocks need not start in the order of their indices, so they draw numbers from an atomic counter; the number
 * stays at the front of shared memory. */
RP_DEVICE void gemm_draw(const struct rp_gemm_args *g, unsigned *drawn)
{
    if (g->mode != RP_GEMM_SERIAL)
        return;
    if (threadIdx.x == 0) {
        *drawn = atomicAdd(g->semaphores, 1u);
        if (*drawn == gridDim.x - 1)
            /* back to 0; a plain store would race with the other blocks' relaxed atomics */
            atomicAdd(g->semaphores, 0u - gridDim.x);
    }
    __syncthreads();
}
RP_DEVICE unsigned gemm_number(const struct rp_gemm_args *g, const unsigned *drawn)
{
    return g->mode == RP_GEMM_SERIAL ? *drawn : blockIdx.x;
}

/* The block before takes microseconds to write its tile: the pauses between loads grow to a fraction of that. Threads
 * of this block read the tile after the barrier, which the fence of this thread precedes. */
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
    /* the barrier at the end of gemm_write() orders the other threads' writes before this release */
    if (threadIdx.x == 0)
        rp_store_release(g->semaphores + 1 + tile, segment == gemm_segments(g, group) - 1 ? 0u : (unsigned)segment + 1);
}

/* The tile of this block. */
RP_DEVICE void gemm_find(struct gemm_out *o, const struct rp_gemm_args *g, const struct gemm_shape *s, unsigned number)
{
    const int down = (g->m + s->rows - 1) / s->rows, across = (g->n + s->columns - 1) / s->columns;
    const unsigned tiles = (unsigned)(down * across), of_all = number % (tiles * (unsigned)g->groups);
    const int group = (int)(of_all / tiles), tile = (int)(of_all % tiles);
    const int band = tile / (8 * across), height = gemm_least(8, down - 8 * band), rest = tile - 8 * band * across;
    o->place = (const uint4 *)NULL;
    o->tile = (int)of_all;
    o->group = group;
    o->segment = (int)(number / (tiles * (unsigned)g->groups));
    o->rows = g->m;
    o->columns = g->n;
    o->row1 = (8 * band + rest % height) * s->rows;
    o->column1 = rest / height * s->columns;
    o->row0 = s->how_a >= RP_GEMM_ANY ? o->row1 : gemm_least(o->row1, g->m - s->rows);
    o->column0 = s->how_b >= RP_GEMM_ANY ? o->column1 : gemm_least(o->column1, g->n - s->columns);
}

RP_DEVICE void gemm_block(const struct GEMM_ARGS *args, const struct gemm_shape *s)
{
    const struct rp_gemm_args *g = GEMM_OF(args);
    unsigned *drawn = RP_SHARED(unsigned);
    float *shared = RP_SHARED(float) + GEMM_FRONT;
    int more = 1;
    gemm_draw(g, drawn);
    RP_NO_UNROLL
    for (int done = 0; more; done++) {
        struct gemm_out o;
        struct GEMM_SIDE a, b;
        float sum[144];
        int row, column;
        gemm_corner(s, (int)threadIdx.x, &row, &column);
        gemm_find(&o, g, s, gemm_number(g, drawn));
        if (o.segment >= gemm_segments(g, o.group)) /* the last group is shorter */
            return;
        const int from = o.group * g->group_k + (o.segment + done) * g->segment;
        const int end = gemm_least(g->k, from + g->segment);
        const int stages = (end - from + DEPTH - 1) / DEPTH, k0 = end - stages * DEPTH;
        GEMM_BEGIN(&a, &b, args, s, &o, k0, from, stages);
        RP_UNROLL
        for (int i = 0; i < s->thread_rows * s->thread_columns; i++)
            sum[i] = 0.0f;
        gemm_chains(sum, &a, &b, s, shared, row, column, stages, from - k0);
        unsigned number = gemm_number(g, drawn);
        RP_REMATERIALISE(number); /* the chains need the registers */
        gemm_find(&o, g, s, number);
        gemm_wait(g, o.tile, o.segment + done);
        gemm_aim(&o, g, o.segment + done);
        gemm_write(&o, sum, s, shared, GEMM_WIDE(args, s));
        gemm_signal(g, o.tile, o.group, o.segment + done);
        more = g->mode == RP_GEMM_WHOLE && done + 1 < gemm_segments(g, o.group);
    }
}
