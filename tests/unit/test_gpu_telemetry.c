/* Samples of the device that trains, against tests/fake/nvml.c: what comes, why none come, and a driver that hangs.
 * Each test plays in a child process, since only one libnvidia-ml.so.1 fits into one. */
#include "base/clock.h"
#include "base/json.h"
#include "gpu/gpu.h"
#include "run/telemetry.h"
#include "tests/unit/tap.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern const struct rp_sampler rp_gpu_sampler __attribute__((weak)); /* a build without CUDA=1 has none */

static int sockets[2]; /* the sampler writes to the second */
static struct rp_buf in;

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* The next frame that has come already, or NULL. */
static json_t *next_sample(void)
{
    char bytes[65536];
    struct rp_err err;
    enum rp_frame type;
    json_t *body = NULL;
    ssize_t n = recv(sockets[0], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
        rp_buf_add(&in, bytes, (size_t)n);
    int got = rp_frame_decode(&in, &type, &body, &err);
    CHECK(got >= 0 && (got == 0 || type == RP_FRAME_TELEMETRY), "no frame of samples");
    return body;
}

static void play(int age, const char *machine, const char *address)
{
    const char *build = getenv("BUILD");
    RP_FREE char *path = rp_asprintf("%s/fake/%d/libnvidia-ml.so.1", build ? build : "build", age);
    CHECK(!age || dlopen(path, RTLD_NOW) != NULL, "%s", dlerror());
    RP_FREE char *file = rp_asprintf("tests/fake/%s.txt", machine);
    setenv("RP_FAKE_NVML", file, 1);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "no sockets");
    rp_gpu_sampler.start(address, sockets[1]);
}

/* `run` in a child; its checks count here. */
static void in_child(void (*run)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&tap_failures, 0);
        alarm(60);
        run();
        fflush(stdout);
        _exit(atomic_load(&tap_failures) != 0);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static int take_samples(struct rp_sampling *s)
{
    int n = 0;
    for (json_t *body; (body = next_sample()); n++) {
        rp_sampling_add(s, body);
        json_decref(body);
    }
    return n;
}

static void working(void)
{
    const uint64_t begun = rp_now_ns();
    play(570, "h100_8", "0000:19:00.0");
    struct rp_sampling s = {0};
    int n = 0;
    for (int i = 0; i < 2000 && n < 5; i++, pause_ms(10))
        n += take_samples(&s);
    rp_gpu_sampler.stop();
    n += take_samples(&s);
    const int64_t periods = (int64_t)(rp_now_ns() - begun) / RP_TELEMETRY_PERIOD_NS;
    CHECK(n >= 5 && n <= periods + 1 && s.n == n, "%d samples in %lld periods, %lld kept: %s", n, (long long)periods,
          (long long)s.n, s.reason);
    if (s.n < 2)
        return;
    const struct rp_device_sample *one = &s.sample[1];
    CHECK(one->clock_sm_hz == 1980000000 && one->clock_memory_hz == 2619000000, "clocks");
    CHECK(one->power_mw == 118042 && one->throttle, "power");
    CHECK(one->temperature_c >= 0 && one->utilization >= 0, "temperature and utilization");
    int64_t nearest = INT64_MAX; /* the sample after a late one is nearer than a period */
    for (int64_t i = 1; i < s.n; i++) {
        const int64_t apart = s.sample[i].ns - s.sample[i - 1].ns;
        nearest = apart < nearest ? apart : nearest;
    }
    CHECK(nearest > 0 && nearest < 2 * (int64_t)RP_TELEMETRY_PERIOD_NS, "%lld ns apart at least", (long long)nearest);
    rp_sampling_fini(&s);
    pause_ms(250);
    CHECK(!next_sample(), "a sample came after the end");
}

static void expect_reason(const char *says)
{
    json_t *body = NULL;
    for (int i = 0; i < 100 && !(body = next_sample()); i++)
        pause_ms(50);
    const char *reason = json_string_value(json_object_get(body, "reason"));
    CHECK(reason && strstr(reason, says), "'%s' for '%s'", reason ? reason : "nothing", says);
    json_decref(body);
    rp_gpu_sampler.stop();
    CHECK(!next_sample(), "something came after the reason");
}

static void no_library(void)
{
    play(0, "h100_8", "0000:19:00.0");
    expect_reason("libnvidia-ml.so.1");
}

static void no_driver(void)
{
    play(570, "there_is_none", "0000:19:00.0");
    expect_reason("nvmlInit_v2: NVML error 9");
}

static void no_such_device(void)
{
    play(440, "titan_v_8", "0000:99:00.0");
    expect_reason("nvmlDeviceGetHandleByPciBusId_v2: NVML error 6");
}

static void no_address(void)
{
    play(570, "h100_8", "");
    expect_reason("PCI address");
}

/* A call that never returns: the end waits for it a moment. */
static void hanging(void)
{
    play(570, "hang", "0000:19:00.0");
    pause_ms(500); /* its thread has called the driver */
    uint64_t t0 = rp_now_ns();
    rp_gpu_sampler.stop();
    double s = (double)(rp_now_ns() - t0) * 1e-9;
    CHECK(s > 0.2, "%.3f s", s);
    expect_reason("no answer");
}

#define PLAYED(name)                                                                                                   \
    TEST(samples_##name)                                                                                               \
    {                                                                                                                  \
        if (!&rp_gpu_sampler)                                                                                          \
            SKIP("this build has no GPU worker (make CUDA=1)");                                                        \
        in_child(name);                                                                                                \
    }
PLAYED(working)
PLAYED(no_library)
PLAYED(no_driver)
PLAYED(no_such_device)
PLAYED(no_address)
PLAYED(hanging)
