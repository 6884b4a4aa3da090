/* A GPU on one CPU thread: what device code needs to be compiled as C and executed here.
 *
 * What:    every CUDA thread is a fiber that runs until it has to meet others: at a barrier, at an exchange within its
 *          warp, or while it waits for another block. Blocks take turns in the same way when several are resident.
 * Flow:    a .cu file compiled as C with this header put before it registers its kernels; shim_launch() runs one.
 * Owner:   fibers' stacks and the shared memory of resident blocks live as long as the program.
 * Extend:  a built-in of CUDA that a kernel needs gets a definition here that means the same, and one in device.h.
 *
 * The order in which threads run between two meetings is fixed, reversed or a new permutation each time; copies that
 * run beside the arithmetic land at once or only at the wait that must cover them, with NaN there until then. A kernel
 * gives the same bits in all. x86-64 only, like the backends it is held against.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 800 /* the code path of sm_80 and later; 700 for the other one */
#endif
#define RP_ASYNC (__CUDA_ARCH__ >= 800)

#define RP_DEVICE static inline __attribute__((always_inline, unused))
#define RP_UNROLL
#define RP_NO_UNROLL
#define RP_UNROLL_BY(n)
#define RP_CONSTANT static const
#define RP_RESTRICT restrict
#define RP_SHARED(type) ((type *)shim_shared())

struct shim_dim {
    unsigned x, y, z;
};
extern struct shim_dim threadIdx, blockIdx, blockDim, gridDim; /* of the fiber that runs */

typedef struct __attribute__((aligned(8))) {
    float x, y;
} float2;
typedef struct __attribute__((aligned(16))) {
    float x, y, z, w;
} float4;
typedef struct __attribute__((aligned(8))) {
    uint32_t x, y;
} uint2;
typedef struct __attribute__((aligned(16))) {
    uint32_t x, y, z, w;
} uint4;
static inline float2 make_float2(float x, float y)
{
    return (float2){x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return (float4){x, y, z, w};
}
static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return (uint2){x, y};
}
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return (uint4){x, y, z, w};
}

#define fmaf(x, y, z) __builtin_fmaf(x, y, z)
#define sqrtf(x) __builtin_sqrtf(x)
#define __umulhi(x, y) ((uint32_t)((uint64_t)(uint32_t)(x) * (uint32_t)(y) >> 32))
#define __ffs(x) __builtin_ffs(x)
#define rp_swap_bytes(x) __builtin_bswap32(x)
static inline uint32_t __float_as_uint(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float __uint_as_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- meetings ---- */

void *shim_shared(void); /* of the block that runs */
void shim_syncthreads(const char *where, int line);
void shim_syncwarp(const char *where, int line);
/* Every live lane of the warp publishes `value`; returns what lane `from` published. */
uint64_t shim_exchange(uint64_t value, unsigned from, const char *where, int line);
uint32_t shim_ballot(int predicate, const char *where, int line);
void shim_trap(void);
void shim_spin(void); /* let others run: called by every look at memory that another block changes */

#define __syncthreads() shim_syncthreads(__FILE__, __LINE__)
#define __syncwarp() shim_syncwarp(__FILE__, __LINE__)
#define SHIM_LANE (threadIdx.x & 31u) /* blocks are rows of threads */
#define SHIM_EXCHANGE(v, from)                                                                                         \
    __extension__({                                                                                                    \
        __typeof__(v) v_ = (v);                                                                                        \
        uint64_t bits_ = 0;                                                                                            \
        memcpy(&bits_, &v_, sizeof v_);                                                                                \
        bits_ = shim_exchange(bits_, from, __FILE__, __LINE__);                                                        \
        memcpy(&v_, &bits_, sizeof v_);                                                                                \
        v_;                                                                                                            \
    })
/* All lanes take part: the mask is RP_ALL_LANES everywhere. */
#define __shfl_sync(mask, v, lane) SHIM_EXCHANGE(v, (unsigned)(lane) & 31u)
#define __shfl_xor_sync(mask, v, x) SHIM_EXCHANGE(v, SHIM_LANE ^ (unsigned)(x))
#define __shfl_down_sync(mask, v, d)                                                                                   \
    SHIM_EXCHANGE(v, SHIM_LANE + (unsigned)(d) < 32u ? SHIM_LANE + (unsigned)(d) : SHIM_LANE)
#define __ballot_sync(mask, p) shim_ballot(p, __FILE__, __LINE__)
#define __any_sync(mask, p) (shim_ballot(p, __FILE__, __LINE__) != 0)
#define __all_sync(mask, p) (shim_ballot(!(p), __FILE__, __LINE__) == 0)

/* ---- matrices: by all lanes of a warp, see matrix.h ---- */

/* d = a * b + d with the arithmetic of the device; form and layout are those of matrix.h */
void shim_mma(int form, unsigned layout, int format, float *d, const uint32_t *a, const uint32_t *b, const char *where,
              int line);
void shim_spread(uint32_t *d, const void *row, int matrices, int is_transposed, const char *where, int line);
#define rp_mma_m16n8k16(d, a, b, format) shim_mma(2, 0, format, d, a, b, __FILE__, __LINE__)
#define rp_mma_m16n8k8(d, a, b, format) shim_mma(1, 0, format, d, a, b, __FILE__, __LINE__)
#define rp_mma_m8n8k4(d, a, b, layout) shim_mma(0, layout, 0, d, a, b, __FILE__, __LINE__)
uint32_t shim_low_of(int format, float x);
float shim_low_value(int format, uint32_t bits);
#define tc_round(x, format) shim_low_of(format, x)
#define tc_value(bits, format) shim_low_value(format, bits)
/* Each lane reads its row by itself, where check.c sees it. */
#define SHIM_LDMATRIX(d, from, matrices, is_transposed)                                                                \
    do {                                                                                                               \
        const uint4 row_ = SHIM_LANE < 8 * (matrices) || __CUDA_ARCH__ <= 750 ? *(const uint4 *)(const void *)(from)  \
                                                                              : make_uint4(0, 0, 0, 0);               \
        shim_spread(d, &row_, matrices, is_transposed, __FILE__, __LINE__);                                           \
    } while (0)
#define rp_ldmatrix_x4(d, from) SHIM_LDMATRIX(d, from, 4, 0)
#define rp_ldmatrix_x4_trans(d, from) SHIM_LDMATRIX(d, from, 4, 1)

/* ---- memory ---- */

void rp_copy16(void *to, const void *from);
void rp_copy4(void *to, const void *from);
void rp_copy4_or_zero(void *to, const void *from, int inside);
void rp_copy16_or_zero(void *to, const void *from, int inside);
void rp_copy16_part(void *to, const void *from, int bytes); /* an even number; zeros after them */
typedef float *rp_smem;
#define rp_smem_of(p) (p)
#define RP_SMEM_AFTER(place, floats) ((place) + (floats))
#define rp_smem_at(place, floats) ((place) + (floats))
#define rp_copy16_to(to, floats, from) rp_copy16((to) + (floats), from)
#define rp_copy16_part_to(to, floats, from, bytes) rp_copy16_part((to) + (floats), from, bytes)
#define rp_copy4_to(to, floats, from) rp_copy4((to) + (floats), from)
#define rp_copy16_or_zero_to(to, floats, from, inside) rp_copy16_or_zero((to) + (floats), from, inside)
#define rp_copy4_or_zero_to(to, floats, from, inside) rp_copy4_or_zero((to) + (floats), from, inside)
void rp_copy_commit(void);
void rp_copy_wait(int newest);
static inline unsigned rp_load_relaxed(const unsigned *p)
{
    shim_spin();
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
#define rp_fence() __asm__ volatile("" ::: "memory") /* all blocks are on one CPU thread */
#define rp_sleep(nanoseconds) ((void)(nanoseconds)) /* the load before it has let others run */
static inline void rp_store_release(unsigned *p, unsigned v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
static inline unsigned atomicAdd(unsigned *p, unsigned v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline unsigned long long atomicMin(unsigned long long *p, unsigned long long v)
{
    unsigned long long old = *p;
    *p = v < old ? v : old;
    return old;
}
#define __threadfence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __ldg(p) (*(p))
#define rp_load4(p) (*(const float *)(p))
#define rp_load16(p) (*(const float4 *)(p))
#define RP_OPAQUE(x) ((void)(x))
#define RP_OPAQUE64(x) ((void)(x))
#define RP_OPAQUE_SMEM(x) ((void)(x))
#define RP_REMATERIALISE(x) ((void)(x))
#define RP_TRAP() shim_trap()

/* ---- kernels ---- */

/* Defines void shim_kernel_NAME(const void *args), which shim.c finds by the list of kernels; device.h has
 * RP_NAME(). */
#define RP_KERNEL(name) SHIM_KERNEL(name, RP_NAME(name))
#define SHIM_KERNEL(name, symbol) SHIM_KERNEL_CALLED(name, symbol)
#define SHIM_KERNEL_CALLED(name, symbol)                                                                               \
    static inline void rp_body_##name(const rp_args_##name a);                                                         \
    void shim_kernel_##symbol(const void *args);                                                                       \
    void shim_kernel_##symbol(const void *args)                                                                        \
    {                                                                                                                  \
        rp_body_##name(*(const rp_args_##name *)args);                                                                 \
    }                                                                                                                  \
    static inline void rp_body_##name(const rp_args_##name a)
