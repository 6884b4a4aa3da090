/* Attention in mixed precision: kernels for heads of up to 64 or 128 columns, and a block for every 64 queries or keys
 * of a head. */
#include "backend/cuda/inner.h"

#define LINES RP_ATT16_LINES

static const struct kernels {
    enum rp_cuda_kernel forward, keys, queries;
} kernels[2][2] = {
#define WIDTH(format, width)                                                                                           \
    {                                                                                                                  \
        RP_KERNEL_attention16_forward_##format##_##width, RP_KERNEL_attention16_keys_##format##_##width,               \
            RP_KERNEL_attention16_queries_##format##_##width                                                           \
    }
    {WIDTH(f16, 64), WIDTH(f16, 128)},
    {WIDTH(bf16, 64), WIDTH(bf16, 128)},
#undef WIDTH
};

static const struct kernels *kernels_for(const struct rp_cuda *c, const struct rp_attention *a)
{
    return &kernels[rp_arithmetic_of(c->dev.numerics)->format == RP_TC_BF16][a->head_dim > 64];
}

static int width_of(const struct rp_attention *a)
{
    return a->head_dim > 64 ? 128 : 64;
}

static int stages(const struct rp_cuda *c)
{
    return c->image->arch >= 80 ? RP_ATT16_STAGES_ASYNC : 1;
}

static int blocks_of(const struct rp_attention *a)
{
    return (a->seq + LINES - 1) / LINES;
}

/* `numbers` of 16 bits are aligned in every row of a head. */
static int is_aligned(const rp_stored *x, const struct rp_attention *a, int numbers)
{
    return (uintptr_t)x % ((size_t)numbers * sizeof(uint16_t)) == 0 && a->head_dim % numbers == 0;
}

void rp_cuda_attention16_forward(struct rp_cuda *c, rp_stored *o, float *row_max, float *row_inv, uint8_t *mask,
                                 const rp_stored *qkv, const struct rp_attention *a)
{
    const int width = a->heads * a->head_dim;
    const struct rp_attention16_args args = {.o = (uint16_t *)(void *)o,
                                             .row_max = row_max,
                                             .row_inv = row_inv,
                                             .mask = mask,
                                             .qkv = (const uint16_t *)(const void *)qkv,
                                             .keys = a->key_mask,
                                             .first = a->first_key,
                                             .seed = a->drop.seed,
                                             .seq = a->seq,
                                             .heads = a->heads,
                                             .first_head = a->first_head,
                                             .dim = a->head_dim,
                                             .width = width,
                                             .ld = 3 * width,
                                             .padded = rp_mask_stride(a->seq),
                                             .blocks = blocks_of(a),
                                             .fast = is_aligned(qkv, a, 8),
                                             .pairs = is_aligned(o, a, 2),
                                             .causal = a->causal,
                                             .scale = a->scale,
                                             .keep_scale = a->drop.scale,
                                             .step = a->drop.step,
                                             .site = a->drop.site,
                                             .first_sample = a->drop.first_sample,
                                             .threshold = a->drop.threshold};
    const struct rp_grid grid = {(unsigned)(a->batch * a->heads * args.blocks), 1, 1};
    rp_cuda_launch(c, kernels_for(c, a)->forward, grid, RP_ATT16_FORWARD_SHARED(width_of(a), stages(c), c->image->arch),
                   &args);
}

void rp_cuda_attention16_backward(struct rp_cuda *c, const struct rp_attention_grad *g)
{
    const struct rp_attention *a = g->a;
    const int rows = a->batch * a->seq, width = a->heads * a->head_dim, dropout = a->drop.threshold != 0;
    const int is_bf16 = rp_arithmetic_of(c->dev.numerics)->format == RP_TC_BF16;
    const enum rp_cuda_kernel dots = is_bf16 ? RP_KERNEL_attention16_dots_bf16 : RP_KERNEL_attention16_dots_f16;
    const unsigned warps = rp_cuda_kernels[dots].threads / 32;
    const size_t shared = RP_ATT16_BACKWARD_SHARED(width_of(a), stages(c), c->image->arch);
    float *big_d = rp_cuda_workspace(c, (size_t)rows * (size_t)a->heads * sizeof(float));
    const struct rp_attention16_dots_args first = {.big_d = big_d,
                                                   .d_o = (const uint16_t *)(const void *)g->d_o,
                                                   .o = (const uint16_t *)(const void *)g->o,
                                                   .rows = rows,
                                                   .seq = a->seq,
                                                   .heads = a->heads,
                                                   .dim = a->head_dim};
    const struct rp_attention16_backward_args args = {.dqkv = (uint16_t *)(void *)g->dqkv,
                                                      .qkv = (const uint16_t *)(const void *)g->qkv,
                                                      .d_o = first.d_o,
                                                      .row_max = g->row_max,
                                                      .row_inv = g->row_inv,
                                                      .big_d = big_d,
                                                      .mask = dropout ? g->mask : NULL,
                                                      .keys = a->key_mask,
                                                      .first = a->first_key,
                                                      .seq = a->seq,
                                                      .heads = a->heads,
                                                      .dim = a->head_dim,
                                                      .width = width,
                                                      .ld = 3 * width,
                                                      .padded = rp_mask_stride(a->seq),
                                                      .blocks = blocks_of(a),
                                                      .fast = is_aligned(g->qkv, a, 8),
                                                      .fast_o = is_aligned(g->d_o, a, 8),
                                                      .pairs = is_aligned(g->dqkv, a, 2),
                                                      .causal = a->causal,
                                                      .scale = a->scale,
                                                      .keep_scale = dropout ? a->drop.scale : 1.0f};
    const struct rp_grid grid = {(unsigned)(a->batch * a->heads * args.blocks), 1, 1};
    const int64_t pairs = (int64_t)rows * a->heads;
    rp_cuda_launch(c, dots, (struct rp_grid){(unsigned)((pairs + warps - 1) / warps), 1, 1}, 0, &first);
    rp_cuda_launch(c, kernels_for(c, a)->keys, grid, shared, &args);
    rp_cuda_launch(c, kernels_for(c, a)->queries, grid, shared, &args);
}
