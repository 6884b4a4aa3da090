/* Wall times, phases and step times against each other; what makes step times inaccurate. */
#include "base/clock.h"
#include "base/json.h"
#include "base/sort.h"
#include "capture/value.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WALL_SLACK_S 1.001   /* wall times are truncated to seconds */
#define CLOCK_DRIFT 1.01     /* the wall clock may be slewed against the monotonic one */
#define CLOCK_SET 1767225600.0 /* 2026: an earlier clock here was never set */
#define FUTURE_S 86400.0     /* a clock may be wrong by a day */
#define FAST_S 300.0         /* but one that is set by the network is not that fast */
#define TICK_NS 1000         /* a clock that is coarser counts ticks */
#define VARIED_STEPS 3       /* fewer have no spread to judge */
#define WIDE_SHARE 25.0      /* per cent of the median: other work ran on the machine */
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

/* A phase lasts at least as long as its steps or roots: the worker uses one clock. */
static int check_phases(const struct rp_verify_state *s, double *sum, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    const json_t *is = json_object_get(s->run.json, "phases_s");
    double warm = 0, timed = 0, roots = 0;
    const char *key;
    json_t *part;
    for (int64_t i = 0; i < rs->n; i++) {
        *(rs->r[i].timed ? &timed : &warm) += (double)length_of(&rs->r[i]) / 1e9;
        roots += (double)rs->r[i].root_ns / 1e9;
    }
    const struct {
        const char *name;
        double least;
    } rows[] = {{"warm-up", warm}, {"timed", timed}, {"state roots", roots}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = json_object_get(is, rows[i].name);
        if (v && json_number_value(v) < rows[i].least * (1 - 1e-6) - 1e-6)
            return rp_fail(err, RP_MISMATCH, "the phase '%s' took %.3f s, but its records %.3f s", rows[i].name, json_number_value(v),
                           rows[i].least);
    }
    *sum = 0;
    json_object_foreach((json_t *)is, key, part)
        *sum += json_number_value(part);
    return 0;
}

/* How long after others had the bundle its run ended, by the signer's clock: 0 or less where that is possible. */
static double ended_late(const struct rp_verify_state *s, double end, const char **than)
{
    const int64_t stamped = s->v->stamped_ns, came = s->o->received_ns;
    const int first = stamped && (!came || stamped < came);
    *than = first ? "a time stamp of its bundle" : "the bundle came (--received)";
    return stamped || came ? end - (double)(first ? stamped : came) / 1e9 - FAST_S : 0;
}

/* Steps on a GPU have times by its own clock. */
static int lacks_device_times(const struct rp_verify_state *s)
{
    return rp_run_is_complete(s->run.json) && !rp_run_on_cpu(&s->run, s->run.ranks.slowest) &&
           !json_is_number(rp_json_at(s->run.json, "results/device_share"));
}

int rp_check_time(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    int64_t n;
    const struct rp_step_record *step = steps_of(&s->run.records, &n);
    double start = rp_wall_time(s->run.json, "started_at"), end = rp_wall_time(s->run.json, "ended_at"), phases = 0;
    double elapsed = json_number_value(json_object_get(s->run.json, "elapsed_s"));
    double before = rp_wall_time(s->run.node[0].before, "captured_at"),
           after = rp_wall_time(s->run.node[0].after, "captured_at");
    double span = n ? (double)(step[n - 1].end_ns - step[0].start_ns) / 1e9 : 0;
    if (isnan(start) || isnan(end) || isnan(before) || isnan(after))
        return rp_fail(err, RP_MISMATCH, "a date in run.json or a capture does not exist");
    if (end < start || elapsed > end - start + WALL_SLACK_S || elapsed < end - start - WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "elapsed_s is %.3f, but started_at and ended_at are %.0f s apart", elapsed, end - start);
    if (before < start || before > end || after < end)
        return rp_fail(err, RP_MISMATCH, "the captures are not from the start and the end of the run");
    double now = (double)rp_wall_ns() / 1e9;
    if (now > CLOCK_SET && end > now + FUTURE_S)
        return rp_fail(err, RP_MISMATCH, "the run ended %.1f days in the future: its clock or this one is wrong", (end - now) / 86400);
    if (s->v->stamped_ns && end > (double)s->v->stamped_ns / 1e9 + FUTURE_S)
        return rp_fail(err, RP_MISMATCH, "the run ended %.1f days after a time stamp of its bundle",
                       (end - (double)s->v->stamped_ns / 1e9) / 86400);
    if (span > elapsed * CLOCK_DRIFT + WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "the steps span %.3f s, but the whole run took %.3f s", span, elapsed);
    if (check_phases(s, &phases, err) < 0)
        return -1;
    if (rp_run_is_complete(s->run.json) && !json_is_number(rp_json_at(s->run.json, "phases_s/timed")))
        return rp_fail(err, RP_MISMATCH, "the run is complete, but phases_s has no 'timed'");
    if (phases > elapsed * CLOCK_DRIFT + WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "the phases add up to %.3f s, but the whole run took %.3f s", phases, elapsed);
    int unnamed = json_is_object(json_object_get(s->run.json, "phases_s")) &&
                  elapsed - phases > UNNAMED_S + UNNAMED_PART * elapsed;
    if (unnamed)
        return rp_check_warn(result, "steps span %.1f s of a run of %.1f s, %.1f s are outside all phases", span, elapsed,
                             elapsed - phases);
    const char *than;
    const double late = ended_late(s, end, &than);
    if (late > 0)
        return rp_check_warn(result, "the run ended %.0f s after %s: the signer's clock is fast, or its times were invented",
                             late + FAST_S, than);
    if (lacks_device_times(s))
        return rp_check_warn(result, "the steps have no device_ns, their time by the clock of the device, which every GPU has");
    return rp_check_text(result, "steps span %.1f s of a run of %.1f s, in order and without overlap", span, elapsed);
}

/* ---- clock_resolution, step_variation ---- */

/* The node of the slowest rank, whose times the run has. */
static int slowest_node(const struct rp_verify_state *s)
{
    return s->run.ranks.ranks > 1 ? rp_run_node_of(&s->run, s->run.ranks.slowest) : 0;
}

int rp_check_clock_resolution(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    double ns;
    const json_t *before = rp_run_capture(&s->run, slowest_node(s), 0);
    const char *name = rp_known_text(before, "probes.clock.source");
    (void)err;
    if (rp_known_number(before, "probes.clock.resolution", &ns) == 0 && ns >= TICK_NS)
        return rp_check_note(result, "the clock counts ticks of %.0f ns: short times are inaccurate", ns);
    if (!name || strcmp(name, "jiffies") == 0) /* the only clock source of Linux that counts ticks */
        return rp_check_note(result, name ? "the clock was 'jiffies', which counts ticks: short times are inaccurate"
                                          : "the clock source was not captured");
    return rp_check_text(result, "the clock was '%.32s', finer than a microsecond", name);
}

int rp_check_step_variation(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    RP_FREE int64_t *ns = rp_alloc((size_t)(rs->n + 1) * sizeof *ns);
    int64_t n = 0;
    (void)err;
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].timed)
            ns[n++] = length_of(&rs->r[i]);
    if (n < VARIED_STEPS)
        return rp_check_text(result, "%" PRId64 " timed step%s too few to judge", n, n == 1 ? " is" : "s are");
    rp_sort_int64(ns, (size_t)n);
    const double share = ns[n / 2] > 0 ? (double)(ns[n - 1] - ns[0]) / (double)ns[n / 2] * 100 : 0;
    if (share >= WIDE_SHARE)
        return rp_check_note(result, "%" PRId64 " timed steps differ by %.0f %% of their median: other work on the "
                                     "machine, or changing clocks; see telemetry and load", n, share);
    return rp_check_text(result, "%" PRId64 " timed steps within %.2g %% of their median", n, share);
}
