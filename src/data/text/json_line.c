/* A reader of JSON as Python's json.loads has it, for the one member "text" of an object. */
#include "data/text/json_line.h"

#include "base/text.h"

#include <string.h>

#define DEPTH_MAX 900 /* Python's limit of recursion is near 1000 */

struct line {
    const char *begin, *p, *end;
    struct rp_buf string; /* the last one read, decoded */
    size_t lone;          /* column of its first lone surrogate, 0: none */
    struct rp_err *err;
};

static size_t column(const struct line *l, const char *p)
{
    return (size_t)(p - l->begin) + 1;
}

static int fail_expected(struct line *l, const char *expected)
{
    char found[72], one[8];
    if (l->p == l->end)
        return rp_fail(l->err, RP_MALFORMED, "column %zu: expected %s, found the end of the line", column(l, l->p),
                       expected);
    unsigned c;
    size_t n = rp_utf8(l->p, (size_t)(l->end - l->p), &c);
    memcpy(one, l->p, n ? n : 1);
    one[n ? n : 1] = 0;
    return rp_fail(l->err, RP_MALFORMED, "column %zu: expected %s, found '%s'", column(l, l->p), expected,
                   rp_excerpt(found, one));
}

static void skip_space(struct line *l)
{
    while (l->p < l->end && *l->p && strchr(" \t\r\n", *l->p))
        l->p++;
}

static int take_word(struct line *l, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(l->end - l->p) < n || memcmp(l->p, word, n) != 0)
        return 0;
    l->p += n;
    return 1;
}

/* ---- strings ---- */

static void add_utf8(struct rp_buf *out, unsigned c)
{
    const char four[] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)), (char)(0x80 | (c >> 6 & 63)),
                         (char)(0x80 | (c & 63))};
    const char three[] = {(char)(0xe0 | c >> 12), four[2], four[3]}, two[] = {(char)(0xc0 | c >> 6), four[3]},
               one = (char)c;
    if (c < 0x80)
        rp_buf_add(out, &one, 1);
    else if (c < 0x800)
        rp_buf_add(out, two, 2);
    else if (c < 0x10000)
        rp_buf_add(out, three, 3);
    else
        rp_buf_add(out, four, 4);
}

/* The four digits after "\u". */
static int read_hex(struct line *l, unsigned *c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    *c = 0;
    for (int i = 0; i < 4; i++, l->p++) {
        const char *d = l->p < l->end && *l->p ? strchr(digits, *l->p) : NULL;
        if (!d)
            return fail_expected(l, "four hexadecimal digits after \\u");
        *c = *c << 4 | (unsigned)((d - digits) & 15);
    }
    return 0;
}

/* After "\u": a character, or two halves of one. */
static int read_unicode(struct line *l)
{
    const char *at = l->p - 2;
    unsigned c, low;
    if (read_hex(l, &c) < 0)
        return -1;
    if (c >= 0xd800 && c < 0xdc00 && l->end - l->p >= 2 && l->p[0] == '\\' && l->p[1] == 'u') {
        const char *after = l->p;
        l->p += 2;
        if (read_hex(l, &low) < 0)
            return -1;
        if (low >= 0xdc00 && low < 0xe000)
            c = 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
        else
            l->p = after;
    }
    if (c >= 0xd800 && c < 0xe000 && !l->lone)
        l->lone = column(l, at);
    add_utf8(&l->string, c);
    return 0;
}

static int read_escape(struct line *l)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found = l->p < l->end && *l->p ? strchr(names, *l->p) : NULL;
    if (found) {
        l->p++;
        rp_buf_add(&l->string, &values[found - names], 1);
        return 0;
    }
    return take_word(l, "u") ? read_unicode(l) : fail_expected(l, "one of \"\\/bfnrtu after a backslash");
}

/* After the first quote; the text goes to l->string. */
static int read_string(struct line *l)
{
    l->string.size = 0;
    l->lone = 0;
    for (;;) {
        const char *from = l->p;
        while (l->p < l->end && (unsigned char)*l->p >= 32 && (unsigned char)*l->p < 128 && *l->p != '"' &&
               *l->p != '\\')
            l->p++;
        rp_buf_add(&l->string, from, (size_t)(l->p - from));
        if (take_word(l, "\""))
            return 0;
        if (take_word(l, "\\")) {
            if (read_escape(l) < 0)
                return -1;
            continue;
        }
        unsigned c;
        const size_t n = l->p < l->end && (unsigned char)*l->p >= 128 ? rp_utf8(l->p, (size_t)(l->end - l->p), &c) : 0;
        if (l->p < l->end && (unsigned char)*l->p >= 128 && !n)
            return rp_fail(l->err, RP_MALFORMED,
                           "column %zu: the byte %02x is not UTF-8: convert the file (iconv -t UTF-8)", column(l, l->p),
                           (unsigned)(unsigned char)*l->p);
        if (!n)
            return l->p == l->end ? fail_expected(l, "a quote that ends the string")
                                  : rp_fail(l->err, RP_MALFORMED,
                                            "column %zu: a control character in a string, expected its escape \\u%04x",
                                            column(l, l->p), (unsigned)(unsigned char)*l->p);
        rp_buf_add(&l->string, l->p, n);
        l->p += n;
    }
}

/* ---- values ---- */

static size_t skip_digits(struct line *l)
{
    const char *from = l->p;
    while (l->p < l->end && *l->p >= '0' && *l->p <= '9')
        l->p++;
    return (size_t)(l->p - from);
}

/* As Python, a part that is not one of a number ("1.", "2e") is left to the caller, which expects a comma there. */
static int read_number(struct line *l)
{
    take_word(l, "-");
    if (!take_word(l, "0") && !skip_digits(l))
        return fail_expected(l, "a value");
    const char *whole = l->p;
    if (take_word(l, ".") && !skip_digits(l))
        l->p = whole;
    whole = l->p;
    if (take_word(l, "e") || take_word(l, "E")) {
        if (!take_word(l, "-"))
            take_word(l, "+");
        if (!skip_digits(l))
            l->p = whole;
    }
    return 0;
}

static int read_scalar(struct line *l)
{
    static const char *const words[] = {"null", "true", "false", "NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (take_word(l, words[i]))
            return 0;
    return take_word(l, "\"") ? read_string(l) : read_number(l);
}

/* The key of a member and the colon. */
static int read_key(struct line *l)
{
    skip_space(l);
    if (!take_word(l, "\""))
        return fail_expected(l, "a key in double quotes");
    if (read_string(l) < 0)
        return -1;
    skip_space(l);
    return take_word(l, ":") ? 0 : fail_expected(l, "':'");
}

/* A value of any depth, which is only checked. open: the brackets around the current place. */
static int skip_value(struct line *l)
{
    char open[DEPTH_MAX];
    int depth = 0;
    do {
        skip_space(l);
        if (l->p < l->end && (*l->p == '{' || *l->p == '[')) {
            if (depth == DEPTH_MAX)
                return rp_fail(l->err, RP_MALFORMED, "column %zu: nested deeper than %d levels", column(l, l->p),
                               DEPTH_MAX);
            open[depth] = *l->p++ == '{' ? '}' : ']';
            skip_space(l);
            if (l->p == l->end || *l->p != open[depth]) {
                if (open[depth++] == '}' && read_key(l) < 0)
                    return -1;
                continue;
            }
            l->p++;
        } else if (read_scalar(l) < 0) {
            return -1;
        }
        for (skip_space(l); depth && l->p < l->end && *l->p == open[depth - 1]; skip_space(l)) {
            l->p++;
            depth--;
        }
        if (depth && !take_word(l, ","))
            return fail_expected(l, open[depth - 1] == '}' ? "',' or '}'" : "',' or ']'");
        if (depth && open[depth - 1] == '}' && read_key(l) < 0)
            return -1;
    } while (depth);
    return 0;
}

/* ---- the line ---- */

struct text_found {
    int is_there, is_string;
    size_t lone;
};

static int read_member(struct line *l, struct rp_buf *text, struct text_found *found)
{
    if (read_key(l) < 0)
        return -1;
    skip_space(l);
    if (!rp_buf_is(&l->string, "text", 4))
        return skip_value(l);
    *found = (struct text_found){.is_there = 1, .is_string = take_word(l, "\"")};
    if (!found->is_string)
        return skip_value(l);
    if (read_string(l) < 0)
        return -1;
    found->lone = l->lone;
    text->size = 0;
    rp_buf_add(text, l->string.data, l->string.size);
    return 0;
}

static int read_object(struct line *l, struct rp_buf *text, struct text_found *found)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (take_word(l, mark))
        return rp_fail(l->err, RP_MALFORMED,
                       "column 1: a byte order mark, which is not JSON: remove it (sed -i '1s/^\\xef\\xbb\\xbf//')");
    skip_space(l);
    if (l->p == l->end)
        return rp_fail(l->err, RP_MALFORMED, "an empty line, expected an object");
    if (!take_word(l, "{"))
        return fail_expected(l, "an object with a string \"text\"");
    skip_space(l);
    if (!take_word(l, "}"))
        do {
            if (read_member(l, text, found) < 0)
                return -1;
            skip_space(l);
            if (take_word(l, "}"))
                break;
            if (!take_word(l, ","))
                return fail_expected(l, "',' or '}'");
        } while (1);
    skip_space(l);
    return l->p == l->end ? 0 : fail_expected(l, "the end of the line after the object");
}

int rp_json_line_text(const char *line, size_t n, struct rp_buf *text, struct rp_err *err)
{
    struct line l = {.begin = line, .p = line, .end = line + n, .err = err};
    struct text_found found = {0};
    int failed = read_object(&l, text, &found) < 0;
    rp_buf_fini(&l.string);
    if (failed)
        return -1;
    if (!found.is_string)
        return rp_fail(err, RP_MALFORMED, "expected a string \"text\" in the object, found %s",
                       found.is_there ? "another type of value" : "none");
    if (found.lone)
        return rp_fail(err, RP_MALFORMED, "column %zu: half of a surrogate pair in \"text\", which is not a character",
                       found.lone);
    return 0;
}
