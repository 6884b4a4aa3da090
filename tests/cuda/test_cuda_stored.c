/* Operations on stored tensors of 16 bits on the GPU, fp16 and bf16, against the literal definition: bit for bit, for
 * awkward sizes and some orders of threads. Products have a test of their own (test_cuda_gemm16.c), and so have more
 * shapes of attention and convolutions. OPS="colsum add_stored" limits it to some operations, STORED=80 to one
 * capability.
 * shims: 800 700 checked ptx */
#include "tests/cuda/families.h"

#include "ops/op_check.h"

/* Whether it has a kernel for stored tensors, or is another in mixed precision: its last argument is a scale of the
 * loss. */
static int is_compared(int op)
{
    static const char *const others[] = {"square_sums", "copy_columns"};
    const char *name = rp_op_info[op].name, *list = getenv("OPS"), *at = list;
    const size_t n = strlen(name);
    while (list && *list && (at = strstr(at, name)) && !((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])))
        at++;
    if ((list && *list && !at) || op == RP_OP_gemm)
        return 0;
    for (int i = 0; i < COUNT(others); i++)
        if (strcmp(name, others[i]) == 0)
            return 1;
    return rp_op_is_stored((enum rp_op)op);
}

static void compare(int op, const struct rp_op_shape *s, int *failed)
{
    const struct rp_op_memory memory = {dev->backend->shared, dev->backend->free_shared, dev->backend->sync};
    struct rp_err e = {0};
    next_order();
    if (rp_ops_compare(&memory, dev->op, dev, (enum rp_op)op, s, &e) == 0 || ++*failed > 3)
        return;
    CHECK(0,
          "%s, order %d, rows %d width %d, batch %d, dropout %g, variant %u, shards %d, offset %d, small %d, in place "
          "%d: %s",
          rp_numerics_name(dev->numerics), (int)shim->order, s->rows, s->width, s->batch, (double)s->dropout,
          s->variant, s->shards, s->offset, s->small, s->in_place, e.msg);
}

static const struct rp_op_shape shapes[] = {
    {.rows = 1, .width = 1, .batch = 1, .seq = 1, .heads = 1, .head_dim = 1, .dropout = 0.1f},
    {.rows = 5, .width = 33, .batch = 2, .seq = 7, .heads = 2, .head_dim = 5, .in_place = 1, .variant = 3, .small = 1},
    {.rows = 65, .width = 240, .batch = 1, .dropout = 0.1f, .variant = 6, .seed = 1},
    {.rows = 130, .width = 77, .batch = 1, .dropout = 0.5f, .in_place = 1, .variant = 13, .shards = 7, .seed = 3},
    {.rows = 66, .width = 336, .batch = 2, .dropout = 0.1f, .variant = 25, .shards = 3, .offset = 1, .seed = 2},
    {.rows = 70, .width = 96, .batch = 1, .in_place = 1, .variant = 56, .seed = 5},
};
static const struct rp_conv pools[] = {
    {2, 11, 8, 33, 6, 4, 33, 3, 3, 2, 1, 1},
    {2, 8, 8, 20, 4, 4, 20, 3, 3, 2, 0, 0},
    {3, 12, 13, 1, 4, 5, 1, 3, 3, 3, 0, 1},
};
/* Sizes at which kernels take other paths, as in test_cuda_ops.c. */
static const struct {
    enum rp_op op;
    struct rp_op_shape shape;
} special[] = {
    {RP_OP_layernorm_forward, {.rows = 3, .width = 1024}},
    {RP_OP_layernorm_forward, {.rows = 3, .width = 1400}},
    {RP_OP_residual_layernorm_forward,
     {.rows = 5, .width = 768, .dropout = 0.1f, .variant = RP_VARIANT_KEEP_SUM, .in_place = 1}},
    {RP_OP_residual_layernorm_forward,
     {.rows = 3, .width = 1301, .dropout = 0.1f, .variant = RP_VARIANT_KEEP_SUM, .small = 1}},
    {RP_OP_layernorm_backward,
     {.rows = 330, .width = 132, .dropout = 0.1f, .variant = RP_VARIANT_ADD_GRADIENT | RP_VARIANT_ADD_OVER}},
    {RP_OP_layernorm_backward, {.rows = 130, .width = 131, .variant = RP_VARIANT_NO_DX | RP_VARIANT_NO_DROP}},
    {RP_OP_row_sums, {.rows = 1030, .width = 20, .variant = RP_VARIANT_ONE_GROUP}},
    {RP_OP_row_sums, {.rows = 300, .width = 21, .variant = RP_VARIANT_ADD_ROWS | RP_VARIANT_SINGLES}},
    {RP_OP_softmax_xent, {.rows = 1, .width = 33000}},
    {RP_OP_softmax_xent, {.rows = 1, .width = 4096, .shards = 8, .small = 1}},
    {RP_OP_colsum, {.rows = 8325, .width = 3}},
    {RP_OP_batchnorm_backward, {.rows = 2112, .width = 16, .variant = RP_VARIANT_RELU | RP_VARIANT_ADD_INPUT}},
    {RP_OP_batchnorm_apply,
     {.rows = 60, .width = 64, .variant = RP_VARIANT_RELU | RP_VARIANT_ADD_INPUT | RP_VARIANT_OVER_ADDED}},
    {RP_OP_square_sums, {.rows = 5, .width = 4096}},
    {RP_OP_round_stored, {.rows = 60, .width = 101, .variant = 1}},
    {RP_OP_round_stored, {.rows = 60, .width = 100, .small = 1, .in_place = 1}},
    {RP_OP_add_stored, {.rows = 60, .width = 101, .small = 1}},
    {RP_OP_find_nonfinite_stored, {.rows = 60, .width = 101, .variant = RP_VARIANT_NONFINITE, .offset = 1}},
    {RP_OP_gelu_forward, {.rows = 1, .width = 4099, .small = 1}},
    /* with LONG=1, from here on: */
    {RP_OP_softmax_xent, {.rows = 1, .width = 4096}},
    {RP_OP_softmax_xent, {.rows = 1, .width = 50257}},
    {RP_OP_softmax_xent, {.rows = 2, .width = 41000, .offset = 1}},
    {RP_OP_softmax_xent, {.rows = 1, .width = 50304, .shards = 2}},
    {RP_OP_softmax_xent, {.rows = 2, .width = 1023, .shards = 93}},
    {RP_OP_softmax_xent, {.rows = 3, .width = 127, .shards = 127}},
    {RP_OP_softmax_xent_smoothed, {.rows = 2, .width = 1001}},
    {RP_OP_layernorm_forward, {.rows = 3, .width = 2500}},
    {RP_OP_layernorm_backward, {.rows = 700, .width = 1028, .variant = RP_VARIANT_NO_DROP}},
    {RP_OP_layernorm_backward, {.rows = 260, .width = 241}},
    {RP_OP_row_sums, {.rows = 5001, .width = 23, .variant = 3}},
    {RP_OP_row_sums, {.rows = 3000, .width = 252, .variant = 4}},
    {RP_OP_row_sums, {.rows = 40000, .width = 2}},
    {RP_OP_find_nonfinite_stored, {.rows = 600, .width = 1021, .variant = 1}},
    {RP_OP_find_nonfinite_stored, {.rows = 600, .width = 1021}},
    {RP_OP_round_stored, {.rows = 600, .width = 1021, .offset = 1}},
};
#define LONG_ONES 16 /* the last of these */

static int is_attention(int op)
{
    return op == RP_OP_attention_forward || op == RP_OP_attention_backward;
}

static void compare_operation(int op)
{
    int failed = 0;
    if (rp_op_is_conv((enum rp_op)op))
        for (int i = 0; i < COUNT(pools); i++)
            compare(op, &(struct rp_op_shape){.conv = pools[i], .offset = i == 2, .seed = (uint64_t)i}, &failed);
    else
        for (int i = 0; i < (is_attention(op) ? 2 : COUNT(shapes)); i++) {
            struct rp_op_shape s = shapes[i];
            if (op == RP_OP_softmax_xent && s.rows > 5) /* each row takes a thousand threads */
                s.rows = 5;
            compare(op, &s, &failed);
        }
    for (int i = 0; i < COUNT(special) - (tap_long() ? 0 : LONG_ONES); i++)
        if (special[i].op == (enum rp_op)op)
            compare(op, &special[i].shape, &failed);
    CHECK(failed == 0, "%s: %d cases differ", rp_op_info[op].name, failed);
}

/* Families differ in the sums of products alone: one of each format is enough, unless the environment names another. */
static void compare_all(int is_short)
{
    const int capability = rp_cuda_of(dev)->gpu.capability;
    (void)is_short;
    if (!getenv("STORED") && (capability == 75 || capability == 90))
        return;
    for (int op = 0; op < RP_OP_COUNT; op++)
        if (is_compared(op))
            compare_operation(op);
}

TEST(every_operation_on_stored_tensors_has_the_bits_of_the_reference)
{
    setenv("SHIM_L2", "65536", 0); /* layernorm_backward goes over its rows in several parts */
    setenv("RP_CUDA_GRAPHS", "1", 0);
    compare_families("STORED", compare_all);
}
