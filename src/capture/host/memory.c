/* Memory: sizes, huge pages, NUMA nodes. /proc/meminfo counts in KiB; values here are bytes. */
#include "base/json.h"
#include "capture/host/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "16384 kB" or "0" -> a number times the unit; -1 when it is neither */
static int64_t parse_amount(const char *text)
{
    char *end;
    int64_t n = strtoll(text, &end, 10);
    if (end == text || n < 0 || n > INT64_MAX / 1024 || *text < '0' || *text > '9')
        return -1;
    return strcmp(end, " kB") == 0 ? n * 1024 : *end ? -1 : n;
}

static void put_amount(json_t *obj, const struct rp_text *t, const char *name, const char *key, const char *unit)
{
    RP_FREE char *v = rp_text_field(t, key, ':');
    int64_t n = v ? parse_amount(v) : -1;
    if (!v)
        rp_put_state(obj, name, t);
    else if (n < 0)
        rp_put(obj, name, RP_STATE_ERROR, NULL, t->path, unit, "not a number of kB");
    else
        rp_put_int(obj, name, n, t->path, unit);
}

static void put_sizes(struct rp_probe *p)
{
    static const char *const rows[][3] = {
        {"total", "MemTotal", "B"},       {"available", "MemAvailable", "B"}, {"swap_total", "SwapTotal", "B"},
        {"swap_free", "SwapFree", "B"},   {"free", "MemFree", "B"},           {"cached", "Cached", "B"},
        {"dirty", "Dirty", "B"},          {"shared", "Shmem", "B"},           {"locked", "Mlocked", "B"},
        {"anonymous_huge_pages", "AnonHugePages", "B"}, {"huge_pages", "HugePages_Total", "pages"},
        {"huge_pages_free", "HugePages_Free", "pages"}, {"huge_page_size", "Hugepagesize", "B"}};
    RP_TEXT t;
    rp_text_read(&t, p, "/proc/meminfo");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        put_amount(p->out, &t, rows[i][0], rows[i][1], rows[i][2]);
}

/* "Node 0 MemTotal:  16384 kB" */
static void node_sizes(json_t *obj, const struct rp_probe *p, const char *path, int node)
{
    static const char *const keys[][3] = {
        {"total", "MemTotal", "B"}, {"free", "MemFree", "B"}, {"huge_pages_free", "HugePages_Free", "pages"}};
    RP_TEXT t;
    char key[40];
    rp_text_read(&t, p, path);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put_amount(obj, &t, keys[i][0], RP_FORMAT(key, "Node %d %s", node, keys[i][1]), keys[i][2]);
}

/* Every size of huge pages that the processor has, in directories named "hugepages-2048kB". */
static void put_pool(const struct rp_probe *p, json_t *group, const char *dir, const char *name)
{
    static const char *const files[][2] = {
        {"pages", "nr_hugepages"}, {"free", "free_hugepages"}, {"surplus_max", "nr_overcommit_hugepages"}};
    char path[RP_PATH];
    json_t *one = json_object();
    for (size_t k = 0; k < sizeof files / sizeof *files; k++)
        rp_put_number(p, one, files[k][0], RP_FORMAT(path, "%s/%s/%s", dir, name, files[k][1]), 1, "pages");
    json_object_set_new(group, name + strlen("hugepages-"), one);
}

static json_t *ask_page_size(const struct rp_probe *p, const char *arg)
{
    (void)p, (void)arg;
    return json_integer(sysconf(_SC_PAGESIZE));
}

/* How the kernel reclaims, merges and writes back. */
static void put_settings(struct rp_probe *p)
{
    static const struct {
        const char *name, *path, *unit;
        int scale;
    } numbers[] = {{"overcommit", "/proc/sys/vm/overcommit_memory", NULL, 1},
                   {"swappiness", "/proc/sys/vm/swappiness", NULL, 1},
                   {"zone_reclaim", "/proc/sys/vm/zone_reclaim_mode", NULL, 1},
                   {"dirty_ratio", "/proc/sys/vm/dirty_ratio", "%", 1},
                   {"dirty_background_ratio", "/proc/sys/vm/dirty_background_ratio", "%", 1},
                   {"compaction_proactiveness", "/proc/sys/vm/compaction_proactiveness", NULL, 1},
                   {"reserve", "/proc/sys/vm/min_free_kbytes", "B", 1024},
                   {"maps_max", "/proc/sys/vm/max_map_count", NULL, 1},
                   {"same_page_merging", "/sys/kernel/mm/ksm/run", NULL, 1},
                   {"khugepaged_defrag", "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", NULL, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        rp_put_number(p, p->out, numbers[i].name, numbers[i].path, numbers[i].scale, numbers[i].unit);
    rp_put_line(p, p->out, "zswap", "/sys/module/zswap/parameters/enabled");
    RP_JSON *size = rp_probe_query(p, "page_size", NULL, ask_page_size);
    if (json_is_integer(size))
        rp_put_int(p->out, "page_size", json_integer_value(size), "sysconf(3)", "B");
    else
        rp_put_absent(p->out, "page_size", "sysconf(3)");
}

static void put_nodes(struct rp_probe *p)
{
    int node[1024];
    RP_TEXT online;
    rp_text_read(&online, p, "/sys/devices/system/node/online");
    rp_put_cpus(p, p->out, "numa_nodes", "/sys/devices/system/node/online");
    rp_put_line(p, p->out, "numa_balancing", "/proc/sys/kernel/numa_balancing");
    int n = online.state == RP_STATE_OK && online.bytes.size < RP_LINE_MAX
                ? rp_parse_cpus(online.bytes.data, node, 1024)
                : -1;
    if (n < 0) {
        rp_put_cpus(p, p->out, "nodes", online.path); /* why there are none */
        return;
    }
    json_t *all = json_object();
    for (int i = 0; i < n; i++) {
        char path[80], name[24];
        json_t *one = json_object();
        rp_put_cpus(p, one, "cpus", RP_FORMAT(path, "/sys/devices/system/node/node%d/cpulist", node[i]));
        rp_put_line(p, one, "distance", RP_FORMAT(path, "/sys/devices/system/node/node%d/distance", node[i]));
        node_sizes(one, p, RP_FORMAT(path, "/sys/devices/system/node/node%d/meminfo", node[i]), node[i]);
        json_object_set_new(all, RP_FORMAT(name, "node%d", node[i]), one);
    }
    json_object_set_new(p->out, "nodes", all);
}

void rp_probe_memory(struct rp_probe *p)
{
    put_sizes(p);
    rp_put_selected(p, p->out, "transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled");
    rp_put_selected(p, p->out, "transparent_huge_pages_defrag", "/sys/kernel/mm/transparent_hugepage/defrag");
    rp_put_selected(p, p->out, "transparent_huge_pages_shared", "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    rp_put_each(p, p->out, "huge_page_pools", "/sys/kernel/mm/hugepages", "hugepages-", 16, put_pool);
    put_settings(p);
    put_nodes(p);
}
