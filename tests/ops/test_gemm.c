/* The product in every instruction set this CPU has, on 1, 2, 3 and 7 threads, against plain loops: bit for bit. */
#include "backend/cpu/gemm.h"
#include "tests/ops/define.h"
#include "tests/ops/device.h"

#include <math.h>

static const int thread_counts[] = {1, 2, 3, 7};
#define THREAD_COUNTS 4

/* ---- numbers: signs, -0, four decades, and now and then something that makes products subnormal ---- */

static float *numbers(size_t n, float scale)
{
    /* a multiple of 4 bytes only: no kernel may count on more */
    float *p = malloc((n + 1) * sizeof *p), *q = p + 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t w = random_word();
        float x = ((float)(w >> 8) * 0x1p-24f - 0.5f) * ldexpf(scale, (int)(w & 15) - 8);
        q[i] = (w & 0xf0) == 0 ? -0.0f : (w & 0x3f0) == 0x10 ? x * 1e-38f : x;
    }
    return q;
}

static void drop(float *q)
{
    if (q)
        free(q - 1);
}

enum epilogue { BIAS = 1, ADD = 2, IN_PLACE = 4 };

struct shape {
    int m, n, k, segment;
    int ta, tb, epilogue, slack; /* slack: floats between rows */
    float scale;
};

/* One shape against plain loops, for every instruction set and number of threads. Bytes outside the matrix must not
 * change. */
static void compare(const struct shape *s)
{
    struct rp_gemm g = {.ta = s->ta, .tb = s->tb, .m = s->m, .n = s->n, .k = s->k, .segment = s->segment};
    g.lda = (s->ta ? s->m : s->k) + s->slack;
    g.ldb = (s->tb ? s->k : s->n) + 2 * s->slack;
    g.ldc = s->n + 3 * s->slack;
    g.ldadd = s->epilogue & IN_PLACE ? g.ldc : s->n + s->slack;
    const size_t size_c = (size_t)(s->m - 1) * (size_t)g.ldc + (size_t)s->n, bytes = (size_c + 8) * sizeof(float);
    float *a = numbers((size_t)(s->ta ? s->k : s->m) * (size_t)g.lda, s->scale);
    float *b = numbers((size_t)(s->tb ? s->n : s->k) * (size_t)g.ldb, 1.0f);
    float *bias = s->epilogue & BIAS ? numbers((size_t)s->n, s->scale) : NULL;
    float *add = s->epilogue & ADD ? numbers((size_t)s->m * (size_t)g.ldadd, s->scale) : NULL;
    float *before = numbers(size_c + 8, s->scale), *expected = numbers(size_c + 8, 1.0f),
          *c = numbers(size_c + 8, 1.0f);
    g.a = a;
    g.b = b;
    g.bias = bias;
    g.add = s->epilogue & IN_PLACE ? before : add;
    memcpy(expected, before, bytes);
    g.c = expected;
    define_gemm(&g);
    g.c = c;
    g.add = s->epilogue & IN_PLACE ? c : add;
    for (int isa = 0; isa < RP_ISA_COUNT; isa++)
        for (int t = 0; rp_isa_usable((enum rp_isa)isa) && t < THREAD_COUNTS; t++) {
            struct rp_dev *dev = device((enum rp_isa)isa, thread_counts[t]);
            memcpy(c, before, bytes);
            dev->op->gemm(dev, &g);
            CHECK(!memcmp(c, expected, bytes), "%dx%dx%d segment %d ta %d tb %d epilogue %d slack %d: %s, %d threads",
                  s->m, s->n, s->k, s->segment, s->ta, s->tb, s->epilogue, s->slack, rp_isa_name((enum rp_isa)isa),
                  thread_counts[t]);
        }
    drop(a);
    drop(b);
    drop(bias);
    drop(add);
    drop(before);
    drop(expected);
    drop(c);
}

TEST(every_transpose_and_epilogue)
{
    static const int epilogues[] = {0, BIAS, ADD, BIAS | ADD, IN_PLACE, BIAS | IN_PLACE};
    for (int t = 0; t < 4; t++)
        for (int e = 0; e < 6; e++)
            for (int segment = 0; segment <= 512; segment += 512)
                compare(&(struct shape){.m = 37, .n = 101, .k = 1023, .segment = segment, .ta = t & 1, .tb = t >> 1,
                                        .epilogue = epilogues[e], .slack = e % 3, .scale = 1.0f});
}

TEST(awkward_sizes)
{
    static const int m[] = {1, 7, 31, 33, 129}, n[] = {1, 15, 31, 33, 49, 240}, k[] = {1, 15, 16, 17, 100, 769};
    int count = 0;
    for (int x = 0; x < 5; x++)
        for (int y = 0; y < 6; y++)
            for (int z = 0; z < 6; z++, count++)
                compare(&(struct shape){.m = m[x], .n = n[y], .k = k[z], .ta = count & 1, .tb = count >> 1 & 1,
                                        .segment = count % 3 ? 0 : 16, .epilogue = count % 5, .slack = count % 4,
                                        .scale = count % 7 ? 1.0f : 1e-30f});
}

TEST(long_chains_and_segments)
{
    static const int segments[] = {0, 512, 2048, 100, 1, 900};
    for (int i = 0; i < 12; i++)
        compare(&(struct shape){.m = 21, .n = 55, .k = i < 6 ? 5000 : 2049, .segment = segments[i % 6], .ta = i & 1,
                                .tb = i >> 1 & 1, .epilogue = i % 6 == 2 ? IN_PLACE | BIAS
                                            : i % 2    ? ADD
                                                       : IN_PLACE,
                                .slack = 1, .scale = 1.0f});
    compare(&(struct shape){.m = 77, .n = 301, .k = 1023, .scale = 1.0f});
    compare(&(struct shape){.m = 77, .n = 301, .k = 1023, .ta = 1, .segment = 512, .slack = 5, .scale = 1.0f});
}

/* Sizes that need several chunks, parts of the rows, groups and packing ahead, on every thread. */
TEST(many_blocks)
{
    compare(&(struct shape){.m = 300, .n = 500, .k = 800, .tb = 1, .epilogue = BIAS, .scale = 1.0f});
    compare(&(struct shape){.m = 100, .n = 900, .k = 777, .epilogue = ADD, .slack = 3, .scale = 1.0f});
    compare(&(struct shape){.m = 250, .n = 410, .k = 1100, .ta = 1, .segment = 512, .scale = 1.0f});
    compare(
        &(struct shape){.m = 2100, .n = 50, .k = 1600, .ta = 1, .segment = 800, .epilogue = IN_PLACE, .scale = 1.0f});
    compare(&(struct shape){.m = 4200, .n = 25, .k = 1000, .tb = 1, .epilogue = IN_PLACE, .scale = 1.0f});
}

/* A chain that ends in -0, and subnormal results, come out as the definition says. */
TEST(zeros_and_subnormals)
{
    const float a[2] = {-0x1p-100f, 0x1p-75f}, b[2] = {0x1p-100f, 0x1p-70f};
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        if (!rp_isa_usable((enum rp_isa)isa))
            continue;
        struct rp_dev *dev = device((enum rp_isa)isa, 1);
        float c[2] = {1.0f, 1.0f};
        for (int i = 0; i < 2; i++) {
            struct rp_gemm g = {
                .m = 1, .n = 1, .k = 1, .a = a + i, .lda = 1, .b = b + i, .ldb = 1, .c = c + i, .ldc = 1};
            dev->op->gemm(dev, &g);
        }
        CHECK(c[0] == 0.0f && !signbit(c[0]), "%s: -0 left by an underflow", rp_isa_name((enum rp_isa)isa));
        CHECK(c[1] == 0x1p-145f, "%s: subnormal flushed", rp_isa_name((enum rp_isa)isa));
    }
}

#if defined __x86_64__
/* The scalar kernel for CPUs without FMA: the library's fmaf() gives what the instruction gives. */
TEST(scalar_without_fma)
{
    enum { K = 300 };
    float *a = numbers(4 * K, 1e-18f), *b = numbers(8 * K, 1e-18f), c[2][32];
    if (rp_isa_chooses_fma())
        for (int rows = 1; rows <= 4; rows++) {
            struct rp_tile t = {.a = a, .lda = K, .b = b, .k = K, .cols = 8, .last = 1, .ldc = 8};
            memset(c, 0, sizeof c);
            t.c = c[0];
            rp_gemm_scalar.in_place(&t, rows);
            t.c = c[1];
            rp_gemm_scalar_fma.in_place(&t, rows);
            CHECK(!memcmp(c[0], c[1], sizeof c[0]), "%d rows", rows);
        }
    drop(a);
    drop(b);
}
#endif
