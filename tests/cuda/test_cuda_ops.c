/* Every operation of the CUDA backend, its kernels executed by the shim, against the literal definition: bit for bit,
 * for awkward sizes and every order of threads. OPS="gemm add" limits it to some. Attention has a test of its own, so
 * one of its sixteen variants will do here, and half of those of convolutions; LONG=1: all.
 * shims: 800 700 */
#include "ops/op_check.h"
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const float dropouts[] = {0.0f, 0.1f, 0.5f};

static int wanted(int op)
{
    const char *list = getenv("OPS"), *name = rp_op_info[op].name, *at = list;
    size_t n = strlen(name);
    while (list && *list && (at = strstr(at, name)) != NULL) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return 1;
        at++;
    }
    return !list || !*list;
}

static struct rp_dev *open_gpu(struct shim_options **shim)
{
    setenv("RP_CUDA_GRAPHS", "0", 0);  /* results are looked at without a sync */
    setenv("SHIM_L2", "196608", 0); /* layernorm_backward goes over its rows in several parts */
    return gpu_here(shim);
}

/* At most a few messages per operation; the rest is counted. */
static void compare(int op, const struct rp_op_shape *s, unsigned mix, int *failed)
{
    struct shim_options *shim;
    struct rp_err e = {0};
    struct rp_dev *dev = open_gpu(&shim);
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix >> 1 & 1;
    shim->ahead = mix >> 2 & 1;
    shim->resident = 1 + (int)(mix % 5);
    shim->seed = mix;
    if ((rp_ops_compare(NULL, dev->op, dev, (enum rp_op)op, s, &e) == 0 && dev->backend->sync(dev, &e) == 0) ||
        ++*failed > 3)
        return;
    CHECK(0,
          "order %d%s%s, %d resident, rows %d width %d depth %d segment %d, batch %d seq %d heads %d dim %d, dropout "
          "%g, variant %u, offset %d%s%s, conv %dx%dx%dx%d: %s",
          (int)shim->order, shim->late ? ", late copies" : "", shim->ahead ? ", warps ahead" : "", shim->resident,
          s->rows, s->width, s->depth, s->segment, s->batch, s->seq, s->heads, s->head_dim, (double)s->dropout,
          s->variant, s->offset,
          s->small == 2 ? ", all -0"
          : s->small    ? ", small values"
                        : "",
          s->in_place ? ", in place" : "", s->conv.batch, s->conv.in_h, s->conv.in_w, s->conv.in_c, e.msg);
}

static struct rp_op_shape shape_of(int rows, int width, unsigned mix)
{
    return (struct rp_op_shape){.rows = rows, .width = width, .depth = 1 + (int)(mix * 37 % 90),
                                .segment = mix % 3 ? 16 : 0, .dropout = dropouts[mix % 3], .in_place = mix >> 1 & 1,
                                .variant = mix, .offset = mix % 5 == 3, .small = mix % 4 == 1 ? 1 + (mix % 8 == 5) : 0,
                                .batch = 1 + (int)(mix % 3), .seed = mix};
}

static void rows_of(int op, int *cases, int *failed)
{
    static const int widths[] = {1, 31, 33, 77, 240, 768, 1023}, row_counts[] = {1, 31, 64, 65, 130};
    for (int r = 0; r < COUNT(row_counts); r++)
        for (int w = 0; w < COUNT(widths); w++) {
            unsigned mix = (unsigned)(r + 3 * w + 7 * op);
            struct rp_op_shape s = shape_of(row_counts[r], widths[w], mix);
            if (!gpu_turn(open_gpu(NULL), (unsigned)(r + w)))
                continue;
            if (op == RP_OP_softmax_xent && row_counts[r] > 31) /* rows are alike, and each takes a thousand threads */
                continue;
            ++*cases;
            compare(op, &s, mix, failed);
        }
}

/* Sizes at which kernels take another way: rows in registers or not, trees of several rounds, groups that one warp adds
 * up or a block, the last word of a digest. For whole tensors rows * width counts. */
static void sizes_of(int op, int *cases, int *failed)
{
    static const struct {
        int op, rows, width;
        unsigned variant;
    } sizes[] = {
        {RP_OP_layernorm_forward, 5, 1024, 0}, {RP_OP_layernorm_forward, 5, 1028, 0},
        {RP_OP_layernorm_forward, 3, 2500, 0}, {RP_OP_layernorm_forward, 3, 1400, 0},
        {RP_OP_residual_layernorm_forward, 9, 1024, 1}, {RP_OP_residual_layernorm_forward, 9, 1300, 1},
        {RP_OP_residual_layernorm_forward, 3, 2501, 2}, {RP_OP_residual_layernorm_forward, 5, 1536, 1},
        {RP_OP_residual_layernorm_forward, 3, 1400, 0},
        {RP_OP_layernorm_backward, 330, 240, 3}, {RP_OP_layernorm_backward, 330, 240, 1},
        {RP_OP_layernorm_backward, 700, 1028, 4}, {RP_OP_layernorm_backward, 260, 241, 5},
        {RP_OP_layernorm_backward, 330, 240, 16}, {RP_OP_layernorm_backward, 330, 240, 17 + 32},
        {RP_OP_layernorm_backward, 260, 241, 17}, {RP_OP_layernorm_apply, 3, 1536, 0}, {RP_OP_bias_add, 3, 1537, 0},
        {RP_OP_copy_columns, 40, 1024, 16}, {RP_OP_copy_columns, 9, 301, 0}, {RP_OP_gelu_tanh_forward, 600, 1021, 1},
        {RP_OP_gelu_tanh_backward, 4097, 20, 3}, {RP_OP_colsum, 8325, 33, 0}, {RP_OP_colsum, 64 * 520 + 1, 3, 1},
        {RP_OP_colsum, 64 * 512, 9, 1},
        {RP_OP_colsum, 64 * 256 * 31, 1, 0},
        {RP_OP_gelu_backward, 4097, 20, 3},
        {RP_OP_tanh_backward, 2112, 41, 1},
        {RP_OP_row_sums, 5000, 24, 1}, {RP_OP_row_sums, 5001, 23, 3}, {RP_OP_row_sums, 4096, 16, 1},
        {RP_OP_row_sums, 5000, 20, 2}, {RP_OP_row_sums, 40000, 2, 0}, {RP_OP_row_sums, 3000, 252, 4},
        {RP_OP_row_sums, 3000, 250, 6},
        {RP_OP_softmax_xent, 1, 4096, 0}, {RP_OP_softmax_xent, 2, 30522, 1}, {RP_OP_softmax_xent, 1, 32768, 0},
        {RP_OP_softmax_xent, 2, 33000, 0}, {RP_OP_softmax_xent, 1, 41000, 0}, {RP_OP_softmax_xent, 1, 50304, 1},
        {RP_OP_softmax_xent, 1, 50304, 2}, {RP_OP_softmax_xent, 1, 50304, 8}, {RP_OP_softmax_xent, 2, 231, 7},
        {RP_OP_softmax_xent, 2, 1023, 93}, {RP_OP_softmax_xent, 1, 256, 128}, {RP_OP_softmax_xent, 3, 127, 127},
        {RP_OP_softmax_xent, 1, 50257, 1}, {RP_OP_softmax_xent, 1, 70000, 1},
        {RP_OP_weighted_sum, 3, 2048, 1},
        {RP_OP_softmax_xent_smoothed, 3, 1000, 0}, {RP_OP_softmax_xent_smoothed, 2, 1001, 0},
        {RP_OP_argmax_rows, 9, 1000, 0}, {RP_OP_argmax_rows, 9, 1001, 1}, {RP_OP_avgpool_forward, 49, 96, 0},
        {RP_OP_avgpool_forward, 300, 33, 0}, {RP_OP_avgpool_backward, 49, 96, 0}, {RP_OP_scale_pixels, 300, 331, 0},
        {RP_OP_scale_pixels, 300, 331, 1}, {RP_OP_batchnorm_forward, 64 * 520 + 1, 3, 0},
        {RP_OP_batchnorm_forward, 64 * 256 * 31, 1, 0}, {RP_OP_batchnorm_forward, 8325, 33, 3},
        {RP_OP_batchnorm_forward, 2112, 64, 1}, {RP_OP_batchnorm_backward, 8325, 33, 3},
        {RP_OP_batchnorm_backward, 2112, 64, 1}, {RP_OP_batchnorm_apply, 600, 1021, 3},
        {RP_OP_batchnorm_backward, 600, 260, 2}, {RP_OP_sgd_update, 600, 1021, 3}, {RP_OP_lars_update, 600, 1021, 7},
        {RP_OP_running_update, 600, 1021, 0},
        {RP_OP_add, 600, 1021, 0},
        {RP_OP_fill, 600, 1021, 1},
        {RP_OP_gelu_forward, 600, 1021, 1},
        {RP_OP_adam_update, 600, 1021, 3},
        {RP_OP_square_sums, 33, 4096, 0}, {RP_OP_square_sums, 33, 4095, 1}, {RP_OP_tree_sum, 300, 1023, 0},
        {RP_OP_tree_sum, 8, 8192, 1}, {RP_OP_tree_sum, 1, 8193, 1}, {RP_OP_tree_sum, 511, 8192, 0},
        {RP_OP_row_sums, 511 * 512 - 3, 1, 1}, {RP_OP_init_normal, 600, 1021, 0}, {RP_OP_init_normal, 600, 1021, 1},
        {RP_OP_perturb, 600, 1021, 0}, {RP_OP_perturb, 600, 1021, 1}, {RP_OP_digest_leaves, 1, 4096, 0},
        {RP_OP_digest_leaves, 1, 4096 + 12, 1}, {RP_OP_digest_leaves, 1, 4096 + 13, 0},
        {RP_OP_digest_leaves, 1, 4096 + 14, 1}, {RP_OP_digest_leaves, 1, 4096 + 15, 0},
        {RP_OP_digest_leaves, 1, 4096 + 16, 1}, {RP_OP_digest_leaves, 34, 4097, 1},
        {RP_OP_find_nonfinite, 600, 1021, 1}, {RP_OP_find_nonfinite, 600, 1021, 0},
    };
    for (int i = 0; i < COUNT(sizes); i++) {
        if (sizes[i].op != op)
            continue;
        struct rp_op_shape s = shape_of(sizes[i].rows, sizes[i].width, (unsigned)i);
        s.variant = sizes[i].variant;
        s.dropout = s.variant & 1 ? 0.1f : 0.0f;
        s.shards = op == RP_OP_softmax_xent && sizes[i].width % (int)(s.variant + !s.variant) == 0 ? (int)s.variant : 0;
        for (s.offset = 0; s.offset < 2; s.offset++)
            if (gpu_turn(open_gpu(NULL), (unsigned)(i + s.offset))) {
                ++*cases;
                compare(op, &s, (unsigned)(i + s.offset), failed);
            }
    }
}

/* Windows of every form, as in backend/selftest.c, and: a stride of 3, windows larger than the image, images without a
 * row of their own before the next, channels that are many tiles or less than a vector; sums in segments, in place as
 * well; groups of rows. */
static const struct rp_conv convs[] = {
#define CONV(n, h, w, c, oh, ow, oc, kh, kw, s, top, left) {n, h, w, c, oh, ow, oc, kh, kw, s, top, left}
    CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),       CONV(3, 5, 6, 3, 5, 6, 7, 3, 3, 1, 1, 1),
    CONV(2, 13, 9, 8, 7, 5, 12, 3, 3, 2, 1, 1),     CONV(2, 12, 10, 4, 6, 5, 20, 3, 3, 2, 0, 0),
    CONV(1, 31, 29, 3, 16, 15, 64, 7, 7, 2, 3, 3),  CONV(2, 9, 8, 16, 5, 4, 36, 1, 1, 2, 0, 0),
    CONV(2, 8, 9, 68, 8, 9, 132, 1, 1, 1, 0, 0),    CONV(1, 2, 2, 12, 2, 2, 5, 5, 5, 1, 2, 2),
    CONV(2, 10, 11, 5, 4, 4, 9, 4, 2, 3, 1, 0),     CONV(1, 7, 7, 460, 7, 7, 8, 3, 3, 1, 1, 1),
    CONV(1, 7, 6, 12, 7, 6, 461, 3, 3, 1, 1, 1),    CONV(1, 6, 7, 12, 3, 4, 700, 3, 3, 2, 1, 1),
    CONV(3, 40, 41, 8, 40, 41, 16, 3, 3, 1, 1, 1),  CONV(1, 92, 91, 3, 46, 46, 68, 3, 3, 2, 0, 1),
    CONV(1, 16, 15, 64, 16, 15, 200, 3, 3, 1, 1, 1), CONV(1, 3, 3, 4100, 3, 3, 72, 1, 1, 1, 0, 0),
    CONV(1, 3, 3, 72, 3, 3, 4100, 1, 1, 1, 0, 0),
};
static const struct rp_conv pools[] = {
    CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),       CONV(2, 15, 14, 64, 8, 7, 64, 3, 3, 2, 1, 1),
    CONV(2, 8, 10, 7, 4, 5, 7, 3, 3, 2, 0, 0),      CONV(1, 9, 9, 36, 8, 8, 36, 2, 2, 1, 0, 0),
    CONV(3, 14, 13, 2, 5, 5, 2, 3, 3, 3, 1, 1),     CONV(2, 7, 9, 132, 4, 3, 132, 2, 3, 2, 0, 0),
#undef CONV
};

/* Weight gradients of 17, 113, 114 and 129 groups of rows: the last has a tree of its own. */
static const struct rp_conv long_convs[] = {
    {1, 680, 681, 1, 680, 681, 3, 1, 1, 1, 0, 0},
    {2, 362, 363, 4, 181, 182, 4, 3, 3, 2, 1, 1},
    {2, 480, 481, 1, 480, 481, 4, 1, 1, 1, 0, 0},
    {1, 725, 726, 1, 725, 726, 2, 1, 1, 1, 0, 0},
};

/* Each by the tile that is chosen, and by every other one that can compute it. */
static void convs_of(int op, int *cases, int *failed)
{
    struct rp_cuda *c = rp_cuda_of(open_gpu(NULL));
    const int pool = op == RP_OP_maxpool_forward || op == RP_OP_maxpool_backward;
    const int with_tiles = !pool && (op != RP_OP_conv_wgrad || tap_long()); /* test_cuda_conv.c: those of weights */
    for (int i = 0; i < (pool ? COUNT(pools) : COUNT(convs)); i++)
        for (unsigned k = tap_long() ? 0 : i & 1; k < 4; k += tap_long() ? 1 : 2) {
            if (!gpu_turn(open_gpu(NULL), k / 2 + (unsigned)i / 2))
                continue;
            ++*cases;
            struct rp_op_shape s = {.conv = pool ? pools[i] : convs[i], .variant = k, .in_place = k == 2,
                                    .offset = k == 3, .small = k == 1 ? 1 + i % 2 : 0, .seed = k + 1};
            compare(op, &s, k + 5 * (unsigned)i, failed);
        }
    for (int i = 0; op == RP_OP_conv_wgrad && i < COUNT(long_convs); i++) {
        if (!gpu_turn(open_gpu(NULL), (unsigned)i))
            continue;
        ++*cases;
        struct rp_op_shape s = {.conv = long_convs[i], .seed = 3};
        compare(op, &s, 3 + (unsigned)i, failed);
    }
    for (int tile = 1, usable; with_tiles && rp_cuda_conv_tile(c, tile, &usable); tile++)
        for (int i = 1; i < COUNT(convs) && usable &&
                        strncmp(rp_cuda_conv_tile(c, tile, &usable), rp_op_info[op].name + 5, 5) == 0;
             i++) {
            if (!gpu_turn(open_gpu(NULL), (unsigned)(i + tile)))
                continue;
            ++*cases;
            struct rp_op_shape s = {.conv = convs[i], .variant = (unsigned)i, .in_place = i & 1, .seed = 9};
            c->conv_forced = tile;
            compare(op, &s, 3 * (unsigned)(i + tile), failed);
            c->conv_forced = 0;
        }
}

static void attention_of(int op, int *cases, int *failed)
{
    static const struct {
        int batch, seq, heads, dim;
    } sizes[] = {{2, 1, 2, 64},   {3, 7, 1, 5},     {2, 33, 3, 64},  {1, 128, 2, 64}, {2, 64, 1, 80},
                 {1, 200, 1, 64}, {9, 17, 3, 16},   {1, 512, 1, 64}, {1, 301, 1, 33}, {1, 40, 1, 130},
                 {1, 70, 2, 96},  {1, 130, 1, 128}, {1, 2177, 1, 8}};
    for (int i = 0; i < COUNT(sizes); i++) {
        const int is_large = sizes[i].seq > 150;
        const unsigned step = tap_long() ? (is_large ? 5 : 1) : (is_large ? 16 : 8);
        for (unsigned variant = tap_long() ? 0 : i % 8; variant < 16; variant += step) {
            if (!gpu_turn(open_gpu(NULL), (unsigned)i + variant / 8))
                continue;
            struct rp_op_shape s = {.batch = sizes[i].batch, .seq = sizes[i].seq, .heads = sizes[i].heads,
                                    .head_dim = sizes[i].dim, .dropout = dropouts[(variant + (unsigned)i) % 3],
                                    .variant = variant, .seed = variant};
            ++*cases;
            compare(op, &s, variant + (unsigned)i, failed);
        }
    }
}

TEST(every_operation_has_the_bits_of_the_reference)
{
    for (int op = 0; op < RP_OP_COUNT; op++) {
        struct timespec a, b;
        int cases = 0, failed = 0;
        if (!wanted(op))
            continue;
        clock_gettime(CLOCK_MONOTONIC, &a);
        if (op == RP_OP_attention_forward || op == RP_OP_attention_backward)
            attention_of(op, &cases, &failed);
        else if (rp_op_is_conv((enum rp_op)op))
            convs_of(op, &cases, &failed);
        else
            rows_of(op, &cases, &failed);
        sizes_of(op, &cases, &failed);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("# %s: %d cases, %d differ, %.1f s\n", rp_op_info[op].name, cases, failed,
               (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    }
}
