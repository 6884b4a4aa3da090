/* The compiled device code: which image a device gets, and its kernels by name. */
#include "backend/cuda/inner.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

const struct rp_cuda_image *rp_cuda_image_for(int capability)
{
    const struct rp_cuda_image *best = NULL;
    for (int i = 0; i < rp_cuda_image_count; i++) {
        const struct rp_cuda_image *x = &rp_cuda_images[i];
        int fits = !x->is_more && x->arch <= capability && (x->ptx || x->arch / 10 == capability / 10);
        if (fits && (!best || x->ptx < best->ptx || (x->ptx == best->ptx && x->arch > best->arch)))
            best = x;
    }
    return best;
}

/* The one that is loaded besides rp_cuda_image_for(), or NULL. */
static const struct rp_cuda_image *find_more(int capability)
{
    for (int i = 0; i < rp_cuda_image_count; i++)
        if (rp_cuda_images[i].is_more && rp_cuda_images[i].arch == capability)
            return &rp_cuda_images[i];
    return NULL;
}

/* Followed by a zero, which ends PTX. */
static char *unpack(const struct rp_cuda_part *part, struct rp_err *err)
{
    char *code = rp_alloc(part->size + 1);
    size_t got = ZSTD_decompress(code, part->size, part->data, part->packed);
    if (got != part->size) {
        free(code);
        return rp_fail_null(err, RP_BUG, "the kernels '%s' inside this program cannot be unpacked", part->name);
    }
    return code;
}

static int load_part(struct rp_cuda *c, const struct rp_cuda_part *part, struct rp_err *err)
{
    RP_BUG_IF(c->modules == RP_CUDA_MODULES);
    char *code = unpack(part, err);
    if (!code)
        return -1;
    CUresult r = c->d->cuModuleLoadData(&c->module[c->modules], code);
    free(code);
    if (r != CUDA_SUCCESS)
        return rp_driver_fail(c->d, r,
                              c->image->ptx ? "compiling the kernels (PTX) for this GPU" : "loading the kernels", err);
    c->modules++;
    return 0;
}

static int find_kernel(struct rp_cuda *c, int kernel, struct rp_err *err)
{
    CUresult r = CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < c->modules && r == CUDA_ERROR_NOT_FOUND; i++)
        r = c->d->cuModuleGetFunction(&c->kernel[kernel], c->module[i], rp_cuda_kernels[kernel].name);
    return r == CUDA_SUCCESS ? 0 : rp_driver_fail(c->d, r, rp_cuda_kernels[kernel].name, err);
}

/* A driver that cannot load them leaves the kernels that every image has. */
static void load_more(struct rp_cuda *c)
{
    struct rp_err ignored;
    const struct rp_cuda_image *x = find_more(c->gpu.capability);
    int is_there = x != NULL;
    for (int i = 0; is_there && i < x->parts; i++)
        is_there = load_part(c, &x->part[i], &ignored) == 0;
    for (int i = 0; is_there && i < RP_CUDA_KERNELS; i++)
        is_there = !rp_cuda_is_more((enum rp_cuda_kernel)i) || find_kernel(c, i, &ignored) == 0;
    c->more = is_there ? x : NULL;
}

int rp_cuda_load_kernels(struct rp_cuda *c, struct rp_err *err)
{
    for (int i = 0; i < c->image->parts; i++)
        if (load_part(c, &c->image->part[i], err) < 0)
            return -1;
    for (int i = 0; i < RP_CUDA_KERNELS; i++)
        if (rp_cuda_is_compiled((enum rp_cuda_kernel)i, c->image->arch) && find_kernel(c, i, err) < 0)
            return -1;
    load_more(c);
    return 0;
}

void rp_cuda_unload_kernels(struct rp_cuda *c)
{
    while (c->modules)
        c->d->cuModuleUnload(c->module[--c->modules]);
}
