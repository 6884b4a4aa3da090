/* fields.def against every value that a recorded or played machine has, and captures compared with each other. */
#include "base/json.h"
#include "capture/capture.h"
#include "capture/env_diff.h"
#include "capture/fields.h"
#include "tests/unit/host_tree.h"
#include "tests/unit/tap.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

enum { ROWS_MAX = 2048 };
static unsigned char used[ROWS_MAX];
static int values;

static void use(const char *path, int is_value)
{
    const struct rp_field *f = rp_field_find(path, RP_FIELD_SEPARATOR);
    if (is_value) {
        RP_FREE char *shown = rp_strdup(path);
        for (char *p = shown; *p; p++)
            *p = *p == RP_FIELD_SEPARATOR ? '.' : *p;
        CHECK(f != NULL, "%s has no row in capture/fields.def", shown);
        values++;
    }
    if (f)
        used[f - rp_fields] = 1;
}

static void use_all(const json_t *node, const char *path)
{
    const char *key;
    json_t *child;
    int is_value = json_is_string(json_object_get(node, "state"));
    if (*path)
        use(path, is_value);
    if (!is_value && json_is_object(node))
        json_object_foreach((json_t *)node, key, child) {
            RP_FREE char *below = rp_asprintf("%s%s%s", path, *path ? (const char[]){RP_FIELD_SEPARATOR, 0} : "", key);
            use_all(child, below);
        }
}

static json_t *read_json(const char *path)
{
    RP_BUF text = {0};
    struct rp_err err;
    CHECK(rp_read_file(&text, path, 1 << 24, &err) == 0, "%s", err.msg);
    json_t *j = rp_json_parse(rp_buf_text(&text), text.size, path, &err);
    CHECK(j != NULL, "%s", err.msg);
    return j;
}

/* tests/hosts/NAME/expected/PROBE.json */
static void use_hosts(void)
{
    glob_t g;
    CHECK(glob("tests/hosts/*/expected/*.json", 0, NULL, &g) == 0 && g.gl_pathc > 100, "no recorded machines");
    for (size_t i = 0; i < g.gl_pathc; i++) {
        const char *name = strrchr(g.gl_pathv[i], '/') + 1;
        RP_FREE char *probe = rp_asprintf("%.*s", (int)strcspn(name, "."), name);
        RP_JSON *j = read_json(g.gl_pathv[i]);
        use_all(j, probe);
    }
    globfree(&g);
}

/* tests/fake/expected/NAME.json has "devices.gpu0.name" as one key, and counts that are no values. */
static void use_played(void)
{
    glob_t g;
    const char *key;
    json_t *v;
    CHECK(glob("tests/fake/expected/*.json", 0, NULL, &g) == 0 && g.gl_pathc > 3, "no played machines");
    for (size_t i = 0; i < g.gl_pathc; i++) {
        RP_JSON *j = read_json(g.gl_pathv[i]);
        json_object_foreach(j, key, v) {
            RP_FREE char *path =
                strcmp(key, "driver_version") == 0 ? rp_strdup("nvidia.version") : rp_asprintf("gpu.%s", key);
            for (char *p = path; *p; p++)
                *p = *p == '.' ? RP_FIELD_SEPARATOR : *p;
            for (char *end = path; json_is_object(v) && (end = strchr(end + 1, RP_FIELD_SEPARATOR));) {
                *end = 0;
                use(path, 0);
                *end = RP_FIELD_SEPARATOR;
            }
            if (json_is_object(v))
                use(path, 1);
        }
    }
    globfree(&g);
}

static void use_capture(const char *root)
{
    struct rp_capture_opts o = {.root = root};
    struct rp_err err;
    RP_JSON *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    use_all(json_object_get(env, "probes"), "");
}

/* What neither a recorded nor a played machine can say: CUDA's own values, other launchers. */
static const char *const elsewhere[] = {
    "gpu/cuda_devices", "gpu/cuda_driver_version",   "gpu/cuda_runtime_version",  "gpu/nccl_version",
    "gpu/nvml_library", "gpu/devices/gpu0/sm_count", "gpu/devices/gpu0/l2_cache", "gpu/devices/gpu0/memory_bus_width",
    "jobs/pbs/queue",   "jobs/open_mpi/slots",       "jobs/open_mpi/version"};

TEST(every_value_has_a_row_and_every_row_a_value)
{
    int rows = 0;
    use_hosts();
    use_played();
    use_capture(host_tree("h100_x8"));
    use_capture("/");
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        RP_FREE char *path = rp_strdup(elsewhere[i]);
        for (char *p = path; *p; p++)
            *p = *p == '/' ? RP_FIELD_SEPARATOR : *p;
        use(path, 1);
    }
    for (const struct rp_field *f = rp_fields; f->pattern; f++, rows++) {
        CHECK(rows < ROWS_MAX && used[rows], "%s describes no value of any machine", f->pattern);
        CHECK(*f->meaning && *f->source && (f->impact == RP_IMPACT_NONE || *f->why), "%s has an empty column",
              f->pattern);
        for (const struct rp_field *other = rp_fields; other < f; other++)
            CHECK(strcmp(other->pattern, f->pattern) != 0, "%s has two rows", f->pattern);
    }
    CHECK(values > 3000, "only %d values", values);
}

TEST(patterns)
{
    static const struct {
        const char *pattern, *path;
        char separator;
        int matches;
    } cases[] = {
        {"a.b", "a.b", '.', 1},
        {"a.b", "a.bc", '.', 0},
        {"a.*.c", "a.b.c", '.', 1},
        {"a.*.c", "a.b.d.c", '.', 1},
        {"a.*.c",
         "a\x1f"
         "b.d\x1f"
         "c",
         '\x1f', 1},
        {"a.*.c",
         "a\x1f"
         "b\x1f"
         "d\x1f"
         "c",
         '\x1f', 0},
        {"a.*", "a", '.', 0},
        {"a.x_*", "a\x1fx_1", '\x1f', 1},
        {"a.x_*", "a\x1fy_1", '\x1f', 0},
        {"a.*",
         "a\x1f"
         "b\x1f"
         "c",
         '\x1f', 0},
        {"*", "", '.', 1},
        {"a.*b",
         "a\x1f"
         "abab",
         '\x1f', 1},
        {"a.b", "a.b", '\x1f', 0},
        {"*ab*", "xaab.y", '.', 1},
        {"a.*x*",
         "a\x1f"
         "xyx",
         '\x1f', 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(rp_field_matches(cases[i].pattern, cases[i].path, cases[i].separator) == cases[i].matches,
              "'%s' and '%s'", cases[i].pattern, cases[i].path);
    CHECK_STR(rp_field_find("gpu.devices.gpu3.clock_sm", '.')->pattern, "gpu.devices.*.clock_sm");
    CHECK_STR(rp_field_find("gpu.devices.gpu3.throttled_by_moon", '.')->pattern, "gpu.devices.*.throttled_by_*");
    CHECK_STR(rp_field_find("cuda\x1flibraries\x1flibnccl.so.2\x1fversion", '\x1f')->pattern,
              "cuda.libraries.*.version");
    CHECK(!rp_field_find("gpu.nonsense", '.') && !rp_field_find("", '.'), "a row for nothing");
}

/* ---- comparing ---- */

#define OK(value) "{\"state\": \"ok\", \"value\": " value ", \"source\": \"s\"}"
#define NOT(state) "{\"state\": \"" state "\", \"value\": null, \"source\": \"s\"}"
#define HASH(digit) "\"sha256:" digit digit digit digit digit digit digit digit "\""
#define EIGHT "01234567"

static json_t *document(const char *salt, const char *probes)
{
    struct rp_err err;
    RP_FREE char *text = rp_asprintf("{\"salt\": \"%s\", \"identified\": false, \"probes\": {%s}}", salt, probes);
    json_t *j = rp_json_parse(text, strlen(text), "document", &err);
    CHECK(j != NULL, "%s", err.msg);
    return j;
}

/* "different: field impact; ...\nequal 1" of two documents */
static char *verdict(const char *salt, const char *a, const char *other_salt, const char *b)
{
    struct rp_err err = {0};
    RP_BUF out = {0};
    RP_CAPTURE_COMPARISON c = {0};
    RP_JSON *one = document(salt, a), *other = document(other_salt, b);
    if (rp_capture_compare(&c, one, other, &err) < 0)
        return rp_asprintf("error %d: %s", err.code, err.msg);
    const struct {
        const char *name;
        const struct rp_difference *list;
        int64_t n;
    } lists[] = {{"different", c.different, c.different_n},
                 {"one_side", c.one_side, c.one_side_n},
                 {"not_comparable", c.not_comparable, c.not_comparable_n}};
    rp_buf_puts(&out, "");
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < lists[i].n; k++)
            rp_buf_printf(&out, "%s %s %s%s; ", lists[i].name, lists[i].list[k].field, lists[i].list[k].impact,
                          lists[i].list[k].varies ? " now" : "");
    for (int64_t k = 0; k < c.unknown_n; k++)
        rp_buf_printf(&out, "unknown %s; ", c.unknown[k]);
    for (int64_t k = 0; k < c.not_captured_n; k++)
        rp_buf_printf(&out, "not_captured %s; ", c.not_captured[k]);
    rp_buf_printf(&out, "equal %d absent %d", (int)c.equal, (int)c.absent);
    return rp_buf_take(&out);
}

static void check_verdict(int line, const char *expected, const char *salt, const char *a, const char *other_salt,
                          const char *b)
{
    RP_FREE char *text = verdict(salt, a, other_salt, b);
    CHECK(strcmp(text, expected) == 0, "line %d: '%s', expected '%s'", line, text, expected);
}
#define VERDICT(expected, a, b) check_verdict(__LINE__, expected, "1", a, "1", b)

TEST(differences_are_graded)
{
    VERDICT("equal 2 absent 0", "\"cpu\": {\"cores\": " OK("8") ", \"model\": " OK("\"x\"") "}",
            "\"cpu\": {\"model\": " OK("\"x\"") ", \"cores\": " OK("8.0") "}");
    VERDICT("different cpu.cores high; equal 0 absent 0", "\"cpu\": {\"cores\": " OK("8") "}",
            "\"cpu\": {\"cores\": " OK("9") "}");
    VERDICT("different kernel.load_1min medium now; different kernel.unheard_of medium; equal 0 absent 0",
            "\"kernel\": {\"load_1min\": " OK("1.5") ", \"unheard_of\": " OK("1") "}",
            "\"kernel\": {\"load_1min\": " OK("2.5") ", \"unheard_of\": " OK("2") "}");
    VERDICT("equal 1 absent 0", "\"cpu\": {\"flags\": " OK("[\"a\", \"b\", \"b\"]") "}",
            "\"cpu\": {\"flags\": " OK("[\"b\", \"a\"]") "}");
    VERDICT("different cpu.flags high; equal 0 absent 0", "\"cpu\": {\"flags\": " OK("[\"a\"]") "}",
            "\"cpu\": {\"flags\": " OK("[\"a\", \"c\"]") "}");
    VERDICT("different topology.matrix.rows.GPU0 high; equal 0 absent 0",
            "\"topology\": {\"matrix\": {\"rows\": {\"GPU0\": " OK("[\"X\", \"NV1\", \"SYS\"]") "}}}",
            "\"topology\": {\"matrix\": {\"rows\": {\"GPU0\": " OK("[\"X\", \"SYS\", \"NV1\"]") "}}}");
}

#define IN(value, unit) "{\"state\": \"ok\", \"value\": " value ", \"unit\": \"" unit "\", \"source\": \"s\"}"

TEST(what_makes_no_difference)
{
    VERDICT("equal 1 absent 0", "\"memory\": {\"total\": " IN("1000000", "B") "}",
            "\"memory\": {\"total\": " IN("990001", "B") "}");
    VERDICT("different memory.total medium; equal 0 absent 0", "\"memory\": {\"total\": " IN("1000000", "B") "}",
            "\"memory\": {\"total\": " IN("989999", "B") "}");
    VERDICT("different memory.swap_total low; equal 0 absent 0", "\"memory\": {\"swap_total\": " IN("1000000", "B") "}",
            "\"memory\": {\"swap_total\": " IN("999999", "B") "}");
    VERDICT("different memory.swap_total low; equal 0 absent 0", "\"memory\": {\"swap_total\": " IN("1", "B") "}",
            "\"memory\": {\"swap_total\": " IN("1", "KiB") "}");
    VERDICT("equal 1 absent 0", "\"container\": {\"cpu_limit\": " OK("\"max\"") "}",
            "\"container\": {\"cpu_limit\": " NOT("absent") "}");
    VERDICT("one_side container.cpu_limit high; equal 0 absent 0", "\"container\": {\"cpu_limit\": " OK("\"max\"") "}",
            "\"container\": {\"cpu_limit\": " NOT("denied") "}");
    VERDICT("different container.cpu_limit high; equal 0 absent 0", "\"container\": {\"cpu_limit\": " OK("2.5") "}",
            "\"container\": {\"cpu_limit\": " NOT("absent") "}");
}

/* What a bundle lists of its two captures is recomputed from them by every later version. */
TEST(changes_of_a_run_know_no_tolerance)
{
    static const char before[] =
        "\"memory\": {\"total\": " IN("1000000", "B") "}, \"container\": {\"cpu_limit\": " OK("\"max\"") "}";
    static const char after[] =
        "\"memory\": {\"total\": " IN("999999", "B") "}, \"container\": {\"cpu_limit\": " NOT("absent") "}";
    struct rp_err err;
    RP_CAPTURE_COMPARISON c = {0};
    RP_JSON *a = document("1", before), *b = document("1", after);
    CHECK(rp_capture_changes(&c, a, b, &err) == 0 && c.different_n == 2, "%d changes", (int)c.different_n);
}

TEST(cells_of_the_matrix_that_differ)
{
#define MATRIX(columns, row)                                                                                           \
    "\"topology\": {\"matrix\": {\"columns\": " OK(columns) ", \"rows\": {\"GPU0\": " OK(row) "}}}"
    static const char a[] = MATRIX("[\"GPU0\", \"GPU1\", \"GPU2\"]", "[\"X\", \"NV1\", \"NV2\"]");
    static const char b[] = MATRIX("[\"GPU0\", \"GPU1\", \"GPU2\"]", "[\"X\", \"NV2\", \"NV1\"]");
    static const char other[] = MATRIX("[\"GPU0\", \"GPU2\", \"GPU1\"]", "[\"X\", \"NV2\", \"NV1\"]");
    struct rp_err err;
    RP_BUF text = {0};
    RP_CAPTURE_COMPARISON turned = {0}, moved = {0};
    RP_JSON *one = document("1", a), *two = document("1", b), *three = document("1", other);
    CHECK(rp_capture_compare(&turned, one, two, &err) == 0 && rp_capture_compare(&moved, one, three, &err) == 0, "%s",
          err.msg);
    RP_JSON *d = rp_object_json(turned.different, &rp_type_difference);
    rp_json_write_line(&text, json_object_get(d, "cells"));
    text.data[strcspn(text.data, "\n")] = 0;
    CHECK_STR(text.data,
              "[{\"a\":\"NV1\",\"b\":\"NV2\",\"to\":\"GPU1\"},{\"a\":\"NV2\",\"b\":\"NV1\",\"to\":\"GPU2\"}]");
    CHECK(moved.different_n == 2, "the columns differ too");
    CHECK(!moved.different[1].cells_n, "cells of other columns");
}

TEST(what_is_not_known_is_not_called_equal)
{
    VERDICT("unknown cpu.a; unknown cpu.b; equal 0 absent 1",
            "\"cpu\": {\"a\": " NOT("denied") ", \"b\": " NOT("error") ", \"c\": " NOT("absent") "}",
            "\"cpu\": {\"a\": " NOT("denied") ", \"b\": " NOT("absent") ", \"c\": " NOT("absent") "}");
    VERDICT("different cpu.cores high; one_side cpu.model high; one_side cpu.sockets high; equal 0 absent 0",
            "\"cpu\": {\"cores\": " OK("1") ", \"model\": " OK("\"m\"") ", \"sockets\": " OK("2") "}",
            "\"cpu\": {\"cores\": " NOT("absent") ", \"model\": " NOT("denied") "}");
    VERDICT("different environment.NCCL_ALGO high; equal 0 absent 0",
            "\"environment\": {\"NCCL_ALGO\": " OK("\"Ring\"") "}", "\"environment\": {}");
    VERDICT("different environment.CUDA_VISIBLE_DEVICES high; one_side jobs.slurm.cpus_per_task high; equal 0 absent 0",
            "\"environment\": {\"CUDA_VISIBLE_DEVICES\": " OK(
                "\"0\"") "}, \"jobs\": {\"slurm\": {\"cpus_per_task\": " OK("1") "}}",
            "\"environment\": {}, \"jobs\": {\"slurm\": {}}");
    VERDICT("not_captured cpu; not_captured git; equal 0 absent 0", "\"cpu\": {\"cores\": " OK("1") "}",
            "\"git\": {\"commit\": " OK("\"c\"") "}");
    /* things and groups that one side has */
    VERDICT("different gpu.devices.gpu1 high; equal 1 absent 0",
            "\"gpu\": {\"devices\": {\"gpu0\": {\"name\": " OK("\"n\"") "}}}",
            "\"gpu\": {\"devices\": {\"gpu0\": {\"name\": " OK("\"n\"") "}, \"gpu1\": {\"name\": " OK("\"n\"") "}}}");
    VERDICT("different rdma.devices low; equal 0 absent 0", "\"rdma\": {\"devices\": " NOT("absent") "}",
            "\"rdma\": {\"devices\": {\"mlx5_0\": {\"type\": " OK("\"t\"") "}}}");
    VERDICT("one_side rdma.devices low; equal 0 absent 0", "\"rdma\": {\"devices\": " NOT("denied") "}",
            "\"rdma\": {\"devices\": {\"mlx5_0\": {\"type\": " OK("\"t\"") "}}}");
    VERDICT("equal 0 absent 1", "\"rdma\": {\"devices\": " NOT("absent") "}",
            "\"rdma\": {\"devices\": {\"mlx5_0\": {\"type\": " NOT("absent") "}}}");
}

TEST(hidden_values_are_compared_under_one_salt_only)
{
    static const char a[] =
        "\"host\": {\"hostname\": " OK(HASH(EIGHT)) ", \"board\": " OK("\"b\"") ", \"boot_id\": " OK(HASH(EIGHT)) "}";
    static const char b[] = "\"host\": {\"hostname\": " OK(HASH("89abcdef")) ", \"board\": " OK(
        "\"c\"") ", \"boot_id\": " OK(HASH(EIGHT)) "}";
    VERDICT("different host.board medium; different host.hostname none; equal 1 absent 0", a, b);
    check_verdict(__LINE__, "different host.board medium; not_comparable host.hostname none; equal 1 absent 0", "1", a,
                  "2", b);
    check_verdict(
        __LINE__, "not_comparable container.cgroup none; equal 0 absent 0", "1",
        "\"container\": {\"cgroup\": " OK("\"/pod/sha256:" EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT "\"") "}",
        "2", "\"container\": {\"cgroup\": " OK("\"/\"") "}");
    /* names of network interfaces, as values and as names of groups */
    static const char c[] = "\"network\": {\"default_interface\": " OK(
        "\"if-0123456789ab\"") ", \"interfaces\": {\"if-0123456789ab\": "
                               "{\"mtu\": " OK("1500") "}, \"eth0\": {\"mtu\": " OK("1500") "}}}";
    static const char d[] =
        "\"network\": {\"default_interface\": " OK("\"if-ba9876543210\"") ", \"interfaces\": {\"eth0\": "
                                                                          "{\"mtu\": " OK("1500") "}}}";
    VERDICT(
        "different network.default_interface low; different network.interfaces.if-0123456789ab low; equal 1 absent 0",
        c, d);
    check_verdict(
        __LINE__,
        "not_comparable network.default_interface low; not_comparable network.interfaces.if-0123456789ab low; "
        "equal 1 absent 0",
        "1", c, "2", d);
}

TEST(names_that_no_capture_has)
{
    RP_BUF name = {0};
    for (int i = 0; i < 300; i++)
        rp_buf_puts(&name, "abcd");
    RP_FREE char *a = rp_asprintf("\"cpu\": {\"%s\": " OK("1") "}", name.data);
    RP_FREE char *text = verdict("1", a, "1", "\"cpu\": {}");
    SAID(text);
    VERDICT("different cpu.a\x01"
            "b medium; equal 0 absent 0",
            "\"cpu\": {\"a\\u0001b\": " OK("1") "}", "\"cpu\": {\"a\\u0001b\": " OK("2") "}");
}

TEST(changes_of_a_run_are_single_values)
{
    struct rp_err err;
    RP_BUF text = {0};
    RP_JSON *before =
        document("1", "\"gpu\": {\"devices\": {\"gpu0\": {\"name\": " OK("\"n\"") ", \"power_limit\": " OK(
                          "300") "}}, \"worker\": " OK("\"present\"") "}");
    RP_JSON *after = document("1", "\"gpu\": {\"worker\": " NOT("error") "}"), *all = NULL;
    RP_CAPTURE_COMPARISON list = {0}, none = {0};
    CHECK(rp_capture_changes(&list, before, after, &err) == 0 && list.different_n == 3, "%d changes",
          (int)list.different_n);
    all = rp_object_json(&list, &rp_type_capture_comparison);
    rp_json_write_line(&text, all);
    CHECK(strstr(text.data,
                 "{\"a\":{\"state\":\"ok\",\"value\":300},\"b\":null,\"field\":\"gpu.devices.gpu0.power_limit\","
                 "\"impact\":\"high\","),
          "%s", text.data);
    CHECK(rp_capture_changes(&none, before, before, &err) == 0 && none.different_n == 0,
          "a document differs from itself");
}
