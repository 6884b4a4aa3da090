#include "backend/selftest.h"

#include "ops/op_check.h"

#include <stdio.h>

/* Widths off every vector length and, at 240, off the powers of two that would hide a contraction. */
static const struct rp_op_shape shapes[] = {
    {.rows = 1, .width = 1, .depth = 1, .batch = 1, .seq = 1, .heads = 1, .head_dim = 1, .dropout = 0.1f},
    {.rows = 5, .width = 33, .depth = 77, .batch = 2, .seq = 7, .heads = 2, .head_dim = 5, .in_place = 1, .variant = 3},
    {.rows = 65, .width = 240, .depth = 31, .segment = 8, .batch = 1, .seq = 33, .heads = 2, .head_dim = 64,
     .dropout = 0.1f, .variant = 6},
    {.rows = 130, .width = 77, .depth = 301, .segment = 100, .batch = 1, .seq = 128, .heads = 1, .head_dim = 80,
     .dropout = 0.5f, .in_place = 1, .variant = 13, .shards = 7},
    {.rows = 66, .width = 336, .depth = 129, .batch = 2, .seq = 65, .heads = 2, .head_dim = 96, .dropout = 0.1f,
     .variant = 25,
     .shards = 3},
    {.rows = 70, .width = 96, .depth = 64, .batch = 1, .seq = 200, .heads = 2, .head_dim = 64, .in_place = 1,
     .variant = 56},
    {.rows = 77, .width = 301, .depth = 1023, .batch = 1, .seq = 301, .heads = 1, .head_dim = 64, .dropout = 0.1f,
     .variant = 2},
};

/* Windows with symmetric padding, with all of it after the image, without any; sums over more than RP_CHAIN_MAX terms,
 * in both directions, with and without a stride; rows of more than two groups of RP_CONV_GROUP; windows of one pixel
 * with such rows, without alignment, and with one row more than a group; several images and rows of them in a tile of a
 * GPU, and chains that end within one, with and without a stride. */
static const struct rp_op_shape convs[] = {
#define CONV(n, h, w, c, oh, ow, oc, kh, kw, s, top, left) .conv = {n, h, w, c, oh, ow, oc, kh, kw, s, top, left}
    {CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)},
    {CONV(2, 9, 7, 5, 9, 7, 33, 3, 3, 1, 1, 1), .variant = 2},
    {CONV(1, 11, 10, 16, 6, 5, 20, 3, 3, 2, 1, 1), .variant = 2, .in_place = 1},
    {CONV(2, 8, 8, 12, 4, 4, 48, 3, 3, 2, 0, 0), .variant = 1},
    {CONV(1, 19, 21, 3, 10, 11, 24, 7, 7, 2, 3, 3)},
    {CONV(2, 6, 6, 64, 3, 3, 40, 1, 1, 2, 0, 0), .variant = 2, .in_place = 1},
    {CONV(2, 7, 7, 72, 7, 7, 52, 1, 1, 1, 0, 0)},
    {CONV(1, 3, 2, 520, 3, 2, 12, 3, 3, 1, 1, 1)},
    {CONV(1, 4, 3, 8, 4, 3, 520, 3, 3, 1, 1, 1)},
    {CONV(1, 4, 4, 8, 2, 2, 520, 3, 3, 2, 1, 1), .variant = 2},
    {CONV(5, 45, 45, 4, 45, 45, 8, 1, 3, 1, 0, 1)},
    {CONV(1, 65, 9, 16, 33, 5, 68, 5, 2, 2, 2, 0)},
    {CONV(7, 53, 23, 5, 53, 23, 9, 1, 1, 1, 0, 0)},
    {CONV(17, 241, 1, 132, 241, 1, 68, 1, 1, 1, 0, 0)},
    {CONV(60, 3, 3, 16, 3, 3, 12, 3, 3, 1, 1, 1)},
    {CONV(90, 5, 3, 12, 3, 2, 20, 3, 3, 2, 1, 1)},
};
static const struct rp_op_shape pools[] = {
    {CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)},
    {CONV(2, 11, 8, 33, 6, 4, 33, 3, 3, 2, 1, 1)},
    {CONV(2, 8, 8, 20, 4, 4, 20, 3, 3, 2, 0, 0)},
    {CONV(1, 7, 9, 64, 6, 8, 64, 2, 2, 1, 0, 0)},
    {CONV(3, 12, 13, 1, 4, 5, 1, 3, 3, 3, 0, 1)},
#undef CONV
};

/* Sizes that fit every GEMM kernel of a GPU, in the four forms; with RP_CUDA_GEMM=rotate every kernel is used in every
 * mode, first with rows of C that are aligned, then with others and more segments. */
#define GEMMS 160
static struct rp_op_shape gemm_case(unsigned i)
{
    const unsigned both = i / 8 % 2 * (RP_VARIANT_BIAS | RP_VARIANT_ADD),
                   added = i < GEMMS / 2 ? i % 16 / 4 * RP_VARIANT_BIAS : RP_VARIANT_ODD_C | both;
    return (struct rp_op_shape){.rows = 200, .width = 196, .depth = 40, .segment = i < GEMMS / 2 ? 36 : i % 4 ? 8 : 2,
                                .in_place = i / 16 % 2, .variant = RP_VARIANT_ALIGNED | (i % 4) | added, .seed = i};
}

/* Sizes at which kernels of a GPU take other paths: 15 and 31 rounds of a block, after which most bits of its counter
 * are set, and 12 rows, of which the last round has four. Attention: with RP_CUDA_ATTENTION=rotate each call uses the
 * next kernel for its width of heads (up to 64, up to 96 and more columns), streams also in pieces, and there are as
 * many calls as that takes. */
#define ATTENTION(...) {RP_OP_attention_forward, {__VA_ARGS__}}, {RP_OP_attention_backward, {__VA_ARGS__}}
static const struct {
    enum rp_op op;
    struct rp_op_shape shape;
} special[] = {
    {RP_OP_row_sums, {.rows = 15 * 512, .width = 3, .variant = RP_VARIANT_ONE_GROUP}},
    {RP_OP_row_sums, {.rows = 31 * 512 - 3, .width = 2, .variant = RP_VARIANT_ONE_GROUP}},
    {RP_OP_tree_sum, {.rows = 31, .width = 8192}},
    {RP_OP_tanh_backward, {.rows = 12, .width = 33}},
    ATTENTION(.batch = 1, .seq = 130, .heads = 1, .head_dim = 64, .dropout = 0.1f, .variant = RP_VARIANT_CAUSAL),
    ATTENTION(.batch = 2, .seq = 97, .heads = 1, .head_dim = 48, .variant = RP_VARIANT_KEY_HOLES),
    ATTENTION(.batch = 1, .seq = 145, .heads = 1, .head_dim = 128, .dropout = 0.1f,
              .variant = RP_VARIANT_CAUSAL | RP_VARIANT_DOCUMENTS),
    ATTENTION(.batch = 1, .seq = 128, .heads = 1, .head_dim = 128, .dropout = 0.1f, .variant = RP_VARIANT_CAUSAL),
    ATTENTION(.batch = 2, .seq = 70, .heads = 2, .head_dim = 128, .variant = RP_VARIANT_CAUSAL),
};
#undef ATTENTION

/* Shape number i of an operation; 0: there are fewer. */
static int shape_of(enum rp_op op, int is_gpu, int i, struct rp_op_shape *shape)
{
    enum { SIZES = sizeof shapes / sizeof *shapes, SPECIAL = sizeof special / sizeof *special };
    if (rp_op_is_conv(op)) {
        const int pool = op == RP_OP_maxpool_forward || op == RP_OP_maxpool_backward;
        if (i >= (int)(pool ? sizeof pools / sizeof *pools : sizeof convs / sizeof *convs))
            return 0;
        *shape = pool ? pools[i] : convs[i];
        return 1;
    }
    if (i < SIZES) {
        *shape = shapes[i];
        return 1;
    }
    if (!is_gpu)
        return 0;
    if (op == RP_OP_gemm && i < SIZES + GEMMS) {
        *shape = gemm_case((unsigned)(i - SIZES));
        return 1;
    }
    for (int k = 0, n = SIZES; k < SPECIAL; k++)
        if (special[k].op == op && n++ == i) {
            *shape = special[k].shape;
            return 1;
        }
    return 0;
}

struct rp_dev *rp_ops_selftest_open(const struct rp_backend *b, const struct rp_device_opts *o, struct rp_err *err)
{
    struct rp_op_use use[RP_OP_COUNT * 12 + GEMMS];
    struct rp_op_shape s;
    int n = 0;
    for (int op = 0; op < RP_OP_COUNT; op++)
        for (int i = 0; shape_of((enum rp_op)op, 1, i, &s); i++) {
            RP_BUG_IF(n == (int)(sizeof use / sizeof *use));
            use[n++] = (struct rp_op_use){.op = (enum rp_op)op, .rows = s.rows, .width = s.width, .depth = s.depth,
                                          .segment = s.segment, .batch = s.batch, .seq = s.seq, .heads = s.heads,
                                          .head_dim = s.head_dim, .causal = (s.variant & RP_VARIANT_CAUSAL) != 0,
                                          .conv = s.conv};
        }
    return rp_backend_open(b, o, use, n, err);
}

#define SHAPE_TEXT 96

/* "1x19x21x3, 7x7/2 to 24", "2x65, 2 heads of 96, variant 25", "200x196x40, segment 36, variant 17": the fields that
 * the operation uses. */
static const char *shape_text(char out[SHAPE_TEXT], enum rp_op op, const struct rp_op_shape *s)
{
    char variant[32] = "";
    if (s->variant)
        snprintf(variant, sizeof variant, ", variant %u", s->variant);
    if (rp_op_is_conv(op))
        snprintf(out, SHAPE_TEXT, "%dx%dx%dx%d, %dx%d/%d to %d%s", s->conv.batch, s->conv.in_h, s->conv.in_w,
                 s->conv.in_c, s->conv.kernel_h, s->conv.kernel_w, s->conv.stride, s->conv.out_c, variant);
    else if (op == RP_OP_attention_forward || op == RP_OP_attention_backward)
        snprintf(out, SHAPE_TEXT, "%dx%d, %d heads of %d%s", s->batch, s->seq, s->heads, s->head_dim, variant);
    else if (op == RP_OP_gemm)
        snprintf(out, SHAPE_TEXT, "%dx%dx%d, segment %d%s", s->rows, s->width, s->depth, s->segment, variant);
    else
        snprintf(out, SHAPE_TEXT, "%dx%d%s", s->rows, s->width, variant);
    return out;
}

/* One operation on one device. */
struct outcome {
    int failed;
    struct rp_err difference; /* the first one */
};

static void add_row(const struct rp_tested *t, enum rp_op op, int cases, const struct outcome *o,
                    const struct rp_case_watch *progress)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:i}", "op", rp_op_info[op].name, "isa", t->isa, "numerics",
                            rp_numerics_name(t->dev->numerics), "cases", cases, "failed", o->failed);
    if (o->failed)
        json_object_set_new(row, "difference", json_string(o->difference.msg));
    json_array_append_new(t->report, row);
    rp_case_watch_done(progress, row);
}

/* 1: the device failed, and nothing more can be compared. */
static int note_case(struct rp_tested *t, struct outcome *o, struct rp_err *e, int number, const char *shape)
{
    const int mixed = rp_is_mixed(t->dev->numerics), is_over = e->code != RP_MISMATCH;
    rp_wrap(e, "%s%s%s, case %d (%s)", mixed ? rp_numerics_name(t->dev->numerics) : "", mixed ? ", " : "", t->isa,
            number, shape);
    if (t->err.code == RP_OK || is_over)
        t->err = *e;
    if (!is_over && o->failed++ == 0)
        o->difference = *e;
    return is_over;
}

/* One operation in all shapes; -1: a device failed. The rows have the cases that were compared; that of a device is
 * left out if one failed before this one differed in any of them. */
static int test_op(struct rp_tested *t, int n, enum rp_op op, const struct rp_case_watch *progress)
{
    const struct rp_backend *b = t->dev->backend;
    const struct rp_op_memory memory = {b->shared, b->free_shared, b->sync};
    struct outcome outcome[RP_OP_DEVICES] = {0};
    struct rp_dev *dev[RP_OP_DEVICES];
    struct rp_op_shape shape;
    int cases = 0, is_over = 0;
    for (int i = 0; i < n; i++)
        dev[i] = t[i].dev;
    while (!is_over && shape_of(op, b->shared != NULL, cases, &shape)) {
        struct rp_err e[RP_OP_DEVICES];
        char text[SHAPE_TEXT];
        rp_case_watch_begin(progress, rp_op_info[op].name, cases + 1, shape_text(text, op, &shape));
        const int failed = rp_ops_compare_all(b->shared ? &memory : NULL, dev, n, op, &shape, e);
        for (int i = 0; failed && i < n; i++)
            is_over |= e[i].code != RP_OK && note_case(&t[i], &outcome[i], &e[i], cases + 1, text);
        cases += !is_over;
    }
    for (int i = 0; i < n; i++)
        if (!is_over || outcome[i].failed)
            add_row(&t[i], op, cases, &outcome[i], progress);
    return is_over ? -1 : 0;
}

int rp_ops_selftest_devices(struct rp_tested *t, int n, const struct rp_case_watch *progress)
{
    int failed = 0;
    for (int op = 0; op < RP_OP_COUNT; op++)
        if (test_op(t, n, (enum rp_op)op, progress) < 0)
            break;
    for (int i = 0; i < n; i++)
        failed += t[i].err.code != RP_OK;
    return failed;
}

int rp_ops_selftest_device(struct rp_dev *dev, const char *isa, const struct rp_case_watch *progress, json_t *report,
                           struct rp_err *err)
{
    struct rp_tested t = {.dev = dev, .isa = isa, .report = report};
    if (rp_ops_selftest_devices(&t, 1, progress) == 0)
        return 0;
    *err = t.err;
    return -1;
}
