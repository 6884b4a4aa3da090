#include "report/records.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "worker/job.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_OFF 1e-4f
#define DEVICE_CLOCK_NS 2000   /* a step may be longer by the device's clock by so much, */
#define DEVICE_CLOCK_PART 1000 /* and one part in so many */

void rp_records_fini(struct rp_records *rs)
{
    free(rs->r);
    free(rs->root);
    free(rs->count);
    *rs = (struct rp_records){.rank = rs->rank};
}

void rp_record_root(char out[RP_SHA256_HEX], const struct rp_records *rs, const struct rp_record *r)
{
    *out = 0;
    if (r->root)
        rp_hex(out, rs->root[r->root - 1], RP_SHA256_SIZE);
}

const uint32_t *rp_record_counts(const struct rp_records *rs, const struct rp_record *r)
{
    return rs->count + (r - rs->r) * rs->counter.n;
}

int rp_records_counter(const struct rp_records *rs, const char *name)
{
    for (int i = 0; i < rs->counter.n; i++)
        if (strcmp(rs->counter.name[i], name) == 0)
            return i;
    return -1;
}

/* ---- one line ----
 * A line is a JSON object as rp_json_write_line() spells it: {"key":value,...} without blanks, keys ascending, values numbers, texts of
 * printable ASCII without escapes, or a flat object of these. A run can have a million lines, for each of which a JSON library makes fifty
 * allocations. */

static const struct {
    const char *name, *quoted; /* "loss", "loss\":" */
    size_t size;               /* of quoted */
} keys[] = {
#define STEP_KEY(name, form, when, least) {#name, #name "\":", sizeof #name + 1},
#include "worker/step.def"
#undef STEP_KEY
};

/* Which keys a record has to have, and which it may have: a bit for each. */
#define STEP_KEY(name, form, when, least) | ((RP_WHEN_##when & (KEYS_WHEN)) ? 1u << RP_STEP_##name : 0)
#define KEYS_WHEN RP_WHEN_ALWAYS | RP_WHEN_ROOTS
static const uint32_t of_init = 0
#include "worker/step.def"
    ;
#undef KEYS_WHEN
#define KEYS_WHEN RP_WHEN_ALWAYS | RP_WHEN_STEPS
static const uint32_t of_step = 0
#include "worker/step.def"
    ;
#undef KEYS_WHEN
#define KEYS_WHEN RP_WHEN_ROOTS
static const uint32_t of_root = 0
#include "worker/step.def"
    ;
#undef KEYS_WHEN
#undef STEP_KEY

struct field {
    const char *value; /* into the line; a text without its quotes, an object with its braces */
    int size;
    char type; /* 's' text, 'i' integer, 'r' real, 'o' object */
};
struct line {
    struct field f[RP_STEP_KEYS];
    uint32_t has; /* a bit for each key that is there: the field of any other is not filled */
    int rank;
    int64_t number;
    char what[RP_MEMBER_NAME + 24];
};

/* "steps/rank0.jsonl:7", for a message: a line that is right does not pay for it. */
static const char *at(struct line *l)
{
    snprintf(l->what, sizeof l->what, "%s:%" PRId64, RP_OF_RANK(l->rank, ".jsonl"), l->number);
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

/* The key whose name begins at p, with its quote and colon: looked for from `from` on, as keys ascend. RP_STEP_KEYS: none of these. */
static int key_of(const char *p, const char *end, int from)
{
    for (int k = from; k < RP_STEP_KEYS; k++)
        if (keys[k].quoted[0] == *p && (size_t)(end - p) > keys[k].size && memcmp(keys[k].quoted, p, keys[k].size) == 0)
            return k;
    return RP_STEP_KEYS;
}

/* The value at p into *f, without looking into an object; its end, or NULL. */
static const char *value_of(struct field *f, const char *p, const char *end)
{
    int text = *p == '"';
    const char *stop;
    *f = (struct field){p + text, 0, text ? 's' : 'o'};
    if (text)
        stop = text_end(p, end);
    else if (*p == '{')
        stop = memchr(p, '}', (size_t)(end - p));
    else
        stop = number_end(p, end, &f->type);
    if (!stop)
        return NULL;
    f->size = (int)(stop - f->value) + (f->type == 'o');
    return stop + (text || f->type == 'o');
}

static int scan(struct line *l, const char *p, size_t size, struct rp_err *err)
{
    const char *start = p, *end = p + size;
    for (int k = 0; size <= INT32_MAX && end - p > 2 && *p == (l->has ? ',' : '{') && p[1] == '"'; k++) {
        k = key_of(p + 2, end, k);
        const char *stop = k < RP_STEP_KEYS ? value_of(&l->f[k], p + 2 + keys[k].size, end) : NULL;
        if (!stop)
            break;
        l->has |= 1u << k;
        p = stop;
        if (p + 1 == end && *p == '}')
            return 0;
    }
    return rp_fail(err, RP_MALFORMED, "%s: not a record as this program writes it, from column %zu on: compact, known keys only, sorted",
                   at(l), (size_t)(p - start) + 1);
}

static const char *type_name(char type)
{
    return type == 's' ? "a string" : type == 'i' ? "an integer" : type == 'o' ? "an object" : "a number";
}

/* Every key that such a record needs is there, and no other. */
static int check_keys(struct line *l, uint32_t needs, uint32_t may, const char *phase, struct rp_err *err)
{
    uint32_t missing = needs & ~l->has, extra = l->has & ~may;
    if (!(missing | extra))
        return 0;
    return rp_fail(err, RP_MALFORMED, missing ? "%s: '%s' is missing from a record of phase %s" : "%s: '%s' in a record of phase %s", at(l),
                   keys[__builtin_ctz(missing ? missing : extra)].name, phase);
}

static int has_type(const struct field *f, char type, struct line *l, const char *name, struct rp_err *err)
{
    if (f->type == type || (type == 'r' && f->type == 'i'))
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s: '%s' is not %s", at(l), name, type_name(type));
}

static int is(const struct field *f, const char *text)
{
    return f->size == (int)strlen(text) && memcmp(f->value, text, (size_t)f->size) == 0;
}

static int hex_float(float *x, const struct field *f, struct line *l, const char *name, struct rp_err *err)
{
    char text[32], again[32];
    if (has_type(f, 's', l, name, err) < 0)
        return -1;
    if (rp_float_read(x, f->value, f->size) == 0)
        return 0;
    snprintf(text, sizeof text, "%.*s", f->size, f->value);
    if (f->size >= 32 || rp_float_unhex(x, text) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not a hex float like 0x1.8p+1", at(l), name);
    if (!isfinite(*x))
        return rp_fail(err, RP_MISMATCH, "%s: '%s' is %s; training would have stopped there", at(l), name, text);
    rp_float_hex(again, *x);
    if (strcmp(again, text) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is '%s', which this program writes as '%s'", at(l), name, text, again);
    return 0;
}

static int count(int64_t *out, const struct field *f, struct line *l, const char *name, int64_t lo, int64_t hi, struct rp_err *err)
{
    if (has_type(f, 'i', l, name, err) < 0)
        return -1;
    const char *p = f->value, *end = f->value + f->size;
    int minus = *p == '-', fits = f->size - minus <= 18;
    for (*out = 0, p += minus; fits && p < end; p++)
        *out = *out * 10 + (*p - '0');
    errno = 0;
    *out = fits ? minus ? -*out : *out : strtoll(f->value, NULL, 10); /* stops at the ',' or '}' after it */
    if (errno || *out < lo || *out > hi)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is %.*s, outside %" PRId64 "..%" PRId64, at(l), name, f->size, f->value, lo, hi);
    return 0;
}

/* ---- named values ---- */

/* The name at p, which ends at stop, is the i-th: remembered from the first step, and the same in every other. */
static int is_name(struct rp_record_names *names, int i, int learn, const char *p, const char *stop)
{
    size_t n = (size_t)(stop - p);
    char *name = names->name[i];
    if (!learn)
        return strncmp(name, p, n) == 0 && !name[n];
    if (n == 0 || n >= sizeof names->name[i])
        return 0;
    memcpy(name, p, n);
    name[n] = 0;
    names->n = i + 1;
    return i == 0 || strcmp(names->name[i - 1], name) < 0;
}

/* The values of the object at `key`, in the order of their names; the first step of a run (learn) says which names there are. */
static int named_values(struct field value[RP_NAMES_MAX], struct rp_record_names *names, int learn, struct line *l, enum rp_step_key key,
                        struct rp_err *err)
{
    const struct field *f = &l->f[key];
    int n = 0, has = l->has >> key & 1;
    if (!has && (learn || !names->n))
        return 0;
    if (!has)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is missing; the first step has it", at(l), keys[key].name);
    if (has_type(f, 'o', l, keys[key].name, err) < 0)
        return -1;
    const char *p = f->value, *end = p + f->size;
    for (; end - p > 2 && *p == (n ? ',' : '{') && n < (learn ? RP_NAMES_MAX : names->n); n++) {
        const char *stop = text_end(p + 1, end);
        if (!stop || end - stop < 3 || stop[1] != ':' || stop[2] == '{' || !is_name(names, n, learn, p + 2, stop))
            break;
        p = value_of(&value[n], stop + 2, end);
        if (!p)
            break;
    }
    if (n && n == names->n && p && p + 1 == end)
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s: '%s' has not the names of the first step, each with a value, sorted and compact", at(l),
                   keys[key].name);
}

/* All parts of the loss, where there are any, add up to it: each is rounded once for every micro-batch. */
static int loss_parts(const struct rp_record *r, struct rp_records *rs, int learn, struct line *l, struct rp_err *err)
{
    struct field f[RP_NAMES_MAX];
    float part, sum = 0, size = 0;
    if (named_values(f, &rs->part, learn, l, RP_STEP_loss_parts, err) < 0)
        return -1;
    for (int i = 0; i < rs->part.n; i++) {
        if (hex_float(&part, &f[i], l, rs->part.name[i], err) < 0)
            return -1;
        sum += part;
        size += fabsf(part);
    }
    if (!rs->part.n || fabsf(sum - r->loss) <= PARTS_OFF * size)
        return 0;
    return rp_fail(err, RP_MISMATCH, "%s: the parts of the loss add up to %.6g, the loss is %.6g", at(l), (double)sum, (double)r->loss);
}

static int counters(uint32_t to[RP_NAMES_MAX], struct rp_records *rs, int learn, struct line *l, struct rp_err *err)
{
    struct field f[RP_NAMES_MAX];
    int64_t wide;
    if (named_values(f, &rs->counter, learn, l, RP_STEP_counters, err) < 0)
        return -1;
    for (int i = 0; i < rs->counter.n; i++) {
        if (count(&wide, &f[i], l, rs->counter.name[i], 0, UINT32_MAX, err) < 0)
            return -1;
        to[i] = (uint32_t)wide;
    }
    return 0;
}

/* ---- the other values ---- */

static int learning_rate(struct rp_record *r, struct line *l, struct rp_err *err)
{
    const struct field *f = &l->f[RP_STEP_learning_rate];
    if (has_type(f, 'r', l, "learning_rate", err) < 0)
        return -1;
    r->learning_rate = rp_real_read(f->value, f->size);
    if (f->type == 'i' && f->size > 18) /* not every reader of JSON takes it */
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is a whole number of more than 18 digits", at(l));
    if (!(r->learning_rate >= 0) || !isfinite(r->learning_rate))
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is not a number from 0 up", at(l));
    return 0;
}

/* root_ns by itself is half of one. */
static int state_root(struct rp_record *r, unsigned char root[RP_SHA256_SIZE], struct line *l, struct rp_err *err)
{
    static const unsigned char digit[256] = {['0'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ['a'] = 11, 12, 13, 14, 15, 16}; /* 1 + its value */
    const struct field *f = &l->f[RP_STEP_state_root];
    if (!(l->has & of_root))
        return 0;
    if (check_keys(l, of_root, UINT32_MAX, "init, or of a step with a state root", err) < 0 || has_type(f, 's', l, "state_root", err) < 0 ||
        count(&r->root_ns, &l->f[RP_STEP_root_ns], l, "root_ns", 0, INT64_MAX, err) < 0)
        return -1;
    const unsigned char *p = (const unsigned char *)f->value;
    int bad = f->size != 2 * RP_SHA256_SIZE;
    for (int i = 0; !bad && i < RP_SHA256_SIZE; i++) {
        int high = digit[p[2 * i]], low = digit[p[2 * i + 1]];
        root[i] = (unsigned char)(16 * high + low - 17);
        bad |= !high | !low;
    }
    r->root = !bad;
    if (bad)
        return rp_fail(err, RP_MALFORMED, "%s: 'state_root' is not 64 lower-case hex digits", at(l));
    return 0;
}

/* The device's clock has a resolution of half a microsecond, and another quartz than the host's. */
static int check_device_time(const struct rp_record *r, struct line *l, struct rp_err *err)
{
    int64_t step = r->end_ns - r->start_ns;
    if (step > 0 && r->device_ns > step && r->device_ns - step > DEVICE_CLOCK_NS + step / DEVICE_CLOCK_PART)
        return rp_fail(err, RP_MISMATCH, "%s: the step took %" PRId64 " ns, and the device worked on it for %" PRId64 " ns", at(l), step,
                       r->device_ns);
    return 0;
}

/* One macro for each form of a key; what is empty has a function of its own. */
#define PARSE_WHOLE(key, least, most)                                                                                                     \
    if (count(&wide, &l->f[RP_STEP_##key], l, #key, least, most, err) < 0)                                                                     \
        return -1;                                                                                                                        \
    r->key = (__typeof__(r->key))wide;
#define PARSE_TIME(key, least) PARSE_WHOLE(key, least, INT64_MAX)
#define PARSE_INDEX(key, least) PARSE_WHOLE(key, least, INT32_MAX)
#define PARSE_AMOUNT(key, least) PARSE_WHOLE(key, least, UINT32_MAX)
#define PARSE_DURATION(key, least)                                                                                                        \
    r->key = -1;                                                                                                                          \
    if (l->has >> RP_STEP_##key & 1) {                                                                                                        \
        PARSE_TIME(key, least)                                                                                                            \
    }
#define PARSE_FLOAT(key, least)                                                                                                           \
    if (hex_float(&r->key, &l->f[RP_STEP_##key], l, #key, err) < 0)                                                                            \
        return -1;
#define PARSE_REAL(key, least)                                                                                                            \
    if (key(r, l, err) < 0)                                                                                                               \
        return -1;
#define PARSE_RANK(key, least)
#define PARSE_PHASE(key, least)
#define PARSE_STEP(key, least)
#define PARSE_DIGEST(key, least)
#define PARSE_PAUSE(key, least)
#define PARSE_PARTS(key, least)
#define PARSE_COUNTERS(key, least)

static int parse_values(struct rp_record *r, struct line *l, struct rp_err *err)
{
    int64_t wide;
#define STEP_KEY(name, form, when, least) PARSE_##form(name, least)
#include "worker/step.def"
#undef STEP_KEY
    return 0;
}

/* Which record it is: its rank, phase and number. */
static int parse_place(struct rp_record *r, struct line *l, int *init, struct rp_err *err)
{
    int64_t step, rank;
    const struct field *phase = &l->f[RP_STEP_phase];
    if (check_keys(l, 1u << RP_STEP_phase | 1u << RP_STEP_rank | 1u << RP_STEP_step, UINT32_MAX, "any kind", err) < 0 ||
        has_type(phase, 's', l, "phase", err) < 0 || count(&step, &l->f[RP_STEP_step], l, "step", -1, INT32_MAX - 1, err) < 0 ||
        count(&rank, &l->f[RP_STEP_rank], l, "rank", 0, INT32_MAX, err) < 0)
        return -1;
    if (rank != l->rank)
        return rp_fail(err, RP_MALFORMED, "%s: a record of rank %" PRId64, at(l), rank);
    r->step = (int32_t)step;
    *init = is(phase, "init");
    if (*init && step != -1)
        return rp_fail(err, RP_MALFORMED, "%s: phase 'init' is step -1, not %" PRId64, at(l), step);
    r->timed = is(phase, "timed");
    if (!*init && !r->timed && !is(phase, "warm-up"))
        return rp_fail(err, RP_MALFORMED, "%s: 'phase' is none of init, warm-up, timed", at(l));
    return 0;
}

/* root: where r->root is set, and then that is 1. learn: no step was read before. */
static int parse_step(struct rp_record *r, unsigned char root[RP_SHA256_SIZE], uint32_t counts[RP_NAMES_MAX], struct rp_records *rs,
                      int learn, struct line *l, struct rp_err *err)
{
    int init = 0;
    if (parse_place(r, l, &init, err) < 0)
        return -1;
    if (init)
        return check_keys(l, of_init, of_init, "init", err) < 0 ? -1 : state_root(r, root, l, err);
    if (check_keys(l, of_step, UINT32_MAX, r->timed ? "timed" : "warm-up", err) < 0 || parse_values(r, l, err) < 0 ||
        loss_parts(r, rs, learn, l, err) < 0 || counters(counts, rs, learn, l, err) < 0 || state_root(r, root, l, err) < 0)
        return -1;
    return check_device_time(r, l, err);
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
    struct line l;
    unsigned char root[RP_SHA256_SIZE];
    uint32_t counts[RP_NAMES_MAX];
    int learn = !rs->n || (rs->n == 1 && rs->r[0].step < 0);
    l.number = rs->n + 1;
    l.rank = rs->rank;
    l.has = 0;
    if (rs->n == RP_RECORDS_MAX)
        return rp_fail(err, RP_MALFORMED, "%s: more than %d records", at(&l), RP_RECORDS_MAX);
    if (scan(&l, text, size, err) < 0 || parse_step(&r, root, counts, rs, learn, &l, err) < 0 ||
        in_order(rs->n ? &rs->r[rs->n - 1] : NULL, &r, &l, err) < 0)
        return -1;
    if (r.root) {
        rs->root = grow(rs->root, rs->roots, &in->roots_room, sizeof *rs->root);
        memcpy(rs->root[rs->roots++], root, sizeof root);
        r.root = (uint32_t)rs->roots & INT32_MAX;
    }
    rs->r = grow(rs->r, rs->n, &in->room, sizeof *rs->r);
    if (rs->counter.n) {
        size_t each = (size_t)rs->counter.n * sizeof *counts;
        rs->count = grow(rs->count, rs->n, &in->counts_room, each);
        if (learn) /* the init record has none */
            memset(rs->count, 0, each);
        memcpy(rs->count + rs->n * rs->counter.n, counts, each);
    }
    rs->r[rs->n++] = r;
    return 0;
}

/* Keep what there is of a line, and give its beginning out whole once its end has come. */
static int hold(struct rp_records_in *in, const char *data, size_t size, struct rp_err *err)
{
    struct line l = {.number = in->out->n + 1, .rank = in->out->rank};
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
    struct line l = {.number = in->out->n + 1, .rank = in->out->rank};
    rp_records_fini(in->out);
    return rp_fail(err, RP_MALFORMED, "%s: the last line has no end", at(&l));
}

int rp_records_parse(struct rp_records *out, const char *text, size_t size, struct rp_err *err)
{
    char sha256[RP_SHA256_HEX];
    struct rp_records_in in = {.out = out};
    *out = (struct rp_records){0};
    rp_sha256_hex(sha256, text, size);
    return rp_records_piece(&in, text, size, err) < 0 ? -1 : rp_records_end(&in, sha256, err);
}
