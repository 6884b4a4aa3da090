/* States that are handed to a replay: whether they are the recorded ones, and whether training can have led to them. */
#include "verify/replay/inner.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "run/run.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"
#include "worker/job.h"
#include "worker/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTED_SAMPLES 8 /* of a step whose products are counted: shares do not depend on how many */

/* ---- the owner's state after the replayed steps (--state) ---- */

int rp_replay_check_result(const struct rp_replaying *p, struct rp_err *err)
{
    char root[RP_SHA256_HEX], was[RP_SHA256_HEX] = "";
    int64_t last = p->o->first + p->steps - 1;
    const struct rp_step_record *r = rp_replay_record(p, last);
    if (r)
        rp_record_root(was, p->records, r);
    if (!*was)
        return rp_fail(err, RP_UNAVAILABLE, "--state cannot be checked: no state root was recorded after step %" PRId64,
                       last);
    if (rp_state_file_root(root, p->o->state, &p->recipe, err) < 0)
        return rp_wrap(err, "--state");
    if (strcmp(root, was) != 0)
        return rp_fail(err, RP_MISMATCH,
                       "--state is not the state after step %" PRId64 ": its root is %.16s..., recorded is %.16s...",
                       last, root, was);
    return 0;
}

int rp_replay_make_file(struct rp_replaying *p, struct rp_err *err)
{
    const char *tmp = getenv("TMPDIR");
    p->dir = rp_asprintf("%s/repro-replay-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(p->dir)) {
        free(p->dir);
        p->dir = NULL;
        return rp_fail(err, RP_IO,
                       "cannot create a directory for the state of the replay in '%s' (TMPDIR names another)",
                       tmp && *tmp ? tmp : "/tmp");
    }
    p->saved = rp_asprintf("%s/state.safetensors", p->dir);
    return 0;
}

void rp_replay_remove_file(struct rp_replaying *p, pid_t worker)
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

int rp_replay_compare_files(struct rp_replaying *p, struct rp_err *err)
{
    if (!p->saved || (p->out->diverged && access(p->saved, R_OK) < 0))
        return 0;
    if (rp_states_compare(&p->out->state, p->o->state, p->saved, err) < 0)
        return rp_wrap(err, "--state");
    p->out->state_compared = 1;
    return 0;
}

/* ---- the state that the replay starts from (--init) ---- */

/* What facts.json has of the file that the run started from is what is in the file. */
static int check_init_facts(const struct rp_facts *run, const json_t *found, const char *init, struct rp_err *err)
{
    const char *name;
    json_t *value;
    RP_READ(init_facts, of_file, found);
    RP_JSON *here = rp_object_json(&of_file, &rp_type_init_facts);
    RP_JSON *was = rp_object_json(run->init, &rp_type_init_facts);
    json_object_foreach(here, name, value)
        if (!json_equal(value, json_object_get(was, name)))
            return rp_fail(err, RP_MISMATCH, "facts.json: init/%s is not that of '%s'", name, init);
    return json_object_size(here) == json_object_size(was)
               ? 0
               : rp_fail(err, RP_MISMATCH, "facts.json: init has more than '%s'", init);
}

int rp_replay_check_state(const struct rp_facts *run, const char *init, int64_t first, struct rp_err *err)
{
    const char *from_file = json_string_value(rp_facts_setting(run, "run.init"));
    struct rp_recipe r;
    json_t *found = NULL;
    if (rp_recipe_from_json(&r, run->recipe, err) < 0)
        return -1;
    int failed = rp_checkpoint_check(init, &r, &found, err) < 0;
    RP_READ(init_facts, of_file, found);
    if (!failed && first > 0 && !of_file.optimizer_state)
        failed = rp_fail(err, RP_MISMATCH, "'%s' has no optimizer state, and cannot be the state before step %" PRId64,
                         init, first) < 0;
    if (!failed && first > 0 && of_file.steps != first &&
        !(from_file && *from_file)) /* whose steps before the run count, too */
        failed = rp_fail(err, RP_MISMATCH, "'%s' is a state after %" PRId64 " step%s, not the one before step %" PRId64,
                         init, of_file.steps, rp_s(of_file.steps), first) < 0;
    if (!failed && first == 0 && from_file && *from_file && run->init)
        failed = check_init_facts(run, found, init, err) < 0;
    json_decref(found);
    rp_recipe_fini(&r);
    return failed ? -1 : 0;
}

/* ---- whether that state costs the work of others ---- */

/* The products of one step of a few samples from the state `init`, or NULL: from the recipe's own, before step `first`
 * of the run. */
static int count_products(struct rp_products *out, struct rp_replaying *p, const char *init, int64_t first,
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
    int failed = rp_replay_set_local(&r, local, (int)(sizeof local / sizeof *local), err) < 0;
    r.run_threads = p->o->threads;
    struct rp_process w = {.pid = -1, .fd = -1};
    failed = failed || rp_job_start(&w, &job, err) < 0;
    while (!failed && !done) {
        enum rp_frame type;
        json_t *body;
        int got = rp_process_next(&w, RP_REPLAY_POLL_MS, &type, &body, err);
        failed = got < 0 || (got > 0 && type == RP_FRAME_FAILED && rp_frame_failure(body, err) < 0);
        if (!failed && p->o->progress && p->o->progress(p->o->arg, rp_replay_unit(p, 1), p->steps, p->steps))
            failed = rp_fail(err, RP_INTERRUPTED, "interrupted") < 0;
        if (!failed && rp_now_ns() > p->end_ns)
            failed = rp_fail(err, RP_UNAVAILABLE, "not done within %.0f s: allow more with --replay-limit TIME",
                             rp_replay_limit_s(p)) < 0;
        if (got > 0 && type == RP_FRAME_DONE)
            done = json_incref(body);
        json_decref(body);
    }
    rp_process_kill(&w);
    rp_recipe_fini(&r);
    RP_READ(done_frame, end, done);
    *out = (struct rp_products){end.products.all, end.products.spared};
    json_decref(done);
    return failed ? -1 : 0;
}

int rp_replay_judge_state(struct rp_replaying *p, struct rp_err *err)
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
    if (count_products(&p->out->products, p, p->o->init, p->o->first, err) < 0)
        return rp_wrap(err, "counting products");
    return 0;
}
