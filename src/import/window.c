#include "import/window.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 100000
#define BACK 8 /* lines of several processes may be out of order by that many steps; more is another run or epoch */
#define HALF_DAY 43200.0
#define DISAGREE 0.005 /* of the throughput: a larger difference to the log's own figure is noted */

void rp_window_fini(struct rp_log_window *w)
{
    free(w->sample);
    w->sample = NULL;
}

static void add_sample(struct rp_log_window *w, double v)
{
    if (w->samples == w->room && w->room < SAMPLES_MAX) {
        w->room = w->room ? 2 * w->room : 64;
        w->sample = rp_realloc(w->sample, (size_t)w->room * sizeof *w->sample);
    }
    if (w->samples < w->room)
        w->sample[w->samples] = v;
    w->samples++;
}

static int add_time(struct rp_log_window *w, const struct rp_step *s, const struct rp_lines *at, struct rp_err *err)
{
    double t = s->time + w->day;
    if (!(fabs(t) < 1e12))
        return rp_lines_fail(at, err, "%.3g s is not a valid time", t);
    if (w->stamped && w->of_day && t < w->stop - HALF_DAY) {
        w->day += 2 * HALF_DAY;
        t += 2 * HALF_DAY;
    }
    if (w->stamped && t < w->stop)
        return rp_lines_fail(at, err, "time runs backwards, by %.3g s since line %" PRId64, w->stop - t, w->last_line);
    if (!w->stamped++) {
        w->start = t;
    } else {
        int64_t stride = s->step - w->last;
        if (w->stamped == 2)
            w->stride = stride;
        w->spaced =
            stride == w->stride && t > w->stop ? w->spaced + 1 : INT64_MIN / 2; /* one that is not: no samples */
        add_sample(w, t - w->stop);
    }
    w->stop = t;
    return 0;
}

static void add_rate(struct rp_log_window *w, double rate)
{
    w->rates += rate;
    w->inverse_rates += 1 / rate;
    w->rate_count++;
}

/* A step inside the window. */
static int add_step(struct rp_log_window *w, const struct rp_step *s, const struct rp_lines *at, struct rp_err *err)
{
    int has_rate = rp_is_figure(s->rate), has_duration = s->duration > 0 && s->duration < 1e9;
    const int has[] = {0, !isnan(s->time), has_duration, has_rate};
    int begins = !w->by; /* the step of this line is before the first time of the window */
    if (begins)
        w->by = has[RP_BY_TIME] ? RP_BY_TIME : has_duration ? RP_BY_DURATION : has_rate ? RP_BY_RATE : RP_BY_NOTHING;
    if (!has[w->by]) {
        w->lacking++;
        return 0;
    }
    if (w->by == RP_BY_TIME && add_time(w, s, at, err) < 0)
        return -1;
    if (has_rate && !(begins && w->by == RP_BY_TIME))
        add_rate(w, s->rate);
    if (has_duration) {
        w->seconds += s->duration;
        w->timed_gap = w->timed++ && w->timed_gap != w->gap ? -1 : w->gap;
    }
    if (w->by != RP_BY_TIME)
        add_sample(w, w->by == RP_BY_DURATION ? s->duration : s->rate);
    if (begins) {
        w->first = s->step;
        w->first_line = at->number;
    }
    w->last = s->step;
    w->last_line = at->number;
    return 0;
}

int rp_window_step(struct rp_log_window *w, const struct rp_step *s, const struct rp_lines *at, struct rp_err *err)
{
    if (w->closed)
        return 0;
    if (w->to && s->step > w->to) {
        w->beyond = 1;
        return 0;
    }
    if (w->steps_seen && (s->epoch != w->epoch || s->step < w->before - BACK)) {
        w->closed = 1;
        return 0;
    }
    if (w->steps_seen && s->step <= w->before) {
        w->repeated++;
        return 0;
    }
    int is_first = !w->steps_seen++;
    w->gap = is_first ? 1 : s->step - w->before;
    w->before = s->step;
    w->epoch = s->epoch;
    if (s->step < w->from || (is_first && w->skip_first))
        return 0;
    return add_step(w, s, at, err);
}

static void put_samples(const struct rp_log_window *w, struct rp_imported *d, double over /* 0: they are rates */)
{
    RP_JSON *list = json_array();
    for (int64_t i = 0; i < w->samples; i++) {
        double v = over > 0 ? over / w->sample[i] : w->sample[i];
        if (!rp_is_figure(v)) /* absurd as a rate, though the whole is not */
            return;
        json_array_append_new(list, json_real(v));
    }
    json_object_set(d->row, "samples", list);
    json_object_set_new(d->row, "sample_groups", json_pack("[I]", (json_int_t)w->samples));
}

void rp_window_disagree(struct rp_imported *d, double printed, const char *unit, const char *where)
{
    const char *of = d->unit;
    double ratio = printed / d->value, length = (double)rp_imported_get(d, "sequence_length");
    if (strcmp(unit, "tokens/s") == 0 && strcmp(of, "sequences/s") == 0 && length > 0)
        ratio /= length;
    else if (strcmp(unit, of) != 0)
        return;
    if (fabs(ratio - 1) > DISAGREE)
        rp_imported_note(d, "the log itself prints %.6g %s, %s: %+.1f %%", printed, unit, where, 100 * (ratio - 1));
}

/* Keeps the rate that the log itself prints, with a note if it differs. */
static void put_printed(const struct rp_log_window *w, struct rp_imported *d, const char *rate_unit)
{
    char where[60];
    if (!w->rate_count)
        return;
    double mean = w->rates / (double)w->rate_count;
    rp_imported_beside(
        d, "printed",
        json_pack("{s:f, s:s, s:I}", "value", mean, "unit", rate_unit, "count", (json_int_t)w->rate_count));
    snprintf(where, sizeof where, "the mean of %" PRId64 " rate%s", w->rate_count, rp_s(w->rate_count));
    rp_window_disagree(d, mean, rate_unit, where);
}

static void put_window(const struct rp_log_window *w, struct rp_imported *d, int64_t steps, double seconds,
                       const char *how)
{
    char text[160];
    snprintf(text, sizeof text, "step %" PRId64 " to step %" PRId64 " of the log", w->first, w->last);
    if (seconds > 0)
        rp_imported_beside(d, "window", json_pack("{s:I, s:f}", "steps", (json_int_t)steps, "seconds", seconds));
    json_object_set_new(d->row, "timed_window", json_string(text));
    json_object_set_new(d->row, "estimator", json_string(how));
    if (w->to && !w->beyond && w->before + w->gap <= w->to) /* another line was due */
        rp_imported_note(d, "%s ends at step %" PRId64 ", before the end of the window, step %" PRId64,
                      w->closed ? "its first epoch" : "the log", w->before, w->to);
    if (w->repeated)
        rp_imported_note(d, "not counted: %" PRId64 " repeated line%s of steps, of other processes perhaps",
                         w->repeated, rp_s(w->repeated));
    if (w->lacking)
        rp_imported_note(d, "not counted: %" PRId64 " step%s without %s", w->lacking, rp_s(w->lacking),
                      w->by == RP_BY_TIME ? "time" : w->by == RP_BY_DURATION ? "duration" : "rate");
    if (w->samples > SAMPLES_MAX)
        rp_imported_note(d, "%" PRId64 " samples are too many to list", w->samples);
}

static int fail_empty(const struct rp_log_window *w, const struct rp_lines *at, struct rp_err *err)
{
    char range[80];
    const int from_any = w->from == INT64_MIN;
    if (!w->steps_seen)
        return rp_fail(err, RP_MALFORMED, "%s: no line has a step; is this the right format?", at->name);
    if (w->to && from_any)
        snprintf(range, sizeof range, "steps up to %" PRId64, w->to);
    else if (w->to)
        snprintf(range, sizeof range, "steps %" PRId64 " to %" PRId64, w->from, w->to);
    else if (!from_any)
        snprintf(range, sizeof range, "steps from %" PRId64 " on", w->from);
    else
        snprintf(range, sizeof range, "all steps");
    if (!w->by && w->before < w->from)
        return rp_fail(err, RP_MALFORMED,
                       "%s: no step lies in the window (%s): the last before it is step %" PRId64
                       "; choose it with --from and --to",
                       at->name, range, w->before);
    return rp_fail(
        err, RP_MALFORMED,
        "%s: no two lines with a time, a duration or a rate in the window (%s%s); choose it with --from and --to",
        at->name, range, w->skip_first ? ", without the first of the log" : "");
}

int rp_window_finish(struct rp_log_window *w, struct rp_imported *d, const char *unit, const char *rate_unit,
                     const struct rp_lines *at, struct rp_err *err)
{
    rp_imported_infer(d);
    double batch = (double)rp_imported_get(d, "global_batch"), value = NAN, over = 0, seconds = w->stop - w->start;
    const char *used = unit, *how = NULL;
    int64_t steps = w->last - w->first;
    if (!(batch > 0) && w->tokens > 0) {
        batch = w->tokens;
        used = "tokens/s";
    }
    int has_times = w->stamped > 1 && seconds > 0 && steps > 0, has_durations = w->timed > 0 && w->by != RP_BY_RATE;
    if (batch > 0 && has_times) {
        value = batch * (double)steps / seconds;
        over = w->spaced == w->stamped - 1 ? batch * (double)w->stride : -1;
        how = "samples / seconds between the times of two lines";
    } else if (batch > 0 && has_durations) {
        steps = w->timed;
        seconds = w->seconds;
        value = batch * (double)steps / seconds;
        over = w->by == RP_BY_DURATION ? batch : -1;
        how = "samples / sum of the printed durations of the steps";
        if (w->mean && w->timed_gap > 1) {
            steps *= w->timed_gap;
            seconds *= (double)w->timed_gap;
        }
    } else if (w->rate_count) {
        value = (double)w->rate_count / w->inverse_rates;
        over = w->by == RP_BY_RATE ? 0 : -1;
        used = rate_unit;
        seconds = 0;
        how = "harmonic mean of printed rates";
        if (has_times || has_durations)
            rp_imported_note(
                d, "the log has times, but not the number of samples per step: --set global_batch=N makes them count");
    } else if (has_times || has_durations) {
        return rp_fail(err, RP_MALFORMED,
                       "%s: the log does not have the number of samples per step; add it with --set global_batch=N",
                       at->name);
    }
    if (!rp_is_figure(value))
        return fail_empty(w, at, err);
    rp_imported_throughput(d, value, used, w->first_line, w->last_line);
    put_window(w, d, steps, seconds, how);
    if (over >= 0 && w->samples > 1 && w->samples <= SAMPLES_MAX)
        put_samples(w, d, over);
    put_printed(w, d, rate_unit);
    return 0;
}
