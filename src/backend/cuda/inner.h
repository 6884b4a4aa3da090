/* The CUDA backend's own structs: an opened GPU, its memory, and how kernels are launched on it.
 *
 * What:    shared by the host files of backend/cuda/ only.
 * Flow:    cuda.c opens the device and copies; each operation in ops_*.c is one or a few rp_cuda_launch() on one
 *          stream.
 * Owner:   struct rp_cuda owns context, streams, modules, blocks and the pinned buffers; nothing is allocated after
 *          open() and block().
 * Extend:  an operation that needs memory of its own is a case of rp_cuda_needs(), and gets it from
 *          rp_cuda_workspace().
 *
 * Operations run in the order of their calls on one stream, those of a second queue on another one. After a failure
 * nothing is executed until sync(), upload() or download() reports it.
 */
#pragma once

#include "backend/backend.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/needs.h"

enum rp_cuda_kernel {
#define KERNEL(name, args, threads, blocks) RP_KERNEL_##name,
#include "backend/cuda/kernels.def"
#undef KERNEL
    RP_CUDA_KERNELS
};
struct rp_cuda_kernel_info {
    const char *name; /* "rp_add": the function in the cubins */
    unsigned threads; /* of a block */
    size_t args;
};
extern const struct rp_cuda_kernel_info rp_cuda_kernels[RP_CUDA_KERNELS];

/* Compiled device code, made by the build: all kernels for each architecture, one part for each .cu file. */
struct rp_cuda_part {
    const char *name;          /* "whole", of whole.cu */
    const unsigned char *data; /* a cubin or PTX as a zstd frame */
    size_t packed, size;
};
struct rp_cuda_image {
    int arch; /* 90: sm_90 */
    int ptx;  /* 1: not machine code; the driver compiles it, for devices that no other image fits */
    const struct rp_cuda_part *part;
    int parts;
    const char *sha256; /* hex, of the unpacked parts one after another */
    int is_more;        /* 1: sm_90a: kernels besides those of another image, for this capability alone */
};
extern const struct rp_cuda_image rp_cuda_images[];
extern const int rp_cuda_image_count;
#define RP_CUDA_MODULES 32 /* parts at most */
/* The image for a device of this compute capability (90 for 9.0): machine code of the same major version and the
 * largest minor one that is not above; else the newest PTX that is not above; else NULL. */
const struct rp_cuda_image *rp_cuda_image_for(int capability);

#define RP_CUDA_BLOCKS 64

struct rp_cuda {
    struct rp_dev dev;
    const struct rp_driver *d;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    const struct rp_cuda_image *image, *more; /* more: loaded besides, or NULL */
    int has_wgmma;                            /* the tiles of gemm16_wgmma.def gave the right sums */
    int without_wgmma;                        /* they are not to be tried (RP_CUDA_GEMM=mma) */
    CUmodule module[RP_CUDA_MODULES];
    int modules;
    CUfunction kernel[RP_CUDA_KERNELS];
    size_t shared_set[RP_CUDA_KERNELS]; /* bytes of dynamic shared memory that the kernel may use */
    uint64_t launches[RP_CUDA_KERNELS]; /* that the driver accepted on this queue, one by one or within a graph */
    struct rp_cuda_gpu gpu;
    int ordinal, multiprocessors;
    size_t l2;                        /* bytes of the L2 cache */
    struct rp_cuda_block {
        CUdeviceptr data;
        size_t bytes;
    } block[RP_CUDA_BLOCKS];          /* the first is the workspace */
    int blocks;
    size_t workspace_bytes;
    /* [RP_CUDA_SEMAPHORES] after the workspace, 0 between operations: see struct rp_gemm_args */
    unsigned *semaphores;
    struct rp_cuda_gemm {
        int tile, mode;            /* 1 + the number in gemm.def, 1 + enum rp_gemm_mode */
        double cycles;             /* of a multiprocessor, by estimate */
    } gemm_forced, gemm_done;      /* for tests: used where possible (0: the fastest by estimate); of the last GEMM */
    int conv_forced;               /* for tests: the number in conv.def from 1, used with gemm_forced.mode */
    struct rp_cuda_gemm conv_done; /* of the last convolution: its number, 0 for a GEMM; mode of a weight gradient */
    int convs;                     /* convolutions so far: rotate as GEMMs do */
    /* for tests: a kernel as rp_cuda_attention_rows() numbers them, used where possible */
    int attention_forced;
    int attention_rotates;            /* each call uses the next kernel that can do it (RP_CUDA_ATTENTION=rotate) */
    int attentions[2][3];             /* calls so far, forward and backward, for the three widths of heads in streams */
    /* GEMMs so far; every four use the next possible tile and mode (RP_CUDA_GEMM=rotate) */
    int gemms, gemm_rotates;
    uint64_t free_bytes;              /* when the device was opened */
    uint64_t allowed, reserved;       /* bytes that blocks may take; bytes taken */
    unsigned char *pinned;            /* staging for copies, RP_CUDA_PINNED bytes, in two halves */
    CUevent half_free[2];
    int half;
    CUevent timer[2];                 /* measure.c */
    int timing;                       /* 1: between time_begin() and time_end(); 2: and timer[1] was recorded */
    struct rp_device_proof proof;     /* in mixed precision */
    /* launches that are collected and repeated: graph.c; NULL: each goes to the stream at once */
    struct rp_cuda_graphs *graphs;
    struct rp_err failed;             /* the first failure since the last report */
    int has_failed;
    const struct rp_cuda *of;         /* a second queue of this device (second_queue.c); NULL: the device itself */
    CUevent reached;                  /* of a second queue: what it waits for */
};
#define RP_CUDA_PINNED ((size_t)8 << 20)

static inline struct rp_cuda *rp_cuda_of(struct rp_dev *dev)
{
    return (struct rp_cuda *)dev;
}

struct rp_grid {
    unsigned x, y, z;
};

/* Launches between two synchronisations (sync, upload, download) are one graph. When the same kernels come again in the
 * same order, only changed sizes and arguments are passed to the driver, and one call launches all. RP_CUDA_GRAPHS=0
 * turns this off. */
struct rp_cuda_graphs *rp_cuda_graphs_new(void);
void rp_cuda_graphs_free(struct rp_cuda *c);
void rp_cuda_collect(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared,
                     const void *args);
/* launches what was collected; call it before queueing anything else on the stream */
void rp_cuda_flush(struct rp_cuda *c);
void rp_cuda_launch_now(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared,
                        const void *args);
/* Launches on the device's stream. shared: bytes of dynamic shared memory. A failure is kept in c. RP_LAUNCH takes the
 * fields of the kernel's arguments: RP_LAUNCH(c, fill, grid, 0, .dst = dst, .value = value, .n = n). */
void rp_cuda_launch(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared,
                    const void *args);
#define RP_LAUNCH(c, name, grid, shared, ...)                                                                          \
    rp_cuda_launch(c, RP_KERNEL_##name, grid, shared, &(const struct rp_##name##_args){__VA_ARGS__})
/* The kernel for the device's type of stored tensors. Arguments of mixed precision begin with those of strict fp32, so
 * that the same launch serves both. */
#define RP_STORED_KERNEL(c, name)                                                                                      \
    rp_cuda_of_store(c, RP_KERNEL_##name, RP_KERNEL_##name##_f16, RP_KERNEL_##name##_bf16)
#define RP_LAUNCH_STORED(c, name, grid, shared, ...)                                                                   \
    rp_cuda_launch(c, RP_STORED_KERNEL(c, name), grid, shared, &(const struct rp_##name##_args){__VA_ARGS__})
enum rp_cuda_kernel rp_cuda_of_store(const struct rp_cuda *c, enum rp_cuda_kernel fp32, enum rp_cuda_kernel f16,
                                     enum rp_cuda_kernel bf16);
/* For kernels that strict fp32 does not have. */
#define RP_LOW_KERNEL(c, name) rp_cuda_of_store(c, RP_CUDA_KERNELS, RP_KERNEL_##name##_f16, RP_KERNEL_##name##_bf16)
#define RP_LAUNCH_LOW(c, name, grid, shared, ...)                                                                      \
    rp_cuda_launch(c, RP_LOW_KERNEL(c, name), grid, shared, &(const struct rp_##name##_args){__VA_ARGS__})
/* Whether an image for this architecture has the kernel: those on bf16 are compiled for capabilities that have it. */
int rp_cuda_is_compiled(enum rp_cuda_kernel kernel, int arch);
/* Whether it is one of those that images for sm_90a have besides. */
int rp_cuda_is_more(enum rp_cuda_kernel kernel);
/* Blocks for n items, one thread each, at most `most` blocks a multiprocessor: the kernel strides over the rest. */
struct rp_grid rp_cuda_spread(const struct rp_cuda *c, enum rp_cuda_kernel kernel, size_t n);
#define SPREAD4(c, name, n) rp_cuda_spread(c, RP_KERNEL_##name, ((n) + 3) / 4) /* four elements for each thread */
/* The workspace, for use within one operation, 256-byte aligned; RP_BUG if it was opened with less. */
void *rp_cuda_workspace(struct rp_cuda *c, size_t bytes);
/* Whether all of these are multiples of 16 bytes, as float4 requires. NULL is. */
int rp_cuda_aligned(const void *const *pointer, size_t n);
#define RP_ALIGNED(...)                                                                                                \
    rp_cuda_aligned((const void *const[]){__VA_ARGS__}, sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))
/* For kernels of strict fp32 alone. */
static inline float *rp_cuda_floats(const rp_stored *x)
{
    return (float *)(uintptr_t)x;
}
static inline struct rp_dropout rp_cuda_drop(const struct rp_dropout *d)
{
    return d ? *d : (struct rp_dropout){.threshold = 0};
}
/* The end of a column sum: sum[p][column] = tree over the sums of 64 rows in work[p * part + block * width + column], p
 * < parts. */
void rp_cuda_column_tree(struct rp_cuda *c, float *const sum[3], int parts, const float *work, size_t part, int rows,
                         int width);
/* sum[column] = tree over the rows of work[rows][width]. */
void rp_cuda_tree(struct rp_cuda *c, float *sum, const float *work, int rows, long width);
/* The beginning of one: work[block * width + column]. */
void rp_cuda_column_sums(struct rp_cuda *c, float *work, const rp_stored *x, int rows, int width);
/* mean = such a sum of one part / rows; rstd = 1 / sqrt(mean + eps) unless it is NULL. */
void rp_cuda_column_mean(struct rp_cuda *c, float *mean, float *rstd, float eps, const float *work, int rows,
                         int width);
/* The rows of struct rp_backend of these names, in second_queue.c. */
struct rp_dev *rp_cuda_second_queue(struct rp_dev *dev, struct rp_err *err);
void rp_cuda_close_second_queue(struct rp_cuda *c);
int rp_cuda_bind_thread(struct rp_dev *dev, struct rp_err *err);
int rp_cuda_wait_for(struct rp_dev *dev, struct rp_dev *first, struct rp_err *err);
/* The GPU that the options name, and its number. */
int rp_cuda_choose(const struct rp_driver *d, const struct rp_device_opts *o, CUdevice *device, int *ordinal,
                   struct rp_err *err) rp_must_check;
/* Fills c->kernel from c->image. */
int rp_cuda_load_kernels(struct rp_cuda *c, struct rp_err *err) rp_must_check;
void rp_cuda_unload_kernels(struct rp_cuda *c);
/* Records a failure, unless there was one already. */
void rp_cuda_failed(struct rp_cuda *c, CUresult r, const char *what);
int rp_cuda_report(struct rp_cuda *c, struct rp_err *err) rp_must_check; /* -1 and *err after a failure */

/* Measuring: the rows of struct rp_backend of these names, in measure.c. */
struct rp_gemm_shape rp_cuda_peak_gemm(const struct rp_dev *dev);
int rp_cuda_time_begin(struct rp_dev *dev, struct rp_err *err);
int rp_cuda_time_end(struct rp_dev *dev, uint64_t *ns, struct rp_err *err);
void rp_cuda_timer_mark(struct rp_cuda *c); /* call before the host waits: the end of what is queued now */
void rp_cuda_copy(struct rp_dev *dev, void *dst, const void *src, size_t bytes);
void rp_cuda_upload_repeated(struct rp_dev *dev, void *dst, size_t bytes, int times);
void rp_cuda_release(struct rp_dev *dev);
int rp_cuda_used_memory(struct rp_dev *dev, uint64_t *reserved, uint64_t *taken, struct rp_err *err);
void rp_cuda_address(const struct rp_dev *dev, char text[32]);

/* The row of struct rp_backend of this name, in launch.c. Tiles of gemm.def and conv.def that are not compiled for this
 * GPU are left out. */
const char *rp_cuda_kernel(const struct rp_dev *dev, int number, uint64_t *launches);

/* "64x128_nt", or NULL past the last; numbers from 1. usable: compiled for this GPU. */
const char *rp_cuda_gemm_tile(const struct rp_cuda *c, int number, int *usable);
/* The same of gemm16.def, then of gemm16_wgmma.def. */
const char *rp_cuda_gemm16_tile(const struct rp_cuda *c, int number, int *usable);
/* gemm() of mixed precision: ops_gemm16.c. A and B have 16 bits, C and add too unless f32. */
void rp_cuda_gemm16(struct rp_cuda *c, const struct rp_gemm *g);
/* Tile and estimated cycles, if a multiprocessor does as many multiply-adds in a cycle. */
struct rp_cuda_gemm rp_cuda_gemm16_choice(const struct rp_cuda *c, const struct rp_gemm *g, int rate);
/* Whether the GPU adds products as dev.numerics has it: fills c->proof; RP_UNAVAILABLE with the first that differs.
 * Uses the workspace. */
int rp_cuda_prove(struct rp_cuda *c, struct rp_err *err) rp_must_check;
/* Bytes of shared memory of a tile of gemm16.cuh. */
size_t rp_cuda_gemm16_shared(const struct rp_cuda *c, int rows, int columns);
/* Convolutions in mixed precision, without the mean of the outputs: ops_conv16.c. */
void rp_cuda_conv16_forward(struct rp_cuda *c, rp_stored *y, const rp_stored *x, const rp_stored *w,
                            const struct rp_conv *v);
void rp_cuda_conv16_dgrad(struct rp_cuda *c, rp_stored *dx, const rp_stored *dy, const rp_stored *w,
                          const rp_stored *add, const struct rp_conv *v);
void rp_cuda_conv16_wgrad(struct rp_cuda *c, float *dw, const rp_stored *dy, const rp_stored *x,
                          const struct rp_conv *v);
/* Attention in mixed precision: ops_attention16.c. The gradient of the bias is left to the caller. */
void rp_cuda_attention16_forward(struct rp_cuda *c, rp_stored *o, float *row_max, float *row_inv, uint8_t *mask,
                                 const rp_stored *qkv, const struct rp_attention *a);
void rp_cuda_attention16_backward(struct rp_cuda *c, const struct rp_attention_grad *g);
/* Tile and mode for a GEMM: from its shape and alignment, and the device's architecture, multiprocessors and shared
 * memory alone. group: 0, or as for rp_cuda_gemm_groups(). */
struct rp_cuda_gemm rp_cuda_gemm_choice(const struct rp_cuda *c, const struct rp_gemm *g, int group);
/* For the tiles of conv.def that are GEMMs: the arguments of one, without those that depend on tile and mode; then for
 * each tile whether a mode is possible, the blocks, and the estimated cycles. */
struct rp_cuda_tile {
    int warps, blocks, rows, columns, thread_rows, rate; /* as in gemm.def */
    size_t shared;
};
/* Shared memory of a tile, in floats: stages of the main loop, or bands of C, whichever is larger. */
size_t rp_cuda_tile_floats(const struct rp_cuda *c, int rows, int columns, int thread_rows);
/* Estimated cycles of a second kernel that adds partial results: these bytes are written once and read once. */
double rp_cuda_sum_cycles(const struct rp_cuda *c, double bytes);
struct rp_gemm_args rp_cuda_gemm_arguments(const struct rp_gemm *g, int group);
int rp_cuda_gemm_allows(const struct rp_cuda *c, const struct rp_cuda_tile *t, const struct rp_gemm_args *g,
                        enum rp_gemm_mode mode);
int64_t rp_cuda_gemm_blocks(const struct rp_cuda_tile *t, const struct rp_gemm_args *g, enum rp_gemm_mode mode);
double rp_cuda_gemm_estimate(const struct rp_cuda *c, const struct rp_cuda_tile *t, const struct rp_gemm_args *g,
                             enum rp_gemm_mode mode);
/* A GEMM without bias and add for each `group` k-steps, a multiple of the segment: c has a matrix of m rows for each,
 * one after another. */
void rp_cuda_gemm_groups(struct rp_cuda *c, const struct rp_gemm *g, int group);

/* Estimated cycles of a launch of that many blocks, each a tile with sums of `terms` terms. */
double rp_cuda_waves(const struct rp_cuda *c, const struct rp_cuda_tile *t, double blocks, double terms);
/* The kernel for a convolution (RP_OP_conv_forward, _dgrad or _wgrad) of aligned tensors, from the same: 1 + its number
 * in conv.def, or 0: a GEMM by `gemm`. */
struct rp_cuda_conv {
    int tile;
    double cycles;
    struct rp_cuda_gemm gemm;
};
struct rp_cuda_conv rp_cuda_conv_choice(const struct rp_cuda *c, enum rp_op op, const struct rp_conv *v);
/* "forward_128x64"; as rp_cuda_gemm_tile() */
const char *rp_cuda_conv_tile(const struct rp_cuda *c, int number, int *usable);

/* The kernels that are chosen: rows of a thread, an eighth of those of a block, and 10 more for streams; 0: none
 * fits. */
void rp_cuda_attention_rows(const struct rp_cuda *c, const struct rp_attention *a, int *forward_id, int *backward_id);
/* Blocks of the forward kernel; *kept: tiles of scores that each keeps in the workspace, see attention_stream.cu. */
unsigned rp_cuda_attention_slabs(const struct rp_cuda *c, const struct rp_attention *a, int *kept);
/* Tiles of 64 keys that a launch of the backward streams takes, of *heads heads; 0: the workspace has no room. */
int rp_cuda_attention_part(const struct rp_cuda *c, const struct rp_attention *a, int *heads);

/* Every operation, in ops_*.c; cuda.c makes the table of them. */
#define OP(name, types, args, names) void rp_cuda_op_##name RP_OP_ARGS args;
#include "ops/ops.def"
#undef OP
