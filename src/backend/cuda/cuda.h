/* The CUDA backend's own structs: an opened GPU, its memory, and how kernels are launched on it.
 *
 * What:    shared by the host files of backend/cuda/ only.
 * Flow:    cuda.c opens the device and moves bytes; ops_*.c fill its table of operations, each a few rp_cuda_launch() on one stream.
 * Owner:   struct rp_cuda owns context, streams, modules, blocks and the pinned buffers; nothing is allocated after open() and block().
 * Extend:  an operation that needs memory of its own has it in rp_cuda_needs(), and takes it with rp_cuda_workspace().
 *
 * Operations run in the order of their calls on one stream. The first failure is kept, everything after it does nothing, and sync(),
 * upload() or download() reports it.
 */
#ifndef RP_BACKEND_CUDA_CUDA_H
#define RP_BACKEND_CUDA_CUDA_H

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

/* Compiled device code, made by the build: all kernels for each architecture, in as many parts as there are .cu files. */
struct rp_cuda_part {
    const char *name;          /* "whole", of whole.cu */
    const unsigned char *data; /* a cubin or PTX as a zstd frame */
    size_t packed, size;
};
struct rp_cuda_image {
    int arch; /* 90: sm_90 */
    int ptx;  /* not machine code: the driver compiles it for a device that no other image fits */
    const struct rp_cuda_part *part;
    int parts;
    const char *sha256; /* hex, of the unpacked parts one after another */
};
extern const struct rp_cuda_image rp_cuda_images[];
extern const int rp_cuda_image_count;
#define RP_CUDA_MODULES 16 /* parts at most */
/* The image for a device of this compute capability (90 for 9.0): machine code of the same major version and the largest minor one that is
 * not above; else the newest PTX that is not above; else NULL. */
const struct rp_cuda_image *rp_cuda_image_for(int capability);

#define RP_CUDA_BLOCKS 64

struct rp_cuda {
    struct rp_dev dev;
    const struct rp_driver *d;
    struct rp_ops ops; /* what dev.op points to */
    CUdevice device;
    CUcontext context;
    CUstream stream;
    const struct rp_cuda_image *image;
    CUmodule module[RP_CUDA_MODULES];
    int modules;
    CUfunction kernel[RP_CUDA_KERNELS];
    size_t shared_set[RP_CUDA_KERNELS]; /* dynamic shared memory that the kernel has been allowed */
    struct rp_cuda_gpu gpu;
    int ordinal, multiprocessors;
    size_t l2;                        /* bytes of the cache that all multiprocessors share */
    struct rp_cuda_block {
        CUdeviceptr data;
        size_t bytes;
    } block[RP_CUDA_BLOCKS];          /* the first is the workspace */
    int blocks;
    size_t workspace_bytes;
    unsigned *turns;                  /* RP_CUDA_TURNS counters behind the workspace, 0 between operations: see struct rp_gemm_args */
    struct rp_cuda_gemm {
        int tile, mode;               /* 1 + the number in gemm.def, 1 + enum rp_gemm_mode */
        double cycles;                /* of a multiprocessor, by estimate */
    } gemm_wish, gemm_done;           /* for tests: taken where possible (0: the fastest by estimate); of the last product */
    int attention_wish;               /* for tests: queries of a thread, taken where possible */
    int gemms, gemm_rotates;          /* products so far; four at a time in the next of the ways that are possible (RP_CUDA_GEMM=rotate) */
    uint64_t free_bytes;              /* when the device was opened */
    uint64_t allowed, reserved;       /* bytes that blocks may take; bytes taken */
    unsigned char *pinned;            /* staging for copies, RP_CUDA_PINNED bytes, in two halves */
    CUevent half_free[2];
    int half;
    CUevent timer[2];                 /* measure.c */
    int timing;                       /* 1: between time_begin() and time_end(); 2: and timer[1] was recorded */
    struct rp_cuda_graphs *graphs;    /* launches that are collected and repeated: graph.c; NULL: each goes to the stream at once */
    struct rp_err failed;             /* the first failure since the last report */
    int has_failed;
};
#define RP_CUDA_PINNED ((size_t)8 << 20)

static inline struct rp_cuda *rp_cuda_of(struct rp_dev *dev)
{
    return (struct rp_cuda *)dev;
}

struct rp_grid {
    unsigned x, y, z;
};

/* Launches between two looks of the host (sync, upload, download) are one graph: the second time the same kernels come in the same
 * order, only sizes and arguments that changed are told to the driver, and one call launches all. RP_CUDA_GRAPHS=0 turns it off. */
struct rp_cuda_graphs *rp_cuda_graphs_new(void);
void rp_cuda_graphs_free(struct rp_cuda *c);
void rp_cuda_collect(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared, const void *args);
void rp_cuda_flush(struct rp_cuda *c); /* what is collected goes to the stream; to be called before anything else is queued there */
/* One launch on the stream. */
void rp_cuda_launch_now(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared, const void *args);
/* Launch on the device's stream. shared: bytes of dynamic shared memory. A failure is kept in c. */
void rp_cuda_launch(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared, const void *args);
#define RP_LAUNCH(c, name, grid, shared, ...)                                                                          \
    rp_cuda_launch(c, RP_KERNEL_##name, grid, shared, &(const struct rp_##name##_args){__VA_ARGS__})
/* Blocks for n items, one thread each, at most `most` blocks a multiprocessor: the kernel strides over the rest. */
struct rp_grid rp_cuda_spread(const struct rp_cuda *c, enum rp_cuda_kernel kernel, size_t n);
/* The workspace: bytes that are free between two operations, 256-byte aligned; RP_BUG when more is asked than it was opened with. */
void *rp_cuda_workspace(struct rp_cuda *c, size_t bytes);
/* Whether all of these start at a multiple of 16 bytes, as float4 has to. NULL does. */
int rp_cuda_aligned(const void *const *pointer, size_t n);
#define RP_ALIGNED(...) rp_cuda_aligned((const void *const[]){__VA_ARGS__}, sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))
static inline struct rp_drop_args rp_cuda_drop(const struct rp_dropout *d)
{
    return d ? (struct rp_drop_args){d->seed, d->step, d->site, d->first_sample, d->threshold, d->rows_per_sample, d->scale}
             : (struct rp_drop_args){.threshold = 0};
}
/* The end of a column sum: sum[p][column] = tree over the sums of 64 rows in work[p * part + block * width + column], p < parts. */
void rp_cuda_column_tree(struct rp_cuda *c, float *const sum[3], int parts, const float *work, size_t part, int rows, int width);
/* c->kernel from c->image; and what is loaded given back. */
int rp_cuda_load_kernels(struct rp_cuda *c, struct rp_err *err) rp_must_check;
void rp_cuda_unload_kernels(struct rp_cuda *c);
/* Keep the first failure. */
void rp_cuda_failed(struct rp_cuda *c, CUresult r, const char *what);

/* Measuring: the rows of struct rp_backend of these names, in measure.c. */
struct rp_product rp_cuda_product(const struct rp_dev *dev);
int rp_cuda_time_begin(struct rp_dev *dev, struct rp_err *err);
int rp_cuda_time_end(struct rp_dev *dev, uint64_t *ns, struct rp_err *err);
void rp_cuda_timer_mark(struct rp_cuda *c); /* the host is about to wait: what is queued now is the last so far */
void rp_cuda_copy(struct rp_dev *dev, void *dst, const void *src, size_t bytes);
void rp_cuda_feed(struct rp_dev *dev, void *dst, size_t bytes, int times);
void rp_cuda_release(struct rp_dev *dev);
int rp_cuda_taken(struct rp_dev *dev, uint64_t *reserved, uint64_t *taken, struct rp_err *err);
void rp_cuda_address(const struct rp_dev *dev, char text[32]);

/* "64x128_nt", or NULL past the last; numbers from 1 on. usable: compiled for this GPU. */
const char *rp_cuda_gemm_tile(const struct rp_cuda *c, int number, int *usable);
/* How a product would be done: from its shape and alignment, and the device's architecture, multiprocessors and shared memory alone. */
struct rp_cuda_gemm rp_cuda_gemm_choice(const struct rp_cuda *c, const struct rp_gemm *g);

/* Queries of a thread, an eighth of those of a block, in the kernels that are taken. */
void rp_cuda_attention_rows(const struct rp_cuda *c, const struct rp_attention *a, int *forward_rows, int *backward_rows);

/* Each fills its rows of the table. */
void rp_cuda_ops_gemm(struct rp_ops *op);
void rp_cuda_ops_attention(struct rp_ops *op);
void rp_cuda_ops_rows(struct rp_ops *op);
void rp_cuda_ops_pointwise(struct rp_ops *op);
void rp_cuda_ops_loss(struct rp_ops *op);
void rp_cuda_ops_optim(struct rp_ops *op);
void rp_cuda_ops_evidence(struct rp_ops *op);
void rp_cuda_ops_whole(struct rp_ops *op);

#endif
