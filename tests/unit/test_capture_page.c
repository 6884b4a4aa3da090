/* What the page of `capture` says of documents and trees that are made for one line of it, and what becomes of values
 * whose file system is not mounted. Whole pages are compared by test_capture_hosts and test_doctor. */
#include "base/json.h"
#include "capture/capture.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <string.h>

#define OK(value) "{'state': 'ok', 'value': " value ", 'source': 's'}"

/* The page of {"probes": ...} given with ' for ", its lines joined. */
static char *page_of(const char *probes)
{
    RP_BUF page = {0};
    RP_FREE char *text = rp_asprintf("{\"probes\": {%s}}", probes);
    for (char *quote; (quote = strchr(text, '\''));)
        *quote = '"';
    RP_JSON *env = json_loads(text, 0, NULL);
    CHECK(env != NULL, "%s", probes);
    rp_capture_summary(&page, env);
    return rp_buf_take(&page);
}

static void check_line(const char *probes, const char *line, int there)
{
    RP_FREE char *page = page_of(probes);
    CHECK((strstr(page, line) != NULL) == there, "'%s' %s in\n%s", line, there ? "is not" : "is", page);
}

TEST(words_for_people)
{
    check_line("'memory': {'numa_nodes': " OK("'0'") ", 'numa_balancing': " OK("'0'") "}",
               "NUMA         1 node, balancing off\n", 1);
    check_line("'memory': {'numa_nodes': " OK("'0-1,4'") ", 'numa_balancing': " OK("'2'") "}",
               "3 nodes (0-1,4), balancing on\n", 1);
    check_line("'frequency': {'smt_control': " OK("'notsupported'") "}", "SMT not supported\n", 1);
    check_line("'frequency': {'smt_control': " OK("'on'") "}", "SMT on\n", 1);
    /* virtio says 1 whatever the host has */
#define ON(disk)                                                                                                       \
    "'storage': {'workdir': {'filesystem': " OK("'ext4'") ", 'rotational': " OK("1") ", 'disks': " OK("['" disk        \
                                                                                                      "']") "}}"
    check_line(ON("vda"), "spinning", 0);
    check_line(ON("sda"), "ext4, spinning\n", 1);
}

TEST(what_is_missing_has_a_line)
{
    check_line("'gpu': {'nccl_version': " OK("'2.28.9'") "}", "driver       no NVIDIA driver\n", 1);
    check_line("'nvidia': {'version': {'state': 'absent', 'value': null, 'source': 's'}}", "no NVIDIA driver\n", 1);
    check_line("'gpu': {'nccl_version': " OK("'2.28.9'") "}, 'nvidia': {'version': " OK("'570.1'") "}",
               "no NVIDIA driver", 0);
    check_line("'cpu': {}, 'nvidia': {}", "no NVIDIA driver", 0); /* a machine that has nothing to do with GPUs */
    check_line("'rdma': {'count': {'state': 'absent', 'value': null, 'source': 's'}}", "no values of rdma\n", 1);
    check_line("'network': {'interfaces': {'eth0': {'kind': " OK("'ethernet'") ", 'driver': " OK("'virtio_net'") "}}}",
               "network    eth0         ethernet, virtio_net\n", 1);
    check_line(
        "'network': {'default_interface': " OK("'eth0'") ", 'interfaces': {'eth0': {'kind': " OK("'ethernet'") "}}}",
        "eth0         ethernet\n", 1);
    check_line("'network': {'interfaces': {'eth1': {'kind': " OK("'ethernet'") "}}}", "eth1", 0);
}

TEST(repositories_of_which_nothing_is_known)
{
    static const char denied[] = "{'commit': {'state': 'denied', 'value': null, 'source': 's', 'detail': 'not ours'}}";
    static const char absent[] = "{'commit': {'state': 'absent', 'value': null, 'source': 's'}}";
    RP_FREE char *a = rp_asprintf("'git': {'r': %s}", denied), *b = rp_asprintf("'git': {'r': %s}", absent);
    RP_FREE char *here = rp_asprintf("'git': {'workdir': %s}", absent),
                 *ours = rp_asprintf("'git': {'workdir': %s}", denied);
    check_line(a, "sources    r            not ours\n", 1);
    check_line(b, "sources    r            no git repository\n", 1);
    check_line(here, "sources", 0); /* nobody asked for it */
    check_line(ours, "sources    working dir  not ours\n", 1);
    check_line(
        "'git': {'b': {'layout': " OK("'bare'") ", 'commit': {'state': 'absent', 'value': null, 'source': 's'}}}",
        "b            bare, ", 1);
    check_line("'git': {'workdir': {'layout': " OK("'working tree'") ", 'commit': " OK(
                   "'c0ffee'") ", 'submodules_changed': " OK("1") "}}",
               "c0ffee, 1 submodules changed\n", 1);
}

TEST(a_hundred_devices_are_not_shown)
{
    RP_BUF command = {0};
    rp_buf_puts(&command, "'launch': {'command': {'state': 'ok', 'source': 's', 'value': 'docker run --ipc=host");
    for (int i = 0; i < 100; i++)
        rp_buf_printf(&command, " --device=/dev/tty%d", i);
    rp_buf_puts(&command, " IMAGE'}}");
    check_line(command.data, "--device=/dev/tty7 ", 1);
    check_line(command.data, "--device=/dev/tty99", 0);
}

/* ---- file systems that are not mounted ---- */

static json_t *capture(const char *script)
{
    struct rp_capture_opts o = {.root = scratch_new()};
    struct rp_err err = {0};
    RP_FREE char *command = rp_asprintf("cd %s && set -e; %s", o.root, script);
    CHECK(system(command) == 0, "the script failed");
    json_t *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    return env;
}

static const char *state(const json_t *env, const char *probe, const char *name)
{
    const char *s = json_string_value(
        json_object_get(json_object_get(json_object_get(json_object_get(env, "probes"), probe), name), "state"));
    return s ? s : "(none)";
}

TEST(what_a_missing_sys_hides_is_not_absent)
{
    int n;
    RP_BUF page = {0};
    RP_JSON *without = capture("mkdir -p proc; echo 'processor : 0' >proc/cpuinfo; mkdir sys"),
            *with = capture("mkdir -p proc sys/kernel; echo 'processor : 0' >proc/cpuinfo");
    CHECK_STR(state(without, "cpu", "cores"), "denied");
    CHECK_STR(state(without, "cpu", "model_name"), "absent"); /* /proc is there and does not say */
    CHECK_STR(state(with, "cpu", "cores"), "absent");
    CHECK_STR(rp_capture_unseen(json_object_get(without, "probes"), 1, &n), "/sys");
    CHECK(n > 50, "%d values", n);
    rp_capture_unseen(json_object_get(with, "probes"), 1, &n);
    CHECK(n == 0, "%d values", n);
    rp_capture_summary(&page, without);
    CHECK(strstr(page.data, "unknown      /sys is not mounted: "), "%s", page.data);
}

static const char container[] =
    "touch .dockerenv; mkdir -p proc/self dev; printf "
    "'CapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\nSeccomp:\t0\n' >proc/self/status; printf '1 0 0:1 / / rw - "
    "overlay overlay rw\n2 1 0:2 / /proc rw - proc proc rw\n' >proc/self/mountinfo; ";

static json_t *capture_container(const char *script)
{
    RP_FREE char *whole = rp_asprintf("%s%s", container, script);
    return capture(whole);
}

/* What tells --privileged is how /sys is mounted. */
TEST(privileged_without_sys_is_not_known)
{
    RP_JSON *none = capture_container("touch dev/kvm"),
            *unprivileged =
                capture_container("mkdir sys; echo '3 1 0:3 / /sys ro - sysfs sysfs ro' >>proc/self/mountinfo");
    const json_t *launch = json_object_get(json_object_get(none, "probes"), "launch");
    const json_t *known = json_object_get(launch, "known"), *inferred = json_object_get(launch, "inferred");
    CHECK_STR(state(none, "security", "privileged"), "denied");
    CHECK_STR(state(unprivileged, "security", "privileged"), "ok");
    CHECK(json_object_get(known, "device:kvm") && !json_object_get(inferred, "privileged"), "one device");
}

/* One mount more leaves the others what they were; a variable may come from the image. */
TEST(flags_go_by_what_they_are_about)
{
    RP_JSON *env = capture_container(
        "printf '3 1 8:1 /b /b rw - ext4 /dev/x rw\\n4 1 8:1 /a /a rw - ext4 /dev/x rw\\n' >>proc/self/mountinfo; "
        "printf 'OMP_B=2\\0NCCL_DEBUG=1\\0' >proc/self/environ");
    const json_t *launch = json_object_get(json_object_get(env, "probes"), "launch");
    const char *command = json_string_value(json_object_get(json_object_get(launch, "command"), "value"));
    CHECK(json_object_get(json_object_get(launch, "known"), "volume:/a"), "%s", command);
    CHECK(command && strstr(command, ":/a -v HOST:/b ") && !strstr(command, "NCCL_DEBUG"), "%s", command);
}
