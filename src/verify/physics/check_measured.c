/* Measurements besides the steps: ceilings before and after, device telemetry. */
#include "base/json.h"
#include "base/text.h"
#include "run/derive.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLOCKS_APART 1.001 /* two oscillators, or two readings of one */
#define EXCHANGE_LEAST 0.5 /* of the time at the measured rate */
/* A run may be this many times as fast as its GEMM ceiling: other work slowed the ceiling down, or its shapes are
 * faster. */
#define SLACK_CPU 2.0
#define SLACK_DEVICE 1.25

/* Ceilings are of one rank. */
static int is_cpu(const struct rp_verify_state *s)
{
    return rp_rank_on_cpu(s->run.facts, s->run.facts->ceilings->rank);
}

/* What a complete run on a GPU always has: worth a warning where it is missing, whatever the reason, as its absence
 * helps a forger too. */
static int is_complete_gpu(const struct rp_verify_state *s)
{
    return !is_cpu(s) && rp_facts_complete(s->run.facts);
}

static double sum_of(const int64_t *ns, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)ns[i];
    return sum / 1e9;
}

/* Seconds of all repetitions. */
static double sum_repetitions(const struct rp_ceiling_times *t)
{
    if (!t)
        return 0;
    double sum = sum_of(t->gemm.ns, t->gemm.ns_n) + sum_of(t->copy.ns, t->copy.ns_n);
    if (t->host_to_device)
        sum += sum_of(t->host_to_device->ns, t->host_to_device->ns_n);
    for (int64_t i = 0; i < t->exchange_n; i++)
        sum += sum_of(t->exchange[i].ns, t->exchange[i].ns_n);
    return sum;
}

static int check_no_ceilings(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const int asked = json_is_true(rp_facts_setting(s->run.facts, "measure.ceilings"));
    if (asked && rp_facts_complete(s->run.facts))
        return rp_fail(err, RP_MISMATCH, "the settings require ceilings (measure.ceilings), but facts.json has none");
    return rp_check_not_applicable(
        result, asked ? "none: the run ended before they were measured" : "turned off (measure.ceilings)");
}

/* The share of the timed steps that exchanged weights: one that overflowed did not. */
static double updates_share(const struct rp_verify_state *s)
{
    const struct rp_loss_scaling *is = s->run.figures->results.loss_scaling;
    return is && is->skipped_share > 0 ? 1 - is->skipped_share : 1;
}

/* Exchanges of one level over all ranks took less than half of what their bytes take at the best rate that was
 * measured. In several levels, and within groups, a rank's neighbours may be nearer than all ranks are. */
static int exchanges_are_fast(const struct rp_verify_state *s, struct rp_check_result *result)
{
    const struct rp_exchange_achieved *x = s->run.figures->ceilings->exchange;
    const struct rp_exchange_facts *of = s->run.facts->rank[s->run.ranks.slowest].exchange;
    if (!x || !of || of->levels != 1 || s->run.ranks.degrees.tensor * s->run.ranks.degrees.pipeline > 1 ||
        !(x->measured_s < x->least_s * EXCHANGE_LEAST * updates_share(s)))
        return 0;
    rp_check_warn(
        result, "exchanges took %.4g ms a step, and their bytes at least %.4g ms at the highest rate that was measured",
        x->measured_s * 1e3, x->least_s * 1e3);
    return 1;
}

static int check_share(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_ceiling_facts *is = s->run.facts->ceilings;
    const double slack = is_cpu(s) ? SLACK_CPU : SLACK_DEVICE, share = s->run.figures->ceilings->gemm_share;
    if (share > slack)
        return rp_fail(err, RP_MISMATCH, "the run achieved %.2f of its own GEMM ceiling; at most %.2f is plausible",
                       share, slack);
    for (int i = 0; i < 2 && is_complete_gpu(s); i++)
        if (!(i ? is->after : is->before) || !(i ? is->after : is->before)->host_to_device)
            return rp_check_warn(result, "ceilings/%s has no rate of uploads, which every GPU has",
                                 i ? "after" : "before");
    if (exchanges_are_fast(s, result))
        return 0;
    if (!is->before || !is->after) /* the clock may rise after the first measurement */
        return rp_check_note(result, "not measured %s the run: the run is not compared with a ceiling",
                             is->before ? "after" : "before");
    if (isnan(share))
        return rp_check_note(result, "the run is not compared with its GEMM ceiling: its share of it is unknown");
    if (share > 1)
        return rp_check_note(
            result,
            "the run achieved %.3f of its GEMM ceiling: other work ran while the ceiling was measured, or the "
            "model's shapes are faster",
            share);
    return rp_check_text(result, "the run achieved %.3f of its GEMM ceiling", share);
}

/* NULL: not measured, which contradicts nothing. */
static int is_measured(const struct rp_ceiling_rates *r)
{
    return !r || (r->gemm_flops_per_s > 0 && r->copy_bytes_per_s > 0);
}

int rp_check_ceilings(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_ceiling_facts *is = s->run.facts->ceilings;
    if (!rp_verify_figures(s)) /* run.json was compared with nothing, and may lack them */
        return rp_check_skip(result, "not compared: the records do not agree with the settings");
    if (rp_verify_follows(s, RP_CHECK_ceilings, err) < 0)
        return -1;
    if (!is)
        return check_no_ceilings(s, result, err);
    if (json_is_false(rp_facts_setting(s->run.facts, "measure.ceilings")))
        return rp_fail(err, RP_MISMATCH, "the settings turn ceilings off (measure.ceilings), but facts.json has them");
    if (is->rank != s->run.ranks.slowest)
        return rp_fail(err, RP_MISMATCH, "facts.json: ceilings/rank is %" PRId64 ", but the slowest is rank %d",
                       is->rank, s->run.ranks.slowest);
    if (!is_measured(s->run.figures->ceilings->before) || !is_measured(s->run.figures->ceilings->after))
        return rp_fail(err, RP_MISMATCH, "facts.json: ceilings before or after the run have no work, or no time");
    const struct rp_phases *phases = s->run.facts->rank[is->rank].phases_s;
    const double took = sum_repetitions(is->before) + sum_repetitions(is->after);
    if (phases && took > phases->ceilings * CLOCKS_APART + 1e-3)
        return rp_fail(err, RP_MISMATCH, "the phase 'ceilings' took %.3f s, but its repetitions %.3f s",
                       phases->ceilings, took);
    return check_share(s, result, err);
}

/* ---- telemetry ---- */

/* What the ranks' device samples show. */
struct telemetry_seen {
    int with;            /* ranks that have some */
    int few;             /* of these, with too few; */
    double room;         /* of the one with fewest for its window: expected, */
    int64_t timed;       /* and seen */
    int worst, without;  /* that rank; the first one on a GPU without telemetry, or -1 */
    char throttled[240]; /* reasons, with the rank of several; "": none */
};

static void look_at_throttling(struct telemetry_seen *seen, const struct rp_verify_state *s, int rank)
{
    const struct rp_telemetry_figures *is = s->run.figures->rank[rank].telemetry;
    char who[RP_WHO];
    rp_run_rank_text(who, &s->run, "", rank, ": ");
    for (int64_t i = 0; i < is->throttle_n; i++) {
        const size_t n = strlen(seen->throttled);
        if (!rp_throttle_is_harmless(is->throttle[i].reason) && n + 100 < sizeof seen->throttled)
            snprintf(seen->throttled + n, sizeof seen->throttled - n, "%s%s%.40s in %.0f %%", n ? ", " : "", who,
                     is->throttle[i].reason, 100 * is->throttle[i].share);
    }
}

static void look_at_rank(struct telemetry_seen *seen, const struct rp_verify_state *s, int rank)
{
    const struct rp_telemetry_figures *is = s->run.figures->rank[rank].telemetry;
    const double room = rp_run_expected_samples(&s->run, rank);
    if (!is && !rp_rank_on_cpu(s->run.facts, rank) && seen->without < 0)
        seen->without = rank;
    if (!is)
        return;
    if (!seen->with || (double)is->timed * seen->room < (double)seen->timed * room) {
        seen->room = room;
        seen->timed = is->timed;
        seen->worst = rank;
    }
    seen->with++;
    seen->few |= rp_run_lacks_samples(&s->run, rank);
    look_at_throttling(seen, s, rank);
}

static const char *why_none(const struct rp_verify_state *s, int rank)
{
    const char *why = s->run.facts->rank[rank].no_telemetry;
    return why ? why : "no reason given";
}

/* Throttling, and too few device samples. */
static void describe_telemetry(const struct rp_verify_state *s, const struct telemetry_seen *seen,
                               struct rp_check_result *result)
{
    const char *throttled = seen->throttled;
    char of[48] = "", who[RP_WHO];
    rp_run_rank_text(who, &s->run, " of ", seen->worst, "");
    if (*who)
        RP_FORMAT(of, " of %d ranks", seen->with);
    if (seen->few || *throttled)
        result->state = seen->few && seen->room >= RP_SAMPLES_ENOUGH && rp_facts_complete(s->run.facts)
                            ? RP_CHECK_WARNING
                            : RP_CHECK_NOTE;
    if (seen->without >= 0)
        rp_check_warn(result, "rank %d trained on a GPU and has no telemetry: %.200s", seen->without,
                      why_none(s, seen->without));
    else if (seen->few)
        rp_check_text(result, "only %" PRId64 " device samples%s in the timed windows, %.0f expected%s%s", seen->timed,
                      who, seen->room, *throttled ? "; throttled: " : "", throttled);
    else
        rp_check_text(result, "%" PRId64 " device samples%s in the timed windows%s%s", s->run.figures->telemetry->timed,
                      of, *throttled ? "; throttled: " : ", no throttling", throttled);
}

/* A rank that has all its samples has no reason why there are none. */
static void warn_of_reason(const struct rp_verify_state *s, struct rp_check_result *result)
{
    for (int i = 0; i < s->run.ranks.ranks && result->state != RP_CHECK_WARNING; i++) {
        const int complete = s->run.figures->rank[i].telemetry && !rp_run_lacks_samples(&s->run, i);
        if (complete && s->run.facts->rank[i].no_telemetry)
            rp_check_warn(result, "rank %d has its telemetry, and a reason why it has none: %.200s", i, why_none(s, i));
    }
}

int rp_check_telemetry(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct telemetry_seen seen = {.without = -1};
    if (s->run.doc->command)
        return rp_verify_command_telemetry(s, result, err);
    if (!rp_verify_figures(s))
        return rp_check_skip(result, "not compared: the records do not agree with the settings");
    if (rp_verify_follows(s, RP_CHECK_telemetry, err) < 0)
        return -1;
    for (int i = 0; i < s->run.ranks.ranks; i++) {
        if (s->run.facts->rank[i].no_telemetry && rp_rank_on_cpu(s->run.facts, i))
            return rp_fail(err, RP_MISMATCH,
                           "facts.json: rank %d has a reason for missing telemetry, but the CPU backend trained", i);
        look_at_rank(&seen, s, i);
    }
    if (seen.with) {
        describe_telemetry(s, &seen, result);
        warn_of_reason(s, result);
        return 0;
    }
    if (seen.without < 0)
        return rp_check_not_applicable(result, "none: the CPU backend has no telemetry");
    if (!rp_facts_complete(s->run.facts))
        return rp_check_not_applicable(result, "none: %.300s", why_none(s, seen.without));
    return rp_check_warn(result, "none: %.300s", why_none(s, seen.without));
}
