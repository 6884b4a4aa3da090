/* The losses, and the best class of a row. */
#include "backend/cuda/inner.h"

void rp_cuda_op_softmax_xent(struct rp_dev *dev, float *loss, rp_stored *logits, long ld, const int32_t *labels,
                             const float *coef, float scale, int n, int classes, int shards)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const struct rp_grid rows = {(unsigned)n, 1, 1};
    RP_BUG_IF(scale != 1.0f && !rp_is_mixed(dev->numerics));
    RP_BUG_IF(shards < 1 || shards > RP_XENT_SHARDS_MOST || classes % shards != 0);
    if (shards > 1) {
        const struct rp_softmax_xent_shards16_args a = {.n = {.loss = loss,
                                                              .logits = logits,
                                                              .ld = ld,
                                                              .labels = labels,
                                                              .coef = coef,
                                                              .shards = shards,
                                                              .each = classes / shards},
                                                        .scale = scale};
        rp_cuda_launch(c, RP_STORED_KERNEL(c, softmax_xent_shards), rows, RP_XENT_SHARDS_FLOATS * sizeof(float), &a);
    } else {
        const struct rp_softmax_xent16_args a = {
            .n = {.loss = loss, .logits = logits, .ld = ld, .labels = labels, .coef = coef, .classes = classes},
            .scale = scale};
        rp_cuda_launch(c, RP_STORED_KERNEL(c, softmax_xent), rows, RP_XENT_FLOATS * sizeof(float), &a);
    }
}

void rp_cuda_op_weighted_sum(struct rp_dev *dev, float *out, const float *loss, const float *coef, int n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, weighted_sum, ((struct rp_grid){1, 1, 1}), 128 * sizeof(float), .out = out, .loss = loss, .coef = coef,
              .n = n);
}

void rp_cuda_op_softmax_xent_smoothed(struct rp_dev *dev, float *loss, rp_stored *logits, long ld,
                                      const int32_t *labels, const float *coef, float scale, int n, int classes,
                                      float smoothing)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_BUG_IF(scale != 1.0f && !rp_is_mixed(dev->numerics));
    const float share = 1.0f / (float)classes;
    const struct rp_softmax_xent_smoothed16_args a = {.n = {.loss = loss,
                                                            .logits = logits,
                                                            .ld = ld,
                                                            .labels = labels,
                                                            .coef = coef,
                                                            .smoothing = smoothing,
                                                            .rest = 1.0f - smoothing,
                                                            .share = share,
                                                            .each = smoothing * share,
                                                            .classes = classes},
                                                      .scale = scale};
    rp_cuda_launch(c, RP_STORED_KERNEL(c, softmax_xent_smoothed), (struct rp_grid){(unsigned)n, 1, 1},
                   128 * sizeof(float), &a);
}

void rp_cuda_op_argmax_rows(struct rp_dev *dev, int32_t *index, const rp_stored *x, long ld, int n, int classes)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const unsigned warps = rp_cuda_kernels[RP_KERNEL_argmax_rows].threads / 32;
    RP_LAUNCH_STORED(c, argmax_rows, ((struct rp_grid){((unsigned)n + warps - 1) / warps, 1, 1}), 0, .index = index,
                     .x = x, .ld = ld, .n = n, .classes = classes);
}
