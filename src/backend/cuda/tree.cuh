/* The balanced tree over rows, for a strip of columns, by a whole block.
 *
 * Adding neighbours level by level, where a last one without a neighbour moves up unchanged, gives the tree of
 * ops/tree.h: any aligned run of 2^k rows is a subtree, and so is a shorter run at the end. So each thread adds up 8
 * rows, a block 8 * threads / columns rows per round, and a binary counter combines the rounds; its partial sums are
 * subtrees of decreasing size.
 *
 *   thread r * columns + c: rows 8r .. 8r + 7 of column c     -> exchanges within the warp     -> one value for each
 *                                                                                              warp and column
 *   warp c, lane w: the value of warp w for column c          -> exchanges                     -> one value for each
 *                                                                                              column
 *   lane 0 of warp c: the counter, one partial sum for each bit that is set in the number of rounds
 *
 * columns: a power of two, at most the number of warps. Loads are `columns` floats in a row: 8 are a whole sector of 32
 * bytes. */
#pragma once

#include "backend/cuda/stored.cuh"

#define RP_TREE_LEAF 8

struct rp_tree {
    const rp_stored *x;    /* row 0, first column of the strip */
    const int32_t *source; /* indices of the rows, or NULL: 0, 1, 2 ... */
    long rows, ld;         /* rows >= 1 */
    int columns, inside;   /* inside: columns of the strip within the matrix */
};

/* Shared memory: RP_TREE_FLOATS(warps, columns), which are two tiles of warps * (columns + 1), and the counters. */

/* The tree over at most 8 rows of one column from `row` on. */
RP_DEVICE float rp_tree_leaf(const struct rp_tree *t, long row, int column)
{
    float v[RP_TREE_LEAF];
    long n = t->rows - row;
    RP_UNROLL
    for (int k = 0; k < RP_TREE_LEAF; k++)
        v[k] = k < n ? rp_stored_get(t->x + ((t->source ? (long)t->source[row + k] : row + k) * t->ld + column)) : 0.0f;
    RP_UNROLL
    for (int step = 1; step < RP_TREE_LEAF; step *= 2)
        RP_UNROLL
        for (int k = 0; k < RP_TREE_LEAF; k += 2 * step)
            v[k] = k + step < n ? v[k] + v[k + step] : v[k];
    return v[0];
}

/* Called by every thread of the block; returns the sum of column c in lane 0 of warp c. The caller puts a barrier
 * before the next call. */
RP_DEVICE float rp_tree_sum(const struct rp_tree *t, float *shared)
{
    int columns = t->columns, warps = (int)(blockDim.x / RP_WARP), warp = (int)(threadIdx.x / RP_WARP), lane = (int)(threadIdx.x % RP_WARP);
    int column = (int)threadIdx.x % columns, r = (int)threadIdx.x / columns, per_warp = RP_WARP / columns;
    float *stack = shared + 2 * RP_TREE_TILE(warps, columns) + warp, sum = 0.0f;
    int most = (int)blockDim.x / columns, top = 0; /* threads of a column */
    long round = 0;
    for (long base = 0; base < t->rows; base += (long)RP_TREE_LEAF * most, round++) {
        float *tile = shared + (round & 1 ? RP_TREE_TILE(warps, columns) : 0);
        long leaves = (t->rows - base + RP_TREE_LEAF - 1) / RP_TREE_LEAF;
        /* threads, warps */
        int with_rows = leaves < most ? (int)leaves : most, with_values = (with_rows + per_warp - 1) / per_warp;
        float v = column < t->inside ? rp_tree_leaf(t, base + (long)RP_TREE_LEAF * r, column) : 0.0f;
        for (int step = 1; step < per_warp; step *= 2) {
            float other = __shfl_down_sync(RP_ALL_LANES, v, step * columns);
            v = r + step < with_rows ? v + other : v;
        }
        if (lane < columns)
            tile[warp * (columns + 1) + lane] = v;
        __syncthreads(); /* this tile is complete, and the other one has been read */
        if (warp >= columns)
            continue;
        v = lane < warps ? tile[lane * (columns + 1) + warp] : 0.0f;
        for (int step = 1; step < warps; step *= 2) {
            float other = __shfl_down_sync(RP_ALL_LANES, v, step);
            v = lane + step < with_values ? v + other : v;
        }
        if (lane)
            continue;
        for (long bit = round; bit & 1; bit >>= 1)
            v = stack[--top * columns] + v;
        stack[top++ * columns] = v;
    }
    if (top)
        sum = stack[--top * columns];
    while (top) /* what is left in the counter, smallest first */
        sum = stack[--top * columns] + sum;
    return sum;
}
