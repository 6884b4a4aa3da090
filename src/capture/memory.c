/* Memory: sizes, huge pages, NUMA nodes. /proc/meminfo counts in KiB; values here are bytes. */
#include "capture/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "16384 kB" or "0" -> a number times the unit; -1 when it is neither */
static int64_t amount(const char *text)
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
    int64_t n = v ? amount(v) : -1;
    if (!v)
        rp_put_state(obj, name, t);
    else if (n < 0)
        rp_put(obj, name, RP_STATE_ERROR, NULL, t->path, unit, "not a number of kB");
    else
        rp_put_int(obj, name, n, t->path, unit);
}

static void sizes(struct rp_probe *p)
{
    RP_TEXT t;
    rp_text_read(&t, p, "/proc/meminfo");
    put_amount(p->out, &t, "total", "MemTotal", "B");
    put_amount(p->out, &t, "available", "MemAvailable", "B");
    put_amount(p->out, &t, "swap_total", "SwapTotal", "B");
    put_amount(p->out, &t, "swap_free", "SwapFree", "B");
    put_amount(p->out, &t, "huge_pages", "HugePages_Total", "pages");
    put_amount(p->out, &t, "huge_pages_free", "HugePages_Free", "pages");
    put_amount(p->out, &t, "huge_page_size", "Hugepagesize", "B");
}

/* "Node 0 MemTotal:  16384 kB" */
static void node_total(json_t *obj, const struct rp_probe *p, const char *path, int node)
{
    RP_TEXT t;
    char key[40];
    rp_text_read(&t, p, path);
    snprintf(key, sizeof key, "Node %d MemTotal", node);
    put_amount(obj, &t, "total", key, "B");
}

static void numa(struct rp_probe *p)
{
    int node[1024];
    RP_TEXT online;
    rp_text_read(&online, p, "/sys/devices/system/node/online");
    rp_put_cpus(p, p->out, "numa_nodes", "/sys/devices/system/node/online");
    rp_put_line(p, p->out, "numa_balancing", "/proc/sys/kernel/numa_balancing");
    int n = online.state == RP_STATE_OK && online.bytes.size < RP_LINE_MAX ? rp_parse_cpus(online.bytes.data, node, 1024) : -1;
    if (n < 0) {
        rp_put_cpus(p, p->out, "nodes", online.path); /* why there are none */
        return;
    }
    json_t *all = json_object();
    for (int i = 0; i < n; i++) {
        char path[80], name[24];
        json_t *one = json_object();
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node[i]);
        rp_put_cpus(p, one, "cpus", path);
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/distance", node[i]);
        rp_put_line(p, one, "distance", path);
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node[i]);
        node_total(one, p, path, node[i]);
        snprintf(name, sizeof name, "node%d", node[i]);
        json_object_set_new(all, name, one);
    }
    json_object_set_new(p->out, "nodes", all);
}

void rp_probe_memory(struct rp_probe *p)
{
    sizes(p);
    rp_put_selected(p, p->out, "transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled");
    rp_put_selected(p, p->out, "transparent_huge_pages_defrag", "/sys/kernel/mm/transparent_hugepage/defrag");
    rp_put_number(p, p->out, "overcommit", "/proc/sys/vm/overcommit_memory", 1, NULL);
    rp_put_number(p, p->out, "swappiness", "/proc/sys/vm/swappiness", 1, NULL);
    numa(p);
}
