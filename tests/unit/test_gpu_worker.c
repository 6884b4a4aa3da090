/* The GPU worker as its parent sees it: one that works, and all the ways in which one fails, each said in words within
 * its time limit. This same program plays the worker. */
#include "tests/unit/scratch.h"

#include "base/hash.h"
#include "base/json.h"
#include "bundle/schema.h"
#include "capture/nvidia/gpu.h"
#include "process/process.h"
#include "worker/worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODE "FAKE_WORKER" /* how the worker is to behave */

/* ---- the worker ---- */

static json_t *values(const char *probe)
{
    return json_pack("{s:s, s:{s:{s:s, s:i, s:s}}}", "probe", probe, "values", probe, "state", "ok", "value", 7,
                     "source", "fake");
}

static void misbehave(const char *mode, const char *question, struct rp_err *err)
{
    static const char rubbish[] = "Segmentation fault (core dumped)\n", newer[16] = "RPW1\2",
                      huge[16] = "RPW1\1\0\x9\0\xff\xff\xff\x7f";
    RP_JSON *other = values("other"), *no_object = json_pack("{s:s, s:[]}", "probe", question, "values");
    if (strcmp(mode, "crash") == 0)
        raise(SIGABRT);
    else if (strcmp(mode, "hang") == 0)
        sleep(60);
    else if (strcmp(mode, "rubbish") == 0)
        rp_write_all(RP_PROCESS_FD, rubbish, sizeof rubbish);
    else if (strcmp(mode, "newer") == 0)
        rp_write_all(RP_PROCESS_FD, newer, sizeof newer);
    else if (strcmp(mode, "huge") == 0)
        rp_write_all(RP_PROCESS_FD, huge, sizeof huge);
    else if (strcmp(mode, "half") == 0)
        rp_write_all(RP_PROCESS_FD, newer, 4);
    else if (strcmp(mode, "other") == 0)
        (void)!rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, other, err);
    else if (strcmp(mode, "array") == 0)
        (void)!rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, no_object, err);
    else if (strcmp(mode, "early") == 0)
        fprintf(stderr, "first line\nlibc.so.6: version `GLIBC_2.99' not found\n");
    else if (strcmp(mode, "late") == 0) {
        usleep(1000000);
        (void)!rp_frame_write(RP_PROCESS_FD, RP_FRAME_ALIVE, other, err);
        usleep(1000000);
        return; /* the answer follows: later than 1.5 s after the question, sooner than 1.5 s after the record */
    } else if (strcmp(mode, "orphan") == 0) {
        if (fork() == 0) {
            sleep(60);
            _exit(0);
        }
        abort();
    } else if (strcmp(mode, "many") == 0 || strcmp(mode, "large") == 0) {
        RP_JSON *answer = json_pack("{s:s, s:{}}", "probe", question, "values");
        for (int i = 0, n = *mode == 'm' ? 40000 : 1500; i < n; i++) {
            char name[16], text[4000] = "x";
            snprintf(name, sizeof name, "v%d", i);
            if (*mode == 'l')
                memset(text, 'x', sizeof text - 1);
            json_object_set_new(json_object_get(answer, "values"), name,
                                json_pack("{s:s, s:s, s:s}", "state", "ok", "value", text, "source", "x"));
        }
        (void)!rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, answer, err);
        sleep(1);
    } else if (strcmp(mode, "busy") == 0)
        while (rp_frame_write(RP_PROCESS_FD, RP_FRAME_ALIVE, other, err) == 0)
            usleep(10000);
    if (strcmp(mode, "half") == 0 || strcmp(mode, "close") == 0) {
        close(RP_PROCESS_FD);
        sleep(60);
    }
    _exit(3);
}

/* How it ends when the parent closes the socket: in order, or as the mode says. */
static void end_worker(const char *mode)
{
    if (strcmp(mode, "stay") == 0)
        sleep(60);
    if (strcmp(mode, "slow") == 0)
        usleep(700000);
    if (strcmp(mode, "abort") == 0)
        abort();
    _exit(strcmp(mode, "status") == 0 ? 9 : 0);
}

/* "MODE": wrong at the first question, "MODE-cuda": at that one, "MODE-end": at its end. "flood" writes more to stderr
 * than a pipe holds. */
__attribute__((constructor)) static void worker(void)
{
    const char *mode = getenv(MODE);
    struct rp_err err;
    RP_BUF in = {0};
    if (!mode)
        return;
    for (int i = 0; strcmp(mode, "flood") == 0 && i < 100000; i++)
        fprintf(stderr, "a library that talks\n");
    RP_FREE char *how = rp_strdup(mode);
    char *when = strchr(how, '-');
    if (when)
        *when++ = 0;
    RP_JSON *hello = json_object();
    if (rp_frame_write(RP_PROCESS_FD, RP_FRAME_HELLO, hello, &err) < 0)
        _exit(4);
    for (;;) {
        char bytes[4096];
        enum rp_frame type;
        RP_JSON *body = NULL;
        ssize_t n = read(RP_PROCESS_FD, bytes, sizeof bytes);
        if (n <= 0)
            end_worker(how);
        rp_buf_add(&in, bytes, (size_t)n);
        if (rp_frame_decode(&in, &type, &body, &err) != 1)
            _exit(5);
        const char *question = json_string_value(json_object_get(body, "probe"));
        if (strcmp(how, "good") != 0 && strcmp(how, "flood") != 0 && (!when || strcmp(when, question) == 0))
            misbehave(how, question, &err);
        RP_JSON *answer = values(question);
        if (rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, answer, &err) < 0)
            _exit(6);
    }
}

/* ---- the parent ---- */

static const struct rp_buf *this_program(void)
{
    static struct rp_buf bytes;
    struct rp_err err;
    if (!bytes.size && rp_read_file(&bytes, "/proc/self/exe", 1u << 30, &err) < 0)
        printf("# %s\n", err.msg);
    return &bytes;
}

static json_t *ask(const char *mode, int limit_ms)
{
    setenv(MODE, mode, 1);
    json_t *answers = rp_gpu_ask(this_program(), limit_ms);
    unsetenv(MODE);
    return answers;
}

static const char *failure(const json_t *answers)
{
    return json_string_value(json_object_get(answers, "failed"));
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void nobody_is_left(void)
{
    CHECK(waitpid(-1, NULL, WNOHANG) < 0, "a child is still there");
}

TEST(a_worker_that_works_answers_everything)
{
    int before = descriptors();
    RP_JSON *answers = ask("good", 20000), *flooded = ask("flood", 20000);
    CHECK(json_object_size(answers) == 3 && !failure(answers), "%s", failure(answers));
    CHECK(json_integer_value(json_object_get(json_object_get(json_object_get(answers, "nccl"), "nccl"), "value")) == 7);
    CHECK(json_equal(answers, flooded), "%s", failure(flooded));
    CHECK(descriptors() == before, "%d descriptors, %d before", descriptors(), before);
    nobody_is_left();
}

TEST(every_failure_is_said_and_bounded)
{
    static const struct {
        const char *mode;
        int limit_ms; /* short where it is reached: a busy machine starts this program late */
    } fails[] = {{"crash", 20000}, {"hang", 1500},  {"busy", 1500},   {"rubbish", 20000},
                 {"newer", 20000}, {"huge", 20000}, {"other", 20000}, {"array", 20000},
                 {"early", 20000}, {"half", 20000}, {"close", 20000}};
    int before = descriptors();
    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        RP_JSON *answers = ask(fails[i].mode, fails[i].limit_ms);
        if (CHECK(failure(answers) && json_object_size(answers) == 1, "%s: it has answers", fails[i].mode))
            SAID(failure(answers));
        nobody_is_left();
    }
    CHECK(descriptors() == before, "%d descriptors, %d before", descriptors(), before);
}

/* Starts a worker and asks it to end: what rp_process_end() returns. */
static int ask_to_end(const char *mode, int wait_ms, struct rp_err *err)
{
    struct rp_process w;
    enum rp_frame type;
    RP_JSON *hello = NULL;
    setenv(MODE, mode, 1);
    const int started = rp_process_start_program(&w, this_program(), "repro-gpu", "the GPU worker", err) == 0;
    unsetenv(MODE);
    if (!CHECK(started && rp_process_next(&w, 20000, &type, &hello, err) == 1 && type == RP_FRAME_HELLO, "%s",
               err->msg))
        return 1;
    const int status = rp_process_end(&w, wait_ms, err);
    CHECK(w.pid < 0 && w.fd < 0, "it is still known");
    nobody_is_left();
    return status;
}

TEST(worker_that_is_asked_to_end_is_killed_only_after_the_limit)
{
    static const struct {
        const char *mode, *message;
        enum rp_code code;
        int wait_ms;
    } cases[] = {
        {"good", NULL, RP_OK, 20000},
        {"slow-end", NULL, RP_OK, 20000},
        {"stay-end", "within 0.4 s", RP_UNAVAILABLE, 400},
        {"abort-end", "(signal 6", RP_BUG, 20000},
        {"status-end", "with status 9", RP_BUG, 20000},
    };
    const int before = descriptors();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err = {0};
        const int status = ask_to_end(cases[i].mode, cases[i].wait_ms, &err);
        CHECK(status == (cases[i].message ? -1 : 0) && err.code == cases[i].code, "%s: %d, '%s'", cases[i].mode, status,
              err.msg);
        CHECK(!cases[i].message || strstr(err.msg, cases[i].message), "%s: '%s'", cases[i].mode, err.msg);
    }
    CHECK(descriptors() == before, "%d descriptors, %d before", descriptors(), before);
}

TEST(limit_of_the_environment_counts_if_it_is_a_number_of_milliseconds)
{
    static const struct {
        const char *text;
        int limit;
    } cases[] = {{NULL, 1234}, {"700", 700}, {"600000", 600000}, {"600001", 1234},
                 {"0", 1234},  {"", 1234},   {"20 s", 1234},     {"-5", 1234}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsetenv("RP_GPU_TIMEOUT_MS");
        if (cases[i].text)
            setenv("RP_GPU_TIMEOUT_MS", cases[i].text, 1);
        CHECK(rp_process_limit_ms(1234) == cases[i].limit, "'%s' is %d ms", cases[i].text, rp_process_limit_ms(1234));
    }
    unsetenv("RP_GPU_TIMEOUT_MS");
}

TEST(limits_of_a_report_follow_the_environment_within_bounds)
{
    static const struct {
        const char *text;
        struct rp_gpu_limits limits;
    } cases[] = {
        {NULL, {60000, 300000, 10000}},      {"1000", {1000, 60000, 10000}},       {"20000", {20000, 60000, 20000}},
        {"120000", {120000, 120000, 60000}}, {"600000", {600000, 600000, 60000}}, {"600001", {60000, 300000, 10000}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsetenv("RP_GPU_TIMEOUT_MS");
        if (cases[i].text)
            setenv("RP_GPU_TIMEOUT_MS", cases[i].text, 1);
        const struct rp_gpu_limits l = rp_worker_gpu_limits(), *want = &cases[i].limits;
        CHECK(l.silence_ms == want->silence_ms && l.open_ms == want->open_ms && l.end_ms == want->end_ms,
              "'%s': %d, %d and %d ms", cases[i].text, l.silence_ms, l.open_ms, l.end_ms);
    }
    unsetenv("RP_GPU_TIMEOUT_MS");
}

/* One limit for an answer, whatever else comes before it; and a process that a library left behind is not the
 * worker. */
TEST(nobody_waits_twice)
{
    RP_JSON *late = ask("late", 1500);
    CHECK(failure(late) && strstr(failure(late), "within 1.5 s"), "%s", failure(late));
    RP_JSON *orphaned = ask("orphan", 20000);
    CHECK(failure(orphaned) && strstr(failure(orphaned), "crashed (signal 6"), "%s", failure(orphaned));
    nobody_is_left();
}

TEST(a_worker_cannot_say_too_much)
{
    RP_JSON *many = ask("many-nccl", 20000), *large = ask("large-nccl", 20000);
    struct rp_capture_opts o = {.root = "/"};
    struct rp_probe p = {
        .opts = &o, .root = -1, .name = "gpu", .salt = "00112233445566778899aabbccddeeff", .out = json_object()};
    CHECK(failure(large) && strstr(failure(large), "4 MiB"), "%s", failure(large));
    rp_gpu_put(&p, many);
    CHECK(json_object_size(p.out) <= RP_FOREIGN_MAX + 8, "%zu values", json_object_size(p.out));
    CHECK_STR(json_string_value(json_object_get(json_object_get(p.out, "worker"), "state")), "error");
    json_decref(p.out);
    nobody_is_left();
}

TEST(what_was_answered_before_a_failure_is_kept)
{
    RP_JSON *answers = ask("crash-cuda", 20000);
    CHECK(json_object_size(answers) == 2 && json_object_get(answers, "nvml") && failure(answers));
    nobody_is_left();
}

/* In a child: no memfd, as under vm.memfd_noexec=2 or a seccomp profile. Then `then`; its result is the child's
 * status. */
static int without_memfd(int (*then)(void))
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int set =
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
        _exit(set ? then() : 77);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char cached[512]; /* the file in the cache */

static int works(void)
{
    RP_JSON *answers = ask("good", 20000);
    struct stat st;
    if (failure(answers))
        printf("# %s\n", failure(answers));
    if (failure(answers) || json_object_size(answers) != 3)
        return 1;
    if (lstat(cached, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0777) != 0700)
        return 2;
    RP_BUF bytes = {0};
    struct rp_err err;
    return rp_read_file(&bytes, cached, 1u << 30, &err) == 0 &&
                   rp_buf_is(&bytes, this_program()->data, this_program()->size)
               ? 0
               : 3;
}

static int says_what_to_try(void)
{
    RP_JSON *answers = ask("good", 20000);
    printf("# %s\n", failure(answers));
    return failure(answers) && strstr(failure(answers), "XDG_CACHE_HOME") ? 0 : 1;
}

TEST(without_memfd_a_checked_file_is_used)
{
    char hex[RP_SHA256_HEX];
    const char *dir = scratch_new(), *other = scratch("other");
    struct stat st;
    unsetenv("REPRO_STORE");
    setenv("XDG_CACHE_HOME", dir, 1);
    rp_sha256_hex(hex, this_program()->data, this_program()->size);
    snprintf(cached, sizeof cached, "%s/repro/repro-gpu-%s", dir, hex);
    RP_JSON *answers = ask("good", 20000);
    CHECK(!failure(answers) && access(cached, F_OK) < 0, "with memfd nothing is written");

    int status = without_memfd(works);
    if (status == 77)
        SKIP("no seccomp filters here");
    CHECK(status == 0, "status %d", status);
    struct timespec written = stat(cached, &st) == 0 ? st.st_mtim : (struct timespec){0};
    CHECK(without_memfd(works) == 0 && stat(cached, &st) == 0 && st.st_mtim.tv_nsec == written.tv_nsec,
          "it is written once");

    /* What has the name and is not the program is replaced: other bytes, a file that others can write, somebody's
     * link. */
    int fd = open(cached, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "#", 1, 5000) == 1 && close(fd) == 0 && without_memfd(works) == 0, "changed bytes");
    CHECK(chmod(cached, 0777) == 0 && without_memfd(works) == 0, "open to others");
    CHECK(rename(cached, other) == 0 && symlink(other, cached) == 0 && without_memfd(works) == 0, "a link");

    /* A directory that others can write is not used. Where nothing can be written: the message has both reasons and a
     * remedy. */
    CHECK(unlink(cached) == 0);
    *strrchr(cached, '/') = 0;
    CHECK(chmod(cached, 0777) == 0 && without_memfd(says_what_to_try) == 0 && chmod(cached, 0700) == 0);
    setenv("XDG_CACHE_HOME", "/proc", 1);
    CHECK(without_memfd(says_what_to_try) == 0);
    struct statvfs vfs;
    if (statvfs("/dev/shm", &vfs) == 0 && (vfs.f_flag & ST_NOEXEC)) {
        char noexec[] = "/dev/shm/repro-gpu.XXXXXX", path[600];
        CHECK(mkdtemp(noexec) != NULL);
        setenv("XDG_CACHE_HOME", noexec, 1);
        CHECK(without_memfd(says_what_to_try) == 0);
        snprintf(path, sizeof path, "%s/repro/repro-gpu-%s", noexec, hex);
        CHECK(unlink(path) == 0);
        snprintf(path, sizeof path, "%s/repro", noexec);
        rmdir(path);
        rmdir(noexec);
    }
    unsetenv("XDG_CACHE_HOME");
}

/* ---- what is made of the answers ---- */

static json_t *document(const char *answers, int identify)
{
    struct rp_capture_opts o = {.root = "/", .identify = identify};
    struct rp_probe p = {
        .opts = &o, .root = -1, .name = "gpu", .salt = "00112233445566778899aabbccddeeff", .out = json_object()};
    RP_JSON *a = json_loads(answers, 0, NULL);
    CHECK(a != NULL, "%s", answers);
    rp_gpu_put(&p, a);
    return p.out;
}

static const char *schema_fault(const json_t *group)
{
    static struct rp_err err;
    const struct rp_schema *schema = rp_schema_load("env", &err);
    RP_JSON *env =
        json_pack("{s:s, s:s, s:s, s:b, s:{s:O}}", "schema", "repro-env/1", "captured_at", "2026-01-01T00:00:00Z",
                  "salt", "00112233445566778899aabbccddeeff", "identified", 0, "probes", "gpu", group);
    return schema && rp_schema_check(schema, env, "environment", &err) == 0 ? NULL : err.msg;
}

TEST(a_missing_loader_is_said)
{
    struct rp_buf program = {0};
    rp_buf_add(&program, this_program()->data, this_program()->size);
    char *loader = memmem(program.data, program.size, "/lib64/ld-linux", 15);
    CHECK(loader != NULL);
    if (!loader)
        return;
    memcpy(loader, "/lib63", 6);
    RP_JSON *answers = rp_gpu_ask(&program, 20000);
    const char *why = json_string_value(json_object_get(answers, "absent"));
    CHECK(why && strstr(why, "loader") && json_object_size(answers) == 1, "%s", failure(answers));
    RP_FREE char *text = json_dumps(answers, 0);
    RP_JSON *d = document(text, 0);
    CHECK_STR(rp_json_text_at(d, "worker/state"), "absent");
    rp_buf_fini(&program);
    nobody_is_left();
}

TEST(values_of_cuda_join_the_device_with_their_address)
{
    RP_JSON *d = document(
        "{\"nvml\": {\"devices\": {"
        "\"gpu0\": {\"pci_address\": {\"state\": \"ok\", \"value\": \"00000000:3B:00.0\", \"source\": \"nvml\"}},"
        "\"gpu1\": {\"pci_address\": {\"state\": \"ok\", \"value\": \"00000000:AF:00.0\", \"source\": \"nvml\"},"
        "           \"sm_count\": {\"state\": \"absent\", \"value\": null, \"source\": \"nvml\"}}}},"
        "\"cuda\": {\"devices\": {"
        "\"0000:af:00.0\": {\"sm_count\": {\"state\": \"ok\", \"value\": 80, \"source\": \"cuda\"},"
        "                   \"l2_cache\": {\"state\": \"ok\", \"value\": 6, \"source\": \"cuda\", \"unit\": \"B\"}},"
        "\"0000:d8:00.0\": {\"sm_count\": {\"state\": \"ok\", \"value\": 72, \"source\": \"cuda\"}}}}}",
        0);
    CHECK_STR(rp_json_text_at(d, "worker/value"), "present");
    CHECK_STR(rp_json_text_at(d, "devices/gpu1/l2_cache/unit"), "B");
    CHECK_STR(rp_json_text_at(d, "devices/gpu1/sm_count/source"), "nvml"); /* the first to say something is believed */
    CHECK(json_integer_value(rp_json_at(d, "devices/0000:d8:00.0/sm_count/value")) == 72);
    CHECK(json_object_size(rp_json_at(d, "devices")) == 3 && json_object_size(rp_json_at(d, "devices/gpu0")) == 1);
    CHECK(!schema_fault(d), "%s", schema_fault(d));
}

/* Two answers with one name: the first stays, and a value never takes in what a group of its name holds. */
TEST(a_value_and_a_group_of_one_name_do_not_mix)
{
    RP_JSON *d = document("{\"nvml\": {\"first\": {\"state\": \"ok\", \"value\": 1, \"source\": \"nvml\"},"
                          "            \"second\": {\"x\": {\"state\": \"ok\", \"value\": 2, \"source\": \"nvml\"}}},"
                          "\"cuda\": {\"first\": {\"x\": {\"state\": \"ok\", \"value\": 3, \"source\": \"cuda\"}},"
                          "            \"second\": {\"state\": \"ok\", \"value\": 4, \"source\": \"cuda\"}}}",
                          0);
    CHECK(json_integer_value(rp_json_at(d, "first/value")) == 1 && json_object_size(rp_json_at(d, "first")) == 3);
    CHECK(json_integer_value(rp_json_at(d, "second/x/value")) == 2 && json_object_size(rp_json_at(d, "second")) == 1);
    CHECK(!schema_fault(d), "%s", schema_fault(d));
}

TEST(what_is_no_value_becomes_an_error)
{
    RP_JSON *d =
        document("{\"failed\": \"it crashed\", \"nvml\": {"
                 "\"number\": 7, \"list\": [1], \"nothing\": null, \"text\": \"x\","
                 "\"state_unknown\": {\"state\": \"fine\", \"value\": 1, \"source\": \"s\"},"
                 "\"no_source\": {\"state\": \"ok\", \"value\": 1},"
                 "\"ok_with_null\": {\"state\": \"ok\", \"value\": null, \"source\": \"s\"},"
                 "\"ok_with_object\": {\"state\": \"ok\", \"value\": {}, \"source\": \"s\"},"
                 "\"ok_with_numbers\": {\"state\": \"ok\", \"value\": [1], \"source\": \"s\"},"
                 "\"absent_with_value\": {\"state\": \"absent\", \"value\": 0, \"source\": \"s\"},"
                 "\"error_without_detail\": {\"state\": \"error\", \"value\": null, \"source\": \"s\"},"
                 "\"control\": {\"state\": \"ok\", \"value\": \"a\\u001b[31mb\", \"source\": \"s\"},"
                 "\"unit\": {\"state\": \"ok\", \"value\": 1, \"source\": \"s\", \"unit\": \"\"},"
                 "\"NOT A NAME\": {\"state\": \"ok\", \"value\": 1, \"source\": \"s\"},"
                 "\"deep\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {}}}}}}}}},"
                 "\"link\": {\"state\": {\"state\": \"ok\", \"value\": \"active\", \"source\": \"s\"}},"
                 "\"extra\": {\"state\": \"ok\", \"value\": [\"a\", \"b\"], \"source\": \"s\", \"colour\": 1}}}",
                 0);
    const char *name;
    json_t *v;
    CHECK_STR(rp_json_text_at(d, "worker/state"), "error");
    CHECK_STR(rp_json_text_at(d, "worker/detail"), "it crashed");
    CHECK_STR(rp_json_text_at(d, "link/state/value"), "active");
    CHECK(json_array_size(rp_json_at(d, "extra/value")) == 2 && !rp_json_at(d, "extra/colour"));
    CHECK(!rp_json_at(d, "NOT A NAME"));
    json_object_foreach((json_t *)d, name, v)
        if (strcmp(name, "link") != 0 && strcmp(name, "extra") != 0 && strcmp(name, "deep") != 0)
            CHECK(rp_json_text_at(v, "state") && strcmp(rp_json_text_at(v, "state"), "error") == 0,
                  "%s is not an error", name);
    CHECK(json_object_size(d) == 17, "%zu values", json_object_size(d));
    CHECK(!schema_fault(d), "%s", schema_fault(d));
}

TEST(what_names_the_machine_is_hidden)
{
    static const char answers[] =
        "{\"nvml\": {\"devices\": {\"gpu0\": {\"serial\": {\"state\": \"ok\", \"value\": \"0324418012345\", "
        "\"source\": \"nvml\", \"hide\": true}}}}}";
    RP_JSON *hidden = document(answers, 0), *clear = document(answers, 1);
    CHECK(rp_json_text_at(hidden, "devices/gpu0/serial/value") &&
          rp_is_hidden(rp_json_text_at(hidden, "devices/gpu0/serial/value")));
    CHECK(!rp_json_at(hidden, "devices/gpu0/serial/hide") && !rp_json_at(clear, "devices/gpu0/serial/hide"));
    CHECK_STR(rp_json_text_at(clear, "devices/gpu0/serial/value"), "0324418012345");
}
