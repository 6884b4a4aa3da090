/* The page: an environment document to be read in ten seconds. Three columns: section, label, fact. Unknown values have
 * no line.
 *
 *     slow       CPU governor: powersave
 *
 *     host       machine      Supermicro SYS-4029GP-TRT
 *                system       Ubuntu 22.04.5 LTS
 */
#include "base/json.h"
#include "base/text.h"
#include "capture/capture.h"
#include "capture/doctor/doctor.h"
#include "capture/probe.h"
#include "capture/topology/topo_matrix.h"
#include "capture/value.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, LABEL = 11, FACT = 24, MAX_GPUS = 64, MAX_LINES = 8, COMMAND = 500 };

struct summary_page {
    struct rp_buf *out;
    const json_t *probes;
    const char *section; /* until its first line is written */
};

static const char hidden[] = "sha256:"; /* hidden texts are not shown */

/* ---- lines ---- */

/* Text from `column` on, wrapped at blanks to `indent`, and the end of the line. */
static void add_wrapped(struct rp_buf *out, size_t column, size_t indent, const char *text)
{
    RP_FREE char *copy = rp_strdup(text);
    rp_sanitize(copy);
    for (char *word = copy, *end; *word; word = end) {
        size_t n = strcspn(word, " ");
        end = word + n + (word[n] == ' ');
        if (column > indent && column + n >= WIDTH) {
            while (out->data[out->size - 1] == ' ')
                out->size--;
            rp_buf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        rp_buf_printf(out, "%.*s%s", (int)n, word, *end ? " " : "");
        column += n + 1;
    }
    rp_buf_puts(out, "\n");
}

/* One fact. A label that is too long pushes it to the right. */
static void put_fact(struct summary_page *p, const char *label, const char *text)
{
    size_t n = strlen(label), column = n < FACT - LABEL ? FACT : LABEL + n + 1;
    rp_buf_printf(p->out, "%-*s%-*s", LABEL, p->section, (int)(column - LABEL), label);
    add_wrapped(p->out, column, FACT, text);
    p->section = "";
}

static void put_text(struct summary_page *p, const char *label, const struct rp_buf *text)
{
    if (text->size)
        put_fact(p, label, text->data);
}

/* A value in words, after '#' without its unit; 0 or -1: nothing that could be shown. */
static int add_value(struct rp_buf *out, const json_t *group, const char *path)
{
    int bare = *path == '#';
    const json_t *v = rp_known(group, path += bare);
    const char *unit = bare ? "" : rp_leaf(rp_value_at(group, path)).unit;
    char number[32];
    if (json_is_number(v)) {
        rp_show_number(number, json_number_value(v), unit);
        rp_buf_puts(out, number);
    } else if (json_is_array(v) && json_array_size(v)) {
        for (size_t i = 0; i < json_array_size(v); i++)
            rp_buf_printf(out, "%s%.60s", i ? " " : "", json_string_value(json_array_get(v, i)));
    } else if (json_string_length(v) && strncmp(json_string_value(v), hidden, 7) != 0 &&
               strcmp(json_string_value(v), "max") != 0) {
        rp_buf_puts(out, json_string_value(v));
    } else {
        return -1;
    }
    return 0;
}

/* Parts separated by '|'. In each "{path}" is replaced; a part in which one is not known is left out. Others are joined
 * by commas. The form is this program's: what strangers wrote comes in as values. */
static void add_form(struct rp_buf *out, const json_t *group, const char *form)
{
    for (; *form; form += *form == '|') {
        RP_BUF part = {0};
        int known = 1;
        for (; *form && *form != '|'; form++) {
            size_t n = strcspn(form, "}");
            if (*form != '{') {
                rp_buf_add(&part, form, 1);
                continue;
            }
            RP_FREE char *path = rp_asprintf("%.*s", (int)n - 1, form + 1);
            known &= add_value(&part, group, path) == 0;
            form += n;
        }
        if (known)
            rp_buf_printf(out, "%s%s", out->size ? ", " : "", rp_buf_text(&part));
    }
}

static void put_form_of(struct summary_page *p, const char *label, const json_t *group, const char *form)
{
    RP_BUF text = {0};
    add_form(&text, group, form);
    put_text(p, label, &text);
}

static void put_form(struct summary_page *p, const char *label, const char *form)
{
    put_form_of(p, label, p->probes, form);
}

/* ---- sections ---- */

static void show_warnings(struct summary_page *p, const json_t *env)
{
    RP_FINDINGS found;
    rp_doctor(&found, env);
    const int64_t n = found.stop + found.slow;
    for (int64_t i = 0; i < n; i++) {
        const struct rp_finding *f = &found.findings[i];
        RP_FREE char *text = rp_asprintf("%s: %s", f->what, f->value);
        rp_buf_printf(p->out, "%-*s", LABEL, f->severity);
        add_wrapped(p->out, LABEL, LABEL, text);
    }
    if (n)
        rp_buf_printf(p->out, "%*sremedies: repro doctor\n\n", LABEL, "");
}

static void show_host(struct summary_page *p)
{
    p->section = "host";
    put_form(p, "machine",
             rp_known_text(p->probes, "host.vendor")
                 ? "{host.vendor} {host.product}|board {host.board}|BIOS {host.bios_version}"
                 : "{host.product}|board {host.board}"); /* of a device tree */
    put_form(p, "name", "{host.hostname}");
    put_form(p, "system", "{distribution.name}|{distribution.libc}");
    put_form(p, "kernel", "{kernel.release} {kernel.machine}");
    put_form(p, "hypervisor", "{cpu.hypervisor}");
    put_form(p, "load",
             "{#kernel.load_1min} {#kernel.load_5min} {#kernel.load_15min}|{#kernel.tasks_running} of {#kernel.tasks} "
             "tasks running");
    put_form(p, "clock", "{clock.source}|kept by {clock.kept_by}");
}

static void show_container(struct summary_page *p)
{
    const char *command = rp_known_text(p->probes, "launch.command");
    p->section = "container";
    put_form(p, "engine", "{container.engine}|cgroup v{container.cgroup_version}|image {container.image}");
    put_form(p, "limits",
             "{container.cpu_limit}|memory {container.memory_limit}|CPUs {container.cpuset}|{container.pids_limit}");
    put_form(p, "rights",
             "user {security.user}|privileged {security.privileged}|seccomp {security.seccomp}|network "
             "{security.namespaces.net}");
    put_form(p, "ulimits", "memlock {limits.memlock.soft}|stack {limits.stack.soft}|{limits.nofile.soft}");
    put_form(p, "/dev/shm", "{limits.shm_size}|free {limits.shm_free}");
    if (command) {
        RP_FREE char *text = rp_asprintf("%.*s%s", COMMAND, command, strlen(command) > COMMAND ? "..." : "");
        put_fact(p, "started like", text);
    }
}

static void show_shape(struct summary_page *p)
{
    RP_BUF text = {0};
    /* the kernel's words are on, off, notsupported... */
    const char *smt = rp_known_text(p->probes, "frequency.smt_control");
    add_form(&text, p->probes, "sockets {cpu.sockets}|cores {cpu.cores}|threads {cpu.threads}");
    if (smt && strncmp(smt, "not", 3) == 0)
        rp_buf_printf(&text, "%sSMT not %s", text.size ? ", " : "", smt + 3);
    else
        add_form(&text, p->probes, "SMT {frequency.smt_control}");
    add_form(&text, p->probes, "allowed {cpu.allowed}");
    put_text(p, "shape", &text);
}

static void show_cpu(struct summary_page *p)
{
    static const char *const vectors[] = {"avx2",     "fma",         "avx512f",  "avx512dq", "avx512bw",
                                          "avx512vl", "avx512_bf16", "amx_tile", "sha_ni"};
    static const char *const levels[] = {"l1d", "l1i", "l2", "l3"};
    const json_t *caches = rp_value_at(p->probes, "cpu.caches");
    RP_BUF seen = {0}, sizes = {0};
    double off;
    p->section = "CPU";
    put_form(p, "model", "{cpu.model_name}|microcode {cpu.microcode}");
    show_shape(p);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (rp_known_has(p->probes, "cpu.flags", vectors[i]))
            rp_buf_printf(&seen, "%s%s", seen.size ? " " : "", vectors[i]);
    put_text(p, "instructions", &seen);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        RP_FREE char *form = rp_asprintf("%s {%s.size}", levels[i], levels[i]);
        add_form(&sizes, caches, form);
    }
    put_text(p, "caches", &sizes);
    int even = json_equal(rp_known(p->probes, "cpu.clock_min"), rp_known(p->probes, "cpu.clock_max"));
    put_form(p, "clock",
             even ? "{frequency.hardware_min} to {frequency.hardware_max}|now {cpu.clock_max}"
                  : "{frequency.hardware_min} to {frequency.hardware_max}|now {cpu.clock_min} to {cpu.clock_max}");
    put_form(p, "governor", "{frequency.governor}|driver {frequency.driver}|prefers {frequency.energy_preference}");
    if (rp_known_number(p->probes, "frequency.no_turbo", &off) == 0)
        put_fact(p, "turbo", off > 0 ? "off" : "on");
    else if (rp_known_number(p->probes, "frequency.boost", &off) == 0 &&
             (off > 0 || !rp_known_is(p->probes, "frequency.driver", "cppc_cpufreq"))) /* as in doctor_host.c */
        put_fact(p, "turbo", off > 0 ? "on" : "off");
}

/* Nodes without processors: the memory of a GPU of Grace Hopper, or of CXL. */
static int memory_only_nodes(struct summary_page *p)
{
    const char *name, *cpus;
    json_t *node;
    int n = 0;
    json_object_foreach((json_t *)rp_group(p->probes, "memory.nodes"), name, node)
        n += (cpus = rp_known_text(node, "cpus")) && !*cpus;
    return n;
}

/* "2 nodes (0-1), balancing on", "9 nodes (0-8), 8 of them memory only" */
static void show_numa(struct summary_page *p)
{
    RP_BUF text = {0};
    const char *nodes = rp_known_text(p->probes, "memory.numa_nodes"),
               *balancing = rp_known_text(p->probes, "memory.numa_balancing");
    int n = nodes ? rp_parse_cpus(nodes, NULL, RP_MAX_CPUS) : 0;
    if (n == 1)
        rp_buf_puts(&text, "1 node");
    else if (n > 1)
        rp_buf_printf(&text, "%d nodes (%s)", n, nodes);
    const int bare = n > 1 ? memory_only_nodes(p) : 0;
    if (bare)
        rp_buf_printf(&text, ", %d of them memory only", bare);
    if (balancing)
        rp_buf_printf(&text, "%sbalancing %s", text.size ? ", " : "", strcmp(balancing, "0") == 0 ? "off" : "on");
    put_text(p, "NUMA", &text);
}

static void show_memory(struct summary_page *p)
{
    p->section = "memory";
    put_form(p, "size", "{memory.total}|available {memory.available}|swap {memory.swap_total}");
    show_numa(p);
    put_form(p, "pages",
             "transparent {memory.transparent_huge_pages}|huge {memory.huge_pages} of {memory.huge_page_size}");
}

/* ---- GPUs ---- */

/* "31 C to 45 C": a number of all GPUs; clocks are given in MHz, as they are set */
static void add_range(struct rp_buf *out, const json_t *const *gpu, int n, const char *before, const char *field,
                      const char *after)
{
    double low = 0, high = 0, x;
    const char *unit = NULL;
    char a[32], b[32];
    int known = 0;
    for (int i = 0; i < n; i++) {
        if (rp_known_number(gpu[i], field, &x) < 0)
            continue;
        unit = rp_leaf(rp_value_at(gpu[i], field)).unit;
        low = known && low < x ? low : x;
        high = known && high > x ? high : x;
        known = 1;
    }
    int clock = unit && strcmp(unit, "Hz") == 0;
    rp_show_number(a, clock ? low * 1e-6 : low, clock ? NULL : unit);
    rp_show_number(b, clock ? high * 1e-6 : high, clock ? NULL : unit);
    if (known)
        rp_buf_printf(out, "%s%s%s%s%s%s", out->size ? ", " : "", before, a, low < high ? " to " : "",
                      low < high ? b : "", after);
}

/* "8 x NAME", one line for each different text */
static void put_kinds(struct summary_page *p, const json_t *const *gpu, int n, const char *form)
{
    RP_JSON *kinds = json_object();
    const char *kind;
    json_t *count;
    for (int i = 0; i < n; i++) {
        RP_BUF text = {0};
        add_form(&text, gpu[i], form);
        kind = text.size ? text.data : "GPU";
        json_object_set_new(kinds, kind, json_integer(json_integer_value(json_object_get(kinds, kind)) + 1));
    }
    json_object_foreach(kinds, kind, count) {
        RP_FREE char *text = rp_asprintf("%d x %s", (int)json_integer_value(count), kind);
        put_fact(p, "devices", text);
    }
}

static int count_links(const json_t *gpu)
{
    const char *name;
    json_t *link;
    int up = 0;
    json_object_foreach((json_t *)rp_group(gpu, "nvlinks"), name, link)
        up += rp_known_is(link, "state", "active");
    return up;
}

static void show_gpu_state(struct summary_page *p, const json_t *const *gpu, int n)
{
    static const char *const ranges[][4] = {{"clocks", "SM ", "clock_sm", " MHz"},
                                            {"clocks", "set to ", "clock_sm_application", ""},
                                            {"clocks", "at most ", "clock_sm_max", ""},
                                            {"clocks", "memory ", "clock_memory", " MHz"},
                                            {"power", "", "power_draw", ""},
                                            {"power", "limit ", "power_limit", ""},
                                            {"power", "", "temperature", ""},
                                            {"bus", "PCIe generation ", "pcie_generation", ""},
                                            {"bus", "at most ", "pcie_generation_max", ""},
                                            {"bus", "lanes ", "pcie_width", ""},
                                            {"bus", "at most ", "pcie_width_max", ""}};
    enum { RANGES = sizeof ranges / sizeof *ranges };
    for (int i = 0; i < RANGES;) {
        RP_BUF text = {0};
        const char *label = ranges[i][0];
        for (; i < RANGES && strcmp(ranges[i][0], label) == 0; i++)
            add_range(&text, gpu, n, ranges[i][1], ranges[i][2], ranges[i][3]);
        put_text(p, label, &text);
    }
    int low = count_links(gpu[0]), high = low;
    for (int i = 1; i < n; i++) {
        int up = count_links(gpu[i]);
        low = up < low ? up : low;
        high = up > high ? up : high;
    }
    RP_BUF links = {0};
    rp_buf_printf(&links, low < high ? "%d to %d up on each" : "%d up on each", low, high);
    if (high)
        put_fact(p, "NVLink", rp_buf_text(&links));
}

/* Where the kernel's part is not a module of NVIDIA's: on a Jetson, and in WSL. */
static int has_driver_library(const struct summary_page *p)
{
    return json_object_get(rp_group(p->probes, "cuda.libraries"), "libcuda.so.1") != NULL;
}

static void show_gpus(struct summary_page *p)
{
    const json_t *gpu[MAX_GPUS];
    const char *name, *why = rp_detail_at(p->probes, "gpu.worker");
    json_t *one;
    int n = 0;
    p->section = "GPU";
    json_object_foreach((json_t *)rp_group(p->probes, "gpu.devices"), name, one)
        if (n < MAX_GPUS)
            gpu[n++] = one;
    if (n) {
        put_kinds(p, gpu, n, "{name}|{memory_total}|{memory_type}|ECC {ecc_mode}|MIG {mig_mode}");
        show_gpu_state(p, gpu, n);
    } else {
        json_object_foreach((json_t *)rp_group(p->probes, "nvidia.gpus"), name, one)
            if (n < MAX_GPUS)
                gpu[n++] = one;
        put_kinds(p, gpu, n, "{model}|PCIe x{#pcie_width}");
    }
    put_form(p, "driver", "{nvidia.version}|{nvidia.flavour} module|CUDA {gpu.cuda_driver_version}");
    if (!n && !rp_known(p->probes, "nvidia.version") &&
        (rp_known(p->probes, "gpu.nccl_version") || json_object_size(rp_group(p->probes, "cuda.libraries")) ||
         json_object_size(rp_group(p->probes, "cuda.toolkits")) ||
         (rp_group(p->probes, "nvidia") && !rp_group(p->probes, "cpu"))))
        put_fact(p, "driver", has_driver_library(p) ? "its library alone, without a version" : "no NVIDIA driver");
    put_form(p, "NCCL", "{gpu.nccl_version}");
    if (*why && strcmp(rp_state_at(p->probes, "gpu.worker"), "error") != 0 &&
        (n || rp_known(p->probes, "nvidia.version")))
        put_fact(p, "not queried", why);
}

/* ---- around it ---- */

static void show_network(struct summary_page *p)
{
    const char *name, *port;
    json_t *one, *values;
    int shown = 0, more = 0;
    p->section = "network";
    json_object_foreach((json_t *)rp_group(p->probes, "network.interfaces"), name, one)
        if (!rp_known_is(one, "kind", "loopback") && !rp_known_is(one, "operational", "down") &&
            (rp_known(one, "driver") || rp_known(one, "pci_address") || rp_known(one, "speed") ||
             rp_known_is(p->probes, "network.default_interface", name))) {
            if (shown++ < MAX_LINES)
                put_form_of(p, name, one, "{kind}|{driver}|{speed}|MTU {#mtu}");
            else
                more++;
        }
    json_object_foreach((json_t *)rp_group(p->probes, "rdma.devices"), name, one)
        json_object_foreach((json_t *)rp_group(one, "ports"), port, values) {
            if (shown++ < 2 * MAX_LINES)
                put_form_of(p, name, values, "RDMA over {link_layer}|{rate}|{link}");
            else
                more++;
        }
    if (more) {
        RP_FREE char *text = rp_asprintf("%d not shown", more);
        put_fact(p, "and more", text);
    }
    put_form(p, "GPUDirect", "{rdma.gpudirect}");
}

/* virtio and Xen say of every disk that it turns: what the host has is not known. */
static int is_virtual_disk(const char *name)
{
    return name && (strncmp(name, "vd", 2) == 0 || strncmp(name, "xvd", 3) == 0);
}

static void show_storage(struct summary_page *p)
{
    static const char *const places[][2] = {{"working dir", "workdir"}, {"store", "store"}, {"temporary", "temporary"}};
    const json_t *all = rp_value_at(p->probes, "storage");
    p->section = "storage";
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const json_t *at = rp_value_at(all, places[i][1]), *disks = rp_known(at, "disks");
        const char *disk = json_string_value(json_array_get(disks, 0));
        RP_BUF text = {0};
        if (i && rp_known(at, "mount_point") &&
            json_equal(rp_known(at, "mount_point"), rp_known(all, "workdir.mount_point"))) {
            put_fact(p, places[i][0], "where the working directory is");
            continue;
        }
        double turns;
        add_form(&text, at, "{filesystem}|{free} free of {total}|on {device}");
        if (disk)
            add_form(&text, json_object_get(rp_value_at(all, "disks"), disk), "{model}");
        if (rp_known_number(at, "rotational", &turns) == 0 && text.size && !is_virtual_disk(disk))
            rp_buf_puts(&text, turns > 0 ? ", spinning" : ", flash");
        put_text(p, places[i][0], &text);
    }
}

static void show_software(struct summary_page *p)
{
    const char *name, *version, *digest = rp_known_text(p->probes, "program.sha256");
    json_t *one;
    RP_BUF program = {0}, libraries = {0}, variables = {0};
    int more = 0;
    p->section = "software";
    add_form(&program, p->probes, "{program.version}");
    if (program.size && digest)
        rp_buf_printf(&program, ", sha256 %.16s...", digest);
    put_text(p, "repro", &program);
    /* a second file of a name is not what a program gets */
    json_object_foreach((json_t *)rp_group(p->probes, "cuda.libraries"), name, one)
        if ((version = rp_known_text(one, "version")) && !strchr(name, '#'))
            rp_buf_printf(&libraries, "%s%.*s %s", libraries.size ? ", " : "", (int)strcspn(name, "."), name, version);
    put_text(p, "libraries", &libraries);
    put_form(p, "job", "{jobs.launchers}");
    json_object_foreach((json_t *)rp_group(p->probes, "environment"), name, one) {
        const char *value = rp_known_text(one, "");
        int known = value && strncmp(value, hidden, 7) != 0;
        if (variables.size < 300)
            rp_buf_printf(&variables, "%s%s%s%.100s", variables.size ? " " : "", name, known ? "=" : "",
                          known ? value : "");
        else
            more++;
    }
    if (more)
        rp_buf_printf(&variables, " and %d more", more);
    put_text(p, "variables", &variables);
}

static void show_sources(struct summary_page *p)
{
    static const char form[] =
        "{commit}|{branch}|{#modified} modified|{#untracked} untracked|{#submodules_changed} submodules changed";
    const char *name;
    json_t *one;
    p->section = "sources";
    json_object_foreach((json_t *)rp_group(p->probes, "git"), name, one) {
        int here = strcmp(name, "workdir") == 0;
        const char *why = rp_detail_at(one, "commit"), *layout = rp_known_text(one, "layout");
        RP_BUF text = {0};
        add_form(&text, one, form);
        if (layout && strcmp(layout, "bare") == 0)
            rp_buf_printf(&text, "%sbare", text.size ? ", " : "");
        if (layout && !rp_known(one, "commit"))
            rp_buf_printf(&text, "%sno commit yet", text.size ? ", " : "");
        if (text.size)
            put_fact(p, here ? "working dir" : name, text.data);
        else if (*why)
            put_fact(p, here ? "working dir" : name, why);
        else if (!here) /* requested by --repo */
            put_fact(p, name, "no git repository");
    }
}

/* Counts the values below `at` by their state: an object with a state is one, any other is a group of them. */
static void count_states(const json_t *at, int known[4], int depth)
{
    const struct rp_leaf is = rp_leaf(at);
    const char *name;
    json_t *child;
    if (*is.state)
        known[rp_state_named(is.state)]++;
    else if (json_is_object(at) && depth <= 8)
        json_object_foreach((json_t *)at, name, child) /* jansson iterates over non-const objects only */
            count_states(child, known, depth + 1);
}

/* With a selection of probes, those without values: else `--probe rdma` might print nothing. */
static void show_without_values(struct summary_page *p)
{
    static const char *const all[] = {
#define PROBE(name) #name,
#include "capture/probes.def"
#undef PROBE
    };
    const char *name;
    json_t *one;
    RP_BUF names = {0};
    if (json_object_size(p->probes) > sizeof all / sizeof *all / 2) /* not a selection */
        return;
    json_object_foreach((json_t *)p->probes, name, one) {
        int known[4] = {0};
        count_states(one, known, 0);
        if (!known[0])
            rp_buf_printf(&names, "%s%s", names.size ? ", " : "", name);
    }
    put_text(p, "no values of", &names);
}

static void show_counts(struct summary_page *p)
{
    int known[4] = {0}, unseen;
    const char *tree;
    count_states(p->probes, known, 0);
    p->section = "document";
    RP_FREE char *text =
        rp_asprintf("%d known, %d absent, %d denied, %d in error", known[0], known[1], known[2], known[3]);
    put_fact(p, "values", text);
    show_without_values(p);
    for (int i = 0; (tree = rp_capture_unseen(p->probes, i, &unseen)); i++)
        if (unseen) {
            RP_FREE char *words = rp_asprintf("%s is not mounted: %d values are unknown", tree, unseen);
            put_fact(p, "unknown", words);
        }
}

void rp_capture_summary(struct rp_buf *out, const json_t *env)
{
    struct summary_page p = {.out = out, .probes = rp_json_at(env, "probes")};
    show_warnings(&p, env);
    show_host(&p);
    show_container(&p);
    show_cpu(&p);
    show_memory(&p);
    show_gpus(&p);
    show_network(&p);
    show_storage(&p);
    show_software(&p);
    show_sources(&p);
    show_counts(&p);
    rp_topo_matrix_text(out, env);
}
