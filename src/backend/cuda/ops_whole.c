/* Whole tensors. */
#include "backend/cuda/cuda.h"

static void op_add(struct rp_dev *dev, float *dst, const float *a, const float *b, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, add, rp_cuda_spread(c, RP_KERNEL_add, (n + 3) / 4), 0, dst, a, b, n, RP_ALIGNED(dst, a, b));
}

static void op_fill(struct rp_dev *dev, float *dst, float value, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, fill, rp_cuda_spread(c, RP_KERNEL_fill, (n + 3) / 4), 0, dst, value, n, RP_ALIGNED(dst));
}

void rp_cuda_ops_whole(struct rp_ops *op)
{
    op->add = op_add;
    op->fill = op_fill;
}
