/* The renderer of tables: columns of layouts.def, and what the words in them mean. */
#include "compare/layout.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "compare/compare.h"
#include "report/figure.h"
#include "run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *copy_of(const char *text)
{
    return text ? rp_strdup(text) : NULL;
}

static char *number_text(double x, const char *form)
{
    const int digits = *form ? form[1] - '0' : 0;
    if (isnan(x))
        return NULL;
    switch (*form) {
    case 'd':
        return rp_asprintf("%.*f", digits, x);
    case '%':
        return rp_asprintf("%.*f %%", digits, 100 * x);
    case 'x':
        return rp_asprintf("%.*gx", digits, x);
    }
    return rp_asprintf("%.10g", x);
}

/* ---- results ---- */

/* As published, or of a bundle; marked where it does not verify, or is one of several. */
static char *throughput_of(const struct rp_line *c)
{
    const struct rp_result *row = c->row;
    char text[32], several[32] = "";
    if (isnan(row->throughput))
        return rp_strdup(RP_NO_EVIDENCE);
    if (c->several > 1)
        RP_FORMAT(several, " (first of %d)", c->several);
    return rp_asprintf("%s%s%s", rp_result_figure(text, row->throughput, row->source.kind == RP_RESULT_PUBLISHED),
                       row->source.kind == RP_RESULT_BUNDLE && !row->source.signed_by ? " (NOT VERIFIED)" : "",
                       several);
}

/* How it is verified. */
static char *status_of(const struct rp_line *c)
{
    const struct rp_result_source *s = &c->row->source;
    if (s->kind == RP_RESULT_COMMAND)
        return rp_asprintf("%s%s%s; " RP_MEASURED_BY_LOG, s->key_known ? "signed" : "signed, key unknown",
                           s->warnings ? ", with warnings: " : "", s->warnings ? s->warnings : "");
    if (s->kind != RP_RESULT_BUNDLE)
        return rp_strdup(rp_result_unsigned_text(s));
    if (!s->signed_by)
        return rp_strdup(s->verdict ? s->verdict : "");
    return rp_asprintf("%s%s%s; speed claimed", s->key_known ? "signed, consistent" : "consistent, key unknown",
                       s->warnings ? ", with warnings: " : "", s->warnings ? s->warnings : "");
}

/* FILE or FILE:LINE, and the names of raw logs */
static char *source_of(const struct rp_result *row, int with_links)
{
    RP_BUF text = {0};
    rp_buf_puts(&text, row->source.file ? row->source.file : "");
    if (row->source.line > 0)
        rp_buf_printf(&text, ":%" PRId64, row->source.line);
    for (int i = 0; i < row->links && with_links; i++)
        rp_buf_printf(&text, "%s %s", i ? "," : ":", row->link[i]);
    return rp_buf_take(&text);
}

static char *log_of(const struct rp_line *c)
{
    RP_FREE char *source = source_of(c->row, c->row->source.kind != RP_RESULT_PUBLISHED);
    if (c->row->source.kind != RP_RESULT_PUBLISHED)
        return rp_strdup(source);
    return rp_asprintf("%s: %s is the published figure only", RP_NO_EVIDENCE, source);
}

/* "6.311 to 6.424 (n = 6)": n is the number of steps, or of repeats or lines of an import; left out if unknown. */
static char *interval_of(const struct rp_line *c)
{
    char low[32], high[32];
    if (isnan(c->row->low) || isnan(c->row->high))
        return NULL;
    rp_result_figure(low, c->row->low, 0);
    rp_result_figure(high, c->row->high, 0);
    return c->row->samples < 1 ? rp_asprintf("%s to %s", low, high)
                               : rp_asprintf("%s to %s (n = %" PRId64 ")", low, high, c->row->samples);
}

/* ---- devices and ranks ---- */

static char *count_of(int64_t n)
{
    return n < 0 ? NULL : rp_asprintf("%" PRId64, n);
}

static char *devices_and_hardware_of(const struct rp_line *c)
{
    RP_FREE char *hardware = rp_result_hardware(c->row);
    const int64_t ranks = rp_result_ranks(c->row);
    if (ranks <= 1)
        return copy_of(hardware);
    return rp_asprintf("%" PRId64 " ranks, %s", ranks, hardware ? hardware : RP_UNKNOWN);
}

/* Devices, and the ranks of the case of the report where it was computed by fewer. */
static char *devices_and_ranks_of(const struct rp_line *c)
{
    const struct rp_result *row = c->row;
    int64_t ranks = row->data_parallel * row->tensor_parallel * row->pipeline_parallel;
    if (row->devices > 0 && rp_result_ranks(row) < ranks)
        return rp_asprintf("%lld, with the arithmetic of %lld ranks", (long long)row->devices, (long long)ranks);
    return count_of(row->devices);
}

static char *degrees_of(const struct rp_line *c)
{
    const struct rp_result *row = c->row;
    if (row->rank_layout || row->data_parallel <= 0 || row->tensor_parallel <= 0 || row->pipeline_parallel <= 0)
        return copy_of(row->rank_layout);
    return rp_asprintf("%lldx%lldx%lld", (long long)row->data_parallel, (long long)row->tensor_parallel,
                       (long long)row->pipeline_parallel);
}

/* One rank exchanges nothing, and is no slower than another. */
static char *share_of(const struct rp_result *row, double share)
{
    if (rp_result_ranks(row) <= 1)
        return rp_strdup("-");
    return isnan(share) ? NULL : rp_asprintf("%.1f %%", 100 * share);
}

static char *slowest_of(const struct rp_line *c)
{
    if (c->row->slowest_rank < 0 || rp_result_ranks(c->row) <= 1)
        return share_of(c->row, NAN);
    return rp_asprintf("%lld of node %lld", (long long)c->row->slowest_rank, (long long)c->row->slowest_node);
}

/* ---- against another result ---- */

/* Another result of one device is a repeat, not a speed-up. */
static char *over_one_device(const struct rp_line *c)
{
    const struct rp_result *one = c->base, *row = c->row;
    if (!one || !one->unit || !row->unit || strcmp(one->unit, row->unit) != 0)
        return NULL;
    if (row != one && row->devices <= 1)
        return rp_strdup("-");
    return rp_asprintf("%.2f", row->throughput / one->throughput);
}

static char *against_of(const struct rp_line *c)
{
    RP_READ(scaling_entry, entry, c->entry);
    /* without devices it has no place in a series */
    return entry.devices > 0 ? rp_asprintf("%lld", (long long)entry.base + 1) : NULL;
}

/* The batch of a step over all devices, and how it follows their number. */
static char *global_batch_scaling_of(const struct rp_line *c)
{
    RP_READ(scaling_entry, entry, c->entry);
    const char *how = rp_text_or_empty(entry.global_batch);
    if (c->row->global_batch <= 0)
        return NULL;
    return rp_asprintf("%lld%s%s", (long long)c->row->global_batch, *how ? ", " : "", how);
}

static char *ratio_interval_of(const struct rp_line *c)
{
    RP_READ(pair, compared, c->entry);
    char a[32], b[32];
    if (!compared.ratio || isnan(compared.ratio->low))
        return compared.ratio && compared.ratio->no_interval ? rp_strdup("no records") : NULL;
    return rp_asprintf("%s to %s", rp_result_figure(a, compared.ratio->low, 0),
                       rp_result_figure(b, compared.ratio->high, 0));
}

/* "batch per device, data", "none"; of the first result, which has no pair, nothing */
static char *confounders_of(const struct rp_line *c)
{
    RP_BUF text = {0};
    RP_READ(pair, compared, c->entry);
    for (int64_t i = 0; i < compared.confounders_n; i++)
        rp_buf_printf(&text, "%s%s", i ? ", " : "", compared.confounders[i].name);
    return text.size ? rp_buf_take(&text) : compared.confounders ? rp_strdup("none") : NULL;
}

/* "large: hardware +7": the first of the largest effect, and how many others; "none"; of the first result nothing. */
static char *gravest_of(const struct rp_line *c)
{
    RP_READ(pair, compared, c->entry);
    char more[32] = "";
    if (!compared.confounders_n)
        return compared.confounders ? rp_strdup("none") : NULL;
    if (compared.confounders_n > 1)
        RP_FORMAT(more, " +%lld", (long long)compared.confounders_n - 1);
    return rp_asprintf("%s: %.24s%s", compared.confounders[0].effect, compared.confounders[0].name, more);
}

/* A bundle is titled by its file: many have the same framework. */
static char *title_of(const struct rp_result *row)
{
    const int is_bundle = row->source.kind == RP_RESULT_BUNDLE || row->source.kind == RP_RESULT_COMMAND;
    return is_bundle && row->source.file ? rp_strdup(rp_base_name(row->source.file)) : rp_result_name(row);
}

/* ---- a GPT ---- */

/* FLOPs of a sequence as the report has them: forward, backward and forward again, attention to all keys. */
static double published_flops(const struct rp_result *row)
{
    double s = (double)row->sequence_length, l = (double)row->layers, h = (double)row->hidden_size;
    return 96 * s * l * h * h * (1 + s / (6 * h) + RP_GPT_PUBLISHED_VOCABULARY / (16 * l * h));
}

/* As plan.flops_per_sample of a feed-forward part of width 4 h: recomputation is not counted, attention is causal. */
static double model_flops(const struct rp_result *row)
{
    double s = (double)row->sequence_length, l = (double)row->layers, h = (double)row->hidden_size,
           v = (double)row->vocabulary;
    return 3 * (l * (24 * s * h * h + 2 * h * s * (s + 1)) + 2 * s * h * v);
}

/* Sequences per second and device over 10^12. A published latency has more digits than the throughput next to it. */
static double tera_rate(const struct rp_result *row)
{
    int known = row->devices > 0 && row->unit && strcmp(row->unit, "sequences/s") == 0 && row->sequence_length > 0 &&
                row->layers > 0 && row->hidden_size > 0;
    double rate = row->source.kind == RP_RESULT_PUBLISHED && !isnan(row->latency_ms) && row->global_batch > 0
                      ? (double)row->global_batch / (row->latency_ms / 1000)
                      : row->throughput;
    return known ? rate / (double)row->devices / 1e12 : NAN;
}

static double tflops_of_model(const struct rp_result *row)
{
    if (row->source.kind == RP_RESULT_BUNDLE && !isnan(row->tflops_per_device))
        return row->tflops_per_device;
    return row->vocabulary > 0 ? tera_rate(row) * model_flops(row) : NAN;
}

/* ---- words ---- */

static char *property_of(const struct rp_result *row, const char *key, const char *form)
{
    char text[RP_RESULT_TEXT_MAX + 1];
    if (*form)
        return number_text(rp_result_real(row, key), form);
    RP_BUG_IF(rp_result_get(text, sizeof text, row, key) < 0);
    return rp_strdup(text);
}

/* NULL or "": unknown; free() it. */
static char *text_of_word(const struct rp_line *c, const char *word, const char *form)
{
    const struct rp_result *row = c->row;
    const int is_published = row->source.kind == RP_RESULT_PUBLISHED, has_gpus = row->gpus_per_node != 0;
    char text[32];
#define WORD(name, text)                                                                                               \
    do                                                                                                                 \
        if (strcmp(word, name) == 0)                                                                                   \
            return (text);                                                                                             \
    while (0)
#define NUMBER(x) number_text(x, form)
    WORD("name", rp_result_name(row));
    WORD("arithmetic_shown", copy_of(row->arithmetic ? row->arithmetic : row->precision));
    WORD("hardware", rp_result_hardware(row));
    WORD("throughput", throughput_of(c));
    WORD("rate",
         rp_asprintf("%s %s", rp_result_figure(text, row->throughput, is_published), row->unit ? row->unit : ""));
    WORD("unit", copy_of(row->unit));
    WORD("value", NUMBER(row->throughput));
    WORD("low", NUMBER(row->low));
    WORD("high", NUMBER(row->high));
    WORD("interval", interval_of(c));
    WORD("records", row->samples > 0 ? count_of(row->samples) : NULL);
    WORD("tokens", NUMBER(rp_result_tokens(row)));
    WORD("signer", copy_of(row->source.signed_by));
    WORD("status", status_of(c));
    WORD("file", copy_of(row->source.file));
    WORD("source", source_of(row, 0));
    WORD("evidence", source_of(row, 1));
    WORD("log", log_of(c));
    WORD("gpus", has_gpus ? count_of(row->gpus_per_node) : rp_strdup("0 (CPU)"));
    WORD("accelerator", has_gpus ? copy_of(row->device_model) : rp_strdup("none"));
    WORD("accelerators", has_gpus ? count_of(row->devices) : rp_strdup("0"));
    WORD("devices_and_hardware", devices_and_hardware_of(c));
    WORD("devices_and_ranks", devices_and_ranks_of(c));
    WORD("degrees", degrees_of(c));
    WORD("in_exchanges", share_of(row, row->exchange_share));
    WORD("in_waits", share_of(row, row->wait_share));
    WORD("slowest", slowest_of(c));
    WORD("over_one_device", over_one_device(c));
    WORD("against", against_of(c));
    WORD("global_batch_scaling", global_batch_scaling_of(c));
    WORD("ratio_interval", ratio_interval_of(c));
    WORD("confounders", confounders_of(c));
    WORD("gravest", gravest_of(c));
    WORD("title", title_of(row));
    WORD("case", copy_of(c->base->label));
    WORD("size", row->layers > 0 ? rp_asprintf("%" PRId64 "x%" PRId64, row->hidden_size, row->layers) : NULL);
    WORD("tflops_published", NUMBER(row->source.kind == RP_RESULT_BUNDLE ? NAN : row->tflops_per_device));
    WORD("tflops_by_formula", NUMBER(tera_rate(row) * published_flops(row)));
    WORD("tflops_of_model", NUMBER(tflops_of_model(row)));
    return property_of(row, word, form);
#undef WORD
#undef NUMBER
}

static char *text_of(const struct rp_line *line, const char *word, const char *form)
{
    RP_BUF text = {0};
    const json_t *value = *word == '/' ? rp_json_at(line->entry, word + 1) : NULL;
    if (*word == '/')
        return json_is_number(value) ? number_text(json_number_value(value), form) : copy_of(json_string_value(value));
    if (strcmp(word, "number") == 0)
        return rp_asprintf("%" PRId64, line->number);
    if (!line->row)
        return NULL;
    if (!strchr(word, '.'))
        return text_of_word(line, word, form);
    value = rp_value_at(rp_group(line->row->environment, "probes"), word);
    return rp_form(&text, value, "u") == 0 ? rp_buf_take(&text) : NULL;
}

/* ---- tables ---- */

static const struct {
    const char *missing, *columns;
} tables[] = {
#define TABLE(id, missing, columns) {missing, columns},
#include "compare/layouts.def"
};

struct layout_column {
    char title[64], word[48], form[4], missing[16];
    int optional, number, varying;
};

static const char *take_part(char *out, size_t size, const char *from, const char *ends)
{
    const size_t n = strcspn(from, ends);
    RP_BUG_IF(n >= size);
    memcpy(out, from, n);
    out[n] = 0;
    return from + n;
}

/* The column at *at of a table, and *at to the next one; 0: there is none. */
static int next_column(struct layout_column *c, const char **at, enum rp_layout_table table)
{
    const char *p = *at ? *at : tables[table].columns;
    if (*at && !*p)
        return 0;
    *c = (struct layout_column){.optional = *p == '+', .varying = *p == '*'};
    p += c->optional + c->varying;
    c->number = *p == '#';
    p = take_part(c->title, sizeof c->title, p + c->number, "=|");
    RP_FORMAT(c->word, "%.47s", c->title);
    RP_FORMAT(c->missing, "%s", tables[table].missing);
    if (*p == '=')
        p = take_part(c->word, sizeof c->word, p + 1, ":?|");
    if (*p == ':')
        p = take_part(c->form, sizeof c->form, p + 1, "?|");
    if (*p == '?')
        p = take_part(c->missing, sizeof c->missing, p + 1, "|");
    *at = p + (*p == '|');
    return 1;
}

void rp_layout_columns(struct rp_doc *d, enum rp_layout_table table, int optional, const char *prefix)
{
    struct layout_column c;
    for (const char *at = NULL; next_column(&c, &at, table);)
        if (optional || !c.optional)
            rp_doc_column(d, c.number, "%s%s", prefix, c.title);
}

void rp_layout_begin(struct rp_doc *d, enum rp_layout_table table, int optional)
{
    rp_doc_table(d, NULL);
    rp_layout_columns(d, table, optional, "");
}

void rp_layout_cells(struct rp_doc *d, enum rp_layout_table table, int optional, const struct rp_line *line)
{
    struct layout_column c;
    for (const char *at = NULL; next_column(&c, &at, table);) {
        RP_FREE char *text = optional || !c.optional ? text_of(line, c.word, c.form) : NULL;
        if (optional || !c.optional)
            rp_doc_text(d, text, line->row ? c.missing : RP_NO_EVIDENCE);
    }
}

/* The cell of all lines, "" where nothing is known of any; free() it. NULL: they differ. */
static char *common_cell(const struct layout_column *c, const struct rp_line *line, int n)
{
    char *first = text_of(line, c->word, c->form);
    first = first ? first : rp_strdup("");
    for (int i = 1; i < n && first; i++) {
        RP_FREE char *text = text_of(&line[i], c->word, c->form);
        if (strcmp(text ? text : "", first) == 0)
            continue;
        free(first);
        first = NULL;
    }
    return first;
}

void rp_layout_varying(struct rp_doc *d, enum rp_layout_table table, const struct rp_line *line, int n)
{
    enum { COLUMNS_MAX = 32 };
    struct layout_column c, kept[COLUMNS_MAX];
    RP_BUF common = {0};
    int columns = 0;
    for (const char *at = NULL; next_column(&c, &at, table);) {
        RP_FREE char *cell = c.varying ? common_cell(&c, line, n) : NULL;
        if (cell && !*cell)
            continue;
        if (cell)
            rp_buf_printf(&common, "%s%s %s", common.size ? ", " : "", c.title, cell);
        else if (columns < COLUMNS_MAX)
            kept[columns++] = c;
    }
    if (common.size)
        rp_doc_line(d, "all: %s", rp_buf_text(&common));
    rp_doc_table(d, NULL);
    for (int k = 0; k < columns; k++)
        rp_doc_column(d, kept[k].number, "%s", kept[k].title);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < columns; k++) {
            RP_FREE char *text = text_of(&line[i], kept[k].word, kept[k].form);
            rp_doc_text(d, text, kept[k].missing);
        }
}

void rp_layout_turned(struct rp_doc *d, enum rp_layout_table table, const struct rp_line *line)
{
    const json_t *probes = rp_group(line->row->environment, "probes");
    struct layout_column c;
    for (const char *at = NULL; next_column(&c, &at, table);) {
        RP_FREE char *text = text_of(line, c.word, c.form);
        rp_doc_cell(d, "%s", c.title);
        if (text)
            rp_doc_cell(d, "%s", text);
        else
            rp_doc_cell(d, "%s (%s)", c.missing, rp_state_at(probes, c.word));
    }
}
