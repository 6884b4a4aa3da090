/* The nvml probe against tests/fake/nvml.c: machines as they are expected (RP_UPDATE=1 writes tests/fake/expected), a
 * driver that fails in every way, and one that answers nonsense. Each test plays in a child process, since only one
 * libnvidia-ml.so.1 fits into one. */
/* exhaustive */
#include "base/json.h"
#include "bundle/schema.h"
#include "gpu/gpu.h"
#include "tests/unit/host_tree.h"
#include "tests/unit/tap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern json_t *rp_gpu_nvml(void) __attribute__((weak)); /* a build without CUDA=1 has no such function */

#define MACHINES "tests/fake/"

/* ---- playing ---- */

static void load_fake(int age)
{
    const char *build = getenv("BUILD");
    RP_FREE char *path = rp_asprintf("%s/fake/%d/libnvidia-ml.so.1", build ? build : "build", age);
    CHECK(dlopen(path, RTLD_NOW) != NULL, "%s", dlerror()); /* it has the name that the probe will ask for */
}

static json_t *play_file(const char *path)
{
    setenv("RP_FAKE_NVML", path, 1);
    return rp_gpu_nvml();
}

static json_t *play_text(const char *text)
{
    char path[] = "/tmp/fake-nvml.XXXXXX";
    struct rp_err err;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0 && rp_write_file(path, text, strlen(text), 0600, &err) == 0);
    json_t *values = play_file(path);
    unlink(path);
    return values;
}

static char *machine_text(const char *machine)
{
    RP_BUF text = {0};
    struct rp_err err;
    RP_FREE char *path = rp_asprintf(MACHINES "%s.txt", machine);
    CHECK(rp_read_file(&text, path, 1 << 20, &err) == 0, "%s", err.msg);
    return rp_buf_take(&text);
}

static void in_child(void (*run)(const char *), const char *machine)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&tap_failures, 0);
        run(machine);
        exit(atomic_load(&tap_failures) ? 1 : 0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(status == 0, "%s: status %d", machine, status);
}

/* ---- looking ---- */

/* Every value under its path, like devices.gpu0.name. */
static void flatten(json_t *out, const char *prefix, json_t *group)
{
    const char *name;
    json_t *child;
    json_object_foreach (group, name, child) {
        RP_FREE char *path = rp_asprintf("%s%s%s", prefix, *prefix ? "." : "", name);
        if (json_is_string(json_object_get(child, "state")))
            json_object_set(out, path, child);
        else
            flatten(out, path, child);
    }
}

static json_t *flat(json_t *values)
{
    json_t *out = json_object();
    flatten(out, "", values);
    return out;
}

static const char *member(json_t *flat_values, const char *path, const char *field)
{
    const char *text = json_string_value(json_object_get(json_object_get(flat_values, path), field));
    return text ? text : "";
}

/* The values are what the schema of the environment document says, once the parent has hidden what is to be hidden. */
static void check_shape(json_t *values, const char *what)
{
    struct rp_err err = {0};
    RP_JSON *copy = json_deep_copy(values), *all = flat(copy);
    const struct rp_schema *schema = rp_schema_load("env", &err);
    const char *path;
    json_t *leaf;
    json_object_foreach (all, path, leaf) {
        json_t *hide = json_object_get(leaf, "hide");
        CHECK(!hide || json_is_true(hide));
        json_object_del(leaf, "hide");
    }
    RP_JSON *env =
        json_pack("{s:s, s:s, s:s, s:b, s:{s:O}}", "schema", "repro-env/1", "captured_at", "2020-01-01T00:00:00Z",
                  "salt", "000102030405060708090a0b0c0d0e0f", "identified", 0, "probes", "gpu", copy);
    CHECK(schema && env && rp_schema_check(schema, env, "values", &err) == 0, "%s: %s", what, err.msg);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One line per value. Of gpu1, gpu2, ... how many values, and those that differ from gpu0's. */
static void write_lines(struct rp_buf *out, json_t *devices, json_t *all)
{
    const char *device;
    json_t *values;
    rp_buf_puts(out, "{\n");
    json_object_foreach (devices, device, values) {
        RP_JSON *of_one = flat(values);
        rp_buf_printf(out, "%s\"values of %s\": %zu", out->size > 2 ? ",\n" : "", device, json_object_size(of_one));
    }
    size_t n = json_object_size(all), i = 0;
    const char **paths = rp_alloc((n + 1) * sizeof *paths), *path;
    json_t *leaf;
    json_object_foreach (all, path, leaf)
        paths[i++] = path;
    qsort(paths, n, sizeof *paths, by_path);
    for (i = 0; i < n; i++) {
        unsigned gpu = 0;
        char rest[200] = "", same[240];
        RP_BUF line = {0};
        leaf = json_object_get(all, paths[i]);
        if (sscanf(paths[i], "devices.gpu%u.%199s", &gpu, rest) == 2 && gpu > 0) {
            snprintf(same, sizeof same, "devices.gpu0.%s", rest);
            if (json_equal(json_object_get(all, same), leaf))
                continue;
        }
        rp_json_write_line(&line, leaf);
        rp_buf_printf(out, ",\n\"%s\": %.*s", paths[i], (int)line.size - 1, line.data);
    }
    rp_buf_puts(out, "\n}\n");
    free(paths);
}

static void compare(const char *machine)
{
    RP_FREE char *text = machine_text(machine), *path = rp_asprintf(MACHINES "expected/%s.json", machine);
    RP_BUF got = {0};
    load_fake(strstr(text, "Version 440.") ? 440 : 570);
    RP_FREE char *file = rp_asprintf(MACHINES "%s.txt", machine);
    RP_JSON *values = play_file(file);
    check_shape(values, machine);
    CHECK(strstr(json_string_value(json_object_get(json_object_get(values, "nvml_library"), "value")),
                 "/libnvidia-ml.so.1"));
    json_object_del(values, "nvml_library"); /* where the build is */
    RP_JSON *all = flat(values);
    write_lines(&got, json_object_get(values, "devices"), all);
    golden(path, &got);
}

TEST(machines)
{
    static const char *const names[] = {"v100_sxm2_8", "titan_v_8", "h100_8", "mig_1"};
    if (!rp_gpu_nvml)
        SKIP("this build has no GPU worker (make CUDA=1)");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        in_child(compare, names[i]);
}

/* ---- every error code of every function ---- */

static const char *expected_state(int code)
{
    return code == 3 || code == 13 || code == 25 || code == 26 ? "absent" : code == 4 ? "denied" : "error";
}

/* The name without _v2, _v3 */
static void plain_name(char out[80], const char *symbol)
{
    size_t n = strlen(symbol);
    snprintf(out, 80, "%.*s", (int)(n > 3 && strncmp(symbol + n - 3, "_v", 2) == 0 ? n - 3 : n), symbol);
}

/* What is known although `function` fails must be what is known when it does not, and what hangs on it is in the state
 * of the code. */
static int check_failure(json_t *before, const char *base, const char *function, int code)
{
    RP_FREE char *text = rp_asprintf("%s* %s !%d\n", base, function, code);
    RP_JSON *values = play_text(text), *all = flat(values);
    int changed = 0;
    const char *path;
    json_t *leaf;
    if (code % 10 == 4)
        check_shape(values, function);
    /* that a device has no links, or no MIG devices, is what these two codes say */
    int none = ((code == 2 || code == 3) && strcmp(function, "nvmlDeviceGetNvLinkState") == 0) ||
               (code == 6 && strcmp(function, "nvmlDeviceGetMigDeviceHandleByIndex") == 0);
    json_object_foreach (all, path, leaf) {
        const char *state = member(all, path, "state"), *source = member(all, path, "source");
        char plain[80];
        plain_name(plain, source);
        json_t *known = json_object_get(before, path);
        int ok = strcmp(state, "ok") == 0;
        changed += !json_equal(leaf, known);
        if (ok && !(none && (strstr(path, "topology") || strstr(path, "mig_count"))))
            CHECK(json_equal(json_object_get(leaf, "value"), json_object_get(known, "value")),
                  "%s fails with %d: made up %s", function, code, path);
        if (!ok && known && strcmp(member(before, path, "state"), "ok") == 0 && strcmp(plain, function) == 0)
            CHECK(strcmp(state, none ? "absent" : expected_state(code)) == 0 ||
                      strstr(member(all, path, "detail"), "every NVLink"),
                  "%s fails with %d: %s is %s", function, code, path, state);
    }
    return changed + (json_object_size(all) != json_object_size(before));
}

static void fail_everywhere(const char *machine)
{
    static const char replaceable[] =
        "nvmlSystemGetConfComputeSettings nvmlDeviceGetGpuFabricInfoV nvmlDeviceGetArchitecture "
        "nvmlDeviceGetCurrentClocksEventReasons";
    int v100 = strcmp(machine, "v100_sxm2_8") == 0, played = 0, turn = 0;
    RP_FREE char *text = machine_text(machine), *base = NULL;
    base = rp_asprintf(
        "%ssystem nvmlDeviceGetCount 2\n%s", text,
        v100 ? "gpu0 links gpu1 gpu1\ngpu1 links gpu0 gpu0\n"
             : "gpu* links switch:0000:07:00.0 switch:0000:07:00.0 -\ngpu0 migs 1\nmig0.1 nvmlDeviceGetName MIG\n");
    load_fake(v100 ? 440 : 570);
    RP_JSON *values = play_text(base), *before = flat(values), *functions = json_object();
    const char *path, *function;
    json_t *leaf;
    json_object_foreach (before, path, leaf) {
        char plain[80];
        plain_name(plain, member(before, path, "source"));
        if (strncmp(plain, "nvml", 4) == 0 && strcmp(member(before, path, "state"), "ok") == 0)
            json_object_set_new(functions, plain, json_true());
    }
    json_object_set_new(functions, "nvmlInit", json_true());
    json_object_set_new(functions, "nvmlDeviceGetHandleByIndex", json_true());
    CHECK(json_object_size(functions) >= (v100 ? 40 : 50), "%zu functions", json_object_size(functions));
    json_object_foreach (functions, function, leaf) {
        for (int i = 1; i <= 32; i++) {
            int code = i <= 29   ? i
                       : i == 30 ? 999
                       : i == 31 ? 12345
                                 : -1,
                older = code == 13 || code == 25 || code == 26;
            int special = older || i <= 4 || i == 6; /* these every function has, of the others each a part */
            if ((v100 || !special) && i % 8 != turn % 8 && !tap_long())
                continue;
            int changed = check_failure(before, base, function, code);
            CHECK(changed || (older && strstr(replaceable, function)), "%s fails with %d and nothing changes", function,
                  code);
            played++;
        }
        turn++;
    }
    printf("# %s: %d failures of %zu functions\n", machine, played, json_object_size(functions));
}

TEST(every_error_of_every_function)
{
    if (!rp_gpu_nvml)
        SKIP("this build has no GPU worker (make CUDA=1)");
    in_child(fail_everywhere, "h100_8");
    in_child(fail_everywhere, "v100_sxm2_8");
}

static void fail_in_turn(const char *machine)
{
    load_fake(570);
    RP_FREE char *file = rp_asprintf(MACHINES "%s.txt", machine);
    for (int i = 0; i < 31; i++) { /* the turns go on, so that every call gets every code */
        RP_JSON *values = play_file(file), *all = flat(values);
        const char *path;
        json_t *leaf;
        check_shape(values, machine);
        CHECK(json_object_size(json_object_get(values, "devices")) == 2);
        json_object_foreach(all, path, leaf)
            CHECK(strcmp(path, "count") == 0 || strcmp(path, "nvml_library") == 0 ||
                      strcmp(member(all, path, "state"), "ok") != 0,
                  "%s is known", path);
    }
}

static void no_driver(const char *machine)
{
    load_fake(570);
    RP_JSON *values = play_file("/nonexistent"), *all = flat(values);
    (void)machine;
    check_shape(values, "no driver");
    CHECK_STR(member(all, "count", "state"), "error");
    CHECK_STR(member(all, "count", "source"), "nvmlInit_v2");
    CHECK(strstr(member(all, "driver_version", "detail"), "error 9: "), "%s", member(all, "driver_version", "detail"));
    RP_JSON *mismatch = play_file(MACHINES "titan_v_8.txt"), *flat_mismatch = flat(mismatch);
    CHECK(strstr(member(flat_mismatch, "count", "detail"), "error 18: "), "%s",
          member(flat_mismatch, "count", "detail"));
}

static void no_library(const char *machine)
{
    RP_JSON *values = rp_gpu_nvml(), *all = flat(values);
    (void)machine;
    if (strcmp(member(all, "nvml_library", "state"), "ok") == 0)
        return; /* a machine with a driver */
    check_shape(values, "no library");
    CHECK_STR(member(all, "count", "state"), "absent");
    CHECK(strstr(member(all, "driver_version", "detail"), "libnvidia-ml.so.1"), "%s",
          member(all, "driver_version", "detail"));
}

TEST(nothing_works)
{
    if (!rp_gpu_nvml)
        SKIP("this build has no GPU worker (make CUDA=1)");
    in_child(fail_in_turn, "errors");
    in_child(no_driver, "");
    in_child(no_library, "");
}

/* ---- nonsense ---- */

static void nonsense(const char *machine)
{
    static const char *const cases[][4] = {
        /* line, value, state, text or a part of the detail */
        /* no device has the address: a switch */
        {"gpu* nvmlDeviceGetName a\xff\xfe", "name", "error", NULL},
        {"gpu* nvmlDeviceGetSerial a\tb\x01", "serial", "error", NULL},
        {"gpu* nvmlDeviceGetEccMode 7 1", "ecc_mode", "error", "answer 7"},
        {"gpu* nvmlDeviceGetEccMode 1 7", "ecc_mode", "ok", "enabled"},
        {"gpu* nvmlDeviceGetArchitecture 99", "architecture", "error", NULL},
        {"gpu* nvmlDeviceGetArchitecture 4294967295", "architecture", "absent", NULL},
        {"gpu* nvmlDeviceGetCudaComputeCapability -1 0", "compute_capability", "absent", NULL},
        {"gpu* nvmlDeviceGetPerformanceState 32", "performance_state", "absent", NULL},
        {"gpu* nvmlDeviceGetPowerUsage 4294967295", "power_draw", "absent", NULL},
        {"gpu* nvmlDeviceGetTotalEnergyConsumption 18446744073709551615", "energy", "absent", NULL},
        {"gpu* nvmlDeviceGetTotalEnergyConsumption 18446744073709551614", "energy", "error", NULL},
        {"gpu* nvmlDeviceGetMemoryInfo 18446744073709551615 1 1", "memory_total", "absent", NULL},
        {"gpu* nvmlDeviceGetPciInfo ffff:fff:00.0 0:0", "pci_address", "absent", NULL},
        {"gpu* nvmlDeviceGetPciInfo 0001:0a:1f.0 10de:ffff", "pci_address", "ok", "0001:0a:1f.0"},
        {"gpu* nvmlDeviceGetP2PStatus 77", "p2p.gpu1", "error", NULL},
        {"gpu* nvmlDeviceGetNvLinkState 3", "nvlinks_active", "error", NULL},
        {"gpu* nvmlDeviceGetNvLinkState 3", "topology.gpu1", "error", NULL},
        {"gpu* links - -\ngpu* ancestors 60 60", "topology.gpu1", "error", "answer 6"},
        {"gpu* links - -\ngpu* ancestors 15 15", "topology.gpu1", "error", NULL},
        {"gpu* links - -\ngpu* ancestors 20 20", "topology.gpu1", "ok", "PXB"},
        {"gpu* nvmlDeviceGetNvLinkRemoteDeviceType 255", "nvlinks.link0.remote_type", "absent", NULL},
        {"gpu* nvmlDeviceGetNvLinkRemoteDeviceType 255", "topology.gpu1", "ok", "NV18"},
        {"gpu* nvmlDeviceGetNvLinkRemoteDeviceType 255\ngpu* nvmlDeviceGetP2PStatus/1/2 5", "topology.gpu1", "ok",
         "NODE"},
        {"gpu* nvmlDeviceGetNvLinkRemoteDeviceType 255\ngpu* nvmlDeviceGetP2PStatus/1/2 !999", "topology.gpu1", "error",
         NULL},
        {"gpu1 links switch:0000:07:00.0 - switch:0000:07:00.0", "topology.gpu1", "ok", "NV2"},
        {"gpu0 links gpu1 gpu1 -\ngpu1 links gpu0 gpu0 -", "topology.gpu1", "ok", "NV2"},
        {"* nvmlDeviceGetNvLinkRemoteDeviceType !13\n* nvmlDeviceGetNvLinkRemotePciInfo ffffffff:ffff:ff.0",
         "topology.gpu1", "ok", "NV18"},
        {"* nvmlDeviceGetNvLinkRemotePciInfo ffffffff:ffff:ff.0", "nvlinks.link17.remote_pci", "ok", "not_visible"},
        {"* nvmlDeviceGetNvLinkState !2", "nvlinks_active", "absent", NULL},
        {"* nvmlDeviceGetNvLinkState !2", "topology.gpu1", "ok", "NODE"},
        {"gpu1 nvmlDeviceGetNvLinkState !999", "topology.gpu1", "error", NULL},
        {"gpu1 nvmlDeviceGetHandleByIndex !15", "topology.gpu1", "error", "error 15: "},
        {"gpu0 nvmlDeviceGetHandleByIndex !4", "name", "denied", NULL},
        {"gpu* nvmlDeviceGetCurrentClocks* 1024", "throttle_reasons", "ok", NULL},
        {"gpu* nvmlDeviceGetComputeRunningProcesses 70000", "processes", "error", NULL},
        {"gpu* nvmlDeviceGetComputeRunningProcesses 5000", "processes", "ok", NULL},
        {"gpu* nvmlDeviceGetRetiredPages 4000000000", "retired_pages_single", "ok", NULL},
        {"gpu* nvmlDeviceGetCpuAffinity 8191", "cpu_affinity", "ok", "8191"},
        {"gpu* nvmlDeviceGetCpuAffinity 0-8191", "cpu_affinity", "ok", "0-8191"},
        {"gpu* nvmlDeviceGetCpuAffinity 8192", "cpu_affinity", "error", NULL},
        {"gpu* nvmlDeviceGetFieldValues/82 !2", "temperature_memory", "absent", NULL},
        {"gpu* nvmlDeviceGetFieldValues/82 !999", "temperature_memory", "error", NULL},
        {"gpu* nvmlDeviceGetGpuFabricInfo* 1 7 0 1", "fabric_state", "ok", "not_started"},
        {"gpu* nvmlDeviceGetGpuFabricInfo* 1 7 0 1", "fabric_clique", "absent", NULL},
        {"gpu* nvmlDeviceGetGpuFabricInfo* 0 7 0 1", "fabric_state", "absent", NULL},
        {"gpu* nvmlDeviceGetGpuFabricInfoV !25", "fabric_state", "ok", "completed"},
        {"gpu* nvmlDeviceGetGpuFabricInfoV !25", "fabric_problems", "absent", NULL},
        {"system nvmlSystemGetDriverVersion 580.65.06", "clock_sm_application", "absent",
         "answers nvmlDeviceGetApplicationsClock"},
        {"system nvmlSystemGetDriverVersion 580.65.06", "clock_memory_default", "absent", "deprecated: "},
        {"system nvmlSystemGetDriverVersion 580.65.06", "clock_sm_max", "ok", NULL},
        {"gpu* nvmlDeviceGetMemoryInfo* !25", "memory_total", "absent", "every version of nvmlDeviceGetMemoryInfo"},
        {"system nvmlErrorString !crashes not\ngpu* nvmlDeviceGetUUID !999", "uuid", "error", "error 999: "},
        {"system nvmlErrorString a\nb\xff\ngpu* nvmlDeviceGetUUID !999", "uuid", "error", "error 999: a"},
        {"system nvmlErrorString \xff\xfe\ngpu* nvmlDeviceGetUUID !999", "uuid", "error", "error 999: ??"},
    };
    RP_FREE char *base = machine_text(machine);
    load_fake(570);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *c = cases[i];
        RP_FREE char *text = rp_asprintf("%ssystem nvmlDeviceGetCount 2\n%s\n", base, c[0]),
                     *path = rp_asprintf("devices.gpu0.%s", c[1]);
        RP_JSON *values = play_text(text), *all = flat(values);
        check_shape(values, c[0]);
        CHECK(strcmp(member(all, path, "state"), c[2]) == 0, "%s: %s is %s", c[0], c[1], member(all, path, "state"));
        if (c[3] && strcmp(c[2], "ok") == 0)
            CHECK_STR(member(all, path, "value"), c[3]);
        else if (c[3])
            CHECK(strstr(member(all, path, "detail"), c[3]), "%s: '%s'", c[0], member(all, path, "detail"));
    }
    RP_FREE char *many = rp_asprintf("%ssystem nvmlDeviceGetCount 100000\n", base);
    RP_JSON *values = play_text(many), *all = flat(values);
    check_shape(values, "many");
    CHECK_STR(member(all, "count", "state"), "error");
    CHECK(json_object_size(json_object_get(values, "devices")) == 0);
}

TEST(nonsense_answers)
{
    if (!rp_gpu_nvml)
        SKIP("this build has no GPU worker (make CUDA=1)");
    in_child(nonsense, "h100_8");
}
