/* Shared by the kernels of rows and of whole tensors: four neighbouring elements per lane, and sum128 in a warp or a
 * block.
 *
 * A row is cut into pieces of 128 columns. Lane t of the warp has columns 4t .. 4t + 3 of each piece, which are lanes
 * 4t .. 4t + 3 of sum128: one float4 per lane and piece, 512 contiguous bytes. If rows are not aligned (`wide` is 0),
 * the same elements are read one by one, mostly from the cache. Elements past the end read as +0, and adding +0 to a
 * lane of sum128 changes nothing: a lane starts at +0 and is never -0. */
#pragma once

#define RP_PIECE 128

RP_DEVICE int rp_lane(void)
{
    return (int)(threadIdx.x % RP_WARP);
}
/* Of this thread's warp, over the grid. */
RP_DEVICE unsigned rp_warp(void)
{
    return blockIdx.x * (blockDim.x / RP_WARP) + threadIdx.x / RP_WARP;
}
RP_DEVICE size_t rp_thread(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}
RP_DEVICE size_t rp_threads(void)
{
    return (size_t)gridDim.x * blockDim.x;
}

/* n: elements from p on, may be <= 0. wide: p is aligned, and n >= 4 or n <= 0. */
RP_DEVICE float4 rp_get4(const float *p, long n, int wide)
{
    if (wide)
        return n > 0 ? *(const float4 *)(const void *)p : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, n > 3 ? p[3] : 0.0f);
}
RP_DEVICE void rp_put4(float *p, float4 v, long n, int wide)
{
    if (wide) {
        if (n > 0)
            *(float4 *)(void *)p = v;
        return;
    }
    if (n > 0)
        p[0] = v.x;
    if (n > 1)
        p[1] = v.y;
    if (n > 2)
        p[2] = v.z;
    if (n > 3)
        p[3] = v.w;
}
/* one(what, index, how many, wide) for every four of `count` elements, over all threads of the grid; compiled with wide
 * 1 and 0. */
#define RP_EACH4(what, count, is_wide, one)                                                                            \
    for (size_t i_ = 4 * rp_thread(); i_ < (count); i_ += 4 * rp_threads())                                            \
        if ((is_wide) && (count) - i_ >= 4)                                                                            \
            one(what, i_, 4, 1);                                                                                       \
        else                                                                                                           \
            one(what, i_, (long)((count) - i_), 0)

RP_DEVICE float4 rp_add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
RP_DEVICE float4 rp_mul4(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
/* The first n components; +0 for the others. */
RP_DEVICE float4 rp_first4(float4 v, long n)
{
    return make_float4(n > 0 ? v.x : 0.0f, n > 1 ? v.y : 0.0f, n > 2 ? v.z : 0.0f, n > 3 ? v.w : 0.0f);
}

/* The end of sum128: lanes l and l + 64, then 32, ... 1; the result in every lane of the warp. In the first steps each
 * of two threads computes half of the sums, which takes 8 exchanges in total instead of 20. a + b = b + a. */
RP_DEVICE float rp_sum128(float4 s)
{
    int high = rp_lane() & 16, low = rp_lane() & 8;
    float x = high ? s.z : s.x, y = high ? s.w : s.y, give_x = high ? s.x : s.z, give_y = high ? s.y : s.w;
    x = x + __shfl_xor_sync(RP_ALL_LANES, give_x, 16); /* 64 */
    y = y + __shfl_xor_sync(RP_ALL_LANES, give_y, 16);
    float keep = low ? y : x, give = low ? x : y;
    keep = keep + __shfl_xor_sync(RP_ALL_LANES, give, 8); /* 32 */
    keep = keep + __shfl_xor_sync(RP_ALL_LANES, keep, 4); /* 16 */
    keep = keep + __shfl_xor_sync(RP_ALL_LANES, keep, 2);
    keep = keep + __shfl_xor_sync(RP_ALL_LANES, keep, 1);  /* 4 */
    keep = keep + __shfl_xor_sync(RP_ALL_LANES, keep, 16); /* 2: components 0 and 2, 1 and 3 */
    return keep + __shfl_xor_sync(RP_ALL_LANES, keep, 8);
}

/* The same end where thread l of the block has lane l of sum128; the result in the threads of warp 0. lane: 128 floats
 * of shared memory, free again after the next barrier. Every thread of the block calls it. */
RP_DEVICE float rp_block_sum128(float s, float *lane)
{
    if (threadIdx.x < 128)
        lane[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x >= RP_WARP)
        return 0.0f;
    int l = rp_lane();
    float v = (lane[l] + lane[l + 64]) + (lane[l + 32] + lane[l + 96]);
    for (int step = 16; step; step /= 2)
        v = v + __shfl_xor_sync(RP_ALL_LANES, v, step);
    return v;
}
