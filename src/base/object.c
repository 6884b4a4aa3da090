/* Structs described by tables of fields: memory, reading, writing, schema. */
#include "base/object.h"

#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { OR_NULL = 1, OR_ABSENT }; /* or_null of a row */

static void *field_at(const void *object, const struct rp_object_field *f)
{
    return (char *)object + f->offset;
}

static int64_t *count_at(const void *object, const struct rp_object_field *f)
{
    return (int64_t *)((char *)object + f->count);
}

char *rp_text_copy(const char *text)
{
    return text ? rp_strdup(text) : NULL;
}

const char *rp_text_or_empty(const char *text)
{
    return text ? text : "";
}

/* ---- memory ---- */

static void init_field(void *object, const struct rp_object_field *f)
{
    void *to = field_at(object, f);
    switch (f->type) {
    case RP_IS_COUNT:
    case RP_IS_INTEGER:
        *(int64_t *)to = f->or_null ? RP_NO_INTEGER : 0;
        break;
    case RP_IS_NUMBER:
    case RP_IS_SIGNED:
        *(double *)to = f->or_null ? NAN : 0;
        break;
    case RP_IS_FLOAT:
        *(float *)to = f->or_null ? NAN : 0;
        break;
    case RP_IS_INTERVAL:
        ((double *)to)[0] = ((double *)to)[1] = f->or_null ? NAN : 0;
        break;
    case RP_IS_BOOL:
        *(int *)to = f->or_null ? -1 : 0;
        break;
    case RP_IS_PART:
        rp_object_init(to, f->of);
        break;
    default:
        break;
    }
}

void rp_object_init(void *object, const struct rp_object_type *type)
{
    memset(object, 0, type->size);
    for (int i = 0; i < type->n; i++)
        init_field(object, &type->field[i]);
}

static void fini_field(void *object, const struct rp_object_field *f)
{
    void *of = field_at(object, f);
    switch (f->type) {
    case RP_IS_TEXT:
    case RP_IS_NAME:
    case RP_IS_TIME:
    case RP_IS_CHOICE:
    case RP_IS_MATCH:
    case RP_IS_INTEGERS:
        free(*(void **)of);
        break;
    case RP_IS_TEXTS:
        for (int64_t i = 0; i < *count_at(object, f); i++)
            free((*(char ***)of)[i]);
        free(*(void **)of);
        break;
    case RP_IS_JSON:
        json_decref(*(json_t **)of);
        break;
    case RP_IS_PART:
        rp_object_fini(of, f->of);
        break;
    case RP_IS_PART_OR_NONE:
        if (*(void **)of)
            rp_object_fini(*(void **)of, f->of);
        free(*(void **)of);
        break;
    case RP_IS_LIST:
        for (int64_t i = 0; i < *count_at(object, f); i++)
            rp_object_fini(*(char **)of + (size_t)i * f->of->size, f->of);
        free(*(void **)of);
        break;
    default:
        break;
    }
}

void rp_object_fini(void *object, const struct rp_object_type *type)
{
    for (int i = 0; i < type->n; i++)
        fini_field(object, &type->field[i]);
    memset(object, 0, type->size);
}

/* Room doubles where n is a power of two. A list that rp_object_read() made has room for its n elements alone: nothing
 * may be added to it, here or by rp_texts_add(). */
void *rp_object_add(void *list, int64_t *n, const struct rp_object_type *type)
{
    char **of = list;
    if ((*n & (*n - 1)) == 0) /* 0, 1, 2, 4, ... */
        *of = rp_realloc(*of, (size_t)(*n ? 2 * *n : 1) * type->size);
    void *one = *of + (size_t)(*n)++ * type->size;
    rp_object_init(one, type);
    return one;
}

void rp_texts_add(char ***list, int64_t *n, char *text)
{
    if (!*list || (*n & (*n - 1)) == 0)
        *list = rp_realloc(*list, (size_t)(*n ? 2 * *n : 1) * sizeof **list);
    (*list)[(*n)++] = text;
}

/* ---- reading ---- */

/* Whether every document has the key. */
static int is_required(const struct rp_object_field *f)
{
    return f->type != RP_IS_PART_OR_NONE && f->type != RP_IS_TEXTS && f->or_null != OR_ABSENT;
}

static void read_list(void *object, const struct rp_object_field *f, const json_t *j)
{
    const int64_t n = (int64_t)json_array_size(j);
    const size_t size = f->type == RP_IS_LIST ? f->of->size : f->type == RP_IS_TEXTS ? sizeof(char *) : sizeof(int64_t);
    char *to = *(char **)field_at(object, f) = rp_alloc((size_t)(n ? n : 1) * size);
    *count_at(object, f) = n;
    for (int64_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(j, (size_t)i);
        if (f->type == RP_IS_LIST)
            rp_object_read(to + (size_t)i * size, f->of, one);
        else if (f->type == RP_IS_TEXTS)
            ((char **)to)[i] = rp_strdup(rp_text_or_empty(json_string_value(one)));
        else
            ((int64_t *)to)[i] = json_integer_value(one);
    }
}

static void read_field(void *object, const struct rp_object_field *f, const json_t *j)
{
    void *to = field_at(object, f);
    switch (f->type) {
    case RP_IS_COUNT:
    case RP_IS_INTEGER:
        if (json_is_integer(j))
            *(int64_t *)to = json_integer_value(j);
        break;
    case RP_IS_NUMBER:
    case RP_IS_SIGNED:
        if (json_is_number(j))
            *(double *)to = json_number_value(j);
        break;
    case RP_IS_BOOL:
        if (json_is_boolean(j))
            *(int *)to = json_is_true(j);
        break;
    case RP_IS_TEXT:
    case RP_IS_NAME:
    case RP_IS_TIME:
    case RP_IS_CHOICE:
    case RP_IS_MATCH:
        *(char **)to = rp_text_copy(json_string_value(j));
        break;
    case RP_IS_SHA256:
        if (json_string_length(j) == RP_SHA256_HEX - 1)
            memcpy(to, json_string_value(j), RP_SHA256_HEX);
        break;
    case RP_IS_FLOAT:
        if (rp_float_unhex(to, rp_json_text_at(j, "hex")) < 0)
            *(float *)to = NAN;
        break;
    case RP_IS_INTERVAL:
        for (size_t i = 0; json_array_size(j) == 2 && i < 2; i++)
            ((double *)to)[i] = json_number_value(json_array_get(j, i));
        break;
    case RP_IS_JSON:
        *(json_t **)to = json_deep_copy(j);
        break;
    case RP_IS_PART:
        rp_object_fini(to, f->of);
        rp_object_read(to, f->of, j);
        break;
    case RP_IS_PART_OR_NONE:
        if (!json_is_object(j))
            break;
        *(void **)to = rp_alloc(f->of->size);
        rp_object_read(*(void **)to, f->of, j);
        break;
    case RP_IS_LIST:
    case RP_IS_TEXTS:
    case RP_IS_INTEGERS:
        if (json_is_array(j))
            read_list(object, f, j);
        break;
    }
}

void rp_object_read(void *object, const struct rp_object_type *type, const json_t *j)
{
    rp_object_init(object, type);
    for (int i = 0; i < type->n; i++) {
        const json_t *one = json_object_get(j, type->field[i].name);
        if (one && !json_is_null(one))
            read_field(object, &type->field[i], one);
    }
}

static int is_list_of(const json_t *j, json_type type)
{
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)j, i, one)
        if (json_typeof(one) != type)
            return 0;
    return json_is_array(j);
}

/* What the value of a field has to be, if it is not; NULL: it is. */
static const char *not_fitting(const struct rp_object_field *f, const json_t *j)
{
    switch (f->type) {
    case RP_IS_COUNT:
        if (!json_is_integer(j) || json_integer_value(j) < 0)
            return "a whole number from 0";
        return *f->limit && json_integer_value(j) > strtoll(f->limit, NULL, 10) ? "in range" : NULL;
    case RP_IS_INTEGER:
        return json_is_integer(j) ? NULL : "an integer";
    case RP_IS_NUMBER:
    case RP_IS_SIGNED:
        return json_is_number(j) ? NULL : "a number";
    case RP_IS_BOOL:
        return json_is_boolean(j) ? NULL : "true or false";
    case RP_IS_SHA256:
        return json_is_string(j) && rp_is_sha256(json_string_value(j)) ? NULL : "64 hex digits";
    case RP_IS_FLOAT:
    case RP_IS_PART:
    case RP_IS_PART_OR_NONE:
        return json_is_object(j) ? NULL : "an object";
    case RP_IS_INTERVAL:
    case RP_IS_LIST:
        return is_list_of(j, f->type == RP_IS_LIST ? JSON_OBJECT : JSON_REAL) ? NULL : "a list";
    case RP_IS_TEXTS:
        return is_list_of(j, JSON_STRING) ? NULL : "a list of texts";
    case RP_IS_INTEGERS:
        return is_list_of(j, JSON_INTEGER) ? NULL : "a list of integers";
    case RP_IS_JSON:
        return strstr(f->limit, "\"array\"") && !json_is_array(j)     ? "a list"
               : strstr(f->limit, "\"object\"") && !json_is_object(j) ? "an object"
                                                                      : NULL;
    default:
        return json_is_string(j) && (!*f->limit || f->type != RP_IS_TEXT ||
                                     json_string_length(j) <= (size_t)strtoll(f->limit, NULL, 10))
                   ? NULL
                   : "a text";
    }
}

static int check_object(const struct rp_object_type *type, const json_t *j, const char *what, struct rp_err *err)
{
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        const json_t *one = json_object_get(j, f->name), *item;
        size_t k;
        if (!one && is_required(f))
            return rp_fail(err, RP_MALFORMED, "%s: '%s' is missing", what, f->name);
        if (!one || (json_is_null(one) && f->or_null))
            continue;
        const char *expected = not_fitting(f, one);
        if (expected)
            return rp_fail(err, RP_MALFORMED, "%s: '%s' is not %s", what, f->name, expected);
        if ((f->type == RP_IS_PART || f->type == RP_IS_PART_OR_NONE) && check_object(f->of, one, what, err) < 0)
            return -1;
        json_array_foreach((json_t *)(f->type == RP_IS_LIST ? one : NULL), k, item)
            if (check_object(f->of, item, what, err) < 0)
                return -1;
    }
    return 0;
}

int rp_object_take(void *object, const struct rp_object_type *type, const json_t *j, const char *what,
                   struct rp_err *err)
{
    rp_object_init(object, type);
    if (check_object(type, j, what, err) < 0)
        return -1;
    rp_object_read(object, type, j);
    return 0;
}

/* ---- writing ---- */

static json_t *text_json(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *number_json(double x)
{
    return isnan(x) ? json_null() : json_real(x);
}

static json_t *float_json(float x)
{
    char hex[32];
    rp_float_hex(hex, x);
    return isnan(x) ? json_null() : json_pack("{s:f, s:s}", "value", (double)x, "hex", hex);
}

static json_t *list_json(const void *object, const struct rp_object_field *f)
{
    char *const of = *(char *const *)field_at(object, f);
    const int64_t n = *count_at(object, f);
    json_t *list = of || (f->type != RP_IS_TEXTS && f->or_null != OR_ABSENT) ? json_array() : NULL;
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(list, f->type == RP_IS_LIST    ? rp_object_json(of + (size_t)i * f->of->size, f->of)
                                    : f->type == RP_IS_TEXTS ? text_json(((char *const *)of)[i])
                                                             : json_integer(((const int64_t *)of)[i]));
    return list;
}

const void *rp_object_part(const void *object, const struct rp_object_field *f)
{
    return f->type == RP_IS_PART_OR_NONE ? *(void *const *)field_at(object, f) : field_at(object, f);
}

json_t *rp_object_value(const void *object, const struct rp_object_field *f)
{
    const void *from = field_at(object, f);
    switch (f->type) {
    case RP_IS_COUNT:
    case RP_IS_INTEGER:
        return f->or_null && *(const int64_t *)from == RP_NO_INTEGER ? json_null()
                                                                     : json_integer(*(const int64_t *)from);
    case RP_IS_NUMBER:
    case RP_IS_SIGNED:
        return number_json(*(const double *)from);
    case RP_IS_BOOL:
        return *(const int *)from < 0 ? json_null() : json_boolean(*(const int *)from);
    case RP_IS_SHA256:
        return *(const char *)from ? json_string(from) : json_null();
    case RP_IS_FLOAT:
        return float_json(*(const float *)from);
    case RP_IS_INTERVAL:
        return isnan(*(const double *)from) ? json_null()
                                            : json_pack("[f, f]", ((const double *)from)[0], ((const double *)from)[1]);
    case RP_IS_JSON:
        return *(json_t *const *)from ? json_deep_copy(*(json_t *const *)from) : json_null();
    case RP_IS_PART:
        return rp_object_json(from, f->of);
    case RP_IS_PART_OR_NONE:
        return *(void *const *)from ? rp_object_json(*(void *const *)from, f->of) : NULL;
    case RP_IS_LIST:
    case RP_IS_TEXTS:
    case RP_IS_INTEGERS:
        return list_json(object, f);
    default: /* texts */
        return text_json(*(char *const *)from);
    }
}

json_t *rp_object_json(const void *object, const struct rp_object_type *type)
{
    json_t *j = json_object();
    for (int i = 0; i < type->n; i++) {
        json_t *one = rp_object_value(object, &type->field[i]);
        if (one && type->field[i].or_null == OR_ABSENT && json_is_null(one))
            json_decref(one);
        else if (one)
            json_object_set_new(j, type->field[i].name, one);
    }
    return j;
}

/* ---- the schema ---- */

#define SHA256 "{\"type\": \"string\", \"pattern\": \"^[0-9a-f]{64}$\"}"
#define TIME "{\"type\": \"string\", \"pattern\": \"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$\"}"
#define NAME "{\"type\": \"string\", \"maxLength\": 31, \"pattern\": \"^[a-z][a-z0-9_]*$\"}"
#define FLOAT                                                                                                          \
    "{\"type\": \"object\", \"required\": [\"value\", \"hex\"], \"additionalProperties\": false, \"properties\": "     \
    "{\"value\": "                                                                                                     \
    "{\"type\": \"number\"}, \"hex\": {\"description\": \"as C99 writes it: all its bits\", \"type\": \"string\", "    \
    "\"maxLength\": 31}}}"
#define INTERVAL                                                                                                       \
    "{\"type\": \"array\", \"minItems\": 2, \"maxItems\": 2, \"items\": {\"type\": \"number\", \"minimum\": 0}}"

static json_t *parse_text(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    RP_BUG_IF(!j);
    return j;
}

static json_t *choice_schema(const struct rp_object_field *f)
{
    json_t *words = json_array();
    for (const char *p = f->limit; *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        json_array_append_new(words, json_stringn(p, n));
        p += n;
    }
    if (f->or_null == OR_NULL)
        json_array_append_new(words, json_null());
    return json_pack("{s:o}", "enum", words);
}

static json_t *number_schema(const char *type, int signed_, const char *limit)
{
    json_t *j = json_pack("{s:s}", "type", type);
    if (!signed_)
        json_object_set_new(j, "minimum", json_integer(0));
    if (*limit)
        json_object_set_new(j, "maximum", json_integer(strtoll(limit, NULL, 10)));
    return j;
}

static json_t *text_schema(const struct rp_object_field *f)
{
    json_t *j = json_pack("{s:s}", "type", "string");
    if (f->type == RP_IS_MATCH)
        json_object_set_new(j, "pattern", json_string(f->limit));
    else if (*f->limit)
        json_object_set_new(j, "maxLength", json_integer(strtoll(f->limit, NULL, 10)));
    return j;
}

static json_t *reference(const struct rp_object_type *type)
{
    return json_pack("{s:s+}", "$ref", "#/$defs/", type->name);
}

static json_t *list_schema(const struct rp_object_field *f)
{
    json_t *j =
        json_pack("{s:s, s:o}", "type", "array", "items",
                  f->type == RP_IS_LIST ? reference(f->of)
                                        : json_pack("{s:s}", "type", f->type == RP_IS_TEXTS ? "string" : "integer"));
    if (f->type == RP_IS_INTEGERS)
        json_object_set_new(json_object_get(j, "items"), "minimum", json_integer(0));
    char *rest = NULL;
    const long long most = strtoll(f->limit, &rest, 10), of_item = strtoll(rest, NULL, 10);
    if (f->type == RP_IS_TEXTS)
        json_object_set_new(json_object_get(j, "items"), "maxLength", json_integer(of_item ? of_item : 4096));
    if (*f->limit)
        json_object_set_new(j, "maxItems", json_integer(most));
    return j;
}

static json_t *value_schema(const struct rp_object_field *f)
{
    switch (f->type) {
    case RP_IS_COUNT:
        return number_schema("integer", 0, f->limit);
    case RP_IS_INTEGER:
        return number_schema("integer", 1, f->limit);
    case RP_IS_NUMBER:
        return number_schema("number", 0, f->limit);
    case RP_IS_SIGNED:
        return number_schema("number", 1, f->limit);
    case RP_IS_BOOL:
        return parse_text("{\"type\": \"boolean\"}");
    case RP_IS_NAME:
        return parse_text(NAME);
    case RP_IS_TIME:
        return parse_text(TIME);
    case RP_IS_SHA256:
        return parse_text(SHA256);
    case RP_IS_FLOAT:
        return parse_text(FLOAT);
    case RP_IS_INTERVAL:
        return parse_text(INTERVAL);
    case RP_IS_CHOICE:
        return choice_schema(f);
    case RP_IS_JSON:
        return parse_text(f->limit);
    case RP_IS_PART:
    case RP_IS_PART_OR_NONE:
        return reference(f->of);
    case RP_IS_LIST:
    case RP_IS_TEXTS:
    case RP_IS_INTEGERS:
        return list_schema(f);
    default:
        return text_schema(f);
    }
}

static void allow_null(json_t *schema)
{
    json_t *type = json_object_get(schema, "type");
    if (json_is_string(type))
        json_object_set_new(schema, "type", json_pack("[O, s]", type, "null"));
    else if (json_is_array(type))
        json_array_append_new(type, json_string("null"));
}

static void add_definition(json_t *defs, const struct rp_object_type *type);

static json_t *object_schema(json_t *defs, const struct rp_object_type *type)
{
    json_t *properties = json_object(), *required = json_array();
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        json_t *is = value_schema(f);
        if (f->or_null == OR_NULL)
            allow_null(is);
        if (*f->meaning)
            json_object_set_new(is, "description", json_string(f->meaning));
        if (*f->unit)
            json_object_set_new(is, "unit", json_string(f->unit));
        json_object_set_new(properties, f->name, is);
        if (is_required(f))
            json_array_append_new(required, json_string(f->name));
        if (f->of)
            add_definition(defs, f->of);
    }
    return json_pack("{s:s, s:o, s:b, s:o}", "type", "object", "required", required, "additionalProperties", 0,
                     "properties", properties);
}

static void add_definition(json_t *defs, const struct rp_object_type *type)
{
    if (json_object_get(defs, type->name))
        return;
    json_t *is = object_schema(defs, type);
    json_object_set_new(is, "description", json_string(type->meaning));
    json_object_set_new(defs, type->name, is);
}

json_t *rp_object_schema(const struct rp_object_type *type, const char *id, const char *title)
{
    json_t *defs = json_object(), *is = object_schema(defs, type);
    json_object_set_new(is, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
    json_object_set_new(is, "title", json_string(title));
    if (id) {
        json_object_set_new(json_object_get(is, "properties"), "schema", json_pack("{s:s}", "const", id));
        json_array_append_new(json_object_get(is, "required"), json_string("schema"));
    }
    json_object_set_new(is, "$defs", defs);
    return is;
}
