/* Capture of the machine the tests run on: shape, time, hidden names, withheld secrets, and git state of friendly and hostile
 * repositories. */
#include "base/build.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "capture/capture.h"
#include "tests/unit/env_shape.h"
#include "tests/unit/tap.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *capture(const char *workdir, int identify)
{
    struct rp_capture_opts o = {.root = "/", .workdir = workdir, .identify = identify};
    struct rp_err err;
    json_t *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    return env;
}

static const json_t *value(const json_t *env, const char *probe, const char *name, const char *member)
{
    return json_object_get(json_object_get(json_object_get(json_object_get(env, "probes"), probe), name), member);
}

static const char *state(const json_t *env, const char *probe, const char *name)
{
    const char *s = json_string_value(value(env, probe, name, "state"));
    return s ? s : "(no value)";
}

TEST(this_machine)
{
    struct env_counts c;
    json_t *env = capture(NULL, 0);
    const char *fault = env_fault(env, &c);
    CHECK(!fault, "%s", fault);
    CHECK(json_integer_value(value(env, "cpu", "threads", "value")) == sysconf(_SC_NPROCESSORS_ONLN), "threads");
    long long total = json_integer_value(value(env, "memory", "total", "value")), pages = sysconf(_SC_PHYS_PAGES);
    CHECK(total == pages * sysconf(_SC_PAGESIZE), "memory: %lld bytes, %lld pages", total, pages);
    char self[RP_SHA256_HEX];
    struct rp_err err;
    CHECK(rp_sha256_file(self, "/proc/self/exe", NULL, &err) == 0, "%s", err.msg);
    CHECK_STR(json_string_value(value(env, "program", "sha256", "value")), self);
    CHECK_STR(json_string_value(value(env, "program", "version", "value")), rp_build_record()->version);
    json_decref(env);
}

TEST(takes_less_than_a_tenth_of_a_second)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t start = rp_now_ns();
        json_decref(capture(NULL, 0));
        uint64_t took = rp_now_ns() - start;
        best = took < best ? took : best;
    }
    CHECK(best < 100000000, "%.1f ms", (double)best * 1e-6);
}

/* The form that env.schema.json promises, so that an owner can prove a hidden text later. */
TEST(names_are_hidden_and_can_be_proved)
{
    RP_BUF text = {0}, form = {0};
    char hex[RP_SHA256_HEX], salt[2][33];
    json_t *open = capture(NULL, 1);
    const char *host = json_string_value(value(open, "host", "hostname", "value"));
    CHECK(host && strncmp(host, "sha256:", 7) != 0 && json_is_true(json_object_get(open, "identified")), "--identify shows the name");
    for (int i = 0; i < 2 && host; i++) {
        json_t *env = capture(NULL, 0);
        snprintf(salt[i], sizeof salt[i], "%s", json_string_value(json_object_get(env, "salt")));
        form.size = text.size = 0;
        rp_buf_printf(&form, "%s%c%s%c%s", salt[i], 0, "host.hostname", 0, host);
        rp_sha256_hex(hex, form.data, form.size);
        const char *hidden = json_string_value(value(env, "host", "hostname", "value"));
        CHECK(hidden && strncmp(hidden, "sha256:", 7) == 0, "no hash");
        CHECK_STR(hidden ? hidden + 7 : NULL, hex);
        json_object_del(json_object_get(json_object_get(env, "probes"), "environment"), "LD_LIBRARY_PATH");
        rp_json_write(&text, env);
        CHECK(strlen(host) < 6 || !strstr(text.data, host), "the host's name '%s' shows somewhere", host);
        json_decref(env);
    }
    CHECK(strcmp(salt[0], salt[1]) != 0, "two documents have the same salt");
    json_decref(open);
}

TEST(secrets_never_show)
{
    static const char *const variables[][3] = { /* name, value, state; NULL: not recorded at all */
        {"AWS_SECRET_ACCESS_KEY", "marker01", NULL},
        {"GITHUB_TOKEN", "marker02", NULL},
        {"PGPASSWORD", "marker03", NULL},
        {"NVIDIA_api_key", "marker16", "denied"},
        {"CUDA_Proxy_Pwd", "marker17", "denied"},
        {"SLURM_JOB_ACCOUNT", "marker04", NULL},
        {"OMPX", "marker05", NULL},
        {"NVIDIA_API_KEY", "marker06", "denied"},
        {"NCCL_AUTH", "marker07", "denied"},
        {"OMP_X", "ghp_marker08", "denied"},
        {"UCX_PROXY", "http://marker09:pw@proxy", "denied"},
        {"CUDA_X", "eyJhbGciOiJIUzI1NiJ9.marker10", "denied"},
        {"FI_X", "marker11a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6", "denied"},
        {"NCCL_COMM_ID", "marker12:5555", "ok"},
        {"CUDA_VISIBLE_DEVICES", "GPU-marker13", "ok"},
        {"MKL_X", "line one\nmarker14", "error"},
        {"KMP_AFFINITY", "granularity=fine,compact,1,0", "ok"},
    };
    RP_BUF text = {0}, summary = {0};
    char large[3000];
    memset(large, 'y', sizeof large - 1);
    large[sizeof large - 1] = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        setenv(variables[i][0], variables[i][1], 1);
    setenv("OMP_LARGE", large, 1);
    json_t *env = capture(NULL, 0);
    rp_json_write(&text, env);
    rp_capture_summary(&summary, env);
    CHECK(!strstr(text.data, "marker") && !strstr(summary.data, "marker"), "a marker shows: %.100s", strstr(text.data, "marker"));
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *s = json_string_value(value(env, "environment", variables[i][0], "state"));
        CHECK(variables[i][2] ? s && strcmp(s, variables[i][2]) == 0 : !s, "%s: %s", variables[i][0], s ? s : "not recorded");
        unsetenv(variables[i][0]);
    }
    CHECK_STR(json_string_value(value(env, "environment", "KMP_AFFINITY", "value")), "granularity=fine,compact,1,0");
    CHECK_STR(state(env, "environment", "OMP_LARGE"), "error");
    unsetenv("OMP_LARGE");
    json_decref(env);
}

/* ---- a scratch directory ---- */

static char scratch[32];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* Runs a script in a fresh scratch directory that is also the home; 0 when it worked. */
static int in_scratch(const char *script)
{
    strcpy(scratch, "/tmp/rp-git-XXXXXX");
    if (!mkdtemp(scratch))
        return -1;
    RP_FREE char *command = rp_asprintf("cd %s && export HOME=%s GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
                                        "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE; set -e; "
                                        "{ %s\n} >/dev/null 2>&1",
                                        scratch, scratch, script);
    return system(command);
}

static void leave_scratch(void)
{
    nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- libraries ---- */

static json_t *libraries(const char *root, int digests, struct rp_buf *text)
{
    struct rp_capture_opts o = {.root = root, .digests = digests};
    struct rp_err err;
    CHECK(rp_capture_select(&o, "cuda,environment", &err) == 0, "%s", err.msg);
    json_t *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    text->size = 0;
    rp_json_write(text, env);
    json_t *all = json_incref(json_object_get(json_object_get(json_object_get(env, "probes"), "cuda"), "libraries"));
    json_decref(env);
    return all;
}

static const char *fact(json_t *all, const char *library, const char *name, const char *member)
{
    const char *s = json_string_value(json_object_get(json_object_get(json_object_get(all, library), name), member));
    return s ? s : "(none)";
}

/* As the loader would: first in LD_LIBRARY_PATH, by the link, one file once. The directory is somebody's. */
TEST(libraries_are_found_and_their_homes_not_named)
{
    char hex[RP_SHA256_HEX];
    struct rp_err err;
    RP_BUF text = {0};
    CHECK(in_scratch("mkdir -p home/marker/lib etc; cd home/marker/lib; echo bytes >libcudart.so.99.1.2; "
                     "ln -s libcudart.so.99.1.2 libcudart.so.99; ln -s libcudart.so.99 libcudart.so; truncate -s 40M libnccl.so.99; "
                     "echo /home/marker/lib >../../../etc/ld.so.conf; chmod -R go+rX ../../..") == 0,
          "the script failed");
    RP_FREE char *dir = rp_asprintf("%s/home/marker/lib", scratch), *file = rp_asprintf("%s/libcudart.so.99", dir);
    CHECK(rp_sha256_file(hex, file, NULL, &err) == 0, "%s", err.msg);
    setenv("LD_LIBRARY_PATH", dir, 1);
    json_t *all = libraries("/", 0, &text);
    unsetenv("LD_LIBRARY_PATH");
    CHECK(!strstr(text.data, "marker"), "the home shows: %.80s", strstr(text.data, "marker"));
    CHECK_STR(fact(all, "libcudart.so.99", "version", "value"), "99.1.2");
    CHECK_STR(fact(all, "libcudart.so.99", "found_by", "value"), "LD_LIBRARY_PATH");
    CHECK_STR(fact(all, "libcudart.so.99", "sha256", "value"), hex);
    CHECK(strncmp(fact(all, "libcudart.so.99", "path", "value"), "sha256:", 7) == 0, "%s", fact(all, "libcudart.so.99", "path", "value"));
    CHECK(!json_object_get(all, "libcudart.so.99#2") && !json_object_get(all, "libcudart.so"), "one file, taken twice");
    CHECK_STR(fact(all, "libnccl.so.99", "sha256", "state"), "absent");
    json_decref(all);

    all = libraries(scratch, 1, &text); /* another root, and digests of all */
    CHECK_STR(fact(all, "libcudart.so.99", "found_by", "value"), "ld.so.conf");
    CHECK_STR(fact(all, "libnccl.so.99", "sha256", "state"), "ok");
    CHECK(!strstr(text.data, "marker"), "the home shows: %.80s", strstr(text.data, "marker"));
    json_decref(all);
    leave_scratch();
}

/* ---- git ---- */

#define REPOSITORY "git init -q -b trunk r; cd r; echo 1 >a; echo 1 >b; git add a b; git commit -q -m one; "

static json_t *capture_repository(const char *below)
{
    RP_FREE char *dir = rp_asprintf("%s/%s", scratch, below);
    return capture(dir, 0);
}

static void check_repository(const char *script, const char *below, const char *branch, int modified, int untracked)
{
    CHECK(in_scratch(script) == 0, "the script failed: %s", script);
    json_t *env = capture_repository(below);
    const char *commit = json_string_value(value(env, "git", "commit", "value"));
    CHECK(commit && strlen(commit) == 40, "%s: commit is %s", script, state(env, "git", "commit"));
    CHECK_STR(json_string_value(value(env, "git", "branch", "value")), branch);
    CHECK(json_is_integer(value(env, "git", "modified", "value")) && json_integer_value(value(env, "git", "modified", "value")) == modified &&
              json_integer_value(value(env, "git", "untracked", "value")) == untracked,
          "%s: %lld modified, %lld untracked", script, (long long)json_integer_value(value(env, "git", "modified", "value")),
          (long long)json_integer_value(value(env, "git", "untracked", "value")));
    json_decref(env);
    leave_scratch();
}

TEST(git_states)
{
    if (system("git --version >/dev/null 2>&1") != 0)
        SKIP("no git here to make repositories with");
    check_repository(REPOSITORY, "r", "trunk", 0, 0);
    check_repository(REPOSITORY "echo 2 >a", "r", "trunk", 1, 0);
    check_repository(REPOSITORY "echo 2 >a; rm b; echo 3 >c; mkdir d; echo 4 >d/e", "r", "trunk", 2, 2);
    check_repository(REPOSITORY "echo 2 >a; git add a", "r", "trunk", 1, 0);
    check_repository(REPOSITORY "echo c >.gitignore; git add .gitignore; git commit -q -m two; echo 1 >c", "r", "trunk", 0, 0);
    check_repository(REPOSITORY "git checkout -q --detach; mkdir sub", "r/sub", "(detached)", 0, 0);

    static const char *const nothing[] = {"mkdir r", "git init -q r"}; /* no repository; no commit */
    for (int i = 0; i < 2; i++) {
        CHECK(in_scratch(nothing[i]) == 0, "%s", nothing[i]);
        json_t *env = capture_repository("r");
        CHECK_STR(state(env, "git", "commit"), "absent");
        CHECK_STR(state(env, "git", "modified"), i ? "ok" : "absent");
        json_decref(env);
        leave_scratch();
    }
}

/* Everything in a repository that makes git run a program; the program leaves a file. */
TEST(hostile_repository_runs_nothing)
{
    if (system("git --version >/dev/null 2>&1") != 0)
        SKIP("no git here to make repositories with");
    CHECK(in_scratch(REPOSITORY
                     "printf '#!/bin/sh\\ntouch %s/ran\\ncat\\n' \"$HOME\" >../evil; chmod +x ../evil; "
                     "for h in pre-commit post-checkout post-index-change fsmonitor-watchman reference-transaction; do cp ../evil .git/hooks/$h; done; "
                     "for k in core.fsmonitor core.sshCommand core.pager core.editor core.askPass diff.external filter.f.clean filter.f.smudge "
                     "filter.f.process credential.helper gpg.program; do git config $k \"$HOME/evil\"; done; "
                     "git config core.hooksPath \"$HOME\"; cp ../evil ../post-index-change; git config filter.f.required true; "
                     "printf '* filter=f diff=f\\n' >.gitattributes; printf '[alias]\\n\\tstatus = !%s/evil\\n' \"$HOME\" >../.gitconfig; "
                     "printf '[include]\\n\\tpath = %s/.gitconfig\\n' \"$HOME\" >>.git/config; "
                     "rm -f ../ran; echo changed >a; cp .git/index ../index") == 0,
          "the script failed");
    RP_FREE char *ran = rp_asprintf("%s/ran", scratch), *compare = rp_asprintf("cmp -s %s/index %s/r/.git/index", scratch, scratch);
    RP_FREE char *home = rp_strdup(getenv("HOME") ? getenv("HOME") : "/");
    setenv("HOME", scratch, 1);
    json_t *env = capture_repository("r");
    setenv("HOME", home, 1);
    CHECK(access(ran, F_OK) < 0, "a program of the repository ran");
    CHECK(system(compare) == 0, "the index was written");
    CHECK_STR(json_string_value(value(env, "git", "branch", "value")), "trunk");
    json_decref(env);
    leave_scratch();
}

TEST(broken_repositories_are_errors_in_time)
{
    static const char *const scripts[] = {
        "echo rubbish >.git/HEAD",
        "rm .git/HEAD; mkfifo .git/HEAD", /* blocks whoever opens it */
        "find .git/objects -type f -exec chmod u+w {} + -exec sh -c 'echo x >$1' x {} \\;",
        "head -c 100000 /dev/urandom >.git/index",
        "printf '[core\\n\\trepositoryformatversion = 99\\n' >.git/config",
        "rm -r .git; echo 'gitdir: ../../../../../../../../dev/zero' >.git",
    };
    if (system("git --version >/dev/null 2>&1") != 0)
        SKIP("no git here to make repositories with");
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct env_counts c;
        RP_FREE char *script = rp_asprintf(REPOSITORY "%s", scripts[i]);
        CHECK(in_scratch(script) == 0, "the script failed: %s", scripts[i]);
        uint64_t start = rp_now_ns();
        json_t *env = capture_repository("r");
        CHECK(rp_now_ns() - start < 3000000000u, "%s: %.1f s", scripts[i], (double)(rp_now_ns() - start) * 1e-9);
        const char *fault = env_fault(env, &c), *commit = state(env, "git", "commit"), *modified = state(env, "git", "modified");
        CHECK(!fault, "%s: %s", scripts[i], fault);
        CHECK(strcmp(commit, "ok") != 0 || strcmp(modified, "ok") != 0, "%s: commit %s, modified %s", scripts[i], commit, modified);
        json_decref(env);
        leave_scratch();
    }
}

TEST(foreign_owner_is_refused)
{
    if (geteuid() != 0)
        SKIP("only root can give a repository away");
    if (system("git --version >/dev/null 2>&1") != 0)
        SKIP("no git here to make repositories with");
    CHECK(in_scratch(REPOSITORY "chown -R 65534 .; printf '[safe]\\n\\tdirectory = *\\n' >../.gitconfig") == 0, "the script failed");
    json_t *env = capture_repository("r");
    CHECK_STR(state(env, "git", "commit"), "denied");
    json_decref(env);
    leave_scratch();
}
