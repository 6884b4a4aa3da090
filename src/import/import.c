#include "import/import.h"

#include "base/build.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/sort.h"
#include "base/text.h"
#include "import/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_MOST 480 /* bytes; a comparable result takes texts of 500 */

const struct rp_importer *const rp_importers[] = {
#define FORMAT(id, reads) &rp_importer_##id,
#include "import/formats.def"
#undef FORMAT
    NULL,
};

const struct rp_importer *rp_importer_find(const char *name, struct rp_err *err)
{
    char shown[72];
    RP_BUF names = {0};
    struct rp_nearest near = {.word = name};
    for (int i = 0; rp_importers[i]; i++) {
        if (strcmp(rp_importers[i]->name, name) == 0)
            return rp_importers[i];
        rp_nearest_try(&near, rp_importers[i]->name);
        rp_buf_printf(&names, "%s%s", i ? ", " : "", rp_importers[i]->name);
    }
    if (near.best)
        return rp_fail_null(err, RP_USAGE, "unknown format '%s'; did you mean '%s'?", rp_excerpt(shown, name),
                            near.best);
    return rp_fail_null(err, RP_USAGE, "unknown format '%s'; expected one of %s", rp_excerpt(shown, name), names.data);
}

void rp_import_fini(struct rp_import *im)
{
    for (int i = 0; i < im->n; i++)
        rp_imported_fini(&im->draft[i]);
    free(im->draft);
    json_decref(im->sources);
    json_decref(im->systems);
    *im = (struct rp_import){0};
}

int rp_import_add(struct rp_import_source *s, struct rp_imported *d, struct rp_err *err)
{
    struct rp_import *im = s->import;
    if (im->n == RP_IMPORT_ROWS_MAX)
        return rp_lines_fail(&s->lines, err, "more than %d results", RP_IMPORT_ROWS_MAX);
    if ((im->n & (im->n - 1)) == 0) /* room doubles */
        im->draft = rp_realloc(im->draft, (size_t)(im->n ? 2 * im->n : 1) * sizeof *im->draft);
    d->file = rp_strdup(s->name);
    im->draft[im->n++] = *d;
    *d = (struct rp_imported){0};
    return 0;
}

/* ---- one file ---- */

static int read_lines(struct rp_import_source *s, void *state, struct rp_err *err)
{
    const struct rp_importer *f = s->import->importer;
    char *line;
    size_t size;
    int more;
    while ((more = rp_lines_next(&s->lines, &line, &size, err)) > 0)
        if (f->line(s, state, line, size, err) < 0)
            return -1;
    return more < 0 ? -1 : f->end(s, state, err);
}

static void add_source(struct rp_import_source *s)
{
    char hex[RP_SHA256_HEX];
    rp_lines_digest(hex, &s->lines);
    if (!s->import->sources)
        s->import->sources = json_array();
    json_array_append_new(s->import->sources,
                          json_pack("{s:s, s:s, s:I, s:I}", "file", s->name, "sha256", hex, "bytes",
                                    (json_int_t)s->lines.bytes, "lines", (json_int_t)s->lines.number));
    for (int i = 0; i < s->import->n; i++) /* the results of this file have no digest yet */
        if (!*s->import->draft[i].sha256)
            memcpy(s->import->draft[i].sha256, hex, sizeof hex);
}

static int is_case(const char *p, size_t n) /* "2n8g" */
{
    size_t i = strspn(p, "0123456789"), j = i < n && p[i] == 'n' ? i + 1 + strspn(p + i + 1, "0123456789") : n;
    return i && j > i + 1 && j + 1 == n && p[j] == 'g';
}

/* The component of a path before the one at p, or p where there is none. */
static const char *component_before(const char *path, const char *p)
{
    const char *q = p > path ? p - 1 : p;
    while (q > path && q[-1] != '/')
        q--;
    return q;
}

/* The name of a log without the folders that it is kept in, except those that are part of it: "2n8g/rank_0.log", and
 * "NAME/bert/result_0.txt" of MLPerf's results/NAME/bert/result_0.txt. */
static char *name_of(const char *path)
{
    const char *last = strrchr(path, '/'), *name_at = last ? last + 1 : path, *folder = component_before(path, name_at);
    const char *above = component_before(path, folder), *root = component_before(path, above);
    if (last && is_case(folder, (size_t)(last - folder)))
        name_at = folder;
    else if (root < above && strncmp(root, "results/", 8) == 0 && strncmp(name_at, "result_", 7) == 0)
        name_at = above;
    char *name = rp_asprintf("%.200s", name_at);
    rp_sanitize(name);
    return name;
}

static int begin_source(struct rp_import_source *s, void *state, struct rp_err *err)
{
    const struct rp_import_opts *o = s->opts;
    s->window.from = o->from >= 0 ? o->from : INT64_MIN;
    s->window.to = o->to >= 0 ? o->to : 0;
    s->window.skip_first = o->from < 0;
    for (int i = 0; i < o->sets; i++)
        if (rp_imported_set(&s->draft, o->set[i], err) < 0)
            return -1;
    return s->import->importer->begin ? s->import->importer->begin(s, state, err) : 0;
}

static int import_source(struct rp_import *im, struct rp_import_source *s, struct rp_err *err)
{
    void *state = rp_alloc(im->importer->state);
    s->import = im;
    int failed = begin_source(s, state, err) < 0 || read_lines(s, state, err) < 0;
    if (im->importer->fini)
        im->importer->fini(state);
    free(state);
    if (!failed)
        add_source(s);
    rp_imported_fini(&s->draft);
    rp_window_fini(&s->window);
    rp_lines_fini(&s->lines);
    return failed ? -1 : 0;
}

int rp_import_step(int64_t *out, const char *option, const char *text, struct rp_err *err)
{
    char shown[72];
    const char *end = text ? rp_scan_count(text, out) : "";
    return end && !*end ? 0
                        : rp_fail(err, RP_USAGE, "--%s: '%s' is not a step, a whole number from 0", option,
                                  rp_excerpt(shown, text));
}

int rp_import_file(struct rp_import *im, const char *path, const struct rp_import_opts *o, struct rp_err *err)
{
    char shown[72];
    RP_FREE char *name = name_of(path);
    struct rp_import_source s = {.opts = o, .path = path, .name = name};
    return rp_lines_open(&s.lines, path, rp_excerpt(shown, path), err) < 0 ? -1 : import_source(im, &s, err);
}

int rp_import_memory(struct rp_import *im, const char *path, const void *data, size_t size,
                     const struct rp_import_opts *o, struct rp_err *err)
{
    char shown[72];
    RP_FREE char *name = name_of(path);
    struct rp_import_source s = {.opts = o, .path = path, .name = name};
    rp_lines_memory(&s.lines, rp_excerpt(shown, path), data, size);
    return import_source(im, &s, err);
}

/* ---- the document ---- */

/* Where a row comes from: the run, or the first of several. */
static json_t *source_of(const struct rp_import *im, const struct rp_imported *const *run, int n,
                         const struct rp_buf *note)
{
    const struct rp_imported *d = run[0];
    json_t *source = json_pack("{s:s, s:s, s:s, s:s*}", "kind", "imported", "file", d->file, "format",
                               im->importer->name, "note", note->size ? note->data : NULL);
    if (n == 1 && d->line)
        json_object_set_new(source, "line", json_integer(d->line));
    if (n == 1)
        json_object_set_new(source, "sha256", json_string(d->sha256));
    return source;
}

/* The median over the runs that have one, with the samples of all. */
static void merge_throughput(json_t *row, const struct rp_imported *const *run, int n)
{
    RP_FREE double *value = rp_alloc((size_t)n * sizeof *value);
    json_t *samples = json_array(), *groups = json_array();
    const struct rp_imported *first = NULL;
    int values = 0;
    for (int i = 0; i < n; i++) {
        const json_t *list = json_object_get(run[i]->row, "samples");
        if (!json_object_get(run[i]->row, "throughput"))
            continue;
        first = first ? first : run[i];
        value[values++] = run[i]->value;
        if (list)
            json_array_extend(samples, (json_t *)list);
        else
            json_array_append_new(samples, json_real(run[i]->value));
        json_array_append_new(groups, json_integer(list ? (json_int_t)json_array_size(list) : 1));
    }
    if (values) {
        RP_FREE char *how =
            rp_asprintf("median over %d logs of: %.120s", values, rp_imported_get_text(first, "estimator"));
        json_object_update_new(row, json_pack("{s:{s:f, s:s}, s:s, s:O, s:O}", "throughput", "value",
                                              rp_median(value, (size_t)values), "unit", first->unit, "estimator", how,
                                              "samples", samples, "sample_groups", groups));
    }
    json_decref(samples);
    json_decref(groups);
}

/* Facts that the runs do not agree on; of dates the first stays. */
static void drop_differing(json_t *row, const struct rp_imported *const *run, int n)
{
    for (const struct rp_fact *f = rp_facts; f->key; f++)
        for (int i = 1; i < n; i++) {
            const json_t *is = json_object_get(row, f->key), *other = json_object_get(run[i]->row, f->key);
            if (is == other || (is && other && json_equal(is, other)))
                continue;
            if (strcmp(f->key, "date") != 0)
                json_object_del(row, f->key);
            else if (!is || (other && strcmp(json_string_value(other), json_string_value(is)) < 0))
                json_object_set(row, f->key, (json_t *)other);
        }
}

/* Several runs as one row. */
static json_t *merge_runs(const struct rp_imported *const *run, int n)
{
    json_t *row = json_copy(run[0]->row), *links = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(links, json_string(run[i]->file));
    json_object_set_new(row, "links", links);
    drop_differing(row, run, n);
    merge_throughput(row, run, n);
    return row;
}

/* Cut where a result could not hold it. */
static void add_to_note(struct rp_buf *note, const char *text, size_t n)
{
    static const char more[] = "; ...";
    if (note->size + n > NOTE_MOST && !rp_ends_with(rp_buf_text(note), more))
        rp_buf_puts(note, more);
    else if (n && note->size + n <= NOTE_MOST)
        rp_buf_printf(note, "%s%.*s", note->size ? "; " : "", (int)n, text);
}

/* The parts of a note that the notes of all runs have. */
static void shared_note(struct rp_buf *note, const struct rp_imported *const *run, int n)
{
    for (const char *p = rp_buf_text(&run[0]->note), *end; *p; p = end) {
        size_t size = (end = strstr(p, "; ")) ? (size_t)(end - p) : strlen(p);
        RP_FREE char *part = rp_asprintf("%.*s", (int)size, p);
        int all = 1;
        for (int i = 1; i < n; i++)
            all &= strstr(rp_buf_text(&run[i]->note), part) != NULL;
        if (all)
            add_to_note(note, part, size);
        end = end ? end + 2 : p + size;
    }
}

static json_t *row_of(const struct rp_import *im, const struct rp_imported *const *run, int n)
{
    json_t *row = n > 1 ? merge_runs(run, n) : json_copy(run[0]->row);
    RP_BUF note = {0}, together = {0};
    if (im->importer->merge) {
        im->importer->merge(row, &together, run, n);
        add_to_note(&note, rp_buf_text(&together), together.size);
        shared_note(&note, run, n);
    } else {
        add_to_note(&note, rp_buf_text(&run[0]->note), run[0]->note.size);
    }
    json_object_set_new(row, "source", source_of(im, run, n, &note));
    return row;
}

static json_t *describe_evidence(const struct rp_imported *d)
{
    json_t *e =
        json_pack("{s:s, s:O, s:s*}", "file", d->file, "from", d->from, "note", d->note.size ? d->note.data : NULL);
    if (d->extra)
        json_object_update(e, d->extra);
    if (d->line)
        json_object_set_new(e, "throughput", json_pack("{s:f, s:s}", "value", d->value, "unit", d->unit));
    return e;
}

/* of[j]: the first draft that j repeats; j itself if it is not a repeat. */
static void find_repeats(const struct rp_import *im, int *of)
{
    for (int j = 0; j < im->n; j++) {
        of[j] = j;
        for (int i = 0; i < j && im->draft[j].same && of[j] == j; i++)
            if (of[i] == i && rp_same_text(im->draft[i].same, im->draft[j].same))
                of[j] = i;
    }
}

json_t *rp_import_rows(const struct rp_import *im, json_t *figures)
{
    json_t *rows = json_array();
    RP_FREE int *of = rp_alloc((size_t)im->n * sizeof *of);
    RP_FREE const struct rp_imported **run = rp_alloc((size_t)im->n * sizeof *run);
    find_repeats(im, of);
    for (int i = 0; i < im->n; i++)
        json_array_append_new(figures, describe_evidence(&im->draft[i]));
    for (int i = 0; i < im->n; i++) {
        int n = 0;
        if (of[i] != i)
            continue;
        for (int j = i; j < im->n; j++)
            if (of[j] == i)
                run[n++] = &im->draft[j];
        json_array_append_new(rows, row_of(im, run, n));
    }
    return rows;
}

int rp_import_finish(struct rp_import *im, struct rp_err *err)
{
    return im->importer->finish ? im->importer->finish(im, err) : 0;
}

json_t *rp_import_document(const struct rp_import *im, const struct rp_import_opts *o, const char *at)
{
    const struct rp_build *b = rp_build_record();
    RP_FREE char *importer = rp_asprintf("repro %s, commit %s", b->version, b->commit);
    json_t *figures = json_array(), *given = json_array();
    json_t *rows = rp_import_rows(im, figures);
    json_t *provenance = json_pack("{s:s, s:s, s:s, s:O*, s:o, s:o}", "format", im->importer->name, "importer",
                                   importer, "at", at, "sources", im->sources, "figures", figures, "given", given);
    for (int i = 0; i < o->sets; i++) {
        RP_FREE char *text = rp_strdup(o->set[i]);
        rp_sanitize(text);
        json_array_append_new(given, json_string(text));
    }
    if (json_array_size(im->sources) == 1)
        json_object_update_new(provenance, json_pack("{s:s, s:s}", "file", rp_json_text_at(im->sources, "0/file"),
                                                     "sha256", rp_json_text_at(im->sources, "0/sha256")));
    return json_pack("{s:s, s:o, s:o, s:b}", "schema", "repro-imported/1", "provenance", provenance, "rows", rows,
                     "unsigned", 1);
}
