/* The reader of one line of step records. */
#include "run/records_line.h"

#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned when; /* enum rp_step_when */
    int least;
} keys[] = {
#define STEP_KEY(name, form, when, least) {#name, RP_WHEN_##when, least},
#include "worker/step.def"
#undef STEP_KEY
};

const char *rp_line_place(struct rp_record_line *l)
{
    snprintf(l->what, sizeof l->what, "%s:%" PRId64, RP_OF_RANK(l->rank, ".jsonl"), l->number);
    return l->what;
}

/* The closing quote of the string whose opening quote is at p, or NULL. */
static const char *string_end(const char *p, const char *end)
{
    if (p == end || *p != '"')
        return NULL;
    for (p++; p < end && *p != '"'; p++)
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

/* The key of that name, searched from `from` on, as keys ascend; RP_STEP_KEYS: none. */
static int find_key(const char *name, size_t size, int from)
{
    while (from < RP_STEP_KEYS && (strncmp(keys[from].name, name, size) != 0 || keys[from].name[size]))
        from++;
    return from;
}

int rp_line_scan(struct rp_record_line *l, const char *text, size_t size, struct rp_err *err)
{
    const char *p = text, *end = text + size;
    for (int k = 0; p < end && *p == (p == text ? '{' : ','); k++) {
        size_t n;
        const char *value = rp_line_skip_name(p + 1, end, &n);
        k = value ? find_key(p + 2, n, k) : RP_STEP_KEYS;
        const char *stop = k < RP_STEP_KEYS ? rp_line_scan_value(&l->f[k], value, end) : NULL;
        if (!stop)
            break;
        p = stop;
        if (p + 1 == end && *p == '}')
            return 0;
    }
    return rp_fail(err, RP_MALFORMED,
                   "%s: not a record as this program writes it, from column %zu on: compact, known keys only, sorted",
                   rp_line_place(l), (size_t)(p - text) + 1);
}

int rp_line_check_keys(struct rp_record_line *l, unsigned required, unsigned allowed, const char *phase,
                       struct rp_err *err)
{
    for (int k = 0; k < RP_STEP_KEYS; k++) {
        if (!l->f[k].type && (keys[k].when & required))
            return rp_fail(err, RP_MALFORMED, "%s: '%s' is missing from a record of phase %s", rp_line_place(l),
                           keys[k].name, phase);
        if (l->f[k].type && !(keys[k].when & allowed))
            return rp_fail(err, RP_MALFORMED, "%s: '%s' in a record of phase %s", rp_line_place(l), keys[k].name,
                           phase);
    }
    return 0;
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

int rp_line_whole(int64_t *out, const struct rp_line_field *f, struct rp_record_line *l, const char *name,
                  int64_t least, int64_t most, struct rp_err *err)
{
    if (rp_line_check_type(f, 'i', l, name, err) < 0)
        return -1;
    errno = 0;
    *out = strtoll(f->value, NULL, 10); /* stops at the ',' or '}' after it */
    if (errno || (*f->value == '-' && *out == 0) || *out < least || *out > most)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is %.*s, outside %" PRId64 "..%" PRId64, rp_line_place(l), name,
                       f->size, f->value, least, most);
    return 0;
}

int rp_line_whole_key(int64_t *out, struct rp_record_line *l, enum rp_step_key key, int64_t most, struct rp_err *err)
{
    return rp_line_whole(out, &l->f[key], l, keys[key].name, keys[key].least, most, err);
}

int rp_line_digest(unsigned char out[RP_SHA256_SIZE], struct rp_record_line *l, enum rp_step_key key,
                   struct rp_err *err)
{
    const struct rp_line_field *f = &l->f[key];
    char hex[RP_SHA256_HEX] = "";
    if (rp_line_check_type(f, 's', l, keys[key].name, err) < 0)
        return -1;
    if (f->size < (int)sizeof hex)
        memcpy(hex, f->value, (size_t)f->size);
    if (!rp_is_sha256(hex) || rp_unhex(out, RP_SHA256_SIZE, hex) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not 64 lower-case hex digits", rp_line_place(l), keys[key].name);
    return 0;
}
