/* The processor: what it is, how many of it, its caches, and which of it this process may use. */
#include "base/isa.h"
#include "base/json.h"
#include "base/sort.h"
#include "capture/container/security.h"
#include "capture/host/device.h"
#include "capture/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#define CPU "/sys/devices/system/cpu"

/* Kernels of Arm have no "model name", or that of the architecture, "ARMv8 Processor rev 1 (v8l)", but the numbers by
 * which tables have one; of every processor, since there may be two kinds. */
static void put_arm_name(struct rp_probe *p, const struct rp_text *info)
{
    RP_FREE char *model = rp_text_field(info, "model name", ':');
    char names[128] = "";
    unsigned long implementer = 0;
    for (const char *line = rp_buf_text(&info->bytes); *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *value = line + strcspn(line, ":\n");
        value += *value == ':';
        if (strncmp(line, "CPU implementer", strlen("CPU implementer")) == 0)
            implementer = strtoul(value, NULL, 16);
        else if (strncmp(line, "CPU part", strlen("CPU part")) == 0)
            rp_arm_names_add(names, implementer, strtoul(value, NULL, 16));
    }
    if (*names && (!model || strncmp(model, "ARMv", 4) == 0 || strncmp(model, "AArch64", 7) == 0))
        rp_put_str(p->out, "model_name", names, info->path);
}

/* First processor's block of /proc/cpuinfo; x86 and Arm names differ. */
static void put_model(struct rp_probe *p, const struct rp_text *info)
{
    static const char *const fields[][2] = {{"vendor", "vendor_id"},         {"model_name", "model name"},
                                            {"family", "cpu family"},        {"model", "model"},
                                            {"stepping", "stepping"},        {"microcode", "microcode"},
                                            {"implementer", "CPU implementer"}, {"part", "CPU part"},
                                            {"variant", "CPU variant"},      {"revision", "CPU revision"},
                                            {"address_sizes", "address sizes"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        rp_put_field(p->out, fields[i][0], info, fields[i][1], ':');
    put_arm_name(p, info);
}

static void put_flags(struct rp_probe *p, const struct rp_text *info)
{
    char *v = rp_text_field(info, "flags", ':');
    if (!v)
        v = rp_text_field(info, "Features", ':');
    if (!v) {
        rp_put_state(p->out, "flags", info);
        return;
    }
    json_t *list = json_array();
    char *save = NULL;
    for (char *w = strtok_r(v, " \t", &save); w; w = strtok_r(NULL, " \t", &save))
        if (strspn(w, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(w) && strlen(w) < 40 &&
            json_array_size(list) < 1024)
            json_array_append_new(list, json_string(w));
    free(v);
    rp_put(p->out, "flags", RP_STATE_OK, list, info->path, NULL, NULL);
}

/* "cpu MHz" of every processor: lowest, median and highest at this moment. */
static void put_clocks(struct rp_probe *p, struct rp_text *info)
{
    double mhz[RP_MAX_CPUS] = {0};
    int n = 0;
    static const char *const names[] = {"clock_min", "clock_median", "clock_max"};
    char *at = NULL;
    for (char *line; n < RP_MAX_CPUS && (line = rp_text_line(info, &at));)
        if (strncmp(line, "cpu MHz", 7) == 0) {
            const char *colon = strchr(line, ':');
            double f = colon ? strtod(colon + 1, NULL) : 0;
            if (f > 0 && f < 1e6)
                mhz[n++] = f;
        }
    rp_sort_double(mhz, (size_t)n);
    for (int i = 0; i < 3; i++)
        if (n)
            rp_put_real(p->out, names[i], mhz[i == 0 ? 0 : i == 1 ? n / 2 : n - 1], info->path, "MHz");
        else
            rp_put_state(p->out, names[i], info);
}

/* ---- topology ---- */

static int count_distinct(int64_t *v, int n)
{
    int distinct = 0;
    rp_sort_int64(v, (size_t)n);
    for (int i = 0; i < n; i++)
        distinct += i == 0 || v[i] != v[i - 1];
    return distinct;
}

/* -1: no such file, or the kernel's own -1 for unknown; -2: no number in it */
static int64_t read_id(const struct rp_probe *p, int cpu, const char *file)
{
    char path[100];
    int64_t id;
    RP_TEXT t;
    rp_text_read(&t, p, RP_FORMAT(path, CPU "/cpu%d/topology/%s", cpu, file));
    if (t.state != RP_STATE_OK)
        return -1;
    if (strcmp(t.bytes.data, "-1\n") == 0)
        return -1;
    return rp_parse_count(t.bytes.data, &id) == 0 && id < 1 << 20 ? id : -2;
}

/* Processors that are the first of their threads; 0: not known of all of them. */
static int count_first_threads(const struct rp_probe *p, const int *cpu, int n)
{
    static const char *const names[] = {"thread_siblings_list", "core_cpus_list"};
    int *list = rp_alloc(RP_MAX_CPUS * sizeof *list), cores = 0, known = 0;
    for (int i = 0; i < n && known == i; i++) {
        int lowest = RP_MAX_CPUS, own = 0;
        for (int k = 0; k < 2 && !own; k++) {
            char path[100];
            RP_TEXT t;
            rp_text_read(&t, p, RP_FORMAT(path, CPU "/cpu%d/topology/%s", cpu[i], names[k]));
            const int threads = t.state == RP_STATE_OK ? rp_parse_cpus(t.bytes.data, list, RP_MAX_CPUS) : 0;
            for (int j = 0; j < threads; j++) {
                lowest = list[j] < lowest ? list[j] : lowest;
                own |= list[j] == cpu[i];
            }
        }
        known += own;
        cores += own && lowest == cpu[i];
    }
    free(list);
    return known == n ? cores : 0;
}

/* Sockets: distinct package ids; cores: distinct (package, core) of the processors that are online, unless the kernel's
 * lists of threads tell otherwise: ids begin anew in every cluster of Arm processors, and may be -1. */
static void put_topology(struct rp_probe *p, const struct rp_text *online)
{
    static const char source[] = CPU "/cpu*/topology/{physical_package_id,core_id}",
                      threads[] = CPU "/cpu*/topology/thread_siblings_list";
    int *cpu = rp_alloc(RP_MAX_CPUS * sizeof *cpu);
    int n = online->state == RP_STATE_OK ? rp_parse_cpus(online->bytes.data, cpu, RP_MAX_CPUS) : -1, known = 0,
        garbage = 0;
    int64_t *package = rp_alloc((size_t)(n > 0 ? n : 1) * sizeof *package),
            *core = rp_alloc((size_t)(n > 0 ? n : 1) * sizeof *core);
    for (int i = 0; i < n; i++) {
        int64_t pkg = read_id(p, cpu[i], "physical_package_id"), id = read_id(p, cpu[i], "core_id");
        garbage |= pkg == -2 || id == -2;
        if (pkg < 0 || id < 0)
            break;
        package[known] = pkg;
        core[known++] = pkg << 20 | id;
    }
    const int first = count_first_threads(p, cpu, n), by_id = n > 0 && known == n;
    for (int i = 0; i < 2; i++)
        if (i && first && !(by_id && count_distinct(core, n) == first))
            rp_put_int(p->out, "cores", first, threads, NULL);
        else if (by_id)
            rp_put_int(p->out, i ? "cores" : "sockets", count_distinct(i ? core : package, n), source, NULL);
        else
            rp_put(p->out, i ? "cores" : "sockets", garbage ? RP_STATE_ERROR : RP_STATE_ABSENT, NULL, source, NULL,
                   garbage ? "not a number" : NULL);
    if (n > 0)
        rp_put_int(p->out, "threads", n, online->path, NULL);
    else
        rp_put_invalid(p->out, "threads", online, NULL, "not a list of processors");
    free(cpu);
    free(package);
    free(core);
}

/* ---- caches of the first processor ---- */

/* "48K", "2048K", "32M" -> bytes */
static int64_t cache_bytes(const char *s)
{
    char *end;
    long long n = strtoll(s, &end, 10);
    if (end == s || n < 0 || n > 1 << 30)
        return -1;
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return end[shift != 0] == 0 || end[shift != 0] == '\n' ? n << shift : -1;
}

static void put_cache(struct rp_probe *p, json_t *all, const char *index)
{
    char path[4][120], name[16], letter;
    static const char *const files[] = {"level", "type", "size", "shared_cpu_list"};
    struct rp_text t[3];
    for (int i = 0; i < 4; i++)
        snprintf(path[i], sizeof path[i], CPU "/cpu0/cache/%s/%s", index, files[i]);
    for (int i = 0; i < 3; i++)
        rp_text_read(&t[i], p, path[i]);
    int64_t level;
    if (t[0].state == RP_STATE_OK && t[1].state == RP_STATE_OK && rp_parse_count(t[0].bytes.data, &level) == 0 &&
        level < 10) {
        letter = t[1].bytes.data[0];
        snprintf(name, sizeof name, "l%d%s", (int)level, letter == 'D' ? "d" : letter == 'I' ? "i" : "");
        json_t *one = json_object();
        int64_t bytes = t[2].state == RP_STATE_OK ? cache_bytes(t[2].bytes.data) : -1;
        if (bytes >= 0)
            rp_put_int(one, "size", bytes, path[2], "B");
        else
            rp_put_invalid(one, "size", &t[2], "B", "not a size");
        rp_put_cpus(p, one, "shared_by", path[3]);
        json_object_set_new(all, name, one);
    }
    for (int i = 0; i < 3; i++)
        rp_text_fini(&t[i]);
}

static void put_caches(struct rp_probe *p)
{
    static const char dir[] = CPU "/cpu0/cache";
    RP_DIRLIST d = {0};
    rp_dirlist_read(&d, p, dir, 32);
    if (d.state != RP_STATE_OK) {
        rp_put(p->out, "caches", d.state, NULL, dir, NULL, d.state == RP_STATE_ERROR ? "cannot be listed" : NULL);
        return;
    }
    json_t *all = json_object();
    for (int i = 0; i < d.n; i++)
        if (strncmp(d.name[i], "index", 5) == 0 && strlen(d.name[i]) < 10)
            put_cache(p, all, d.name[i]);
    json_object_set_new(p->out, "caches", all);
}

/* ---- what this process may use ---- */

static void put_allowed(struct rp_probe *p)
{
    static const char *const fields[][2] = {{"allowed", "Cpus_allowed_list"}, {"allowed_nodes", "Mems_allowed_list"}};
    RP_TEXT t;
    rp_status_read(&t, p);
    for (int i = 0; i < 2; i++) {
        RP_FREE char *v = rp_text_field(&t, fields[i][1], ':');
        if (v && rp_parse_cpus(v, NULL, RP_MAX_CPUS) >= 0)
            rp_put_str(p->out, fields[i][0], v, t.path);
        else if (v)
            rp_put(p->out, fields[i][0], RP_STATE_ERROR, NULL, t.path, NULL, "not a list of processors");
        else
            rp_put_state(p->out, fields[i][0], &t);
    }
}

/* "(null)" is none */
static void put_tickless(struct rp_probe *p)
{
    static const char path[] = CPU "/nohz_full";
    RP_TEXT t;
    rp_text_read(&t, p, path);
    if (t.state == RP_STATE_OK && strstr(t.bytes.data, "(null)"))
        rp_put_str(p->out, "tickless", "", path);
    else
        rp_put_cpus(p, p->out, "tickless", path);
}

/* ---- virtual machine ---- */

/* The signature that a hypervisor gives its guests at leaf 0x40000000, "KVMKVMKVM". */
static json_t *ask_hypervisor(const struct rp_probe *p, const char *arg)
{
    (void)p, (void)arg;
#ifdef __x86_64__
    unsigned a, b, c, d;
    char name[13] = {0};
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31))
        return NULL;
    __cpuid(0x40000000, a, b, c, d);
    memcpy(name, &b, 4);
    memcpy(name + 4, &c, 4);
    memcpy(name + 8, &d, 4);
    return json_string(name); /* NULL if it is not text */
#else
    return NULL;
#endif
}

/* The signature, the name of Xen and its like, or only the flag that there is one. Without any of them: bare metal, or
 * one that hides. */
static void put_hypervisor(struct rp_probe *p)
{
    RP_JSON *answer = rp_probe_query(p, "hypervisor", NULL, ask_hypervisor);
    const char *name = json_string_value(answer);
    if (name && *name)
        rp_put_str(p->out, "hypervisor", name, "cpuid 0x40000000");
    else if (rp_probe_exists(p, "/sys/hypervisor/type"))
        rp_put_line(p, p->out, "hypervisor", "/sys/hypervisor/type");
    else
        rp_put_str(p->out, "hypervisor", rp_known_has(p->out, "flags", "hypervisor") ? "present" : NULL,
                   "/proc/cpuinfo");
}

void rp_probe_cpu(struct rp_probe *p)
{
    RP_TEXT info, online;
    rp_text_read(&info, p, "/proc/cpuinfo");
    rp_text_read(&online, p, CPU "/online");
    put_model(p, &info);
    put_flags(p, &info);
    put_topology(p, &online);
    rp_put_cpus(p, p->out, "online", CPU "/online");
    rp_put_cpus(p, p->out, "isolated", CPU "/isolated");
    put_tickless(p);
    rp_put_cpus(p, p->out, "offline", CPU "/offline");
    rp_put_cpus(p, p->out, "performance_cores", "/sys/devices/cpu_core/cpus"); /* of processors that have two kinds */
    rp_put_cpus(p, p->out, "efficiency_cores", "/sys/devices/cpu_atom/cpus");
    rp_put_cpus(p, p->out, "first_core", CPU "/cpu0/topology/thread_siblings_list");
    put_allowed(p);
    put_hypervisor(p);
    put_clocks(p, &info); /* cuts the text into lines: last */
    put_caches(p);
}
