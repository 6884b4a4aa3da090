/* OneFlow/DLPerf: per model, precision and batch a table of nodes x devices by framework; then, per framework, nodes, devices per node,
 * batch size per device, throughput and speed-up. */
#include "compare/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a row belongs. */
struct place {
    int section, series;
    int64_t nodes, devices;
    int row;
};

struct plan {
    const struct rp_rows *rows;
    struct rp_layout_names hardware;
    struct rp_layout_names section, series; /* of the report; of all of it */
    struct place *by_row, *by_shape;        /* [rows]: by section and series, then in the order of the rows or by nodes and devices */
};

/* The rows of one series in one section: [n] of by_row, and the same ones of by_shape. */
struct group {
    const struct place *by_row, *by_shape;
    int n;
};

/* The report has a table per fixed batch, and one for the largest that fits, whatever that is. */
static int section_of(struct rp_layout_names *names, const struct rp_row *row)
{
    const char *model = row->model ? row->model : RP_UNKNOWN, *precision = row->precision ? row->precision : RP_UNKNOWN;
    if (rp_row_is(row->batch_mode, "max"))
        return rp_layout_names_add(names, "%s, %s, batch size per device: max", model, precision);
    if (row->batch_per_device < 0)
        return rp_layout_names_add(names, "%s, %s, batch size per device: unknown", model, precision);
    return rp_layout_names_add(names, "%s, %s, batch size per device: %lld", model, precision, (long long)row->batch_per_device);
}

static char *hardware_of(const struct rp_row *row)
{
    char *known = rp_row_hardware(row);
    return known ? known : rp_strdup("unknown hardware");
}

/* A column: a framework, the batch where the section does not say it, and the hardware where the results are of several kinds. */
static int series_of(struct plan *p, const struct rp_row *row)
{
    char batch[40] = "";
    RP_FREE char *name = rp_row_name(row), *hardware = hardware_of(row);
    if (rp_row_is(row->batch_mode, "max") && row->batch_per_device >= 0)
        snprintf(batch, sizeof batch, ", bsz=%lld", (long long)row->batch_per_device);
    int several = p->hardware.n > 1;
    return rp_layout_names_add(&p->series, "%s%s%s%s", name, batch, several ? ", " : "", several ? hardware : "");
}

static int in_order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_group(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int section = in_order(x->section, y->section);
    return section ? section : in_order(x->series, y->series);
}

static int by_row(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int group = by_group(a, b);
    return group ? group : in_order(x->row, y->row);
}

static int by_cell(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int nodes = in_order(x->nodes, y->nodes);
    return nodes ? nodes : in_order(x->devices, y->devices);
}

static int by_shape(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = by_group(a, b);
    order = order ? order : by_cell(a, b);
    return order ? order : in_order(x->row, y->row);
}

static void plan_init(struct plan *p, const struct rp_rows *rows)
{
    *p = (struct plan){.rows = rows};
    p->by_row = rp_alloc((size_t)(rows->n + 1) * sizeof *p->by_row);
    p->by_shape = rp_alloc((size_t)(rows->n + 1) * sizeof *p->by_shape);
    for (int i = 0; i < rows->n; i++) {
        RP_FREE char *hardware = hardware_of(&rows->row[i]);
        rp_layout_names_add(&p->hardware, "%s", hardware);
    }
    for (int i = 0; i < rows->n; i++) {
        const struct rp_row *row = &rows->row[i];
        int section = section_of(&p->section, row);
        p->by_row[i] = (struct place){section, series_of(p, row), row->nodes, row->devices, i};
        p->by_shape[i] = p->by_row[i];
    }
    qsort(p->by_row, (size_t)rows->n, sizeof *p->by_row, by_row);
    qsort(p->by_shape, (size_t)rows->n, sizeof *p->by_shape, by_shape);
}

static void plan_fini(struct plan *p)
{
    rp_layout_names_fini(&p->hardware);
    rp_layout_names_fini(&p->section);
    rp_layout_names_fini(&p->series);
    free(p->by_row);
    free(p->by_shape);
}

/* The groups of the section that begins at the row `from` of the order; *end: where the next one begins. */
static int groups(struct group *out, const struct plan *p, int from, int *end)
{
    int n = 0, i = from;
    for (; i < p->rows->n && p->by_row[i].section == p->by_row[from].section; out[n - 1].n++, i++)
        if (i == from || p->by_row[i].series != p->by_row[i - 1].series)
            out[n++] = (struct group){&p->by_row[i], &p->by_shape[i], 0};
    *end = i;
    return n;
}

/* The first result of that place, of *n; all of them stand in the tables of each framework. */
static const struct rp_row *find(const struct plan *p, const struct group *g, int64_t nodes, int64_t devices, int *n)
{
    const struct place key = {.nodes = nodes, .devices = devices};
    int low = 0, high = g->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (by_cell(&g->by_shape[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (*n = 0; low + *n < g->n && by_cell(&g->by_shape[low + *n], &key) == 0; ++*n) {
    }
    return *n ? &p->rows->row[g->by_shape[low].row] : NULL;
}

static void count_cell(struct rp_doc *d, int64_t n)
{
    if (n < 0)
        rp_doc_text(d, NULL, RP_UNKNOWN);
    else
        rp_doc_cell(d, "%lld", (long long)n);
}

/* The shapes of a section, by devices. */
struct shape {
    int64_t nodes, devices;
};
static int by_devices(const void *a, const void *b)
{
    const struct shape *x = a, *y = b;
    if (x->devices != y->devices)
        return x->devices < y->devices ? -1 : 1;
    return (x->nodes > y->nodes) - (x->nodes < y->nodes);
}

/* Of the rows from .. end - 1 of the order. */
static int shapes(struct shape *out, const struct plan *p, int from, int end)
{
    int n = 0;
    for (int i = from; i < end; i++)
        out[n++] = (struct shape){p->by_row[i].nodes, p->by_row[i].devices};
    qsort(out, (size_t)n, sizeof *out, by_devices);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (i == 0 || by_devices(&out[i], &out[kept - 1]) != 0)
            out[kept++] = out[i];
    return kept;
}

#define COLUMNS_MAX 40 /* frameworks beside each other; more go to tables of their own */

/* GPUs per node; of a processor that trains by itself there are none. */
static void gpus_cell(struct rp_doc *d, const struct rp_row *row)
{
    if (row->gpus_per_node == 0)
        rp_doc_cell(d, "0 (CPU)");
    else
        count_cell(d, row->gpus_per_node);
}

static void summary(struct rp_doc *d, const struct plan *p, const struct group *group, int columns, const struct shape *shape, int n)
{
    int several = 0, of;
    if (columns > COLUMNS_MAX) {
        rp_doc_line(d, "%d frameworks or versions: see the tables of each.", columns);
        return;
    }
    rp_doc_table(d);
    rp_doc_column(d, 1, "node num");
    rp_doc_column(d, 1, "device num");
    for (int k = 0; k < columns; k++)
        rp_doc_column(d, 1, "%s", p->series.name[group[k].by_row->series]);
    for (int i = 0; i < n; i++) {
        count_cell(d, shape[i].nodes);
        count_cell(d, shape[i].devices);
        for (int k = 0; k < columns; k++) {
            const struct rp_row *first = find(p, &group[k], shape[i].nodes, shape[i].devices, &of);
            rp_layout_throughput_of(d, first, of);
            several += of > 1;
        }
    }
    if (several)
        rp_doc_line(d, RP_LAYOUT_SEVERAL "; the tables below have all.");
}

/* Against the first result of one device in its own table. Another result of one device is a repeat, not a speed-up. */
static void speedup_cell(struct rp_doc *d, const struct rp_row *one, const struct rp_row *row)
{
    int same_unit = one && one->unit && row->unit && strcmp(one->unit, row->unit) == 0;
    if (!same_unit)
        rp_doc_text(d, NULL, RP_NO_EVIDENCE);
    else if (row != one && row->devices <= 1)
        rp_doc_cell(d, "-");
    else
        rp_doc_cell(d, "%.2f", row->throughput / one->throughput);
}

static void of_series(struct rp_doc *d, const struct plan *p, const struct group *g)
{
    int of, series = g->by_row->series;
    const struct rp_row *one = find(p, g, 1, 1, &of);
    if (of > 1)
        rp_doc_title(d, "%s (speed-up: against the first of its %d results of one device)", p->series.name[series], of);
    else
        rp_doc_title(d, "%s", p->series.name[series]);
    rp_doc_table(d);
    rp_doc_column(d, 1, "num_nodes");
    rp_doc_column(d, 1, "gpu_num_per_node");
    rp_doc_column(d, 1, "batch_size_per_device");
    rp_doc_column(d, 1, "throughput");
    rp_doc_column(d, 0, "unit");
    rp_doc_column(d, 1, "speedup");
    rp_doc_column(d, 0, "evidence");
    for (int i = 0; i < g->n; i++) {
        const struct rp_row *row = &p->rows->row[g->by_row[i].row];
        count_cell(d, row->nodes);
        gpus_cell(d, row);
        count_cell(d, row->batch_per_device);
        rp_layout_throughput(d, row);
        rp_doc_text(d, row->unit, RP_UNKNOWN);
        speedup_cell(d, one, row);
        rp_layout_evidence(d, row);
    }
}

void rp_layout_dlperf(struct rp_doc *d, const struct rp_rows *rows)
{
    struct plan p;
    plan_init(&p, rows);
    RP_FREE struct shape *shape = rp_alloc((size_t)(rows->n + 1) * sizeof *shape);
    RP_FREE struct group *group = rp_alloc((size_t)(rows->n + 1) * sizeof *group);
    rp_doc_heading(d, "Throughput in the layout of DLPerf");
    rp_layout_footnote(d, rows);
    if (p.hardware.n == 1)
        rp_doc_line(d, "Hardware of all results: %s.", p.hardware.name[0]);
    for (int from = 0, end; from < rows->n; from = end) {
        int columns = groups(group, &p, from, &end), n = shapes(shape, &p, from, end);
        rp_doc_heading(d, "%s", p.section.name[p.by_row[from].section]);
        summary(d, &p, group, columns, shape, n);
        for (int k = 0; k < columns; k++)
            of_series(d, &p, &group[k]);
    }
    plan_fini(&p);
}
