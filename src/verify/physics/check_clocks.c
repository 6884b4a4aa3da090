/* Wall times, phases and step times against each other. */
#include "base/clock.h"
#include "base/json.h"
#include "capture/value.h"
#include "run/derive.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>

#define CLOCK_SET 1767225600.0 /* 2026: an earlier clock here was never set */
#define FUTURE_S 86400.0     /* a clock may be wrong by a day */
#define RATE_MOST 1000.0 /* ppm: no clock is kept right by more, but its owner can slow it down by a tenth */
#define READ_S 0.001         /* the two clocks are read one after the other */
#define UNNAMED_S 30.0       /* a run may spend this much outside its phases */
#define UNNAMED_PART 0.5

static int64_t length_of(const struct rp_step_record *r)
{
    return r->end_ns - r->start_ns;
}

/* The records of steps, without the record of the initial state. */
static const struct rp_step_record *steps_of(const struct rp_records *rs, int64_t *n)
{
    int64_t first = rs->n && rs->r[0].step < 0;
    *n = rs->n - first;
    return first ? rs->r + 1 : rs->r; /* no records: NULL */
}

/* ---- time ---- */

/* Seconds of all phases of a rank. */
static double sum_phases(const struct rp_phases *p)
{
    const double parts[] = {p->ceilings, p->initialising, p->warm_up, p->timed, p->state_roots, p->saving};
    double sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += isnan(parts[i]) ? 0 : parts[i];
    return sum;
}

/* Phases of the slowest rank last at least as long as its steps and roots: its worker uses one clock. */
static int check_records(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    const struct rp_phases *is = s->run.facts->rank[s->run.ranks.slowest].phases_s;
    double warm = 0, timed = 0, roots = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        const double seconds = (double)length_of(&rs->r[i]) / 1e9;
        if (rs->r[i].timed)
            timed += seconds;
        else
            warm += seconds;
        roots += (double)rs->r[i].root_ns / 1e9;
    }
    const struct {
        const char *name;
        double is, least;
    } rows[] = {{"warm_up", is ? is->warm_up : NAN, warm},
                {"timed", is ? is->timed : NAN, timed},
                {"state_roots", is ? is->state_roots : NAN, roots}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is < rows[i].least * (1 - 1e-6) - 1e-6)
            return rp_fail(err, RP_MISMATCH, "the phase '%s' took %.3f s, but its records %.3f s", rows[i].name,
                           rows[i].is, rows[i].least);
    return 0;
}

/* The phases of each rank are within the run. */
static int check_phases(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_facts *f = s->run.facts;
    char who[RP_WHO];
    for (int64_t i = 0; i < f->rank_n; i++) {
        const struct rp_phases *is = f->rank[i].phases_s;
        const double sum = is ? sum_phases(is) : 0;
        rp_run_rank_text(who, &s->run, " of ", i, "");
        if (rp_facts_complete(f) && !(is && is->timed >= 0))
            return rp_fail(err, RP_MISMATCH, "the run is complete, but phases_s%s has no 'timed'", who);
        const struct rp_trained_facts *t = f->rank[i].trained_s;
        const double steps = is ? (isnan(is->warm_up) ? 0 : is->warm_up) + (isnan(is->timed) ? 0 : is->timed) : 0;
        if (t && t->monotonic < steps * (1 - 1e-6) - 1e-6)
            return rp_fail(err, RP_MISMATCH, "trained_s%s is %.3f s, but the phases of its steps took %.3f s", who,
                           t->monotonic, steps);
        if (sum > f->elapsed_s * RP_CLOCK_DRIFT + RP_WALL_SLACK_S)
            return rp_fail(err, RP_MISMATCH, "the phases%s add up to %.3f s, but the whole run took %.3f s", who, sum,
                           f->elapsed_s);
    }
    return 0;
}

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

/* Steps on a GPU have times by its own clock. */
static int lacks_device_times(const struct rp_verify_state *s)
{
    return rp_facts_complete(s->run.facts) && !rp_rank_on_cpu(s->run.facts, s->run.ranks.slowest) &&
           isnan(s->run.figures->results.device_share);
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

int rp_check_time(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    if (s->run.doc->command)
        return rp_verify_command_time(s, result, err);
    int64_t n;
    const struct rp_step_record *step = steps_of(&s->run.records, &n);
    const struct rp_phases *phases = s->run.facts->rank[s->run.ranks.slowest].phases_s;
    const double elapsed = s->run.facts->elapsed_s,
                 span = n ? (double)(step[n - 1].end_ns - step[0].start_ns) / 1e9 : 0;
    double end;
    const char *than;
    if (rp_verify_wall_times(s, &end, err) < 0)
        return -1;
    if (span > elapsed * RP_CLOCK_DRIFT + RP_WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "the steps span %.3f s, but the whole run took %.3f s", span, elapsed);
    if (check_records(s, err) < 0 || check_phases(s, err) < 0)
        return -1;
    const double unnamed = phases ? elapsed - sum_phases(phases) : 0, late = rp_verify_ended_late(s, end, &than);
    if (unnamed > UNNAMED_S + UNNAMED_PART * elapsed)
        return rp_check_warn(result, "steps span %.1f s of a run of %.1f s, %.1f s are outside all phases", span,
                             elapsed, unnamed);
    if (late > 0)
        return rp_check_warn(result,
                             "the run ended %.0f s after %s: the signer's clock is fast, or its times were invented",
                             late + RP_FAST_S, than);
    if (rp_verify_slow_clock(s, result))
        return 0;
    if (lacks_device_times(s))
        return rp_check_warn(result,
                             "the steps have no device_ns, their time by the clock of the device, which every GPU has");
    return rp_check_text(result, "steps span %.1f s of a run of %.1f s, in order and without overlap", span, elapsed);
}
