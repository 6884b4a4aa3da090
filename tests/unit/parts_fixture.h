/* Parts of which tests make bundles: a tiny recipe, records of steps that nobody computed, captures, devices, ceilings.
 *
 * What:    one rank on one processor, seven steps of 100 ms and a little.
 */
#pragma once

#include "backend/backend.h"
#include "base/build.h"
#include "base/json.h"
#include "capture/fields.h"
#include "tests/unit/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FX_ROOT "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define FX_START 1790000000000000000ull /* 2026-09-21T14:13:20Z */

static const char fx_recipe[] =
    "# A tiny run for tests\n"
    "title: tiny\n"
    "model: {vocab_size: 256, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
    "intermediate_size: 32, max_position_embeddings: 32}\n"
    "task: {seq_length: 16, max_predictions_per_seq: 2}\n"
    "train: {batch_size: 4}\n"
    "data: {archive: s.tar.zst, sha256: \"" FX_ROOT "\"}\n"
    "measure: {warmup_steps: 1, timed_steps: 3, repeats: 2}\n";

static const char fx_env[] =
    "{\"schema\": \"repro-env/1\", \"captured_at\": \"%s\", "
    "\"salt\": \"00112233445566778899aabbccddeeff\", \"identified\": false, "
    "\"probes\": {\"cpu\": {\"model\": {\"state\": \"ok\", \"value\": \"A | B <b>\", \"source\": \"/proc/cpuinfo\"}, "
    "\"l3\": {\"state\": \"absent\", \"value\": null, \"source\": \"/sys\"}}}}";

/* The default schedule at a step that counts from 0; tests of other recipes set its peak. */
static double fx_peak = 1e-4;

static double fx_rate(int step)
{
    return fx_peak * (1.0 - (step + 1) / 1e6);
}

/* What fx_step() writes as the waiting for samples. */
static int64_t fx_input_ns;

/* A loss and its first part in a record: the second is 0. */
#define FX_LOSS(x) "\"loss\":\"" x "\",\"loss_parts\":{\"mlm\":\"" x "\""

static void fx_step(struct rp_buf *out, int step, int warm, int timed, int64_t start, int64_t ns, int64_t root_ns)
{
    int t = step - warm;
    rp_buf_printf(out,
                  "{\"counters\":{\"padded_tokens\":64,\"tokens\":%d},\"end_ns\":%lld,\"grad_norm\":\"0x1.%dp+1\","
                  "\"input_ns\":%lld,\"learning_rate\":%.17g,"
                  "\"loss\":\"0x1.%dp+2\",\"loss_parts\":{\"mlm\":\"0x1.%dp+2\",\"nsp\":\"0x0p+0\"},\"phase\":\"%s\","
                  "\"rank\":0,\"repeat\":%d,",
                  50 + step % 14, (long long)(start + ns), step % 9 + 1, (long long)fx_input_ns, fx_rate(step),
                  9 - step % 9, 9 - step % 9, t < 0 ? "warm-up" : "timed", t < 0 ? 0 : t / timed);
    if (root_ns)
        rp_buf_printf(out, "\"root_ns\":%lld,", (long long)root_ns);
    rp_buf_printf(out, "\"samples\":4,\"start_ns\":%lld,%s\"step\":%d}\n", (long long)start,
                  root_ns ? "\"state_root\":\"" FX_ROOT "\"," : "", step);
}

/* Steps between state roots, in addition to those before the first and after the last; 0: none. */
static int fx_root_every;

/* Steps of 100 ms and a little, 1 ms apart, of which 0.3 ms wait for samples; state roots; the first n of them. */
static void fx_records_until(struct rp_buf *out, int warm, int timed, int repeats, int n)
{
    int64_t now = 5000000000;
    int all = warm + timed * repeats;
    rp_buf_puts(out,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < n; i++) {
        int64_t ns = 100000000 + 1000003 * ((i % 7) * (i % 7) % 7);
        fx_input_ns = 300000 + 1001 * i;
        const int64_t root_ns = fx_root_every && (i + 1) % fx_root_every == 0 ? 500000 : 0;
        fx_step(out, i, warm, timed, now, ns, i + 1 == all ? 2000000 : root_ns);
        now += ns + 1000000;
    }
    fx_input_ns = 0;
}

static __attribute__((unused)) void fx_records(struct rp_buf *out, int warm, int timed, int repeats)
{
    fx_records_until(out, warm, timed, repeats, warm + timed * repeats);
}

/* A value "group.name" where there is none: NULL is one that the machine does not have. */
static void fx_leaf(json_t *probes, const char *leaf, const char *value)
{
    const char *dot = strchr(leaf, '.');
    RP_FREE char *group = rp_asprintf("%.*s", (int)(dot - leaf), leaf);
    if (!json_object_get(probes, group))
        json_object_set_new(probes, group, json_object());
    if (!json_object_get(json_object_get(probes, group), dot + 1))
        json_object_set_new(
            json_object_get(probes, group), dot + 1,
            json_pack("{s:s, s:s?, s:s}", "state", value ? "ok" : "absent", "value", value, "source", "/proc"));
}

/* What every capture has. */
static void fx_leaves(json_t *probes)
{
    const struct rp_build *b = rp_build_record();
    const char *const known[][2] = {{"kernel.release", "6.1.0"},       {"program.version", b->version},
                                    {"program.commit", b->commit},     {"program.source_state", b->dirty},
                                    {"program.compiler", b->compiler}, {"program.flags", b->flags}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        fx_leaf(probes, known[i][0], known[i][1]);
#define LEAF(name) fx_leaf(probes, name, NULL);
#define KNOWN(name) LEAF(name)
#include "capture/leaves.def"
#undef LEAF
#undef KNOWN
#define PROBE(name)                                                                                                    \
    if (!json_object_get(probes, #name))                                                                               \
        json_object_set_new(probes, #name, json_object());
#include "capture/probes.def"
#undef PROBE
}

static json_t *fx_capture(const char *when)
{
    struct rp_err err;
    char text[1024];
    snprintf(text, sizeof text, fx_env, when);
    json_t *j = rp_json_parse(text, strlen(text), "env", &err);
    if (!j)
        abort();
    fx_leaves(json_object_get(j, "probes"));
    return j;
}

/* A value as captures have it today: a field that moved is in fields.def under another name, and its test must not
 * go on without it. */
static __attribute__((unused)) void fx_capture_value(json_t *capture, const char *group, const char *name,
                                                     json_t *value)
{
    RP_FREE char *field = rp_asprintf("%s.%s", group, name);
    CHECK(rp_field_find(field, '.'), "no capture has %s", field);
    json_t *probes = json_object_get(capture, "probes");
    if (!json_object_get(probes, group))
        json_object_set_new(probes, group, json_object());
    json_object_set_new(json_object_get(probes, group), name,
                        json_pack("{s:s, s:o, s:s}", "state", "ok", "value", value, "source", "/proc"));
}

/* A device in short: "isa=avx2 threads=1", or "gpu0 NVIDIA H100 PCIe sm_90". */
static json_t *fx_device(const char *text)
{
    struct rp_device_info d = {.kind = "cpu"};
    const char *arch = text;
    if (sscanf(text, "isa=%15s threads=%d", d.isa, &d.threads) == 2)
        return rp_device_json(&d);
    for (const char *p = text; (p = strstr(p, " sm_")); p++)
        arch = p;
    snprintf(d.kind, sizeof d.kind, "cuda");
    snprintf(d.name, sizeof d.name, "%.*s", arch > text ? (int)(arch - text) - 5 : 127, text + 5);
    sscanf(text, "gpu%d", &d.index);
    int capability = arch > text ? (int)strtol(arch + 4, NULL, 10) : 80;
    d.major = capability / 10;
    d.minor = capability % 10;
    return rp_device_json(&d);
}

/* Products of 805 MFLOP in 10 ms: 80 GFLOP/s. */
static json_t *fx_ceiling(int64_t shortest)
{
    return json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:[I, I]}, s:{s:I, s:i, s:[I]}}", "clock", "host", "gemm", "m", 512,
                     "n", 1024, "k", 768, "calls", 1, "ns", (json_int_t)shortest + 7, (json_int_t)shortest, "copy",
                     "bytes", (json_int_t)67108864, "calls", 1, "ns", (json_int_t)12345678);
}

static json_t *fx_ceilings(int64_t before, int64_t after)
{
    return json_pack("{s:o, s:o}", "before", fx_ceiling(before), "after", fx_ceiling(after));
}

/* ---- bending texts ---- */

/* The first `was` of a text replaced; "" stands for the end and "^" for the beginning. */
static __attribute__((unused)) void fx_bend(struct rp_buf *b, const char *was, const char *is)
{
    RP_BUF out = {0};
    int begin = strcmp(was, "^") == 0;
    const char *at = !*was ? b->data + b->size : begin ? b->data : strstr(b->data, was);
    if (!CHECK(at, "no '%s'", was))
        return;
    rp_buf_add(&out, b->data, (size_t)(at - b->data));
    rp_buf_puts(&out, is);
    at += begin ? 0 : strlen(was);
    rp_buf_add(&out, at, b->size - (size_t)(at - b->data));
    rp_buf_fini(b);
    *b = out;
    out = (struct rp_buf){0};
}

/* A line of records with steps that are so many nanoseconds shorter: those of two ranks never take equally long. */
static char *fx_shorter(const char *line, int length, int ns)
{
    char *text = rp_asprintf("%.*s", length, line), *at = strstr(text, "\"end_ns\":"), *rest;
    if (!at)
        return text;
    const long long end = strtoll(at + 9, &rest, 10);
    char *shorter = rp_asprintf("%.*s%lld%s", (int)(at + 9 - text), text, end - ns, rest);
    free(text);
    return shorter;
}

/* The records of `steps` as those of another rank: 10 ms of each step in exchanges, of which it waited half a ms
 * times its number. */
static __attribute__((unused)) void fx_records_of_rank(struct rp_buf *out, const struct rp_buf *steps, int rank)
{
    const char *line = steps->data, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        RP_FREE char *text = fx_shorter(line, (int)(end - line), rank);
        char *number = strstr(text, "\"rank\":0,"), *grad = strstr(text, "\"grad_norm\"");
        if (grad)
            rp_buf_printf(out, "%.*s\"exchange_ns\":10000000,", (int)(grad - text), text);
        rp_buf_printf(out, "%.*s\"rank\":%d,%.*s", (int)(number - (grad ? grad : text)), grad ? grad : text, rank,
                      (int)strlen(number) - 10, number + 9);
        if (grad)
            rp_buf_printf(out, ",\"wait_ns\":%d", rank * 500000);
        rp_buf_puts(out, "}\n");
    }
}

/* The records of a replication: keyed roots in that of the initial state and in the last one. */
static __attribute__((unused)) void fx_keyed(struct rp_buf *steps)
{
    RP_BUF out = {0};
    char *last = NULL;
    fx_bend(steps, "{\"phase\":\"init\"", "{\"keyed_root\":\"" FX_ROOT "\",\"phase\":\"init\"");
    for (char *at = steps->data; (at = strstr(at, "\"learning_rate\"")); at++)
        last = at;
    rp_buf_add(&out, steps->data, (size_t)(last - steps->data));
    rp_buf_puts(&out, "\"keyed_root\":\"" FX_ROOT "\",");
    rp_buf_puts(&out, last);
    rp_buf_fini(steps);
    *steps = out;
    out = (struct rp_buf){0};
}
