/* Operands for tensor-core instructions, in C and C++: tensor_probe.cu runs the instructions on them, and
 * tests/ops/test_tensor_core.c the model of src/ops/tensor_core.h.
 *
 * A tile is a product of 64 x k by k x 256 with an addend. Format, class, k and the number of tiles determine the
 * operands. results/h200-2026-11-27/tensor.jsonl has digests of the results: it becomes useless if a draw or the order
 * of draws changes. Each draw is a statement of its own where C leaves the order open.
 */
#pragma once

#include "ops/tensor_core.h"

#include <stddef.h>
#include <stdint.h>

enum { TENSOR_ROWS = 64, TENSOR_COLS = 256, TENSOR_RESULTS = TENSOR_ROWS * TENSOR_COLS, TENSOR_MOST_K = 64 };

/* Append only: the number of a class seeds its draws. */
#define TENSOR_CLASSES(X)                                                                                              \
    X(EXACT, "exact")                                                                                                  \
    X(NEAR_ONE, "near_one")                                                                                            \
    X(ONE_SMALL, "one_small")                                                                                          \
    X(CANCELLED, "cancelled")                                                                                          \
    X(ADDEND, "addend")                                                                                                \
    X(SUBNORMAL, "subnormal")                                                                                          \
    X(FLOOR, "floor")                                                                                                  \
    X(ZERO_TIMES_LARGE, "zero_times_large")                                                                            \
    X(SPECIAL, "special")                                                                                              \
    X(ANY, "any")                                                                                                      \
    X(UNDER_FLOOR, "under_floor")                                                                                      \
    X(NEGATIVE_ZERO, "negative_zero")
enum tensor_class {
#define X(id, name) TENSOR_##id,
    TENSOR_CLASSES(X)
#undef X
    TENSOR_CLASS_COUNT
};
static inline const char *tensor_class_name(int which)
{
    static const char *const names[] = {
#define X(id, name) name,
        TENSOR_CLASSES(X)
#undef X
    };
    return names[which];
}
static inline const char *tensor_format_name(enum rp_tc_format format)
{
    return format == RP_TC_FP16 ? "fp16" : "bf16";
}

/* k is 16 or 64, the latter with a quarter of the tiles. */
static inline int tensor_tiles(int most, int k)
{
    return k == 16 ? most : (most + 3) / 4;
}

struct tensor_draws {
    enum rp_tc_format format;
    uint64_t state;
};
static inline uint64_t tensor_next(struct tensor_draws *draws) /* SplitMix64 */
{
    uint64_t z = draws->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static inline int tensor_below(struct tensor_draws *draws, int n)
{
    return (int)(tensor_next(draws) % (uint64_t)n);
}
static inline int tensor_from(struct tensor_draws *draws, int least, int most)
{
    return least + tensor_below(draws, most - least + 1);
}

/* Sign, exponent and fraction as bits of a format. An exponent below the least one makes a subnormal number or zero; an
 * exponent above the largest one becomes the largest. */
static inline uint32_t tensor_pack(int sign, int exponent, uint32_t fraction, int fraction_bits, int exponent_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    int field = exponent + bias;
    fraction &= (1u << fraction_bits) - 1;
    if (field <= 0) {
        const int drop = 1 - field;
        fraction = drop > fraction_bits ? 0 : (fraction | 1u << fraction_bits) >> drop;
        field = 0;
    }
    if (field > 2 * bias)
        field = 2 * bias;
    return (uint32_t)sign << (fraction_bits + exponent_bits) | (uint32_t)field << fraction_bits | fraction;
}
static inline uint16_t tensor_narrow(enum rp_tc_format format, int sign, int exponent, uint32_t fraction)
{
    const int half = format == RP_TC_FP16;
    return (uint16_t)tensor_pack(sign, exponent, fraction, half ? 10 : 7, half ? 5 : 8);
}
static inline uint16_t tensor_any16(struct tensor_draws *draws, int least, int most)
{
    const int sign = tensor_below(draws, 2);
    const int exponent = tensor_from(draws, least, most);
    const uint32_t fraction = (uint32_t)tensor_next(draws);
    return tensor_narrow(draws->format, sign, exponent, fraction);
}
static inline uint32_t tensor_any32(struct tensor_draws *draws, int least, int most)
{
    const int sign = tensor_below(draws, 2);
    const int exponent = tensor_from(draws, least, most);
    const uint32_t fraction = (uint32_t)tensor_next(draws);
    return tensor_pack(sign, exponent, fraction, 23, 8);
}
/* Plus or minus 2^exponent */
static inline uint16_t tensor_power16(struct tensor_draws *draws, int exponent)
{
    const int sign = tensor_below(draws, 2);
    return tensor_narrow(draws->format, sign, exponent, 0);
}
/* An infinity, a NaN, a zero, or a number among the largest */
static inline uint16_t tensor_special16(struct tensor_draws *draws)
{
    const int half = draws->format == RP_TC_FP16, most = half ? 15 : 127, bits = half ? 10 : 7;
    const uint16_t inf = half ? 0x7c00 : 0x7f80;
    switch (tensor_below(draws, 24)) {
    case 0:
        return inf;
    case 1:
        return inf | 0x8000;
    case 2: {
        const int bit = tensor_below(draws, bits);
        const int sign = tensor_below(draws, 2);
        return (uint16_t)(inf | 1u << bit | (unsigned)sign << 15);
    }
    case 3:
        return (uint16_t)(tensor_below(draws, 2) << 15);
    default: {
        const int least = tensor_below(draws, 2) ? most - 2 : -2;
        return tensor_any16(draws, least, most);
    }
    }
}

/* Of four products in bf16, two are powers from 2^-149 to 2^-135, one lies between 2^-164 and 2^-155, and one is zero:
 * the small one decides the last bit of the sum, and the exponent of the largest is below the floor. Products of fp16
 * do not get there: all of them are zero, and the addend may be subnormal. */
static inline uint16_t tensor_under_floor16(struct tensor_draws *draws, int i, int is_a)
{
    if (draws->format == RP_TC_FP16)
        return is_a ? tensor_power16(draws, -200) : tensor_any16(draws, -2, 15);
    if (i % 2 == 0) {
        const int exponent = is_a ? tensor_from(draws, -75, -68) : tensor_from(draws, -74, -67);
        return tensor_power16(draws, exponent);
    }
    if (!is_a)
        return tensor_any16(draws, -81, -78);
    return i % 4 == 1 ? tensor_any16(draws, -83, -79) : tensor_power16(draws, -200);
}

/* Element i of a row of a or of a column of b */
static inline uint16_t tensor_operand16(struct tensor_draws *draws, int which, int i, int is_a)
{
    const int half = draws->format == RP_TC_FP16;
    const int least = half ? -14 : -126, most = half ? 15 : 127, bits = half ? 10 : 7;
    switch (which) {
    case TENSOR_EXACT: { /* integers of -8 to 8 */
        const int v = tensor_from(draws, -8, 8), size = v < 0 ? -v : v;
        const int top = size ? 31 - __builtin_clz((unsigned)size) : 0;
        return size ? tensor_narrow(draws->format, v < 0, top, (uint32_t)size << bits >> top) : 0;
    }
    case TENSOR_NEAR_ONE:
        return tensor_any16(draws, -3, 1);
    case TENSOR_ONE_SMALL: /* a row has a product of 2^0 and small ones; columns only change signs */
        if (!is_a || i == 0)
            return tensor_power16(draws, 0);
        if (tensor_below(draws, 3))
            return 0;
        return tensor_any16(draws, half ? -24 : -32, half ? -14 : -18);
    case TENSOR_CANCELLED: /* large terms that cancel by chance, in one block and across blocks */
        if (!is_a)
            return tensor_power16(draws, 0);
        if (tensor_below(draws, 4))
            return tensor_any16(draws, -6, 2);
        return tensor_power16(draws, half ? 12 : 20);
    case TENSOR_ADDEND:
        return tensor_any16(draws, -4, 4);
    case TENSOR_SUBNORMAL:
        if (tensor_below(draws, 2))
            return tensor_any16(draws, least - bits, least);
        return tensor_any16(draws, is_a ? least : -2, is_a ? least + 3 : 2);
    case TENSOR_FLOOR: /* products about the least exponents of the sum */
        return half ? tensor_any16(draws, least - 10, least) : tensor_any16(draws, -80, -58);
    case TENSOR_ZERO_TIMES_LARGE:
        if (i % 2 == (is_a ? 0 : 1) && tensor_below(draws, 2))
            return tensor_power16(draws, -200);
        if (tensor_below(draws, 3))
            return tensor_any16(draws, half ? -24 : -78, half ? -12 : -66);
        return tensor_any16(draws, most - 12, most);
    case TENSOR_SPECIAL:
        return tensor_special16(draws);
    case TENSOR_UNDER_FLOOR:
        return tensor_under_floor16(draws, i, is_a);
    case TENSOR_NEGATIVE_ZERO: /* half of the rows have no other products */
        if (!is_a)
            return tensor_narrow(draws->format, 0, tensor_from(draws, -2, 2), 0);
        return tensor_below(draws, 24) ? 0x8000 : 0;
    default: { /* any finite bits */
        const uint16_t x = (uint16_t)tensor_next(draws), exponents = half ? 0x7c00 : 0x7f80;
        return (x & exponents) == exponents ? x & 0x83ff : x;
    }
    }
}

static inline uint32_t tensor_special32(struct tensor_draws *draws)
{
    switch (tensor_below(draws, 24)) {
    case 0:
        return RP_TC_INF;
    case 1:
        return RP_TC_INF | RP_TC_SIGN;
    case 2:
        return RP_TC_INF | UINT32_C(1) << tensor_below(draws, 23);
    case 3:
        return RP_TC_SIGN;
    default:
        return tensor_any32(draws, 120, 127);
    }
}
static inline uint32_t tensor_addend32(struct tensor_draws *draws, int which)
{
    const int half = draws->format == RP_TC_FP16;
    switch (which) {
    case TENSOR_EXACT: {
        const int v = tensor_from(draws, -1000, 1000), size = v < 0 ? -v : v;
        const int top = size ? 31 - __builtin_clz((unsigned)size) : 0;
        return size ? tensor_pack(v < 0, top, (uint32_t)size << (23 - top), 23, 8) : 0;
    }
    case TENSOR_ONE_SMALL:
        return tensor_below(draws, 4) ? 0 : tensor_any32(draws, -30, -20);
    case TENSOR_CANCELLED: {
        if (tensor_below(draws, 2))
            return tensor_any32(draws, -8, 0);
        const int sign = tensor_below(draws, 2);
        return tensor_pack(sign, half ? 12 : 20, 0, 23, 8);
    }
    case TENSOR_ADDEND:
        return tensor_any32(draws, 4, 34);
    case TENSOR_SUBNORMAL:
        return half ? tensor_any32(draws, -60, -10) : tensor_any32(draws, -150, -110);
    case TENSOR_FLOOR:
        return tensor_any32(draws, -150, half ? -30 : -116);
    case TENSOR_ZERO_TIMES_LARGE:
        return tensor_below(draws, 2) ? 0 : tensor_any32(draws, half ? -60 : -140, half ? -20 : -120);
    case TENSOR_SPECIAL:
        return tensor_special32(draws);
    case TENSOR_ANY: {
        const uint32_t x = (uint32_t)tensor_next(draws);
        return (x & RP_TC_INF) == RP_TC_INF ? x & 0x807fffff : x;
    }
    case TENSOR_UNDER_FLOOR:
        return half ? tensor_any32(draws, -150, -120) : tensor_below(draws, 2) ? RP_TC_SIGN : 0;
    case TENSOR_NEGATIVE_ZERO:
        return tensor_below(draws, 4) ? RP_TC_SIGN : 0;
    default:
        return tensor_any32(draws, -4, 2);
    }
}

/* a[tiles][64][MOST_K] by rows, b[tiles][256][MOST_K] by columns, zeros from k on; c[tiles][64][256]. */
static inline void tensor_operands(enum rp_tc_format format, int which, int k, int tiles, uint16_t *a, uint16_t *b,
                                   uint32_t *c)
{
    struct tensor_draws draws = {format, (uint64_t)format << 32 | (uint64_t)which << 16 | (uint64_t)k};
    for (int r = 0; r < tiles * TENSOR_ROWS; r++)
        for (int i = 0; i < TENSOR_MOST_K; i++)
            a[(size_t)r * TENSOR_MOST_K + i] = i < k ? tensor_operand16(&draws, which, i, 1) : 0;
    for (int r = 0; r < tiles * TENSOR_COLS; r++)
        for (int i = 0; i < TENSOR_MOST_K; i++)
            b[(size_t)r * TENSOR_MOST_K + i] = i < k ? tensor_operand16(&draws, which, i, 0) : 0;
    for (size_t i = 0; i < (size_t)tiles * TENSOR_RESULTS; i++)
        c[i] = tensor_addend32(&draws, which);
}

/* FNV-1a over words of 32 bits */
static inline uint64_t tensor_digest(const uint32_t *results, size_t count)
{
    uint64_t digest = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++)
        digest = (digest ^ results[i]) * UINT64_C(1099511628211);
    return digest;
}
