/* The contents of a folder of results: bundles, verified with the key next to them, and published tables.
 * results/README.md has its output. */
#include "compare/layout.h"

#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "report/escape.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH 3
#define FILES_MAX 10000
#define NAMED 20 /* CSV files of something else that are listed; the rest is counted */

struct found {
    char **path; /* below the folder */
    int n;
};

/* Files by name, also in folders; links are not followed, hidden names are skipped. */
static int collect_files(struct found *f, const char *root, const char *below, int depth, struct rp_err *err)
{
    RP_FREE char *folder = rp_asprintf("%s/%s", root, below);
    DIR *dir = opendir(folder);
    int rc = 0;
    if (!dir)
        return rp_fail(err, errno == ENOTDIR ? RP_USAGE : RP_IO, "cannot list the folder '%s': %s", folder,
                       strerror(errno));
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        RP_FREE char *name = rp_asprintf("%s%s%s", below, *below ? "/" : "", e->d_name),
                     *path = rp_asprintf("%s/%s", root, name);
        struct stat st;
        if (e->d_name[0] == '.' || lstat(path, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEPTH) {
            rc = collect_files(f, root, name, depth + 1, err);
        } else if (S_ISREG(st.st_mode) && (rp_ends_with(name, ".repro.tar.zst") || rp_ends_with(name, ".csv"))) {
            if (f->n == FILES_MAX)
                rc = rp_fail(err, RP_USAGE, "'%s' has more than %d results", root, FILES_MAX);
            f->path = rp_realloc(f->path, (size_t)(f->n + 1) * sizeof *f->path);
            f->path[f->n++] = rp_strdup(name);
        }
    }
    closedir(dir);
    return rc;
}

/* ---- bundles ---- */

struct index_tally {
    int trusted, unknown_key, failed;
};

static void put_bundle(struct rp_doc *d, struct index_tally *t, const char *root, const char *name)
{
    struct rp_rows rows = {0};
    struct rp_err err;
    RP_FREE char *path = rp_asprintf("%s/%s", root, name), *key = rp_path_next_to(path, "key.pem");
    struct rp_result_opts o = {.trust = access(key, F_OK) == 0 ? key : NULL};
    int failed = rp_rows_load(&rows, path, &o, &err) < 0;
    RP_FREE char *verdict =
        failed ? rp_strdup("NOT VERIFIED")
               : rp_asprintf("%s%s", rows.row->source.verdict, o.trust ? "; by the key.pem next to it" : "");
    RP_FREE char *file = rp_strdup(name);
    rp_sanitize(file);
    RP_JSON *entry = json_pack("{s:s, s:s}", "file", file, "verdict", verdict);
    rp_layout_cells(d, RP_TABLE_index, 0, &(struct rp_line){.row = failed ? NULL : rows.row, .entry = entry});
    t->failed += failed;
    t->trusted += !failed && rows.row->source.key_known;
    t->unknown_key += !failed && !rows.row->source.key_known;
    rp_rows_fini(&rows);
}

static void put_bundles(struct rp_doc *d, struct index_tally *t, const char *root, const struct found *f)
{
    rp_doc_heading(d, "Bundles");
    rp_layout_begin(d, RP_TABLE_index, 0);
    for (int i = 0; i < f->n; i++)
        if (!rp_ends_with(f->path[i], ".csv"))
            put_bundle(d, t, root, f->path[i]);
    rp_doc_line(d,
                "%d bundles: %d verified with the key.pem next to them, %d verified with an unknown key, %d NOT "
                "verified. To check one: 'repro verify FILE --trust KEY', or the verify.sh inside it.",
                t->trusted + t->unknown_key + t->failed, t->trusted, t->unknown_key, t->failed);
}

/* ---- published tables ---- */

/* -1: it is a CSV of something else. */
static int put_table(struct rp_doc *d, const char *root, const char *name)
{
    static const char *const columns[] = {"model", "precision", "framework", "device_model", "devices"};
    struct rp_rows rows = {0};
    struct rp_result_opts o = {0};
    struct rp_err err;
    RP_FREE char *path = rp_asprintf("%s/%s", root, name);
    char value[RP_RESULT_TEXT_MAX + 1];
    if (rp_rows_load(&rows, path, &o, &err) < 0) {
        rp_rows_fini(&rows);
        return -1;
    }
    rp_doc_cell(d, "%s", name);
    rp_doc_cell(d, "%d", rows.n);
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        struct rp_layout_names names = {0};
        for (int i = 0; i < rows.n; i++)
            if (rp_result_get(value, sizeof value, &rows.row[i], columns[c]) == 0 && *value && names.n < 20)
                rp_layout_names_add(&names, "%s", value);
        RP_BUF text = {0};
        rp_layout_names_join(&text, &names, names.n);
        rp_doc_text(d, rp_buf_text(&text), RP_UNKNOWN);
        rp_layout_names_fini(&names);
    }
    rp_rows_fini(&rows);
    return 0;
}

static void put_tables(struct rp_doc *d, const char *root, const struct found *f)
{
    RP_BUF others = {0};
    int n = 0;
    rp_doc_heading(d, "Published tables, unsigned");
    rp_doc_table(d, "file|#results|models|precision|frameworks|hardware|devices");
    for (int i = 0; i < f->n; i++)
        if (rp_ends_with(f->path[i], ".csv") && put_table(d, root, f->path[i]) < 0 && n++ < NAMED)
            rp_buf_printf(&others, "%s%s", others.size ? ", " : "", f->path[i]);
    if (n)
        rp_doc_line(d, "Not listed, because they are not tables of results: %s%s (%d CSV files)", rp_buf_text(&others),
                    n > NAMED ? ", ..." : "", n);
}

int rp_index(struct rp_doc *d, const char *folder, int *failed, struct rp_err *err)
{
    struct found f = {0};
    struct index_tally t = {0};
    int rc = collect_files(&f, folder, "", 1, err);
    if (rc == 0) {
        rp_sort_text((const char **)f.path, (size_t)f.n);
        rp_doc_heading(d, "Results");
        RP_FREE char *word = rp_shell_word(folder);
        rp_doc_line(d, "Made by: repro compare --layout index %s --format md", word);
        put_bundles(d, &t, folder, &f);
        put_tables(d, folder, &f);
    }
    for (int i = 0; i < f.n; i++)
        free(f.path[i]);
    free(f.path);
    *failed = t.failed;
    return rc;
}
