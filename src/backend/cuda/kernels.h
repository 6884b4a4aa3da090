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

#endif
