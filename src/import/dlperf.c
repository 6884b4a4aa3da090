/* Logs of DLPerf and OneFlow-Benchmark: one log per run of any of several programs; directory and file name contain the
 * rest:
 *
 *     .../2n8g/bert_b32_fp32_1.log      2 nodes of 8 GPUs, batch 32 per device, fp32, the first of several repeats
 *
 * What each program prints per step is a row of dialects[]; the first row that a line fits decides for the whole log.
 * The windows are those of DLPerf's own scripts, so that a log gives the figure that was published for it. */
#include "base/json.h"
#include "import/import.h"
#include "import/scan.h"
#include "import/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum clock { NO_CLOCK, AT_END, IN_LINE }; /* unix seconds as the last word; a date or a time of day anywhere */

struct dialect {
    const char *framework;
    const char *has;             /* a line of a step contains this */
    const char *step, *epoch;    /* marks before the numbers; epoch NULL: none */
    enum clock clock;
    const char *duration;        /* mark before the seconds of the step, or NULL */
    double duration_unit;
    const char *rate, *rate_unit; /* mark before the printed rate; "steps/s": times the samples of a step */
    const char *unit;            /* of samples */
    int64_t from, to;
};

static const struct dialect dialects[] = {
    {"OneFlow", ", throughput: ", "step: ", NULL, AT_END, NULL, 0, ", throughput: ", "sequences/s", "sequences/s", 19,
     119},
    {"OneFlow", ", samples/s: ", "iter ", "epoch ", AT_END, NULL, 0, ", samples/s: ", "images/s", "images/s", 20, 120},
    {"NGC PyTorch", "Training Iteration: ", "Training Iteration: ", "Epoch: ", IN_LINE, NULL, 0, NULL, NULL,
     "sequences/s", 25, 115},
    {"NGC TensorFlow 1.x", " throughput_train : ", "Iteration: ", NULL, IN_LINE, NULL, 0,
     " throughput_train : ", "sequences/s", "sequences/s", 20, 120},
    {"NGC PyTorch", " train.total_ips : ", "Iteration: ", "Epoch: ", IN_LINE, NULL, 0,
     " train.total_ips : ", "images/s", "images/s", 25, 125},
    {"MXNet", " ms/batch", "[step ", NULL, NO_CLOCK, "latency=", 1e-3, NULL, NULL, "sequences/s", 101, 200},
    {"MXNet", "Speed: ", "Batch [", "Epoch[", IN_LINE, NULL, 0, "Speed: ", "images/s", "images/s", 20, 120},
    {"PaddlePaddle", "train batch ", "train batch ", "Pass ", IN_LINE, "elapse ", 1, NULL, NULL, "images/s", 19, 119},
    {"PaddlePaddle", " steps/s", "step: ", "epoch: ", NO_CLOCK, NULL, 0, "speed: ", "steps/s", "sequences/s", 20, 120},
    {"PyTorch", "Epoch: [", "][", "Epoch: [", NO_CLOCK, "Time", 1, NULL, NULL, "images/s", 26, 125},
    {"TensorFlow 2.x", "TimeHistory: ", " and ", NULL, IN_LINE, NULL, 0, "seconds, ", "images/s", "images/s", 0, 0},
    {"TensorFlow 2.x", "Train Step: ", "Train Step: ", NULL, IN_LINE, NULL, 0, NULL, NULL, "sequences/s", 20, 120},
    {0},
};

/* "key = value", as OneFlow prints its arguments. */
static const struct {
    const char *key, *fact;
} settings[] = {
    {"batch_size_per_device", "batch_per_device"},
    {"gpu_num_per_node", "gpus_per_node"},
    {"num_nodes", "nodes"},
    {"seq_length", "sequence_length"},
    {"num_hidden_layers", "layers"},
    {"num_attention_heads", "attention_heads"},
    {"num_accumulation_steps", "accumulation"},
};

struct dlperf {
    const struct dialect *dialect;
    int repeat;
};

/* Names of models in logs and file names, and in the tables. */
static const struct {
    const char *alias, *model;
} models[] = {{"rn50", "resnet50-v1.5"}, {"r50", "resnet50-v1.5"}, {"resnet50", "resnet50-v1.5"}};

static void take_model(struct rp_imported *d, const char *text, size_t n, int64_t line)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strlen(models[i].alias) == n && strncasecmp(models[i].alias, text, n) == 0) {
            rp_imported_text(d, "model", models[i].model, line);
            return;
        }
    rp_imported_textn(d, "model", text, n, line);
}

/* DLPerf only trains the base model of BERT; the layers that a log prints decide. */
static void name_bert(struct rp_imported *d)
{
    const char *model = rp_imported_get_text(d, "model"), *from = json_string_value(json_object_get(d->from, "model"));
    int64_t layers = rp_imported_get(d, "layers");
    if (!model || strcmp(model, "bert") != 0 || (from && strcmp(from, "command line") == 0))
        return;
    if (layers < 0)
        rp_imported_note(d, "bert is taken to be bert-base, the only size that DLPerf trains");
    if (layers < 0 || layers == 12 || layers == 24)
        json_object_set_new(d->row, "model", json_string(layers == 24 ? "bert-large" : "bert-base"));
}

/* ---- the name ---- */

/* 32 of "b32": the number of the word after `letter`, or -1. */
static int64_t number_after_letter(const char *word, size_t n, char letter)
{
    int64_t v = -1;
    const char *end = n > 1 && word[0] == letter ? rp_scan_count(word + 1, &v) : NULL;
    return end == word + n ? v : -1;
}

/* The words between underscores: model first, then b32, fp32, the number of the repeat. */
static void take_words(struct dlperf *s, struct rp_imported *d, const char *base)
{
    size_t all = strlen(base);
    all -= all > 4 && strcmp(base + all - 4, ".log") == 0 ? 4 : 0;
    for (size_t at = 0, n; at < all; at += n + 1) {
        const char *word = base + at;
        n = strcspn(word, "_");
        n = n < all - at ? n : all - at;
        int64_t batch = number_after_letter(word, n, 'b');
        if (batch > 0)
            rp_imported_count(d, "batch_per_device", batch, RP_DRAFT_NAMED);
        else if ((n == 4 && memcmp(word, "fp32", 4) == 0) || (n == 4 && memcmp(word, "fp16", 4) == 0) ||
                 (n == 3 && memcmp(word, "amp", 3) == 0))
            rp_imported_textn(d, "precision", word, n, RP_DRAFT_NAMED);
        else if (at && strspn(word, "0123456789") == n)
            s->repeat = 1;
        else if (!at && batch < 0 && all > n)
            take_model(d, word, n, RP_DRAFT_NAMED);
    }
}

static int dlperf_begin(struct rp_import_source *src, void *state, struct rp_err *err)
{
    int64_t nodes, gpus;
    const char *base = strrchr(src->name, '/'), *end = rp_scan_count(src->name, &nodes);
    (void)err;
    if (base && end && *end == 'n' && rp_scan_count(end + 1, &gpus)) {
        rp_imported_count(&src->draft, "nodes", nodes, RP_DRAFT_NAMED);
        rp_imported_count(&src->draft, "gpus_per_node", gpus, RP_DRAFT_NAMED);
    }
    take_words(state, &src->draft, base ? base + 1 : src->name);
    return 0;
}

/* ---- lines ---- */

static void take_setting(struct rp_imported *d, const char *line, int64_t number)
{
    int64_t value;
    const char *equals = strstr(line, " = ");
    if (!equals)
        return;
    while (*line == ' ')
        line++;
    size_t n = (size_t)(equals - line);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strlen(settings[i].key) == n && memcmp(settings[i].key, line, n) == 0 && rp_scan_count(equals + 3, &value))
            rp_imported_count(d, settings[i].fact, value, number);
    if (n == 5 && memcmp(line, "model", n) == 0)
        take_model(d, equals + 3, strlen(equals + 3), number);
}

static double number_after(const char *line, const char *mark)
{
    double v;
    const char *at = mark ? rp_scan_after(line, mark) : NULL;
    return at && rp_scan_real(at, &v) ? v : NAN;
}

/* The last word as seconds since 1970; NaN where it is something else. */
static double time_at_end(const char *line)
{
    double v;
    const char *word = strrchr(line, ' '), *end = word ? rp_scan_real(word, &v) : NULL;
    return end && !*end && v > 1e8 ? v : NAN;
}

static int is_step_of(const struct dialect *d, const char *line)
{
    int64_t step;
    const char *at = strstr(line, d->has) ? rp_scan_after(line, d->step) : NULL;
    return at && rp_scan_count(at, &step);
}

static int take_step(struct rp_import_source *src, struct dlperf *s, const char *line, struct rp_err *err)
{
    const struct dialect *d = s->dialect;
    struct rp_step step = {.epoch = -1, .time = NAN, .duration = number_after(line, d->duration) * d->duration_unit,
                           .rate = number_after(line, d->rate)};
    const char *end = rp_scan_count(rp_scan_after(line, d->step), &step.step),
               *epoch = d->epoch ? rp_scan_after(line, d->epoch) : NULL;
    if (*end == '-' &&
        rp_scan_count(end + 1, &step.step) == NULL) /* "Batch [80-100]": the line belongs to the end of the range */
        rp_scan_count(rp_scan_after(line, d->step), &step.step);
    if (epoch && !rp_scan_count(epoch, &step.epoch))
        step.epoch = -1;
    if (d->clock == AT_END)
        step.time = time_at_end(line);
    else if (d->clock == IN_LINE && rp_scan_stamp(line, &step.time, &src->window.of_day) < 0)
        step.time = NAN;
    if (d->rate && strcmp(d->rate_unit, "steps/s") == 0) {
        step.duration = step.rate > 0 ? 1 / step.rate : NAN;
        step.rate = NAN;
    }
    return rp_window_step(&src->window, &step, &src->lines, err);
}

static int dlperf_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct dlperf *s = state;
    (void)size;
    for (const struct dialect *d = dialects; !s->dialect && d->framework; d++)
        if (is_step_of(d, line)) {
            s->dialect = d;
            src->window.from = src->opts->from >= 0 ? src->opts->from : d->from;
            src->window.to = src->opts->to >= 0 ? src->opts->to : d->to;
            src->window.skip_first = 0;
        }
    if (s->dialect && is_step_of(s->dialect, line))
        return take_step(src, s, line, err);
    take_setting(&src->draft, line, src->lines.number);
    return 0;
}

static void add_label(struct rp_imported *d, const char *framework)
{
    char label[200];
    const char *model = rp_imported_get_text(d, "model"), *precision = rp_imported_get_text(d, "precision");
    int64_t batch = rp_imported_get(d, "batch_per_device"), devices = rp_imported_get(d, "devices");
    int n = snprintf(label, sizeof label, "%.40s", framework);
    if (model)
        n += snprintf(label + n, sizeof label - (size_t)n, " %.60s", model);
    if (precision)
        n += snprintf(label + n, sizeof label - (size_t)n, " %.12s", precision);
    if (batch > 0)
        n += snprintf(label + n, sizeof label - (size_t)n, " b%" PRId64, batch);
    if (devices > 0)
        snprintf(label + n, sizeof label - (size_t)n, ", %" PRId64 " %s", devices, devices == 1 ? "device" : "devices");
    rp_imported_text(d, "label", label, RP_DRAFT_NAMED);
}

/* Repeats: the same facts in all but the window; only logs whose name has a number at its end. */
static void mark_repeat(struct rp_imported *d)
{
    RP_BUF text = {0};
    RP_JSON *facts = json_copy(d->row);
    const char *const measured[] = {"throughput", "samples", "sample_groups", "timed_window"};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        json_object_del(facts, measured[i]);
    rp_json_write_line(&text, facts);
    d->same = rp_buf_take(&text);
}

static int dlperf_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct dlperf *s = state;
    const struct dialect *d = s->dialect;
    if (!d)
        return rp_fail(err, RP_MALFORMED,
                       "%s: no line looks like a step of a known program; 'repro help import' lists the formats",
                       src->lines.name);
    const char *unit = src->opts->unit ? src->opts->unit : d->unit;
    rp_imported_default(&src->draft, "framework", d->framework, src->window.first_line);
    if (rp_window_finish(&src->window, &src->draft, unit, d->rate_unit ? d->rate_unit : unit, &src->lines, err) < 0)
        return -1;
    name_bert(&src->draft);
    if (!rp_imported_get_text(&src->draft, "label"))
        add_label(&src->draft, d->framework);
    if (s->repeat)
        mark_repeat(&src->draft);
    return rp_import_add(src, &src->draft, err);
}

const struct rp_importer rp_importer_dlperf = {
    .name = "dlperf",
    .state = sizeof(struct dlperf),
    .begin = dlperf_begin,
    .line = dlperf_line,
    .end = dlperf_end,
};
