#include "capture/topology/topo_matrix.h"

#include "base/text.h"
#include "capture/privacy/interface_names.h"
#include "capture/topology/pci.h"
#include "capture/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GPUS = 64, MAX_NICS = 64 };

static const char rdma[] = "/sys/class/infiniband";

struct topo_matrix_device {
    char name[64];       /* in the matrix: "GPU0", "mlx5_0" */
    const json_t *gpu;   /* the gpu probe's values of it; NULL: a NIC */
    struct rp_pci_end end;
};

/* ---- the values ---- */

/* A machine with one node may leave its devices' node open: it is that one. */
static int has_one_node(const struct rp_probe *p)
{
    RP_TEXT t;
    rp_text_read(&t, p, "/sys/devices/system/node/online");
    return t.state != RP_STATE_OK || rp_parse_cpus(t.bytes.data, NULL, RP_MAX_CPUS) == 1;
}

static int find_gpus(struct topo_matrix_device *d, const struct rp_probe *p, const json_t *gpu)
{
    int n = 0;
    for (; n < MAX_GPUS; n++) {
        char key[16], address[24], link[64];
        const json_t *one = json_object_get(json_object_get(gpu, "devices"), RP_FORMAT(key, "gpu%d", n));
        if (!one)
            break;
        snprintf(d[n].name, sizeof d[n].name, "GPU%d", n);
        d[n].gpu = one;
        d[n].end = (struct rp_pci_end){.node = -1};
        const char *text = rp_known_text(one, "pci_address");
        if (text && rp_pci_address(address, text) == 0)
            rp_pci_end_init(&d[n].end, p, RP_FORMAT(link, "/sys/bus/pci/devices/%s", address));
    }
    return n;
}

/* NICs on a PCI bus; software devices (rxe, siw) have no place in the matrix. */
static int find_nics(struct topo_matrix_device *d, const struct rp_probe *p)
{
    RP_DIRLIST names = {0};
    int n = 0;
    rp_rdma_read(&names, p, rdma, MAX_NICS);
    for (int i = 0; i < names.n; i++) {
        RP_FREE char *link = rp_asprintf("%s/%s", rdma, rp_interface_real(names.name[i]));
        d[n].gpu = NULL;
        rp_pci_end_init(&d[n].end, p, link);
        if (d[n].end.path && strlen(names.name[i]) < sizeof d[n].name && strncmp(names.name[i], "GPU", 3) != 0)
            memccpy(d[n++].name, names.name[i], 0, sizeof d[n].name);
        else
            rp_pci_end_fini(&d[n].end);
    }
    return n;
}

static int is_cell(const char *s)
{
    static const char *const words[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
    return RP_IS_IN(words, s, strlen(s)) ||
           (strncmp(s, "NV", 2) == 0 && s[2] && strlen(s) < 6 && strspn(s + 2, "0123456789") == strlen(s + 2));
}

/* Only the driver reports how GPUs are connected; /sys has no NVLinks. */
static const char *relation_of(const struct topo_matrix_device *a, const struct topo_matrix_device *b)
{
    const char *word = NULL;
    if (a == b)
        return "X";
    if (a->gpu && b->gpu) {
        char key[16];
        word = rp_known_text(json_object_get(a->gpu, "topology"), RP_FORMAT(key, "gpu%s", b->name + 3));
        if (word && !is_cell(word))
            word = NULL;
    }
    if (!word)
        word = rp_pci_relation(&a->end, &b->end);
    return word ? word : "N/A";
}

static void put_list(json_t *out, const char *name, json_t *list, const char *source)
{
    rp_put(out, name, RP_STATE_OK, list, source, NULL, NULL);
}

/* A value of every GPU from the driver, as text; for `node`, else from /sys. */
static json_t *per_gpu(const struct topo_matrix_device *d, int gpus, const char *field, int node)
{
    json_t *list = json_array();
    for (int i = 0; i < gpus; i++) {
        const json_t *v = rp_known(d[i].gpu, field);
        char text[32] = "N/A";
        if (json_is_integer(v) && json_integer_value(v) >= 0)
            snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
        else if (!v && node && d[i].end.node >= 0)
            snprintf(text, sizeof text, "%lld", (long long)d[i].end.node);
        json_array_append_new(list, json_is_string(v) && json_string_length(v) <= RP_LINE_MAX ? json_incref((json_t *)v)
                                                                                              : json_string(text));
    }
    return list;
}

/* What is in the matrix is not repeated in each GPU. What is not known stays there, with the reason. */
static void drop_taken(const struct topo_matrix_device *d, int gpus)
{
    for (int i = 0; i < gpus; i++) {
        json_t *values = (json_t *)d[i].gpu, *relations = json_object_get(values, "topology");
        for (int k = 0; k < gpus; k++) {
            char key[16];
            const char *word = rp_known_text(relations, RP_FORMAT(key, "gpu%d", k));
            if (word && is_cell(word))
                json_object_del(relations, key);
        }
        if (relations && !json_object_size(relations))
            json_object_del(values, "topology");
        if (rp_known(values, "cpu_affinity"))
            json_object_del(values, "cpu_affinity");
    }
}

void rp_put_topo_matrix(const struct rp_probe *p, json_t *out, const char *name, const json_t *gpu)
{
    static const char source[] = "NVML, /sys/bus/pci/devices, /sys/class/infiniband";
    struct topo_matrix_device *d = rp_alloc((MAX_GPUS + MAX_NICS) * sizeof *d);
    int gpus = find_gpus(d, p, gpu), n = gpus + find_nics(d + gpus, p);
    int one_node = n && has_one_node(p);
    json_t *matrix = json_object(), *columns = json_array(), *rows = json_object();
    for (int i = 0; i < n; i++)
        if (one_node && d[i].end.node < 0)
            d[i].end.node = 0;
    for (int i = 0; i < n; i++) {
        json_t *row = json_array();
        for (int k = 0; k < n; k++)
            json_array_append_new(row, json_string(relation_of(&d[i], &d[k])));
        json_array_append_new(columns, json_string(d[i].name));
        put_list(rows, d[i].name, row, source);
    }
    put_list(matrix, "columns", columns, source);
    json_object_set_new(matrix, "rows", rows);
    put_list(matrix, "cpu_affinity", per_gpu(d, gpus, "cpu_affinity", 0), "NVML");
    put_list(matrix, "numa_affinity", per_gpu(d, gpus, "numa_affinity", 1), "gpu.devices, /sys/bus/pci/devices");
    put_list(matrix, "gpu_numa_id", per_gpu(d, gpus, "numa_id", 0), "gpu.devices");
    drop_taken(d, gpus);
    for (int i = 0; i < n; i++)
        rp_pci_end_fini(&d[i].end);
    free(d);
    if (n)
        json_object_set_new(out, name, matrix);
    else {
        json_decref(matrix);
        rp_put_absent(out, name, source);
    }
}

/* ---- the text ---- */

/* Layouts by the driver's major version. Cells and columns end with a tab; the column of NUMA affinities has a second
 * one once another follows. NICs go by their own names, later by numbers and a legend. */
struct topo_matrix_layout {
    int since;
    int numa_affinity, nic_numbers, gpu_numa_id;
};
static const struct topo_matrix_layout layouts[] = {{530, 1, 1, 1}, {515, 1, 1, 0}, {450, 1, 0, 0}, {0, 0, 0, 0}};

static const struct topo_matrix_layout *layout_of(const json_t *env)
{
    const char *version = rp_known_text(env, "probes.nvidia.version");
    long major = version ? strtol(version, NULL, 10) : 0;
    int i = 0;
    while (version && layouts[i].since > major)
        i++;
    return &layouts[i];
}

static const char *text_at(const json_t *list, size_t i)
{
    const char *s = json_string_value(json_array_get(list, i));
    return s ? s : "";
}

static void column_name(struct rp_buf *out, const struct topo_matrix_layout *l, const char *name, int nic)
{
    if (nic >= 0 && l->nic_numbers)
        rp_buf_printf(out, "NIC%d", nic);
    else
        rp_buf_puts(out, name);
}

static void put_legend(struct rp_buf *out, const struct topo_matrix_layout *l, const json_t *columns, size_t gpus)
{
    rp_buf_puts(
        out,
        "\nLegend:\n\n"
        "  X    = Self\n"
        "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
        "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n"
        "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
        "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
        "  PIX  = Connection traversing at most a single PCIe bridge\n"
        "  NV#  = Connection traversing a bonded set of # NVLinks\n");
    if (!l->nic_numbers || gpus == json_array_size(columns))
        return;
    rp_buf_puts(out, "\nNIC Legend:\n\n");
    for (size_t i = gpus; i < json_array_size(columns); i++)
        rp_buf_printf(out, "  NIC%zu: %s\n", i - gpus, text_at(columns, i));
    rp_buf_puts(out, "\n");
}

void rp_topo_matrix_text(struct rp_buf *out, const json_t *env)
{
    const json_t *matrix = rp_value_at(env, "probes.topology.matrix");
    const json_t *columns = rp_known(matrix, "columns"), *cpus = rp_known(matrix, "cpu_affinity");
    const json_t *nodes = rp_known(matrix, "numa_affinity"), *ids = rp_known(matrix, "gpu_numa_id");
    const struct topo_matrix_layout *l = layout_of(env);
    size_t n = json_array_size(columns), gpus = json_array_size(cpus);
    if (gpus > n || n < 1 + (gpus == 0))
        return;
    rp_buf_puts(out, "\n");
    for (size_t i = 0; i < n; i++) {
        rp_buf_puts(out, "\t");
        column_name(out, l, text_at(columns, i), i < gpus ? -1 : (int)(i - gpus));
    }
    rp_buf_printf(out, "\tCPU Affinity%s%s\n", l->numa_affinity ? "\tNUMA Affinity" : "",
                  l->gpu_numa_id ? "\tGPU NUMA ID" : "");
    for (size_t i = 0; i < n; i++) {
        const json_t *row =
            json_object_get(json_object_get(json_object_get(matrix, "rows"), text_at(columns, i)), "value");
        column_name(out, l, text_at(columns, i), i < gpus ? -1 : (int)(i - gpus));
        for (size_t k = 0; k < n; k++)
            rp_buf_printf(out, i == k ? "\t %s " : "\t%s", text_at(row, k));
        rp_buf_printf(out, "\t%s", text_at(cpus, i));
        if (l->numa_affinity)
            rp_buf_printf(out, "\t%s", text_at(nodes, i));
        if (l->gpu_numa_id)
            rp_buf_printf(out, "\t\t%s", text_at(ids, i));
        rp_buf_puts(out, "\n");
    }
    put_legend(out, l, columns, gpus);
}
