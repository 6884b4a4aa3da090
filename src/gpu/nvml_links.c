/* NVLink, and what lies between two devices: the cells of the matrix that `nvidia-smi topo -m` prints.
 *
 * A cell is NV<n> when n active links of one device lead to the other, or when both have links into NVSwitches (the
 * smaller number of them); else the word for what PCI path they share: PIX at most one switch, PXB several switches,
 * PHB a host bridge, NODE several host bridges of one NUMA node, SYS the link between NUMA nodes. When it cannot be
 * known where a link leads the cell is an error.
 */
#include "capture/value.h"
#include "gpu/nvml.h"

#include <stdio.h>
#include <string.h>

#define LINKS_MAX 64u

/* The text of a value that is known, else NULL. */
static const char *text_at(const json_t *values, const char *field)
{
    return rp_known_text(values, field);
}

void rp_nvml_put_links(const struct rp_nvml *lib, struct rp_nvml_device *d)
{
    json_t *all = json_object();
    const char *source = NULL, *failed_source = NULL;
    int active = 0;
    json_object_set_new(d->values, "nvlinks", all);
    d->links = NVML_ERROR_NOT_SUPPORTED;
    /* A link within a device's number of them may be NOT_SUPPORTED, one past that number is INVALID_ARGUMENT. */
    for (unsigned link = 0; link < LINKS_MAX; link++) {
        struct rp_nvml_subject s = {.dev = d->dev, .link = link};
        struct rp_nvml_answer a;
        char name[16];
        nvmlReturn_t rc = rp_nvml_ask(lib, &s, rp_nvml_link_rows, &a, &source);
        if (rc == NVML_ERROR_INVALID_ARGUMENT || (rc != NVML_SUCCESS && link >= NVML_NVLINK_MAX_LINKS))
            break;
        if (rc == NVML_ERROR_NOT_SUPPORTED)
            continue;
        if (rc == NVML_SUCCESS && a.n[0] > 1)
            rc = NVML_ERROR_UNKNOWN;
        snprintf(name, sizeof name, "link%u", link);
        json_t *values = json_object();
        json_object_set_new(all, name, values);
        if (rc != NVML_SUCCESS) {
            rp_nvml_put_failure(lib, values, rp_nvml_link_rows->field, rc, source);
            d->links = rc;
            failed_source = source;
            if (rc == NVML_ERROR_FUNCTION_NOT_FOUND)
                break;
            continue;
        }
        if (!failed_source)
            d->links = NVML_SUCCESS;
        active += a.n[0] == 1;
        rp_nvml_put(lib, values, rp_nvml_link_rows, rc, &a, source);
        if (a.n[0] == 1)
            rp_nvml_put_rows(lib, values, &s, rp_nvml_link_rows + 1);
    }
    if (d->links == NVML_SUCCESS)
        rp_put_int(d->values, "nvlinks_active", active, source, NULL);
    else
        rp_nvml_put_failure(lib, d->values, "nvlinks_active", d->links, failed_source ? failed_source : source);
}

/* ---- pairs ---- */

/* Where the active links of a device lead. */
struct link_counts {
    int direct, elsewhere; /* to the peer; to another device that is known */
    int switched, typed;   /* to a device that is not a GPU; of these, switches according to the driver */
    int unsure;            /* unknown where */
};

static int is_gpu(const struct rp_nvml_device *all, unsigned n, const char *pci)
{
    for (unsigned i = 0; i < n; i++) {
        const char *address = text_at(all[i].values, "pci_address");
        if (address && strcmp(pci, address) == 0)
            return 1;
    }
    return 0;
}

static struct link_counts count_links(const struct rp_nvml_device *all, unsigned n, unsigned from, const char *peer)
{
    struct link_counts l = {0};
    const char *name;
    json_t *link;
    json_object_foreach(json_object_get(all[from].values, "nvlinks"), name, link) {
        const char *state = text_at(link, "state"), *type = text_at(link, "remote_type"),
                   *pci = text_at(link, "remote_pci");
        if (!state || strcmp(state, "active") != 0)
            continue;
        if (type && strcmp(type, "switch") == 0)
            l.switched++, l.typed++;
        else if (!pci)
            l.unsure++;
        else if (peer && strcmp(pci, peer) == 0)
            l.direct++;
        else if (type || is_gpu(all, n, pci))
            l.elsewhere++;
        else
            l.switched++;
    }
    return l;
}

static int has_unread_links(const struct rp_nvml_device *d)
{
    return d->links != NVML_SUCCESS && d->links != NVML_ERROR_NOT_SUPPORTED;
}

static void put_cell(const struct rp_nvml *lib, json_t *out, const char *name, const struct rp_nvml_device *all,
                     unsigned n, unsigned i, unsigned j)
{
    const struct rp_nvml_subject s = {.dev = all[i].dev, .peer = all[j].dev};
    struct rp_nvml_row row = rp_nvml_ancestor_row;
    struct rp_nvml_answer a;
    const char *source, *address = text_at(all[j].values, "pci_address"),
                        *link_source = rp_nvml_link_rows->ways->symbol;
    struct link_counts here = count_links(all, n, i, address), there = count_links(all, n, j, NULL);
    int links = here.direct ? here.direct : here.switched < there.switched ? here.switched : there.switched;
    row.field = name;
    if (has_unread_links(&all[i]) || (here.switched && has_unread_links(&all[j]))) {
        rp_nvml_put_failure(lib, out, name, all[has_unread_links(&all[i]) ? i : j].links, link_source);
        return;
    }
    if (here.unsure || (!address && here.elsewhere) || (here.switched && there.unsure)) {
        rp_put(out, name, RP_STATE_ERROR, NULL, link_source, NULL, "the driver does not say where every NVLink leads");
        return;
    }
    /* an old driver: other devices are switches or, on POWER, the processor */
    if (links && !here.direct && !here.typed) {
        nvmlReturn_t rc = rp_nvml_ask(lib, &s, &rp_nvml_p2p_nvlink_row, &a, &source);
        if (rc != NVML_SUCCESS && rc != NVML_ERROR_NOT_SUPPORTED) {
            rp_nvml_put_failure(lib, out, name, rc, source);
            return;
        }
        links = rc == NVML_SUCCESS && a.n[0] == NVML_P2P_STATUS_OK ? links : 0;
    }
    if (links) {
        char cell[16];
        rp_put_str(out, name, RP_FORMAT(cell, "NV%d", links), link_source);
    } else {
        nvmlReturn_t rc = rp_nvml_ask(lib, &s, &row, &a, &source);
        rp_nvml_put(lib, out, &row, rc, &a, source);
    }
}

void rp_nvml_put_pairs(const struct rp_nvml *lib, const struct rp_nvml_device *d, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        json_t *topology = json_object(), *p2p = json_object();
        json_object_set_new(d[i].values, "topology", topology);
        json_object_set_new(d[i].values, "p2p", p2p);
        for (unsigned j = 0; j < n; j++) {
            struct rp_nvml_answer a;
            const char *source;
            char name[16];
            struct rp_nvml_row row = rp_nvml_p2p_row;
            if (i == j)
                continue;
            snprintf(name, sizeof name, "gpu%u", j);
            row.field = name;
            nvmlReturn_t failed = d[i].rc != NVML_SUCCESS ? d[i].rc : d[j].rc;
            if (failed != NVML_SUCCESS) {
                rp_nvml_put_failure(lib, topology, name, failed, "nvmlDeviceGetHandleByIndex_v2");
                rp_nvml_put_failure(lib, p2p, name, failed, "nvmlDeviceGetHandleByIndex_v2");
                continue;
            }
            put_cell(lib, topology, name, d, n, i, j);
            nvmlReturn_t rc =
                rp_nvml_ask(lib, &(struct rp_nvml_subject){.dev = d[i].dev, .peer = d[j].dev}, &row, &a, &source);
            rp_nvml_put(lib, p2p, &row, rc, &a, source);
        }
    }
}
