/* Kernels by name, and their launches. */
#include "backend/cuda/cuda.h"

#include <string.h>

#define WAVES 4 /* blocks a thread of a striding kernel may have queued per multiprocessor, times those that fit */

const struct rp_cuda_kernel_info rp_cuda_kernels[RP_CUDA_KERNELS] = {
#define KERNEL(name, args, threads, blocks) {"rp_" #name, threads, sizeof(struct args)},
#include "backend/cuda/kernels.def"
#undef KERNEL
};

void rp_cuda_failed(struct rp_cuda *c, CUresult r, const char *what)
{
    if (c->has_failed)
        return;
    c->has_failed = 1;
    (void)rp_driver_fail(c->d, r, what, &c->failed);
}

void rp_cuda_launch_now(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared, const void *args)
{
    const struct rp_cuda_kernel_info *k = &rp_cuda_kernels[kernel];
    void *parameters[1];
    *(const void **)(void *)parameters = args;
    CUresult r = c->d->cuLaunchKernel(c->kernel[kernel], grid.x, grid.y, grid.z, k->threads, 1, 1, (unsigned)shared, c->stream, parameters,
                                      NULL);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, k->name);
    else
        c->launches[kernel]++;
}

void rp_cuda_launch(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared, const void *args)
{
    const struct rp_cuda_kernel_info *k = &rp_cuda_kernels[kernel];
    if (c->has_failed || !grid.x || !grid.y || !grid.z)
        return;
    RP_BUG_IF(shared > c->gpu.shared_max);
    if (shared > c->shared_set[kernel]) {
        CUresult r = c->d->cuFuncSetAttribute(c->kernel[kernel], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
        if (r != CUDA_SUCCESS) {
            rp_cuda_failed(c, r, k->name);
            return;
        }
        c->shared_set[kernel] = shared;
    }
    if (c->graphs)
        rp_cuda_collect(c, kernel, grid, shared, args);
    else
        rp_cuda_launch_now(c, kernel, grid, shared, args);
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

/* Whether it computes in mixed precision and the device does not, or a tile of that is not compiled for this GPU. */
static int is_other_arithmetic(const struct rp_cuda *c, const char *name)
{
    static const char *const format[] = {"_f16", "_bf16"}, *const prefix[] = {"gemm16_f16_", "gemm16_bf16_"};
    const enum rp_tc_format own = rp_arithmetic_of(c->dev.numerics)->format;
    if (strncmp(name, "gemm16_", strlen("gemm16_")) != 0)
        return 0;
    return !rp_is_mixed(c->dev.numerics) || !strstr(name, format[own]) || is_other_tile(c, name, prefix[own], rp_cuda_gemm16_tile);
}

const char *rp_cuda_kernel(const struct rp_dev *dev, int number, uint64_t *launches)
{
    const struct rp_cuda *c = (const struct rp_cuda *)dev;
    for (int i = 0; i < RP_CUDA_KERNELS; i++) {
        const char *name = rp_cuda_kernels[i].name + strlen("rp_");
        if (is_other_tile(c, name, "gemm_", rp_cuda_gemm_tile) || is_other_tile(c, name, "conv_", rp_cuda_conv_tile) ||
            is_other_arithmetic(c, name) || number-- > 0)
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
