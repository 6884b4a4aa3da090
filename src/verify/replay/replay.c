/* A replay: the recorded recipe, within the limits of this verifier, trained again by a worker whose records are
 * compared. */
#include "verify/replay/inner.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "data/shuffle.h"
#include "data/store.h"
#include "run/agreement.h"
#include "run/run.h"
#include "train/train.h"
#include "verify/replay/samples.h"
#include "worker/job.h"
#include "worker/pace.h"
#include "worker/worker.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PROBE_NS 400000000           /* of GEMM for the estimate: longer than scheduling quanta of other work */
#define STOP_GRACE_NS 20000000000ull /* for the worker to report its tensor roots after a divergence */

/* The default of the key: how long a silent worker is awaited is not the bundle's choice. */
static const char *default_hang_seconds(int model)
{
    int n;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(k[i].name, "run.hang_seconds") == 0)
            return rp_key_default(&k[i], model);
    return NULL;
}

/* The recorded recipe without the owner's files, device and patience: a bundle must not choose what is read, written or
 * used here. */
static int local_recipe(struct rp_replaying *p, struct rp_err *err)
{
    const char *own = json_string_value(rp_facts_setting(p->run, "data.path"));
    const char *init = json_string_value(rp_facts_setting(p->run, "run.init"));
    char threads[24];
    if (rp_recipe_from_json(&p->recipe, p->run->recipe, err) < 0)
        return -1;
    if (own && *own && !p->o->data)
        return rp_fail(err, RP_UNAVAILABLE, "the run used its owner's samples: give them with --data");
    if (p->o->first > 0 && !p->o->init)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the state before step %" PRId64
                       " is not in the bundle: give it with --init (run --save writes one, and for --draw the "
                       "signer's 'repro challenge answer')",
                       p->o->first);
    if (init && *init && !p->o->init)
        return rp_fail(err, RP_UNAVAILABLE, "the run started from a file of its owner: give it with --init");
    snprintf(threads, sizeof threads, "%" PRId64, p->o->threads);
    const char *const local[][2] = {{"run.device", ""},
                                    {"data.path", p->o->data ? p->o->data : ""},
                                    {"run.init", p->o->init ? p->o->init : ""},
                                    {"run.save", p->o->save ? p->o->save : p->saved ? p->saved : ""},
                                    {"measure.ceilings", "false"},
                                    {"run.backend", "auto"},
                                    {"run.isa", p->o->isa ? p->o->isa : "auto"},
                                    {"run.threads", threads},
                                    {"run.hang_seconds", default_hang_seconds(p->recipe.workload)}};
    return rp_replay_set_local(&p->recipe, local, (int)(sizeof local / sizeof *local), err);
}

/* FLOPs of what is computed: a forward pass has a third of those of a step. */
static double flops_to_do(const struct rp_replaying *p, const struct rp_plan *plan)
{
    const double samples = (double)plan->batch * plan->flops_per_sample;
    return p->of_micros ? samples * (double)p->n_micro / 3
                        : samples * (double)(rp_recipe_micro_batches(&p->recipe) * p->steps);
}

/* Shortest and longest time in seconds; -1: unknown. */
static int estimate_time(double seconds[2], const struct rp_replaying *p, const struct rp_backend *b,
                         const struct rp_device_opts *o, const struct rp_plan *plan)
{
    return rp_pace(seconds, b, o, plan, flops_to_do(p, plan), PROBE_NS);
}

/* ---- the verifier's limits ---- */

static const char *show_bytes(char out[32], uint64_t bytes)
{
    rp_show_number(out, (double)bytes, "B");
    return out;
}

/* The plan's memory of this process and its worker; a device's own memory is limited by the device. */
static int check_memory(struct rp_replaying *p, const struct rp_backend *b, const struct rp_plan *plan,
                        struct rp_err *err)
{
    char needs[32], limit[32];
    uint64_t most = p->o->limit_bytes, needed = b->separate_memory ? plan->host + plan->decoders : plan->total;
    if (!most) {
        uint64_t available = rp_backend_cpu.memory(&(struct rp_device_opts){0});
        most = available == RP_MEMORY_UNKNOWN ? RP_MEMORY_UNKNOWN : available / 2;
    }
    p->limit_bytes = most;
    if (needed <= most)
        return 0;
    return rp_fail(
        err, RP_UNAVAILABLE, "the steps need %s of memory, the limit is %s%s: raise it with --replay-limit TIME,MEMORY",
        show_bytes(needs, needed), show_bytes(limit, most), p->o->limit_bytes ? "" : " (half of what is free)");
}

/* How many of what rp_replay_unit() names are done, and are to do. */
static int64_t count_done(const struct rp_replaying *p)
{
    return p->of_micros ? p->out->micros : p->out->steps;
}

static int64_t count_to_do(const struct rp_replaying *p)
{
    return p->of_micros ? p->n_micro : p->steps;
}

/* The worker is ended if it takes more memory than planned, or the time is over. A divergence that was found before
 * stands. */
static int check_limits(const struct rp_replaying *p, uint64_t now, struct rp_err *err)
{
    char takes[32], limit[32];
    uint64_t bytes = rp_process_memory(&p->worker);
    if (now > p->end_ns)
        return rp_fail(err, RP_UNAVAILABLE,
                       "not done within %.0f s, ended after %" PRId64 " of %" PRId64
                       " %s: allow more with --replay-limit TIME",
                       rp_replay_limit_s(p), count_done(p), count_to_do(p), rp_replay_unit(p, count_to_do(p)));
    if (bytes > p->limit_bytes)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the worker took %s of memory, the limit is %s: raise it with --replay-limit TIME,MEMORY",
                       show_bytes(takes, bytes), show_bytes(limit, p->limit_bytes));
    return 0;
}

/* Samples that their step has twice, over all steps of the run. */
static int count_samples(struct rp_replaying *p, int64_t batch, struct rp_err *err)
{
    const int64_t n = batch * rp_recipe_micro_batches(&p->recipe);
    int64_t records;
    if (rp_samples_are_distinct(&p->recipe))
        return 0;
    if (rp_train_count_samples(&records, &p->recipe, batch, p->data.path, err) < 0)
        return -1;
    for (int64_t i = 0; i < p->records->n; i++) {
        if (p->records->r[i].step < 0)
            continue;
        p->out->samples += n;
        p->out->repeated += rp_samples_repeated(&p->recipe, p->records->r[i].step, n, records);
    }
    return 0;
}

/* Which micro-batches: those that are the first ones in a random order. */
static int draw_micro_batches(struct rp_replaying *p, struct rp_err *err)
{
    uint64_t seed;
    int64_t *micro = rp_alloc((size_t)p->n_micro * sizeof *micro);
    p->out->micro_batch = micro;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return rp_fail(err, RP_IO, "no random numbers from the kernel");
    for (int64_t i = 0, n = 0; i < p->of_micros; i++)
        if (rp_shuffle((uint64_t)i, (uint64_t)p->of_micros, seed, 0) < (uint64_t)p->n_micro)
            micro[n++] = i;
    return 0;
}

/* Single micro-batches of a step: the recipe here has steps of one. */
static int choose_micro_batches(struct rp_replaying *p, struct rp_err *err)
{
    static const char *const one[][2] = {{"train.accumulation_steps", "1"}, {"parallel.data", "1"}};
    const int64_t micros = rp_recipe_micro_batches(&p->recipe);
    if (!p->o->micros)
        return 0;
    if (!p->records->micros)
        return rp_fail(
            err, RP_UNAVAILABLE, "the records have no losses of single micro-batches: %s; --replay trains whole steps",
            micros == 1 ? "a step of the run has only one" : "the run had too many, or was made by an earlier version");
    p->of_micros = p->out->of_micros = micros;
    p->n_micro = p->o->micros < micros ? p->o->micros : micros;
    return draw_micro_batches(p, err) < 0 ? -1
                                          : rp_replay_set_local(&p->recipe, one, (int)(sizeof one / sizeof *one), err);
}

/* "steps 4 to 6", "2 of 1024 micro-batches of step 0" */
static const char *describe_work(char out[96], const struct rp_replaying *p)
{
    const int64_t first = p->o->first;
    if (p->of_micros)
        snprintf(out, 96, "%" PRId64 " of %" PRId64 " micro-batches of step %" PRId64, p->n_micro, p->of_micros, first);
    else if (p->steps > 1)
        snprintf(out, 96, "steps %" PRId64 " to %" PRId64, first, first + p->steps - 1);
    else
        snprintf(out, 96, "step %" PRId64, first);
    return out;
}

static int start_worker(struct rp_replaying *p, struct rp_err *err)
{
    struct rp_plan plan;
    struct rp_err passed;
    const int64_t batch = p->run->plan.batch;
    const char *digest = p->run->data.digest;
    if (local_recipe(p, err) < 0)
        return -1;
    if (rp_data_prepare(&p->recipe, p->o->store, &p->data, err) < 0)
        return p->o->data ? rp_wrap(err, "--data gives the samples of the run, in its format %s",
                                    rp_data_format_of(&p->recipe)->name)
                          : -1;
    if (p->o->state && rp_replay_check_result(p, err) < 0)
        return -1;
    if (strcmp(p->data.digest, digest) != 0)
        return rp_fail(err, RP_MISMATCH, "the samples here have the digest %.24s..., those of the run %.24s...",
                       p->data.digest, digest);
    if (count_samples(p, batch, err) < 0)
        return rp_wrap(err, "counting the samples of a step");
    if (choose_micro_batches(p, err) < 0)
        return -1;
    const struct rp_backend *b = rp_job_backend(&p->recipe, &passed, err);
    struct rp_device_opts device = rp_job_device(&p->recipe);
    if (!b || rp_job_plan(&plan, &p->recipe, batch, NULL, b, &device, err) < 0)
        return -1;
    if (check_memory(p, b, &plan, err) < 0)
        return -1;
    double seconds[2];
    char work[96];
    int known = estimate_time(seconds, p, b, &device, &plan) == 0;
    if (p->o->begin)
        p->o->begin(p->o->arg, describe_work(work, p), known ? seconds : NULL);
    if (known && seconds[0] > rp_replay_limit_s(p))
        return rp_fail(err, RP_UNAVAILABLE,
                       "%" PRId64 " %s take%s at least %.0f s here, the limit is %.0f s: replay fewer, or allow more "
                       "with --replay-limit TIME",
                       count_to_do(p), rp_replay_unit(p, count_to_do(p)), count_to_do(p) == 1 ? "s" : "", seconds[0],
                       rp_replay_limit_s(p));
    struct rp_job job = {.recipe = &p->recipe, .backend = b, .data = p->data.path, .batch = batch, .first = p->o->first,
                         .steps = p->steps, .micros = p->of_micros, .micro_batch = p->out->micro_batch,
                         .n_micro = p->n_micro};
    char root_key[RP_SHA256_HEX];
    if (p->records->keyed && p->o->signer && p->run->replicates) {
        rp_agreement_key(root_key, p->o->signer, p->run->replicates->statement);
        job.root_key = root_key;
    }
    return rp_job_start(&p->worker, &job, err);
}

/* The kernel's name of this CPU, as in a capture; on Arm the kernel has none, and the capture has that of the device.
 */
static int is_captured_cpu(const json_t *before, const char *device)
{
    char line[256];
    const char *model = rp_known_text(before, "probes.cpu.model_name");
    int same = model && strcmp(model, device) == 0;
    FILE *f = model && !same ? fopen("/proc/cpuinfo", "re") : NULL;
    while (f && !same && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        const char *value = strncmp(line, "model name", strlen("model name")) == 0 ? strchr(line, ':') : NULL;
        same = value && strcmp(value + strspn(value, ": "), model) == 0;
    }
    if (f)
        fclose(f);
    return same;
}

/* All ranks of the run together had the instruction set and threads that this one has. */
static int is_same_device(const struct rp_replaying *p, const json_t *body)
{
    struct rp_device_info here;
    const char *isa = rp_facts_isa(p->run);
    RP_READ(hello_frame, hello, body);
    return rp_device_from_json(&here, hello.device) == 0 && strcmp(here.kind, "cpu") == 0 &&
           strcmp(rp_facts_kind(p->run), "cpu") == 0 && rp_facts_nodes(p->run) == 1 && isa &&
           strcmp(isa, here.isa) == 0 && rp_facts_threads(p->run) == here.threads &&
           is_captured_cpu(p->o->before, here.name);
}

/* Less than a tenth of the processors were busy in the last minute. */
static int is_idle(void)
{
    double load;
    return getloadavg(&load, 1) == 1 && load < 0.1 * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static int handle_frame(struct rp_replaying *p, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    if (type == RP_FRAME_HELLO) {
        p->out->same_device = p->idle && is_same_device(p, body);
    } else if (type == RP_FRAME_STEP) {
        rp_replay_compare_step(p, body);
    } else if (type == RP_FRAME_DONE) {
        RP_READ(done_frame, done, body);
        p->roots[0] = json_incref(done.tensor_roots.init);
        p->roots[1] = json_incref(done.tensor_roots.final);
        p->done = 1;
    } else if (type == RP_FRAME_FAILED) {
        return rp_frame_failure(body, err);
    }
    return 0;
}

/* A time in which this process did not run is neither the worker's silence nor part of the limit. */
static void excuse_pause(struct rp_replaying *p, uint64_t now)
{
    const uint64_t since = rp_stopped_ns(&p->looked_ns, now);
    p->worker.last_heard_ns += since;
    p->end_ns += since;
}

/* Interruption, divergence and hangs: 1 done, 0 continue, -1 failed. */
static int check_progress(struct rp_replaying *p, struct rp_err *err)
{
    uint64_t now = rp_now_ns();
    excuse_pause(p, now);
    if (p->o->progress && p->o->progress(p->o->arg, rp_replay_unit(p, 1), count_done(p), count_to_do(p)))
        return rp_fail(err, RP_INTERRUPTED, "interrupted after %" PRId64 " %s", count_done(p),
                       rp_replay_unit(p, count_done(p)));
    if (p->out->diverged && !p->stop_ns && !p->saved) {
        p->stop_ns = now;
        rp_process_stop(&p->worker);
    }
    if (p->stop_ns && now - p->stop_ns > STOP_GRACE_NS)
        return 1;
    if (check_limits(p, now, err) < 0)
        return p->out->diverged ? 1 : -1;
    if (now > p->worker.last_heard_ns + (uint64_t)p->recipe.run_hang_seconds * 1000000000u)
        return rp_fail(err, RP_UNAVAILABLE, "the worker hangs: no message for %" PRId64 " s",
                       p->recipe.run_hang_seconds);
    return 0;
}

static int watch_worker(struct rp_replaying *p, struct rp_err *err)
{
    while (!p->done) {
        enum rp_frame type;
        json_t *body;
        int over = check_progress(p, err);
        if (over)
            return over < 0 ? -1 : 0;
        int got = rp_process_next(&p->worker, RP_REPLAY_POLL_MS, &type, &body, err);
        int failed = got < 0 || (got > 0 && handle_frame(p, type, body, err) < 0);
        json_decref(body);
        if (failed)
            return p->out->diverged ? 0 : -1; /* a divergence was found before */
    }
    return 0;
}

/* Sets p->steps; fails if there are none. */
static int clamp_steps(struct rp_replaying *p, struct rp_err *err)
{
    int64_t all = p->records->n ? p->records->r[p->records->n - 1].step + 1 : 0, left = all - p->o->first;
    if (all < 1)
        return rp_fail(err, RP_UNAVAILABLE, "the run has no recorded steps");
    if (left < 1)
        return rp_fail(err, RP_USAGE,
                       "the replay begins with step %" PRId64 ", but the run has the steps 0 to %" PRId64, p->o->first,
                       all - 1);
    p->steps = p->o->steps < left ? p->o->steps : left;
    return 0;
}

static int replay_steps(struct rp_replaying *p, struct rp_err *err)
{
    if (clamp_steps(p, err) < 0 || (p->o->state && rp_replay_make_file(p, err) < 0) || start_worker(p, err) < 0 ||
        watch_worker(p, err) < 0)
        return -1;
    rp_replay_name_tensor(p);
    if (!p->out->diverged && count_done(p) < count_to_do(p))
        return rp_fail(err, RP_BUG, "the worker ended after %" PRId64 " of %" PRId64 " %s", count_done(p),
                       count_to_do(p), rp_replay_unit(p, count_to_do(p)));
    if (p->of_micros)
        return 0;
    return rp_replay_compare_files(p, err) < 0 ? -1 : rp_replay_judge_state(p, err);
}

int rp_replay(struct rp_replay_result *out, const struct rp_facts *run, const struct rp_records *records,
              const struct rp_replay_opts *o, struct rp_err *err)
{
    struct rp_replaying p = {
        .o = o, .out = out, .run = run, .records = records, .worker = {.pid = -1, .fd = -1}, .idle = is_idle()};
    *out = (struct rp_replay_result){.first = o->first, .agreed = -1, .micro = -1};
    p.end_ns = rp_now_ns() + (o->limit_ns ? o->limit_ns : RP_REPLAY_LIMIT_NS);
    int failed = replay_steps(&p, err);
    pid_t worker = p.worker.pid;
    rp_process_kill(&p.worker);
    rp_replay_remove_file(&p, worker);
    rp_recipe_fini(&p.recipe);
    rp_data_set_fini(&p.data);
    json_decref(p.roots[0]);
    json_decref(p.roots[1]);
    return failed;
}
