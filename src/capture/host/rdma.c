/* RDMA devices, InfiniBand and RoCE: firmware, ports, rate and link layer, the interfaces on the same device, and
 * errors counted. */
#include "capture/host/device.h"
#include "capture/privacy/interface_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IB "/sys/class/infiniband"

enum { MAX_DEVICES = 64, MAX_PORTS = 16, MAX_INTERFACES = 256 };

/* "4: ACTIVE" -> "ACTIVE" */
static void put_word(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    json_t *one = json_object();
    rp_put_line(p, one, name, path);
    json_t *leaf = json_object_get(one, name);
    const char *text = json_string_value(rp_leaf(leaf).value), *colon = text ? strstr(text, ": ") : NULL;
    if (colon)
        rp_put_str(obj, name, colon + 2, path);
    else
        json_object_set(obj, name, leaf);
    json_decref(one);
}

/* "200 Gb/sec (4X HDR)": the rate, and the words in brackets. */
static void put_rate(const struct rp_probe *p, json_t *obj, const char *path)
{
    RP_TEXT t;
    char *end = NULL;
    rp_text_read(&t, p, path);
    double rate = t.state == RP_STATE_OK ? strtod(t.bytes.data, &end) : 0;
    if (t.state != RP_STATE_OK) {
        rp_put_state(obj, "rate", &t);
        rp_put_state(obj, "rate_lanes", &t);
        return;
    }
    const char *from = strchr(t.bytes.data, '('), *to = from ? strchr(from, ')') : NULL;
    if (t.bytes.data[0] >= '0' && t.bytes.data[0] <= '9' && strncmp(end, " Gb/sec", 7) == 0 && rate < 1e6)
        rp_put_int(obj, "rate", (int64_t)(rate * 1e9), path, "bit/s");
    else
        rp_put(obj, "rate", RP_STATE_ERROR, NULL, path, "bit/s", "not a rate in Gb/sec");
    RP_FREE char *words = to ? rp_asprintf("%.*s", (int)(to - from - 1), from + 1) : NULL;
    rp_put_str(obj, "rate_lanes", words, path);
}

static void put_port(const struct rp_probe *p, json_t *group, const char *ports, const char *name)
{
    /* counters that rise when packets are lost or sent again */
    static const char *const counters[][2] = {
        {"link_downed", "counters/link_downed"},          {"symbol_errors", "counters/symbol_error"},
        {"receive_errors", "counters/port_rcv_errors"},   {"transmit_discards", "counters/port_xmit_discards"},
        {"transmit_wait", "counters/port_xmit_wait"},     {"out_of_sequence", "hw_counters/out_of_sequence"},
        {"timeouts", "hw_counters/local_ack_timeout_err"}};
    char path[RP_PATH], dir[RP_PATH], key[80];
    json_t *obj = json_object();
    rp_join(dir, ports, name);
    put_word(p, obj, "link", rp_join(path, dir, "state"));
    put_word(p, obj, "physical_link", rp_join(path, dir, "phys_state"));
    put_rate(p, obj, rp_join(path, dir, "rate"));
    rp_put_line(p, obj, "link_layer", rp_join(path, dir, "link_layer"));
    rp_put_interfaces_line(p, obj, "interface", rp_join(path, dir, "gid_attrs/ndevs/0"));
    rp_put_line(p, obj, "gid_type", rp_join(path, dir, "gid_attrs/types/0"));
    rp_put_hidden_line(p, obj, "gid", rp_join(path, dir, "gids/0"));
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        rp_put_optional(p, obj, counters[i][0], rp_join(path, dir, counters[i][1]), 1, NULL);
    json_object_set_new(group, RP_FORMAT(key, "port%s", name), obj);
}

static void put_interfaces(const struct rp_probe *p, json_t *obj, const char *dir)
{
    RP_DIRLIST d = {0};
    rp_interfaces_read(&d, p, dir, MAX_INTERFACES);
    if (d.state != RP_STATE_OK) {
        rp_put_unlisted(obj, "interfaces", &d, dir);
        return;
    }
    json_t *list = json_array();
    for (int i = 0; i < d.n; i++)
        json_array_append_new(list, json_string(d.name[i]));
    rp_put(obj, "interfaces", RP_STATE_OK, list, dir, NULL, NULL);
}

static void put_device(const struct rp_probe *p, json_t *group, const char *shown)
{
    static const char *const lines[][2] = {{"firmware", "fw_ver"}, {"type", "hca_type"}, {"board", "board_id"}};
    char dir[RP_PATH], path[RP_PATH];
    json_t *obj = json_object();
    rp_join(dir, IB, rp_interface_real(shown));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        rp_put_line(p, obj, lines[i][0], rp_join(path, dir, lines[i][1]));
    put_word(p, obj, "node_type", rp_join(path, dir, "node_type"));
    rp_put_hidden_line(p, obj, "node_guid", rp_join(path, dir, "node_guid"));
    rp_put_hidden_line(p, obj, "system_guid", rp_join(path, dir, "sys_image_guid"));
    rp_put_device(p, obj, rp_join(path, dir, "device"));

    put_interfaces(p, obj, rp_join(path, dir, "device/net"));
    rp_put_each(p, obj, "ports", rp_join(path, dir, "ports"), "", MAX_PORTS, put_port);
    if (!rp_group(obj, "ports")) /* a device without ports has an empty group */
        json_object_set_new(obj, "ports", json_object());
    json_object_set_new(group, shown, obj);
}

static void put_devices(const struct rp_probe *p)
{
    RP_DIRLIST d = {0};
    rp_rdma_read(&d, p, IB, MAX_DEVICES);
    if (d.state != RP_STATE_OK) {
        rp_put_unlisted(p->out, "devices", &d, IB);
        return;
    }
    json_t *all = json_object();
    for (int i = 0; i < d.n; i++)
        put_device(p, all, d.name[i]);
    json_object_set_new(p->out, "devices", all);
}

/* The module that lets the devices read and write GPU memory: NVIDIA's own, or Mellanox's before it. */
static void put_gpudirect(struct rp_probe *p)
{
    static const char *const modules[] = {"/sys/module/nvidia_peermem", "/sys/module/nv_peer_mem"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (rp_probe_exists(p, modules[i])) {
            rp_put_str(p->out, "gpudirect", strrchr(modules[i], '/') + 1, modules[i]);
            return;
        }
    rp_put_absent(p->out, "gpudirect", modules[0]);
}

void rp_probe_rdma(struct rp_probe *p)
{
    put_devices(p);
    json_t *devices = json_object_get(p->out, "devices");
    if (rp_leaf(devices).kind != RP_LEAF_GROUP) /* they could not be listed */
        json_object_set(p->out, "count", devices);
    else
        rp_put_int(p->out, "count", (int64_t)json_object_size(devices), IB, NULL);
    rp_put_names(p, p->out, "nodes", "/dev/infiniband", ""); /* without them programs cannot reach the devices */
    put_gpudirect(p);
}
