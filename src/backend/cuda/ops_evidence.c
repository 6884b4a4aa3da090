/* Evidence: digests, and the first value that is not finite. */
#include "backend/cuda/cuda.h"

void rp_cuda_op_digest_leaves(struct rp_dev *dev, uint8_t *leaves, const float *x, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t count = (n * sizeof *x + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES, threads = rp_cuda_kernels[RP_KERNEL_digest_leaves].threads;
    RP_LAUNCH(c, digest_leaves, ((struct rp_grid){(unsigned)((count + threads - 1) / threads), 1, 1}), 0, .leaves = leaves, .x = x, .n = n,
              .wide = RP_ALIGNED(x));
}

/* Synchronous. -1 also after a failure, which the next sync() reports. */
void rp_cuda_op_find_nonfinite(struct rp_dev *dev, int64_t *index, const float *x, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    unsigned long long *first = rp_cuda_workspace(c, sizeof *first), found = 0;
    struct rp_err err;
    *index = -1;
    if (c->has_failed)
        return;
    rp_cuda_flush(c);
    CUresult r = c->d->cuMemsetD8Async((CUdeviceptr)(uintptr_t)first, 0xff, sizeof *first, c->stream);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "cuMemsetD8Async");
    RP_LAUNCH(c, find_nonfinite, rp_cuda_spread(c, RP_KERNEL_find_nonfinite, (n + 3) / 4), 0, .first = first, .x = x, .n = n,
              .wide = RP_ALIGNED(x));
    if (dev->backend->download(dev, &found, first, sizeof found, &err) == 0)
        *index = (int64_t)found;
}

void rp_cuda_op_find_nonfinite_stored(struct rp_dev *dev, int64_t *index, const rp_stored *x, size_t n)
{
    rp_cuda_op_find_nonfinite(dev, index, rp_cuda_floats(x), n);
}
