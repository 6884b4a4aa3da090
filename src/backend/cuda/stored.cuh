/* Stored tensors (ops/ops.def) as kernels access them: what an element is, RP_STORE says (device.h).
 *
 * What:    fp32 numbers of stored elements, and stored elements of fp32 numbers. In 16 bits a number is rounded to
 *          nearest, ties to even, as the last step of what computes it.
 * Flow:    NAME.cu is compiled as it is for fp32, and through NAME_f16.cu and NAME_bf16.cu for the others.
 *          rp_stored_get(), _get4() -> arithmetic in fp32 -> rp_rounded() where a sum is over what is stored ->
 *          rp_stored_put(), _put4()
 * Extend:  a kernel on stored tensors: a row in stored.def beside that in kernels.def, and a launch by
 *          RP_LAUNCH_STORED(). What it needs besides the arguments of strict fp32: a struct in kernels16.h.
 */
#pragma once

#include "backend/cuda/device.h"

#if defined(RP_STORE) || defined(RP_TENSOR_CORES)
#ifndef RP_SHIM
/* Rounded to nearest, as bits in the low half. */
RP_DEVICE uint32_t tc_round(float x, int format)
{
    uint16_t bits = 0;
#if __CUDA_ARCH__ >= 800
    if (format == TC_BF16)
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    else
#endif
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
RP_DEVICE float tc_value(uint32_t bits, int format)
{
    float x;
    if (format == TC_BF16)
        return __uint_as_float(bits << 16);
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)bits));
    return x;
}
#endif
#endif

#ifdef RP_STORE
#define RP_FORMAT_f16 TC_FP16
#define RP_FORMAT_bf16 TC_BF16
#define RP_FORMAT_NAMED(store) RP_FORMAT_##store
#define RP_FORMAT_OF(store) RP_FORMAT_NAMED(store)
#define RP_FORMAT RP_FORMAT_OF(RP_STORE)
/* Arguments that have those of strict fp32 first: these. */
#define RP_BASE a.n

RP_DEVICE float rp_stored_get(const rp_stored *p)
{
    return tc_value(*p, RP_FORMAT);
}
RP_DEVICE void rp_stored_put(rp_stored *p, float x)
{
    *p = (rp_stored)tc_round(x, RP_FORMAT);
}
/* x as it is stored. */
RP_DEVICE float rp_rounded(float x)
{
    return tc_value(tc_round(x, RP_FORMAT), RP_FORMAT);
}

/* As rp_get4(), rp_put4() of lanes.cuh; wide: 8 bytes at once. */
RP_DEVICE float4 rp_stored_get4(const rp_stored *p, long n, int wide)
{
    if (wide) {
        const uint2 v = n > 0 ? *(const uint2 *)(const void *)p : make_uint2(0, 0);
        return make_float4(tc_value(v.x & 0xffff, RP_FORMAT), tc_value(v.x >> 16, RP_FORMAT), tc_value(v.y & 0xffff, RP_FORMAT),
                           tc_value(v.y >> 16, RP_FORMAT));
    }
    return make_float4(n > 0 ? rp_stored_get(p) : 0.0f, n > 1 ? rp_stored_get(p + 1) : 0.0f, n > 2 ? rp_stored_get(p + 2) : 0.0f,
                       n > 3 ? rp_stored_get(p + 3) : 0.0f);
}
RP_DEVICE void rp_stored_put4(rp_stored *p, float4 v, long n, int wide)
{
    if (wide) {
        if (n > 0)
            *(uint2 *)(void *)p = make_uint2(tc_round(v.y, RP_FORMAT) << 16 | tc_round(v.x, RP_FORMAT),
                                             tc_round(v.w, RP_FORMAT) << 16 | tc_round(v.z, RP_FORMAT));
        return;
    }
    if (n > 0)
        rp_stored_put(p, v.x);
    if (n > 1)
        rp_stored_put(p + 1, v.y);
    if (n > 2)
        rp_stored_put(p + 2, v.z);
    if (n > 3)
        rp_stored_put(p + 3, v.w);
}
RP_DEVICE float4 rp_rounded4(float4 v)
{
    return make_float4(rp_rounded(v.x), rp_rounded(v.y), rp_rounded(v.z), rp_rounded(v.w));
}
#else
#define RP_BASE a
#define rp_stored_get(p) (*(p))
#define rp_stored_put(p, x) (*(p) = (x))
#define rp_rounded(x) (x)
#define rp_stored_get4 rp_get4
#define rp_stored_put4 rp_put4
#define rp_rounded4(v) (v)
#endif
