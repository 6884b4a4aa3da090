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

static void free_samples(struct rp_device_sample *list, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        rp_object_fini(&list[i], &rp_type_device_sample);
    free(list);
}

/* Keeps every second one. */
static void thin_out(struct rp_sampling *s)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (i % 2)
            rp_object_fini(&s->sample[i], &rp_type_device_sample);
        else
            s->sample[kept++] = s->sample[i];
    s->n = kept;
    s->every *= 2;
}

int64_t rp_telemetry_most(int ranks)
{
    int64_t most = RP_TELEMETRY_MAX;
    while (most > LINES_LEAST && most * ranks > LINES_OF_ALL)
        most /= 2;
    return most;
}

int64_t rp_telemetry_most_of_command(int devices)
{
    return rp_telemetry_most(2 * devices);
}

void rp_sampling_add(struct rp_sampling *s, const json_t *body)
{
    struct rp_err err;
    const struct rp_schema *schema = rp_facts_schema("telemetry", &err);
    const char *reason = json_string_value(json_object_get(body, "reason"));
    const int64_t most = s->most ? s->most : RP_TELEMETRY_MAX;
    struct rp_device_sample one = {.n = -1};
    if (*s->reason)
        return;
    s->every = s->every ? s->every : 1;
    if (reason) {
        rp_ascii(s->reason, sizeof s->reason, *reason ? reason : "the GPU worker gave no reason");
        return;
    }
    if (schema && rp_schema_check(schema, body, "telemetry", &err) == 0)
        rp_object_read(&one, &rp_type_device_sample, body);
    if (one.n != s->next || one.ns <= s->last_ns) {
        snprintf(s->reason, sizeof s->reason, "the GPU worker sent something that is not a device sample");
        rp_object_fini(&one, &rp_type_device_sample);
        return;
    }
    s->last_ns = one.ns;
    if (s->next++ % s->every != 0) {
        rp_object_fini(&one, &rp_type_device_sample);
        return;
    }
    *(struct rp_device_sample *)rp_object_add(&s->sample, &s->n, &rp_type_device_sample) = one;
    if (s->n > most)
        thin_out(s);
}

void rp_sampling_write(struct rp_buf *out, const struct rp_sampling *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        RP_JSON *line = rp_object_json(&s->sample[i], &rp_type_device_sample);
        rp_json_write_line(out, line);
    }
}

void rp_sampling_fini(struct rp_sampling *s)
{
    free_samples(s->sample, s->n);
    *s = (struct rp_sampling){0};
}

/* ---- parsing ---- */

void rp_telemetry_fini(struct rp_telemetry *s)
{
    free_samples(s->sample, s->n);
    *s = (struct rp_telemetry){0};
}

double rp_sample_value(const struct rp_device_sample *s, const char *key)
{
    const struct rp_object_field *f = rp_type_device_sample.field;
    while (strcmp(f->name, key) != 0)
        f++;
    const int64_t value = *(const int64_t *)((const char *)s + f->offset);
    return value == RP_NO_INTEGER ? NAN : (double)value;
}

int rp_throttle_is_harmless(const char *reason)
{
    static const char *const harmless[] = {"gpu_idle", "applications_clocks_setting", "sync_boost",
                                           "display_clock_setting"};
    return RP_IS_IN(harmless, reason, strlen(reason));
}

/* Appends a line; the number of the second line gives the distance of all. */
static int add_line(struct rp_telemetry *s, const struct rp_schema *schema, const char *name, int64_t most,
                    const char *text, size_t size, struct rp_err *err)
{
    char what[80];
    RP_BUF again = {0};
    snprintf(what, sizeof what, "%.50s:%" PRId64, name, s->n + 1);
    if (s->n == most)
        return rp_fail(err, RP_MISMATCH, "%s: more than %" PRId64 " lines", what, most);
    RP_JSON *line = rp_json_parse(text, size, what, err);
    if (!line || rp_schema_check(schema, line, what, err) < 0)
        return -1;
    rp_json_write_line(&again, line);
    if (!rp_buf_is(&again, text, size))
        return rp_fail(err, RP_MALFORMED, "%s is not written as this program writes it (order, white space, numbers)",
                       what);
    struct rp_device_sample *one = rp_object_add(&s->sample, &s->n, &rp_type_device_sample);
    rp_object_read(one, &rp_type_device_sample, line);
    const int64_t before = s->n - 1;
    if (before == 1)
        s->every = one->n;
    if (one->n != before * s->every || s->every < 1 || (s->every & (s->every - 1)))
        return rp_fail(err, RP_MISMATCH, "%s is device sample %" PRId64 ": some are missing before it", what, one->n);
    if (before && one->ns <= one[-1].ns)
        return rp_fail(err, RP_MISMATCH, "%s was taken before the one before it", what);
    return 0;
}

int rp_telemetry_parse(struct rp_telemetry *out, const char *name, int64_t most, const char *text, size_t size,
                       struct rp_err *err)
{
    const struct rp_schema *schema = rp_facts_schema("telemetry", err);
    *out = (struct rp_telemetry){.every = 1};
    rp_sha256_hex(out->sha256, text, size);
    int failed = !schema;
    for (size_t at = 0, n; at < size && !failed; at += n) {
        const char *end = memchr(text + at, '\n', size - at);
        n = end ? (size_t)(end - text) + 1 - at : size - at;
        failed = add_line(out, schema, name, most, text + at, n, err) < 0;
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
