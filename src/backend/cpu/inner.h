/* The CPU backend's own structs: instruction set, thread pool, per-thread scratch.
 *
 * What:    shared by the files of backend/cpu/ only.
 * Flow:    cpu.c opens the device; gemm*.c, rows*.c, attention*.c ... fill its table of operations.
 * Owner:   struct rp_cpu owns the pool, the blocks and the scratch; nothing is allocated after open() and block().
 * Extend:  an operation that needs per-thread memory is a case in needs() of cpu.c.
 */
#pragma once

#define RP_STORED_TYPE float /* values of 16 bits lie in memory as the fp32 numbers that they are */
#include "backend/backend.h"
#include "base/isa.h"
#include "recipe/choices.h"

enum rp_isa rp_isa_best(void);
int rp_isa_usable(enum rp_isa isa); /* 0 for RP_ISA_auto, which is not an instruction set */
const char *rp_isa_name(enum rp_isa isa);
int rp_isa_from_name(const char *name); /* NULL or "auto": the best one; -1: no such name */
void rp_isa_brand(char out[128]); /* the vendor's name for this CPU, "" if unknown */
/* of scalar code there are two, and this CPU has the FMA instruction, so not the library's fmaf */
int rp_isa_chooses_fma(void);

/* Threads that live as long as the pool and sleep (after a short spin) between jobs. */
struct rp_pool;
struct rp_pool *rp_pool_new(int threads, struct rp_err *err) rp_must_check; /* the caller is thread 0 */
void rp_pool_free(struct rp_pool *p);
/* fn(arg, part, thread) for every part in 0..parts-1, handed out in ascending order to whichever thread is free;
 * returns when all are done. With one thread or one part it runs in the caller. Not reentrant. Each thread checks
 * float_mode.h once (RP_BUG otherwise). */
typedef void (*rp_part_fn)(void *arg, int part, int thread);
void rp_pool_run(struct rp_pool *p, int parts, rp_part_fn fn, void *arg);

struct rp_gemm_kernel; /* gemm.h */
struct rp_tc_kernel;   /* tc_gemm.h */

struct rp_cpu {
    struct rp_dev dev;
    enum rp_isa isa;
    struct rp_pool *pool;
    int threads;
    const struct rp_gemm_kernel *gemm;
    const struct rp_tc_kernel *tc; /* products in mixed precision; NULL: scalar */
    uint64_t allowed;       /* bytes this process might still take when the device was opened */
    uint64_t reserved;      /* bytes taken since, scratch included */
    unsigned char *scratch; /* threads * scratch_each bytes, 2 MiB aligned, huge pages where they can be had */
    size_t scratch_each;
    struct rp_cpu_block {
        void *data; /* as mapped: what munmap wants */
        size_t bytes;
    } block[32];    /* the first one is the scratch */
    int blocks;
};
static inline struct rp_cpu *rp_cpu_of(struct rp_dev *dev)
{
    return (struct rp_cpu *)dev;
}
/* Scratch of one thread, for the current operation: GEMM packing buffers, attention tiles. */
static inline void *rp_cpu_scratch(struct rp_cpu *c, int thread)
{
    return c->scratch + (size_t)thread * c->scratch_each;
}
/* Scratch of one thread for a call. */
size_t rp_cpu_gemm_scratch(int rows, int segment); /* gemm.c; the scratch of one row suffices, in smaller parts */
size_t rp_cpu_attention_scratch(int keys, int head_dim); /* ops.c */
/* Convolution: sizes of the blocks, the same for all instruction sets. */
#define RP_CONV_KC 768   /* most k-steps of a strip of pixels */
/* most columns that a strip passes: 0.9 MB of L2 at RP_CONV_KC, 0.6 MB at RP_CONV_CHAIN; a multiple of every nr */
#define RP_CONV_COLS 288
#define RP_CONV_SLAB 64  /* output channels of dy packed at once: 256 bytes of a row; a multiple of RP_GEMM_GROUP */
#define RP_CONV_ROWS 192 /* pixels of a task, a multiple of RP_COLSUM_ROWS */
/* Bytes of each thread, and after those of the last one the packed weights, for all threads together; ops.c. */
size_t rp_cpu_conv_private(void);
size_t rp_cpu_conv_shared(const struct rp_conv *c, enum rp_op op);
#define RP_CPU_ROW_SUMS_SCRATCH ((size_t)64 * 128 * sizeof(float)) /* a binary counter of 128-column partial sums */

/* Kernels of an instruction set (base/isa.h) if it is one of this machine, else NULL. */
#define RP_KERNELS_every(kernels) (kernels)
#if defined __x86_64__
#define RP_KERNELS_x86_64(kernels) (kernels)
#define RP_KERNELS_aarch64(kernels) NULL
#else
#define RP_KERNELS_x86_64(kernels) NULL
#define RP_KERNELS_aarch64(kernels) (kernels)
#endif
/* Per instruction set: the table of operations, and the kernel that their gemm runs. NULL: this build has none. */
const struct rp_ops *rp_cpu_ops(enum rp_isa isa);
const struct rp_gemm_kernel *rp_cpu_gemm_kernel(enum rp_isa isa);
void rp_cpu_gemm(struct rp_dev *dev, const struct rp_gemm *g); /* with cpu->gemm */
