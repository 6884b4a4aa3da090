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

/* A driver without persistence initialises eight GPUs in ten seconds and more, and makes a context then. */
#define LIMIT_MS 60000
#define OPEN_MS 300000      /* where there is only PTX for a GPU, opening it compiles all kernels */
#define REPORT_END_MS 10000 /* after minutes of work tools that watch the process write what they saw */
#define REPORT_END_MAX_MS 60000

struct cuda_answer {
    int asked;
    char device[65];   /* the requested one */
    struct rp_err why; /* why it cannot be used; "": it can */
    int64_t memory;
    struct rp_cuda_gpu gpu;
};

static int take_answer(json_t **values, const json_t *body, struct rp_err *err)
{
    RP_READ(values_frame, answer, body);
    *values = json_incref(answer.values);
    return *values ? 0 : rp_fail(err, RP_MALFORMED, "the GPU worker sent an answer without values");
}

static int wait_for(struct rp_process *w, int limit_ms, json_t **values, struct rp_err *err)
{
    uint64_t until = rp_now_ns() + (uint64_t)limit_ms * 1000000u;
    while (rp_now_ns() < until && !rp_interrupted()) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        int got = rp_process_next(w, 100, &type, &body, err);
        if (got < 0)
            return -1;
        if (got > 0 && type == RP_FRAME_VALUES)
            return take_answer(values, body, err);
    }
    if (rp_interrupted())
        return rp_fail(err, RP_INTERRUPTED, "interrupted while the GPU worker looked for a GPU");
    return rp_fail(err, RP_UNAVAILABLE,
                   "the GPU worker did not answer within %g s and was stopped: does the driver hang (nvidia-smi, "
                   "dmesg)?",
                   limit_ms * 1e-3);
}

static int start_worker(struct rp_process *w, int is_watched, struct rp_err *err)
{
    static const char name[] = "repro-gpu", what[] = "the GPU worker";
    RP_BUF program = {0};
    *w = (struct rp_process){.pid = -1, .fd = -1, .errors = -1, .name = what};
    if (rp_program_gpu(&program, err) < 0)
        return -1;
    return is_watched ? rp_process_start_watched(w, &program, name, what, err)
                      : rp_process_start_program(w, &program, name, what, err);
}

int rp_worker_start_gpu(struct rp_process *w, struct rp_err *err)
{
    return start_worker(w, 1, err);
}

static int query_device(struct cuda_answer *a, int answer_s, struct rp_err *err)
{
    RP_JSON *values = NULL, *question = json_pack("{s:s}", "device", a->device);
    struct rp_process w;
    struct rp_err ignored; /* there is an answer, and the process ends one way or the other */
    if (start_worker(&w, 0, err) < 0)
        return -1;
    const int most_ms = rp_process_limit_ms(LIMIT_MS),
              limit_ms = answer_s > 0 && answer_s < most_ms / 1000 ? answer_s * 1000 : most_ms;
    if (rp_frame_write(w.fd, RP_FRAME_DEVICE, question, err) < 0 || wait_for(&w, limit_ms, &values, err) < 0) {
        rp_process_kill(&w);
        return -1;
    }
    (void)rp_process_end(&w, RP_PROCESS_END_MS, &ignored);
    RP_READ(device_unavailable, absent, values);
    if (absent.unavailable)
        return rp_fail(err, RP_UNAVAILABLE, "%s", absent.unavailable);
    struct rp_device_values is;
    const int taken = rp_object_take(&is, &rp_type_device_values, values, "answer of the GPU worker", err);
    if (taken == 0) {
        a->memory = is.memory;
        a->gpu = (struct rp_cuda_gpu){.capability = (int)is.capability, .shared_max = (size_t)is.shared_bytes};
        snprintf(a->gpu.name, sizeof a->gpu.name, "%s", is.name);
    }
    rp_object_fini(&is, &rp_type_device_values);
    return taken;
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
    if (query_device(&a, o->answer_s, &a.why) < 0)
        a.memory = 0;
    return &a;
}

static const char *unavailable(const struct rp_device_opts *o)
{
    const struct cuda_answer *a = answer_for(o);
    if (*a->why.msg)
        return a->why.msg;
    if (!rp_is_mixed(o->numerics) || rp_cuda_has_arithmetic(a->gpu.capability, o->numerics))
        return NULL;
    if (rp_cuda_arithmetic(a->gpu.capability, rp_arithmetic_of(o->numerics)->format) == RP_NUMERICS_fp32_1)
        return "its tensor cores have no bf16; set train.precision to fp16";
    return o->any_tensor_core ? NULL : "its tensor cores are of another kind; set train.tensor_core to auto";
}

int rp_worker_gpu_tensor_core(const struct rp_device_opts *o)
{
    const struct cuda_answer *a = answer_for(o);
    const enum rp_numerics n = rp_cuda_arithmetic(a->gpu.capability, rp_arithmetic_of(o->numerics)->format);
    return *a->why.msg || !rp_is_mixed(n) ? 0 : rp_arithmetic_of(n)->tc.products;
}

static int supports(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err)
{
    const struct cuda_answer *a = answer_for(o);
    if (*a->why.msg) /* limits exist only with a GPU */
        return rp_use_check(u, "cuda", err);
    return rp_cuda_supports(&a->gpu, o->numerics, u, err);
}

static uint64_t memory(const struct rp_device_opts *o)
{
    return (uint64_t)answer_for(o)->memory;
}

/* ---- reports ---- */

struct rp_gpu_limits rp_worker_gpu_limits(void)
{
    const int set = rp_process_limit_ms(0);
    struct rp_gpu_limits l = {.silence_ms = set ? set : LIMIT_MS, .open_ms = OPEN_MS, .end_ms = REPORT_END_MS};
    if (set)
        l.open_ms = set > LIMIT_MS ? set : LIMIT_MS;
    if (set > REPORT_END_MS)
        l.end_ms = set < REPORT_END_MAX_MS ? set : REPORT_END_MAX_MS;
    return l;
}

/* "conv_wgrad, case 7 (1x19x21x3, 7x7/2 to 24)" */
static const char *place_text(char out[200], const json_t *at)
{
    const char *op = json_string_value(json_object_get(at, "op")),
               *shape = json_string_value(json_object_get(at, "shape"));
    const int n = snprintf(out, 200, "%.60s", op ? op : "opening the device");
    if (shape && *shape)
        snprintf(out + n, 200 - (size_t)n, ", case %d (%.100s)", (int)json_integer_value(json_object_get(at, "case")),
                 shape);
    return out;
}

static int fail_hung(const struct rp_gpu_report *r, int limit_ms, struct rp_err *err)
{
    const int most = RP_PROCESS_LIMIT_MAX_MS;
    char place[200], longer[64] = "";
    if (limit_ms < most)
        snprintf(longer, sizeof longer, "RP_GPU_TIMEOUT_MS=%d waits longer, ",
                 limit_ms < most / 2 ? 2 * limit_ms : most);
    return rp_fail(err, RP_UNAVAILABLE,
                   "the GPU worker was silent for %g s in %s, and was stopped: does the driver hang (nvidia-smi, "
                   "dmesg)? %sRP_CUDA_GRAPHS=0 launches kernels one by one",
                   limit_ms * 1e-3, place_text(place, r->stopped), longer);
}

/* Until VALUES; r->stopped is the case at hand meanwhile. */
static int read_report(struct rp_process *w, const struct rp_gpu_limits *limits, struct rp_gpu_report *r,
                       json_t **values, struct rp_err *err)
{
    int begun = 0;
    while (!rp_interrupted()) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        const int limit_ms = begun ? limits->silence_ms : limits->open_ms,
                  got = rp_process_next(w, 100, &type, &body, err);
        if (got < 0)
            return -1;
        if (got == 0 && rp_now_ns() - w->last_heard_ns > (uint64_t)limit_ms * 1000000u)
            return fail_hung(r, limit_ms, err);
        if (got > 0 && type == RP_FRAME_PHASE) {
            json_decref(r->stopped);
            r->stopped = json_incref(body);
            begun = 1;
        } else if (got > 0 && type == RP_FRAME_STEP) {
            json_array_append(r->rows, body);
            if (r->done)
                r->done(body);
        } else if (got > 0 && type == RP_FRAME_VALUES) {
            return take_answer(values, body, err);
        }
    }
    return rp_fail(err, RP_INTERRUPTED, "interrupted while the GPU worker computed");
}

/* The last answer: unavailable, failed, or neither. A failure of the self-test names its case. */
static int take_values(enum rp_frame question, struct rp_gpu_report *r, const json_t *values, struct rp_err *err)
{
    RP_READ(report_values, report, values);
    char place[200];
    r->kernels = json_incref(report.kernels);
    if (report.failed)
        (void)rp_frame_failure_of(report.failed, err);
    else if (report.unavailable)
        (void)rp_fail(err, RP_UNAVAILABLE, "%s", report.unavailable);
    if (report.failed && err->code != RP_MISMATCH)
        return question == RP_FRAME_SPEED ? rp_wrap(err, "%s", place_text(place, r->stopped)) : -1;
    json_decref(r->stopped);
    r->stopped = NULL;
    return report.failed || report.unavailable ? -1 : 0;
}

static int query_report(enum rp_frame type, const json_t *question, struct rp_gpu_report *r, struct rp_err *err)
{
    struct rp_process w;
    struct rp_err end = {0};
    RP_JSON *values = NULL;
    char place[200];
    const struct rp_gpu_limits limits = rp_worker_gpu_limits();
    r->rows = json_array();
    if (rp_worker_start_gpu(&w, err) < 0)
        return -1;
    if (w.has_tool) /* it is left time to report */
        rp_interrupt_catch();
    r->stopped = json_pack("{s:s, s:i, s:s}", "op", "opening the device", "case", 0, "shape", "");
    if (rp_frame_write(w.fd, type, question, err) < 0 || read_report(&w, &limits, r, &values, err) < 0) {
        if (w.pid < 0) /* it is gone */
            (void)rp_wrap(err, "%s", place_text(place, r->stopped));
        rp_process_kill(&w);
        return -1;
    }
    if (rp_process_end(&w, limits.end_ms, &end) < 0)
        snprintf(r->note, sizeof r->note, "%.255s", end.msg);
    return take_values(type, r, values, err);
}

void rp_gpu_report_fini(struct rp_gpu_report *r)
{
    json_decref(r->rows);
    json_decref(r->kernels);
    json_decref(r->stopped);
    *r = (struct rp_gpu_report){0};
}

int rp_worker_selftest_gpu(const char *device, int mixed, struct rp_gpu_report *r, struct rp_err *err)
{
    RP_JSON *question = json_pack("{s:s, s:b}", "device", device ? device : "", "tensor_core", mixed);
    return query_report(RP_FRAME_SELFTEST, question, r, err);
}

int rp_worker_speed_gpu(const char *device, int mixed, double seconds, struct rp_gpu_report *r, struct rp_err *err)
{
    RP_JSON *question =
        json_pack("{s:s, s:b, s:f}", "device", device ? device : "", "tensor_core", mixed, "seconds", seconds);
    return query_report(RP_FRAME_SPEED, question, r, err);
}

const struct rp_backend rp_worker_cuda = {
    .name = "cuda",
    .summary = "NVIDIA GPUs from V100 on: the same bits as the CPU",
    .remote = 1,
    .separate_memory = 1,
    .mixed = sizeof(uint16_t),
    .unavailable = unavailable,
    .supports = supports,
    .needs = rp_cuda_needs,
    .memory = memory,
};
