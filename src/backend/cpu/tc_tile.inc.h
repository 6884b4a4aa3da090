/* Packing, and one tile of products as a tensor core sums them; for whichever instruction set this file is compiled
 * for. tc_gemm.h says why the bits are right.
 *
 * Define KERNEL (the table's name), then include. tc_x86.inc.h and tc_neon.inc.h have the registers: LANES doubles in
 * each, ROWS rows of a tile, AHEAD where there are enough of them, and VD() and VI(), operations by the names that
 * x86-64 has for them. A tile's columns are two groups of two registers of doubles. M and E are made in 32-bit lanes,
 * one for each column of a group, in the order in which shufps takes the upper halves of two registers and unpack puts
 * them back (column_lane()); exponent words and signs have 16 bits, and the halves of a lane belong to the two
 * groups. */
#include "backend/cpu/tc_tile.h"

#include <string.h>

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && defined __OPTIMIZE__ && !defined __clang__
#pragma GCC optimize("O3")
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

#define ZERO_WORD (-12000) /* of a zero: a sum with it is below every `least`, and no sum of 16 bits wraps */
#define BIAS 1023          /* of exponents of doubles; in the words of B */
#define TOP_WORD(format) ((format) == RP_TC_FP16 ? 16 * 16 : 16 * 128) /* of infinities and NaN, without BIAS */

#if defined __x86_64__
#include "backend/cpu/tc_x86.inc.h"
#else
#include "backend/cpu/tc_neon.inc.h"
#endif
#define COLS (4 * LANES)
#define GROUPS 2 /* of columns: 32-bit lanes of two registers */

INLINE vi load_words(const void *p)
{
    return VI(loadu)((const void *)p);
}

INLINE vd loaded(const double *p)
{
    vd x = VD(loadu_pd)(p);
    IN_REGISTER(x);
    return x;
}

/* How many terms are negative, in the 32-bit lanes of group g: signs of products in 16-bit lanes, a pair of columns
 * each, and c's. */
INLINE vi count_negative(vi words, const int g, vi c)
{
    const vi half = g ? VD(srli_epi32)(words, 16) : VI(and)(words, VD(set1_epi32)(0xffff));
#if defined __AVX512VPOPCNTDQ__
    return _mm512_popcnt_epi32(_mm512_ternarylogic_epi32(half, c, _mm512_set1_epi32(INT32_MIN), 0xf8));
#else
    return VD(add_epi32)(half, VD(srli_epi32)(c, 31));
#endif
}

/* ---- packing ---- */

/* Which 32-bit lane of COLS / GROUPS belongs to a column of a group. */
INLINE int column_lane(int column)
{
    const int of_two = column / LANES, place = column % LANES;
    return 4 * (place / 2) + 2 * of_two + place % 2;
}

/* A column's 16 bits into the half of its lane that belongs to its group: the low half to the first. */
INLINE void pair_words(uint16_t *to, const int32_t column[COLS])
{
    UNROLL for (int c = 0; c < COLS / GROUPS; c++)
    {
        const uint32_t pair = ((uint32_t)column[c] & 0xffff) | (uint32_t)column[COLS / GROUPS + c] << 16;
        memcpy(to + 2 * column_lane(c), &pair, sizeof pair);
    }
}

/* products * width numbers of a block, [step][along]; what does not exist is 0. */
INLINE void gather(uint16_t *to, int width, const struct rp_tc_source *s, int products, int block)
{
    const int steps = s->steps - block * products < products ? s->steps - block * products : products;
    const uint16_t *from = s->at + (long)block * products * s->step;
    if (steps < products || s->count < width)
        memset(to, 0, (size_t)(products * width) * sizeof *to);
    if (s->along == 1) {
        for (int k = 0; k < steps; k++)
            memcpy(to + k * width, from + k * s->step, (size_t)s->count * sizeof *to);
    } else {
        for (int i = 0; i < s->count; i++)
            for (int k = 0; k < steps; k++)
                to[k * width + i] = from[i * s->along + k * s->step];
    }
}

INLINE void pack_a_of(void *dst, const struct rp_tc_source *s, enum rp_tc_format format, const int products, int blocks,
                      struct rp_tc_range *range)
{
    RANGES seen = no_range();
    unsigned char *to = dst;
    uint16_t x[16 * ROWS];
    for (int block = 0; block < blocks; block++, to += rp_tc_group_bytes(ROWS, products)) {
        double *value = (double *)to;
        uint32_t *word = (uint32_t *)(value + products * ROWS), *sign = word + products * ROWS;
        int32_t negative[16 * ROWS];
        gather(x, ROWS, s, products, block);
        for (int i = 0; i < products * ROWS; i += 8) {
            int32_t words[8];
            convert_eight(value + i, words, negative + i, x + i, format, 1, 0, &seen);
            for (int j = 0; j < 8; j++)
                word[i + j] = ((uint32_t)words[j] & 0xffff) | (uint32_t)words[j] << 16;
        }
        for (int r = 0; r < ROWS; r++) {
            sign[r] = 0;
            for (int k = 0; k < products; k++)
                sign[r] |= (uint32_t)negative[k * ROWS + r] << k;
            sign[r] |= sign[r] << 16;
        }
    }
    reduce(range, seen);
}

INLINE void pack_b_of(void *dst, const struct rp_tc_source *s, enum rp_tc_format format, const int products, int blocks,
                      struct rp_tc_range *range)
{
    RANGES seen = no_range();
    unsigned char *to = dst;
    uint16_t x[16 * COLS];
    for (int block = 0; block < blocks; block++, to += rp_tc_panel_bytes(COLS, products)) {
        double *value = (double *)to;
        uint16_t *word = (uint16_t *)(value + products * COLS);
        int32_t negative[COLS] = {0};
        gather(x, COLS, s, products, block);
        for (int k = 0; k < products; k++) {
            int32_t words[COLS];
            for (int c = 0; c < COLS; c += 8) {
                int32_t signs[8];
                convert_eight(value + k * COLS + c, words + c, signs, x + k * COLS + c, format, 1 + 0x1p-30, BIAS,
                              &seen);
                for (int j = 0; j < 8; j++)
                    negative[c + j] |= signs[j] << k;
            }
            pair_words(word + k * COLS, words);
        }
        pair_words(word + products * COLS, negative);
    }
    reduce(range, seen);
}

/* One function for each number of products and format, so that the loops above have constant lengths. */
#define PACK(which)                                                                                                    \
    static void which(void *dst, const struct rp_tc_source *s, enum rp_tc_format format, int products, int blocks,     \
                      struct rp_tc_range *range)                                                                       \
    {                                                                                                                  \
        if (format == RP_TC_BF16)                                                                                      \
            products == 16  ? which##_of(dst, s, RP_TC_BF16, 16, blocks, range)                                        \
            : products == 8 ? which##_of(dst, s, RP_TC_BF16, 8, blocks, range)                                         \
                            : which##_of(dst, s, RP_TC_BF16, 4, blocks, range);                                        \
        else                                                                                                           \
            products == 16  ? which##_of(dst, s, RP_TC_FP16, 16, blocks, range)                                        \
            : products == 8 ? which##_of(dst, s, RP_TC_FP16, 8, blocks, range)                                         \
                            : which##_of(dst, s, RP_TC_FP16, 4, blocks, range);                                        \
    }
PACK(pack_a)
PACK(pack_b)

static void load(double *tile, const float *c, long ldc, int rows, int cols, struct rp_tc_range *range)
{
    RANGES seen = no_range();
    float padded[COLS] = {0};
    for (int r = 0; r < ROWS; r++, tile += COLS) {
        const float *from = r < rows ? c + r * ldc : padded;
        if (r >= rows)
            memset(padded, 0, sizeof padded);
        else if (cols < COLS)
            from = memcpy(padded, from, (size_t)cols * sizeof *padded);
        for (int j = 0; j < COLS; j += 8)
            load_eight(tile + j, from + j, &seen);
    }
    reduce(range, seen);
}

static void store(float *c, long ldc, int rows, int cols, const double *tile)
{
    float line[COLS];
    for (int r = 0; r < rows; r++, c += ldc, tile += COLS) {
        float *to = cols < COLS ? line : c;
        for (int j = 0; j < COLS; j += 4)
            store_four(to + j, tile + j);
        if (cols < COLS)
            memcpy(c, line, (size_t)cols * sizeof *c);
    }
}

/* ---- the tile ---- */

/* A packed block. */
struct block {
    const double *a, *b;
    const uint32_t *a_word, *a_sign;
    const uint16_t *b_word, *b_sign;
};

INLINE struct block block_at(const unsigned char *a, const unsigned char *b, int products)
{
    struct block at = {.a = (const double *)a, .b = (const double *)b};
    at.a_word = (const uint32_t *)(at.a + products * ROWS);
    at.a_sign = at.a_word + products * ROWS;
    at.b_word = (const uint16_t *)(at.b + products * COLS);
    at.b_sign = at.b_word + products * COLS;
    return at;
}

/* largest[r] = the largest exponent word of each column's products with row r, of step k. */
INLINE void compare_step(vi largest[ROWS], const struct block *at, int k)
{
    vi word = load_words(at->b_word + k * COLS);
    IN_REGISTER(word);
    UNROLL for (int r = 0; r < ROWS; r++) largest[r] =
        VD(max_epi16)(largest[r], VD(add_epi16)(word, VD(set1_epi32)((int)at->a_word[k * ROWS + r])));
}

/* start[] = M, and sum[] = M + (negative terms) * q + c. */
INLINE void start_block(vd sum[ROWS][4], double start[ROWS][COLS], const vi largest[ROWS], const struct block *at,
                        const double *c, const int products, const int bits, const int general)
{
    const vi zero = VI(setzero)();
    UNROLL for (int r = 0; r < ROWS; r++)
    {
        const vi signs = VI(xor)(load_words(at->b_sign), VD(set1_epi32)((int)at->a_sign[r]));
        const vi words = count_words(signs, products);
        UNROLL for (int g = 0; g < GROUPS; g++)
        {
            const vd c0 = VD(loadu_pd)(c + r * COLS + g * 2 * LANES),
                     c1 = VD(loadu_pd)(c + r * COLS + g * 2 * LANES + LANES);
            const vi upper = upper_halves(c0, c1);
            vi size = VI(and)(upper, VD(set1_epi32)(INT32_MAX));
            if (general) /* a subnormal c has the least exponent of fp32's normal numbers */
                size = at_least_if_any(size, VD(set1_epi32)((BIAS - 126) << 20));
            const vi word = VD(max_epi32)(g ? largest[r] : VD(slli_epi32)(largest[r], 16), size);
            const vi m =
                VD(add_epi32)(VI(and)(word, VD(set1_epi32)(0x7ff00000)), VD(set1_epi32)(((52 - bits) << 20) | 0x80000));
            const vi count = count_negative(words, g, upper);
            double *const m0 = &start[r][g * 2 * LANES];
            VI(store)((vi *)m0, VD(unpacklo_epi32)(zero, m));
            VI(store)((vi *)(m0 + LANES), VD(unpackhi_epi32)(zero, m));
            const vd scale = VD(set1_pd)(1 + 0x1p-27);
            sum[r][2 * g] = VD(fmadd_pd)(c0, scale, AS_DOUBLES(VD(unpacklo_epi32)(count, m)));
            sum[r][2 * g + 1] = VD(fmadd_pd)(c1, scale, AS_DOUBLES(VD(unpackhi_epi32)(count, m)));
        }
    }
}

/* c = (sum - M) truncated to 24 bits; infinities and NaN as they are. */
INLINE void end_block(double *c, vd sum[ROWS][4], double start[ROWS][COLS], const int general)
{
    UNROLL for (int r = 0; r < ROWS; r++)
    {
        UNROLL for (int v = 0; v < 4; v++)
        {
            vd s = VD(sub_pd)(sum[r][v], VD(load_pd)(&start[r][v * LANES]));
            if (general) /* + 0: what underflows to -0 would look negative in the next block */
                s = VD(add_pd)(to_fp32(s), VD(set1_pd)(0));
            else
                s = first_24_bits(s);
            VD(storeu_pd)(c + r * COLS + v * LANES, s);
        }
    }
}

/* NaN to those elements of a tile's row whose lanes of `least`, in the order of exponent words, are 0. */
INLINE void mark_row(double *row, vi least)
{
    uint16_t lane[COLS];
    VI(storeu)((void *)lane, least);
    for (int c = 0; c < COLS; c++)
        if (!lane[2 * column_lane(c % (COLS / GROUPS)) + c / (COLS / GROUPS)])
            row[c] = __builtin_nan("");
}

/* Looks for the two sums of exponent words that an infinity and a zero have; BIAS is in the words of B alone. No other
 * words have these sums but those of NaN and a zero, whose product is NaN anyway. */
static void mark_invalid(double *tile, const void *a, const void *b, enum rp_tc_format format, int products, int blocks)
{
    const vi top_zero = VD(set1_epi16)((short)(TOP_WORD(format) + ZERO_WORD));
    const vi zero_top = VD(set1_epi16)((short)(ZERO_WORD + TOP_WORD(format) + 16 * BIAS));
    vi least[ROWS]; /* 0: one of these sums was found */
    UNROLL for (int r = 0; r < ROWS; r++) least[r] = VD(set1_epi16)(-1);
    for (int block = 0; block < blocks; block++) {
        const struct block at =
            block_at((const unsigned char *)a + (size_t)block * rp_tc_group_bytes(ROWS, products),
                     (const unsigned char *)b + (size_t)block * rp_tc_panel_bytes(COLS, products), products);
        for (int k = 0; k < products; k++) {
            const vi word = load_words(at.b_word + k * COLS);
            UNROLL for (int r = 0; r < ROWS; r++)
            {
                const vi sum = VD(add_epi16)(word, VD(set1_epi32)((int)at.a_word[k * ROWS + r]));
                least[r] = VD(min_epu16)(least[r], VI(xor)(sum, top_zero));
                least[r] = VD(min_epu16)(least[r], VI(xor)(sum, zero_top));
            }
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) mark_row(tile + r * COLS, least[r]);
}

/* A block of every group, then the next block: a chain waits for its own sum, so that another's products fill the
 * time. With AHEAD, the exponents of the block after this one are compared between the products, too. */
INLINE void compare_block(vi largest[ROWS], const struct block *at, const int products, int least)
{
    UNROLL for (int r = 0; r < ROWS; r++) largest[r] = VD(set1_epi16)((short)least);
    UNROLL for (int k = 0; k < products; k++) compare_step(largest, at, k);
}

INLINE void tile_of(const struct rp_tc_run *run, const int products, const int bits, const int general)
{
    double start[ROWS][COLS] __attribute__((aligned(64)));
    vi largest[ROWS];
    const unsigned char *const a = run->a, *const b = run->b;
    int group = 0, block = 0;
    struct block at = block_at(a, b, products);
    if (AHEAD)
        compare_block(largest, &at, products, run->least);
    for (int left_over = run->blocks * run->groups; left_over > 0; left_over--) {
        double *const c = run->tile + group * ROWS * COLS;
        vd sum[ROWS][4];
        if (++group == run->groups) {
            group = 0;
            block++;
        }
        const size_t next_a = (size_t)group * run->group_step + (size_t)block * rp_tc_group_bytes(ROWS, products);
        const struct block next =
            left_over > 1 ? block_at(a + next_a, b + (size_t)block * rp_tc_panel_bytes(COLS, products), products) : at;
        if (!AHEAD)
            compare_block(largest, &at, products, run->least);
        start_block(sum, start, largest, &at, c, products, bits, general);
        if (AHEAD) UNROLL
            for (int r = 0; r < ROWS; r++)
                largest[r] = VD(set1_epi16)((short)run->least);
        UNROLL for (int k = 0; k < products; k++)
        {
            if (AHEAD)
                compare_step(largest, &next, k);
            const double *const p = at.b + k * COLS;
            const vd b0 = loaded(p), b1 = loaded(p + LANES), b2 = loaded(p + 2 * LANES), b3 = loaded(p + 3 * LANES);
            UNROLL for (int r = 0; r < ROWS; r++)
            {
                const vd x = VD(set1_pd)(at.a[k * ROWS + r]);
                sum[r][0] = VD(fmadd_pd)(x, b0, sum[r][0]);
                sum[r][1] = VD(fmadd_pd)(x, b1, sum[r][1]);
                sum[r][2] = VD(fmadd_pd)(x, b2, sum[r][2]);
                sum[r][3] = VD(fmadd_pd)(x, b3, sum[r][3]);
            }
        }
        end_block(c, sum, start, general);
        at = next;
    }
}

#define TILE(name, products, bits, general)                                                                            \
    static __attribute__((noinline)) void name(const struct rp_tc_run *run)                                            \
    {                                                                                                                  \
        tile_of(run, products, bits, general);                                                                         \
    }
TILE(tile_4_fast, 4, 23, 0)
TILE(tile_4_general, 4, 23, 1)
TILE(tile_8_fast, 8, 24, 0)
TILE(tile_8_general, 8, 24, 1)
TILE(tile_16_fast, 16, 25, 0)
TILE(tile_16_general, 16, 25, 1)

static void tile(const struct rp_tc_run *run, int products, int general)
{
    if (products == 4)
        (general ? tile_4_general : tile_4_fast)(run);
    else if (products == 8)
        (general ? tile_8_general : tile_8_fast)(run);
    else
        (general ? tile_16_general : tile_16_fast)(run);
}

const struct rp_tc_kernel KERNEL = {
    .rows = ROWS,
    .cols = COLS,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .load = load,
    .store = store,
    .mark_invalid = mark_invalid,
    .tile = tile,
};
