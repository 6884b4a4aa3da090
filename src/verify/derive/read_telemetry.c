/* The sealed samples of devices, into the figures that are derived again: of every rank of a run, and of every device
 * of a command. */
#include "base/text.h"
#include "run/derive.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define WALL_SLACK_S 1.001 /* the wall clock may be adjusted against the monotonic clock */
#define WALL_DRIFT 1.01
#define POWER_GAP 0.1      /* of the window without a sample of power: as much of its energy is unknown */
#define POWER_APART 0.15   /* the mean of unevenly spaced samples is not their integral */
#define SAMPLER_LATE_S 5.0 /* drivers of many GPUs take so long to answer first */

/* ---- of a run ---- */

/* Steps and device samples of a rank share a clock: together they span at most the run, and device samples come at most
 * at their rate. */
static int check_rank_times(const struct rp_verify_state *s, int rank, const struct rp_telemetry *is,
                            struct rp_err *err)
{
    const struct rp_rank_share *share = &s->run.ranks.share[rank];
    const double elapsed = s->run.facts->elapsed_s;
    double first = (double)is->sample->ns / 1e9, last = (double)is->sample[is->n - 1].ns / 1e9, begin = first,
           end = last;
    if ((double)((is->n - 1) * is->every) * RP_TELEMETRY_PERIOD_S >
        (last - first) * WALL_DRIFT + 2 * RP_TELEMETRY_PERIOD_S)
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " device samples in %.3f s: they are taken every %.1f s",
                       (is->n - 1) * is->every, last - first, RP_TELEMETRY_PERIOD_S);
    if (share->samples) {
        begin = fmin(begin, (double)share->begun_ns / 1e9);
        end = fmax(end, (double)share->ended_ns / 1e9);
    }
    if (end - begin > elapsed * WALL_DRIFT + WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "steps and telemetry span %.3f s, but the whole run took %.3f s", end - begin,
                       elapsed);
    return 0;
}

static struct rp_power_seen power_of(const struct rp_telemetry *is, int64_t from_ns, int64_t to_ns)
{
    int64_t n = 0, last = from_ns, first = from_ns, gap = 0;
    double sum = 0, joules = 0, before = 0;
    for (int64_t i = 0; i < is->n; i++) {
        const struct rp_device_sample *one = &is->sample[i];
        if (one->power_mw == RP_NO_INTEGER || one->ns < from_ns || one->ns > to_ns)
            continue;
        const double now = (double)one->power_mw / 1e3;
        first = n ? first : one->ns;
        joules += n ? (before + now) / 2 * (double)(one->ns - last) / 1e9 : 0;
        gap = one->ns - last > gap ? one->ns - last : gap;
        sum += now;
        before = now;
        last = one->ns;
        n++;
    }
    gap = to_ns - last > gap ? to_ns - last : gap;
    return (struct rp_power_seen){.mean = n ? sum / (double)n : 0,
                                  .integrated = last > first ? joules / ((double)(last - first) / 1e9)
                                                : n          ? sum / (double)n
                                                             : 0,
                                  .gap_s = (double)gap / 1e9,
                                  .window_s = (double)(to_ns - from_ns) / 1e9,
                                  .period_s = RP_TELEMETRY_PERIOD_S * (double)is->every};
}

/* Why such a power is not that of the whole window; "": it may be. */
static const char *doubt_power(char text[120], const struct rp_power_seen *p)
{
    *text = 0;
    if (!(p->mean > 0))
        return text;
    if (p->gap_s > RP_SAMPLES_ENOUGH * p->period_s && p->gap_s > POWER_GAP * p->window_s)
        snprintf(text, 120, "no sample has its power in %.3g of %.3g s: its energy there is the signer's word",
                 p->gap_s, p->window_s);
    else if (fabs(p->integrated - p->mean) > POWER_APART * p->mean)
        snprintf(text, 120, "unevenly spaced device samples, or sudden changes of power");
    return text;
}

/* Of the timed window of a rank. */
static void look_at_rank_power(struct rp_verify_state *s, int rank, const struct rp_telemetry *is)
{
    const struct rp_rank_share *share = &s->run.ranks.share[rank];
    char doubt[120], who[RP_WHO];
    if (share->from_ns < 0)
        return;
    const struct rp_power_seen seen = power_of(is, share->from_ns, share->from_ns + share->span_ns);
    if (rank == s->run.ranks.slowest)
        s->power = seen;
    if (!*s->power_doubt && *doubt_power(doubt, &seen))
        RP_FORMAT(s->power_doubt, "%s%s", rp_run_rank_text(who, &s->run, "", rank, ": "), doubt);
}

/* The samples of a rank, which are kept of the slowest one: the times of the run are its. */
static int read_rank(struct rp_verify_state *s, struct rp_figures *f, int rank, struct rp_err *err)
{
    const char *name = RP_OF_RANK(rank, ".telemetry.jsonl");
    const struct rp_member *m = rp_bundle_find(&s->bundle, name);
    struct rp_telemetry parsed;
    if (m && rp_rank_on_cpu(s->run.facts, rank))
        return rp_fail(err, RP_MISMATCH, "there is telemetry of a device, but the CPU backend trained");
    if (!m)
        return 0;
    if (rp_telemetry_parse(&parsed, name, rp_telemetry_most(s->run.ranks.ranks), rp_buf_text(&m->bytes), m->bytes.size,
                           err) < 0)
        return -1;
    const int failed = parsed.n < 1 ? rp_fail(err, RP_MALFORMED, "the telemetry has no line") < 0
                                    : check_rank_times(s, rank, &parsed, err) < 0;
    if (!failed)
        rp_derive_telemetry(f, rank, &parsed, &s->run.ranks.share[rank]);
    if (!failed)
        look_at_rank_power(s, rank, &parsed);
    if (!failed && rank == s->run.ranks.slowest)
        s->run.telemetry = parsed;
    else
        rp_telemetry_fini(&parsed);
    return failed ? -1 : 0;
}

int rp_verify_read_telemetry(struct rp_verify_state *s, struct rp_figures *f, struct rp_err *err)
{
    char who[RP_WHO];
    for (int i = 0; i < s->run.ranks.ranks; i++)
        if (read_rank(s, f, i, err) < 0)
            return *rp_run_rank_text(who, &s->run, "", i, "") ? rp_wrap(err, "%s", who) : -1;
    return 0;
}

/* ---- of a command ---- */

/* Samples lie within the process that took them, by one clock, and come at most at their rate. */
static int check_device_times(const struct rp_command_process *p, const struct rp_telemetry *is, struct rp_err *err)
{
    if (is->n < 1)
        return rp_fail(err, RP_MALFORMED, "the telemetry has no line");
    const int64_t first = is->sample->ns, last = is->sample[is->n - 1].ns;
    const double span = rp_seconds_between(first, last);
    if (p->start_ns == RP_NO_INTEGER)
        return rp_fail(err, RP_MISMATCH, "there is telemetry of a process that was gone before it reported");
    if (first < p->start_ns || last > p->end_ns)
        return rp_fail(err, RP_MISMATCH, "a device sample is from %.3f s %s the command",
                       first < p->start_ns ? rp_seconds_between(first, p->start_ns)
                                           : rp_seconds_between(p->end_ns, last),
                       first < p->start_ns ? "before" : "after");
    if ((double)((is->n - 1) * is->every) * RP_TELEMETRY_PERIOD_S > span * RP_CLOCK_DRIFT + 2 * RP_TELEMETRY_PERIOD_S)
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " device samples in %.3f s: they are taken every %.1f s",
                       (is->n - 1) * is->every, span, RP_TELEMETRY_PERIOD_S);
    return 0;
}

/* Of the command, from its first sample on: a sampler may start late. */
static void look_at_device_power(struct rp_verify_state *s, int device, const struct rp_telemetry *is,
                          const struct rp_command_process *p)
{
    char doubt[120];
    const int late = rp_seconds_between(p->start_ns, is->sample->ns) < SAMPLER_LATE_S;
    const struct rp_power_seen seen = power_of(is, late ? is->sample->ns : p->start_ns, p->end_ns);
    if (!*s->power_doubt && *doubt_power(doubt, &seen))
        RP_FORMAT(s->power_doubt, "device %d: %s", device, doubt);
}

static int read_device(struct rp_verify_state *s, struct rp_command_figures *f, int device, struct rp_err *err)
{
    const struct rp_command_facts *c = s->run.doc->command;
    const struct rp_command_process *p = &c->process[c->device[device].process];
    const char *name = RP_OF_DEVICE(device);
    const struct rp_member *m = rp_bundle_find(&s->bundle, name);
    const int64_t most = rp_telemetry_most_of_command((int)c->device_n);
    struct rp_telemetry parsed;
    if (!m)
        return 0;
    if (rp_telemetry_parse(&parsed, name, most, rp_buf_text(&m->bytes), m->bytes.size, err) < 0)
        return -1;
    const int failed = check_device_times(p, &parsed, err) < 0;
    if (!failed)
        rp_derive_device(f, device, &parsed, p);
    if (!failed)
        look_at_device_power(s, device, &parsed, p);
    if (!failed && !s->run.telemetry.n)
        s->run.telemetry = parsed;
    else
        rp_telemetry_fini(&parsed);
    return failed ? -1 : 0;
}

int rp_verify_read_devices(struct rp_verify_state *s, struct rp_command_figures *f, struct rp_err *err)
{
    for (int64_t i = 0; i < s->run.doc->command->device_n; i++)
        if (read_device(s, f, (int)i, err) < 0)
            return rp_wrap(err, "device %" PRId64, i);
    return 0;
}
