// The sum of products that a tensor core computes, as integers: a model that tensor_probe.cu compares with the hardware.
//
// A block of F products and an addend is summed exactly, but for bits that lie more than N below the largest exponent,
// which are dropped from every term before. The exponent of a product is the sum of the exponents of its factors. Then
// the sum is truncated to fp32. N, F and the least exponent belong to a family of chips.
// Sources: results recorded on GPUs in MATLAB-tensor-core (north-numerical-computing, model_validation/) and the
// constants of Hawkeye (arXiv 2603.20421).
#ifndef TESTS_GPU_TENSOR_CORE_H
#define TESTS_GPU_TENSOR_CORE_H

#include <stdint.h>

enum tensor_format { TENSOR_FP16, TENSOR_BF16 };

struct tensor_block {
    int products; // of a block, at most 16
    int bits;     // kept below the largest exponent
    int floor;    // the largest exponent counts as at least this
};

#define TENSOR_NAN UINT32_C(0x7fffffff)
#define TENSOR_INF UINT32_C(0x7f800000)

// |x| = significand * 2^exponent, without the sign. 0: finite, 1: infinite, 2: NaN.
static inline int tensor_split(uint32_t x, int fraction_bits, int exponent_bits, uint32_t *significand, int *exponent)
{
    const uint32_t fraction = x & ((1u << fraction_bits) - 1), top = (1u << exponent_bits) - 1;
    const uint32_t field = x >> fraction_bits & top;
    *significand = field ? fraction | 1u << fraction_bits : fraction;
    *exponent = (int)(field ? field : 1) - (int)(top >> 1) - fraction_bits;
    return field != top ? 0 : fraction ? 2 : 1;
}

// What infinities and NaNs make of a sum: bit 0: +inf among the terms, bit 1: -inf, bit 2: NaN.
static inline uint32_t tensor_special(uint32_t seen)
{
    return seen == 1 ? TENSOR_INF : seen == 2 ? TENSOR_INF | UINT32_C(0x80000000) : TENSOR_NAN;
}

// fp32 bits of a[0] * b[0] + ... + a[products - 1] * b[products - 1] + c.
static inline uint32_t tensor_block_sum(enum tensor_format format, struct tensor_block block, const uint16_t *a,
                                        const uint16_t *b, uint32_t c)
{
    const int fraction = format == TENSOR_FP16 ? 10 : 7, exponent = format == TENSOR_FP16 ? 5 : 8;
    uint64_t term[17];
    int unit[17], largest = INT32_MIN; // a term is term * 2^unit
    uint32_t negative = 0, seen = 0;
    for (int i = 0; i <= block.products; i++) {
        int width, at, sign;
        if (i == block.products) { // the addend
            uint32_t significand;
            const int kind = tensor_split(c, 23, 8, &significand, &unit[i]);
            sign = (int)(c >> 31);
            term[i] = significand, width = 23;
            seen |= kind == 0 ? 0 : kind == 2 ? 4u : 1u << sign;
        } else {
            uint32_t x, y;
            int ex, ey;
            const int kx = tensor_split(a[i], fraction, exponent, &x, &ex);
            const int ky = tensor_split(b[i], fraction, exponent, &y, &ey);
            sign = (a[i] ^ b[i]) >> 15;
            term[i] = (uint64_t)x * y, unit[i] = ex + ey, width = 2 * fraction;
            if (kx | ky) seen |= kx == 2 || ky == 2 || !term[i] ? 4u : 1u << sign;
        }
        at = unit[i] + width;
        if (term[i] && at > largest) largest = at;
        negative |= (uint32_t)sign << i;
    }
    if (seen) return tensor_special(seen);
    if (largest == INT32_MIN) return 0;
    if (largest < block.floor) largest = block.floor;
    const int last = largest - block.bits; // 2^last is the unit of the sum
    int64_t sum = 0;
    for (int i = 0; i <= block.products; i++) {
        const int shift = unit[i] - last;
        const uint64_t kept = shift >= 0 ? term[i] << shift : shift > -64 ? term[i] >> -shift : 0;
        sum += negative >> i & 1 ? -(int64_t)kept : (int64_t)kept;
    }
    if (!sum) return 0;
    const uint32_t sign = sum < 0 ? UINT32_C(0x80000000) : 0;
    const uint64_t size = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    const int top = 63 - __builtin_clzll(size) + last; // 2^top <= |sum| < 2^(top + 1)
    const int lowest = (top < -126 ? -126 : top) - 23, shift = lowest - last;
    const uint64_t result = shift <= 0 ? size << -shift : shift < 64 ? size >> shift : 0;
    if (!result) return 0;
    if (top > 127) return sign | TENSOR_INF;
    return sign | (result >> 23 ? (uint32_t)(lowest + 150) << 23 | (uint32_t)(result & 0x7fffff) : (uint32_t)result);
}

// The chain of blocks in ascending order, from c. k is a multiple of the products of a block.
static inline uint32_t tensor_chain(enum tensor_format format, struct tensor_block block, const uint16_t *a,
                                    const uint16_t *b, uint32_t c, int k)
{
    for (int i = 0; i < k; i += block.products) c = tensor_block_sum(format, block, a + i, b + i, c);
    return c;
}

#endif
