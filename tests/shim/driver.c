/* A libcuda.so.1 for tests: the driver's functions that the backend calls, on the memory and the one thread of this process, with the
 * kernels executed by the shim. The product cannot tell it from a driver.
 *
 *   SHIM_FAIL=N[:R]            the N-th call (from 1) returns R (999, unknown error, if not given), and so does every one after it
 *   SHIM_FAIL=FUNCTION[:N[:R]] the N-th call of that function
 *   SHIM_HANG=FUNCTION[:N]     that call never returns
 *   SHIM_LOG=FILE              at the end, one a line: "calls N", "THING N" not given back, "called FUNCTION N"; of several
 *                              processes the one that called most
 *   SHIM_DEVICES=N             GPUs (1)             SHIM_CAPABILITY=90   compute capability (built for what was before 8.0: 70)
 *   SHIM_MEMORY=BYTES          of each (8 GiB)      SHIM_VERSION=12090   CUDA version of the driver
 *   SHIM_L2=BYTES              of the cache that all multiprocessors share (32 MiB)
 *   SHIM_MULTIPROCESSORS=N     of each (4)
 *   SHIM_IDLE=FILE             nothing is executed or copied; at the end, one a line: "KERNEL LAUNCHES BYTES", of shared memory at most
 *   SHIM_ORDER=0|1|2  SHIM_LATE=0|1  SHIM_AHEAD=0|1  SHIM_RESIDENT=N  SHIM_SEED=N   see tests/shim/run.h
 */
#include "tests/shim/run.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Something that runs on a stream. */
struct node {
    enum { LAUNCH, COPY, SET } kind;
    const char *kernel;
    struct shim_dim grid, block;
    size_t shared;
    unsigned char args[4096];
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
};
struct CUgraph_st {
    struct node *node;
    size_t nodes, space;
};
struct CUgraphExec_st {
    struct node *node;
    size_t nodes;
};

enum thing { CONTEXT, BLOCK, PINNED, STREAM, EVENT, MODULE, GRAPH, EXEC, THINGS };
static const char *const thing_names[THINGS] = {"context", "block", "page-locked block", "stream", "event", "module", "graph", "executable graph"};
static long held[THINGS], calls;
static uint64_t used;
#define FUNCTIONS 96
static struct called {
    const char *name;
    const long *count;
} called[FUNCTIONS];
static int functions;
static CUresult broken; /* a failure that stays, as after a lost device */

static uint64_t number(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void write_log(void)
{
    const char *path = getenv("SHIM_LOG");
    FILE *f = path ? fopen(path, "r") : NULL;
    long before = 0;
    if (f && fscanf(f, "calls %ld", &before) != 1)
        before = 0;
    if (f)
        fclose(f);
    f = path && calls > before ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "calls %ld\n", calls);
    for (int i = 0; i < THINGS; i++)
        fprintf(f, "%s %ld\n", thing_names[i], held[i]);
    fprintf(f, "bytes %llu\n", (unsigned long long)used);
    for (int i = 0; i < functions; i++)
        fprintf(f, "called %s %ld\n", called[i].name, *called[i].count);
    fclose(f);
}

/* "NAME:3:700" against function and its count; 1 when this is the call that is meant */
static int meant(const char *variable, const char *function, long count, CUresult *r)
{
    const char *text = getenv(variable);
    size_t n = strlen(function);
    char *end;
    if (!text || !*text)
        return 0;
    *r = CUDA_ERROR_UNKNOWN;
    if (*text >= '0' && *text <= '9') {
        long at = strtol(text, &end, 10);
        if (*end == ':')
            *r = (CUresult)strtol(end + 1, NULL, 10);
        if (calls != at)
            return 0;
        broken = *r;
        return 1;
    }
    if (strncmp(text, function, n) != 0 || (text[n] != '\0' && text[n] != ':'))
        return 0;
    long at = text[n] ? strtol(text + n + 1, &end, 10) : 1;
    if (text[n] && *end == ':')
        *r = (CUresult)strtol(end + 1, NULL, 10);
    return count == at;
}

/* Every function begins with this: counts, fails or hangs when told to. */
static CUresult enter(const char *function, long *count)
{
    CUresult r;
    if (!calls++)
        atexit(write_log);
    if (!*count && functions < FUNCTIONS)
        called[functions++] = (struct called){function, count};
    ++*count;
    if (meant("SHIM_HANG", function, *count, &r))
        for (;;)
            pause();
    if (broken)
        return broken;
    return meant("SHIM_FAIL", function, *count, &r) ? r : CUDA_SUCCESS;
}
#define ENTER                                                                                                          \
    static long count_;                                                                                                \
    CUresult entered_ = enter(__func__, &count_);                                                                      \
    if (entered_ != CUDA_SUCCESS)                                                                                      \
    return entered_
#define GIVE_BACK                                                                                                      \
    static long count_;                                                                                                \
    CUresult entered_ = enter(__func__, &count_)

/* ---- start ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    ENTER;
    shim_options.order = (enum shim_order)number("SHIM_ORDER", shim_options.order);
    shim_options.late = (int)number("SHIM_LATE", (uint64_t)shim_options.late);
    shim_options.ahead = (int)number("SHIM_AHEAD", (uint64_t)shim_options.ahead);
    shim_options.resident = (int)number("SHIM_RESIDENT", (uint64_t)shim_options.resident);
    shim_options.seed = number("SHIM_SEED", shim_options.seed);
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    ENTER;
    *version = (int)number("SHIM_VERSION", 12090);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult r, const char **name)
{
    *name = r == CUDA_ERROR_OUT_OF_MEMORY      ? "CUDA_ERROR_OUT_OF_MEMORY"
            : r == CUDA_ERROR_ECC_UNCORRECTABLE ? "CUDA_ERROR_ECC_UNCORRECTABLE"
            : r == CUDA_ERROR_LAUNCH_FAILED     ? "CUDA_ERROR_LAUNCH_FAILED"
            : r == CUDA_ERROR_NO_DEVICE         ? "CUDA_ERROR_NO_DEVICE"
            : r == CUDA_ERROR_UNKNOWN           ? "CUDA_ERROR_UNKNOWN"
                                                : NULL;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult r, const char **text)
{
    (void)r;
    *text = "told to fail by the test";
    return CUDA_SUCCESS;
}

/* ---- devices ---- */

EXPORT CUresult cuDeviceGetCount(int *count)
{
    ENTER;
    *count = (int)number("SHIM_DEVICES", 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER;
    if (ordinal < 0 || (uint64_t)ordinal >= number("SHIM_DEVICES", 1))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER;
    (void)device;
    snprintf(name, (size_t)size, "Shim GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER;
    memset(uuid->bytes, 0x10 + device, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
    ENTER;
    snprintf(text, (size_t)size, "0000:%02X:00.0", 0x19 + device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
    ENTER;
    (void)device;
    int capability = (int)number("SHIM_CAPABILITY", __CUDA_ARCH__ >= 800 ? 90 : 70);
    switch ((int)which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = capability / 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = capability % 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = (int)number("SHIM_MULTIPROCESSORS", 4);
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = capability < 75 ? 98304 : capability < 80 ? 65536 : capability == 80 ? 166912 : 101376;
        if (capability / 10 == 9 || capability / 10 == 10)
            *value = SHIM_SHARED_MAX;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = (int)number("SHIM_L2", 32 << 20);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER;
    static char contexts[64];
    *context = (CUcontext)(void *)&contexts[device & 63];
    held[CONTEXT]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    GIVE_BACK;
    (void)device;
    held[CONTEXT]--;
    return entered_;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER;
    (void)context;
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    ENTER;
    *total = number("SHIM_MEMORY", (uint64_t)8 << 30);
    *free_bytes = *total > used ? *total - used : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *data, size_t bytes)
{
    ENTER;
    void *p = bytes && bytes + used <= number("SHIM_MEMORY", (uint64_t)8 << 30) ? shim_take(bytes) : NULL;
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *data = (CUdeviceptr)(uintptr_t)p;
    used += bytes;
    held[BLOCK]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr data)
{
    GIVE_BACK;
    used -= shim_give((void *)(uintptr_t)data);
    held[BLOCK]--;
    return entered_;
}

EXPORT CUresult cuMemHostAlloc(void **data, size_t bytes, unsigned flags)
{
    ENTER;
    (void)flags;
    *data = shim_take(bytes);
    held[PINNED]++;
    return *data ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *data)
{
    GIVE_BACK;
    shim_give(data);
    held[PINNED]--;
    return entered_;
}

/* ---- what runs on a stream: at once ---- */

static struct launched {
    const char *kernel;
    long count;
    size_t shared;
} launched[256];

static void write_launched(void)
{
    FILE *f = fopen(getenv("SHIM_IDLE"), "w");
    for (struct launched *l = launched; f && l->kernel; l++)
        fprintf(f, "%s %ld %zu\n", l->kernel, l->count, l->shared);
    if (f)
        fclose(f);
}

static void note_launch(const struct node *n)
{
    struct launched *l = launched;
    if (!l->kernel)
        atexit(write_launched);
    while (l->kernel && strcmp(l->kernel, n->kernel) != 0)
        l++;
    if (l == launched + sizeof launched / sizeof *launched - 1)
        abort();
    if (!l->kernel)
        l->kernel = strdup(n->kernel);
    l->count++;
    l->shared = n->shared > l->shared ? n->shared : l->shared;
}

static CUresult run(const struct node *n)
{
    if (getenv("SHIM_IDLE")) {
        if (n->kind == LAUNCH)
            note_launch(n);
        return CUDA_SUCCESS;
    }
    if (n->kind == COPY)
        memmove(n->to, n->from, n->bytes);
    else if (n->kind == SET)
        memset(n->to, n->value, n->bytes);
    else {
        const char *fault = shim_launch(n->kernel, n->grid, n->block, n->shared, n->args);
        if (fault) {
            fprintf(stderr, "shim: kernel %s: %s\n", n->kernel, fault);
            return broken = CUDA_ERROR_LAUNCH_FAILED;
        }
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr data, unsigned char value, size_t bytes, CUstream stream)
{
    ENTER;
    (void)stream;
    return run(&(struct node){.kind = SET, .to = (void *)(uintptr_t)data, .value = value, .bytes = bytes});
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER;
    (void)stream;
    return run(&(struct node){.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes});
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER;
    (void)stream;
    return run(&(struct node){.kind = COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER;
    (void)stream;
    return run(&(struct node){.kind = COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER;
    (void)flags;
    *stream = malloc(1);
    held[STREAM]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    GIVE_BACK;
    free(stream);
    held[STREAM]--;
    return entered_;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER;
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER;
    (void)stream;
    (void)event;
    (void)flags;
    return CUDA_SUCCESS;
}

/* ---- events ---- */

struct CUevent_st {
    struct timespec at;
};

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER;
    (void)flags;
    *event = calloc(1, sizeof **event);
    held[EVENT]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    GIVE_BACK;
    free(event);
    held[EVENT]--;
    return entered_;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER;
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    ENTER;
    (void)event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    ENTER;
    (void)event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    ENTER;
    *ms = (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 + (double)(end->at.tv_nsec - start->at.tv_nsec) * 1e-6);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime(ms, start, end);
}

/* ---- kernels ---- */

struct CUfunc_st {
    char name[64];
    struct CUfunc_st *next;
    size_t shared;
};
struct CUmod_st {
    struct CUfunc_st *functions;
};

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER;
    if (memcmp(image, "\177ELF", 4) != 0 && memcmp(image, "//", 2) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    held[MODULE]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    GIVE_BACK;
    while (module->functions) {
        struct CUfunc_st *f = module->functions;
        module->functions = f->next;
        free(f);
    }
    free(module);
    held[MODULE]--;
    return entered_;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER;
    if (strncmp(name, "rp_", 3) != 0 || !shim_args_size(name + 3))
        return CUDA_ERROR_NOT_FOUND;
    struct CUfunc_st *f = calloc(1, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name + 3);
    f->next = module->functions;
    f->shared = 49152;
    module->functions = f;
    *function = f;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value)
{
    ENTER;
    if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0)
        return CUDA_ERROR_INVALID_VALUE;
    f->shared = (size_t)value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CUstream stream, void **parameters, void **extra)
{
    ENTER;
    struct node n = {.kind = LAUNCH, .kernel = f->name, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
    (void)stream;
    if (extra || shared > f->shared)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(n.args, parameters[0], shim_args_size(f->name));
    return run(&n);
}

/* ---- graphs ---- */

static void set_node(struct node *n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    *n = (struct node){.kind = LAUNCH, .kernel = p->func->name, .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                       .block = {p->blockDimX, p->blockDimY, p->blockDimZ}, .shared = p->sharedMemBytes};
    memcpy(n->args, p->kernelParams[0], shim_args_size(p->func->name));
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    ENTER;
    (void)flags;
    *graph = calloc(1, sizeof **graph);
    held[GRAPH]++;
    return CUDA_SUCCESS;
}

/* Nodes depend on the one before, so that they run in the order in which they were added; a node is its number from 1. */
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph g, const CUgraphNode *before, size_t n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    ENTER;
    if (n != (g->nodes != 0) || (n && (size_t)(uintptr_t)*before != g->nodes) || p->sharedMemBytes > p->func->shared)
        return CUDA_ERROR_INVALID_VALUE;
    if (g->nodes == g->space) {
        g->space = g->space ? 2 * g->space : 64;
        g->node = realloc(g->node, g->space * sizeof *g->node);
        if (!g->node)
            abort();
    }
    set_node(&g->node[g->nodes++], p);
    *node = (CUgraphNode)(uintptr_t)g->nodes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    ENTER;
    struct CUgraphExec_st *x = malloc(sizeof *x);
    (void)flags;
    if (!x)
        abort();
    x->nodes = graph->nodes;
    x->node = malloc(graph->nodes * sizeof *x->node);
    memcpy(x->node, graph->node, graph->nodes * sizeof *x->node);
    *exec = x;
    held[EXEC]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    ENTER;
    size_t i = (size_t)(uintptr_t)node - 1;
    if (i >= exec->nodes || strcmp(exec->node[i].kernel, p->func->name) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    set_node(&exec->node[i], p);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER;
    CUresult r = CUDA_SUCCESS;
    (void)stream;
    for (size_t i = 0; i < exec->nodes && r == CUDA_SUCCESS; i++)
        r = run(&exec->node[i]);
    return r;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    GIVE_BACK;
    free(graph->node);
    free(graph);
    held[GRAPH]--;
    return entered_;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    GIVE_BACK;
    free(exec->node);
    free(exec);
    held[EXEC]--;
    return entered_;
}
