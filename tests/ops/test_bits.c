/* Every operation in every instruction set this CPU has, on several numbers of threads, against the literal definition:
 * bit for bit.
 * timeout: 900 */
#include "backend/cpu/ops_isa.h"
#include "base/buf.h"
#include "ops/op_check.h"
#include "tests/ops/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int thread_counts[] = {1, 2, 3, 7};
static const int widths[] = {1, 31, 33, 77, 240, 301, 768, 1023};
static const int row_counts[] = {1, 63, 64, 65, 130};
static const float dropouts[] = {0.0f, 0.1f, 0.5f};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int of_attention(int op)
{
    return op == RP_OP_attention_forward || op == RP_OP_attention_backward;
}

static int is_pool(int op)
{
    return op == RP_OP_maxpool_forward || op == RP_OP_maxpool_backward;
}

/* The instruction sets with which a case is compared: its definition is computed once for all of them. */
struct devices {
    int threads, n;
    enum rp_isa isa[RP_ISA_COUNT];
    struct rp_dev *dev[RP_ISA_COUNT];
};
static int cases[RP_ISA_COUNT];

static void add(struct devices *d, int isa)
{
    struct rp_dev *dev = device((enum rp_isa)isa, d->threads);
    if (!dev)
        return;
    cases[isa]++;
    d->isa[d->n] = (enum rp_isa)isa;
    d->dev[d->n++] = dev;
}

/* At most a few messages per operation; the rest is counted. */
static void compare(const struct devices *d, int op, const struct rp_op_shape *s, int *failed)
{
    struct rp_err e[RP_ISA_COUNT];
    if (d->n == 0 || rp_ops_compare_all(NULL, d->dev, d->n, (enum rp_op)op, s, e) == 0)
        return;
    for (int i = 0; i < d->n; i++)
        if (e[i].code != RP_OK && ++*failed <= 3)
            CHECK(0,
                  "%s, %d threads, rows %d width %d depth %d, batch %d seq %d heads %d dim %d, image %dx%dx%dx%d to "
                  "%dx%dx%d, "
                  "window %dx%d/%d, dropout %g, variant %u, offset %d, small %d%s: %s",
                  rp_isa_name(d->isa[i]), d->threads, s->rows, s->width, s->depth, s->batch, s->seq, s->heads,
                  s->head_dim, s->conv.batch, s->conv.in_h, s->conv.in_w, s->conv.in_c, s->conv.out_h, s->conv.out_w,
                  s->conv.out_c, s->conv.kernel_h, s->conv.kernel_w, s->conv.stride, (double)s->dropout, s->variant,
                  s->offset, s->small, s->in_place ? ", in place" : "", e[i].msg);
}

/* Each size with each instruction set and two of the thread counts, with LONG=1 all; threads, dropout, placement and
 * the other choices change from case to case, and every thread count meets every size over the instruction sets and the
 * operations. */
static void rows_of(int op, int *failed)
{
    for (int r = 0; r < COUNT(row_counts); r++)
        for (int w = 0; w < COUNT(widths); w++)
            for (int t = 0; t < COUNT(thread_counts); t++) {
                unsigned mix = (unsigned)(r + 3 * w + 5 * t + op);
                struct rp_op_shape s = {.rows = row_counts[r],
                                        .width = widths[w],
                                        .depth = 1 + (int)(mix * 37 % 90),
                                        .segment = mix % 3 ? 16 : 0,
                                        .dropout = dropouts[mix % 3],
                                        .in_place = mix >> 1 & 1,
                                        .variant = mix,
                                        .offset = mix % 5 == 3,
                                        .small = mix % 4 == 1 ? 1 + (mix % 8 == 5) : 0,
                                        .shards = widths[w] % 7 == 0   ? 7
                                                  : widths[w] % 3 == 0 ? 3
                                                                       : 1,
                                        .seed = mix};
                struct devices d = {.threads = thread_counts[t]};
                for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
                    if ((r + w + t / 2 + isa) % 2 && !tap_long())
                        continue;
                    if (isa == RP_ISA_scalar && (t > 1 || (op == RP_OP_gemm && w > 4)))
                        continue; /* slow: the library's fmaf */
                    add(&d, isa);
                }
                compare(&d, op, &s, failed);
            }
}

/* Causal attention has no key mask, and only it has documents. */
static int repeats_another(unsigned variant)
{
    return variant & RP_VARIANT_CAUSAL
               ? variant & (RP_VARIANT_KEY_HOLES | RP_VARIANT_SHORT_SAMPLES) && variant > RP_VARIANT_CAUSAL
               : variant & RP_VARIANT_DOCUMENTS;
}

/* Short sequences have half of the variants each, with LONG=1 all. */
static void attention_of(int op, int *failed)
{
    static const struct {
        int batch, seq, heads, dim;
    } sizes[] = {{2, 1, 2, 1},    {3, 7, 1, 5},    {2, 33, 3, 64},  {1, 128, 2, 64}, {2, 64, 2, 80},
                 {1, 200, 1, 80}, {2, 130, 1, 1},  {1, 77, 1, 130}, {1, 40, 1, 300}, {9, 17, 3, 16},
                 {1, 192, 1, 5},  {1, 512, 1, 64}, {1, 301, 1, 33}};
    for (int i = 0; i < COUNT(sizes); i++)
        for (unsigned variant = 0; variant < 32; variant++) { /* from 8 on causal, from 24 on with documents */
            struct devices d = {.threads = thread_counts[(variant + (unsigned)i) % 4]};
            struct rp_op_shape s = {.batch = sizes[i].batch,
                                    .seq = sizes[i].seq,
                                    .heads = sizes[i].heads,
                                    .head_dim = sizes[i].dim,
                                    .dropout = dropouts[(variant + (unsigned)i) % 3],
                                    .variant = variant,
                                    .offset = variant % 3 == 2,
                                    .small = variant % 4 == 1,
                                    .seed = variant};
            const int is_turn = sizes[i].seq > 150 || (variant + variant / 8 + (unsigned)i) % 2 == 0 || tap_long();
            for (int isa = 0; isa < RP_ISA_COUNT && is_turn && !repeats_another(variant); isa++)
                if (sizes[i].seq <= 150 || (isa != RP_ISA_scalar && variant % 4 == (variant < 8 ? (unsigned)i % 4 : 0)))
                    add(&d, isa);
            compare(&d, op, &s, failed);
        }
}

/* Blocks of 128 and 32 queries and of 512 keys of values, their edges and one off; documents that begin at and between
 * them; a causal sequence of 8192 tokens. */
static void long_attention_of(int op, int *failed)
{
    static const struct {
        int batch, seq, heads, dim;
        unsigned variants; /* one bit each */
    } sizes[] = {{1, 127, 2, 24, 0x1100ffff}, {1, 129, 2, 8, 0x1100ffff},  {1, 255, 1, 8, 0x11001111},
                 {1, 257, 2, 9, 0x11001f1f},  {1, 384, 1, 16, 0x11001013}, {1, 511, 1, 8, 0x01000100},
                 {2, 513, 1, 8, 0x11000102},  {1, 640, 1, 96, 0x01000100}, {1, 1000, 1, 3, 0x11000101},
                 {1, 2048, 1, 1, 0x11001100}, {1, 8192, 1, 1, 0x0100}};
    for (int i = 0; i < COUNT(sizes); i++)
        for (unsigned variant = 0; variant < 32; variant++) {
            struct devices d = {.threads = thread_counts[(variant / 4 + (unsigned)i) % 4]};
            struct rp_op_shape s = {.batch = sizes[i].batch,
                                    .seq = sizes[i].seq,
                                    .heads = sizes[i].heads,
                                    .head_dim = sizes[i].dim,
                                    .dropout = dropouts[(variant / 2 + (unsigned)i) % 3],
                                    .variant = variant,
                                    .seed = variant};
            if (!(sizes[i].variants >> variant & 1) || repeats_another(variant))
                continue;
            for (int isa = 0; isa < RP_ISA_COUNT; isa++)
                if (!(sizes[i].seq > 2048 && (isa != RP_ISA_avx512 || op == RP_OP_attention_forward)) &&
                    !(sizes[i].seq > 300 && isa == RP_ISA_scalar))
                    add(&d, isa);
            compare(&d, op, &s, failed);
        }
}

/* ---- convolutions ---- */

#define CONV(n, h, w, c, oh, ow, oc, kh, kw, s, top, left) {n, h, w, c, oh, ow, oc, kh, kw, s, top, left}

/* Kernels, strides and paddings of ResNet-50 with few channels, and borders of what the backend cuts: 16 k-steps,
 * blocks of k, panels, chunks of panels, strips, 64 rows, tasks, chains of 512 rows, groups of 4096. `big` ones are
 * left out in scalar code. */
static const struct {
    struct rp_conv conv;
    int big;
} convs[] = {
    {CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0), 0},
    {CONV(1, 1, 1, 1, 1, 1, 1, 3, 3, 1, 1, 1), 0},
    {CONV(1, 2, 1, 3, 1, 1, 2, 3, 3, 2, 1, 1), 0},
    {CONV(2, 9, 7, 5, 9, 7, 33, 3, 3, 1, 1, 1), 0},
    {CONV(3, 8, 8, 16, 8, 8, 17, 1, 1, 1, 0, 0), 0},
    {CONV(3, 8, 8, 48, 8, 8, 96, 1, 1, 1, 0, 0), 0},
    {CONV(2, 9, 6, 32, 5, 3, 64, 1, 1, 2, 0, 0), 0},
    {CONV(2, 5, 6, 10, 3, 3, 7, 1, 1, 2, 1, 0), 0},
    {CONV(2, 8, 8, 12, 4, 4, 48, 3, 3, 2, 0, 0), 0},
    {CONV(2, 8, 8, 12, 4, 4, 49, 3, 3, 2, 1, 1), 0},
    {CONV(1, 23, 24, 3, 12, 12, 64, 7, 7, 2, 3, 3), 0},
    {CONV(1, 24, 24, 3, 12, 12, 24, 7, 7, 2, 2, 2), 0},
    {CONV(1, 12, 11, 7, 5, 4, 9, 3, 2, 3, 2, 0), 0},
    {CONV(1, 5, 4, 6, 9, 8, 5, 5, 5, 1, 4, 4), 0},
    {CONV(4, 3, 2, 4, 2, 1, 8, 1, 1, 4, 0, 0), 0},
    {CONV(2, 1, 65, 9, 1, 65, 25, 1, 5, 1, 0, 2), 0},
    {CONV(1, 40, 103, 2, 40, 103, 3, 3, 3, 1, 1, 1), 0},
    {CONV(2, 7, 7, 72, 7, 7, 300, 1, 1, 1, 0, 0), 0},
    {CONV(3, 30, 31, 10, 30, 31, 5, 1, 1, 1, 0, 0), 0},
    {CONV(1, 8, 8, 64, 8, 8, 64, 3, 3, 1, 1, 1), 0},
    {CONV(1, 5, 5, 136, 5, 5, 40, 1, 1, 1, 0, 0), 0},
    {CONV(2, 6, 6, 86, 6, 6, 20, 3, 3, 1, 1, 1), 0},
    {CONV(1, 14, 14, 128, 7, 7, 130, 3, 3, 2, 1, 1), 1},
    {CONV(1, 3, 2, 520, 3, 2, 12, 3, 3, 1, 1, 1), 0},
    {CONV(1, 4, 3, 8, 4, 3, 520, 3, 3, 1, 1, 1), 0},
    {CONV(1, 4, 4, 8, 2, 2, 520, 3, 3, 2, 1, 1), 0},
    {CONV(1, 4, 4, 5, 2, 2, 2100, 3, 3, 2, 1, 1), 1},
    {CONV(1, 2, 2, 4100, 2, 2, 3, 1, 1, 1, 0, 0), 0},
    {CONV(1, 2, 2, 4096, 2, 2, 50, 1, 1, 1, 0, 0), 1},
    {CONV(1, 5, 5, 512, 5, 5, 512, 3, 3, 1, 1, 1), 2},
    {CONV(1, 6, 6, 512, 3, 3, 512, 3, 3, 2, 1, 1), 2},
    {CONV(1, 8, 8, 512, 8, 8, 1024, 1, 1, 1, 0, 0), 1},
    {CONV(1, 33, 121, 4, 33, 121, 30, 1, 3, 1, 0, 1), 1},
    {CONV(5, 45, 45, 4, 45, 45, 8, 1, 3, 1, 0, 1), 1},
    {CONV(1, 128, 32, 8, 128, 32, 64, 1, 1, 1, 0, 0), 1},
    {CONV(1, 140, 112, 3, 70, 56, 64, 7, 7, 2, 3, 3), 2},
    {CONV(1, 31, 30, 176, 31, 30, 144, 1, 1, 1, 0, 0), 1},
    {CONV(1, 65, 64, 16, 65, 64, 72, 1, 1, 1, 0, 0), 1},
    /* cut into regions by the taps inside the image: all nine, also with sums of several chains; edges alone; after the
     * image */
    {CONV(9, 3, 3, 5, 3, 3, 7, 3, 3, 1, 1, 1), 0},
    {CONV(24, 7, 6, 17, 7, 6, 50, 3, 3, 1, 1, 1), 1},
    {CONV(8, 3, 4, 520, 3, 4, 10, 3, 3, 1, 1, 1), 1},
    {CONV(8, 4, 3, 10, 4, 3, 520, 3, 3, 1, 1, 1), 1},
    {CONV(16, 6, 6, 20, 3, 3, 33, 3, 3, 2, 1, 1), 0},
    {CONV(12, 2, 3, 9, 2, 3, 49, 3, 3, 1, 1, 1), 0},
    {CONV(10, 4, 4, 6, 4, 4, 30, 2, 2, 1, 0, 0), 0},
    {CONV(40, 1, 3, 8, 1, 3, 16, 5, 3, 1, 2, 1), 0},
    /* weight gradients whose columns are packed as x lies in memory: several chains, several chunks of a row of taps */
    {CONV(1, 45, 37, 16, 45, 37, 40, 3, 3, 1, 1, 1), 1},
    {CONV(1, 33, 40, 64, 33, 40, 20, 3, 3, 1, 1, 1), 1},
    {CONV(2, 30, 20, 48, 30, 20, 17, 5, 5, 1, 2, 2), 1},
    {CONV(1, 40, 30, 24, 40, 30, 9, 2, 2, 1, 0, 1), 1},
    {CONV(1, 33, 60, 16, 33, 60, 24, 1, 5, 1, 0, 2), 1},
};
static const struct rp_conv pools[] = {
    CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),         CONV(2, 11, 8, 33, 6, 4, 33, 3, 3, 2, 1, 1),
    CONV(2, 8, 8, 20, 4, 4, 20, 3, 3, 2, 0, 0),       CONV(1, 7, 9, 64, 6, 8, 64, 2, 2, 1, 0, 0),
    CONV(3, 12, 13, 1, 4, 5, 1, 3, 3, 3, 0, 1),       CONV(1, 9, 9, 16, 3, 3, 16, 2, 2, 3, 0, 0),
    CONV(1, 30, 30, 130, 15, 15, 130, 3, 3, 2, 1, 1), CONV(2, 5, 5, 7, 5, 5, 7, 15, 15, 1, 7, 7),
};
#undef CONV

static void convs_of(int op, int *failed)
{
    const int pool = is_pool(op);
    for (int i = 0; i < (pool ? COUNT(pools) : COUNT(convs)); i++)
        for (unsigned k = 0; k < 3; k++) {
            struct devices d = {.threads = 1 + (int)((unsigned)i * 3 + k + (unsigned)op) % 5};
            const int big = pool ? 0 : convs[i].big;
            const unsigned mix = k + (unsigned)i;
            struct rp_op_shape s = {.conv = pool ? pools[i] : convs[i].conv,
                                    .variant = mix,
                                    .in_place = mix >> 1 & 1,
                                    .offset = mix % 5 == 3,
                                    .small = !big && mix % 4 == 1 ? 1 + (mix % 8 == 5) : 0,
                                    .seed = mix};
            for (int isa = 0; isa < RP_ISA_COUNT; isa++)
                if (!(big && k != (unsigned)isa % 3) && !(isa == RP_ISA_scalar && (big || k)))
                    add(&d, isa); /* the others are slow: the definition, and the library's fmaf */
            compare(&d, op, &s, failed);
        }
}

/* Outputs of 16 MiB, which are written past the caches. */
TEST(large_batch_norms)
{
    static const enum rp_op ops[] = {RP_OP_batchnorm_forward, RP_OP_batchnorm_apply, RP_OP_batchnorm_backward};
    int failed = 0;
    for (int isa = 0; isa < RP_ISA_COUNT; isa++)
        for (int i = 0; i < COUNT(ops) && isa != RP_ISA_scalar; i++) {
            struct devices d = {.threads = 2};
            struct rp_op_shape s = {.rows = 4100, .width = 1024, .variant = RP_VARIANT_RELU | RP_VARIANT_ADD_INPUT,
                                    .in_place = isa & 1};
            add(&d, isa);
            compare(&d, (int)ops[i], &s, &failed);
        }
    CHECK(!failed, "%d cases differ", failed);
}

/* A pixel outside the image times an infinite weight is NaN, at the edges of the image alone. */
TEST(infinite_weight)
{
    enum {
        BATCH = 16, SIDE = 3, IN = 4, OUT = 5, X = BATCH * SIDE * SIDE * IN, W = OUT * 9 * IN,
        Y = BATCH * SIDE * SIDE * OUT
    };
    const struct rp_conv c = {BATCH, SIDE, SIDE, IN, SIDE, SIDE, OUT, 3, 3, 1, 1, 1};
    static float x[X], w[W], y[2][Y], dx[2][X];
    for (int i = 0; i < X; i++)
        x[i] = 1.0f + (float)(i % 7);
    for (int i = 0; i < W; i++)
        w[i] = 1.0f + (float)(i % 5);
    w[2 * 9 * IN] = INFINITY; /* of output channel 2, above and left */
    struct rp_dev reference = {.op = &rp_reference_ops};
    rp_reference_ops.conv_forward(&reference, y[0], NULL, x, w, &c, NULL);
    rp_reference_ops.conv_dgrad(&reference, dx[0], y[0], w, NULL, &c);
    CHECK(isnan(y[0][2]) && isinf(y[0][(SIDE + 1) * OUT + 2]), "not what this test is about: %g, %g", (double)y[0][2],
          (double)y[0][(SIDE + 1) * OUT + 2]);
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        struct rp_dev *dev = device((enum rp_isa)isa, 2);
        if (!dev)
            continue;
        dev->op->conv_forward(dev, y[1], NULL, x, w, &c, NULL);
        dev->op->conv_dgrad(dev, dx[1], y[0], w, NULL, &c);
        for (int i = 0; i < Y; i++)
            CHECK(y[0][i] == y[1][i] || (isnan(y[0][i]) && isnan(y[1][i])), "%s: output %d is %g, not %g",
                  rp_isa_name((enum rp_isa)isa), i, (double)y[1][i], (double)y[0][i]);
        for (int i = 0; i < X; i++)
            CHECK(dx[0][i] == dx[1][i] || (isnan(dx[0][i]) && isnan(dx[1][i])), "%s: gradient %d is %g, not %g",
                  rp_isa_name((enum rp_isa)isa), i, (double)dx[1][i], (double)dx[0][i]);
    }
}

TEST(every_instruction_set)
{
    memset(cases, 0, sizeof cases);
    for (int op = 0; op < RP_OP_COUNT; op++) {
        int failed = 0;
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        if (of_attention(op)) {
            attention_of(op, &failed);
            long_attention_of(op, &failed);
        } else if (rp_op_is_conv((enum rp_op)op)) {
            convs_of(op, &failed);
        } else {
            rows_of(op, &failed);
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (failed || seconds > 1)
            printf("# %s: %d cases differ, %.1f s\n", rp_op_info[op].name, failed, seconds);
    }
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        CHECK((cases[isa] > 1000) == rp_isa_usable((enum rp_isa)isa), "%s: %d cases", rp_isa_name((enum rp_isa)isa),
              cases[isa]);
        if (cases[isa])
            printf("# %s: %d cases\n", rp_isa_name((enum rp_isa)isa), cases[isa]);
    }
}

#if defined __x86_64__
/* What a CPU without the FMA instruction runs: the device of this CPU with that table. */
TEST(scalar_without_fma)
{
    struct rp_dev *dev = device(RP_ISA_scalar, 2);
    for (int op = 0; op < RP_OP_COUNT; op++)
        for (unsigned variant = 0; variant < 12; variant += variant == 3 ? 5 : 1) { /* 0..3, 8..11 */
            struct rp_op_shape s = {.rows = 65,
                                    .width = 77,
                                    .depth = 33,
                                    .batch = 2,
                                    .seq = 33,
                                    .heads = 2,
                                    .head_dim = 20,
                                    .shards = 7,
                                    .dropout = dropouts[variant % 3],
                                    .in_place = variant & 1,
                                    .variant = variant,
                                    .conv = {2, 6, 5, 7, 3, 3, is_pool(op) ? 7 : 9, 3, 3, 2, 1, 1},
                                    .seed = variant};
            struct rp_err e = {0};
            CHECK(rp_ops_compare(NULL, &rp_cpu_ops_scalar, dev, (enum rp_op)op, &s, &e) == 0, "variant %u: %s", variant,
                  e.msg);
        }
}
#endif

/* Scores 0 and x, values 0 and 1: the output is e^x / (1 + e^x). x down to where the result is subnormal, and +0. */
TEST(small_probabilities)
{
    enum { SAMPLES = 30000 };
    float *qkv = rp_alloc(SAMPLES * 6 * sizeof *qkv),
          *o[2] = {rp_alloc(SAMPLES * 2 * sizeof(float)), rp_alloc(SAMPLES * 2 * sizeof(float))};
    float *top = rp_alloc(SAMPLES * 4 * sizeof *top), *inv = top + SAMPLES * 2;
    const struct rp_attention a = {.batch = SAMPLES, .seq = 2, .heads = 1, .head_dim = 1, .scale = 1, .causal = 1};
    for (int i = 0; i < SAMPLES; i++) {
        float x = i ? (float)-i * (float)(110.0 / SAMPLES) : -__builtin_inff();
        memcpy(qkv + 6 * i, (float[6]){1, 0, 0, 1, x, 1}, 6 * sizeof *qkv);
    }
    rp_reference_ops.attention_forward(NULL, o[0], top, inv, NULL, qkv, &a);
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        struct rp_dev *dev = device((enum rp_isa)isa, 2);
        int i = 0, subnormal = 0;
        if (!dev)
            continue;
        dev->op->attention_forward(dev, o[1], top, inv, NULL, qkv, &a);
        while (i < 2 * SAMPLES && !memcmp(o[0] + i, o[1] + i, sizeof(float))) {
            subnormal += o[0][i] > 0 && o[0][i] < 0x1p-126f;
            i++;
        }
        CHECK(i == 2 * SAMPLES, "%s: output %d differs", rp_isa_name((enum rp_isa)isa), i);
        CHECK(subnormal > 1000, "%d subnormal outputs", subnormal);
    }
    free(qkv);
    free(o[0]);
    free(o[1]);
    free(top);
}

/* A whole micro-batch's worth of tensor, so that parts outnumber threads in every operation on whole tensors. */
TEST(large_tensors)
{
    static const int whole[] = {RP_OP_sgd_update,  RP_OP_lars_update,    RP_OP_running_update, RP_OP_scale_pixels,
                                RP_OP_add,         RP_OP_fill,           RP_OP_square_sums,    RP_OP_tree_sum,
                                RP_OP_adam_update, RP_OP_lamb_direction, RP_OP_lamb_apply,     RP_OP_init_normal,
                                RP_OP_perturb,     RP_OP_digest_leaves,  RP_OP_find_nonfinite, RP_OP_weighted_sum};
    for (int i = 0; i < COUNT(whole); i++) {
        struct devices d = {.threads = 3};
        struct rp_op_shape s = {.rows = 331, .width = 301, .variant = (unsigned)i, .seed = 77};
        int failed = 0;
        for (int isa = 0; isa < RP_ISA_COUNT; isa++)
            add(&d, isa);
        compare(&d, whole[i], &s, &failed);
    }
}
