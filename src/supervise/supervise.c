#include "supervise/supervise.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "train/checkpoint.h"
#include "process/process.h"
#include "run/records.h"
#include "worker/group.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 100
#define STOP_GRACE_NS 400000000ull /* time for a worker after Ctrl-C before it is killed, */
#define RANK_GRACE_NS 50000000ull  /* and for each further rank */
/* after the first failure of several ranks: time for the one that caused it to be noticed */
#define BLAME_NS 500000000ull

const char *rp_run_status_name(enum rp_run_status s)
{
    return s == RP_RUN_COMPLETE ? "complete" : s == RP_RUN_INCOMPLETE ? "incomplete" : "failed";
}

void rp_outcome_fini(struct rp_outcome *o)
{
    for (int i = 0; i < o->ranks; i++) {
        rp_buf_fini(&o->rank[i].steps);
        rp_sampling_fini(&o->rank[i].telemetry);
        json_decref(o->rank[i].hello);
        json_decref(o->rank[i].done);
    }
    free(o->rank);
    *o = (struct rp_outcome){0};
}

int rp_outcome_record(struct rp_rank_outcome *o, int ranks, const json_t *record)
{
    size_t before = o->steps.size;
    if (o->records >= rp_records_most(ranks))
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
    struct rp_progress *progress;
    const char *unit;
    struct rp_group_of_workers *group;
    int64_t step_samples; /* of all ranks */
    int64_t phase_steps, phase_done; /* of the phase at hand, on rank 0 */
    uint64_t phase_start_ns;
    uint64_t looked_ns; /* when check_progress() was called last; 0: never */
    uint64_t stop_ns;   /* the workers were asked to end; 0: not */
    char stopped_by[200]; /* a signal to this other process; "": to this one */
    uint64_t failed_ns; /* the first failure; 0: none */
    int full;           /* a bundle has no room for more records */
};

static void show_step(struct watch *w, const struct rp_step_frame *step)
{
    float loss = 0;
    if (step->step < 0 || !step->loss || rp_float_unhex(&loss, step->loss) < 0)
        return;
    if (w->phase_done++ == 0)
        w->phase_start_ns = (uint64_t)step->start_ns;
    if (w->o->ranks == 1) /* it may be the largest batch that fits */
        w->step_samples = step->samples;
    double s = (double)((uint64_t)step->end_ns - w->phase_start_ns) * 1e-9;
    int64_t all = rp_job_steps(w->job->recipe),
            left = (w->job->steps > 0 && w->job->steps < all ? w->job->steps : all) - w->o->rank[0].steps_done;
    rp_progress_step(w->progress,
                     &(struct rp_progress_at){.what = "step", .step = (int)w->phase_done, .total = (int)w->phase_steps,
                                              .loss = loss,
                                              .rate = s > 0 ? (double)(w->phase_done * w->step_samples) / s : 0,
                                              .unit = w->unit, .left_s = s / (double)w->phase_done * (double)left});
}

static void on_step(struct watch *w, int rank, const json_t *body)
{
    struct rp_rank_outcome *o = &w->o->rank[rank];
    w->full = w->full || !rp_outcome_record(o, w->o->ranks, body);
    if (w->full)
        return;
    RP_READ(step_frame, step, body);
    o->steps_done += step.step >= 0;
    if (rank == 0)
        show_step(w, &step);
}

static void on_hello(struct watch *w, int rank, json_t *body)
{
    struct rp_rank_outcome *o = &w->o->rank[rank];
    char text[RP_DEVICE_TEXT];
    RP_READ(hello_frame, hello, body);
    if (!hello.backend)
        return; /* the GPU worker's first one, before the job */
    json_decref(o->hello);
    o->hello = json_incref(body);
    rp_device_text(text, hello.device);
    if (w->o->ranks == 1)
        rp_progress_note(w->progress, "device: %s, %s", hello.backend, text);
    else if (rank == 0)
        rp_progress_note(w->progress, "device of rank 0 of %d: %s, %s", w->o->ranks, hello.backend, text);
}

static void on_phase(struct watch *w, const json_t *body)
{
    RP_READ(phase_frame, p, body);
    w->phase_steps = p.steps;
    w->phase_done = 0;
    rp_progress_phase(w->progress, p.phase, NULL);
}

static void on_frame(struct watch *w, int rank, enum rp_frame type, json_t *body)
{
    struct rp_rank_outcome *o = &w->o->rank[rank];
    switch (type) {
    case RP_FRAME_HELLO:
        on_hello(w, rank, body);
        break;
    case RP_FRAME_PHASE:
        if (rank == 0)
            on_phase(w, body);
        break;
    case RP_FRAME_STEP:
        on_step(w, rank, body);
        break;
    case RP_FRAME_TELEMETRY:
        rp_sampling_add(&o->telemetry, body);
        break;
    case RP_FRAME_DONE:
        json_decref(o->done);
        o->done = json_incref(body);
        break;
    default:
        break;
    }
}

/* The workers finish the step at hand. */
static void stop_all(struct watch *w, const char *note)
{
    w->stop_ns = rp_now_ns();
    w->o->status = RP_RUN_INCOMPLETE;
    rp_progress_note(w->progress, "%s", note);
    rp_workers_stop(w->group);
}

/* While this process was stopped it read no message: that time does not count as silence of a worker. */
static void excuse_pause(struct watch *w, uint64_t now)
{
    const uint64_t since = rp_stopped_ns(&w->looked_ns, now);
    if (!since)
        return;
    rp_workers_excuse(w->group, since);
    rp_progress_note(w->progress, "this process did not run for %.0f s: the step at hand may be as much longer",
                     (double)since / 1e9);
}

/* Interruption, full bundle, failures and hangs; nonzero: the end. */
static int check_progress(struct watch *w)
{
    struct rp_outcome *o = w->o;
    const uint64_t limit = (uint64_t)w->job->recipe->run_hang_seconds * 1000000000ull;
    const uint64_t grace = STOP_GRACE_NS + (uint64_t)(o->ranks - 1) * RANK_GRACE_NS;
    if (rp_interrupted() || (!w->stop_ns && rp_workers_asked_to_stop(w->group, w->stopped_by))) {
        char line[320];
        rp_interrupt_settle();
        stop_all(w, RP_FORMAT(line, "interrupted%s%s: sealing what was measured (again to leave at once)",
                              *w->stopped_by ? " on " : "", w->stopped_by));
    }
    if (w->full && !w->stop_ns)
        stop_all(w, "no room for more records: sealing what was measured");
    const uint64_t now = rp_now_ns();
    excuse_pause(w, now);
    if (w->stop_ns)
        return now - w->stop_ns > grace;
    if (rp_workers_hung(w->group, limit, &o->reason)) {
        o->status = RP_RUN_FAILED;
        return 1;
    }
    if (!w->failed_ns && rp_workers_failed(w->group))
        w->failed_ns = now;
    return w->failed_ns && (o->ranks == 1 || now - w->failed_ns > BLAME_NS);
}

/* The unfinished files of workers that were killed while saving: rank 0 writes. */
static void remove_unfinished(const struct rp_job *job, pid_t worker)
{
    const char *save = job->recipe->run_save;
    if (save && *save)
        rp_checkpoint_remove_unfinished(save, worker);
}

void rp_outcome_trim(struct rp_outcome *o, int64_t steps)
{
    int64_t least = o->rank[0].records;
    for (int i = 1; i < o->ranks; i++)
        least = o->rank[i].records < least ? o->rank[i].records : least;
    for (int i = 0; i < o->ranks; i++) {
        struct rp_rank_outcome *r = &o->rank[i];
        for (; r->records > least; r->records--) {
            char *text = r->steps.data;
            size_t end = r->steps.size - 1; /* of the last line */
            while (end > 0 && text[end - 1] != '\n')
                end--;
            text[r->steps.size = end] = 0;
        }
        r->steps_done = least > 0 ? least - 1 : 0; /* the first record is the initial state */
        if (r->steps_done < steps)
            json_object_del(json_object_get(r->done, "tensor_roots"), "final");
    }
    o->steps_done = o->rank[0].steps_done;
}

/* Words the reason of a run that was stopped, once it is known how many steps the bundle will have: the workers have
 * finished the one at hand. */
static void word_stop(const struct watch *w)
{
    struct rp_outcome *o = w->o;
    const long long n = (long long)o->steps_done;
    char place[96];
    if (w->full)
        rp_fail(&o->reason.err, RP_INTERRUPTED,
                "ended after %lld step%s: a bundle holds no more records; run fewer steps (--steps), or several runs",
                n, rp_s(n));
    else
        rp_fail(&o->reason.err, RP_INTERRUPTED, "interrupted after %lld step%s%s%s", n, rp_s(n),
                *w->stopped_by ? ", on " : "", w->stopped_by);
    rp_run_reason_at(
        &o->reason, -1,
        RP_FORMAT(place, "after %lld step%s%s", n, rp_s(n), w->full ? ": a bundle holds no more records" : ""));
}

void rp_supervise(struct rp_outcome *o, const struct rp_job *job, struct rp_degrees degrees,
                  const struct rp_job_world *world, struct rp_progress *progress)
{
    const int ranks = rp_degrees_world(degrees);
    *o = (struct rp_outcome){
        .status = RP_RUN_COMPLETE, .ranks = ranks, .rank = rp_alloc((size_t)ranks * sizeof *o->rank)};
    struct watch w = {.o = o, .job = job, .progress = progress, .unit = rp_model_of(job->recipe)->sample_unit,
                      .step_samples = job->batch * rp_recipe_micro_batches(job->recipe)};
    for (int i = 0; i < ranks; i++)
        o->rank[i].telemetry.most = rp_telemetry_most(ranks);
    rp_run_reason_at(&o->reason, -1, "starting the workers");
    w.group = rp_workers_start(job, degrees, world, &o->reason.err);
    if (!w.group) {
        o->status = RP_RUN_FAILED;
        return;
    }
    const pid_t first = rp_workers_pid(w.group, 0);
    while (!rp_workers_finished(w.group) && !check_progress(&w)) {
        enum rp_frame type;
        json_t *body;
        int rank;
        if (rp_workers_next(w.group, POLL_MS, &rank, &type, &body) > 0)
            on_frame(&w, rank, type, body);
        json_decref(body);
    }
    if (o->status == RP_RUN_COMPLETE && rp_workers_failed(w.group)) {
        o->status = RP_RUN_FAILED;
        rp_workers_reason(w.group, &o->reason);
    }
    rp_workers_end(w.group);
    if (o->status != RP_RUN_COMPLETE)
        remove_unfinished(job, first);
    if (o->status != RP_RUN_COMPLETE)
        rp_outcome_trim(o, rp_job_steps(job->recipe));
    o->steps_done = o->rank[0].steps_done;
    if (o->status == RP_RUN_INCOMPLETE)
        word_stop(&w);
    rp_progress_end(progress);
}
