#include "report/records.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "model/optim.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 1000000000000 /* samples or tokens of one step: sums of a whole run stay inside 64 bits */
#define FIELDS_MAX 32
#define PARTS_OFF 1e-4f
#define DEVICE_CLOCK_NS 2000   /* a step may be longer by the device's clock by so much, */
#define DEVICE_CLOCK_PART 1000 /* and one part in so many */

void rp_records_fini(struct rp_records *rs)
{
    free(rs->r);
    *rs = (struct rp_records){0};
}

/* ---- one line ----
 * A line is a flat JSON object as rp_json_write_line() spells it: {"key":value,...} without blanks, keys ascending, values numbers or texts
 * of printable ASCII without escapes. A run can have a million lines, for each of which a JSON library makes fifty allocations. */

struct field {
    const char *key, *value; /* into the line; a text without its quotes */
    int key_size, value_size;
    char type; /* 's' text, 'i' integer, 'r' real */
};
struct line {
    struct field f[FIELDS_MAX];
    int n;
    const char *what; /* "steps/rank0.jsonl:7" */
};

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

static int field_order(const struct field *a, const struct field *b)
{
    int n = a->key_size < b->key_size ? a->key_size : b->key_size, c = memcmp(a->key, b->key, (size_t)n);
    return c ? c : a->key_size - b->key_size;
}

/* "key":value at p; its end, or NULL. */
static const char *scan_field(struct field *f, const char *p, const char *end)
{
    const char *stop = text_end(p, end);
    if (!stop)
        return NULL;
    f->key = p + 1;
    f->key_size = (int)(stop - f->key);
    p = stop + 1;
    if (end - p < 2 || *p++ != ':')
        return NULL;
    int text = *p == '"';
    f->type = 's';
    stop = text ? text_end(p, end) : number_end(p, end, &f->type);
    f->value = p + text;
    f->value_size = stop ? (int)(stop - f->value) : 0;
    return stop ? stop + text : NULL;
}

static int scan(struct line *l, const char *p, size_t size, struct rp_err *err)
{
    const char *start = p, *end = p + size;
    int whole = 0;
    for (l->n = 0; size <= INT32_MAX && l->n < FIELDS_MAX && p < end && *p == (l->n ? ',' : '{'); l->n++) {
        struct field *f = &l->f[l->n];
        const char *stop = scan_field(f, p + 1, end);
        if (!stop || (l->n && field_order(f - 1, f) >= 0))
            break;
        p = stop;
        whole = p + 1 == end && *p == '}';
    }
    if (whole)
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s: not a record as this program writes it, from column %zu on: flat, compact, sorted keys",
                   l->what, (size_t)(p - start) + 1);
}

static const struct field *find(const struct line *l, const char *key)
{
    int n = (int)strlen(key);
    for (int i = 0; i < l->n; i++)
        if (l->f[i].key_size == n && memcmp(l->f[i].key, key, (size_t)n) == 0)
            return &l->f[i];
    return NULL;
}

static const struct field *get(const struct line *l, const char *key, char type, struct rp_err *err)
{
    const struct field *f = find(l, key);
    const char *name = type == 's' ? "a string" : type == 'i' ? "an integer" : "a number";
    if (!f)
        return rp_fail_null(err, RP_MALFORMED, "%s: '%s' is missing, expected %s", l->what, key, name);
    if (f->type == type || (type == 'r' && f->type == 'i'))
        return f;
    return rp_fail_null(err, RP_MALFORMED, "%s: '%s' is not %s", l->what, key, name);
}

static int is(const struct field *f, const char *text)
{
    return f->value_size == (int)strlen(text) && memcmp(f->value, text, (size_t)f->value_size) == 0;
}

static int hex_float(char out[32], const struct line *l, const char *key, struct rp_err *err)
{
    char again[32];
    float x;
    const struct field *f = get(l, key, 's', err);
    if (!f)
        return -1;
    snprintf(out, 32, "%.*s", f->value_size, f->value);
    if (f->value_size >= 32 || rp_float_unhex(&x, out) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not a hex float like 0x1.8p+1", l->what, key);
    if (!isfinite(x))
        return rp_fail(err, RP_MISMATCH, "%s: '%s' is %s; training would have stopped there", l->what, key, out);
    rp_float_hex(again, x);
    if (strcmp(again, out) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is '%s', which this program writes as '%s'", l->what, key, out, again);
    return 0;
}

static int count(int64_t *out, const struct line *l, const char *key, int64_t lo, int64_t hi, struct rp_err *err)
{
    const struct field *f = get(l, key, 'i', err);
    if (!f)
        return -1;
    errno = 0;
    *out = strtoll(f->value, NULL, 10); /* stops at the ',' or '}' behind it */
    if (errno || *out < lo || *out > hi)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is %.*s, outside %" PRId64 "..%" PRId64, l->what, key, f->value_size, f->value, lo, hi);
    return 0;
}

/* A part of the loss: spelled as any other float, or nan, or not there. How many keys that is, or -1; *part is NaN without one. */
static int loss_part(float *part, const struct line *l, const char *key, struct rp_err *err)
{
    char text[32];
    const struct field *f = find(l, key);
    *part = NAN;
    if (!f || (f->type == 's' && is(f, "nan")))
        return f != NULL;
    return hex_float(text, l, key, err) < 0 || rp_float_unhex(part, text) < 0 ? -1 : 1;
}

/* Both parts, where there are two, add up to the loss: each is rounded once for every micro-batch. */
static int parts_match(const struct rp_record *r, float mlm, float nsp, const struct line *l, struct rp_err *err)
{
    float loss;
    if (rp_float_unhex(&loss, r->loss) < 0 || isnan(mlm) || isnan(nsp) || fabsf(mlm + nsp - loss) <= PARTS_OFF * (fabsf(mlm) + fabsf(nsp)))
        return 0;
    return rp_fail(err, RP_MISMATCH, "%s: the parts of the loss are %.6g and %.6g, the loss is %.6g", l->what, (double)mlm, (double)nsp,
                   (double)loss);
}

static int learning_rate(struct rp_record *r, const struct line *l, struct rp_err *err)
{
    const struct field *f = get(l, "learning_rate", 'r', err);
    if (!f)
        return -1;
    r->learning_rate = strtod(f->value, NULL);
    if (!(r->learning_rate >= 0) || !isfinite(r->learning_rate))
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is not a number from 0 up", l->what);
    return 0;
}

/* How many keys that is, or -1. */
static int state_root(struct rp_record *r, const struct line *l, int needed, struct rp_err *err)
{
    if (!needed && !find(l, "state_root"))
        return 0; /* a root_ns by itself is then a key too many */
    const struct field *f = get(l, "state_root", 's', err);
    if (!f || count(&r->root_ns, l, "root_ns", 0, INT64_MAX, err) < 0)
        return -1;
    snprintf(r->state_root, sizeof r->state_root, "%.*s", f->value_size, f->value);
    if (f->value_size != RP_SHA256_HEX - 1 || !rp_is_sha256(r->state_root))
        return rp_fail(err, RP_MALFORMED, "%s: 'state_root' is not 64 lower-case hex digits", l->what);
    return 2;
}

/* The device's clock has a resolution of half a microsecond, and another quartz than the host's. How many keys that is, or -1. */
static int device_time(struct rp_record *r, const struct line *l, struct rp_err *err)
{
    r->device_ns = -1;
    if (!find(l, "device_ns"))
        return 0;
    if (count(&r->device_ns, l, "device_ns", 0, INT64_MAX, err) < 0)
        return -1;
    int64_t step = r->end_ns - r->start_ns;
    if (step > 0 && r->device_ns > step && r->device_ns - step > DEVICE_CLOCK_NS + step / DEVICE_CLOCK_PART)
        return rp_fail(err, RP_MISMATCH, "%s: the step took %" PRId64 " ns, and the device worked on it for %" PRId64 " ns", l->what, step,
                       r->device_ns);
    return 1;
}

/* Every key has been looked at: what has no meaning here is refused, or it would be signed and read by nobody. */
static int no_more(const struct line *l, int keys, struct rp_err *err)
{
    return l->n == keys ? 0 : rp_fail(err, RP_MALFORMED, "%s: %d keys, of which %d have a meaning there", l->what, l->n, keys);
}

static int parse_step(struct rp_record *r, const struct line *l, struct rp_err *err)
{
    int root, mlm, nsp, device;
    float mlm_loss, nsp_loss;
    const struct field *phase = get(l, "phase", 's', err);
    if (!phase || count(&r->step, l, "step", -1, INT64_MAX - 1, err) < 0)
        return -1;
    if (is(phase, "init")) {
        if (r->step != -1)
            return rp_fail(err, RP_MALFORMED, "%s: phase 'init' is step -1, not %" PRId64, l->what, r->step);
        root = state_root(r, l, 1, err);
        return root < 0 ? -1 : no_more(l, 2 + root, err);
    }
    r->timed = is(phase, "timed");
    if (!r->timed && !is(phase, "warm-up"))
        return rp_fail(err, RP_MALFORMED, "%s: 'phase' is none of init, warm-up, timed", l->what);
    if (count(&r->repeat, l, "repeat", 0, COUNT_MAX, err) < 0 || count(&r->start_ns, l, "start_ns", 0, INT64_MAX, err) < 0 ||
        count(&r->end_ns, l, "end_ns", 0, INT64_MAX, err) < 0 || count(&r->samples, l, "samples", 1, COUNT_MAX, err) < 0 ||
        count(&r->padded_tokens, l, "padded_tokens", 0, COUNT_MAX, err) < 0 ||
        count(&r->tokens, l, "tokens", 0, r->padded_tokens, err) < 0 || hex_float(r->loss, l, "loss", err) < 0 ||
        hex_float(r->grad_norm, l, "grad_norm", err) < 0 || learning_rate(r, l, err) < 0 ||
        (mlm = loss_part(&mlm_loss, l, "mlm_loss", err)) < 0 || (nsp = loss_part(&nsp_loss, l, "nsp_loss", err)) < 0 ||
        parts_match(r, mlm_loss, nsp_loss, l, err) < 0 || (root = state_root(r, l, 0, err)) < 0 || (device = device_time(r, l, err)) < 0)
        return -1;
    return no_more(l, 11 + mlm + nsp + root + device, err);
}

/* ---- all lines ---- */

/* r follows before, or is the first: steps count up by one, time does not run backwards, a root fits between its neighbours. */
static int in_order(const struct rp_record *before, const struct rp_record *r, const char *what, struct rp_err *err)
{
    int64_t expected = before ? before->step + 1 : r->step < 0 ? -1 : 0;
    if (r->step != expected)
        return rp_fail(err, RP_MALFORMED, "%s: step %" PRId64 "; expected %" PRId64, what, r->step, expected);
    if (r->step < 0)
        return 0;
    if (r->end_ns <= r->start_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %" PRId64 " ends before it starts", what, r->step);
    if (!before || before->step < 0)
        return 0;
    if (r->start_ns < before->end_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %" PRId64 " starts before step %" PRId64 " ends", what, r->step, before->step);
    if (before->root_ns > r->start_ns - before->end_ns)
        return rp_fail(err, RP_MISMATCH,
                       "%s: the state root of step %" PRId64 " says %" PRId64 " ns and the next step starts after %" PRId64 " ns", what,
                       before->step, before->root_ns, r->start_ns - before->end_ns);
    return 0;
}

static int add_line(struct rp_records *rs, const char *text, size_t size, int64_t *room, struct rp_err *err)
{
    char what[64];
    struct rp_record r = {0};
    struct line l = {.what = what};
    snprintf(what, sizeof what, "steps/rank0.jsonl:%" PRId64, rs->n + 1);
    if (scan(&l, text, size, err) < 0 || parse_step(&r, &l, err) < 0 || in_order(rs->n ? &rs->r[rs->n - 1] : NULL, &r, what, err) < 0)
        return -1;
    if (rs->n == *room) {
        *room = *room ? 2 * *room : 64;
        rs->r = rp_realloc(rs->r, (size_t)*room * sizeof *rs->r);
    }
    rs->r[rs->n++] = r;
    return 0;
}

int rp_records_parse(struct rp_records *out, const char *text, size_t size, struct rp_err *err)
{
    int64_t room = 0;
    *out = (struct rp_records){0};
    rp_sha256_hex(out->sha256, text, size);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        int failed = !end ? rp_fail(err, RP_MALFORMED, "steps/rank0.jsonl:%" PRId64 ": the last line has no end", out->n + 1)
                          : add_line(out, text + at, (size_t)(end - text) - at, &room, err);
        if (failed) {
            rp_records_fini(out);
            return -1;
        }
        at = (size_t)(end - text) + 1;
    }
    return 0;
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
    return rp_fail(err, RP_MISMATCH, "step %" PRId64 " has the learning rate %.17g; the recipe's schedule gives %.17g", s->step,
                   s->learning_rate, expected);
}

int rp_records_match(const struct rp_records *rs, const struct rp_recipe *r, int complete, struct rp_err *err)
{
    int64_t first = rs->n && rs->r[0].step < 0, steps = rs->n - first;
    int64_t all = r->measure_warmup_steps + r->measure_repeats * r->measure_timed_steps;
    if (steps > all || (complete && steps != all))
        return rp_fail(err, RP_MISMATCH, "%" PRId64 " steps are recorded; the recipe asks for %" PRId64, steps, all);
    if (complete && (!first || !rs->r[rs->n - 1].state_root[0]))
        return rp_fail(err, RP_MISMATCH, "a complete run has a state root before its first and after its last step");
    for (int64_t i = first; i < rs->n; i++) {
        const struct rp_record *s = &rs->r[i];
        int64_t timed = s->step - r->measure_warmup_steps, repeat = timed < 0 ? 0 : timed / r->measure_timed_steps;
        if (s->timed != (timed >= 0) || s->repeat != repeat)
            return rp_fail(err, RP_MISMATCH, "step %" PRId64 " is recorded in another phase or repeat than the recipe gives it", s->step);
        if ((s->device_ns < 0) != (rs->r[first].device_ns < 0))
            return rp_fail(err, RP_MISMATCH, "step %" PRId64 " has %s time of the device, and the first step %s", s->step,
                           s->device_ns < 0 ? "no" : "a", s->device_ns < 0 ? "has one" : "has none");
        if (s->samples != rs->r[first].samples)
            return rp_fail(err, RP_MISMATCH, "step %" PRId64 " trained %" PRId64 " samples, the first %" PRId64, s->step, s->samples,
                           rs->r[first].samples);
        if (s->padded_tokens != s->samples * r->task_seq_length)
            return rp_fail(err, RP_MISMATCH,
                           "step %" PRId64 " has %" PRId64 " tokens with padding; %" PRId64 " samples of %" PRId64 " have %" PRId64,
                           s->step, s->padded_tokens, s->samples, r->task_seq_length, s->samples * r->task_seq_length);
        int64_t expected = r->train_batch_size * r->train_accumulation_steps * r->parallel_data;
        if (expected && s->samples != expected)
            return rp_fail(err, RP_MISMATCH, "step %" PRId64 " trained %" PRId64 " samples; the recipe gives %" PRId64, s->step,
                           s->samples, expected);
        if (rate_matches(s, r, err) < 0)
            return -1;
    }
    return 0;
}
