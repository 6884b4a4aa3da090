/* Operations on stored tensors of 16 bits on the GPU, fp16 and bf16, against the literal definition: bit for bit, for awkward sizes and some
 * orders of threads. Products have a test of their own (test_cuda_gemm16.c), and so have more shapes of attention and convolutions.
 * OPS="colsum add_stored" limits it to some operations, STORED=80 to one capability.
 * shims: 800 700 checked ptx */
#define RP_STORED_TYPE float
#include "ops/op_check.h"
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static struct rp_dev *dev;
static struct shim_options *shim;
static unsigned cases;

/* Whether it has a kernel for stored tensors, or is another in mixed precision: its last argument is a scale of the loss. */
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

static void compare(int op, const struct rp_op_shape *s, unsigned mix, int *failed)
{
    const struct rp_op_memory memory = {dev->backend->shared, dev->backend->free_shared, dev->backend->sync};
    struct rp_err e = {0};
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix >> 1 & 1;
    shim->ahead = mix >> 2 & 1;
    shim->resident = 1 + (int)(mix % 5);
    shim->seed = mix;
    cases++;
    if (rp_ops_compare(&memory, dev->op, dev, (enum rp_op)op, s, &e) == 0 || ++*failed > 3)
        return;
    CHECK(0, "%s, order %d, rows %d width %d, batch %d, dropout %g, variant %u, shards %d, offset %d, small %d, in place %d: %s",
          rp_numerics_name(dev->numerics), (int)shim->order, s->rows, s->width, s->batch, (double)s->dropout, s->variant, s->shards,
          s->offset, s->small, s->in_place, e.msg);
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
    {2, 11, 8, 33, 6, 4, 33, 3, 3, 2, 1, 1}, {2, 8, 8, 20, 4, 4, 20, 3, 3, 2, 0, 0}, {3, 12, 13, 1, 4, 5, 1, 3, 3, 3, 0, 1},
};
/* Sizes at which kernels take other paths, as in test_cuda_ops.c. */
static const struct {
    enum rp_op op;
    struct rp_op_shape shape;
} special[] = {
    {RP_OP_layernorm_forward, {.rows = 3, .width = 1024}},
    {RP_OP_layernorm_forward, {.rows = 3, .width = 1400}},
    {RP_OP_residual_layernorm_forward, {.rows = 5, .width = 768, .dropout = 0.1f, .variant = RP_VARIANT_KEEP_SUM, .in_place = 1}},
    {RP_OP_residual_layernorm_forward, {.rows = 3, .width = 1301, .dropout = 0.1f, .variant = RP_VARIANT_KEEP_SUM, .small = 1}},
    {RP_OP_layernorm_backward, {.rows = 330, .width = 132, .dropout = 0.1f, .variant = RP_VARIANT_ADD_GRADIENT | RP_VARIANT_ADD_OVER}},
    {RP_OP_layernorm_backward, {.rows = 130, .width = 131, .variant = RP_VARIANT_NO_DX | RP_VARIANT_NO_DROP}},
    {RP_OP_row_sums, {.rows = 1030, .width = 20, .variant = RP_VARIANT_ONE_GROUP}},
    {RP_OP_row_sums, {.rows = 300, .width = 21, .variant = RP_VARIANT_ADD_ROWS | RP_VARIANT_SINGLES}},
    {RP_OP_softmax_xent, {.rows = 1, .width = 33000}},
    {RP_OP_softmax_xent, {.rows = 1, .width = 4096, .shards = 8, .small = 1}},
    {RP_OP_colsum, {.rows = 8325, .width = 3}},
    {RP_OP_batchnorm_backward, {.rows = 2112, .width = 16, .variant = RP_VARIANT_RELU | RP_VARIANT_ADD_INPUT}},
    {RP_OP_batchnorm_apply, {.rows = 60, .width = 64, .variant = RP_VARIANT_RELU | RP_VARIANT_ADD_INPUT | RP_VARIANT_OVER_ADDED}},
    {RP_OP_square_sums, {.rows = 5, .width = 4096}},
    {RP_OP_round_stored, {.rows = 60, .width = 101, .variant = 1}},
    {RP_OP_round_stored, {.rows = 60, .width = 100, .small = 1, .in_place = 1}},
    {RP_OP_add_stored, {.rows = 60, .width = 101, .small = 1}},
    {RP_OP_find_nonfinite_stored, {.rows = 60, .width = 101, .variant = RP_VARIANT_NONFINITE, .offset = 1}},
    {RP_OP_gelu_forward, {.rows = 1, .width = 4099, .small = 1}},
};

static int is_attention(int op)
{
    return op == RP_OP_attention_forward || op == RP_OP_attention_backward;
}

static void compare_operation(int op)
{
    const unsigned start = (unsigned)op * 7;
    int failed = 0;
    if (rp_op_is_conv((enum rp_op)op))
        for (int i = 0; i < COUNT(pools); i++)
            compare(op, &(struct rp_op_shape){.conv = pools[i], .offset = i == 2, .seed = (uint64_t)i}, start + (unsigned)i, &failed);
    else
        for (int i = 0; i < (is_attention(op) ? 2 : COUNT(shapes)); i++) {
            struct rp_op_shape s = shapes[i];
            if (op == RP_OP_softmax_xent && s.rows > 5) /* each row takes a thousand threads */
                s.rows = 5;
            compare(op, &s, start + (unsigned)i, &failed);
        }
    for (int i = 0; i < COUNT(special); i++)
        if (special[i].op == (enum rp_op)op)
            compare(op, &special[i].shape, start + (unsigned)i, &failed);
    CHECK(failed == 0, "%s: %d cases differ", rp_op_info[op].name, failed);
}

/* In a process of its own: a device is opened once. ptx: the directory of its code, where the library executes PTX. */
static void compare_all(int capability, enum rp_numerics numerics, const char *ptx)
{
    char number[8];
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        snprintf(number, sizeof number, "%d", capability);
        setenv("SHIM_CAPABILITY", number, 1);
        if (ptx)
            setenv("PTX_DIR", ptx, 1);
        setenv("SHIM_L2", "65536", 0);    /* layernorm_backward goes over its rows in several parts */
        dev = gpu_here(&shim);
        dev->numerics = numerics;
        dev->stored_bytes = sizeof(uint16_t);
        for (int op = 0; op < RP_OP_COUNT; op++)
            if (is_compared(op))
                compare_operation(op);
        printf("# %s on %d: %u cases\n", rp_numerics_name(numerics), capability, cases);
        fflush(NULL);
        _exit(tap_failures != 0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "%s on %d: status %#x", rp_numerics_name(numerics), capability, status);
}

TEST(every_operation_on_stored_tensors_has_the_bits_of_the_reference)
{
    static const int all[] = {70, 80, 130}; /* 130: of a GPU that gets PTX */
    const char *library = getenv("RP_SHIM_LIBRARY"), *build = getenv("BUILD"), *only = getenv("STORED");
    const int named[] = {only ? atoi(only) : 0}, *capability = only ? named : all, count = only ? 1 : COUNT(all);
    const int is_ptx = library && strstr(library, "/ptx/"), is_old = library && strstr(library, "/700/");
    const int is_sass = library && strstr(library, "/sass/");
    int done = 0;
    for (int i = 0; i < count; i++) {
        char ptx[512] = "";
        unsigned formats = 0; /* one arithmetic of each: they differ in products alone */
        if (!is_ptx && !is_sass && capability[i] != (is_old ? 70 : 80))
            continue;
        if (is_ptx && !getenv("PTX_DIR")) {
            snprintf(ptx, sizeof ptx, "%s/gpu/device/compute_%d", build ? build : "build", capability[i] == 130 ? 100 : capability[i]);
            if (access(ptx, R_OK) != 0)
                continue;
        }
        for (int n = 0; n < RP_NUMERICS_COUNT; n++) {
            const unsigned format = 1u << rp_arithmetic_of((enum rp_numerics)n)->format;
            if (!rp_is_mixed((enum rp_numerics)n) || !rp_cuda_has_arithmetic(capability[i], (enum rp_numerics)n) || formats & format)
                continue;
            formats |= format;
            compare_all(capability[i], (enum rp_numerics)n, *ptx ? ptx : NULL);
            done++;
        }
    }
    CHECK(done > 0, "nothing was compared");
}
