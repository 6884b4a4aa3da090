#include "run/records.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "run/records_line.h"

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
    free(rs->micro_loss);
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

const float *rp_record_micro_losses(const struct rp_records *rs, const struct rp_step_record *r)
{
    return rs->micro_loss + (r - rs->r) * rs->micros;
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

struct record_roots {
    unsigned char state[RP_SHA256_SIZE], keyed[RP_SHA256_SIZE];
    int is_keyed;
};
/* The values of one record, in the order of the names that the first step has. */
struct record_values {
    float part[RP_NAMES_MAX], micro[RP_MICRO_LOSSES_STEP];
    uint32_t count[RP_NAMES_MAX];
};
/* What one line has. */
struct parsed_record {
    struct rp_step_record step;
    struct rp_record_times times;
    struct record_roots roots;   /* set if step.root is 1 */
    struct record_values values; /* set as far as the record has such values */
};

/* ---- named values ---- */

/* Is the name of n bytes at p the i-th? The names are taken from the first
 * step (learn); all others must have the same. */
static int match_name(struct rp_record_names *names, int i, int learn, const char *p, size_t n)
{
    char *name = names->name[i];
    if (!learn) {
        size_t k = 0;
        while (k < n && name[k] == p[k]) /* neither has a NUL */
            k++;
        return k == n && !name[n];
    }
    if (n == 0 || n >= sizeof names->name[i])
        return 0;
    memcpy(name, p, n);
    name[n] = 0;
    names->n = i + 1;
    return i == 0 || strcmp(names->name[i - 1], name) < 0;
}

/* The values of the object at `key`, in the order of their names; the first step of a run (learn) decides which names
 * there are. */
static int parse_named(struct rp_line_field value[RP_NAMES_MAX], struct rp_record_names *names, int learn,
                       struct rp_record_line *l, enum rp_step_key key, struct rp_err *err)
{
    const struct rp_line_field *f = &l->f[key];
    int n = 0;
    if (!f->type && (learn || !names->n))
        return 0;
    if (!f->type)
        return rp_fail(err, RP_MALFORMED, "%s: '%s' is missing; the first step has it", rp_line_place(l),
                       rp_step_key_name(key));
    if (rp_line_check_type(f, 'o', l, rp_step_key_name(key), err) < 0)
        return -1;
    const char *p = f->value, *end = p + f->size;
    for (; p && p < end && *p == (n ? ',' : '{') && n < (learn ? RP_NAMES_MAX : names->n); n++) {
        size_t size;
        const char *at = rp_line_skip_name(p + 1, end, &size);
        if (!at || *at == '{' || !match_name(names, n, learn, p + 2, size))
            break;
        p = rp_line_scan_value(&value[n], at, end);
    }
    if (n && n == names->n && p && p + 1 == end)
        return 0;
    return rp_fail(err, RP_MALFORMED,
                   "%s: '%s' must have the names of the first step, each with a value, sorted and compact",
                   rp_line_place(l), rp_step_key_name(key));
}

/* The parts of the loss, if there are any, add up to it: each is rounded once for every micro-batch. */
static int parse_loss_parts(float part[RP_NAMES_MAX], const struct rp_step_record *r, struct rp_records *rs, int learn,
                            struct rp_record_line *l, struct rp_err *err)
{
    struct rp_line_field f[RP_NAMES_MAX];
    double sum = 0;
    if (parse_named(f, &rs->part, learn, l, RP_STEP_loss_parts, err) < 0)
        return -1;
    for (int i = 0; i < rs->part.n; i++) {
        if (rp_line_float(&part[i], &f[i], l, rs->part.name[i], err) < 0)
            return -1;
        sum += (double)part[i];
    }
    if (!rs->part.n || fabs(sum - (double)r->loss) <= PARTS_OFF * fabs((double)r->loss) + PART_ROUNDED)
        return 0;
    return rp_fail(err, RP_MISMATCH, "%s: the parts of the loss add up to %.6g, the loss is %.6g", rp_line_place(l),
                   sum, (double)r->loss);
}

static int parse_counters(uint32_t to[RP_NAMES_MAX], struct rp_records *rs, int learn, struct rp_record_line *l,
                          struct rp_err *err)
{
    struct rp_line_field f[RP_NAMES_MAX];
    int64_t wide;
    if (parse_named(f, &rs->counter, learn, l, RP_STEP_counters, err) < 0)
        return -1;
    for (int i = 0; i < rs->counter.n; i++) {
        if (rp_line_whole(&wide, &f[i], l, rs->counter.name[i], 0, UINT32_MAX, err) < 0)
            return -1;
        to[i] = (uint32_t)wide;
    }
    return 0;
}

/* Those of the micro-batches, if there are any, are as many as in the first step. */
static int parse_micro_losses(float *micro, struct rp_records *rs, int learn, struct rp_record_line *l,
                              struct rp_err *err)
{
    int n = 0;
    if (l->f[RP_STEP_micro_losses].type &&
        rp_line_floats(micro, &n, RP_MICRO_LOSSES_STEP, l, RP_STEP_micro_losses, err) < 0)
        return -1;
    if (learn)
        rs->micros = n;
    if (n != rs->micros)
        return rp_fail(err, RP_MALFORMED, "%s: 'micro_losses' has %d values, in the first step %d", rp_line_place(l), n,
                       rs->micros);
    if ((rs->n + 1) * n > RP_MICRO_LOSSES_RUN)
        return rp_fail(err, RP_MALFORMED, "%s: more than %lld losses of micro-batches", rp_line_place(l),
                       RP_MICRO_LOSSES_RUN);
    return 0;
}

/* ---- the other values ---- */

static int parse_learning_rate(struct rp_step_record *r, struct rp_record_line *l, struct rp_err *err)
{
    const struct rp_line_field *f = &l->f[RP_STEP_learning_rate];
    if (rp_line_check_type(f, 'r', l, "learning_rate", err) < 0)
        return -1;
    if (f->type == 'i' && f->size > 18) /* not every reader of JSON takes it */
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is a whole number of more than 18 digits",
                       rp_line_place(l));
    r->learning_rate = rp_json_real(f->value, (size_t)f->size);
    if (!(r->learning_rate >= 0) || !isfinite(r->learning_rate))
        return rp_fail(err, RP_MALFORMED, "%s: 'learning_rate' is not a number from 0 up", rp_line_place(l));
    return 0;
}

/* In a replication every root has a keyed one, in another run none. */
static int parse_root(struct rp_step_record *r, struct record_roots *roots, const struct rp_records *rs,
                      struct rp_record_line *l, struct rp_err *err)
{
    roots->is_keyed = l->f[RP_STEP_keyed_root].type != 0;
    if (!l->f[RP_STEP_state_root].type && !l->f[RP_STEP_root_ns].type && !roots->is_keyed)
        return 0;
    if (rp_line_check_keys(l, RP_WHEN_ROOTS, ~0u, "init, or of a step with a state root", err) < 0 ||
        rp_line_digest(roots->state, l, RP_STEP_state_root, err) < 0 ||
        rp_line_whole_key(&r->root_ns, l, RP_STEP_root_ns, INT64_MAX, err) < 0)
        return -1;
    if (rs->roots && roots->is_keyed != (rs->keyed != NULL))
        return rp_fail(err, RP_MALFORMED, "%s: some records have a keyed_root and others do not", rp_line_place(l));
    if (roots->is_keyed && rp_line_digest(roots->keyed, l, RP_STEP_keyed_root, err) < 0)
        return -1;
    r->root = 1;
    return 0;
}

/* The device's clock has a resolution of half a microsecond, and another quartz than the host's. */
static int check_device_time(const struct rp_step_record *r, const struct rp_record_times *t, struct rp_record_line *l,
                             struct rp_err *err)
{
    int64_t step = r->end_ns - r->start_ns;
    if (step > 0 && t->device_ns > step && t->device_ns - step > DEVICE_CLOCK_NS + step / DEVICE_CLOCK_PART)
        return rp_fail(err, RP_MISMATCH,
                       "%s: the step took %" PRId64 " ns, but the device worked on it for %" PRId64 " ns",
                       rp_line_place(l), step, t->device_ns);
    return 0;
}

/* overlap_ns and exchange_ns are of different times. */
static int parse_overlap(struct rp_records *rs, const struct rp_step_record *r, const struct rp_record_times *t,
                         struct rp_record_line *l, struct rp_err *err)
{
    int64_t ns;
    if (!l->f[RP_STEP_overlap_ns].type)
        return 0;
    if (rp_line_whole_key(&ns, l, RP_STEP_overlap_ns, INT64_MAX, err) < 0)
        return -1;
    if (t->exchange_ns < 0)
        return rp_fail(err, RP_MALFORMED, "%s: it has overlap_ns, but no exchange_ns", rp_line_place(l));
    if (r->end_ns > r->start_ns && ns > r->end_ns - r->start_ns - t->exchange_ns)
        return rp_fail(err, RP_MISMATCH,
                       "%s: the step took %" PRId64 " ns, with %" PRId64 " ns in exchanges and %" PRId64
                       " ns in others beside the backward pass",
                       rp_line_place(l), r->end_ns - r->start_ns, t->exchange_ns, ns);
    rs->overlaps = 1;
    rs->overlap_ns += r->timed ? ns : 0;
    return 0;
}

/* The loss scale, whether the gradient overflowed, and its norm, which is infinite then and only then. */
static int parse_scaling(struct rp_step_record *r, struct rp_record_line *l, struct rp_err *err)
{
    const int scaled = l->f[RP_STEP_loss_scale].type || l->f[RP_STEP_overflow].type;
    int64_t overflow = 0;
    int exponent = 0;
    float scale;
    if (scaled && (rp_line_check_keys(l, RP_WHEN_SCALED, ~0u, "any kind in a run with a loss scale", err) < 0 ||
                   rp_line_whole_key(&overflow, l, RP_STEP_overflow, 1, err) < 0 ||
                   rp_line_any_float(&scale, &l->f[RP_STEP_loss_scale], 1, l, "loss_scale", err) < 0))
        return -1;
    if (scaled && !(scale > 0 && (isinf(scale) || frexpf(scale, &exponent) == 0.5f)))
        return rp_fail(err, RP_MISMATCH, "%s: 'loss_scale' is %a, which is not a power of two", rp_line_place(l),
                       (double)scale);
    if (scaled)
        r->scale = isinf(scale) ? 128 - SCALE_LEAST + 1 : (uint32_t)(exponent - SCALE_LEAST);
    r->overflow = overflow != 0;
    if (rp_line_any_float(&r->grad_norm, &l->f[RP_STEP_grad_norm], r->overflow, l, "grad_norm", err) < 0)
        return -1;
    if (r->overflow && isfinite(r->grad_norm))
        return rp_fail(err, RP_MISMATCH, "%s: 'overflow' is 1, but 'grad_norm' is the finite number %a",
                       rp_line_place(l), (double)r->grad_norm);
    return 0;
}

static int parse_values(struct rp_step_record *r, struct rp_record_times *t, struct rp_record_line *l,
                        struct rp_err *err)
{
    int64_t repeat, samples;
    const int waits = l->f[RP_STEP_wait_ns].type != 0, ranked = l->f[RP_STEP_exchange_ns].type || waits;
    if ((ranked && rp_line_whole_key(&t->exchange_ns, l, RP_STEP_exchange_ns, INT64_MAX, err) < 0) ||
        (waits && rp_line_whole_key(&t->wait_ns, l, RP_STEP_wait_ns, INT64_MAX, err) < 0))
        return -1;
    if (l->f[RP_STEP_device_ns].type && rp_line_whole_key(&t->device_ns, l, RP_STEP_device_ns, INT64_MAX, err) < 0)
        return -1;
    if (rp_line_whole_key(&r->end_ns, l, RP_STEP_end_ns, INT64_MAX, err) < 0 || parse_scaling(r, l, err) < 0 ||
        rp_line_whole_key(&r->input_ns, l, RP_STEP_input_ns, INT64_MAX, err) < 0 ||
        parse_learning_rate(r, l, err) < 0 || rp_line_float(&r->loss, &l->f[RP_STEP_loss], l, "loss", err) < 0 ||
        rp_line_whole_key(&repeat, l, RP_STEP_repeat, INT32_MAX, err) < 0 ||
        rp_line_whole_key(&samples, l, RP_STEP_samples, UINT32_MAX, err) < 0 ||
        rp_line_whole_key(&r->start_ns, l, RP_STEP_start_ns, INT64_MAX, err) < 0)
        return -1;
    r->repeat = (int32_t)repeat;
    r->samples = (uint32_t)samples;
    return 0;
}

/* Which record it is: its rank, phase and number. */
static int parse_phase(struct rp_step_record *r, struct rp_record_line *l, int *init, struct rp_err *err)
{
    int64_t step, rank;
    const struct rp_line_field *phase = &l->f[RP_STEP_phase];
    if (rp_line_check_keys(l, RP_WHEN_ALWAYS, ~0u, "any kind", err) < 0 ||
        rp_line_check_type(phase, 's', l, "phase", err) < 0 ||
        rp_line_whole_key(&step, l, RP_STEP_step, INT32_MAX - 1, err) < 0 ||
        rp_line_whole_key(&rank, l, RP_STEP_rank, INT32_MAX, err) < 0)
        return -1;
    if (rank != l->rank)
        return rp_fail(err, RP_MALFORMED, "%s: a record of rank %" PRId64 ", expected rank %d", rp_line_place(l), rank,
                       l->rank);
    r->step = (int32_t)step;
    *init = rp_line_is(phase, "init");
    if (*init && step != -1)
        return rp_fail(err, RP_MALFORMED, "%s: phase 'init' is step -1, not %" PRId64, rp_line_place(l), step);
    r->timed = rp_line_is(phase, "timed");
    if (!*init && !r->timed && !rp_line_is(phase, "warm-up"))
        return rp_fail(err, RP_MALFORMED, "%s: 'phase' is not init, warm-up or timed", rp_line_place(l));
    return 0;
}

/* learn: this is the first step. */
static int parse_record(struct parsed_record *p, struct rp_records *rs, int learn, struct rp_record_line *l,
                        struct rp_err *err)
{
    const unsigned init_keys = RP_WHEN_ALWAYS | RP_WHEN_ROOTS;
    struct rp_step_record *r = &p->step;
    struct rp_record_times *t = &p->times;
    struct record_values *v = &p->values;
    int init = 0;
    if (parse_phase(r, l, &init, err) < 0)
        return -1;
    if (init)
        return rp_line_check_keys(l, init_keys, init_keys | RP_WHEN_KEYED, "init", err) < 0
                   ? -1
                   : parse_root(r, &p->roots, rs, l, err);
    if (rp_line_check_keys(l, RP_WHEN_STEPS, ~0u, r->timed ? "timed" : "warm-up", err) < 0 ||
        parse_values(r, t, l, err) < 0 || parse_loss_parts(v->part, r, rs, learn, l, err) < 0 ||
        parse_counters(v->count, rs, learn, l, err) < 0 || parse_micro_losses(v->micro, rs, learn, l, err) < 0 ||
        parse_root(r, &p->roots, rs, l, err) < 0)
        return -1;
    if ((t->exchange_ns >= 0 && r->end_ns > r->start_ns && t->exchange_ns > r->end_ns - r->start_ns) ||
        t->wait_ns > (t->exchange_ns > 0 ? t->exchange_ns : 0))
        return rp_fail(err, RP_MISMATCH,
                       "%s: the step took %" PRId64 " ns, of which %" PRId64 " ns in exchanges, of which %" PRId64
                       " ns waiting",
                       rp_line_place(l), r->end_ns - r->start_ns, t->exchange_ns, t->wait_ns);
    return parse_overlap(rs, r, t, l, err) < 0 ? -1 : check_device_time(r, t, l, err);
}

/* ---- all lines ---- */

/* A root and the waiting for samples fit between two steps; before the first one fits what the clock had counted. */
static int check_pause(const struct rp_step_record *before, const struct rp_step_record *r, struct rp_record_line *l,
                       struct rp_err *err)
{
    int64_t pause = r->start_ns - (before ? before->end_ns : 0), root = before ? before->root_ns : 0;
    if (root > pause)
        return rp_fail(err, RP_MISMATCH,
                       "%s: the state root of step %d took %" PRId64 " ns, but the next step starts after %" PRId64
                       " ns",
                       rp_line_place(l), before->step, root, pause);
    if (r->input_ns > pause - root)
        return rp_fail(err, RP_MISMATCH,
                       "%s: step %d waited %" PRId64 " ns for its samples, but only %" PRId64 " ns were left for that",
                       rp_line_place(l), r->step, r->input_ns, pause - root);
    return 0;
}

/* r follows before, or is the first: steps count up by one, time does not run backwards, what lies between steps fits
 * there. */
static int check_order(const struct rp_records *rs, const struct rp_step_record *r, const struct rp_record_times *t,
                       struct rp_record_line *l, struct rp_err *err)
{
    const struct rp_step_record *before = rs->n ? &rs->r[rs->n - 1] : NULL;
    int32_t expected = before ? before->step + 1 : r->step < 0 ? -1 : 0;
    if (r->step != expected)
        return rp_fail(err, RP_MALFORMED, "%s: step %d; expected %d", rp_line_place(l), r->step, expected);
    if (r->step < 0)
        return 0;
    if (r->end_ns <= r->start_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %d ends before it starts", rp_line_place(l), r->step);
    before = before && before->step >= 0 ? before : NULL;
    const struct rp_record_times was = before ? rp_record_times(rs, before) : no_times;
    if (before && ((was.exchange_ns < 0) != (t->exchange_ns < 0) || (was.wait_ns < 0) != (t->wait_ns < 0)))
        return rp_fail(err, RP_MALFORMED, "%s: some steps have times of exchanges and waiting, and others do not",
                       rp_line_place(l));
    if (before && r->start_ns < before->end_ns)
        return rp_fail(err, RP_MISMATCH, "%s: step %d starts before step %d ends", rp_line_place(l), r->step,
                       before->step);
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
    struct rp_record_line l; /* not zeroed: there are many, and rp_line_scan() sets it */
    struct parsed_record p;  /* nor are roots and values */
    int learn = !rs->n || (rs->n == 1 && rs->r[0].step < 0);
    p.step = (struct rp_step_record){0};
    p.times = no_times;
    l.number = rs->n + 1;
    l.rank = rs->rank;
    if (rs->n == RP_RECORDS_MAX)
        return rp_fail(err, RP_MALFORMED, "%s: more than %d records", rp_line_place(&l), RP_RECORDS_MAX);
    if (rp_line_scan(&l, text, size, err) < 0 || parse_record(&p, rs, learn, &l, err) < 0 ||
        check_order(rs, &p.step, &p.times, &l, err) < 0)
        return -1;
    if (p.step.root) {
        rs->root = grow_array(rs->root, rs->roots, &in->roots_room, sizeof *rs->root);
        if (p.roots.is_keyed) {
            rs->keyed = grow_array(rs->keyed, rs->roots, &in->keyed_room, sizeof *rs->keyed);
            memcpy(rs->keyed[rs->roots], p.roots.keyed, sizeof p.roots.keyed);
        }
        memcpy(rs->root[rs->roots++], p.roots.state, sizeof p.roots.state);
        p.step.root = (uint32_t)rs->roots & ((1u << 21) - 1);
    }
    rs->r = grow_array(rs->r, rs->n, &in->room, sizeof *rs->r);
    add_times(in, &p.times);
    const struct record_values *v = &p.values;
    rs->loss_part = add_named(rs->loss_part, rs->n, &in->parts_room, v->part, (size_t)rs->part.n * sizeof *v->part);
    rs->count = add_named(rs->count, rs->n, &in->counts_room, v->count, (size_t)rs->counter.n * sizeof *v->count);
    rs->micro_loss =
        add_named(rs->micro_loss, rs->n, &in->micro_room, v->micro, (size_t)rs->micros * sizeof *v->micro);
    rs->r[rs->n++] = p.step;
    return 0;
}

/* Keeps the beginning of a line until its end arrives. */
static int hold_piece(struct rp_records_in *in, const char *data, size_t size, struct rp_err *err)
{
    struct rp_record_line l = {.number = in->out->n + 1, .rank = in->out->rank};
    if (size > sizeof in->line - in->held)
        return rp_fail(err, RP_MALFORMED, "%s: longer than %zu bytes", rp_line_place(&l), sizeof in->line);
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
    struct rp_record_line l = {.number = in->out->n + 1, .rank = in->out->rank};
    rp_records_fini(in->out);
    return rp_fail(err, RP_MALFORMED, "%s: the last line has no end", rp_line_place(&l));
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
