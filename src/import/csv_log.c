/* Tables with names of columns, as training scripts write them: one row per step. Columns are found by name, whatever
 * their order (csv_columns.h):
 *
 *     step,time,loss,throughput                       seconds of the step
 *     Wall time,Step,Value                            the time at its end, as TensorBoard exports it
 *     epoch,step,train/batches,train/samples,...      metrics.csv of Lightning's CSVLogger, with its ThroughputMonitor
 *     "Step","RUN - perf/tokens_per_sec","..."        a chart that Weights & Biases exports
 *     {"_step": 3, "_timestamp": 1.6e9, ...}          its history, one object a line, or wandb-summary.json
 *
 * Commas, semicolons or tabs; quoted fields; a column named like a fact ("batch_per_device") gives it for all rows.
 * Rows without a time, a duration and a rate, such as those of evaluations, do not count. */
#include "base/json.h"
#include "base/text.h"
#include "import/csv_columns.h"
#include "import/import.h"
#include "import/scan.h"
#include "import/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Counters of Lightning's monitor in a row: so far, of one device. */
struct counters {
    double step, seconds, batches, samples;
};

struct csv_log {
    char separator;
    int json, has_summary; /* an object a line; with the key _wandb, which only a summary has */
    struct rp_columns columns;
    int64_t rows, without, used; /* without: a time, a duration and a rate */
    int64_t averaged;            /* values that an export made of several */
    double last_rate;
    int64_t last_line;
    double first, last, rises[2]; /* of durations; the least and most from row to row */
    int64_t times, falls;
    struct counters from, to; /* of the first row that has them, and the last */
    int64_t counted, world;   /* rows that have them; devices by their rates, 0: unknown, -1: they vary */
    int uneven;               /* samples are not in proportion to steps */
};

/* The values of a row. */
struct table_row {
    struct rp_step step;
    struct counters now;
    double device_rate, least, most;
};

#define NO_SPEED                                                                                                       \
    "no column has a time or a rate, such as time, step_time_ms, timestamp or throughput; the first line has to name " \
    "the columns"
#define NO_SPEED_OF_LIGHTNING                                                                                          \
    "no column has a time or a rate; Lightning writes them with the callback ThroughputMonitor(batch_size_fn=...)"

static int has_speed(const struct rp_columns *c)
{
    return rp_columns_find(c, RP_COLUMN_DURATION) || rp_columns_find(c, RP_COLUMN_DURATION_MS) ||
           rp_columns_find(c, RP_COLUMN_TIME) || rp_columns_find(c, RP_COLUMN_RATE) ||
           rp_columns_find(c, RP_COLUMN_SECONDS);
}

static int read_header(struct rp_import_source *src, struct csv_log *s, char *line, struct rp_err *err)
{
    int has_epoch = 0;
    s->separator = strchr(line, '\t') ? '\t' : !strchr(line, ',') && strchr(line, ';') ? ';' : ',';
    for (char *p = line; p;) {
        const char *name = rp_scan_field(&p, s->separator);
        if (!name)
            return rp_lines_fail(&src->lines, err,
                                 "a quote is not closed before the end of the line, or text follows it");
        if (rp_columns_add(&s->columns, name, 1) < 0)
            return rp_lines_fail(&src->lines, err, "more than %d columns", RP_COLUMNS_MAX);
        has_epoch |= strcmp(name, "epoch") == 0;
    }
    if (rp_columns_settle(&s->columns, src->lines.name, err) < 0)
        return -1;
    if (has_speed(&s->columns))
        return 0;
    return rp_lines_fail(&src->lines, err,
                         has_epoch && rp_columns_find(&s->columns, RP_COLUMN_STEP) ? NO_SPEED_OF_LIGHTNING : NO_SPEED);
}

static void watch_time(struct csv_log *s, double v)
{
    const double rise = v - s->last;
    if (s->times++ == 0) {
        s->first = s->last = v;
        return;
    }
    s->falls += !(rise > 0);
    s->rises[0] = s->times == 2 || rise < s->rises[0] ? rise : s->rises[0];
    s->rises[1] = s->times == 2 || rise > s->rises[1] ? rise : s->rises[1];
    s->last = v;
}

/* It rises with every row, by more than half of where it began or evenly: steps seldom take longer like that. */
static int seems_cumulative(const struct csv_log *s)
{
    return s->times > 2 && !s->falls && (s->last - s->first > 0.5 * s->first || s->rises[1] <= 1.2 * s->rises[0]);
}

/* Where the value of a column goes; NULL: it is read in another way. */
static double *place_of(struct table_row *r, enum rp_column_use use)
{
    switch (use) {
    case RP_COLUMN_DURATION:
    case RP_COLUMN_DURATION_MS:
        return &r->step.duration;
    case RP_COLUMN_TIME:
        return &r->step.time;
    case RP_COLUMN_RATE:
        return &r->step.rate;
    case RP_COLUMN_LEAST:
        return &r->least;
    case RP_COLUMN_MOST:
        return &r->most;
    case RP_COLUMN_SECONDS:
        return &r->now.seconds;
    case RP_COLUMN_BATCHES:
        return &r->now.batches;
    case RP_COLUMN_SAMPLES:
        return &r->now.samples;
    case RP_COLUMN_DEVICE_RATE:
        return &r->device_rate;
    default:
        return NULL;
    }
}

/* One value of the step; an empty one is ignored. */
static int take_field(struct rp_import_source *src, struct csv_log *s, int i, const char *text, struct table_row *r,
                      struct rp_err *err)
{
    double v = NAN;
    int64_t count;
    const struct rp_column *column = &s->columns.column[i];
    const enum rp_column_use use = column->use;
    if (use == RP_COLUMN_UNUSED || !*text)
        return 0;
    if (use == RP_COLUMN_FACT) {
        rp_imported_fact(&src->draft, column->fact, text, src->lines.number);
        return 0;
    }
    const char *end = rp_scan_real(text, &v);
    if (use == RP_COLUMN_TIME && (!end || *end) && rp_scan_stamp(text, &v, &src->window.of_day) == 0)
        end = "";
    if (strcasecmp(text, "nan") == 0)
        return 0;
    if (!end || *end)
        return rp_lines_fail(&src->lines, err, "column %d, '%s', is not a number", i + 1, column->name);
    if (use == RP_COLUMN_STEP) {
        end = rp_scan_count(text, &count);
        if (!end || (*end && strspn(end, ".0") != strlen(end)))
            return rp_lines_fail(&src->lines, err, "column %d, the step, is not a whole number from 0", i + 1);
        r->step.step = count;
        return 0;
    }
    if (use != RP_COLUMN_TIME && v < 0)
        return rp_lines_fail(&src->lines, err, "column %d, '%s', is negative", i + 1, column->name);
    if (use == RP_COLUMN_DURATION || use == RP_COLUMN_DURATION_MS)
        watch_time(s, v);
    *place_of(r, use) = use == RP_COLUMN_DURATION_MS ? v / 1000 : v;
    return 0;
}

/* ---- Lightning's monitor ---- */

/* Its counters rise, and samples with the steps; rates of all devices and of one tell how many there are. */
static int watch_counters(struct rp_import_source *src, struct csv_log *s, struct table_row *r, struct rp_err *err)
{
    const struct counters *now = &r->now, *to = &s->to, *from = &s->from;
    const int64_t world = r->step.rate > 0 && r->device_rate > 0 ? llround(r->step.rate / r->device_rate) : 1;
    if (r->device_rate > 0) {
        const int one = s->world == 0 || s->world == world;
        const int fits = fabs((double)world * r->device_rate - r->step.rate) <= 1e-6 * r->step.rate;
        s->world = one && (!(r->step.rate > 0) || fits) ? world : -1;
    }
    if (isnan(now->seconds) || isnan(now->samples) || isnan(now->batches))
        return 0;
    r->step.time = now->seconds;
    r->now.step = (double)r->step.step;
    if (!s->counted++) {
        s->from = s->to = r->now;
        return 0;
    }
    if (now->samples < to->samples || now->batches < to->batches || now->seconds < to->seconds)
        return rp_lines_fail(&src->lines, err,
                             "train/samples, train/batches or train/time falls: a second run begins there; give each "
                             "run as a file");
    s->uneven |= s->counted > 2 && (now->samples - from->samples) * (to->step - from->step) !=
                                       (to->samples - from->samples) * (now->step - from->step);
    s->to = r->now;
    return 0;
}

/* Batch, accumulation and devices by the counters. */
static int put_counters(struct rp_import_source *src, struct csv_log *s, struct rp_err *err)
{
    struct rp_imported *d = &src->draft;
    const double steps = s->to.step - s->from.step, batches = s->to.batches - s->from.batches;
    const double samples = s->to.samples - s->from.samples, seconds = s->to.seconds - s->from.seconds;
    if (s->counted < 2 || !(steps > 0 && batches > 0 && seconds > 0))
        return 0;
    if (s->uneven || fmod(batches, steps) != 0 || fmod(samples, batches) != 0)
        return rp_fail(err, RP_MALFORMED,
                       "%s: %.6g samples of a device in %.6g batches and %.6g steps are no whole batch per step: by "
                       "them it is %.6g samples/s and device, by the batch of its first rows another rate",
                       src->lines.name, samples, batches, steps, samples / seconds);
    if (s->world < 0)
        return rp_fail(err, RP_MALFORMED,
                       "%s: train/samples_per_sec is not a fixed multiple of train/device/samples_per_sec: the number "
                       "of devices is unknown",
                       src->lines.name);
    rp_imported_count(d, "batch_per_device", (int64_t)(samples / batches), s->last_line);
    rp_imported_count(d, "accumulation", (int64_t)(batches / steps), s->last_line);
    if (s->world > 0)
        rp_imported_count(d, "devices", s->world, s->last_line);
    return 0;
}

/* ---- rows ---- */

static int take_row(struct rp_import_source *src, struct csv_log *s, struct table_row *r, struct rp_err *err)
{
    s->rows++;
    if (rp_columns_find(&s->columns, RP_COLUMN_SECONDS) && watch_counters(src, s, r, err) < 0)
        return -1;
    if (isnan(r->step.time) && isnan(r->step.duration) && isnan(r->step.rate)) {
        s->without++;
        return 0;
    }
    s->used++;
    s->last_line = src->lines.number;
    s->last_rate = isnan(r->step.rate) ? s->last_rate : r->step.rate;
    s->averaged += r->least < r->most;
    return rp_window_step(&src->window, &r->step, &src->lines, err);
}

static struct table_row new_row(const struct csv_log *s)
{
    return (struct table_row){.step = {.epoch = -1, .step = s->rows, .time = NAN, .duration = NAN, .rate = NAN},
                        .now = {NAN, NAN, NAN, NAN},
                        .device_rate = NAN,
                        .least = NAN,
                        .most = NAN};
}

/* The column of a key of an object, added when it is first seen; -1: it is for nothing. A column that would count
 * instead of another, some of whose values count already, is refused. */
static int column_of(struct rp_import_source *src, struct csv_log *s, const char *key, int *at, struct rp_err *err)
{
    char name[sizeof s->columns.column->name];
    snprintf(name, sizeof name, "%s", key);
    for (*at = 0; *at < s->columns.n; ++*at)
        if (strcmp(s->columns.column[*at].name, name) == 0)
            return 0;
    struct rp_columns before = s->columns;
    *at = rp_columns_add(&s->columns, key, 0);
    if (*at < 0)
        return 0;
    const enum rp_column_use use = s->columns.column[*at].use;
    if (rp_columns_settle(&s->columns, src->lines.name, err) < 0)
        return -1;
    const struct rp_column *was = rp_columns_find(&before, use), *is = rp_columns_find(&s->columns, use);
    if (s->used && was && is && strcmp(was->name, is->name) != 0)
        return rp_lines_fail(&src->lines, err, "'%s' begins here, but the lines before are read by '%s'", is->name,
                             was->name);
    return 0;
}

static int take_object(struct rp_import_source *src, struct csv_log *s, const char *line, size_t size,
                       struct rp_err *err)
{
    const char *key;
    json_t *v;
    char number[40];
    RP_JSON *j = json_loadb(line, size, 0, NULL);
    if (!json_is_object(j))
        return rp_lines_fail(&src->lines, err, "not a JSON object: each line of a history has one");
    s->has_summary |= json_object_get(j, "_wandb") != NULL;
    json_object_foreach(j, key, v) { /* columns first: one of them may count instead of another */
        int at;
        if (column_of(src, s, key, &at, err) < 0)
            return -1;
    }
    struct table_row r = new_row(s);
    json_object_foreach(j, key, v) {
        int at;
        if (column_of(src, s, key, &at, err) < 0)
            return -1;
        if (json_is_number(v))
            snprintf(number, sizeof number, "%.17g", json_number_value(v));
        const char *text = json_is_number(v) ? number : json_is_string(v) ? json_string_value(v) : "";
        if (at >= 0 && take_field(src, s, at, text, &r, err) < 0)
            return -1;
    }
    return take_row(src, s, &r, err);
}

static int csv_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct csv_log *s = state;
    if (src->lines.number == 1 && size >= 3 && strncmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        size -= 3;
    }
    if (!size || *line == '#')
        return 0;
    s->json |= !s->columns.n && !s->rows && *line == '{';
    if (s->json)
        return take_object(src, s, line, size, err);
    if (!s->columns.n)
        return read_header(src, s, line, err);
    struct table_row r = new_row(s);
    int i = 0;
    for (char *p = line; p; i++) {
        const char *text = rp_scan_field(&p, s->separator);
        if (!text)
            return rp_lines_fail(&src->lines, err,
                                 "a quote is not closed before the end of the line, or text follows it");
        if (i >= s->columns.n)
            return rp_lines_fail(&src->lines, err, "more fields than the %d columns that have names", s->columns.n);
        if (take_field(src, s, i, text, &r, err) < 0)
            return -1;
    }
    if (i < s->columns.n)
        return rp_lines_fail(&src->lines, err, "%d fields, but %d columns have names", i, s->columns.n);
    return take_row(src, s, &r, err);
}

/* ---- the figure ---- */

/* wandb-summary.json: the last value of every metric. */
static int put_summary(struct rp_import_source *src, struct csv_log *s, const char *rate_unit, struct rp_err *err)
{
    struct rp_imported *d = &src->draft;
    if (!rp_is_figure(s->last_rate))
        return rp_fail(err, RP_MALFORMED,
                       "%s: this summary of W&B has no rate, and its _runtime is not that of its steps: export the "
                       "history of the run",
                       src->lines.name);
    rp_imported_throughput(d, s->last_rate, rate_unit, s->last_line, s->last_line);
    json_object_set_new(d->row, "estimator", json_string("the rate of the last step, as its summary has it"));
    rp_imported_note(d, "one rate, of the last step: the history of the run has all");
    rp_imported_infer(d);
    return rp_import_add(src, d, err);
}

/* A step of W&B is a call of wandb.log, and a step of the training may make several. */
static int check_calls(const struct rp_import_source *src, const struct csv_log *s, struct rp_err *err)
{
    const struct rp_imported *d = &src->draft;
    if (!rp_columns_count_calls(&s->columns) || src->window.by != RP_BY_TIME || rp_imported_get(d, "global_batch") < 0)
        return 0;
    return rp_fail(err, RP_MALFORMED,
                   "%s: '%s' counts calls of wandb.log: %.6g %s if each is a step of the training, and less if a step "
                   "makes several; name the column 'step' if each is, or log the step of the training (global_step)",
                   src->lines.name, rp_columns_find(&s->columns, RP_COLUMN_STEP)->name, d->value, d->unit);
}

static void add_notes(const struct csv_log *s, struct rp_imported *d)
{
    if (s->without)
        rp_imported_note(d, "not counted: %" PRId64 " row%s without time, duration and rate", s->without,
                         rp_s(s->without));
    if (s->averaged)
        rp_imported_note(d, "averaged by the export over several: %" PRId64 " value%s", s->averaged, rp_s(s->averaged));
}

static int csv_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct csv_log *s = state;
    struct rp_imported *d = &src->draft;
    const char *unit, *rate_unit;
    const struct rp_column *rate = rp_columns_find(&s->columns, RP_COLUMN_RATE);
    if (!s->columns.n && !s->json)
        return rp_fail(err, RP_MALFORMED, "%s: the file has no line of column names", src->lines.name);
    if (s->columns.vague && seems_cumulative(s))
        return rp_fail(err, RP_MALFORMED,
                       "%s: column '%s' rises with every row, from %.6g to %.6g: is it the time of a step, or since "
                       "the start? Call it step_time or elapsed",
                       src->lines.name, s->columns.vague, s->first, s->last);
    if (put_counters(src, s, err) < 0)
        return -1;
    rp_imported_units(d, src->opts->unit, rate ? rp_unit_of(rate->name) : NULL, &unit, &rate_unit);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    if (s->json && s->rows == 1 && s->has_summary)
        return put_summary(src, s, rate_unit, err);
    if (s->json && !has_speed(&s->columns))
        return rp_fail(err, RP_MALFORMED, "%s: no object has a time or a rate, such as _timestamp or throughput",
                       src->lines.name);
    if (rp_window_finish(&src->window, d, unit, rate_unit, &src->lines, err) < 0 || check_calls(src, s, err) < 0)
        return -1;
    add_notes(s, d);
    return rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_csv = {
    .name = "csv",
    .state = sizeof(struct csv_log),
    .line = csv_line,
    .end = csv_end,
};
