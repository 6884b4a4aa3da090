#include "bundle/schema.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_CHARS 200

/* Where a value stands; written out only when it is refused. */
struct part {
    const struct part *of; /* NULL: of the document itself */
    const char *name;
};

#define COMPILED_MAX 16 /* run.schema.json has 4 patterns, for a thousand values */

struct walk {
    const json_t *root; /* of the schema, for $ref */
    const char *what;
    struct rp_err *err;
    const struct part *at; /* of the value at hand; NULL: the document */
    struct {
        const char *pattern;
        regex_t re;
    } compiled[COMPILED_MAX]; /* those that were met first */
    int n;
    int quiet; /* inside of an alternative that another one follows: nobody reads why it failed */
};

static int check(struct walk *w, const json_t *schema, const json_t *v);

/* "/results/windows/0", cut where it is too long */
static size_t write_path(char out[PATH_MAX_CHARS], const struct part *at)
{
    char safe[80];
    if (!at)
        return 0;
    size_t n = write_path(out, at->of);
    n += (size_t)snprintf(out + n, PATH_MAX_CHARS - n, "/%s", rp_safe(safe, sizeof safe, at->name));
    return n < PATH_MAX_CHARS ? n : PATH_MAX_CHARS - 1;
}

static int fail(struct walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct walk *w, const char *fmt, ...)
{
    char text[200], safe[200], path[PATH_MAX_CHARS] = "the document";
    va_list ap;
    if (w->quiet) {
        w->err->code = RP_MALFORMED;
        return -1;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    write_path(path, w->at);
    return rp_fail(w->err, RP_MALFORMED, "%s: %s %s", w->what, path, rp_safe(safe, sizeof safe, text));
}

/* Check one part of the value at hand. */
static int check_part(struct walk *w, const json_t *schema, const json_t *v, const char *name)
{
    struct part part = {w->at, name};
    w->at = &part;
    int r = check(w, schema, v);
    w->at = part.of;
    return r;
}

static int is_type(const json_t *v, const char *type)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return strcmp(type, "object") == 0;
    case JSON_ARRAY: return strcmp(type, "array") == 0;
    case JSON_STRING: return strcmp(type, "string") == 0;
    case JSON_INTEGER: return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL: return strcmp(type, "number") == 0;
    case JSON_TRUE:
    case JSON_FALSE: return strcmp(type, "boolean") == 0;
    default: return strcmp(type, "null") == 0;
    }
}

static int k_type(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    size_t i;
    const json_t *one;
    if (json_is_string(arg))
        return is_type(v, json_string_value(arg)) ? 0 : fail(w, "is not of type %s", json_string_value(arg));
    json_array_foreach(arg, i, one)
        if (is_type(v, json_string_value(one)))
            return 0;
    return fail(w, "is of none of its types");
}

static int k_const(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    return json_equal(arg, v) ? 0 : fail(w, "is not '%s'", json_is_string(arg) ? json_string_value(arg) : "what it must be");
}

static int k_enum(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    size_t i;
    const json_t *one;
    json_array_foreach(arg, i, one)
        if (json_equal(one, v))
            return 0;
    return fail(w, "is none of the allowed values");
}

static int k_required(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    size_t i;
    const json_t *name;
    if (!json_is_object(v))
        return 0;
    json_array_foreach(arg, i, name)
        if (!json_object_get(v, json_string_value(name)))
            return fail(w, "has no '%s'", json_string_value(name));
    return 0;
}

static int k_properties(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    const char *name;
    json_t *sub;
    if (!json_is_object(v))
        return 0;
    json_object_foreach((json_t *)arg, name, sub)
    {
        const json_t *part = json_object_get(v, name);
        if (part && check_part(w, sub, part, name) < 0)
            return -1;
    }
    return 0;
}

static int k_additional(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    const json_t *known = json_object_get(schema, "properties");
    const char *name;
    json_t *part;
    if (!json_is_object(v))
        return 0;
    json_object_foreach((json_t *)v, name, part)
    {
        if (json_object_get(known, name))
            continue;
        if (json_is_false(arg))
            return fail(w, "has '%s', which has no meaning there", name);
        if (json_is_object(arg) && check_part(w, arg, part, name) < 0)
            return -1;
    }
    return 0;
}

static int k_items(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    size_t i;
    const json_t *part;
    char name[24];
    json_array_foreach(v, i, part)
    {
        snprintf(name, sizeof name, "%zu", i);
        if (check_part(w, arg, part, name) < 0)
            return -1;
    }
    return 0;
}

static int k_min_items(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    long long n = json_integer_value(arg);
    return !json_is_array(v) || json_array_size(v) >= (size_t)n ? 0 : fail(w, "has fewer than %lld items", n);
}

static int k_max_items(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    long long n = json_integer_value(arg);
    return !json_is_array(v) || json_array_size(v) <= (size_t)n ? 0 : fail(w, "has more than %lld items", n);
}

static int k_minimum(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    return !json_is_number(v) || json_number_value(v) >= json_number_value(arg) ? 0
           : fail(w, "is less than %.17g", json_number_value(arg));
}

static int k_maximum(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    return !json_is_number(v) || json_number_value(v) <= json_number_value(arg) ? 0
           : fail(w, "is more than %.17g", json_number_value(arg));
}

static int k_min_length(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    long long n = json_integer_value(arg);
    return !json_is_string(v) || json_string_length(v) >= (size_t)n ? 0 : fail(w, "is shorter than %lld bytes", n);
}

static int k_max_length(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    long long n = json_integer_value(arg);
    return !json_is_string(v) || json_string_length(v) <= (size_t)n ? 0 : fail(w, "is longer than %lld bytes", n);
}

/* Compiled, once for all values of a document where there is room. NULL: it is no expression. */
static const regex_t *compiled(struct walk *w, const char *pattern)
{
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->compiled[i].pattern, pattern) == 0)
            return &w->compiled[i].re;
    if (w->n == COMPILED_MAX)
        regfree(&w->compiled[--w->n].re);
    if (regcomp(&w->compiled[w->n].re, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return NULL;
    w->compiled[w->n].pattern = pattern;
    return &w->compiled[w->n++].re;
}

static int k_pattern(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    if (!json_is_string(v))
        return 0;
    const regex_t *re = compiled(w, json_string_value(arg));
    if (!re)
        return rp_fail(w->err, RP_BUG, "schema: '%s' is no extended regular expression", json_string_value(arg));
    return regexec(re, json_string_value(v), 0, NULL, 0) ? fail(w, "does not match %s", json_string_value(arg)) : 0;
}

static int k_any_of(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    size_t i;
    const json_t *one;
    json_array_foreach(arg, i, one)
    {
        int is_last = i + 1 == json_array_size(arg);
        w->quiet += !is_last;
        int rc = check(w, one, v);
        w->quiet -= !is_last;
        if (rc == 0)
            return 0;
        if (w->err->code == RP_BUG)
            return -1;
    } /* the last attempt's message stays */
    return -1;
}

static int k_ref(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)schema;
    const char *ref = json_string_value(arg);
    const json_t *target = NULL;
    if (strcmp(ref, "#") == 0)
        target = w->root;
    else if (strncmp(ref, "#/$defs/", 8) == 0)
        target = json_object_get(json_object_get(w->root, "$defs"), ref + 8);
    return target ? check(w, target, v) : rp_fail(w->err, RP_BUG, "schema: nothing at '%s'", ref);
}

static int k_nothing(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v)
{
    (void)w, (void)schema, (void)arg, (void)v;
    return 0;
}

/* In the order in which they are applied: what is cheap and tells most comes first. */
static const struct {
    const char *name;
    int (*check)(struct walk *w, const json_t *schema, const json_t *arg, const json_t *v);
} keywords[] = {
    {"type", k_type},           {"const", k_const},         {"enum", k_enum},
    {"required", k_required},   {"additionalProperties", k_additional}, {"properties", k_properties},
    {"minItems", k_min_items},  {"maxItems", k_max_items},  {"items", k_items},
    {"minimum", k_minimum},     {"maximum", k_maximum},     {"minLength", k_min_length}, {"maxLength", k_max_length},
    {"pattern", k_pattern},     {"$ref", k_ref},            {"anyOf", k_any_of},        {"$schema", k_nothing},
    {"$id", k_nothing},         {"$defs", k_nothing},       {"$comment", k_nothing},
    {"title", k_nothing},       {"description", k_nothing},
};

#define KEYWORDS (sizeof keywords / sizeof *keywords)

/* A schema has a few keywords of them all: they are found first, then applied in the order of the table. */
static int check(struct walk *w, const json_t *schema, const json_t *v)
{
    const json_t *arg[KEYWORDS] = {0};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)schema, name, value)
    {
        size_t i = 0;
        while (i < KEYWORDS && strcmp(keywords[i].name, name) != 0)
            i++;
        if (i == KEYWORDS)
            return rp_fail(w->err, RP_BUG, "schema: a keyword '%.40s' has no meaning here", name);
        arg[i] = value;
    }
    for (size_t i = 0; i < KEYWORDS; i++)
        if (arg[i] && keywords[i].check(w, schema, arg[i], v) < 0)
            return -1;
    return 0;
}

json_t *rp_schema_load(const char *name, struct rp_err *err)
{
    size_t size;
    const char *text = rp_schema_text(name, &size);
    if (!text)
        return rp_fail_null(err, RP_BUG, "there is no schema '%s'", name);
    return rp_json_parse(text, size, name, err);
}

int rp_schema_check(const json_t *schema, const json_t *doc, const char *what, struct rp_err *err)
{
    struct walk w;
    w.root = schema;
    w.what = what;
    w.err = err;
    w.at = NULL;
    w.n = w.quiet = 0;
    int rc = check(&w, schema, doc);
    while (w.n)
        regfree(&w.compiled[--w.n].re);
    return rc;
}
