/* The GPT report of 2021: each of its cases, with or without a result, with latency, memory and throughput by framework. */
#include "compare/layout.h"

#include <math.h>
#include <string.h>

/* Does the result belong to the case: degrees, batch and model. */
static int fits(const struct rp_result *row, const struct rp_result *of)
{
    return row->data_parallel == of->data_parallel && row->tensor_parallel == of->tensor_parallel &&
           row->pipeline_parallel == of->pipeline_parallel && row->global_batch == of->global_batch &&
           row->hidden_size == of->hidden_size && row->layers == of->layers && rp_result_is(row->model, "gpt");
}

/* A published result belongs only to the case that it names: two cases of the report are the same work. */
static int belongs_to(const struct rp_result *row, const struct rp_result *of)
{
    if (!fits(row, of))
        return 0;
    return row->source.kind != RP_RESULT_PUBLISHED || !row->label || !of->label || strcmp(row->label, of->label) == 0;
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

void rp_layout_gpt(struct rp_doc *d, const struct rp_rows *rows)
{
    RP_ROWS report = {0};
    struct rp_layout_names frameworks = {0}, cases = {0};
    struct rp_result_opts o = {0};
    struct rp_err err;
    int several = 0;
    RP_BUG_IF(rp_rows_load(&report, "published:gpt_v100", &o, &err) < 0); /* it is inside this program */
    for (int i = 0; i < rows->n; i++) {
        RP_FREE char *name = rp_result_name(&rows->row[i]);
        if (rp_result_is(rows->row[i].model, "gpt") && frameworks.n < 12)
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
        int before = cases.n;
        if (rp_layout_names_add(&cases, "%s", r->label) < before) /* each case has a line per framework */
            continue;
        rp_result_cells(d, r, "label nodes gpus_per_node", RP_UNKNOWN);
        rp_doc_cell(d, "%lldx%lldx%lld", (long long)r->data_parallel, (long long)r->tensor_parallel, (long long)r->pipeline_parallel);
        rp_result_cells(d, r, "micro_batch global_batch", RP_UNKNOWN);
        rp_doc_cell(d, "%lldx%lld", (long long)r->hidden_size, (long long)r->layers);
        for (int f = 0; f < frameworks.n; f++)
            several += put_cells(d, rows, frameworks.name[f], r) > 1;
    }
    if (several)
        rp_doc_line(d, RP_LAYOUT_SEVERAL "; 'repro compare' without --layout has all.");
    rp_layout_names_fini(&frameworks);
    rp_layout_names_fini(&cases);
}
