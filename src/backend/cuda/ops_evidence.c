/* Evidence: digests, and the first value that is not finite. */
#include "backend/cuda/inner.h"

void rp_cuda_op_digest_leaves(struct rp_dev *dev, uint8_t *leaves, const float *x, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t count = (n * sizeof *x + RP_LEAF_BYTES - 1) / RP_LEAF_BYTES,
           threads = rp_cuda_kernels[RP_KERNEL_digest_leaves].threads;
    RP_LAUNCH(c, digest_leaves, ((struct rp_grid){(unsigned)((count + threads - 1) / threads), 1, 1}), 0,
              .leaves = leaves, .x = x, .n = n, .wide = RP_ALIGNED(x));
}

/* What a kernel that looks for them writes its result to, all ones; NULL after a failure. */
static unsigned long long *find_begin(struct rp_cuda *c)
{
    unsigned long long *first = rp_cuda_workspace(c, sizeof *first);
    if (c->has_failed)
        return NULL;
    rp_cuda_flush(c);
    CUresult r = c->d->cuMemsetD8Async((CUdeviceptr)(uintptr_t)first, 0xff, sizeof *first, c->stream);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "cuMemsetD8Async");
    return first;
}

/* Synchronous. -1 also after a failure, which the next sync() reports. */
static void find_end(struct rp_dev *dev, int64_t *index, const unsigned long long *first)
{
    unsigned long long found = 0;
    struct rp_err err;
    *index = first && dev->backend->download(dev, &found, first, sizeof found, &err) == 0 ? (int64_t)found : -1;
}

void rp_cuda_op_find_nonfinite(struct rp_dev *dev, int64_t *index, const float *x, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    unsigned long long *first = find_begin(c);
    if (first)
        RP_LAUNCH(c, find_nonfinite, rp_cuda_spread(c, RP_KERNEL_find_nonfinite, (n + 3) / 4), 0, .first = first,
                  .x = x, .n = n, .wide = RP_ALIGNED(x));
    find_end(dev, index, first);
}

void rp_cuda_op_find_nonfinite_stored(struct rp_dev *dev, int64_t *index, const rp_stored *x, size_t n)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    if (!rp_is_mixed(dev->numerics)) {
        rp_cuda_op_find_nonfinite(dev, index, rp_cuda_floats(x), n);
        return;
    }
    unsigned long long *first = find_begin(c);
    if (first)
        RP_LAUNCH_LOW(c, find_stored, rp_cuda_spread(c, RP_LOW_KERNEL(c, find_stored), (n + 3) / 4), 0, .first = first,
                      .x = x, .n = n, .wide = RP_ALIGNED(x));
    find_end(dev, index, first);
}
