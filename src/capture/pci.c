#include "capture/pci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rp_pci_address(char out[24], const char *text)
{
    unsigned domain, bus, slot, function;
    int n = 0;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &n) != 4 || text[n] || slot > 31 || function > 7)
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

/* The link may name something of the device: .../0000:3b:00.0/infiniband/mlx5_0. The path ends with the last address in it. */
void rp_pci_end_init(struct rp_pci_end *e, const struct rp_probe *p, const char *link)
{
    RP_TEXT t;
    char address[24];
    *e = (struct rp_pci_end){.node = -1};
    rp_link_read(&t, p, link);
    char *at = t.state == RP_STATE_OK ? strstr(t.bytes.data, "/devices/") : NULL, *from = at ? strstr(at, "/pci") : NULL, *end = NULL;
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

static int parts(const char *path)
{
    int n = 1;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* With the host bridge as part 0: no common part: NODE or SYS; only the host bridge: PHB. Below it, the last common part is the bridge
 * where both meet: at most one switch, whose ports are a device's parent and grandparent, is PIX, more are PXB. */
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
    return parts(a->path) - common <= 2 && parts(b->path) - common <= 2 ? "PIX" : "PXB";
}
