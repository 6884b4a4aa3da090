#include "base/json_plain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 18 /* of a whole number: they fit into 64 bits */
#define INDENT 2  /* of what rp_json_write() makes */

struct in {
    const char *at, *end;
    int64_t values; /* how many more there may be, counted so that it is sooner too many than in json.c */
    int depth;
    int own; /* so far it is spelled as rp_json_write() does it */
};

/* What stands between two marks in a document of our own spelling. */
enum blanks {
    NOTHING,
    ONE_BLANK,
    NEW_LINE, /* and the indent of the depth */
};

struct text {
    const char *from;
    size_t size;
    int ascii;
};

static json_t *value(struct in *in, enum blanks before);

static int are_blanks(const char *p, size_t n)
{
    while (n && *p == ' ')
        n--, p++;
    return n == 0;
}

/* The next byte that is no blank, which stays; 0 at the end, and for a byte 0, which nothing expects. */
static char next(struct in *in, enum blanks before)
{
    const char *p = in->at;
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r'))
        in->at++;
    size_t n = (size_t)(in->at - p), indent = INDENT * (size_t)in->depth;
    if (before == NEW_LINE)
        in->own &= n == 1 + indent && *p == '\n' && are_blanks(p + 1, indent);
    else
        in->own &= n == (before == ONE_BLANK) && are_blanks(p, n);
    return in->at < in->end ? *in->at : 0;
}

static int accept(struct in *in, enum blanks before, char c)
{
    if (next(in, before) != c)
        return 0;
    in->at++;
    return 1;
}

/* A comma, or else the blanks in front of what ends the group stay. */
static int more(struct in *in)
{
    struct in before = *in;
    if (accept(in, NOTHING, ','))
        return 1;
    *in = before;
    return 0;
}

/* Behind its first quote; up to and with its last. */
static int quoted(struct in *in, struct text *t)
{
    const char *p = in->at;
    unsigned char all = 0;
    while (p < in->end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
        all |= (unsigned char)*p++;
    if (p == in->end || *p != '"' || (size_t)(p - in->at) > RP_JSON_STRING_MAX)
        return -1;
    *t = (struct text){in->at, (size_t)(p - in->at), all < 0x80};
    in->at = p + 1;
    return 0;
}

static json_t *string(struct in *in)
{
    struct text t;
    in->at++;
    if (quoted(in, &t) < 0)
        return NULL;
    return t.ascii ? json_stringn_nocheck(t.from, t.size) : json_stringn(t.from, t.size); /* which looks at its UTF-8 */
}

static size_t digits(struct in *in)
{
    const char *from = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
        in->at++;
    return (size_t)(in->at - from);
}

static json_t *real(struct in *in, const char *from, size_t size)
{
    char copy[64], again[64], *end;
    if (size >= sizeof copy)
        return NULL;
    memcpy(copy, from, size);
    copy[size] = 0;
    errno = 0;
    double d = strtod(copy, &end);
    json_t *j = *end || errno || !isfinite(d) ? NULL : json_real(d);
    if (j && in->own)
        in->own = json_dumpb(j, again, sizeof again, RP_JSON_REALS) == size && memcmp(again, from, size) == 0;
    return j;
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
        return real(in, from, (size_t)(in->at - from));
    if (n > DIGITS)
        return NULL;
    json_int_t sum = 0;
    for (const char *p = from + negative; p < in->at; p++)
        sum = sum * 10 + (*p - '0');
    in->own &= !(negative && zero);
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

/* Does `key` come behind `last` where they are sorted? */
static int sorted(const struct text *last, const struct text *key)
{
    int order = memcmp(last->from, key->from, last->size < key->size ? last->size : key->size);
    return order < 0 || (order == 0 && last->size < key->size);
}

/* A member behind its first quote; -1: give up. */
static int member(struct in *in, json_t *object, struct text *last)
{
    struct text key;
    if (quoted(in, &key) < 0 || !accept(in, NOTHING, ':'))
        return -1;
    in->own &= !last->from || sorted(last, &key);
    *last = key;
    json_t *v = value(in, ONE_BLANK);
    if (!v)
        return -1;
    return key.ascii ? json_object_setn_new_nocheck(object, key.from, key.size, v) : json_object_setn_new(object, key.from, key.size, v);
}

static int members(struct in *in, json_t *object)
{
    struct text last = {0};
    size_t n = 0;
    do {
        if (!accept(in, NEW_LINE, '"') || member(in, object, &last) < 0 || json_object_size(object) != ++n) /* a key twice adds nothing */
            return -1;
    } while (more(in));
    return 0;
}

static int items(struct in *in, json_t *array)
{
    do {
        json_t *v = value(in, NEW_LINE);
        if (!v || json_array_append_new(array, v) < 0)
            return -1;
    } while (more(in));
    return 0;
}

/* An object or a list; an empty one is a value as well. */
static json_t *group(struct in *in, json_t *j, char last, int (*fill)(struct in *in, json_t *j))
{
    int good = j && in->depth < RP_JSON_DEPTH_MAX;
    in->at++;
    if (good && in->at < in->end && *in->at == last) {
        in->at++;
        in->values--; /* its brackets count */
        return j;
    }
    if (good) {
        in->depth++;
        good = fill(in, j) == 0;
        in->depth--;
        if (good && accept(in, NEW_LINE, last))
            return j;
    }
    json_decref(j);
    return NULL;
}

static json_t *value(struct in *in, enum blanks before)
{
    char c = next(in, before);
    if (--in->values < 0)
        return NULL;
    switch (c) {
    case '{': return group(in, json_object(), '}', members);
    case '[': return group(in, json_array(), ']', items);
    case '"': return string(in);
    case 't': return word(in, "true", json_true());
    case 'f': return word(in, "false", json_false());
    case 'n': return word(in, "null", json_null());
    default: return c == '-' || (c >= '0' && c <= '9') ? number(in) : NULL;
    }
}

json_t *rp_json_plain(const char *text, size_t size, int64_t values, int *own)
{
    struct in in = {.at = text, .end = text + size, .values = values, .own = 1};
    char c = size ? next(&in, NOTHING) : 0;
    json_t *j = c == '{' || c == '[' ? value(&in, NOTHING) : NULL;
    if (!j || (next(&in, NEW_LINE) == 0 && in.at == in.end)) {
        *own = j && in.own;
        return j;
    }
    json_decref(j);
    return NULL;
}
