/* The GPT report of 2021: each of its cases, with or without a result, with latency, memory and throughput by framework; then FLOP/s and
 * what differs from the published run. */
#include "compare/compare.h"
#include "compare/layout.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FRAMEWORKS_MAX 12
#define COMPARED_MAX 100 /* results whose confounders are listed */
#define PUBLISHED_VOCABULARY 51200 /* of the report's FLOPs, in all cases */

/* ---- FLOPs, of a sequence ---- */

/* As the report has them: forward, backward and forward again, attention to all keys. */
static double published_flops(const struct rp_result *row)
{
    double s = (double)row->sequence_length, l = (double)row->layers, h = (double)row->hidden_size;
    return 96 * s * l * h * h * (1 + s / (6 * h) + PUBLISHED_VOCABULARY / (16 * l * h));
}

/* As plan.flops_per_sample of a feed-forward part of width 4 h: recomputation is not counted, attention is causal. */
static double model_flops(const struct rp_result *row)
{
    double s = (double)row->sequence_length, l = (double)row->layers, h = (double)row->hidden_size, v = (double)row->vocabulary;
    return 3 * (l * (24 * s * h * h + 2 * h * s * (s + 1)) + 2 * s * h * v);
}

/* Sequences per second and device. A published latency has more digits than the throughput next to it. */
static double rate_of(const struct rp_result *row)
{
    int known = row->devices > 0 && row->unit && strcmp(row->unit, "sequences/s") == 0;
    double rate = row->source.kind == RP_RESULT_PUBLISHED && !isnan(row->latency_ms) && row->global_batch > 0
                      ? (double)row->global_batch / (row->latency_ms / 1000)
                      : row->throughput;
    return known ? rate / (double)row->devices : NAN;
}

static int has_sizes(const struct rp_result *row)
{
    return row->sequence_length > 0 && row->layers > 0 && row->hidden_size > 0;
}

/* ---- results of a case ---- */

static int is_gpt(const struct rp_result *row)
{
    return row->model && strncasecmp(row->model, "gpt", 3) == 0;
}

/* Does the result belong to the case: degrees, batch and model. */
static int fits(const struct rp_result *row, const struct rp_result *of)
{
    return row->data_parallel == of->data_parallel && row->tensor_parallel == of->tensor_parallel &&
           row->pipeline_parallel == of->pipeline_parallel && row->global_batch == of->global_batch &&
           row->hidden_size == of->hidden_size && row->layers == of->layers && row->sequence_length == of->sequence_length && is_gpt(row);
}

/* A published result belongs only to the case that it names: two cases of the report are the same work. */
static int belongs_to(const struct rp_result *row, const struct rp_result *of)
{
    if (!fits(row, of))
        return 0;
    return row->source.kind != RP_RESULT_PUBLISHED || !row->label || !of->label || strcmp(row->label, of->label) == 0;
}

/* Each case has a line per framework. */
static int is_first_of_case(const struct rp_rows *report, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(report->row[k].label, report->row[i].label) == 0)
            return 0;
    return 1;
}

static void put_measured(struct rp_doc *d, double x, int decimals)
{
    if (isnan(x))
        rp_doc_text(d, NULL, RP_NO_EVIDENCE);
    else
        rp_doc_cell(d, "%.*f", decimals, x);
}

/* Returns how many results belong there; the first is shown. */
static int put_cells(struct rp_doc *d, const struct rp_rows *rows, const char *framework, const struct rp_result *of)
{
    const struct rp_result *row = NULL;
    int n = 0;
    for (int i = 0; i < rows->n; i++) {
        RP_FREE char *name = rp_result_name(&rows->row[i]);
        if (strcmp(name, framework) != 0 || !belongs_to(&rows->row[i], of))
            continue;
        row = row ? row : &rows->row[i];
        n++;
    }
    put_measured(d, row ? row->latency_ms : NAN, 2);
    put_measured(d, row ? row->memory_mib_per_device : NAN, 0);
    rp_layout_throughput(d, row, n);
    return n;
}

static void put_header(struct rp_doc *d, const struct rp_layout_names *frameworks)
{
    rp_doc_table(d, "case|#nodes|#GPUs per node|#data x tensor x pipeline|#micro-batch|#global batch|#hidden x layers");
    for (int f = 0; f < frameworks->n; f++) {
        const char *name = frameworks->name[f], *gap = *name ? " " : "";
        rp_doc_column(d, 1, "%s%slatency (ms)", name, gap);
        rp_doc_column(d, 1, "%s%smemory (MiB)", name, gap);
        rp_doc_column(d, 1, "%s%ssequences/s", name, gap);
    }
}

/* Devices, and the ranks of the case where these are more. */
static void put_ranks(struct rp_doc *d, const struct rp_result *row)
{
    int64_t ranks = row->data_parallel * row->tensor_parallel * row->pipeline_parallel; /* those of a case of the report */
    if (row->devices > 0 && row->devices < ranks)
        rp_doc_cell(d, "%lld, with the arithmetic of %lld ranks", (long long)row->devices, (long long)ranks);
    else
        rp_result_cells(d, row, "devices", RP_UNKNOWN);
}

static void put_flops(struct rp_doc *d, const struct rp_rows *report, const struct rp_rows *rows)
{
    rp_doc_title(d, "FLOP/s per device");
    rp_doc_table(d, "case|result|precision|hardware|devices|recomputation|#padded vocabulary|#sequences/s|#tokens/s|#TFLOP/s, as published|"
                    "#TFLOP/s, published formula|#TFLOP/s, model FLOPs|evidence");
    for (int i = 0; i < report->n; i++)
        for (int k = 0; k < rows->n; k++) {
            const struct rp_result *r = &rows->row[k];
            if (!is_first_of_case(report, i) || !belongs_to(r, &report->row[i]))
                continue;
            double rate = has_sizes(r) ? rate_of(r) / 1e12 : NAN, own = r->source.kind == RP_RESULT_BUNDLE ? r->tflops_per_device : NAN;
            rp_doc_cell(d, "%s", report->row[i].label);
            rp_result_cells(d, r, "name precision hardware", RP_UNKNOWN);
            put_ranks(d, r);
            rp_result_cells(d, r, "recomputation vocabulary throughput tokens", RP_UNKNOWN);
            put_measured(d, r->source.kind == RP_RESULT_BUNDLE ? NAN : r->tflops_per_device, 2);
            put_measured(d, rate * published_flops(r), 2);
            put_measured(d, !isnan(own) ? own : r->vocabulary > 0 ? rate * model_flops(r) : NAN, 2);
            rp_result_cells(d, r, "evidence", RP_NO_EVIDENCE);
        }
    rp_doc_line(d,
                "Published formula: 96*s*l*h^2*(1 + s/(6h) + V/(16lh)) FLOPs a sequence, with the forward pass computed again and V = %d in "
                "all cases. Model FLOPs: 3*(l*(24*s*h^2 + 2*h*s*(s+1)) + 2*s*h*V), without recomputation, attention to earlier keys only, "
                "V the padded vocabulary; of bundles those of their plan.",
                PUBLISHED_VOCABULARY);
}

/* A bundle against the first published result of its case. */
static void put_difference(struct rp_doc *d, const struct rp_result *published, const struct rp_result *row)
{
    struct rp_result two[2] = {*published, *row}; /* borrowed */
    const struct rp_rows pair = {.row = two, .n = 2};
    enum rp_comparable verdict;
    struct rp_err err;
    RP_JSON *c = rp_compare(&pair, &verdict, &err);
    const json_t *list = json_object_get(json_array_get(json_object_get(c, "pairs"), 0), "confounders");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        rp_doc_cell(d, "%s", published->label);
        rp_doc_text(d, row->source.file, RP_UNKNOWN);
        rp_doc_cell(d, "%s", rp_json_text_at(one, "name"));
        rp_doc_cell(d, "%s", rp_json_text_at(one, "kind"));
        rp_doc_text(d, rp_json_text_at(one, "a"), RP_UNKNOWN);
        rp_doc_text(d, rp_json_text_at(one, "b"), RP_UNKNOWN);
    }
}

static void put_differences(struct rp_doc *d, const struct rp_rows *report, const struct rp_rows *rows)
{
    int begun = 0;
    for (int i = 0; i < report->n; i++)
        for (int k = 0; k < rows->n; k++) {
            if (begun == COMPARED_MAX) {
                rp_doc_line(d, "Of the first %d results; 'repro compare' without --layout has all.", COMPARED_MAX);
                return;
            }
            if (rows->row[k].source.kind == RP_RESULT_PUBLISHED || !is_first_of_case(report, i) ||
                !belongs_to(&rows->row[k], &report->row[i]))
                continue;
            if (!begun++) {
                rp_doc_title(d, "Confounders: what differs from the run that %s published", report->row[i].framework);
                rp_doc_table(d, "case|result|confounder|kind|published|here");
            }
            put_difference(d, &report->row[i], &rows->row[k]);
        }
}

/* How many results belong to no case. */
static int count_others(const struct rp_rows *report, const struct rp_rows *rows)
{
    int others = 0;
    for (int k = 0, i; k < rows->n; k++) {
        for (i = 0; i < report->n && !belongs_to(&rows->row[k], &report->row[i]); i++) {
        }
        others += i == report->n;
    }
    return others;
}

void rp_layout_gpt(struct rp_doc *d, const struct rp_rows *rows)
{
    struct rp_rows report = {0};
    struct rp_layout_names frameworks = {0};
    struct rp_result_opts o = {0};
    struct rp_err err;
    int several = 0;
    RP_BUG_IF(rp_rows_load(&report, "published:gpt_v100", &o, &err) < 0); /* it is inside this program */
    for (int i = 0; i < rows->n; i++) {
        RP_FREE char *name = rp_result_name(&rows->row[i]);
        if (is_gpt(&rows->row[i]) && frameworks.n < FRAMEWORKS_MAX)
            rp_layout_names_add(&frameworks, "%s", name);
    }
    rp_doc_heading(d, "GPT in the layout of the report of 2021");
    rp_layout_footnote(d, rows);
    if (!frameworks.n)
        rp_doc_line(d, "None of the results is of a GPT model: every cell is without evidence.");
    if (!frameworks.n)
        rp_layout_names_add(&frameworks, "%s", "");
    put_header(d, &frameworks);
    for (int i = 0; i < report.n; i++) {
        const struct rp_result *r = &report.row[i];
        if (!is_first_of_case(&report, i))
            continue;
        rp_result_cells(d, r, "label nodes gpus_per_node", RP_UNKNOWN);
        rp_doc_cell(d, "%lldx%lldx%lld", (long long)r->data_parallel, (long long)r->tensor_parallel, (long long)r->pipeline_parallel);
        rp_result_cells(d, r, "micro_batch global_batch", RP_UNKNOWN);
        rp_doc_cell(d, "%lldx%lld", (long long)r->hidden_size, (long long)r->layers);
        for (int f = 0; f < frameworks.n; f++)
            several += put_cells(d, rows, frameworks.name[f], r) > 1;
    }
    if (several)
        rp_doc_line(d, RP_LAYOUT_SEVERAL "; the next table has all.");
    int others = count_others(&report, rows);
    if (others)
        rp_doc_line(d, "Results of no case of the report, which are left out: %d.", others);
    put_flops(d, &report, rows);
    put_differences(d, &report, rows);
    rp_layout_names_fini(&frameworks);
    rp_rows_fini(&report);
}
