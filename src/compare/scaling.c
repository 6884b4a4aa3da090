/* Speed-up and efficiency of rows that differ only in the number of devices, of bundles also in how their ranks divide the work. */
#include "compare/compare.h"

#include "base/json.h"
#include "base/text.h"
#include "compare/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Properties that are the same within a series. Those that follow from the number of devices may differ: global batch, nodes, ... */
static const char *const fixed[] = {
    "framework",   "model",       "task",    "precision",    "batch_per_device", "batch_mode",      "sequence_length",
    "optimizer",   "clipping",    "dropout", "accumulation", "device_model",     "tensor_parallel", "pipeline_parallel",
    "micro_batch", "hidden_size", "layers",  "isa"};
#define FIXED (sizeof fixed / sizeof *fixed)
/* Of these, what bundles show in a column: the layout of the ranks, and how the work of a step grows with them. */
static const char *const shown[] = {"batch_mode", "accumulation", "tensor_parallel", "pipeline_parallel", "micro_batch"};

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
    else if (strstr(fixed[i], "_parallel") && strcmp(value, "1") == 0) /* 1 on one device, unknown on several: not split */
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
        rp_buf_printf(&out, "%s\n%s\n", row->source.file ? row->source.file : "", row->source.note ? row->source.note : "");
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
    const double of_row = (double)row->global_batch * (double)base->devices, of_base = (double)base->global_batch * (double)row->devices;
    return of_row == of_base ? "proportional" : "other";
}

/* Against the first row, which has the fewest devices. */
static void add_series(json_t *out, json_t *notes, const struct rp_rows *rows, const struct scaling_place *p, int n)
{
    const struct rp_result *base = &rows->row[p->row];
    if (p[n - 1].devices == p->devices)
        return;
    for (int i = 0; i < n; i++) {
        const struct rp_result *row = &rows->row[p[i].row];
        double speedup = row->throughput / base->throughput, shape = (double)p[i].devices / (double)p->devices;
        json_t *one = json_pack("{s:i, s:i, s:I, s:I, s:f, s:f}", "row", p[i].row, "base", p->row, "devices", (json_int_t)p[i].devices,
                                "base_devices", (json_int_t)p->devices, "speedup", speedup, "efficiency", speedup / shape);
        if (batch_of(row, base))
            json_object_set_new(one, "global_batch", json_string(batch_of(row, base)));
        if (!isnan(row->speedup))
            json_object_set_new(one, "claimed", json_real(row->speedup));
        json_array_append_new(out, one);
        char text[200];
        if (!isnan(row->speedup) && p->devices == 1 && fabs(row->speedup - speedup) > 0.0051) {
            snprintf(text, sizeof text, "%d: its source has speed-up %.4g, but its figures give %.6g / %.6g = %.4g", p[i].row + 1,
                     row->speedup, row->throughput, base->throughput, speedup);
            json_array_append_new(notes, json_string(text));
        }
        if (speedup > shape * 1.005) {
            snprintf(text, sizeof text, "%d: %lld devices are %.4g times as fast as %lld: more than ideal scaling",
                     p[i].row + 1, (long long)p[i].devices, speedup, (long long)p->devices);
            json_array_append_new(notes, json_string(text));
        }
    }
}

json_t *rp_scaling(const struct rp_rows *rows, json_t *notes)
{
    int n = 0;
    json_t *out = json_array();
    RP_FREE struct scaling_place *place = rp_alloc((size_t)(rows->n + 1) * sizeof *place);
    for (int i = 0; i < rows->n; i++)
        if (rows->row[i].devices > 0 && !isnan(rows->row[i].throughput))
            place[n++] = (struct scaling_place){.series = series_of(&rows->row[i]), .row = i, .devices = rows->row[i].devices};
    qsort(place, (size_t)n, sizeof *place, by_series);
    for (int from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && strcmp(place[to].series, place[from].series) == 0; to++)
            ;
        add_series(out, notes, rows, place + from, to - from);
    }
    for (int i = 0; i < n; i++)
        free(place[i].series);
    return out;
}

/* ---- what is in no series ---- */

static int is_listed(const json_t *list, int row)
{
    size_t i;
    json_t *s;
    json_array_foreach((json_t *)list, i, s)
        if (rp_json_integer_at(s, "row") == row)
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

void rp_scaling_explain(const struct rp_rows *rows, const json_t *list, json_t *notes)
{
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result *row = &rows->row[i];
        RP_BUF best = {0};
        int least = 0, nearest = -1;
        if (row->source.kind != RP_RESULT_BUNDLE || is_listed(list, i))
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
        RP_FREE char *note = nearest < 0 ? NULL : rp_asprintf("%d is left out: it differs from %d in %s", i + 1, nearest + 1, rp_buf_text(&best));
        if (note)
            json_array_append_new(notes, json_string(note));
    }
}

/* ---- as a table ---- */

/* Whether a result of the list is a run of several ranks: only those have what the last columns show. */
static int has_ranks(const struct rp_rows *rows, const json_t *list)
{
    size_t i;
    json_t *s;
    json_array_foreach((json_t *)list, i, s)
        if (rp_result_ranks(&rows->row[rp_json_integer_at(s, "row")]) > 1)
            return 1;
    return 0;
}

void rp_scaling_table(struct rp_doc *d, const struct rp_rows *rows, const json_t *list)
{
    const int ranks = has_ranks(rows, list);
    rp_layout_begin(d, RP_TABLE_scaling, ranks);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *s = json_array_get(list, i);
        const int row = (int)rp_json_integer_at(s, "row");
        rp_layout_cells(d, RP_TABLE_scaling, ranks, &(struct rp_line){.row = &rows->row[row], .entry = s, .number = row + 1});
    }
}

/* The entries of one series have the same base. */
static json_t *series_from(const json_t *list, size_t *at)
{
    json_t *out = json_array();
    const long long base = rp_json_integer_at(json_array_get(list, *at), "base");
    for (; *at < json_array_size(list) && rp_json_integer_at(json_array_get(list, *at), "base") == base; ++*at)
        json_array_append(out, json_array_get(list, *at));
    return out;
}

static void put_series(struct rp_doc *d, const struct rp_rows *rows, const json_t *series)
{
    const struct rp_result *base = &rows->row[rp_json_integer_at(json_array_get(series, 0), "base")];
    RP_FREE char *hardware = rp_result_hardware(base);
    rp_doc_heading(d, "%s, %s", base->model ? base->model : RP_UNKNOWN, base->precision ? base->precision : RP_UNKNOWN);
    RP_FREE char *count = base->threads > 0 ? NULL : rp_asprintf("%lld of ", (long long)base->devices);
    rp_doc_title(d, "Against %s%s, in %s", count ? count : "", hardware ? hardware : "unknown hardware",
                 base->unit ? base->unit : RP_UNKNOWN);
    rp_scaling_table(d, rows, series);
}

void rp_scaling_put(struct rp_doc *d, const struct rp_rows *rows)
{
    RP_JSON *notes = json_array(), *list = rp_scaling(rows, notes);
    for (size_t i = 0; i < json_array_size(list);) {
        RP_JSON *series = series_from(list, &i);
        put_series(d, rows, series);
    }
    if (json_array_size(list) < (size_t)rows->n)
        rp_doc_line(d, "Results without another of the same work on other numbers of devices, which are left out: %zu.",
                    (size_t)rows->n - json_array_size(list));
    rp_scaling_explain(rows, list, notes);
    for (size_t i = 0; i < json_array_size(notes); i++)
        rp_doc_line(d, "%s", json_string_value(json_array_get(notes, i)));
}
