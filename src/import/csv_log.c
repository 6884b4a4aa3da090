/* Tables with a line of column names, as training scripts write them: one row per step. Columns are found by name, whatever their order:
 *
 *     step,time,loss,throughput          seconds of the step
 *     Wall time,Step,Value               the time at its end, as TensorBoard exports it
 *
 * Commas, semicolons or tabs; quoted fields; a column named like a fact ("batch_per_device") gives it for all rows. */
#include "import/import.h"
#include "import/scan.h"
#include "import/window.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define COLUMNS_MAX 256

enum use { UNUSED, STEP, DURATION, DURATION_MS, TIME, RATE, FACT_OF };

static const struct {
    const char *name;
    enum use use;
} columns[] = {
    {"step", STEP}, {"steps", STEP}, {"iteration", STEP}, {"iter", STEP}, {"global_step", STEP}, {"_step", STEP}, {"batch", STEP},
    {"time", DURATION}, {"time_s", DURATION}, {"step_time", DURATION}, {"step_time_s", DURATION}, {"duration", DURATION},
    {"duration_s", DURATION}, {"seconds", DURATION}, {"elapsed_per_step", DURATION}, {"batch_time", DURATION},
    {"time_ms", DURATION_MS}, {"step_time_ms", DURATION_MS}, {"duration_ms", DURATION_MS}, {"latency_ms", DURATION_MS}, {"ms", DURATION_MS},
    {"timestamp", TIME}, {"_timestamp", TIME}, {"wall_time", TIME}, {"wall time", TIME}, {"unix_time", TIME}, {"elapsed", TIME},
    {"elapsed_s", TIME},
};

/* Names of durations that scripts also give to the time since the start. */
static const char *const vague[] = {"time", "time_s", "time_ms", "duration", "duration_s", "duration_ms", "seconds", "ms"};

struct csv_log {
    char separator, rate_name[40];
    int n;
    int64_t rows;
    const char *time_name;      /* of a column that may have the time of a step, or since the start; NULL: none */
    double first, last, rises[2]; /* of its values; the least and most from row to row */
    int64_t times, falls;
    struct {
        enum use use;
        const char *fact;
    } column[COLUMNS_MAX];
};

static void use_column(struct csv_log *s, int i, const char *name)
{
    s->column[i].use = rp_rate_rank(name) >= 0 ? RATE : UNUSED;
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
        if (strcasecmp(columns[c].name, name) == 0)
            s->column[i].use = columns[c].use;
    for (int before = 0; before < i && s->column[i].use; before++)
        if (s->column[before].use == s->column[i].use) /* the first of its kind counts */
            s->column[i].use = UNUSED;
    for (const struct rp_fact *f = rp_facts; f->key; f++)
        if (strcasecmp(f->key, name) == 0) {
            s->column[i].use = FACT_OF;
            s->column[i].fact = f->key;
        }
    for (size_t c = 0; c < sizeof vague / sizeof *vague && (s->column[i].use == DURATION || s->column[i].use == DURATION_MS); c++)
        if (strcasecmp(vague[c], name) == 0)
            s->time_name = vague[c];
    if (s->column[i].use == RATE)
        snprintf(s->rate_name, sizeof s->rate_name, "%.39s", name);
}

static int has_column(const struct csv_log *s, enum use use)
{
    for (int i = 0; i < s->n; i++)
        if (s->column[i].use == use)
            return 1;
    return 0;
}

static int read_header(struct rp_import_source *src, struct csv_log *s, char *line, struct rp_err *err)
{
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3;
    s->separator = strchr(line, '\t') ? '\t' : !strchr(line, ',') && strchr(line, ';') ? ';' : ',';
    for (char *p = line; p;) {
        const char *name = rp_scan_field(&p, s->separator);
        if (!name)
            return rp_lines_fail(&src->lines, err, "a quote is not closed before the end of the line, or text follows it");
        if (s->n == COLUMNS_MAX)
            return rp_lines_fail(&src->lines, err, "more than %d columns", COLUMNS_MAX);
        use_column(s, s->n++, name);
    }
    if (has_column(s, DURATION) || has_column(s, DURATION_MS) || has_column(s, TIME) || has_column(s, RATE))
        return 0;
    return rp_lines_fail(&src->lines, err,
                         "no column has a time or a rate, such as time, step_time_ms, timestamp or throughput; the first line has to name "
                         "the columns");
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

/* One value of the step; an empty one is ignored. */
static int take_field(struct rp_import_source *src, struct csv_log *s, int i, const char *text, struct rp_step *step, struct rp_err *err)
{
    double v = NAN;
    int64_t count;
    enum use use = s->column[i].use;
    if (use == UNUSED || !*text)
        return 0;
    if (use == FACT_OF) {
        rp_imported_fact(&src->draft, s->column[i].fact, text, src->lines.number);
        return 0;
    }
    const char *end = rp_scan_real(text, &v);
    if (use == TIME && (!end || *end) && rp_scan_stamp(text, &v, &src->window.of_day) == 0)
        end = "";
    if (strcasecmp(text, "nan") == 0)
        return 0;
    if (!end || *end)
        return rp_lines_fail(&src->lines, err, "column %d is not a number", i + 1);
    if (use == STEP) {
        end = rp_scan_count(text, &count);
        if (!end || (*end && strspn(end, ".0") != strlen(end)))
            return rp_lines_fail(&src->lines, err, "column %d, the step, is not a whole number from 0", i + 1);
        step->step = count;
        return 0;
    }
    if (use != TIME && v < 0)
        return rp_lines_fail(&src->lines, err, "column %d is negative", i + 1);
    if (use == DURATION || use == DURATION_MS)
        watch_time(s, v);
    *(use == RATE ? &step->rate : use == TIME ? &step->time : &step->duration) = use == DURATION_MS ? v / 1000 : v;
    return 0;
}

static int csv_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct csv_log *s = state;
    if (!size || *line == '#')
        return 0;
    if (!s->n)
        return read_header(src, s, line, err);
    struct rp_step step = {.epoch = -1, .step = s->rows, .time = NAN, .duration = NAN, .rate = NAN};
    int i = 0;
    for (char *p = line; p; i++) {
        const char *text = rp_scan_field(&p, s->separator);
        if (!text)
            return rp_lines_fail(&src->lines, err, "a quote is not closed before the end of the line, or text follows it");
        if (i >= s->n)
            return rp_lines_fail(&src->lines, err, "more fields than the %d columns that have names", s->n);
        if (take_field(src, s, i, text, &step, err) < 0)
            return -1;
    }
    if (i < s->n)
        return rp_lines_fail(&src->lines, err, "%d fields, but %d columns have names", i, s->n);
    s->rows++;
    return rp_window_step(&src->window, &step, &src->lines, err);
}

static int csv_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct csv_log *s = state;
    struct rp_imported *d = &src->draft;
    if (!s->n)
        return rp_fail(err, RP_MALFORMED, "%s: the file has no line of column names", src->lines.name);
    if (s->time_name && seems_cumulative(s))
        return rp_fail(err, RP_MALFORMED,
                       "%s: column '%s' rises with every row, from %.6g to %.6g: is it the time of a step, or since the start? Call it "
                       "step_time or elapsed",
                       src->lines.name, s->time_name, s->first, s->last);
    const char *unit, *rate_unit;
    rp_imported_units(d, src->opts->unit, rp_unit_of(s->rate_name), &unit, &rate_unit);
    if (!json_object_get(d->row, "label"))
        rp_imported_text(d, "label", src->name, RP_DRAFT_NAMED);
    return rp_window_finish(&src->window, d, unit, rate_unit, &src->lines, err) < 0 ? -1 : rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_csv = {
    .name = "csv",
    .state = sizeof(struct csv_log),
    .line = csv_line,
    .end = csv_end,
};
