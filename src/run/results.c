/* Figures from records. Only +, -, *, / and comparisons of doubles and integers: the same text everywhere. */
#include "run/results.h"

#include "base/bootstrap.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/sort.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ESTIMATOR "median over repeats of samples / window seconds"
#define WINDOW                                                                                                                 \
    "start of the first timed step of a repeat to the end of its last, with the loading of samples and without state roots between steps"
#define DEVICE_SHARE                                                                                                           \
    "device_s / seconds of all windows; device_s: from the start of the first operation of each timed step to the end of its last, by " \
    "the device's own clock, idle gaps included"
#define METHOD                                                                                                                 \
    "percentile bootstrap: repeats, where there are several, and in each the step cycles (start to next start, without state "  \
    "roots) are resampled with replacement, by SplitMix64 seeded with the first 8 bytes of records_sha256; the estimator is " \
    "applied to each resample"

#define INPUT_LIMITS 0.1 /* share of the time from which the input limits a run */
#define INPUT_SHARE                                                                                                            \
    "sum of input_ns / sum of (input_ns + end_ns - start_ns) over all timed steps; limited by its input from a share of 0.1 on"
#define INPUT_SHARE_OF_RANKS                                                                                                   \
    INPUT_SHARE "; exchange_share: sum of exchange_ns / the same; limited by exchange from a share of 0.1 on, if that is the larger one"

/* One timed window: consecutive records of one repeat. */
struct results_window {
    const struct rp_step_record *r;
    int64_t *cycle; /* [n]: nanoseconds from the start of a step to the start of the next */
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

static struct results_window window_of(const struct rp_records *rs, const struct rp_step_record *r, int64_t n)
{
    struct results_window w = {.r = r, .n = n, .cycle = rp_alloc((size_t)n * sizeof *w.cycle)};
    int64_t busy = 0;
    for (int64_t i = 0; i < n; i++) {
        w.cycle[i] = rp_cycle_ns(&r[i], i + 1 < n ? &r[i + 1] : NULL); /* they sum to w.ns */
        w.samples += r[i].samples;
        for (int c = 0; c < rs->counter.n; c++)
            w.counter[c] += rp_record_counts(rs, &r[i])[c];
        w.ns += w.cycle[i];
        w.root_ns += i + 1 < n ? r[i].root_ns : 0;
        busy += r[i].end_ns - r[i].start_ns;
    }
    w.gap_ns = w.ns - busy;
    return w;
}

/* The timed windows, in order; *n of them. */
static struct results_window *windows(const struct rp_records *rs, int *n)
{
    struct results_window *all = NULL;
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

static void windows_free(struct results_window *w, int n)
{
    for (int i = 0; i < n; i++)
        free(w[i].cycle);
    free(w);
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
static void resample(double *out, int n, const struct results_window *w, int count, const char *sha256)
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
            time[first[i] + k] = (double)w[i].cycle[k]; /* sums are exact: below 2^53 ns, which are 104 days */
    rp_bootstrap_resample(out, n, &(struct rp_bootstrap){count, first, time, work, 1e9}, seed_of(sha256));
}

static void add_throughput(json_t *out, const struct results_window *w, int n, const char *sha256, const struct rp_model *m)
{
    int64_t steps = 0;
    json_t *list = json_array(), *interval = json_null();
    RP_FREE double *rate = rp_alloc((size_t)(n + 1) * sizeof *rate);
    for (int i = 0; i < n; i++) {
        steps += w[i].n;
        rate[i] = (double)w[i].samples / seconds(w[i].ns);
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:f, s:f, s:f}", "repeat", (json_int_t)w[i].r->repeat, "steps",
                                              (json_int_t)w[i].n, "samples", (json_int_t)w[i].samples, "seconds", seconds(w[i].ns),
                                              "state_root_s", seconds(w[i].root_ns), "throughput", rate[i]));
    }
    const int resamples = rp_resamples_of(steps);
    if (steps >= 2) {
        double ends[2];
        RP_FREE double *all = rp_alloc((size_t)resamples * sizeof *all);
        resample(all, resamples, w, n, sha256);
        rp_bootstrap_interval(ends, all, resamples);
        interval = json_pack("[f, f]", ends[0], ends[1]);
    }
    json_object_set_new(out, "windows", list);
    json_object_set_new(out, "window", json_string(WINDOW));
    json_object_set_new(out, "estimator", json_string(ESTIMATOR));
    json_object_set_new(out, "throughput", json_pack("{s:o, s:s++, s:o}", "value", n ? json_real(rp_median(rate, (size_t)n)) : json_null(),
                                                     "unit", m->sample_unit, "/", "s", "interval", interval));
    json_object_set_new(out, "bootstrap", json_pack("{s:f, s:i, s:s}", "level", RP_BOOTSTRAP_LEVEL, "resamples",
                                                    resamples, "method", METHOD));
}

/* Nearest rank: the smallest value that at least percent % of them do not exceed. */
static double percentile(const int64_t *sorted, int64_t n, int64_t percent)
{
    int64_t rank = (n * percent + 99) / 100;
    return seconds(sorted[rank > 0 ? rank - 1 : 0]);
}

static void add_step_times(json_t *out, const struct rp_records *rs)
{
    int64_t n = 0;
    RP_FREE int64_t *ns = rp_alloc((size_t)(rs->n + 1) * sizeof *ns);
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].timed)
            ns[n++] = rs->r[i].end_ns - rs->r[i].start_ns;
    if (n == 0) {
        json_object_set_new(out, "step_s", json_null());
        return;
    }
    rp_sort_int64(ns, (size_t)n);
    json_object_set_new(out, "step_s",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "min", seconds(ns[0]), "median",
                                  n % 2 ? seconds(ns[n / 2]) : (seconds(ns[n / 2 - 1]) + seconds(ns[n / 2])) / 2, "p50",
                                  percentile(ns, n, 50), "p90", percentile(ns, n, 90), "p99", percentile(ns, n, 99), "max",
                                  seconds(ns[n - 1])));
}

/* What set the pace: "input", "exchange" of several ranks, or "device". */
static const char *limit_of(double input, double exchange)
{
    if (input < INPUT_LIMITS && exchange < INPUT_LIMITS)
        return "device";
    return exchange > input ? "exchange" : "input";
}

/* Whether the input, exchanges with other ranks or the device set the pace, over all timed steps; the first of a window is loaded before the
 * window. */
static void add_input(json_t *out, const struct rp_records *rs)
{
    int64_t n = 0, waited = 0, exchanged = 0, all = 0; /* ns; less than the last end_ns */
    int several = 0;
    RP_FREE double *s = rp_alloc((size_t)(rs->n + 1) * sizeof *s);
    for (int64_t i = 0; i < rs->n; i++) {
        if (!rs->r[i].timed)
            continue;
        s[n++] = seconds(rs->r[i].input_ns);
        waited += rs->r[i].input_ns;
        several |= rs->r[i].exchange_ns >= 0;
        exchanged += rs->r[i].exchange_ns >= 0 ? rs->r[i].exchange_ns : 0;
        all += rs->r[i].input_ns + rs->r[i].end_ns - rs->r[i].start_ns;
    }
    const double share = n ? (double)waited / (double)all : 0, exchange = n ? (double)exchanged / (double)all : 0;
    json_object_set_new(out, "input", json_pack("{s:f, s:o, s:o, s:o, s:s}", "waited_s", seconds(waited), "median_s",
                                                n ? json_real(rp_median(s, (size_t)n)) : json_null(), "share",
                                                n ? json_real(share) : json_null(), "limited_by",
                                                !n ? json_null() : json_string(limit_of(share, exchange)),
                                                "formula", several ? INPUT_SHARE_OF_RANKS : INPUT_SHARE));
    if (several)
        json_object_set_new(json_object_get(out, "input"), "exchange_share", json_real(exchange));
}

/* What the model counts, over all windows, and its rate, which is the throughput times the mean per sample; what is bounded by another counter
 * with its share of that. */
static json_t *counters(const struct rp_records *rs, const struct rp_model *m, const int64_t *total, int64_t samples, double rate)
{
    json_t *list = json_array();
    for (int i = 0; i < rp_model_counters(m); i++) {
        const struct rp_step_counter *c = &m->counter[i], *of = &m->counter[c->most];
        int at = rp_step_name_index(&rs->counter, c->name), of_at = rp_step_name_index(&rs->counter, of->name);
        int64_t n = at < 0 ? 0 : total[at], all = of_at < 0 ? 0 : total[of_at]; /* -1: of a run without steps */
        json_t *row = json_pack("{s:s, s:I, s:o}", "name", c->name, "total", (json_int_t)n, "per_s",
                                samples ? json_real(rate * ((double)n / (double)samples)) : json_null());
        if (!c->per_sample) {
            json_object_set_new(row, "of", json_string(of->name));
            json_object_set_new(row, "share", all ? json_real((double)n / (double)all) : json_null());
        }
        json_array_append_new(list, row);
    }
    return list;
}

static void add_rates(json_t *out, const struct rp_records *rs, const struct results_window *w, int n, const struct rp_model *m,
                      const json_t *plan)
{
    int64_t total[RP_COUNTERS_MAX] = {0}, samples = 0, gaps = 0;
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < RP_COUNTERS_MAX; c++)
            total[c] += w[i].counter[c];
        samples += w[i].samples;
        gaps += w[i].gap_ns;
    }
    double rate = json_number_value(rp_json_at(out, "throughput/value"));
    json_object_set_new(out, "counters", counters(rs, m, total, samples, rate));
    json_object_set_new(out, "flops_per_s", n ? json_real(rate * json_number_value(json_object_get(plan, "flops_per_sample"))) : json_null());
    json_object_set_new(out, "flops_per_s_formula", json_string("throughput * plan.flops_per_sample"));
    const json_t *hardware = json_object_get(plan, "hardware_flops_per_sample");
    if (hardware) {
        json_object_set_new(out, "hardware_flops_per_s", n ? json_real(rate * json_number_value(hardware)) : json_null());
        json_object_set_new(out, "hardware_flops_per_s_formula", json_string("throughput * plan.hardware_flops_per_sample"));
    }
    json_object_set_new(out, "between_steps_s", json_real(seconds(gaps)));
}

/* Of a device with a clock of its own. */
static void add_device_time(json_t *out, const struct results_window *w, int n)
{
    int64_t device = 0, ns = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < w[i].n; k++) {
            if (w[i].r[k].device_ns < 0)
                return;
            device = device > INT64_MAX - w[i].r[k].device_ns ? INT64_MAX : device + w[i].r[k].device_ns;
        }
        ns += w[i].ns;
    }
    if (!n)
        return;
    json_object_set_new(out, "device_s", json_real(seconds(device)));
    json_object_set_new(out, "device_share", json_real(seconds(device) / seconds(ns)));
    json_object_set_new(out, "device_share_formula", json_string(DEVICE_SHARE));
}

/* NULL: of a run without steps. */
static json_t *hex_or_null(const struct rp_step_record *r, float value)
{
    char text[32];
    rp_float_hex(text, value);
    return r ? json_string(text) : json_null();
}

static json_t *root_or_null(const struct rp_records *rs, const struct rp_step_record *r)
{
    char text[RP_SHA256_HEX] = "";
    if (r)
        rp_record_root(text, rs, r);
    return *text ? json_string(text) : json_null();
}

static void add_evidence(json_t *out, const struct rp_records *rs)
{
    const struct rp_step_record *first = NULL, *last = NULL, *root0 = NULL, *root1 = NULL;
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
        steps++;
        timed += r->timed;
    }
    json_object_set_new(out, "records_sha256", json_string(rs->sha256));
    json_object_set_new(out, "steps", json_pack("{s:I, s:I}", "warm-up", (json_int_t)(steps - timed), "timed", (json_int_t)timed));
    json_object_set_new(out, "samples_per_step", json_integer(first ? (json_int_t)first->samples : 0));
    json_object_set_new(out, "loss_first", hex_or_null(first, first ? first->loss : 0));
    json_object_set_new(out, "loss_last", hex_or_null(last, last ? last->loss : 0));
    json_object_set_new(out, "grad_norm_first", hex_or_null(first, first ? first->grad_norm : 0));
    json_object_set_new(out, "grad_norm_last", hex_or_null(last, last ? last->grad_norm : 0));
    json_object_set_new(out, "state_root_first", root_or_null(rs, root0));
    json_object_set_new(out, "state_root_last", root_or_null(rs, root1));
    json_object_set_new(out, "state_roots", json_pack("{s:I, s:f}", "count", (json_int_t)roots, "seconds", seconds(root_ns)));
}

json_t *rp_results(const struct rp_records *rs, const struct rp_recipe *r, const json_t *plan, int complete, struct rp_err *err)
{
    int n;
    if (rp_records_match(rs, r, complete, err) < 0)
        return NULL;
    json_t *out = json_object();
    const struct rp_model *m = rp_model_of(r);
    struct results_window *w = windows(rs, &n);
    add_evidence(out, rs);
    add_throughput(out, w, n, rs->sha256, m);
    add_step_times(out, rs);
    add_input(out, rs);
    add_rates(out, rs, w, n, m, plan);
    add_device_time(out, w, n);
    windows_free(w, n);
    return out;
}

const json_t *rp_run_setting(const json_t *run, const char *key)
{
    return json_object_get(json_object_get(json_object_get(run, "recipe"), key), "value");
}

int64_t rp_run_degrees(const json_t *run)
{
    static const char *const keys[] = {"parallel.data", "parallel.tensor", "parallel.pipeline"};
    int64_t product = 1; /* each is at most 1024 */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t degree = json_integer_value(rp_run_setting(run, keys[i]));
        product *= degree > 1 && degree <= 1024 ? degree : 1;
    }
    return product;
}

int64_t rp_run_ranks(const json_t *run)
{
    int64_t n = json_integer_value(rp_json_at(run, "world/ranks"));
    return n > 1 ? n : 1;
}

int64_t rp_run_threads(const json_t *run)
{
    const int64_t one = rp_json_integer_at(run, "device/threads");
    const json_t *list = rp_json_at(run, "world/rank"), *rank;
    int64_t all = 0;
    size_t i;
    json_array_foreach(list, i, rank) {
        const int64_t own = rp_json_integer_at(rank, "device/threads");
        all += own ? own : one;
    }
    return json_array_size(list) ? all : one * rp_run_ranks(run);
}

const char *rp_run_isa(const json_t *run)
{
    const char *isa = json_string_value(rp_json_at(run, "device/isa"));
    const json_t *rank;
    size_t i;
    json_array_foreach(rp_json_at(run, "world/rank"), i, rank) {
        const char *own = json_string_value(rp_json_at(rank, "device/isa"));
        if (isa && own && strcmp(isa, own) != 0)
            return "mixed";
    }
    return isa;
}

const char *rp_run_rank_kind(const json_t *run, int64_t rank)
{
    const json_t *one = json_array_get(rp_json_at(run, "world/rank"), (size_t)rank);
    const char *kind = json_string_value(rp_json_at(one, "device/kind"));
    return kind ? kind : rp_json_text_at(run, "backend");
}

const char *rp_run_kind(const json_t *run)
{
    const char *first = rp_run_rank_kind(run, 0);
    for (int64_t i = 1; i < rp_run_ranks(run); i++)
        if (strcmp(rp_run_rank_kind(run, i), first) != 0)
            return "mixed";
    return first;
}

struct rp_throughput rp_throughput_of(const json_t *run)
{
    const json_t *is = rp_json_at(run, "results/throughput"), *value = json_object_get(is, "value");
    const json_t *counters = rp_json_at(run, "results/counters"), *only = json_array_get(counters, 0);
    int tokens = json_array_size(counters) == 1 && strcmp(rp_json_text_at(only, "name"), "tokens") == 0;
    return (struct rp_throughput){.unit = rp_json_text_at(is, "unit"), .value = json_number_value(value),
                                  .low = json_number_value(rp_json_at(is, "interval/0")),
                                  .high = json_number_value(rp_json_at(is, "interval/1")),
                                  .tokens = tokens ? json_number_value(json_object_get(only, "per_s")) : 0,
                                  .known = json_is_number(value), .sure = json_is_array(json_object_get(is, "interval"))};
}

int rp_results_resample(double *out, int n, const struct rp_records *rs)
{
    int count, steps = 0;
    struct results_window *w = windows(rs, &count);
    for (int i = 0; i < count; i++)
        steps += w[i].n > 1 ? 2 : 1;
    if (steps >= 2)
        resample(out, n, w, count, rs->sha256);
    windows_free(w, count);
    return steps >= 2;
}
