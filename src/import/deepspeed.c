/* DeepSpeed, every steps_per_print steps, two lines:
 *
 *     [2023-11-07 02:14:06,394] [INFO] [logging.py:96:log_dist] [Rank 0] step=460, skipped=4, lr=[2.3e-07],
 *         mom=[(0.9, 0.95)]
 *     [2023-11-07 02:14:06,396] [INFO] [timer.py:260:stop] epoch=0/micro_step=1840/global_step=460,
 *         RunningAvgSamplesPerSec=25.7, CurrSamplesPerSec=25.7, MemAllocated=4.32GB, MaxMemAllocated=38.49GB
 *
 * Steps are those of the first line, which are the optimizer's; "0/40" of older timers counts calls. The rates are of
 * the engine alone, without what lies between two steps, and the running one is a mean since step 2: only the current
 * rate is used, and only if the batch is unknown. The engine prints the batch in its configuration. */
#include "base/text.h"
#include "import/import.h"
#include "import/scan.h"
#include "import/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STAMP 23 /* characters of "2023-11-07 02:14:06,394" */

static const struct {
    const char *key, *fact;
} settings[] = {
    {"train_batch_size", "global_batch"},
    {"train_micro_batch_size_per_gpu", "batch_per_device"},
    {"gradient_accumulation_steps", "accumulation"},
    {"world_size", "data_parallel"},
};
enum { ALL, MICRO, ACCUMULATION, DEGREE, SETTINGS }; /* in this order */

struct deepspeed {
    struct rp_step step; /* seen, and waiting for the line of its rate */
    int64_t step_line;   /* 0: none */
    double latest;       /* time of the last step */
    int64_t second;      /* line where another training begins; 0: none */
    int64_t skipped, micro_steps, micro_line;
    int64_t setting[SETTINGS], setting_line[SETTINGS]; /* line 0: not printed */
};

/* The time of the line that `text` ends: "[2023-11-07 02:14:06,394] [INFO] [logging.py:96:log_dist] " is right before
 * it; NaN: something else is, of a line that was written into this one perhaps. */
static double time_before(const char *line, const char *text)
{
    static const char level[] = "] [INFO] [";
    double t;
    int of_day;
    const char *place = text - 2;
    while (place > line && *place != '[')
        place--;
    const char *mark = place + 2 - sizeof level, *stamp = mark - STAMP;
    if (text < line + 2 || strncmp(text - 2, "] ", 2) != 0 || stamp <= line ||
        strncmp(mark, level, sizeof level - 1) != 0 || stamp[-1] != '[' ||
        strcspn(place + 1, "[] ") != (size_t)(text - 2 - place - 1) || rp_scan_stamp(stamp, &t, &of_day) < 0 || of_day)
        return NAN;
    return t;
}

static int flush_step(struct rp_import_source *src, struct deepspeed *s, struct rp_err *err)
{
    struct rp_lines at = {.name = src->lines.name, .number = s->step_line};
    if (!s->step_line)
        return 0;
    s->step_line = 0;
    return rp_window_step(&src->window, &s->step, &at, err);
}

/* An engine is made at that time: after a step it is of another training. */
static void take_begin(struct rp_import_source *src, struct deepspeed *s, double time)
{
    if (!src->window.steps_seen || src->window.closed || !(time > s->latest))
        return;
    src->window.closed = 1;
    s->second = src->lines.number;
}

static int take_step(struct rp_import_source *src, struct deepspeed *s, const char *line, const char *text,
                     struct rp_err *err)
{
    int64_t step, skipped;
    const char *end = rp_scan_count(text + strlen("[Rank 0] step="), &step);
    double t = time_before(line, text);
    if (!end || strncmp(end, ", skipped=", 10) != 0 || !(end = rp_scan_count(end + 10, &skipped)) || *end != ',' ||
        isnan(t))
        return 0;
    if (flush_step(src, s, err) < 0)
        return -1;
    if (skipped > step)
        return rp_lines_fail(&src->lines, err, "%" PRId64 " steps of %" PRId64 " are skipped", skipped, step);
    if (step == 0) { /* when the engine is made */
        take_begin(src, s, t);
        return 0;
    }
    if (!src->window.closed) {
        s->latest = t;
        s->skipped = skipped;
    }
    s->step = (struct rp_step){.epoch = -1, .step = step, .time = t, .duration = NAN, .rate = NAN};
    s->step_line = src->lines.number;
    return 0;
}

static int take_rate(struct rp_import_source *src, struct deepspeed *s, const char *mark, struct rp_err *err)
{
    int64_t step, micro;
    double rate;
    const char *at = rp_scan_after(mark, "/global_step="), *small = rp_scan_after(mark, "/micro_step="),
               *current = rp_scan_after(mark, "CurrSamplesPerSec="),
               *end = current ? rp_scan_real(current, &rate) : NULL;
    if (!at || !rp_scan_count(at, &step)) /* "0/40" of an older version */
        step = s->step.step;
    else if (small && rp_scan_count(small, &micro) && step > 0 && !src->window.closed) {
        s->micro_steps = micro % step == 0 ? micro / step : 0;
        s->micro_line = src->lines.number;
    }
    if (s->step_line && s->step.step == step && end && *end == ',')
        s->step.rate = rate;
    return flush_step(src, s, err);
}

/* "train_batch_size ............. 32" */
static void take_setting(struct deepspeed *s, const char *text, int64_t number)
{
    int64_t v;
    text += strspn(text, " ");
    for (int i = 0; i < SETTINGS; i++) {
        size_t n = strlen(settings[i].key);
        if (strncmp(text, settings[i].key, n) != 0 || text[n] != ' ' || s->setting_line[i])
            continue;
        const char *p = text + n + strspn(text + n, " ."), *end = rp_scan_count(p, &v);
        if (end && !end[strspn(end, " ")] && v > 0 && v < 100000000) {
            s->setting[i] = v;
            s->setting_line[i] = number;
        }
    }
}

static int deepspeed_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct deepspeed *s = state;
    (void)size;
    const char *step = strstr(line, "[Rank 0] step="), *stop = strstr(line, ":stop] "),
               *config = rp_scan_after(line, ":print] "), *begin = strstr(line, "DeepSpeedEngine configuration:");
    if (step)
        return take_step(src, s, line, step, err);
    if (stop && strstr(stop, "SamplesPerSec="))
        return take_rate(src, s, stop, err);
    if (begin && flush_step(src, s, err) < 0)
        return -1;
    if (begin)
        take_begin(src, s, time_before(line, begin));
    if (config && !src->window.closed && !isnan(time_before(line, config)))
        take_setting(s, config, src->lines.number);
    return 0;
}

/* DeepSpeed prints a batch and its parts, and does not start where they disagree: then, or where one is missing, a line
 * is damaged. */
static int put_batch(struct rp_import_source *src, const struct deepspeed *s, struct rp_err *err)
{
    struct rp_imported *d = &src->draft;
    const int64_t *v = s->setting, *line = s->setting_line;
    int given = rp_imported_get(d, "global_batch") > 0, parts = line[MICRO] && line[ACCUMULATION] && line[DEGREE];
    double made = (double)v[MICRO] * (double)v[ACCUMULATION] * (double)v[DEGREE];
    if (line[ALL] && parts && made != (double)v[ALL] && !given)
        return rp_fail(err, RP_MALFORMED,
                       "%s:%" PRId64 ": train_batch_size is %" PRId64
                       ", but micro-batch x accumulation x world_size are %.6g: choose with --set global_batch=N",
                       src->lines.name, line[ALL], v[ALL], made);
    for (int i = 0; i < SETTINGS && line[ALL] && parts; i++)
        rp_imported_count(d, settings[i].fact, v[i], line[i]);
    if (line[ALL] && !parts && !given)
        rp_imported_note(d, "train_batch_size %" PRId64 " in line %" PRId64 " does not count without its parts", v[ALL],
                         line[ALL]);
    return 0;
}

static int deepspeed_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct deepspeed *s = state;
    struct rp_imported *d = &src->draft;
    const char *unit, *rate_unit;
    if (flush_step(src, s, err) < 0 || put_batch(src, s, err) < 0)
        return -1;
    rp_imported_units(d, src->opts->unit, "samples/s", &unit, &rate_unit);
    if (rp_window_finish(&src->window, d, unit, rate_unit, &src->lines, err) < 0)
        return -1;
    int64_t accumulation = rp_imported_get(d, "accumulation");
    if (s->micro_steps && accumulation > 0 && accumulation != s->micro_steps)
        rp_imported_note(d, "accumulation is %" PRId64 ", but line %" PRId64 " has %" PRId64 " micro-steps a step",
                         accumulation, s->micro_line, s->micro_steps);
    if (s->skipped)
        rp_imported_note(d, "counted: %" PRId64 " step%s that overflowed and changed nothing", s->skipped,
                         rp_s(s->skipped));
    if (s->second)
        rp_imported_note(d, "another training begins in line %" PRId64 " and does not count", s->second);
    rp_imported_default(d, "framework", "DeepSpeed", src->window.first_line);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    return rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_deepspeed = {
    .name = "deepspeed",
    .state = sizeof(struct deepspeed),
    .line = deepspeed_line,
    .end = deepspeed_end,
};
