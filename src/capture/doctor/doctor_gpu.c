/* Checks that concern runs on GPUs: driver, libraries and nodes; the state of each GPU; the links between GPUs. */
#include "base/json.h"
#include "capture/doctor/doctor.h"
#include "capture/value.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DRIVER "apt install nvidia-driver-570-server # or newer, then reboot"
#define MAX_GPUS 64
#define STOP RP_DOCTOR_STOP
#define SLOW RP_DOCTOR_SLOW
#define NOTE RP_DOCTOR_NOTE

static const char *module_version(const struct rp_doctor *d)
{
    return rp_known_text(d->probes, "nvidia.version");
}

/* Machines whose driver is not of a package: Windows' serves WSL 2, where a Linux driver would replace the library that
 * leads to it, and Jetson's is a part of JetPack. */
static int kernel_has(const struct rp_doctor *d, const char *word)
{
    const char *release = rp_known_text(d->probes, "kernel.release");
    return release && strstr(release, word) != NULL;
}

static int in_wsl(const struct rp_doctor *d)
{
    return kernel_has(d, "microsoft");
}

static int on_jetson(const struct rp_doctor *d)
{
    return kernel_has(d, "tegra");
}

/* Where the driver of Windows is mounted, in a container too. */
static int has_wsl_driver(const struct rp_doctor *d)
{
    const char *path = rp_known_text(json_object_get(rp_group(d->probes, "cuda.libraries"), "libcuda.so.1"), "path");
    return path && strncmp(path, "/usr/lib/wsl/", 13) == 0;
}

static const char *driver_remedy(const struct rp_doctor *d)
{
    if (in_wsl(d))
        return "update NVIDIA's driver on Windows, then wsl --shutdown; never install a Linux driver in WSL";
    return on_jetson(d) ? "apt install nvidia-jetpack # the driver is a part of it, and of the image that was flashed"
                        : DRIVER;
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

/* What tells of CUDA: a library, a toolkit, or a variable alone. Network libraries such as libibverbs are in the list
 * too and do not count. NULL: nothing. */
static const char *sign_of_cuda(const struct rp_doctor *d)
{
    static const char *const begins[] = {"libcu", "libnccl", "libnv"};
    const char *name;
    json_t *library;
    json_object_foreach((json_t *)rp_group(d->probes, "cuda.libraries"), name, library)
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            if (strncmp(name, begins[i], strlen(begins[i])) == 0)
                return "CUDA is installed";
    if (json_object_size(rp_group(d->probes, "cuda.toolkits")) > 0)
        return "CUDA is installed";
    return rp_known(d->probes, "environment.CUDA_HOME") ? "CUDA_HOME is set" : NULL;
}

/* How a container gets the GPUs of its host. */
static const char *gpus_option(const struct rp_doctor *d)
{
    return rp_known_is(d->probes, "container.engine", "apptainer") ? "apptainer exec --nv"
           : rp_known_is(d->probes, "container.engine", "enroot")  ? "start it with NVIDIA_VISIBLE_DEVICES=all set"
                                                                   : "docker run --gpus all";
}

/* Apptainer and enroot change the file system alone: limits and /dev/shm are the host's. */
static bool has_own_limits(const struct rp_doctor *d)
{
    return rp_doctor_in_container(d) && !rp_known_is(d->probes, "container.engine", "apptainer") &&
           !rp_known_is(d->probes, "container.engine", "enroot");
}

/* ---- the driver ---- */

void rp_doctor_driver(struct rp_doctor *d)
{
    const int contained = rp_doctor_in_container(d);
    const char *remedy = !contained ? driver_remedy(d) : on_jetson(d) ? "docker run --runtime nvidia" : gpus_option(d);
    if (module_version(d) || json_object_size(rp_group(d->probes, "gpu.devices")) > 0)
        return;
    if (in_wsl(d) && has_wsl_driver(d)) /* all that belongs here: the kernel's part is Windows' */
        rp_doctor_report(d, RP_DOCTOR_NOTE, driver_remedy(d), "that of Windows, which has shown no GPU here");
    else if (on_jetson(d) && !contained && sign_of_cuda(d))
        rp_doctor_report(d, RP_DOCTOR_NOTE, "use JetPack's own; no package of a driver belongs on a Jetson",
                         "that of JetPack: /etc/nv_tegra_release");
    else if (rp_known_text(d->probes, "nvidia.modules.nouveau"))
        rp_doctor_report(d, RP_DOCTOR_STOP, remedy, "nouveau holds the GPU");
    else if (on_the_bus(d) > 0)
        rp_doctor_report(d, RP_DOCTOR_STOP, remedy, "none, for %d GPU(s) on the bus", on_the_bus(d));
    else if (rp_known_text(d->probes, "nvidia.toolkit.visible_devices"))
        rp_doctor_report(d, RP_DOCTOR_NOTE, remedy, "none, in an image made for GPUs");
    else if (sign_of_cuda(d))
        rp_doctor_report(d, RP_DOCTOR_NOTE, remedy, "none, although %s", sign_of_cuda(d));
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
        rp_doctor_report(d, RP_DOCTOR_STOP, driver_remedy(d), "%s; CUDA %s needs %s", driver, cuda ? cuda : "12",
                         oldest);
}

/* After an update without a restart the libraries are newer than the module that is loaded; a container may bring its
 * own. */
void rp_doctor_libraries(struct rp_doctor *d)
{
    const char *module = rp_known_text(d->probes, "nvidia.version"), *name;
    json_t *library;
    json_object_foreach((json_t *)rp_group(d->probes, "cuda.libraries"), name, library) {
        const char *version = rp_known_text(library, "version");
        if (module && version && strncmp(name, "libnvidia-ml.so", 15) == 0 && strcmp(module, version) != 0)
            rp_doctor_report(d, STOP,
                             rp_doctor_in_container(d) ? "remove NVIDIA's driver packages from the image"
                                                       : "reboot # or reload it",
                             "%s is %s, the kernel module %s", name, version, module);
    }
}

void rp_doctor_nodes(struct rp_doctor *d)
{
    static const char *const needed[] = {"nvidiactl", "nvidia-uvm"};
    const char *remedy = rp_doctor_in_container(d) ? gpus_option(d) : "nvidia-modprobe -c 0 -u # as root";
    /* The driver of another kernel, as in WSL, has no nodes here. */
    if (!module_version(d) || !rp_known_text(d->probes, "nvidia.flavour"))
        return;
    if (strcmp(rp_state_at(d->probes, "nvidia.nodes"), "absent") == 0) {
        rp_doctor_report(d, RP_DOCTOR_STOP, remedy, "none below /dev");
        return;
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (rp_known(d->probes, "nvidia.nodes") && !rp_known_has(d->probes, "nvidia.nodes", needed[i]))
            rp_doctor_report(d, RP_DOCTOR_STOP, remedy, "no /dev/%s", needed[i]);
}

void rp_doctor_worker(struct rp_doctor *d)
{
    const char *state = rp_state_at(d->probes, "gpu.worker"), *why = rp_detail_at(d->probes, "gpu.worker");
    if (strcmp(state, "error") == 0)
        rp_doctor_report(d, RP_DOCTOR_STOP, "dmesg | grep -i -e nvrm -e xid", "%.220s", *why ? why : "it failed");
    else if (rp_known_is(d->probes, "here.gpu_worker", "no"))
        rp_doctor_report(d, gpu_wanted(d) ? RP_DOCTOR_STOP : RP_DOCTOR_NOTE, "make CUDA=1",
                         "this build has none: it sees no GPU");
    else if (*why && gpu_wanted(d))
        rp_doctor_report(d, RP_DOCTOR_STOP, "use a system with glibc 2.28 or newer", "%.220s", why);
}

/* ---- each GPU ---- */

/* One thing that may be wrong with a GPU. */
struct gpu_check {
    const char *id;
    enum rp_doctor_severity severity;
    const char *remedy;
    enum { IS, COUNT, BELOW, WITH } kind;
    const char *field;
    const char *other; /* IS: the word; COUNT: what is counted; BELOW: the field that `field` should reach */
    const char *words; /* IS: the finding; BELOW: its beginning */
    int (*look)(const json_t *gpu, struct rp_buf *words); /* WITH: is there a finding? It is put into `words`. */
};

static int look_at_fabric(const json_t *gpu, struct rp_buf *words)
{
    const char *state = rp_known_text(gpu, "fabric_state");
    rp_buf_puts(words, state ? state : "");
    return state && strcmp(state, "completed") != 0;
}

static int look_at_throttling(const json_t *gpu, struct rp_buf *words)
{
    static const char *const reasons[] = {"sw_power_cap",        "hw_slowdown",             "sw_thermal_slowdown",
                                          "hw_thermal_slowdown", "hw_power_brake_slowdown", "sync_boost"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (rp_known_has(gpu, "throttle_reasons", reasons[i]))
            rp_buf_printf(words, "%s%s", words->size ? ", " : "", reasons[i]);
    return words->size > 0;
}

/* All links of a card for a bridge are down if the bridge is missing, which is not a fault. */
static int look_at_links(const json_t *gpu, struct rp_buf *words)
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

#define RESET "nvidia-smi --gpu-reset"
#define ERRORS "nvidia-smi -q -d ECC,ROW_REMAPPER # use another GPU: CUDA_VISIBLE_DEVICES"
#define APPS "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv"
#define WHERE(field_, word, finding) .kind = IS, .field = field_, .other = word, .words = finding
#define COUNTED(field_, what) .kind = COUNT, .field = field_, .other = what
#define LESS(field_, than, beginning) .kind = BELOW, .field = field_, .other = than, .words = beginning

/* Rows of one check, severity and remedy that are next to each other make one finding a GPU. The generation of the bus
 * is lower while a GPU idles; the width is not. */
static const struct gpu_check gpu_checks[] = {
    {"fabric", STOP, "systemctl restart nvidia-fabricmanager", .kind = WITH, .look = look_at_fabric},
    {"gpu_errors", STOP, ERRORS, COUNTED("ecc_uncorrected", "uncorrected")},
    {"gpu_errors", STOP, ERRORS, WHERE("remapped_rows_failed", "yes", "no rows left to remap")},
    {"gpu_errors", SLOW, RESET, WHERE("retired_pages_pending", "yes", "bad memory is retired at the next reset")},
    {"gpu_errors", SLOW, RESET, WHERE("remapped_rows_pending", "yes", "bad memory is remapped at the next reset")},
    {"gpu_errors", NOTE, "nvidia-smi -q -d ECC", COUNTED("ecc_corrected", "corrected")},
    {"gpu_mode", STOP, "nvidia-smi -c DEFAULT", WHERE("compute_mode", "prohibited", "compute mode prohibited")},
    {"gpu_mode", SLOW, "nvidia-smi -mig 0", WHERE("mig_mode", "enabled", "MIG is on: a run gets one instance")},
    {"gpu_users", SLOW, APPS, COUNTED("processes", "computing")},
    {"gpu_users", SLOW, APPS, COUNTED("processes_mps", "by MPS")},
    {"gpu_throttling", SLOW, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER", .kind = WITH,
     .look = look_at_throttling},
    {"gpu_power", SLOW, "nvidia-smi -pl WATTS", LESS("power_limit", "power_limit_default", "limit ")},
    {"gpu_clocks", SLOW, "nvidia-smi -rac", LESS("clock_sm_application", "clock_sm_default", "SM set to ")},
    {"gpu_clocks", NOTE, "nvidia-smi -ac MEMORY,SM # of nvidia-smi -q -d SUPPORTED_CLOCKS",
     LESS("clock_sm_application", "clock_sm_max", "SM set to ")},
    {"gpu_bus", SLOW, "put the card into another slot, or reseat it",
     LESS("pcie_width", "pcie_width_max", "PCIe lanes: ")},
    {"nvlink", SLOW, "nvidia-smi nvlink --status && dmesg | grep -i nvlink", .kind = WITH, .look = look_at_links},
    {"persistence", NOTE, "nvidia-smi -pm 1",
     WHERE("persistence", "disabled", "off: the first call waits for the driver")},
};
enum { GPU_CHECKS = sizeof gpu_checks / sizeof *gpu_checks };

/* What a row finds, added to `words`. */
static void look_at(const struct gpu_check *c, const json_t *gpu, struct rp_buf *words)
{
    RP_BUF found = {0};
    double a, b;
    if (c->kind == WITH && !c->look(gpu, &found))
        return;
    if (c->kind == IS && rp_known_is(gpu, c->field, c->other))
        rp_buf_puts(&found, c->words);
    if (c->kind == COUNT && rp_known_number(gpu, c->field, &a) == 0 && a > 0)
        rp_buf_printf(&found, "%.0f %s", a, c->other);
    if (c->kind == BELOW && rp_known_number(gpu, c->field, &a) == 0 && rp_known_number(gpu, c->other, &b) == 0 &&
        a < b) {
        const char *unit = rp_leaf(rp_value_at(gpu, c->field)).unit;
        char now[32], most[32];
        rp_show_number(now, a, unit);
        rp_show_number(most, b, unit);
        rp_buf_printf(&found, "%s%s of %s", c->words, now, most);
    }
    if (found.size)
        rp_buf_printf(words, "%s%s", words->size ? ", " : "", found.data);
}

/* One finding for all GPUs about which rows from..to find the same. */
static void report_gpus(struct rp_doctor *d, const struct gpu_check *from, const struct gpu_check *to)
{
    char *found[MAX_GPUS] = {0}, name[16];
    const json_t *devices = rp_group(d->probes, "gpu.devices"), *gpu;
    int n = 0;
    for (; n < MAX_GPUS && (gpu = json_object_get(devices, RP_FORMAT(name, "gpu%d", n))); n++) {
        RP_BUF words = {0};
        for (const struct gpu_check *c = from; c < to; c++)
            look_at(c, gpu, &words);
        found[n] = words.size ? rp_buf_take(&words) : NULL;
    }
    for (int i = 0; i < n; i++) {
        RP_BUF names = {0};
        RP_FREE char *words = found[i];
        int same = 0;
        found[i] = NULL;
        for (int k = i; words && k < n; k++)
            if (k == i || (found[k] && strcmp(found[k], words) == 0)) {
                rp_buf_printf(&names, "%sgpu%d", same++ ? " " : "", k);
                free(found[k]);
                found[k] = NULL;
            }
        if (words && same == n && n > 1)
            rp_doctor_report(d, from->severity, from->remedy, "all %d: %s", n, words);
        else if (words)
            rp_doctor_report(d, from->severity, from->remedy, "%s: %s", rp_buf_text(&names), words);
    }
}

void rp_doctor_gpus(struct rp_doctor *d)
{
    for (int i = 0, end; i < GPU_CHECKS; i = end) {
        const struct gpu_check *c = &gpu_checks[i];
        for (end = i + 1;
             end < GPU_CHECKS && strcmp(c->id, gpu_checks[end].id) == 0 && c->severity == gpu_checks[end].severity;
             end++)
            ;
        if (strcmp(c->id, d->check) == 0)
            report_gpus(d, c, &gpu_checks[end]);
    }
}

void rp_doctor_fabric(struct rp_doctor *d)
{
    rp_doctor_gpus(d);
    if (rp_known(d->probes, "nvidia.nvswitches") &&
        strcmp(rp_state_at(d->probes, "nvidia.fabric_manager"), "absent") == 0 && !rp_doctor_in_container(d))
        rp_doctor_report(d, RP_DOCTOR_STOP, "systemctl start nvidia-fabricmanager",
                         "NVSwitches without nvidia-fabricmanager");
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
    if (version && strchr(version, '.') && rp_compare_versions(version, NCCL_OLD) < 0) /* "2" is only the soname */
        rp_doctor_report(d, SLOW, "apt install libnccl2 # or pip install -U nvidia-nccl-cu12",
                         "%s, older than " NCCL_OLD, version);
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
        rp_doctor_report(d, RP_DOCTOR_SLOW, "modprobe nvidia_peermem", "off: NICs reach GPU memory through the host's");
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
    rp_doctor_report(d, gpu_wanted(d) ? RP_DOCTOR_SLOW : RP_DOCTOR_NOTE,
            has_own_limits(d) ? "docker run --shm-size=16g" : "mount -o remount,size=16g /dev/shm", "%s", text);
}

void rp_doctor_memlock(struct rp_doctor *d)
{
    double limit;
    char text[32];
    if (rp_known_number(d->probes, "limits.memlock.soft", &limit) < 0 || !(gpu_wanted(d) || active_rdma(d)))
        return;
    rp_show_number(text, limit, "B");
    rp_doctor_report(d, RP_DOCTOR_SLOW,
                     has_own_limits(d) ? "docker run --ulimit memlock=-1" : "ulimit -l unlimited", "%s", text);
}
