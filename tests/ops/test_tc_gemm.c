/* Products as a tensor core sums them, by every instruction set of this CPU: against src/ops/tensor_core.h bit for
 * bit, against the results of an H200 (its record has digests, as in test_tensor_core.c) and against those of other
 * GPUs (results/published/tensor_core). */
#include "backend/cpu/tc_recorded.h"
#include "tests/gpu/tensor_operands.h"
#include "tests/ops/device.h"

#include <stdlib.h>

enum { KERNELS = 5, THREADS_MOST = 7 };

static const struct {
    const char *name;
    enum rp_tc_format format;
    struct rp_tc tc;
} contracts[] = {
    {"fp16-tc4", RP_TC_FP16, RP_TC4},   {"fp16-tc8", RP_TC_FP16, RP_TC8},   {"bf16-tc8", RP_TC_BF16, RP_TC8},
    {"fp16-tc16", RP_TC_FP16, RP_TC16}, {"bf16-tc16", RP_TC_BF16, RP_TC16},
};
enum { CONTRACTS = sizeof contracts / sizeof *contracts };

/* ---- the kernels ---- */

static const char *const kernel_names[KERNELS] = {"scalar", "avx2", "avx512", "avx512 with popcount", "neon"};

/* 0 if this CPU does not have it. */
static int find_kernel(int which, const struct rp_tc_kernel **kernel)
{
    static const enum rp_isa isas[KERNELS] = {RP_ISA_scalar, RP_ISA_avx2, RP_ISA_avx512, RP_ISA_avx512, RP_ISA_neon};
    *kernel = NULL;
    if (!rp_isa_usable(isas[which]))
        return 0;
    *kernel = rp_tc_kernel(isas[which], which == 3);
    return which != 3 || *kernel != rp_tc_kernel(isas[which], 0);
}

static struct rp_tc_paths multiply(const struct rp_tc_kernel *kernel, int threads, const struct rp_tc_gemm *g)
{
    static struct rp_pool *pools[THREADS_MOST + 1];
    struct rp_err err = {0};
    struct rp_tc_paths paths = {0};
    if (!pools[threads])
        pools[threads] = rp_pool_new(threads, &err);
    CHECK(pools[threads], "%s", err.msg);
    void *scratch = aligned_alloc(64, rp_tc_scratch(kernel) * (size_t)threads + 64);
    rp_tc_gemm_run(kernel, pools[threads], threads, scratch, g, &paths);
    free(scratch);
    return paths;
}

static void define(const struct rp_tc_gemm *g)
{
    const long whole = (g->k + 15) / 16 * 16;
    uint16_t *a = calloc((size_t)whole + 16, sizeof *a), *b = calloc((size_t)whole + 16, sizeof *b);
    for (long i = 0; i < g->m; i++)
        for (long j = 0; j < g->n; j++) {
            uint32_t c = 0;
            for (long k = 0; k < g->k; k++) {
                a[k] = g->ta ? g->a[k * g->lda + i] : g->a[i * g->lda + k];
                b[k] = g->tb ? g->b[j * g->ldb + k] : g->b[k * g->ldb + j];
            }
            if (g->continues)
                memcpy(&c, g->c + i * g->ldc + j, sizeof c);
            c = rp_tc_chain(g->format, g->tc, a, b, c, (int)whole);
            memcpy(g->c + i * g->ldc + j, &c, sizeof c);
        }
    free(a);
    free(b);
}

/* ---- operands ---- */

static struct tensor_draws draws = {.state = 7};

/* INFINITE: few infinities and zeros among positive numbers, so that infinite, finite and NaN sums are neighbours. */
enum kind { NORMAL, SMALL, WIDE, ZEROS, ANY, LARGE, TINY, INFINITE, KINDS };
static const char *const kind_names[KINDS] = {"normal",   "small", "wide", "zeros",
                                              "any bits", "large", "tiny", "infinite"};

static uint16_t draw(enum rp_tc_format format, enum kind kind)
{
    const int fraction = format == RP_TC_FP16 ? 10 : 7, exponent_bits = format == RP_TC_FP16 ? 5 : 8;
    const int most = format == RP_TC_FP16 ? 15 : 127;
    const uint32_t f = (uint32_t)tensor_next(&draws);
    const int sign = tensor_below(&draws, 2);
    int exponent = tensor_from(&draws, -9, 2);
    if (kind == ANY)
        return (uint16_t)tensor_next(&draws);
    if (kind == SMALL)
        exponent = tensor_from(&draws, -14, -8);
    else if (kind == WIDE)
        exponent = tensor_from(&draws, -most, most / 3);
    else if (kind == LARGE)
        exponent = tensor_from(&draws, most - 8, most);
    else if (kind == TINY)
        exponent = tensor_from(&draws, -most - 9, -most / 2 + 4);
    else if (kind == ZEROS && tensor_below(&draws, 3))
        return (uint16_t)(sign << 15);
    else if (kind == INFINITE) {
        const int which = tensor_below(&draws, 200);
        if (which < 4)
            return which == 0 ? (uint16_t)(sign << 15) : (uint16_t)((which == 1) << 15 | (2 * most + 1) << fraction);
        return (uint16_t)tensor_pack(0, exponent, f, fraction, exponent_bits);
    }
    return (uint16_t)tensor_pack(sign, exponent, f, fraction, exponent_bits);
}

static uint32_t draw_addend(enum kind kind)
{
    if (kind == ANY)
        return (uint32_t)tensor_next(&draws);
    if (kind == ZEROS && tensor_below(&draws, 2))
        return tensor_below(&draws, 2) ? RP_TC_SIGN : 0;
    if (kind == INFINITE && tensor_below(&draws, 8) == 0) {
        const uint32_t few[] = {RP_TC_INF, RP_TC_SIGN | RP_TC_INF, RP_TC_NAN, RP_TC_SIGN | RP_TC_NAN, RP_TC_INF + 1};
        return few[tensor_below(&draws, 5)];
    }
    const int exponent = kind == TINY    ? tensor_from(&draws, -160, -100)
                         : kind == LARGE ? tensor_from(&draws, 100, 127)
                                         : tensor_from(&draws, -20, 4);
    const int sign = tensor_below(&draws, 2);
    return tensor_pack(sign, exponent, (uint32_t)tensor_next(&draws), 23, 8);
}

struct shape {
    int m, n, k, ta, tb, continues, slack;
};

struct product {
    struct rp_tc_gemm g;
    uint16_t *a, *b;
    float *before, *expected, *c;
    size_t bytes; /* of c, with eight numbers behind it */
};

static struct product product_new(enum rp_tc_format format, struct rp_tc tc, const struct shape *s, enum kind kind)
{
    struct product p = {.g = {.format = format,
                              .tc = tc,
                              .ta = s->ta,
                              .tb = s->tb,
                              .m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .continues = s->continues}};
    p.g.lda = (s->ta ? s->m : s->k) + s->slack;
    p.g.ldb = (s->tb ? s->k : s->n) + 2 * s->slack;
    p.g.ldc = s->n + 3 * s->slack;
    const size_t as = (size_t)(s->ta ? s->k : s->m) * (size_t)p.g.lda,
                 bs = (size_t)(s->tb ? s->n : s->k) * (size_t)p.g.ldb;
    const size_t cs = (size_t)s->m * (size_t)p.g.ldc + 8;
    p.bytes = cs * sizeof(float);
    p.a = malloc(as * sizeof *p.a);
    p.b = malloc(bs * sizeof *p.b);
    p.before = malloc(p.bytes);
    p.expected = malloc(p.bytes);
    p.c = malloc(p.bytes);
    for (size_t i = 0; i < as; i++)
        p.a[i] = draw(format, kind);
    for (size_t i = 0; i < bs; i++)
        p.b[i] = draw(format, kind);
    for (size_t i = 0; i < cs; i++) {
        const uint32_t x = draw_addend(kind);
        memcpy(p.before + i, &x, sizeof x);
    }
    p.g.a = p.a;
    p.g.b = p.b;
    return p;
}

static void product_fini(struct product *p)
{
    free(p->a);
    free(p->b);
    free(p->before);
    free(p->expected);
    free(p->c);
}

static void product_define(struct product *p, struct rp_tc tc)
{
    struct rp_tc_gemm g = p->g;
    memcpy(p->expected, p->before, p->bytes);
    g.c = p->expected;
    g.tc = tc;
    define(&g);
}

/* One product by every kernel and 1, 2 and 7 threads. Bytes outside the matrix must not change. */
static void compare(int contract, const struct shape *s, enum kind kind)
{
    struct product p = product_new(contracts[contract].format, contracts[contract].tc, s, kind);
    product_define(&p, p.g.tc);
    p.g.c = p.c;
    for (int which = 0; which < KERNELS; which++) {
        const struct rp_tc_kernel *kernel;
        static const int threads[] = {1, 2, THREADS_MOST};
        for (int t = 0; find_kernel(which, &kernel) && t < 3; t++) {
            memcpy(p.c, p.before, p.bytes);
            multiply(kernel, threads[t], &p.g);
            CHECK(!memcmp(p.c, p.expected, p.bytes),
                  "%s, %s: %dx%dx%d ta %d tb %d continues %d slack %d: %s, %d threads", contracts[contract].name,
                  kind_names[kind], s->m, s->n, s->k, s->ta, s->tb, s->continues, s->slack, kernel_names[which],
                  threads[t]);
        }
    }
    product_fini(&p);
}

TEST(every_contract_transpose_and_kind_of_operands)
{
    for (int contract = 0; contract < CONTRACTS; contract++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int form = 0; form < 8; form++)
                compare(contract, &(struct shape){13, 37, 83, form & 1, form >> 1 & 1, form >> 2, 3}, (enum kind)kind);
}

TEST(sizes_around_tiles_and_blocks)
{
    static const int sizes[][3] = {{1, 1, 1},     {2, 16, 16},  {4, 32, 16},  {5, 33, 17},  {95, 31, 15},
                                   {97, 65, 255}, {3, 769, 5},  {4, 32, 256}, {4, 32, 257}, {100, 40, 512},
                                   {1, 40, 1030}, {200, 1, 64}, {4, 64, 63},  {4, 64, 65},  {193, 48, 33},
                                   {2, 1600, 16}, {16, 20, 271}};
    for (int contract = 0; contract < CONTRACTS; contract++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            compare(contract,
                    &(struct shape){sizes[i][0], sizes[i][1], sizes[i][2], (int)i & 1, (int)i >> 1 & 1, i % 3 == 0,
                                    (int)i % 4},
                    (enum kind)(i % KINDS));
}

TEST(nothing_to_add)
{
    for (int continues = 0; continues < 2; continues++)
        for (int which = 0; which < KERNELS; which++) {
            const struct rp_tc_kernel *kernel;
            float c[6] = {1, 2, 3, 4, 5, 6};
            const struct rp_tc_gemm g = {
                .format = RP_TC_BF16, .tc = RP_TC16, .m = 2, .n = 2, .c = c, .ldc = 3, .continues = continues};
            if (!find_kernel(which, &kernel))
                continue;
            multiply(kernel, 2, &g);
            CHECK(c[0] == (float)continues && c[1] == 2.0f * (float)continues && c[2] == 3 &&
                      c[4] == 5.0f * (float)continues && c[5] == 6,
                  "%s", kernel_names[which]);
        }
}

/* ---- infinities, NaN, overflow ---- */

/* Sixteen bits of either format. */
enum special { ZERO, ONE, BIG, MOST, INF, QNAN, SNAN, MINUS = 8 }; /* BIG: 2^15 or 2^110 */

static uint16_t special_of(enum rp_tc_format format, int x)
{
    const uint32_t fraction = format == RP_TC_FP16 ? 10 : 7, infinite = format == RP_TC_FP16 ? 0x7c00 : 0x7f80;
    const uint32_t one = format == RP_TC_FP16 ? 0x3c00 : 0x3f80, big = format == RP_TC_FP16 ? 0x7800 : 0x7680;
    const uint32_t bits[] = {0, one, big, infinite - 1, infinite, infinite | 1u << (fraction - 1), infinite | 1};
    return (uint16_t)(bits[x % MINUS] | (x & MINUS ? 0x8000u : 0));
}

#define MINUS_INFINITE (RP_TC_SIGN | RP_TC_INF)
#define AS_DEFINED 1 /* whatever the definition has */

/* Two products of one element, and its addend. */
static const struct plant {
    const char *name;
    struct {
        int a, b;
    } product[2];
    uint32_t addend, result; /* as it has to be */
    int bf16;                /* of bf16 alone: no sum of fp16 products overflows */
} plants[] = {
    {"infinity in A", {{INF, ONE}, {ONE, ONE}}, 0, RP_TC_INF, 0},
    {"infinity in B", {{ONE, ONE}, {ONE, INF}}, 0, RP_TC_INF, 0},
    {"negative infinity in A", {{MINUS | INF, ONE}, {ONE, MINUS | ONE}}, 0, MINUS_INFINITE, 0},
    {"negative infinity in B", {{MOST, MINUS | INF}, {ONE, ONE}}, 0, MINUS_INFINITE, 0},
    {"infinity by a negative number", {{ONE, ONE}, {MINUS | MOST, INF}}, 0, MINUS_INFINITE, 0},
    {"infinity by infinity", {{INF, MINUS | INF}, {MINUS | INF, INF}}, 0, MINUS_INFINITE, 0},
    {"infinities of both signs", {{INF, ONE}, {INF, MINUS | ONE}}, 0, RP_TC_NAN, 0},
    {"infinities of both signs in A and B", {{ONE, INF}, {MINUS | INF, MOST}}, 0, RP_TC_NAN, 0},
    {"infinity by zero", {{INF, ZERO}, {ONE, ONE}}, 0, RP_TC_NAN, 0},
    {"zero by infinity", {{ONE, ONE}, {ZERO, INF}}, 0, RP_TC_NAN, 0},
    {"negative infinity by zero", {{ONE, ONE}, {MINUS | INF, ZERO}}, 0, RP_TC_NAN, 0},
    {"negative zero by infinity", {{MINUS | ZERO, INF}, {ONE, ONE}}, 0, RP_TC_NAN, 0},
    {"infinity, and infinity by zero", {{INF, ONE}, {INF, ZERO}}, RP_TC_INF, RP_TC_NAN, 0},
    {"infinity, and zero by zero", {{INF, ONE}, {ZERO, MINUS | ZERO}}, 0, RP_TC_INF, 0},
    {"NaN in A", {{QNAN, ONE}, {ONE, ONE}}, 0, RP_TC_NAN, 0},
    {"negative NaN in B", {{ONE, ONE}, {ONE, MINUS | QNAN}}, 0, RP_TC_NAN, 0},
    {"signalling NaN in A", {{MINUS | SNAN, ONE}, {ONE, ONE}}, 0, RP_TC_NAN, 0},
    {"signalling NaN in B", {{MOST, SNAN}, {INF, ONE}}, RP_TC_INF, RP_TC_NAN, 0},
    {"NaN by zero", {{ONE, ONE}, {QNAN, ZERO}}, 0, RP_TC_NAN, 0},
    {"infinite addend", {{ONE, ONE}, {MINUS | MOST, MOST}}, RP_TC_INF, RP_TC_INF, 0},
    {"negative infinite addend", {{MOST, MOST}, {ONE, ONE}}, MINUS_INFINITE, MINUS_INFINITE, 0},
    {"infinite addend and infinity", {{ONE, ONE}, {INF, ONE}}, RP_TC_INF, RP_TC_INF, 0},
    {"infinite addend and the other infinity", {{ONE, ONE}, {MINUS | INF, ONE}}, RP_TC_INF, RP_TC_NAN, 0},
    {"infinite addend and infinity by zero", {{ONE, ONE}, {INF, ZERO}}, MINUS_INFINITE, RP_TC_NAN, 0},
    {"NaN addend", {{ONE, ONE}, {INF, ONE}}, RP_TC_SIGN | RP_TC_INF | 0x400001, RP_TC_NAN, 0},
    {"signalling NaN addend", {{ONE, ONE}, {ZERO, ZERO}}, RP_TC_INF | 1, RP_TC_NAN, 0},
    {"largest numbers", {{MOST, MOST}, {MINUS | MOST, MOST}}, 0x3f800000, AS_DEFINED, 0},
    {"largest addend", {{ONE, ONE}, {ONE, ONE}}, RP_TC_INF - 1, RP_TC_INF - 1, 0},
    {"overflow", {{MOST, MOST}, {ONE, ONE}}, 0, RP_TC_INF, 1},
    {"negative overflow", {{ONE, ONE}, {MINUS | MOST, MOST}}, 0, MINUS_INFINITE, 1},
    {"overflow with the largest addend", {{ONE, ONE}, {ONE, MOST}}, RP_TC_INF - 1, RP_TC_INF, 1},
    {"overflow of the largest addend by less", {{ONE, ONE}, {MINUS | BIG, ONE}}, MINUS_INFINITE - 1, MINUS_INFINITE, 1},
    {"overflow and negative infinity", {{MOST, MOST}, {MINUS | INF, ONE}}, 0, AS_DEFINED, 1},
    {"overflow and infinity", {{INF, ONE}, {MOST, MOST}}, 0, RP_TC_INF, 1},
    {"overflow and infinity by zero", {{MOST, MOST}, {ZERO, MINUS | INF}}, 0, RP_TC_NAN, 1},
    {"infinity and negative overflow", {{INF, MOST}, {MINUS | MOST, MOST}}, 0, AS_DEFINED, 1},
    {"overflows of both signs", {{MOST, MOST}, {MINUS | MOST, MOST}}, 0, AS_DEFINED, 1},
};

/* The plant at element (i, j), k-steps at[0] and at[1]. The other operands are small and not zero. */
static void compare_planted(int contract, const struct plant *plant, int i, int j, const int at[2], int k, int form)
{
    const enum rp_tc_format format = contracts[contract].format;
    struct product p =
        product_new(format, contracts[contract].tc, &(struct shape){9, 37, k, form & 1, form >> 1 & 1, 1, 3}, SMALL);
    float *const c = p.before + i * p.g.ldc + j;
    memcpy(c, &plant->addend, sizeof plant->addend);
    for (int s = 0; s < 2; s++) {
        p.a[p.g.ta ? at[s] * p.g.lda + i : i * p.g.lda + at[s]] = special_of(format, plant->product[s].a);
        p.b[p.g.tb ? j * p.g.ldb + at[s] : at[s] * p.g.ldb + j] = special_of(format, plant->product[s].b);
    }
    product_define(&p, p.g.tc);
    p.g.c = p.c;
    uint32_t is;
    memcpy(&is, p.expected + i * p.g.ldc + j, sizeof is);
    CHECK(plant->result == AS_DEFINED || is == plant->result, "%s: %s: the definition has 0x%08x",
          contracts[contract].name, plant->name, is);
    for (int which = 0; which < KERNELS; which++) {
        const struct rp_tc_kernel *kernel;
        if (!find_kernel(which, &kernel) || (which == 0 && form))
            continue;
        memcpy(p.c, p.before, p.bytes);
        multiply(kernel, 1, &p.g);
        memcpy(&is, p.c + i * p.g.ldc + j, sizeof is);
        CHECK(!memcmp(p.c, p.expected, p.bytes), "%s: %s at (%d, %d), k %d and %d of %d, form %d: %s: 0x%08x",
              contracts[contract].name, plant->name, i, j, at[0], at[1], k, form, kernel_names[which], is);
    }
    product_fini(&p);
}

/* At the first, a middle and the last k-step, in one block, in two and in two k-blocks; at edges of tiles. */
TEST(planted_infinities_nan_and_overflow)
{
    static const int places[][2] = {{0, 0}, {1, 15}, {3, 16}, {4, 31}, {8, 32}, {8, 36}, {2, 7}, {7, 8}};
    static const struct {
        int k, at[2];
    } steps[] = {{83, {0, 82}}, {83, {82, 0}}, {83, {40, 41}}, {300, {0, 299}}, {300, {299, 255}}, {300, {255, 256}}};
    enum { PLACES = sizeof places / sizeof *places, STEPS = sizeof steps / sizeof *steps };
    for (int contract = 0; contract < CONTRACTS; contract++)
        for (size_t x = 0; x < sizeof plants / sizeof *plants; x++)
            for (int n = 0; n < 2 * STEPS && (!plants[x].bf16 || contracts[contract].format == RP_TC_BF16); n++) {
                const int *place = places[(n + (int)x) % PLACES];
                compare_planted(contract, &plants[x], place[0], place[1], steps[n % STEPS].at, steps[n % STEPS].k,
                                (n + (int)x / 2) % 4);
            }
}

/* As after an overflow has spread. */
TEST(nothing_but_infinities_and_nan)
{
    static const int few[][2] = {{QNAN, QNAN},        {INF, INF}, {INF, MINUS | INF},  {SNAN, ZERO},      {INF, ZERO},
                                 {ZERO, MINUS | INF}, {INF, ONE}, {MINUS | QNAN, ONE}, {ONE, MINUS | INF}};
    for (int contract = 0; contract < CONTRACTS; contract++)
        for (size_t x = 0; x < sizeof few / sizeof *few; x++) {
            const struct shape s = {13, 37, 270, (int)x & 1, (int)x >> 1 & 1, x % 3 == 0, 0};
            struct product p = product_new(contracts[contract].format, contracts[contract].tc, &s, NORMAL);
            for (int i = 0; i < s.m * s.k; i++)
                p.a[i] = special_of(p.g.format, few[x][0]);
            for (int i = 0; i < s.n * s.k; i++)
                p.b[i] = special_of(p.g.format, few[x][1]);
            product_define(&p, p.g.tc);
            p.g.c = p.c;
            for (int which = 1; which < KERNELS; which++) {
                const struct rp_tc_kernel *kernel;
                if (!find_kernel(which, &kernel))
                    continue;
                memcpy(p.c, p.before, p.bytes);
                multiply(kernel, 2, &p.g);
                CHECK(!memcmp(p.c, p.expected, p.bytes), "%s, %s, %zu", contracts[contract].name, kernel_names[which],
                      x);
            }
            product_fini(&p);
        }
}

/* ---- results of GPUs ---- */

/* Sums of as many products, recorded on so many GPUs; of the others none fits. */
TEST(results_recorded_on_gpus)
{
    static const struct {
        enum rp_tc_format format;
        struct rp_tc tc;
        int gpus;
    } rows[] = {{RP_TC_FP16, RP_TC4, 1},  {RP_TC_BF16, RP_TC4, 0},  {RP_TC_FP16, RP_TC8, 4},
                {RP_TC_BF16, RP_TC8, 4}, {RP_TC_FP16, RP_TC16, 3}, {RP_TC_BF16, RP_TC16, 3}};
    for (int isa = 0; isa < RP_ISA_COUNT; isa++)
        for (size_t i = 0; rp_isa_usable((enum rp_isa)isa) && i < sizeof rows / sizeof *rows; i++) {
            struct rp_err err = {0};
            struct rp_tc other = rows[i].tc;
            struct rp_tc_recorded is = rp_tc_compare_recorded((enum rp_isa)isa, rows[i].format, rows[i].tc, &err);
            CHECK(is.gpus == rows[i].gpus && is.cases == 2 * RP_TC_RECORDED_LINES * is.gpus && is.failed == 0,
                  "%s, row %zu: %d of %d: %s", rp_isa_name((enum rp_isa)isa), i, is.failed, is.cases, err.msg);
            other.bits--;
            is = rp_tc_compare_recorded((enum rp_isa)isa, rows[i].format, other, &err);
            CHECK(!is.gpus || (is.failed > is.cases / 20 && err.code == RP_MISMATCH && strstr(err.msg, "line ")),
                  "a bit less: %d of %d differ: %s", is.failed, is.cases, err.msg);
        }
}

/* Operands that test_tensor_core.c compares with an H200: exponents at their ends, cancellation, subnormal numbers,
 * zeros times large ones. */
TEST(operands_of_the_probe)
{
    static uint16_t a[TENSOR_ROWS * TENSOR_MOST_K], b[TENSOR_COLS * TENSOR_MOST_K];
    static uint32_t addend[TENSOR_RESULTS], expected[TENSOR_RESULTS], c[TENSOR_RESULTS];
    for (int contract = 0; contract < CONTRACTS; contract++)
        for (int class = 0; class < TENSOR_CLASS_COUNT; class ++)
            for (int k = 16; k <= 64; k += 48) {
                struct rp_tc_gemm g = {.format = contracts[contract].format,
                                       .tc = contracts[contract].tc,
                                       .tb = 1,
                                       .m = TENSOR_ROWS / 4,
                                       .n = TENSOR_COLS,
                                       .k = k,
                                       .a = a,
                                       .lda = TENSOR_MOST_K,
                                       .b = b,
                                       .ldb = TENSOR_MOST_K,
                                       .ldc = TENSOR_COLS,
                                       .continues = 1};
                tensor_operands(g.format, class, k, 1, a, b, addend);
                memcpy(expected, addend, sizeof addend);
                g.c = (float *)expected;
                define(&g);
                g.c = (float *)c;
                for (int which = 1; which < KERNELS; which++) {
                    const struct rp_tc_kernel *kernel;
                    if (!find_kernel(which, &kernel))
                        continue;
                    memcpy(c, addend, sizeof c);
                    multiply(kernel, 2, &g);
                    CHECK(!memcmp(c, expected, sizeof c), "%s, %s, k=%d: %s", contracts[contract].name,
                          tensor_class_name(class), k, kernel_names[which]);
                }
            }
}

/* ---- the tests can fail ---- */

/* A block that is wrong in one constant is another product. */
TEST(other_constants_are_other_bits)
{
    static const struct {
        const char *name;
        int products, bits;
    } wrong[] = {{"N - 1", 0, -1}, {"N + 1", 0, 1}, {"F / 2", -1, 0}};
    for (int contract = 0; contract < CONTRACTS; contract++)
        for (int w = 0; w < 3; w++) {
            struct product p = product_new(contracts[contract].format, contracts[contract].tc,
                                           &(struct shape){.m = 16, .n = 32, .k = 64}, NORMAL);
            struct rp_tc tc = p.g.tc;
            tc.products = wrong[w].products ? tc.products / 2 : tc.products;
            tc.bits += wrong[w].bits;
            product_define(&p, tc);
            p.g.c = p.c;
            for (int which = 0; which < KERNELS; which++) {
                const struct rp_tc_kernel *kernel;
                int differ = 0;
                if (!find_kernel(which, &kernel))
                    continue;
                memcpy(p.c, p.before, p.bytes);
                multiply(kernel, 1, &p.g);
                for (int i = 0; i < 16 * 32; i++)
                    differ += memcmp(p.c + i, p.expected + i, sizeof *p.c) != 0;
                CHECK(differ > 16, "%s, %s: %s: %d of 512 differ", contracts[contract].name, wrong[w].name,
                      kernel_names[which], differ);
            }
            product_fini(&p);
        }
}

/* ---- paths ---- */

TEST(paths_are_those_of_the_operands)
{
    static const struct {
        enum kind kind;
        int fast, general, invalid; /* whether there are tiles of this path, in bf16; -1: either */
    } rows[] = {{NORMAL, 1, 0, 0}, {SMALL, 1, 0, 0}, {ZEROS, 1, 0, 0},   {TINY, 0, 1, 0},
                {ANY, 0, 1, -1},   {LARGE, 0, 1, 0}, {INFINITE, 0, 1, 1}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int which = 1; which < KERNELS; which++) {
            const struct rp_tc_kernel *kernel;
            struct product p = product_new(RP_TC_BF16, (struct rp_tc)RP_TC16,
                                           &(struct shape){.m = 40, .n = 64, .k = 300}, rows[r].kind);
            p.g.c = p.c;
            if (find_kernel(which, &kernel)) {
                const struct rp_tc_paths paths = multiply(kernel, 2, &p.g);
                CHECK((paths.fast > 0) == rows[r].fast && (paths.general > 0) == rows[r].general &&
                          (rows[r].invalid < 0 || (paths.invalid > 0) == rows[r].invalid),
                      "%s, %s: %ld, %ld, %ld", kind_names[rows[r].kind], kernel_names[which], (long)paths.fast,
                      (long)paths.general, (long)paths.invalid);
            }
            product_fini(&p);
        }
}
