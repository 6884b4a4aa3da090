/* Megatron-LM's training log (github.com/NVIDIA/Megatron-LM, megatron/training/training.py, training_log()) and what is
 * derived from it:
 *
 *     [2024-04-06 03:02:18] iteration       72/     100 | consumed samples:   9216 | elapsed time per iteration (ms):
 *                                                                             5470.7 | ...
 *     Training epoch 0, iteration 121/149 | lr: 3e-05 | consumed_samples: 122 | ... | train_step_timing in s: 0.03163 |
 *     val_loss: 4.106
 *
 * The first has the mean time of the iterations since the line before, the second (NeMo) that of one. Older versions
 * have no time in front. Facts come from the arguments that Megatron prints:
 * ` seq_length ...................................... 2048`.
 *
 * Consumed samples have to rise by iterations x global batch, and durations may not add up to more than the times of
 * the lines. */
#include "base/text.h"
#include "import/printed.h"
#include "import/scan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *argument, *fact;
} arguments[] = {
    {"seq_length", "sequence_length"},
    {"world_size", "devices"},
    {"data_parallel_size", "data_parallel"},
    {"tensor_model_parallel_size", "tensor_parallel"},
    {"pipeline_model_parallel_size", "pipeline_parallel"},
    {"micro_batch_size", "micro_batch"},
    {"num_layers", "layers"},
    {"hidden_size", "hidden_size"},
    {"num_attention_heads", "attention_heads"},
    {"optimizer", "optimizer"},
};

/* What one line has of its step; -1 and NaN: nothing. */
struct megatron_step {
    int64_t batch, consumed, skipped;
    struct rp_step step;
    double stamp;
};

struct megatron_log {
    struct rp_printed printed;
    int64_t batch, batch_line;                                      /* of the first step that counts */
    int64_t given_batch, given_line;                                /* of the arguments */
    int64_t consumed, consumed_step, consumed_batch, consumed_line; /* of the step before; line 0: none */
    int64_t skipped;
    const char *framework;
    char precision[12];
    int64_t precision_line;
    int language; /* samples are sequences */
};

/* ---- arguments ---- */

static void take_precision(struct megatron_log *s, const char *name, const char *value, int64_t line)
{
    const char *is = NULL;
    if (strcmp(name, "params_dtype") == 0)
        is = strstr(value, "bfloat16")                           ? "bf16"
             : strstr(value, "float16") || strstr(value, "half") ? "fp16"
             : strstr(value, "float32")                          ? "fp32"
                                                                 : NULL;
    else if (strcmp(name, "fp8") == 0 && strcmp(value, "None") != 0 && strcmp(value, "False") != 0)
        is = "fp8";
    if (!is || strcmp(s->precision, "fp8") == 0)
        return;
    RP_FORMAT(s->precision, "%s", is);
    s->precision_line = line;
}

/* "  name ...... value", the value up to a blank or to the dots that GPT-NeoX has behind it. */
static void take_argument(struct rp_import_source *src, struct megatron_log *s, const char *line)
{
    char name[48], value[48];
    const char *dots = strstr(line, " ..."), *start = dots, *at = dots ? dots + 1 + strspn(dots + 1, ".") : NULL;
    while (start && start > line && start[-1] != ' ')
        start--;
    if (!start || start == dots || (size_t)(dots - start) >= sizeof name || *at != ' ')
        return;
    at += strspn(at, " ");
    const char *more = strstr(at, "...");
    size_t n = strcspn(at, " \t");
    n = more && (size_t)(more - at) < n ? (size_t)(more - at) : n;
    n = n < sizeof value ? n : sizeof value - 1;
    RP_FORMAT(name, "%.*s", (int)(dots - start), start);
    RP_FORMAT(value, "%.*s", (int)n, at);
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        if (strcmp(name, arguments[i].argument) == 0)
            rp_imported_fact(&src->draft, arguments[i].fact, value, src->lines.number);
    if (strcmp(name, "global_batch_size") == 0 && rp_scan_count(value, &s->given_batch))
        s->given_line = src->lines.number;
    take_precision(s, name, value, src->lines.number);
}

/* ---- steps ---- */

/* "/     100 |" */
static const char *after_iteration(const char *p)
{
    int64_t all;
    const char *end = *p == '/' ? rp_scan_count(p + 1, &all) : NULL;
    return end && strncmp(end, " |", 2) == 0 ? end : NULL;
}

/* Megatron's milliseconds, which a bar follows, or '/' and a mean of the whole run. */
static void read_megatron(struct megatron_step *m, const char *text)
{
    static const char mark[] = "elapsed time per iteration (ms): ";
    m->step.duration = rp_printed_real(text, mark, " |") / 1000;
    if (isnan(m->step.duration))
        m->step.duration = rp_printed_real(text, mark, "/") / 1000;
    m->batch = rp_printed_whole(text, " global batch size: ", " |");
    m->consumed = rp_printed_whole(text, " consumed samples: ", " |");
    m->skipped = rp_printed_whole(text, " number of skipped iterations: ", " |");
    m->step.rate = rp_printed_real(text, " samples per second: ", " |");
}

/* NeMo's last value ends with the line. */
static void read_nemo(const struct rp_import_source *src, struct megatron_step *m, const char *text)
{
    double v;
    static const char mark[] = "train_step_timing in s: ";
    const char *at = strstr(text, mark), *end = at ? rp_scan_real(at + strlen(mark), &v) : NULL;
    m->step.duration = end && (strncmp(end, " |", 2) == 0 || (!*end && !src->lines.cut)) ? v : NAN;
    m->batch = rp_printed_whole(text, " global_batch_size: ", " |");
    m->consumed = rp_printed_whole(text, " consumed_samples: ", " |");
    int64_t step = rp_printed_whole(text, " global_step: ", " |");
    m->step.step = step >= 0 ? step : m->step.step;
}

/* "[2024-04-06 03:02:18]" before the mark. */
static double stamp_before(char *line, char *at)
{
    double t;
    int of_day;
    char *from = at;
    if (at == line || at[-1] != ']')
        return NAN;
    while (from > line && *from != '[')
        from--;
    char kept = *at;
    *at = 0;
    int failed = rp_scan_stamp(from, &t, &of_day) < 0 || of_day;
    *at = kept;
    return failed ? NAN : t;
}

/* Samples that the log counts against those of its steps. */
static int check_consumed(struct rp_import_source *src, struct megatron_log *s, const struct megatron_step *m,
                          struct rp_err *err)
{
    int64_t steps = m->step.step - s->consumed_step, rise = m->consumed - s->consumed;
    if (s->consumed_line && m->consumed >= 0 && m->batch > 0 && m->batch == s->consumed_batch && steps > 0 &&
        rise != steps * m->batch)
        return rp_lines_fail(&src->lines, err,
                             "%" PRId64 " steps of %" PRId64 " samples since line %" PRId64 " are %" PRId64
                             " samples, but the consumed "
                             "samples are %" PRId64 " more; choose steps where both agree with --from and --to",
                             steps, m->batch, s->consumed_line, steps * m->batch, rise);
    s->consumed = m->consumed;
    s->consumed_step = m->step.step;
    s->consumed_batch = m->batch;
    s->consumed_line = m->consumed >= 0 ? src->lines.number : 0;
    return 0;
}

static int check_batch(struct rp_import_source *src, struct megatron_log *s, int64_t batch, struct rp_err *err)
{
    if (s->batch_line && batch != s->batch)
        return rp_lines_fail(&src->lines, err,
                             "the global batch is %" PRId64 " here and %" PRId64 " in line %" PRId64
                             ", and no throughput is that of both; choose steps of one with --from and --to",
                             batch, s->batch, s->batch_line);
    if (!s->batch_line)
        s->batch_line = src->lines.number;
    s->batch = batch;
    return 0;
}

static int take_step(struct rp_import_source *src, struct megatron_log *s, struct rp_printed_part *p, char *line,
                     struct rp_err *err)
{
    int counts;
    int nemo = strstr(p->text, "train_step_timing in s: ") != NULL;
    struct megatron_step m = {.batch = -1,
                              .consumed = -1,
                              .skipped = -1,
                              .stamp = NAN,
                              .step = {.epoch = -1, .step = p->step, .time = NAN, .duration = NAN, .rate = NAN}};
    if (nemo)
        read_nemo(src, &m, p->text);
    else
        read_megatron(&m, p->text);
    if (!(m.step.duration > 0) || m.batch > INT32_MAX || m.step.step > INT32_MAX) {
        rp_printed_damaged(&s->printed, src);
        return 0;
    }
    m.stamp = stamp_before(line, p->begin);
    src->window.mean = !nemo;
    s->framework = nemo ? "NeMo" : "Megatron-LM";
    s->language |= nemo || strstr(p->text, "lm loss: ") != NULL;
    int64_t seen = src->window.steps_seen;
    if (rp_printed_step(&s->printed, src, &m.step, m.stamp, &counts, err) < 0)
        return -1;
    s->skipped += counts && m.skipped > 0 ? m.skipped : 0;
    if (counts && m.batch > 0 && check_batch(src, s, m.batch, err) < 0)
        return -1;
    if (src->window.steps_seen == seen)
        return 0;
    if (!counts)
        s->consumed_line = 0; /* steps before the window may have anything */
    return check_consumed(src, s, &m, err);
}

static int megatron_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct megatron_log *s = state;
    struct rp_printed_part p = {0};
    (void)size;
    if (strstr(line, "- arguments -"))
        rp_printed_header(&s->printed, src);
    else if (!src->window.closed)
        take_argument(src, s, line);
    while (rp_printed_next(&p, line, " iteration ", after_iteration))
        if (take_step(src, s, &p, line, err) < 0)
            return -1;
    return 0;
}

static int megatron_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct megatron_log *s = state;
    struct rp_imported *d = &src->draft;
    if (s->batch > 0)
        rp_imported_count(d, "global_batch", s->batch, s->batch_line);
    else if (s->given_line)
        rp_imported_count(d, "global_batch", s->given_batch, s->given_line);
    if (s->precision_line)
        rp_imported_text(d, "precision", s->precision, s->precision_line);
    if (s->framework)
        rp_imported_text(d, "framework", s->framework, src->window.first_line);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    const char *unit = src->opts->unit                                            ? src->opts->unit
                       : s->language || rp_imported_get(d, "sequence_length") > 0 ? "sequences/s"
                                                                                  : rp_imported_unit(d);
    if (rp_printed_end(&s->printed, src, err) < 0 ||
        rp_window_finish(&src->window, d, unit, unit, &src->lines, err) < 0)
        return -1;
    if (s->skipped)
        rp_imported_note(d, "counted as steps: %" PRId64 " iteration%s skipped by the loss scale", s->skipped,
                         rp_s(s->skipped));
    rp_printed_notes(&s->printed, d);
    return rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_megatron = {
    .name = "megatron",
    .state = sizeof(struct megatron_log),
    .line = megatron_line,
    .end = megatron_end,
};
