/* Doctor on the recorded machines: what it finds on each, byte for byte in expected/doctor.txt (RP_UPDATE=1 writes it);
 * every check both ways; thresholds; documents that say nothing or nonsense. And the pages of machines that
 * test_capture_hosts does not compare: those with GPUs, and those that tests/fake plays. */
#include "base/json.h"
#include "capture/capture.h"
#include "capture/doctor/doctor.h"
#include "capture/value.h"
#include "report/template.h"
#include "tests/unit/host_tree.h"
#include "tests/unit/tap.h"

static const char *const machines[] = {"bare_metal_2s", "broken", "dgx_2s", "docker_limited_cgroup2",
                                       "docker_v100_cgroup1", "epyc_2s_cgroup2", "gh200", "h100_x8", "kubernetes_pod",
                                       "kvm_xeon_cgroup1", "laptop", "laptop_gpu", "no_driver", "titan_v_x8",
                                       "troubled", "v100_sxm2_x8", "wsl2", "wsl2_docker", "jetson", "slurm_cgroup1",
                                       "dgx_spark", "graviton3", "orin_nx", "gb200"};
static const char *const ids[] = {
#define DOCTOR(id, concerns, what) #id,
#include "capture/doctor/doctor.def"
#undef DOCTOR
};
enum { MACHINES = sizeof machines / sizeof *machines, IDS = sizeof ids / sizeof *ids };

static int found_on[IDS], silent_on[IDS];

static const char *member(const json_t *findings, size_t i, const char *name)
{
    const char *text = json_string_value(json_object_get(json_array_get(findings, i), name));
    return text ? text : "";
}

static int has(const json_t *findings, const char *id, const char *severity)
{
    for (size_t i = 0; i < json_array_size(findings); i++)
        if (strcmp(member(findings, i, "check"), id) == 0 &&
            (!severity || strcmp(member(findings, i, "severity"), severity) == 0))
            return 1;
    return 0;
}

static void tally(const json_t *findings)
{
    for (size_t i = 0; i < IDS; i++)
        ++*(has(findings, ids[i], NULL) ? &found_on[i] : &silent_on[i]);
    for (size_t i = 0; i < json_array_size(findings); i++)
        CHECK(*member(findings, i, "value") && *member(findings, i, "remedy") && *member(findings, i, "what"),
              "%s says too little", member(findings, i, "check"));
}

/* What doctor finds in {"probes": ...} given with ' for " */
static json_t *examine(const char *probes)
{
    RP_FREE char *text = rp_asprintf("{\"probes\": %s}", probes);
    for (char *quote; (quote = strchr(text, '\''));)
        *quote = '"';
    RP_JSON *env = json_loads(text, 0, NULL);
    CHECK(env != NULL, "%s", probes);
    RP_FINDINGS found;
    rp_doctor(&found, env);
    RP_JSON *document = rp_object_json(&found, &rp_type_findings);
    return json_incref(json_object_get(document, "findings"));
}

static int stops(const json_t *findings)
{
    RP_FINDINGS found;
    RP_JSON *document = json_pack("{s:O}", "findings", findings);
    rp_object_read(&found, &rp_type_findings, document);
    return rp_doctor_stops(&found);
}

/* Lines of at most 80 columns; the matrix is nvidia-smi's. */
static void check_page(const json_t *env, const char *file)
{
    RP_BUF page = {0};
    rp_capture_summary(&page, env);
    golden(file, &page);
    for (const char *line = rp_buf_text(&page), *end; *line; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        CHECK(end - line <= 80, "%s: a line of %d columns: %.*s", file, (int)(end - line), (int)(end - line), line);
        if (strncmp(line, "document", 8) == 0)
            break;
    }
}

/* test_capture_hosts compares every value of these, and the page. */
static int in_other_test(const char *name)
{
    RP_FREE char *file = rp_asprintf("tests/hosts/%s/expected/cpu.json", name);
    struct stat st;
    return stat(file, &st) == 0;
}

static void check_machine(const char *name)
{
    RP_FREE char *file = rp_asprintf("tests/hosts/%s/expected/doctor.txt", name);
    struct rp_capture_opts o = {.root = host_tree(name), .salt = "000102030405060708090a0b0c0d0e0f"};
    struct rp_err err = {0};
    RP_BUF text = {0};
    RP_JSON *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    RP_FINDINGS found;
    rp_doctor(&found, env);
    RP_JSON *document = rp_object_json(&found, &rp_type_findings);
    tally(json_object_get(document, "findings"));
    rp_show(&text, RP_FILL_TEXT, document, RP_DOCTOR_TEXT);
    golden(file, &text);
    if (!in_other_test(name)) {
        RP_FREE char *page = rp_asprintf("tests/hosts/%s/expected/summary.txt", name);
        json_object_del(json_object_get(env, "probes"), "program"); /* of this build */
        check_page(env, page);
    }
}

/* "here" is what the command tries by itself; no record has it. */
static void check_here(void)
{
    RP_JSON *good =
        examine("{'here': {'key': {'state': 'ok', 'value': 'present'}, 'store': {'state': 'ok', 'value': 'writable'},"
                "'output': {'state': 'ok', 'value': 'writable'}, 'monotonic': {'state': 'ok', 'value': 'yes'},"
                "'launcher': {'state': 'ok', 'value': 'alone'}, 'ssh': {'state': 'ok', 'value': '/usr/bin/ssh'}, "
                "'gpu_worker': {'state': 'ok', 'value': 'yes'}}}");
    RP_JSON *bad = examine(
        "{'here': {'key': {'state': 'ok', 'value': 'Permission denied'}, 'store': {'state': 'ok', 'value': 'No'},"
        "'store_named': {'state': 'ok', 'value': 'yes'}, 'output': {'state': 'ok', 'value': 'Read-only file system'},"
        "'monotonic': {'state': 'ok', 'value': 'no'}, 'launcher': {'state': 'ok', 'value': 'process 1 of 8'},"
        "'ssh': {'state': 'ok', 'value': 'none'}, 'gpu_worker': {'state': 'ok', 'value': 'no'}}}");
    RP_JSON *fresh =
        examine("{'here': {'key': {'state': 'ok', 'value': 'none yet'}, 'store': {'state': 'ok', 'value': 'No'},"
                "'store_named': {'state': 'ok', 'value': 'no'}, 'ssh': {'state': 'ok', 'value': 'REPRO_SSH names no "
                "program'}}}");
    CHECK(json_array_size(good) == 0 && !stops(good), "%zu findings", json_array_size(good));
    CHECK(has(bad, "key", "stop") && has(bad, "store", "stop") && has(bad, "output", "stop") &&
              has(bad, "monotonic", "stop"),
          "stops");
    CHECK(has(bad, "worker", "note") && has(bad, "launcher", "stop") && has(bad, "ssh", "note") &&
              json_array_size(bad) == 7 && stops(bad),
          "%zu findings", json_array_size(bad));
    CHECK(has(fresh, "key", "note") && has(fresh, "store", "note") && has(fresh, "ssh", "note") && !stops(fresh),
          "a first run makes its key");
    tally(good);
    tally(bad);
}

/* A working directory has no recorded tree: its repository is where the test runs. */
static void check_source(void)
{
    static const struct {
        const char *probes, *part; /* NULL: silent */
    } cases[] = {
        {"{'git': {'workdir': {'commit': {'state': 'ok', 'value': '0123456789abcdef'}, 'modified': {'state': 'ok', "
         "'value': 3}}}}",
         "3 files are not as in commit 0123456789ab"},
        {"{'git': {'workdir': {'commit': {'state': 'ok', 'value': '0123456789abcdef'}, 'modified': {'state': 'ok', "
         "'value': 0}}}}",
         NULL},
        {"{'git': {'workdir': {'commit': {'state': 'absent', 'value': null}, 'modified': {'state': 'absent', 'value': "
         "null}}}}",
         NULL},
        {"{'container': {'engine': {'state': 'ok', 'value': 'podman'}, 'image_id': {'state': 'absent', 'value': "
         "null}}}",
         "podman shows no digest"},
        {"{'container': {'engine': {'state': 'ok', 'value': 'docker'}, 'image_id': {'state': 'absent', 'value': "
         "null}}}",
         "docker shows no digest"},
        {"{'container': {'engine': {'state': 'ok', 'value': 'docker'}, 'image_digest': {'state': 'ok', 'value': "
         "'01'}}}",
         NULL},
        {"{'container': {'engine': {'state': 'ok', 'value': 'podman'}, 'image_id': {'state': 'ok', 'value': '01'}}}",
         NULL},
        {"{'container': {'engine': {'state': 'ok', 'value': 'none seen'}}}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_JSON *findings = examine(cases[i].probes);
        CHECK(json_array_size(findings) == (cases[i].part != NULL), "%zu: %zu findings", i, json_array_size(findings));
        CHECK(!cases[i].part || strstr(member(findings, 0, "value"), cases[i].part), "%zu: %s", i,
              member(findings, 0, "value"));
        tally(findings);
    }
}

TEST(every_check_on_recorded_machines)
{
    for (size_t i = 0; i < MACHINES; i++)
        check_machine(machines[i]);
    check_here();
    check_source();
    for (size_t i = 0; i < IDS; i++)
        CHECK(found_on[i] > 0 && silent_on[i] > 0, "%s: found on %d machines, not on %d", ids[i], found_on[i],
              silent_on[i]);
}

/* ---- the machines that tests/fake plays, as the nvml probe sees them ---- */

/* The group of name in group, made if need be. */
static json_t *group_in(json_t *group, const char *name)
{
    if (!json_object_get(group, name))
        json_object_set_new(group, name, json_object());
    return json_object_get(group, name);
}

static void put_at(json_t *group, const char *path, json_t *leaf)
{
    RP_FREE char *copy = rp_strdup(path);
    char *name = copy;
    for (char *dot; (dot = strchr(name, '.')); name = dot + 1) {
        *dot = 0;
        group = group_in(group, name);
    }
    json_object_set(group, name, leaf);
}

/* tests/fake/expected: every value by its path; of later devices those that differ from gpu0's. */
static json_t *played(const char *file)
{
    RP_BUF text = {0};
    struct rp_err err = {0};
    const char *path;
    json_t *leaf, *gpu = json_object();
    CHECK(rp_read_file(&text, file, 1 << 20, &err) == 0, "%s", err.msg);
    RP_JSON *flat = rp_json_parse(text.data, text.size, file, &err);
    json_object_foreach (flat, path, leaf)
        if (strncmp(path, "devices.gpu0.", 13) == 0)
            put_at(gpu, path, leaf);
    json_t *devices = json_object_get(gpu, "devices"), *first = json_object_get(devices, "gpu0");
    json_object_foreach (flat, path, leaf)
        if (strncmp(path, "values of ", 10) == 0 && strcmp(path + 10, "gpu0") != 0)
            json_object_set_new(devices, path + 10, json_deep_copy(first));
    json_object_foreach (flat, path, leaf)
        if (strncmp(path, "values of ", 10) != 0)
            put_at(gpu, path, leaf);
    json_t *env = json_pack("{s:{s:o, s:{s:O}}}", "probes", "gpu", gpu, "nvidia", "version",
                            json_object_get(gpu, "driver_version"));
    json_object_del(gpu, "driver_version"); /* as the probe does */
    return env;
}

TEST(pages_of_played_machines)
{
    static const char *const names[] = {"v100_sxm2_8", "titan_v_8", "h100_8", "mig_1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RP_FREE char *values = rp_asprintf("tests/fake/expected/%s.json", names[i]);
        RP_FREE char *page = rp_asprintf("tests/fake/expected/%s.txt", names[i]);
        RP_JSON *env = played(values);
        check_page(env, page);
    }
}

/* ---- thresholds ---- */

/* One document, and whether the check finds something in it. */
static const struct {
    const char *id, *severity, *probes; /* severity NULL: nothing */
} cases[] = {
    {"visibility", "note",
     "{'cpu': {'cores': {'state': 'denied', 'value': null, 'detail': 'nothing is mounted on /sys'}}}"},
    {"visibility", NULL, "{'cpu': {'cores': {'state': 'denied', 'value': null}}}"},
    {"driver", "note", "{'cuda': {'libraries': {'libcudart.so.12': {}}}}"},
    {"driver", "note", "{'environment': {'CUDA_HOME': {'state': 'ok', 'value': '/usr/local/cuda'}}}"},
    {"driver", NULL, "{'cuda': {'libraries': {'libibverbs.so.1': {}}, 'toolkits': {}}}"},
    {"driver", NULL,
     "{'cuda': {'libraries': {'libcudart.so.12': {}}}, 'nvidia': {'version': {'state': 'ok', 'value': '570.1'}}}"},
    {"shm", "note", "{'limits': {'shm_size': {'state': 'ok', 'value': 1073741823, 'unit': 'B'}}}"},
    {"shm", NULL, "{'limits': {'shm_size': {'state': 'ok', 'value': 1073741824, 'unit': 'B'}}}"},
    {"shm", NULL, "{'limits': {'shm_size': {'state': 'denied', 'value': null}}}"},
    {"quota", "slow",
     "{'cpu': {'allowed': {'state': 'ok', 'value': '0-3'}}, 'container': {'cpu_limit': {'state': 'ok', 'value': "
     "3.5}}}"},
    {"quota", NULL,
     "{'cpu': {'allowed': {'state': 'ok', 'value': '0-3'}}, 'container': {'cpu_limit': {'state': 'ok', 'value': 4}}}"},
    {"quota", NULL,
     "{'cpu': {'allowed': {'state': 'ok', 'value': '0-3'}}, 'container': {'cpu_limit': {'state': 'ok', 'value': "
     "'max'}}}"},
    {"quota", NULL, "{'container': {'cpu_limit': {'state': 'ok', 'value': 4}}}"},
    {"governor", "slow", "{'frequency': {'governor': {'state': 'ok', 'value': 'performance, powersave'}}}"},
    {"governor", NULL,
     "{'frequency': {'governor': {'state': 'ok', 'value': 'powersave'}, 'driver': {'state': 'ok', 'value': "
     "'intel_pstate'}, 'energy_preference': {'state': 'ok', 'value': 'balance_performance'}}}"},
    {"governor", "slow",
     "{'frequency': {'governor': {'state': 'ok', 'value': 'powersave'}, 'driver': {'state': 'ok', 'value': "
     "'intel_pstate'}, 'energy_preference': {'state': 'ok', 'value': 'balance_power'}}}"},
    {"driver_age", "stop", "{'nvidia': {'version': {'state': 'ok', 'value': '525.60.12'}}}"},
    {"driver_age", NULL, "{'nvidia': {'version': {'state': 'ok', 'value': '525.60.13'}}}"},
    {"driver_age", "stop", "{'nvidia': {'version': {'state': 'ok', 'value': '575.1'}}, 'gpu': {'cuda_runtime_version': "
                           "{'state': 'ok', 'value': '13.0'}}}"},
    {"nccl", "slow", "{'gpu': {'nccl_version': {'state': 'ok', 'value': '2.9.9'}}}"},
    {"nccl", NULL, "{'gpu': {'nccl_version': {'state': 'ok', 'value': '2.18.1'}}}"},
    {"nccl", NULL, "{'gpu': {'nccl_version': {'state': 'ok', 'value': '2'}}}"},
    {"load", "slow",
     "{'cpu': {'online': {'state': 'ok', 'value': '0-9'}}, 'kernel': {'load_1min': {'state': 'ok', 'value': 1.01}}}"},
    {"load", NULL,
     "{'cpu': {'online': {'state': 'ok', 'value': '0-9'}}, 'kernel': {'load_1min': {'state': 'ok', 'value': 1.0}}}"},
    {"space", "stop", "{'storage': {'workdir': {'free': {'state': 'ok', 'value': 67108863}}}}"},
    {"space", "note", "{'storage': {'store': {'free': {'state': 'ok', 'value': 67108863}}}}"},
    {"space", NULL, "{'storage': {'workdir': {'free': {'state': 'ok', 'value': 67108864}}}}"},
    {"output", NULL, "{'storage': {'workdir': {'options': {'state': 'ok', 'value': 'root_squash,rw'}}}}"},
    {"memlock", NULL, "{'limits': {'memlock': {'soft': {'state': 'ok', 'value': 65536}}}}"},
    {"gpu_users", NULL, "{'gpu': {'devices': {'gpu0': {'processes': {'state': 'error', 'value': null}}}}}"},
    {"gpu_users", NULL, "{'gpu': {'devices': {'gpu0': {'processes': {'state': 'ok', 'value': 'two'}}}}}"},
    {"nvlink", NULL, "{'gpu': {'devices': {'gpu0': {'nvlinks': {'state': 'absent', 'value': null}}}}}"},
};

TEST(thresholds)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_JSON *findings = examine(cases[i].probes);
        CHECK(has(findings, cases[i].id, cases[i].severity) == (cases[i].severity != NULL), "%s in %s", cases[i].id,
              cases[i].probes);
    }
}

TEST(gpus_of_which_the_same_is_to_be_said_share_a_line)
{
    RP_JSON *some =
        examine("{'gpu': {'devices': {'gpu0': {'persistence': {'state': 'ok', 'value': 'disabled'}}, 'gpu1': {},"
                "'gpu2': {'persistence': {'state': 'ok', 'value': 'disabled'}}}}}");
    RP_JSON *all = examine("{'gpu': {'devices': {'gpu0': {'persistence': {'state': 'ok', 'value': 'disabled'}},"
                           "'gpu1': {'persistence': {'state': 'ok', 'value': 'disabled'}}}}}");
    CHECK(json_array_size(some) == 1 && json_array_size(all) == 1, "%zu, %zu findings", json_array_size(some),
          json_array_size(all));
    SAID(member(some, 0, "value"));
    SAID(member(all, 0, "value"));
}

TEST(nothing_known_is_nothing_found)
{
    static const char *const empty[] = {"{}", "[]", "null",
                                        "{'cpu': [], 'gpu': {'devices': 3}, 'limits': {'memlock': 'x'}}"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        RP_JSON *findings = examine(empty[i]);
        CHECK(json_array_size(findings) == 0 && !stops(findings), "%s: %zu findings", empty[i],
              json_array_size(findings));
    }
}

TEST(versions_compare_by_number)
{
    static const char *const rising[] = {"", "2", "2.4.8", "2.18.1", "2.18.5+cuda12", "10.1"};
    for (size_t i = 0; i + 1 < sizeof rising / sizeof *rising; i++)
        CHECK(rp_compare_versions(rising[i], rising[i + 1]) < 0 && rp_compare_versions(rising[i + 1], rising[i]) > 0,
              "%s", rising[i]);
    CHECK(rp_compare_versions("525.60.13", "525.060.13") == 0, "a zero in front");
}
