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
