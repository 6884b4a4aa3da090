/* Which names of network interfaces and RDMA devices are shown, and that hidden ones are the same wherever they
 * occur. */
#include "base/json.h"
#include "capture/privacy/interface_names.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <string.h>

static const char salt[] = "000102030405060708090a0b0c0d0e0f";

/* "if-" and 12 hexadecimal digits */
static int is_hidden_form(const char *name)
{
    return strlen(name) == 15 && strncmp(name, "if-", 3) == 0 && strspn(name + 3, "0123456789abcdef") == 12;
}

TEST(names_by_form)
{
    static const char *const shown[] = {"lo", "eth0", "eth12", "eno1", "eno1np0", "ens3", "ens5f1", "enp3s0",
                                        "enp65s0f0np0", "enp65s0f1v12", "enp1s0f0npf0vf3", "enP2p1s0",
                                        "enp0s20f0u1u2c2i1", "ib0", "ibp24s0", "ib0.8003", "ibs3f1", "wlan0",
                                        "wlp0s20f3", "wwan0", "bond0", "team1", "br0", "docker0", "docker_gwbridge",
                                        "veth0", "virbr0", "vnet3", "tun0", "tap15", "wg0", "cni0", "cni-podman0",
                                        "podman1", "flannel.1", "flannel.4096", "dummy0", "ifb1", "vlan100", "eth0.100",
                                        "eth0.100.7", "eth0:1", "bond0.4094", "hsn0", "hsn3", "usb0", "nvl0", "tunl0",
                                        "sit0", "gre0", "ip6tnl0", "em1", "cilium_host", "kube-ipvs0", "vxlan.calico",
                                        "br-int", "if-0123456789ab", "bonding_masters"};
    static const char *const hidden[] = {"enx00c0ffee0001", "wlx00c0ffee0001", "vpn-customer", "eth-alice", "alice",
                                         "ethalice", "eth", "eth0alice", "eth0.alice", "eth0.", "eth0.12345",
                                         "eth123456", "eth0.cafe1", "br-0123456789ab", "br-alice", "veth1a2b3c4",
                                         "vethalice", "cali0123456789a", "lxc0123456789ab", "bond-corp", "bondcorp0",
                                         "docker", "dockeralice", "docker_gwbridge2", "en", "enalice", "enp", "enp3s",
                                         "enp3salice", "ens3x0", "enp123456s0", "loalice", "lo0", "wg-alice",
                                         "wgalice0", "tun-acme", "if-0123456789", "if-0123456789aB", "if-0123456789abc",
                                         "flannel.", "mlx5_0", "", " eth0", "Eth0", "eth0 ", "zt5u4uybmh",
                                         "tailscale0"};
    char out[RP_INTERFACE];
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        rp_interface_hide(salt, shown[i], out);
        CHECK_STR(out, shown[i]);
    }
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        rp_interface_hide(salt, hidden[i], out);
        CHECK(is_hidden_form(out) && strcmp(out, hidden[i]) != 0, "'%s': '%s'", hidden[i], out);
        for (size_t k = 0; k < i; k++) {
            char other[RP_INTERFACE];
            rp_interface_hide(salt, hidden[k], other);
            CHECK(strcmp(out, other) != 0, "'%s' and '%s' are the same", hidden[i], hidden[k]);
        }
    }
}

TEST(rdma_devices_by_form)
{
    static const char *const shown[] = {"mlx5_0",   "mlx5_15",  "mlx5_bond_0", "mlx5_ib7",       "mlx4_1",
                                        "bnxt_re0", "irdma1",   "hfi1_0",      "efa_0",          "rxe0",
                                        "siw1",     "rocep3s0", "rocep65s0f1", "ibp24s0",        "rdmap0s6",
                                        "iwp1s0",   "ib0",      "eth0",        "if-0123456789ab"};
    static const char *const hidden[] = {
        "mlx5", "mlx5_", "mlx5_0alice", "mlx5_alice", "alice-mlx5_0", "mlx5_123456", "roce-customer7",
        "roce", "rocep", "rxe",         "rxe-alice",  "customer7",    "MLX5_0",      ""};
    char out[RP_INTERFACE], same[RP_INTERFACE];
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        rp_rdma_hide(salt, shown[i], out);
        CHECK_STR(out, shown[i]);
    }
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        rp_rdma_hide(salt, hidden[i], out);
        rp_interface_hide(salt, hidden[i], same);
        CHECK(is_hidden_form(out), "'%s': '%s'", hidden[i], out);
        CHECK_STR(out, same); /* a list of both has one form of it */
    }
}

TEST(one_form_of_a_name)
{
    struct rp_capture_opts o = {.root = "/"}, open = {.root = "/", .identify = 1};
    const struct rp_probe p = {.opts = &o, .salt = salt, .name = "network"},
                          q = {.opts = &o, .salt = salt, .name = "rdma"},
                          clear = {.opts = &open, .salt = salt, .name = "network"};
    char first[RP_INTERFACE], out[RP_INTERFACE];
    rp_interface_hide(salt, "vpn-customer7", first);
    rp_interface_show(&p, "vpn-customer7", out);
    CHECK_STR(out, first);
    rp_interface_show(&q, "vpn-customer7", out); /* probes that join by it */
    CHECK_STR(out, first);
    rp_interface_show(&p, first, out); /* a record is read */
    CHECK_STR(out, first);
    rp_interface_hide("f00102030405060708090a0b0c0d0e0f", "vpn-customer7", out);
    CHECK(is_hidden_form(out) && strcmp(out, first) != 0, "%s whatever the salt is", out);
    rp_interface_show(&clear, "vpn-customer7", out);
    CHECK_STR(out, "vpn-customer7");
}

/* What only a system call says of an interface is in a record under its hidden name. */
TEST(answers_about_interfaces)
{
    struct rp_capture_opts o = {.root = "/"};
    char shown[RP_INTERFACE], key[RP_INTERFACE + 16];
    rp_interface_hide(salt, "vpn-customer7", shown);
    RP_JSON *recorded = json_pack("{s:{s:s}}", "answers", RP_FORMAT(key, "ethtool %s", shown), "firmware");
    const struct rp_probe p = {.opts = &o, .salt = salt, .recorded = recorded};
    RP_JSON *answer = rp_probe_query_as(&p, "ethtool", "vpn-customer7", shown, NULL);
    RP_JSON *none = rp_probe_query(&p, "ethtool", "vpn-customer7", NULL);
    CHECK_STR(json_string_value(answer), "firmware");
    CHECK(!none, "the machine's name is a key of the record");
}

/* %: the hidden form of vpn-customer7 */
static void check_text(char *seen, const char *expected)
{
    char hidden[RP_INTERFACE];
    RP_FREE char *text = seen;
    RP_BUF whole = {0};
    rp_interface_hide(salt, "vpn-customer7", hidden);
    for (const char *s = expected; *s; s++)
        *s == '%' ? rp_buf_puts(&whole, hidden) : rp_buf_add(&whole, s, 1);
    CHECK_STR(text, rp_buf_text(&whole));
}

TEST(paths_and_links)
{
    static const char *const cases[][2] = {
        {"/sys/class/net/vpn-customer7", "/sys/class/net/%"},
        {"/sys/class/net/vpn-customer7/statistics/rx_errors", "/sys/class/net/%/statistics/rx_errors"},
        {"/sys/devices/pci0000:0a/0000:0b:00.1/net/vpn-customer7/mtu",
         "/sys/devices/pci0000:0a/0000:0b:00.1/net/%/mtu"},
        {"../../devices/virtual/net/vpn-customer7", "../../devices/virtual/net/%"},
        {"/sys/class/net/eth0/device/net/vpn-customer7", "/sys/class/net/eth0/device/net/%"},
        {"/sys/class/net", "/sys/class/net"},
        {"/sys/class/net/", "/sys/class/net/"},
        {"/sys/class/net/bonding_masters", "/sys/class/net/bonding_masters"},
        {"/sys/class/infiniband/vpn-customer7/ports/1/state", "/sys/class/infiniband/%/ports/1/state"},
        {"/sys/class/infiniband/mlx5_0/device/net/vpn-customer7", "/sys/class/infiniband/mlx5_0/device/net/%"},
        {"../../devices/pci0000:0a/0000:0b:00.1/infiniband/vpn-customer7",
         "../../devices/pci0000:0a/0000:0b:00.1/infiniband/%"},
        {"/sys/class/infiniband", "/sys/class/infiniband"},
        {"/sys/class/infiniband_verbs/uverbs0", "/sys/class/infiniband_verbs/uverbs0"},
        {"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0"},
        {"/sys/class/subnet/vpn-customer7", "/sys/class/subnet/vpn-customer7"},
        {"/proc/sys/net/core/rmem_max", "/proc/sys/net/core/rmem_max"},
        {"/sys/fs/cgroup/net/group", "/sys/fs/cgroup/net/group"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_text(rp_path_hide_interfaces(salt, cases[i][0]), cases[i][1]);
}

TEST(words_of_variables)
{
    static const char *const cases[][2] = {
        {"^docker0,vpn-customer7", "^docker0,%"},
        {"=vpn-customer7", "=%"},
        {"^=vpn-customer7:1,lo;eth0", "^=%:1,lo;eth0"},
        {"mlx5_0:1,rocep3s0:1,bnxt_re0,vpn-customer7", "mlx5_0:1,rocep3s0:1,bnxt_re0,%"},
        {"eth", "eth"}, /* NCCL takes beginnings of names */
        {"en,ib,bond,enp,enp3s0f,hsn", "en,ib,bond,enp,enp3s0f,hsn"},
        {"=mlx5,mlx5_,mlx5_bond_0,rocep,vpn-customer7:1", "=mlx5,mlx5_,mlx5_bond_0,rocep,%:1"}, /* NCCL_IB_HCA */
        {"all", "all"},
        {"", ""},
        {",", ","},
    };
    static const char *const lists[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES", "FI_TCP_IFACE",
                                        "PSM3_NIC", "OMPI_MCA_btl_tcp_if_include", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME",
                                        "NCCL_IB_HCA", "NVSHMEM_HCA_LIST", "OMPI_MCA_btl_openib_if_include"};
    static const char *const others[] = {"NCCL_DEBUG", "OMP_NUM_THREADS", "LD_PRELOAD", "NCCL_IB_TC", "UCX_TLS"};
    struct rp_capture_opts o = {.root = "/"}, open = {.root = "/", .identify = 1};
    const struct rp_probe p = {.opts = &o, .salt = salt}, clear = {.opts = &open, .salt = salt};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_text(rp_interface_words(&p, cases[i][0]), cases[i][1]);
        RP_FREE char *as_it_is = rp_interface_words(&clear, cases[i][0]), *once = rp_interface_words(&p, cases[i][0]),
                     *twice = rp_interface_words(&p, once);
        CHECK_STR(as_it_is, cases[i][0]);
        CHECK_STR(twice, once);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        CHECK(rp_variable_lists_interfaces(lists[i]), "%s", lists[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!rp_variable_lists_interfaces(others[i]), "%s", others[i]);
}
