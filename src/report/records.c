#include "report/records.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "optim/optim.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX UINT32_MAX /* samples or tokens of one step: sums of a whole run stay inside 64 bits */
#define FIELDS_MAX 32
#define PARTS_OFF 1e-4f
#define DEVICE_CLOCK_NS 2000   /* a step may be longer by the device's clock by so much, */
#define DEVICE_CLOCK_PART 1000 /* and one part in so many */

void rp_records_fini(struct rp_records *rs)
{
    free(rs->r);
    free(rs->root);
    *rs = (struct rp_records){0};
}

void rp_record_root(char out[RP_SHA256_HEX], const struct rp_records *rs, const struct rp_record *r)
{
    *out = 0;
    if (r->root)
        rp_hex(out, rs->root[r->root - 1], RP_SHA256_SIZE);
}

/* ---- one line ----
 * A line is a flat JSON object as rp_json_write_line() spells it: {"key":value,...} without blanks, keys ascending, values numbers or texts
 * of printable ASCII without escapes. A run can have a million lines, for each of which a JSON library makes fifty allocations. */

static const char *const keys[] = {"device_ns", "end_ns", "grad_norm", "learning_rate", "loss", "mlm_loss", "nsp_loss",
                                   "padded_tokens", "phase", "repeat", "root_ns", "samples", "start_ns", "state_root",
                                   "step", "tokens"};
enum key { DEVICE_NS, END_NS, GRAD_NORM, LEARNING_RATE, LOSS, MLM_LOSS, NSP_LOSS, PADDED_TOKENS,
           PHASE, REPEAT, ROOT_NS, SAMPLES, START_NS, STATE_ROOT, STEP, TOKENS, KEYS }; /* ascending, as in a line */
_Static_assert(sizeof keys / sizeof *keys == KEYS, "a name for every key");

struct field {
    const char *value; /* into the line; a text without its quotes */
    int size;
    char type; /* 's' text, 'i' integer, 'r' real; 0: not there */
};
struct line {
    struct field f[KEYS];
    int n; /* how many keys there are, those without a meaning included */
    int64_t number;
    char what[48];
};

/* "steps/rank0.jsonl:7", for a message: a line that is right does not pay for it. */
static const char *at(struct line *l)
{
    snprintf(l->what, sizeof l->what, "steps/rank0.jsonl:%" PRId64, l->number);
    return l->what;
}

/* The end of the text that begins with the quote at p, or NULL. */
static const char *text_end(const char *p, const char *end)
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

/* Of the key at p..stop: which one it is, KEYS if it has no meaning; looked for behind `from`, as keys ascend. */
static int key_of(const char *p, const char *stop, int from)
{
    size_t n = (size_t)(stop - p);
    for (int k = from; k < KEYS; k++)
        if (keys[k][0] == *p && strlen(keys[k]) == n && memcmp(keys[k], p, n) == 0)
            return k;
    return KEYS;
}

static int ascends(const char *before, const char *before_end, const char *key, const char *key_end)
{
    size_t a = (size_t)(before_end - before), b = (size_t)(key_end - key);
    int c = before ? memcmp(before, key, a < b ? a : b) : -1;
    return c < 0 || (c == 0 && a < b);
}

static int scan(struct line *l, const char *p, size_t size, struct rp_err *err)
{
    const char *start = p, *end = p + size, *before = NULL, *before_end = NULL;
    int whole = 0, from = 0;
    while (size <= INT32_MAX && l->n < FIELDS_MAX && p < end && *p == (l->n ? ',' : '{')) {
        const char *key = p + 2, *key_end = text_end(p + 1, end), *value = key_end ? key_end + 2 : end;
        if (value >= end || value[-1] != ':' || !ascends(before, before_end, key, key_end))
            break;
        struct field f = {.type = 's'};
        int k = key_of(key, key_end, from), text = *value == '"';
        const char *stop = text ? text_end(value, end) : number_end(value, end, &f.type);
        if (!stop)
            break;
        f.value = value + text;
        f.size = (int)(stop - f.value);
        if (k < KEYS) {
            l->f[k] = f;
            from = k + 1;
        }
        before = key;
        before_end = key_end;
        p = stop + text;
        l->n++;
        whole = p + 1 == end && *p == '}';
    }
    if (whole)
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s: not a record as this program writes it, from column %zu on: flat, compact, sorted keys",
                   at(l), (size_t)(p - start) + 1);
}

static const struct field *get(struct line *l, enum key key, char type, struct rp_err *err)
{
    const struct field *f = &l->f[key];
    const char *name = type == 's' ? "a string" : type == 'i' ? "an integer" : "a number";
    if (f->type == type || (type == 'r' && f->type == 'i'))
        return f;
    if (!f->type)
        return rp_fail_null(err, RP_MALFORMED, "%s: '%s' is missing, expected %s", at(l), keys[key], name);
    return rp_fail_null(err, RP_MALFORMED, "%s: '%s' is not %s", at(l), keys[key], name);
}

static int is(const struct field *f, const char *text)
{
    return f->size == (int)strlen(text) && memcmp(f->value, text, (size_t)f->size) == 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A normal float in its one spelling, -0x1.8p+1: 0. Anything else, which may still be one: -1. */
static int normal_float(float *out, const char *p, int size)
{
    const char *end = p + size;
    int minus = p < end && *p == '-', digits = 0, exponent = 0, last = 1;
    uint32_t fraction = 0;
    p += minus;
    if (end - p < 6 || memcmp(p, "0x1", 3) != 0)
        return -1;
    p += 3;
    if (*p == '.')
        for (p++; p < end && digits < 6 && (last = hex_digit(*p)) >= 0; p++, digits++)
            fraction = fraction << 4 | (uint32_t)last;
    if (end - p < 3 || *p != 'p' || (digits && !fraction) || (p[-1] == '0' && digits) || p[-1] == '.' || (p[1] != '+' && p[1] != '-'))
        return -1;
    fraction <<= 4 * (6 - digits);
    int negative = p[1] == '-';
    p += 2;
    if (*p == '0' && (negative || p + 1 != end))
        return -1;
    for (; p < end && *p >= '0' && *p <= '9' && exponent < 1000; p++)
        exponent = exponent * 10 + (*p - '0');
    exponent = negative ? -exponent : exponent;
    if (p != end || fraction & 1 || exponent < -126 || exponent > 127)
        return -1;
    uint32_t bits = (uint32_t)minus << 31 | (uint32_t)(exponent + 127) << 23 | fraction >> 1;
    memcpy(out, &bits, sizeof bits);
    return 0;
}

static int hex_float(float *x, struct line *l, enum key key, struct rp_err *err)
{
    char text[32], again[32];
    const struct field *f = get(l, key, 's', err);
    if (!f)
        return -1;
    if (normal_float(x, f->value, f->size) == 0)
        return 0;
    snprintf(text, sizeof text, "%.*s", f->size, f->value);
    if (f->size >= 32 || rp_float_unhex(x, text) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not a hex float like 0x1.8p+1", at(l), keys[key]);
    if (!isfinite(*x))
        return rp_fail(err, RP_MISMATCH, "%s: '%s' is %s; training would have stopped there", at(l), keys[key], text);
    rp_float_hex(again, *x);
    if (strcmp(again, text) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is '%s', which this program writes as '%s'", at(l), keys[key], text, again);
    return 0;
}

static int count(int64_t *out, struct line *l, enum key key, int64_t lo, int64_t hi, struct rp_err *err)
{
    const struct field *f = get(l, key, 'i', err);
    if (!f)
        return -1;
    const char *p = f->value, *end = f->value + f->size;
    int minus = *p == '-', fits = f->size - minus <= 18;
    for (*out = 0, p += minus; fits && p < end; p++)
        *out = *out * 10 + (*p - '0');
    errno = 0;
    *out = fits ? minus ? -*out : *out : strtoll(f->value, NULL, 10); /* stops at the ',' or '}' behind it */
    if (errno || *out < lo || *out > hi)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is %.*s, outside %" PRId64 "..%" PRId64, at(l), keys[key], f->size, f->value, lo, hi);
    return 0;
}

static int count32(uint32_t *out, struct line *l, enum key key, int64_t lo, int64_t hi, struct rp_err *err)
{
    int64_t wide;
    if (count(&wide, l, key, lo, hi, err) < 0)
        return -1;
    *out = (uint32_t)wide;
    return 0;
}

/* A part of the loss: spelled as any other float, or nan, or not there. How many keys that is, or -1; *part is NaN without one. */
static int loss_part(float *part, struct line *l, enum key key, struct rp_err *err)
{
    const struct field *f = &l->f[key];
    *part = NAN;
    if (!f->type || (f->type == 's' && is(f, "nan")))
        return f->type != 0;
    return hex_float(part, l, key, err) < 0 ? -1 : 1;
}

/* Both parts, where there are two, add up to the loss: each is rounded once for every micro-batch. */
static int parts_match(const struct rp_record *r, float mlm, float nsp, struct line *l, struct rp_err *err)
{
    float loss = r->loss;
    if (isnan(mlm) || isnan(nsp) || fabsf(mlm + nsp - loss) <= PARTS_OFF * (fabsf(mlm) + fabsf(nsp)))
        return 0;
    return rp_fail(err, RP_MISMATCH, "%s: the parts of the loss are %.6g and %.6g, the loss is %.6g", at(l), (double)mlm, (double)nsp,
                   (double)loss);
}

/* A decimal number as %.17g writes it, rounded like strtod() and in a tenth of its time: 64 bits of mantissa and a power of ten that 64
 * bits hold give a quotient that is off by half a unit of the 64, which decides every double but those next to the middle of two. */
static double decimal(const char *text, int size)
{
    static const long double tens[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                       1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    uint64_t digits = 0, mantissa;
    int n = 0, scale = 0, point = 0, exponent = 0, minus;
    const char *p = text, *end = text + size;
    for (; p < end && (*p == '.' || (*p >= '0' && *p <= '9')); p++) {
        point |= *p == '.';
        if (*p == '.')
            continue;
        digits = digits * 10 + (uint64_t)(*p - '0');
        n += digits != 0;
        scale += point;
        if (n > 18)
            return strtod(text, NULL);
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        minus = *++p == '-';
        for (p += *p == '-' || *p == '+'; p < end && exponent < 1000; p++)
            exponent = exponent * 10 + (*p - '0');
        exponent = minus ? -exponent : exponent;
    }
    exponent -= scale;
    if (LDBL_MANT_DIG != 64 || p != end || !digits || exponent < -27 || exponent > 27)
        return strtod(text, NULL);
    long double x = exponent < 0 ? (long double)digits / tens[-exponent] : (long double)digits * tens[exponent];
    memcpy(&mantissa, &x, sizeof mantissa);
    int below = (int)(mantissa & 0x7ff);
    return below >= 0x3fe && below <= 0x402 ? strtod(text, NULL) : (double)x;
}

static int learning_rate(struct rp_record *r, struct line *l, struct rp_err *err)
{
    const struct field *f = get(l, LEARNING_RATE, 'r', err);
    if (!f)
        return -1;
    r->learning_rate = decimal(f->value, f->size);
    if (f->type == 'i' && f->size > 18) /* not every reader of JSON takes it */
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is a whole number of more than 18 digits", at(l));
    if (!(r->learning_rate >= 0) || !isfinite(r->learning_rate))
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is not a number from 0 up", at(l));
    return 0;
}

/* How many keys that is, or -1. */
static int state_root(struct rp_record *r, unsigned char root[RP_SHA256_SIZE], struct line *l, int needed, struct rp_err *err)
{
    if (!needed && !l->f[STATE_ROOT].type)
        return 0; /* a root_ns by itself is then a key too many */
    const struct field *f = get(l, STATE_ROOT, 's', err);
    if (!f || count(&r->root_ns, l, ROOT_NS, 0, INT64_MAX, err) < 0)
        return -1;
    for (int i = 0; f->size == 2 * RP_SHA256_SIZE && i < RP_SHA256_SIZE; i++) {
        int high = hex_digit(f->value[2 * i]), low = hex_digit(f->value[2 * i + 1]);
        if (high < 0 || low < 0)
            break;
        root[i] = (unsigned char)(high << 4 | low);
        r->root = i + 1 == RP_SHA256_SIZE;
    }
    if (!r->root)
        return rp_fail(err, RP_MALFORMED, "%s: 'state_root' is not 64 lower-case hex digits", at(l));
    return 2;
}

/* The device's clock has a resolution of half a microsecond, and another quartz than the host's. How many keys that is, or -1. */
static int device_time(struct rp_record *r, struct line *l, struct rp_err *err)
{
    r->device_ns = -1;
    if (!l->f[DEVICE_NS].type)
        return 0;
    if (count(&r->device_ns, l, DEVICE_NS, 0, INT64_MAX, err) < 0)
        return -1;
    int64_t step = r->end_ns - r->start_ns;
    if (step > 0 && r->device_ns > step && r->device_ns - step > DEVICE_CLOCK_NS + step / DEVICE_CLOCK_PART)
        return rp_fail(err, RP_MISMATCH, "%s: the step took %" PRId64 " ns, and the device worked on it for %" PRId64 " ns", at(l), step,
                       r->device_ns);
    return 1;
}

/* Every key has been looked at: what has no meaning here is refused, or it would be signed and read by nobody. */
static int no_more(struct line *l, int known, struct rp_err *err)
{
    return l->n == known ? 0 : rp_fail(err, RP_MALFORMED, "%s: %d keys, of which %d have a meaning there", at(l), l->n, known);
}

/* The keys of a step but its phase and number; how many, or -1. */
static int parse_values(struct rp_record *r, unsigned char root[RP_SHA256_SIZE], struct line *l, struct rp_err *err)
{
    int roots, mlm, nsp, device;
    int64_t repeat;
    float mlm_loss, nsp_loss;
    if (count(&repeat, l, REPEAT, 0, INT32_MAX, err) < 0 || count(&r->start_ns, l, START_NS, 0, INT64_MAX, err) < 0 ||
        count(&r->end_ns, l, END_NS, 0, INT64_MAX, err) < 0 || count32(&r->samples, l, SAMPLES, 1, COUNT_MAX, err) < 0 ||
        count32(&r->padded_tokens, l, PADDED_TOKENS, 0, COUNT_MAX, err) < 0 ||
        count32(&r->tokens, l, TOKENS, 0, r->padded_tokens, err) < 0 || hex_float(&r->loss, l, LOSS, err) < 0 ||
        hex_float(&r->grad_norm, l, GRAD_NORM, err) < 0 || learning_rate(r, l, err) < 0 ||
        (mlm = loss_part(&mlm_loss, l, MLM_LOSS, err)) < 0 || (nsp = loss_part(&nsp_loss, l, NSP_LOSS, err)) < 0 ||
        parts_match(r, mlm_loss, nsp_loss, l, err) < 0 || (roots = state_root(r, root, l, 0, err)) < 0 ||
        (device = device_time(r, l, err)) < 0)
        return -1;
    r->repeat = (int32_t)repeat;
    return 9 + mlm + nsp + roots + device;
}

/* root: where r->root is set, and then that is 1. */
static int parse_step(struct rp_record *r, unsigned char root[RP_SHA256_SIZE], struct line *l, struct rp_err *err)
{
    int64_t step;
    int more;
    const struct field *phase = get(l, PHASE, 's', err);
    if (!phase || count(&step, l, STEP, -1, INT32_MAX - 1, err) < 0)
        return -1;
    r->step = (int32_t)step;
    if (is(phase, "init")) {
        if (step != -1)
            return rp_fail(err, RP_MALFORMED, "%s: phase 'init' is step -1, not %" PRId64, at(l), step);
        more = state_root(r, root, l, 1, err);
        return more < 0 ? -1 : no_more(l, 2 + more, err);
    }
    r->timed = is(phase, "timed");
    if (!r->timed && !is(phase, "warm-up"))
        return rp_fail(err, RP_MALFORMED, "%s: 'phase' is none of init, warm-up, timed", at(l));
    more = parse_values(r, root, l, err);
    return more < 0 ? -1 : no_more(l, 2 + more, err);
}

/* ---- all lines ---- */

/* r follows before, or is the first: steps count up by one, time does not run backwards, a root fits between its neighbours. */
static int in_order(const struct rp_record *before, const struct rp_record *r, struct line *l, struct rp_err *err)
{
    int32_t expected = before ? before->step + 1 : r->step < 0 ? -1 : 0;
    if (r->step != expected)
        return rp_fail(err, RP_MALFORMED, "%s: step %d; expected %d", at(l), r->step, expected);
    if (r->step < 0)
        return 0;
    if (r->end_ns <= r->start_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %d ends before it starts", at(l), r->step);
    if (!before || before->step < 0)
        return 0;
    if (r->start_ns < before->end_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %d starts before step %d ends", at(l), r->step, before->step);
    if (before->root_ns > r->start_ns - before->end_ns)
        return rp_fail(err, RP_MISMATCH,
                       "%s: the state root of step %d says %" PRId64 " ns and the next step starts after %" PRId64 " ns", at(l),
                       before->step, before->root_ns, r->start_ns - before->end_ns);
    return 0;
}

/* Place for one more of `size` bytes in an array of n. */
static void *grow(void *array, int64_t n, int64_t *room, size_t size)
{
    if (n < *room)
        return array;
    *room = *room ? 2 * *room : 64;
    return rp_realloc(array, (size_t)*room * size);
}

static int add_line(struct rp_records_in *in, const char *text, size_t size, struct rp_err *err)
{
    struct rp_records *rs = in->out;
    struct rp_record r = {0};
    struct line l = {.number = rs->n + 1};
    unsigned char root[RP_SHA256_SIZE];
    if (rs->n == RP_RECORDS_MAX)
        return rp_fail(err, RP_MALFORMED, "%s: more than %d records", at(&l), RP_RECORDS_MAX);
    if (scan(&l, text, size, err) < 0 || parse_step(&r, root, &l, err) < 0 ||
        in_order(rs->n ? &rs->r[rs->n - 1] : NULL, &r, &l, err) < 0)
        return -1;
    if (r.root) {
        rs->root = grow(rs->root, rs->roots, &in->roots_room, sizeof *rs->root);
        memcpy(rs->root[rs->roots++], root, sizeof root);
        r.root = (uint32_t)rs->roots & INT32_MAX;
    }
    rs->r = grow(rs->r, rs->n, &in->room, sizeof *rs->r);
    rs->r[rs->n++] = r;
    return 0;
}

/* Keep what there is of a line, and give its beginning out whole once its end has come. */
static int hold(struct rp_records_in *in, const char *data, size_t size, struct rp_err *err)
{
    struct line l = {.number = in->out->n + 1};
    if (size > sizeof in->line - in->held)
        return rp_fail(err, RP_MALFORMED, "%s: longer than %zu bytes", at(&l), sizeof in->line);
    memcpy(in->line + in->held, data, size);
    in->held += size;
    return 0;
}

static int add_piece(struct rp_records_in *in, const char *data, size_t size, struct rp_err *err)
{
    for (const char *end; size; size -= (size_t)(end + 1 - data), data = end + 1) {
        end = memchr(data, '\n', size);
        if (!end)
            return hold(in, data, size, err);
        size_t n = (size_t)(end - data);
        if (in->held || n > sizeof in->line) {
            if (hold(in, data, n, err) < 0 || add_line(in, in->line, in->held, err) < 0)
                return -1;
            in->held = 0;
        } else if (add_line(in, data, n, err) < 0) {
            return -1;
        }
    }
    return 0;
}

int rp_records_piece(void *in, const char *data, size_t size, struct rp_err *err)
{
    struct rp_records_in *i = in;
    if (add_piece(i, data, size, err) == 0)
        return 0;
    rp_records_fini(i->out);
    return -1;
}

int rp_records_end(struct rp_records_in *in, const char *sha256, struct rp_err *err)
{
    memcpy(in->out->sha256, sha256, RP_SHA256_HEX);
    if (!in->held)
        return 0;
    int64_t line = in->out->n + 1;
    rp_records_fini(in->out);
    return rp_fail(err, RP_MALFORMED, "steps/rank0.jsonl:%" PRId64 ": the last line has no end", line);
}

int rp_records_parse(struct rp_records *out, const char *text, size_t size, struct rp_err *err)
{
    char sha256[RP_SHA256_HEX];
    struct rp_records_in in = {.out = out};
    *out = (struct rp_records){0};
    rp_sha256_hex(sha256, text, size);
    return rp_records_piece(&in, text, size, err) < 0 ? -1 : rp_records_end(&in, sha256, err);
}

/* The recipe's schedule at a step that counts from 0. */
static double scheduled(const struct rp_recipe *r, int64_t step)
{
    const struct rp_optim o = {.lr = r->optimizer_learning_rate,
                               .warmup = r->schedule_warmup_steps,
                               .total = r->schedule_total_steps,
                               .decay = (enum rp_decay)r->schedule_decay};
    return rp_learning_rate(&o, step + 1);
}

static int rate_matches(const struct rp_record *s, const struct rp_recipe *r, struct rp_err *err)
{
    double expected = scheduled(r, s->step);
    if ((r->run_init && *r->run_init) || s->learning_rate == expected)
        return 0;
    return rp_fail(err, RP_MISMATCH, "step %d has the learning rate %.17g; the recipe's schedule gives %.17g", s->step,
                   s->learning_rate, expected);
}

/* The worker takes a root where the recipe asks for one and after the last step, and nowhere else: its time is no part of the
 * throughput. */
static int root_matches(const struct rp_record *s, const struct rp_recipe *r, int64_t steps, struct rp_err *err)
{
    int64_t every = r->evidence_state_root_every;
    int due = s->step == steps - 1 || (every > 0 && (s->step + 1) % every == 0);
    if (due == (s->root != 0))
        return 0;
    return rp_fail(err, RP_MISMATCH,
                   "step %d has %s state root; with evidence.state_root_every %" PRId64 " and %" PRId64 " steps there is %s",
                   s->step, s->root ? "a" : "no", every, steps, s->root ? "none" : "one");
}

int rp_records_match(const struct rp_records *rs, const struct rp_recipe *r, int complete, struct rp_err *err)
{
    int64_t first = rs->n && rs->r[0].step < 0, steps = rs->n - first;
    int64_t all = r->measure_warmup_steps + r->measure_repeats * r->measure_timed_steps;
    if (steps > all || (complete && steps != all))
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " steps are recorded; the recipe asks for %" PRId64, steps, all);
    if (complete && (!first || !rs->r[rs->n - 1].root))
        return rp_fail(err, RP_MISMATCH, "a complete run has a state root before its first and after its last step");
    for (int64_t i = first; i < rs->n; i++) {
        const struct rp_record *s = &rs->r[i];
        int64_t timed = s->step - r->measure_warmup_steps, repeat = timed < 0 ? 0 : timed / r->measure_timed_steps;
        if ((int)s->timed != (timed >= 0) || s->repeat != repeat)
            return rp_fail(err, RP_MISMATCH, "step %d is recorded in another phase or repeat than the recipe gives it", s->step);
        if ((s->device_ns < 0) != (rs->r[first].device_ns < 0))
            return rp_fail(err, RP_MISMATCH, "step %d has %s time of the device, and the first step %s", s->step,
                           s->device_ns < 0 ? "no" : "a", s->device_ns < 0 ? "has one" : "has none");
        if (s->samples != rs->r[first].samples)
            return rp_fail(err, RP_MISMATCH, "step %d trained %u samples, the first %u", s->step, s->samples,
                           rs->r[first].samples);
        if (s->padded_tokens != s->samples * r->task_seq_length)
            return rp_fail(err, RP_MISMATCH,
                           "step %d has %u tokens with padding; %u samples of %" PRId64 " have %" PRId64,
                           s->step, s->padded_tokens, s->samples, r->task_seq_length, s->samples * r->task_seq_length);
        int64_t expected = r->train_batch_size * r->train_accumulation_steps * r->parallel_data;
        if (expected && s->samples != expected)
            return rp_fail(err, RP_MISMATCH, "step %d trained %u samples; the recipe gives %" PRId64, s->step,
                           s->samples, expected);
        if (root_matches(s, r, all, err) < 0 || rate_matches(s, r, err) < 0)
            return -1;
    }
    return 0;
}
