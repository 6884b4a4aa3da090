/* What a GPU can do, and the memory it takes: from its figures alone, for the program that has the driver and the one that asks it.
 *
 * What:    the figures of a GPU that decide, and supports() and needs() of both programs' struct rp_backend.
 * Flow:    cuda.c asks the driver, or worker/cuda.c repro-gpu, for struct rp_cuda_gpu; then one call of an operation -> yes, or why not.
 * Extend:  an operation with a limit or a need of its own is a case in needs.c.
 */
#ifndef RP_BACKEND_CUDA_NEEDS_H
#define RP_BACKEND_CUDA_NEEDS_H

#include "backend/backend.h"

#define RP_CUDA_GEMM_WORKSPACE ((size_t)32 << 20) /* segments that are kept apart: what stays in the caches of large GPUs */
#define RP_CUDA_TURNS 16384                       /* counters behind the workspace, see struct rp_gemm_args */
#define RP_CUDA_TURN_BYTES (RP_CUDA_TURNS * sizeof(unsigned))

struct rp_cuda_gpu {
    char name[128];
    int capability;      /* 90: 9.0 */
    size_t shared_max;   /* bytes of dynamic shared memory a block may have */
};

int rp_cuda_supports(const struct rp_cuda_gpu *gpu, const struct rp_op_use *u, struct rp_err *err) rp_must_check;
size_t rp_cuda_needs(const struct rp_device_opts *o, const struct rp_op_use *u);
/* Of the device that is meant, in repro-gpu only; NULL: none can be asked. */
const struct rp_cuda_gpu *rp_cuda_gpu_of(const struct rp_device_opts *o, struct rp_err *err);

#endif
