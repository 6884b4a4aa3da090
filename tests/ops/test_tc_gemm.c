/* Products as a tensor core sums them, by every instruction set of this CPU: against src/ops/tensor_core.h bit for
 * bit, against the results of an H200 (its record has digests, as in test_tensor_core.c) and against those of other
 * GPUs (results/published/tensor_core). */
#include "backend/cpu/tc_recorded.h"
#include "tests/gpu/tensor_operands.h"
#include "tests/ops/device.h"

#include <stdlib.h>

enum { KERNELS = 4, THREADS_MOST = 7 };

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

static const char *const kernel_names[KERNELS] = {"scalar", "avx2", "avx512", "avx512 with popcount"};

/* 0 if this CPU does not have it. */
static int find_kernel(int which, const struct rp_tc_kernel **kernel)
{
    static const enum rp_isa isas[KERNELS] = {RP_ISA_scalar, RP_ISA_avx2, RP_ISA_avx512, RP_ISA_avx512};
    *kernel = NULL;
    if (!rp_isa_usable(isas[which]))
        return 0;
    *kernel = rp_tc_kernel(isas[which], which == 3);
    return which < 3 || *kernel != rp_tc_kernel(isas[which], 0);
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

enum kind { NORMAL, SMALL, WIDE, ZEROS, ANY, LARGE, TINY, KINDS };
static const char *const kind_names[KINDS] = {"normal", "small", "wide", "zeros", "any bits", "large", "tiny"};

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
    return (uint16_t)tensor_pack(sign, exponent, f, fraction, exponent_bits);
}

static uint32_t draw_addend(enum kind kind)
{
    if (kind == ANY)
        return (uint32_t)tensor_next(&draws);
    if (kind == ZEROS && tensor_below(&draws, 2))
        return tensor_below(&draws, 2) ? RP_TC_SIGN : 0;
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
            CHECK(is.gpus == rows[i].gpus && is.cases == 2 * RP_TC_RECORDED_LINES * is.gpus && is.failed == 0, "%s, row %zu: %d of %d: %s",
                  rp_isa_name((enum rp_isa)isa), i, is.failed, is.cases, err.msg);
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
        int fast, general, scalar; /* whether there are tiles of this path, in bf16; -1: either */
    } rows[] = {{NORMAL, 1, 0, 0}, {SMALL, 1, 0, 0}, {ZEROS, 1, 0, 0},
                {TINY, 0, 1, 0},   {ANY, 0, 0, 1},   {LARGE, 0, 0, 1}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int which = 1; which < KERNELS; which++) {
            const struct rp_tc_kernel *kernel;
            struct product p = product_new(RP_TC_BF16, (struct rp_tc)RP_TC16,
                                           &(struct shape){.m = 40, .n = 64, .k = 300}, rows[r].kind);
            p.g.c = p.c;
            if (find_kernel(which, &kernel)) {
                const struct rp_tc_paths paths = multiply(kernel, 2, &p.g);
                CHECK((paths.fast > 0) == rows[r].fast && (paths.general > 0) == rows[r].general &&
                          (paths.scalar > 0) == rows[r].scalar,
                      "%s, %s: %ld, %ld, %ld", kind_names[rows[r].kind], kernel_names[which], (long)paths.fast,
                      (long)paths.general, (long)paths.scalar);
            }
            product_fini(&p);
        }
}
