/* The operands of `compare`, recognized by their contents, with the selector after '#'. */
#include "compare/compare.h"
#include "compare/published.h"
#include "compare/layout.h"

#include "base/embed.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define FILE_MAX (8ul << 20) /* of CSV or JSON */
#define VALUES_MAX 250000    /* of JSON: a row may have 100,000 samples, each of a group of its own */
#define PUBLISHED "published:"
#define FOLDER "results/published/"
#define FACTS FOLDER "facts.json"
#define VALUES_SHOWN 6 /* of a property, in the message for a selector that fits no result */

/* ---- selectors ---- */

static int no_property(const char *selector, const char *key, struct rp_err *err)
{
    char shown[72];
    const char *near = rp_result_nearest_key(key);
    return rp_fail(err, RP_USAGE, "'#%s': a result has no property '%s'%s%s%s", rp_excerpt(shown, selector), key,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* key=value,key=value: does the row have all of them, ignoring case? */
static int is_selected(const struct rp_result *row, const char *selector, struct rp_err *err)
{
    char key[64], value[256], is[RP_RESULT_TEXT_MAX + 1], shown[72];
    for (const char *p = selector; *p;) {
        size_t n = strcspn(p, ","), k = strcspn(p, "=");
        if (k >= n || k == 0 || k >= sizeof key || n - k - 1 >= sizeof value)
            return rp_fail(err, RP_USAGE, "'#%s' is not a selector: expected key=value,key=value",
                           rp_excerpt(shown, selector));
        snprintf(key, sizeof key, "%.*s", (int)k, p);
        snprintf(value, sizeof value, "%.*s", (int)(n - k - 1), p + k + 1);
        p += n + (p[n] == ',');
        if (strcmp(key, "note") == 0)
            snprintf(is, sizeof is, "%s", row->source.note ? row->source.note : "");
        else if (strcmp(key, "line") == 0)
            snprintf(is, sizeof is, "%lld", (long long)row->source.line);
        else if (rp_result_get(is, sizeof is, row, key) < 0)
            return no_property(selector, key, err);
        if (strcasecmp(is, value) != 0)
            return 0;
    }
    return 1;
}

/* "; model is one of resnet50-v1.5, bert-base" for each key whose value no row has. */
static void list_values(struct rp_buf *out, const struct rp_rows *rows, int first, const char *selector)
{
    struct rp_err err;
    char is[RP_RESULT_TEXT_MAX + 1];
    for (const char *p = selector; *p;) {
        size_t n = strcspn(p, ","), k = strcspn(p, "=");
        RP_FREE char *one = rp_asprintf("%.*s", (int)n, p), *key = rp_asprintf("%.*s", (int)k, p);
        struct rp_layout_names values = {0};
        int fits = 0;
        p += n + (p[n] == ',');
        for (int i = first; i < rows->n; i++) {
            fits += is_selected(&rows->row[i], one, &err) == 1;
            if (rp_result_get(is, sizeof is, &rows->row[i], key) == 0)
                rp_layout_names_add(&values, "%s", *is ? is : "''");
        }
        if (!fits && values.n) {
            rp_buf_printf(out, "; %s is one of ", key);
            rp_layout_names_join(out, &values, VALUES_SHOWN);
        }
        rp_layout_names_fini(&values);
    }
}

/* Keeps the rows from `first` on that fit. */
static int select_rows(struct rp_rows *rows, int first, const char *what, const char *selector, struct rp_err *err)
{
    char shown[72];
    int kept = first;
    RP_BUF there = {0};
    for (int i = first; i < rows->n; i++) {
        int fits = is_selected(&rows->row[i], selector, err);
        if (fits < 0)
            return -1;
        if (!fits)
            continue;
        struct rp_result other = rows->row[kept];
        rows->row[kept++] = rows->row[i];
        rows->row[i] = other;
        rows->row[kept - 1].selected = 1;
    }
    if (kept == first)
        list_values(&there, rows, first, selector);
    for (int i = kept; i < rows->n; i++)
        rp_result_fini(&rows->row[i]);
    int had = rows->n - first;
    rows->n = kept;
    return kept > first ? 0
                        : rp_fail(err, RP_USAGE, "'%s': none of its %d results fits%s", rp_excerpt(shown, what), had,
                                  there.size ? there.data : " every part of the selector");
}

/* ---- published files, inside the program ---- */

/* The name of a table inside this program: "dlperf_v100" of its path, its length in *n; NULL for other files. */
static const char *table_name(const char *path, size_t *n)
{
    size_t all = strlen(path), head = strlen(FOLDER);
    if (strncmp(path, FOLDER, head) != 0 || all <= head + 4 || strcmp(path + all - 4, ".csv") != 0)
        return NULL;
    *n = all - head - 4;
    return path + head;
}

void rp_published_names(struct rp_buf *out, const char *before)
{
    size_t n = 0;
    for (const struct rp_embed *e = rp_embed_table; e->name; e++) {
        const char *name = table_name(e->name, &n);
        if (name)
            rp_buf_printf(out, "%s%.*s", before, (int)n, name);
    }
}

/* Facts that a report gives outside its table, for some or all results: they fill unknown values. */
static int add_facts(struct rp_rows *rows, int first, const char *name, struct rp_err *err)
{
    const struct rp_embed *e = rp_embed_find(FACTS);
    RP_JSON *all = e ? rp_json_parse((const char *)e->data, e->size, FACTS, err) : NULL;
    const json_t *list = json_object_get(all, name);
    if (!all)
        return e ? -1 : rp_fail(err, RP_BUG, "%s is not embedded in this program", FACTS);
    for (int k = first; k < rows->n; k++)
        rows->row[k].source.known_table = 1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *where = json_string_value(json_object_get(one, "where")), *key;
        json_t *value;
        char is[RP_RESULT_TEXT_MAX + 1];
        for (int k = first; k < rows->n; k++) {
            struct rp_result *row = &rows->row[k];
            int fits = is_selected(row, where ? where : "", err);
            if (fits < 0)
                return rp_wrap(err, FACTS);
            json_object_foreach(fits ? json_object_get(one, "set") : NULL, key, value)
                if (rp_result_get(is, sizeof is, row, key) < 0 ||
                    (!*is && rp_result_set(row, key, json_string_value(value), err) < 0))
                    return rp_fail(err, RP_BUG, FACTS ": '%s' of '%s'", key, name);
        }
    }
    return 0;
}

static int load_published(struct rp_rows *rows, const char *given, struct rp_err *err)
{
    RP_FREE char *name = rp_asprintf("%.*s", (int)(strlen(given) - (rp_ends_with(given, ".csv") ? 4 : 0)), given);
    int first = rows->n;
    char sha256[RP_SHA256_HEX], shown[72];
    RP_BUF list = {0};
    RP_FREE char *path = rp_asprintf(FOLDER "%s.csv", name);
    const struct rp_embed *e = rp_embed_find(path);
    if (!e) {
        rp_published_names(&list, ", ");
        return rp_fail(err, RP_USAGE, "no published results '%s': expected one of %s", rp_excerpt(shown, name),
                       list.size ? rp_buf_text(&list) + 2 : "none");
    }
    rp_sha256_hex(sha256, e->data, e->size);
    if (rp_rows_from_csv(rows, (const char *)e->data, e->size, path, sha256, err) < 0)
        return -1;
    return add_facts(rows, first, name, err);
}

/* The same facts for a file with the bytes of an embedded table. */
static int add_facts_of_bytes(struct rp_rows *rows, int first, const struct rp_buf *bytes, struct rp_err *err)
{
    size_t n = 0;
    for (const struct rp_embed *e = rp_embed_table; e->name; e++) {
        const char *name = table_name(e->name, &n);
        if (!name || !rp_buf_is(bytes, e->data, e->size))
            continue;
        RP_FREE char *key = rp_asprintf("%.*s", (int)n, name);
        return add_facts(rows, first, key, err);
    }
    return 0;
}

/* ---- files ---- */

/* The first bytes: '{' begins a document, a zstd frame a bundle. */
static int read_head(const char *path, unsigned char head[4], struct rp_err *err)
{
    RP_FD fd = rp_open_regular(path, err);
    if (fd < 0)
        return -1;
    memset(head, 0, 4);
    return rp_pread_all(fd, head, 4, 0) < 0 ? rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno)) : 0;
}

static int load_json(struct rp_rows *rows, const char *path, const struct rp_buf *bytes, const char *sha256,
                     struct rp_err *err)
{
    RP_JSON *doc = rp_json_parse_most(rp_buf_text(bytes), bytes->size, VALUES_MAX, path, err);
    const int is_document = doc && strcmp(rp_json_text_at(doc, "schema"), RP_IMPORTED_SCHEMA) == 0;
    if (doc && rp_rows_from_json(rows, doc, path, sha256, err) == 0)
        return 0;
    return is_document ? -1 : rp_refuse_log(path, err);
}

static int load_file(struct rp_rows *rows, const char *path, const struct rp_result_opts *o, struct rp_err *err)
{
    static const unsigned char zstd[4] = {0x28, 0xb5, 0x2f, 0xfd};
    unsigned char head[4] = {0};
    char sha256[RP_SHA256_HEX];
    int first = rows->n;
    RP_BUF bytes = {0};
    if (read_head(path, head, err) < 0)
        return rp_refuse_log(path, err);
    if (memcmp(head, zstd, 4) == 0)
        return rp_rows_from_bundle(rows, path, o, err);
    if (rp_read_file(&bytes, path, FILE_MAX, err) < 0)
        return rp_refuse_log(path, err);
    rp_sha256_hex(sha256, rp_buf_text(&bytes), bytes.size);
    if (rp_ends_with(path, ".csv"))
        return rp_rows_from_csv(rows, rp_buf_text(&bytes), bytes.size, path, sha256, err) < 0 ? -1
               : add_facts_of_bytes(rows, first, &bytes, err);
    if (strchr("{ \t\r\n", head[0]) && head[0])
        return load_json(rows, path, &bytes, sha256, err);
    (void)!rp_fail(
        err, RP_MALFORMED,
        "'%s' is neither a bundle nor an imported document (JSON) nor a file named .csv; 'repro import' reads "
        "logs",
        path);
    return rp_refuse_log(path, err);
}

int rp_rows_load(struct rp_rows *rows, const char *what, const struct rp_result_opts *o, struct rp_err *err)
{
    int first = rows->n;
    const char *hash = strrchr(what, '#');
    struct stat st;
    if (hash && strncmp(what, PUBLISHED, strlen(PUBLISHED)) != 0 && stat(what, &st) == 0)
        hash = NULL; /* the name of a file may contain # */
    RP_FREE char *name = hash ? rp_asprintf("%.*s", (int)(hash - what), what) : rp_strdup(what);
    int rc = strncmp(name, PUBLISHED, strlen(PUBLISHED)) == 0 ? load_published(rows, name + strlen(PUBLISHED), err)
             : load_file(rows, name, o, err);
    if (rc < 0)
        return -1;
    for (int i = first; i < rows->n; i++)
        rp_result_complete(&rows->row[i]);
    rc = hash ? select_rows(rows, first, what, hash + 1, err) : 0;
    if (rows->n == first + 1)
        rows->row[first].selected = 1;
    for (int i = first; i < rows->n && rc == 0; i++)
        rp_result_interval(&rows->row[i]);
    return rc;
}
