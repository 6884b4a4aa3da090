/* Telemetry of the device that trains, or of those that a command can use, every 100 ms, in a separate thread: NVML may
 * be slow or never answer. */
#include "base/clock.h"
#include "base/json.h"
#include "capture/value.h"
#include "gpu/nvml.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PERIOD_NS 100000000u
#define STOP_NS 300000000u /* for a call of NVML that is under way; then the thread is abandoned */

struct sampled {
    char address[32];
    nvmlDevice_t dev;
    int is_open;
};

static struct {
    struct sampled *device;
    int devices, numbered; /* numbered: frames say which of several devices they are about */
    int fd, stop, ended, sent;
    pthread_t thread;
    int running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} sampler = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Wait until that time or a stop; nonzero: stopped. */
static int wait_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    pthread_mutex_lock(&sampler.lock);
    while (!sampler.stop && pthread_cond_timedwait(&sampler.changed, &sampler.lock, &at) != ETIMEDOUT)
        ;
    int stop = sampler.stop;
    pthread_mutex_unlock(&sampler.lock);
    return stop;
}

/* With the lock. A parent that is gone is the training thread's concern. */
static void send_locked(const json_t *body)
{
    struct rp_err ignored;
    if (body && rp_frame_write(sampler.fd, RP_FRAME_TELEMETRY, body, &ignored) < 0)
        sampler.stop = 1;
    sampler.sent = 1;
}

/* Nothing is sent after a stop. */
static void send_sample(const json_t *body)
{
    pthread_mutex_lock(&sampler.lock);
    if (!sampler.stop)
        send_locked(body);
    pthread_mutex_unlock(&sampler.lock);
}

static void send_of(const struct sampled *d, json_t *body)
{
    if (sampler.numbered)
        json_object_set_new(body, "device", json_integer(d - sampler.device));
    send_sample(body);
}

/* Published: neither the words of the driver nor the path of a file. */
static void send_reason(const struct sampled *d, const char *reason)
{
    RP_JSON *body = json_pack("{s:s}", "reason", reason);
    send_of(d, body);
}

/* Values that are known, without where they come from. */
static json_t *values_of(const struct rp_nvml *lib, nvmlDevice_t dev)
{
    json_t *out = json_object(), *leaf;
    RP_JSON *group = json_object();
    const char *name;
    rp_nvml_put_rows(lib, group, &(struct rp_nvml_subject){.dev = dev}, rp_nvml_sample_rows);
    json_object_foreach(group, name, leaf)
        if (rp_leaf(leaf).kind == RP_LEAF_KNOWN)
            json_object_set(out, name, (json_t *)rp_leaf(leaf).value);
    return out;
}

/* libnvidia-ml once for all; the reason goes to each. */
static int open_library(struct rp_nvml *lib)
{
    const char *source = "";
    char text[400] = "libnvidia-ml.so.1 cannot be loaded";
    nvmlReturn_t rc = NVML_SUCCESS;
    if (rp_nvml_load(lib) == 0) {
        rc = rp_nvml_init(lib, &source);
        if (rc == NVML_SUCCESS)
            return 0;
        RP_FORMAT(text, "%s: NVML error %d", source, (int)rc);
    }
    for (int i = 0; i < sampler.devices; i++)
        send_reason(&sampler.device[i], text);
    return -1;
}

static void open_device(const struct rp_nvml *lib, struct sampled *d)
{
    char text[400];
    const char *source = "";
    const nvmlReturn_t rc = rp_nvml_device_at(lib, d->address, &d->dev, &source);
    d->is_open = rc == NVML_SUCCESS;
    if (!d->is_open)
        send_reason(d, RP_FORMAT(text, "%s: NVML error %d", source, (int)rc));
}

static void take_sample(const struct rp_nvml *lib, struct sampled *d, json_int_t n)
{
    uint64_t now = rp_now_ns();
    RP_JSON *sample = values_of(lib, d->dev);
    if (json_object_size(sample) == 0 && n == 0) {
        d->is_open = 0;
        send_reason(d, "NVML answers no question about this device");
        return;
    }
    json_object_set_new(sample, "n", json_integer(n));
    json_object_set_new(sample, "ns", json_integer((json_int_t)now));
    send_of(d, sample);
}

static int any_open(void)
{
    int open = 0;
    for (int i = 0; i < sampler.devices; i++)
        open += sampler.device[i].is_open;
    return open;
}

static void *run_sampler(void *arg)
{
    struct rp_nvml lib;
    if (!*sampler.device->address)
        send_reason(sampler.device, "the driver gives no PCI address of the device");
    else if (open_library(&lib) == 0)
        for (int i = 0; i < sampler.devices; i++)
            open_device(&lib, &sampler.device[i]);
    uint64_t next = rp_now_ns();
    for (json_int_t n = 0; any_open() && !wait_until(next); n++) {
        for (int i = 0; i < sampler.devices; i++)
            if (sampler.device[i].is_open)
                take_sample(&lib, &sampler.device[i], n);
        next += (rp_now_ns() - next) / PERIOD_NS * PERIOD_NS + PERIOD_NS; /* what was missed is not caught up with */
    }
    pthread_mutex_lock(&sampler.lock);
    sampler.ended = 1;
    pthread_cond_broadcast(&sampler.changed);
    pthread_mutex_unlock(&sampler.lock);
    return arg;
}

/* Samples the devices of sampler.device. */
static void start_thread(int fd)
{
    pthread_condattr_t monotonic;
    sampler.fd = fd;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sampler.changed, &monotonic);
    sampler.running = pthread_create(&sampler.thread, NULL, run_sampler, NULL) == 0;
    for (int i = 0; !sampler.running && i < sampler.devices; i++)
        send_reason(&sampler.device[i], "no thread could be started for them");
}

static void start_sampler(const char *pci_address, int fd)
{
    static struct sampled one;
    snprintf(one.address, sizeof one.address, "%s", pci_address);
    sampler.device = &one;
    sampler.devices = 1;
    start_thread(fd);
}

void rp_gpu_watch(char *const *addresses, int64_t n, int fd)
{
    static struct sampled several[RP_GPU_WATCHED];
    if (sampler.running || n > RP_GPU_WATCHED)
        return;
    for (int64_t i = 0; i < n; i++)
        snprintf(several[i].address, sizeof several[i].address, "%s", rp_text_or_empty(addresses[i]));
    sampler.device = several;
    sampler.devices = (int)n;
    sampler.numbered = 1;
    if (sampler.devices)
        start_thread(fd);
}

static void stop_sampler(void)
{
    uint64_t until = rp_now_ns() + STOP_NS;
    struct timespec at = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    if (!sampler.running)
        return;
    pthread_mutex_lock(&sampler.lock);
    sampler.stop = 1;
    pthread_cond_broadcast(&sampler.changed);
    while (!sampler.ended && pthread_cond_timedwait(&sampler.changed, &sampler.lock, &at) != ETIMEDOUT)
        ;
    int ended = sampler.ended;
    const char *why = ended ? "the run was over before the first" : "NVML gave no answer until the run was over";
    RP_JSON *last = json_pack("{s:s}", "reason", why);
    if (!sampler.sent)
        send_locked(last);
    pthread_mutex_unlock(&sampler.lock);
    if (ended)
        pthread_join(sampler.thread, NULL);
    else
        pthread_detach(sampler.thread);
    sampler.running = 0;
}

const struct rp_sampler rp_gpu_sampler = {.start = start_sampler, .stop = stop_sampler};
