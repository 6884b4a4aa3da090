#include "capture/privacy/interface_names.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NUMBER = 5, HASH_DIGITS = 12 };

/* What may follow the beginning of a name. Identifiers of containers and networks ("veth1a2b3c4", "br-" and "cali" with
 * hexadecimal digits) are not public: like the identifiers of containers, which are hidden too, they tie captures of
 * one machine together. */
enum rest { NOTHING, NUMBER, PLACE, HASH };

static const struct {
    const char *prefix;
    enum rest rest;
} forms[] = {
    {"if-", HASH}, /* a hidden name */
    /* systemd: eno1, ens3, enp65s0f1np1, ibp3s0, wlp2s0 */
    {"en", PLACE}, {"ib", PLACE}, {"sl", PLACE}, {"wl", PLACE}, {"ww", PLACE},
    /* the kernel's drivers, biosdevname */
    {"eth", NUMBER}, {"ib", NUMBER}, {"wlan", NUMBER}, {"wwan", NUMBER}, {"usb", NUMBER}, {"hsn", NUMBER},
    {"nvl", NUMBER}, {"em", NUMBER}, {"rdma", NUMBER}, {"bond", NUMBER}, {"team", NUMBER}, {"br", NUMBER},
    {"vlan", NUMBER}, {"tun", NUMBER}, {"tap", NUMBER}, {"wg", NUMBER}, {"veth", NUMBER}, {"dummy", NUMBER},
    {"ifb", NUMBER}, {"macvlan", NUMBER}, {"macvtap", NUMBER}, {"ipvlan", NUMBER}, {"vxlan", NUMBER},
    {"geneve", NUMBER}, {"gre", NUMBER}, {"gretap", NUMBER}, {"erspan", NUMBER}, {"sit", NUMBER}, {"tunl", NUMBER},
    {"ip6tnl", NUMBER}, {"ip6gre", NUMBER}, {"ip_vti", NUMBER}, {"ip6_vti", NUMBER}, {"nlmon", NUMBER}, {"vrf", NUMBER},
    {"ppp", NUMBER}, {"can", NUMBER}, {"vcan", NUMBER}, {"lo", NOTHING},
    {"bonding_masters", NOTHING}, /* a file next to the interfaces */
    /* containers and virtual machines */
    {"docker", NUMBER}, {"docker_gwbridge", NOTHING}, {"podman", NUMBER}, {"cni-podman", NUMBER}, {"cni", NUMBER},
    {"virbr", NUMBER}, {"vnet", NUMBER}, {"lxcbr", NUMBER}, {"lxdbr", NUMBER}, {"incusbr", NUMBER},
    {"flannel.", NUMBER}, {"vxlan.calico", NOTHING}, {"cilium_host", NOTHING}, {"cilium_net", NOTHING},
    {"cilium_vxlan", NOTHING}, {"cilium_geneve", NOTHING}, {"lxc_health", NOTHING}, {"kube-bridge", NOTHING},
    {"kube-dummy-if", NOTHING}, {"kube-ipvs", NUMBER}, {"nodelocaldns", NOTHING}, {"weave", NOTHING},
    {"antrea-gw", NUMBER}, {"antrea-tun", NUMBER}, {"ovs-system", NOTHING}, {"ovn-k8s-mp", NUMBER},
    {"genev_sys_", NUMBER}, {"vxlan_sys_", NUMBER}, {"br-int", NOTHING}, {"br-ex", NOTHING}, {"br-tun", NOTHING},
};

/* RDMA devices: by driver and number, as the kernel names them and the images of clouds ("mlx5_ib0", "mlx5_an0"), or by
 * place. */
static const char *const rdma_drivers[] = {"mlx4_",   "mlx5_",        "mlx5_bond_", "mlx5_ib", "mlx5_an", "mthca",
                                           "bnxt_re", "bnxt_re_bond", "irdma",      "i40iw",   "hfi1_",   "qib",
                                           "efa_",    "erdma_",       "mana_",      "qedr",    "ocrdma",  "ionic_",
                                           "cxgb4_",  "hns_",         "rxe",        "siw",     "usnic_",  "vmw_pvrdma"};
static const char *const rdma_places[] = {"roce", "rdma", "ib", "iw", "opa"};

/* Digits at s, at most `max`; 0: none, or more. */
static size_t digits(const char *s, size_t max)
{
    size_t n = strspn(s, "0123456789");
    return n <= max ? n : 0;
}

/* "p65s0f1np1v2" of systemd: markers with numbers. Where `partly`, the last number may be missing. */
static int is_place(const char *s, int partly)
{
    static const char *const markers[] = {"o",  "s", "P",  "p", "f", "d", "n", "np", "npf",
                                          "pf", "v", "vf", "r", "u", "c", "i", "b"};
    if (!*s)
        return partly;
    for (size_t n; *s; s += n) {
        size_t letters = strspn(s, "abcdefghijklmnopqrstuvwxyzP");
        if (!RP_IS_IN(markers, s, letters))
            return 0;
        s += letters;
        n = digits(s, LONGEST_NUMBER);
        if (!n)
            return partly && !*s;
    }
    return 1;
}

/* "", ".100" of a VLAN, ".8003" of a partition, ":1" of an alias */
static int is_extension(const char *s)
{
    while (*s == '.' || *s == ':') {
        size_t n = strspn(s + 1, "0123456789abcdef");
        if (!n || n > 4 || (n != 4 && digits(s + 1, 4) != n))
            return 0;
        s += n + 1;
    }
    return !*s;
}

static int has_form(const char *rest, enum rest form, int partly)
{
    switch (form) {
    case NOTHING:
        return !*rest;
    case HASH:
        return strlen(rest) == HASH_DIGITS && strspn(rest, "0123456789abcdef") == HASH_DIGITS;
    case NUMBER:
        return partly ? !rest[digits(rest, LONGEST_NUMBER)]
                      : digits(rest, LONGEST_NUMBER) && !rest[digits(rest, LONGEST_NUMBER)];
    case PLACE:
        return is_place(rest, partly);
    }
    return 0;
}

/* name without an extension */
static int is_known(const char *name, int partly)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i].prefix);
        if (strncmp(name, forms[i].prefix, n) == 0 && has_form(name + n, forms[i].rest, partly))
            return 1;
    }
    return 0;
}

static int interface_is_public(const char *name)
{
    if (is_known(name, 0))
        return 1;
    for (const char *at = name; (at = strpbrk(at, ".:")); at++) { /* "flannel.1" and "eth0.100.7" */
        RP_FREE char *base = rp_asprintf("%.*s", (int)(at - name), name);
        if (is_extension(at) && is_known(base, 0))
            return 1;
    }
    return 0;
}

/* "mlx5_0" and "rocep3s0"; where `partly`, also "mlx5", "mlx5_" and "rocep". */
static int is_rdma(const char *name, int partly)
{
    for (size_t i = 0; i < sizeof rdma_drivers / sizeof *rdma_drivers; i++) {
        size_t n = strlen(rdma_drivers[i]), stem = rdma_drivers[i][n - 1] == '_' ? n - 1 : n;
        if ((strncmp(name, rdma_drivers[i], n) == 0 && has_form(name + n, NUMBER, partly)) ||
            (partly && strlen(name) == stem && strncmp(name, rdma_drivers[i], stem) == 0))
            return 1;
    }
    for (size_t i = 0; i < sizeof rdma_places / sizeof *rdma_places; i++) {
        size_t n = strlen(rdma_places[i]);
        if (strncmp(name, rdma_places[i], n) == 0 && is_place(name + n, partly))
            return 1;
    }
    return 0;
}

/* "mlx5_0", "rocep3s0"; or the name of an interface that is public */
static int rdma_is_public(const char *name)
{
    return is_rdma(name, 0) || interface_is_public(name);
}

static void show_or_hash(const char *salt, const char *name, int is_public, char out[RP_INTERFACE])
{
    const struct rp_probe p = {.salt = salt};
    char hidden[RP_HIDDEN];
    if (is_public && strlen(name) < RP_INTERFACE) {
        snprintf(out, RP_INTERFACE, "%s", name);
        return;
    }
    rp_hide_as(&p, "network.interface", name, hidden);
    snprintf(out, RP_INTERFACE, "if-%.*s", HASH_DIGITS, hidden + strlen("sha256:"));
}

void rp_interface_hide(const char *salt, const char *name, char out[RP_INTERFACE])
{
    show_or_hash(salt, name, interface_is_public(name), out);
}

void rp_rdma_hide(const char *salt, const char *name, char out[RP_INTERFACE])
{
    show_or_hash(salt, name, rdma_is_public(name), out);
}

static void show_name(const struct rp_probe *p, const char *name, int is_public, char out[RP_INTERFACE])
{
    if (p->opts->identify)
        snprintf(out, RP_INTERFACE, "%s", name);
    else
        show_or_hash(p->salt, name, is_public, out);
}

void rp_interface_show(const struct rp_probe *p, const char *name, char out[RP_INTERFACE])
{
    show_name(p, name, interface_is_public(name), out);
}

void rp_rdma_show(const struct rp_probe *p, const char *name, char out[RP_INTERFACE])
{
    show_name(p, name, rdma_is_public(name), out);
}

/* ---- paths ---- */

/* Where the first name of an interface or RDMA device in path begins, or NULL. */
static const char *next_name(const char *path, int *is_rdma_name)
{
    static const char *const folders[] = {"net/", "infiniband/"};
    for (const char *at = path; *at; at++)
        for (size_t i = 0; i < sizeof folders / sizeof *folders && (at == path || at[-1] == '/'); i++) {
            size_t n = strlen(folders[i]);
            if (strncmp(at, folders[i], n) == 0 && at[n] && at[n] != '/') {
                *is_rdma_name = i == 1;
                return at + n;
            }
        }
    return NULL;
}

char *rp_path_hide_interfaces(const char *salt, const char *path)
{
    /* /proc/sys/net/core */
    int elsewhere = *path == '/' && (strncmp(path, "/sys/", 5) != 0 || strncmp(path, "/sys/fs/", 8) == 0);
    int is_rdma_name;
    RP_BUF out = {0};
    rp_buf_add(&out, "", 0);
    for (const char *name; !elsewhere && (name = next_name(path, &is_rdma_name));) {
        char shown[RP_INTERFACE];
        size_t n = strcspn(name, "/");
        RP_FREE char *word = rp_asprintf("%.*s", (int)n, name);
        (is_rdma_name ? rp_rdma_hide : rp_interface_hide)(salt, word, shown);
        rp_buf_add(&out, path, (size_t)(name - path));
        rp_buf_puts(&out, shown);
        path = name + n;
    }
    rp_buf_puts(&out, path);
    return rp_buf_take(&out);
}

void rp_hide_interfaces_in_sources(const struct rp_probe *p, json_t *values)
{
    const char *name, *source = json_string_value(json_object_get(values, "source"));
    json_t *value;
    int is_rdma_name;
    if (p->opts->identify)
        return;
    if (source && next_name(source, &is_rdma_name)) {
        RP_FREE char *hidden = rp_path_hide_interfaces(p->salt, source);
        json_object_set_new(values, "source", json_string(hidden));
    }
    json_object_foreach(values, name, value)
        rp_hide_interfaces_in_sources(p, value);
}

/* ---- variables ---- */

int rp_variable_lists_interfaces(const char *name)
{
    static const char *const parts[] = {"IFNAME", "IFACE", "INTERFACE", "NET_DEVICES", "_IF_INCLUDE", "_IF_EXCLUDE",
                                        "HCA"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcasestr(name, parts[i]))
            return 1;
    return rp_ends_with(name, "_NIC");
}

/* A name, the beginning of one ("enp", "eth"), an RDMA device, a port, or a word that stands for many. */
static int is_public_word(const char *word)
{
    static const char *const words[] = {"all", "none", "any", "auto", "en", "ib", "wl"};
    if (!word[strspn(word, "0123456789")] || RP_IS_IN(words, word, strlen(word)) || interface_is_public(word) ||
        is_known(word, 1))
        return 1;
    return is_rdma(word, 1);
}

char *rp_interface_words(const struct rp_probe *p, const char *value)
{
    static const char between[] = "=^:,; !";
    RP_BUF out = {0};
    rp_buf_add(&out, "", 0);
    while (*value) {
        size_t gap = strspn(value, between), n = strcspn(value + gap, between);
        RP_FREE char *word = rp_asprintf("%.*s", (int)n, value + gap);
        char shown[RP_INTERFACE];
        rp_buf_add(&out, value, gap);
        if (n && !p->opts->identify && !is_public_word(word)) {
            rp_interface_hide(p->salt, word, shown);
            rp_buf_puts(&out, shown);
        } else
            rp_buf_puts(&out, word);
        value += gap + n;
    }
    return rp_buf_take(&out);
}
