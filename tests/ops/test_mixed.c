/* Operations in mixed precision: every one on every instruction set, in every arithmetic of numerics.def, against the
 * reference, bit for bit; and that another arithmetic, or a rounding too early, is seen. `selftest --tensor-core`
 * compares the larger shapes of backend/selftest.c. */
#define RP_STORED_TYPE float
#include "ops/op_check.h"
#include "tests/ops/device.h"

#include <stdlib.h>

static const struct rp_op_shape rows[] = {
    {.rows = 1, .width = 1, .depth = 1, .batch = 1, .seq = 1, .heads = 1, .head_dim = 1, .dropout = 0.1f},
    {.rows = 5, .width = 33, .depth = 77, .batch = 2, .seq = 7, .heads = 2, .head_dim = 5, .in_place = 1, .variant = 3},
    {.rows = 65, .width = 40, .depth = 31, .batch = 1, .seq = 33, .heads = 2, .head_dim = 24, .dropout = 0.1f,
     .variant = 6},
    {.rows = 30, .width = 77, .depth = 101, .batch = 1, .seq = 130, .heads = 1, .head_dim = 16, .dropout = 0.5f,
     .in_place = 1, .variant = 13, .shards = 7, .small = 1},
    {.rows = 20, .width = 24, .depth = 48, .batch = 2, .seq = 70, .heads = 1, .head_dim = 20, .dropout = 0.1f,
     .variant = 25, .shards = 3},
    {.rows = 24, .width = 36, .depth = 64, .batch = 1, .seq = 90, .heads = 1, .head_dim = 32, .in_place = 1,
     .variant = 56, .seed = 1},
    {.rows = 3, .width = 4, .depth = 8300, .batch = 1, .seq = 65, .heads = 1, .head_dim = 8, .dropout = 0.1f,
     .variant = 2},
    {.rows = 4, .width = 3, .depth = 8300, .batch = 1, .seq = 64, .heads = 1, .head_dim = 8, .variant = 1, .seed = 3},
};
#define CONV(n, h, w, c, oh, ow, oc, kh, kw, s, top, left) .conv = {n, h, w, c, oh, ow, oc, kh, kw, s, top, left}
static const struct rp_op_shape windows[] = {
    {CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)},
    {CONV(2, 9, 7, 5, 9, 7, 13, 3, 3, 1, 1, 1), .variant = 2},
    {CONV(1, 11, 10, 16, 6, 5, 20, 3, 3, 2, 1, 1), .variant = 2, .in_place = 1},
    {CONV(2, 8, 8, 12, 4, 4, 18, 3, 3, 2, 0, 0), .variant = 1},
    {CONV(1, 19, 21, 3, 10, 11, 8, 7, 7, 2, 3, 3)},
    {CONV(2, 6, 6, 33, 3, 3, 9, 1, 1, 2, 0, 0), .variant = 2, .in_place = 1},
    {CONV(7, 23, 19, 3, 23, 19, 5, 1, 1, 1, 0, 0)},
    {CONV(1, 9, 8, 80, 9, 8, 72, 3, 3, 1, 1, 1)},
};
#undef CONV
enum { ROWS = sizeof rows / sizeof *rows, WINDOWS = sizeof windows / sizeof *windows };

/* Opened for all of the shapes. */
static struct rp_dev *open_mixed(enum rp_numerics n, enum rp_isa isa, int threads)
{
    const struct rp_device_opts o = {.isa = rp_isa_name(isa), .threads = threads, .numerics = n};
    struct rp_op_use use[RP_OP_COUNT * (ROWS + WINDOWS)];
    struct rp_err err = {0};
    int uses = 0;
    for (int op = 0; op < RP_OP_COUNT; op++)
        for (int i = 0; i < (rp_op_is_conv((enum rp_op)op) ? WINDOWS : ROWS); i++) {
            const struct rp_op_shape *s = rp_op_is_conv((enum rp_op)op) ? &windows[i] : &rows[i];
            use[uses++] = (struct rp_op_use){.op = (enum rp_op)op, .rows = s->rows, .width = s->width,
                                             .depth = s->depth, .batch = s->batch, .seq = s->seq, .heads = s->heads,
                                             .head_dim = s->head_dim, .conv = s->conv};
        }
    struct rp_dev *dev = rp_backend_open(&rp_backend_cpu, &o, use, uses, &err);
    CHECK(dev, "%s", err.msg);
    return dev;
}

#define SEEDS 20 /* few differences in the last bits of sums outlive the rounding of a stored result */

/* Cases of an operation that differ, with *ops in place of the device's: those of the first numbers with which any
 * does. */
static int differing(struct rp_dev *dev, const struct rp_ops *ops, enum rp_op op, struct rp_err *err)
{
    int n = 0;
    const int conv = rp_op_is_conv(op);
    for (unsigned seed = 0; seed < SEEDS && n == 0; seed++)
        for (int i = 0; i < (conv ? WINDOWS : ROWS); i++) {
            struct rp_op_shape s = conv ? windows[i] : rows[i];
            struct rp_err e = {0};
            s.seed += 2 * seed; /* an odd one stores fp32 */
            if (rp_ops_compare(NULL, ops, dev, op, &s, &e) < 0 && n++ == 0)
                *err = e;
        }
    return n;
}

/* The definition of a case is computed once for all instruction sets. */
TEST(every_operation_has_the_bits_of_the_reference)
{
    for (int n = 0; n < RP_NUMERICS_COUNT; n++) {
        struct rp_dev *dev[RP_ISA_COUNT];
        const char *isa[RP_ISA_COUNT];
        int devices = 0;
        for (int i = 0; i < RP_ISA_COUNT; i++)
            if (rp_is_mixed((enum rp_numerics)n) && rp_isa_usable((enum rp_isa)i)) {
                isa[devices] = rp_isa_name((enum rp_isa)i);
                dev[devices++] = open_mixed((enum rp_numerics)n, (enum rp_isa)i, 1 + (n + i) % 3);
            }
        for (int op = 0; devices && op < RP_OP_COUNT; op++)
            for (int k = 0; k < (rp_op_is_conv((enum rp_op)op) ? WINDOWS : ROWS); k++) {
                struct rp_err err[RP_ISA_COUNT];
                const struct rp_op_shape *s = rp_op_is_conv((enum rp_op)op) ? &windows[k] : &rows[k];
                const int failed = rp_ops_compare_all(NULL, dev, devices, (enum rp_op)op, s, err);
                for (int i = 0; failed && i < devices; i++)
                    CHECK(err[i].code == RP_OK, "%s, %s, case %d: %s", rp_numerics_name((enum rp_numerics)n), isa[i], k,
                          err[i].msg);
            }
        while (devices > 0)
            rp_backend_cpu.close(dev[--devices]);
    }
}

/* ---- faults: each in place of an operation of a device ---- */

static enum rp_numerics wrong_numerics;

/* Calls an operation as if the device had another arithmetic. */
#define IN_ANOTHER(dev, call)                              \
    do {                                                   \
        const enum rp_numerics own_ = (dev)->numerics;     \
        (dev)->numerics = wrong_numerics;                  \
        (dev)->op->call;                                   \
        (dev)->numerics = own_;                            \
    } while (0)

static void wrong_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    IN_ANOTHER(dev, gemm(dev, g));
}
static void wrong_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask,
                                    const float *qkv, const struct rp_attention *a)
{
    IN_ANOTHER(dev, attention_forward(dev, o, row_max, row_inv, mask, qkv, a));
}
static void wrong_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    IN_ANOTHER(dev, attention_backward(dev, g));
}
static void wrong_conv_forward(struct rp_dev *dev, float *y, float *mean, const float *x, const float *w,
                               const struct rp_conv *c, float *work)
{
    IN_ANOTHER(dev, conv_forward(dev, y, mean, x, w, c, work));
}
static void wrong_conv_dgrad(struct rp_dev *dev, float *dx, const float *dy, const float *w, const float *add,
                             const struct rp_conv *c)
{
    IN_ANOTHER(dev, conv_dgrad(dev, dx, dy, w, add, c));
}
static void wrong_conv_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, const struct rp_conv *c,
                             float *work)
{
    IN_ANOTHER(dev, conv_wgrad(dev, dw, dy, x, c, work));
}

TEST(sums_of_other_tensor_cores_are_seen)
{
    static const enum rp_op ops[] = {RP_OP_gemm,         RP_OP_attention_forward, RP_OP_attention_backward,
                                     RP_OP_conv_forward, RP_OP_conv_dgrad,        RP_OP_conv_wgrad};
    static const struct {
        enum rp_numerics right, wrong;
    } pairs[] = {{RP_NUMERICS_fp16_tc4_0, RP_NUMERICS_fp16_tc8_0},
                 {RP_NUMERICS_fp16_tc16_0, RP_NUMERICS_fp16_tc8_0},
                 {RP_NUMERICS_bf16_tc8_0, RP_NUMERICS_bf16_tc16_0},
                 {RP_NUMERICS_bf16_tc16_0, RP_NUMERICS_fp16_tc16_0}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct rp_dev *dev = open_mixed(pairs[i].right, rp_isa_best(), 1);
        struct rp_ops wrong = *dev->op;
        wrong.gemm = wrong_gemm;
        wrong.attention_forward = wrong_attention_forward;
        wrong.attention_backward = wrong_attention_backward;
        wrong.conv_forward = wrong_conv_forward;
        wrong.conv_dgrad = wrong_conv_dgrad;
        wrong.conv_wgrad = wrong_conv_wgrad;
        wrong_numerics = pairs[i].wrong;
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
            struct rp_err err = {0};
            CHECK(differing(dev, &wrong, ops[k], &err) > 0, "%s passes for %s: %s", rp_numerics_name(pairs[i].wrong),
                  rp_numerics_name(pairs[i].right), rp_op_info[ops[k]].name);
        }
        rp_backend_cpu.close(dev);
    }
}

/* Rounds before the bias. */
static void early_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    struct rp_gemm plain = *g;
    plain.bias = NULL;
    dev->op->gemm(dev, &plain);
    float *c = g->c ? g->c : g->c32;
    for (long i = 0; g->bias && i < g->m; i++)
        for (long j = 0; j < g->n; j++)
            c[i * g->ldc + j] += g->bias[j];
    for (long i = 0; g->c && i < g->m; i++)
        dev->op->round_stored(dev, g->c + i * g->ldc, g->c + i * g->ldc, NULL, (size_t)g->n);
}

/* The sums over rows are of what was not rounded. */
static void early_gelu_backward(struct rp_dev *dev, float *du, float *dbias, const float *dg, const float *u, int rows_,
                                int width, float *work)
{
    const enum rp_numerics own = dev->numerics;
    dev->numerics = RP_NUMERICS_fp32_1;
    dev->op->gelu_backward(dev, du, dbias, dg, u, rows_, width, work);
    dev->numerics = own;
    dev->op->round_stored(dev, du, du, NULL, (size_t)rows_ * (size_t)width);
}

TEST(a_rounding_too_early_or_too_late_is_seen)
{
    struct rp_dev *dev = open_mixed(RP_NUMERICS_fp16_tc16_0, rp_isa_best(), 1);
    struct rp_ops wrong = *dev->op;
    struct rp_err err = {0};
    wrong.gemm = early_gemm;
    wrong.gelu_backward = early_gelu_backward;
    CHECK(differing(dev, &wrong, RP_OP_gemm, &err) > 0);
    CHECK(differing(dev, &wrong, RP_OP_gelu_backward, &err) > 0 && strstr(err.msg, "tensor 3"), "%s", err.msg);
    rp_backend_cpu.close(dev);
}

TEST(the_product_whose_speed_is_measured_fits_into_any_models_scratch)
{
    const struct rp_device_opts o = {.threads = 2, .numerics = RP_NUMERICS_bf16_tc16_0};
    const struct rp_op_use use = {.op = RP_OP_gemm, .rows = 1, .width = 1, .depth = 1};
    struct rp_err err = {0};
    struct rp_dev *dev = rp_backend_open(&rp_backend_cpu, &o, &use, 1, &err);
    CHECK(dev, "%s", err.msg);
    const struct rp_gemm_shape s = dev->backend->peak_gemm(dev);
    float *x = calloc((size_t)(s.rows + s.width) * (size_t)s.depth + (size_t)s.rows * (size_t)s.width, sizeof *x);
    float *b = x + (size_t)s.rows * (size_t)s.depth, *c = b + (size_t)s.width * (size_t)s.depth;
    x[0] = b[0] = 3.0f;
    dev->op->gemm(dev, &(struct rp_gemm){.tb = 1, .m = s.rows, .n = s.width, .k = s.depth, .a = x, .lda = s.depth,
                                         .b = b, .ldb = s.depth, .c = c, .ldc = s.width});
    CHECK(c[0] == 9.0f && c[1] == 0.0f, "%g, %g", (double)c[0], (double)c[1]);
    free(x);
    rp_backend_cpu.close(dev);
}
