/* Results by cards and setting, as Paddle's report has them: FP32 and AMP at the usual batch size, FP32 and AMP at the
 * largest; raw logs; and how to repeat each bundle. */
#include "compare/layout.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BUNDLES_SHOWN 20 /* with their machines and commands */

/* The usual batch sizes of a model. */
static const struct {
    const char *model;
    int64_t fp32, amp;
} usual[] = {{"resnet50-v1.5", 128, 256}, {"bert-base", 32, 64}};

static const struct {
    const char *precision, *name;
    int is_max;
} columns[] = {{"fp32", "FP32", 0}, {"amp", "AMP", 0}, {"fp32", "FP32 (BS=max)", 1}, {"amp", "AMP (BS=max)", 1}};

static int64_t batch_of(const char *model, int column)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (rp_result_is(usual[i].model, model))
            return column ? usual[i].amp : usual[i].fp32;
    return column ? 64 : 32;
}

/* Its column, or -1: the report has no such column. */
static int column_of(const struct rp_result *row)
{
    for (int c = 0; c < 4; c++)
        if (rp_result_is(rp_result_precision(row), columns[c].precision) &&
            rp_result_is(row->batch_mode, "max") == columns[c].is_max &&
            (columns[c].is_max || row->batch_per_device == batch_of(row->model ? row->model : "", c)))
            return c;
    return -1;
}

static int is_of(const struct rp_result *row, const char *model, const char *name)
{
    RP_FREE char *own = rp_result_name(row);
    return strcmp(own, name) == 0 && strcmp(row->model ? row->model : RP_UNKNOWN, model) == 0;
}

static const struct rp_result *find_result(const struct rp_rows *rows, const char *model, const char *name,
                                           int64_t cards, int column)
{
    for (int i = 0; i < rows->n; i++)
        if (is_of(&rows->row[i], model, name) && rows->row[i].devices == cards && column_of(&rows->row[i]) == column)
            return &rows->row[i];
    return NULL;
}

static void put_throughput(struct rp_doc *d, const struct rp_rows *rows, const char *model, const char *name,
                           const int64_t *cards, int n)
{
    rp_layout_begin(d, RP_TABLE_paddle, 0);
    for (int c = 0; c < 4; c++) {
        RP_FREE char *title = rp_asprintf("%s (BS=%" PRId64 ")", columns[c].name, batch_of(model, c));
        rp_layout_columns(d, RP_TABLE_throughput, 0, columns[c].is_max ? columns[c].name : title);
    }
    for (int i = 0; i < n; i++) {
        rp_layout_cells(d, RP_TABLE_paddle, 0, &(struct rp_line){.number = cards[i]});
        for (int c = 0; c < 4; c++)
            rp_layout_cells(d, RP_TABLE_throughput, 0,
                            &(struct rp_line){.row = find_result(rows, model, name, cards[i], c)});
    }
}

static void put_logs(struct rp_doc *d, const struct rp_rows *rows, const char *model, const char *name,
                     const int64_t *cards, int n)
{
    int begun = 0;
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 4; c++) {
            RP_JSON *entry = json_pack("{s:s}", "column", columns[c].name);
            const struct rp_line line = {.row = find_result(rows, model, name, cards[i], c), .entry = entry};
            if (!line.row)
                continue;
            if (!begun++) {
                rp_doc_title(d, "Raw logs");
                rp_layout_begin(d, RP_TABLE_paddle_logs, 0);
            }
            rp_layout_cells(d, RP_TABLE_paddle_logs, 0, &line);
        }
}

/* 1, 8, 16 and 32 cards as in the report, and other numbers of the results. */
static int cards_of(int64_t *out, const struct rp_rows *rows, const char *model, const char *name)
{
    int n = 0;
    for (; n < 4; n++)
        out[n] = n ? 4 << n : 1;
    for (int i = 0; i < rows->n; i++) {
        int64_t cards = rows->row[i].devices;
        int at = 0;
        if (cards < 1 || column_of(&rows->row[i]) < 0 || !is_of(&rows->row[i], model, name))
            continue;
        while (at < n && out[at] < cards)
            at++;
        if (at < n && out[at] == cards)
            continue;
        memmove(out + at + 1, out + at, (size_t)(n - at) * sizeof *out);
        out[at] = cards;
        n++;
    }
    return n;
}

static void put_bundles(struct rp_doc *d, const struct rp_rows *rows)
{
    int shown = 0, all = 0;
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result *row = &rows->row[i];
        if (row->source.kind != RP_RESULT_BUNDLE || all++ >= BUNDLES_SHOWN)
            continue;
        shown++;
        rp_bundle_put(d, row);
    }
    if (!all)
        rp_doc_line(d, "Environment, docker flags, steps and commands: %s, because none of the results is a bundle.",
                    RP_NO_EVIDENCE);
    else if (all > shown)
        rp_doc_line(d, "Environment and commands of %d more bundles are left out: compare fewer bundles.", all - shown);
}

void rp_cards_put(struct rp_doc *d, const struct rp_rows *rows)
{
    struct rp_layout_names done = {0};
    int no_column = 0, repeated = 0;
    RP_FREE int64_t *cards = rp_alloc((size_t)(rows->n + 5) * sizeof *cards);
    for (int i = 0; i < rows->n; i++) {
        const char *model = rows->row[i].model ? rows->row[i].model : RP_UNKNOWN;
        RP_FREE char *name = rp_result_name(&rows->row[i]);
        int before = done.n, column = column_of(&rows->row[i]);
        repeated += column >= 0 && find_result(rows, model, name, rows->row[i].devices, column) != &rows->row[i];
        no_column += column_of(&rows->row[i]) < 0;
        if (column_of(&rows->row[i]) < 0 || rp_layout_names_add(&done, "%s\n%s", model, name) < before)
            continue;
        int n = cards_of(cards, rows, model, name);
        rp_doc_heading(d, "%s, %s (%s)", model, name, rows->row[i].unit ? rows->row[i].unit : RP_UNKNOWN);
        put_throughput(d, rows, model, name, cards, n);
        put_logs(d, rows, model, name, cards, n);
    }
    if (no_column)
        rp_doc_line(d, "%d result%s without a column for the precision or batch size: see --layout dlperf.", no_column,
                    rp_s(no_column));
    if (repeated)
        rp_doc_line(d, "%d result%s in a cell that already shows another result: --layout dlperf lists all.", repeated,
                    rp_s(repeated));
    put_bundles(d, rows);
    rp_layout_names_fini(&done);
}
