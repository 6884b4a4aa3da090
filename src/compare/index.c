/* What lies in a folder of results: bundles, verified with the key beside them, and tables that others published. results/README.md is
 * this. */
#include "compare/layout.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH 3
#define FILES_MAX 10000
#define NAMED 20 /* files that hold something else; the rest is counted */

struct found {
    char **path; /* below the folder */
    int n;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Files by name, folders entered; links are followed nowhere, hidden names are passed over. */
static int collect(struct found *f, const char *root, const char *below, int depth, struct rp_err *err)
{
    RP_FREE char *folder = rp_asprintf("%s/%s", root, below);
    DIR *dir = opendir(folder);
    int rc = 0;
    if (!dir)
        return rp_fail(err, errno == ENOTDIR ? RP_USAGE : RP_IO, "cannot list the folder '%s': %s", folder, strerror(errno));
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        RP_FREE char *name = rp_asprintf("%s%s%s", below, *below ? "/" : "", e->d_name), *path = rp_asprintf("%s/%s", root, name);
        struct stat st;
        if (e->d_name[0] == '.' || lstat(path, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEPTH) {
            rc = collect(f, root, name, depth + 1, err);
        } else if (S_ISREG(st.st_mode) && (ends_with(name, ".repro.tar.zst") || ends_with(name, ".csv"))) {
            if (f->n == FILES_MAX)
                rc = rp_fail(err, RP_USAGE, "'%s' has more than %d results", root, FILES_MAX);
            f->path = rp_realloc(f->path, (size_t)(f->n + 1) * sizeof *f->path);
            f->path[f->n++] = rp_strdup(name);
        }
    }
    closedir(dir);
    return rc;
}

static void count_cell(struct rp_doc *d, int64_t n)
{
    if (n < 0)
        rp_doc_text(d, NULL, RP_UNKNOWN);
    else
        rp_doc_cell(d, "%lld", (long long)n);
}

/* ---- bundles ---- */

struct tally {
    int trusted, unknown_key, failed;
};

static void bundle(struct rp_doc *d, struct tally *t, const char *root, const char *name)
{
    struct rp_rows rows = {0};
    struct rp_err err;
    char low[32], high[32];
    const char *slash = strrchr(name, '/');
    RP_FREE char *path = rp_asprintf("%s/%s", root, name);
    RP_FREE char *key = rp_asprintf("%s/%.*s/key.pem", root, slash ? (int)(slash - name) : 1, slash ? name : ".");
    struct rp_row_opts o = {.trust = access(key, F_OK) == 0 ? key : NULL};
    rp_doc_cell(d, "%s", name);
    if (rp_rows_load(&rows, path, &o, &err) < 0) {
        for (int i = 0; i < 8; i++)
            rp_doc_text(d, NULL, RP_NO_EVIDENCE);
        rp_doc_cell(d, "NOT VERIFIED");
        t->failed++;
        rp_rows_fini(&rows);
        return;
    }
    const struct rp_row *row = rows.row;
    rp_doc_text(d, row->model, RP_UNKNOWN);
    rp_doc_text(d, row->precision, RP_UNKNOWN);
    count_cell(d, row->batch_per_device);
    RP_FREE char *hardware = rp_row_hardware(row);
    if (row->devices == 1 && row->threads > 0)
        rp_doc_cell(d, "%s", hardware ? hardware : RP_UNKNOWN);
    else
        rp_doc_cell(d, "%lld, %s", (long long)row->devices, hardware ? hardware : RP_UNKNOWN);
    rp_layout_throughput(d, row);
    rp_doc_text(d, row->unit, RP_UNKNOWN);
    if (isnan(row->low))
        rp_doc_text(d, NULL, RP_NO_EVIDENCE);
    else
        rp_doc_cell(d, "%s to %s", rp_row_figure(low, row->low, 0), rp_row_figure(high, row->high, 0));
    rp_doc_text(d, row->date, RP_UNKNOWN);
    rp_doc_cell(d, "%s%s", row->source.verdict, o.trust ? ", with the key.pem beside it" : "");
    t->trusted += row->source.key_known;
    t->unknown_key += !row->source.key_known;
    rp_rows_fini(&rows);
}

static void bundles(struct rp_doc *d, struct tally *t, const char *root, const struct found *f)
{
    static const char *const names[] = {"file", "model", "precision", "batch per device", "devices", "throughput", "unit",
                                        "95 % interval", "started", "verdict"};
    rp_doc_heading(d, "Bundles");
    rp_doc_table(d);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rp_doc_column(d, i == 3 || i == 5, "%s", names[i]);
    for (int i = 0; i < f->n; i++)
        if (!ends_with(f->path[i], ".csv"))
            bundle(d, t, root, f->path[i]);
    rp_doc_line(d, "Of %d bundles %d verified with the key.pem beside them, %d verified with a key that is not there to compare, %d did "
                   "NOT verify. To check one: 'repro verify FILE --trust KEY', or the verify.sh inside it.",
                t->trusted + t->unknown_key + t->failed, t->trusted, t->unknown_key, t->failed);
}

/* ---- tables of others ---- */

static void joined_cell(struct rp_doc *d, const struct rp_layout_names *names)
{
    RP_BUF text = {0};
    for (int i = 0; i < names->n; i++)
        rp_buf_printf(&text, "%s%s", i ? ", " : "", names->name[i]);
    rp_doc_text(d, rp_buf_text(&text), RP_UNKNOWN);
}

/* -1: it is a CSV of something else. */
static int table(struct rp_doc *d, const char *root, const char *name)
{
    static const char *const columns[] = {"model", "precision", "framework", "device_model", "devices"};
    struct rp_rows rows = {0};
    struct rp_row_opts o = {0};
    struct rp_err err;
    RP_FREE char *path = rp_asprintf("%s/%s", root, name);
    char value[RP_ROW_TEXT_MAX + 1];
    if (rp_rows_load(&rows, path, &o, &err) < 0) {
        rp_rows_fini(&rows);
        return -1;
    }
    rp_doc_cell(d, "%s", name);
    rp_doc_cell(d, "%d", rows.n);
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        struct rp_layout_names names = {0};
        for (int i = 0; i < rows.n; i++)
            if (rp_row_get(value, sizeof value, &rows.row[i], columns[c]) == 0 && *value && names.n < 20)
                rp_layout_names_add(&names, "%s", value);
        joined_cell(d, &names);
        rp_layout_names_fini(&names);
    }
    rp_rows_fini(&rows);
    return 0;
}

static void tables(struct rp_doc *d, const char *root, const struct found *f)
{
    static const char *const names[] = {"file", "results", "models", "precision", "frameworks", "of what", "devices"};
    RP_BUF others = {0};
    int n = 0;
    rp_doc_heading(d, "Tables of results, as data, unsigned");
    rp_doc_table(d);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rp_doc_column(d, i == 1, "%s", names[i]);
    for (int i = 0; i < f->n; i++)
        if (ends_with(f->path[i], ".csv") && table(d, root, f->path[i]) < 0 && n++ < NAMED)
            rp_buf_printf(&others, "%s%s", others.size ? ", " : "", f->path[i]);
    if (n)
        rp_doc_line(d, "Not listed, as they are no tables of results: %s%s (%d CSV files)", rp_buf_text(&others), n > NAMED ? ", ..." : "",
                    n);
}

int rp_index(struct rp_doc *d, const char *folder, int *failed, struct rp_err *err)
{
    struct found f = {0};
    struct tally t = {0};
    int rc = collect(&f, folder, "", 1, err);
    if (rc == 0) {
        if (f.n)
            qsort(f.path, (size_t)f.n, sizeof *f.path, by_name);
        rp_doc_heading(d, "Results");
        RP_FREE char *word = rp_doc_quoted(folder);
        rp_doc_line(d, "Made by: repro compare --layout index %s --format md", word);
        bundles(d, &t, folder, &f);
        tables(d, folder, &f);
    }
    for (int i = 0; i < f.n; i++)
        free(f.path[i]);
    free(f.path);
    *failed = t.failed;
    return rc;
}
