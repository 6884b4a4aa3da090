/* A libcuda.so.1 for tests: the driver's functions that the backend calls, on the memory and the one thread of this
 * process, with the kernels executed by the shim. The product cannot tell it from a driver. Its variables, with their
 * defaults in brackets:
 *
 *   SHIM_FAIL=N[:R]            the N-th call (from 1) returns R (999, unknown error), and so does every one after it
 *   SHIM_FAIL=FUNCTION[:N[:R]] the N-th call of that function
 *   SHIM_HANG=FUNCTION[:N]     that call never returns
 *   SHIM_CRASH=FUNCTION[:N]    that call ends the process by SIGSEGV
 *   SHIM_END_MS=N              the library takes so long when the process ends
 *   SHIM_LOG=FILE              at the end, one a line: "calls N", "THING N" not given back, "called FUNCTION N"; of
 *                              several processes the one that called most
 *   SHIM_DEVICES=N             GPUs (1)
 *   SHIM_NAME=TEXT             of each (Shim GPU)
 *   SHIM_CAPABILITY=90         compute capability (90; built for what was before 8.0: that of the build)
 *   SHIM_VERSION=12090         CUDA version of the driver
 *   SHIM_MEMORY=BYTES          of each (8 GiB)
 *   SHIM_GRAIN=BYTES           a block takes a multiple of it (1)
 *   SHIM_OWN=BYTES             that the driver takes for itself with each executable graph, and with each module: when
 *                              it is loaded or, unless CUDA_MODULE_LOADING=EAGER, at its first launch (0)
 *   SHIM_L2=BYTES              of the cache that all multiprocessors share (32 MiB)
 *   SHIM_MULTIPROCESSORS=N     of each (4)
 *   SHIM_SHARED=BYTES          that a block may have (what the capability gives)
 *   SHIM_TENSOR_MAPS=0         every tensor map is refused (1)
 *   SHIM_IDLE=FILE             nothing is executed or copied; at the end, one a line: "KERNEL LAUNCHES BYTES", of
 *                              shared memory at most
 *   SHIM_IDLE_FROM=KERNEL      with SHIM_IDLE: from its first launch on; before, everything is executed
 *   SHIM_DEFER=0|1|2           when work of streams is done, see stream.c (0)
 *   SHIM_ORDER=0|1|2, SHIM_LATE=0|1, SHIM_AHEAD=0|1, SHIM_RESIDENT=N, SHIM_SEED=N
 *                              see tests/shim/run.h
 */
#include "tests/shim/driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const thing_names[THINGS] = {"context", "block", "page-locked block", "stream", "event",
                                                "module",  "graph", "executable graph"};
long shim_held[THINGS];
uint64_t shim_used;
CUresult shim_broken;
static long calls;
static __thread CUcontext current;
#define FUNCTIONS 96
static struct called {
    const char *name;
    const long *count;
} called[FUNCTIONS];
static int functions;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int shim_lock(void)
{
    return pthread_mutex_lock(&lock);
}

void shim_unlock(const int *locked)
{
    (void)locked;
    pthread_mutex_unlock(&lock);
}

uint64_t shim_number(const char *variable, uint64_t otherwise)
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
        fprintf(f, "%s %ld\n", thing_names[i], shim_held[i]);
    fprintf(f, "bytes %llu\n", (unsigned long long)shim_used);
    for (int i = 0; i < functions; i++)
        fprintf(f, "called %s %ld\n", called[i].name, *called[i].count);
    fclose(f);
}

__attribute__((destructor)) static void end_slowly(void)
{
    for (uint64_t left = calls ? shim_number("SHIM_END_MS", 0) : 0; left; left--)
        usleep(1000);
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
        shim_broken = *r;
        return 1;
    }
    if (strncmp(text, function, n) != 0 || (text[n] != '\0' && text[n] != ':'))
        return 0;
    long at = text[n] ? strtol(text + n + 1, &end, 10) : 1;
    if (text[n] && *end == ':')
        *r = (CUresult)strtol(end + 1, NULL, 10);
    return count == at;
}

/* A device's primary context: there while somebody retains it. */
static struct CUctx_st {
    int retained;
} contexts[64];

CUresult shim_misused(const char *what)
{
    fprintf(stderr, "shim: %s\n", what);
    return shim_broken = CUDA_ERROR_INVALID_CONTEXT;
}

/* Counts, fails or hangs when told to. */
CUresult shim_enter(const char *function, long *count, int needs_context)
{
    CUresult r;
    if (!calls++)
        atexit(write_log);
    if (!*count && functions < FUNCTIONS)
        called[functions++] = (struct called){function, count};
    ++*count;
    if (meant("SHIM_HANG", function, *count, &r)) {
        pthread_mutex_unlock(&lock);
        for (;;)
            pause();
    }
    if (meant("SHIM_CRASH", function, *count, &r)) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (shim_broken)
        return shim_broken;
    if (meant("SHIM_FAIL", function, *count, &r))
        return r;
    if (needs_context && (!current || !current->retained))
        return shim_misused("a function is called in a thread that has no context, or whose context is gone");
    return CUDA_SUCCESS;
}

/* ---- start ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    ENTER;
    shim_options.order = (enum shim_order)shim_number("SHIM_ORDER", shim_options.order);
    shim_options.late = (int)shim_number("SHIM_LATE", (uint64_t)shim_options.late);
    shim_options.ahead = (int)shim_number("SHIM_AHEAD", (uint64_t)shim_options.ahead);
    shim_options.resident = (int)shim_number("SHIM_RESIDENT", (uint64_t)shim_options.resident);
    shim_options.seed = shim_number("SHIM_SEED", shim_options.seed);
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    ENTER;
    *version = (int)shim_number("SHIM_VERSION", 12090);
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

/* ---- devices ----
 * Numbered from the fastest, which is the last one, unless CUDA_DEVICE_ORDER wants the order of the bus. */

EXPORT CUresult cuDeviceGetCount(int *count)
{
    ENTER;
    *count = (int)shim_number("SHIM_DEVICES", 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER;
    if (ordinal < 0 || (uint64_t)ordinal >= shim_number("SHIM_DEVICES", 1))
        return CUDA_ERROR_INVALID_DEVICE;
    const char *order = getenv("CUDA_DEVICE_ORDER");
    *device = order && strcmp(order, "PCI_BUS_ID") == 0 ? ordinal : (int)shim_number("SHIM_DEVICES", 1) - 1 - ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER;
    (void)device;
    snprintf(name, (size_t)size, "%s", getenv("SHIM_NAME") ? getenv("SHIM_NAME") : "Shim GPU");
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

int shim_capability(void)
{
    return (int)shim_number("SHIM_CAPABILITY", __CUDA_ARCH__ >= 800 ? 90 : __CUDA_ARCH__ / 10);
}

int shim_shared_most(void)
{
    int is = shim_capability(), most = (int)shim_number("SHIM_SHARED", 0);
    if (most)
        return most;
    if (is / 10 == 9 || is / 10 == 10)
        return SHIM_SHARED_MAX;
    return is < 75 ? 98304 : is < 80 ? 65536 : is == 80 || is == 87 ? 166912 : 101376;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
    ENTER;
    (void)device;
    switch ((int)which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = shim_capability() / 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = shim_capability() % 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = (int)shim_number("SHIM_MULTIPROCESSORS", 4);
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = shim_shared_most();
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = (int)shim_number("SHIM_L2", 32 << 20);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER;
    *context = &contexts[device & 63];
    contexts[device & 63].retained++;
    shim_held[CONTEXT]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    static long count;
    CUresult entered = shim_enter(__func__, &count, 0);
    if (!shim_broken && shim_is_busy())
        return shim_misused("a context is given back while work is queued");
    contexts[device & 63].retained--;
    shim_held[CONTEXT]--;
    return entered;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER;
    current = context;
    return CUDA_SUCCESS;
}

EXPORT int shim_current_device(void)
{
    return current ? (int)(current - contexts) : -1;
}

/* ---- memory ---- */

static uint64_t memory_of_all(void)
{
    return shim_number("SHIM_MEMORY", (uint64_t)8 << 30);
}

uint64_t shim_free(void)
{
    return memory_of_all() > shim_used ? memory_of_all() - shim_used : 0;
}

static uint64_t taken_by(uint64_t bytes)
{
    uint64_t grain = shim_number("SHIM_GRAIN", 1);
    return (bytes + grain - 1) / grain * grain;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    ENTER_CONTEXT;
    *total = memory_of_all();
    *free_bytes = shim_free();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *data, size_t bytes)
{
    ENTER_CONTEXT;
    void *p = bytes && taken_by(bytes) <= shim_free() ? shim_take(bytes, 0) : NULL;
    if (!p)
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    *data = (CUdeviceptr)(uintptr_t)p;
    shim_used += taken_by(bytes);
    shim_held[BLOCK]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr data)
{
    GIVE_BACK;
    if (!shim_broken && shim_is_busy())
        return shim_misused("memory of the GPU is given back while work is queued");
    shim_used -= taken_by(shim_give((void *)(uintptr_t)data));
    shim_held[BLOCK]--;
    return entered_;
}

EXPORT CUresult cuMemHostAlloc(void **data, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT;
    (void)flags;
    *data = shim_take(bytes, 1);
    shim_held[PINNED]++;
    return *data ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *data)
{
    GIVE_BACK;
    if (!shim_broken && shim_is_busy())
        return shim_misused("page-locked memory is given back while work is queued");
    shim_give(data);
    shim_held[PINNED]--;
    return entered_;
}
