/* A small honest bundle without training: synthetic records, a tiny recipe, two captures. Tests bend one part and seal again.
 * Above 600 lines: the parts of one made bundle, which change together. */
#pragma once

#include "backend/backend.h"
#include "base/build.h"
#include "base/json.h"
#include "bundle/bundle.h"
#include "capture/fields.h"
#include "recipe/recipe.h"
#include "report/report.h"
#include "run/results.h"
#include "run/run_json.h"
#include "run/world.h"
#include "sign/challenge.h"
#include "sign/key.h"
#include "verify/verify.h"
#include "train/train.h"
#include "worker/job.h"
#include "worker/worker.h"
#include "tests/unit/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FX_ROOT "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define FX_START 1790000000000000000ull /* 2026-09-21T14:13:20Z */

static const char fx_recipe[] = "# A tiny run for tests\n"
                                "title: tiny\n"
                                "model: {vocab_size: 256, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
                                "intermediate_size: 32, max_position_embeddings: 32}\n"
                                "task: {seq_length: 16, max_predictions_per_seq: 2}\n"
                                "train: {batch_size: 4}\n"
                                "data: {archive: s.tar.zst, sha256: \"" FX_ROOT "\"}\n"
                                "measure: {warmup_steps: 1, timed_steps: 3, repeats: 2}\n";

static const char fx_env[] = "{\"schema\": \"repro-env/1\", \"captured_at\": \"%s\", "
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

enum { FX_RANKS = 16 };

struct fx {
    struct rp_recipe recipe;
    struct rp_buf steps, report, telemetry;
    struct rp_buf challenge; /* that the run answers; empty: none */
    json_t *run, *before, *after;
    const char *backend, *device; /* NULL: "cpu", "isa=avx2 threads=1"; fx_device() */
    const char *no_telemetry;
    struct rp_comm *place;              /* of rank 0 among several; NULL: one rank */
    const struct rp_records *joined;    /* of all of them, instead of `steps` */
    json_t *world;                      /* rp_world_json() of them */
    json_t *done;                 /* what the worker's last record has besides, or NULL */
    int ranks, nodes;             /* of a run of several data-parallel ranks; 0: one */
    long long ahead_ns;           /* the clocks of nodes after the first */
    struct rp_buf of_rank[FX_RANKS];            /* their records; made of `steps` where empty */
    struct rp_buf telemetry_of[FX_RANKS];       /* and device samples, in the place of `telemetry` */
    json_t *hello[FX_RANKS], *ended[FX_RANKS];  /* what their workers sent first and last; NULL: as of rank 0 */
    json_t *node_before[FX_RANKS], *node_after[FX_RANKS]; /* captures of nodes after the first; NULL: as of node 0 */
};

/* The scratch directory; XDG_CONFIG_HOME points into it, so no test sees the user's keys. */
static __attribute__((unused)) const char *fx_dir(void)
{
    if (!*scratch_path) {
        setenv("XDG_CONFIG_HOME", scratch_dir(), 1);
        unsetenv("REPRO_KEY");
    }
    return scratch_path;
}

static __attribute__((unused)) char *fx_path(const char *name)
{
    return rp_asprintf("%s/%s", fx_dir(), name);
}

static void fx_step(struct rp_buf *out, int step, int warm, int timed, int64_t start, int64_t ns, int64_t root_ns)
{
    int t = step - warm;
    rp_buf_printf(out, "{\"counters\":{\"padded_tokens\":64,\"tokens\":%d},\"end_ns\":%lld,\"grad_norm\":\"0x1.%dp+1\",\"input_ns\":%lld,\"learning_rate\":%.17g,"
                       "\"loss\":\"0x1.%dp+2\",\"loss_parts\":{\"mlm\":\"0x1.%dp+2\",\"nsp\":\"0x0p+0\"},\"phase\":\"%s\",\"rank\":0,\"repeat\":%d,",
                  50 + step % 14, (long long)(start + ns), step % 9 + 1, (long long)fx_input_ns, fx_rate(step), 9 - step % 9, 9 - step % 9,
                  t < 0 ? "warm-up" : "timed", t < 0 ? 0 : t / timed);
    if (root_ns)
        rp_buf_printf(out, "\"root_ns\":%lld,", (long long)root_ns);
    rp_buf_printf(out, "\"samples\":4,\"start_ns\":%lld,%s\"step\":%d}\n", (long long)start,
                  root_ns ? "\"state_root\":\"" FX_ROOT "\"," : "", step);
}

/* Steps of 100 ms and a little, 1 ms apart, of which 0.3 ms wait for samples; state roots before the first and after the last; the first n of them. */
static void fx_records_until(struct rp_buf *out, int warm, int timed, int repeats, int n)
{
    int64_t now = 5000000000;
    int all = warm + timed * repeats;
    rp_buf_puts(out, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < n; i++) {
        int64_t ns = 100000000 + 1000003 * ((i % 7) * (i % 7) % 7);
        fx_input_ns = 300000 + 1001 * i;
        fx_step(out, i, warm, timed, now, ns, i + 1 == all ? 2000000 : 0);
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
        json_object_set_new(json_object_get(probes, group), dot + 1,
                            json_pack("{s:s, s:s?, s:s}", "state", value ? "ok" : "absent", "value", value, "source", "/proc"));
}

/* What every capture has. */
static void fx_leaves(json_t *probes)
{
    const struct rp_build *b = rp_build_record();
    const char *const known[][2] = {{"kernel.release", "6.1.0"},        {"program.version", b->version},   {"program.commit", b->commit},
                                    {"program.source_state", b->dirty}, {"program.compiler", b->compiler}, {"program.flags", b->flags}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        fx_leaf(probes, known[i][0], known[i][1]);
#define LEAF(name) fx_leaf(probes, name, NULL);
#define KNOWN(name) LEAF(name)
#include "capture/leaves.def"
#undef LEAF
#undef KNOWN
#define PROBE(name)                                                                                                                        \
    if (!json_object_get(probes, #name))                                                                                                   \
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

/* A value as captures have it today: a field that moved is in fields.def under another name, and its test must not go on without it. */
static __attribute__((unused)) void fx_capture_value(json_t *capture, const char *group, const char *name, json_t *value)
{
    RP_FREE char *field = rp_asprintf("%s.%s", group, name);
    CHECK(rp_field_find(field, '.'), "no capture has %s", field);
    json_t *probes = json_object_get(capture, "probes");
    if (!json_object_get(probes, group))
        json_object_set_new(probes, group, json_object());
    json_object_set_new(json_object_get(probes, group), name, json_pack("{s:s, s:o, s:s}", "state", "ok", "value", value, "source", "/proc"));
}

/* The same in both; takes the value. */
static __attribute__((unused)) void fx_capture_both(struct fx *x, const char *group, const char *name, json_t *value)
{
    fx_capture_value(x->before, group, name, json_incref(value));
    fx_capture_value(x->after, group, name, value);
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

static json_t *fx_plan(const struct rp_recipe *r, struct rp_comm *place)
{
    struct rp_err err;
    struct rp_plan plan = {0}, largest = {0};
    struct rp_device_opts o = {.isa = "avx2", .threads = 1};
    struct rp_recipe most = *r;
    most.train_batch_size = 1000;
    int failed = rp_train_size(&plan, r, place, &rp_backend_cpu, &o, &err) < 0 ||
                 rp_train_size(&largest, &most, place, &rp_backend_cpu, &o, &err) < 0;
    CHECK(failed == 0, "plan: %s", err.msg);
    plan.available = largest.total; /* of a machine that has room for just that */
    plan.max_batch = most.train_batch_size;
    return rp_plan_to_json(&plan);
}

/* report.md from what run.json and the records say now. */
static __attribute__((unused)) int fx_report(struct fx *x, struct rp_err *err)
{
    struct rp_records records;
    if (rp_records_parse(&records, x->steps.data, x->steps.size, err) < 0)
        return -1;
    struct rp_report_source from = {
        .run = x->run, .before = x->before, .after = x->after, .recipe = &x->recipe.source, .records = x->joined ? x->joined : &records};
    rp_buf_fini(&x->report);
    int failed = rp_report_md(&x->report, &from, err);
    rp_records_fini(&records);
    return failed;
}

/* A section of the report, named by the beginning of its heading, is compared with the words of the test. */
static __attribute__((unused)) void fx_said(const struct fx *x, const char *heading)
{
    const char *at = strstr(x->report.data, heading);
    if (!CHECK(at, "no section '%s' in: %s", heading, x->report.data))
        return;
    const char *end = strstr(at + 1, "\n## ");
    RP_FREE char *text = end ? rp_asprintf("%.*s", (int)(end - at), at) : rp_strdup(at);
    SAID(text);
}

/* Products of 805 MFLOP in 10 ms: 80 GFLOP/s. */
static json_t *fx_ceiling(int64_t shortest)
{
    return json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:[I, I]}, s:{s:I, s:i, s:[I]}}", "clock", "host", "gemm", "m", 512, "n", 1024,
                     "k", 768, "calls", 1, "ns", (json_int_t)shortest + 7, (json_int_t)shortest, "copy", "bytes", (json_int_t)67108864,
                     "calls", 1, "ns", (json_int_t)12345678);
}

static json_t *fx_ceilings(int64_t before, int64_t after)
{
    return json_pack("{s:o, s:o}", "before", fx_ceiling(before), "after", fx_ceiling(after));
}

/* The run was made by a build of another commit. */
static __attribute__((unused)) void fx_other_build(struct fx *x)
{
    json_t *commit = json_string("0123456789abcdef0123456789abcdef01234567");
    json_object_set(json_object_get(x->run, "tool"), "commit", commit);
    fx_capture_both(x, "program", "commit", commit);
}

/* The devices of both captures, which take the reference. */
static __attribute__((unused)) void fx_gpus(struct fx *x, json_t *devices)
{
    json_object_set(json_object_get(json_object_get(x->before, "probes"), "gpu"), "devices", devices);
    json_object_set_new(json_object_get(json_object_get(x->after, "probes"), "gpu"), "devices", devices);
}

/* What a run on a GPU has: it in both captures, where they have none, and uploads in the ceilings. */
static void fx_on_gpu(struct fx *x, const char *name, json_t *done)
{
    static const char *const sides[] = {"before", "after"};
    if (!json_object_get(json_object_get(json_object_get(x->before, "probes"), "gpu"), "devices"))
        fx_gpus(x, json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "name", "state", "ok", "value", name, "source", "NVML"));
    for (int i = 0; i < 2; i++)
        json_object_set_new(json_object_get(json_object_get(done, "ceilings"), sides[i]), "host_to_device",
                            json_pack("{s:i, s:i, s:[i]}", "bytes", 67108864, "calls", 1, "ns", 5000000));
}

/* ---- several ranks ---- */

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

/* The records of `steps` as those of another rank: 10 ms of each step in exchanges, of which it waited half a ms times its number. */
static __attribute__((unused)) void fx_records_of_rank(struct rp_buf *out, const struct rp_buf *steps, int rank)
{
    const char *line = steps->data, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        RP_FREE char *text = fx_shorter(line, (int)(end - line), rank);
        char *number = strstr(text, "\"rank\":0,"), *grad = strstr(text, "\"grad_norm\"");
        if (grad)
            rp_buf_printf(out, "%.*s\"exchange_ns\":10000000,", (int)(grad - text), text);
        rp_buf_printf(out, "%.*s\"rank\":%d,%.*s", (int)(number - (grad ? grad : text)), grad ? grad : text, rank, (int)strlen(number) - 10,
                      number + 9);
        if (grad)
            rp_buf_printf(out, ",\"wait_ns\":%d", rank * 500000);
        rp_buf_puts(out, "}\n");
    }
}

static int fx_all_ranks(struct rp_all_ranks *a, struct rp_records *all, struct fx *x, struct rp_err *err)
{
    int failed = 0;
    *all = (struct rp_records){0};
    rp_all_ranks_init(a, (struct rp_degrees){x->ranks, 1, 1});
    for (int i = 0; i < x->ranks && !failed; i++) {
        struct rp_records one;
        if (!x->of_rank[i].size)
            fx_records_of_rank(&x->of_rank[i], &x->steps, i);
        failed = rp_records_parse_rank(&one, i, x->of_rank[i].data, x->of_rank[i].size, err) < 0 || rp_all_ranks_add(a, all, &one, err) < 0;
    }
    if (failed)
        rp_records_fini(all);
    return failed ? -1 : 0;
}

/* How rank `rank` of n is connected with the others. Returns text. */
static const char *fx_transport(char text[64], const int *host, int rank, int n, int on_gpus)
{
    int here = 0;
    for (int i = 0; i < n; i++)
        here += i != rank && host[i] == host[rank];
    const int away = n - 1 - here;
    const char *s = here == 1 ? "" : "s";
    if (on_gpus)
        snprintf(text, 64, "NCCL 2.20.5");
    else if (here && away)
        snprintf(text, 64, "%d rank%s by shared memory, %d by TLS", here, s, away);
    else if (here)
        snprintf(text, 64, "%d rank%s by shared memory", here, s);
    else
        snprintf(text, 64, "%d rank%s by TLS", away, away == 1 ? "" : "s");
    return text;
}

/* What a rank's last record says of exchanges, besides `done`. */
static json_t *fx_exchanged(const struct fx *x, const json_t *done, const struct rp_all_ranks *a, int rank, const int *host)
{
    char transport[64];
    struct rp_comm place = {.lost = -1, .host = host};
    struct rp_exchange_sizes n = {0};
    struct rp_err err;
    json_t *j = done ? json_deep_copy(done) : json_object();
    if (json_object_get(j, "exchange"))
        return j;
    rp_comm_place(&place, rank, a->degrees);
    CHECK(rp_train_exchange_at(&n, &x->recipe, &place, &err) == 0, "%s", err.msg);
    fx_transport(transport, host, rank, x->ranks, x->backend && strcmp(x->backend, "cuda") == 0);
    json_object_set_new(j, "exchange", json_pack("{s:s, s:i, s:I, s:I, s:I}", "transport", transport, "levels", n.levels, "bytes_per_step",
                                                 (json_int_t)n.sent_bytes, "bytes_per_step_between_hosts", (json_int_t)n.between_bytes,
                                                 "sent_bytes", (json_int_t)n.sent_bytes * 100000 + 1000));
    return j;
}

/* Figures of a rank's device samples; null: it has none. */
static json_t *fx_telemetry(const struct fx *x, const struct rp_all_ranks *a, int i)
{
    struct rp_telemetry t;
    struct rp_err err;
    if (!x->telemetry_of[i].size)
        return x->no_telemetry ? json_pack("{s:s}", "reason", x->no_telemetry) : json_null();
    if (rp_telemetry_parse(&t, i, x->ranks, x->telemetry_of[i].data, x->telemetry_of[i].size, &err) < 0) {
        CHECK(0, "rank %d: %s", i, err.msg);
        return json_null();
    }
    json_t *j = rp_telemetry_of_rank(&t, &a->share[i]);
    rp_telemetry_fini(&t);
    return j;
}

static json_t *fx_world(const struct fx *x, const struct rp_all_ranks *a, const json_t *device, const json_t *done)
{
    const json_t *hello[FX_RANKS], *ended[FX_RANKS], *telemetry[FX_RANKS];
    const long long ahead_ns = x->ahead_ns ? x->ahead_ns : 5000000; /* two machines do not start in the same millisecond */
    int host[FX_RANKS];
    RP_JSON *all = json_array(), *processes = json_array();
    for (int i = 0, own = 0; i < x->ranks; i++, own++) {
        host[i] = x->nodes > 1 ? i * x->nodes / x->ranks : 0;
        own = i && host[i] != host[i - 1] ? 0 : own;
        json_t *said = x->hello[i] ? json_deep_copy(x->hello[i]) : json_pack("{s:o}", "device", json_deep_copy(device));
        if (i && json_object_get(json_object_get(said, "device"), "index"))
            json_object_set_new(json_object_get(said, "device"), "index", json_integer(own));
        json_array_append_new(all, said);
        hello[i] = said;
        if (own == 0)
            json_array_append_new(processes, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:{s:i, s:I, s:i}}", "index", host[i], "first_rank", i,
                                                       "ranks", 0, "host", host[i], "place", host[i], "local_rank", 0, "clock", "wall_ns", 0,
                                                       "monotonic_ns", (json_int_t)(host[i] ? ahead_ns : 0), "error_ns", host[i] ? 60000 : 0));
        json_object_set_new(json_array_get(processes, (size_t)host[i]), "ranks", json_integer(own + 1));
    }
    for (int i = 0; i < x->ranks; i++) {
        json_array_append_new(all, fx_exchanged(x, x->ended[i] ? x->ended[i] : done, a, i, host));
        ended[i] = json_array_get(all, json_array_size(all) - 1);
        json_array_append_new(all, fx_telemetry(x, a, i));
        telemetry[i] = json_array_get(all, json_array_size(all) - 1);
        telemetry[i] = json_is_null(telemetry[i]) ? NULL : telemetry[i];
    }
    RP_JSON *launch = json_pack("{s:s, s:s, s:i, s:i}", "kind", "nodes", "launcher", "options", "rank", 0, "size", x->nodes);
    return rp_world_json(&(struct rp_world_doc){.degrees = a->degrees, .host = host, .processes = x->nodes > 1 ? processes : NULL,
                                                .launch = x->nodes > 1 ? launch : NULL, .all = a,
                                                .hello = hello, .done = ended, .telemetry = telemetry});
}

/* run.json and report.md from the recipe and the records as they are now. */
static __attribute__((unused)) int fx_documents(struct fx *x, const char *status, const char *reason, struct rp_err *err)
{
    RP_JSON *data = json_pack("{s:b, s:s, s:s, s:s}", "pinned", 1, "archive", "s.tar.zst", "archive_sha256", FX_ROOT, "digest", FX_ROOT);
    RP_JSON *plan = fx_plan(&x->recipe, x->place);
    const char *own = x->backend && strcmp(x->backend, "cuda") == 0 ? "gpu0 NVIDIA H100 PCIe sm_90" : "isa=avx2 threads=1";
    RP_JSON *device = x->hello[0] ? json_deep_copy(json_object_get(x->hello[0], "device")) : fx_device(x->device ? x->device : own);
    RP_JSON *ledger = json_pack("{s:s}", "reason", "no ledger in tests");
    RP_JSON *done = json_pack("{s:i, s:{s:f}, s:o}", "peak_rss_bytes", 12345678, "phases_s", "timed", 0.7, "ceilings", fx_ceilings(10000000, 11000000));
    json_object_update(done, x->done);
    struct rp_challenge read;
    RP_JSON *challenge = NULL;
    if (x->challenge.size && rp_challenge_read(&read, x->challenge.data, x->challenge.size, err) == 0)
        challenge = rp_challenge_json(&read);
    if (strcmp(rp_json_text_at(device, "kind"), "cuda") == 0)
        fx_on_gpu(x, rp_json_text_at(device, "name"), done);
    struct rp_records records;
    struct rp_telemetry telemetry;
    struct rp_all_ranks all = {0};
    if (x->ranks > 1 ? fx_all_ranks(&all, &records, x, err) < 0 : rp_records_parse(&records, x->steps.data, x->steps.size, err) < 0) {
        rp_all_ranks_fini(&all);
        return -1;
    }
    RP_JSON *world = x->ranks > 1 ? fx_world(x, &all, device, done) : NULL;
    rp_all_ranks_fini(&all);
    if (rp_telemetry_parse(&telemetry, 0, 1, rp_buf_text(&x->telemetry), x->telemetry.size, err) < 0) {
        rp_records_fini(&records);
        return -1;
    }
    struct rp_run_doc d = {.status = status,
                           .reason = reason,
                           .recipe = &x->recipe,
                           .data = data,
                           .plan = plan,
                           .backend = x->backend ? x->backend : "cpu",
                           .device = device,
                           .challenge = challenge,
                           .ledger = ledger,
                           .done = done,
                           .records = x->joined ? x->joined : &records,
                           .world = x->world ? x->world : world,
                           .telemetry = x->telemetry.size ? &telemetry : NULL,
                           .no_telemetry = x->no_telemetry,
                           .before = x->before,
                           .after = x->after,
                           .started_ns = FX_START,
                           .ended_ns = FX_START + 2500000000u};
    json_decref(x->run);
    x->run = rp_run_json(&d, err);
    rp_records_fini(&records);
    rp_telemetry_fini(&telemetry);
    return x->run ? fx_report(x, err) : -1;
}

static __attribute__((unused)) void fx_init(struct fx *x)
{
    struct rp_err err = {0};
    fx_dir();
    *x = (struct fx){0};
    int failed = rp_recipe_parse(&x->recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", NULL, 0, &err);
    CHECK(failed == 0, "recipe: %s", err.msg);
    x->before = fx_capture("2026-09-21T14:13:20Z");
    x->after = fx_capture("2026-09-21T14:13:23Z");
    fx_records(&x->steps, 1, 3, 2);
    failed = fx_documents(x, "complete", NULL, &err);
    CHECK(failed == 0, "run.json: %s", err.msg);
}

static __attribute__((unused)) void fx_fini(struct fx *x)
{
    rp_recipe_fini(&x->recipe);
    rp_buf_fini(&x->steps);
    rp_buf_fini(&x->report);
    rp_buf_fini(&x->telemetry);
    rp_buf_fini(&x->challenge);
    json_decref(x->run);
    json_decref(x->before);
    json_decref(x->after);
    json_decref(x->done);
    for (int i = 0; i < FX_RANKS; i++) {
        rp_buf_fini(&x->of_rank[i]);
        rp_buf_fini(&x->telemetry_of[i]);
        json_decref(x->hello[i]);
        json_decref(x->ended[i]);
        json_decref(x->node_before[i]);
        json_decref(x->node_after[i]);
    }
}

static __attribute__((unused)) struct fx fx_new(void)
{
    struct fx x;
    fx_init(&x);
    return x;
}

/* FX(x); declares an honest run, which ends with its block. */
#define FX(x) __attribute__((cleanup(fx_fini))) struct fx x = fx_new()

static __attribute__((unused)) void fx_again(struct fx *x)
{
    fx_fini(x);
    fx_init(x);
}

/* The recipe with settings of a command line, NULL after the last. */
static __attribute__((unused)) void fx_set(struct fx *x, const char *const *set)
{
    struct rp_err err;
    int n = 0;
    while (set[n])
        n++;
    rp_recipe_fini(&x->recipe);
    CHECK(rp_recipe_parse(&x->recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, n, &err) == 0, "%s", err.msg);
}
#define FX_SET(x, ...) fx_set(x, (const char *const[]){__VA_ARGS__, NULL})

/* The report from run.json, and both from recipe and records. */
static __attribute__((unused)) void fx_render(struct fx *x)
{
    struct rp_err err;
    CHECK(fx_report(x, &err) == 0, "%s", err.msg);
}

static __attribute__((unused)) void fx_compute(struct fx *x)
{
    struct rp_err err;
    CHECK(fx_documents(x, "complete", NULL, &err) == 0, "%s", err.msg);
}

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

static __attribute__((unused)) void fx_add(struct rp_bundle *b, const char *name, const void *data, size_t size)
{
    struct rp_err err;
    int failed = rp_bundle_add(b, name, data, size, &err);
    CHECK(failed == 0, "%s: %s", name, err.msg);
}

static __attribute__((unused)) void fx_add_json(struct rp_bundle *b, const char *name, const json_t *j)
{
    RP_BUF text = {0};
    rp_json_write(&text, j);
    fx_add(b, name, text.data, text.size);
}

/* Everything that is there before sealing. */
static __attribute__((unused)) void fx_members(struct rp_bundle *b, const struct fx *x)
{
    *b = (struct rp_bundle){0};
    fx_add_json(b, "run.json", x->run);
    fx_add(b, "recipe.yaml", x->recipe.source.data, x->recipe.source.size);
    if (x->challenge.size)
        fx_add(b, RP_CHALLENGE_MEMBER, x->challenge.data, x->challenge.size);
    fx_add_json(b, "env/node0.before.json", x->before);
    fx_add_json(b, "env/node0.after.json", x->after);
    for (int i = 1; i < x->nodes; i++) {
        fx_add_json(b, RP_OF_NODE(i, ".before.json"), x->node_before[i] ? x->node_before[i] : x->before);
        fx_add_json(b, RP_OF_NODE(i, ".after.json"), x->node_after[i] ? x->node_after[i] : x->after);
    }
    for (int i = 0; i < x->ranks; i++)
        fx_add(b, RP_OF_RANK(i, ".jsonl"), x->of_rank[i].data, x->of_rank[i].size);
    for (int i = 0; i < x->ranks; i++)
        if (x->telemetry_of[i].size)
            fx_add(b, RP_OF_RANK(i, ".telemetry.jsonl"), x->telemetry_of[i].data, x->telemetry_of[i].size);
    if (!x->ranks)
        fx_add(b, "steps/rank0.jsonl", x->steps.data, x->steps.size);
    if (x->telemetry.size)
        fx_add(b, "steps/rank0.telemetry.jsonl", x->telemetry.data, x->telemetry.size);
    fx_add(b, "report.md", x->report.data, x->report.size);
}

/* These bytes as the file of a bundle. */
static __attribute__((unused)) int fx_open(struct rp_bundle *b, const void *data, size_t size, struct rp_err *err)
{
    static int fd = -1;
    char path[64];
    if (fd < 0 && (fd = memfd_create("bundle", MFD_CLOEXEC)) < 0)
        abort();
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *err = (struct rp_err){0};
    return rp_bundle_open(b, path, err);
}

static __attribute__((unused)) void fx_key_free(struct rp_key_pair **k)
{
    rp_key_free(*k);
}

#define FX_KEY __attribute__((cleanup(fx_key_free))) struct rp_key_pair /* freed where its block ends */

static __attribute__((unused)) struct rp_key_pair *fx_key(const char *name)
{
    struct rp_err err;
    RP_FREE char *path = fx_path(name);
    struct stat st;
    int failed = stat(path, &st) < 0 && rp_key_create(path, NULL, &err) < 0;
    CHECK(!failed, "key: %s", err.msg);
    struct rp_key_pair *k = rp_key_load(path, -1, &err);
    CHECK(k, "key: %s", err.msg);
    return k;
}

/* Seal what x says now with a key of that name; the bundle is at fx_path(file). */
static __attribute__((unused)) void fx_seal(const struct fx *x, const char *key, const char *file)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_FREE char *path = fx_path(file);
    struct rp_key_pair *k = fx_key(key);
    fx_members(&b, x);
    RP_BUF bytes = {0};
    int failed = rp_bundle_seal(&b, k, &bytes, &err) < 0 || rp_write_file(path, bytes.data, bytes.size, 0644, &err) < 0;
    CHECK(failed == 0, "seal: %s", err.msg);
    rp_bundle_fini(&b);
    rp_key_free(k);
}
