/* NVIDIA DLLogger: `DLLL {"timestamp": "1600180153.47", "elapsedtime": "1.2", "datetime": "...", "type": "LOG", "step":
 * [0, 20], "data": {"train.total_ips": 10007.3}}`. A step is a number, [epoch, step], [] for the summary, or
 * "PARAMETER" for settings. Which metric is the rate differs from model to model: rp_rate_rank(). What "batch_size"
 * counts differs too, so it is not used. */
#include "base/text.h"
#include "import/import.h"
#include "import/scan.h"
#include "import/tagged.h"
#include "import/window.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *key, *fact;
} parameters[] = {
    {"max_seq_length", "sequence_length"},
    {"gradient_accumulation_steps", "accumulation"},
    {"world_size", "devices"},
    {"num_gpus", "devices"},
    {"global_batch_size", "global_batch"},
    {"model", "model"},
    {"arch", "model"},
    {"optimizer", "optimizer"},
    {"precision", "precision"},
};

struct dllogger {
    struct rp_tagged tagged;
    char rate[80];         /* the first metric that is a rate, the most certain one of its line; "": none yet */
    const char *rate_unit;
    double summary;               /* of that metric, after the last step */
    int64_t summary_line;
};

/* Settings, and "amp": true or "fp16": true of some of NVIDIA's scripts; false tells nothing, as TF32 may be on. */
static void take_parameters(struct rp_imported *d, const json_t *data, int64_t line)
{
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        rp_tagged_fact(d, parameters[i].fact, json_object_get(data, parameters[i].key), line);
    static const char *const mixed[] = {"amp", "use_amp", "fp16"};
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        if (json_is_true(json_object_get(data, mixed[i])))
            rp_imported_default(d, "precision", "amp", line);
}

/* METADATA comes before the first step: the unit of every metric that may turn out to be the rate has to be kept. */
static void take_metadata(struct dllogger *s, const struct rp_dllogger_entry *e)
{
    const char *unit = e->metadata.unit;
    if (e->metric && !*s->rate && rp_rate_rank(e->metric) >= 0)
        snprintf(s->rate, sizeof s->rate, "%s", e->metric);
    if (unit && *s->rate && rp_same_text(e->metric, s->rate) && rp_unit_of(unit))
        s->rate_unit = rp_unit_of(unit);
}

static double rate_of(struct dllogger *s, const json_t *data)
{
    const char *key, *best = NULL;
    json_t *v;
    int least = INT_MAX;
    json_object_foreach((json_t *)data, key, v) {
        int rank = *s->rate ? -1 : rp_rate_rank(key);
        if (rank >= 0 && rank < least) {
            best = key;
            least = rank;
        }
    }
    if (best)
        snprintf(s->rate, sizeof s->rate, "%s", best);
    return *s->rate ? rp_tagged_real(json_object_get(data, s->rate)) : NAN;
}

static double time_of(struct rp_import_source *src, const struct rp_dllogger_entry *e)
{
    double t = rp_tagged_real(e->timestamp);
    if (isnan(t))
        t = rp_tagged_real(e->elapsedtime);
    if (isnan(t) && (!e->datetime || rp_scan_stamp(e->datetime, &t, &src->window.of_day) < 0))
        t = NAN;
    return isfinite(t) && fabs(t) < 1e12 ? t : NAN;
}

static int take_log(struct rp_import_source *src, struct dllogger *s, const struct rp_dllogger_entry *e,
                    struct rp_err *err)
{
    const json_t *step = e->step, *data = e->data;
    const json_t *last = json_is_array(step) ? json_array_get(step, json_array_size(step) - 1) : step;
    if (json_is_string(step)) {
        take_parameters(&src->draft, data, src->lines.number);
        return 0;
    }
    double rate = rate_of(s, data);
    if (json_is_array(step) && json_array_size(step) == 0) {
        if (rp_is_figure(rate)) {
            s->summary = rate;
            s->summary_line = src->lines.number;
        }
        return 0;
    }
    if (!json_is_integer(last) || (json_is_array(step) && json_array_size(step) == 1)) /* the end of an epoch */
        return 0;
    struct rp_step one = {
        .epoch = -1, .step = json_integer_value(last), .time = time_of(src, e), .duration = NAN, .rate = rate};
    if (json_is_array(step))
        one.epoch = json_integer_value(json_array_get(step, 0));
    return rp_window_step(&src->window, &one, &src->lines, err);
}

static int dllogger_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct dllogger *s = state;
    (void)size;
    struct rp_dllogger_entry e;
    int failed = 0;
    if (!rp_tagged(&e, &rp_type_dllogger_entry, &s->tagged, &src->lines, line, "DLLL "))
        return 0;
    if (rp_same_text(e.type, "METADATA"))
        take_metadata(s, &e);
    else if (rp_same_text(e.type, "LOG"))
        failed = take_log(src, s, &e, err) < 0;
    rp_object_fini(&e, &rp_type_dllogger_entry);
    return failed ? -1 : 0;
}

static int dllogger_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct dllogger *s = state;
    struct rp_imported *d = &src->draft;
    if (rp_tagged_end(&s->tagged, &src->lines, "DLLL ", d, err) < 0)
        return -1;
    const char *unit, *rate_unit;
    rp_imported_units(d, src->opts->unit, s->rate_unit ? s->rate_unit : rp_unit_of(s->rate), &unit, &rate_unit);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    if (s->summary_line && src->window.steps_seen < 2 && src->opts->from < 0 && src->opts->to < 0) {
        rp_imported_throughput(d, s->summary, rate_unit, s->summary_line, s->summary_line);
        json_object_set_new(d->row, "estimator", json_string("as the log prints it, without steps"));
        rp_imported_infer(d);
        return rp_import_add(src, d, err);
    }
    if (rp_window_finish(&src->window, d, unit, rate_unit, &src->lines, err) < 0)
        return -1;
    if (s->summary_line) {
        rp_imported_beside(
            d, "summary",
            json_pack("{s:f, s:s, s:I}", "value", s->summary, "unit", rate_unit, "line", (json_int_t)s->summary_line));
        rp_window_disagree(d, s->summary, rate_unit, "in its summary");
    }
    return rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_dllogger = {
    .name = "dllogger",
    .state = sizeof(struct dllogger),
    .line = dllogger_line,
    .end = dllogger_end,
};
