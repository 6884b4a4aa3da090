/* What a .cu file may use in addition to C.
 *
 * What:    one source for two compilers. NVRTC or nvcc compile it as CUDA C++ for GPUs; a C compiler compiles it for
 *          the CPU, through tests/shim/shim.h, which executes grids, blocks, barriers and warps. So a .cu file is both
 *          C and C++: no templates, references or overloads; code for several sizes is inlined with constant arguments.
 * Flow:    RP_KERNEL(name) { ... a.field ... }: one struct by value, `a`; kernels.def has its type and the launch
 *          bounds.
 * Owner:   shared memory is one dynamic block, divided with RP_SHARED(type); there are no static __shared__ arrays.
 * Extend:  a built-in gets its definition here and in the shim. A new PTX instruction is a row of tests/ptx/ops.def,
 *          and what it refuses is a case of tests/cuda/test_ptx_refused.c. Where ptxas begins to use another machine
 *          instruction, tests/sass ends with its name: it is a row of tests/sass/ops.def and a case in exec.c, access.c
 *          or warp.c there; a modifier is a row of decode.c there. A GEMM tile is a row of gemm.def, that of a
 *          convolution of conv.def.
 *
 * Arithmetic: plain operators, built with -fmad=false -ftz=false -prec-div=true -prec-sqrt=true, round once each; a
 * fused product is written fmaf. tests/cuda/test_device_code.c checks the compiled code.
 */
#pragma once

#if defined(__CUDACC__) && !defined(RP_SHIM) /* the shim's own definitions stand before the source: -include */

#define RP_DEVICE static __device__ __forceinline__
#define RP_FN RP_DEVICE
#define RP_UNROLL _Pragma("unroll")
#define RP_NO_UNROLL _Pragma("unroll 1")
#define RP_UNROLL_BY(n) RP_PRAGMA(unroll n)
#define RP_PRAGMA(text) _Pragma(#text)
#define RP_RESTRICT __restrict__
#define RP_CONSTANT static __constant__ const /* a table; every thread of a warp reads the same element */
#define RP_SHARED(type) ((type *)(void *)rp_shared_bytes)
extern __shared__ __align__(128) unsigned char rp_shared_bytes[];

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#endif

/* GCC's built-ins, as the headers of src/ops use them. */
#define __builtin_fmaf(x, y, z) __fmaf_rn(x, y, z)
#define __builtin_sqrtf(x) __fsqrt_rn(x)
#define __builtin_memcpy(to, from, bytes) memcpy(to, from, bytes)
#define __builtin_inff() __uint_as_float(0x7f800000u)
#define __builtin_nanf(payload) __uint_as_float(0x7fc00000u)

#define rp_swap_bytes(x) __byte_perm(x, 0, 0x0123)

/* A shared-memory address: a number that stays in one register, with constant offsets in the instructions. */
typedef unsigned rp_smem;
RP_DEVICE rp_smem rp_smem_of(const void *p)
{
    return (rp_smem)__cvta_generic_to_shared(p);
}
#define RP_SMEM_AFTER(p, floats) ((p) + 4 * (unsigned)(floats))
RP_DEVICE float *rp_smem_at(rp_smem p, int floats)
{
    return (float *)__cvta_shared_to_generic(p) + floats;
}

/* Asynchronous copies from global to shared memory: sm_80 and later; earlier devices use loads and stores. ptxas puts
 * three dummy loads between a load of shared memory and the next copy to it: load first, then copy. */
#if __CUDA_ARCH__ >= 800
#define RP_ASYNC 1
/* To `floats` floats after an address. or_zero: +0 if !inside, but `from` must still be readable. */
RP_DEVICE void rp_copy16_to(rp_smem to, int floats, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 4 * (unsigned)floats), "l"(from) : "memory");
}
RP_DEVICE void rp_copy4_to(rp_smem to, int floats, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + 4 * (unsigned)floats), "l"(from) : "memory");
}
RP_DEVICE void rp_copy16_or_zero_to(rp_smem to, int floats, const void *from, int inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + 4 * (unsigned)floats), "l"(from),
                 "r"(inside ? 16 : 0) : "memory");
}
RP_DEVICE void rp_copy4_or_zero_to(rp_smem to, int floats, const void *from, int inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to + 4 * (unsigned)floats), "l"(from),
                 "r"(inside ? 4 : 0) : "memory");
}
#define rp_copy16(to, from) rp_copy16_to(rp_smem_of(to), 0, from)
#define rp_copy4_or_zero(to, from, inside) rp_copy4_or_zero_to(rp_smem_of(to), 0, from, inside)
RP_DEVICE void rp_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until all but the newest n groups of this thread are complete; other threads see them after a barrier. n: a
 * constant */
#define rp_copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#else
#define RP_ASYNC 0
#endif
/* Loads of global memory that no thread of this launch writes, for opaque pointers: the compiler has lost their address
 * space. */
RP_DEVICE float rp_load4(const void *p)
{
    float v;
    asm("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}
RP_DEVICE float4 rp_load16(const void *p)
{
    float4 v;
    asm("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
}

/* A value that another block releases: a relaxed load leaves the L1 cache as it is, an acquire invalidates it. After
 * the load that returns the value, rp_fence() makes what that block wrote before visible to this thread, and then a
 * barrier to all threads of its block. */
RP_DEVICE unsigned rp_load_relaxed(const unsigned *p)
{
    unsigned v;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
RP_DEVICE void rp_fence(void)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
RP_DEVICE void rp_sleep(unsigned nanoseconds) /* at most twice that */
{
    asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}
RP_DEVICE void rp_store_release(unsigned *p, unsigned v)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
/* Keeps the compiler from computing x again, or from moving what depends on it to before this point. */
#define RP_OPAQUE(x) asm("" : "+r"(x))
#define RP_OPAQUE64(x) asm("" : "+l"(x))
#define RP_OPAQUE_SMEM(x) RP_OPAQUE(x)
/* Makes the compiler compute what depends on x again from here on, instead of keeping it in registers. */
#define RP_REMATERIALISE(x) asm volatile("" : "+r"(x)::"memory")
/* End the launch with an error. */
#define RP_TRAP() asm volatile("trap;")

#endif

#define RP_ALL_LANES 0xffffffffu
#define RP_WARP 32

#if defined(__CUDACC__) && !defined(RP_SHIM)
#define inline __device__ __forceinline__ /* static inline functions of src/ops would be host functions */
#endif

/* RP_STORE: f16 or bf16, the type of stored tensors (stored.cuh); fp32 if it is not defined. With it the kernels are
 * those of stored.def, and their names end with it. */
#ifdef RP_STORE
#define RP_STORED_TYPE uint16_t
#define RP_KERNELS "backend/cuda/stored.def"
#define STORED(name, args, threads, blocks) KERNEL(name, args, threads, blocks)
#define RP_NAME(name) RP_NAME_OF(name, RP_STORE)
#define RP_NAME_OF(name, store) RP_NAME_JOINED(name, store)
#define RP_NAME_JOINED(name, store) name##_##store
#else
#define RP_STORED_TYPE float
#define RP_KERNELS "backend/cuda/kernels.def"
#define RP_NAME(name) name
#endif
#define TC_FP16 0 /* enum rp_tc_format */
#define TC_BF16 1
#include "backend/cuda/kernels.h"

#ifndef RP_SHIM
/* Threads of a block and blocks of a multiprocessor that the compiler may count on. */
enum {
#define KERNEL(name, args, threads, blocks) RP_THREADS_##name = threads, RP_BLOCKS_##name = blocks,
#include RP_KERNELS
#undef KERNEL
};
#endif
#define KERNEL(name, args, threads, blocks) typedef struct args rp_args_##name;
#include RP_KERNELS
#undef KERNEL
#ifndef RP_SHIM
#define RP_KERNEL(name) RP_KERNEL_AS(name, RP_NAME(name))
#define RP_KERNEL_AS(name, symbol) RP_KERNEL_CALLED(name, symbol)
#define RP_KERNEL_CALLED(name, symbol)                                                                                 \
    extern "C" __global__ void __launch_bounds__(RP_THREADS_##name, RP_BLOCKS_##name)                                  \
        rp_##symbol(const __grid_constant__ rp_args_##name a)
#endif
