/* Starts repro-gpu next to a command, and collects its samples of the GPUs there. */
#include "supervise/gpu_watch.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/nvidia/gpu.h"
#include "capture/topology/pci.h"
#include "process/program.h"

#include <stdio.h>
#include <string.h>

#define LAST_MS 50 /* for frames that are under way when the command ends */

static void stop_worker(struct rp_gpu_watch *w)
{
    if (w->is_running)
        rp_process_kill(&w->worker);
    w->is_running = w->is_sampling = 0;
}

/* The first reason stays: what follows is its consequence. */
static void give_reason(struct rp_sampling *s, const char *why)
{
    if (!*s->reason)
        rp_ascii(s->reason, sizeof s->reason, why);
}

static void fail_all(struct rp_gpu_watch *w, const char *why)
{
    for (int i = 0; i < w->n; i++)
        give_reason(&w->gpu[i].samples, why);
}

static int start_worker(struct rp_gpu_watch *w, struct rp_err *err)
{
    RP_BUF program = {0};
    if (rp_program_gpu(&program, err) < 0 ||
        rp_process_start_program(&w->worker, &program, "repro-gpu", "the GPU worker", err) < 0)
        return -1;
    w->is_running = 1;
    return 0;
}

static int ask_worker(struct rp_gpu_watch *w, struct rp_sample_frame *visible, struct rp_err *err)
{
    const int limit_ms = rp_process_limit_ms(RP_GPU_TIMEOUT_MS);
    const uint64_t until = rp_now_ns() + (uint64_t)limit_ms * 1000000u;
    RP_JSON *question = json_object();
    if (rp_frame_write(w->worker.fd, RP_FRAME_SAMPLE, question, err) < 0)
        return -1;
    while (rp_now_ns() < until && !rp_interrupted()) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        const int got = rp_process_next(&w->worker, 100, &type, &body, err);
        if (got < 0)
            return -1;
        if (got > 0 && type == RP_FRAME_VALUES) {
            RP_READ(values_frame, answer, body);
            rp_object_read(visible, &rp_type_sample_frame, answer.values);
            return 0;
        }
    }
    return rp_fail(err, RP_UNAVAILABLE, "the GPU worker did not answer within %g s", limit_ms * 1e-3);
}

void rp_gpu_watch_open(struct rp_gpu_watch *w)
{
    struct rp_err err = {0};
    RP_READ(sample_frame, visible, NULL);
    *w = (struct rp_gpu_watch){0};
    if (start_worker(w, &err) < 0 || ask_worker(w, &visible, &err) < 0) {
        rp_ascii(w->reason, sizeof w->reason, *err.msg ? err.msg : "the GPU worker does not start");
        stop_worker(w);
        return;
    }
    for (int64_t i = 0; i < visible.devices_n; i++) {
        struct rp_watched_gpu *gpu = &w->gpu[w->n];
        int known = w->n == RP_WATCHED_MAX || rp_pci_address(gpu->address, rp_text_or_empty(visible.devices[i])) < 0;
        for (int k = 0; k < w->n && !known; k++) /* instances of a divided GPU have its address */
            known = strcmp(w->gpu[k].address, gpu->address) == 0;
        w->n += !known;
    }
    if (!w->n)
        snprintf(w->reason, sizeof w->reason, "no GPU is visible to the command");
    if (!w->n)
        stop_worker(w);
}

void rp_gpu_watch_start(struct rp_gpu_watch *w, const char *keep, int64_t most)
{
    struct rp_err err = {0};
    json_t *devices = json_array();
    RP_JSON *body = json_pack("{s:o}", "devices", devices);
    int n = 0;
    for (int i = 0; i < w->n; i++)
        if (keep[i])
            w->gpu[n++] = w->gpu[i];
    w->n = n;
    for (int i = 0; i < n; i++) {
        w->gpu[i].samples = (struct rp_sampling){.most = most};
        json_array_append_new(devices, json_string(w->gpu[i].address));
    }
    if (!n || !w->is_running) {
        stop_worker(w);
        return;
    }
    w->is_sampling = rp_frame_write(w->worker.fd, RP_FRAME_SAMPLE, body, &err) == 0;
    if (!w->is_sampling)
        fail_all(w, err.msg);
}

/* The number of a sample is its place among those of the command. */
static void take_frame(struct rp_gpu_watch *w, json_t *body, int64_t start_ns, int64_t end_ns)
{
    RP_READ(telemetry_frame, sample, body);
    if (sample.device < 0 || sample.device >= w->n)
        return;
    struct rp_sampling *s = &w->gpu[sample.device].samples;
    if (!sample.reason && (sample.ns < start_ns || sample.ns > end_ns))
        return;
    json_object_del(body, "device");
    if (sample.n != RP_NO_INTEGER)
        json_object_set_new(body, "n", json_integer(s->next));
    rp_sampling_add(s, body);
}

static void take_samples(struct rp_gpu_watch *w, int wait_ms, int64_t start_ns, int64_t end_ns)
{
    struct rp_err err = {0};
    while (w->is_sampling) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        const int got = rp_process_next(&w->worker, wait_ms, &type, &body, &err);
        if (got == 0)
            return;
        if (got > 0 && type == RP_FRAME_TELEMETRY)
            take_frame(w, body, start_ns, end_ns);
        if (got < 0) {
            w->is_running = w->is_sampling = 0; /* and reaped */
            fail_all(w, err.msg);
        }
    }
}

void rp_gpu_watch_take(struct rp_gpu_watch *w, int64_t start_ns)
{
    take_samples(w, 1, start_ns, INT64_MAX); /* 0 would read nothing */
}

void rp_gpu_watch_end(struct rp_gpu_watch *w, int64_t start_ns, int64_t end_ns)
{
    const int was_sampling = w->is_sampling;
    const uint64_t until = rp_now_ns() + LAST_MS * 1000000ull;
    do
        take_samples(w, LAST_MS / 5, start_ns, end_ns);
    while (w->is_sampling && rp_now_ns() < until && (int64_t)rp_now_ns() < end_ns + LAST_MS * 1000000ll);
    const char *why = end_ns - start_ns < 1000000000 ? "the command was over before the first"
                                                     : "NVML gave no answer until the command was over";
    for (int i = 0; was_sampling && i < w->n; i++)
        if (!w->gpu[i].samples.n)
            give_reason(&w->gpu[i].samples, why);
    stop_worker(w);
}

void rp_gpu_watch_fini(struct rp_gpu_watch *w)
{
    stop_worker(w);
    for (int i = 0; i < w->n; i++)
        rp_sampling_fini(&w->gpu[i].samples);
    w->n = 0;
}
