#include "report/telemetry.h"

#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW "device samples from the start of the first timed step to the end of the last"
#define ENERGY                                                                                                                 \
    "mean of power_w * seconds from the start of the first timed step to the end of the last; per training sample: / samples trained there"

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

void rp_sampling_add(struct rp_sampling *s, const json_t *body)
{
    struct rp_err err;
    const char *reason = json_string_value(json_object_get(body, "reason"));
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
    if (json_array_size(s->line) > RP_TELEMETRY_MAX)
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
static int add_line(struct rp_telemetry *s, const struct rp_schema *schema, const char *text, size_t size, struct rp_err *err)
{
    char what[64];
    RP_BUF again = {0};
    snprintf(what, sizeof what, "%s:%" PRId64, RP_OF_RANK(0, ".telemetry.jsonl"), s->n + 1);
    if (s->n == RP_TELEMETRY_MAX)
        return rp_fail(err, RP_MISMATCH, "%s: more than %d lines", what, RP_TELEMETRY_MAX);
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

int rp_telemetry_parse(struct rp_telemetry *out, const char *text, size_t size, struct rp_err *err)
{
    const struct rp_schema *schema = rp_schema_load("telemetry", err);
    *out = (struct rp_telemetry){.line = json_array(), .every = 1};
    rp_sha256_hex(out->sha256, text, size);
    int failed = !schema;
    for (size_t at = 0, n; at < size && !failed; at += n) {
        const char *end = memchr(text + at, '\n', size - at);
        n = end ? (size_t)(end - text) + 1 - at : size - at;
        failed = add_line(out, schema, text + at, n, err) < 0;
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
    int64_t start_ns, end_ns, samples; /* samples trained */
    int64_t from, to;                  /* lines */
};

static struct telemetry_window window_of(const struct rp_telemetry *s, const struct rp_records *rs)
{
    struct telemetry_window w = {.start_ns = -1};
    for (int64_t i = 0; i < rs->n; i++) {
        if (!rs->r[i].timed)
            continue;
        w.start_ns = w.start_ns < 0 ? rs->r[i].start_ns : w.start_ns;
        w.end_ns = rs->r[i].end_ns;
        w.samples += rs->r[i].samples;
    }
    while (w.from < s->n && (w.start_ns < 0 || rp_sample_ns(s, w.from) < w.start_ns))
        w.from++;
    for (w.to = w.from; w.to < s->n && rp_sample_ns(s, w.to) <= w.end_ns;)
        w.to++;
    return w;
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

static void add_energy(json_t *out, const struct telemetry_window *w)
{
    const json_t *mean = json_object_get(json_object_get(out, "power_w"), "mean");
    double energy = json_number_value(mean) * ((double)(w->end_ns - w->start_ns) / 1e9);
    json_object_set_new(out, "energy_j", mean ? json_real(energy) : json_null());
    json_object_set_new(out, "energy_per_sample_j", mean && w->samples ? json_real(energy / (double)w->samples) : json_null());
    json_object_set_new(out, "energy_formula", json_string(ENERGY));
}

json_t *rp_telemetry_json(const struct rp_telemetry *s, const struct rp_records *rs)
{
    struct telemetry_window w = window_of(s, rs);
    json_t *out = json_pack("{s:s, s:I, s:I, s:f, s:s, s:I}", "sha256", s->sha256, "count", (json_int_t)s->n, "every",
                            (json_int_t)s->every, "period_s", RP_TELEMETRY_PERIOD_NS / 1e9, "window", WINDOW, "timed",
                            (json_int_t)(w.to - w.from));
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++)
        json_object_set_new(out, v->name, spread(s, &w, v->key, v->scale));
    json_object_set_new(out, "throttle", throttle(s, &w));
    add_energy(out, &w);
    return out;
}
