#include "verify/replay.h"

#include "base/clock.h"
#include "base/json.h"
#include "data/store.h"
#include "worker/job.h"
#include "worker/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define POLL_MS 200
#define STOP_GRACE_NS 20000000000ull /* for the worker to say which tensors it has, after a divergence */

struct replay {
    const struct rp_replay_opts *o;
    struct rp_replay_result *out;
    const json_t *run;
    const struct rp_records *records;
    struct rp_recipe recipe;
    struct rp_data_set data;
    struct rp_worker worker;
    int64_t steps;     /* to train */
    json_t *roots;     /* per tensor, of this replay */
    int done;
    uint64_t stop_ns; /* when the worker was asked to stop, or 0 */
};

static const char *recorded_text(const struct replay *p, const char *key)
{
    return json_string_value(json_object_get(json_object_get(json_object_get(p->run, "recipe"), key), "value"));
}

/* The recorded recipe without anything that would touch the owner's files: a bundle must not choose what is read or written here. */
static int local_recipe(struct replay *p, struct rp_err *err)
{
    static const char *const cleared[] = {"run.save", "run.init", "data.path", "model.config"};
    const char *own = recorded_text(p, "data.path"), *init = recorded_text(p, "run.init");
    char threads[24];
    if (rp_recipe_from_json(&p->recipe, json_object_get(p->run, "recipe"), err) < 0)
        return -1;
    if (own && *own && !p->o->data)
        return rp_fail(err, RP_UNAVAILABLE, "the run used samples of its owner; name them with --data");
    if (init && *init && !p->o->init)
        return rp_fail(err, RP_UNAVAILABLE, "the run started from a file of its owner; name it with --init");
    for (size_t i = 0; i < sizeof cleared / sizeof *cleared; i++)
        if (rp_recipe_set(&p->recipe, cleared[i], "", RP_FROM_COMMAND_LINE, err) < 0)
            return -1;
    snprintf(threads, sizeof threads, "%" PRId64, p->o->threads);
    if ((p->o->data && rp_recipe_set(&p->recipe, "data.path", p->o->data, RP_FROM_COMMAND_LINE, err) < 0) ||
        (p->o->init && rp_recipe_set(&p->recipe, "run.init", p->o->init, RP_FROM_COMMAND_LINE, err) < 0) ||
        rp_recipe_set(&p->recipe, "measure.ceilings", "false", RP_FROM_COMMAND_LINE, err) < 0 ||
        rp_recipe_set(&p->recipe, "run.backend", "auto", RP_FROM_COMMAND_LINE, err) < 0 ||
        rp_recipe_set(&p->recipe, "run.isa", p->o->isa ? p->o->isa : "auto", RP_FROM_COMMAND_LINE, err) < 0 ||
        rp_recipe_set(&p->recipe, "run.threads", threads, RP_FROM_COMMAND_LINE, err) < 0)
        return -1;
    return 0;
}

static int prepare(struct replay *p, struct rp_err *err)
{
    struct rp_plan plan;
    struct rp_err passed;
    int64_t batch = json_integer_value(json_object_get(json_object_get(p->run, "plan"), "batch"));
    const char *digest = json_string_value(json_object_get(json_object_get(p->run, "data"), "digest"));
    if (local_recipe(p, err) < 0 || rp_data_prepare(&p->recipe, p->o->store, &p->data, err) < 0)
        return -1;
    if (strcmp(p->data.digest, digest) != 0)
        return rp_fail(err, RP_MISMATCH, "the samples here have the digest %.24s..., those of the run %.24s...", p->data.digest, digest);
    const struct rp_backend *b = rp_job_backend(&p->recipe, &passed, err);
    struct rp_device_opts device = rp_job_device(&p->recipe);
    if (!b || rp_job_plan(&plan, &p->recipe, batch, b, &device, err) < 0)
        return -1;
    struct rp_job job = {.recipe = &p->recipe, .backend = b, .data = p->data.path, .batch = batch, .steps = p->steps};
    return rp_job_start(&p->worker, &job, err);
}

static const struct rp_record *recorded(const struct replay *p, int64_t step)
{
    int64_t at = step - p->records->r[0].step; /* steps count up by one from the first record */
    return at >= 0 && at < p->records->n ? &p->records->r[at] : NULL;
}

static void compare(struct replay *p, int64_t step, const char *quantity, const char *was, const char *is)
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

/* One record of ours against theirs, what is nearest to the input first. */
static void compare_step(struct replay *p, const json_t *body)
{
    int64_t step = json_integer_value(json_object_get(body, "step"));
    const struct rp_record *r = recorded(p, step);
    if (!r)
        return;
    char tokens[24] = "", loss[32] = "", norm[32] = "", root[RP_SHA256_HEX];
    rp_record_root(root, p->records, r);
    if (r->step >= 0) {
        snprintf(tokens, sizeof tokens, "%u", r->tokens);
        rp_float_hex(loss, r->loss);
        rp_float_hex(norm, r->grad_norm);
    }
    const struct {
        const char *key, *was;
    } rows[] = {{"tokens", tokens}, {"loss", loss}, {"grad_norm", norm}, {"state_root", root}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = json_object_get(body, rows[i].key);
        char number[24];
        if (!v || !*rows[i].was)
            continue; /* not taken at this step, here or there */
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        compare(p, step, rows[i].key, rows[i].was, json_is_string(v) ? json_string_value(v) : number);
        p->out->roots += strcmp(rows[i].key, "state_root") == 0;
    }
    p->out->steps += step >= 0;
}

/* Which tensor, where both sides have roots of single tensors for that state. */
static void name_tensor(struct replay *p)
{
    struct rp_replay_result *out = p->out;
    if (!out->diverged || strcmp(out->quantity, "state_root") != 0)
        return;
    int last = out->step == p->records->r[p->records->n - 1].step;
    const char *which = out->step < 0 ? "init" : last ? "final" : NULL, *name;
    json_t *root, *theirs = which ? json_object_get(json_object_get(p->run, "tensor_roots"), which) : NULL;
    json_t *ours = which ? json_object_get(p->roots, which) : NULL;
    json_object_foreach(theirs, name, root)
    {
        const json_t *here = json_object_get(ours, name);
        if (!ours || json_equal(here, root))
            continue;
        size_t n = 0;
        for (; name[n] && n + 1 < sizeof out->tensor; n++)
            out->tensor[n] = name[n] > ' ' && name[n] <= '~' ? name[n] : '?';
        out->tensor[n] = 0;
        return;
    }
}

static int on_frame(struct replay *p, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    if (type == RP_FRAME_STEP) {
        compare_step(p, body);
    } else if (type == RP_FRAME_DONE) {
        p->roots = json_incref(json_object_get(body, "tensor_roots"));
        p->done = 1;
    } else if (type == RP_FRAME_FAILED) {
        return rp_frame_failure(body, err);
    }
    return 0;
}

/* What the clock and the user have to say: 1 over, 0 go on, -1 give up. */
static int check(struct replay *p, struct rp_err *err)
{
    uint64_t now = rp_now_ns();
    if (p->o->progress && p->o->progress(p->o->arg, p->out->steps, p->steps))
        return rp_fail(err, RP_INTERRUPTED, "interrupted after %" PRId64 " steps", p->out->steps);
    if (p->out->diverged && !p->stop_ns) {
        p->stop_ns = now;
        rp_worker_stop(&p->worker);
    }
    if (p->stop_ns && now - p->stop_ns > STOP_GRACE_NS)
        return 1;
    if (now - p->worker.last_heard_ns > (uint64_t)p->recipe.run_hang_seconds * 1000000000u)
        return rp_fail(err, RP_UNAVAILABLE, "the worker was silent for %" PRId64 " s and counts as hung", p->recipe.run_hang_seconds);
    return 0;
}

static int watch(struct replay *p, struct rp_err *err)
{
    while (!p->done) {
        enum rp_frame type;
        json_t *body;
        int over = check(p, err);
        if (over)
            return over < 0 ? -1 : 0;
        int got = rp_worker_next(&p->worker, POLL_MS, &type, &body, err);
        int failed = got < 0 || (got > 0 && on_frame(p, type, body, err) < 0);
        json_decref(body);
        if (failed)
            return p->out->diverged ? 0 : -1; /* a divergence found stays found */
    }
    return 0;
}

int rp_replay(struct rp_replay_result *out, const json_t *run, const struct rp_records *records, const struct rp_replay_opts *o,
              struct rp_err *err)
{
    struct replay p = {.o = o, .out = out, .run = run, .records = records, .worker = {.pid = -1, .fd = -1}};
    *out = (struct rp_replay_result){0};
    int64_t all = records->n ? records->r[records->n - 1].step + 1 : 0;
    p.steps = o->steps < all ? o->steps : all;
    int failed = p.steps < 1 ? rp_fail(err, RP_UNAVAILABLE, "no step is recorded") < 0 : prepare(&p, err) < 0 || watch(&p, err) < 0;
    if (!failed) {
        name_tensor(&p);
        if (!out->diverged && out->steps < p.steps)
            failed = rp_fail(err, RP_BUG, "the worker ended after %" PRId64 " of %" PRId64 " steps", out->steps, p.steps) < 0;
    }
    rp_worker_kill(&p.worker);
    rp_recipe_fini(&p.recipe);
    rp_data_set_fini(&p.data);
    json_decref(p.roots);
    return failed ? -1 : 0;
}
