/* What the CUDA runtime linked in here gets from the driver: versions, and what only CUDA knows of a device. No context
 * is made. */
#include "gpu/gpu.h"

#include <ctype.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

/* 12090 -> "12.9" */
static void put_version(json_t *out, const char *name, int n, const char *source)
{
    char text[32];
    rp_put_str(out, name, RP_FORMAT(text, "%d.%d", n / 1000, n % 1000 / 10), source);
}

static void put_failure(json_t *out, const char *name, cudaError_t status, const char *source)
{
    char text[256];
    int driver = 0; /* 0 without a driver; the runtime then reports it as too old */
    int absent = status == cudaErrorNoDevice ||
                 (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0);
    snprintf(text, sizeof text, "%s: %s", cudaGetErrorName(status), cudaGetErrorString(status));
    rp_put(out, name, absent ? RP_STATE_ABSENT : RP_STATE_ERROR, NULL, source, NULL, text);
}

static void put_attribute(json_t *out, const char *name, int device, enum cudaDeviceAttr attribute, int64_t scale,
                          const char *unit)
{
    int n = 0;
    cudaError_t status = cudaDeviceGetAttribute(&n, attribute, device);
    if (status == cudaSuccess)
        rp_put_int(out, name, n * scale, "cudaDeviceGetAttribute", unit);
    else
        put_failure(out, name, status, "cudaDeviceGetAttribute");
}

/* Devices by PCI address: CUDA numbers them in another order than NVML, and shows one MIG instance at most. */
static json_t *devices(int count)
{
    json_t *all = json_object();
    for (int i = 0; i < count; i++) {
        char address[32];
        if (cudaDeviceGetPCIBusId(address, sizeof address, i) != cudaSuccess)
            snprintf(address, sizeof address, "device %d", i);
        for (char *c = address; *c; c++)
            *c = (char)tolower(*c);
        json_t *d = json_object();
        put_attribute(d, "sm_count", i, cudaDevAttrMultiProcessorCount, 1, NULL);
        put_attribute(d, "l2_cache", i, cudaDevAttrL2CacheSize, 1, "B");
        put_attribute(d, "memory_bus_width", i, cudaDevAttrGlobalMemoryBusWidth, 1, "bit");
        json_object_set_new(all, address, d);
    }
    return all;
}

json_t *rp_gpu_cuda(void)
{
    static const char runtime_source[] = "cudaRuntimeGetVersion", driver_source[] = "cudaDriverGetVersion",
                      count_source[] = "cudaGetDeviceCount";
    json_t *out = json_object();
    int runtime = 0, driver = 0, count = 0;
    /* the machine, not one program's choice; the variable itself is captured elsewhere */
    unsetenv("CUDA_VISIBLE_DEVICES");
    cudaError_t status = cudaRuntimeGetVersion(&runtime);
    if (status == cudaSuccess)
        put_version(out, "cuda_runtime_version", runtime, runtime_source);
    else
        put_failure(out, "cuda_runtime_version", status, runtime_source);
    status = cudaDriverGetVersion(&driver); /* 0 without a driver */
    if (status == cudaSuccess && driver > 0)
        put_version(out, "cuda_driver_version", driver, driver_source);
    else if (status == cudaSuccess)
        rp_put(out, "cuda_driver_version", RP_STATE_ABSENT, NULL, driver_source, NULL, "libcuda.so.1 cannot be loaded");
    else
        put_failure(out, "cuda_driver_version", status, driver_source);
    status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess) {
        rp_put_int(out, "cuda_devices", count, count_source, NULL);
        json_object_set_new(out, "devices", devices(count));
    } else {
        put_failure(out, "cuda_devices", status, count_source);
    }
    return out;
}
