/* The model of a tensor core, src/ops/tensor_core.h, against an H200: digests of the 45.9 million results that
 * tests/gpu/tensor_probe.cu got there. The operands are generated again, so the record is only a line for each format,
 * class of operands, length of chain and instruction.
 *
 * The digests prove only what the operands can show. Errors are therefore planted in a second model, one at a time, and
 * a table lists the classes of operands whose digests become wrong. Classes that are younger than the record have the
 * digests of the model in its place: an error that only they show is a rule that the record leaves open. */
#include "ops/tensor_core.h"
#include "ops/tensor_probe.h"
#include "tests/gpu/tensor_operands.h"
#include "tests/shim/matrix.h"
#include "tests/unit/tap.h"

#include <inttypes.h>
#include <stdbool.h>

#define RECORD "results/h200-2026-11-27/tensor.jsonl"
enum { TILES = 16, LENGTHS = 2, FORMATS = 2, RECORDED = TENSOR_ANY + 1 }; /* classes of the record */
static const int lengths[LENGTHS] = {16, 64};

static uint16_t a[TILES * TENSOR_ROWS * TENSOR_MOST_K], b[TILES * TENSOR_COLS * TENSOR_MOST_K];
static uint32_t c[TILES * TENSOR_RESULTS], results[TILES * TENSOR_RESULTS];

/* ---- the record ---- */

static const char *const instructions[] = {
    "mma.m16n8k16",     "mma.m16n8k8",      "wgmma.m64n8k16", "wgmma.m64n64k16",
    "wgmma.m64n128k16", "wgmma.m64n256k16", "wgmma.m64n64k16 with a in registers",
};
enum { INSTRUCTIONS = sizeof instructions / sizeof *instructions, K8 = 1 };

struct row {
    long results, differ;
    uint64_t digest;
};
static struct row rows[FORMATS][TENSOR_CLASS_COUNT][LENGTHS][INSTRUCTIONS];

static struct row *row_of(const char *format, const char *class, int k, const char *instruction)
{
    for (int f = 0; f < FORMATS; f++)
        for (int which = 0; which < TENSOR_CLASS_COUNT; which++)
            for (int l = 0; l < LENGTHS; l++)
                for (int i = 0; i < INSTRUCTIONS; i++)
                    if (strcmp(format, tensor_format_name(f)) == 0 && strcmp(class, tensor_class_name(which)) == 0 &&
                        k == lengths[l] && strcmp(instruction, instructions[i]) == 0)
                        return &rows[f][which][l][i];
    return NULL;
}

static void read_record(void)
{
    static bool done;
    char line[512];
    FILE *file = done ? NULL : fopen(RECORD, "r");
    if (done || !CHECK(file, "%s", RECORD))
        return;
    done = true;
    CHECK(fgets(line, sizeof line, file) && strstr(line, "\"device\": \"NVIDIA H200\""), "%s", line);
    while (fgets(line, sizeof line, file)) {
        char format[8], class[32], instruction[64];
        int k;
        long alone;
        struct row row, *to;
        const int read = sscanf(line,
                                "{\"format\": \"%7[^\"]\", \"class\": \"%31[^\"]\", \"k\": %d, \"instruction\": "
                                "\"%63[^\"]\", \"results\": %ld, \"differ\": %ld, "
                                "\"differ_in_nan_or_zero_sign\": %ld, \"digest\": \"%" SCNx64 "\"}",
                                format, class, &k, instruction, &row.results, &row.differ, &alone, &row.digest);
        if (!CHECK(read == 8, "%s", line) || !CHECK((to = row_of(format, class, k, instruction)), "%s", line))
            continue;
        CHECK(!to->results, "a second line of %s, %s, %d, %s", format, class, k, instruction);
        *to = row;
    }
    fclose(file);
}

TEST(record_has_each_set_and_instruction_and_no_difference)
{
    long total = 0;
    read_record();
    for (int f = 0; f < FORMATS; f++)
        for (int which = 0; which < RECORDED; which++)
            for (int l = 0; l < LENGTHS; l++)
                for (int i = 0; i < INSTRUCTIONS; i++) {
                    const struct row *row = &rows[f][which][l][i];
                    CHECK(row->results == (long)tensor_tiles(TILES, lengths[l]) * TENSOR_RESULTS && row->differ == 0,
                          "%s, %s, k=%d, %s: %ld results, %ld differ", tensor_format_name(f), tensor_class_name(which),
                          lengths[l], instructions[i], row->results, row->differ);
                    total += row->results;
                }
    CHECK(total == 45875200, "%ld results", total);
}

/* ---- the model ---- */

static const uint16_t *row_at(int tile, int row)
{
    return a + ((size_t)tile * TENSOR_ROWS + (size_t)row) * TENSOR_MOST_K;
}
static const uint16_t *column_at(int tile, int column)
{
    return b + ((size_t)tile * TENSOR_COLS + (size_t)column) * TENSOR_MOST_K;
}

static void compute_set(enum rp_tc_format format, struct rp_tc tc, int k)
{
    size_t at = 0;
    for (int tile = 0; tile < tensor_tiles(TILES, k); tile++)
        for (int i = 0; i < TENSOR_ROWS; i++)
            for (int j = 0; j < TENSOR_COLS; j++, at++)
                results[at] = rp_tc_chain(format, tc, row_at(tile, i), column_at(tile, j), c[at], k);
}

/* ---- errors ---- */

enum {
    NEAREST_TERMS = 1 << 0,       /* terms are rounded to nearest, ties to even */
    TERMS_DOWN = 1 << 1,          /* terms are rounded toward minus infinity, as a shift of two's complement does */
    NEAREST_SUM = 1 << 2,         /* the sum is rounded to nearest */
    SUM_DOWN = 1 << 3,            /* the sum is rounded toward minus infinity */
    ADDEND_LAST = 1 << 4,         /* the sum of products becomes fp32 before the addend is added */
    LEADING_BIT = 1 << 5,         /* the exponent of a term is that of its leading bit */
    ZERO_FACTOR = 1 << 6,         /* a product of zero has an exponent, zero having -126: the rule of MMA-Sim */
    ZERO_ADDEND = 1 << 7,         /* an addend of zero has the exponent -126 */
    FLUSH_FACTORS = 1 << 8,       /* subnormal factors are zero */
    FLUSH_ADDEND = 1 << 9,        /* a subnormal addend is zero */
    FLUSH_SUM = 1 << 10,          /* a subnormal sum is zero */
    SATURATE = 1 << 11,           /* overflow gives the largest float */
    NEGATIVE_UNDERFLOW = 1 << 12, /* a negative sum below the least float is -0 */
    NEGATIVE_ZEROS = 1 << 13,     /* the sum of negative zeros is -0 */
    OTHER_NAN = 1 << 14,          /* NaN is 0x7fc00000 */
    INFINITE_ZERO = 1 << 15,      /* infinity times zero is infinite */
    DESCENDING = 1 << 16,         /* the last block is added first */
};

/* Letters are the classes that show the error, in the order of TENSOR_CLASSES. The record has neither u (under_floor)
 * nor v (negative_zero). It leaves open: floors of -131 and below -133 (one of its hundreds of results below the floor
 * depends on it), the sign of a sum of negative zeros, and the ends of the range in fp16, whose products lie between
 * 2^-48 and 2^32. */
static const char letters[] = "enocasfzpyuv";
static const struct planted {
    const char *name;
    int k, of; /* compared with the instructions that add blocks of so many products */
    int tile;  /* of the set, which has the error: 0 unless only another one shows it */
    int products, bits, floor;
    unsigned errors;
    const char *fp16, *bf16;
} planted[] = {
    {"none",                        16, 16, 0, 16, 25, -133, 0, "............", "............"},
    {"none, a chain",               64, 16, 0, 16, 25, -133, 0, "............", "............"},
    {"none, blocks of 8",           16,  8, 0,  8, 25, -133, 0, "............", "............"},
    {"N - 1",                       16, 16, 0, 16, 24, -133, 0, ".nocasfzpy..", ".nocasfz.yu."},
    {"N + 1",                       16, 16, 0, 16, 26, -133, 0, ".nocasfzpy..", ".nocasfz.yu."},
    {"N - 1, blocks of 8",          16,  8, 0,  8, 24, -133, 0, ".nocasfzpy..", ".nocasfz.yu."},
    {"N + 1, blocks of 8",          16,  8, 0,  8, 26, -133, 0, ".nocasfzpy..", ".nocasfz.yu."},
    {"F / 2",                       16, 16, 0,  8, 25, -133, 0, ".nocasfzpy..", ".nocasfzpyu."},
    {"2 F",                         64, 16, 0, 32, 25, -133, 0, ".nocasfz.y..", ".nocasfz.yu."},
    {"F / 2, blocks of 8",          16,  8, 0,  4, 25, -133, 0, ".nocasfzpy..", ".nocasfzpyu."},
    {"2 F, blocks of 8",            16,  8, 0, 16, 25, -133, 0, ".nocasfzpy..", ".nocasfzpyu."},
    {"floor -126",                  16, 16, 0, 16, 25, -126, 0, "............", "......fz..u."},
    {"floor -126, blocks of 8",     16,  8, 0,  8, 25, -126, 0, "............", "......fz..u."},
    {"floor -131",                  16, 16, 0, 16, 25, -131, 0, "............", "..........u."},
    {"floor -132",                  16, 16, 0, 16, 25, -132, 0, "............", ".......z..u."},
    {"floor -134",                  16, 16, 0, 16, 25, -134, 0, "............", "..........u."},
    {"no floor",                    16, 16, 0, 16, 25, -1000, 0, "............", "..........u."},
    {"terms to nearest",            16, 16, 0, 16, 25, -133, NEAREST_TERMS, ".nocasfzpy..", ".nocasfz.yu."},
    {"terms down",                  16, 16, 0, 16, 25, -133, TERMS_DOWN, ".nocasfzpy..", ".nocasfz.yu."},
    {"sum to nearest",              16, 16, 0, 16, 25, -133, NEAREST_SUM, ".nocasfzpy..", ".nocasfz.yu."},
    {"sum down",                    16, 16, 0, 16, 25, -133, SUM_DOWN, ".nocasfzpy..", ".nocasfz.yu."},
    {"addend last",                 16, 16, 0, 16, 25, -133, ADDEND_LAST, ".nocasfz.y..", ".nocasfzpy.."},
    {"exponent of the leading bit", 16, 16, 0, 16, 25, -133, LEADING_BIT, ".n..asfz.y..", ".n..asfz.y.."},
    {"zero factor counts",          16, 16, 0, 16, 25, -133, ZERO_FACTOR, "..........u.", ".......z...."},
    {"zero addend counts",          16, 16, 0, 16, 25, -133, ZERO_ADDEND, "............", "......fz..u."},
    {"subnormal factor is zero",    16, 16, 0, 16, 25, -133, FLUSH_FACTORS, "..o..sfz.y..", ".....s......"},
    {"subnormal addend is zero",    16, 16, 0, 16, 25, -133, FLUSH_ADDEND, "..........u.", ".....sfz...."},
    {"subnormal sum is zero",       16, 16, 0, 16, 25, -133, FLUSH_SUM, "..........u.", ".....sfz..u."},
    {"overflow is finite",          16, 16, 0, 16, 25, -133, SATURATE, "............", ".......zpy.."},
    {"underflow keeps its sign",    16, 16, 9, 16, 25, -133, NEGATIVE_UNDERFLOW, "............", ".......z..u."},
    {"negative zeros keep theirs",  16, 16, 0, 16, 25, -133, NEGATIVE_ZEROS, "...........v", "...........v"},
    {"another NaN",                 16, 16, 0, 16, 25, -133, OTHER_NAN, "........p...", "........p..."},
    {"infinity times zero",         16, 16, 0, 16, 25, -133, INFINITE_ZERO, "........p...", "........p..."},
    {"last block first",            64, 16, 0, 16, 25, -133, DESCENDING, ".nocasfz.y..", ".nocasfz.yu."},
};
enum { PLANTED = sizeof planted / sizeof *planted };

struct term {
    int64_t size; /* times 2^unit */
    int unit, exponent;
};

/* x * 2^shift: toward zero, to nearest or down */
static int64_t shifted(int64_t x, int shift, bool nearest, bool down)
{
    if (shift >= 0)
        return x * ((int64_t)1 << shift);
    shift = shift < -62 ? 62 : -shift;
    const int64_t size = x < 0 ? -x : x, half = (int64_t)1 << (shift - 1), rest = size & (2 * half - 1);
    int64_t kept = size >> shift;
    if (nearest)
        kept += rest > half || (rest == half && kept & 1);
    if (down)
        kept += x < 0 && rest;
    return x < 0 ? -kept : kept;
}

static uint32_t float_of(int64_t sum, int unit, unsigned errors)
{
    const uint32_t sign = sum < 0 ? RP_TC_SIGN : 0;
    int exponent = sum ? 63 - __builtin_clzll((uint64_t)(sum < 0 ? -sum : sum)) + unit : 0;
    if (!sum)
        return 0;
    if (exponent < -126)
        exponent = -126;
    int64_t kept = shifted(sum, unit - exponent + 23, errors & NEAREST_SUM, errors & SUM_DOWN);
    kept = kept < 0 ? -kept : kept;
    if (kept >> 24) {
        kept >>= 1;
        exponent++;
    }
    if (!kept)
        return errors & NEGATIVE_UNDERFLOW ? sign : 0;
    if (exponent > 127)
        return sign | (errors & SATURATE ? RP_TC_INF - 1 : RP_TC_INF);
    if (!(kept >> 23))
        return errors & FLUSH_SUM ? 0 : sign | (uint32_t)kept;
    return sign | (uint32_t)(exponent + 127) << 23 | (uint32_t)(kept & 0x7fffff);
}

static uint32_t sum_terms(const struct planted *p, const struct term *terms, int n)
{
    int largest = p->floor;
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (terms[i].exponent > largest)
            largest = terms[i].exponent;
    for (int i = 0; i < n; i++)
        if (terms[i].size)
            sum += shifted(terms[i].size, terms[i].unit - largest + p->bits, p->errors & NEAREST_TERMS,
                           p->errors & TERMS_DOWN);
    return float_of(sum, largest - p->bits, p->errors);
}

static struct term addend_term(uint32_t x, unsigned errors)
{
    uint32_t size;
    struct term t;
    rp_tc_split(x, 23, 8, &size, &t.unit);
    t.exponent = t.unit + 23;
    if (errors & FLUSH_ADDEND && !(size >> 23))
        size = 0;
    if (errors & LEADING_BIT && size)
        t.exponent = t.unit + 31 - __builtin_clz(size);
    if (!size)
        t.exponent = errors & ZERO_ADDEND ? -126 : INT32_MIN;
    t.size = x >> 31 ? -(int64_t)size : (int64_t)size;
    return t;
}

static struct term product_term(enum rp_tc_format format, uint16_t x, uint16_t y, unsigned errors)
{
    const int fraction = format == RP_TC_FP16 ? 10 : 7, exponent = format == RP_TC_FP16 ? 5 : 8;
    uint32_t m, n;
    int em, en;
    struct term t;
    rp_tc_split(x, fraction, exponent, &m, &em);
    rp_tc_split(y, fraction, exponent, &n, &en);
    if (errors & FLUSH_FACTORS) {
        m = m >> fraction ? m : 0;
        n = n >> fraction ? n : 0;
    }
    t.size = (int64_t)m * n;
    t.unit = em + en;
    t.exponent = t.unit + 2 * fraction;
    if (errors & LEADING_BIT && t.size)
        t.exponent = t.unit + 63 - __builtin_clzll((uint64_t)t.size);
    if (!t.size)
        t.exponent = errors & ZERO_FACTOR ? (m ? em + fraction : -126) + (n ? en + fraction : -126) : INT32_MIN;
    if ((x ^ y) >> 15)
        t.size = -t.size;
    return t;
}

/* Whether a term is infinite or NaN; *sum: the result */
static bool special_sum(enum rp_tc_format format, const uint16_t *x, const uint16_t *y, uint32_t z, int n,
                        unsigned errors, uint32_t *sum)
{
    const uint16_t inf = format == RP_TC_FP16 ? 0x7c00 : 0x7f80;
    bool nan = (z & ~RP_TC_SIGN) > RP_TC_INF, plus = z == RP_TC_INF, minus = z == (RP_TC_SIGN | RP_TC_INF);
    for (int i = 0; i < n; i++) {
        const uint16_t s = x[i] & 0x7fff, t = y[i] & 0x7fff;
        if (s < inf && t < inf)
            continue;
        const bool bad = s > inf || t > inf || ((!s || !t) && !(errors & INFINITE_ZERO));
        const bool negative = (x[i] ^ y[i]) >> 15;
        nan |= bad;
        plus |= !bad && !negative;
        minus |= !bad && negative;
    }
    if (nan || (plus && minus))
        *sum = errors & OTHER_NAN ? 0x7fc00000 : RP_TC_NAN;
    else
        *sum = minus ? RP_TC_SIGN | RP_TC_INF : RP_TC_INF;
    return nan || plus || minus;
}

static uint32_t planted_block(enum rp_tc_format format, const struct planted *p, const uint16_t *x, const uint16_t *y,
                              uint32_t z)
{
    struct term terms[TENSOR_MOST_K + 1];
    const int n = p->products;
    uint32_t sum;
    bool negative = z == RP_TC_SIGN;
    if (special_sum(format, x, y, z, n, p->errors, &sum))
        return sum;
    for (int i = 0; i < n; i++) {
        terms[i] = product_term(format, x[i], y[i], p->errors);
        negative = negative && !terms[i].size && (x[i] ^ y[i]) >> 15;
    }
    if (negative && p->errors & NEGATIVE_ZEROS)
        return RP_TC_SIGN;
    terms[n] = addend_term(z, p->errors);
    if (!(p->errors & ADDEND_LAST))
        return sum_terms(p, terms, n + 1);
    struct term two[] = {addend_term(sum_terms(p, terms, n), 0), terms[n]};
    return sum_terms(p, two, 2);
}

static uint32_t planted_chain(enum rp_tc_format format, const struct planted *p, const uint16_t *x, const uint16_t *y,
                              uint32_t z)
{
    for (int i = 0; i < p->k; i += p->products) {
        const int at = p->errors & DESCENDING ? p->k - p->products - i : i;
        z = planted_block(format, p, x + at, y + at, z);
    }
    return z;
}

/* The digest of the results of a set, those of one tile having the error */
static uint64_t planted_digest(enum rp_tc_format format, const struct planted *p)
{
    static uint32_t kept[TENSOR_RESULTS];
    uint64_t digest;
    uint32_t *tile = results + (size_t)p->tile * TENSOR_RESULTS;
    const uint32_t *addend = c + (size_t)p->tile * TENSOR_RESULTS;
    size_t at = 0;
    memcpy(kept, tile, sizeof kept);
    for (int i = 0; i < TENSOR_ROWS; i++)
        for (int j = 0; j < TENSOR_COLS; j++, at++)
            tile[at] = planted_chain(format, p, row_at(p->tile, i), column_at(p->tile, j), addend[at]);
    digest = tensor_digest(results, (size_t)tensor_tiles(TILES, p->k) * TENSOR_RESULTS);
    memcpy(tile, kept, sizeof kept);
    return digest;
}

/* ---- all sets ---- */

static const struct rp_tc blocks[] = {RP_TC16, RP_TC16_K8};
enum { FORMS = sizeof blocks / sizeof *blocks };
static struct set {
    uint64_t digest[FORMS];
    bool shows[PLANTED];
} sets[FORMATS][TENSOR_CLASS_COUNT][LENGTHS];

/* Operands of a class and length by every form of the model, and by those with a planted error. */
static void compute_forms(int f, int which, int l)
{
    struct set *set = &sets[f][which][l];
    const int k = lengths[l], tiles = tensor_tiles(TILES, k);
    tensor_operands(f, which, k, tiles, a, b, c);
    for (int form = 0; form < FORMS; form++) {
        compute_set(f, blocks[form], k);
        set->digest[form] = tensor_digest(results, (size_t)tiles * TENSOR_RESULTS);
        const uint64_t expected = which < RECORDED ? rows[f][which][l][form].digest : set->digest[form];
        for (int p = 0; p < PLANTED; p++)
            if (planted[p].k == k && planted[p].of == blocks[form].products)
                set->shows[p] = planted_digest(f, &planted[p]) != expected;
    }
}

static void compute_all_sets(void)
{
    static bool done;
    read_record();
    for (int f = 0; !done && f < FORMATS; f++)
        for (int which = 0; which < TENSOR_CLASS_COUNT; which++)
            for (int l = 0; l < LENGTHS; l++)
                compute_forms(f, which, l);
    done = true;
}

TEST(model_gives_the_digests_of_every_instruction)
{
    compute_all_sets();
    for (int f = 0; f < FORMATS; f++)
        for (int which = 0; which < RECORDED; which++)
            for (int l = 0; l < LENGTHS; l++)
                for (int i = 0; i < INSTRUCTIONS; i++) {
                    const uint64_t digest = sets[f][which][l].digest[i == K8];
                    CHECK(rows[f][which][l][i].digest == digest, "%s, %s, k=%d, %s: %016" PRIx64, tensor_format_name(f),
                          tensor_class_name(which), lengths[l], instructions[i], digest);
                }
}

TEST(planted_errors_are_shown_by_the_classes_of_the_table)
{
    compute_all_sets();
    for (int p = 0; p < PLANTED; p++)
        for (int f = 0; f < FORMATS; f++) {
            char shown[sizeof letters] = "";
            for (int which = 0; which < TENSOR_CLASS_COUNT; which++)
                shown[which] = sets[f][which][planted[p].k == lengths[1]].shows[p] ? letters[which] : '.';
            CHECK(strcmp(shown, f == RP_TC_FP16 ? planted[p].fp16 : planted[p].bf16) == 0, "%s, %s: %s",
                  planted[p].name, tensor_format_name(f), shown);
        }
}

/* tests/shim/matrix.h sums blocks in a way of its own, which is faster. */
TEST(the_emulated_gpu_has_the_sums_of_the_model)
{
    static const struct rp_tc tcs[] = {RP_TC4, RP_TC8, RP_TC16_K8, RP_TC16};
    const int k = lengths[0];
    for (int f = 0; f < FORMATS; f++)
        for (int which = 0; which < TENSOR_CLASS_COUNT; which++) {
            tensor_operands(f, which, k, 1, a, b, c);
            for (size_t t = 0; t < sizeof tcs / sizeof *tcs; t++) {
                const struct shim_product p = {.format = (enum rp_tc_format)f, .tc = tcs[t]};
                int differ = 0;
                for (int at = 0; at < TENSOR_RESULTS; at++) {
                    const uint16_t *x = row_at(0, at / TENSOR_COLS), *y = column_at(0, at % TENSOR_COLS);
                    struct shim_line row, column;
                    shim_take_apart(&row, x, k, p.format);
                    shim_take_apart(&column, y, k, p.format);
                    const uint32_t expected = rp_tc_chain(p.format, p.tc, x, y, c[at], k);
                    differ += shim_chain(&p, &row, &column, x, y, c[at], k) != expected;
                }
                CHECK(differ == 0, "%s, %s, blocks of %d: %d sums differ", tensor_format_name(f),
                      tensor_class_name(which), p.tc.products, differ);
            }
        }
}

/* ---- the probes of GPUs before a run ---- */

static struct rp_tc_probe probe;

/* Sums that differ with other constants. */
static int probes_that_show(enum rp_numerics n, enum rp_tc_probe_kind kind, struct rp_tc other)
{
    int shown = 0;
    rp_tc_probe_fill(&probe, n, kind);
    for (int i = 0; i < probe.rows * probe.rows; i++) {
        const uint16_t *x = probe.a + i / probe.rows * probe.steps, *y = probe.b + i % probe.rows * probe.steps;
        shown +=
            !rp_tc_probe_equal(probe.sum[i], rp_tc_chain(rp_arithmetic_of(n)->format, other, x, y, 0, probe.steps));
    }
    return shown;
}

TEST(probes_have_the_digests_that_bundles_have_of_each_contract)
{
    static const struct {
        enum rp_numerics numerics;
        const char *digest;
    } known[] = {
        {RP_NUMERICS_fp16_tc4_0, "5a29fde8303b55fb31af2254020297d87e7d8872eb0484b59fb656be2c6b2461"},
        {RP_NUMERICS_fp16_tc8_0, "a9dabd89e1ec483b0011383af0155499a2c1b673912979ca2bf60a7ebd588708"},
        {RP_NUMERICS_fp16_tc16_0, "2519ee243b66f8d0209fa6eb5c2df9f690c50ea21c567c176dcafd739a495061"},
        {RP_NUMERICS_bf16_tc8_0, "da8249b9471cf4e336fd9bd22d34c17a12ffc1737e9b40531ad191bcc3fe85b7"},
        {RP_NUMERICS_bf16_tc16_0, "4bada579feada68b2197e9de223f5cc7f40f9604a5e60e9af9467af4e8381743"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char hex[RP_SHA256_HEX];
        rp_tc_probe_digest(hex, known[i].numerics);
        CHECK(strcmp(hex, known[i].digest) == 0, "%s: %s", rp_numerics_name(known[i].numerics), hex);
    }
}

/* Operands as other hardware takes them: subnormal numbers as zeros, or the blocks of 16 k-steps from the last on. */
static void take_otherwise(uint16_t *out, const uint16_t *x, int flushed, const struct rp_arithmetic *is)
{
    const int of = is->tc.products, exponent = is->format == RP_TC_FP16 ? 0x7c00 : 0x7f80;
    for (int k = 0; k < probe.steps; k++)
        out[k] = !flushed          ? x[k / 16 * 16 + (16 - of) - k % 16 / of * of + k % of]
                 : x[k] & exponent ? x[k]
                                   : x[k] & 0x8000;
}

TEST(probes_show_flushed_operands_and_another_order)
{
    for (int n = RP_NUMERICS_fp32_1 + 1; n < RP_NUMERICS_COUNT; n++)
        for (int flushed = 0; flushed < 2; flushed++) {
            const struct rp_arithmetic *is = rp_arithmetic_of((enum rp_numerics)n);
            const int is_edge = flushed && is->format == RP_TC_BF16;
            int shown = 0;
            rp_tc_probe_fill(&probe, (enum rp_numerics)n, is_edge ? RP_PROBE_EDGES : RP_PROBE_SUMS);
            for (int i = 0; i < probe.rows * probe.rows; i++) {
                uint16_t row[RP_PROBE_STEPS], column[RP_PROBE_STEPS];
                take_otherwise(row, probe.a + i / probe.rows * probe.steps, flushed, is);
                take_otherwise(column, probe.b + i % probe.rows * probe.steps, flushed, is);
                shown += !rp_tc_probe_equal(probe.sum[i], rp_tc_chain(is->format, is->tc, row, column, 0, probe.steps));
            }
            CHECK(is->tc.products == 16 && !flushed ? shown == 0 : shown > 100, "%s, %s: %d",
                  rp_numerics_name((enum rp_numerics)n), flushed ? "flushed" : "another order", shown);
        }
}

TEST(probes_show_other_tensor_cores)
{
    for (int n = RP_NUMERICS_fp32_1 + 1; n < RP_NUMERICS_COUNT; n++) {
        const struct rp_tc own = rp_arithmetic_of((enum rp_numerics)n)->tc;
        const int is_bf16 = rp_arithmetic_of((enum rp_numerics)n)->format == RP_TC_BF16;
        const struct rp_tc others[] = {{own.products, own.bits + 1, own.floor}, {own.products, own.bits - 1, own.floor},
                                       {own.products / 2, own.bits, own.floor}};
        const struct rp_tc floors[] = {{own.products, own.bits, own.floor + 1},
                                       {own.products, own.bits, own.floor - 1}};
        CHECK(probes_that_show((enum rp_numerics)n, RP_PROBE_SUMS, own) == 0, "its own");
        for (int i = 0; i < 3; i++) {
            const int shown = probes_that_show((enum rp_numerics)n, RP_PROBE_SUMS, others[i]);
            CHECK(shown > 100, "%s, other %d: %d", rp_numerics_name((enum rp_numerics)n), i, shown);
        }
        for (int i = 0; i < 2; i++) { /* sums in the range of training do not depend on it */
            const int shown = probes_that_show((enum rp_numerics)n, RP_PROBE_EDGES, floors[i]);
            CHECK(is_bf16 ? shown > 0 : shown == 0, "%s, floor %d: %d", rp_numerics_name((enum rp_numerics)n), i,
                  shown);
            CHECK(probes_that_show((enum rp_numerics)n, RP_PROBE_SUMS, floors[i]) == 0, "%s, floor %d",
                  rp_numerics_name((enum rp_numerics)n), i);
        }
    }
}
