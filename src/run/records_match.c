/* Do step records follow from the recipe and its model? */
#include "optim/loss_scale.h"
#include "optim/optim.h"
#include "run/facts.h"
#include "run/records.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The loss scale before a step, which follows from the steps before it. */
struct scaling {
    int is_scaled;
    struct rp_loss_scale_rule rule;
    struct rp_loss_scale now;
};

/* Where it begins: as the recipe has it, or where the file of --init goes on. */
static int scaling_of(struct scaling *out, const struct rp_recipe *r, const struct rp_init_facts *init,
                      struct rp_err *err)
{
    const struct rp_loss_scale_facts *is = init ? init->loss_scale : NULL;
    int exponent;
    out->is_scaled = rp_loss_is_scaled(r);
    out->rule = rp_loss_scale_rule_of(r);
    out->now = rp_loss_scale_begin(&out->rule);
    if (is && (!out->is_scaled || !init->optimizer_state))
        return rp_fail(err, RP_MISMATCH, "facts.json: init/loss_scale is there, but %s",
                       out->is_scaled ? "the files have no optimizer state" : "the settings scale no loss");
    if (!is)
        return init && init->optimizer_state && out->is_scaled
                   ? rp_fail(err, RP_MISMATCH,
                             "facts.json: init/loss_scale is missing: the run goes on from optimizer state, with a "
                             "loss scale")
                   : 0;
    if (!(is->scale > 0) || !isfinite(is->scale) || frexpf(is->scale, &exponent) != 0.5f || is->skipped > init->steps ||
        is->good > init->steps - is->skipped || is->bad > is->skipped || is->at_minimum > is->bad)
        return rp_fail(err, RP_MISMATCH,
                       "facts.json: init/loss_scale is not a power of two with counts that %" PRId64 " steps can have",
                       init->steps);
    if (!out->rule.is_dynamic && is->scale != out->rule.initial)
        return rp_fail(err, RP_MISMATCH, "facts.json: init/loss_scale/scale is %g, but the settings fix it at %g",
                       (double)is->scale, (double)out->rule.initial);
    out->now = (struct rp_loss_scale){is->scale, is->good, is->bad, is->at_minimum, is->skipped};
    return 0;
}

/* Whether a step has the scale that follows from the overflows before it; then what it
 * does to the scale of the next. */
static int scale_matches(struct scaling *x, const struct rp_step_record *s, struct rp_err *err)
{
    if (!x->is_scaled)
        return s->scale ? rp_fail(err, RP_MISMATCH, "step %d has a loss_scale, but the settings scale no loss", s->step)
                        : 0;
    if (!s->scale)
        return rp_fail(err, RP_MISMATCH,
                       "step %d has no loss_scale and overflow, which every step of a run with train.loss_scale has",
                       s->step);
    if (rp_record_loss_scale(s) != x->now.scale)
        return rp_fail(err, RP_MISMATCH, "step %d has the loss scale %g; by the overflows of the steps before it is %g",
                       s->step, (double)rp_record_loss_scale(s), (double)x->now.scale);
    if (s->overflow && !x->rule.is_dynamic)
        return rp_fail(err, RP_MISMATCH, "step %d overflowed: with a fixed loss scale the run ends there", s->step);
    rp_loss_scale_next(&x->now, &x->rule, s->overflow);
    if (rp_loss_scale_fails(&x->now))
        return rp_fail(err, RP_MISMATCH,
                       "step %d is the last of %d that overflowed at the least loss scale: the run ends there", s->step,
                       RP_OVERFLOWS_MOST);
    return 0;
}

/* The recipe's schedule at a step that counts from 0; a step that changed no weight may not count. */
static int rate_matches(const struct rp_step_record *s, const struct rp_recipe *r, const struct rp_init_facts *init,
                        const struct scaling *x, struct rp_err *err)
{
    const struct rp_optim o = rp_schedule_of(r);
    const int from_file = r->run_init && *r->run_init;
    const int64_t before = from_file && init && init->optimizer_state ? init->steps : 0;
    const double expected = rp_learning_rate(&o, rp_loss_scale_scheduled(&x->now, &x->rule, before + s->step + 1));
    if ((from_file && !init) || s->learning_rate == expected)
        return 0;
    return rp_fail(err, RP_MISMATCH, "step %d has the learning rate %.17g; the recipe's schedule gives %.17g", s->step,
                   s->learning_rate, expected);
}

/* The worker takes a root only where the recipe requires one and after the last step: its time is not part of the
 * throughput. */
static int root_matches(const struct rp_step_record *s, const struct rp_recipe *r, int64_t steps, struct rp_err *err)
{
    int64_t every = r->evidence_state_root_every;
    int due = s->step == steps - 1 || (every > 0 && (s->step + 1) % every == 0);
    if (due == (s->root != 0))
        return 0;
    return rp_fail(err, RP_MISMATCH,
                   "step %d has %s state root; with evidence.state_root_every %" PRId64 " and %" PRId64
                   " steps there is %s",
                   s->step, s->root ? "a" : "no", every, steps, s->root ? "none" : "one");
}

static int same_names(const struct rp_record_names *is, const char *const name[], int n, const char *what,
                      const struct rp_model *m, struct rp_err *err)
{
    int missing = 0;
    for (int i = 0, k; i < n; i++, missing += k == is->n)
        for (k = 0; k < is->n && strcmp(is->name[k], name[i]) != 0; k++) {
        }
    return missing || n != is->n
               ? rp_fail(err, RP_MISMATCH, "the %s of the steps are not those of the model '%s'", what, m->name)
               : 0;
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

static int counters_match(const struct counting *c, const struct rp_records *rs, const struct rp_step_record *s,
                          struct rp_err *err)
{
    const uint32_t *is = rp_record_counts(rs, s);
    for (int i = 0; i < c->n; i++) {
        const struct rp_step_counter *k = &c->m->counter[i], *of = &c->m->counter[k->most];
        int64_t n = is[c->place[i]], most = c->each[i] < 0 ? is[c->place[k->most]] : s->samples * c->each[i];
        if (c->each[i] >= 0 && n != most)
            return rp_fail(err, RP_MISMATCH, "step %d has %" PRId64 " %s; %u samples of %" PRId64 " have %" PRId64,
                           s->step, n, k->name, s->samples, c->each[i], most);
        if (n > most)
            return rp_fail(err, RP_MISMATCH, "step %d has %" PRId64 " %s, which are part of its %" PRId64 " %s",
                           s->step, n, k->name, most, of->name);
    }
    return 0;
}

int rp_records_match(const struct rp_records *rs, const struct rp_recipe *r, const struct rp_init_facts *init,
                     int complete, struct rp_err *err)
{
    int64_t first = rs->n && rs->r[0].step < 0, steps = rs->n - first;
    int64_t all = r->measure_warmup_steps + r->measure_repeats * r->measure_timed_steps;
    if (steps > all || (complete && steps != all))
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " steps are recorded; the recipe has %" PRId64, steps, all);
    if (complete && (!first || !rs->r[rs->n - 1].root))
        return rp_fail(err, RP_MISMATCH, "a complete run has a state root before its first and after its last step");
    struct counting counting = {0};
    struct scaling scaling;
    if (scaling_of(&scaling, r, init, err) < 0)
        return -1;
    if (steps && counting_of(&counting, rs, r, err) < 0)
        return -1;
    for (int64_t i = first; i < rs->n; i++) {
        const struct rp_step_record *s = &rs->r[i];
        int64_t timed = s->step - r->measure_warmup_steps, repeat = timed < 0 ? 0 : timed / r->measure_timed_steps;
        if ((int)s->timed != (timed >= 0) || s->repeat != repeat)
            return rp_fail(err, RP_MISMATCH, "step %d is recorded in another phase or repeat than the recipe gives it",
                           s->step);
        const struct rp_record_times t = rp_record_times(rs, s), t0 = rp_record_times(rs, &rs->r[first]);
        if ((t.device_ns < 0) != (t0.device_ns < 0))
            return rp_fail(err, RP_MISMATCH, "step %d has %s time of the device, and the first step %s", s->step,
                           t.device_ns < 0 ? "no" : "a", t.device_ns < 0 ? "has one" : "has none");
        if ((t.exchange_ns < 0) != (t0.exchange_ns < 0))
            return rp_fail(err, RP_MISMATCH, "step %d has %s time in exchanges, and the first step %s", s->step,
                           t.exchange_ns < 0 ? "no" : "a", t.exchange_ns < 0 ? "has one" : "has none");
        if (s->samples != rs->r[first].samples)
            return rp_fail(err, RP_MISMATCH, "step %d trained %u samples, the first %u", s->step, s->samples,
                           rs->r[first].samples);
        int64_t expected = r->train_batch_size * rp_recipe_micro_batches(r);
        if (expected && s->samples != expected)
            return rp_fail(err, RP_MISMATCH, "step %d trained %u samples; the recipe gives %" PRId64, s->step,
                           s->samples, expected);
        if (rs->micros && rs->micros != rp_recipe_micro_batches(r))
            return rp_fail(err, RP_MISMATCH, "step %d has %d micro_losses; the recipe gives %" PRId64 " micro-batches",
                           s->step, rs->micros, rp_recipe_micro_batches(r));
        if (counters_match(&counting, rs, s, err) < 0 || root_matches(s, r, all, err) < 0 ||
            rate_matches(s, r, init, &scaling, err) < 0 || scale_matches(&scaling, s, err) < 0)
            return -1;
    }
    return 0;
}
