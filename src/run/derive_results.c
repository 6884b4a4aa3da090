/* "results" of run.json, from records. Only +, -, *, / and comparisons of doubles and integers: the same text
 * everywhere. */
#include "run/derive.h"

#include "base/bootstrap.h"
#include "base/buf.h"
#include "base/sort.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_LIMITS 0.1 /* share of the time from which the input limits a run */
/* One timed window: consecutive records of one repeat. */
struct timed_window {
    const struct rp_step_record *r;
    int64_t n, samples, counter[RP_COUNTERS_MAX]; /* as the records name them */
    int64_t ns, root_ns, gap_ns; /* ns: without root_ns; gap_ns: part of ns that is outside every step */
};

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

int64_t rp_cycle_ns(const struct rp_step_record *r, const struct rp_step_record *next)
{
    return next ? next->start_ns - r->start_ns - r->root_ns : r->end_ns - r->start_ns;
}

/* From the start of step i of the window to the start of the next; they sum to w->ns. */
static int64_t cycle_ns(const struct timed_window *w, int64_t i)
{
    return rp_cycle_ns(&w->r[i], i + 1 < w->n ? &w->r[i + 1] : NULL);
}

static struct timed_window window_of(const struct rp_records *rs, const struct rp_step_record *r, int64_t n)
{
    struct timed_window w = {.r = r, .n = n};
    int64_t busy = 0;
    for (int64_t i = 0; i < n; i++) {
        w.samples += r[i].samples;
        for (int c = 0; c < rs->counter.n; c++)
            w.counter[c] += rp_record_counts(rs, &r[i])[c];
        w.ns += cycle_ns(&w, i);
        w.root_ns += i + 1 < n ? r[i].root_ns : 0;
        busy += r[i].end_ns - r[i].start_ns;
    }
    w.gap_ns = w.ns - busy;
    return w;
}

/* The timed windows, in order; *n of them. */
static struct timed_window *find_windows(const struct rp_records *rs, int *n)
{
    struct timed_window *all = NULL;
    *n = 0;
    for (int64_t i = 0, steps; i < rs->n; i += steps) {
        const struct rp_step_record *r = &rs->r[i];
        for (steps = 1; r->timed && i + steps < rs->n && r[steps].timed && r[steps].repeat == r->repeat; steps++) {
        }
        if (!r->timed)
            continue;
        all = rp_realloc(all, (size_t)(*n + 1) * sizeof *all);
        all[(*n)++] = window_of(rs, r, steps);
    }
    return all;
}

static uint64_t seed_of(const char *sha256)
{
    unsigned char raw[8];
    char first[17];
    uint64_t seed = 0;
    memcpy(first, sha256, 16);
    first[16] = 0;
    RP_BUG_IF(rp_unhex(raw, 8, first) < 0);
    for (int i = 0; i < 8; i++)
        seed = seed << 8 | raw[i];
    return seed;
}

/* n bootstrap resamples of the throughput. */
static void resample(double *out, int n, const struct timed_window *w, int count, const char *sha256)
{
    int64_t steps = 0;
    RP_FREE int64_t *first = rp_alloc((size_t)(count + 1) * sizeof *first);
    RP_FREE double *work = rp_alloc((size_t)count * sizeof *work);
    for (int i = 0; i < count; i++) {
        steps += w[i].n;
        first[i + 1] = steps;
        work[i] = (double)w[i].samples;
    }
    RP_FREE double *time = rp_alloc((size_t)steps * sizeof *time);
    for (int i = 0; i < count; i++)
        for (int64_t k = 0; k < w[i].n; k++)
            time[first[i] + k] = (double)cycle_ns(&w[i], k); /* sums are exact: below 2^53 ns, which are 104 days */
    rp_bootstrap_resample(out, n, &(struct rp_bootstrap){count, first, time, work, 1e9}, seed_of(sha256));
}

static void derive_throughput(struct rp_results *out, const struct timed_window *w, int n, const char *sha256,
                              const struct rp_model *m)
{
    int64_t steps = 0;
    RP_FREE double *rate = rp_alloc((size_t)(n + 1) * sizeof *rate);
    for (int i = 0; i < n; i++) {
        steps += w[i].n;
        rate[i] = (double)w[i].samples / seconds(w[i].ns);
        struct rp_window *is = rp_object_add(&out->windows, &out->windows_n, &rp_type_window);
        *is =
            (struct rp_window){w[i].r->repeat, w[i].n, w[i].samples, seconds(w[i].ns), seconds(w[i].root_ns), rate[i]};
    }
    struct rp_throughput_figures *t = &out->throughput;
    t->level = RP_BOOTSTRAP_LEVEL;
    t->resamples = rp_resamples_of(steps);
    t->unit = rp_asprintf("%s/s", m->sample_unit);
    if (steps >= 2) {
        RP_FREE double *all = rp_alloc((size_t)t->resamples * sizeof *all);
        resample(all, (int)t->resamples, w, n, sha256);
        rp_bootstrap_interval(t->interval, all, (int)t->resamples);
    }
    if (n)
        t->value = rp_median(rate, (size_t)n);
}

/* Nearest rank: the smallest value that at least percent % of them do not exceed. */
static double percentile(const int64_t *sorted, int64_t n, int64_t percent)
{
    int64_t rank = (n * percent + 99) / 100;
    return seconds(sorted[rank > 0 ? rank - 1 : 0]);
}

static void derive_step_times(struct rp_results *out, const struct rp_records *rs)
{
    int64_t n = 0;
    RP_FREE int64_t *ns = rp_alloc((size_t)(rs->n + 1) * sizeof *ns);
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].timed)
            ns[n++] = rs->r[i].end_ns - rs->r[i].start_ns;
    if (n == 0)
        return;
    rp_sort_int64(ns, (size_t)n);
    out->step_s = rp_alloc(sizeof *out->step_s);
    *out->step_s = (struct rp_step_times){
        .min = seconds(ns[0]),
        .median = n % 2 ? seconds(ns[n / 2]) : (seconds(ns[n / 2 - 1]) + seconds(ns[n / 2])) / 2,
        .p90 = percentile(ns, n, 90),
        .p99 = percentile(ns, n, 99),
        .max = seconds(ns[n - 1]),
    };
}

static const char *limit_of(double input, double exchange)
{
    if (input < INPUT_LIMITS && exchange < INPUT_LIMITS)
        return "device";
    return exchange > input ? "exchange" : "input";
}

/* Over all timed steps; the first of a window is loaded before the window. */
static void derive_input(struct rp_input_figures *out, const struct rp_records *rs)
{
    int64_t n = 0, waited = 0, exchanged = 0, all = 0; /* ns; less than the last end_ns */
    int several = 0;
    RP_FREE double *s = rp_alloc((size_t)(rs->n + 1) * sizeof *s);
    for (int64_t i = 0; i < rs->n; i++) {
        if (!rs->r[i].timed)
            continue;
        s[n++] = seconds(rs->r[i].input_ns);
        waited += rs->r[i].input_ns;
        const int64_t exchange_ns = rp_record_times(rs, &rs->r[i]).exchange_ns;
        several |= exchange_ns >= 0;
        exchanged += exchange_ns >= 0 ? exchange_ns : 0;
        all += rs->r[i].input_ns + rs->r[i].end_ns - rs->r[i].start_ns;
    }
    const double exchange = n ? (double)exchanged / (double)all : 0;
    out->waited_s = seconds(waited);
    if (several)
        out->exchange_share = exchange;
    if (!n)
        return;
    out->median_s = rp_median(s, (size_t)n);
    out->share = (double)waited / (double)all;
    out->limited_by = rp_strdup(limit_of(out->share, exchange));
}

/* Totals over all windows; the rate is the throughput times the mean per sample. */
static void derive_counters(struct rp_results *out, const struct rp_records *rs, const struct rp_model *m,
                            const int64_t *total, int64_t samples)
{
    for (int i = 0; i < rp_model_counters(m); i++) {
        const struct rp_step_counter *c = &m->counter[i], *of = &m->counter[c->most];
        const int at = rp_step_name_index(&rs->counter, c->name), of_at = rp_step_name_index(&rs->counter, of->name);
        const int64_t n = at < 0 ? 0 : total[at], all = of_at < 0 ? 0 : total[of_at]; /* -1: of a run without steps */
        struct rp_counter_figures *row = rp_object_add(&out->counters, &out->counters_n, &rp_type_counter_figures);
        row->name = rp_strdup(c->name);
        row->total = n;
        if (samples)
            row->per_s = out->throughput.value * ((double)n / (double)samples);
        if (!c->per_sample) {
            row->of = rp_strdup(of->name);
            row->share = all ? (double)n / (double)all : NAN;
        }
    }
}

static void derive_rates(struct rp_results *out, const struct rp_records *rs, const struct timed_window *w, int n,
                         const struct rp_model *m, const struct rp_model_figures *work)
{
    int64_t total[RP_COUNTERS_MAX] = {0}, samples = 0, gaps = 0;
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < RP_COUNTERS_MAX; c++)
            total[c] += w[i].counter[c];
        samples += w[i].samples;
        gaps += w[i].gap_ns;
    }
    derive_counters(out, rs, m, total, samples);
    out->flops_per_s = out->throughput.value * work->flops_per_sample; /* NaN where nothing was timed */
    out->hardware_flops_per_s = out->throughput.value * work->hardware_flops_per_sample;
    out->between_steps_s = seconds(gaps);
}

/* The time by the clock of a device that has its own. */
static void derive_device_time(struct rp_results *out, const struct rp_records *rs, const struct timed_window *w, int n)
{
    int64_t device = 0, ns = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < w[i].n; k++) {
            const int64_t its = rp_record_times(rs, &w[i].r[k]).device_ns;
            if (its < 0)
                return;
            device = device > INT64_MAX - its ? INT64_MAX : device + its;
        }
        ns += w[i].ns;
    }
    if (!n)
        return;
    out->device_s = seconds(device);
    out->device_share = seconds(device) / seconds(ns);
}

static void derive_evidence(struct rp_results *out, const struct rp_records *rs)
{
    const struct rp_step_record *first = NULL, *last = NULL, *norm0 = NULL, *norm1 = NULL, *root0 = NULL, *root1 = NULL;
    int64_t roots = 0, root_ns = 0, timed = 0, steps = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        if (r->root) {
            root0 = root0 ? root0 : r;
            root1 = r;
            roots++;
            root_ns = root_ns > INT64_MAX - r->root_ns ? INT64_MAX : root_ns + r->root_ns;
        }
        if (r->step < 0)
            continue;
        first = first ? first : r;
        last = r;
        if (!r->overflow) {
            norm0 = norm0 ? norm0 : r;
            norm1 = r;
        }
        steps++;
        timed += r->timed;
    }
    memcpy(out->records_sha256, rs->sha256, sizeof out->records_sha256);
    out->steps = (struct rp_step_counts){.warm_up = steps - timed, .timed = timed};
    out->state_roots = (struct rp_root_counts){.count = roots, .seconds = seconds(root_ns)};
    if (root0) {
        rp_record_root(out->state_root_first, rs, root0);
        rp_record_root(out->state_root_last, rs, root1);
    }
    if (!first)
        return;
    out->samples_per_step = first->samples;
    out->loss_first = first->loss;
    out->loss_last = last->loss;
    if (norm0) {
        out->grad_norm_first = norm0->grad_norm;
        out->grad_norm_last = norm1->grad_norm;
    }
}

static void derive_loss_scaling(struct rp_results *out, const struct rp_records *rs)
{
    struct rp_loss_scaling *is = NULL;
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        if (!r->scale)
            continue;
        if (!is) {
            is = out->loss_scaling = rp_alloc(sizeof *is);
            rp_object_init(is, &rp_type_loss_scaling);
            is->initial = rp_record_loss_scale(r);
        }
        is->final = rp_record_loss_scale(r);
        is->skipped += r->overflow;
        is->skipped_timed += r->overflow && r->timed;
    }
    if (is && out->steps.timed)
        is->skipped_share = (double)is->skipped_timed / (double)out->steps.timed;
}

void rp_derive_results(struct rp_figures *f, const struct rp_records *rs, const struct rp_model *m)
{
    struct rp_results *out = &f->results;
    int n;
    struct timed_window *w = find_windows(rs, &n);
    derive_evidence(out, rs);
    derive_loss_scaling(out, rs);
    derive_throughput(out, w, n, rs->sha256, m);
    derive_step_times(out, rs);
    derive_input(&out->input, rs);
    derive_rates(out, rs, w, n, m, &f->model);
    derive_device_time(out, rs, w, n);
    free(w);
}

int rp_results_resample(double *out, int n, const struct rp_records *rs)
{
    int count, steps = 0;
    struct timed_window *w = find_windows(rs, &count);
    for (int i = 0; i < count; i++)
        steps += w[i].n > 1 ? 2 : 1;
    if (steps >= 2)
        resample(out, n, w, count, rs->sha256);
    free(w);
    return steps >= 2;
}
