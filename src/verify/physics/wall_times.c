/* Wall clocks: dates of a run or a command against each other, its captures and what is known from outside, and the
 * rate of the clock of all times. */
#include "base/clock.h"
#include "capture/value.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>

#define CLOCK_SET 1767225600.0 /* 2026: an earlier clock here was never set */
#define FUTURE_S 86400.0     /* a clock may be wrong by a day */
#define RATE_MOST 1000.0 /* ppm: no clock is kept right by more, but its owner can slow it down by a tenth */
#define READ_S 0.001         /* the two clocks are read one after the other */

double rp_verify_ended_late(const struct rp_verify_state *s, double end, const char **than)
{
    const int64_t stamped = s->v->stamped_ns, came = s->o->received_ns;
    const int first = stamped && (!came || stamped < came);
    *than = first ? "a time stamp of its bundle" : "the bundle came (--received)";
    return stamped || came ? end - (double)(first ? stamped : came) / 1e9 - RP_FAST_S : 0;
}

/* Did the clock of all times run at another rate than its oscillator? Honest clocks do for seconds while a daemon
 * corrects them. */
static int warn_of_rate(struct rp_check_result *result, double used_s, double raw_s, const char *when, const char *who)
{
    const double by = used_s - raw_s;
    if (!(raw_s > 0) || !(fabs(by) > raw_s * RATE_MOST / 1e6 + READ_S))
        return 0;
    rp_check_warn(result,
                  "%s the clock%s ran %.3g %% %s than its oscillator (CLOCK_MONOTONIC_RAW), %.3f s in %.3f: times are "
                  "wrong by as much",
                  when, who, fabs(by) / raw_s * 100, by < 0 ? "slower" : "faster", fabs(by), raw_s);
    return 1;
}

/* Seconds from one capture of a node to the other. NAN: one of them has no such value. */
static double seconds_between(const struct rp_run *r, int node, const char *path)
{
    double before, after;
    return rp_known_number(rp_run_capture(r, node, 0), path, &before) == 0 &&
                   rp_known_number(rp_run_capture(r, node, 1), path, &after) == 0
               ? (after - before) / 1e9
               : NAN;
}

/* A rate that was set and set back is seen by the clock that it does not change. */
static int check_rates(const struct rp_verify_state *s, struct rp_check_result *result)
{
    char who[RP_WHO];
    const struct rp_facts *f = s->run.facts;
    for (int64_t i = 0; f && i < f->rank_n; i++) {
        const struct rp_trained_facts *t = f->rank[i].trained_s;
        rp_run_rank_text(who, &s->run, " of ", i, "");
        if (t && warn_of_rate(result, t->monotonic, t->raw, "during the steps", who))
            return 1;
    }
    for (int i = 0; i < s->run.nodes; i++) {
        rp_run_node_text(who, &s->run, " of ", i, "");
        if (warn_of_rate(result, seconds_between(&s->run, i, "probes.clock.monotonic"),
                         seconds_between(&s->run, i, "probes.clock.monotonic_raw"), "between the captures", who))
            return 1;
    }
    return 0;
}

int rp_verify_slow_clock(const struct rp_verify_state *s, struct rp_check_result *result)
{
    char who[RP_WHO];
    for (int i = 0; i < 2 * s->run.nodes; i++) {
        double ppm;
        const int node = i / 2, after = i % 2;
        if (rp_known_number(rp_run_capture(&s->run, node, after), "probes.clock.rate_correction", &ppm) < 0 ||
            fabs(ppm) <= RATE_MOST)
            continue;
        rp_run_node_text(who, &s->run, " of ", node, "");
        rp_check_warn(result,
                      "%s the run the clock%s was set to run %.3g %% %s than its oscillator: times are wrong by as "
                      "much",
                      after ? "after" : "before", who, fabs(ppm) / 1e4, ppm < 0 ? "slower" : "faster");
        return 1;
    }
    return check_rates(s, result);
}

int rp_verify_wall_times(const struct rp_verify_state *s, double *end, struct rp_err *err)
{
    const struct rp_facts *f = s->run.facts;
    const double start = rp_wall_time(f->started_at), now = (double)rp_wall_ns() / 1e9,
                 stamped = (double)s->v->stamped_ns / 1e9;
    const double before = rp_captured_at(s->run.node[0].before), after = rp_captured_at(s->run.node[0].after);
    *end = rp_wall_time(f->ended_at);
    if (isnan(start) || isnan(*end) || isnan(before) || isnan(after))
        return rp_fail(err, RP_MISMATCH, "a date in facts.json or a capture does not exist");
    const double apart = *end - start;
    if (apart < 0 || f->elapsed_s > apart + RP_WALL_SLACK_S || f->elapsed_s < apart - RP_WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "elapsed_s is %.3f, but started_at and ended_at are %.0f s apart",
                       f->elapsed_s, apart);
    if (before < start || before > *end || after < *end)
        return rp_fail(err, RP_MISMATCH, "the captures are not from the start and the end of the run");
    if (now > CLOCK_SET && *end > now + FUTURE_S)
        return rp_fail(err, RP_MISMATCH, "the run ended %.1f days in the future: its clock or this one is wrong",
                       (*end - now) / 86400);
    if (s->v->stamped_ns && *end > stamped + FUTURE_S)
        return rp_fail(err, RP_MISMATCH, "the run ended %.1f days after a time stamp of its bundle",
                       (*end - stamped) / 86400);
    return 0;
}
