/* A reader of documents in exactly the form that rp_json_write() gives them, which refuses everything else.
 *
 * `verify` asks of every document whether it is in that form. jansson answers by parsing and writing it again: byte by
 * byte, with a search for cycles at every list; that was half the time of `compare`. Here every byte is compared with
 * the only one that may stand there, so that what was read needs no writing.
 */
#include "base/json_own.h"

#include "base/buf.h"
#include "base/number_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZE_MOST = 4 << 20, /* longer texts may hold strings that rp_json_parse() refuses */
    DEPTH_MOST = 64,     /* as of rp_json_parse() */
    EXACT_DIGITS = 15,   /* as DBL_DIG: numbers with so few digits are different doubles */
};

struct own_text {
    const char *p, *end;
    int depth;
    int64_t values;     /* that may still come */
    struct rp_buf text; /* of a string with escapes */
};

static json_t *read_value(struct own_text *t);

static int skip_word(struct own_text *t, const char *what, size_t n)
{
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, what, n) != 0)
        return 0;
    t->p += n;
    return 1;
}
#define SKIP(t, what) skip_word(t, what, sizeof what - 1)

static int skip_indent(struct own_text *t)
{
    const int blanks = 2 * t->depth;
    if (t->end - t->p <= blanks || *t->p != '\n')
        return 0;
    t->p++;
    for (int i = 0; i < blanks; i++)
        if (*t->p++ != ' ')
            return 0;
    return 1;
}

/* jansson takes about 200 bytes for a value: rp_json_parse() counts them in the same way. */
static int count_value(struct own_text *t)
{
    return --t->values >= 0;
}

/* ---- texts ---- */

/* The character of an escape; -1: not one that is written. */
static int read_escape(struct own_text *t)
{
    static const char names[] = "\"\\bfnrt", is[] = "\"\\\b\f\n\r\t", digits[] = "0123456789ABCDEF";
    const char *name = t->p < t->end ? memchr(names, *t->p, sizeof names - 1) : NULL;
    if (name) {
        t->p++;
        return is[name - names];
    }
    if (!SKIP(t, "u00") || t->end - t->p < 2)
        return -1;
    const char *high = memchr(digits, t->p[0], 2), *low = memchr(digits, t->p[1], 16);
    t->p += 2;
    const int c = high && low ? (int)(high - digits) * 16 + (int)(low - digits) : 0;
    return c && !memchr(is, c, sizeof is - 1) ? c : -1;
}

/* What is in quotes, from behind the first of them: in the document, or in t->text where it has escapes. *is_ascii:
 * only ASCII. */
static const char *read_text(struct own_text *t, size_t *size, int *is_ascii)
{
    const char *start = t->p;
    unsigned all = 0;
    t->text.size = 0;
    for (;;) {
        const char *p = t->p;
        for (; p < t->end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' '; p++)
            all |= (unsigned char)*p;
        const size_t n = (size_t)(p - t->p);
        const int is_end = p < t->end && *p == '"', is_plain = start == t->p;
        if (p == t->end || (!is_end && *p != '\\'))
            return NULL;
        if (!is_end || !is_plain)
            rp_buf_add(&t->text, t->p, n);
        t->p = p + 1;
        if (is_end) {
            *size = is_plain ? n : t->text.size;
            *is_ascii = all < 0x80;
            return is_plain ? start : t->text.data;
        }
        const int c = read_escape(t);
        if (c < 0)
            return NULL;
        rp_buf_add(&t->text, &(char){(char)c}, 1);
    }
}

static json_t *read_string(struct own_text *t)
{
    size_t n;
    int is_ascii;
    const char *text = read_text(t, &n, &is_ascii);
    if (!text)
        return NULL;
    return is_ascii ? json_stringn_nocheck(text, n) : json_stringn(text, n);
}

/* ---- numbers ---- */

/* "12.34": few digits, neither end of which could be left out, so that it is what is written; 0: to be written and
 * compared. */
static int read_plain_real(double *x, const char *text, size_t size)
{
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *point = memchr(text, '.', size);
    const int is_negative = *text == '-';
    int64_t digits = 0;
    text += is_negative;
    size -= (size_t)is_negative;
    if (!point || size > EXACT_DIGITS + 1 || point == text)
        return 0;
    const size_t decimals = size - (size_t)(point + 1 - text);
    for (size_t i = 0; i < size; i++) {
        if (text + i == point)
            continue;
        if (text[i] < '0' || text[i] > '9')
            return 0;
        digits = 10 * digits + text[i] - '0';
    }
    if (!digits || !decimals || (*text == '0' && point - text > 1) || (decimals > 1 && text[size - 1] == '0'))
        return 0;
    *x = (double)digits / tens[decimals]; /* both are exact, so that the quotient is the nearest double */
    if (*x < 1e-4)
        return 0;
    *x = is_negative ? -*x : *x;
    return 1;
}

static json_t *read_real(const char *text, size_t size)
{
    char given[RP_JSON_REAL], again[RP_JSON_REAL];
    double x;
    if (read_plain_real(&x, text, size))
        return json_real(x);
    if (size >= sizeof given)
        return NULL;
    memcpy(given, text, size);
    given[size] = 0;
    x = strtod(given, NULL);
    return isfinite(x) && strcmp(rp_json_real_text(again, x), given) == 0 ? json_real(x) : NULL;
}

static json_t *read_number(struct own_text *t)
{
    const char *text = t->p, *digits = text + (t->p < t->end && *text == '-'), *p = digits;
    uint64_t x = 0;
    for (; p < t->end && *p >= '0' && *p <= '9' && p - digits < 19; p++)
        x = 10 * x + (uint64_t)(*p - '0');
    if (p < t->end && (*p == '.' || *p == 'e')) {
        while (p < t->end && memchr("0123456789.e-", *p, 13))
            p++;
        t->p = p;
        return read_real(text, (size_t)(p - text));
    }
    t->p = p;
    if (p == digits || x > INT64_MAX || (*digits == '0' && p - text > 1)) /* -0 is written as 0 */
        return NULL;
    return json_integer(digits > text ? -(json_int_t)x : (json_int_t)x);
}

/* ---- lists ---- */

static int begin_list(struct own_text *t)
{
    t->depth++;
    return t->depth <= DEPTH_MOST && count_value(t);
}

static int end_list(struct own_text *t, const char *bracket)
{
    t->depth--;
    return skip_indent(t) && skip_word(t, bracket, 1);
}

static int read_items(struct own_text *t, json_t *array)
{
    do {
        json_t *one = skip_indent(t) ? read_value(t) : NULL;
        if (!one || json_array_append_new(array, one) < 0)
            return -1;
    } while (SKIP(t, ",") && count_value(t));
    return 0;
}

/* Names ascend, so that none is there twice; those with escapes or other letters are not ours. */
static int read_members(struct own_text *t, json_t *object)
{
    const char *last = NULL;
    size_t last_size = 0, size;
    int is_ascii;
    do {
        if (!skip_indent(t) || !SKIP(t, "\""))
            return -1;
        const char *start = t->p, *name = read_text(t, &size, &is_ascii);
        if (name != start || !is_ascii || !SKIP(t, ": "))
            return -1;
        const int order = last ? memcmp(last, name, size < last_size ? size : last_size) : -1;
        if (order > 0 || (order == 0 && last_size >= size))
            return -1;
        last = name;
        last_size = size;
        json_t *one = read_value(t);
        if (!one || json_object_setn_new_nocheck(object, name, size, one) < 0)
            return -1;
    } while (SKIP(t, ",") && count_value(t));
    return 0;
}

static json_t *read_list(struct own_text *t, json_t *list, int (*read)(struct own_text *t, json_t *list),
                         const char *end)
{
    const int is_empty = t->p < t->end && *t->p == *end;
    int good = begin_list(t);
    if (good && is_empty) {
        t->p++;
        t->depth--;
    } else if (good) {
        good = read(t, list) == 0 && end_list(t, end);
    }
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *read_value(struct own_text *t)
{
    switch (t->p < t->end ? *t->p : 0) {
    case '{':
        t->p++;
        return read_list(t, json_object(), read_members, "}");
    case '[':
        t->p++;
        return read_list(t, json_array(), read_items, "]");
    case '"':
        t->p++;
        return read_string(t);
    case 't':
        return SKIP(t, "true") ? json_true() : NULL;
    case 'f':
        return SKIP(t, "false") ? json_false() : NULL;
    case 'n':
        return SKIP(t, "null") ? json_null() : NULL;
    default:
        return read_number(t);
    }
}

json_t *rp_json_read_own(const char *data, size_t size, int64_t values)
{
    struct own_text t = {.p = data, .end = data + size, .values = values};
    if (!size || size > SIZE_MOST || (*data != '{' && *data != '['))
        return NULL;
    json_t *j = read_value(&t);
    const int is_all = j && SKIP(&t, "\n") && t.p == t.end;
    rp_buf_fini(&t.text);
    if (is_all)
        return j;
    json_decref(j);
    return NULL;
}
