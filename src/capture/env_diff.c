#include "capture/env_diff.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/sort.h"
#include "capture/fields.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 4096 /* of lists that are compared word by word */
#define PATH_BYTES 1024 /* of names on the way to a value */
#define ROUGHLY 0.01

struct compare_walk {
    struct rp_buf path; /* names with RP_FIELD_SEPARATOR between them */
    int same_hiding;    /* both documents hide with the same salt, or neither hides */
    int each;           /* groups are not summed up, and only identical values are equal: this result must never change */
    const json_t *columns[2]; /* of the two topology matrices */
    json_t *different, *one_side, *not_comparable, *unknown;
    json_int_t equal, absent;
    struct rp_err *err;
};

enum known { MISSING, ABSENT, UNKNOWN, KNOWN, GROUP };

static enum known kind_of(const json_t *node)
{
    const char *state = json_string_value(json_object_get(node, "state"));
    if (!node)
        return MISSING;
    if (!state)
        return GROUP;
    return strcmp(state, "ok") == 0 ? KNOWN : strcmp(state, "absent") == 0 ? ABSENT : UNKNOWN;
}

static char *shown_path(const struct compare_walk *w)
{
    char *text = rp_strdup(rp_buf_text(&w->path));
    for (char *p = text; *p; p++)
        *p = *p == RP_FIELD_SEPARATOR ? '.' : *p;
    return text;
}

/* ---- values ---- */

static int has_digits_after(const char *text, const char *mark, size_t digits)
{
    for (; text && (text = strstr(text, mark)); text += strlen(mark))
        if (strspn(text + strlen(mark), "0123456789abcdef") >= digits)
            return 1;
    return 0;
}

/* The hidden name of a network interface. */
static int holds_interface(const char *text)
{
    return has_digits_after(text, "if-", 12);
}

/* Does it contain the hash of a hidden text? */
static int holds_hash(const json_t *value)
{
    const char *p = json_string_value(value);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (holds_hash(json_array_get(value, i)))
            return 1;
    return has_digits_after(p, "sha256:", 64) || holds_interface(p);
}

/* The words of a list, sorted, each once; how many. */
static size_t set_of(const char **word, const json_t *list)
{
    size_t n = json_array_size(list), kept = 0;
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(list, i));
        word[i] = s ? s : "";
    }
    rp_sort_text(word, n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(word[i], word[kept - 1]) != 0)
            word[kept++] = word[i];
    return kept;
}

static int is_same_set(const json_t *a, const json_t *b)
{
    RP_FREE const char **one = rp_alloc((json_array_size(a) + 1) * sizeof *one);
    RP_FREE const char **other = rp_alloc((json_array_size(b) + 1) * sizeof *other);
    size_t n = set_of(one, a), same = 0;
    if (set_of(other, b) != n)
        return 0;
    while (same < n && strcmp(one[same], other[same]) == 0)
        same++;
    return same == n;
}

/* Of the topology's matrix: the place in the list is a column. Other lists are sets of words. */
static int is_ordered(const struct compare_walk *w)
{
    static const char matrix[] = "topology\x1f" /* RP_FIELD_SEPARATOR */
                                 "matrix\x1f";
    return strncmp(w->path.data, matrix, sizeof matrix - 1) == 0;
}

static int is_same_value(const struct compare_walk *w, const struct rp_field *f, const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b) && (json_typeof(a) != json_typeof(b) || (f && f->approx && !w->each))) {
        double x = json_number_value(a), y = json_number_value(b), slack = f && f->approx && !w->each ? ROUGHLY * (x > y ? x : y) : 0;
        return !(x < y - slack) && !(x > y + slack);
    }
    if (json_is_array(a) && json_is_array(b) && !is_ordered(w))
        return is_same_set(a, b);
    return json_equal(a, b);
}

/* Both are known, and whatever their field means they are the same: most values of two captures. */
static int is_identical(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "unit"), *y = json_object_get(b, "unit");
    return json_equal(json_object_get(a, "value"), json_object_get(b, "value")) && (x == y || json_equal(x, y));
}

/* Both known values. */
static int is_same(const struct compare_walk *w, const struct rp_field *f, const json_t *a, const json_t *b)
{
    return is_same_value(w, f, json_object_get(a, "value"), json_object_get(b, "value")) &&
           (w->each || json_equal(json_object_get(a, "unit"), json_object_get(b, "unit")) ||
            (!json_object_get(a, "unit") && !json_object_get(b, "unit")));
}

/* One has the limit "max", the other has no such limit: neither is limited. */
static int is_unlimited(const struct compare_walk *w, const json_t *a, const json_t *b)
{
    const char *max = json_string_value(json_object_get(kind_of(a) == KNOWN ? a : b, "value"));
    return !w->each && max && strcmp(max, "max") == 0 && (kind_of(a) == ABSENT || kind_of(b) == ABSENT);
}

static json_int_t count_known(const json_t *node)
{
    json_int_t n = 0;
    const char *key;
    json_t *child;
    if (kind_of(node) != GROUP)
        return kind_of(node) == KNOWN;
    json_object_foreach((json_t *)node, key, child) /* jansson iterates over non-const objects only */
        n += count_known(child);
    return n;
}

/* ---- the lists ---- */

static json_t *side_json(const json_t *node)
{
    static const char *const kept[] = {"state", "value", "unit"};
    if (!node)
        return json_null();
    if (kind_of(node) == GROUP)
        return json_pack("{s:I}", "values", count_known(node));
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(out, kept[i], json_object_get(node, kept[i])); /* nothing for a key that is not there */
    return out;
}

/* Of two rows of the matrix with the same columns: which cells differ. NULL: nothing of that kind. */
static json_t *differing_cells(const struct compare_walk *w, const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "value"), *y = json_object_get(b, "value");
    size_t n = json_array_size(x);
    if (w->each || !n || !is_ordered(w) || json_array_size(y) != n || !json_equal(w->columns[0], w->columns[1]) ||
        json_array_size(w->columns[0]) < n) /* the affinities have a place for each GPU only, and these come first */
        return NULL;
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        if (!json_equal(json_array_get(x, i), json_array_get(y, i)))
            json_array_append_new(out, json_pack("{s:O, s:O, s:O}", "to", json_array_get(w->columns[0], i), "a", json_array_get(x, i), "b",
                                                 json_array_get(y, i)));
    return out;
}

static void list_difference(const struct compare_walk *w, json_t *where, const struct rp_field *f, const json_t *a, const json_t *b)
{
    RP_FREE char *path = shown_path(w);
    json_t *d = json_pack("{s:s, s:s?, s:s, s:b, s:o, s:o}", "field", path, "pattern", f ? f->pattern : NULL, "impact",
                          rp_impact_name(f ? f->impact : RP_IMPACT_MEDIUM), "volatile", f && f->moment, "a", side_json(a), "b", side_json(b));
    json_t *which = differing_cells(w, a, b);
    if (which)
        json_object_set_new(d, "cells", which);
    json_array_append_new(where, d);
}

/* Things and variables are listed by their names: what is not listed is not there. A missing field of a fixed name was not looked for. */
static int is_listed_by_name(const struct rp_field *f)
{
    static const char variables[] = "environment.";
    const char *last = f ? strrchr(f->pattern, '.') : NULL;
    return last && (strcmp(last, ".*") == 0 || strncmp(f->pattern, variables, sizeof variables - 1) == 0);
}

/* Something is known on one side, or a whole group is there. */
static void list_one(struct compare_walk *w, const struct rp_field *f, const json_t *a, const json_t *b)
{
    enum known least = kind_of(a) < kind_of(b) ? kind_of(a) : kind_of(b);
    int differs = least == ABSENT || (least == MISSING && is_listed_by_name(f)) || least == KNOWN;
    int other_name = !w->same_hiding && holds_interface(w->path.data);
    list_difference(w, other_name ? w->not_comparable : differs ? w->different : w->one_side, f, a, b);
}

static void compare_values(struct compare_walk *w, const json_t *a, const json_t *b)
{
    enum known ka = kind_of(a), kb = kind_of(b);
    const json_t *va = json_object_get(a, "value"), *vb = json_object_get(b, "value");
    if (ka == KNOWN && kb == KNOWN ? is_identical(a, b) : is_unlimited(w, a, b))
        w->equal++;
    else if (ka == KNOWN || kb == KNOWN) {
        const struct rp_field *f = rp_field_find(w->path.data, RP_FIELD_SEPARATOR);
        if (ka != kb)
            list_one(w, f, a, b);
        else if (is_same(w, f, a, b))
            w->equal++;
        else
            list_difference(w, !w->same_hiding && (holds_hash(va) || holds_hash(vb)) ? w->not_comparable : w->different, f, a, b);
    } else if (ka <= ABSENT && kb <= ABSENT)
        w->absent++;
    else {
        RP_FREE char *path = shown_path(w);
        json_array_append_new(w->unknown, json_string(path));
    }
}

/* ---- the walk ---- */

static int compare_nodes(struct compare_walk *w, const json_t *a, const json_t *b);

static int compare_child(struct compare_walk *w, const char *name, const json_t *a, const json_t *b)
{
    size_t end = w->path.size;
    if (end + strlen(name) + 2 > PATH_BYTES)
        return rp_fail(w->err, RP_MALFORMED, "a value whose names have more than %d bytes: no capture has such", PATH_BYTES);
    rp_buf_puts(&w->path, end ? (const char[]){RP_FIELD_SEPARATOR, 0} : "");
    rp_buf_puts(&w->path, name);
    int rc = compare_nodes(w, a, b);
    w->path.size = end;
    w->path.data[end] = 0;
    return rc;
}

/* The child of that name; the value itself where the other document has a group in its place. */
static const json_t *child_of(const json_t *node, const char *name)
{
    return kind_of(node) == GROUP ? json_object_get(node, name) : node;
}

static int compare_children(struct compare_walk *w, const json_t *a, const json_t *b)
{
    const json_t *sides[] = {a, b};
    size_t n = 0;
    int rc = 0;
    const char *key;
    json_t *child;
    RP_FREE const char **name = rp_alloc((json_object_size(a) + json_object_size(b) + 1) * sizeof *name);
    for (int i = 0; i < 2; i++)
        if (kind_of(sides[i]) == GROUP)
            json_object_foreach((json_t *)sides[i], key, child)
                name[n++] = key;
    rp_sort_text(name, n);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (i == 0 || strcmp(name[i], name[i - 1]) != 0)
            rc = compare_child(w, name[i], child_of(a, name[i]), child_of(b, name[i]));
    return rc;
}

static int compare_nodes(struct compare_walk *w, const json_t *a, const json_t *b)
{
    if (kind_of(a) != GROUP && kind_of(b) != GROUP) {
        compare_values(w, a, b);
        return 0;
    }
    const struct rp_field *f = w->each || kind_of(a) == kind_of(b) ? NULL : rp_field_find(w->path.data, RP_FIELD_SEPARATOR);
    if (f && count_known(a) + count_known(b) > 0) {
        list_one(w, f, a, b);
        return 0;
    }
    return compare_children(w, a, b);
}

/* Whether equal texts have equal hashes in both. */
static int hide_alike(const json_t *a, const json_t *b)
{
    return json_is_true(json_object_get(a, "identified")) == json_is_true(json_object_get(b, "identified")) &&
           json_equal(json_object_get(a, "salt"), json_object_get(b, "salt"));
}

/* Probes that did not run on one side are named and left out. */
static int compare_probes(struct compare_walk *w, const json_t *a, const json_t *b, json_t *not_captured)
{
    const json_t *const sides[] = {a, b};
    RP_JSON *one = json_object(), *other = json_object();
    const char *key;
    json_t *probe;
    for (int i = 0; i < 2; i++)
        json_object_foreach((json_t *)sides[i], key, probe)
            if (json_object_get(sides[1 - i], key))
                json_object_set(i ? other : one, key, probe);
            else
                json_array_append_new(not_captured, json_string(key));
    return compare_children(w, one, other);
}

/* Both documents into w's lists. */
static int walk_both(struct compare_walk *w, const json_t *a, const json_t *b, json_t *not_captured)
{
    const json_t *const both[] = {a, b};
    w->same_hiding = hide_alike(a, b);
    for (int i = 0; i < 2; i++) {
        w->columns[i] = rp_json_at(both[i], "probes/topology/matrix/columns/value");
    }
    rp_buf_puts(&w->path, "");
    int rc = compare_probes(w, json_object_get(a, "probes"), json_object_get(b, "probes"), not_captured);
    rp_buf_fini(&w->path);
    return rc;
}

json_t *rp_capture_compare(const json_t *a, const json_t *b, struct rp_err *err)
{
    struct compare_walk w = {
        .err = err, .different = json_array(), .one_side = json_array(), .not_comparable = json_array(), .unknown = json_array()};
    json_t *not_captured = json_array();
    int rc = walk_both(&w, a, b, not_captured);
    json_t *out = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "different", w.different, "one_side", w.one_side, "not_comparable",
                            w.not_comparable, "unknown", w.unknown, "not_captured", not_captured, "equal", w.equal, "absent", w.absent);
    if (rc < 0)
        rp_json_decref(&out);
    return out;
}

json_t *rp_capture_changes(const json_t *before, const json_t *after, struct rp_err *err)
{
    RP_JSON *all = json_array(), *unknown = json_array();
    struct compare_walk w = {.err = err, .each = 1, .different = all, .one_side = all, .not_comparable = all, .unknown = unknown};
    size_t k;
    json_t *d;
    if (walk_both(&w, before, after, unknown) < 0)
        return NULL;
    json_t *out = json_array();
    json_array_foreach(all, k, d)
        json_array_append_new(out, json_pack("{s:O, s:O, s:O, s:O, s:O}", "field", json_object_get(d, "field"), "impact",
                                             json_object_get(d, "impact"), "volatile", json_object_get(d, "volatile"), "before",
                                             json_object_get(d, "a"), "after", json_object_get(d, "b")));
    return out;
}

int rp_change_matters(const char *impact, int varies)
{
    return !varies && (strcmp(impact, rp_impact_name(RP_IMPACT_HIGH)) == 0 || strcmp(impact, rp_impact_name(RP_IMPACT_MEDIUM)) == 0);
}

int rp_capture_important(const json_t *difference)
{
    return rp_change_matters(rp_json_text_at(difference, "impact"), json_is_true(json_object_get(difference, "volatile")));
}

json_t *rp_capture_only_here(const json_t *list, const json_t *other)
{
    const size_t words = json_array_size(list), others = json_array_size(other);
    if (!words || !others || words > WORDS_MAX || others > WORDS_MAX)
        return NULL;
    json_t *rest = json_array();
    for (size_t i = 0; i < words; i++) {
        size_t k = 0;
        while (k < others && !json_equal(json_array_get(other, k), json_array_get(list, i)))
            k++;
        if (k == others)
            json_array_append(rest, json_array_get(list, i));
    }
    return rest;
}
