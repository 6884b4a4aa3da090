#include "verify/replay/replay.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "data/store.h"
#include "run/agreement.h"
#include "run/run.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"
#include "verify/replay/samples.h"
#include "worker/measure_ceilings.h"
#include "worker/job.h"
#include "worker/worker.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 200
#define PROBE_NS 400000000         /* of GEMM for the estimate: longer than scheduling quanta of other work */
#define OF_BEST 0.9                /* a step hardly achieves more of the fastest GEMM, */
#define OF_MEAN 0.7                /* and hardly less of their mean under the same load */
#define COUNTED_SAMPLES 8           /* of a step whose products are counted: shares do not depend on how many */
#define STOP_GRACE_NS 20000000000ull /* for the worker to report its tensor roots after a divergence */

struct replay {
    const struct rp_replay_opts *o;
    struct rp_replay_result *out;
    const struct rp_facts *run;
    const struct rp_records *records;
    struct rp_recipe recipe;
    struct rp_data_set data;
    struct rp_process worker;
    int64_t steps;     /* to train */
    char *dir, *saved; /* temporary file of the state that is compared with the owner's, or NULL */
    json_t *roots;     /* per tensor, of this replay */
    int done, idle;    /* idle: nothing else ran here before */
    int64_t ns[2], timed; /* sums over steps but the first: recorded, here */
    uint64_t stop_ns; /* when the worker was asked to stop, or 0 */
    uint64_t end_ns, limit_bytes; /* when it has to be over; most memory, RP_MEMORY_UNKNOWN: no limit */
};

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

/* Keys with values that are this verifier's; value NULL: not set. */
static int set_local(struct rp_recipe *r, const char *const (*local)[2], int n, struct rp_err *err)
{
    for (int i = 0; i < n; i++)
        if (local[i][1] && rp_recipe_set(r, local[i][0], local[i][1], RP_FROM_COMMAND_LINE, err) < 0)
            return -1;
    return 0;
}

/* The recorded recipe without the owner's files, device and patience: a bundle must not choose what is read, written or used here. */
static int local_recipe(struct replay *p, struct rp_err *err)
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
                       "the state before step %" PRId64 " is not in the bundle: give it with --init (run --save writes one, and for --draw "
                       "the signer's "
                       "'repro challenge answer')",
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
    return set_local(&p->recipe, local, (int)(sizeof local / sizeof *local), err);
}

/* The record of a step of the run, or of the state before the first. */
static const struct rp_step_record *find_record(const struct replay *p, int64_t step)
{
    int64_t at = step - p->records->r[0].step; /* steps count up by one from the first record */
    return at >= 0 && at < p->records->n ? &p->records->r[at] : NULL;
}

/* --state has the root that was recorded after the last replayed step. */
static int check_state(const struct replay *p, struct rp_err *err)
{
    char root[RP_SHA256_HEX], was[RP_SHA256_HEX] = "";
    int64_t last = p->o->first + p->steps - 1;
    const struct rp_step_record *r = find_record(p, last);
    if (r)
        rp_record_root(was, p->records, r);
    if (!*was)
        return rp_fail(err, RP_UNAVAILABLE, "--state cannot be checked: no state root was recorded after step %" PRId64,
                       last);
    if (rp_state_file_root(root, p->o->state, &p->recipe, err) < 0)
        return rp_wrap(err, "--state");
    if (strcmp(root, was) != 0)
        return rp_fail(err, RP_MISMATCH, "--state is not the state after step %" PRId64 ": its root is %.16s..., recorded is %.16s...",
                       last, root, was);
    return 0;
}

/* Shortest and longest time in seconds, from some GEMMs here and the FLOPs of the steps; -1: unknown, as for the device of a GPU worker. */
static int estimate(double seconds[2], const struct replay *p, const struct rp_backend *b, const struct rp_device_opts *o,
                    const struct rp_plan *plan)
{
    struct rp_err err;
    struct rp_dev *dev = b->remote ? NULL : b->open(o, plan->bytes[RP_CLASS_BACKEND], &err);
    double flops = (double)(plan->batch * rp_recipe_micro_batches(&p->recipe) * p->steps) * plan->flops_per_sample, best = 0, all = 0;
    const json_t *ns;
    size_t i;
    if (!dev)
        return -1;
    struct rp_ceiling_size size = rp_ceiling_size(dev, plan);
    size.gemm_ns = PROBE_NS;
    size.copy = (size_t)1 << 20;
    size.copy_ns = 1;
    RP_JSON *raw = rp_ceilings(dev, &size, NULL, NULL, &err);
    dev->backend->close(dev);
    const json_t *times = json_object_get(json_object_get(raw, "gemm"), "ns");
    json_array_foreach((json_t *)times, i, ns)
    {
        double one = json_number_value(ns) / 1e9;
        best = i == 0 || one < best ? one : best;
        all += one;
    }
    if (best <= 0)
        return -1;
    double steps = flops / (2.0 * size.gemm.rows * size.gemm.width * size.gemm.depth * size.times); /* as a number of GEMMs */
    seconds[0] = steps * best / OF_BEST;
    seconds[1] = steps * all / (double)i / OF_MEAN;
    return 0;
}

/* ---- the verifier's limits ---- */

static const char *show_bytes(char out[32], uint64_t bytes)
{
    rp_show_number(out, (double)bytes, "B");
    return out;
}

/* The plan's memory of this process and its worker; a device's own memory is limited by the device. */
static int check_memory(struct replay *p, const struct rp_backend *b, const struct rp_plan *plan, struct rp_err *err)
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
    return rp_fail(err, RP_UNAVAILABLE,
                   "the steps need %s of memory, the limit is %s%s: raise it with --replay-limit TIME,MEMORY",
                   show_bytes(needs, needed), show_bytes(limit, most), p->o->limit_bytes ? "" : " (half of what is free)");
}

static double limit_seconds(const struct replay *p)
{
    return (double)(p->o->limit_ns ? p->o->limit_ns : RP_REPLAY_LIMIT_NS) / 1e9;
}

/* The worker is ended if it takes more memory than planned, or the time is over. A divergence that was found before stands. */
static int check_limits(const struct replay *p, uint64_t now, struct rp_err *err)
{
    char takes[32], limit[32];
    uint64_t bytes = rp_process_memory(&p->worker);
    if (now > p->end_ns)
        return rp_fail(err, RP_UNAVAILABLE,
                       "not done within %.0f s, ended after %" PRId64 " of %" PRId64 " step%s: allow more with --replay-limit TIME",
                       limit_seconds(p), p->out->steps, p->steps, rp_s(p->steps));
    if (bytes > p->limit_bytes)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the worker took %s of memory, the limit is %s: raise it with --replay-limit TIME,MEMORY",
                       show_bytes(takes, bytes), show_bytes(limit, p->limit_bytes));
    return 0;
}

/* Samples that their step has twice, over all steps of the run. */
static int count_samples(struct replay *p, int64_t batch, struct rp_err *err)
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

static int prepare(struct replay *p, struct rp_err *err)
{
    struct rp_plan plan;
    struct rp_err passed;
    const int64_t batch = p->run->plan.batch;
    const char *digest = p->run->data.digest;
    if (local_recipe(p, err) < 0)
        return -1;
    if (rp_data_prepare(&p->recipe, p->o->store, &p->data, err) < 0)
        return p->o->data ? rp_wrap(err, "--data gives the samples of the run, in its format %s", rp_data_format_of(&p->recipe)->name) : -1;
    if (p->o->state && check_state(p, err) < 0)
        return -1;
    if (strcmp(p->data.digest, digest) != 0)
        return rp_fail(err, RP_MISMATCH, "the samples here have the digest %.24s..., those of the run %.24s...", p->data.digest, digest);
    if (count_samples(p, batch, err) < 0)
        return rp_wrap(err, "counting the samples of a step");
    const struct rp_backend *b = rp_job_backend(&p->recipe, &passed, err);
    struct rp_device_opts device = rp_job_device(&p->recipe);
    if (!b || rp_job_plan(&plan, &p->recipe, batch, NULL, b, &device, err) < 0)
        return -1;
    if (check_memory(p, b, &plan, err) < 0)
        return -1;
    double seconds[2];
    int known = estimate(seconds, p, b, &device, &plan) == 0;
    if (p->o->begin)
        p->o->begin(p->o->arg, p->o->first, p->steps, known ? seconds : NULL);
    if (known && seconds[0] > limit_seconds(p))
        return rp_fail(err, RP_UNAVAILABLE,
                       "%" PRId64 " step%s at least %.0f s here, the limit is %.0f s: replay fewer, or allow more "
                       "with --replay-limit TIME",
                       p->steps, p->steps == 1 ? " takes" : "s take", seconds[0], limit_seconds(p));
    struct rp_job job = {.recipe = &p->recipe, .backend = b, .data = p->data.path, .batch = batch, .first = p->o->first,
                         .steps = p->steps};
    char root_key[RP_SHA256_HEX];
    if (p->records->keyed && p->o->signer && p->run->replicates) {
        rp_agreement_key(root_key, p->o->signer, p->run->replicates->statement);
        job.root_key = root_key;
    }
    return rp_job_start(&p->worker, &job, err);
}

static void compare_value(struct replay *p, int64_t step, const char *quantity, const char *was, const char *is)
{
    struct rp_replay_result *out = p->out;
    if (out->diverged || strcmp(was, is) == 0)
        return;
    out->diverged = 1;
    out->step = step;
    out->quantity = quantity;
    snprintf(out->recorded, sizeof out->recorded, "%s", was);
    snprintf(out->here, sizeof out->here, "%s", is);
}

static void compare_counters(struct replay *p, const json_t *body, int64_t step, const struct rp_step_record *r)
{
    const struct rp_model *m = rp_model_of(&p->recipe);
    for (int i = 0; i < rp_model_counters(m); i++) {
        char was[24] = "", is[24];
        int at = rp_step_name_index(&p->records->counter, m->counter[i].name);
        const json_t *here = json_object_get(json_object_get(body, "counters"), m->counter[i].name);
        if (at >= 0)
            snprintf(was, sizeof was, "%" PRIu32, rp_record_counts(p->records, r)[at]);
        snprintf(is, sizeof is, "%" JSON_INTEGER_FORMAT, json_integer_value(here));
        compare_value(p, step, m->counter[i].name, was, is);
    }
}

static void compare_loss_parts(struct replay *p, const json_t *body, int64_t step, const struct rp_step_record *r)
{
    const struct rp_model *m = rp_model_of(&p->recipe);
    for (int i = 0; i < rp_model_loss_parts(m); i++) {
        char was[32] = "";
        int at = rp_step_name_index(&p->records->part, m->loss_part[i]);
        const char *is = json_string_value(json_object_get(json_object_get(body, "loss_parts"), m->loss_part[i]));
        if (at >= 0)
            rp_float_hex(was, rp_record_loss_parts(p->records, r)[at]);
        compare_value(p, step, m->loss_part[i], was, is ? is : "");
    }
}

/* The first step of several is left out: it warms up. */
static void add_times(struct replay *p, const json_t *body, const struct rp_step_record *r)
{
    if (p->out->steps == 1)
        p->ns[0] = p->ns[1] = p->timed = 0;
    p->ns[0] += r->end_ns - r->start_ns;
    p->ns[1] += rp_json_integer_at(body, "end_ns") - rp_json_integer_at(body, "start_ns");
    p->timed++;
    for (int i = 0; i < 2; i++)
        p->out->step_s[i] = (double)p->ns[i] / 1e9 / (double)p->timed;
}

/* One record against the recorded one, in the order of the computation. */
static void compare_step(struct replay *p, const json_t *body)
{
    int64_t own = json_integer_value(json_object_get(body, "step")), step = p->o->first + own;
    const struct rp_step_record *r = find_record(p, step);
    if (!r)
        return;
    char rate[32] = "", scale[32] = "", loss[32] = "", overflow[4] = "", norm[32] = "", root[RP_SHA256_HEX], keyed[RP_SHA256_HEX];
    rp_record_root(root, p->records, r);
    rp_record_keyed_root(keyed, p->records, r);
    if (own >= 0) {
        snprintf(rate, sizeof rate, "%.17g", r->learning_rate);
        rp_float_hex(loss, r->loss);
        rp_float_hex(norm, r->grad_norm);
    }
    if (r->scale) {
        rp_float_hex(scale, rp_record_loss_scale(r));
        snprintf(overflow, sizeof overflow, "%d", r->overflow);
    }
    const struct {
        const char *key, *was;
    } rows[] = {{"learning_rate", rate}, {"loss_scale", scale}, {"loss", loss}, {"overflow", overflow}, {"grad_norm", norm},
              {"keyed_root", keyed}, {"state_root", root}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].was == loss && own >= 0) {
            compare_counters(p, body, step, r);
            compare_loss_parts(p, body, step, r);
        }
        const json_t *v = json_object_get(body, rows[i].key);
        char number[32];
        if (!v || !*rows[i].was)
            continue; /* not taken at this step, here or there */
        if (json_is_real(v))
            snprintf(number, sizeof number, "%.17g", json_real_value(v));
        else
            snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        compare_value(p, step, rows[i].key, rows[i].was, json_is_string(v) ? json_string_value(v) : number);
        p->out->keyed += own >= 0 && strcmp(rows[i].key, "keyed_root") == 0;
        if (strcmp(rows[i].key, "state_root") != 0)
            continue;
        p->out->roots++;
        p->out->start_root |= own < 0;
        if (!p->out->diverged)
            p->out->agreed = step + 1;
    }
    if (own >= 0)
        add_times(p, body, r);
    p->out->steps += own >= 0;
}

/* The first divergent tensor, if both sides have tensor roots of that state. */
static void name_tensor(struct replay *p)
{
    struct rp_replay_result *out = p->out;
    if (!out->diverged || strcmp(out->quantity, "state_root") != 0)
        return;
    const int first = out->step < 0, last = out->step == p->records->r[p->records->n - 1].step;
    const json_t *ours = first || last ? json_object_get(p->roots, first ? "init" : "final") : NULL;
    for (int64_t i = 0; ours && i < p->run->tensor_root_n; i++) {
        const struct rp_tensor_root *theirs = &p->run->tensor_root[i];
        const char *root = first ? theirs->init : theirs->final,
                   *here = json_string_value(json_object_get(ours, theirs->name));
        if (!*root || (here && strcmp(here, root) == 0))
            continue;
        if (!out->tensors++)
            rp_ascii(out->tensor, sizeof out->tensor, theirs->name);
    }
}

/* The kernel's name of this CPU, as in a capture. */
static int is_captured_cpu(const json_t *before)
{
    char line[256];
    const char *model = rp_known_text(before, "probes.cpu.model_name");
    FILE *f = model ? fopen("/proc/cpuinfo", "re") : NULL;
    int same = 0;
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
static int is_same_device(const struct replay *p, const json_t *body)
{
    struct rp_device_info here;
    const char *isa = rp_facts_isa(p->run);
    return rp_device_from_json(&here, json_object_get(body, "device")) == 0 && strcmp(here.kind, "cpu") == 0 &&
           strcmp(rp_facts_kind(p->run), "cpu") == 0 && rp_facts_nodes(p->run) == 1 && isa &&
           strcmp(isa, here.isa) == 0 && rp_facts_threads(p->run) == here.threads && is_captured_cpu(p->o->before);
}

/* Less than a tenth of the processors were busy in the last minute. */
static int is_idle(void)
{
    double load;
    return getloadavg(&load, 1) == 1 && load < 0.1 * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static int on_frame(struct replay *p, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    if (type == RP_FRAME_HELLO) {
        p->out->same_device = p->idle && is_same_device(p, body);
    } else if (type == RP_FRAME_STEP) {
        compare_step(p, body);
    } else if (type == RP_FRAME_DONE) {
        p->roots = json_incref(json_object_get(body, "tensor_roots"));
        p->done = 1;
    } else if (type == RP_FRAME_FAILED) {
        return rp_frame_failure(body, err);
    }
    return 0;
}

/* Interruption, divergence and hangs: 1 done, 0 continue, -1 failed. */
static int check_progress(struct replay *p, struct rp_err *err)
{
    uint64_t now = rp_now_ns();
    if (p->o->progress && p->o->progress(p->o->arg, p->out->steps, p->steps))
        return rp_fail(err, RP_INTERRUPTED, "interrupted after %" PRId64 " step%s", p->out->steps, rp_s(p->out->steps));
    if (p->out->diverged && !p->stop_ns && !p->saved) {
        p->stop_ns = now;
        rp_process_stop(&p->worker);
    }
    if (p->stop_ns && now - p->stop_ns > STOP_GRACE_NS)
        return 1;
    if (check_limits(p, now, err) < 0)
        return p->out->diverged ? 1 : -1;
    if (now - p->worker.last_heard_ns > (uint64_t)p->recipe.run_hang_seconds * 1000000000u)
        return rp_fail(err, RP_UNAVAILABLE, "the worker hangs: no message for %" PRId64 " s", p->recipe.run_hang_seconds);
    return 0;
}

static int watch(struct replay *p, struct rp_err *err)
{
    while (!p->done) {
        enum rp_frame type;
        json_t *body;
        int over = check_progress(p, err);
        if (over)
            return over < 0 ? -1 : 0;
        int got = rp_process_next(&p->worker, POLL_MS, &type, &body, err);
        int failed = got < 0 || (got > 0 && on_frame(p, type, body, err) < 0);
        json_decref(body);
        if (failed)
            return p->out->diverged ? 0 : -1; /* a divergence was found before */
    }
    return 0;
}

/* ---- the owner's state, element by element ---- */

static int make_state_file(struct replay *p, struct rp_err *err)
{
    const char *tmp = getenv("TMPDIR");
    p->dir = rp_asprintf("%s/repro-replay-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(p->dir)) {
        free(p->dir);
        p->dir = NULL;
        return rp_fail(err, RP_IO, "cannot create a directory for the state of the replay in '%s' (TMPDIR names another)",
                       tmp && *tmp ? tmp : "/tmp");
    }
    p->saved = rp_asprintf("%s/state.safetensors", p->dir);
    return 0;
}

static void remove_state_file(struct replay *p, pid_t worker)
{
    if (p->dir) {
        RP_FREE char *cut = rp_st_temporary(p->saved, worker);
        unlink(cut);
        unlink(p->saved);
        rmdir(p->dir);
    }
    free(p->dir);
    free(p->saved);
}

static int compare_states(struct replay *p, struct rp_err *err)
{
    if (!p->saved || (p->out->diverged && access(p->saved, R_OK) < 0))
        return 0;
    if (rp_states_compare(&p->out->state, p->o->state, p->saved, err) < 0)
        return rp_wrap(err, "--state");
    p->out->state_compared = 1;
    return 0;
}

/* Sets p->steps; fails if there are none. */
static int clamp_steps(struct replay *p, struct rp_err *err)
{
    int64_t all = p->records->n ? p->records->r[p->records->n - 1].step + 1 : 0, left = all - p->o->first;
    if (all < 1)
        return rp_fail(err, RP_UNAVAILABLE, "the run has no recorded steps");
    if (left < 1)
        return rp_fail(err, RP_USAGE, "--replay begins with step %" PRId64 ", but the run has the steps 0 to %" PRId64, p->o->first,
                       all - 1);
    p->steps = p->o->steps < left ? p->o->steps : left;
    return 0;
}

/* ---- whether a state that was handed over costs the work of others ---- */

/* The products of one step of a few samples from the state `init`, or NULL: from the recipe's own, before step `first`
 * of the run. */
static int count_products(struct rp_products *out, struct replay *p, const char *init, int64_t first,
                          struct rp_err *err)
{
    char batch[24];
    const int64_t most = p->run->plan.batch < COUNTED_SAMPLES ? p->run->plan.batch : COUNTED_SAMPLES;
    struct rp_recipe r;
    json_t *done = NULL;
    if (rp_recipe_from_json(&r, p->run->recipe, err) < 0)
        return -1;
    snprintf(batch, sizeof batch, "%" PRId64, most);
    const char *const local[][2] = {{"run.device", ""},
                                    {"data.path", p->o->data ? p->o->data : ""},
                                    {"run.init", init ? init : ""},
                                    {"run.save", ""},
                                    {"measure.ceilings", "false"},
                                    {"run.backend", "cpu"},
                                    {"run.isa", p->o->isa ? p->o->isa : "auto"},
                                    {"train.batch_size", batch},
                                    {"train.accumulation_steps", "1"},
                                    {"parallel.data", "1"}};
    struct rp_job job = {
        .recipe = &r, .backend = &rp_backend_cpu, .data = p->data.path, .first = first, .steps = 1, .counts = 1};
    int failed = set_local(&r, local, (int)(sizeof local / sizeof *local), err) < 0;
    r.run_threads = p->o->threads;
    struct rp_process w = {.pid = -1, .fd = -1};
    failed = failed || rp_job_start(&w, &job, err) < 0;
    while (!failed && !done) {
        enum rp_frame type;
        json_t *body;
        int got = rp_process_next(&w, POLL_MS, &type, &body, err);
        failed = got < 0 || (got > 0 && type == RP_FRAME_FAILED && rp_frame_failure(body, err) < 0);
        if (!failed && p->o->progress && p->o->progress(p->o->arg, p->steps, p->steps))
            failed = rp_fail(err, RP_INTERRUPTED, "interrupted") < 0;
        if (!failed && rp_now_ns() > p->end_ns)
            failed = rp_fail(err, RP_UNAVAILABLE, "not done within %.0f s: allow more with --replay-limit TIME",
                             limit_seconds(p)) < 0;
        if (got > 0 && type == RP_FRAME_DONE)
            done = json_incref(body);
        json_decref(body);
    }
    rp_process_kill(&w);
    rp_recipe_fini(&r);
    const json_t *products = json_object_get(done, "products");
    *out = (struct rp_products){json_number_value(json_object_get(products, "all")),
                                json_number_value(json_object_get(products, "spared"))};
    json_decref(done);
    return failed ? -1 : 0;
}

/* Of a run that answers a challenge and starts from its seeds, and a part after its first. */
static int judge_state(struct replay *p, struct rp_err *err)
{
    const char *from_file = json_string_value(rp_facts_setting(p->run, "run.init"));
    struct rp_products *untrained = p->o->untrained;
    struct rp_recipe r;
    if (!untrained || p->out->diverged || p->o->first == 0 || !p->recipe.seed_perturbation || (from_file && *from_file))
        return 0;
    if (rp_recipe_from_json(&r, p->run->recipe, err) < 0)
        return -1;
    int failed = rp_reach_check(&p->out->reach, p->o->init, &r, p->records, p->o->first, err) < 0;
    rp_recipe_fini(&r);
    if (failed)
        return rp_wrap(err, "--init");
    p->out->reached = 1;
    if (p->out->reach.used > 1)
        return 0;
    if (untrained->all <= 0 && count_products(untrained, p, NULL, 0, err) < 0)
        return rp_wrap(err, "counting the products of an untrained state");
    return count_products(&p->out->products, p, p->o->init, p->o->first, err) < 0 ? rp_wrap(err, "counting products")
                                                                                  : 0;
}

static int train(struct replay *p, struct rp_err *err)
{
    if (clamp_steps(p, err) < 0 || (p->o->state && make_state_file(p, err) < 0) || prepare(p, err) < 0 || watch(p, err) < 0)
        return -1;
    name_tensor(p);
    if (!p->out->diverged && p->out->steps < p->steps)
        return rp_fail(err, RP_BUG, "the worker ended after %" PRId64 " of %" PRId64 " steps", p->out->steps, p->steps);
    return compare_states(p, err) < 0 ? -1 : judge_state(p, err);
}

char *rp_replay_state_path(const char *init, int64_t first)
{
    char *path = init ? rp_asprintf("%s/" RP_STATE_OF_STEP, init, first) : NULL;
    if (path && access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

int rp_replay_check_state(const struct rp_facts *run, const char *init, int64_t first, struct rp_err *err)
{
    const char *from_file = json_string_value(rp_facts_setting(run, "run.init"));
    struct rp_recipe r;
    json_t *found = NULL;
    if (rp_recipe_from_json(&r, run->recipe, err) < 0)
        return -1;
    int failed = rp_checkpoint_check(init, &r, &found, err) < 0;
    const int64_t steps = json_integer_value(json_object_get(found, "steps"));
    if (!failed && first > 0 && !json_is_true(json_object_get(found, "optimizer_state")))
        failed =
            rp_fail(err, RP_MISMATCH, "'%s' has no optimizer state, and cannot be the state before step %" PRId64,
                    init, first) < 0;
    if (!failed && first > 0 && steps != first &&
        !(from_file && *from_file)) /* whose steps before the run count, too */
        failed =
            rp_fail(err, RP_MISMATCH, "'%s' is a state after %" PRId64 " step%s, not the one before step %" PRId64,
                    init, steps, rp_s(steps), first) < 0;
    json_decref(found);
    rp_recipe_fini(&r);
    return failed ? -1 : 0;
}

int rp_replay(struct rp_replay_result *out, const struct rp_facts *run, const struct rp_records *records,
              const struct rp_replay_opts *o, struct rp_err *err)
{
    struct replay p = {.o = o, .out = out, .run = run, .records = records, .worker = {.pid = -1, .fd = -1}, .idle = is_idle()};
    *out = (struct rp_replay_result){.first = o->first, .agreed = -1};
    p.end_ns = rp_now_ns() + (o->limit_ns ? o->limit_ns : RP_REPLAY_LIMIT_NS);
    int failed = train(&p, err);
    pid_t worker = p.worker.pid;
    rp_process_kill(&p.worker);
    remove_state_file(&p, worker);
    rp_recipe_fini(&p.recipe);
    rp_data_set_fini(&p.data);
    json_decref(p.roots);
    return failed;
}

json_t *rp_replay_json(const struct rp_replay_result *r)
{
    json_t *out = json_pack("{s:I, s:I, s:I, s:b, s:b}", "from", (json_int_t)r->first, "steps", (json_int_t)r->steps, "state_roots",
                            (json_int_t)r->roots, "start_root", r->start_root, "equal", !r->diverged);
    const struct rp_state_difference *d = &r->state;
    if (r->step_s[1] > 0)
        json_object_set_new(out, "step_s", json_pack("{s:f, s:f, s:b}", "recorded", r->step_s[0], "here", r->step_s[1], "same_device",
                                                     r->same_device));
    if (r->diverged)
        json_object_set_new(out, "divergence", json_pack("{s:I, s:s, s:s, s:s}", "step", (json_int_t)r->step, "quantity", r->quantity,
                                                         "recorded", r->recorded, "here", r->here));
    if (r->diverged && r->agreed >= 0)
        json_object_set_new(out, "equal_before_step", json_integer((json_int_t)r->agreed));
    if (r->reached)
        json_object_set_new(out, "state_before",
                            json_pack("{s:f, s:s}", "reach", fmin(r->reach.used, DBL_MAX), "tensor", r->reach.tensor));
    if (r->reached && r->products.all > 0)
        json_object_set_new(json_object_get(out, "state_before"), "products_needed",
                            json_real(rp_products_needed(&r->products)));
    if (*r->tensor)
        json_object_set_new(out, "tensors", json_pack("{s:s, s:I}", "first", r->tensor, "differ", (json_int_t)r->tensors));
    if (r->state_compared && d->tensors)
        json_object_set_new(out, "state", json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:s, s:s}", "tensors", (json_int_t)d->tensors, "tensor",
                                                    d->name, "elements", (json_int_t)d->size, "first", (json_int_t)d->first, "last",
                                                    (json_int_t)d->last, "differ", (json_int_t)d->count, "recorded", d->was, "here",
                                                    d->here));
    return out;
}
