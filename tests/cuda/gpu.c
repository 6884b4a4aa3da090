#include "tests/cuda/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static struct shim_options *load(struct rp_err *err)
{
    const char *path = getenv("RP_SHIM_LIBRARY");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL),
         *options = library ? dlsym(library, "shim_options") : NULL;
    return options ? options
                   : rp_fail_null(err, RP_IO, "RP_SHIM_LIBRARY must name the libcuda.so.1 of the tests: %s", dlerror());
}

struct rp_dev *gpu(struct shim_options **options, struct rp_err *err)
{
    static struct rp_dev *dev;
    static struct shim_options *shim;
    const struct rp_op_use use = {.op = RP_OP_gemm};
    struct rp_device_opts o = {0};
    if (!shim)
        shim = load(err);
    if (shim && !dev)
        dev = rp_backend_cuda.open(&o, rp_backend_cuda.needs(&o, &use), err);
    if (options)
        *options = shim;
    return dev;
}

struct rp_dev *gpu_here(struct shim_options **options)
{
    struct rp_err err = {0};
    struct rp_dev *dev = gpu(options, &err);
    if (!dev) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return dev;
}

int gpu_turn(struct rp_dev *dev, unsigned i)
{
    const char *all = getenv("LONG");
    return (all && *all && strcmp(all, "0") != 0) || i % 2 == (rp_cuda_of(dev)->gpu.capability < 80);
}
