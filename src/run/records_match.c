/* Do step records follow from the recipe and its model? */
#include "optim/optim.h"
#include "run/records.h"

#include <inttypes.h>
#include <string.h>

/* The recipe's schedule at a step that counts from 0. */
static double scheduled(const struct rp_recipe *r, int64_t step)
{
    const struct rp_optim o = rp_schedule_of(r);
    return rp_learning_rate(&o, step + 1);
}

static int rate_matches(const struct rp_step_record *s, const struct rp_recipe *r, struct rp_err *err)
{
    double expected = scheduled(r, s->step);
    if ((r->run_init && *r->run_init) || s->learning_rate == expected)
        return 0;
    return rp_fail(err, RP_MISMATCH, "step %d has the learning rate %.17g; the recipe's schedule gives %.17g", s->step,
                   s->learning_rate, expected);
}

/* The worker takes a root only where the recipe requires one and after the last step: its time is not part of the throughput. */
static int root_matches(const struct rp_step_record *s, const struct rp_recipe *r, int64_t steps, struct rp_err *err)
{
    int64_t every = r->evidence_state_root_every;
    int due = s->step == steps - 1 || (every > 0 && (s->step + 1) % every == 0);
    if (due == (s->root != 0))
        return 0;
    return rp_fail(err, RP_MISMATCH,
                   "step %d has %s state root; with evidence.state_root_every %" PRId64 " and %" PRId64 " steps there is %s",
                   s->step, s->root ? "a" : "no", every, steps, s->root ? "none" : "one");
}

static int same_names(const struct rp_record_names *is, const char *const name[], int n, const char *what, const struct rp_model *m,
                      struct rp_err *err)
{
    int missing = 0;
    for (int i = 0, k; i < n; i++, missing += k == is->n)
        for (k = 0; k < is->n && strcmp(is->name[k], name[i]) != 0; k++) {
        }
    return missing || n != is->n ? rp_fail(err, RP_MISMATCH, "the %s of the steps are not those of the model '%s'", what, m->name) : 0;
}

/* The counters of a model, and their places in the records. */
struct counting {
    const struct rp_model *m;
    int n, place[RP_COUNTERS_MAX];
    int64_t each[RP_COUNTERS_MAX]; /* of a sample; -1: it varies */
};

static int counting_of(struct counting *c, const struct rp_records *rs, const struct rp_recipe *r, struct rp_err *err)
{
    const char *name[RP_COUNTERS_MAX];
    c->m = rp_model_of(r);
    c->n = rp_model_counters(c->m);
    for (int i = 0; i < c->n; i++) {
        name[i] = c->m->counter[i].name;
        c->place[i] = rp_step_name_index(&rs->counter, name[i]);
        c->each[i] = c->m->counter[i].per_sample ? c->m->counter[i].per_sample(r) : -1;
    }
    if (same_names(&rs->counter, name, c->n, "counters", c->m, err) < 0)
        return -1;
    return same_names(&rs->part, c->m->loss_part, rp_model_loss_parts(c->m), "loss parts", c->m, err);
}

static int counters_match(const struct counting *c, const struct rp_records *rs, const struct rp_step_record *s, struct rp_err *err)
{
    const uint32_t *is = rp_record_counts(rs, s);
    for (int i = 0; i < c->n; i++) {
        const struct rp_step_counter *k = &c->m->counter[i], *of = &c->m->counter[k->most];
        int64_t n = is[c->place[i]], most = c->each[i] < 0 ? is[c->place[k->most]] : s->samples * c->each[i];
        if (c->each[i] >= 0 && n != most)
            return rp_fail(err, RP_MISMATCH, "step %d has %" PRId64 " %s; %u samples of %" PRId64 " have %" PRId64, s->step, n, k->name,
                           s->samples, c->each[i], most);
        if (n > most)
            return rp_fail(err, RP_MISMATCH, "step %d has %" PRId64 " %s, which are part of its %" PRId64 " %s", s->step, n, k->name, most,
                           of->name);
    }
    return 0;
}

int rp_records_match(const struct rp_records *rs, const struct rp_recipe *r, int complete, struct rp_err *err)
{
    int64_t first = rs->n && rs->r[0].step < 0, steps = rs->n - first;
    int64_t all = r->measure_warmup_steps + r->measure_repeats * r->measure_timed_steps;
    if (steps > all || (complete && steps != all))
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " steps are recorded; the recipe has %" PRId64, steps, all);
    if (complete && (!first || !rs->r[rs->n - 1].root))
        return rp_fail(err, RP_MISMATCH, "a complete run has a state root before its first and after its last step");
    struct counting counting = {0};
    if (steps && counting_of(&counting, rs, r, err) < 0)
        return -1;
    for (int64_t i = first; i < rs->n; i++) {
        const struct rp_step_record *s = &rs->r[i];
        int64_t timed = s->step - r->measure_warmup_steps, repeat = timed < 0 ? 0 : timed / r->measure_timed_steps;
        if ((int)s->timed != (timed >= 0) || s->repeat != repeat)
            return rp_fail(err, RP_MISMATCH, "step %d is recorded in another phase or repeat than the recipe gives it", s->step);
        if ((s->device_ns < 0) != (rs->r[first].device_ns < 0))
            return rp_fail(err, RP_MISMATCH, "step %d has %s time of the device, and the first step %s", s->step,
                           s->device_ns < 0 ? "no" : "a", s->device_ns < 0 ? "has one" : "has none");
        if ((s->exchange_ns < 0) != (rs->r[first].exchange_ns < 0))
            return rp_fail(err, RP_MISMATCH, "step %d has %s time in exchanges, and the first step %s", s->step,
                           s->exchange_ns < 0 ? "no" : "a", s->exchange_ns < 0 ? "has one" : "has none");
        if (s->samples != rs->r[first].samples)
            return rp_fail(err, RP_MISMATCH, "step %d trained %u samples, the first %u", s->step, s->samples,
                           rs->r[first].samples);
        int64_t expected = r->train_batch_size * rp_recipe_micro_batches(r);
        if (expected && s->samples != expected)
            return rp_fail(err, RP_MISMATCH, "step %d trained %u samples; the recipe gives %" PRId64, s->step,
                           s->samples, expected);
        if (counters_match(&counting, rs, s, err) < 0 || root_matches(s, r, all, err) < 0 || rate_matches(s, r, err) < 0)
            return -1;
    }
    return 0;
}
