/* Recorded and composed machines under tests/hosts: the document and its summary, byte for byte. RP_UPDATE=1 writes the expected files.
 *
 * tree.txt holds a machine's files:
 *     @ /path [mode=000] [nul] [hex=...] [fill=BYTES] [dir] [fifo] [-> target]
 *     | a line of the file (nul: lines end with NUL instead)
 * expected/PROBE.json is what each probe makes of them, expected/summary.txt the page for people.
 */
#include "base/json.h"
#include "capture/capture.h"
#include "tests/unit/env_shape.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char salt[] = "000102030405060708090a0b0c0d0e0f";

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        CHECK(mkdir(path, 0755) == 0 || errno == EEXIST, "mkdir %s", path);
        *p = '/';
    }
}

static void write_new(const char *path, const struct rp_buf *bytes, mode_t mode)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL, "%s", path);
    if (!f)
        return;
    fwrite(rp_buf_text(bytes), 1, bytes->size, f);
    fclose(f);
    CHECK(chmod(path, mode) == 0, "%s", path);
}

/* One entry, once all of its lines are there. */
static void make_entry(const char *root, const char *head, const struct rp_buf *lines)
{
    char *spec = strchr(head, ' ');
    RP_FREE char *path = rp_asprintf("%s%.*s", root, spec ? (int)(spec - head) : (int)strlen(head), head);
    const char *words = spec ? spec : "", *arrow = strstr(words, " -> "), *hex = strstr(words, "hex="), *fill = strstr(words, "fill=");
    mode_t mode = strstr(words, "mode=000") ? 0 : 0644;
    make_parents(path);
    if (arrow) {
        CHECK(symlink(arrow + 4, path) == 0, "%s", path);
    } else if (strstr(words, " fifo")) {
        CHECK(mkfifo(path, 0644) == 0, "%s", path);
    } else if (strstr(words, " dir")) {
        CHECK(mkdir(path, mode ? 0755 : 0) == 0, "%s", path);
    } else if (hex || fill) {
        RP_BUF bytes = {0};
        size_t n = hex ? strspn(hex + 4, "0123456789abcdef") / 2 : (size_t)atol(fill + 5);
        char *at = rp_alloc(n + 1);
        if (hex) {
            RP_FREE char *digits = rp_asprintf("%.*s", (int)n * 2, hex + 4);
            CHECK(rp_unhex(at, n, digits) == 0, "%s", head);
        } else
            memset(at, 'x', n);
        rp_buf_add(&bytes, at, n);
        free(at);
        write_new(path, &bytes, mode);
    } else
        write_new(path, lines, mode);
}

static void unpack(const char *root, const char *tree)
{
    RP_BUF text = {0}, lines = {0};
    struct rp_err err;
    char *head = NULL, *save = NULL;
    CHECK(rp_read_file(&text, tree, 1 << 20, &err) == 0, "%s", err.msg);
    for (char *l = text.data ? strtok_r(text.data, "\n", &save) : NULL; l; l = strtok_r(NULL, "\n", &save)) {
        if (l[0] == '@') {
            if (head)
                make_entry(root, head, &lines);
            head = l + 2;
            lines.size = 0;
        } else if (head) {
            rp_buf_puts(&lines, l[1] ? l + 2 : "");
            rp_buf_add(&lines, strstr(head, " nul") ? "" : "\n", 1);
        }
    }
    if (head)
        make_entry(root, head, &lines);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

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
    unpack(root, tree);
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
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
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
