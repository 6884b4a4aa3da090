/* Trainer of Hugging Face transformers: what it prints, or trainer_state.json beside the model. Steps have no times;
 * the end has
 *
 *     {'train_runtime': 225.8005, 'train_samples_per_second': 3.543, 'train_steps_per_second': 0.886, 'train_loss':
 *     1.2, 'epoch': 0.32}
 *
 * Both rates are those of the *planned* steps (max_steps) over the seconds of this call, evaluation and saving
 * included: they are false where a training stopped early or was resumed. So the steps that were done are looked for
 * (TrainOutput(global_step=...), global_step), and those that a resumed training did not do again; samples are held
 * against steps x batch. */
#include "base/json.h"
#include "base/text.h"
#include "import/import.h"
#include "import/scan.h"
#include "import/tagged.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define JSON_MAX (64ul << 20)
#define JSON_VALUES (4 << 20)
#define SAME_RUN 0.01 /* processes of one training end that close together */

struct rounded {
    double v, half; /* half of the last digit printed */
};

enum { EXAMPLES, EPOCHS, PER_DEVICE, GLOBAL, ACCUMULATION, STEPS, RESUMED, SETTINGS };

static const struct {
    const char *mark, *fact;
} settings[SETTINGS] = {
    {"Num examples = ", NULL},
    {"Num Epochs = ", NULL},
    {"Instantaneous batch size per device = ", "batch_per_device"},
    {"Total train batch size (w. parallel, distributed & accumulation) = ", "global_batch"},
    {"Gradient Accumulation steps = ", "accumulation"},
    {"Total optimization steps = ", NULL},
    {"Continuing training from global step ", NULL},
};

struct header {
    int64_t value[SETTINGS], line[SETTINGS]; /* line 0: not printed */
};

struct ending {
    struct rounded runtime, samples, steps, epoch; /* rates per second; NaN: not printed */
    int64_t line, done;                            /* done: optimizer steps, -1: unknown */
    struct header header;
};

struct hf_trainer {
    struct header header; /* of the training that is under way */
    int in_training;      /* not in an evaluation, whose lines look the same */
    struct ending end;
    int64_t damaged, first_damaged;
    int is_json;
    int64_t json_line; /* of train_runtime */
    struct rp_buf json;
    double evaluation; /* seconds of it inside the training, of trainer_state.json */
};

/* ---- numbers as they are printed ---- */

static double half_of(const char *p, const char *end)
{
    const char *point = memchr(p, '.', (size_t)(end - p)), *e = memchr(p, 'e', (size_t)(end - p));
    int64_t digits = point ? (e ? e : end) - point - 1 : 0, exponent = 0;
    if (e && (!rp_scan_count(e + 1 + (e[1] == '-' || e[1] == '+'), &exponent) || exponent > 300))
        exponent = 0;
    return 0.5 * pow(10, (double)((e && e[1] == '-' ? -exponent : exponent) - digits));
}

/* 'key': 3.5, or "key": 3.5 or '3.5', followed by what ends a value; NaN where there is none. */
static struct rounded value_of(const char *text, const char *key)
{
    struct rounded r = {NAN, 0};
    size_t n = strlen(key);
    for (const char *at = text; (at = strstr(at, key)); at += n) {
        if (at == text || (at[-1] != '\'' && at[-1] != '"') || at[n] != at[-1] || at[n + 1] != ':')
            continue;
        const char *p = at + n + 2 + strspn(at + n + 2, " ");
        p += *p == '\'' || *p == '"';
        double v;
        const char *end = rp_scan_real(p, &v);
        if (end && *end && strchr(",}'\"", *end))
            return (struct rounded){v, half_of(p, end)};
    }
    return r;
}

static struct rounded multiply_rounded(struct rounded a, struct rounded b)
{
    return (struct rounded){a.v * b.v, fabs(a.v) * b.half + fabs(b.v) * a.half};
}

/* ---- what is printed ---- */

static void take_setting(struct hf_trainer *s, const char *line, int64_t number)
{
    int64_t v;
    if (strstr(line, "***** Running training *****")) {
        s->header = (struct header){0};
        s->in_training = 1;
    } else if (strstr(line, "***** Running ")) { /* Evaluation, Prediction */
        s->in_training = 0;
    }
    for (int i = 0; i < SETTINGS && s->in_training; i++) {
        const char *at = rp_scan_after(line, settings[i].mark), *end = at ? rp_scan_grouped(at, &v) : NULL;
        if (end && !s->header.line[i] && (!*end || strchr(" \t.", *end))) {
            s->header.value[i] = v;
            s->header.line[i] = number;
        }
    }
}

static int is_same_value(struct rounded a, struct rounded b)
{
    return isnan(a.v) || isnan(b.v) || fabs(a.v - b.v) <= 1.01 * (a.half + b.half);
}

/* Printed twice (by TrainOutput too, or by a process of every machine), or the end of another training? */
static int take_ending(struct rp_import_source *src, struct hf_trainer *s, struct ending *e, struct rp_err *err)
{
    struct ending *was = &s->end;
    e->header = s->header;
    if (!was->line) {
        *was = *e;
        return 0;
    }
    int64_t line = was->line, done = was->done >= 0 ? was->done : e->done;
    int equal = is_same_value(was->runtime, e->runtime) && is_same_value(was->samples, e->samples) &&
                is_same_value(was->steps, e->steps);
    int close = fabs(was->runtime.v - e->runtime.v) <= SAME_RUN * was->runtime.v &&
                is_same_value(was->epoch, e->epoch) &&
                is_same_value(multiply_rounded(was->steps, was->runtime), multiply_rounded(e->steps, e->runtime));
    if ((!equal && !close) || (was->done >= 0 && e->done >= 0 && was->done != e->done))
        return rp_lines_fail(&src->lines, err,
                             "this training took %.6g s, the one that ends in line %" PRId64
                             " %.6g s: keep one of them in the file",
                             e->runtime.v, line, was->runtime.v);
    int better =
        equal ? e->runtime.half < was->runtime.half : e->runtime.v > was->runtime.v; /* all wait for the last */
    struct header header = was->header;
    if (better)
        *was = *e;
    was->done = done;
    was->line = better ? e->line : line;
    was->header = header;
    return 0;
}

static int take_text(struct rp_import_source *src, struct hf_trainer *s, const char *line, struct rp_err *err)
{
    const char *output = rp_scan_after(line, "TrainOutput(global_step=");
    struct ending e = {.runtime = value_of(line, "train_runtime"),
                       .samples = value_of(line, "train_samples_per_second"),
                       .steps = value_of(line, "train_steps_per_second"),
                       .epoch = value_of(line, "epoch"),
                       .line = src->lines.number,
                       .done = -1};
    if (!strstr(line, "train_runtime'") && !strstr(line, "train_runtime\"")) {
        take_setting(s, line, src->lines.number);
        return 0;
    }
    if (!(e.runtime.v > 0 && e.samples.v > 0 && e.runtime.v < 1e9 && e.samples.v < 1e12) || e.steps.v <= 0 ||
        (isnan(e.steps.v) && strstr(line, "train_steps_per_second"))) {
        if (!s->damaged++)
            s->first_damaged = src->lines.number;
        return 0;
    }
    if (output) {
        const char *end = rp_scan_count(output, &e.done);
        e.done = end && *end == ',' ? e.done : -1;
    }
    return take_ending(src, s, &e, err);
}

static int hf_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct hf_trainer *s = state;
    const char *p = line + strspn(line, " \t");
    if (src->lines.number == 1)
        s->is_json = *p == '{' && p[1] != '\'';
    if (!s->is_json)
        return take_text(src, s, line, err);
    if (s->json.size + size > JSON_MAX)
        return rp_lines_fail(&src->lines, err, "more than %lu MiB of JSON", JSON_MAX >> 20);
    if (!s->json_line && strstr(line, "\"train_runtime\""))
        s->json_line = src->lines.number;
    rp_buf_add(&s->json, line, size);
    rp_buf_add(&s->json, "\n", 1);
    return 0;
}

/* ---- trainer_state.json ---- */

/* Python writes NaN and Infinity, which JSON does not have, for a loss or norm that overflowed: something of the same
 * length. */
static void mend_json(char *p)
{
    for (int in_text = 0; *p; p++) {
        if (in_text && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            in_text = !in_text;
        else if (!in_text && strncmp(p, "NaN", 3) == 0)
            memcpy(p, "0  ", 3);
        else if (!in_text && strncmp(p, "-Infinity", 9) == 0)
            memcpy(p, "null     ", 9);
        else if (!in_text && strncmp(p, "Infinity", 8) == 0)
            memcpy(p, "null    ", 8);
    }
}

static struct rounded rounded_json(const json_t *v, int digits)
{
    return (struct rounded){rp_tagged_real(v), 0.5 * pow(10, -digits)};
}

static int take_history(struct rp_import_source *src, struct hf_trainer *s, const struct rp_hf_state *is,
                        struct rp_err *err)
{
    int64_t last = -1;
    for (int64_t i = 0; i < is->log_history_n; i++) {
        const struct rp_hf_entry *entry = &is->log_history[i];
        const int64_t step = entry->step == RP_NO_INTEGER ? -1 : entry->step;
        const double evaluation = rp_tagged_real(entry->eval_runtime);
        if (step >= 0 && step < last)
            return rp_fail(err, RP_MALFORMED,
                           "%s: log_history falls from step %" PRId64 " to %" PRId64 ": it is of two trainings",
                           src->lines.name, last, step);
        last = step >= 0 ? step : last;
        if (evaluation > 0 && !s->end.line)
            s->evaluation += evaluation;
        struct ending e = {.runtime = rounded_json(entry->train_runtime, 4),
                           .samples = rounded_json(entry->train_samples_per_second, 3),
                           .steps = rounded_json(entry->train_steps_per_second, 3),
                           .epoch = rounded_json(entry->epoch, 2),
                           .line = s->json_line,
                           .done = step};
        if (e.runtime.v > 0 && e.samples.v > 0 && e.runtime.v < 1e9 && e.samples.v < 1e12 && !(e.steps.v <= 0) &&
            take_ending(src, s, &e, err) < 0)
            return -1;
    }
    return 0;
}

static int read_json(struct rp_import_source *src, struct hf_trainer *s, struct rp_err *err)
{
    mend_json((char *)rp_buf_text(&s->json));
    RP_JSON *json = rp_json_parse_most(s->json.data, s->json.size, JSON_VALUES, src->lines.name, err);
    if (!json)
        return -1;
    RP_READ(hf_state, state, json);
    if (!state.log_history)
        return rp_fail(err, RP_MALFORMED, "%s: the JSON has no log_history; is it trainer_state.json?",
                       src->lines.name);
    if (take_history(src, s, &state, err) < 0)
        return -1;
    if (s->end.line && state.max_steps > 0) {
        s->end.header.value[STEPS] = state.max_steps;
        s->end.header.line[STEPS] = s->end.line;
    }
    if (s->end.line && s->end.done >= 0 && state.global_step >= 0 && s->end.done != state.global_step)
        return rp_fail(err, RP_MALFORMED, "%s: global_step is %" PRId64 ", but the training ends at step %" PRId64,
                       src->lines.name, state.global_step, s->end.done);
    return 0;
}

/* ---- the figure ---- */

static void put_header(struct rp_imported *d, const struct header *h)
{
    for (int i = 0; i < SETTINGS; i++)
        if (settings[i].fact && h->line[i] && h->value[i] > 0)
            rp_imported_count(d, settings[i].fact, h->value[i], h->line[i]);
    rp_imported_infer(d);
}

/* Until transformers 4.5 train_samples_per_second was steps per second, and the only rate. */
static int name_rates(struct ending *e, const char *name, struct rp_err *err)
{
    struct rounded all = multiply_rounded(e->samples, e->runtime);
    int64_t planned = e->header.line[STEPS] ? e->header.value[STEPS] : -1;
    if (!isnan(e->steps.v))
        return 0;
    if (planned <= 0 || fabs(all.v - (double)planned) > all.half + 1)
        return rp_fail(err, RP_MALFORMED,
                       "%s:%" PRId64
                       ": without train_steps_per_second, train_samples_per_second is of samples or of steps, as early "
                       "versions of transformers have it; 'Total optimization steps' or trainer_state.json decides",
                       name, e->line);
    e->steps = e->samples;
    e->samples.v = NAN;
    return 0;
}

/* The steps that were planned, and so counted by the rates of the log: as printed, else what these rates make. */
static int find_planned(const struct ending *e, const char *name, int64_t *planned, struct rp_err *err)
{
    struct rounded all = multiply_rounded(e->steps, e->runtime);
    *planned = e->header.line[STEPS]                                          ? e->header.value[STEPS]
               : e->done > 0 && fabs(all.v - (double)e->done) <= all.half + 1 ? e->done
                                                                              : (int64_t)llround(all.v);
    if (fabs(all.v - (double)*planned) > all.half + 1)
        return rp_fail(err, RP_MALFORMED,
                       "%s:%" PRId64 ": train_steps_per_second x train_runtime make %.6g steps, but %" PRId64
                       " are planned",
                       name, e->line, all.v, *planned);
    if (*planned < 1)
        return rp_fail(err, RP_MALFORMED, "%s:%" PRId64 ": the training has no step", name, e->line);
    return 0;
}

/* The epoch at the end counts steps too: a training that stopped early without a word of its steps. */
static int check_epoch(const struct ending *e, const char *name, int64_t planned, int64_t batch, struct rp_err *err)
{
    int64_t examples = e->header.value[EXAMPLES];
    if (e->done >= 0 || !e->header.line[EXAMPLES] || batch < 1 || isnan(e->epoch.v))
        return 0;
    double each = ceil((double)examples / (double)batch), steps = e->epoch.v * each;
    if (fabs(steps - (double)planned) <= e->epoch.half * each + ceil(e->epoch.v) + 1)
        return 0;
    return rp_fail(err, RP_MALFORMED,
                   "%s:%" PRId64 ": epoch %.6g of %" PRId64 " samples is about %.0f steps of %" PRId64 ", but %" PRId64
                   " were planned: did it stop early? trainer_state.json has the steps that were done",
                   name, e->line, e->epoch.v, examples, steps, batch, planned);
}

/* Samples by the rate of the log against steps x batch; each epoch may end with a smaller batch. 1 if they agree, or
 * the batch is unknown; 0 if the command line chooses; else two readings. */
static int check_samples(struct rp_imported *d, const struct ending *e, const char *name, int64_t planned,
                         int64_t batch, struct rp_err *err)
{
    struct rounded all = multiply_rounded(e->samples, e->runtime);
    const char *from = json_string_value(json_object_get(d->from, "global_batch"));
    double epochs = isnan(e->epoch.v) ? 1 : ceil(e->epoch.v) + 1, made = (double)planned * (double)batch;
    if (batch < 1 || isnan(all.v) || fabs(all.v - made) <= all.half + epochs * (double)batch)
        return 1;
    if (from && strcmp(from, "command line") == 0) {
        rp_imported_note(d, "the log itself counts %.6g samples, not %.6g", all.v, made);
        return 0;
    }
    return rp_fail(err, RP_MALFORMED,
                   "%s:%" PRId64 ": the training has %.6g samples by train_samples_per_second, but %.6g by %" PRId64
                   " steps of %" PRId64 ": choose with --set global_batch=N",
                   name, e->line, all.v, made, planned, batch);
}

static void put_notes(struct rp_imported *d, const struct hf_trainer *s, int64_t done, int64_t planned, int as_printed)
{
    const struct rounded *runtime = &s->end.runtime, *rate = &s->end.samples;
    if (done != planned)
        rp_imported_note(
            d, "%" PRId64 " of %" PRId64 " planned steps were done; the rates of the log count all that were planned",
            done, planned);
    else if (as_printed && rate->half > 5e-3 * rate->v)
        rp_imported_note(d, "the printed rate is rounded to within %.1f %%", 100 * rate->half / rate->v);
    if (s->evaluation > 0.005 * runtime->v)
        rp_imported_note(d, "%.6g s of %.6g s are evaluation", s->evaluation, runtime->v);
    if (s->is_json)
        rp_imported_note(d, "trainer_state.json does not say whether the training was resumed");
    if (s->damaged)
        rp_imported_note(d, "left out: %" PRId64 " damaged line%s, the first is line %" PRId64, s->damaged,
                         rp_s(s->damaged), s->first_damaged);
}

static int put_figure(struct rp_import_source *src, struct hf_trainer *s, struct rp_err *err)
{
    struct rp_imported *d = &src->draft;
    struct ending *e = &s->end;
    const char *name = src->lines.name, *unit, *rate_unit;
    int64_t planned, resumed = e->header.line[RESUMED] ? e->header.value[RESUMED] : 0;
    if (name_rates(e, name, err) < 0 || find_planned(e, name, &planned, err) < 0)
        return -1;
    put_header(d, &e->header);
    int64_t batch = rp_imported_get(d, "global_batch"), done = (e->done >= 0 ? e->done : planned) - resumed;
    int agree = check_samples(d, e, name, planned, batch, err);
    if (agree < 0 || check_epoch(e, name, planned, batch, err) < 0)
        return -1;
    if (done < 1 || s->evaluation > e->runtime.v)
        return rp_fail(
            err, RP_MALFORMED,
            "%s:%" PRId64
            ": the history is longer than the %.6g s of this call: the training was resumed, and how many steps it "
            "took is not in the file; its output has them",
            name, e->line, e->runtime.v);
    if (batch < 1 && isnan(e->samples.v))
        return rp_fail(err, RP_MALFORMED,
                       "%s: the log does not have the number of samples per step; add it with --set global_batch=N",
                       name);
    double each = batch > 0 ? (double)batch : multiply_rounded(e->samples, e->runtime).v / (double)planned;
    int as_printed =
        agree && done == planned && e->samples.v > 0 && (batch < 1 || e->samples.half < 1e-3 * e->samples.v);
    char text[80];
    rp_imported_units(d, src->opts->unit, "samples/s", &unit, &rate_unit);
    rp_imported_throughput(d, as_printed ? e->samples.v : (double)done * each / e->runtime.v, unit, e->line, e->line);
    json_object_set_new(
        d->row, "estimator",
        json_string(as_printed ? "mean over the whole training as the log prints it, with evaluation and saving"
                               : "steps x samples of a step / train_runtime: mean with evaluation and saving"));
    snprintf(text, sizeof text, "the whole training, %" PRId64 " steps", done);
    json_object_set_new(d->row, "timed_window", json_string(text));
    rp_imported_beside(d, "window", json_pack("{s:I, s:f}", "steps", (json_int_t)done, "seconds", e->runtime.v));
    if (e->samples.v > 0)
        rp_imported_beside(d, "printed",
                           json_pack("{s:f, s:s, s:I}", "value", e->samples.v, "unit", unit, "count", (json_int_t)1));
    put_notes(d, s, done, planned, as_printed);
    return 0;
}

static int hf_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct hf_trainer *s = state;
    struct rp_imported *d = &src->draft;
    if (src->opts->from >= 0 || src->opts->to >= 0)
        return rp_fail(err, RP_MALFORMED,
                       "%s: steps of this log have no times, so --from and --to cannot choose among them",
                       src->lines.name);
    if (s->is_json && read_json(src, s, err) < 0)
        return -1;
    if (!s->end.line && s->damaged)
        return rp_fail(err, RP_MALFORMED, "%s:%" PRId64 ": the line of train_runtime is damaged", src->lines.name,
                       s->first_damaged);
    if (!s->end.line)
        return rp_fail(err, RP_MALFORMED,
                       "%s: no train_runtime, with which a training ends: it is of a checkpoint, was interrupted, or "
                       "is another format",
                       src->lines.name);
    if (put_figure(src, s, err) < 0)
        return -1;
    rp_imported_default(d, "framework", "HF Trainer", s->end.line);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    return rp_import_add(src, d, err);
}

static void hf_fini(void *state)
{
    struct hf_trainer *s = state;
    rp_buf_fini(&s->json);
}

const struct rp_importer rp_importer_hf_trainer = {
    .name = "hf_trainer",
    .state = sizeof(struct hf_trainer),
    .line = hf_line,
    .end = hf_end,
    .fini = hf_fini,
};
