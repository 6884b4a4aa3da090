/* Results by shape: per model, precision and batch size a table of nodes x devices by framework; then a table of each
 * framework, with speed-up over one device. */
#include "compare/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 40 /* frameworks of one table; more only have tables of their own */

/* Where a row belongs: a section of the report, a series (a framework) in it, and a line. */
struct shapes_place {
    int64_t section, series, devices, nodes, row;
};

struct shapes_plan {
    const struct rp_rows *rows;
    struct rp_layout_names hardware, section, series;
    struct shapes_place *place; /* [rows], sorted */
};

/* The report has a table per fixed batch size, and one for the largest that fits, whatever that is. */
static int section_of(struct rp_layout_names *names, const struct rp_result *row)
{
    const char *model = row->model ? row->model : RP_UNKNOWN, *precision = rp_result_precision(row);
    char batch[32] = RP_UNKNOWN;
    if (rp_result_is(row->batch_mode, "max"))
        RP_FORMAT(batch, "max");
    else if (row->batch_per_device >= 0)
        RP_FORMAT(batch, "%" PRId64, row->batch_per_device);
    return rp_layout_names_add(names, "%s, %s, batch size per device: %s", model, precision ? precision : RP_UNKNOWN,
                               batch);
}

static const char *hardware_of(const struct rp_result *row)
{
    return row->device_model ? row->device_model : "unknown hardware";
}

/* A framework; the batch size where the section has "max", and the hardware where it differs between results. */
static int series_of(struct shapes_plan *p, const struct rp_result *row)
{
    char batch[40] = "";
    RP_FREE char *name = rp_result_name(row);
    if (rp_result_is(row->batch_mode, "max") && row->batch_per_device >= 0)
        RP_FORMAT(batch, ", bsz=%" PRId64, row->batch_per_device);
    int several = p->hardware.n > 1;
    return rp_layout_names_add(&p->series, "%s%s%s%s%s%s", name, row->arithmetic ? ", " : "",
                               row->arithmetic ? row->arithmetic : "", batch, several ? ", " : "",
                               several ? hardware_of(row) : "");
}

static int compare_positions(const void *a, const void *b)
{
    const struct shapes_place *x = a, *y = b;
    const int64_t order[][2] = {{x->section, y->section},
                                {x->series, y->series},
                                {x->devices, y->devices},
                                {x->nodes, y->nodes},
                                {x->row, y->row}};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i][0] != order[i][1])
            return order[i][0] < order[i][1] ? -1 : 1;
    return 0;
}

static void plan_init(struct shapes_plan *p, const struct rp_rows *rows)
{
    *p = (struct shapes_plan){.rows = rows, .place = rp_alloc((size_t)(rows->n + 1) * sizeof *p->place)};
    for (int i = 0; i < rows->n; i++)
        rp_layout_names_add(&p->hardware, "%s", hardware_of(&rows->row[i]));
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result *row = &rows->row[i];
        p->place[i] =
            (struct shapes_place){section_of(&p->section, row), series_of(p, row), row->devices, row->nodes, i};
    }
    qsort(p->place, (size_t)rows->n, sizeof *p->place, compare_positions);
}

static void plan_fini(struct shapes_plan *p)
{
    rp_layout_names_fini(&p->hardware);
    rp_layout_names_fini(&p->section);
    rp_layout_names_fini(&p->series);
    free(p->place);
}

static int same_series(const struct shapes_place *a, const struct shapes_place *b)
{
    return a->section == b->section && a->series == b->series;
}

/* The first result of a series, which begins at `from`, with that shape; *n: how many there are. */
static const struct rp_result *find_result(const struct shapes_plan *p, int from, int64_t nodes, int64_t devices,
                                           int *n)
{
    const struct rp_result *first = NULL;
    *n = 0;
    for (int i = from; i < p->rows->n && same_series(&p->place[i], &p->place[from]); i++)
        if (p->place[i].nodes == nodes && p->place[i].devices == devices && !(*n)++)
            first = &p->rows->row[p->place[i].row];
    return first;
}

static int is_same_shape(const struct shapes_place *a, const struct shapes_place *b)
{
    return a->devices == b->devices && a->nodes == b->nodes;
}

/* The table of a section: a line per shape, a column per series. */
static void put_summary(struct rp_doc *d, const struct shapes_plan *p, int from, int end)
{
    int columns = 0, several = 0;
    RP_FREE int *series = rp_alloc((size_t)(end - from) * sizeof *series); /* where each begins */
    RP_FREE struct shapes_place *shape = rp_alloc((size_t)(end - from) * sizeof *shape);
    for (int i = from; i < end; i++) {
        if (i == from || !same_series(&p->place[i], &p->place[i - 1]))
            series[columns++] = i;
        shape[i - from] =
            (struct shapes_place){.devices = p->place[i].devices, .nodes = p->place[i].nodes, .row = p->place[i].row};
    }
    if (columns > COLUMNS_MAX) {
        rp_doc_line(d, "%d frameworks or versions: see the tables of each.", columns);
        return;
    }
    qsort(shape, (size_t)(end - from), sizeof *shape, compare_positions);
    rp_layout_begin(d, RP_TABLE_dlperf_shapes, 0);
    for (int k = 0; k < columns; k++)
        rp_layout_columns(d, RP_TABLE_throughput, 0, p->series.name[p->place[series[k]].series]);
    for (int i = 0; i < end - from; i++) {
        if (i && is_same_shape(&shape[i], &shape[i - 1]))
            continue;
        rp_layout_cells(d, RP_TABLE_dlperf_shapes, 0, &(struct rp_line){.row = &p->rows->row[shape[i].row]});
        for (int k = 0; k < columns; k++) {
            struct rp_line line = {0};
            line.row = find_result(p, series[k], shape[i].nodes, shape[i].devices, &line.several);
            rp_layout_cells(d, RP_TABLE_throughput, 0, &line);
            several += line.several > 1;
        }
    }
    if (several)
        rp_doc_line(d, RP_SEVERAL "; the tables below have all.");
}

/* The table of the series that begins at `from`; returns where the next one begins. Speed-ups are over its first result
 * of one device. */
static int put_series(struct rp_doc *d, const struct shapes_plan *p, int from)
{
    int of, i = from;
    const char *name = p->series.name[p->place[from].series];
    const struct rp_result *one = find_result(p, from, 1, 1, &of);
    if (of > 1)
        rp_doc_title(d, "%s (speed-up: against the first of its %d results of one device)", name, of);
    else
        rp_doc_title(d, "%s", name);
    rp_layout_begin(d, RP_TABLE_dlperf, 0);
    for (; i < p->rows->n && same_series(&p->place[i], &p->place[from]); i++)
        rp_layout_cells(d, RP_TABLE_dlperf, 0, &(struct rp_line){.row = &p->rows->row[p->place[i].row], .base = one});
    return i;
}

void rp_shapes_put(struct rp_doc *d, const struct rp_rows *rows)
{
    struct shapes_plan p;
    plan_init(&p, rows);
    if (p.hardware.n == 1)
        rp_doc_line(d, "Hardware of all results: %s.", p.hardware.name[0]);
    for (int from = 0, end = 0; from < rows->n; from = end) {
        while (end < rows->n && p.place[end].section == p.place[from].section)
            end++;
        rp_doc_heading(d, "%s", p.section.name[p.place[from].section]);
        put_summary(d, &p, from, end);
        for (int i = from; i < end;)
            i = put_series(d, &p, i);
    }
    plan_fini(&p);
}
