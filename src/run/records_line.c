/* The reader of one line of step records. */
#include "run/records_line.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;   /* of the name */
    unsigned when; /* enum rp_step_when */
    int least;
} keys[] = {
#define STEP_KEY(name, form, when, least) {#name, sizeof #name - 1, RP_WHEN_##when, least},
#include "worker/step.def"
#undef STEP_KEY
};

const char *rp_line_place(struct rp_record_line *l)
{
    snprintf(l->what, sizeof l->what, "%s:%" PRId64, RP_OF_RANK(l->rank, ".jsonl"), l->number);
    return l->what;
}

#define EACH(byte) ((byte) * (~0ull / 255)) /* eight of them */

/* Is one of eight characters the end of a string: a quote, a backslash, or not printable ASCII? */
static int has_string_end(uint64_t c)
{
    const uint64_t quote = c ^ EACH('"'), back = c ^ EACH('\\');
    return (((quote - EACH(1)) | (back - EACH(1)) | (c - EACH(' ')) | (c + EACH(1)) | c) & EACH(0x80)) != 0;
}

/* The closing quote of the string whose opening quote is at p, or NULL. */
static const char *string_end(const char *p, const char *end)
{
    uint64_t eight;
    if (p == end || *p != '"')
        return NULL;
    for (p++; end - p >= 8; p += 8) {
        memcpy(&eight, p, 8);
        if (has_string_end(eight))
            break;
    }
    for (; p < end && *p != '"'; p++)
        if (*p < ' ' || *p > '~' || *p == '\\')
            return NULL;
    return p < end ? p : NULL;
}

static const char *digits_end(const char *p, const char *end)
{
    const char *start = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p > start ? p : NULL;
}

/* The end of the JSON number at p, or NULL. */
static const char *number_end(const char *p, const char *end, char *type)
{
    *type = 'i';
    p += p < end && *p == '-';
    p = p < end && *p == '0' ? p + 1 : digits_end(p, end);
    if (p && p < end && *p == '.') {
        *type = 'r';
        p = digits_end(p + 1, end);
    }
    if (p && p < end && (*p == 'e' || *p == 'E')) {
        *type = 'r';
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = digits_end(p, end);
    }
    return p;
}

const char *rp_line_skip_name(const char *p, const char *end, size_t *size)
{
    const char *quote = string_end(p, end);
    if (!quote || end - quote < 3 || quote[1] != ':')
        return NULL;
    *size = (size_t)(quote - p) - 1;
    return quote + 2;
}

/* Parses the value at p into *f, without the contents of an object; returns its end, or NULL. */
const char *rp_line_scan_value(struct rp_line_field *f, const char *p, const char *end)
{
    int string = *p == '"';
    const char *stop;
    *f = (struct rp_line_field){p + string, 0, string ? 's' : 'o'};
    if (string)
        stop = string_end(p, end);
    else if (*p == '{')
        stop = memchr(p, '}', (size_t)(end - p));
    else
        stop = number_end(p, end, &f->type);
    if (!stop)
        return NULL;
    f->size = (int)(stop - f->value) + (f->type == 'o');
    return stop + (string || f->type == 'o');
}

/* The value after the name of that key and a colon at p, or NULL. */
static const char *match_key(int key, const char *p, const char *end)
{
    const char *name = keys[key].name;
    const size_t n = keys[key].size;
    if ((size_t)(end - p) < n + 4 || p[0] != '"' || p[n + 1] != '"' || p[n + 2] != ':')
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (p[i + 1] != name[i])
            return NULL;
    return p + n + 3;
}

int rp_line_scan(struct rp_record_line *l, const char *text, size_t size, struct rp_err *err)
{
    const char *p = text, *end = text + size;
    l->has = 0;
    for (int k = 0; k < RP_STEP_KEYS; k++)
        l->f[k].type = 0;
    for (int k = 0; p < end && *p == (p == text ? '{' : ','); k++) { /* keys ascend */
        const char *value = NULL;
        for (; k < RP_STEP_KEYS && !value; k += !value)
            value = match_key(k, p + 1, end);
        const char *stop = value ? rp_line_scan_value(&l->f[k], value, end) : NULL;
        if (!stop)
            break;
        l->has |= 1u << k;
        p = stop;
        if (p + 1 == end && *p == '}')
            return 0;
    }
    return rp_fail(err, RP_MALFORMED,
                   "%s: not a record as this program writes it, from column %zu on: compact, known keys only, sorted",
                   rp_line_place(l), (size_t)(p - text) + 1);
}

int rp_line_refuse_keys(struct rp_record_line *l, uint32_t missing, uint32_t unexpected, const char *phase,
                        struct rp_err *err)
{
    const int key = __builtin_ctz(missing | unexpected);
    const char *name = keys[key].name;
    if (missing >> key & 1)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is missing from a record of phase %s", rp_line_place(l), name,
                       phase);
    return rp_fail(err, RP_MALFORMED, "%s: '%s' in a record of phase %s", rp_line_place(l), name, phase);
}

int rp_line_check_type(const struct rp_line_field *f, char type, struct rp_record_line *l, const char *name,
                       struct rp_err *err)
{
    if (f->type == type || (type == 'r' && f->type == 'i'))
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s: '%s' is not %s", rp_line_place(l), name,
                   type == 's' ? "a string" : type == 'i' ? "an integer" : type == 'o' ? "an object" : "a number");
}

int rp_line_is(const struct rp_line_field *f, const char *text)
{
    return f->size == (int)strlen(text) && memcmp(f->value, text, (size_t)f->size) == 0;
}

int rp_line_any_float(float *x, const struct rp_line_field *f, int may_be_inf, struct rp_record_line *l,
                      const char *name, struct rp_err *err)
{
    char text[32] = "", again[32];
    if (rp_line_check_type(f, 's', l, name, err) < 0)
        return -1;
    if (rp_float_unhex_own(x, f->value, (size_t)f->size) == 0)
        return 0;
    if (f->size < (int)sizeof text)
        memcpy(text, f->value, (size_t)f->size);
    if (rp_float_unhex(x, text) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not a hex float like 0x1.8p+1", rp_line_place(l), name);
    if (!isfinite(*x) && !(may_be_inf && *x > 0))
        return rp_fail(err, RP_MISMATCH, "%s: '%s' is %s; training would have stopped there", rp_line_place(l), name,
                       text);
    rp_float_hex(again, *x);
    if (strcmp(again, text) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is '%s', which this program writes as '%s'", rp_line_place(l), name,
                       text, again);
    return 0;
}

int rp_line_float(float *x, const struct rp_line_field *f, struct rp_record_line *l, const char *name,
                  struct rp_err *err)
{
    return rp_line_any_float(x, f, 0, l, name, err);
}

int rp_line_floats(float *x, int *n, int most, struct rp_record_line *l, enum rp_step_key key, struct rp_err *err)
{
    const struct rp_line_field *f = &l->f[key];
    *n = 0;
    if (rp_line_check_type(f, 's', l, keys[key].name, err) < 0)
        return -1;
    for (const char *p = f->value, *end = p + f->size; p <= end; (*n)++) {
        const char *blank = memchr(p, ' ', (size_t)(end - p)), *stop = blank ? blank : end;
        const struct rp_line_field one = {p, (int)(stop - p), 's'};
        if (*n == most)
            return rp_fail(err, RP_MALFORMED, "%s: '%s' has more than %d values", rp_line_place(l), keys[key].name,
                           most);
        if (rp_line_float(&x[*n], &one, l, keys[key].name, err) < 0)
            return -1;
        p = stop + 1;
    }
    return 0;
}

/* A whole number of at most 18 digits; strtoll() finds what is too large. */
static int64_t whole_of(const struct rp_line_field *f)
{
    const int is_negative = *f->value == '-';
    int64_t x = 0;
    if (f->size > 18)
        return strtoll(f->value, NULL, 10); /* stops at the ',' or '}' after it */
    for (int i = is_negative; i < f->size; i++)
        x = 10 * x + f->value[i] - '0';
    return is_negative ? -x : x;
}

int rp_line_whole(int64_t *out, const struct rp_line_field *f, struct rp_record_line *l, const char *name,
                  int64_t least, int64_t most, struct rp_err *err)
{
    if (rp_line_check_type(f, 'i', l, name, err) < 0)
        return -1;
    errno = 0;
    *out = whole_of(f);
    if (errno || (*f->value == '-' && *out == 0) || *out < least || *out > most)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is %.*s, outside %" PRId64 "..%" PRId64, rp_line_place(l), name,
                       f->size, f->value, least, most);
    return 0;
}

int rp_line_whole_key(int64_t *out, struct rp_record_line *l, enum rp_step_key key, int64_t most, struct rp_err *err)
{
    return rp_line_whole(out, &l->f[key], l, keys[key].name, keys[key].least, most, err);
}

/* Eight lower-case hex digits into four bytes; 0: not that. */
static int unhex_eight(unsigned char *out, const char *hex)
{
    uint64_t c;
    memcpy(&c, hex, 8); /* the first digit is the lowest byte: on x86-64 and aarch64 */
    const uint64_t value = (c & EACH(15)) + 9 * (c >> 6 & EACH(1)), letters = (value + EACH(6)) >> 4 & EACH(1);
    if (value & EACH(0xf0) || value + EACH('0') + letters * ('a' - '0' - 10) != c)
        return 0;
    const uint64_t pairs = value << 4 | value >> 8; /* of every other byte */
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(pairs >> 16 * i);
    return 1;
}

int rp_line_digest(unsigned char out[RP_SHA256_SIZE], struct rp_record_line *l, enum rp_step_key key,
                   struct rp_err *err)
{
    const struct rp_line_field *f = &l->f[key];
    if (rp_line_check_type(f, 's', l, keys[key].name, err) < 0)
        return -1;
    int i = f->size == 2 * RP_SHA256_SIZE ? 0 : RP_SHA256_SIZE + 1;
    while (i < RP_SHA256_SIZE && unhex_eight(out + i, f->value + 2 * i))
        i += 4;
    if (i != RP_SHA256_SIZE)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not 64 lower-case hex digits", rp_line_place(l), keys[key].name);
    return 0;
}
