/* The key of a job: where it is read from, what is refused, and that nothing of it stays behind. */
#include "base/buf.h"
#include "base/json.h"
#include "capture/capture.h"
#include "capture/privacy/secrets.h"
#include "capture/privacy/job_variables.h"
#include "launch/job_key.h"
#include "tests/unit/scratch.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static int load(struct rp_job_key *k, const char *file, int fd, struct rp_err *err)
{
    const struct rp_job_key_opts o = {.file = file, .fd = fd};
    *err = (struct rp_err){0};
    return rp_job_key_load(k, &o, err);
}

static int is_the_key(const struct rp_job_key *k)
{
    char hex[RP_JOB_KEY_HEX];
    rp_job_key_hex(hex, k);
    return strcmp(hex, HEX) == 0;
}

/* The variable's own bytes are what /proc/self/environ shows. */
TEST(variable)
{
    struct rp_job_key k;
    struct rp_err err;
    unsetenv("REPRO_JOB_KEY_FILE");
    setenv("REPRO_JOB_KEY", HEX, 1);
    const char *bytes = getenv("REPRO_JOB_KEY");
    CHECK(strcmp(rp_job_key_offered(), "REPRO_JOB_KEY") == 0, "offered");
    CHECK(load(&k, NULL, 0, &err) == 1 && is_the_key(&k) && strcmp(k.source, "REPRO_JOB_KEY") == 0, "%s", err.msg);
    CHECK(!getenv("REPRO_JOB_KEY") && bytes[0] == 0 && bytes[63] == 0, "it is still in the environment");
    CHECK(load(&k, NULL, 0, &err) == 0 && !k.source && !rp_job_key_offered(), "a second time there is none");
    static const char *const bad[] = {"0011", HEX "00",
                                      "x0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("REPRO_JOB_KEY", bad[i], 1);
        int n = load(&k, NULL, 0, &err);
        CHECK(*bad[i] ? n < 0 && err.code == RP_MALFORMED && !strstr(err.msg, "0011") : n == 0, "'%s': %s", bad[i],
              err.msg);
        unsetenv("REPRO_JOB_KEY");
        if (i == 0)
            SAID(err.msg);
    }
    for (char c = '0'; c <= 'f'; c = (char)(c == '0' ? 'f' : c + 1)) {
        char same[65] = "";
        memset(same, c, 64);
        setenv("REPRO_JOB_KEY", same, 1);
        REFUSED(load(&k, NULL, 0, &err) < 0 && err.code == RP_USAGE && !k.source, err.msg);
        unsetenv("REPRO_JOB_KEY");
    }
    setenv("REPRO_JOB_KEY", "  00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff\n", 1);
    CHECK(load(&k, NULL, 0, &err) == 1 && is_the_key(&k), "capitals and blanks: %s", err.msg);
    rp_job_key_fini(&k);
    CHECK(!is_the_key(&k) && !k.source, "it is not wiped");
}

static const char *key_file(const char *name, mode_t mode)
{
    const char *path = put_file(name, HEX "\n", 65);
    chmod(path, mode);
    return path;
}

TEST(files)
{
    struct rp_job_key k;
    struct rp_err err;
    const char *path = key_file("key", 0600);
    CHECK(load(&k, path, 0, &err) == 1 && is_the_key(&k), "%s", err.msg);
    chmod(path, 0640);
    REFUSED(load(&k, path, 0, &err) < 0 && err.code == RP_USAGE, err.msg);
    chmod(path, 0602);
    REFUSED(load(&k, path, 0, &err) < 0 && err.code == RP_USAGE, err.msg);
    chmod(path, 0400);
    setenv("REPRO_JOB_KEY_FILE", path, 1);
    CHECK(load(&k, NULL, 0, &err) == 1 && is_the_key(&k) && strcmp(k.source, "REPRO_JOB_KEY_FILE") == 0, "%s", err.msg);
    setenv("REPRO_JOB_KEY", HEX, 1);
    CHECK(load(&k, path, 0, &err) == 1 && strcmp(k.source, "--job-key") == 0 && !getenv("REPRO_JOB_KEY"),
          "the variable stays behind");
    unsetenv("REPRO_JOB_KEY_FILE");
    REFUSED(load(&k, scratch("none"), 0, &err) < 0 && err.code == RP_IO, err.msg);
    REFUSED(load(&k, scratch_dir(), 0, &err) < 0, err.msg);
    chmod(put_file("short", "0011\n", 5), 0600);
    REFUSED(load(&k, scratch("short"), 0, &err) < 0 && err.code == RP_MALFORMED, err.msg);
}

/* One of both variables may be left from another job. */
TEST(both_variables)
{
    struct rp_job_key k;
    struct rp_err err;
    const char *path = key_file("key", 0600);
    setenv("REPRO_JOB_KEY_FILE", path, 1);
    setenv("REPRO_JOB_KEY", HEX, 1);
    CHECK(load(&k, NULL, 0, &err) == 1 && is_the_key(&k) && strcmp(k.source, "REPRO_JOB_KEY") == 0, "one key: %s",
          err.msg);
    setenv("REPRO_JOB_KEY", "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    REFUSED(load(&k, NULL, 0, &err) < 0 && err.code == RP_USAGE && !k.source && !getenv("REPRO_JOB_KEY"), err.msg);
    setenv("REPRO_JOB_KEY", HEX, 1);
    setenv("REPRO_JOB_KEY_FILE", scratch("none"), 1);
    CHECK(load(&k, NULL, 0, &err) < 0 && err.code == RP_USAGE && !k.source, "a file that is not there: %s", err.msg);
    unsetenv("REPRO_JOB_KEY_FILE");
}

TEST(descriptor)
{
    struct rp_job_key k;
    struct rp_err err;
    int end[2];
    CHECK(pipe(end) == 0 && write(end[1], HEX "\nmore", 69) == 69, "pipe");
    int high = fcntl(end[0], F_DUPFD, 100);
    CHECK(load(&k, NULL, high, &err) == 1 && is_the_key(&k), "%s", err.msg);
    close(end[1]);
    close(end[0]);
    close(high);
    REFUSED(load(&k, NULL, high, &err) < 0 && err.code == RP_IO, err.msg);
}

/* As a Secret is mounted: tmpfs of root, links, readable by all. In a mount namespace of its own. */
TEST(secret_volume)
{
    if (geteuid() != 0)
        SKIP("only root can mount");
    const char *dir = scratch("volume"), *link = scratch("volume/key");
    mkdir(dir, 0755);
    pid_t pid = fork();
    if (pid == 0) {
        struct rp_job_key k;
        struct rp_err err;
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", dir, "tmpfs", 0, "mode=1777") < 0)
            _exit(77);
        mkdir(scratch("volume/..data"), 0755);
        key_file("volume/..data/key", 0644);
        if (symlink("..data/key", link) < 0)
            _exit(2);
        int good = load(&k, link, 0, &err) == 1 && is_the_key(&k);
        if (chown(scratch("volume/..data/key"), 12345, 12345) < 0)
            _exit(3);
        _exit(good && load(&k, link, 0, &err) < 0 ? 0 : 1); /* a user's own file is for that user only */
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no file system can be mounted here");
    CHECK(status == 0, "status %d", status);
}

TEST(not_recorded)
{
    CHECK(rp_environment_allows("REPRO_JOB_KEY", 13) == RP_VARIABLE_NO &&
              rp_jobs_allow("REPRO_JOB_KEY", 13) == RP_VARIABLE_NO,
          "it is on a list");
    CHECK(rp_environment_allows("REPRO_JOB_KEY_FILE", 18) == RP_VARIABLE_NO && rp_is_secret("REPRO_JOB_KEY", "x"),
          "it is on a list");
    struct rp_capture_opts o = {.root = "/"};
    struct rp_err err = {0};
    RP_BUF text = {0};
    setenv("REPRO_JOB_KEY", HEX, 1);
    json_t *env = rp_capture(&o, &err);
    if (!CHECK(env, "%s", err.msg))
        return;
    rp_json_write_line(&text, env);
    CHECK(!strstr(text.data, "00112233445566778899aabb") && !strstr(text.data, "REPRO_JOB_KEY"), "a capture has it");
    json_decref(env);
    unsetenv("REPRO_JOB_KEY");
}

TEST(new_ones)
{
    struct rp_job_key a, b;
    struct rp_err err = {0};
    CHECK(rp_job_key_new(&a, &err) == 0 && rp_job_key_new(&b, &err) == 0 &&
              memcmp(a.bytes, b.bytes, sizeof a.bytes) != 0,
          "%s", err.msg);
}
