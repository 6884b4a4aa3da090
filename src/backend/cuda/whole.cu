/* Whole tensors, element by element. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/stored.cuh"

#ifndef RP_STORE

RP_DEVICE void add4(const rp_args_add *a, size_t i, long n, int wide)
{
    rp_put4(a->dst + i, rp_add4(rp_get4(a->a + i, n, wide), rp_get4(a->b + i, n, wide)), n, wide);
}
RP_KERNEL(add)
{
    RP_EACH4(&a, a.n, a.wide, add4);
}

RP_DEVICE void fill4(const rp_args_fill *a, size_t i, long n, int wide)
{
    rp_put4(a->dst + i, make_float4(a->value, a->value, a->value, a->value), n, wide);
}
RP_KERNEL(fill)
{
    RP_EACH4(&a, a.n, a.wide, fill4);
}
#else
/* fp32 to what is stored */
RP_DEVICE void round4(const rp_args_round_stored *a, size_t i, long n, int wide)
{
    float4 v = rp_get4(a->src + i, n, wide);
    if (a->add)
        v = rp_add4(v, rp_stored_get4(a->add + i, n, wide));
    rp_stored_put4(a->dst + i, v, n, wide);
}
RP_KERNEL(round_stored)
{
    RP_EACH4(&a, a.n, a.wide, round4);
}

RP_DEVICE void add4(const rp_args_add_stored *a, size_t i, long n, int wide)
{
    rp_stored_put4(a->dst + i, rp_add4(rp_stored_get4(a->a + i, n, wide), rp_stored_get4(a->b + i, n, wide)), n, wide);
}
RP_KERNEL(add_stored)
{
    RP_EACH4(&a, a.n, a.wide, add4);
}

/* square_sums() with a factor that is not 1: of fp32 tensors, a warp for each chunk. */
RP_KERNEL(scaled_squares)
{
    const size_t chunk = rp_warp(), first = chunk * RP_NORM_CHUNK;
    const float4 factor = make_float4(a.factor, a.factor, a.factor, a.factor);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (first >= a.n)
        return;
    const int wide = a.wide && a.n - first >= RP_NORM_CHUNK;
    RP_UNROLL_BY(8)
    for (int i = 4 * rp_lane(); i < RP_NORM_CHUNK; i += RP_PIECE) {
        const float4 v = rp_mul4(rp_get4(a.x + first + i, (long)(a.n - first) - i, wide), factor);
        sum = rp_add4(sum, rp_mul4(v, v));
    }
    const float all = rp_sum128(sum);
    if (rp_lane() == 0)
        a.out[chunk] = all;
}

/* Elements as they are, a warp for each row. */
RP_KERNEL(copy_stored)
{
    const unsigned row = rp_warp();
    if (row >= (unsigned)a.rows)
        return;
    for (int j = rp_lane(); j < a.cols; j += RP_WARP)
        a.dst[row * a.ldd + j] = a.src[row * a.lds + j];
}

RP_DEVICE int not_finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}

/* As find_nonfinite of evidence.cu. */
RP_KERNEL(find_stored)
{
    for (size_t i = 4 * rp_thread(); i < a.n; i += 4 * rp_threads()) {
        const long n = a.n - i < 4 ? (long)(a.n - i) : 4;
        const float4 v = rp_stored_get4(a.x + i, n, a.wide && n == 4);
        const int at = not_finite(v.x) ? 0 : not_finite(v.y) ? 1 : not_finite(v.z) ? 2 : not_finite(v.w) ? 3 : 4;
        if (at < 4) {
            atomicMin(a.first, (unsigned long long)i + (unsigned long long)at);
            return;
        }
    }
}
#endif
