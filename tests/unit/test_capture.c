/* Capture of the machine the tests run on: shape, time, hidden names, withheld secrets. */
#include "base/build.h"
#include "base/hash.h"
#include "base/json.h"
#include "capture/capture.h"
#include "tests/unit/env_shape.h"
#include "tests/unit/scratch.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *capture(int identify)
{
    struct rp_capture_opts o = {.root = "/", .identify = identify};
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

/* That of a run, which does not change with the clock of the machine. */
TEST(time_that_is_given_is_that_of_the_document)
{
    struct rp_err err = {0};
    struct rp_capture_opts o = {.root = "/", .wall_ns = 1000000000999999999u};
    CHECK(rp_capture_select(&o, "kernel", &err) == 0, "%s", err.msg);
    RP_JSON *env = rp_capture(&o, &err);
    CHECK_STR(json_string_value(json_object_get(env, "captured_at")), "2001-09-09T01:46:40Z");
}

TEST(this_machine)
{
    struct env_counts c;
    RP_JSON *env = capture(0);
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
}

/* The form that env.schema.json promises, so that an owner can prove a hidden text later. */
TEST(names_are_hidden_and_can_be_proved)
{
    RP_BUF text = {0}, form = {0};
    char hex[RP_SHA256_HEX], salt[2][33];
    RP_JSON *open = capture(1);
    const char *host = json_string_value(value(open, "host", "hostname", "value"));
    CHECK(host && strncmp(host, "sha256:", 7) != 0 && json_is_true(json_object_get(open, "identified")),
          "--identify shows the name");
    for (int i = 0; i < 2 && host; i++) {
        RP_JSON *env = capture(0);
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
    }
    CHECK(strcmp(salt[0], salt[1]) != 0, "two documents have the same salt");
}

TEST(secrets_never_show)
{
    static const char *const variables[][3] = {
        /* name, value, state; NULL: not recorded at all */
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
        {"OMP_Y", "xoxa-marker18", "denied"},
        {"UCX_PROXY", "http://marker09:pw@proxy", "denied"},
        {"CUDA_X", "eyJhbGciOiJIUzI1NiJ9.marker10", "denied"},
        {"FI_X", "marker11a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6", "denied"},
        {"NCCL_COMM_ID", "marker12:5555", "ok"},
        {"CUDA_VISIBLE_DEVICES", "GPU-marker13", "ok"},
        {"MKL_X", "line one\nmarker14", "error"},
        {"KMP_AFFINITY", "granularity=fine,compact,1,0", "ok"},
        {"OMP_NUM_THREADS", "marker19", "ok"}, /* a word where a number belongs */
        {"NCCL_BUFFSIZE", "4194304", "ok"},
        {"OMP_THREAD_LIMIT", "auto", "ok"},
        {"OMP_STACKSIZE", "16MB", "ok"},
    };
    RP_BUF text = {0}, summary = {0};
    char large[5000];
    memset(large, 'y', sizeof large - 1);
    large[sizeof large - 1] = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        setenv(variables[i][0], variables[i][1], 1);
    setenv("OMP_LARGE", large, 1);
    RP_JSON *env = capture(0);
    rp_json_write(&text, env);
    rp_capture_summary(&summary, env);
    CHECK(!strstr(text.data, "marker") && !strstr(summary.data, "marker"), "a marker shows: %.100s",
          strstr(text.data, "marker"));
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *s = json_string_value(value(env, "environment", variables[i][0], "state"));
        CHECK(variables[i][2] ? s && strcmp(s, variables[i][2]) == 0 : !s, "%s: %s", variables[i][0],
              s ? s : "not recorded");
        unsetenv(variables[i][0]);
    }
    CHECK_STR(json_string_value(value(env, "environment", "KMP_AFFINITY", "value")), "granularity=fine,compact,1,0");
    CHECK_STR(json_string_value(value(env, "environment", "OMP_THREAD_LIMIT", "value")), "auto");
    CHECK_STR(json_string_value(value(env, "environment", "OMP_STACKSIZE", "value")), "16MB");
    CHECK_STR(state(env, "environment", "OMP_LARGE"), "error");
    unsetenv("OMP_LARGE");
}

/* ---- a scratch directory ---- */

static char made[256]; /* the directory of the last script */

/* Runs a script in a new directory. */
static void in_scratch(const char *script)
{
    snprintf(made, sizeof made, "%s", scratch_new());
    RP_FREE char *command = rp_asprintf("cd %s && set -e; { %s\n} >/dev/null 2>&1", made, script);
    CHECK(system(command) == 0, "the script failed: %s", script);
}

/* ---- libraries ---- */

static json_t *libraries(const char *root, int digests, struct rp_buf *text)
{
    struct rp_capture_opts o = {.root = root, .digests = digests};
    struct rp_err err;
    CHECK(rp_capture_select(&o, "cuda,environment", &err) == 0, "%s", err.msg);
    RP_JSON *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    text->size = 0;
    rp_json_write(text, env);
    json_t *all = json_incref(json_object_get(json_object_get(json_object_get(env, "probes"), "cuda"), "libraries"));
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
    in_scratch(
        "mkdir -p home/marker/lib etc; cd home/marker/lib; echo bytes >libcudart.so.99.1.2; ln -s libcudart.so.99.1.2 "
        "libcudart.so.99; ln -s libcudart.so.99 libcudart.so; truncate -s 40M libnccl.so.99; echo /home/marker/lib "
        ">../../../etc/ld.so.conf; chmod -R go+rX ../../..");
    RP_FREE char *dir = rp_asprintf("%s/home/marker/lib", made), *file = rp_asprintf("%s/libcudart.so.99", dir);
    CHECK(rp_sha256_file(hex, file, NULL, &err) == 0, "%s", err.msg);
    setenv("LD_LIBRARY_PATH", dir, 1);
    json_t *all = libraries("/", 0, &text);
    unsetenv("LD_LIBRARY_PATH");
    CHECK(!strstr(text.data, "marker"), "the home shows: %.80s", strstr(text.data, "marker"));
    CHECK_STR(fact(all, "libcudart.so.99", "version", "value"), "99.1.2");
    CHECK_STR(fact(all, "libcudart.so.99", "found_by", "value"), "LD_LIBRARY_PATH");
    CHECK_STR(fact(all, "libcudart.so.99", "sha256", "value"), hex);
    CHECK(strncmp(fact(all, "libcudart.so.99", "path", "value"), "sha256:", 7) == 0, "%s",
          fact(all, "libcudart.so.99", "path", "value"));
    CHECK(!json_object_get(all, "libcudart.so.99#2") && !json_object_get(all, "libcudart.so"), "one file, taken twice");
    CHECK_STR(fact(all, "libnccl.so.99", "sha256", "state"), "(none)"); /* not made, which is not the same as absent */
    json_decref(all);

    all = libraries(made, 1, &text); /* another root, and digests of all */
    CHECK_STR(fact(all, "libcudart.so.99", "found_by", "value"), "ld.so.conf");
    CHECK_STR(fact(all, "libnccl.so.99", "sha256", "state"), "ok");
    CHECK(!strstr(text.data, "marker"), "the home shows: %.80s", strstr(text.data, "marker"));
    json_decref(all);
}

/* ---- a container's layers ---- */

static json_t *layers(int identify)
{
    struct rp_capture_opts o = {.root = made, .identify = identify};
    struct rp_err err;
    CHECK(rp_capture_select(&o, "container", &err) == 0, "%s", err.msg);
    json_t *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    return env;
}

/* As a hash of all of them, and with --identify all of them: of two lists that begin alike, neither is the other. */
TEST(layers_are_counted_and_none_is_cut_off)
{
#define DIR_OF_LAYERS "/var/lib/docker/overlay2/l/"
    static const char list[] = DIR_OF_LAYERS "AAAAAAAAAAAAAAAAAAAAAAAAAA:" DIR_OF_LAYERS
                                             "BBBBBBBBBBBBBBBBBBBBBBBBBB:" DIR_OF_LAYERS "CCCCCCCCCC";
    RP_FREE char *script = rp_asprintf("mkdir -p proc/self; "
                                       "echo '20 1 0:30 / / rw - overlay overlay "
                                       "rw,lowerdir=%s,upperdir=/u,workdir=/w' >proc/self/mountinfo; chmod -R go+rX .",
                                       list);
    in_scratch(script);
    for (int identify = 0; identify < 2; identify++) {
        RP_JSON *env = layers(identify);
        const char *name = json_string_value(value(env, "container", "layers_name", "value"));
        CHECK(json_integer_value(value(env, "container", "layers", "value")) == 3, "identify %d: %lld layers", identify,
              (long long)json_integer_value(value(env, "container", "layers", "value")));
        CHECK(name && (identify ? strcmp(name, list) == 0 : strncmp(name, "sha256:", 7) == 0), "identify %d: %s",
              identify, name);
    }
}

/* ---- places ---- */

static const char *mount_point(const json_t *env, const char *place)
{
    return json_string_value(json_object_get(value(env, "storage", place, "mount_point"), "value"));
}

/* A store that does not exist yet will be made below the working directory, not below /. */
TEST(relative_places_are_where_the_working_directory_is)
{
    struct rp_capture_opts o = {.root = "/"};
    struct rp_err err;
    struct stat top, shm;
    if (stat("/", &top) < 0 || stat("/dev/shm", &shm) < 0 || top.st_dev == shm.st_dev)
        SKIP("/dev/shm is no file system of its own here");
    RP_FREE char *before = realpath(".", NULL);
    CHECK(chdir("/dev/shm") == 0 && setenv("REPRO_STORE", "repro-none/yet", 1) == 0 &&
              rp_capture_select(&o, "storage", &err) == 0,
          "%s", before);
    RP_JSON *env = rp_capture(&o, &err);
    CHECK(chdir(before) == 0 && unsetenv("REPRO_STORE") == 0, "%s", before);
    CHECK_STR(mount_point(env, "workdir"), "/dev/shm");
    CHECK_STR(mount_point(env, "store"), "/dev/shm");
}
