/* nanoGPT's train.py (github.com/karpathy/nanoGPT): `iter 10: loss 3.2202, time 893.76ms, mfu 16.68%`, one line every
 * log_interval steps with the time of that step alone. The time of a step before which `step 250: train loss ...`
 * stands has the evaluation in it, and that of a checkpoint: it does not count. */
#include "base/text.h"
#include "import/printed.h"
#include "import/scan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define EVALUATIONS 64

enum { BLOCK_SIZE, BATCH_SIZE, LAYERS, HEADS, WIDTH, SETTINGS };

/* "key = value" of the configuration that the program prints; the last one holds. */
static const struct {
    const char *key, *fact;
} settings[SETTINGS] = {
    [BLOCK_SIZE] = {"block_size = ", "sequence_length"},
    [BATCH_SIZE] = {"batch_size = ", "batch_per_device"},
    [LAYERS] = {"n_layer = ", "layers"},
    [HEADS] = {"n_head = ", "attention_heads"},
    [WIDTH] = {"n_embd = ", "hidden_size"},
};

struct nanogpt_log {
    struct rp_printed printed;
    int64_t value[SETTINGS], line[SETTINGS];
    int64_t tokens, tokens_line;
    int64_t evaluation[EVALUATIONS], evaluations; /* the last steps that were evaluated */
    int64_t evaluated;                            /* steps that do not count for that */
    int64_t interval;                             /* the fewest steps between two lines */
};

static int is_evaluated(const struct nanogpt_log *s, int64_t step)
{
    for (int64_t i = 0; i < s->evaluations && i < EVALUATIONS; i++)
        if (s->evaluation[i] == step)
            return 1;
    return 0;
}

static const char *after_step(const char *p)
{
    return *p == ':' ? p + 1 : NULL;
}

static void take_setting(struct nanogpt_log *s, const char *line, int64_t number)
{
    for (int i = 0; i < SETTINGS; i++) {
        int64_t v;
        const char *at = rp_scan_after(line, settings[i].key), *end = at ? rp_scan_count(at, &v) : NULL;
        const char *before = at ? at - strlen(settings[i].key) : line;
        if (end && (!*end || *end == ' ') && !strchr(end, '*') && (before == line || before[-1] == ' ')) {
            s->value[i] = v;
            s->line[i] = number;
        }
    }
}

/* "491,520"; 0 where a group has not three digits */
static int64_t read_grouped(const char *p)
{
    int64_t v, all = 0;
    const char *end = rp_scan_count(p, &all);
    for (int groups = 0; end && *end == ','; groups++) {
        const char *next = rp_scan_count(end + 1, &v);
        if (!next || next - end != 4 || groups == 3 || (!groups && all > 999))
            return 0;
        all = all * 1000 + v;
        end = next;
    }
    return end ? all : 0;
}

static void take_tokens(struct rp_import_source *src, struct nanogpt_log *s, const char *text)
{
    int64_t tokens = read_grouped(text);
    rp_printed_header(&s->printed, src);
    if (src->window.closed || tokens < 1)
        return;
    s->tokens = tokens;
    s->tokens_line = src->lines.number;
}

/* An evaluation is printed before its step; behind it, either the lines are out of order or another run has begun. */
static int take_evaluation(struct rp_import_source *src, struct nanogpt_log *s, int64_t step, struct rp_err *err)
{
    const struct rp_log_window *w = &src->window;
    if (s->printed.second)
        return 0;
    if (w->timed && step >= w->first && step <= w->before && !is_evaluated(s, step))
        return rp_lines_fail(&src->lines, err,
                             "the evaluation of step %" PRId64 " follows step %" PRId64
                             ": either its time is in a step that counts, or "
                             "a second run begins here; choose steps before it with --to %" PRId64,
                             step, w->before, step > 0 ? step - 1 : 0);
    s->evaluation[s->evaluations++ % EVALUATIONS] = step;
    return 0;
}

static int take_step(struct rp_import_source *src, struct nanogpt_log *s, const struct rp_printed_part *p,
                     struct rp_err *err)
{
    int counts, closed = src->window.closed;
    struct rp_step step = {.epoch = -1,
                           .step = p->step,
                           .time = NAN,
                           .duration = rp_printed_real(p->text, "time ", "ms") / 1000,
                           .rate = NAN};
    if (!strstr(p->text, "loss "))
        return 0;
    if (!(step.duration > 0)) {
        rp_printed_damaged(&s->printed, src);
        return 0;
    }
    if (is_evaluated(s, p->step) && (src->window.steps_seen || !src->window.skip_first)) {
        s->evaluated += !src->window.closed;
        return 0;
    }
    if (rp_printed_step(&s->printed, src, &step, NAN, &counts, err) < 0)
        return -1;
    if (counts && (!s->interval || src->window.gap < s->interval))
        s->interval = src->window.gap;
    return src->window.closed == closed
               ? 0
               : rp_lines_fail(&src->lines, err,
                               "step %" PRId64 " follows step %" PRId64
                               ", and nothing between them says that a run begins: either the lines are out of order, "
                               "or the log is of two runs; import each run alone",
                               p->step, src->window.before);
}

static int nanogpt_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct nanogpt_log *s = state;
    struct rp_printed_part p = {0}, e = {0};
    (void)size;
    const char *tokens = rp_scan_after(line, "tokens per iteration will be:");
    if (strstr(line, "number of parameters: "))
        rp_printed_header(&s->printed, src);
    if (tokens)
        take_tokens(src, s, tokens);
    else if (!src->window.steps_seen)
        take_setting(s, line, src->lines.number);
    while (rp_printed_next(&e, line, "step ", after_step))
        if (take_evaluation(src, s, e.step, err) < 0)
            return -1;
    while (rp_printed_next(&p, line, "iter ", after_step))
        if (take_step(src, s, &p, err) < 0)
            return -1;
    return 0;
}

static int nanogpt_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct nanogpt_log *s = state;
    struct rp_imported *d = &src->draft;
    for (int i = 0; i < SETTINGS; i++)
        if (s->line[i])
            rp_imported_count(d, settings[i].fact, s->value[i], s->line[i]);
    rp_imported_text(d, "framework", "nanoGPT", src->window.first_line);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    const char *unit = src->opts->unit ? src->opts->unit : "sequences/s";
    if (rp_printed_tokens(src, s->tokens, s->tokens_line, err) < 0 || rp_printed_end(&s->printed, src, err) < 0 ||
        rp_window_finish(&src->window, d, unit, unit, &src->lines, err) < 0)
        return -1;
    if (s->evaluated)
        rp_imported_note(d, "not counted: %" PRId64 " step%s with an evaluation in the time", s->evaluated,
                         rp_s(s->evaluated));
    if (s->interval > 1) /* its pull request 527 */
        rp_imported_note(d,
                         "the log times one step of %" PRId64
                         " and does not wait for the device: the time may be short; log_interval=1 times all",
                         s->interval);
    rp_printed_notes(&s->printed, d);
    return rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_nanogpt = {
    .name = "nanogpt",
    .state = sizeof(struct nanogpt_log),
    .line = nanogpt_line,
    .end = nanogpt_end,
};
