/* Speed-up and efficiency of rows that differ only in the number of devices, of bundles also in how their ranks divide
 * the work. */
#include "compare/compare.h"

#include "base/json.h"
#include "base/text.h"
#include "compare/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Properties that are the same within a series. Those that follow from the number of devices may differ: global batch,
 * nodes, ... */
static const char *const fixed[] = {
    "framework",   "model",       "task",    "precision",    "batch_per_device", "batch_mode",      "sequence_length",
    "optimizer",   "clipping",    "dropout", "accumulation", "device_model",     "tensor_parallel", "pipeline_parallel",
    "micro_batch", "hidden_size", "layers",  "isa"};
#define FIXED (sizeof fixed / sizeof *fixed)
/* Those of them that bundles show in a column: the layout of the ranks, and how the work of a step grows with them. */
static const char *const shown[] = {"batch_mode", "accumulation", "tensor_parallel", "pipeline_parallel",
                                    "micro_batch"};

struct scaling_place {
    char *series; /* the values above, and the file and the note of what was published */
    int row;
    int64_t devices;
};

/* The value of property i within a series; "": unknown, or of no matter for a bundle. */
static void fixed_value(char value[RP_RESULT_TEXT_MAX + 1], const struct rp_result *row, size_t i)
{
    const int is_bundle = row->source.kind == RP_RESULT_BUNDLE;
    rp_result_get(value, RP_RESULT_TEXT_MAX + 1, row, fixed[i]);
    if (is_bundle && RP_IS_IN(shown, fixed[i], strlen(fixed[i])))
        *value = 0;
    else if (strstr(fixed[i], "_parallel") &&
             strcmp(value, "1") == 0) /* 1 on one device, unknown on several: not split */
        *value = 0;
}

static char *series_of(const struct rp_result *row)
{
    char value[RP_RESULT_TEXT_MAX + 1];
    RP_BUF out = {0};
    const int is_bundle = row->source.kind == RP_RESULT_BUNDLE;
    for (size_t i = 0; i < FIXED; i++) {
        fixed_value(value, row, i);
        rp_buf_printf(&out, "%s\n", value);
    }
    if (!is_bundle) /* bundles are files of their own */
        rp_buf_printf(&out, "%s\n%s\n", row->source.file ? row->source.file : "",
                      row->source.note ? row->source.note : "");
    rp_buf_puts(&out, row->unit);
    return rp_buf_take(&out);
}

static int by_series(const void *a, const void *b)
{
    const struct scaling_place *x = a, *y = b;
    int order = strcmp(x->series, y->series);
    if (order)
        return order;
    if (x->devices != y->devices)
        return x->devices < y->devices ? -1 : 1;
    return x->row - y->row;
}

/* How the samples between two updates change with the devices; NULL: unknown. */
static const char *batch_of(const struct rp_result *row, const struct rp_result *base)
{
    if (row->global_batch <= 0 || base->global_batch <= 0)
        return NULL;
    if (row->global_batch == base->global_batch)
        return "constant";
    const double of_row = (double)row->global_batch * (double)base->devices,
                 of_base = (double)base->global_batch * (double)row->devices;
    return of_row == of_base ? "proportional" : "other";
}

static void add_note(struct rp_comparison *out, char *text)
{
    rp_texts_add(&out->notes, &out->notes_n, text);
}

/* Against the first row, which has the fewest devices. */
static void add_series(struct rp_comparison *out, const struct rp_rows *rows, const struct scaling_place *p, int n)
{
    const struct rp_result *base = &rows->row[p->row];
    if (p[n - 1].devices == p->devices)
        return;
    for (int i = 0; i < n; i++) {
        const struct rp_result *row = &rows->row[p[i].row];
        const double speedup = row->throughput / base->throughput, shape = (double)p[i].devices / (double)p->devices;
        struct rp_scaling_entry *one = rp_object_add(&out->scaling, &out->scaling_n, &rp_type_scaling_entry);
        *one = (struct rp_scaling_entry){.row = p[i].row,
                                         .base = p->row,
                                         .devices = p[i].devices,
                                         .base_devices = p->devices,
                                         .speedup = speedup,
                                         .efficiency = speedup / shape,
                                         .global_batch = rp_text_copy(batch_of(row, base)),
                                         .claimed = row->speedup};
        if (!isnan(row->speedup) && p->devices == 1 && fabs(row->speedup - speedup) > 0.0051)
            add_note(out, rp_asprintf("%d: its source has speed-up %.4g, but its figures give %.6g / %.6g = %.4g",
                                      p[i].row + 1, row->speedup, row->throughput, base->throughput, speedup));
        if (speedup > shape * 1.005)
            add_note(out, rp_asprintf("%d: %lld devices are %.4g times as fast as %lld: more than ideal scaling",
                                      p[i].row + 1, (long long)p[i].devices, speedup, (long long)p->devices));
    }
}

void rp_scaling(struct rp_comparison *out, const struct rp_rows *rows)
{
    int n = 0;
    RP_FREE struct scaling_place *place = rp_alloc((size_t)(rows->n + 1) * sizeof *place);
    for (int i = 0; i < rows->n; i++)
        if (rows->row[i].devices > 0 && !isnan(rows->row[i].throughput))
            place[n++] =
                (struct scaling_place){.series = series_of(&rows->row[i]), .row = i, .devices = rows->row[i].devices};
    qsort(place, (size_t)n, sizeof *place, by_series);
    for (int from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && strcmp(place[to].series, place[from].series) == 0; to++)
            ;
        add_series(out, rows, place + from, to - from);
    }
    for (int i = 0; i < n; i++)
        free(place[i].series);
}

/* ---- what is in no series ---- */

static int is_listed(const struct rp_comparison *c, int row)
{
    for (int64_t i = 0; i < c->scaling_n; i++)
        if (c->scaling[i].row == row)
            return 1;
    return 0;
}

/* Properties in which two results differ, with both values; returns their number. */
static int list_differences(struct rp_buf *out, const struct rp_result *a, const struct rp_result *b)
{
    char x[RP_RESULT_TEXT_MAX + 1], y[RP_RESULT_TEXT_MAX + 1];
    int n = 0;
    for (size_t i = 0; i < FIXED; i++) {
        fixed_value(x, a, i);
        fixed_value(y, b, i);
        if (strcmp(x, y) == 0)
            continue;
        rp_buf_printf(out, "%s%s (%.60s, %.60s)", n++ ? ", " : "", fixed[i], *x ? x : RP_UNKNOWN, *y ? y : RP_UNKNOWN);
    }
    return n;
}

void rp_scaling_explain(struct rp_comparison *out, const struct rp_rows *rows)
{
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result *row = &rows->row[i];
        RP_BUF best = {0};
        int least = 0, nearest = -1;
        if (row->source.kind != RP_RESULT_BUNDLE || is_listed(out, i))
            continue;
        for (int k = 0; k < rows->n; k++) {
            RP_BUF text = {0};
            if (k == i || rows->row[k].source.kind != RP_RESULT_BUNDLE)
                continue;
            const int n = list_differences(&text, row, &rows->row[k]);
            if (n == 0 || (nearest >= 0 && n >= least))
                continue;
            least = n;
            nearest = k;
            rp_buf_fini(&best);
            best = text;
            text = (struct rp_buf){0};
        }
        if (nearest >= 0)
            add_note(out,
                     rp_asprintf("%d is left out: it differs from %d in %s", i + 1, nearest + 1, rp_buf_text(&best)));
    }
}

/* ---- as a table ---- */

/* Whether a result of the list is a run of several ranks: only those have what the last columns show. */
static int has_ranks(const struct rp_rows *rows, const struct rp_scaling_entry *list, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (rp_result_ranks(&rows->row[list[i].row]) > 1)
            return 1;
    return 0;
}

void rp_scaling_table(struct rp_doc *d, const struct rp_rows *rows, const struct rp_scaling_entry *list, int64_t n)
{
    const int ranks = has_ranks(rows, list, n);
    rp_layout_begin(d, RP_TABLE_scaling, ranks);
    for (int64_t i = 0; i < n; i++) {
        RP_JSON *entry = rp_object_json(&list[i], &rp_type_scaling_entry);
        rp_layout_cells(d, RP_TABLE_scaling, ranks,
                        &(struct rp_line){.row = &rows->row[list[i].row], .entry = entry, .number = list[i].row + 1});
    }
}

/* The n entries of one series, which have the same base. */
static void put_series(struct rp_doc *d, const struct rp_rows *rows, const struct rp_scaling_entry *series, int64_t n)
{
    const struct rp_result *base = &rows->row[series->base];
    RP_FREE char *hardware = rp_result_hardware(base);
    rp_doc_heading(d, "%s, %s", base->model ? base->model : RP_UNKNOWN, base->precision ? base->precision : RP_UNKNOWN);
    RP_FREE char *count = base->threads > 0 ? NULL : rp_asprintf("%lld of ", (long long)base->devices);
    rp_doc_title(d, "Against %s%s, in %s", count ? count : "", hardware ? hardware : "unknown hardware",
                 base->unit ? base->unit : RP_UNKNOWN);
    rp_scaling_table(d, rows, series, n);
}

void rp_scaling_put(struct rp_doc *d, const struct rp_rows *rows)
{
    RP_COMPARISON c = {0};
    rp_scaling(&c, rows);
    for (int64_t from = 0, to; from < c.scaling_n; from = to) {
        for (to = from + 1; to < c.scaling_n && c.scaling[to].base == c.scaling[from].base; to++)
            ;
        put_series(d, rows, &c.scaling[from], to - from);
    }
    if (c.scaling_n < rows->n)
        rp_doc_line(d,
                    "Results without another of the same work on other numbers of devices, which are left out: %lld.",
                    (long long)(rows->n - c.scaling_n));
    rp_scaling_explain(&c, rows);
    for (int64_t i = 0; i < c.notes_n; i++)
        rp_doc_line(d, "%s", c.notes[i]);
}
