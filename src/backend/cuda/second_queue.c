/* A second queue of an opened GPU: a stream with the same kernels and blocks, for a thread of its own.
 *
 * Launches go to the stream one by one. There is no workspace, no page-locked memory and no timer: operations that need
 * one of these belong to the device itself. */
#include "backend/cuda/inner.h"

#include <stdlib.h>
#include <string.h>

struct rp_dev *rp_cuda_second_queue(struct rp_dev *dev, struct rp_err *err)
{
    const struct rp_cuda *of = rp_cuda_of(dev);
    struct rp_cuda *c = malloc(sizeof *c);
    if (!c)
        return rp_fail_null(err, RP_UNAVAILABLE, "cuda backend: no memory for %zu bytes", sizeof *c);
    *c = *of;
    c->of = of;
    c->stream = NULL;
    c->reached = NULL;
    c->graphs = NULL;
    c->pinned = NULL;
    c->blocks = c->timing = c->has_failed = 0;
    c->workspace_bytes = 0;
    memset(c->launches, 0, sizeof c->launches);
    CUresult r = c->d->cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING);
    if (r == CUDA_SUCCESS)
        r = c->d->cuEventCreate(&c->reached, CU_EVENT_DISABLE_TIMING);
    if (r == CUDA_SUCCESS)
        return &c->dev;
    (void)rp_driver_fail(c->d, r, "a second stream of this GPU", err);
    rp_cuda_close_second_queue(c);
    return NULL;
}

void rp_cuda_close_second_queue(struct rp_cuda *c)
{
    if (c->stream) {
        c->d->cuStreamSynchronize(c->stream);
        c->d->cuStreamDestroy(c->stream);
    }
    if (c->reached)
        c->d->cuEventDestroy(c->reached);
    free(c);
}

int rp_cuda_bind_thread(struct rp_dev *dev, struct rp_err *err)
{
    const struct rp_cuda *c = rp_cuda_of(dev);
    const CUresult r = c->d->cuCtxSetCurrent(c->context);
    return r == CUDA_SUCCESS ? 0 : rp_driver_fail(c->d, r, "cuCtxSetCurrent", err);
}

/* An event may be recorded again while streams wait for what it was before. */
int rp_cuda_wait_for(struct rp_dev *dev, struct rp_dev *first, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev), *of = rp_cuda_of(first);
    rp_cuda_flush(of);
    if (rp_cuda_report(of, err) < 0)
        return -1;
    CUresult r = c->d->cuEventRecord(c->reached, of->stream);
    if (r == CUDA_SUCCESS)
        r = c->d->cuStreamWaitEvent(c->stream, c->reached, 0);
    return r == CUDA_SUCCESS ? 0 : rp_driver_fail(c->d, r, "letting a stream wait for another one", err);
}
