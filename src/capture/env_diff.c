#include "capture/env_diff.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/sort.h"
#include "capture/capture.h"
#include "capture/fields.h"
#include "capture/value.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RP_OBJECT_LIST "capture/env_diff.def"
#include "base/object_tables.inc.h"

#define WORDS_MAX 4096 /* of lists that are compared word by word */
#define PATH_BYTES 1024 /* of names on the way to a value */
#define ROUGHLY 0.01

/* A value or group of one of the two documents. */
struct side {
    const json_t *json;
    struct rp_leaf leaf;
};

struct compare_walk {
    struct rp_buf path; /* names with RP_FIELD_SEPARATOR between them */
    int same_hiding;    /* both documents hide with the same salt, or neither hides */
    /* groups are not summed up, only identical values are equal, and `different` has all: this result must never
     * change */
    int each;
    const json_t *columns[2]; /* of the two topology matrices */
    struct rp_capture_comparison *out;
    struct rp_err *err;
};

static struct side side_of(const json_t *json)
{
    return (struct side){json, rp_leaf(json)};
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

/* In the topology's matrix the place in a list is a column. Other lists are sets of words. */
static int is_ordered(const struct compare_walk *w)
{
    static const char matrix[] = "topology\x1f" /* RP_FIELD_SEPARATOR */
                                 "matrix\x1f";
    return strncmp(w->path.data, matrix, sizeof matrix - 1) == 0;
}

static int is_same_value(const struct compare_walk *w, const struct rp_field *f, const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b) && (json_typeof(a) != json_typeof(b) || (f && f->approx && !w->each))) {
        double x = json_number_value(a), y = json_number_value(b),
               slack = f && f->approx && !w->each ? ROUGHLY * (x > y ? x : y) : 0;
        return !(x < y - slack) && !(x > y + slack);
    }
    if (json_is_array(a) && json_is_array(b) && !is_ordered(w))
        return is_same_set(a, b);
    return json_equal(a, b);
}

/* Both are known, and whatever their field means they are the same: most values of two captures. */
static int is_identical(const struct rp_leaf *a, const struct rp_leaf *b)
{
    return json_equal(a->value, b->value) && strcmp(a->unit, b->unit) == 0;
}

/* Both known values. */
static int is_same(const struct compare_walk *w, const struct rp_field *f, const struct rp_leaf *a,
                   const struct rp_leaf *b)
{
    return is_same_value(w, f, a->value, b->value) && (w->each || strcmp(a->unit, b->unit) == 0);
}

/* One has the limit "max", the other has no such limit: neither is limited. */
static int is_unlimited(const struct compare_walk *w, const struct rp_leaf *a, const struct rp_leaf *b)
{
    const char *max = json_string_value(a->kind == RP_LEAF_KNOWN ? a->value : b->value);
    return !w->each && max && strcmp(max, "max") == 0 && (a->kind == RP_LEAF_ABSENT || b->kind == RP_LEAF_ABSENT);
}

static json_int_t count_known(const json_t *node)
{
    const enum rp_leaf_kind kind = rp_leaf(node).kind;
    json_int_t n = 0;
    const char *key;
    json_t *child;
    if (kind != RP_LEAF_GROUP)
        return kind == RP_LEAF_KNOWN;
    json_object_foreach((json_t *)node, key, child) /* jansson iterates over non-const objects only */
        n += count_known(child);
    return n;
}

/* ---- the lists ---- */

static json_t *side_json(const struct side *s)
{
    static const char *const kept[] = {"state", "value", "unit"};
    if (!s->json)
        return json_null();
    if (s->leaf.kind == RP_LEAF_GROUP)
        return json_pack("{s:I}", "values", count_known(s->json));
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(out, kept[i], json_object_get(s->json, kept[i])); /* nothing for a key that is not there */
    return out;
}

static char *word_of(const json_t *list, size_t i)
{
    const char *text = json_string_value(json_array_get(list, i));
    return rp_strdup(text ? text : "");
}

/* Which cells differ in two rows of the matrix with the same columns. */
static void add_cells(struct rp_difference *d, const struct compare_walk *w, const json_t *x, const json_t *y)
{
    const size_t n = json_array_size(x);
    if (w->each || !n || !is_ordered(w) || json_array_size(y) != n || !json_equal(w->columns[0], w->columns[1]) ||
        json_array_size(w->columns[0]) < n) /* the affinities have a place for each GPU only, and these come first */
        return;
    for (size_t i = 0; i < n; i++)
        if (!json_equal(json_array_get(x, i), json_array_get(y, i))) {
            struct rp_cell_difference *cell = rp_object_add(&d->cells, &d->cells_n, &rp_type_cell_difference);
            *cell = (struct rp_cell_difference){word_of(w->columns[0], i), word_of(x, i), word_of(y, i)};
        }
}

enum list { DIFFERENT, ONE_SIDE, NOT_COMPARABLE };

static void list_difference(const struct compare_walk *w, enum list where, const struct rp_field *f,
                            const struct side *a, const struct side *b)
{
    struct rp_capture_comparison *out = w->out;
    struct rp_difference **const lists[] = {&out->different, &out->one_side, &out->not_comparable};
    int64_t *const counts[] = {&out->different_n, &out->one_side_n, &out->not_comparable_n};
    const enum list to = w->each ? DIFFERENT : where;
    struct rp_difference *d = rp_object_add(lists[to], counts[to], &rp_type_difference);
    d->field = shown_path(w);
    d->pattern = rp_text_copy(f ? f->pattern : NULL);
    d->impact = rp_strdup(rp_impact_name(f ? f->impact : RP_IMPACT_MEDIUM));
    d->varies = f && f->moment;
    d->why = rp_strdup(f ? f->why : "");
    d->a = side_json(a);
    d->b = side_json(b);
    add_cells(d, w, a->leaf.value, b->leaf.value);
}

/* Things and variables are listed by their names: what is not listed is not there. A missing field of a fixed name was
 * not looked for. */
static int is_listed_by_name(const struct rp_field *f)
{
    static const char variables[] = "environment.";
    const char *last = f ? strrchr(f->pattern, '.') : NULL;
    return last && (strcmp(last, ".*") == 0 || strncmp(f->pattern, variables, sizeof variables - 1) == 0);
}

/* Something is known on one side, or a whole group is there. */
static void list_one(struct compare_walk *w, const struct rp_field *f, const struct side *a, const struct side *b)
{
    const enum rp_leaf_kind least = a->leaf.kind < b->leaf.kind ? a->leaf.kind : b->leaf.kind;
    int differs =
        least == RP_LEAF_ABSENT || (least == RP_LEAF_MISSING && is_listed_by_name(f)) || least == RP_LEAF_KNOWN;
    int other_name = !w->same_hiding && holds_interface(w->path.data);
    list_difference(w, other_name ? NOT_COMPARABLE : differs ? DIFFERENT : ONE_SIDE, f, a, b);
}

static void compare_values(struct compare_walk *w, const struct side *a, const struct side *b)
{
    struct rp_capture_comparison *out = w->out;
    const enum rp_leaf_kind ka = a->leaf.kind, kb = b->leaf.kind;
    const json_t *va = a->leaf.value, *vb = b->leaf.value;
    if (ka == RP_LEAF_KNOWN && kb == RP_LEAF_KNOWN ? is_identical(&a->leaf, &b->leaf)
                                                   : is_unlimited(w, &a->leaf, &b->leaf))
        out->equal++;
    else if (ka == RP_LEAF_KNOWN || kb == RP_LEAF_KNOWN) {
        const struct rp_field *f = rp_field_find(w->path.data, RP_FIELD_SEPARATOR);
        if (ka != kb)
            list_one(w, f, a, b);
        else if (is_same(w, f, &a->leaf, &b->leaf))
            out->equal++;
        else
            list_difference(w, !w->same_hiding && (holds_hash(va) || holds_hash(vb)) ? NOT_COMPARABLE : DIFFERENT, f, a,
                            b);
    } else if (ka <= RP_LEAF_ABSENT && kb <= RP_LEAF_ABSENT)
        out->absent++;
    else if (!w->each)
        rp_texts_add(&out->unknown, &out->unknown_n, shown_path(w));
}

/* ---- the walk ---- */

static int compare_nodes(struct compare_walk *w, const struct side *a, const struct side *b);

static int compare_child(struct compare_walk *w, const char *name, const json_t *a, const json_t *b)
{
    const struct side x = side_of(a), y = side_of(b);
    size_t end = w->path.size;
    if (end + strlen(name) + 2 > PATH_BYTES)
        return rp_fail(w->err, RP_MALFORMED, "a value whose names have more than %d bytes: no capture has such",
                       PATH_BYTES);
    rp_buf_puts(&w->path, end ? (const char[]){RP_FIELD_SEPARATOR, 0} : "");
    rp_buf_puts(&w->path, name);
    int rc = compare_nodes(w, &x, &y);
    w->path.size = end;
    w->path.data[end] = 0;
    return rc;
}

/* The child of that name; the value itself where the other document has a group in its place. */
static const json_t *child_of(const struct side *s, const char *name)
{
    return s->leaf.kind == RP_LEAF_GROUP ? json_object_get(s->json, name) : s->json;
}

static int compare_children(struct compare_walk *w, const struct side *a, const struct side *b)
{
    const struct side *const sides[] = {a, b};
    size_t n = 0;
    int rc = 0;
    const char *key;
    json_t *child;
    RP_FREE const char **name = rp_alloc((json_object_size(a->json) + json_object_size(b->json) + 1) * sizeof *name);
    for (int i = 0; i < 2; i++)
        if (sides[i]->leaf.kind == RP_LEAF_GROUP)
            json_object_foreach((json_t *)sides[i]->json, key, child)
                name[n++] = key;
    rp_sort_text(name, n);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (i == 0 || strcmp(name[i], name[i - 1]) != 0)
            rc = compare_child(w, name[i], child_of(a, name[i]), child_of(b, name[i]));
    return rc;
}

static int compare_nodes(struct compare_walk *w, const struct side *a, const struct side *b)
{
    const enum rp_leaf_kind ka = a->leaf.kind, kb = b->leaf.kind;
    if (ka != RP_LEAF_GROUP && kb != RP_LEAF_GROUP) {
        compare_values(w, a, b);
        return 0;
    }
    const struct rp_field *f = w->each || ka == kb ? NULL : rp_field_find(w->path.data, RP_FIELD_SEPARATOR);
    if (f && count_known(a->json) + count_known(b->json) > 0) {
        list_one(w, f, a, b);
        return 0;
    }
    return compare_children(w, a, b);
}

/* Whether equal texts have equal hashes in both. */
static int hide_alike(const json_t *a, const json_t *b)
{
    RP_READ(capture_document, x, a);
    RP_READ(capture_document, y, b);
    return x.identified == y.identified && strcmp(rp_text_or_empty(x.salt), rp_text_or_empty(y.salt)) == 0;
}

/* Probes that did not run on one side are named and left out. */
static int compare_probes(struct compare_walk *w, const json_t *a, const json_t *b)
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
                rp_texts_add(&w->out->not_captured, &w->out->not_captured_n, rp_strdup(key));
    const struct side x = side_of(one), y = side_of(other);
    return compare_children(w, &x, &y);
}

static int walk_both(struct rp_capture_comparison *out, const json_t *a, const json_t *b, int each, struct rp_err *err)
{
    struct compare_walk w = {.each = each, .out = out, .err = err, .same_hiding = hide_alike(a, b)};
    const json_t *const probes[] = {rp_json_at(a, "probes"), rp_json_at(b, "probes")};
    rp_object_init(out, &rp_type_capture_comparison);
    out->unknown = rp_alloc(sizeof *out->unknown); /* listed also where they are empty */
    out->not_captured = rp_alloc(sizeof *out->not_captured);
    for (int i = 0; i < 2; i++)
        w.columns[i] = rp_known(probes[i], "topology.matrix.columns");
    rp_buf_puts(&w.path, "");
    int rc = compare_probes(&w, probes[0], probes[1]);
    rp_buf_fini(&w.path);
    return rc;
}

int rp_capture_compare(struct rp_capture_comparison *out, const json_t *a, const json_t *b, struct rp_err *err)
{
    return walk_both(out, a, b, 0, err);
}

int rp_capture_changes(struct rp_capture_comparison *out, const json_t *before, const json_t *after, struct rp_err *err)
{
    return walk_both(out, before, after, 1, err);
}

void rp_capture_comparison_fini(struct rp_capture_comparison *c)
{
    rp_object_fini(c, &rp_type_capture_comparison);
}

int rp_change_matters(const char *impact, int varies)
{
    return !varies && (strcmp(impact, rp_impact_name(RP_IMPACT_HIGH)) == 0 ||
                       strcmp(impact, rp_impact_name(RP_IMPACT_MEDIUM)) == 0);
}

int rp_capture_important(const struct rp_difference *d)
{
    return rp_change_matters(d->impact, d->varies);
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
