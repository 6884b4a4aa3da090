/* Every operation of the CUDA backend, its kernels executed by the shim, against the literal definition: bit for bit, for awkward sizes
 * and every order of threads. OPS="gemm add" limits it to some. */
#include "ops/compare.h"
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const float dropouts[] = {0.0f, 0.1f, 0.5f};

static int wanted(int op)
{
    const char *list = getenv("OPS"), *name = rp_op_name((enum rp_op)op), *at = list;
    size_t n = strlen(name);
    while (list && *list && (at = strstr(at, name)) != NULL) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return 1;
        at++;
    }
    return !list || !*list;
}

/* At most a few messages per operation; the rest is counted. */
static void compare(int op, const struct rp_op_shape *s, unsigned mix, int *failed)
{
    struct shim_options *shim;
    struct rp_err e = {0};
    setenv("RP_CUDA_GRAPHS", "0", 0); /* results are looked at without a sync */
    struct rp_dev *dev = gpu(&shim, &e);
    if (!CHECK(dev != NULL, "%s", e.msg))
        return;
    shim->order = (enum shim_order)(mix % SHIM_ORDERS);
    shim->late = mix >> 1 & 1;
    shim->resident = 1 + (int)(mix % 5);
    shim->seed = mix;
    if ((rp_ops_compare(dev->op, dev, (enum rp_op)op, s, &e) == 0 && dev->backend->sync(dev, &e) == 0) || ++*failed > 3)
        return;
    CHECK(0, "order %d%s, %d resident, rows %d width %d depth %d segment %d, batch %d seq %d heads %d dim %d, dropout %g, variant %u%s: %s",
          (int)shim->order, shim->late ? ", late copies" : "", shim->resident, s->rows, s->width, s->depth, s->segment, s->batch, s->seq,
          s->heads, s->head_dim, (double)s->dropout, s->variant, s->in_place ? ", in place" : "", e.msg);
}

static void rows_of(int op, int *cases, int *failed)
{
    static const int widths[] = {1, 31, 33, 77, 240, 768, 1023}, row_counts[] = {1, 31, 64, 65, 130};
    for (int r = 0; r < COUNT(row_counts); r++)
        for (int w = 0; w < COUNT(widths); w++) {
            unsigned mix = (unsigned)(r + 3 * w + 7 * op);
            struct rp_op_shape s = {.rows = row_counts[r], .width = widths[w], .depth = 1 + (int)(mix * 37 % 90), .segment = mix % 3 ? 16 : 0,
                                    .dropout = dropouts[mix % 3], .in_place = mix >> 1 & 1, .variant = mix, .seed = mix};
            ++*cases;
            compare(op, &s, mix, failed);
        }
}

static void attention_of(int op, int *cases, int *failed)
{
    static const struct {
        int batch, seq, heads, dim;
    } sizes[] = {{2, 1, 2, 64}, {3, 7, 1, 5}, {2, 33, 3, 64}, {1, 128, 2, 64}, {2, 64, 1, 80}, {1, 200, 1, 64}, {9, 17, 3, 16},
                 {1, 512, 1, 64}, {1, 301, 1, 33}, {1, 40, 1, 130}};
    for (int i = 0; i < COUNT(sizes); i++)
        for (unsigned variant = 0; variant < 8; variant += sizes[i].seq > 150 ? 5 : 1) {
            struct rp_op_shape s = {.batch = sizes[i].batch, .seq = sizes[i].seq, .heads = sizes[i].heads, .head_dim = sizes[i].dim,
                                    .dropout = dropouts[(variant + (unsigned)i) % 3], .variant = variant, .seed = variant};
            ++*cases;
            compare(op, &s, variant + (unsigned)i, failed);
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
        else
            rows_of(op, &cases, &failed);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("# %s: %d cases, %d differ, %.1f s\n", rp_op_name((enum rp_op)op), cases, failed,
               (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    }
}
