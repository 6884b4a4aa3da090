/* llm.c (github.com/karpathy/llm.c), train_gpt2.cu, train_gpt2.c and train_gpt2.py, in the forms that they have had,
 * each of them one line:
 *
 *     step   61/74 | loss 3.208939 (+nanz)| norm 1.4800 (+nanz)| lr 3.00e-04 | 44.57 ms | -100.0% bf16 MFU |
 *         91886 tok/s
 *     step    1/74: train loss 4.367631 (acc 4.367631) (62.335312 ms, 65709 tok/s)
 *     step 1: train loss 4.367631 (took 1234.500000 ms)
 *     iteration 1, loss: 4.3677, time: 1234.500ms, tok/s: 13271.75, norm: 1.480
 *
 * The time is that of the step, without evaluation; tokens per second are a moving mean in newer versions. Facts come
 * from the table that the program prints, `| sequence length T     | 1024 |`. */
#include "import/printed.h"
#include "import/scan.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *row, *fact;
} rows[] = {
    {"| micro batch size B ", "batch_per_device"},
    {"| batch size B ", "batch_per_device"},
    {"| sequence length T ", "sequence_length"},
    {"| num_processes ", "devices"},
    {"| num_layers L ", "layers"},
    {"| num_heads NH ", "attention_heads"},
    {"| channels C ", "hidden_size"},
    {"| num_parameters ", "parameters"},
    {"| device ", "device_model"},
};

struct llmc_log {
    struct rp_printed printed;
    int64_t tokens, tokens_line;
};

static const char *precision_of(const char *text)
{
    static const char *const names[][2] = {{"BF16", "bf16"}, {"FP16", "fp16"}, {"TF32", "tf32"}, {"FP32", "fp32"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(text, names[i][0]))
            return names[i][1];
    return "";
}

/* "| sequence length T     | 1024                      |" */
static void take_row(struct rp_import_source *src, struct llmc_log *s, const char *line)
{
    int64_t accumulation = rp_printed_whole(line, "=> setting grad_accum_steps=", "");
    if (accumulation > 0)
        rp_imported_count(&src->draft, "accumulation", accumulation, src->lines.number);
    int64_t tokens;
    const char *at = rp_scan_after(line, "total desired batch size: "), *bar;
    const char *after = at ? rp_scan_count(at, &tokens) : NULL;
    if (after && !*after && !src->lines.cut) { /* not with another line behind it */
        s->tokens = tokens;
        s->tokens_line = src->lines.number;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((at = rp_scan_after(line, rows[i].row)) && (at = strchr(at, '|')) && (bar = strchr(at + 1, '|'))) {
            RP_FREE char *value = rp_asprintf("%.*s", (int)(bar - at - 1), at + 1);
            char *text = value + strspn(value, " "), *end = text + strlen(text);
            while (end > text && end[-1] == ' ')
                *--end = 0;
            rp_imported_fact(&src->draft, rows[i].fact, text, src->lines.number);
        }
    if ((at = rp_scan_after(line, "| precision ")) && (at = strchr(at, '|')))
        rp_imported_text(&src->draft, "precision", precision_of(at), src->lines.number);
    if ((at = rp_scan_after(line, "| total batch size ")) && (at = strchr(at, '|')) &&
        rp_scan_count(at + 1, &s->tokens))
        s->tokens_line = src->lines.number;
}

/* "/74 |", "/74:", ":" */
static const char *after_step(const char *p)
{
    int64_t all;
    if (*p == '/' && !(p = rp_scan_count(p + 1, &all)))
        return NULL;
    return *p == ':' || strncmp(p, " |", 2) == 0 ? p : NULL;
}

static double duration_of(const char *text)
{
    static const char *const units[] = {" ms |", " ms)", " ms,"};
    double v = NAN;
    for (size_t i = 0; i < sizeof units / sizeof *units && isnan(v); i++)
        v = rp_printed_before(text, units[i]);
    return (isnan(v) ? rp_printed_real(text, ", time: ", "ms") : v) / 1000;
}

/* ", loss: 4.3677, " of train_gpt2.py until June 2024 (at c413bfe of llm.c, for one) */
static const char *after_iteration(const char *p)
{
    return strncmp(p, ", loss: ", 8) == 0 ? p : NULL;
}

/* Its rate, which may end the line, has two decimals: fewer are of a number that was cut. */
static double rate_of_iteration(const char *text)
{
    double v = NAN;
    const char *at = rp_scan_after(text, ", tok/s: "), *end = at ? rp_scan_real(at, &v) : NULL;
    const char *point = at ? strchr(at, '.') : NULL;
    return end && point && end == point + 3 && (!*end || *end == ',') ? v : NAN;
}

static int take_step(struct rp_import_source *src, struct llmc_log *s, const struct rp_printed_part *p,
                     struct rp_err *err)
{
    int counts;
    struct rp_step step = {.epoch = -1,
                           .step = p->step,
                           .time = NAN,
                           .duration = duration_of(p->text),
                           .rate = rp_printed_before(p->text, " tok/s")};
    if (isnan(step.rate))
        step.rate = rate_of_iteration(p->text);
    if (!strstr(p->text, "loss ") && !strstr(p->text, "loss: "))
        return 0;
    if (!(step.duration > 0)) {
        rp_printed_damaged(&s->printed, src);
        return 0;
    }
    return rp_printed_step(&s->printed, src, &step, NAN, &counts, err);
}

static int llmc_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct llmc_log *s = state;
    struct rp_printed_part p = {0};
    (void)size;
    if (strstr(line, "| Parameter "))
        rp_printed_header(&s->printed, src);
    else if (!src->window.closed)
        take_row(src, s, line);
    while (rp_printed_next(&p, line, "step ", after_step))
        if (take_step(src, s, &p, err) < 0)
            return -1;
    p = (struct rp_printed_part){0};
    while (rp_printed_next(&p, line, "iteration ", after_iteration))
        if (take_step(src, s, &p, err) < 0)
            return -1;
    return 0;
}

static int llmc_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct llmc_log *s = state;
    struct rp_imported *d = &src->draft;
    rp_imported_text(d, "framework", "llm.c", src->window.first_line);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    if (rp_printed_tokens(src, s->tokens, s->tokens_line, err) < 0 || rp_printed_end(&s->printed, src, err) < 0 ||
        rp_window_finish(&src->window, d, src->opts->unit ? src->opts->unit : "sequences/s", "tokens/s", &src->lines,
                         err) < 0)
        return -1;
    rp_printed_notes(&s->printed, d);
    return rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_llmc = {
    .name = "llmc",
    .state = sizeof(struct llmc_log),
    .line = llmc_line,
    .end = llmc_end,
};
