/* Attention: which kernel, with how many queries in a block. */
#include "backend/cuda/attention.h"
#include "backend/cuda/cuda.h"

#include <limits.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define BLOCK_OWN ((size_t)1024) /* bytes of shared memory that CUDA takes for itself in every block */

struct choice {
    int rows; /* queries of a thread */
    enum rp_cuda_kernel kernel;
};
static const struct choice forward[] = {
    {8, RP_KERNEL_attention_forward_64}, {4, RP_KERNEL_attention_forward_32}, {2, RP_KERNEL_attention_forward_16}};
static const struct choice backward[] = {{8, RP_KERNEL_attention_backward_64}, {4, RP_KERNEL_attention_backward_32}};
static const struct choice backward_wide = {4, RP_KERNEL_attention_backward_wide};

/* Per cent of the time of 8 rows for the same work: fewer rows read more shared memory per multiplication. */
static long weight(int rows)
{
    return rows == 8 ? 100 : rows == 4 ? 110 : 140;
}

/* Relative time of a launch: work of a block times blocks of the busiest multiprocessor, and a quarter more if it runs one block at a
 * time, so that nothing hides that block's waiting. LONG_MAX: a block does not fit. */
static long estimate(const struct rp_cuda *c, int rows, long work, long blocks, size_t shared)
{
    const long each = (blocks + c->multiprocessors - 1) / c->multiprocessors;
    const int alone = each < 2 || 2 * (shared + BLOCK_OWN) > c->gpu.shared_max + BLOCK_OWN;
    if (shared > c->gpu.shared_max)
        return LONG_MAX;
    return c->attention_forced == rows ? 0 : each * work * weight(rows) * (alone ? 5 : 4);
}

static const struct choice *fastest(const struct choice *list, const long *time, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = time[i] < time[best] ? i : best;
    RP_BUG_IF(time[best] == LONG_MAX);
    return &list[best];
}

static long forward_blocks(const struct rp_attention *a, int rows)
{
    return (long)a->batch * a->heads * ((a->seq + RP_ATT_QUERIES(rows) - 1) / RP_ATT_QUERIES(rows));
}

static const struct choice *choose_forward(const struct rp_cuda *c, const struct rp_attention *a)
{
    long time[COUNT(forward)];
    for (int i = 0; i < COUNT(forward); i++) {
        const int rows = forward[i].rows;
        time[i] = estimate(c, rows, rows, forward_blocks(a, rows), RP_ATT_FORWARD_SHARED((size_t)rows, (size_t)a->seq));
    }
    return fastest(forward, time, COUNT(forward));
}

/* A head is one block, for any number of rows. */
static const struct choice *choose_backward(const struct rp_cuda *c, const struct rp_attention *a)
{
    long time[COUNT(backward)];
    if (a->head_dim > RP_ATT_DIM)
        return &backward_wide;
    for (int i = 0; i < COUNT(backward); i++) {
        const int rows = backward[i].rows;
        time[i] = estimate(c, rows, 1, (long)a->batch * a->heads, RP_ATT_BACKWARD_SHARED((size_t)rows, (size_t)a->seq));
    }
    return fastest(backward, time, COUNT(backward));
}

void rp_cuda_attention_rows(const struct rp_cuda *c, const struct rp_attention *a, int *forward_rows, int *backward_rows)
{
    *forward_rows = choose_forward(c, a)->rows;
    *backward_rows = choose_backward(c, a)->rows;
}

/* The memory plan has checked this already. */
static void check_attention(const struct rp_cuda *c, enum rp_op op, const struct rp_attention *a, const uint8_t *mask)
{
    const struct rp_op_use use = {.op = op, .batch = a->batch, .seq = a->seq, .heads = a->heads, .head_dim = a->head_dim};
    struct rp_err err;
    RP_BUG_IF(rp_cuda_supports(&c->gpu, &use, &err) < 0 || ((uintptr_t)mask & 3));
}

void rp_cuda_op_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask, const float *qkv,
                                  const struct rp_attention *a)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const struct choice *use = choose_forward(c, a);
    const int width = a->heads * a->head_dim;
    const long blocks = forward_blocks(a, use->rows);
    check_attention(c, RP_OP_attention_forward, a, mask);
    const struct rp_attention_forward_args args = {
        .o = o, .row_max = row_max, .row_inv = row_inv, .mask = mask, .qkv = qkv, .keys = a->key_mask, .seed = a->drop.seed,
        .seq = a->seq, .heads = a->heads, .dim = a->head_dim, .width = width, .ld = 3 * width, .padded = RP_ATT_PADDED(a->seq),
        .blocks = (int)(blocks / a->batch / a->heads), .whole = a->head_dim % 4 == 0 && RP_ALIGNED(o, qkv), .scale = a->scale,
        .keep_scale = a->drop.scale, .step = a->drop.step, .site = a->drop.site, .first_sample = a->drop.first_sample,
        .threshold = a->drop.threshold};
    const size_t shared = RP_ATT_FORWARD_SHARED((size_t)use->rows, (size_t)a->seq);
    rp_cuda_launch(c, use->kernel, (struct rp_grid){(unsigned)blocks, 1, 1}, shared, &args);
}

void rp_cuda_op_attention_backward(struct rp_dev *dev, float *dqkv, float *dbias, const float *d_o, const float *o, const float *row_max,
                                   const float *row_inv, const uint8_t *mask, const float *qkv, const struct rp_attention *a, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const struct choice *use = choose_backward(c, a);
    const int dropout = a->drop.threshold != 0, width = a->heads * a->head_dim;
    check_attention(c, RP_OP_attention_backward, a, mask);
    const struct rp_attention_backward_args args = {
        .dqkv = dqkv, .d_o = d_o, .o = o, .row_max = row_max, .row_inv = row_inv, .qkv = qkv, .mask = dropout ? mask : NULL,
        .keys = a->key_mask, .seq = a->seq, .heads = a->heads, .dim = a->head_dim, .width = width, .ld = 3 * width,
        .padded = RP_ATT_PADDED(a->seq), .whole = a->head_dim % 4 == 0 && RP_ALIGNED(dqkv, d_o, o, qkv), .scale = a->scale,
        .keep_scale = dropout ? a->drop.scale : 1.0f};
    const size_t shared = RP_ATT_BACKWARD_SHARED((size_t)use->rows, (size_t)a->seq);
    rp_cuda_launch(c, use->kernel, (struct rp_grid){(unsigned)(a->batch * a->heads), 1, 1}, shared, &args);
    rp_cuda_op_colsum(dev, dbias, dqkv, a->batch * a->seq, 3 * width, work);
}
