/* CSV as in results/published: one line of names of columns, then one result per line. A field may be quoted. */
#include "compare/result.h"

#include "base/text.h"
#include "import/lines.h"
#include "import/scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OF_A_LOG "; 'repro import csv' reads logs"
#define COLUMNS_MAX 64

struct csv_reader {
    struct rp_lines lines;
    const char *field[COLUMNS_MAX];
    int n;
};

/* The next line that is not empty: 1, 0 at the end, -1. */
static int read_record(struct csv_reader *r, struct rp_err *err)
{
    char *line;
    size_t size;
    int more;
    while ((more = rp_lines_next(&r->lines, &line, &size, err)) > 0 && !size)
        ;
    r->n = 0;
    for (char *p = more > 0 ? line : NULL; p; r->n++) {
        if (r->n == COLUMNS_MAX)
            return rp_fail(err, RP_MALFORMED, "line %" PRId64 " has more than %d fields", r->lines.number, COLUMNS_MAX);
        if (!(r->field[r->n] = rp_scan_field(&p, ',')))
            return rp_fail(err, RP_MALFORMED, "line %" PRId64 " has a quote that is not closed, or text after one",
                           r->lines.number);
    }
    return more;
}

/* ---- columns to properties ---- */

static const char *const other_names[][2] = {
    {"gpu", "device_model"}, {"gpus", "devices"}, {"batch", "batch_per_device"}};
static const char *const measured[] = {"throughput", "unit", "note", "source"}; /* besides the keys of result.def */

struct table {
    int n;
    char key[COLUMNS_MAX][64];
};

static int add_column(struct table *t, const char *name, struct rp_err *err)
{
    char shown[72];
    const char *key = name;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        key = strcmp(name, other_names[i][0]) == 0 ? other_names[i][1] : key;
    if (!RP_IS_IN(measured, key, strlen(key)) && !rp_result_has_key(key))
        return rp_fail(err, RP_MALFORMED, "column '%s': a result has no such property" OF_A_LOG,
                       rp_excerpt(shown, name));
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->key[i], key) == 0)
            return rp_fail(err, RP_MALFORMED, "column '%s' occurs twice, or under two names", rp_excerpt(shown, name));
    RP_FORMAT(t->key[t->n], "%s", key);
    t->n++;
    return 0;
}

static int read_header(struct table *t, struct csv_reader *r, struct rp_err *err)
{
    int rc = read_record(r, err), measures = 0;
    if (rc <= 0)
        return rc < 0 ? -1 : rp_fail(err, RP_MALFORMED, "it is empty; expected a line with the names of columns");
    for (int i = 0; i < r->n; i++) {
        if (add_column(t, r->field[i], err) < 0)
            return -1;
        measures += strcmp(t->key[i], "throughput") == 0;
    }
    return measures ? 0 : rp_fail(err, RP_MALFORMED, "its first line has no column 'throughput'" OF_A_LOG);
}

/* ---- records to rows ---- */

static int set_value(struct rp_result *row, const char *key, const char *text, struct rp_err *err)
{
    if (!*text)
        return 0;
    if (strcmp(key, "throughput") == 0)
        return rp_result_number(&row->throughput, key, text, err);
    if (strcmp(key, "unit") == 0)
        return rp_result_text(&row->unit, key, text, err);
    if (strcmp(key, "note") == 0)
        return rp_result_text(&row->source.note, key, text, err);
    if (strcmp(key, "source") == 0) {
        row->link = rp_alloc(sizeof *row->link);
        row->links = 1;
        return rp_result_text(row->link, key, text, err);
    }
    return rp_result_set(row, key, text, err);
}

static int read_results(struct rp_rows *rows, struct csv_reader *r, struct rp_err *err)
{
    struct table t = {0};
    if (read_header(&t, r, err) < 0)
        return -1;
    for (int more; (more = read_record(r, err)) != 0;) {
        long long line = r->lines.number;
        if (more < 0)
            return -1;
        if (r->n != t.n)
            return rp_fail(err, RP_MALFORMED, "line %lld has %d fields, its first line %d names", line, r->n, t.n);
        struct rp_result *row = rp_rows_add(rows);
        row->source.line = line;
        for (int i = 0; i < t.n; i++)
            if (set_value(row, t.key[i], r->field[i], err) < 0)
                return rp_wrap(err, "line %lld", line);
        if (!isnan(row->throughput) && !row->unit)
            return rp_fail(err, RP_MALFORMED, "line %lld has a throughput without a 'unit'", line);
        if (rows->n > RP_ROWS_MAX)
            return rp_fail(err, RP_MALFORMED, "more than %d results", RP_ROWS_MAX);
    }
    return 0;
}

int rp_rows_from_csv(struct rp_rows *rows, const char *data, size_t size, const char *file, const char *sha256,
                     struct rp_err *err)
{
    size_t mark = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark of spreadsheets */
    int first = rows->n, rc;
    struct csv_reader r;
    rp_lines_memory(&r.lines, file, data + mark, size - mark);
    rc = read_results(rows, &r, err);
    rp_lines_fini(&r.lines);
    if (rc < 0)
        return rp_wrap(err, "'%s'", file);
    for (int i = first; i < rows->n; i++) {
        struct rp_result_source *s = &rows->row[i].source;
        s->kind = RP_RESULT_PUBLISHED;
        s->format = rp_strdup("csv");
        s->sha256 = sha256 ? rp_strdup(sha256) : NULL;
        if (rp_result_text(&s->file, "file", file, err) < 0)
            return -1;
    }
    return 0;
}
