#include "run/telemetry.h"

#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW "device samples from the start of the first timed step to the end of the last"
#define ENERGY "mean of power_w * seconds from the start of the first timed step to the end of the last"
#define ENERGY_OF_ONE ENERGY "; per training sample: / samples trained there"
#define ENERGY_OF_ALL "sum over ranks of (" ENERGY "); per training sample: / samples that all ranks trained there"
#define OF_ALL                                                                                                                 \
    "over ranks: min and max of all, median of the medians, mean of the means, throttle: mean of the shares; count and timed: sums; every: " \
    "the largest"
#define LINES_OF_ALL 65536
#define LINES_LEAST 64

/* ---- during the run ---- */

static int64_t integer(const json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key));
}

/* Keeps every second one. */
static void thin_out(struct rp_sampling *s)
{
    json_t *half = json_array();
    for (size_t i = 0; i < json_array_size(s->line); i += 2)
        json_array_append(half, json_array_get(s->line, i));
    json_decref(s->line);
    s->line = half;
    s->every *= 2;
}

int64_t rp_telemetry_most(int ranks)
{
    int64_t most = RP_TELEMETRY_MAX;
    while (most > LINES_LEAST && most * ranks > LINES_OF_ALL)
        most /= 2;
    return most;
}

void rp_sampling_add(struct rp_sampling *s, const json_t *body)
{
    struct rp_err err;
    const char *reason = json_string_value(json_object_get(body, "reason"));
    const int64_t most = s->most ? s->most : RP_TELEMETRY_MAX;
    if (*s->reason)
        return;
    if (!s->line) {
        s->line = json_array();
        s->every = 1;
        s->schema = rp_schema_load("telemetry", &err);
    }
    if (reason) {
        rp_ascii(s->reason, sizeof s->reason, *reason ? reason : "the GPU worker gave no reason");
        return;
    }
    if (!s->schema || rp_schema_check(s->schema, body, "telemetry", &err) < 0 || integer(body, "n") != s->next ||
        integer(body, "ns") <= s->last_ns) {
        snprintf(s->reason, sizeof s->reason, "the GPU worker sent something that is not a device sample");
        return;
    }
    s->last_ns = integer(body, "ns");
    if (s->next++ % s->every != 0)
        return;
    json_array_append(s->line, (json_t *)body);
    if ((int64_t)json_array_size(s->line) > most)
        thin_out(s);
}

void rp_sampling_write(struct rp_buf *out, const struct rp_sampling *s)
{
    size_t i;
    json_t *line;
    json_array_foreach(s->line, i, line)
        rp_json_write_line(out, line);
}

void rp_sampling_fini(struct rp_sampling *s)
{
    json_decref(s->line);
    *s = (struct rp_sampling){0};
}

/* ---- parsing ---- */

void rp_telemetry_fini(struct rp_telemetry *s)
{
    json_decref(s->line);
    *s = (struct rp_telemetry){0};
}

int64_t rp_sample_ns(const struct rp_telemetry *s, int64_t i)
{
    return integer(json_array_get(s->line, (size_t)i), "ns");
}

int rp_throttle_is_harmless(const char *reason)
{
    static const char *const harmless[] = {"gpu_idle", "applications_clocks_setting", "sync_boost", "display_clock_setting"};
    return RP_IS_IN(harmless, reason, strlen(reason));
}

/* Appends a line; the number of the second line gives the distance of all. */
static int add_line(struct rp_telemetry *s, const struct rp_schema *schema, int rank, int64_t most, const char *text, size_t size,
                    struct rp_err *err)
{
    char what[64];
    RP_BUF again = {0};
    snprintf(what, sizeof what, "%s:%" PRId64, RP_OF_RANK(rank, ".telemetry.jsonl"), s->n + 1);
    if (s->n == most)
        return rp_fail(err, RP_MISMATCH, "%s: more than %" PRId64 " lines", what, most);
    RP_JSON *line = rp_json_parse(text, size, what, err);
    if (!line || rp_schema_check(schema, line, what, err) < 0)
        return -1;
    rp_json_write_line(&again, line);
    if (!rp_buf_is(&again, text, size))
        return rp_fail(err, RP_MALFORMED, "%s is not written as this program writes it (order, white space, numbers)", what);
    int64_t n = integer(line, "n");
    if (s->n == 1)
        s->every = n;
    if (n != s->n * s->every || s->every < 1 || (s->every & (s->every - 1)))
        return rp_fail(err, RP_MISMATCH, "%s is device sample %" PRId64 ": some are missing before it", what, n);
    if (s->n && integer(line, "ns") <= rp_sample_ns(s, s->n - 1))
        return rp_fail(err, RP_MISMATCH, "%s was taken before the one before it", what);
    json_array_append(s->line, line);
    s->n++;
    return 0;
}

int rp_telemetry_parse(struct rp_telemetry *out, int rank, int ranks, const char *text, size_t size, struct rp_err *err)
{
    const int64_t most = rp_telemetry_most(ranks);
    const struct rp_schema *schema = rp_schema_load("telemetry", err);
    *out = (struct rp_telemetry){.line = json_array(), .every = 1};
    rp_sha256_hex(out->sha256, text, size);
    int failed = !schema;
    for (size_t at = 0, n; at < size && !failed; at += n) {
        const char *end = memchr(text + at, '\n', size - at);
        n = end ? (size_t)(end - text) + 1 - at : size - at;
        failed = add_line(out, schema, rank, most, text + at, n, err) < 0;
    }
    if (failed)
        rp_telemetry_fini(out);
    return failed ? -1 : 0;
}

/* ---- figures ---- */

const struct rp_telemetry_value rp_telemetry_values[] = {
    {"clock_sm_hz", "clock_sm_hz", 1, "clock of the multiprocessors", "d0*1e-6", "MHz"},
    {"clock_memory_hz", "clock_memory_hz", 1, "clock of the memory", "d0*1e-6", "MHz"},
    {"power_mw", "power_w", 1e-3, "power", "d1", "W"},
    {"temperature_c", "temperature_c", 1, "temperature", "d0", "C"},
    {"utilization", "utilization", 1, "utilization", "d0", "%"},
    {0},
};

struct telemetry_window {
    int64_t start_ns, end_ns;
    int64_t from, to; /* lines */
};

/* start_ns -1: nothing was timed */
static struct telemetry_window window_of(const struct rp_telemetry *s, int64_t start_ns, int64_t end_ns)
{
    struct telemetry_window w = {.start_ns = start_ns, .end_ns = end_ns};
    while (w.from < s->n && (w.start_ns < 0 || rp_sample_ns(s, w.from) < w.start_ns))
        w.from++;
    for (w.to = w.from; w.to < s->n && rp_sample_ns(s, w.to) <= w.end_ns;)
        w.to++;
    return w;
}

static int64_t samples_timed(const struct rp_records *rs)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rs->n; i++)
        n += rs->r[i].timed ? rs->r[i].samples : 0;
    return n;
}

/* {"min", "median", "mean", "max"} of one value over the window; null if no sample has it. */
static json_t *spread(const struct rp_telemetry *s, const struct telemetry_window *w, const char *key, double scale)
{
    size_t n = 0;
    double sum = 0;
    RP_FREE double *v = rp_alloc((size_t)(w->to - w->from + 1) * sizeof *v);
    for (int64_t i = w->from; i < w->to; i++) {
        const json_t *x = json_object_get(json_array_get(s->line, (size_t)i), key);
        if (!x)
            continue;
        v[n] = json_number_value(x) * scale;
        sum += v[n++];
    }
    if (!n)
        return json_null();
    double median = rp_median(v, n); /* which sorts them */
    return json_pack("{s:f, s:f, s:f, s:f}", "min", v[0], "median", median, "mean", sum / (double)n, "max", v[n - 1]);
}

/* Each reason with the share of the samples that name it; null if no sample has any. */
static json_t *throttle(const struct rp_telemetry *s, const struct telemetry_window *w)
{
    json_t *counts = json_object(), *count, *word;
    int64_t known = 0;
    size_t k;
    const char *name;
    for (int64_t i = w->from; i < w->to; i++) {
        const json_t *list = json_object_get(json_array_get(s->line, (size_t)i), "throttle");
        known += list != NULL;
        json_array_foreach((json_t *)list, k, word)
            json_object_set_new(counts, json_string_value(word), json_integer(integer(counts, json_string_value(word)) + 1));
    }
    json_object_foreach(counts, name, count)
        json_object_set_new(counts, name, json_real((double)json_integer_value(count) / (double)known));
    if (known)
        return counts;
    json_decref(counts);
    return json_null();
}

static json_t *number_or_null(int known, double x)
{
    return known ? json_real(x) : json_null();
}

/* joules: NAN: unknown. samples: -1: of one of several ranks */
static void add_energy(json_t *out, double joules, int64_t samples, const char *formula)
{
    json_object_set_new(out, "energy_j", number_or_null(!isnan(joules), joules));
    if (samples >= 0)
        json_object_set_new(out, "energy_per_sample_j", number_or_null(!isnan(joules) && samples > 0, joules / (double)samples));
    json_object_set_new(out, "energy_formula", json_string(formula));
}

static json_t *figures_of(const struct rp_telemetry *s, const struct telemetry_window *w, int64_t samples, const char *formula)
{
    json_t *out = json_pack("{s:s, s:I, s:I, s:f, s:s, s:I}", "sha256", s->sha256, "count", (json_int_t)s->n, "every",
                            (json_int_t)s->every, "period_s", RP_TELEMETRY_PERIOD_NS / 1e9, "window", WINDOW, "timed",
                            (json_int_t)(w->to - w->from));
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++)
        json_object_set_new(out, v->name, spread(s, w, v->key, v->scale));
    json_object_set_new(out, "throttle", throttle(s, w));
    const json_t *mean = rp_json_at(out, "power_w/mean");
    add_energy(out, mean ? json_number_value(mean) * ((double)(w->end_ns - w->start_ns) / 1e9) : NAN, samples, formula);
    return out;
}

json_t *rp_telemetry_json(const struct rp_telemetry *s, const struct rp_records *rs)
{
    int64_t start = -1, end = 0;
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].timed) {
            start = start < 0 ? rs->r[i].start_ns : start;
            end = rs->r[i].end_ns;
        }
    const struct telemetry_window w = window_of(s, start, end);
    return figures_of(s, &w, samples_timed(rs), ENERGY_OF_ONE);
}

json_t *rp_telemetry_of_rank(const struct rp_telemetry *s, const struct rp_rank_share *share)
{
    const struct telemetry_window w = window_of(s, share->from_ns, share->from_ns + share->span_ns);
    return figures_of(s, &w, -1, ENERGY);
}

/* ---- of several ranks ---- */

/* {"min", "median", "mean", "max"} of those of the ranks that have any; null: none has. */
static json_t *spread_of_all(const json_t *ranks, const char *name)
{
    const size_t n = json_array_size(ranks);
    RP_FREE double *median = rp_alloc((n + 1) * sizeof *median);
    double low = INFINITY, high = -INFINITY, sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_object_get(json_object_get(json_array_get(ranks, i), "telemetry"), name);
        if (!json_is_object(one))
            continue;
        low = fmin(low, rp_json_number_at(one, "min"));
        high = fmax(high, rp_json_number_at(one, "max"));
        sum += rp_json_number_at(one, "mean");
        median[known++] = rp_json_number_at(one, "median");
    }
    if (!known)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f}", "min", low, "median", rp_median(median, known), "mean", sum / (double)known, "max", high);
}

static json_t *throttle_of_all(const json_t *ranks)
{
    json_t *sum = json_object(), *share;
    const char *name;
    int known = 0;
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        const json_t *one = rp_json_at(json_array_get(ranks, i), "telemetry/throttle");
        known += json_is_object(one);
        json_object_foreach((json_t *)one, name, share)
            json_object_set_new(sum, name, json_real(json_number_value(json_object_get(sum, name)) + json_number_value(share)));
    }
    json_object_foreach(sum, name, share)
        json_real_set(share, json_real_value(share) / known);
    if (known)
        return sum;
    json_decref(sum);
    return json_null();
}

json_t *rp_telemetry_of_all(const json_t *ranks, const struct rp_records *rs)
{
    int64_t count = 0, timed = 0, every = 1, with = 0;
    double joules = 0;
    const char *reason = NULL;
    RP_BUF digests = {0};
    char sha256[RP_SHA256_HEX];
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        const json_t *rank = json_array_get(ranks, i), *one = json_object_get(rank, "telemetry"), *energy = json_object_get(one, "energy_j");
        if (strcmp(rp_json_text_at(rank, "device/kind"), "cpu") == 0)
            continue;
        joules = json_is_number(energy) ? joules + json_number_value(energy) : NAN; /* of all devices, or unknown */
        if (json_object_get(one, "reason"))
            reason = reason ? reason : rp_json_text_at(one, "reason");
        if (!json_object_get(one, "count"))
            continue;
        with++;
        count += integer(one, "count");
        timed += integer(one, "timed");
        every = integer(one, "every") > every ? integer(one, "every") : every;
        rp_buf_printf(&digests, "%s\n", rp_json_text_at(one, "sha256"));
    }
    if (!with)
        return reason ? json_pack("{s:s}", "reason", reason) : NULL;
    rp_sha256_hex(sha256, digests.data, digests.size);
    json_t *out = json_pack("{s:I, s:s, s:I, s:I, s:f, s:s, s:I, s:s}", "ranks", (json_int_t)with, "sha256", sha256, "count", (json_int_t)count,
                            "every", (json_int_t)every, "period_s", RP_TELEMETRY_PERIOD_NS / 1e9, "window", WINDOW, "timed",
                            (json_int_t)timed, "formula", OF_ALL);
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++)
        json_object_set_new(out, v->name, spread_of_all(ranks, v->name));
    json_object_set_new(out, "throttle", throttle_of_all(ranks));
    add_energy(out, joules, samples_timed(rs), ENERGY_OF_ALL);
    return out;
}
