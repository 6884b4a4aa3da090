/* Which operations a GPU supports, and the memory they need: for repro-gpu, which has the driver, and for repro, which
 * has not.
 *
 * What:    the properties of a GPU that matter, and supports() and needs() of the struct rp_backend of both programs.
 * Flow:    cuda.c gets struct rp_cuda_gpu from the driver, worker/gpu_proxy.c from repro-gpu; then one call of an
 *          operation -> 0 or a refusal
 * Extend:  an operation with a limit or workspace of its own is a case in needs.c.
 */
#pragma once

#include "backend/backend.h"

#define RP_CUDA_GEMM_WORKSPACE ((size_t)32 << 20) /* of a parallel split-K: fits the caches of large GPUs */
#define RP_CUDA_SEMAPHORES 16384                       /* after the workspace, see struct rp_gemm_args */
#define RP_CUDA_SEMAPHORE_BYTES (RP_CUDA_SEMAPHORES * sizeof(unsigned))

struct rp_cuda_gpu {
    char name[128];
    int capability;      /* 90: 9.0 */
    size_t shared_max;   /* bytes of dynamic shared memory a block may have */
};

/* Mixed precision: chains of a product, at most 2^12, and bytes of a row of their results in the workspace; 0 for one
 * chain. */
#define RP_CUDA_LOW_SEGMENTS 4095
static inline int rp_cuda_low_segments(int k, int length)
{
    return k > length ? (k - 1) / length + 1 : 1;
}
static inline int64_t rp_cuda_low_pitch(int n)
{
    return ((int64_t)n + 3) / 4 * 4;
}
static inline size_t rp_cuda_low_row_bytes(int n, int segments)
{
    return segments > 1 ? (size_t)segments * (size_t)rp_cuda_low_pitch(n) * sizeof(float) : 0;
}
/* Whether products of matrices are in this arithmetic on GPUs of that capability, or of code compiled for it. */
static inline int rp_cuda_has_arithmetic(int capability, enum rp_numerics n)
{
    const struct rp_arithmetic *a = rp_arithmetic_of(n);
    const int products = capability >= 90 ? 16 : capability >= 75 ? 8 : 4;
    return !rp_is_mixed(n) || (a->tc.products == products && (a->format == RP_TC_FP16 || capability >= 80));
}
/* The arithmetic of GPUs of that capability with such numbers, or strict fp32: it has none. */
static inline enum rp_numerics rp_cuda_arithmetic(int capability, enum rp_tc_format format)
{
    for (int n = 0; n < RP_NUMERICS_COUNT; n++)
        if (rp_is_mixed((enum rp_numerics)n) && rp_arithmetic_of((enum rp_numerics)n)->format == format &&
            rp_cuda_has_arithmetic(capability, (enum rp_numerics)n))
            return (enum rp_numerics)n;
    return RP_NUMERICS_fp32_1;
}
int rp_cuda_supports(const struct rp_cuda_gpu *gpu, enum rp_numerics n, const struct rp_op_use *u,
                     struct rp_err *err) rp_must_check;
size_t rp_cuda_needs(const struct rp_device_opts *o, const struct rp_op_use *u);
/* Bytes of pd and ds of 64 keys of a head: the layout of struct rp_attention_backward_args, which
 * launch_backward_streams() divides and head_of() in attention_stream_backward.cu addresses; they change together. */
static inline size_t rp_cuda_attention_strip(int seq)
{
    return 2 * sizeof(float) * 64 * (((size_t)seq + 63) / 64 * 64);
}
/* Most bytes of attention: forward scores in a slab for each block that runs, backward strips of pd and ds. A few times
 * the cache of a large GPU, or more: also from the GPU's memory they come sooner than they are computed again. A launch
 * for the gradients has a block for each strip, so there is room for four of each multiprocessor of the largest GPUs,
 * up to 512 MiB. Up to 256 tokens a slab is at most 4 tiles, and the workspace of GEMMs has the slabs of all blocks
 * that run: 384 * 4 * 16 KiB, 24 MiB. */
static inline size_t rp_cuda_attention_workspace(int seq)
{
    const size_t strips = 576 * rp_cuda_attention_strip(seq), least = (size_t)128 << 20, most = (size_t)512 << 20;
    return seq <= 256 ? RP_CUDA_GEMM_WORKSPACE : strips < least ? least : strips < most ? strips : most;
}
/* This can be GEMMs: rows are pixels, columns are channels. */
static inline int rp_cuda_is_pointwise(const struct rp_conv *v)
{
    return v->kernel_h == 1 && v->kernel_w == 1 && v->stride == 1 && v->pad_top == 0 && v->pad_left == 0 &&
           v->out_h == v->in_h && v->out_w == v->in_w;
}
/* Of the selected device, in repro-gpu only; NULL: not available. */
const struct rp_cuda_gpu *rp_cuda_gpu_of(const struct rp_device_opts *o, struct rp_err *err);
