#include "capture/topology/pci.h"

#include "capture/host/device.h"
#include "capture/privacy/interface_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "/sys/bus/pci/devices"

enum { NVIDIA = 0x10de };
static const struct {
    unsigned class, mask;
    int64_t vendor; /* 0: any */
    const char *kind;
} kinds[] = {
    {0x030000, 0xff0000, 0, "gpu"},  {0x120000, 0xff0000, 0, "accelerator"},   {0x020000, 0xff0000, 0, "network"},
    {0x010800, 0xffff00, 0, "nvme"}, {0x068000, 0xffff00, NVIDIA, "nvswitch"},
};

/* "0x030200" -> number; -1 when it is none */
static int64_t read_hex(const struct rp_probe *p, const char *dir, const char *file)
{
    RP_FREE char *path = rp_asprintf("%s/%s", dir, file);
    RP_TEXT t;
    char *end;
    rp_text_read(&t, p, path);
    if (t.state != RP_STATE_OK || strncmp(t.bytes.data, "0x", 2) != 0)
        return -1;
    long v = strtol(t.bytes.data, &end, 16);
    return end[strspn(end, "\n")] || v < 0 || v > 0xffffff ? -1 : v;
}

/* A row of kinds, or -1; the vendor is read only where it decides: a large server has a thousand devices. */
static int kind_of(const struct rp_probe *p, const char *dir)
{
    int64_t class = read_hex(p, dir, "class");
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
        if (class >= 0 && ((unsigned)class & kinds[i].mask) == kinds[i].class)
            return kinds[i].vendor && read_hex(p, dir, "vendor") != kinds[i].vendor ? -1 : i;
    return -1;
}

/* ---- the group ---- */

/* What the system calls it: "eth0", "mlx5_0", "nvme0" */
static void put_names(const struct rp_probe *p, json_t *out, const char *dir)
{
    static const char *const classes[] = {"net", "infiniband", "nvme"};
    RP_FREE char *source = rp_asprintf("%s/{net,infiniband,nvme}", dir);
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        RP_FREE char *path = rp_asprintf("%s/%s", dir, classes[i]);
        RP_DIRLIST d = {0};
        if (strcmp(classes[i], "net") == 0)
            rp_interfaces_read(&d, p, path, 16);
        else if (strcmp(classes[i], "infiniband") == 0)
            rp_rdma_read(&d, p, path, 16);
        else
            rp_dirlist_read(&d, p, path, 16);
        for (int k = 0; k < d.n; k++)
            if (rp_is_plain_name(d.name[k]))
                json_array_append_new(list, json_string(d.name[k]));
    }
    if (json_array_size(list))
        rp_put(out, "names", RP_STATE_OK, list, source, NULL, NULL);
    else {
        json_decref(list);
        rp_put_absent(out, "names", source);
    }
}

static void put_pci(const struct rp_probe *p, json_t *group, const char *devices, const char *address)
{
    char same[24];
    if (rp_pci_address(same, address) < 0 || strcmp(same, address) != 0)
        return;
    RP_FREE char *dir = rp_asprintf("%s/%s", devices, address), *class = rp_asprintf("%s/class", dir);
    int kind = kind_of(p, dir);
    if (kind < 0)
        return;
    json_t *one = json_object();
    rp_put_str(one, "kind", kinds[kind].kind, class);
    put_names(p, one, dir);
    rp_put_device(p, one, dir);
    json_object_set_new(group, address, one);
}

void rp_put_pci(const struct rp_probe *p, json_t *out, const char *name)
{
    rp_put_each(p, out, name, DEVICES, "", 256, put_pci);
}

/* ---- where two devices meet ---- */

int rp_pci_address(char out[24], const char *text)
{
    unsigned domain, bus, slot, function;
    int n = 0;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &n) != 4 || text[n] || slot > 31 ||
        function > 7)
        return -1;
    snprintf(out, 24, "%04x:%02x:%02x.%x", domain, bus, slot, function);
    return 0;
}

/* -1: the firmware does not say */
static int64_t read_node(const struct rp_probe *p, const char *path)
{
    RP_TEXT t;
    int64_t n;
    rp_text_read(&t, p, path);
    return t.state == RP_STATE_OK && rp_parse_count(t.bytes.data, &n) == 0 ? n : -1;
}

/* The link may name something of the device: .../0000:3b:00.0/infiniband/mlx5_0. The path ends with the last address in
 * it. */
void rp_pci_end_init(struct rp_pci_end *e, const struct rp_probe *p, const char *link)
{
    RP_TEXT t;
    char address[24];
    *e = (struct rp_pci_end){.node = -1};
    rp_link_read(&t, p, link);
    char *at = t.state == RP_STATE_OK ? strstr(t.bytes.data, "/devices/") : NULL,
         *from = at ? strstr(at, "/pci") : NULL, *end = NULL;
    for (char *part = from; part;) {
        size_t n = strcspn(part + 1, "/");
        RP_FREE char *word = rp_asprintf("%.*s", (int)n, part + 1);
        if (part != from && rp_pci_address(address, word) == 0)
            end = part + 1 + n;
        part = part[1 + n] ? part + 1 + n : NULL;
    }
    if (!end)
        return;
    *end = 0;
    RP_FREE char *file = rp_asprintf("/sys%s/numa_node", at);
    e->path = rp_strdup(from + 1);
    e->node = read_node(p, file);
}

void rp_pci_end_fini(struct rp_pci_end *e)
{
    free(e->path);
    e->path = NULL;
}

static int count_parts(const char *path)
{
    int n = 1;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* With the host bridge as part 0: no common part: NODE or SYS; only the host bridge: PHB. Below it, the last common
 * part is the bridge where both meet: at most one switch, whose ports are a device's parent and grandparent, is PIX,
 * more are PXB. */
const char *rp_pci_relation(const struct rp_pci_end *a, const struct rp_pci_end *b)
{
    int common = 0;
    if (!a->path || !b->path)
        return NULL;
    for (const char *x = a->path, *y = b->path;; x++, y++) {
        int ends = (*x == 0 || *x == '/') && (*y == 0 || *y == '/');
        common += ends;
        if (*x != *y || *x == 0)
            break;
    }
    if (common == 0 && (a->node < 0 || b->node < 0))
        return NULL;
    if (common == 0)
        return a->node == b->node ? "NODE" : "SYS";
    if (common == 1)
        return "PHB";
    return count_parts(a->path) - common <= 2 && count_parts(b->path) - common <= 2 ? "PIX" : "PXB";
}
