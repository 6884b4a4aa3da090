/* The names of columns of tables, and what they are for. */
#include "import/csv_columns.h"

#include "base/buf.h"
#include "import/imported.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CALLS 1 /* rank of the step of W&B behind those of the training */

static const struct {
    const char *name;
    enum rp_column_use use;
    int rank, vague; /* vague: scripts also give this name to the time since the start */
} names[] = {
    {"step", RP_COLUMN_STEP, 0, 0},
    {"steps", RP_COLUMN_STEP, 0, 0},
    {"iteration", RP_COLUMN_STEP, 0, 0},
    {"iter", RP_COLUMN_STEP, 0, 0},
    {"global_step", RP_COLUMN_STEP, 0, 0},
    {"train/global_step", RP_COLUMN_STEP, 0, 0},   /* Trainer of transformers, in W&B */
    {"trainer/global_step", RP_COLUMN_STEP, 0, 0}, /* Lightning, in W&B */
    {"batch", RP_COLUMN_STEP, 0, 0},
    {"_step", RP_COLUMN_STEP, CALLS, 0},
    {"time", RP_COLUMN_DURATION, 0, 1},
    {"time_s", RP_COLUMN_DURATION, 0, 1},
    {"step_time", RP_COLUMN_DURATION, 0, 0},
    {"step_time_s", RP_COLUMN_DURATION, 0, 0},
    {"duration", RP_COLUMN_DURATION, 0, 1},
    {"duration_s", RP_COLUMN_DURATION, 0, 1},
    {"seconds", RP_COLUMN_DURATION, 0, 1},
    {"elapsed_per_step", RP_COLUMN_DURATION, 0, 0},
    {"batch_time", RP_COLUMN_DURATION, 0, 0},
    {"time_ms", RP_COLUMN_DURATION_MS, 0, 1},
    {"step_time_ms", RP_COLUMN_DURATION_MS, 0, 0},
    {"duration_ms", RP_COLUMN_DURATION_MS, 0, 1},
    {"latency_ms", RP_COLUMN_DURATION_MS, 0, 0},
    {"ms", RP_COLUMN_DURATION_MS, 0, 1},
    {"timestamp", RP_COLUMN_TIME, 0, 0},
    {"_timestamp", RP_COLUMN_TIME, 0, 0},
    {"_runtime", RP_COLUMN_TIME, 1, 0},
    {"wall_time", RP_COLUMN_TIME, 0, 0},
    {"unix_time", RP_COLUMN_TIME, 0, 0},
    {"elapsed", RP_COLUMN_TIME, 0, 0},
    {"elapsed_s", RP_COLUMN_TIME, 0, 0},
    /* lightning/fabric/utilities/throughput.py and pytorch/callbacks/throughput_monitor.py at 7f0c3436 */
    {"train/time", RP_COLUMN_SECONDS, 0, 0},
    {"train/batches", RP_COLUMN_BATCHES, 0, 0},
    {"train/samples", RP_COLUMN_SAMPLES, 0, 0},
    {"train/device/samples_per_sec", RP_COLUMN_DEVICE_RATE, 0, 0},
    {"train|time", RP_COLUMN_SECONDS, 0, 0},
    {"train|batches", RP_COLUMN_BATCHES, 0, 0},
    {"train|samples", RP_COLUMN_SAMPLES, 0, 0},
    {"train|device|samples_per_sec", RP_COLUMN_DEVICE_RATE, 0, 0},
    {"train|samples_per_sec", RP_COLUMN_RATE, 0, 0},
};

const struct rp_column *rp_columns_find(const struct rp_columns *c, enum rp_column_use use)
{
    for (int i = 0; i < c->n; i++)
        if (c->column[i].use == use)
            return &c->column[i];
    return NULL;
}

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcasecmp(text + n - m, end) == 0;
}

/* "NAME of a run - METRIC" of a chart that W&B exports; the metric, and the run in `run`. */
static const char *metric_of(char run[64], const char *name)
{
    const char *at = NULL;
    for (const char *p = name; (p = strstr(p, " - ")); p += 3)
        at = p;
    snprintf(run, 64, "%.*s", at ? (int)(at - name < 63 ? at - name : 63) : 0, name);
    return at ? at + 3 : name;
}

/* As rp_rate_rank(), also in a group of metrics. */
static int rank_of_rate(const char *metric)
{
    static const char *const groups[] = {"throughput/", "perf/"};
    const char *unit = strrchr(metric, '(');
    if (unit && ends_with(metric, ")")) { /* "Throughput (tokens/s)" */
        char inner[64];
        snprintf(inner, sizeof inner, "%.*s", (int)strlen(unit) - 2, unit + 1);
        return rp_rate_rank(inner);
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncasecmp(metric, groups[i], strlen(groups[i])) == 0)
            return rp_rate_rank(metric + strlen(groups[i]));
    return rp_rate_rank(metric);
}

/* "Step Time (ms)" as step_time_ms; the unit is returned, or "". */
static const char *plain_name(char out[64], const char *metric)
{
    static const struct {
        const char *given, *is;
    } units[] = {{"(s)", "_s"}, {"[s]", "_s"}, {"(sec)", "_s"}, {"(seconds)", "_s"}, {"(ms)", "_ms"}, {"[ms]", "_ms"}};
    const char *unit = "";
    snprintf(out, 64, "%s", metric);
    for (size_t i = 0; i < sizeof units / sizeof *units && !*unit; i++)
        if (ends_with(out, units[i].given)) {
            unit = units[i].is;
            out[strlen(out) - strlen(units[i].given)] = 0;
        }
    for (size_t n = strlen(out); *unit && n && out[n - 1] == ' '; n--)
        out[n - 1] = 0;
    for (char *p = out; (p = strchr(p, ' '));)
        *p = '_';
    strncat(out, unit, 63 - strlen(out));
    return unit;
}

static void set_named_use(struct rp_column *c, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i].name, name) == 0) {
            c->use = names[i].use;
            c->rank = names[i].rank;
            c->vague = names[i].vague;
        }
}

static void set_use(struct rp_column *c, const char *metric)
{
    char base[64];
    const char *unit;
    snprintf(base, sizeof base, "%s", metric);
    if (*c->run && (ends_with(metric, "__MIN") || ends_with(metric, "__MAX"))) {
        base[strlen(base) - 5] = 0;
        if (rank_of_rate(base) >= 0)
            c->use = ends_with(metric, "__MIN") ? RP_COLUMN_LEAST : RP_COLUMN_MOST;
        return;
    }
    if ((c->rank = rank_of_rate(metric)) >= 0)
        c->use = RP_COLUMN_RATE;
    unit = plain_name(base, metric);
    if (*unit && c->use == RP_COLUMN_UNUSED) { /* "Batch Time (ms)" as batch_time, in that unit */
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(base) - strlen(unit)), base);
        set_named_use(c, name);
        if (strcmp(unit, "_ms") == 0)
            c->use = c->use == RP_COLUMN_DURATION ? RP_COLUMN_DURATION_MS : RP_COLUMN_UNUSED;
    }
    set_named_use(c, base);
    for (const struct rp_fact *f = rp_facts; f->key; f++)
        if (strcasecmp(f->key, metric) == 0) {
            c->use = RP_COLUMN_FACT;
            c->fact = f->key;
        }
}

int rp_columns_add(struct rp_columns *c, const char *name, int all)
{
    struct rp_column one = {0};
    snprintf(one.name, sizeof one.name, "%s", name);
    set_use(&one, metric_of(one.run, name));
    if (c->n == RP_COLUMNS_MAX || (!all && one.use == RP_COLUMN_UNUSED))
        return -1;
    c->column[c->n] = one;
    return c->n++;
}

/* Only one column of each use counts, unless they are of facts. */
static void choose_columns(struct rp_columns *c)
{
    for (int i = 1; i < c->n; i++)
        for (int k = 0; k < i; k++) {
            struct rp_column *a = &c->column[k], *b = &c->column[i];
            if (a->use != b->use || a->use == RP_COLUMN_FACT || a->use == RP_COLUMN_UNUSED)
                continue;
            (b->rank < a->rank ? a : b)->use = RP_COLUMN_UNUSED;
        }
}

static int refuse_two_runs(const struct rp_columns *c, const char *where, struct rp_err *err)
{
    const struct rp_column *first = NULL;
    for (int i = 0; i < c->n; i++) {
        const struct rp_column *one = &c->column[i];
        if (!*one->run || one->use == RP_COLUMN_UNUSED || one->use == RP_COLUMN_FACT)
            continue;
        if (first && strcmp(first->run, one->run) != 0)
            return rp_fail(err, RP_MALFORMED, "%s: columns '%s' and '%s' are of two runs: export one of them", where,
                           first->name, one->name);
        first = one;
    }
    return 0;
}

/* Lightning's monitor has all three counters; a lone train/time may be anything. */
static void settle_monitor(struct rp_columns *c)
{
    const int all = rp_columns_find(c, RP_COLUMN_SECONDS) && rp_columns_find(c, RP_COLUMN_BATCHES) &&
                    rp_columns_find(c, RP_COLUMN_SAMPLES);
    for (int i = 0; i < c->n; i++) {
        struct rp_column *one = &c->column[i];
        if (!all && one->use >= RP_COLUMN_SECONDS)
            one->use = RP_COLUMN_UNUSED;
        if (all && (one->use == RP_COLUMN_TIME || one->use == RP_COLUMN_DURATION || one->use == RP_COLUMN_DURATION_MS))
            one->use = RP_COLUMN_UNUSED;
    }
}

int rp_columns_settle(struct rp_columns *c, const char *where, struct rp_err *err)
{
    if (refuse_two_runs(c, where, err) < 0)
        return -1;
    for (int i = 0; i < c->n; i++) /* the step of a chart is that of W&B */
        if (c->column[i].use == RP_COLUMN_STEP && strcmp(c->column[i].name, "Step") == 0 && i + 1 < c->n &&
            *c->column[i + 1].run)
            c->column[i].rank = CALLS;
    choose_columns(c);
    settle_monitor(c);
    const struct rp_column *duration = rp_columns_find(c, RP_COLUMN_DURATION);
    duration = duration ? duration : rp_columns_find(c, RP_COLUMN_DURATION_MS);
    c->vague = duration && duration->vague ? duration->name : NULL;
    return 0;
}

int rp_columns_count_calls(const struct rp_columns *c)
{
    const struct rp_column *step = rp_columns_find(c, RP_COLUMN_STEP);
    return step && step->rank == CALLS;
}
