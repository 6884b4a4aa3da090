/* Network interfaces: what they are, how fast, on which device; and the limits of sockets. No packet is sent. */
#include "base/json.h"
#include "capture/host/device.h"
#include "capture/privacy/interface_names.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define NET "/sys/class/net"

/* A node of a cluster may have hundreds of virtual ones. */
enum { MAX_INTERFACES = 2048, MAX_PHYSICAL = 64, MAX_VIRTUAL = 16 };

/* Only the driver reports the firmware: {"driver", "version", "firmware"}. */
static json_t *ask_driver(const struct rp_probe *p, const char *name)
{
    (void)p;
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *)&info};
    /* any kind of socket works; this one cannot send packets */
    RP_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (strlen(name) >= sizeof request.ifr_name || fd < 0)
        return NULL;
    memcpy(request.ifr_name, name, strlen(name) + 1);
    if (ioctl(fd, SIOCETHTOOL, &request) < 0)
        return NULL;
    return json_pack("{s:s#, s:s#, s:s#}", "driver", info.driver, (int)strnlen(info.driver, sizeof info.driver),
                     "version", info.version, (int)strnlen(info.version, sizeof info.version), "firmware",
                     info.fw_version, (int)strnlen(info.fw_version, sizeof info.fw_version));
}

static void put_firmware(const struct rp_probe *p, json_t *obj, const char *shown)
{
    static const char source[] = "ioctl(2): ETHTOOL_GDRVINFO";
    RP_JSON *json = rp_probe_query_as(p, "ethtool", rp_interface_real(shown), shown, ask_driver);
    RP_READ(driver_answer, answer, json);
    const char *firmware = rp_text_or_empty(answer.firmware);
    rp_put_str(obj, "firmware", *firmware && strcmp(firmware, "N/A") != 0 ? firmware : NULL, source);
}

/* The rest of the file names the interface. */
static void keep_type(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    (void)p;
    if (strncmp(line, "DEVTYPE=", 8) == 0)
        rp_buf_printf(out, "%s\n", line);
}

/* DEVTYPE names bonds, bridges and radios; the rest goes by the hardware type of if_arp.h. */
static void put_kind(const struct rp_probe *p, json_t *obj, const char *dir)
{
    char path[RP_PATH];
    int64_t type;
    RP_TEXT uevent;
    rp_text_read_lines(&uevent, p, rp_join(path, dir, "uevent"), keep_type);
    RP_FREE char *name = rp_text_field(&uevent, "DEVTYPE", '=');
    if (name) {
        rp_put_str(obj, "kind", name, path);
        return;
    }
    rp_join(path, dir, "type");
    RP_TEXT number;
    rp_text_read(&number, p, path);
    if (number.state != RP_STATE_OK || rp_parse_count(number.bytes.data, &type) < 0)
        rp_put_invalid(obj, "kind", &number, NULL, "not a number");
    else if (type == 1 || type == 32 || type == 772)
        rp_put_str(obj, "kind", type == 1 ? "ethernet" : type == 32 ? "infiniband" : "loopback", path);
    else {
        RP_FREE char *text = rp_asprintf("type %lld", (long long)type);
        rp_put_str(obj, "kind", text, path);
    }
}

static void count_queues(const struct rp_probe *p, json_t *obj, const char *dir)
{
    char path[RP_PATH];
    RP_DIRLIST queues = {0};
    int64_t n[2] = {0, 0};
    rp_dirlist_read(&queues, p, rp_join(path, dir, "queues"), 8192);
    for (int i = 0; i < queues.n; i++)
        n[queues.name[i][0] == 't'] += strncmp(queues.name[i], "rx-", 3) == 0 || strncmp(queues.name[i], "tx-", 3) == 0;
    for (int i = 0; i < 2; i++)
        if (queues.state == RP_STATE_OK)
            rp_put_int(obj, i ? "queues_tx" : "queues_rx", n[i], path, NULL);
        else
            rp_put_unlisted(obj, i ? "queues_tx" : "queues_rx", &queues, path);
}

static json_t *interface_json(const struct rp_probe *p, const char *shown, int physical)
{
    static const char *const numbers[][3] = {{"mtu", "mtu", "B"},
                                             {"rx_errors", "statistics/rx_errors", "packets"},
                                             {"tx_errors", "statistics/tx_errors", "packets"},
                                             {"rx_dropped", "statistics/rx_dropped", "packets"}};
    char dir[RP_PATH], path[RP_PATH];
    json_t *obj = json_object();
    put_kind(p, obj, RP_FORMAT(dir, NET "/%s", rp_interface_real(shown)));
    rp_put_line(p, obj, "operational", rp_join(path, dir, "operstate"));
    rp_put_optional(p, obj, "speed", rp_join(path, dir, "speed"), 1000000, "bit/s");
    for (size_t i = 0; i < (physical ? 4 : 1); i++)
        rp_put_optional(p, obj, numbers[i][0], rp_join(path, dir, numbers[i][1]), 1, numbers[i][2]);
    if (rp_probe_exists(p, rp_join(path, dir, "bonding/slaves")))
        rp_put_interfaces_line(p, obj, "bond_of", path);
    if (rp_probe_exists(p, rp_join(path, dir, "bonding/mode")))
        rp_put_line(p, obj, "bond_mode", path);
    if (!physical)
        return obj;
    rp_put_hidden_line(p, obj, "address", rp_join(path, dir, "address"));
    count_queues(p, obj, dir);
    put_firmware(p, obj, shown);
    rp_put_device(p, obj, rp_join(path, dir, "device"));
    if (rp_probe_exists(p, rp_join(path, dir, "device/physfn")))
        rp_put_str(obj, "function", "virtual", path); /* a slice of a card that others use too */
    return obj;
}

static void put_interfaces(struct rp_probe *p)
{
    RP_DIRLIST d = {0};
    int shown[2] = {0, 0}, left_out = 0;
    rp_interfaces_read(&d, p, NET, MAX_INTERFACES);
    if (d.state != RP_STATE_OK) {
        rp_put_unlisted(p->out, "interfaces", &d, NET);
        return;
    }
    json_t *all = json_object();
    for (int i = 0; i < d.n; i++) {
        char path[RP_PATH];
        int physical = rp_probe_exists(p, RP_FORMAT(path, NET "/%s/device", rp_interface_real(d.name[i])));
        if (shown[physical] == (physical ? MAX_PHYSICAL : MAX_VIRTUAL)) {
            left_out++;
            continue;
        }
        shown[physical]++;
        json_object_set_new(all, d.name[i], interface_json(p, d.name[i], physical));
    }
    json_object_set_new(p->out, "interfaces", all);
    rp_put_int(p->out, "physical", shown[1], NET, NULL);
    rp_put_int(p->out, "virtual", shown[0], NET, NULL);
    rp_put_int(p->out, "left_out", left_out, NET, NULL);
}

/* Only the names of interfaces with a route to everywhere are kept of the table of routes; the rest are addresses.
 * Lines are "Iface Destination Gateway ...". */
static void keep_default_route(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    size_t n = strcspn(line, " \t"), gap = strspn(line + n, " \t");
    if (strncmp(line + n + gap, "00000000", 8) != 0)
        return;
    char shown[RP_INTERFACE];
    line[n] = 0;
    rp_interface_show(p, line, shown);
    rp_buf_printf(out, "%s\t00000000\n", shown);
}

static void put_default_interface(struct rp_probe *p)
{
    RP_TEXT t;
    rp_text_read_lines(&t, p, "/proc/self/net/route", keep_default_route);
    size_t n = t.state == RP_STATE_OK ? strcspn(t.bytes.data, "\t") : 0;
    RP_FREE char *name = n ? rp_asprintf("%.*s", (int)n, t.bytes.data) : NULL;
    rp_put_found(p->out, "default_interface", name, &t);
}

/* "4096 131072 6291456", with tabs: least, first and largest size */
static void put_words(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_TEXT t;
    rp_text_read(&t, p, path);
    if (t.state != RP_STATE_OK) {
        rp_put_state(obj, name, &t);
        return;
    }
    for (char *tab = t.bytes.data; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    RP_FREE char *line = rp_trimmed(t.bytes.data, t.bytes.size);
    rp_put_str(obj, name, line, path);
}

static void put_sockets(struct rp_probe *p)
{
    static const char *const files[][2] = {
        {"receive_buffer_max", "core/rmem_max"}, {"send_buffer_max", "core/wmem_max"},
        {"receive_buffer", "core/rmem_default"}, {"send_buffer", "core/wmem_default"},
        {"backlog", "core/netdev_max_backlog"},  {"queueing", "core/default_qdisc"},
        {"busy_poll", "core/busy_poll"},         {"tcp_receive_buffer", "ipv4/tcp_rmem"},
        {"tcp_send_buffer", "ipv4/tcp_wmem"},    {"tcp_congestion_control", "ipv4/tcp_congestion_control"}};
    json_t *group = json_object();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[RP_PATH];
        snprintf(path, sizeof path, "/proc/sys/net/%s", files[i][1]);
        if (strstr(files[i][1], "mem_"))
            rp_put_number(p, group, files[i][0], path, 1, "B");
        else
            put_words(p, group, files[i][0], path);
    }
    json_object_set_new(p->out, "sockets", group);
}

void rp_probe_network(struct rp_probe *p)
{
    put_interfaces(p);
    put_default_interface(p);
    put_sockets(p);
}
