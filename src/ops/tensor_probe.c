/* The probes of mixed precision and the sums that its contracts fix for them. */
#include "ops/tensor_probe.h"

#include "base/buf.h"
#include "ops/functions.h"
#include "ops/low.h"

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* +-1.m times 2^exponent. */
static uint16_t number(uint32_t *state, enum rp_tc_format format, int exponent)
{
    const uint32_t w = next(state);
    return rp_low_of(format, (w & 0x80000000u) | (uint32_t)(127 + exponent) << 23 | (w & 0x7fffff));
}

static uint16_t power(enum rp_tc_format format, int exponent, int negative)
{
    return rp_low_of(format, (negative ? 0x80000000u : 0) | (uint32_t)(127 + exponent) << 23);
}

/* ---- SUMS ---- */

/* Row `i` of A: one of four kinds. Columns of B are ordinary, or powers of two of both signs. */
static void fill_row(uint32_t *state, enum rp_tc_format format, uint16_t *row, int i)
{
    const int is_bf16 = format == RP_TC_BF16, kind = i / 16, first = (5 * i) % RP_PROBE_STEPS,
              second = (first + 1 + 7 * (i % 5)) % RP_PROBE_STEPS;
    for (int k = 0; k < RP_PROBE_STEPS; k++) {
        row[k] = number(state, format,
                        kind == 0   ? (int)(next(state) % 3)
                        : kind == 3 ? (is_bf16 ? -100 : -15)
                                    : -(int)(next(state) % 14));
        if (kind == 3 && !is_bf16)
            row[k] = (uint16_t)((row[k] & 0x8000) | (next(state) & 0x3ff)); /* subnormal */
    }
    if (kind == 1 || kind == 2)
        row[first] = power(format, 10, 0);
    if (kind == 2)
        row[second] = power(format, 10, 1);
}

static void fill_sums(struct rp_tc_probe *p, enum rp_tc_format format, uint32_t *state)
{
    for (int i = 0; i < RP_PROBE_ROWS; i++) {
        fill_row(state, format, p->a + i * RP_PROBE_STEPS, i);
        /* the same power for large numbers that are to cancel, in half of the columns */
        for (int k = 0; k < RP_PROBE_STEPS; k++)
            p->b[i * RP_PROBE_STEPS + k] =
                i < 16 ? number(state, format, 0) : power(format, i % 4, i > 31 && next(state) & 1);
    }
}

/* ---- EDGES ---- */

/* A quarter of the lines each, rows of A and columns of B, is ordinary; has tiny numbers, zeros of both signs and,
 * where the other matrix has zeros, large numbers; is large; has an infinity, a NaN or neither. */
static uint16_t edge(uint32_t *state, enum rp_tc_format format, int line, int k, int is_b)
{
    const int is_bf16 = format == RP_TC_BF16, of = (int)(next(state) % 14);
    const uint16_t special[] = {0x7fff, rp_low_of(format, RP_TC_INF), rp_low_of(format, RP_TC_SIGN | RP_TC_INF)};
    switch (line / 16) {
    case 1:
        if (is_bf16 && !is_b && line % 4 == 2) /* subnormal operands; of fp16, SUMS has them */
            return (uint16_t)(next(state) & 0x807f);
        if (k % 4 == (is_b ? 1 : 3))
            return (uint16_t)(next(state) & 0x8000);
        if (k % 4 == (is_b ? 3 : 1))
            return number(state, format, is_bf16 ? 46 + of : 15 - of);
        if (!is_bf16)
            return (uint16_t)(next(state) & 0x83ff);
        if (line % 2 == 0) /* sums that are subnormal or nothing */
            return number(state, format, -63 - of);
        /* almost the smallest sum, 255 / 256 of it, and what reaches it or is cut off by the floor */
        return k % 16 == 0   ? (is_b ? power(format, -75, 0) : power(format, -74, 0) - 1)
               : k % 16 <= 6 ? number(state, format, -78 - line / 2 % 2 - of % 2) & 0x7fff
                             : 0;
    case 2:
        return number(state, format, is_bf16 ? 56 + of : 15 - of % 3);
    case 3:
        return k == line % 4 * 13 ? special[line % 3] : number(state, format, -of);
    default:
        return number(state, format, -of);
    }
}

static void fill_edges(struct rp_tc_probe *p, enum rp_tc_format format, uint32_t *state)
{
    for (int i = 0; i < RP_PROBE_ROWS; i++)
        for (int k = 0; k < RP_PROBE_STEPS; k++) {
            p->a[i * RP_PROBE_STEPS + k] = edge(state, format, i, k, 0);
            p->b[i * RP_PROBE_STEPS + k] = edge(state, format, i, k, 1);
        }
}

/* ---- any ---- */

static uint32_t sum_of(const struct rp_arithmetic *is, const uint16_t *a, const uint16_t *b, int steps)
{
    const int first = steps < RP_LOW_CHAIN ? steps : RP_LOW_CHAIN;
    const uint32_t one = rp_tc_chain(is->format, is->tc, a, b, 0, first);
    return first == steps ? one
                          : r_bits(r_float(one) +
                                   r_float(rp_tc_chain(is->format, is->tc, a + first, b + first, 0, steps - first)));
}

void rp_tc_probe_fill(struct rp_tc_probe *p, enum rp_numerics n, enum rp_tc_probe_kind kind)
{
    const struct rp_arithmetic *is = rp_arithmetic_of(n);
    uint32_t state = 0x2545f491u + (uint32_t)kind;
    p->rows = kind == RP_PROBE_CHAINS ? RP_PROBE_LONG_ROWS : RP_PROBE_ROWS;
    p->steps = kind == RP_PROBE_CHAINS ? RP_PROBE_LONG_STEPS : RP_PROBE_STEPS;
    if (kind == RP_PROBE_SUMS)
        fill_sums(p, is->format, &state);
    else if (kind == RP_PROBE_EDGES)
        fill_edges(p, is->format, &state);
    else
        for (int i = 0; i < RP_PROBE_NUMBERS_MOST; i++) {
            p->a[i] = number(&state, is->format, -1);
            p->b[i] = number(&state, is->format, -1);
        }
    for (int i = 0; i < p->rows; i++)
        for (int j = 0; j < p->rows; j++)
            p->sum[i * p->rows + j] = sum_of(is, p->a + i * p->steps, p->b + j * p->steps, p->steps);
}

int rp_tc_probe_equal(uint32_t a, uint32_t b)
{
    const uint32_t size = 0x7fffffff;
    return a == b || ((a & size) > RP_TC_INF && (b & size) > RP_TC_INF);
}

void rp_tc_probe_hash(struct rp_sha256 *h, const uint32_t *sum, int n)
{
    for (int i = 0; i < n; i++) {
        const unsigned char bytes[4] = {(unsigned char)sum[i], (unsigned char)(sum[i] >> 8),
                                        (unsigned char)(sum[i] >> 16), (unsigned char)(sum[i] >> 24)};
        rp_sha256_update(h, bytes, sizeof bytes);
    }
}

void rp_tc_probe_digest(char hex[RP_SHA256_HEX], enum rp_numerics n)
{
    RP_FREE struct rp_tc_probe *p = rp_alloc(sizeof *p);
    struct rp_sha256 h;
    rp_sha256_init(&h);
    for (int kind = RP_PROBE_SUMS; kind <= RP_PROBE_CHAINS; kind++) {
        rp_tc_probe_fill(p, n, (enum rp_tc_probe_kind)kind);
        rp_tc_probe_hash(&h, p->sum, p->rows * p->rows);
    }
    rp_sha256_final_hex(&h, hex);
}
