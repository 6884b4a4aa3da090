/* Cases of the GPT report of 2021, each with or without a result, by framework; then FLOP/s and what differs from the
 * published run. */
#include "compare/compare.h"
#include "compare/layout.h"

#include "base/json.h"

#include <string.h>
#include <strings.h>

#define FRAMEWORKS_MAX 12
#define COMPARED_MAX 100 /* results whose confounders are listed */

static int is_gpt(const struct rp_result *row)
{
    return row->model && strncasecmp(row->model, "gpt", 3) == 0;
}

/* Does the result belong to the case: degrees, batch and model. */
static int fits(const struct rp_result *row, const struct rp_result *of)
{
    return row->data_parallel == of->data_parallel && row->tensor_parallel == of->tensor_parallel &&
           row->pipeline_parallel == of->pipeline_parallel && row->global_batch == of->global_batch &&
           row->hidden_size == of->hidden_size && row->layers == of->layers &&
           row->sequence_length == of->sequence_length && is_gpt(row);
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

/* Cells of the first result of a framework; returns how many belong there. */
static int put_framework(struct rp_doc *d, const struct rp_rows *rows, const char *framework,
                         const struct rp_result *of)
{
    struct rp_line line = {0};
    for (int i = 0; i < rows->n; i++) {
        RP_FREE char *name = rp_result_name(&rows->row[i]);
        if (strcmp(name, framework) == 0 && belongs_to(&rows->row[i], of) && !line.several++)
            line.row = &rows->row[i];
    }
    rp_layout_cells(d, RP_TABLE_gpt_framework, 0, &line);
    return line.several;
}

static void put_cases(struct rp_doc *d, const struct rp_rows *report, const struct rp_rows *rows,
                      const struct rp_layout_names *frameworks)
{
    int several = 0;
    rp_layout_begin(d, RP_TABLE_gpt, 0);
    for (int f = 0; f < frameworks->n; f++) {
        RP_FREE char *prefix = rp_asprintf("%s%s", frameworks->name[f], *frameworks->name[f] ? " " : "");
        rp_layout_columns(d, RP_TABLE_gpt_framework, 0, prefix);
    }
    for (int i = 0; i < report->n; i++) {
        if (!is_first_of_case(report, i))
            continue;
        rp_layout_cells(d, RP_TABLE_gpt, 0, &(struct rp_line){.row = &report->row[i]});
        for (int f = 0; f < frameworks->n; f++)
            several += put_framework(d, rows, frameworks->name[f], &report->row[i]) > 1;
    }
    if (several)
        rp_doc_line(d, RP_SEVERAL "; the next table has all.");
}

static void put_flops(struct rp_doc *d, const struct rp_rows *report, const struct rp_rows *rows)
{
    rp_doc_title(d, "FLOP/s per device");
    rp_layout_begin(d, RP_TABLE_gpt_flops, 0);
    for (int i = 0; i < report->n; i++)
        for (int k = 0; k < rows->n && is_first_of_case(report, i); k++)
            if (belongs_to(&rows->row[k], &report->row[i]))
                rp_layout_cells(d, RP_TABLE_gpt_flops, 0,
                                &(struct rp_line){.row = &rows->row[k], .base = &report->row[i]});
    rp_doc_line(d,
                "Published formula: 96*s*l*h^2*(1 + s/(6h) + V/(16lh)) FLOPs a sequence, with the forward pass "
                "computed again and V = %d in all cases. Model FLOPs: 3*(l*(24*s*h^2 + 2*h*s*(s+1)) + 2*s*h*V), "
                "without recomputation, attention to earlier keys only, V the padded vocabulary; of bundles those of "
                "their plan.",
                RP_GPT_PUBLISHED_VOCABULARY);
}

/* A bundle against the first published result of its case. */
static void put_difference(struct rp_doc *d, const struct rp_result *published, const struct rp_result *row)
{
    struct rp_result two[2] = {*published, *row}; /* borrowed */
    const struct rp_rows pair = {.row = two, .n = 2};
    enum rp_comparable verdict;
    struct rp_err err;
    RP_COMPARISON c = {0};
    if (rp_compare(&c, &pair, &verdict, &err) < 0)
        return;
    for (int64_t i = 0; i < c.pairs->confounders_n; i++) {
        RP_JSON *entry = rp_object_json(&c.pairs->confounders[i], &rp_type_confounding);
        rp_layout_cells(d, RP_TABLE_gpt_confounders, 0,
                        &(struct rp_line){.row = row, .base = published, .entry = entry});
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
                rp_layout_begin(d, RP_TABLE_gpt_confounders, 0);
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

void rp_cases_put(struct rp_doc *d, const struct rp_rows *rows)
{
    struct rp_rows report = {0};
    struct rp_layout_names frameworks = {0};
    struct rp_result_opts o = {0};
    struct rp_err err;
    RP_BUG_IF(rp_rows_load(&report, "published:gpt_v100", &o, &err) < 0); /* it is inside this program */
    for (int i = 0; i < rows->n; i++) {
        RP_FREE char *name = rp_result_name(&rows->row[i]);
        if (is_gpt(&rows->row[i]) && frameworks.n < FRAMEWORKS_MAX)
            rp_layout_names_add(&frameworks, "%s", name);
    }
    if (!frameworks.n) {
        rp_doc_line(d, "None of the results is of a GPT model: every cell is without evidence.");
        rp_layout_names_add(&frameworks, "%s", "");
    }
    put_cases(d, &report, rows, &frameworks);
    int others = count_others(&report, rows);
    if (others)
        rp_doc_line(d, "Results of no case of the report, which are left out: %d.", others);
    put_flops(d, &report, rows);
    put_differences(d, &report, rows);
    rp_layout_names_fini(&frameworks);
    rp_rows_fini(&report);
}
