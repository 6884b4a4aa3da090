/* repro-gpu: the process that loads NVIDIA's libraries, so that the static program does not load them, and a driver
 * that crashes or hangs does not affect other processes.
 *
 * What:    its queries. Each loads a library and returns a group of values.
 * Flow:    PROBE frame {"probe": name} -> rp_gpu_<name>() -> VALUES frame {"probe", "values"}; main.c has the loop.
 * Owner:   the caller owns the group. Libraries stay loaded: the process is short-lived.
 * Extend:  a value is a row of nvml_table.c, or lines in cuda_probe.c or nccl.c; one that nvidia-smi also has is a row
 *          of tests/gpu/capture.sh. A query of another library is a name in RP_GPU_PROBES (capture/nvidia/gpu.h) and a
 *          file with the function. Values are put with rp_put() and its kin (capture/probe.h), one that identifies a
 *          machine with rp_gpu_put_hidden(). Everything here is C against glibc, the newest symbol being 2.28.
 */
#pragma once

#include "capture/nvidia/gpu.h"
#include "worker/worker.h"

/* nvml: driver_version, nvml_version, count, devices: {gpu0: {...}}: libnvidia-ml.so.1, as old as driver 440
 * cuda: cuda_driver_version, cuda_runtime_version, cuda_devices, devices by PCI address: libcuda.so.1 through the
 * runtime linked in nccl: nccl_version: libnccl.so.2 */
#define X(name) json_t *rp_gpu_##name(void);
RP_GPU_PROBES(X)
#undef X

/* The device that trains, every 100 ms, by NVML: samples.c. */
extern const struct rp_sampler rp_gpu_sampler;

/* For `exec`: PCI addresses of the GPUs that a command with this environment can use; samples of those at `addresses`,
 * as TELEMETRY frames that also have "device", the index of the address, until this process ends. */
#define RP_GPU_WATCHED 64
json_t *rp_gpu_visible(void);
void rp_gpu_watch(char *const *addresses, int64_t n, int fd);

/* Load a library (base/library.h). Where that fails: NULL, the state (absent: there is none; error: there is one that
 * cannot be loaded) and the loader's own words. */
struct rp_gpu_library {
    const char *name;
    void *handle;
    enum rp_state state;
    struct rp_err err;
};
void rp_gpu_load(struct rp_gpu_library *l, const char *name);
/* The value that would have come from a library that is not there. */
void rp_gpu_put_missing(json_t *obj, const char *name, const struct rp_gpu_library *l);

/* A text that only its owner may read (serial number, UUID): marked "hide": true, the parent puts the salted hash in
 * its place. */
void rp_gpu_put_hidden(json_t *obj, const char *name, const char *value, const char *source);
