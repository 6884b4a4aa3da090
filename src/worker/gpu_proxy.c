/* NVIDIA GPUs: this program cannot load their driver, so repro-gpu answers for them, and trains. */
#include "worker/job.h"

#include "backend/cuda/needs.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "process/program.h"
#include "worker/worker.h"

#include <stdio.h>
#include <string.h>

#define REPORT_MS 600000
#define LIMIT_MS 60000 /* a driver without persistence initialises eight GPUs in ten seconds and more, and makes a context then */

struct cuda_answer {
    int asked;
    char device[65];   /* the requested one */
    struct rp_err why; /* why it cannot be used; "": it can */
    int64_t memory;
    struct rp_cuda_gpu gpu;
};

static int wait_for(struct rp_process *w, int limit_ms, json_t **values, struct rp_err *err)
{
    uint64_t until = rp_now_ns() + (uint64_t)limit_ms * 1000000u;
    while (rp_now_ns() < until && !rp_interrupted()) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        int got = rp_process_next(w, 100, &type, &body, err);
        if (got < 0)
            return -1;
        if (got > 0 && type == RP_FRAME_VALUES) {
            *values = json_incref(json_object_get(body, "values"));
            return *values ? 0 : rp_fail(err, RP_MALFORMED, "the GPU worker sent an answer without values");
        }
    }
    if (rp_interrupted())
        return rp_fail(err, RP_INTERRUPTED, "interrupted while the GPU worker looked for a GPU");
    return rp_fail(err, RP_UNAVAILABLE, "the GPU worker did not answer within %d s and was stopped: does the driver hang? (nvidia-smi, "
                                        "dmesg)",
                   limit_ms / 1000);
}

int rp_worker_start_gpu(struct rp_process *w, struct rp_err *err)
{
    RP_BUF program = {0};
    *w = (struct rp_process){.pid = -1, .fd = -1, .errors = -1, .name = "the GPU worker"};
    return rp_program_gpu(&program, err) < 0 ? -1 : rp_process_start_program(w, &program, "repro-gpu", w->name, err);
}

/* Starts repro-gpu, sends one query, and ends it. */
static int query_once(enum rp_frame type, const json_t *question, int limit_ms, json_t **values, struct rp_err *err)
{
    struct rp_process w;
    if (rp_worker_start_gpu(&w, err) < 0)
        return -1;
    int failed = rp_frame_write(w.fd, type, question, err) < 0 || wait_for(&w, limit_ms, values, err) < 0;
    rp_process_kill(&w);
    return failed ? -1 : 0;
}

static int query_device(struct cuda_answer *a, struct rp_err *err)
{
    static const char where[] = "answer of the GPU worker";
    RP_JSON *values = NULL, *question = json_pack("{s:s}", "device", a->device);
    const char *name;
    int64_t capability, shared;
    if (query_once(RP_FRAME_DEVICE, question, LIMIT_MS, &values, err) < 0)
        return -1;
    const char *unavailable = json_string_value(json_object_get(values, "unavailable"));
    if (unavailable)
        return rp_fail(err, RP_UNAVAILABLE, "%s", unavailable);
    if (rp_json_str(values, "name", &name, where, err) < 0 || rp_json_int(values, "capability", &capability, where, err) < 0 ||
        rp_json_int(values, "shared_bytes", &shared, where, err) < 0 || rp_json_int(values, "memory", &a->memory, where, err) < 0)
        return -1;
    a->gpu = (struct rp_cuda_gpu){.capability = (int)capability, .shared_max = (size_t)shared};
    snprintf(a->gpu.name, sizeof a->gpu.name, "%s", name);
    return 0;
}

/* Queried once: a driver takes a second, and the answer does not depend on sizes. */
static const struct cuda_answer *answer_for(const struct rp_device_opts *o)
{
    static struct cuda_answer a;
    const char *device = o->device ? o->device : "";
    if (a.asked && strcmp(a.device, device) == 0)
        return &a;
    a = (struct cuda_answer){.asked = 1};
    snprintf(a.device, sizeof a.device, "%s", device);
    if (query_device(&a, &a.why) < 0)
        a.memory = 0;
    return &a;
}

static const char *unavailable(const struct rp_device_opts *o)
{
    const struct cuda_answer *a = answer_for(o);
    return *a->why.msg ? a->why.msg : NULL;
}

static int supports(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err)
{
    const struct cuda_answer *a = answer_for(o);
    return *a->why.msg ? rp_use_check(u, "cuda", err) : rp_cuda_supports(&a->gpu, u, err); /* without a GPU there are no limits */
}

static uint64_t memory(const struct rp_device_opts *o)
{
    return (uint64_t)answer_for(o)->memory;
}

static int report_of(enum rp_frame type, const json_t *question, json_t **report, struct rp_err *err)
{
    RP_JSON *values = NULL;
    *report = NULL;
    if (query_once(type, question, REPORT_MS, &values, err) < 0)
        return -1;
    const char *failed = json_string_value(json_object_get(values, "failed"));
    *report = json_incref(json_object_get(values, "report"));
    if (json_is_true(json_object_get(values, "unavailable")))
        return rp_fail(err, RP_UNAVAILABLE, "%s", failed ? failed : "no reason given");
    return failed ? rp_fail(err, RP_MISMATCH, "%s", failed) : 0;
}

int rp_worker_selftest_gpu(const char *device, json_t **report, struct rp_err *err)
{
    RP_JSON *question = json_pack("{s:s}", "device", device ? device : "");
    return report_of(RP_FRAME_SELFTEST, question, report, err);
}

int rp_worker_speed_gpu(const char *device, double seconds, json_t **report, struct rp_err *err)
{
    RP_JSON *question = json_pack("{s:s, s:f}", "device", device ? device : "", "seconds", seconds);
    return report_of(RP_FRAME_SPEED, question, report, err);
}

const struct rp_backend rp_worker_cuda = {
    .name = "cuda",
    .summary = "NVIDIA GPUs from V100 on: the same bits as the CPU",
    .remote = 1,
    .separate_memory = 1,
    .unavailable = unavailable,
    .supports = supports,
    .needs = rp_cuda_needs,
    .memory = memory,
};
