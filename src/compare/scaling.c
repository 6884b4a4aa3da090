/* Speed-up and efficiency of rows that differ only in the number of devices. */
#include "compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Properties that are the same within a series. Those that follow from the number of devices may differ: global batch, nodes, ... */
static const char *const fixed[] = {"framework",       "model",  "task",   "precision",      "batch_per_device", "batch_mode",
                                    "sequence_length", "optimizer", "clipping", "dropout",      "accumulation",     "device_model",
                                    "tensor_parallel", "pipeline_parallel", "micro_batch", "hidden_size",      "layers", "threads", "isa"};
#define FIXED (sizeof fixed / sizeof *fixed)

struct scaling_place {
    char *series; /* the values above, and the file and the note of what was published */
    int row;
    int64_t devices;
};

static char *series_of(const struct rp_result *row)
{
    char value[RP_RESULT_TEXT_MAX + 1];
    RP_BUF out = {0};
    for (size_t i = 0; i < FIXED; i++) {
        rp_result_get(value, sizeof value, row, fixed[i]);
        int is_degree = strstr(fixed[i], "_parallel") != NULL; /* 1 on one device, unknown on several: not split */
        rp_buf_printf(&out, "%s\n", is_degree && strcmp(value, "1") == 0 ? "" : value);
    }
    if (row->source.kind != RP_RESULT_BUNDLE) /* bundles are files of their own */
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
