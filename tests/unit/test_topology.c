/* The topology probe: the published matrices of three machines, the layouts of nvidia-smi, and hwloc with hostile
 * surroundings. */
#include "base/json.h"
#include "capture/topology/pci.h"
#include "capture/topology/topo_matrix.h"
#include "tests/unit/host_tree.h"
#include "tests/unit/tap.h"

#include <hwloc.h>

static const char salt[] = "000102030405060708090a0b0c0d0e0f";

/* ---- the matrix ---- */

/* What nvidia-smi prints as people paste it: tabs as blanks, nothing at the ends of lines, no legend. */
static void as_pasted(struct rp_buf *out, const char *text)
{
    size_t column = 0, end = 0;
    for (; *text && !(out->size && out->data[out->size - 1] == '\n' && *text == '\n'); text++) {
        size_t n = *text == '\t' ? 8 - column % 8 : 1;
        for (size_t i = 0; i < n && *text != '\n'; i++)
            rp_buf_add(out, *text == '\t' ? " " : text, 1);
        column += n;
        end = *text != '\t' && *text != ' ' && *text != '\n' ? out->size : end;
        if (*text == '\n') {
            out->size = end;
            rp_buf_add(out, "\n", 1);
            column = 0;
            end = out->size;
        }
    }
}

static void forget_topology(const char *root)
{
    RP_FREE char *file = rp_asprintf("%s/.repro/gpu.json", root);
    RP_BUF text = {0}, less = {0};
    struct rp_err err;
    const char *key;
    json_t *one;
    CHECK(rp_read_file(&text, file, 1 << 20, &err) == 0, "%s", err.msg);
    RP_JSON *answers = rp_json_parse(text.data, text.size, file, &err);
    CHECK(answers != NULL, "%s", err.msg);
    json_object_foreach (json_object_get(json_object_get(answers, "nvml"), "devices"), key, one)
        json_object_del(one, "topology");
    rp_json_write(&less, answers);
    CHECK(rp_write_file(file, less.data, less.size, 0644, &err) == 0, "%s", err.msg);
}

/* The matrix at the end of the page of tests/hosts/NAME; without what the driver says of pairs of GPUs if told so. */
static void matrix_of(struct rp_buf *out, const char *name, int without_driver)
{
    struct rp_capture_opts o = {.root = host_tree(name), .salt = salt};
    struct rp_err err = {0};
    RP_BUF page = {0};
    if (without_driver)
        forget_topology(o.root);
    CHECK(rp_capture_select(&o, "gpu,topology", &err) == 0, "%s", err.msg);
    RP_JSON *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    rp_capture_summary(&page, env);
    const char *matrix = strstr(page.data, "\n\n\tGPU0\t");
    CHECK(matrix != NULL, "%s: no matrix: %s", name, page.data);
    rp_buf_puts(out, matrix ? matrix + 2 : "");
}

static void check_published(const char *name, int without_driver)
{
    RP_FREE char *file = rp_asprintf("tests/hosts/%s/published.txt", name);
    RP_BUF published = {0}, text = {0}, expected = {0}, pasted = {0};
    struct rp_err err;
    CHECK(rp_read_file(&published, file, 1 << 16, &err) == 0, "%s", err.msg);
    matrix_of(&text, name, without_driver);
    as_pasted(&expected, published.data);
    as_pasted(&pasted, text.data);
    CHECK_STR(pasted.data, expected.data);
    if (strchr(published.data, '\t')) /* this one was published with its tabs */
        CHECK(strncmp(text.data, published.data, published.size) == 0, "other blanks than in %s: %s", file, text.data);
}

/* With its blanks and the legend. */
static void check_text(const char *name)
{
    RP_FREE char *file = rp_asprintf("tests/hosts/%s/matrix.txt", name);
    RP_BUF text = {0};
    matrix_of(&text, name, 0);
    golden(file, &text);
}

TEST(matrix_of_8_v100_with_nvlink_and_a_nic)
{
    check_published("v100_sxm2_x8", 0);
    check_text("v100_sxm2_x8");
}

/* The tree of PCI devices says the same as the driver where there is no NVLink. */
TEST(matrix_of_8_titan_v)
{
    check_published("titan_v_x8", 0);
    check_published("titan_v_x8", 1);
    check_text("titan_v_x8");
}

TEST(matrix_of_8_h100_behind_nvswitches_with_ten_nics)
{
    check_text("h100_x8");
}

TEST(matrix_of_a_tray_of_4_gb200)
{
    check_published("gb200", 0);
}

TEST(layouts_by_driver)
{
    static const struct {
        const char *driver, *text;
    } cases[] = {
        {"440.33.01", "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\n"
                      "GPU0\t X \tNV4\tNODE\t0-3\n"
                      "GPU1\tNV4\t X \tSYS\t4-7\n"
                      "mlx5_0\tNODE\tSYS\t X \t\n"},
        {"470.57.02", "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\n"
                      "GPU0\t X \tNV4\tNODE\t0-3\t0\n"
                      "GPU1\tNV4\t X \tSYS\t4-7\tN/A\n"
                      "mlx5_0\tNODE\tSYS\t X \t\t\n"},
        {"525.85.12", "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
                      "GPU0\t X \tNV4\tNODE\t0-3\t0\n"
                      "GPU1\tNV4\t X \tSYS\t4-7\tN/A\n"
                      "NIC0\tNODE\tSYS\t X \t\t\n"},
        {"550.54.15", "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
                      "GPU0\t X \tNV4\tNODE\t0-3\t0\t\tN/A\n"
                      "GPU1\tNV4\t X \tSYS\t4-7\tN/A\t\tN/A\n"
                      "NIC0\tNODE\tSYS\t X \t\t\t\t\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF text = {0};
        int numbered = cases[i].driver[0] == '5';
        RP_FREE char *json =
            rp_asprintf("{'probes': {'nvidia': {'version': {'state': 'ok', 'value': '%s'}}, 'topology': {'matrix': {"
                        "'columns': {'state': 'ok', 'value': ['GPU0', 'GPU1', 'mlx5_0']}, 'cpu_affinity': {'state': "
                        "'ok', 'value': ['0-3', '4-7']},"
                        "'numa_affinity': {'state': 'ok', 'value': ['0', 'N/A']}, 'gpu_numa_id': {'state': 'ok', "
                        "'value': ['N/A', 'N/A']},"
                        "'rows': {'GPU0': {'state': 'ok', 'value': ['X', 'NV4', 'NODE']}, 'GPU1': {'state': 'ok', "
                        "'value': ['NV4', 'X', 'SYS']},"
                        "'mlx5_0': {'state': 'ok', 'value': ['NODE', 'SYS', 'X']}}}}}}",
                        cases[i].driver);
        for (char *quote; (quote = strchr(json, '\''));)
            *quote = '"';
        RP_JSON *env = json_loads(json, 0, NULL);
        CHECK(env != NULL, "the document");
        rp_topo_matrix_text(&text, env);
        CHECK(text.data && strncmp(text.data + 1, cases[i].text, strlen(cases[i].text)) == 0, "%s:\n%s",
              cases[i].driver, text.data);
        const char *legend = text.data + 1 + strlen(cases[i].text), *last = "of # NVLinks\n",
                   *end = strstr(legend, last);
        CHECK(strncmp(legend, "\nLegend:\n\n  X    = Self\n", 24) == 0 && end, "%s: no legend", cases[i].driver);
        CHECK_STR(end + strlen(last), numbered ? "\nNIC Legend:\n\n  NIC0: mlx5_0\n\n" : "");
    }
}

TEST(where_devices_meet)
{
#define BRIDGE "pci0000:3a/0000:3a:00.0/"
    static const struct {
        const char *a;
        int a_node;
        const char *b;
        int b_node;
        const char *relation;
    } cases[] = {
        /* a longer name of a bridge is another one */
        {"pci0000:00/0000:00:05.0", 0, "pci0000:00/0000:00:06.0", 0, "PHB"}, /* a virtual machine */
        {BRIDGE "0000:3b:00.0", 0, BRIDGE "0000:3b:00.1", 0, "PIX"},         /* two ports of one card */
        {BRIDGE "0000:3b:00.0", 0, BRIDGE "0000:3b:00.0", 0, "PIX"},         /* two names of one function */
        {BRIDGE "0000:3b:00.0/0000:3c:08.0/0000:3d:00.0", 0, BRIDGE "0000:3b:00.0/0000:3c:0c.0/0000:3e:00.0", 0, "PIX"},
        {BRIDGE "0000:3b:00.0/0000:3c:08.0/0000:3d:00.0/0000:3e:04.0/0000:3f:00.0", 0,
         BRIDGE "0000:3b:00.0/0000:3c:0c.0/0000:41:00.0", 0, "PXB"},
        {BRIDGE "0000:3b:00.0", 0, "pci0000:3a/0000:3a:01.0/0000:40:00.0", 0, "PHB"},
        {BRIDGE "0000:3b:00.0", 1, "pci0000:3b/0000:3b:00.0/0000:3c:00.0", 1, "NODE"},
        {BRIDGE "0000:3b:00.0", 1, "pci0000:3a1/0000:3a:00.0/0000:3b:00.0", 1, "NODE"},
        {BRIDGE "0000:3b:00.0", 0, "pci0000:85/0000:85:00.0/0000:86:00.0", 1, "SYS"},
        {BRIDGE "0000:3b:00.0", -1, "pci0000:85/0000:85:00.0/0000:86:00.0", 1, NULL},
        {NULL, 0, BRIDGE "0000:3b:00.0", 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_FREE char *a = cases[i].a ? rp_strdup(cases[i].a) : NULL, *b = rp_strdup(cases[i].b);
        struct rp_pci_end x = {a, cases[i].a_node}, y = {b, cases[i].b_node};
        CHECK_STR(rp_pci_relation(&x, &y), cases[i].relation);
        CHECK_STR(rp_pci_relation(&y, &x), cases[i].relation);
    }
    char out[24];
    CHECK(rp_pci_address(out, "00000000:3B:00.0") == 0, "NVML's form");
    CHECK_STR(out, "0000:3b:00.0");
    CHECK(rp_pci_address(out, "10000:e1:00.0") == 0, "a large domain");
    CHECK_STR(out, "10000:e1:00.0");
    CHECK(rp_pci_address(out, "0000:3b:00.0x") < 0 && rp_pci_address(out, "0000:3b:00.8") < 0 &&
              rp_pci_address(out, "../../etc") < 0,
          "no address");
}

TEST(devices_of_interest)
{
    struct rp_capture_opts o = {.root = host_tree("v100_sxm2_x8"), .salt = salt};
    struct rp_err err = {0};
    CHECK(rp_capture_select(&o, "topology", &err) == 0, "%s", err.msg);
    RP_JSON *env = rp_capture(&o, &err);
    const json_t *all = json_object_get(json_object_get(json_object_get(env, "probes"), "topology"), "devices");
    static const struct {
        const char *address, *kind, *names, *speed, *width, *width_max;
    } expected[] = {{"0000:3d:00.0", "\"gpu\"", "null", "8.0", "8", "16"},
                    {"0000:3f:00.0", "\"network\"", "[\"ib0\", \"if-0a7b86f613d5\", \"mlx5_0\"]", "8.0", "16", "16"},
                    {"0000:17:02.0", "\"nvswitch\"", "null", "null", "null", "null"}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const char *const fields[][2] = {{"kind", expected[i].kind},
                                         {"names", expected[i].names},
                                         {"pcie_speed", expected[i].speed},
                                         {"pcie_width", expected[i].width},
                                         {"pcie_width_max", expected[i].width_max}};
        for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++) {
            const json_t *value =
                json_object_get(json_object_get(json_object_get(all, expected[i].address), fields[k][0]), "value");
            RP_FREE char *text = json_dumps(value, JSON_ENCODE_ANY);
            CHECK(text && strcmp(text, fields[k][1]) == 0, "%s.%s: %s", expected[i].address, fields[k][0], text);
        }
    }
    CHECK(json_object_size(all) == 3, "%zu devices: bridges do not count", json_object_size(all));
}

/* ---- hwloc ---- */

static json_t *capture(const char *root, int identify, struct rp_buf *xml)
{
    struct rp_capture_opts o = {.root = root, .salt = salt, .identify = identify, .hwloc_xml = xml};
    struct rp_err err = {0};
    CHECK(rp_capture_select(&o, "topology", &err) == 0, "%s", err.msg);
    json_t *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    return env;
}

/* A record with this XML, captured. */
static json_t *capture_recorded(const char *text, size_t size, int identify, struct rp_buf *xml)
{
    const char *root = scratch_new();
    struct rp_err err;
    static const char live[] = "{\"schema\": \"repro-record/1\", \"salt\": \"000102030405060708090a0b0c0d0e0f\", "
                               "\"states\": {}, \"answers\": {}}\n";
    RP_FREE char *dir = rp_asprintf("%s/.repro", root), *file = rp_asprintf("%s/hwloc.xml", dir),
                 *state = rp_asprintf("%s/live.json", dir);
    CHECK(mkdir(dir, 0755) == 0 && rp_write_file(file, text, size, 0644, &err) == 0 &&
              rp_write_file(state, live, sizeof live - 1, 0644, &err) == 0,
          "no record");
    return capture(root, identify, xml);
}

static long long number_at(const json_t *env, const char *path)
{
    RP_FREE char *value = rp_asprintf("probes/topology/%s/value", path);
    return json_integer_value(rp_json_at(env, value));
}

/* The document with two network interfaces more, one of a name that somebody chose. */
static char *with_interfaces(const char *xml)
{
    const char *end = NULL;
    for (const char *at = xml; (at = strstr(at, "</object>")); at++)
        end = at;
    return end ? rp_asprintf("%.*s<object type=\"OSDev\" gp_index=\"9001\" name=\"eth7\" osdev_type=\"2\"/>"
                             "<object type=\"OSDev\" gp_index=\"9002\" name=\"secret-vpn\" osdev_type=\"2\"/>%s",
                             (int)(end - xml), xml, end)
               : NULL;
}

/* Two sockets of twelve cores with two threads each, numbered as Linux does, with infos of every kind. */
static char *two_sockets(void)
{
    static const char *const planted[][2] = {
        {"HostName", "secret-host"},    {"DMIProductSerial", "secret-serial"},
        {"Address", "secret-mac"},      {"NodeGUID", "secret-guid"},
        {"LinuxCgroup", "/secret-pod"}, {"SerialNumber", "secret-disk"},
        {"SomethingNew", "secret-new"}, {"CPUModel", "Intel(R) Xeon(R) Gold 5118 CPU @ 2.30GHz"}};
    hwloc_topology_t t;
    char *xml = NULL, *copy = NULL;
    int size;
    if (hwloc_topology_init(&t) < 0 ||
        hwloc_topology_set_synthetic(
            t, "pack:2 [numa(memory=206158430208)] l3:1(size=17301504) core:12 l2:1(size=1048576) l1d:1(size=32768) "
               "pu:2(indexes=0,24,1,25,2,26,3,27,4,28,5,29,6,30,7,31,8,32,9,33,10,34,11,35,12,36,13,37,14,38,15,39,16,"
               "40,17,"
               "41,18,42,19,43,20,44,21,45,22,46,23,47)") < 0 ||
        hwloc_topology_load(t) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
        hwloc_obj_add_info(i % 2 ? hwloc_get_root_obj(t) : hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 1),
                           planted[i][0], planted[i][1]);
    if (hwloc_topology_export_xmlbuffer(t, &xml, &size, 0) == 0)
        copy = with_interfaces(xml);
    hwloc_free_xmlbuffer(t, xml);
    hwloc_topology_destroy(t);
    return copy;
}

TEST(recorded_machine_of_two_sockets)
{
    RP_FREE char *given = two_sockets();
    RP_BUF xml = {0}, again = {0}, clear = {0};
    CHECK(given != NULL, "hwloc makes no synthetic machine");
    RP_JSON *env = capture_recorded(given, strlen(given), 0, &xml),
            *second = capture_recorded(xml.data, xml.size, 0, &again);
    RP_JSON *open = capture_recorded(given, strlen(given), 1, &clear);
    /* the machine, 2 each of packages, nodes and L3, 24 each of cores, L2 and L1, 48 threads, 2 interfaces */
    CHECK(number_at(env, "objects") == 1 + 3 * 2 + 3 * 24 + 48 + 2, "%lld objects",
          (long long)number_at(env, "objects"));
    CHECK(strstr(given, "secret") && !strstr(xml.data, "secret"), "a name, address or serial number stays: %s",
          strstr(xml.data, "secret"));
    CHECK(strstr(xml.data, "Gold 5118"), "the model is gone");
    CHECK(strstr(xml.data, "name=\"eth7\"") && strstr(xml.data, "name=\"if-"), "an interface is gone");
    CHECK(strstr(clear.data, "secret-vpn") && strstr(clear.data, "secret-host") && strstr(clear.data, "secret-serial"),
          "--identify keeps them");
    CHECK(xml.size == again.size && memcmp(xml.data, again.data, xml.size) == 0, "read again it is another document");
    CHECK(json_equal(json_object_get(env, "probes"), json_object_get(second, "probes")),
          "read again it has other values");
}

/* Nothing that the caller's environment says is asked by hwloc. */
TEST(environment_of_hwloc_is_ignored)
{
    static const char *const set[][2] = {{"HWLOC_SYNTHETIC", "pack:7 core:3 pu:2"},
                                         {"HWLOC_XMLFILE", "/nonexistent.xml"},
                                         {"HWLOC_COMPONENTS", "synthetic,stop"},
                                         {"HWLOC_FSROOT", "/nonexistent"},
                                         {"HWLOC_PLUGINS_PATH", "/tmp"},
                                         {"HWLOC_CPUID_PATH", "/nonexistent"},
                                         {"HWLOC_THISSYSTEM", "0"},
                                         {"HWLOC_ALLOW", "all"}};
    RP_BUF plain = {0}, disturbed = {0};
    RP_JSON *before = capture("/", 0, &plain);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        setenv(set[i][0], set[i][1], 1);
    RP_JSON *after = capture("/", 0, &disturbed);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        CHECK_STR(getenv(set[i][0]), set[i][1]);
        unsetenv(set[i][0]);
    }
    CHECK(number_at(before, "objects") > sysconf(_SC_NPROCESSORS_ONLN), "objects");
    CHECK(json_equal(json_object_get(before, "probes"), json_object_get(after, "probes")), "values differ");
    CHECK(plain.size && plain.size == disturbed.size && memcmp(plain.data, disturbed.data, plain.size) == 0,
          "the XML differs");
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    CHECK(strlen(host) < 6 || !strstr(plain.data, host), "the host's name '%s' is in the XML", host);
}

/* Whatever happens to the XML of a record, this process lives and every value has a state. */
TEST(hostile_xml)
{
    static const char *const bad[] = {
        "", "no xml at all", "<topology", "<?xml version=\"1.0\"?><topology version=\"2.0\"></topology>",
        "<?xml version=\"1.0\"?><!DOCTYPE t [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><topology>&a;</topology>"};
    RP_FREE char *given = two_sockets();
    size_t size = strlen(given);
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_JSON *env = capture_recorded(bad[i], strlen(bad[i]), 0, NULL);
        CHECK_STR(json_string_value(json_object_get(rp_json_at(env, "probes/topology/objects"), "state")), "error");
    }
    for (int i = 0; i < 60; i++) {
        RP_FREE char *text = rp_strdup(given);
        for (int k = 0; k < 1 + i % 4; k++)
            text[rand_r(&seed) % (unsigned)size] = "<>\"/=0x9-,"[rand_r(&seed) % 10];
        RP_JSON *env = capture_recorded(text, i % 5 ? size : (size_t)rand_r(&seed) % size, 0, NULL);
        const char *state = json_string_value(json_object_get(rp_json_at(env, "probes/topology/objects"), "state"));
        CHECK(state && (strcmp(state, "ok") == 0 || strcmp(state, "error") == 0 || strcmp(state, "absent") == 0),
              "mutation %d", i);
    }
}
