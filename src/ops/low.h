/* fp16 and bf16: what rounding to 16 bits is, as integers.
 *
 * What:    normative C. Rounding from fp32 is to nearest, ties to even; subnormal numbers are kept; what is too large
 *          becomes infinite; NaN becomes 0x7fff, as the conversions of NVIDIA's GPUs make it. Reading 16 bits is exact,
 *          and keeps every NaN's payload.
 * Flow:    bits -> bits.    Owner: none.
 * Extend:  another 16-bit format is another row of rp_low_round(): bits of fraction and of the exponent.
 */
#pragma once

#include "ops/tensor_core.h"

/* Bits of fp32 to bits with `fraction` bits of fraction (at most 22) and `exponent` bits of exponent (5 or 8). */
static inline uint16_t rp_low_round(uint32_t x, int fraction, int exponent)
{
    const uint32_t size = x & 0x7fffffff, sign = x >> 31 << (fraction + exponent);
    const int bias = (1 << (exponent - 1)) - 1, e = (int)(size >> 23); /* biased by 127 */
    if (size > 0x7f800000)
        return 0x7fff;
    /* bits that are cut off: more of them from numbers that become subnormal */
    const int above = e - 127 + bias, cut = 23 - fraction + (above < 1 ? 1 - (e ? above : 1 - 127 + bias) : 0);
    const uint32_t significand = (size & 0x7fffff) | (e ? 0x800000 : 0);
    if (cut > 25) /* below half of the least number */
        return (uint16_t)sign;
    const uint32_t kept = significand >> cut, rest = significand & ((1u << cut) - 1), half = 1u << (cut - 1);
    const uint32_t rounded = kept + (rest > half || (rest == half && kept & 1));
    /* the leading bit of a normal number is one in the exponent; a carry goes into the exponent, too */
    const uint32_t result = rounded + ((uint32_t)(above < 1 ? 0 : above - 1) << fraction);
    const uint32_t inf = ((1u << exponent) - 1) << fraction;
    return (uint16_t)(sign | (result < inf ? result : inf));
}

/* Bits to bits of fp32, exactly. */
static inline uint32_t rp_low_read(uint16_t x, int fraction, int exponent)
{
    const uint32_t sign = (uint32_t)(x >> (fraction + exponent)) << 31, top = (1u << exponent) - 1;
    const uint32_t field = x >> fraction & top;
    uint32_t f = x & ((1u << fraction) - 1);
    const int bias = (int)(top >> 1);
    if (field == top)
        return sign | 0x7f800000 | f << (23 - fraction);
    if (exponent == 8)
        return sign | field << 23 | f << (23 - fraction);
    if (field)
        return sign | (field + 127 - (uint32_t)bias) << 23 | f << (23 - fraction);
    if (!f)
        return sign;
    const int shift = __builtin_clz(f) - 31 + fraction; /* places of the leading bit below that of a normal number */
    return sign | (uint32_t)(127 - bias + 1 - shift) << 23 | (f << shift & ((1u << fraction) - 1)) << (23 - fraction);
}

static inline uint16_t rp_low_of(enum rp_tc_format format, uint32_t x)
{
    return format == RP_TC_FP16 ? rp_low_round(x, 10, 5) : rp_low_round(x, 7, 8);
}
static inline uint32_t rp_low_value(enum rp_tc_format format, uint16_t x)
{
    return format == RP_TC_FP16 ? rp_low_read(x, 10, 5) : rp_low_read(x, 7, 8);
}
