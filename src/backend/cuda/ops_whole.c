/* Whole tensors. */
#include "backend/cuda/inner.h"

void rp_cuda_op_add(struct rp_dev *dev, float *dst, const float *a, const float *b, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, add, SPREAD4(c, add, n), 0, .dst = dst, .a = a, .b = b, .n = n, .wide = RP_ALIGNED(dst, a, b));
}

void rp_cuda_op_fill(struct rp_dev *dev, float *dst, float value, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_LAUNCH(c, fill, SPREAD4(c, fill, n), 0, .dst = dst, .value = value, .n = n, .wide = RP_ALIGNED(dst));
}
