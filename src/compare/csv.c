/* CSV as in results/published: one line of names, then one result per line, or several where the names of columns begin with a framework
 * ("oneflow_sequences_per_s, megatron_sequences_per_s"). A field may be quoted. */
#include "compare/row.h"

#include "base/text.h"
#include "import/lines.h"
#include "import/scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF_A_LOG "; 'repro import csv' reads logs"
#define COLUMNS_MAX 64
#define PREFIXES_MAX 8
#define NONE (-1)

struct reader {
    struct rp_lines lines;
    const char *field[COLUMNS_MAX];
    int n;
};

/* The next line that is not empty: 1, 0 at the end, -1. */
static int read_record(struct reader *r, struct rp_err *err)
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
            return rp_fail(err, RP_MALFORMED, "line %" PRId64 " has a quote that is not closed, or text after one", r->lines.number);
    }
    return more;
}

/* ---- columns to properties ---- */

/* Other names in the published files; an empty one: inferred from other columns. */
static const char *const other_names[][2] = {
    {"gpu", "device_model"}, {"num_nodes", "nodes"},   {"case", "label"},          {"accumulation_steps", "accumulation"},
    {"num_layers", "layers"}, {"micro_batch_times_dp", ""},   {"gpus", "devices"},
    {"batch", "batch_per_device"},
};
/* After the name of a framework. */
static const char *const measured[][2] = {
    {"_latency_ms", "latency_ms"}, {"_memory_mib", "memory_mib_per_device"}, {"_sequences_per_s", "throughput"}};
static const char *const frameworks[][2] = {{"oneflow", "OneFlow"}, {"megatron", "Megatron-LM"}};

struct table {
    int n;
    struct {
        char key[64]; /* of row.def, or "throughput", "unit", "note", "source"; "": ignored */
        int prefix;   /* NONE: for every row of the line */
    } column[COLUMNS_MAX];
    char prefix[PREFIXES_MAX][32]; /* "oneflow" */
    int prefixes;
};

static int prefix_of(struct table *t, const char *name, size_t n, struct rp_err *err)
{
    for (int i = 0; i < t->prefixes; i++)
        if (strlen(t->prefix[i]) == n && memcmp(t->prefix[i], name, n) == 0)
            return i;
    if (t->prefixes == PREFIXES_MAX || n == 0 || n >= sizeof t->prefix[0])
        return rp_fail(err, RP_MALFORMED, "more than %d frameworks in the names of columns, or one without a name", PREFIXES_MAX);
    memcpy(t->prefix[t->prefixes], name, n);
    t->prefix[t->prefixes][n] = 0;
    return t->prefixes++;
}

static int add_column(struct table *t, const char *name, struct rp_err *err)
{
    char shown[72];
    const char *key = name;
    int prefix = NONE;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        key = strcmp(name, other_names[i][0]) == 0 ? other_names[i][1] : key;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        size_t n = strlen(name), tail = strlen(measured[i][0]);
        if (n <= tail || strcmp(name + n - tail, measured[i][0]) != 0 || rp_row_has_key(name))
            continue;
        key = measured[i][1];
        prefix = prefix_of(t, name, n - tail, err);
        if (prefix < 0)
            return -1;
    }
    if (*key && strcmp(key, "throughput") != 0 && strcmp(key, "unit") != 0 && strcmp(key, "note") != 0 &&
        strcmp(key, "source") != 0 && !rp_row_has_key(key))
        return rp_fail(err, RP_MALFORMED, "column '%s': a result has no such property" OF_A_LOG, rp_shown(shown, name));
    for (int i = 0; i < t->n && *key; i++)
        if (strcmp(t->column[i].key, key) == 0 && t->column[i].prefix == prefix)
            return rp_fail(err, RP_MALFORMED, "column '%s' occurs twice, or under two names", rp_shown(shown, name));
    snprintf(t->column[t->n].key, sizeof t->column[0].key, "%s", key);
    t->column[t->n++].prefix = prefix;
    return 0;
}

static int read_header(struct table *t, struct reader *r, struct rp_err *err)
{
    int rc = read_record(r, err), measures = 0;
    if (rc <= 0)
        return rc < 0 ? -1 : rp_fail(err, RP_MALFORMED, "it is empty; expected a line with the names of columns");
    for (int i = 0; i < r->n; i++) {
        if (add_column(t, r->field[i], err) < 0)
            return -1;
        measures += strcmp(t->column[i].key, "throughput") == 0;
    }
    return measures ? 0 : rp_fail(err, RP_MALFORMED, "its first line has no column 'throughput' (or FRAMEWORK_sequences_per_s)" OF_A_LOG);
}

/* ---- records to rows ---- */

static int set_value(struct rp_row *row, const char *key, const char *text, struct rp_err *err)
{
    if (!*key || !*text)
        return 0;
    if (strcmp(key, "throughput") == 0)
        return rp_row_number(&row->throughput, key, text, err);
    if (strcmp(key, "unit") == 0)
        return rp_row_text(&row->unit, key, text, err);
    if (strcmp(key, "note") == 0)
        return rp_row_text(&row->source.note, key, text, err);
    if (strcmp(key, "source") == 0) {
        row->link = rp_alloc(sizeof *row->link);
        row->links = 1;
        return rp_row_text(row->link, key, text, err);
    }
    return rp_row_set(row, key, text, err);
}

static void name_row(struct rp_row *row, const char *prefix)
{
    const char *framework = prefix;
    for (size_t i = 0; prefix && i < sizeof frameworks / sizeof *frameworks; i++)
        framework = strcmp(prefix, frameworks[i][0]) == 0 ? frameworks[i][1] : framework;
    if (framework && !row->framework)
        row->framework = rp_strdup(framework);
    if (!row->unit && prefix)
        row->unit = rp_strdup("sequences/s"); /* by the name of the column */
}

static int add_result(struct rp_rows *rows, const struct table *t, const struct reader *r, int64_t line, int prefix, struct rp_err *err)
{
    struct rp_row *row = rp_rows_add(rows);
    row->source.line = line;
    for (int i = 0; i < t->n; i++)
        if ((t->column[i].prefix == NONE || t->column[i].prefix == prefix) && set_value(row, t->column[i].key, r->field[i], err) < 0)
            return rp_wrap(err, "line %lld", (long long)line);
    name_row(row, prefix == NONE ? NULL : t->prefix[prefix]);
    if (!isnan(row->throughput) && !row->unit)
        return rp_fail(err, RP_MALFORMED, "line %lld has a throughput without a 'unit'", (long long)line);
    if (rows->n > RP_ROWS_MAX)
        return rp_fail(err, RP_MALFORMED, "more than %d results", RP_ROWS_MAX);
    return 0;
}

static int read_results(struct rp_rows *rows, struct reader *r, struct rp_err *err)
{
    struct table t = {0};
    int rc = read_header(&t, r, err);
    while (rc == 0) {
        int more = read_record(r, err);
        int64_t line = r->lines.number;
        if (more <= 0)
            return more;
        if (r->n != t.n)
            return rp_fail(err, RP_MALFORMED, "line %lld has %d fields, its first line %d names", (long long)line, r->n, t.n);
        if (!t.prefixes)
            rc = add_result(rows, &t, r, line, NONE, err);
        for (int p = 0; p < t.prefixes && rc == 0; p++)
            rc = add_result(rows, &t, r, line, p, err);
    }
    return rc;
}

int rp_rows_from_csv(struct rp_rows *rows, const char *data, size_t size, const char *file, const char *sha256, struct rp_err *err)
{
    size_t mark = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark of spreadsheets */
    int first = rows->n, rc;
    struct reader r;
    rp_lines_memory(&r.lines, file, data + mark, size - mark);
    rc = read_results(rows, &r, err);
    rp_lines_fini(&r.lines);
    if (rc < 0)
        return rp_wrap(err, "'%s'", file);
    for (int i = first; i < rows->n; i++) {
        struct rp_row_source *s = &rows->row[i].source;
        s->kind = RP_ROW_PUBLISHED;
        s->format = rp_strdup("csv");
        s->sha256 = sha256 ? rp_strdup(sha256) : NULL;
        if (rp_row_text(&s->file, "file", file, err) < 0)
            return -1;
    }
    return 0;
}
