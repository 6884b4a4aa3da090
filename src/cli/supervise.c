#include "cli/supervise.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "bundle/bundle.h"
#include "train/checkpoint.h"
#include "process/process.h"
#include "report/records.h"

#include <stdlib.h>
#include <unistd.h>

#define POLL_MS 100
#define STOP_GRACE_NS 400000000ull /* time for the worker after Ctrl-C before it is killed */

const char *rp_run_status_name(enum rp_run_status s)
{
    return s == RP_RUN_COMPLETE ? "complete" : s == RP_RUN_INCOMPLETE ? "incomplete" : "failed";
}

void rp_outcome_fini(struct rp_outcome *o)
{
    rp_buf_fini(&o->steps);
    rp_sampling_fini(&o->telemetry);
    json_decref(o->hello);
    json_decref(o->done);
    *o = (struct rp_outcome){0};
}

int rp_outcome_record(struct rp_outcome *o, const json_t *record)
{
    size_t before = o->steps.size;
    if (o->records >= RP_RECORDS_MAX)
        return 0;
    rp_json_write_line(&o->steps, record);
    if (o->steps.size > RP_BUNDLE_MEMBER_MAX) {
        o->steps.data[o->steps.size = before] = 0;
        return 0;
    }
    o->records++;
    return 1;
}

struct watch {
    struct rp_outcome *o;
    const struct rp_job *job;
    struct rp_meter *meter;
    const char *unit;
    int64_t phase_steps, phase_done, phase_samples; /* of the phase at hand */
    uint64_t phase_start_ns;
    uint64_t alive_ns; /* time of the worker's last message */
    int finished, full; /* full: a bundle has no room for more records */
};

static void show_step(struct watch *w, const json_t *record)
{
    float loss = 0;
    const char *hex = json_string_value(json_object_get(record, "loss"));
    if (json_integer_value(json_object_get(record, "step")) < 0 || !hex || rp_float_unhex(&loss, hex) < 0)
        return;
    w->o->steps_done++;
    uint64_t start = (uint64_t)json_integer_value(json_object_get(record, "start_ns"));
    uint64_t end = (uint64_t)json_integer_value(json_object_get(record, "end_ns"));
    if (w->phase_done++ == 0)
        w->phase_start_ns = start;
    w->phase_samples += json_integer_value(json_object_get(record, "samples"));
    double s = (double)(end - w->phase_start_ns) * 1e-9;
    int64_t left = rp_job_steps(w->job->recipe) - w->o->steps_done;
    if (w->job->steps > 0 && w->job->steps < rp_job_steps(w->job->recipe))
        left = w->job->steps - w->o->steps_done;
    rp_meter_step(w->meter, (int)w->phase_done, (int)w->phase_steps, loss, s > 0 ? (double)w->phase_samples / s : 0, w->unit,
                  s / (double)w->phase_done * (double)left);
}

static void on_frame(struct watch *w, enum rp_frame type, json_t *body)
{
    if (type != RP_FRAME_TELEMETRY) /* sent even if training hangs */
        w->alive_ns = rp_now_ns();
    switch (type) {
    case RP_FRAME_HELLO:
        if (!json_object_get(body, "backend"))
            break; /* the GPU worker's first one, before the job */
        json_decref(w->o->hello);
        w->o->hello = json_incref(body);
        rp_meter_note(w->meter, "device: %s, %s", rp_json_text_at(body, "backend"),
                      rp_device_text((char[RP_DEVICE_TEXT]){0}, json_object_get(body, "device")));
        break;
    case RP_FRAME_PHASE:
        w->phase_steps = json_integer_value(json_object_get(body, "steps"));
        w->phase_done = w->phase_samples = 0;
        rp_meter_phase(w->meter, json_string_value(json_object_get(body, "phase")), NULL);
        break;
    case RP_FRAME_STEP:
        w->full = w->full || !rp_outcome_record(w->o, body);
        if (!w->full)
            show_step(w, body);
        break;
    case RP_FRAME_TELEMETRY:
        rp_sampling_add(&w->o->telemetry, body);
        break;
    case RP_FRAME_DONE:
        json_decref(w->o->done);
        w->o->done = json_incref(body);
        w->finished = 1;
        break;
    case RP_FRAME_FAILED:
        w->o->status = RP_RUN_FAILED;
        rp_frame_failure(body, &w->o->reason);
        w->finished = 1;
        break;
    default:
        break;
    }
}

/* Interruption, full bundle and hangs; nonzero: the end. */
static int check_progress(struct watch *w, struct rp_process *worker, uint64_t *stop_ns)
{
    struct rp_outcome *o = w->o;
    uint64_t now = rp_now_ns(), limit = (uint64_t)w->job->recipe->run_hang_seconds * 1000000000ull;
    if (rp_interrupted()) {
        rp_interrupt_settle();
        *stop_ns = now;
        o->status = RP_RUN_INCOMPLETE;
        rp_fail(&o->reason, RP_INTERRUPTED, "interrupted after %lld steps", (long long)o->steps_done);
        rp_meter_note(w->meter, "interrupted: sealing what was measured (again to leave at once)");
        rp_process_stop(worker);
    }
    if (w->full && !*stop_ns) {
        *stop_ns = now;
        o->status = RP_RUN_INCOMPLETE;
        rp_fail(&o->reason, RP_INTERRUPTED, "ended after %lld steps: a bundle holds no more records; run fewer steps (--steps), or several "
                                            "runs",
                (long long)o->steps_done);
        rp_meter_note(w->meter, "no room for more records: sealing what was measured");
        rp_process_stop(worker);
    }
    if (*stop_ns && now - *stop_ns > STOP_GRACE_NS)
        return 1;
    if (now - w->alive_ns > limit) {
        o->status = RP_RUN_FAILED;
        rp_fail(&o->reason, RP_UNAVAILABLE, "the worker was silent for %lld s and counts as hung (run.hang_seconds); it was killed",
                (long long)w->job->recipe->run_hang_seconds);
        return 1;
    }
    return 0;
}

/* The unfinished file of a worker that was killed while saving. */
static void remove_unfinished(const struct rp_job *job, pid_t worker)
{
    const char *save = job->recipe->run_save;
    if (save && *save)
        rp_checkpoint_remove_unfinished(save, worker);
}

void rp_supervise(struct rp_outcome *o, const struct rp_job *job, struct rp_meter *meter)
{
    struct rp_err err;
    struct rp_process worker;
    struct watch w = {.o = o, .job = job, .meter = meter, .unit = rp_model_of(job->recipe)->sample_unit};
    uint64_t stop_ns = 0;
    *o = (struct rp_outcome){.status = RP_RUN_COMPLETE};
    if (rp_job_start(&worker, job, &err) < 0) {
        o->status = RP_RUN_FAILED;
        o->reason = err;
        return;
    }
    pid_t pid = worker.pid;
    w.alive_ns = rp_now_ns();
    while (!w.finished && !check_progress(&w, &worker, &stop_ns)) {
        enum rp_frame type;
        json_t *frame;
        int got = rp_process_next(&worker, POLL_MS, &type, &frame, &err);
        if (got > 0)
            on_frame(&w, type, frame);
        json_decref(frame);
        if (got >= 0)
            continue;
        if (!stop_ns) { /* after Ctrl-C the worker was asked to end */
            o->status = RP_RUN_FAILED;
            o->reason = err;
        }
        break;
    }
    if (w.finished)
        rp_process_end(&worker);
    else
        rp_process_kill(&worker);
    if (o->status != RP_RUN_COMPLETE)
        remove_unfinished(job, pid);
    rp_meter_end(meter);
}
