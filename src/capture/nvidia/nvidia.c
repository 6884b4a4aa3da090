/* The NVIDIA driver as the kernel shows it, without asking the driver's library: version, flavour, parameters, the
 * modules around it, device nodes, GPUs by PCI address, and the settings of the container toolkit. */
#include "capture/host/device.h"
#include "capture/host/mounts.h"
#include "capture/privacy/secrets.h"
#include "capture/privacy/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER "/proc/driver/nvidia"

enum { MAX_GPUS = 64, MAX_PARAMETERS = 128, MAX_NODES = 32 };

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023"
 * "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (...)"
 * "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)" */
static void put_version(struct rp_probe *p)
{
    static const char *const names[] = {"version", "flavour", "compiler"};
    RP_TEXT t;
    rp_text_read(&t, p, DRIVER "/version");
    RP_FREE char *line = rp_text_field(&t, "NVRM version", ':'), *compiler = rp_text_field(&t, "GCC version", ':');
    if (!line) {
        for (int i = 0; i < 3; i++)
            rp_put_state(p->out, names[i], &t);
        return;
    }
    const char *from = line; /* the first word of figures with a dot */
    size_t n = 0;
    for (; *from; from += strcspn(from, " "), from += strspn(from, " ")) {
        n = strcspn(from, " ");
        if (strspn(from, "0123456789.") == n && memchr(from, '.', n))
            break;
    }
    RP_FREE char *number = rp_asprintf("%.*s", (int)n, from);
    if (*from)
        rp_put_str(p->out, "version", number, t.path);
    else
        rp_put(p->out, "version", RP_STATE_ERROR, NULL, t.path, NULL, "no version in it");
    rp_put_str(p->out, "flavour", strstr(line, "Open Kernel Module") ? "open" : "closed", t.path);
    rp_put_str(p->out, "compiler", compiler, t.path);
}

/* A text among the parameters may hold anything an administrator wrote into the driver's registry. */
static void redact_parameter(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    char *colon = strstr(line, ": ");
    RP_FREE char *name = rp_asprintf("%.*s", colon ? (int)(colon - line) : 0, line);
    (void)p;
    if (colon && colon[2] == '"' && rp_is_secret(name, colon + 2))
        rp_buf_printf(out, "%s: \"%s\"\n", name, rp_credential);
    else
        rp_buf_printf(out, "%s\n", line);
}

/* "Key: 1" and "Key: "text"" lines. */
static void put_parameters(struct rp_probe *p)
{
    RP_TEXT t;
    char *at = NULL;
    rp_text_read_lines(&t, p, DRIVER "/params", redact_parameter);
    if (t.state != RP_STATE_OK) {
        rp_put_state(p->out, "parameters", &t);
        return;
    }
    json_t *all = json_object();
    for (char *line; (line = rp_text_line(&t, &at)) && json_object_size(all) < MAX_PARAMETERS;) {
        int64_t n;
        char *colon = strstr(line, ": ");
        if (!colon)
            continue;
        *colon = 0;
        char *value = colon + 2;
        size_t len = strlen(value);
        if (!rp_is_plain_name(line))
            continue;
        if (rp_parse_count(value, &n) == 0)
            rp_put_int(all, line, n, t.path, NULL);
        else if (len >= 2 && value[0] == '"' && value[len - 1] == '"' && len < 256) {
            value[len - 1] = 0;
            if (len > 2)
                rp_put_variable(all, line, value + 1, t.path);
            else
                rp_put_absent(all, line, t.path);
        } else
            rp_put(all, line, RP_STATE_ERROR, NULL, t.path, NULL, "neither a number nor a short text");
    }
    json_object_set_new(p->out, "parameters", all);
}

/* Version of a module that is loaded: its file, or "loaded" for those that state none. That of the driver itself is
 * above. */
static void put_modules(struct rp_probe *p)
{
    static const char *const names[][2] = {{"uvm", "nvidia_uvm"},
                                           {"modeset", "nvidia_modeset"},
                                           {"drm", "nvidia_drm"},
                                           {"peermem", "nvidia_peermem"},
                                           {"nv_peer_mem", "nv_peer_mem"},
                                           {"gdrcopy", "gdrdrv"},
                                           {"gpudirect_storage", "nvidia_fs"},
                                           {"nvswitch", "nvidia_nvswitch"},
                                           {"nouveau", "nouveau"}};
    json_t *all = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char dir[80], file[RP_PATH];
        snprintf(dir, sizeof dir, "/sys/module/%s", names[i][1]);
        rp_join(file, dir, "version");
        RP_TEXT t;
        rp_text_read(&t, p, file);
        if (t.state != RP_STATE_ABSENT)
            rp_put_line(p, all, names[i][0], file);
        else
            rp_put_str(all, names[i][0], rp_probe_exists(p, dir) ? "loaded" : NULL, dir);
    }
    json_object_set_new(p->out, "modules", all);
}

/* The line with the GPU's UUID goes; the others say what it is, not which. */
static void hide_uuid(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    char *uuid = strncmp(line, "GPU UUID:", 9) == 0 ? line + 9 + strspn(line + 9, " \t") : NULL;
    char hidden[RP_HIDDEN];
    if (uuid && !p->opts->identify && !rp_is_hidden(uuid)) {
        rp_hide_as(p, "gpu.uuid", uuid, hidden);
        rp_buf_printf(out, "GPU UUID: %s\n", hidden);
    } else
        rp_buf_printf(out, "%s\n", line);
}

static void put_gpu(const struct rp_probe *p, json_t *group, const char *dir, const char *name)
{
    static const char *const fields[][2] = {{"model", "Model"},           {"uuid", "GPU UUID"},
                                            {"vbios", "Video BIOS"},      {"bus_type", "Bus Type"},
                                            {"firmware", "GPU Firmware"}, {"excluded", "GPU Excluded"}};
    char path[RP_PATH];
    int64_t minor;
    json_t *one = json_object();
    RP_TEXT t;
    rp_text_read_lines(&t, p, RP_FORMAT(path, "%s/%s/information", dir, name), hide_uuid);
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        rp_put_field(one, fields[k][0], &t, fields[k][1], ':');
    RP_FREE char *v = rp_text_field(&t, "Device Minor", ':');
    if (v && rp_parse_count(v, &minor) == 0)
        rp_put_int(one, "minor", minor, path, NULL);
    else
        rp_put_state(one, "minor", &t);
    rp_put_device(p, one, RP_FORMAT(path, "/sys/bus/pci/devices/%s", name));
    json_object_set_new(group, name, one);
}

/* A daemon is seen by the file or socket it leaves; in a container only when that was shared with it. */
static void put_daemon(struct rp_probe *p, const char *name, const char *const *marks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rp_probe_exists(p, marks[i])) {
            rp_put_str(p->out, name, "present", marks[i]);
            return;
        }
    rp_put_absent(p->out, name, marks[0]);
}

static void put_nodes(struct rp_probe *p)
{
    static const char *const others[] = {
        "nvidiactl",     "nvidia-uvm",  "nvidia-uvm-tools",          "nvidia-modeset", "nvidia-nvswitchctl",
        "nvidia-nvlink", "nvidia-caps", "nvidia-caps-imex-channels", "gdrdrv"};
    static const char *const numbered[] = {"nvidia", "nvidia-nvswitch", "nvidia-fs"};
    char path[64];
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (rp_probe_exists(p, RP_FORMAT(path, "/dev/%s", others[i])))
            json_array_append_new(list, json_string(others[i]));
    }
    for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++)
        for (int k = 0; k < MAX_NODES; k++) {
            if (rp_probe_exists(p, RP_FORMAT(path, "/dev/%s%d", numbered[i], k)))
                json_array_append_new(list, json_string(path + 5));
        }
    if (json_array_size(list))
        rp_put(p->out, "nodes", RP_STATE_OK, json_incref(list), "/dev/nvidia*", NULL, NULL);
    else
        rp_put_absent(p->out, "nodes", "/dev/nvidia*");
    json_decref(list);
}

/* The container toolkit mounts its own directory over the driver's; its settings are variables. */
static void put_toolkit(struct rp_probe *p)
{
    static const char *const variables[][2] = {
        {"visible_devices", "NVIDIA_VISIBLE_DEVICES"}, {"driver_capabilities", "NVIDIA_DRIVER_CAPABILITIES"},
        {"requires", "NVIDIA_REQUIRE_CUDA"},           {"requirements_off", "NVIDIA_DISABLE_REQUIRE"},
        {"imex_channels", "NVIDIA_IMEX_CHANNELS"},     {"mig_config", "NVIDIA_MIG_CONFIG_DEVICES"},
        {"mig_monitor", "NVIDIA_MIG_MONITOR_DEVICES"}, {"peer_memory", "NVIDIA_MOFED"},
        {"gpudirect_storage", "NVIDIA_GDS"},           {"gdrcopy", "NVIDIA_GDRCOPY"}};
    RP_TEXT t;
    RP_MOUNTS mounts;
    json_t *all = json_object();
    rp_mounts_read(&mounts, p);
    const struct rp_mount *laid = rp_mounts_at(&mounts, DRIVER);
    rp_put_found(all, "injected", mounts.text.state != RP_STATE_OK ? NULL : laid ? "yes" : "no", &mounts.text);
    rp_environ_read(&t, p);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *v = rp_environ_get(&t, variables[i][1]);
        RP_FREE char *source = rp_asprintf("%s: %s", t.path, variables[i][1]);
        if (v)
            rp_put_variable(all, variables[i][0], v, source);
        else if (t.state == RP_STATE_OK)
            rp_put_absent(all, variables[i][0], source);
        else
            rp_put_state(all, variables[i][0], &t);
    }
    json_object_set_new(p->out, "toolkit", all);
}

void rp_probe_nvidia(struct rp_probe *p)
{
    static const char *const manager[] = {"/run/nvidia-fabricmanager/nv-fabricmanager.pid",
                                          "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid",
                                          "/run/nvidia-fabricmanager"};
    static const char *const persistence[] = {"/run/nvidia-persistenced/socket",
                                              "/run/nvidia-persistenced/nvidia-persistenced.pid"};
    static const char *const mps[] = {"/tmp/nvidia-mps/control", "/run/nvidia-mps/control"};
    put_version(p);
    put_parameters(p);
    put_modules(p);
    rp_put_each(p, p->out, "gpus", DRIVER "/gpus", "", MAX_GPUS, put_gpu);
    put_nodes(p);
    rp_put_names(p, p->out, "capability_nodes", "/dev/nvidia-caps", "");
    rp_put_names(p, p->out, "nvswitches", "/proc/driver/nvidia-nvswitch/devices", "");
    rp_put_line(p, p->out, "storage_version", "/proc/driver/nvidia-fs/version");
    put_daemon(p, "fabric_manager", manager, sizeof manager / sizeof *manager);
    put_daemon(p, "persistence_daemon", persistence, sizeof persistence / sizeof *persistence);
    put_daemon(p, "mps", mps, sizeof mps / sizeof *mps);
    put_toolkit(p);
}
