/* Loading the driver's library, and its failures as messages. */
#include "backend/cuda/driver.h"

#include "base/library.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver_function {
    const char *symbol;
    int cuda; /* the version that added it */
    size_t offset;
};
static const struct driver_function functions[] = {
#define DRIVER(f, symbol, cuda) {symbol, cuda, offsetof(struct rp_driver, f)},
#include "backend/cuda/driver.def"
#undef DRIVER
};

/* The first driver of each CUDA version, from the release notes of the CUDA toolkit. */
static const struct {
    int cuda, driver;
} releases[] = {{12000, 525}, {12010, 530}, {12020, 535}, {12030, 545}, {12040, 550},
                {12050, 555}, {12060, 560}, {12080, 570}, {12090, 575}, {13000, 580}};

#define MPS "look at the MPS daemon (nvidia-cuda-mps-control -d) and its log, or unset CUDA_MPS_PIPE_DIRECTORY"

static const struct {
    CUresult r;
    enum rp_code code;
    const char *remedy;
} remedies[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, RP_UNAVAILABLE,
     "other programs may hold memory of this GPU (nvidia-smi lists them); try a smaller batch"},
    {CUDA_ERROR_NO_DEVICE, RP_UNAVAILABLE,
     "is a GPU passed into this container (--gpus), and does CUDA_VISIBLE_DEVICES leave one?"},
    {CUDA_ERROR_INVALID_DEVICE, RP_UNAVAILABLE, "does CUDA_VISIBLE_DEVICES name a device that is there?"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, RP_UNAVAILABLE,
     "the kernel module and libcuda are of different versions: reload the module, or restart the machine after an "
     "update"},
    {CUDA_ERROR_SYSTEM_NOT_READY, RP_UNAVAILABLE, "NVSwitch machines need nvidia-fabricmanager running"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, RP_UNAVAILABLE,
     "the compatibility libcuda of the image does not fit this GPU: remove it"},
    {CUDA_ERROR_STUB_LIBRARY, RP_UNAVAILABLE,
     "this libcuda.so.1 is the stub of a CUDA toolkit: take its folder out of LD_LIBRARY_PATH"},
    {CUDA_ERROR_DEVICE_NOT_LICENSED, RP_UNAVAILABLE, "a virtual GPU needs its licence (nvidia-gridd)"},
    {CUDA_ERROR_OPERATING_SYSTEM, RP_UNAVAILABLE,
     "are /dev/nvidiactl and /dev/nvidia-uvm here and may this user open them, and are there file descriptors left "
     "(ulimit -n)?"},
    {CUDA_ERROR_NOT_PERMITTED, RP_UNAVAILABLE, "may this user open /dev/nvidia*?"},
    {CUDA_ERROR_JIT_COMPILER_NOT_FOUND, RP_UNAVAILABLE,
     "libnvidia-ptxjitcompiler.so.1 of the driver is missing: in a container, pass it in "
     "(NVIDIA_DRIVER_CAPABILITIES=compute,utility)"},
    {CUDA_ERROR_JIT_COMPILATION_DISABLED, RP_UNAVAILABLE,
     "unset CUDA_DISABLE_PTX_JIT: this GPU is newer than the kernels of this build"},
    {CUDA_ERROR_MPS_CONNECTION_FAILED, RP_UNAVAILABLE, MPS},
    {CUDA_ERROR_MPS_RPC_FAILURE, RP_UNAVAILABLE, MPS},
    {CUDA_ERROR_MPS_SERVER_NOT_READY, RP_UNAVAILABLE, MPS},
    {CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, RP_UNAVAILABLE, MPS},
    {CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, RP_UNAVAILABLE, MPS},
    {CUDA_ERROR_MPS_CLIENT_TERMINATED, RP_IO,
     "another client of the MPS daemon failed and took this one along, or somebody ended it"},
    {CUDA_ERROR_UNKNOWN, RP_UNAVAILABLE,
     "often a kernel module that was not loaded after boot or sleep: does nvidia-smi work?"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, RP_UNAVAILABLE, "this build has no kernels for this GPU: sm_70 to sm_120 are there"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, RP_UNAVAILABLE,
     "this GPU is newer than the kernels of this build, and its driver older: update the driver"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, RP_UNAVAILABLE, "another program has this GPU to itself (compute mode exclusive)"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, RP_IO,
     "memory of this GPU is failing: nvidia-smi -q -d ECC,ROW_REMAPPER; results since the last state root are not to "
     "be trusted"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, RP_IO, "look for Xid messages in dmesg"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, RP_IO, "look for Xid messages in dmesg; on a healthy GPU this is a bug of repro"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, RP_IO, "look for Xid messages in dmesg; on a healthy GPU this is a bug of repro"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, RP_IO, "on a healthy GPU this is a bug of repro"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, RP_IO,
     "this is a bug of repro: the kernel needs more resources than this GPU has"},
    {CUDA_ERROR_LAUNCH_FAILED, RP_IO, "look for Xid messages in dmesg"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, RP_IO,
     "a GPU that drives a display stops long kernels: use another one, or no display on it"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, RP_IO, "an NVLink is failing: nvidia-smi nvlink -e"},
    {CUDA_ERROR_CONTAINED, RP_IO, "look for Xid messages in dmesg"},
};

int rp_driver_fail(const struct rp_driver *d, CUresult r, const char *what, struct rp_err *err)
{
    const char *name = NULL, *text = NULL;
    char number[32];
    snprintf(number, sizeof number, "error %d", (int)r);
    if (d->cuGetErrorName(r, &name) != CUDA_SUCCESS || !name)
        name = number;
    if (d->cuGetErrorString(r, &text) != CUDA_SUCCESS || !text)
        text = "no text";
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (remedies[i].r == r)
            return rp_fail(err, remedies[i].code, "%s: %s (%s); %s", what, name, text, remedies[i].remedy);
    return rp_fail(err, RP_IO, "%s: %s (%s)", what, name, text);
}

int rp_driver_release(char out[32], const char *text)
{
    const char *at = strstr(text, "Kernel Module");
    for (at = at ? at : ""; *at && *at != '\n'; at += strcspn(at, " \t\n")) {
        at += strspn(at, " \t");
        const size_t digits = strspn(at, "0123456789"), n = strspn(at, "0123456789.");
        if (digits > 0 && n > digits && n < 32) {
            snprintf(out, 32, "%.*s", (int)n, at);
            return 0;
        }
    }
    return -1;
}

/* "is 525.60.13 and ", or "" where the kernel module does not tell. */
static void find_release(char out[48])
{
    char text[512] = "", release[32];
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    *out = 0;
    if (rp_driver_release(release, text) == 0)
        snprintf(out, 48, "is %s and ", release);
}

/* A symbol of a CUDA version before the oldest that can be used is missing in drivers that are too old, too. */
static int fail_missing(void *library, const struct driver_function *f, struct rp_err *err)
{
    const int needed = f->cuda > RP_DRIVER_OLDEST ? f->cuda : RP_DRIVER_OLDEST;
    int supported = 0, driver = releases[0].driver;
    char release[48], it[96] = "";
    CUresult (*version)(int *);
    *(void **)(void *)&version = dlsym(library, "cuDriverGetVersion");
    if (!version || version(&supported) != CUDA_SUCCESS)
        supported = 0;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        if (releases[i].cuda <= needed)
            driver = releases[i].driver;
    find_release(release);
    if (supported)
        snprintf(it, sizeof it, "it %ssupports CUDA %d.%d", release, supported / 1000, supported % 1000 / 10);
    if (supported && supported < needed)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the driver lacks %s (CUDA %d.%d, driver %d or newer): %s; update the driver", f->symbol,
                       needed / 1000, needed % 1000 / 10, driver, it);
    return rp_fail(err, RP_UNAVAILABLE,
                   "libcuda.so.1 lacks %s (CUDA %d.%d)%s%s: is it the library of the NVIDIA driver (ldconfig -p)?",
                   f->symbol, f->cuda / 1000, f->cuda % 1000 / 10, *it ? ", although " : "", it);
}

static int load(struct rp_driver *d, struct rp_err *err)
{
    void *library = rp_library_open("libcuda.so.1");
    if (!library)
        return rp_fail(err, RP_UNAVAILABLE,
                       "%s: no NVIDIA driver that this program can load; in a container, start it with --gpus all or "
                       "the nvidia runtime",
                       dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(library, functions[i].symbol);
        if (!f)
            return fail_missing(library, &functions[i], err);
        *(void **)(void *)((char *)d + functions[i].offset) = f;
    }
    CUresult r = d->cuInit(0);
    if (r != CUDA_SUCCESS)
        return rp_driver_fail(d, r, "cuInit", err);
    r = d->cuDriverGetVersion(&d->version);
    if (r != CUDA_SUCCESS)
        return rp_driver_fail(d, r, "cuDriverGetVersion", err);
    if (d->version < RP_DRIVER_OLDEST)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the driver supports CUDA %d.%d, this program needs 12.0 (driver 525 or later): update it",
                       d->version / 1000, d->version % 1000 / 10);
    return 0;
}

const struct rp_driver *rp_driver_load(struct rp_err *err)
{
    static struct rp_driver loaded;
    if (!loaded.version && load(&loaded, err) < 0) {
        loaded.version = 0;
        return NULL;
    }
    return &loaded;
}
