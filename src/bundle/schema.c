/* A schema is compiled once into nodes, and a document is checked against these: no keyword is looked up by name for a
 * value.
 *
 *   node          one schema object: which keywords it has (bits, in the order in which they are applied), and their
 *                 arguments
 *   property[]    its properties in the order of the schema, each with a node
 *   any[], items, additional, ref
 *                 other nodes; a ref may lead back to the root, so nodes are owned by the list of all */
#include "bundle/schema.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_CHARS 200
#define PROPERTIES_MAX 64 /* of one object */

struct property {
    const char *name;
    size_t size;
    const struct node *node;
};

/* In the order in which they are applied: cheap and telling ones first. From `DEFS`
 * on they are not applied to values. */
enum keyword_id {
    TYPE, CONST, ENUM, PROPERTIES, REQUIRED, ADDITIONAL, MIN_ITEMS, MAX_ITEMS, ITEMS, MINIMUM, MAXIMUM, MIN_LENGTH,
    MAX_LENGTH, PATTERN, REF, ANY_OF, DEFS
};

struct node {
    const json_t *schema;
    unsigned has;            /* bit i: row i of keywords[] */
    const json_t *arg[DEFS]; /* of each keyword */
    unsigned types;         /* bit t: of jansson's type t */
    struct property *property;
    int properties, closed; /* closed: no other property is allowed */
    const struct node *additional, *items, *ref, **any;
    int anys;
    int (*is)(const char *text); /* instead of a pattern that is known */
    regex_t *re;
};

struct rp_schema {
    json_t *doc; /* names and values of the nodes are its own */
    struct node **node, *root;
    int n;
};

/* ---- compiling ---- */

static struct node *compile(struct rp_schema *s, const json_t *schema, struct rp_err *err);

static int add_type(struct node *n, const char *name)
{
    static const struct {
        const char *name;
        unsigned types;
    } types[] = {{"object", 1u << JSON_OBJECT},   {"array", 1u << JSON_ARRAY},
                 {"string", 1u << JSON_STRING},   {"integer", 1u << JSON_INTEGER},
                 {"number", 1u << JSON_INTEGER | 1u << JSON_REAL}, {"boolean", 1u << JSON_TRUE | 1u << JSON_FALSE},
                 {"null", 1u << JSON_NULL}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) {
            n->types |= types[i].types;
            return 0;
        }
    return -1;
}

static int c_type(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    (void)s;
    size_t i;
    json_t *one;
    int unknown = 0;
    if (json_is_string(arg))
        unknown = add_type(n, json_string_value(arg));
    json_array_foreach(arg, i, one)
        unknown |= add_type(n, json_string_value(one));
    return unknown ? rp_fail(err, RP_BUG, "schema: an unknown type") : 0;
}

static int c_properties(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    const char *name;
    json_t *sub;
    if (json_object_size(arg) > PROPERTIES_MAX)
        return rp_fail(err, RP_BUG, "schema: more than %d properties of one object", PROPERTIES_MAX);
    n->property = rp_alloc((json_object_size(arg) + 1) * sizeof *n->property);
    json_object_foreach((json_t *)arg, name, sub)
    {
        struct property *p = &n->property[n->properties++];
        *p = (struct property){name, strlen(name), compile(s, sub, err)};
        if (!p->node)
            return -1;
    }
    return 0;
}

static int c_additional(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    n->closed = json_is_false(arg);
    n->additional = json_is_object(arg) ? compile(s, arg, err) : NULL;
    return json_is_object(arg) && !n->additional ? -1 : 0;
}

static int c_items(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    n->items = compile(s, arg, err);
    return n->items ? 0 : -1;
}

static int c_pattern(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    (void)s;
    const char *pattern = json_string_value(arg);
    if (pattern && strcmp(pattern, "^[0-9a-f]{64}$") == 0) { /* the most frequent one, and slow to compile */
        n->is = rp_is_sha256;
        return 0;
    }
    regex_t *re = rp_alloc(sizeof *re);
    const int why = pattern ? regcomp(re, pattern, REG_EXTENDED | REG_NOSUB) : REG_BADPAT;
    if (why == REG_ESPACE)
        rp_out_of_memory(strlen(pattern));
    if (why) {
        free(re);
        return rp_fail(err, RP_BUG, "schema: '%s' is not an extended regular expression", pattern ? pattern : "");
    }
    n->re = re;
    return 0;
}

static int c_ref(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    const char *ref = json_string_value(arg);
    const json_t *to = ref && strncmp(ref, "#/$defs/", 8) == 0
                           ? json_object_get(json_object_get(s->doc, "$defs"), ref + 8)
                       : ref && strcmp(ref, "#") == 0 ? s->doc
                                                      : NULL;
    if (!to)
        return rp_fail(err, RP_BUG, "schema: nothing at '%s'", ref ? ref : "");
    n->ref = compile(s, to, err);
    return n->ref ? 0 : -1;
}

static int c_defs(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    (void)n;
    const char *name;
    json_t *sub;
    json_object_foreach((json_t *)arg, name, sub)
        if (!compile(s, sub, err))
            return -1;
    return 0;
}

static int c_any_of(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err)
{
    size_t i;
    json_t *one;
    n->any = rp_alloc((json_array_size(arg) + 1) * sizeof(void *));
    json_array_foreach(arg, i, one)
        if (!(n->any[n->anys++] = compile(s, one, err)))
            return -1;
    return 0;
}

/* ---- checking ---- */

/* The place of a value; written out only when it is refused. */
struct part {
    const struct part *of; /* NULL: of the document itself */
    const char *name;      /* NULL: of a list, */
    size_t index;          /* with this number */
};

struct schema_walk {
    const char *what;
    struct rp_err *err;
    const struct part *at; /* of the value at hand; NULL: the document */
    int quiet; /* inside an alternative that another one follows: no message is needed */
};

static int check_node(struct schema_walk *w, const struct node *n, const json_t *v);

/* "/results/windows/0", cut where it is too long */
static size_t write_path(char out[PATH_MAX_CHARS], const struct part *at)
{
    char safe[80];
    if (!at)
        return 0;
    size_t n = write_path(out, at->of);
    if (at->name)
        n += (size_t)snprintf(out + n, PATH_MAX_CHARS - n, "/%s", rp_ascii(safe, sizeof safe, at->name));
    else
        n += (size_t)snprintf(out + n, PATH_MAX_CHARS - n, "/%zu", at->index);
    return n < PATH_MAX_CHARS ? n : PATH_MAX_CHARS - 1;
}

static int fail_walk(struct schema_walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail_walk(struct schema_walk *w, const char *fmt, ...)
{
    char text[200], safe[200], path[PATH_MAX_CHARS] = "the document";
    if (w->quiet) {
        w->err->code = RP_MALFORMED;
        return -1;
    }
    RP_FORMAT_ARGS(text, fmt);
    write_path(path, w->at);
    return rp_fail(w->err, RP_MALFORMED, "%s: %s %s", w->what, path, rp_ascii(safe, sizeof safe, text));
}

/* Check one part of the value at hand: of that name, or with that number in a list. */
static int check_part(struct schema_walk *w, const struct node *n, const json_t *v, const char *name, size_t index)
{
    struct part part = {w->at, name, index};
    w->at = &part;
    int r = check_node(w, n, v);
    w->at = part.of;
    return r;
}

static int k_type(struct schema_walk *w, const struct node *n, const json_t *v)
{
    if (n->types >> json_typeof(v) & 1)
        return 0;
    const char *type = json_string_value(n->arg[TYPE]);
    return type ? fail_walk(w, "is not of type %s", type) : fail_walk(w, "is of none of its types");
}

static int k_const(struct schema_walk *w, const struct node *n, const json_t *v)
{
    const char *text = json_string_value(n->arg[CONST]);
    return json_equal(n->arg[CONST], v) ? 0 : fail_walk(w, "is not '%s'", text ? text : "what it must be");
}

static int k_enum(struct schema_walk *w, const struct node *n, const json_t *v)
{
    size_t i;
    json_t *one;
    json_array_foreach(n->arg[ENUM], i, one)
        if (json_equal(one, v))
            return 0;
    return fail_walk(w, "is none of the allowed values");
}

static int k_required(struct schema_walk *w, const struct node *n, const json_t *v)
{
    size_t i;
    json_t *name;
    json_array_foreach(n->arg[REQUIRED], i, name)
        if (!json_object_get(v, json_string_value(name)))
            return fail_walk(w, "has no '%s'", json_string_value(name));
    return 0;
}

/* The number of the property of that name; -1: there is none. */
static int property_of(const struct node *n, const char *name, size_t size)
{
    for (int i = 0; i < n->properties; i++)
        if (n->property[i].size == size && memcmp(n->property[i].name, name, size) == 0)
            return i;
    return -1;
}

/* Required, additional, known ones, in this order: it decides which fault is reported. */
static int k_properties(struct schema_walk *w, const struct node *n, const json_t *v)
{
    const json_t *known[PROPERTIES_MAX];
    const char *name;
    size_t size;
    json_t *part;
    if (!json_is_object(v))
        return 0;
    if (n->arg[REQUIRED] && k_required(w, n, v) < 0)
        return -1;
    memset(known, 0, (size_t)n->properties * sizeof(void *));
    json_object_keylen_foreach((json_t *)v, name, size, part)
    {
        int i = property_of(n, name, size);
        if (i >= 0)
            known[i] = part;
        else if (n->closed)
            return fail_walk(w, "has '%s', which has no meaning there", name);
        else if (n->additional && check_part(w, n->additional, part, name, 0) < 0)
            return -1;
    }
    for (int i = 0; i < n->properties; i++)
        if (known[i] && check_part(w, n->property[i].node, known[i], n->property[i].name, 0) < 0)
            return -1;
    return 0;
}

static int k_items(struct schema_walk *w, const struct node *n, const json_t *v)
{
    size_t i;
    json_t *part;
    json_array_foreach(v, i, part)
        if (check_part(w, n->items, part, NULL, i) < 0)
            return -1;
    return 0;
}

static int k_pattern(struct schema_walk *w, const struct node *n, const json_t *v)
{
    const char *text = json_string_value(v);
    const int found = !text ? 0 : n->is ? !n->is(text) : regexec(n->re, text, 0, NULL, 0);
    if (found == REG_ESPACE) /* which says nothing about the text */
        rp_out_of_memory(strlen(text));
    return !found ? 0 : fail_walk(w, "does not match %s", json_string_value(n->arg[PATTERN]));
}

static int k_any_of(struct schema_walk *w, const struct node *n, const json_t *v)
{
    for (int i = 0; i < n->anys; i++) {
        int is_last = i + 1 == n->anys;
        w->quiet += !is_last;
        int rc = check_node(w, n->any[i], v);
        w->quiet -= !is_last;
        if (rc == 0)
            return 0;
    } /* the last attempt's message stays */
    return -1;
}

static int k_ref(struct schema_walk *w, const struct node *n, const json_t *v)
{
    return check_node(w, n->ref, v);
}

#define ARRAYS (1u << JSON_ARRAY)
#define STRINGS (1u << JSON_STRING)
#define NUMBERS (1u << JSON_INTEGER | 1u << JSON_REAL)

/* Rows without a check are limits of the size of values of these types: at least, or else at most. */
static const struct keyword {
    const char *name;
    int (*compile)(struct rp_schema *s, struct node *n, const json_t *arg, struct rp_err *err);
    int (*check)(struct schema_walk *w, const struct node *n, const json_t *v);
    unsigned of, least;
    const char *before, *after; /* the limit, in the message */
} keywords[] = {
    [TYPE] = {"type", c_type, k_type},
    [CONST] = {"const", NULL, k_const},
    [ENUM] = {"enum", NULL, k_enum},
    [PROPERTIES] = {"properties", c_properties, k_properties},
    [REQUIRED] = {"required", NULL, k_properties},
    [ADDITIONAL] = {"additionalProperties", c_additional, k_properties},
    [MIN_ITEMS] = {"minItems", NULL, NULL, ARRAYS, 1, "has fewer than", " items"},
    [MAX_ITEMS] = {"maxItems", NULL, NULL, ARRAYS, 0, "has more than", " items"},
    [ITEMS] = {"items", c_items, k_items},
    [MINIMUM] = {"minimum", NULL, NULL, NUMBERS, 1, "is less than", ""},
    [MAXIMUM] = {"maximum", NULL, NULL, NUMBERS, 0, "is more than", ""},
    [MIN_LENGTH] = {"minLength", NULL, NULL, STRINGS, 1, "is shorter than", " bytes"},
    [MAX_LENGTH] = {"maxLength", NULL, NULL, STRINGS, 0, "is longer than", " bytes"},
    [PATTERN] = {"pattern", c_pattern, k_pattern},
    [REF] = {"$ref", c_ref, k_ref},
    [ANY_OF] = {"anyOf", c_any_of, k_any_of},
    [DEFS] = {"$defs", c_defs}, {"$schema"}, {"$id"}, {"$comment"}, {"title"}, {"description"}, {"unit"},
};
#define KEYWORDS (sizeof keywords / sizeof *keywords)

static int check_limit(struct schema_walk *w, const struct keyword *k, const json_t *arg, const json_t *v)
{
    if (!(k->of >> json_typeof(v) & 1))
        return 0;
    const double limit = json_number_value(arg);
    const double is = json_is_array(v)    ? (double)json_array_size(v)
                      : json_is_string(v) ? (double)json_string_length(v)
                                          : json_number_value(v);
    return (k->least ? is >= limit : is <= limit) ? 0 : fail_walk(w, "%s %.17g%s", k->before, limit, k->after);
}

static int check_node(struct schema_walk *w, const struct node *n, const json_t *v)
{
    for (unsigned left = n->has; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if ((keywords[i].check ? keywords[i].check(w, n, v) : check_limit(w, &keywords[i], n->arg[i], v)) < 0)
            return -1;
    }
    return 0;
}

int rp_schema_check(const struct rp_schema *schema, const json_t *doc, const char *what, struct rp_err *err)
{
    struct schema_walk w = {.what = what, .err = err};
    return check_node(&w, schema->root, doc);
}

/* ---- whole schemas ---- */

static int fill_node(struct rp_schema *s, struct node *n, const json_t *schema, struct rp_err *err)
{
    const char *name;
    json_t *arg;
    json_object_foreach((json_t *)schema, name, arg)
    {
        size_t i = 0;
        while (i < KEYWORDS && strcmp(keywords[i].name, name) != 0)
            i++;
        if (i == KEYWORDS)
            return rp_fail(err, RP_BUG, "schema: a keyword '%.40s' has no meaning here", name);
        if (i < DEFS) {
            n->has |= 1u << (keywords[i].check == k_properties ? PROPERTIES : i); /* which is called once */
            n->arg[i] = arg;
        }
        if (keywords[i].compile && keywords[i].compile(s, n, arg, err) < 0)
            return -1;
    }
    return 0;
}

/* The node of a schema object: the same for every reference to it, also while it is being filled. */
static struct node *compile(struct rp_schema *s, const json_t *schema, struct rp_err *err)
{
    for (int i = 0; i < s->n; i++)
        if (s->node[i]->schema == schema)
            return s->node[i];
    struct node *n = rp_alloc(sizeof *n);
    s->node = rp_realloc(s->node, (size_t)(s->n + 1) * sizeof(void *));
    s->node[s->n++] = n;
    n->schema = schema;
    return fill_node(s, n, schema, err) < 0 ? NULL : n;
}

void rp_schema_free(struct rp_schema *s)
{
    for (int i = 0; s && i < s->n; i++) {
        if (s->node[i]->re)
            regfree(s->node[i]->re);
        free(s->node[i]->re);
        free(s->node[i]->property);
        free(s->node[i]->any);
        free(s->node[i]);
    }
    if (s)
        json_decref(s->doc);
    free(s ? s->node : NULL);
    free(s);
}

struct rp_schema *rp_schema_new(const json_t *doc, struct rp_err *err)
{
    struct rp_schema *s = rp_alloc(sizeof *s);
    s->doc = json_incref((json_t *)doc);
    s->root = compile(s, doc, err);
    if (s->root)
        return s;
    rp_schema_free(s);
    return NULL;
}

const struct rp_schema *rp_schema_load(const char *name, struct rp_err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        const char *text; /* in the program, so that its place names it */
        const struct rp_schema *schema;
    } kept[8];
    const struct rp_schema *found = NULL;
    size_t size, i = 0, most = sizeof kept / sizeof *kept;
    const char *text = rp_schema_text(name, &size);
    if (!text)
        return rp_fail_null(err, RP_BUG, "unknown schema '%s'", name);
    pthread_mutex_lock(&lock);
    while (i < most && kept[i].text && kept[i].text != text)
        i++;
    RP_BUG_IF(i == most);
    if (!kept[i].text) {
        RP_JSON *doc = rp_json_parse(text, size, name, err);
        kept[i].schema = doc ? rp_schema_new(doc, err) : NULL;
        kept[i].text = kept[i].schema ? text : NULL;
    }
    found = kept[i].schema;
    pthread_mutex_unlock(&lock);
    return found;
}

json_t *rp_schema_parse(const char *name, const char *data, size_t size, const char *what, struct rp_err *err)
{
    const struct rp_schema *schema = rp_schema_load(name, err);
    json_t *j = schema ? rp_json_parse(data, size, what, err) : NULL;
    if (j && rp_schema_check(schema, j, what, err) < 0)
        rp_json_decref(&j);
    return j;
}
