/* Every call of the driver fails once, or from some moment on, in a process of its own: a message that names what was
 * done, nothing kept, no crash. timeout: 120 */
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLOATS 3000000 /* 12 MB: an upload and a download of several halves of the page-locked memory */

/* What a run does, in small: 0, or -1 and the first failure. */
static int use_device(struct rp_err *err)
{
    static float host[FLOATS];
    struct rp_dev *dev = gpu(NULL, err);
    if (!dev)
        return -1;
    const struct rp_backend *b = dev->backend;
    float *x = b->block(dev, RP_CLASS_PARAMETERS, sizeof host, err),
          *y = x ? b->block(dev, RP_CLASS_GRADIENTS, sizeof host, err) : NULL;
    int failed = !y || b->upload(dev, x, host, sizeof host, err) < 0;
    uint64_t ns, reserved, taken;
    failed = failed || b->time_begin(dev, err) < 0;
    if (!failed) {
        dev->op->fill(dev, y, 2.0f, FLOATS);
        dev->op->add(dev, y, y, x, FLOATS);
        failed =
            b->sync(dev, err) < 0 || b->download(dev, host, y, sizeof host, err) < 0 || b->time_end(dev, &ns, err) < 0;
    }
    if (!failed && (host[0] != 2.0f || host[FLOATS - 1] != 2.0f))
        failed = rp_fail(err, RP_MISMATCH, "the sum is wrong") < 0;
    if (!failed) { /* what is measured beside a run */
        b->copy(dev, x, y, sizeof host);
        b->upload_repeated(dev, x, 4096, 2);
        failed = b->sync(dev, err) < 0 || b->used_memory(dev, &reserved, &taken, err) < 0;
        b->release(dev);
        failed = failed || b->sync(dev, err) < 0;
    }
    b->close(dev);
    return failed ? -1 : 0;
}

struct outcome {
    int status; /* of the child: 0 it worked, 1 it failed with a message, else it crashed or hung */
    long calls, kept; /* calls of the driver; things and bytes not given back */
    struct rp_err err;
};

static void read_log(const char *path, struct outcome *o)
{
    char line[128], *number;
    FILE *f = fopen(path, "r");
    o->calls = o->kept = -1;
    while (f && fgets(line, sizeof line, f) && (number = strrchr(line, ' '))) {
        if (strncmp(line, "called ", 7) == 0)
            continue;
        if (o->calls < 0)
            o->calls = atol(number);
        else
            o->kept = (o->kept < 0 ? 0 : o->kept) + labs(atol(number));
    }
    if (f)
        fclose(f);
    unlink(path);
}

/* variable=value in the environment of a child that uses the device. */
static struct outcome play(const char *variable, const char *value)
{
    struct outcome o = {.status = -1};
    char path[] = "/tmp/rp-shim-XXXXXX";
    int end[2], log = mkstemp(path), status = 0;
    if (log < 0 || pipe(end) < 0) {
        CHECK(0, "no pipe or file");
        return o;
    }
    close(log);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SHIM_LOG", path, 1);
        if (variable)
            setenv(variable, value, 1);
        alarm(20);
        int failed = use_device(&o.err) < 0;
        if (write(end[1], &o.err, sizeof o.err) < 0)
            _exit(3);
        exit(failed);
    }
    close(end[1]);
    if (read(end[0], &o.err, sizeof o.err) < 0)
        o.err.msg[0] = 0;
    close(end[0]);
    waitpid(pid, &status, 0);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    read_log(path, &o);
    return o;
}

TEST(a_good_run_gives_everything_back)
{
    struct outcome o = play(NULL, NULL);
    CHECK(o.status == 0, "status %d: %s", o.status, o.err.msg);
    CHECK(o.calls > 40 && o.kept == 0, "%ld calls, %ld kept", o.calls, o.kept);
}

/* Such a failure stays, as after a lost device. */
TEST(each_call_fails_in_turn_and_so_do_all_after_it)
{
    long calls = play(NULL, NULL).calls, silent = 0;
    for (long n = 1; n <= calls; n++) {
        char text[32];
        snprintf(text, sizeof text, "%ld:719", n); /* CUDA_ERROR_LAUNCH_FAILED */
        struct outcome o = play("SHIM_FAIL", text);
        CHECK(o.status == 0 || o.status == 1, "call %ld: status %d", n, o.status);
        CHECK(o.status == 0 || strstr(o.err.msg, "LAUNCH_FAILED"), "call %ld: '%s'", n, o.err.msg);
        CHECK(o.kept == 0, "call %ld: %ld kept after '%s'", n, o.kept, o.err.msg);
        silent += o.status == 0;
    }
    CHECK(silent < 16, "%ld of %ld failures are not noticed: only those of the end may be", silent, calls);
}

TEST(each_function_fails_once)
{
    static const char *const functions[] = {
#define DRIVER(f, symbol, cuda) symbol,
#include "backend/cuda/driver.def"
#undef DRIVER
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s:1:2", functions[i]); /* CUDA_ERROR_OUT_OF_MEMORY */
        struct outcome o = play("SHIM_FAIL", text);
        CHECK(o.status == 0 || o.status == 1, "%s: status %d", text, o.status);
        CHECK(o.status == 0 || (strstr(o.err.msg, "OUT_OF_MEMORY") && strstr(o.err.msg, "smaller batch")), "%s: '%s'",
              text, o.err.msg);
        CHECK(o.kept == 0, "%s: %ld kept", text, o.kept);
    }
}

TEST(release_of_the_driver_is_found_in_the_text_of_the_kernel_module)
{
    static const struct {
        const char *text, *release;
    } cases[] = {
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.60.13  Wed Nov 30 06:39:21 UTC 2022\nGCC version:  gcc "
         "11.3.0\n",
         "525.60.13"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs@U22)  Sun Jul 27\n",
         "580.65.06"},
        {"NVRM version: NVIDIA UNIX Kernel Module  without a number\nGCC version:  gcc version 12.2.0\n", NULL},
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  525\n", NULL},
        {"GCC version:  gcc version 12.2.0\n", NULL},
        {"Kernel Module", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char release[32] = "";
        const int found = rp_driver_release(release, cases[i].text) == 0;
        CHECK(found == (cases[i].release != NULL) && (!found || strcmp(release, cases[i].release) == 0),
              "case %zu: '%s'", i, release);
    }
}

TEST(machines_that_cannot_be_used_are_told_apart)
{
    static const struct {
        const char *variable, *value;
    } cases[] = {
        {"SHIM_DEVICES", "0"},
        {"SHIM_VERSION", "11080"},
        {"SHIM_CAPABILITY", "61"},
        {"SHIM_MEMORY", "80000000"},
        {"SHIM_FAIL", "cuInit:1:803"},
        {"SHIM_FAIL", "cuInit:1:802"},
        {"SHIM_FAIL", "cuDevicePrimaryCtxRetain:1:46"},
        {"SHIM_FAIL", "cuModuleLoadData:1:209"},
        {"SHIM_FAIL", "cuInit:1:34"},
        {"SHIM_FAIL", "cuInit:1:304"},
        {"SHIM_FAIL", "cuDevicePrimaryCtxRetain:1:807"},
        {"SHIM_FAIL", "cuModuleLoadData:1:221"},
        {"SHIM_FAIL", "cuStreamSynchronize:1:214"},
        {"SHIM_FAIL", "cuStreamSynchronize:1:700"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome o = play(cases[i].variable, cases[i].value);
        REFUSED(o.status == 1, o.err.msg);
        CHECK(o.kept == 0, "%s=%s: %ld kept", cases[i].variable, cases[i].value, o.kept);
    }
}
