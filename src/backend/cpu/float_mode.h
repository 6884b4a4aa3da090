/* The floating-point mode of the calling thread, and its pause in a spin: MXCSR on x86-64, FPCR on aarch64.
 *
 * What:    the bits that decide results. All of RP_FLOAT_ARITHMETIC are 0 where the arithmetic is that of NUMERICS.md:
 *          subnormals on, round to nearest; on aarch64 also NaN propagated and no alternative formats (FEAT_AFP,
 *          FEAT_EBF16).
 * Flow:    pool.c checks it in every thread; tc_gemm.c rounds toward zero for as long as its kernels run.
 */
#pragma once

#include <stdint.h>

#if defined __x86_64__

#include <immintrin.h>

#define RP_FLOAT_SUBNORMALS 0x8040u   /* flush-to-zero and denormals-are-zero: off */
#define RP_FLOAT_TOWARD_ZERO 0x6000u  /* the rounding control: both bits */
#define RP_FLOAT_ARITHMETIC (RP_FLOAT_SUBNORMALS | RP_FLOAT_TOWARD_ZERO)

static inline uint64_t rp_float_mode(void)
{
    return _mm_getcsr();
}
static inline void rp_float_mode_set(uint64_t mode)
{
    _mm_setcsr((unsigned)mode);
}
static inline void rp_spin(void)
{
    _mm_pause();
}

#elif defined __aarch64__

#define RP_FLOAT_SUBNORMALS (UINT64_C(1) << 24 | UINT64_C(1) << 19 | UINT64_C(1)) /* FZ, FZ16, FIZ */
#define RP_FLOAT_TOWARD_ZERO (UINT64_C(3) << 22)                                  /* RMode */
/* AHP, DN, EBF, NEP and AH */
#define RP_FLOAT_OTHER (UINT64_C(1) << 26 | UINT64_C(1) << 25 | UINT64_C(1) << 13 | UINT64_C(6))
#define RP_FLOAT_ARITHMETIC (RP_FLOAT_SUBNORMALS | RP_FLOAT_TOWARD_ZERO | RP_FLOAT_OTHER)

static inline uint64_t rp_float_mode(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static inline void rp_float_mode_set(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}
static inline void rp_spin(void) /* yield is a no-op on most of these processors; isb waits some ten cycles */
{
    __asm__ volatile("isb" : : : "memory");
}

#else
#error "no such machine: what decides the results of its floating-point arithmetic?"
#endif
