/* Recorded and composed machines under tests/hosts: the document and its summary, byte for byte. RP_UPDATE=1 writes the
 * expected files.
 *
 * expected/PROBE.json is what each probe makes of them, expected/summary.txt the page for people.
 */
#include "base/json.h"
#include "capture/capture.h"
#include "capture/value.h"
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

/* In a child that is nobody, so that mode 000 means what it says also when the tests run as root. record may be
 * NULL. */
static json_t *capture_as_nobody(const char *root, const char *record)
{
    FILE *answer = tmpfile();
    struct rp_err err;
    RP_BUF text = {0};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rp_capture_opts o = {.root = root, .salt = salt, .record = record};
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

/* Words of tests/hosts that name somebody or open something: in no document and in no file, directory or link of a
 * record. */
static const char *const secrets[] = {"alice",           "0123456789abcdef0123456789abcdef",
                                      "team-vision",     "bert-worker", "192.0.2.",        "198.51.100.",
                                      "S255555X9A01234", "OM19AS012345", "gpu07",           "4f1c2ab09d3e",
                                      "7c2d1f0e",        "filer01", "vte-spawn",       "5e1c8ad2",
                                      "luks-77aa",       "0a1b2c3d4e5f", "3c1d5a77",        "aa11bb22cc33",
                                      "train-store",     "8801", "9a3c51d2e7",      "customer7",
                                      "planted",         "PLANTED", "0100090A",        "10.9.8."};

static const char *secret_in(const char *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (memmem(bytes, size, secrets[i], strlen(secrets[i])))
            return secrets[i];
    return NULL;
}

static int look_into(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    RP_BUF bytes = {0};
    struct rp_err err;
    char target[4096] = "";
    (void)ftw;
    const char *found = secret_in(path, strlen(path));
    CHECK(!found, "%s: '%s' in the name", path, found);
    if (type == FTW_SL) {
        CHECK(readlink(path, target, sizeof target - 1) >= 0, "%s", path);
        rp_buf_puts(&bytes, target);
    } else if (type == FTW_F && st->st_size < 1 << 20)
        CHECK(rp_read_file(&bytes, path, 1 << 20, &err) == 0, "%s", err.msg);
    found = secret_in(rp_buf_text(&bytes), bytes.size);
    CHECK(!found, "%s: '%s'", path, found);
    return 0;
}

/* A record of the machine stands in for it: the same document, and nothing that was taken out is in it. */
static void check_record(const char *root, const json_t *env)
{
    const char *record = scratch_new();
    RP_BUF before = {0}, after = {0};
    CHECK(chmod(record, 0777) == 0, "%s", record);
    RP_JSON *first = capture_as_nobody(root, record), *second = capture_as_nobody(record, NULL);
    drop_volatile(first);
    drop_volatile(second);
    rp_json_write(&before, env);
    rp_json_write(&after, first);
    CHECK_STR(after.data, before.data);
    after.size = 0;
    rp_json_write(&after, second);
    CHECK_STR(after.data, before.data);
    CHECK(!secret_in(after.data, after.size), "%s in the document", secret_in(after.data, after.size));
    nftw(record, look_into, 16, FTW_PHYS);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "-v a:b --tmpfs /x" -> sorted, one flag a line; cuts the text. */
static void sort_flags(char *text, struct rp_buf *out)
{
    char *flag[128];
    int n = 0;
    for (char *p = text; p && n < 128; p = strstr(p, " -")) {
        *p = n ? 0 : *p;
        flag[n] = p += n != 0;
        n++;
    }
    qsort(flag, (size_t)n, sizeof *flag, by_text);
    for (int i = 0; i < n; i++)
        rp_buf_printf(out, "%s\n", flag[i]);
}

/* A tree that says "# started with: docker run FLAGS" gives these flags back, and no others. */
static void check_launch(const char *tree, json_t *env)
{
    static const char head[] = "# started with: docker run ";
    RP_BUF text = {0}, expected = {0}, seen = {0}, flags = {0};
    struct rp_err err;
    json_t *launch = json_object_get(json_object_get(env, "probes"), "launch"), *leaf;
    const char *key;
    CHECK(rp_read_file(&text, tree, 1 << 20, &err) == 0, "%s", err.msg);
    char *started = strstr(text.data, head);
    if (!started)
        return;
    started[strcspn(started, "\n")] = 0;
    sort_flags(started + strlen(head), &expected);
    json_object_foreach (json_object_get(launch, "known"), key, leaf)
        rp_buf_printf(&flags, "%s%s", flags.size ? " " : "", json_string_value(json_object_get(leaf, "value")));
    json_object_foreach (json_object_get(launch, "inferred"), key, leaf)
        rp_buf_printf(&flags, "%s%s", flags.size ? " " : "", json_string_value(json_object_get(leaf, "value")));
    CHECK(flags.size > 0, "%s: no flags", tree);
    sort_flags(flags.data, &seen);
    CHECK_STR(seen.data, expected.data);
}

/* `verify` refuses captures without these. */
static void check_leaves(const json_t *env, const char *name)
{
    static const char *const leaves[] = {
#define LEAF(leaf) leaf,
#define KNOWN(leaf) leaf,
#include "capture/leaves.def"
#undef LEAF
#undef KNOWN
    };
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        CHECK(json_is_string(json_object_get(rp_value_at(json_object_get(env, "probes"), leaves[i]), "state")),
              "%s: no %s", name, leaves[i]);
}

static void check_host(const char *name, struct env_counts *c)
{
    const char *root = host_tree(name);
    RP_FREE char *tree = rp_asprintf("tests/hosts/%s/tree.txt", name),
                 *page = rp_asprintf("tests/hosts/%s/expected/summary.txt", name);
    RP_BUF summary = {0};
    const char *probe;
    json_t *values;
    RP_JSON *env = capture_as_nobody(root, NULL);
    const char *fault = env_fault(env, c);
    CHECK(!fault, "%s: %s", name, fault);
    check_leaves(env, name);
    if (env) {
        drop_volatile(env);
        json_object_foreach (json_object_get(env, "probes"), probe, values) {
            RP_FREE char *file = rp_asprintf("tests/hosts/%s/expected/%s.json", name, probe);
            RP_BUF text = {0};
            rp_json_write(&text, values);
            golden(file, &text);
        }
        rp_capture_summary(&summary, env);
        golden(page, &summary);
        check_record(root, env);
        check_launch(tree, env);
    }
}

TEST(recorded_machines)
{
    enum { MANY = 1 << 20 };
    static const struct {
        const char *name;
        int ok_least, denied_least, denied_most, error_least, error_most;
    } hosts[] = {{"kvm_xeon_cgroup1", 60, 0, 0, 0, 0},
                 {"epyc_2s_cgroup2", 60, 5, MANY, 0, 0},
                 {"docker_v100_cgroup1", 60, 0, MANY, 0, 0}, /* as the published reports start it */
                 {"docker_limited_cgroup2", 60, 0, MANY, 0, 0},
                 {"kubernetes_pod", 60, 0, MANY, 0, 0},
                 {"laptop", 60, 2, MANY, 0, 0},
                 {"bare_metal_2s", 60, 0, MANY, 0, 0},
                 {"broken", 20, 5, MANY, 20, MANY}, /* missing, denied and garbage */
                 {"dgx_2s", 60, 1, 1, 2, 2},
                 {"laptop_gpu", 60, 5, MANY, 0, 0},
                 {"gh200", 25, 0, MANY, 0, 0},
                 {"gb200", 25, 0, MANY, 0, 0},
                 {"dgx_spark", 25, 0, MANY, 0, 0},
                 {"orin_nx", 20, 0, MANY, 0, 0},
                 {"graviton3", 20, 0, MANY, 0, 0}};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct env_counts c;
        check_host(hosts[i].name, &c);
        CHECK(c.ok >= hosts[i].ok_least && c.denied >= hosts[i].denied_least && c.denied <= hosts[i].denied_most &&
                  c.error >= hosts[i].error_least && c.error <= hosts[i].error_most,
              "%s: %d ok, %d denied, %d in error", hosts[i].name, c.ok, c.denied, c.error);
    }
}

TEST(nothing_at_all)
{
    struct env_counts c;
    RP_JSON *env = capture_as_nobody(scratch_new(), NULL);
    const char *fault = env_fault(env, &c);
    CHECK(!fault, "%s", fault);
    check_leaves(env, "an empty directory");
    drop_volatile(env);
    fault = env_fault(env, &c);
    CHECK(!fault && c.ok == 0 && c.denied > 200 && c.error == 0 && c.absent > 50,
          "%d ok, %d denied, %d in error, %d absent", c.ok, c.denied, c.error,
          c.absent); /* without /proc and /sys nobody can tell what the machine has */
}
