/* Kernels by name, and their launches. */
#include "backend/cuda/inner.h"

#include <string.h>

#define WAVES 4 /* blocks a thread of a striding kernel may have queued per multiprocessor, times those that fit */

const struct rp_cuda_kernel_info rp_cuda_kernels[RP_CUDA_KERNELS] = {
#define KERNEL(name, args, threads, blocks) {"rp_" #name, threads, sizeof(struct args)},
#include "backend/cuda/kernels.def"
#undef KERNEL
};

enum rp_cuda_kernel rp_cuda_of_store(const struct rp_cuda *c, enum rp_cuda_kernel fp32, enum rp_cuda_kernel f16,
                                     enum rp_cuda_kernel bf16)
{
    const enum rp_dtype storage = rp_arithmetic_of(c->dev.numerics)->storage;
    const enum rp_cuda_kernel kernel = storage == RP_F32 ? fp32 : storage == RP_F16 ? f16 : bf16;
    RP_BUG_IF(kernel == RP_CUDA_KERNELS);
    return kernel;
}

/* Whether a kernel uses tensor cores: every image has one of that name. */
static int has_tensor_cores(const char *name)
{
    static const char *const prefix[] = {"rp_gemm16_", "rp_attention16_", "rp_conv16_"};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
            return 1;
    return 0;
}

/* The type of 16 bits that a kernel is compiled for, by its name; -1: none. */
static int format_of(const char *name)
{
    const size_t n = strlen(name);
    if (has_tensor_cores(name))
        return strstr(name, "_bf16") ? RP_TC_BF16 : RP_TC_FP16;
    if (n > 5 && strcmp(name + n - 5, "_bf16") == 0)
        return RP_TC_BF16;
    return n > 4 && strcmp(name + n - 4, "_f16") == 0 ? RP_TC_FP16 : -1;
}

int rp_cuda_is_more(enum rp_cuda_kernel kernel)
{
    return strstr(rp_cuda_kernels[kernel].name, "_wgmma") != NULL;
}

int rp_cuda_is_compiled(enum rp_cuda_kernel kernel, int arch)
{
    const char *name = rp_cuda_kernels[kernel].name;
    if (rp_cuda_is_more(kernel))
        return 0;
    return arch >= 80 || format_of(name) != RP_TC_BF16 || has_tensor_cores(name);
}

void rp_cuda_failed(struct rp_cuda *c, CUresult r, const char *what)
{
    if (c->has_failed)
        return;
    c->has_failed = 1;
    (void)rp_driver_fail(c->d, r, what, &c->failed);
}

int rp_cuda_report(struct rp_cuda *c, struct rp_err *err)
{
    if (!c->has_failed)
        return 0;
    *err = c->failed;
    return -1;
}

void rp_cuda_launch_now(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared,
                        const void *args)
{
    const struct rp_cuda_kernel_info *k = &rp_cuda_kernels[kernel];
    void *parameters[1];
    *(const void **)(void *)parameters = args;
    CUresult r = c->d->cuLaunchKernel(c->kernel[kernel], grid.x, grid.y, grid.z, k->threads, 1, 1, (unsigned)shared,
                                      c->stream, parameters, NULL);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, k->name);
    else
        c->launches[kernel]++;
}

/* Whether `name` is prefix + a tile that is not compiled for this GPU. */
static int is_other_tile(const struct rp_cuda *c, const char *name, const char *prefix,
                         const char *(*tile_name)(const struct rp_cuda *c, int number, int *usable))
{
    const size_t n = strlen(prefix);
    const char *tile;
    int usable;
    if (strncmp(name, prefix, n) != 0)
        return 0;
    for (int i = 1; (tile = tile_name(c, i, &usable)); i++)
        if (strcmp(name + n, tile) == 0)
            return !usable;
    return 0;
}

/* Whether it computes in mixed precision and the device does not, or as a tile that is not compiled for this GPU. name:
 * with rp_ */
static int is_other_arithmetic(const struct rp_cuda *c, const char *name)
{
    static const char *const prefix[] = {"gemm16_f16_", "gemm16_bf16_"};
    const int format = format_of(name), own = (int)rp_arithmetic_of(c->dev.numerics)->format;
    if (format < 0)
        return 0;
    return !rp_is_mixed(c->dev.numerics) || format != own ||
           is_other_tile(c, name + strlen("rp_"), prefix[own], rp_cuda_gemm16_tile);
}

const char *rp_cuda_kernel(const struct rp_dev *dev, int number, uint64_t *launches)
{
    const struct rp_cuda *c = (const struct rp_cuda *)dev;
    for (int i = 0; i < RP_CUDA_KERNELS; i++) {
        const char *name = rp_cuda_kernels[i].name + strlen("rp_");
        if (is_other_tile(c, name, "gemm_", rp_cuda_gemm_tile) || is_other_tile(c, name, "conv_", rp_cuda_conv_tile) ||
            is_other_arithmetic(c, rp_cuda_kernels[i].name) || number-- > 0)
            continue;
        *launches = c->launches[i];
        return name;
    }
    return NULL;
}

struct rp_grid rp_cuda_spread(const struct rp_cuda *c, enum rp_cuda_kernel kernel, size_t n)
{
    size_t threads = rp_cuda_kernels[kernel].threads, blocks = (n + threads - 1) / threads;
    size_t most = (size_t)c->multiprocessors * (2048 / threads) * WAVES;
    return (struct rp_grid){(unsigned)(blocks < most ? blocks : most), 1, 1};
}

void *rp_cuda_workspace(struct rp_cuda *c, size_t bytes)
{
    RP_BUG_IF(bytes > c->workspace_bytes);
    return (void *)(uintptr_t)c->block[0].data; /* NOLINT(performance-no-int-to-ptr): an address of the device */
}

int rp_cuda_aligned(const void *const *pointer, size_t n)
{
    uintptr_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= (uintptr_t)pointer[i];
    return (all & 15) == 0;
}
