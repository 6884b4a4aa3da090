#include "base/json_plain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 18 /* of a whole number: they fit into 64 bits */

struct in {
    const char *at, *end;
};

static json_t *value(struct in *in);

/* The next byte that is no blank, which stays; 0 at the end, and for a byte 0, which nothing expects. */
static char next(struct in *in)
{
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r'))
        in->at++;
    return in->at < in->end ? *in->at : 0;
}

static int accept(struct in *in, char c)
{
    if (next(in) != c)
        return 0;
    in->at++;
    return 1;
}

/* Behind its first quote; up to and with its last. */
static int quoted(struct in *in, const char **from, size_t *size)
{
    const char *p = in->at;
    while (p < in->end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
        p++;
    if (p == in->end || *p != '"')
        return -1;
    *from = in->at;
    *size = (size_t)(p - in->at);
    in->at = p + 1;
    return 0;
}

static json_t *string(struct in *in)
{
    const char *from;
    size_t size;
    in->at++;
    return quoted(in, &from, &size) < 0 ? NULL : json_stringn(from, size); /* which looks at its UTF-8 */
}

static size_t digits(struct in *in)
{
    const char *from = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
        in->at++;
    return (size_t)(in->at - from);
}

static json_t *real(const char *from, size_t size)
{
    char copy[64], *end;
    if (size >= sizeof copy)
        return NULL;
    memcpy(copy, from, size);
    copy[size] = 0;
    errno = 0;
    double d = strtod(copy, &end);
    return *end || errno || !isfinite(d) ? NULL : json_real(d);
}

static json_t *number(struct in *in)
{
    const char *from = in->at;
    int negative = *from == '-', whole = 1;
    in->at += negative;
    int zero = in->at < in->end && *in->at == '0';
    size_t n = digits(in);
    if (n == 0 || (zero && n > 1))
        return NULL;
    if (in->at < in->end && *in->at == '.') {
        whole = 0;
        in->at++;
        if (digits(in) == 0)
            return NULL;
    }
    if (in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
        whole = 0;
        in->at++;
        in->at += in->at < in->end && (*in->at == '+' || *in->at == '-');
        if (digits(in) == 0)
            return NULL;
    }
    if (!whole)
        return real(from, (size_t)(in->at - from));
    if (n > DIGITS)
        return NULL;
    json_int_t sum = 0;
    for (const char *p = from + negative; p < in->at; p++)
        sum = sum * 10 + (*p - '0');
    return json_integer(negative ? -sum : sum);
}

static json_t *word(struct in *in, const char *is, json_t *j)
{
    size_t n = strlen(is);
    if ((size_t)(in->end - in->at) < n || memcmp(in->at, is, n) != 0)
        return NULL;
    in->at += n;
    return j; /* one of the three that are never freed */
}

/* Of an object that begins; -1: give up. */
static int members(struct in *in, json_t *object)
{
    size_t n = 0;
    if (accept(in, '}'))
        return 0;
    do {
        const char *key;
        size_t size;
        if (!accept(in, '"') || quoted(in, &key, &size) < 0 || !accept(in, ':'))
            return -1;
        json_t *v = value(in);
        if (!v || json_object_setn_new(object, key, size, v) < 0 || json_object_size(object) != ++n) /* a key twice adds nothing */
            return -1;
    } while (accept(in, ','));
    return accept(in, '}') ? 0 : -1;
}

static int items(struct in *in, json_t *array)
{
    if (accept(in, ']'))
        return 0;
    do {
        json_t *v = value(in);
        if (!v || json_array_append_new(array, v) < 0)
            return -1;
    } while (accept(in, ','));
    return accept(in, ']') ? 0 : -1;
}

static json_t *group(struct in *in, json_t *j, int (*fill)(struct in *in, json_t *j))
{
    in->at++;
    if (j && fill(in, j) == 0)
        return j;
    json_decref(j);
    return NULL;
}

static json_t *value(struct in *in)
{
    char c = next(in);
    switch (c) {
    case '{': return group(in, json_object(), members);
    case '[': return group(in, json_array(), items);
    case '"': return string(in);
    case 't': return word(in, "true", json_true());
    case 'f': return word(in, "false", json_false());
    case 'n': return word(in, "null", json_null());
    default: return c == '-' || (c >= '0' && c <= '9') ? number(in) : NULL;
    }
}

json_t *rp_json_plain(const char *text, size_t size)
{
    struct in in = {text, text + size};
    char c = size ? next(&in) : 0;
    json_t *j = c == '{' || c == '[' ? value(&in) : NULL;
    if (!j || (next(&in) == 0 && in.at == in.end))
        return j;
    json_decref(j);
    return NULL;
}
