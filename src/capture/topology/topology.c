/* The shape of the machine: hwloc's document, a member of the bundle; PCI devices with their nodes and links (pci.c);
 * how far GPUs and NICs are from each other (topo_matrix.c). Processors, caches and NUMA nodes are values of the probes
 * cpu and memory.
 *
 * hwloc works in a child process: its Linux backend alone, with an environment of our own, so that no HWLOC_* variable,
 * plugin or binding of threads takes part, and a broken /sys or record ends with the child (of 700 damaged XML files, 4
 * crashed hwloc and 6 kept it busy for seconds). For a recorded machine it reads the XML that belongs to the record. */
#include "base/json.h"
#include "base/text.h"
#include "capture/child.h"
#include "capture/privacy/interface_names.h"
#include "capture/topology/pci.h"
#include "capture/topology/topo_matrix.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 2000, MAX_ANSWER = 24 << 20 };

static const char recorded_xml[] = "/.repro/hwloc.xml", cpus[] = "/sys/devices/system/cpu";

struct topology_question {
    const struct rp_text *xml; /* NULL: this machine */
    const struct rp_probe *probe;
    const char *source;
};

/* ---- in the child ---- */

/* Serial numbers, host name, addresses and GUIDs, and whatever a later hwloc may add, are left out: these stay. */
static int is_harmless(const char *info)
{
    static const char *const names[] = {"Architecture", "Backend", "CPUFamilyNumber", "CPUModel", "CPUModelNumber",
                                        "CPUStepping", "CPUVendor", "CoreType", "DMIBIOSDate", "DMIBIOSVendor",
                                        "DMIBIOSVersion", "DMIBoardName", "DMIBoardVendor", "DMIBoardVersion",
                                        "DMIChassisType", "DMIChassisVendor", "DMIChassisVersion", "DMIProductName",
                                        "DMIProductVersion", "DMISysVendor", "FrequencyBaseMHz", "FrequencyMaxMHz",
                                        "Inclusive", "MemoryMode", "Model", "OSName", "OSRelease", "PCISlot",
                                        "Port1State", "Port2State", "Revision", "SectorSize", "Size", "Type", "Vendor",
                                        "hwlocVersion"};
    return RP_IS_IN(names, info, strlen(info));
}

static void strip_identities(const struct rp_probe *p, hwloc_obj_t o)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < o->infos_count; i++)
        if (is_harmless(o->infos[i].name))
            o->infos[kept++] = o->infos[i]; /* the others leak: this process ends soon */
    o->infos_count = kept;
    int is_rdma = o->type == HWLOC_OBJ_OS_DEVICE && o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    int is_interface = o->type == HWLOC_OBJ_OS_DEVICE && o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
    if (o->name && (is_rdma || is_interface)) {
        char shown[RP_INTERFACE];
        (is_rdma ? rp_rdma_show : rp_interface_show)(p, o->name, shown);
        o->name = rp_strdup(shown); /* the old one leaks likewise */
    }
    const hwloc_obj_t children[] = {o->first_child, o->memory_first_child, o->io_first_child, o->misc_first_child};
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++)
        for (hwloc_obj_t c = children[i]; c; c = c->next_sibling)
            strip_identities(p, c);
}

static int64_t count_objects(hwloc_topology_t t)
{
    int64_t all = 0;
    for (int type = HWLOC_OBJ_TYPE_MIN; type < HWLOC_OBJ_TYPE_MAX; type++) {
        int n = hwloc_get_nbobjs_by_type(t, (hwloc_obj_type_t)type);
        all += n > 0 ? n : 0; /* -1: groups of several levels */
    }
    return all;
}

/* What becomes the probe's object, nothing in it if hwloc fails; hwloc's own document as the rest. */
static json_t *discover_topology(const void *arg, struct rp_buf *rest)
{
    const struct topology_question *q = arg;
    hwloc_topology_t t;
    json_t *values = json_object();
    char *xml = NULL;
    int size = 0;
    clearenv();
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    setenv("HWLOC_COMPONENTS", "linux,stop", 1);
    setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
    if (hwloc_topology_init(&t) < 0 ||
        hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING) <
            0 ||
        hwloc_topology_set_icache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_ALL) < 0 ||
        hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0 ||
        (q->xml && hwloc_topology_set_xmlbuffer(t, q->xml->bytes.data, (int)q->xml->bytes.size + 1) < 0) ||
        hwloc_topology_load(t) < 0)
        return values;
    if (!q->probe->opts->identify)
        strip_identities(q->probe, hwloc_get_root_obj(t));
    if (hwloc_topology_export_xmlbuffer(t, &xml, &size, 0) < 0)
        return values;
    rp_buf_puts(rest, xml);
    rp_put_int(values, "objects", count_objects(t), q->source, NULL);
    return values;
}

/* ---- in this process ---- */

static void put_none(json_t *out, enum rp_state state, const char *source, const char *detail)
{
    rp_put(out, "objects", state, NULL, source, NULL, detail);
}

static void put_document(struct rp_probe *p)
{
    RP_TEXT recorded = {0};
    /* also for a record, which holds the answer of hwloc */
    struct topology_question q = {.probe = p, .source = "hwloc"};
    const char *why;
    if (!rp_probe_exists(p, cpus) && (p->live || !rp_probe_exists(p, recorded_xml))) {
        put_none(p->out, RP_STATE_ABSENT, cpus, NULL);
        return;
    }
    if (!p->live) {
        rp_text_read(&recorded, p, recorded_xml);
        q.xml = &recorded;
        if (recorded.state != RP_STATE_OK) {
            put_none(p->out, recorded.state, recorded_xml, recorded.state == RP_STATE_ERROR ? recorded.detail : NULL);
            return;
        }
    }
    RP_BUF xml = {0};
    RP_JSON *values = rp_in_child(discover_topology, &q, PATIENCE_MS, MAX_ANSWER, &xml, &why);
    if (!json_object_size(values)) {
        put_none(p->out, RP_STATE_ERROR, q.source, values ? "hwloc cannot make sense of it" : why);
        return;
    }
    json_object_update(p->out, values);
    rp_record_file(p, recorded_xml, rp_buf_text(&xml), xml.size);
    if (p->opts->hwloc_xml)
        rp_buf_add(p->opts->hwloc_xml, rp_buf_text(&xml), xml.size);
}

void rp_probe_topology(struct rp_probe *p)
{
    put_document(p);
    rp_put_pci(p, p->out, "devices");
    rp_put_topo_matrix(p, p->out, "matrix", json_object_get(p->all, "gpu"));
}
