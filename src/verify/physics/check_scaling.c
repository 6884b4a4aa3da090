/* Scaling against a baseline with fewer threads or devices: the speed-up is at most ideal, unless something else
 * differs. With as many, as of 2 ranks of 1 thread against 1 rank of 2, the ratio is what dividing the work costs. */
#include "base/buf.h"
#include "base/text.h"
#include "capture/value.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLACK 1.05       /* caches that grow with the cores */
#define EQUAL_SLACK 1.25 /* of as many threads or devices: where they are on the machine, and what else ran there */
#define CONDITIONS 200 /* bytes of their names in a message */

/* ---- conditions that differ ---- */

static void add_condition(char *out, const char *name, int differs)
{
    const size_t n = strlen(out);
    if (differs && n + 1 < CONDITIONS)
        snprintf(out + n, CONDITIONS - n, "%s%s", n ? ", " : "", name);
}

static int are_unequal(const json_t *a, const json_t *b)
{
    return a != b && !(a && b && json_equal(a, b));
}

/* Settings that change neither the work on a sample nor the device that does it. */
static int is_free(const char *key)
{
    static const char *const groups[] = {"measure.", "evidence.", "run.", "seed.", "schedule."};
    static const char *const keys[] = {"title",
                                       "follows",
                                       "parallel.data",
                                       "train.global_batch_size",
                                       "train.accumulation_steps",
                                       "train.batch_size",
                                       "optimizer.learning_rate"}; /* batches: see below */
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncmp(key, groups[i], strlen(groups[i])) == 0)
            return 1;
    return RP_IS_IN(keys, key, strlen(key));
}

/* Micro-batches of a rank between two updates. The same number where the global batch grows with the ranks; fewer where
 * it does not, which makes no rank faster; more save updates. */
static double micro_batches_of(const struct rp_facts *f)
{
    return json_number_value(rp_facts_setting(f, "train.accumulation_steps")) *
           json_number_value(rp_facts_setting(f, "parallel.data")) / (double)f->layout.data;
}

/* The devices of all ranks are of the same kind, those of the baseline too. */
static int other_devices(const struct rp_facts *f, const struct rp_facts *base)
{
    struct rp_device_info first, one;
    int other = rp_rank_device(&first, base, 0) < 0;
    for (int k = 0; k < 2; k++) {
        const struct rp_facts *of = k ? f : base;
        for (int64_t i = 0; i < of->rank_n && !other; i++)
            other = rp_rank_device(&one, of, i) < 0 || strcmp(one.kind, first.kind) != 0 ||
                    strcmp(one.name, first.name) != 0 || strcmp(one.isa, first.isa) != 0;
    }
    return other;
}

/* Differences other than the number of ranks that can explain a speed-up: settings that change the work, and the
 * machines. */
static void find_conditions(char *out, const struct rp_run *s, const struct rp_run *base)
{
    static const char *const captured[] = {"probes.cpu.model_name", "probes.frequency.hardware_max",
                                           "probes.frequency.governor", "probes.nvidia.version"};
    const struct rp_facts *f = s->facts, *b = base->facts;
    const char *key;
    json_t *entry;
    *out = 0;
    json_object_foreach(f->recipe, key, entry)
        if (!is_free(key))
            add_condition(out, key, are_unequal(rp_recorded(entry).value, rp_facts_setting(b, key)));
    add_condition(out, "micro-batches between two updates", micro_batches_of(f) > micro_batches_of(b));
    add_condition(out, "batch size", f->plan.batch != b->plan.batch);
    add_condition(out, "backend", strcmp(f->backend, b->backend) != 0);
    add_condition(out, "device", other_devices(f, b));
    for (size_t i = 0; i < sizeof captured / sizeof *captured; i++) {
        int differs = 0;
        const json_t *first = rp_known(base->node[0].before, captured[i]);
        for (int k = 0; k < s->nodes; k++)
            differs |= are_unequal(rp_known(s->node[k].before, captured[i]), first);
        for (int k = 1; k < base->nodes; k++)
            differs |= are_unequal(rp_known(base->node[k].before, captured[i]), first);
        add_condition(out, captured[i] + strlen("probes."), differs);
    }
}

/* ---- the speed-up ---- */

/* One end of the interval of the throughput, or the throughput where there is none. */
static double rate_of(const struct rp_throughput_figures *t, size_t end)
{
    return isnan(t->interval[end]) ? t->value : t->interval[end];
}

/* As many threads or devices, in other ranks or on other machines. */
static int judge_equals(int64_t n, const struct rp_throughput_figures *t, const struct rp_throughput_figures *base,
                        double least, double most, const char *conditions, struct rp_check_result *result)
{
    char figures[240];
    RP_FORMAT(figures,
              "%.5g %.20s on %" PRId64 " threads or devices, %.5g on as many of the baseline: "
              "%.3f to %.3f times as fast",
              t->value, t->unit, n, base->value, least, most);
    if (*conditions)
        return rp_check_note(result, "%s; other differences: %s", figures, conditions);
    if (least > EQUAL_SLACK)
        return rp_check_warn(result, "%s, and nothing else differs", figures);
    return rp_check_text(result, "%s", figures);
}

static int compare_runs(const struct rp_run *s, const struct rp_run *base, struct rp_scaling_answer **found,
                        struct rp_check_result *result, struct rp_err *err)
{
    char conditions[CONDITIONS], figures[240];
    const int64_t n = rp_run_devices(s), n_base = rp_run_devices(base);
    const struct rp_throughput_figures *t = &s->figures->results.throughput,
                                       *t_base = &base->figures->results.throughput;
    const double least = rate_of(t, 0) / rate_of(t_base, 1), most = rate_of(t, 1) / rate_of(t_base, 0);
    const double ideal = n_base > 0 ? (double)n / (double)n_base : 0;
    if (strcmp(t->unit, t_base->unit) != 0)
        return rp_check_warn(result, "throughput is in %.40s, that of the baseline in %.40s: they are not compared",
                             t->unit, t_base->unit);
    if (!(least > 0))
        return rp_check_not_applicable(result, "no throughput in one of the two bundles: nothing to compare");
    if (n < n_base)
        return rp_check_not_applicable(result,
                                       "%" PRId64 " threads or devices, the baseline has %" PRId64
                                       ": verify that one with this as the baseline",
                                       n, n_base);
    find_conditions(conditions, s, base);
    *found = rp_alloc(sizeof **found);
    **found = (struct rp_scaling_answer){.width = n,
                                         .base_width = n_base,
                                         .speedup = {least, most},
                                         .ideal = ideal,
                                         .efficiency = {least / ideal, most / ideal},
                                         .slack = n == n_base ? EQUAL_SLACK : SLACK,
                                         .conditions = rp_strdup(conditions)};
    if (n == n_base)
        return judge_equals(n, t, t_base, least, most, conditions, result);
    RP_FORMAT(figures,
              "%.5g %.20s for each of %" PRId64 " threads or devices, %.5g for each of %" PRId64 " of the baseline: "
              "speed-up %.2f to %.2f, ideal %.2f, efficiency %.0f to %.0f %%",
              t->value / (double)n, t->unit, n, t_base->value / (double)n_base, n_base, least, most, ideal,
              100 * least / ideal, 100 * most / ideal);
    if (least > ideal * SLACK && !*conditions)
        return rp_fail(err, RP_MISMATCH, "%s; more than %.2f times ideal, and nothing else differs", figures, SLACK);
    if (least > ideal * SLACK)
        return rp_check_warn(result, "%s; more than %.2f times ideal; other differences: %s", figures, SLACK,
                             conditions);
    if (*conditions)
        return rp_check_note(result, "%s; other differences: %s", figures, conditions);
    return rp_check_text(result, "%s", figures);
}

int rp_check_scaling(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_verify_other *base = s->baseline;
    if (!base)
        return rp_check_skip(result,
                             "not requested; --baseline BUNDLE names a run with fewer threads or devices, or as many");
    if (base->failed) {
        *err = base->err;
        return rp_wrap(err, "--baseline");
    }
    if (compare_runs(&s->run, &base->kept.run, &s->v->scaling, result, err) < 0)
        return -1;
    char had[sizeof result->text], signer[RP_WHOSE_KEY];
    if (strcmp(base->v.fingerprint, s->v->fingerprint) == 0)
        return 0;
    if (rp_verify_whose_key(signer, s, &base->v) && result->state == RP_CHECK_PASSED)
        result->state = RP_CHECK_NOTE;
    memcpy(had, result->text, sizeof had);
    return rp_check_text(result, "%s; the baseline is signed by %.200s", had, signer);
}
