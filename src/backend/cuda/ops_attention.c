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
/* From the most arithmetic per byte read from shared memory to the least shared memory. */
static const struct choice forward[] = {
    {8, RP_KERNEL_attention_forward_64}, {4, RP_KERNEL_attention_forward_32}, {2, RP_KERNEL_attention_forward_16}};
static const struct choice backward[] = {{8, RP_KERNEL_attention_backward_64}, {4, RP_KERNEL_attention_backward_32}};
static const struct choice backward_wide = {4, RP_KERNEL_attention_backward_wide};

static int blocks_of(int seq, int rows)
{
    return (seq + RP_ATT_QUERIES(rows) - 1) / RP_ATT_QUERIES(rows);
}

int rp_cuda_attention_max_seq(const struct rp_cuda *c)
{
    size_t seq = 128;
    while (RP_ATT_FORWARD_SHARED((size_t)2, seq) <= c->shared_max && RP_ATT_BACKWARD_SHARED((size_t)4, seq) <= c->shared_max)
        seq += 128;
    return (int)seq - 128;
}

/* The first kernel of which two blocks fit a multiprocessor, so that one computes while the other waits, and of which every multiprocessor
 * gets a block. When there is none: the smallest blocks that keep few heads busy, else the largest that fit. */
static const struct choice *choose(const struct rp_cuda *c, const struct choice *list, int n, const size_t *shared, const long *blocks)
{
    const struct choice *best = NULL;
    for (int i = 0; i < n; i++) {
        if (shared[i] > c->shared_max)
            continue;
        if (2 * (shared[i] + BLOCK_OWN) <= c->shared_max + BLOCK_OWN && blocks[i] >= c->multiprocessors)
            return &list[i];
        if (!best || blocks[i] < c->multiprocessors)
            best = &list[i];
    }
    RP_BUG_IF(!best);
    return best;
}

static void check(const struct rp_cuda *c, const struct rp_attention *a, const uint8_t *mask)
{
    const long long heads = (long long)a->batch * a->heads, ld = 3ll * a->heads * a->head_dim;
    RP_BUG_IF(a->seq > c->max_seq || heads * a->seq > INT32_MAX || ld * a->seq > INT32_MAX || ((uintptr_t)mask & 3));
}

static void op_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask, const float *qkv,
                                 const struct rp_attention *a)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const long heads = (long)a->batch * a->heads, width = (long)a->heads * a->head_dim;
    size_t shared[COUNT(forward)];
    long blocks[COUNT(forward)];
    check(c, a, mask);
    for (int i = 0; i < COUNT(forward); i++) {
        shared[i] = RP_ATT_FORWARD_SHARED((size_t)forward[i].rows, (size_t)a->seq);
        blocks[i] = heads * blocks_of(a->seq, forward[i].rows);
    }
    const struct choice *use = choose(c, forward, COUNT(forward), shared, blocks);
    const struct rp_attention_forward_args args = {
        .o = o, .row_max = row_max, .row_inv = row_inv, .mask = mask, .qkv = qkv, .keys = a->key_mask, .seed = a->drop.seed,
        .seq = a->seq, .heads = a->heads, .dim = a->head_dim, .width = (int)width, .ld = (int)(3 * width), .padded = RP_ATT_PADDED(a->seq),
        .blocks = blocks_of(a->seq, use->rows), .whole = a->head_dim % 4 == 0 && RP_ALIGNED(o, qkv), .scale = a->scale,
        .keep_scale = a->drop.scale, .step = a->drop.step, .site = a->drop.site, .first_sample = a->drop.first_sample,
        .threshold = a->drop.threshold};
    rp_cuda_launch(c, use->kernel, (struct rp_grid){(unsigned)blocks[use - forward], 1, 1}, shared[use - forward], &args);
}

/* A head is one block, whatever its size. */
static void op_attention_backward(struct rp_dev *dev, float *dqkv, float *dbias, const float *d_o, const float *o, const float *row_max,
                                  const float *row_inv, const uint8_t *mask, const float *qkv, const struct rp_attention *a, float *work)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const long heads = (long)a->batch * a->heads, width = (long)a->heads * a->head_dim;
    const struct choice *use = &backward_wide;
    const int dropout = a->drop.threshold != 0;
    check(c, a, mask);
    if (a->head_dim <= RP_ATT_DIM) {
        const long many[COUNT(backward)] = {LONG_MAX, LONG_MAX};
        size_t sizes[COUNT(backward)];
        for (int i = 0; i < COUNT(backward); i++)
            sizes[i] = RP_ATT_BACKWARD_SHARED((size_t)backward[i].rows, (size_t)a->seq);
        use = choose(c, backward, COUNT(backward), sizes, many);
    }
    const struct rp_attention_backward_args args = {
        .dqkv = dqkv, .d_o = d_o, .o = o, .row_max = row_max, .row_inv = row_inv, .qkv = qkv, .mask = dropout ? mask : NULL,
        .keys = a->key_mask, .seq = a->seq, .heads = a->heads, .dim = a->head_dim, .width = (int)width, .ld = (int)(3 * width),
        .padded = RP_ATT_PADDED(a->seq), .whole = a->head_dim % 4 == 0 && RP_ALIGNED(dqkv, d_o, o, qkv), .scale = a->scale,
        .keep_scale = dropout ? a->drop.scale : 1.0f};
    const size_t shared = RP_ATT_BACKWARD_SHARED((size_t)use->rows, (size_t)a->seq);
    rp_cuda_launch(c, use->kernel, (struct rp_grid){(unsigned)heads, 1, 1}, shared, &args);
    c->ops.colsum(dev, dbias, dqkv, a->batch * a->seq, (int)(3 * width), work);
}

void rp_cuda_ops_attention(struct rp_ops *op)
{
    op->attention_forward = op_attention_forward;
    op->attention_backward = op_attention_backward;
}
