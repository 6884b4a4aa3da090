/* The sum of products that one block of a tensor core computes, as integers.
 *
 * What:    normative C of mixed precision. A block adds F products and an addend. The exponent of a product is the sum
 *          of the exponents of its factors, subnormal factors having the least normal one. E is the largest exponent of
 *          the terms that are not zero, and at least `floor`. Each term is truncated toward zero to a multiple of
 *          2^(E - N); the truncated terms are added exactly; the sum is truncated toward zero to fp32.
 * Flow:    bits of fp16 or bf16 factors and of an fp32 addend -> bits of the fp32 sum. Subnormal numbers are kept
 *          everywhere. A sum that is zero or below 2^-149 is +0, a sum of 2^128 or more is infinite, NaN is 0x7fffffff.
 * Owner:   the caller's arrays.
 * Extend:  another family of chips is another row of constants below. A changed constant is another contract.
 *
 * Evidence: tests/ops/test_tensor_core.c compares tc16 with results of an H200 and lists what they leave open: other
 * floors (-131, or below -133) and the sign of a sum of negative zeros. These two, tc8 and tc4 follow Hawkeye (arXiv
 * 2603.20421) and results of other GPUs in MATLAB-tensor-core (north-numerical-computing, model_validation/).
 */
#pragma once

#include <stdint.h>

enum rp_tc_format { RP_TC_FP16, RP_TC_BF16 };

struct rp_tc {
    int products; /* F, at most 16 */
    int bits;     /* N */
    int floor;
};

#define RP_TC_NO_FLOOR (-400) /* below every exponent */
#define RP_TC4 {4, 23, RP_TC_NO_FLOOR} /* mma.m8n8k4 of compute capability 7.0; fp16 alone */
#define RP_TC16 {16, 25, -133}   /* mma.m16n8k16 and wgmma of compute capability 9.0 */
#define RP_TC16_K8 {8, 25, -133} /* mma.m16n8k8 there */
#define RP_TC8 {8, 24, -132}     /* both forms of mma of compute capability 8.x; of 7.5 with fp16 */

#define RP_TC_INF UINT32_C(0x7f800000)
#define RP_TC_NAN UINT32_C(0x7fffffff)
#define RP_TC_SIGN UINT32_C(0x80000000)

/* |x| = significand * 2^exponent. 0: finite, 1: infinite, 2: NaN. */
static inline int rp_tc_split(uint32_t x, int fraction_bits, int exponent_bits, uint32_t *significand, int *exponent)
{
    const uint32_t fraction = x & ((1u << fraction_bits) - 1), top = (1u << exponent_bits) - 1;
    const uint32_t field = x >> fraction_bits & top;
    *significand = field ? fraction | 1u << fraction_bits : fraction;
    *exponent = (int)(field ? field : 1) - (int)(top >> 1) - fraction_bits;
    return field != top ? 0 : fraction ? 2 : 1;
}

/* fp32 bits of sum * 2^unit, truncated toward zero. */
static inline uint32_t rp_tc_truncate(int64_t sum, int unit)
{
    if (!sum)
        return 0;
    const uint32_t sign = sum < 0 ? RP_TC_SIGN : 0;
    const uint64_t size = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    const int top = 63 - __builtin_clzll(size) + unit; /* 2^top <= |sum * 2^unit| < 2^(top + 1) */
    const int lowest = (top < -126 ? -126 : top) - 23, shift = lowest - unit;
    const uint64_t kept = shift <= 0 ? size << -shift : shift < 64 ? size >> shift : 0;
    if (!kept)
        return 0;
    if (top > 127)
        return sign | RP_TC_INF;
    return sign | (kept >> 23 ? (uint32_t)(lowest + 150) << 23 | (uint32_t)(kept & 0x7fffff) : (uint32_t)kept);
}

/* fp32 bits of a[0] * b[0] + ... + a[F - 1] * b[F - 1] + c. */
static inline uint32_t rp_tc_block(enum rp_tc_format format, struct rp_tc tc, const uint16_t *a, const uint16_t *b,
                                   uint32_t c)
{
    enum { PLUS_INF = 1, MINUS_INF = 2, NOT_A_NUMBER = 4 };
    const int fraction = format == RP_TC_FP16 ? 10 : 7, exponent = format == RP_TC_FP16 ? 5 : 8;
    uint64_t term[17];
    int unit[17], largest = INT32_MIN; /* a term is term * 2^unit */
    uint32_t negative = 0, seen = 0, significand;
    for (int i = 0; i < tc.products; i++) {
        uint32_t x, y;
        int ex, ey;
        const int kx = rp_tc_split(a[i], fraction, exponent, &x, &ex);
        const int ky = rp_tc_split(b[i], fraction, exponent, &y, &ey);
        const int sign = (a[i] ^ b[i]) >> 15;
        term[i] = (uint64_t)x * y;
        unit[i] = ex + ey;
        negative |= (uint32_t)sign << i;
        if (kx | ky)
            seen |= kx == 2 || ky == 2 || !term[i] ? NOT_A_NUMBER : sign ? MINUS_INF : PLUS_INF;
        if (term[i] && unit[i] + 2 * fraction > largest)
            largest = unit[i] + 2 * fraction;
    }
    const int last = tc.products, kind = rp_tc_split(c, 23, 8, &significand, &unit[last]);
    term[last] = significand;
    negative |= c >> 31 << last;
    if (kind)
        seen |= kind == 2 ? NOT_A_NUMBER : c >> 31 ? MINUS_INF : PLUS_INF;
    if (significand && unit[last] + 23 > largest)
        largest = unit[last] + 23;
    if (seen)
        return seen == PLUS_INF ? RP_TC_INF : seen == MINUS_INF ? RP_TC_SIGN | RP_TC_INF : RP_TC_NAN;

    const int least = (largest < tc.floor ? tc.floor : largest) - tc.bits; /* 2^least is the unit of the sum */
    int64_t sum = 0;
    for (int i = 0; i <= tc.products; i++) {
        if (!term[i])
            continue; /* its unit may be any */
        const int shift = unit[i] - least;
        const uint64_t kept = shift >= 0 ? term[i] << shift : shift > -64 ? term[i] >> -shift : 0;
        sum += negative >> i & 1 ? -(int64_t)kept : (int64_t)kept;
    }
    return rp_tc_truncate(sum, least);
}

/* The chain of blocks in ascending order, from c. k is a multiple of F. */
static inline uint32_t rp_tc_chain(enum rp_tc_format format, struct rp_tc tc, const uint16_t *a, const uint16_t *b,
                                   uint32_t c, int k)
{
    for (int i = 0; i < k; i += tc.products)
        c = rp_tc_block(format, tc, a + i, b + i, c);
    return c;
}
