/* Softmax cross-entropy with its gradient, over a whole row or in shards, the weighted sum of losses, and the best
 * class of a row. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/stored.cuh"
#include "ops/functions.h"

/* e of a class, which strict fp32 writes over z until the sum is known; other stores would round it, and compute it
 * again. */
#ifdef RP_STORE
#define PUT_E(z, e) ((void)0)
#define E_OF(z, m) r_exp_below(rp_stored_get(z) - (m))
#define SCALED(coef) ((coef)*a.scale)
#else
#define PUT_E(z, e) (*(z) = (e))
#define E_OF(z, m) (*(z))
#define SCALED(coef) (coef)
#endif

/* ---- softmax cross-entropy: a block of 1024 threads for each row ----
 *
 * Thread t has elements t, t + 1024, ...; the first KEPT of them stay in registers (rows of up to 32768 classes: a row
 * of logits is read once and written once on every GPU), those after are read from global memory in every pass, in
 * strict fp32 with e written over z. Loads are 128 bytes a warp at any alignment: a row of 30522 starts on no boundary.
 *
 * sum128 is 128 chains of additions in the order of the row, which at most 128 threads can compute. All threads compute
 * e and store 4096 values in shared memory at a time; the first 128 threads add these up while the others compute the
 * next 4096.
 *
 *   e of 4 x 1024 elements -> tile 0 | barrier | -> tile 1 | barrier | -> tile 0 ...
 *                                      sum tile 0            sum tile 1 */
#define STEP 1024 /* threads */
#define KEPT 32
#define TILE (4 * STEP)

RP_DEVICE float block_max(float m, float *shared)
{
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(RP_ALL_LANES, m, step);
        m = other > m ? other : m;
    }
    if (rp_lane() == 0)
        shared[threadIdx.x / RP_WARP] = m;
    __syncthreads();
    m = shared[rp_lane()]; /* 32 warps */
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(RP_ALL_LANES, m, step);
        m = other > m ? other : m;
    }
    return m;
}

/* Adds a complete tile to the chains. */
RP_DEVICE float add_tile(float sum, const float *tile)
{
    __syncthreads(); /* this tile is complete, and the other one has been read */
    if (threadIdx.x < 128) {
        RP_UNROLL_BY(8)
        for (int i = 0; i < TILE; i += 128)
            sum = sum + tile[i + (int)threadIdx.x];
    }
    return sum;
}

RP_KERNEL(softmax_xent)
{
    float *tile = RP_SHARED(float), *small = tile + 2 * TILE; /* small: 128 floats */
    rp_stored *z = RP_BASE.logits + (long)blockIdx.x * RP_BASE.ld;
    const int classes = RP_BASE.classes, t = (int)threadIdx.x, label = RP_BASE.labels[blockIdx.x];
    const float coef = SCALED(RP_BASE.coef[blockIdx.x]), at_label = rp_stored_get(z + label);
    float v[KEPT], m = -__builtin_inff(), sum = 0.0f;
    RP_UNROLL
    for (int c = 0; c < KEPT; c++)
        v[c] = t + c * STEP < classes ? rp_stored_get(z + (t + c * STEP)) : -__builtin_inff();
    RP_UNROLL
    for (int c = 0; c < KEPT; c++)
        m = v[c] > m ? v[c] : m;
    for (int j = t + KEPT * STEP; j < classes; j += STEP)
        m = rp_stored_get(z + j) > m ? rp_stored_get(z + j) : m;
    m = block_max(m, small) + 0.0f;
    RP_UNROLL
    for (int c = 0; c < KEPT; c++) {
        float *to = tile + (c / 4 & 1) * TILE + c % 4 * STEP;
        if (c / 4 * TILE >= classes)
            break;
        v[c] = r_exp_below(v[c] - m); /* -inf, past the last class, becomes +0 */
        to[t] = v[c];
        if (c % 4 == 3)
            sum = add_tile(sum, to - 3 * STEP);
    }
    for (int j0 = KEPT * STEP; j0 < classes; j0 += TILE) {
        float *to = tile + (j0 / TILE & 1) * TILE;
        for (int j = j0 + t; j < j0 + TILE; j += STEP) {
            float e = j < classes ? r_exp_below(rp_stored_get(z + j) - m) : 0.0f;
            to[j - j0] = e;
            if (j < classes)
                PUT_E(z + j, e);
        }
        sum = add_tile(sum, to);
    }
    sum = rp_block_sum128(sum, small); /* the barrier in add_tile() follows all reads of the maximum in `small` */
    if (t == 0) {
        RP_BASE.loss[blockIdx.x] = r_log(sum) - (at_label - m);
        tile[0] = 1.0f / sum; /* the barrier in rp_block_sum128() follows all reads of the tiles */
    }
    __syncthreads();
    const float inv = tile[0];
    RP_UNROLL
    for (int c = 0; c < KEPT; c++) {
        float d = (v[c] * inv - (t + c * STEP == label ? 1.0f : 0.0f)) * coef;
        if (t + c * STEP < classes)
            rp_stored_put(z + (t + c * STEP), d);
    }
    for (int j = t + KEPT * STEP; j < classes; j += STEP)
        rp_stored_put(z + j, (E_OF(z + j, m) * inv - (j == label ? 1.0f : 0.0f)) * coef);
}

/* ---- the same over shards, each with a sum128 of its own ----
 *
 * A group of 128 threads adds up one shard at a time, thread l of it lane l; in strict fp32 e is written over z by all
 * threads first. The row is read from global memory in every pass, which is mostly the cache. */
RP_KERNEL(softmax_xent_shards)
{
    /* a sum of each shard; 128 lanes of each group */
    float *part = RP_SHARED(float), *lanes = part + RP_XENT_SHARDS_MOST;
    rp_stored *z = RP_BASE.logits + (long)blockIdx.x * RP_BASE.ld;
    const int shards = RP_BASE.shards, each = RP_BASE.each, classes = shards * each;
    const int t = (int)threadIdx.x, lane = t % 128, label = RP_BASE.labels[blockIdx.x];
    const float coef = SCALED(RP_BASE.coef[blockIdx.x]), at_label = rp_stored_get(z + label);
    float m = -__builtin_inff();
    RP_UNROLL_BY(8)
    for (int j = t; j < classes; j += STEP)
        m = rp_stored_get(z + j) > m ? rp_stored_get(z + j) : m;
    m = block_max(m, part) + 0.0f;
#ifndef RP_STORE
    RP_UNROLL_BY(4)
    for (int j = t; j < classes; j += STEP)
        z[j] = r_exp_below(z[j] - m);
#endif
    __syncthreads(); /* e is complete, and the maxima in `part` have been read */
    for (int s0 = 0; s0 < shards; s0 += STEP / 128) {
        const int s = s0 + t / 128;
        float sum = 0.0f;
        RP_UNROLL_BY(8)
        for (int j = lane; s < shards && j < each; j += 128)
            sum = sum + E_OF(z + (s * each + j), m);
        lanes[t] = sum;
        __syncthreads();
        for (int half = 64; half > 0; half /= 2) {
            if (lane < half)
                lanes[t] = lanes[t] + lanes[t + half];
            __syncthreads();
        }
        if (lane == 0 && s < shards)
            part[s] = lanes[t];
    }
    for (int step = 1; step < shards; step *= 2) { /* neighbours, level by level, are the balanced tree */
        __syncthreads();
        if (t % (2 * step) == 0 && t + step < shards)
            part[t] = part[t] + part[t + step];
    }
    __syncthreads();
    const float sum = part[0], inv = 1.0f / sum;
    if (t == 0)
        RP_BASE.loss[blockIdx.x] = r_log(sum) - (at_label - m);
    RP_UNROLL_BY(8)
    for (int j = t; j < classes; j += STEP)
        rp_stored_put(z + j, (E_OF(z + j, m) * inv - (j == label ? 1.0f : 0.0f)) * coef);
}

#ifndef RP_STORE
/* One block of 128 threads. */
RP_KERNEL(weighted_sum)
{
    float sum = 0.0f;
    RP_UNROLL_BY(4)
    for (long i = threadIdx.x; i < a.n; i += 128)
        sum = sum + a.coef[i] * a.loss[i];
    sum = rp_block_sum128(sum, RP_SHARED(float));
    if (threadIdx.x == 0)
        a.out[0] = sum;
}
#endif

/* ---- smoothed labels, and the best class ----
 *
 * A block of 128 threads for each row: thread l has the elements of lane l of both sums, reads them three times, the
 * second and third time mostly from the cache, and in strict fp32 writes e over z as in the definition. */
RP_KERNEL(softmax_xent_smoothed)
{
    float *shared = RP_SHARED(float); /* 128 */
    rp_stored *z = RP_BASE.logits + (long)blockIdx.x * RP_BASE.ld;
    const int classes = RP_BASE.classes, t = (int)threadIdx.x, label = RP_BASE.labels[blockIdx.x];
    const float coef = SCALED(RP_BASE.coef[blockIdx.x]), at_label = rp_stored_get(z + label);
    float m = -__builtin_inff(), sum = 0.0f, l = 0.0f;
    RP_UNROLL_BY(4)
    for (int j = t; j < classes; j += 128) {
        m = rp_stored_get(z + j) > m ? rp_stored_get(z + j) : m;
        sum = sum + rp_stored_get(z + j);
    }
    shared[t] = m;
    __syncthreads();
    for (int i = 0; i < 128; i += RP_WARP) {
        float other = shared[i + rp_lane()];
        m = other > m ? other : m;
    }
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(RP_ALL_LANES, m, step);
        m = other > m ? other : m;
    }
    m = m + 0.0f;
    __syncthreads(); /* the maxima have been read */
    sum = rp_block_sum128(sum, shared);
    RP_UNROLL_BY(4)
    for (int j = t; j < classes; j += 128) {
        float e = r_exp_below(rp_stored_get(z + j) - m);
        l = l + e;
        PUT_E(z + j, e);
    }
    __syncthreads(); /* the lanes of the first sum have been read */
    l = rp_block_sum128(l, shared);
    __syncthreads();
    if (t == 0) {
        const float mean = sum * RP_BASE.share, log = r_log(l);
        RP_BASE.loss[blockIdx.x] = fmaf(RP_BASE.smoothing, log - (mean - m), RP_BASE.rest * (log - (at_label - m)));
        shared[0] = 1.0f / l;
    }
    __syncthreads();
    const float inv = shared[0];
    RP_UNROLL_BY(4)
    for (int j = t; j < classes; j += 128)
        rp_stored_put(z + j, (E_OF(z + j, m) * inv - RP_BASE.each - (j == label ? RP_BASE.rest : 0.0f)) * coef);
}

/* A warp for each row. Every lane starts with the first element, so that nothing replaces a NaN there. */
RP_KERNEL(argmax_rows)
{
    const unsigned row = rp_warp();
    if (row >= (unsigned)a.n)
        return;
    const rp_stored *x = a.x + (long)row * a.ld;
    float best = rp_stored_get(x);
    int index = 0;
    RP_UNROLL_BY(4)
    for (int c = rp_lane(); c < a.classes; c += RP_WARP)
        if (rp_stored_get(x + c) > best) {
            best = rp_stored_get(x + c);
            index = c;
        }
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(RP_ALL_LANES, best, step);
        int at = __shfl_xor_sync(RP_ALL_LANES, index, step);
        if (other > best || (other == best && at < index)) {
            best = other;
            index = at;
        }
    }
    if (rp_lane() == 0)
        a.index[row] = index;
}
