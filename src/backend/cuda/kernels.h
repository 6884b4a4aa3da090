/* The argument structs of kernels.def, read by both sides: the host fills one and launches, the kernel gets it by value as `a`.
 *
 * What:    plain structs of pointers to device memory and sizes; at most 4 KiB each.
 * Flow:    ops_*.c -> rp_cuda_launch() -> RP_KERNEL(name).    Owner: none; pointers are the device's.
 * Extend:  a struct here, a row in kernels.def, RP_KERNEL(name) in a .cu file, the launch in ops_*.c.
 */
#ifndef RP_BACKEND_CUDA_KERNELS_H
#define RP_BACKEND_CUDA_KERNELS_H

#if !defined(__CUDACC_RTC__)
#include <stddef.h>
#include <stdint.h>
#endif

/* dst[i] = a[i] + b[i]; dst may be a */
struct rp_add_args {
    float *dst;
    const float *a, *b;
    size_t n;
};
struct rp_fill_args {
    float *dst;
    float value;
    size_t n;
};

/* How a kernel of gemm.def copies an operand. */
enum rp_gemm_how { RP_GEMM_K, RP_GEMM_R, RP_GEMM_R1, RP_GEMM_ANY };

/* A product as such a kernel does it, see struct rp_gemm. Segments (at least one, the last may be shorter) are added
 *   WHOLE  by one block for each tile, in `part` and at last in c
 *   APART  by gemm_sum: `part` has a matrix of m rows for each
 *   TURNS  in `part` and at last in c, by a block for each that waits for the one before: turns[0] is the next number of a block,
 *          turns[1 + tile] the segment whose turn it is. Both are 0 between launches.
 * wide: c, part, bias, add and n may be taken 4 floats at a time. `part` may be c unless that is to be added. */
enum rp_gemm_mode { RP_GEMM_WHOLE, RP_GEMM_APART, RP_GEMM_TURNS };
struct rp_gemm_args {
    const float *a, *b;
    float *c, *part;
    const float *bias, *add;
    unsigned *turns;
    int64_t lda, ldb, ldc, ldpart, ldadd;
    int ta, tb, m, n, k, segment, segments, mode, wide;
};
/* Shared memory: stages of DEPTH k-steps of both operands; then, in the same place, BAND rows of every thread on their way out.
 * async: sm_80 on, where copies run beside the arithmetic and may be further ahead. */
#define RP_GEMM_DEPTH(async) ((async) ? 16 : 8)
#define RP_GEMM_STAGES(async) ((async) ? 3 : 2)
#define RP_GEMM_BAND(async) ((async) ? 4 : 2)
#define RP_GEMM_PAD 4

#endif
