/* Above 600 lines: the parser of a line, its checks and what is read back from it follow worker/step.def and change together. */
#include "run/records.h"

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

#define PARTS_OFF 1e-4     /* of the loss: how far its parts may be from it */
#define PART_ROUNDED 1e-3 /* where the loss is near zero */
_Static_assert(RP_RECORDS_MAX < 1 << 21, "rp_step_record.root has 21 bits");
#define SCALE_LEAST (-149) /* exponent of the least float; rp_step_record.scale 1 stands for it */
#define DEVICE_CLOCK_NS 2000   /* how much longer a step may be by the device's clock, */
#define DEVICE_CLOCK_PART 1000 /* and one part in this many */

int64_t rp_records_steps(const struct rp_records *rs)
{
    return rs->n ? rs->r[rs->n - 1].step + 1 : 0;
}

void rp_records_fini(struct rp_records *rs)
{
    free(rs->r);
    free(rs->times);
    free(rs->root);
    free(rs->keyed);
    free(rs->loss_part);
    free(rs->count);
    *rs = (struct rp_records){.rank = rs->rank};
}

void rp_record_root(char out[RP_SHA256_HEX], const struct rp_records *rs, const struct rp_step_record *r)
{
    *out = 0;
    if (r->root)
        rp_hex(out, rs->root[r->root - 1], RP_SHA256_SIZE);
}

void rp_record_keyed_root(char out[RP_SHA256_HEX], const struct rp_records *rs, const struct rp_step_record *r)
{
    *out = 0;
    if (r->root && rs->keyed)
        rp_hex(out, rs->keyed[r->root - 1], RP_SHA256_SIZE);
}

float rp_record_loss_scale(const struct rp_step_record *r)
{
    return ldexpf(1, (int)r->scale - 1 + SCALE_LEAST);
}

static const struct rp_record_times no_times = {-1, -1, -1};

struct rp_record_times rp_record_times(const struct rp_records *rs, const struct rp_step_record *r)
{
    return rs->times ? rs->times[r - rs->r] : no_times;
}

const uint32_t *rp_record_counts(const struct rp_records *rs, const struct rp_step_record *r)
{
    return rs->count + (r - rs->r) * rs->counter.n;
}

const float *rp_record_loss_parts(const struct rp_records *rs, const struct rp_step_record *r)
{
    return rs->loss_part + (r - rs->r) * rs->part.n;
}

int rp_step_name_index(const struct rp_record_names *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->name[i], name) == 0)
            return i;
    return -1;
}

/* ---- one line ----
 * A line is a JSON object as rp_json_write_line() writes it: {"key":value,...} without blanks, keys ascending, values numbers, strings of
 * printable ASCII without escapes, or a flat object of these. Read by hand, because jansson reads 20 MB a second: 280,000 records would
 * take it 6 s, and this takes 0.5 s. */

static const struct {
    const char *name;
    unsigned when; /* enum rp_step_when */
    int least;
} keys[] = {
#define STEP_KEY(name, form, when, least) {#name, RP_WHEN_##when, least},
#include "worker/step.def"
#undef STEP_KEY
};

struct field {
    const char *value; /* points into the line: a string without its quotes, an object with its braces */
    int size;
    char type; /* 's' string, 'i' integer, 'r' real, 'o' object; 0: the line does not have this key */
};
struct record_roots {
    unsigned char state[RP_SHA256_SIZE], keyed[RP_SHA256_SIZE];
    int is_keyed;
};
struct records_line {
    struct field f[RP_STEP_KEYS];
    int rank;
    int64_t number;
    char what[RP_MEMBER_NAME + 24];
};

/* "steps/rank0.jsonl:7", for a message. */
static const char *line_place(struct records_line *l)
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

/* The value after the name and colon at p, or NULL; *size: of the name, which begins at p + 1. */
static const char *skip_name(const char *p, const char *end, size_t *size)
{
    const char *quote = string_end(p, end);
    if (!quote || end - quote < 3 || quote[1] != ':')
        return NULL;
    *size = (size_t)(quote - p) - 1;
    return quote + 2;
}

/* Parses the value at p into *f, without the contents of an object; returns its end, or NULL. */
static const char *scan_value(struct field *f, const char *p, const char *end)
{
    int string = *p == '"';
    const char *stop;
    *f = (struct field){p + string, 0, string ? 's' : 'o'};
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

static int scan_line(struct records_line *l, const char *text, size_t size, struct rp_err *err)
{
    const char *p = text, *end = text + size;
    for (int k = 0; p < end && *p == (p == text ? '{' : ','); k++) {
        size_t n;
        const char *value = skip_name(p + 1, end, &n);
        k = value ? find_key(p + 2, n, k) : RP_STEP_KEYS;
        const char *stop = k < RP_STEP_KEYS ? scan_value(&l->f[k], value, end) : NULL;
        if (!stop)
            break;
        p = stop;
        if (p + 1 == end && *p == '}')
            return 0;
    }
    return rp_fail(err, RP_MALFORMED, "%s: not a record as this program writes it, from column %zu on: compact, known keys only, sorted",
                   line_place(l), (size_t)(p - text) + 1);
}

/* Has the line every key with one of the bits `required`, and only keys with one of the bits `allowed`? */
static int check_keys(struct records_line *l, unsigned required, unsigned allowed, const char *phase, struct rp_err *err)
{
    for (int k = 0; k < RP_STEP_KEYS; k++) {
        if (!l->f[k].type && (keys[k].when & required))
            return rp_fail(err, RP_MALFORMED, "%s: '%s' is missing from a record of phase %s", line_place(l), keys[k].name, phase);
        if (l->f[k].type && !(keys[k].when & allowed))
            return rp_fail(err, RP_MALFORMED, "%s: '%s' in a record of phase %s", line_place(l), keys[k].name, phase);
    }
    return 0;
}

static int check_type(const struct field *f, char type, struct records_line *l, const char *name, struct rp_err *err)
{
    if (f->type == type || (type == 'r' && f->type == 'i'))
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s: '%s' is not %s", line_place(l), name,
                   type == 's' ? "a string" : type == 'i' ? "an integer" : type == 'o' ? "an object" : "a number");
}

static int field_is(const struct field *f, const char *text)
{
    return f->size == (int)strlen(text) && memcmp(f->value, text, (size_t)f->size) == 0;
}

/* may_be_inf: "inf" is a value of it. */
static int parse_any_float(float *x, const struct field *f, int may_be_inf, struct records_line *l, const char *name, struct rp_err *err)
{
    char text[32] = "", again[32];
    if (check_type(f, 's', l, name, err) < 0)
        return -1;
    if (f->size < (int)sizeof text)
        memcpy(text, f->value, (size_t)f->size);
    if (rp_float_unhex(x, text) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not a hex float like 0x1.8p+1", line_place(l), name);
    if (!isfinite(*x) && !(may_be_inf && *x > 0))
        return rp_fail(err, RP_MISMATCH, "%s: '%s' is %s; training would have stopped there", line_place(l), name, text);
    rp_float_hex(again, *x);
    if (strcmp(again, text) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is '%s', which this program writes as '%s'", line_place(l), name, text, again);
    return 0;
}

static int parse_float(float *x, const struct field *f, struct records_line *l, const char *name, struct rp_err *err)
{
    return parse_any_float(x, f, 0, l, name, err);
}

static int parse_whole(int64_t *out, const struct field *f, struct records_line *l, const char *name, int64_t least, int64_t most,
                       struct rp_err *err)
{
    if (check_type(f, 'i', l, name, err) < 0)
        return -1;
    errno = 0;
    *out = strtoll(f->value, NULL, 10); /* stops at the ',' or '}' after it */
    if (errno || (*f->value == '-' && *out == 0) || *out < least || *out > most)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is %.*s, outside %" PRId64 "..%" PRId64, line_place(l), name, f->size, f->value, least,
                       most);
    return 0;
}

static int parse_whole_key(int64_t *out, struct records_line *l, enum rp_step_key key, int64_t most, struct rp_err *err)
{
    return parse_whole(out, &l->f[key], l, keys[key].name, keys[key].least, most, err);
}

/* ---- named values ---- */

/* Is the name of n bytes at p the i-th? The names are taken from the first step (learn); all others must have the same. */
static int match_name(struct rp_record_names *names, int i, int learn, const char *p, size_t n)
{
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

/* The values of the object at `key`, in the order of their names; the first step of a run (learn) decides which names there are. */
static int parse_named(struct field value[RP_NAMES_MAX], struct rp_record_names *names, int learn, struct records_line *l,
                       enum rp_step_key key, struct rp_err *err)
{
    const struct field *f = &l->f[key];
    int n = 0;
    if (!f->type && (learn || !names->n))
        return 0;
    if (!f->type)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is missing; the first step has it", line_place(l), keys[key].name);
    if (check_type(f, 'o', l, keys[key].name, err) < 0)
        return -1;
    const char *p = f->value, *end = p + f->size;
    for (; p && p < end && *p == (n ? ',' : '{') && n < (learn ? RP_NAMES_MAX : names->n); n++) {
        size_t size;
        const char *at = skip_name(p + 1, end, &size);
        if (!at || *at == '{' || !match_name(names, n, learn, p + 2, size))
            break;
        p = scan_value(&value[n], at, end);
    }
    if (n && n == names->n && p && p + 1 == end)
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s: '%s' must have the names of the first step, each with a value, sorted and compact",
                   line_place(l), keys[key].name);
}

/* The parts of the loss, if there are any, add up to it: each is rounded once for every micro-batch. */
static int parse_loss_parts(float part[RP_NAMES_MAX], const struct rp_step_record *r, struct rp_records *rs, int learn,
                            struct records_line *l, struct rp_err *err)
{
    struct field f[RP_NAMES_MAX];
    double sum = 0;
    if (parse_named(f, &rs->part, learn, l, RP_STEP_loss_parts, err) < 0)
        return -1;
    for (int i = 0; i < rs->part.n; i++) {
        if (parse_float(&part[i], &f[i], l, rs->part.name[i], err) < 0)
            return -1;
        sum += (double)part[i];
    }
    if (!rs->part.n || fabs(sum - (double)r->loss) <= PARTS_OFF * fabs((double)r->loss) + PART_ROUNDED)
        return 0;
    return rp_fail(err, RP_MISMATCH, "%s: the parts of the loss add up to %.6g, the loss is %.6g", line_place(l), sum, (double)r->loss);
}

static int parse_counters(uint32_t to[RP_NAMES_MAX], struct rp_records *rs, int learn, struct records_line *l, struct rp_err *err)
{
    struct field f[RP_NAMES_MAX];
    int64_t wide;
    if (parse_named(f, &rs->counter, learn, l, RP_STEP_counters, err) < 0)
        return -1;
    for (int i = 0; i < rs->counter.n; i++) {
        if (parse_whole(&wide, &f[i], l, rs->counter.name[i], 0, UINT32_MAX, err) < 0)
            return -1;
        to[i] = (uint32_t)wide;
    }
    return 0;
}

/* ---- the other values ---- */

static int parse_learning_rate(struct rp_step_record *r, struct records_line *l, struct rp_err *err)
{
    const struct field *f = &l->f[RP_STEP_learning_rate];
    if (check_type(f, 'r', l, "learning_rate", err) < 0)
        return -1;
    if (f->type == 'i' && f->size > 18) /* not every reader of JSON takes it */
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is a whole number of more than 18 digits", line_place(l));
    r->learning_rate = strtod(f->value, NULL); /* stops at the ',' or '}' after it */
    if (!(r->learning_rate >= 0) || !isfinite(r->learning_rate))
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is not a number from 0 up", line_place(l));
    return 0;
}

static int parse_digest(unsigned char out[RP_SHA256_SIZE], struct records_line *l, enum rp_step_key key, struct rp_err *err)
{
    const struct field *f = &l->f[key];
    char hex[RP_SHA256_HEX] = "";
    if (check_type(f, 's', l, keys[key].name, err) < 0)
        return -1;
    if (f->size < (int)sizeof hex)
        memcpy(hex, f->value, (size_t)f->size);
    if (!rp_is_sha256(hex) || rp_unhex(out, RP_SHA256_SIZE, hex) < 0)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is not 64 lower-case hex digits", line_place(l), keys[key].name);
    return 0;
}

/* Of a replication every root has a keyed one, of another run none. */
static int parse_root(struct rp_step_record *r, struct record_roots *roots, const struct rp_records *rs, struct records_line *l,
                      struct rp_err *err)
{
    roots->is_keyed = l->f[RP_STEP_keyed_root].type != 0;
    if (!l->f[RP_STEP_state_root].type && !l->f[RP_STEP_root_ns].type && !roots->is_keyed)
        return 0;
    if (check_keys(l, RP_WHEN_ROOTS, ~0u, "init, or of a step with a state root", err) < 0 ||
        parse_digest(roots->state, l, RP_STEP_state_root, err) < 0 ||
        parse_whole_key(&r->root_ns, l, RP_STEP_root_ns, INT64_MAX, err) < 0)
        return -1;
    if (rs->roots && roots->is_keyed != (rs->keyed != NULL))
        return rp_fail(err, RP_MALFORMED, "%s: some records have a keyed_root and others do not", line_place(l));
    if (roots->is_keyed && parse_digest(roots->keyed, l, RP_STEP_keyed_root, err) < 0)
        return -1;
    r->root = 1;
    return 0;
}

/* The device's clock has a resolution of half a microsecond, and another quartz than the host's. */
static int check_device_time(const struct rp_step_record *r, const struct rp_record_times *t, struct records_line *l,
                             struct rp_err *err)
{
    int64_t step = r->end_ns - r->start_ns;
    if (step > 0 && t->device_ns > step && t->device_ns - step > DEVICE_CLOCK_NS + step / DEVICE_CLOCK_PART)
        return rp_fail(err, RP_MISMATCH, "%s: the step took %" PRId64 " ns, but the device worked on it for %" PRId64 " ns", line_place(l),
                       step, t->device_ns);
    return 0;
}

/* overlap_ns and exchange_ns are of different times. */
static int parse_overlap(struct rp_records *rs, const struct rp_step_record *r, const struct rp_record_times *t,
                         struct records_line *l, struct rp_err *err)
{
    int64_t ns;
    if (!l->f[RP_STEP_overlap_ns].type)
        return 0;
    if (parse_whole_key(&ns, l, RP_STEP_overlap_ns, INT64_MAX, err) < 0)
        return -1;
    if (t->exchange_ns < 0)
        return rp_fail(err, RP_MALFORMED, "%s: it has overlap_ns, but no exchange_ns", line_place(l));
    if (r->end_ns > r->start_ns && ns > r->end_ns - r->start_ns - t->exchange_ns)
        return rp_fail(err, RP_MISMATCH, "%s: the step took %" PRId64 " ns, with %" PRId64 " ns in exchanges and %" PRId64 " ns in others "
                       "beside the backward pass",
                       line_place(l), r->end_ns - r->start_ns, t->exchange_ns, ns);
    rs->overlaps = 1;
    rs->overlap_ns += r->timed ? ns : 0;
    return 0;
}

/* The loss scale, whether the gradient overflowed, and its norm, which is infinite then and only then. */
static int parse_scaling(struct rp_step_record *r, struct records_line *l, struct rp_err *err)
{
    const int scaled = l->f[RP_STEP_loss_scale].type || l->f[RP_STEP_overflow].type;
    int64_t overflow = 0;
    int exponent = 0;
    float scale;
    if (scaled && (check_keys(l, RP_WHEN_SCALED, ~0u, "any kind in a run with a loss scale", err) < 0 ||
                   parse_whole_key(&overflow, l, RP_STEP_overflow, 1, err) < 0 ||
                   parse_any_float(&scale, &l->f[RP_STEP_loss_scale], 1, l, "loss_scale", err) < 0))
        return -1;
    if (scaled && !(scale > 0 && (isinf(scale) || frexpf(scale, &exponent) == 0.5f)))
        return rp_fail(err, RP_MISMATCH, "%s: 'loss_scale' is %a, which is not a power of two", line_place(l), (double)scale);
    if (scaled)
        r->scale = isinf(scale) ? 128 - SCALE_LEAST + 1 : (uint32_t)(exponent - SCALE_LEAST);
    r->overflow = overflow != 0;
    if (parse_any_float(&r->grad_norm, &l->f[RP_STEP_grad_norm], r->overflow, l, "grad_norm", err) < 0)
        return -1;
    if (r->overflow && isfinite(r->grad_norm))
        return rp_fail(err, RP_MISMATCH, "%s: 'overflow' is 1, but 'grad_norm' is the finite number %a", line_place(l), (double)r->grad_norm);
    return 0;
}

static int parse_values(struct rp_step_record *r, struct rp_record_times *t, struct records_line *l, struct rp_err *err)
{
    int64_t repeat, samples;
    const int waits = l->f[RP_STEP_wait_ns].type != 0, ranked = l->f[RP_STEP_exchange_ns].type || waits;
    if ((ranked && parse_whole_key(&t->exchange_ns, l, RP_STEP_exchange_ns, INT64_MAX, err) < 0) ||
        (waits && parse_whole_key(&t->wait_ns, l, RP_STEP_wait_ns, INT64_MAX, err) < 0))
        return -1;
    if (l->f[RP_STEP_device_ns].type && parse_whole_key(&t->device_ns, l, RP_STEP_device_ns, INT64_MAX, err) < 0)
        return -1;
    if (parse_whole_key(&r->end_ns, l, RP_STEP_end_ns, INT64_MAX, err) < 0 ||
        parse_scaling(r, l, err) < 0 ||
        parse_whole_key(&r->input_ns, l, RP_STEP_input_ns, INT64_MAX, err) < 0 || parse_learning_rate(r, l, err) < 0 ||
        parse_float(&r->loss, &l->f[RP_STEP_loss], l, "loss", err) < 0 || parse_whole_key(&repeat, l, RP_STEP_repeat, INT32_MAX, err) < 0 ||
        parse_whole_key(&samples, l, RP_STEP_samples, UINT32_MAX, err) < 0 ||
        parse_whole_key(&r->start_ns, l, RP_STEP_start_ns, INT64_MAX, err) < 0)
        return -1;
    r->repeat = (int32_t)repeat;
    r->samples = (uint32_t)samples;
    return 0;
}

/* Which record it is: its rank, phase and number. */
static int parse_phase(struct rp_step_record *r, struct records_line *l, int *init, struct rp_err *err)
{
    int64_t step, rank;
    const struct field *phase = &l->f[RP_STEP_phase];
    if (check_keys(l, RP_WHEN_ALWAYS, ~0u, "any kind", err) < 0 || check_type(phase, 's', l, "phase", err) < 0 ||
        parse_whole_key(&step, l, RP_STEP_step, INT32_MAX - 1, err) < 0 || parse_whole_key(&rank, l, RP_STEP_rank, INT32_MAX, err) < 0)
        return -1;
    if (rank != l->rank)
        return rp_fail(err, RP_MALFORMED, "%s: a record of rank %" PRId64 ", expected rank %d", line_place(l), rank, l->rank);
    r->step = (int32_t)step;
    *init = field_is(phase, "init");
    if (*init && step != -1)
        return rp_fail(err, RP_MALFORMED, "%s: phase 'init' is step -1, not %" PRId64, line_place(l), step);
    r->timed = field_is(phase, "timed");
    if (!*init && !r->timed && !field_is(phase, "warm-up"))
        return rp_fail(err, RP_MALFORMED, "%s: 'phase' is not init, warm-up or timed", line_place(l));
    return 0;
}

/* roots: filled, and r->root is 1, if the record has one. learn: this is the first step. */
static int parse_record(struct rp_step_record *r, struct rp_record_times *t, struct record_roots *roots,
                        float parts[RP_NAMES_MAX], uint32_t counts[RP_NAMES_MAX], struct rp_records *rs, int learn,
                        struct records_line *l, struct rp_err *err)
{
    const unsigned init_keys = RP_WHEN_ALWAYS | RP_WHEN_ROOTS;
    int init = 0;
    if (parse_phase(r, l, &init, err) < 0)
        return -1;
    if (init)
        return check_keys(l, init_keys, init_keys | RP_WHEN_KEYED, "init", err) < 0 ? -1 : parse_root(r, roots, rs, l, err);
    if (check_keys(l, RP_WHEN_STEPS, ~0u, r->timed ? "timed" : "warm-up", err) < 0 || parse_values(r, t, l, err) < 0 ||
        parse_loss_parts(parts, r, rs, learn, l, err) < 0 || parse_counters(counts, rs, learn, l, err) < 0 ||
        parse_root(r, roots, rs, l, err) < 0)
        return -1;
    if ((t->exchange_ns >= 0 && r->end_ns > r->start_ns && t->exchange_ns > r->end_ns - r->start_ns) ||
        t->wait_ns > (t->exchange_ns > 0 ? t->exchange_ns : 0))
        return rp_fail(err, RP_MISMATCH, "%s: the step took %" PRId64 " ns, of which %" PRId64 " ns in exchanges, of which %" PRId64
                                         " ns waiting", line_place(l), r->end_ns - r->start_ns, t->exchange_ns, t->wait_ns);
    return parse_overlap(rs, r, t, l, err) < 0 ? -1 : check_device_time(r, t, l, err);
}

/* ---- all lines ---- */

/* A root and the waiting for samples fit between two steps; before the first one fits what the clock had counted. */
static int check_pause(const struct rp_step_record *before, const struct rp_step_record *r, struct records_line *l, struct rp_err *err)
{
    int64_t pause = r->start_ns - (before ? before->end_ns : 0), root = before ? before->root_ns : 0;
    if (root > pause)
        return rp_fail(err, RP_MISMATCH,
                       "%s: the state root of step %d took %" PRId64 " ns, but the next step starts after %" PRId64 " ns", line_place(l),
                       before->step, root, pause);
    if (r->input_ns > pause - root)
        return rp_fail(err, RP_MISMATCH, "%s: step %d waited %" PRId64 " ns for its samples, but only %" PRId64 " ns were left for that",
                       line_place(l), r->step, r->input_ns, pause - root);
    return 0;
}

/* r follows before, or is the first: steps count up by one, time does not run backwards, what lies between steps fits there. */
static int check_order(const struct rp_records *rs, const struct rp_step_record *r, const struct rp_record_times *t,
                       struct records_line *l, struct rp_err *err)
{
    const struct rp_step_record *before = rs->n ? &rs->r[rs->n - 1] : NULL;
    int32_t expected = before ? before->step + 1 : r->step < 0 ? -1 : 0;
    if (r->step != expected)
        return rp_fail(err, RP_MALFORMED, "%s: step %d; expected %d", line_place(l), r->step, expected);
    if (r->step < 0)
        return 0;
    if (r->end_ns <= r->start_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %d ends before it starts", line_place(l), r->step);
    before = before && before->step >= 0 ? before : NULL;
    const struct rp_record_times was = before ? rp_record_times(rs, before) : no_times;
    if (before && ((was.exchange_ns < 0) != (t->exchange_ns < 0) || (was.wait_ns < 0) != (t->wait_ns < 0)))
        return rp_fail(err, RP_MALFORMED, "%s: some steps have times of exchanges and waiting, and others do not", line_place(l));
    if (before && r->start_ns < before->end_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %d starts before step %d ends", line_place(l), r->step, before->step);
    return check_pause(before, r, l, err);
}

/* Place for one more of `size` bytes in an array of n. */
static void *grow_array(void *array, int64_t n, int64_t *room, size_t size)
{
    if (n < *room)
        return array;
    *room = *room ? 2 * *room : 64;
    return rp_realloc(array, (size_t)*room * size);
}

/* The named values of record n, of `each` bytes in all; none before the first step has told the names. */
static void *add_named(void *array, int64_t n, int64_t *room, const void *values, size_t each)
{
    if (!each)
        return array;
    int is_first = !array;
    array = grow_array(array, n, room, each);
    if (is_first) /* the record before the first step has none */
        memset(array, 0, (size_t)n * each);
    memcpy((char *)array + (size_t)n * each, values, each);
    return array;
}

/* Those of record n; the records before the first that has some have none. */
static void add_times(struct rp_records_in *in, const struct rp_record_times *t)
{
    struct rp_records *rs = in->out;
    const int is_first = !rs->times;
    if (is_first && t->exchange_ns < 0 && t->wait_ns < 0 && t->device_ns < 0)
        return;
    while (in->times_room <= rs->n)
        rs->times = grow_array(rs->times, in->times_room, &in->times_room, sizeof *rs->times);
    for (int64_t i = 0; is_first && i < rs->n; i++)
        rs->times[i] = no_times;
    rs->times[rs->n] = *t;
}

static int add_line(struct rp_records_in *in, const char *text, size_t size, struct rp_err *err)
{
    struct rp_records *rs = in->out;
    struct rp_step_record r = {0};
    struct rp_record_times times = no_times;
    struct records_line l = {.number = rs->n + 1, .rank = rs->rank};
    struct record_roots roots;
    float parts[RP_NAMES_MAX] = {0};
    uint32_t counts[RP_NAMES_MAX] = {0};
    int learn = !rs->n || (rs->n == 1 && rs->r[0].step < 0);
    if (rs->n == RP_RECORDS_MAX)
        return rp_fail(err, RP_MALFORMED, "%s: more than %d records", line_place(&l), RP_RECORDS_MAX);
    if (scan_line(&l, text, size, err) < 0 || parse_record(&r, &times, &roots, parts, counts, rs, learn, &l, err) < 0 ||
        check_order(rs, &r, &times, &l, err) < 0)
        return -1;
    if (r.root) {
        rs->root = grow_array(rs->root, rs->roots, &in->roots_room, sizeof *rs->root);
        if (roots.is_keyed) {
            rs->keyed = grow_array(rs->keyed, rs->roots, &in->keyed_room, sizeof *rs->keyed);
            memcpy(rs->keyed[rs->roots], roots.keyed, sizeof roots.keyed);
        }
        memcpy(rs->root[rs->roots++], roots.state, sizeof roots.state);
        r.root = (uint32_t)rs->roots & ((1u << 21) - 1);
    }
    rs->r = grow_array(rs->r, rs->n, &in->room, sizeof *rs->r);
    add_times(in, &times);
    rs->loss_part = add_named(rs->loss_part, rs->n, &in->parts_room, parts, (size_t)rs->part.n * sizeof *parts);
    rs->count = add_named(rs->count, rs->n, &in->counts_room, counts, (size_t)rs->counter.n * sizeof *counts);
    rs->r[rs->n++] = r;
    return 0;
}

/* Keeps the beginning of a line until its end arrives. */
static int hold_piece(struct rp_records_in *in, const char *data, size_t size, struct rp_err *err)
{
    struct records_line l = {.number = in->out->n + 1, .rank = in->out->rank};
    if (size > sizeof in->line - in->held)
        return rp_fail(err, RP_MALFORMED, "%s: longer than %zu bytes", line_place(&l), sizeof in->line);
    memcpy(in->line + in->held, data, size);
    in->held += size;
    return 0;
}

static int add_piece(struct rp_records_in *in, const char *data, size_t size, struct rp_err *err)
{
    for (const char *end; size; size -= (size_t)(end + 1 - data), data = end + 1) {
        end = memchr(data, '\n', size);
        if (!end)
            return hold_piece(in, data, size, err);
        size_t n = (size_t)(end - data);
        if (in->held || n > sizeof in->line) {
            if (hold_piece(in, data, n, err) < 0 || add_line(in, in->line, in->held, err) < 0)
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
    struct records_line l = {.number = in->out->n + 1, .rank = in->out->rank};
    rp_records_fini(in->out);
    return rp_fail(err, RP_MALFORMED, "%s: the last line has no end", line_place(&l));
}

int rp_records_parse(struct rp_records *out, const char *text, size_t size, struct rp_err *err)
{
    return rp_records_parse_rank(out, 0, text, size, err);
}

int rp_records_parse_rank(struct rp_records *out, int rank, const char *text, size_t size, struct rp_err *err)
{
    char sha256[RP_SHA256_HEX];
    struct rp_records_in in = {.out = out};
    *out = (struct rp_records){.rank = rank};
    rp_sha256_hex(sha256, text, size);
    return rp_records_piece(&in, text, size, err) < 0 ? -1 : rp_records_end(&in, sha256, err);
}
