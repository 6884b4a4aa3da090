/* Wall times, phases and step times against each other. */
#include "base/clock.h"
#include "base/json.h"
#include "capture/value.h"
#include "run/derive.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>

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

/* Steps on a GPU have times by its own clock. */
static int lacks_device_times(const struct rp_verify_state *s)
{
    return rp_facts_complete(s->run.facts) && !rp_rank_on_cpu(s->run.facts, s->run.ranks.slowest) &&
           isnan(s->run.figures->results.device_share);
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
