/* Checks that concern runs on GPUs: driver, libraries and nodes; what NVML says of each GPU; what GPUs exchange data through. */
#include "capture/doctor/doctor.h"
#include "capture/value.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DRIVER "apt install nvidia-driver-570-server # or newer, then reboot"
#define IN_CONTAINER "docker run --gpus all"
#define MAX_GPUS 64

static int in_container(const struct rp_doctor *d)
{
    const char *engine = rp_known_text(d->probes, "container.engine");
    return engine && strcmp(engine, "none seen") != 0;
}

static const char *module_version(const struct rp_doctor *d)
{
    const char *v = rp_known_text(d->probes, "nvidia.version");
    return v ? v : rp_known_text(d->probes, "gpu.driver_version");
}

/* NVIDIA's GPUs on the PCI bus, with or without a driver. */
static int on_the_bus(const struct rp_doctor *d)
{
    int n = 0;
    const char *address;
    json_t *device;
    json_object_foreach((json_t *)rp_group(d->probes, "topology.devices"), address, device) {
        const char *id = rp_known_text(device, "pci_id");
        n += rp_known_is(device, "kind", "gpu") && id && strncasecmp(id, "10DE:", 5) == 0;
    }
    return n;
}

static int gpu_wanted(const struct rp_doctor *d)
{
    return module_version(d) || on_the_bus(d) > 0 || json_object_size(rp_group(d->probes, "gpu.devices")) > 0;
}

/* Libraries or a toolkit that somebody wants to use. The network's (libibverbs and the like) are listed too and do not count. */
static int has_cuda(const struct rp_doctor *d)
{
    static const char *const begins[] = {"libcu", "libnccl", "libnv"};
    const char *name;
    json_t *library;
    json_object_foreach((json_t *)rp_group(d->probes, "cuda.libraries"), name, library)
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            if (strncmp(name, begins[i], strlen(begins[i])) == 0)
                return 1;
    return json_object_size(rp_group(d->probes, "cuda.toolkits")) > 0 || rp_known(d->probes, "environment.CUDA_HOME");
}

/* ---- the driver ---- */

void rp_doctor_driver(struct rp_doctor *d)
{
    const char *remedy = in_container(d) ? IN_CONTAINER : DRIVER;
    if (module_version(d) || json_object_size(rp_group(d->probes, "gpu.devices")) > 0)
        return;
    if (rp_known_text(d->probes, "nvidia.modules.nouveau"))
        rp_find(d, RP_SEVERITY_STOP, remedy, "nouveau holds the GPU");
    else if (on_the_bus(d) > 0)
        rp_find(d, RP_SEVERITY_STOP, remedy, "none, for %d GPU(s) on the bus", on_the_bus(d));
    else if (rp_known_text(d->probes, "nvidia.toolkit.visible_devices"))
        rp_find(d, RP_SEVERITY_NOTE, remedy, "none, in an image made for GPUs");
    else if (has_cuda(d))
        rp_find(d, RP_SEVERITY_NOTE, remedy, "none, although CUDA is installed");
}

/* The oldest driver with which a CUDA of that major version starts. */
static const char *oldest_driver(const char *cuda)
{
    static const char *const oldest[][2] = {{"11.", "450.80.02"}, {"12.", "525.60.13"}, {"13.", "580.65.06"}};
    for (size_t i = 0; i < sizeof oldest / sizeof *oldest; i++)
        if (strncmp(cuda, oldest[i][0], 3) == 0)
            return oldest[i][1];
    return NULL;
}

void rp_doctor_driver_age(struct rp_doctor *d)
{
    const char *driver = module_version(d), *cuda = rp_known_text(d->probes, "gpu.cuda_runtime_version");
    const char *oldest = oldest_driver(cuda ? cuda : "12.9");
    if (driver && oldest && rp_compare_versions(driver, oldest) < 0)
        rp_find(d, RP_SEVERITY_STOP, DRIVER, "%s; CUDA %s needs %s", driver, cuda ? cuda : "12", oldest);
}

/* After an update without a restart the libraries are newer than the module that is loaded; a container may bring its own. */
void rp_doctor_libraries(struct rp_doctor *d)
{
    const char *module = rp_known_text(d->probes, "nvidia.version"), *name;
    json_t *library;
    json_object_foreach((json_t *)rp_group(d->probes, "cuda.libraries"), name, library) {
        const char *version = rp_known_text(library, "version");
        if (module && version && strncmp(name, "libnvidia-ml.so", 15) == 0 && strcmp(module, version) != 0)
            rp_find(d, RP_SEVERITY_STOP, in_container(d) ? "remove NVIDIA's driver packages from the image" : "reboot # or reload it",
                    "%s is %s, the kernel module %s", name, version, module);
    }
}

void rp_doctor_nodes(struct rp_doctor *d)
{
    static const char *const needed[] = {"nvidiactl", "nvidia-uvm"};
    const char *remedy = in_container(d) ? IN_CONTAINER : "nvidia-modprobe -c 0 -u # as root";
    if (!rp_known_text(d->probes, "nvidia.version"))
        return;
    if (strcmp(rp_state_at(d->probes, "nvidia.nodes"), "absent") == 0) {
        rp_find(d, RP_SEVERITY_STOP, remedy, "none below /dev");
        return;
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (rp_known(d->probes, "nvidia.nodes") && !rp_known_has(d->probes, "nvidia.nodes", needed[i]))
            rp_find(d, RP_SEVERITY_STOP, remedy, "no /dev/%s", needed[i]);
}

void rp_doctor_worker(struct rp_doctor *d)
{
    const json_t *worker = rp_value_at(d->probes, "gpu.worker");
    const char *state = rp_state_at(d->probes, "gpu.worker"), *why = json_string_value(json_object_get(worker, "detail"));
    if (strcmp(state, "error") == 0)
        rp_find(d, RP_SEVERITY_STOP, "dmesg | grep -i -e nvrm -e xid", "%.220s", why ? why : "it failed");
    else if (rp_known_is(d->probes, "here.gpu_worker", "no"))
        rp_find(d, gpu_wanted(d) ? RP_SEVERITY_STOP : RP_SEVERITY_NOTE, "make CUDA=1", "this build has none: it sees no GPU");
    else if (worker && why && gpu_wanted(d))
        rp_find(d, RP_SEVERITY_STOP, "use a system with glibc 2.28 or newer", "%.220s", why);
}

/* ---- each GPU ---- */

/* Does something stand out? Then in words. */
typedef int look(const json_t *gpu, struct rp_buf *words);

static const json_t *gpu_at(const struct rp_doctor *d, int i)
{
    char name[16];
    return json_object_get(rp_value_at(d->probes, "gpu.devices"), RP_FORMAT(name, "gpu%d", i));
}

/* One finding for all GPUs of which the same is to be said. */
static void each_gpu(struct rp_doctor *d, enum rp_severity severity, const char *remedy, look *at)
{
    char *said[MAX_GPUS] = {0};
    int n = 0;
    for (; n < MAX_GPUS && gpu_at(d, n); n++) {
        RP_BUF words = {0};
        said[n] = at(gpu_at(d, n), &words) ? rp_strdup(rp_buf_text(&words)) : NULL;
    }
    for (int i = 0; i < n; i++) {
        RP_BUF names = {0};
        RP_FREE char *words = said[i];
        int same = 0;
        said[i] = NULL;
        for (int k = i; words && k < n; k++)
            if (k == i || (said[k] && strcmp(said[k], words) == 0)) {
                rp_buf_printf(&names, "%sgpu%d", same++ ? " " : "", k);
                free(said[k]);
                said[k] = NULL;
            }
        if (words && same == n && n > 1)
            rp_find(d, severity, remedy, "all %d: %s", n, words);
        else if (words)
            rp_find(d, severity, remedy, "%s: %s", rp_buf_text(&names), words);
    }
}

/* "words N" for each of these that is a number greater than zero; how many there were */
static int add_counts(struct rp_buf *out, const json_t *gpu, const char *const names[][2], int n)
{
    int some = 0;
    double count;
    for (int i = 0; i < n; i++)
        if (rp_known_number(gpu, names[i][0], &count) == 0 && count > 0)
            rp_buf_printf(out, "%s%.0f %s", some++ ? ", " : "", count, names[i][1]);
    return some;
}

static int fabric_open(const json_t *gpu, struct rp_buf *words)
{
    const char *state = rp_known_text(gpu, "fabric_state");
    rp_buf_puts(words, state ? state : "");
    return state && strcmp(state, "completed") != 0;
}

void rp_doctor_fabric(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_STOP, "systemctl restart nvidia-fabricmanager", fabric_open);
    if (rp_known(d->probes, "nvidia.nvswitches") && strcmp(rp_state_at(d->probes, "nvidia.fabric_manager"), "absent") == 0 &&
        !in_container(d))
        rp_find(d, RP_SEVERITY_STOP, "systemctl start nvidia-fabricmanager", "NVSwitches without nvidia-fabricmanager");
}

static int broken_memory(const json_t *gpu, struct rp_buf *words)
{
    static const char *const names[][2] = {{"ecc_uncorrected", "uncorrected"}};
    int some = add_counts(words, gpu, names, 1);
    if (rp_known_is(gpu, "remapped_rows_failed", "yes"))
        rp_buf_puts(words, some++ ? ", no rows left to remap" : "no rows left to remap");
    return some;
}

static int waiting_memory(const json_t *gpu, struct rp_buf *words)
{
    if (!rp_known_is(gpu, "retired_pages_pending", "yes") && !rp_known_is(gpu, "remapped_rows_pending", "yes"))
        return 0;
    rp_buf_puts(words, "bad memory is taken out at the next reset");
    return 1;
}

static int worn_memory(const json_t *gpu, struct rp_buf *words)
{
    static const char *const names[][2] = {{"ecc_corrected", "corrected"}};
    return add_counts(words, gpu, names, 1);
}

void rp_doctor_gpu_errors(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_STOP, "nvidia-smi -q -d ECC,ROW_REMAPPER # use another GPU: CUDA_VISIBLE_DEVICES", broken_memory);
    each_gpu(d, RP_SEVERITY_SLOW, "nvidia-smi --gpu-reset", waiting_memory);
    each_gpu(d, RP_SEVERITY_NOTE, "nvidia-smi -q -d ECC", worn_memory);
}

static int prohibited(const json_t *gpu, struct rp_buf *words)
{
    rp_buf_puts(words, "compute mode prohibited");
    return rp_known_is(gpu, "compute_mode", "prohibited");
}

static int sliced(const json_t *gpu, struct rp_buf *words)
{
    rp_buf_puts(words, "MIG is on: a run gets one slice");
    return rp_known_is(gpu, "mig_mode", "enabled");
}

void rp_doctor_gpu_mode(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_STOP, "nvidia-smi -c DEFAULT", prohibited);
    each_gpu(d, RP_SEVERITY_SLOW, "nvidia-smi -mig 0", sliced);
}

static int used(const json_t *gpu, struct rp_buf *words)
{
    static const char *const names[][2] = {{"processes", "computing"}, {"processes_mps", "by MPS"}};
    return add_counts(words, gpu, names, 2);
}

void rp_doctor_gpu_users(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_SLOW, "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv", used);
}

static int throttled(const json_t *gpu, struct rp_buf *words)
{
    static const char *const reasons[] = {"sw_power_cap",        "hw_slowdown",           "sw_thermal_slowdown",
                                          "hw_thermal_slowdown", "hw_power_brake_slowdown", "sync_boost"};
    int some = 0;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (rp_known_has(gpu, "throttle_reasons", reasons[i]))
            rp_buf_printf(words, "%s%s", some++ ? ", " : "", reasons[i]);
    return some;
}

void rp_doctor_gpu_throttling(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_SLOW, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER", throttled);
}

static int low_power(const json_t *gpu, struct rp_buf *words)
{
    double limit, usual;
    if (rp_known_number(gpu, "power_limit", &limit) < 0 || rp_known_number(gpu, "power_limit_default", &usual) < 0)
        return 0;
    rp_buf_printf(words, "%g W of %g W", limit, usual);
    return limit < usual;
}

void rp_doctor_gpu_power(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_SLOW, "nvidia-smi -pl WATTS", low_power);
}

/* Application clocks: below the default somebody has set them; a default below the maximum is how some models are delivered. */
static int below(const json_t *gpu, struct rp_buf *words, const char *reference)
{
    double set, of;
    if (rp_known_number(gpu, "clock_sm_application", &set) < 0 || rp_known_number(gpu, reference, &of) < 0)
        return 0;
    rp_buf_printf(words, "SM set to %.0f of %.0f MHz", set * 1e-6, of * 1e-6);
    return set < of;
}

static int slowed(const json_t *gpu, struct rp_buf *words)
{
    return below(gpu, words, "clock_sm_default");
}

static int delivered_slow(const json_t *gpu, struct rp_buf *words)
{
    RP_BUF other = {0};
    return !slowed(gpu, &other) && below(gpu, words, "clock_sm_max");
}

void rp_doctor_gpu_clocks(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_SLOW, "nvidia-smi -rac", slowed);
    each_gpu(d, RP_SEVERITY_NOTE, "nvidia-smi -ac MEMORY,SM # of nvidia-smi -q -d SUPPORTED_CLOCKS", delivered_slow);
}

static int narrow(const json_t *gpu, struct rp_buf *words)
{
    double now, most;
    if (rp_known_number(gpu, "pcie_width", &now) < 0 || rp_known_number(gpu, "pcie_width_max", &most) < 0)
        return 0;
    rp_buf_printf(words, "PCIe x%.0f of x%.0f", now, most);
    return now < most;
}

/* The generation is lower while a GPU idles; the width is not. */
void rp_doctor_gpu_bus(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_SLOW, "put the card into another slot, or seat it again", narrow);
}

static int links_down(const json_t *gpu, struct rp_buf *words)
{
    const char *name;
    json_t *link;
    int down = 0, all = 0;
    json_object_foreach((json_t *)rp_group(gpu, "nvlinks"), name, link) {
        all += rp_known_text(link, "state") != NULL;
        down += rp_known_is(link, "state", "inactive");
    }
    rp_buf_printf(words, "%d of %d links down", down, all);
    return down > 0 && down < all;
}

/* Cards for a bridge that is not there have all links down, which is no fault. */
void rp_doctor_nvlink(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_SLOW, "nvidia-smi nvlink --status && dmesg | grep -i nvlink", links_down);
}

static int forgetful(const json_t *gpu, struct rp_buf *words)
{
    rp_buf_puts(words, "off: the first call waits for the driver");
    return rp_known_is(gpu, "persistence", "disabled");
}

void rp_doctor_persistence(struct rp_doctor *d)
{
    each_gpu(d, RP_SEVERITY_NOTE, "nvidia-smi -pm 1", forgetful);
}

/* ---- between GPUs ---- */

#define NCCL_OLD "2.18" /* before it: no NVLink SHARP, and algorithms tuned for older GPUs */

void rp_doctor_nccl(struct rp_doctor *d)
{
    const char *version = rp_known_text(d->probes, "gpu.nccl_version"), *name;
    json_t *library;
    json_object_foreach((json_t *)rp_group(d->probes, "cuda.libraries"), name, library)
        if (!version && strcmp(name, "libnccl.so.2") == 0)
            version = rp_known_text(library, "version");
    if (version && strchr(version, '.') && rp_compare_versions(version, NCCL_OLD) < 0) /* "2" is what the file name says at least */
        rp_find(d, RP_SEVERITY_SLOW, "apt install libnccl2 # or pip install -U nvidia-nccl-cu12", "%s, older than " NCCL_OLD, version);
}

static int active_rdma(const struct rp_doctor *d)
{
    const char *device, *port;
    json_t *values, *p;
    json_object_foreach((json_t *)rp_group(d->probes, "rdma.devices"), device, values)
        json_object_foreach((json_t *)rp_group(values, "ports"), port, p)
            if (rp_known_is(p, "link", "ACTIVE"))
                return 1;
    return 0;
}

void rp_doctor_gpudirect(struct rp_doctor *d)
{
    if (module_version(d) && active_rdma(d) && strcmp(rp_state_at(d->probes, "rdma.gpudirect"), "absent") == 0)
        rp_find(d, RP_SEVERITY_SLOW, "modprobe nvidia_peermem", "off: NICs reach GPU memory through the host's");
}

#define SHM_ENOUGH ((double)(1 << 30))

/* NCCL puts its buffers there, and loaders of frameworks their batches. */
void rp_doctor_shm(struct rp_doctor *d)
{
    double size;
    char text[32];
    if (rp_known_number(d->probes, "limits.shm_size", &size) < 0 || size >= SHM_ENOUGH)
        return;
    rp_show_number(text, size, "B");
    rp_find(d, gpu_wanted(d) ? RP_SEVERITY_SLOW : RP_SEVERITY_NOTE,
            in_container(d) ? "docker run --shm-size=16g" : "mount -o remount,size=16g /dev/shm", "%s", text);
}

void rp_doctor_memlock(struct rp_doctor *d)
{
    double limit;
    char text[32];
    if (rp_known_number(d->probes, "limits.memlock.soft", &limit) < 0 || !(gpu_wanted(d) || active_rdma(d)))
        return;
    rp_show_number(text, limit, "B");
    rp_find(d, RP_SEVERITY_SLOW, in_container(d) ? "docker run --ulimit memlock=-1" : "ulimit -l unlimited", "%s", text);
}
