/* The fragments of mma.sync and ldmatrix: which lane of a warp holds which elements, and what a warp computes from
 * them.
 *
 * What:    the tables of the PTX ISA ("Matrix Fragments for mma.m8n8k4", "... m16n8k8", "... m16n8k16", "ldmatrix"), in
 *          words:
 *
 *          A register holds two elements, the first in its low half. Of lane l, let g = l / 4 and t = l % 4.
 *
 *          m16n8k16  A: registers 0 to 3 hold rows g, g + 8, g, g + 8 at k = 2t, 2t + 1, of registers 2 and 3 at 8
 *                    more. B: column g, register 0 at k = 2t, 2t + 1, register 1 at 8 more. C: 0 and 1 are row g,
 *                    columns 2t, 2t + 1; 2 and 3 the same of row g + 8.
 *          m16n8k8   A: registers 0 and 1 hold rows g, g + 8 at k = 2t, 2t + 1. B: column g, k = 2t, 2t + 1. C: as
 *                    above.
 *          m8n8k4    four products, each by two quads of lanes: product q has lanes 4q to 4q + 3 and those 16 above.
 *                    A by rows: lane t holds row t, those above row t + 4, at k = 0 to 3; by columns: k = t, rows 0 to
 *                    3, or 4 to 7 above. B by columns: column t, or t + 4 above, at k = 0 to 3; by rows: k = t, columns
 *                    0 to 3, or 4 to 7 above. C: i is row (t & 1) + (i & 2), 4 more above, column (i & 4) + (t & 2) +
 *                    (i & 1).
 *          ldmatrix  lanes 8j to 8j + 7 give the addresses of the eight rows of matrix j, 16 bytes each; register j of
 *                    lane l gets elements 2t and 2t + 1 of row g. Transposed: element g of rows 2t and 2t + 1.
 * Flow:    registers of 32 lanes -> shim_multiply(), with the sums of ops/tensor_core.h -> registers.
 * Owner:   the caller's arrays. The shim, the executor of PTX and that of machine code share this file.
 * Extend:  another shape is a value of enum shim_form with its three maps, and a row of shim_tc_of().
 */
#pragma once

#include "ops/tensor_core.h"

#define SHIM_LANES 32

enum shim_form { SHIM_M8N8K4, SHIM_M16N8K8, SHIM_M16N8K16 };
enum { SHIM_A_BY_COLUMNS = 1, SHIM_B_BY_ROWS = 2 }; /* of m8n8k4 alone; else A comes by rows and B by columns */

struct shim_product {
    enum shim_form form;
    unsigned layout;
    enum rp_tc_format format;
    struct rp_tc tc;
};

/* [register][lane] */
struct shim_registers {
    uint32_t a[4][SHIM_LANES], b[2][SHIM_LANES], c[8][SHIM_LANES];
};

/* Registers of a lane. */
static inline int shim_registers_a(enum shim_form f)
{
    return f == SHIM_M16N8K16 ? 4 : 2;
}
static inline int shim_registers_b(enum shim_form f)
{
    return f == SHIM_M16N8K8 ? 1 : 2;
}
static inline int shim_registers_c(enum shim_form f)
{
    return f == SHIM_M8N8K4 ? 8 : 4;
}

/* The arithmetic of a shape on devices of a compute capability. 0: they do not have it, or not as one instruction. */
static inline int shim_tc_of(enum shim_form f, int capability, struct rp_tc *tc)
{
    static const struct rp_tc four = RP_TC4, eight = RP_TC8, sixteen = RP_TC16, half = RP_TC16_K8;
    const int least = f == SHIM_M8N8K4 ? 70 : f == SHIM_M16N8K8 ? 75 : 80;
    *tc = f == SHIM_M8N8K4 ? four : capability < 90 ? eight : f == SHIM_M16N8K16 ? sixteen : half;
    return capability >= least && (f != SHIM_M8N8K4 || capability < 75);
}

struct shim_element {
    int row, column;
};

/* Element i of a lane of A, as row and k. */
static inline struct shim_element shim_a_at(enum shim_form f, unsigned layout, int lane, int i)
{
    const int g = lane / 4, t = lane % 4, above = lane / 16;
    if (f != SHIM_M8N8K4)
        return (struct shim_element){g + (i & 2 ? 8 : 0), 2 * t + (i & 1) + (i & 4 ? 8 : 0)};
    return layout & SHIM_A_BY_COLUMNS ? (struct shim_element){i + 4 * above, t}
                                      : (struct shim_element){t + 4 * above, i};
}

/* Element i of a lane of B, as k and column. */
static inline struct shim_element shim_b_at(enum shim_form f, unsigned layout, int lane, int i)
{
    const int g = lane / 4, t = lane % 4, above = lane / 16;
    if (f != SHIM_M8N8K4)
        return (struct shim_element){2 * t + (i & 1) + (i & 2 ? 8 : 0), g};
    return layout & SHIM_B_BY_ROWS ? (struct shim_element){t, i + 4 * above} : (struct shim_element){i, t + 4 * above};
}

static inline struct shim_element shim_c_at(enum shim_form f, int lane, int i)
{
    const int g = lane / 4, t = lane % 4, above = lane / 16;
    if (f != SHIM_M8N8K4)
        return (struct shim_element){g + (i & 2 ? 8 : 0), 2 * t + (i & 1)};
    return (struct shim_element){(t & 1) + (i & 2) + 4 * above, (i & 4) + (t & 2) + (i & 1)};
}

/* A row of A or a column of B, taken apart once for all its products: exponents are those of the last bits, signs 0
 * or -1. */
struct shim_line {
    uint64_t significand[16];
    int64_t exponent[16], sign[16];
    int is_special; /* infinities or NaN among them */
};
#define SHIM_NO_EXPONENT (-2000) /* of zeros: two of them are below every exponent of a product */

static inline void shim_take_apart(struct shim_line *line, const uint16_t *x, int k, enum rp_tc_format format)
{
    const int fraction_bits = format == RP_TC_FP16 ? 10 : 7, exponent_bits = format == RP_TC_FP16 ? 5 : 8;
    line->is_special = 0;
    for (int i = 0; i < k; i++) {
        uint32_t significand;
        int exponent;
        line->is_special |= rp_tc_split(x[i], fraction_bits, exponent_bits, &significand, &exponent);
        line->significand[i] = significand;
        line->exponent[i] = significand ? exponent : SHIM_NO_EXPONENT;
        line->sign[i] = -(int64_t)(x[i] >> 15);
    }
}

/* The largest exponent of products k0 to k0 + f - 1 of two lines, f being 4, 8 or 16, and their sum with each truncated
 * to a multiple of 2^least. */
#if defined __AVX2__
#include <immintrin.h>
#define SHIM_FOUR(line, i) _mm256_loadu_si256((const __m256i *)&(line)[i])
static inline int shim_largest(const struct shim_line *a, const struct shim_line *b, int k0, int f)
{
    __m256i most = _mm256_set1_epi64x(2 * SHIM_NO_EXPONENT); /* lower halves count */
    for (int i = k0; i < k0 + f; i += 4)
        most = _mm256_max_epi32(most, _mm256_add_epi64(SHIM_FOUR(a->exponent, i), SHIM_FOUR(b->exponent, i)));
    const __m128i two = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_unpackhi_epi64(two, two)));
}
static inline int64_t shim_truncated_sum(const struct shim_line *a, const struct shim_line *b, int k0, int f, int least)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum = zero;
    for (int i = k0; i < k0 + f; i += 4) {
        const __m256i product = _mm256_mul_epu32(SHIM_FOUR(a->significand, i), SHIM_FOUR(b->significand, i));
        const __m256i unit = _mm256_add_epi64(SHIM_FOUR(a->exponent, i), SHIM_FOUR(b->exponent, i));
        const __m256i shift = _mm256_sub_epi64(unit, _mm256_set1_epi64x(least));
        const __m256i up = _mm256_max_epi32(shift, zero), down = _mm256_max_epi32(_mm256_sub_epi64(zero, shift), zero);
        const __m256i kept = _mm256_srlv_epi64(_mm256_sllv_epi64(product, up), down);
        const __m256i sign = _mm256_xor_si256(SHIM_FOUR(a->sign, i), SHIM_FOUR(b->sign, i));
        sum = _mm256_add_epi64(sum, _mm256_sub_epi64(_mm256_xor_si256(kept, sign), sign));
    }
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}
#else
static inline int shim_largest(const struct shim_line *a, const struct shim_line *b, int k0, int f)
{
    int64_t most = 2 * SHIM_NO_EXPONENT;
    for (int i = k0; i < k0 + f; i++)
        most = a->exponent[i] + b->exponent[i] > most ? a->exponent[i] + b->exponent[i] : most;
    return (int)most;
}
static inline int64_t shim_truncated_sum(const struct shim_line *a, const struct shim_line *b, int k0, int f, int least)
{
    int64_t sum = 0;
    for (int i = k0; i < k0 + f; i++) {
        const uint64_t product = a->significand[i] * b->significand[i];
        const int64_t shift = a->exponent[i] + b->exponent[i] - least, sign = a->sign[i] ^ b->sign[i];
        const uint64_t kept = shift >= 0 ? product << shift : shift > -64 ? product >> -shift : 0;
        sum += ((int64_t)kept ^ sign) - sign;
    }
    return sum;
}
#endif

/* rp_tc_block() of finite numbers. fractions: bits behind the point of a product. */
static inline uint32_t shim_block(const struct shim_line *a, const struct shim_line *b, int k0, struct rp_tc tc,
                                  int fractions, uint32_t c)
{
    int largest = shim_largest(a, b, k0, tc.products) + fractions, c_unit;
    uint32_t significand;
    rp_tc_split(c, 23, 8, &significand, &c_unit);
    if (significand && c_unit + 23 > largest)
        largest = c_unit + 23;
    const int least = (largest < tc.floor ? tc.floor : largest) - tc.bits;
    const int shift = c_unit - least;
    const uint64_t kept = shift >= 0    ? (uint64_t)significand << shift
                          : shift > -64 ? (uint64_t)significand >> -shift
                                        : 0;
    const int64_t addend = !significand ? 0 : c >> 31 ? -(int64_t)kept : (int64_t)kept;
    return rp_tc_truncate(shim_truncated_sum(a, b, k0, tc.products, least) + addend, least);
}

/* rp_tc_chain() of k products; x and y are what the lines were made of. */
static inline uint32_t shim_chain(const struct shim_product *p, const struct shim_line *a, const struct shim_line *b,
                                  const uint16_t *x, const uint16_t *y, uint32_t c, int k)
{
    const int fractions = p->format == RP_TC_FP16 ? 20 : 14;
    for (int i = 0; i < k; i += p->tc.products)
        if (a->is_special | b->is_special || (c & RP_TC_INF) == RP_TC_INF || p->tc.products % 4)
            c = rp_tc_block(p->format, p->tc, x + i, y + i, c);
        else
            c = shim_block(a, b, i, p->tc, fractions, c);
    return c;
}

/* Product q of a warp; shapes but m8n8k4 have one, of all lanes. */
static inline void shim_multiply_one(const struct shim_product *p, struct shim_registers *r, int q)
{
    const enum shim_form f = p->form;
    const int k = f == SHIM_M8N8K4 ? 4 : f == SHIM_M16N8K8 ? 8 : 16, rows = f == SHIM_M8N8K4 ? 8 : 16;
    uint16_t a[16][16], b[8][16];
    struct shim_line row[16], column[8];
    for (int lane = 0; lane < SHIM_LANES; lane++) {
        if (f == SHIM_M8N8K4 && lane / 4 % 4 != q)
            continue;
        for (int i = 0; i < 2 * shim_registers_a(f); i++) {
            const struct shim_element at = shim_a_at(f, p->layout, lane, i);
            a[at.row][at.column] = (uint16_t)(r->a[i / 2][lane] >> 16 * (i % 2));
        }
        for (int i = 0; i < 2 * shim_registers_b(f); i++) {
            const struct shim_element at = shim_b_at(f, p->layout, lane, i);
            b[at.column][at.row] = (uint16_t)(r->b[i / 2][lane] >> 16 * (i % 2));
        }
    }
    for (int i = 0; i < rows; i++)
        shim_take_apart(&row[i], a[i], k, p->format);
    for (int i = 0; i < 8; i++)
        shim_take_apart(&column[i], b[i], k, p->format);
    for (int lane = 0; lane < SHIM_LANES; lane++) {
        if (f == SHIM_M8N8K4 && lane / 4 % 4 != q)
            continue;
        for (int i = 0; i < shim_registers_c(f); i++) {
            const struct shim_element at = shim_c_at(f, lane, i);
            uint32_t *const c = &r->c[i][lane];
            *c = shim_chain(p, &row[at.row], &column[at.column], a[at.row], b[at.column], *c, k);
        }
    }
}

/* c = a * b + c */
static inline void shim_multiply(const struct shim_product *p, struct shim_registers *r)
{
    for (int q = 0; q < (p->form == SHIM_M8N8K4 ? 4 : 1); q++)
        shim_multiply_one(p, r, q);
}

/* Register j of ldmatrix, of a lane: row[i] is what lane i's address has, 8 elements. */
static inline uint32_t shim_matrix_register(const uint16_t (*row)[8], int j, int lane, int is_transposed)
{
    const int g = lane / 4, t = lane % 4;
    const uint16_t low = is_transposed ? row[8 * j + 2 * t][g] : row[8 * j + g][2 * t];
    const uint16_t high = is_transposed ? row[8 * j + 2 * t + 1][g] : row[8 * j + g][2 * t + 1];
    return (uint32_t)high << 16 | low;
}
