/* Recorded and composed machines under tests/hosts: the document and its summary, byte for byte. RP_UPDATE=1 writes the expected files.
 *
 * expected/PROBE.json is what each probe makes of them, expected/summary.txt the page for people.
 */
#include "base/json.h"
#include "capture/capture.h"
#include "tests/unit/env_shape.h"
#include "tests/unit/host_tree.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char salt[] = "000102030405060708090a0b0c0d0e0f";

/* In a child that is nobody, so that mode 000 means what it says also when the tests run as root. */
static json_t *capture_as_nobody(const char *root)
{
    FILE *answer = tmpfile();
    struct rp_err err;
    RP_BUF text = {0};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rp_capture_opts o = {.root = root, .salt = salt};
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(2);
        json_t *env = rp_capture(&o, &err);
        if (!env)
            _exit(3);
        rp_json_write(&text, env);
        _exit(fwrite(text.data, 1, text.size, answer) != text.size || fflush(answer) != 0);
    }
    int status;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %x", root, status);
    rewind(answer);
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, answer)) > 0;)
        rp_buf_add(&text, block, n);
    fclose(answer);
    return rp_json_parse(text.data, text.size, "environment", &err);
}

static void compare(const char *file, const struct rp_buf *seen)
{
    RP_BUF expected = {0};
    struct rp_err err;
    if (getenv("RP_UPDATE")) {
        CHECK(rp_write_file(file, seen->data, seen->size, 0644, &err) == 0, "%s", err.msg);
        return;
    }
    CHECK(rp_read_file(&expected, file, 1 << 20, &err) == 0, "%s", err.msg);
    int same = expected.size == seen->size && memcmp(expected.data, seen->data, seen->size) == 0;
    const char *a = rp_buf_text(&expected), *b = seen->data;
    int line = 1;
    while (!same && *a && *a == *b) {
        line += *a == '\n';
        a++;
        b++;
    }
    CHECK(same, "%s differs in line %d: expected '%.60s', got '%.60s'", file, line, a, b);
}

/* Values of the time and of this build are not the recorded machine's. */
static void drop_volatile(json_t *env)
{
    json_object_set_new(env, "captured_at", json_string("2026-01-01T00:00:00Z"));
    json_t *program = json_object_get(json_object_get(env, "probes"), "program"), *value;
    const char *name;
    void *next;
    json_object_foreach_safe (program, next, name, value)
        if (strncmp(json_string_value(json_object_get(value, "source")), "/proc", 5) != 0)
            json_object_del(program, name);
}

static void check_host(const char *name, struct env_counts *c)
{
    char root[] = "/tmp/rp-host-XXXXXX";
    RP_FREE char *tree = rp_asprintf("tests/hosts/%s/tree.txt", name), *page = rp_asprintf("tests/hosts/%s/expected/summary.txt", name);
    RP_BUF summary = {0};
    const char *probe;
    json_t *values;
    CHECK(mkdtemp(root) && chmod(root, 0755) == 0, "no scratch directory");
    host_tree_unpack(root, tree);
    json_t *env = capture_as_nobody(root);
    const char *fault = env_fault(env, c);
    CHECK(!fault, "%s: %s", name, fault);
    if (env) {
        drop_volatile(env);
        json_object_foreach (json_object_get(env, "probes"), probe, values) {
            RP_FREE char *file = rp_asprintf("tests/hosts/%s/expected/%s.json", name, probe);
            RP_BUF text = {0};
            rp_json_write(&text, values);
            compare(file, &text);
        }
        rp_capture_summary(&summary, env);
        compare(page, &summary);
    }
    json_decref(env);
    host_tree_remove(root);
}

TEST(virtual_machine_cgroup_1)
{
    struct env_counts c;
    check_host("kvm_xeon_cgroup1", &c);
    CHECK(c.denied == 0 && c.error == 0 && c.ok > 60, "%d ok, %d denied, %d in error", c.ok, c.denied, c.error);
}

TEST(two_sockets_in_a_limited_container)
{
    struct env_counts c;
    check_host("epyc_2s_cgroup2", &c);
    CHECK(c.error == 0 && c.denied >= 5, "%d denied, %d in error", c.denied, c.error);
}

TEST(missing_denied_and_garbage)
{
    struct env_counts c;
    check_host("broken", &c);
    CHECK(c.denied >= 5 && c.error >= 20 && c.absent >= 20, "%d denied, %d in error, %d absent", c.denied, c.error, c.absent);
}

TEST(two_sockets_with_gpus_and_a_job)
{
    struct env_counts c;
    check_host("dgx_2s", &c);
    CHECK(c.denied == 0 && c.error == 2, "%d denied, %d in error", c.denied, c.error);
}

TEST(laptop_with_a_gpu)
{
    struct env_counts c;
    check_host("laptop_gpu", &c);
    CHECK(c.denied >= 5 && c.error == 0, "%d denied, %d in error", c.denied, c.error);
}

TEST(nothing_at_all)
{
    char root[] = "/tmp/rp-host-XXXXXX";
    struct env_counts c;
    CHECK(mkdtemp(root) && chmod(root, 0755) == 0, "no scratch directory");
    json_t *env = capture_as_nobody(root);
    const char *fault = env_fault(env, &c);
    CHECK(!fault, "%s", fault);
    drop_volatile(env);
    fault = env_fault(env, &c);
    CHECK(!fault && c.ok == 0 && c.denied == 0 && c.error == 0 && c.absent > 80, "%d ok, %d denied, %d in error, %d absent", c.ok, c.denied,
          c.error, c.absent);
    json_decref(env);
    rmdir(root);
}
