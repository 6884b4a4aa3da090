/* An NVIDIA GPU as a device: choice, memory, copies, and the report of what failed. */
#include "backend/cuda/inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MIB(bytes) ((double)(bytes) / (1 << 20))
#define HALF (RP_CUDA_PINNED / 2)
/* left free: the driver allocates for itself when graphs are made and launched */
#define DRIVER_SPARE ((uint64_t)64 << 20)
#define LOAD_SPARE ((uint64_t)64 << 20)   /* until a device is opened: its kernels, and blocks are rounded up */

/* ---- choosing the device ---- */

static int is_uuid(const char *text)
{
    return text && (!strncmp(text, "GPU-", 4) || !strncmp(text, "MIG-", 4));
}

/* 8-4-4-4-12 hexadecimal digits: what nvidia-smi -L prints after "GPU-", or after "MIG-" for a part of a GPU. */
static void uuid_text(char text[48], const CUuuid *u)
{
    int n = 0;
    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, 48 - (size_t)n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      (unsigned char)u->bytes[i]);
}

static int find_uuid(const struct rp_driver *d, const char *uuid, int count, CUdevice *device, int *ordinal,
                     struct rp_err *err)
{
    for (int i = 0; i < count; i++) {
        CUuuid u;
        char text[48];
        if (d->cuDeviceGet(device, i) != CUDA_SUCCESS || d->cuDeviceGetUuid(&u, *device) != CUDA_SUCCESS)
            continue;
        uuid_text(text, &u);
        if (!strcasecmp(text, uuid + 4)) {
            *ordinal = i;
            return 0;
        }
    }
    return rp_fail(err, RP_UNAVAILABLE,
                   "none of the %d GPUs that CUDA shows here is %s (nvidia-smi -L lists them; CUDA_VISIBLE_DEVICES may "
                   "hide some, and has to name a MIG instance other than the first)",
                   count, uuid);
}

int rp_cuda_choose(const struct rp_driver *d, const struct rp_device_opts *o, CUdevice *device, int *ordinal,
                   struct rp_err *err)
{
    int count = 0;
    char *end;
    CUresult r = d->cuDeviceGetCount(&count);
    if (r == CUDA_SUCCESS && count == 0)
        r = CUDA_ERROR_NO_DEVICE;
    if (r != CUDA_SUCCESS)
        return rp_driver_fail(d, r, "cuDeviceGetCount", err);
    if (is_uuid(o->device))
        return find_uuid(d, o->device, count, device, ordinal, err);
    long n = o->device && *o->device ? strtol(o->device, &end, 10) : 0;
    if (o->device && *o->device && (*end || n < 0 || n > INT32_MAX))
        return rp_fail(err, RP_USAGE, "device '%s': expected a number from 0 or a UUID like GPU-8a56a4bc-...",
                       o->device);
    if (n >= count)
        return rp_fail(err, RP_UNAVAILABLE, "there is no GPU %ld: CUDA shows %d here, numbered from 0", n, count);
    *ordinal = (int)n;
    r = d->cuDeviceGet(device, (int)n);
    return r == CUDA_SUCCESS ? 0 : rp_driver_fail(d, r, "cuDeviceGet", err);
}

static int attribute(struct rp_cuda *c, CUdevice_attribute which, int *n, struct rp_err *err)
{
    CUresult r = c->d->cuDeviceGetAttribute(n, which, c->device);
    return r == CUDA_SUCCESS ? 0 : rp_driver_fail(c->d, r, "cuDeviceGetAttribute", err);
}

static int ask_device(struct rp_cuda *c, struct rp_err *err)
{
    int major, minor, shared, l2;
    CUresult r = c->d->cuDeviceGetName(c->gpu.name, (int)sizeof c->gpu.name, c->device);
    if (r != CUDA_SUCCESS)
        return rp_driver_fail(c->d, r, "cuDeviceGetName", err);
    if (attribute(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major, err) < 0 ||
        attribute(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor, err) < 0 ||
        attribute(c, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &c->multiprocessors, err) < 0 ||
        attribute(c, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared, err) < 0 ||
        attribute(c, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2, err) < 0)
        return -1;
    c->gpu.capability = 10 * major + minor;
    c->gpu.shared_max = (size_t)shared;
    c->l2 = (size_t)l2;
    c->image = rp_cuda_image_for(c->gpu.capability);
    if (!c->image)
        return rp_fail(err, RP_UNAVAILABLE, "%s has compute capability %d.%d; this build has kernels from 7.0 on%s",
                       c->gpu.name, major, minor,
                       c->gpu.capability >= 70 ? ", but none that this one can execute" : "");
    return 0;
}

/* Code for an older GPU multiplies as that one does: mixed precision needs code in the arithmetic of this one. */
static int check_arithmetic(const struct rp_cuda *c, enum rp_numerics n, struct rp_err *err)
{
    if (rp_cuda_has_arithmetic(c->image->arch, n) || !rp_cuda_has_arithmetic(c->gpu.capability, n))
        return 0;
    return rp_fail(
        err, RP_UNAVAILABLE,
        "%s has compute capability %d.%d; the nearest code in this build is for %d.%d, whose tensor cores add "
        "in another order: set train.precision to fp32, or build with `make CUDA=1 ARCHS=...sm_%d`",
        c->gpu.name, c->gpu.capability / 10, c->gpu.capability % 10, c->image->arch / 10, c->image->arch % 10,
        c->gpu.capability);
}

/* ---- open and close ---- */

#define TRY(call, what)                                                                                                \
    do {                                                                                                               \
        CUresult r_ = c->d->call;                                                                                      \
        if (r_ != CUDA_SUCCESS)                                                                                        \
            return rp_driver_fail(c->d, r_, what, err);                                                                \
    } while (0)

/* The device's primary context becomes current in this thread. */
static int start(struct rp_cuda *c, struct rp_err *err)
{
    size_t free_bytes, total;
    TRY(cuDevicePrimaryCtxRetain(&c->context, c->device), "making a context on this GPU");
    TRY(cuCtxSetCurrent(c->context), "cuCtxSetCurrent");
    TRY(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int i = 0; i < 2; i++)
        TRY(cuEventCreate(&c->half_free[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    for (int i = 0; i < 2; i++)
        TRY(cuEventCreate(&c->timer[i], CU_EVENT_DEFAULT), "cuEventCreate");
    TRY(cuMemHostAlloc((void **)&c->pinned, RP_CUDA_PINNED, 0), "page-locked memory for copies (cuMemHostAlloc)");
    if (rp_cuda_load_kernels(c, err) < 0)
        return -1;
    TRY(cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo");
    c->free_bytes = free_bytes;
    c->allowed = free_bytes > DRIVER_SPARE ? free_bytes - DRIVER_SPARE : 0;
    return 0;
}

/* Errors are ignored: after the loss of a device every call fails. */
static void close_device(struct rp_dev *dev)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    if (!c)
        return;
    if (c->of) {
        rp_cuda_close_second_queue(c);
        return;
    }
    const struct rp_driver *d = c->d;
    if (c->stream)
        d->cuStreamSynchronize(c->stream);
    rp_cuda_graphs_free(c);
    for (int i = 0; i < c->blocks; i++)
        d->cuMemFree(c->block[i].data);
    rp_cuda_unload_kernels(c);
    if (c->pinned)
        d->cuMemFreeHost(c->pinned);
    for (int i = 0; i < 2; i++)
        if (c->half_free[i])
            d->cuEventDestroy(c->half_free[i]);
    for (int i = 0; i < 2; i++)
        if (c->timer[i])
            d->cuEventDestroy(c->timer[i]);
    if (c->stream)
        d->cuStreamDestroy(c->stream);
    if (c->context)
        d->cuDevicePrimaryCtxRelease(c->device);
    free(c);
}

/* A block that is not zeroed. */
static void *reserve(struct rp_cuda *c, const char *what, size_t bytes, struct rp_err *err)
{
    struct rp_cuda_block *b = &c->block[c->blocks];
    uint64_t left = c->allowed - c->reserved;
    RP_BUG_IF(c->blocks == RP_CUDA_BLOCKS);
    if (bytes > left)
        return rp_fail_null(err, RP_UNAVAILABLE,
                            "%s: %.1f MiB needed, %.1f MiB left of %.1f MiB that were free on %s; try a smaller batch",
                            what, MIB(bytes), MIB(left), MIB(c->allowed), c->gpu.name);
    b->bytes = bytes ? bytes : 256;
    CUresult r = c->d->cuMemAlloc(&b->data, b->bytes);
    if (r != CUDA_SUCCESS) {
        char text[160];
        snprintf(text, sizeof text, "%s, %.1f MiB on %s", what, MIB(bytes), c->gpu.name);
        (void)rp_driver_fail(c->d, r, text, err);
        return NULL;
    }
    c->blocks++;
    c->reserved += bytes;
    return (void *)(uintptr_t)b->data; /* NOLINT(performance-no-int-to-ptr): an address of the device */
}

static const struct rp_ops cuda_ops = {
#define OP(name, types, args, names) .name = rp_cuda_op_##name,
#include "ops/ops.def"
#undef OP
};

/* Whether a variable of the environment has that value. */
static int is_set(const char *variable, const char *to)
{
    const char *value = getenv(variable);
    return value && strcmp(value, to) == 0;
}

static int prepare(struct rp_cuda *c, const struct rp_device_opts *o, size_t workspace, struct rp_err *err)
{
    if (rp_cuda_choose(c->d, o, &c->device, &c->ordinal, err) < 0 || ask_device(c, err) < 0 ||
        check_arithmetic(c, o->numerics, err) < 0 || start(c, err) < 0)
        return -1;
    c->workspace_bytes = workspace > RP_CUDA_SEMAPHORE_BYTES ? workspace - RP_CUDA_SEMAPHORE_BYTES : 0;
    unsigned char *own = reserve(c, rp_class_name(RP_CLASS_BACKEND), c->workspace_bytes + RP_CUDA_SEMAPHORE_BYTES, err);
    if (!own)
        return -1;
    c->semaphores = (unsigned *)(void *)(own + c->workspace_bytes);
    TRY(cuMemsetD8Async((CUdeviceptr)(uintptr_t)c->semaphores, 0, RP_CUDA_SEMAPHORE_BYTES, c->stream),
        "cuMemsetD8Async");
    c->gemm_rotates = is_set("RP_CUDA_GEMM", "rotate");
    c->without_wgmma = is_set("RP_CUDA_GEMM", "mma");
    c->attention_rotates = is_set("RP_CUDA_ATTENTION", "rotate");
    c->graphs = is_set("RP_CUDA_GRAPHS", "0") ? NULL : rp_cuda_graphs_new();
    c->dev.backend = &rp_backend_cuda;
    c->dev.op = &cuda_ops;
    c->dev.numerics = o->numerics;
    c->dev.stored_bytes = rp_stored_bytes(&rp_backend_cuda, o->numerics);
    return rp_is_mixed(o->numerics) ? rp_cuda_prove(c, err) : 0;
}

static struct rp_dev *open_device(const struct rp_device_opts *o, size_t workspace, struct rp_err *err)
{
    const struct rp_driver *d = rp_driver_load(err);
    if (!d)
        return NULL;
    struct rp_cuda *c = calloc(1, sizeof *c);
    if (!c)
        return rp_fail_null(err, RP_UNAVAILABLE, "cuda backend: no memory for %zu bytes", sizeof *c);
    c->d = d;
    if (prepare(c, o, workspace, err) < 0) {
        close_device(&c->dev);
        return NULL;
    }
    return &c->dev;
}

/* ---- memory and copies ---- */

static int finish(struct rp_cuda *c, struct rp_err *err)
{
    rp_cuda_flush(c);
    rp_cuda_timer_mark(c);
    if (!c->has_failed) {
        CUresult r = c->d->cuStreamSynchronize(c->stream);
        if (r != CUDA_SUCCESS)
            rp_cuda_failed(c, r, "waiting for the GPU");
    }
    return rp_cuda_report(c, err);
}

static int sync_device(struct rp_dev *dev, struct rp_err *err)
{
    return finish(rp_cuda_of(dev), err);
}

static void *block(struct rp_dev *dev, enum rp_class class, size_t bytes, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    void *data = reserve(c, rp_class_name(class), bytes, err);
    if (!data)
        return NULL;
    rp_cuda_flush(c);
    CUresult r = c->d->cuMemsetD8Async((CUdeviceptr)(uintptr_t)data, 0, bytes, c->stream);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "cuMemsetD8Async");
    return rp_cuda_report(c, err) < 0 ? NULL : data;
}

/* On 64-bit Linux, page-locked memory has the same address for host and device. */
static void *shared(struct rp_dev *dev, size_t bytes, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    void *data = NULL;
    CUresult r = c->d->cuMemHostAlloc(&data, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
    if (r != CUDA_SUCCESS)
        (void)rp_driver_fail(c->d, r, "page-locked memory (cuMemHostAlloc)", err);
    return r == CUDA_SUCCESS ? data : NULL;
}

static void free_shared(struct rp_dev *dev, void *data)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    c->d->cuMemFreeHost(data);
}

/* Through two halves of page-locked memory: one is copied while the other is filled. `src` may be changed on return;
 * the copy precedes later work on the stream. */
static int upload(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    rp_cuda_flush(c);
    for (size_t at = 0; at < bytes && !c->has_failed; at += HALF) {
        size_t n = bytes - at < HALF ? bytes - at : HALF;
        unsigned char *half = c->pinned + (size_t)c->half * HALF;
        CUresult r = c->d->cuEventSynchronize(c->half_free[c->half]);
        if (r == CUDA_SUCCESS) {
            memcpy(half, (const char *)src + at, n);
            r = c->d->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)dst + at, half, n, c->stream);
        }
        if (r == CUDA_SUCCESS)
            r = c->d->cuEventRecord(c->half_free[c->half], c->stream);
        if (r != CUDA_SUCCESS)
            rp_cuda_failed(c, r, "copying to the GPU");
        c->half ^= 1;
    }
    return rp_cuda_report(c, err);
}

static int download(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    for (size_t at = 0; at < bytes; at += RP_CUDA_PINNED) {
        size_t n = bytes - at < RP_CUDA_PINNED ? bytes - at : RP_CUDA_PINNED;
        if (finish(c, err) < 0) /* uploads may still be reading the halves */
            return -1;
        CUresult r = c->d->cuMemcpyDtoHAsync(c->pinned, (CUdeviceptr)(uintptr_t)src + at, n, c->stream);
        if (r != CUDA_SUCCESS)
            rp_cuda_failed(c, r, "copying from the GPU");
        if (finish(c, err) < 0)
            return -1;
        memcpy((char *)dst + at, c->pinned, n);
    }
    return rp_cuda_report(c, err);
}

/* ---- before anything is opened ---- */

/* A cache of the last answer: callers ask several questions about one device, and making a context takes a second. */
static struct {
    char device[65];
    int known, has_memory; /* the amount of memory is used once: it changes */
    struct rp_cuda_gpu gpu;
    uint64_t bytes;
} found;

static int is_found(const struct rp_device_opts *o)
{
    return found.known && strcmp(found.device, o->device ? o->device : "") == 0;
}

/* The bytes a run may use. Makes a context, which also fails if another program has this GPU to itself. */
static int find_memory(struct rp_cuda *c, uint64_t *bytes, struct rp_err *err)
{
    size_t free_bytes = 0, total = 0;
    TRY(cuDevicePrimaryCtxRetain(&c->context, c->device), "making a context on this GPU");
    CUresult r = c->d->cuCtxSetCurrent(c->context);
    if (r == CUDA_SUCCESS)
        r = c->d->cuMemGetInfo(&free_bytes, &total);
    c->d->cuDevicePrimaryCtxRelease(c->device);
    *bytes = free_bytes > DRIVER_SPARE + LOAD_SPARE ? free_bytes - DRIVER_SPARE - LOAD_SPARE : 0;
    return r == CUDA_SUCCESS ? 0 : rp_driver_fail(c->d, r, "asking this GPU for its free memory", err);
}

static int find(const struct rp_device_opts *o, int with_memory, struct rp_err *err)
{
    struct rp_cuda c = {.d = rp_driver_load(err)};
    found.known = 0;
    if (!c.d || rp_cuda_choose(c.d, o, &c.device, &c.ordinal, err) < 0 || ask_device(&c, err) < 0 ||
        (with_memory && find_memory(&c, &found.bytes, err) < 0))
        return -1;
    found.gpu = c.gpu;
    found.has_memory = with_memory;
    found.known =
        snprintf(found.device, sizeof found.device, "%s", o->device ? o->device : "") < (int)sizeof found.device;
    return 0;
}

static const char *unavailable(const struct rp_device_opts *o)
{
    static struct rp_err err;
    return find(o, 1, &err) < 0 ? err.msg : NULL;
}

static uint64_t memory(const struct rp_device_opts *o)
{
    struct rp_err err;
    if (!(is_found(o) && found.has_memory) && find(o, 1, &err) < 0)
        return 0;
    found.has_memory = 0;
    return found.bytes;
}

const struct rp_cuda_gpu *rp_cuda_gpu_of(const struct rp_device_opts *o, struct rp_err *err)
{
    return is_found(o) || find(o, 0, err) == 0 ? &found.gpu : NULL;
}

static int supports(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err)
{
    const struct rp_cuda_gpu *gpu = rp_cuda_gpu_of(o, err);
    return gpu ? rp_cuda_supports(gpu, o->numerics, u, err) : -1;
}

/* As captures write it. */
static void set_address(struct rp_device_info *out, const struct rp_dev *dev)
{
    unsigned domain, bus, slot, function;
    char text[32];
    int n = 0;
    rp_cuda_address(dev, text);
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &n) == 4 && !text[n] && slot <= 31 &&
        function <= 7)
        snprintf(out->pci_address, sizeof out->pci_address, "%04x:%02x:%02x.%x", domain, bus, slot, function);
}

static void info(const struct rp_dev *dev, struct rp_device_info *out)
{
    const struct rp_cuda *c = (const struct rp_cuda *)dev;
    set_address(out, dev);
    snprintf(out->kind, sizeof out->kind, "cuda");
    snprintf(out->name, sizeof out->name, "%s", c->gpu.name);
    out->index = c->ordinal;
    out->major = c->gpu.capability / 10;
    out->minor = c->gpu.capability % 10;
    out->proof = c->proof;
}

const struct rp_backend rp_backend_cuda = {
    .name = "cuda",
    .summary = "NVIDIA GPUs from V100 on: the same bits as the CPU",
    .separate_memory = 1,
    .mixed = sizeof(uint16_t),
    .unavailable = unavailable,
    .supports = supports,
    .needs = rp_cuda_needs,
    .open = open_device,
    .close = close_device,
    .block = block,
    .memory = memory,
    .shared = shared,
    .free_shared = free_shared,
    .upload = upload,
    .download = download,
    .sync = sync_device,
    .info = info,
    .second_queue = rp_cuda_second_queue,
    .bind_thread = rp_cuda_bind_thread,
    .wait_for = rp_cuda_wait_for,
    .peak_gemm = rp_cuda_peak_gemm,
    .time_begin = rp_cuda_time_begin,
    .time_end = rp_cuda_time_end,
    .copy = rp_cuda_copy,
    .upload_repeated = rp_cuda_upload_repeated,
    .release = rp_cuda_release,
    .used_memory = rp_cuda_used_memory,
    .address = rp_cuda_address,
    .kernel = rp_cuda_kernel,
};
