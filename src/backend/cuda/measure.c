/* The device's clock, its link and its memory, for measuring.
 *
 * Two events delimit a measurement: the first is recorded at the beginning, while the stream is idle, the second again
 * before each wait of the host, so that the one before the last wait counts. The time includes the gaps in which the
 * device waited for the host, but not the host's work before its first launch and after its last wait. Events have a
 * resolution of about half a microsecond. */
#include "backend/cuda/inner.h"

#include <stdio.h>

/* The widest of BERT-base at 8192 tokens. */
struct rp_gemm_shape rp_cuda_peak_gemm(const struct rp_dev *dev)
{
    (void)dev;
    return (struct rp_gemm_shape){.rows = 8192, .width = 3072, .depth = 768};
}

int rp_cuda_time_begin(struct rp_dev *dev, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    rp_cuda_flush(c);
    CUresult r = c->has_failed ? CUDA_SUCCESS : c->d->cuEventRecord(c->timer[0], c->stream);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "timing the GPU");
    c->timing = 1;
    return rp_cuda_report(c, err);
}

void rp_cuda_timer_mark(struct rp_cuda *c)
{
    if (!c->timing || c->has_failed)
        return;
    CUresult r = c->d->cuEventRecord(c->timer[1], c->stream);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "timing the GPU");
    c->timing = 2;
}

int rp_cuda_time_end(struct rp_dev *dev, uint64_t *ns, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    float ms = 0;
    RP_BUG_IF(c->timing != 2);
    c->timing = 0;
    CUresult r = c->has_failed ? CUDA_SUCCESS : c->d->cuEventElapsedTime(&ms, c->timer[0], c->timer[1]);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "timing the GPU");
    *ns = (uint64_t)((double)ms * 1e6);
    return rp_cuda_report(c, err);
}

void rp_cuda_copy(struct rp_dev *dev, void *dst, const void *src, size_t bytes)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    rp_cuda_flush(c);
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)dst, from = (CUdeviceptr)(uintptr_t)src;
    CUresult r = c->has_failed ? CUDA_SUCCESS : c->d->cuMemcpyDtoDAsync(to, from, bytes, c->stream);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "copying on the GPU");
}

void rp_cuda_upload_repeated(struct rp_dev *dev, void *dst, size_t bytes, int times)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    RP_BUG_IF(bytes > RP_CUDA_PINNED);
    rp_cuda_flush(c);
    for (int i = 0; i < times && !c->has_failed; i++) {
        CUresult r = c->d->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)dst, c->pinned, bytes, c->stream);
        if (r != CUDA_SUCCESS)
            rp_cuda_failed(c, r, "copying to the GPU");
    }
}

/* Waits for the device before freeing its memory. The next call reports a failure. */
void rp_cuda_release(struct rp_dev *dev)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    rp_cuda_flush(c);
    CUresult r = c->d->cuStreamSynchronize(c->stream);
    while (c->blocks > 1) {
        CUresult freed = c->d->cuMemFree(c->block[--c->blocks].data);
        r = r != CUDA_SUCCESS ? r : freed;
    }
    c->reserved = c->block[0].bytes;
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "giving memory back");
}

int rp_cuda_used_memory(struct rp_dev *dev, uint64_t *reserved, uint64_t *taken, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    size_t free_bytes = 0, total;
    CUresult r = c->d->cuMemGetInfo(&free_bytes, &total);
    if (r != CUDA_SUCCESS)
        return rp_driver_fail(c->d, r, "cuMemGetInfo", err);
    *reserved = c->reserved;
    *taken = free_bytes < c->free_bytes ? c->free_bytes - free_bytes : 0;
    return 0;
}

void rp_cuda_address(const struct rp_dev *dev, char text[32])
{
    const struct rp_cuda *c = (const struct rp_cuda *)dev;
    if (c->d->cuDeviceGetPCIBusId(text, 32, c->device) != CUDA_SUCCESS)
        *text = 0;
}
