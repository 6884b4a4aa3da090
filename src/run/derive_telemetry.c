/* "telemetry" of run.json, of each rank or device and of all. */
#include "run/derive.h"

#include "base/json.h"
#include "base/sort.h"
#include "run/telemetry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where the figures have the spread of a value; f NULL: NULL. */
static struct rp_spread **spread_at(struct rp_telemetry_figures *f, const char *name)
{
    const struct rp_object_type *type = &rp_type_telemetry_figures;
    for (int i = 0; f && i < type->n; i++)
        if (strcmp(type->field[i].name, name) == 0)
            return (struct rp_spread **)((char *)f + type->field[i].offset);
    RP_BUG_IF(f != NULL);
    return NULL;
}

/* ---- of one device ---- */

struct telemetry_window {
    int64_t start_ns, end_ns;
    int64_t from, to; /* lines */
};

/* start_ns -1: nothing was timed */
static struct telemetry_window window_of(const struct rp_telemetry *s, int64_t start_ns, int64_t end_ns)
{
    struct telemetry_window w = {.start_ns = start_ns, .end_ns = end_ns};
    while (w.from < s->n && (w.start_ns < 0 || s->sample[w.from].ns < w.start_ns))
        w.from++;
    for (w.to = w.from; w.to < s->n && s->sample[w.to].ns <= w.end_ns;)
        w.to++;
    return w;
}

/* The spread of one value over the window; NULL if no sample has it. */
static struct rp_spread *spread(const struct rp_telemetry *s, const struct telemetry_window *w, const char *key,
                                double scale)
{
    size_t n = 0;
    double sum = 0;
    RP_FREE double *v = rp_alloc((size_t)(w->to - w->from + 1) * sizeof *v);
    for (int64_t i = w->from; i < w->to; i++) {
        const double x = rp_sample_value(&s->sample[i], key);
        if (isnan(x))
            continue;
        v[n] = x * scale;
        sum += v[n++];
    }
    if (!n)
        return NULL;
    struct rp_spread *out = rp_alloc(sizeof *out);
    const double median = rp_median(v, n); /* which sorts them */
    *out = (struct rp_spread){v[0], median, sum / (double)n, v[n - 1]};
    return out;
}

/* Its place in the order of names, added where it is new. */
static struct rp_throttle_share *throttle_row(struct rp_telemetry_figures *out, const char *reason)
{
    int64_t at = 0;
    while (at < out->throttle_n && strcmp(out->throttle[at].reason, reason) < 0)
        at++;
    if (at < out->throttle_n && strcmp(out->throttle[at].reason, reason) == 0)
        return &out->throttle[at];
    (void)rp_object_add(&out->throttle, &out->throttle_n, &rp_type_throttle_share);
    memmove(&out->throttle[at + 1], &out->throttle[at], (size_t)(out->throttle_n - 1 - at) * sizeof *out->throttle);
    out->throttle[at] = (struct rp_throttle_share){.reason = rp_strdup(reason)};
    return &out->throttle[at];
}

static void derive_throttle(struct rp_telemetry_figures *out, const struct rp_telemetry *s,
                            const struct telemetry_window *w)
{
    for (int64_t i = w->from; i < w->to; i++) {
        const struct rp_device_sample *one = &s->sample[i];
        out->throttle_samples += one->throttle != NULL;
        for (int64_t k = 0; k < one->throttle_n; k++)
            throttle_row(out, one->throttle[k])->share += 1;
    }
    for (int64_t i = 0; i < out->throttle_n; i++)
        out->throttle[i].share /= (double)out->throttle_samples;
}

static int64_t samples_timed(const struct rp_records *rs)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rs->n; i++)
        n += rs->r[i].timed ? rs->r[i].samples : 0;
    return n;
}

static struct rp_telemetry_figures *derive_device(const struct rp_telemetry *s, const struct telemetry_window w)
{
    struct rp_telemetry_figures *out = rp_alloc(sizeof *out);
    rp_object_init(out, &rp_type_telemetry_figures);
    out->ranks = 1;
    memcpy(out->sha256, s->sha256, sizeof out->sha256);
    out->count = s->n;
    out->every = s->every;
    out->period_s = RP_TELEMETRY_PERIOD_NS / 1e9;
    out->timed = w.to - w.from;
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++)
        *spread_at(out, v->name) = spread(s, &w, v->key, v->scale);
    derive_throttle(out, s, &w);
    if (out->power_w)
        out->energy_j = out->power_w->mean * ((double)(w.end_ns - w.start_ns) / 1e9);
    return out;
}

void rp_derive_telemetry(struct rp_figures *f, int rank, const struct rp_telemetry *s,
                         const struct rp_rank_share *share)
{
    f->rank[rank].telemetry =
        derive_device(s, window_of(s, share->from_ns, share->from_ns < 0 ? 0 : share->from_ns + share->span_ns));
}

void rp_derive_device(struct rp_command_figures *f, int device, const struct rp_telemetry *s,
                      const struct rp_command_process *p)
{
    f->device[device].telemetry = derive_device(s, window_of(s, p->start_ns, p->end_ns));
}

/* ---- of all devices ---- */

/* The spread over those that have one; NULL: none has. */
static struct rp_spread *spread_of_all(struct rp_telemetry_figures *const *one, int64_t n, const char *name)
{
    RP_FREE double *median = rp_alloc((size_t)(n + 1) * sizeof *median);
    struct rp_spread all = {.min = INFINITY, .max = -INFINITY};
    size_t known = 0;
    for (int64_t i = 0; i < n; i++) {
        struct rp_spread **at = spread_at(one[i], name);
        const struct rp_spread *is = at ? *at : NULL;
        if (!is)
            continue;
        all.min = fmin(all.min, is->min);
        all.max = fmax(all.max, is->max);
        all.mean += is->mean;
        median[known++] = is->median;
    }
    if (!known)
        return NULL;
    struct rp_spread *out = rp_alloc(sizeof *out);
    *out = (struct rp_spread){all.min, rp_median(median, known), all.mean / (double)known, all.max};
    return out;
}

static void derive_throttle_of_all(struct rp_telemetry_figures *out, struct rp_telemetry_figures *const *one, int64_t n)
{
    int known = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!one[i] || !one[i]->throttle_samples)
            continue;
        known++;
        out->throttle_samples += one[i]->throttle_samples;
        for (int64_t k = 0; k < one[i]->throttle_n; k++)
            throttle_row(out, one[i]->throttle[k].reason)->share += one[i]->throttle[k].share;
    }
    for (int64_t i = 0; i < out->throttle_n; i++)
        out->throttle[i].share /= known;
}

/* The figures of n devices together, NULL where one has none; NULL: none has. several: the bundle has more than one. */
static struct rp_telemetry_figures *derive_all(struct rp_telemetry_figures *const *one, int64_t n, int several)
{
    RP_BUF digests = {0};
    double joules = 0;
    struct rp_telemetry_figures all;
    rp_object_init(&all, &rp_type_telemetry_figures);
    for (int64_t i = 0; i < n; i++) {
        joules += one[i] ? one[i]->energy_j : NAN; /* of all devices, or unknown */
        if (!one[i])
            continue;
        all.ranks++;
        all.count += one[i]->count;
        all.timed += one[i]->timed;
        all.every = one[i]->every > all.every ? one[i]->every : all.every;
        rp_buf_printf(&digests, "%s\n", one[i]->sha256);
        memcpy(all.sha256, one[i]->sha256, sizeof all.sha256);
    }
    if (!all.ranks)
        return NULL;
    if (several)
        rp_sha256_hex(all.sha256, digests.data, digests.size);
    all.period_s = RP_TELEMETRY_PERIOD_NS / 1e9;
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++)
        *spread_at(&all, v->name) = spread_of_all(one, n, v->name);
    derive_throttle_of_all(&all, one, n);
    all.energy_j = joules;
    struct rp_telemetry_figures *out = rp_alloc(sizeof *out);
    *out = all;
    return out;
}

void rp_derive_telemetry_of_all(struct rp_figures *f, const struct rp_facts *facts, const struct rp_records *rs)
{
    RP_FREE struct rp_telemetry_figures **one = rp_alloc((size_t)(f->rank_n + 1) * sizeof *one);
    int64_t n = 0;
    for (int64_t i = 0; i < f->rank_n; i++)
        if (strcmp(rp_rank_kind(facts, i), "cpu") != 0)
            one[n++] = f->rank[i].telemetry;
    f->telemetry = derive_all(one, n, f->rank_n > 1);
    if (f->telemetry && samples_timed(rs) > 0)
        f->telemetry->energy_per_sample_j = f->telemetry->energy_j / (double)samples_timed(rs);
}

void rp_derive_devices(struct rp_command_figures *f)
{
    RP_FREE struct rp_telemetry_figures **one = rp_alloc((size_t)(f->device_n + 1) * sizeof *one);
    for (int64_t i = 0; i < f->device_n; i++)
        one[i] = f->device[i].telemetry;
    f->telemetry = derive_all(one, f->device_n, f->device_n > 1);
}
