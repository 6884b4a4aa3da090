#include "base/json.h"

#include "base/json_own.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64           /* our documents need 6 */
#define STRING_MAX (4ul << 20) /* jansson holds a string three times; a document of a bundle is at most this large */
#define VALUES_MAX                                                                                                     \
    1000000 /* jansson takes about 200 bytes for an empty object: three bytes of text must not become gigabytes */

void rp_json_decref(json_t **j)
{
    json_decref(*j);
    *j = NULL;
}

/* jansson recurses once per level and allocates for every value: bound both before it reads the text. The contents of
 * strings do not count. */
static int check_size(const char *p, size_t size, int64_t most, int *line, struct rp_err *err)
{
    int depth = 0;
    int64_t values = 0;
    *line = 1;
    for (size_t i = 0; i < size; i++) {
        switch (p[i]) {
        case '\n': ++*line; break;
        case '"': {
            size_t begin = i++;
            for (; i < size && p[i] != '"'; i++) {
                *line += p[i] == '\n';
                i += p[i] == '\\';
                if (i - begin > STRING_MAX)
                    return rp_fail(err, RP_MALFORMED, "a string of more than %lu bytes", STRING_MAX);
            }
            break;
        }
        case '[':
        case '{':
            if (++depth > DEPTH_MAX)
                return rp_fail(err, RP_MALFORMED, "nested deeper than %d levels", DEPTH_MAX);
            /* fall through */
        case ',': /* every value except the first follows one of these three */
            if (++values > most)
                return rp_fail(err, RP_MALFORMED, "more than %lld values", (long long)most);
            break;
        case ']':
        case '}': depth--; break;
        default: break;
        }
    }
    return 0;
}

json_t *rp_json_parse(const char *data, size_t size, const char *what, struct rp_err *err)
{
    return rp_json_parse_most(data, size, VALUES_MAX, what, err);
}

static json_t *parse_document(const char *data, size_t size, int64_t values, const char *what, struct rp_err *err)
{
    json_error_t e;
    int line;
    if (check_size(data, size, values, &line, err) < 0) {
        if (what)
            (void)rp_wrap(err, "%s:%d", what, line);
        return NULL;
    }
    json_t *j = json_loadb(data ? data : "", size, JSON_REJECT_DUPLICATES, &e);
    if (j)
        return j;
    const char *why = json_error_code(&e) == json_error_null_character ? "a string with \\u0000" : e.text;
    if (!what)
        return rp_fail_null(err, RP_MALFORMED, "column %d: not valid JSON: %s", e.column, why);
    return rp_fail_null(err, RP_MALFORMED, "%s:%d:%d: not valid JSON: %s", what, e.line, e.column, why);
}

json_t *rp_json_parse_most(const char *data, size_t size, int64_t values, const char *what, struct rp_err *err)
{
    json_t *j = rp_json_read_own(data, size, values);
    return j ? j : parse_document(data, size, values, what, err);
}

/* ---- writing ---- */

struct json_output {
    struct rp_buf *out;
    int shortest, in_text;
};

static void add_shortest(struct rp_buf *out, const char *bytes, size_t size)
{
    char given[RP_JSON_REAL], text[RP_JSON_REAL];
    RP_FORMAT(given, "%.*s", (int)(size < sizeof given ? size : sizeof given - 1), bytes);
    rp_buf_puts(out, rp_json_real_text(text, strtod(given, NULL)));
}

/* jansson passes a text between two calls with one quote each, and a number in one call. */
static int append_bytes(const char *bytes, size_t size, void *arg)
{
    struct json_output *o = arg;
    const int is_real = !o->in_text && (*bytes == '-' || (*bytes >= '0' && *bytes <= '9')) &&
                        (memchr(bytes, '.', size) || memchr(bytes, 'e', size));
    o->in_text ^= size == 1 && *bytes == '"';
    if (o->shortest && is_real && size > 16)
        add_shortest(o->out, bytes, size);
    else
        rp_buf_add(o->out, bytes, size);
    return 0;
}

static void dump(struct rp_buf *out, const json_t *j, size_t flags, int shortest)
{
    struct json_output o = {.out = out, .shortest = shortest};
    int failed =
        json_dump_callback(j, append_bytes, &o, flags | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    RP_BUG_IF(failed); /* only a NULL or cyclic document, or no memory */
    rp_buf_add(out, "\n", 1);
}

void rp_json_write(struct rp_buf *out, const json_t *j)
{
    dump(out, j, JSON_INDENT(2), 1);
}

void rp_json_write_ascii(struct rp_buf *out, const json_t *j)
{
    dump(out, j, JSON_INDENT(2) | JSON_ENSURE_ASCII, 1);
}

void rp_json_write_line(struct rp_buf *out, const json_t *j)
{
    dump(out, j, JSON_COMPACT, 0);
}

json_t *rp_json_parse_own(const char *data, size_t size, int64_t values, int *own, const char *what, struct rp_err *err)
{
    json_t *j = rp_json_read_own(data, size, values);
    *own = j != NULL;
    if (j)
        return j;
    j = parse_document(data, size, values, what, err);
    for (int shortest = 1; j && !*own && shortest >= 0; shortest--) { /* older versions wrote 17 digits */
        RP_BUF again = {0};
        dump(&again, j, JSON_INDENT(2), shortest);
        *own = rp_buf_is(&again, data, size);
    }
    return j;
}

void rp_json_write_plain(struct rp_buf *out, const json_t *j)
{
    if (json_is_string(j)) {
        rp_buf_puts(out, json_string_value(j));
        return;
    }
    dump(out, j, JSON_COMPACT, 1);
    out->data[--out->size] = 0;
}

static json_t *get_typed(const json_t *obj, const char *key, json_type type, const char *type_name, const char *what,
                         struct rp_err *err)
{
    if (!json_is_object(obj))
        return rp_fail_null(err, RP_MALFORMED, "%s: expected an object that has '%s'", what, key);
    json_t *v = json_object_get(obj, key);
    if (!v)
        return rp_fail_null(err, RP_MALFORMED, "%s: '%s' is missing, expected %s", what, key, type_name);
    return json_typeof(v) == type ? v : rp_fail_null(err, RP_MALFORMED, "%s: '%s' is not %s", what, key, type_name);
}

int rp_json_str(const json_t *obj, const char *key, const char **out, const char *what, struct rp_err *err)
{
    const json_t *v = get_typed(obj, key, JSON_STRING, "a string", what, err);
    if (!v)
        return -1;
    *out = json_string_value(v);
    return 0;
}

int rp_json_int(const json_t *obj, const char *key, int64_t *out, const char *what, struct rp_err *err)
{
    const json_t *v = get_typed(obj, key, JSON_INTEGER, "an integer", what, err);
    if (!v)
        return -1;
    *out = json_integer_value(v);
    return 0;
}

json_t *rp_json_obj(const json_t *obj, const char *key, const char *what, struct rp_err *err)
{
    return get_typed(obj, key, JSON_OBJECT, "an object", what, err);
}

json_t *rp_json_arr(const json_t *obj, const char *key, const char *what, struct rp_err *err)
{
    return get_typed(obj, key, JSON_ARRAY, "an array", what, err);
}

const json_t *rp_json_at(const json_t *j, const char *path)
{
    while (j && *path) {
        size_t n = strcspn(path, "/");
        j = json_is_array(j) ? json_array_get(j, strtoul(path, NULL, 10)) : json_object_getn(j, path, n);
        path += n + (path[n] == '/');
    }
    return j;
}

const char *rp_json_text_at(const json_t *j, const char *path)
{
    const char *s = json_string_value(rp_json_at(j, path));
    return s ? s : "";
}

long long rp_json_integer_at(const json_t *j, const char *path)
{
    return json_integer_value(rp_json_at(j, path));
}
