#include "run/run_json.h"

#include "base/build.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "model/model.h"
#include "ops/numerics.h"
#include "run/ceilings.h"
#include "run/results.h"

#include <string.h>

/* A JSON string or null; in a message with invalid UTF-8, '?' replaces everything that is not ASCII. */
static json_t *text_or_null(const char *s)
{
    if (!s)
        return json_null();
    json_t *j = json_string(s);
    if (j)
        return j;
    RP_FREE char *ascii = rp_strdup(s);
    for (char *p = ascii; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    return json_string(ascii);
}

static json_t *copy_or_null(const json_t *j)
{
    return j ? json_deep_copy(j) : json_null();
}

/* Without folders; an embedded recipe keeps its group: "embedded:gpt/CASE". */
static const char *file_name(const char *path)
{
    if (!path)
        return "";
    return strncmp(path, "embedded:", strlen("embedded:")) == 0 ? path : rp_base_name(path);
}

/* Of several ranks the most of each; null: no rank has it. */
static json_t *most_of_ranks(const json_t *ranks, const char *path)
{
    const json_t *most = NULL;
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        const json_t *v = rp_json_at(json_array_get(ranks, i), path);
        if (json_is_integer(v) && (!most || json_integer_value(v) > json_integer_value(most)))
            most = v;
    }
    return copy_or_null(most);
}

/* From the worker's DONE record, which a failed run may lack. */
static void add_done(json_t *out, const struct rp_recipe *r, const json_t *done)
{
    static const char *const keys[] = {"peak_rss_bytes", "phases_s", "tensor_roots"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(out, keys[i], copy_or_null(json_object_get(done, keys[i])));
    if (rp_run_ranks(out) > 1)
        json_object_set_new(out, keys[0], most_of_ranks(rp_json_at(out, "world/rank"), keys[0]));
    if (r->data_skip_damaged)
        json_object_set_new(out, "skipped_samples", copy_or_null(json_object_get(done, "skipped_samples")));
    const json_t *ceilings = json_object_get(done, "ceilings");
    if (ceilings)
        json_object_set_new(out, "ceilings", rp_ceilings_json(ceilings, json_object_get(out, "results"), json_object_get(out, "world")));
    const json_t *device_bytes = json_object_get(done, "device_bytes"); /* processors have no memory of their own */
    if (device_bytes)
        json_object_set_new(out, "device_bytes", copy_or_null(device_bytes));
}

static void add_telemetry(json_t *out, const struct rp_run_doc *d)
{
    json_t *is = NULL;
    if (rp_run_ranks(out) > 1)
        is = rp_telemetry_of_all(rp_json_at(out, "world/rank"), d->records);
    else if (d->telemetry)
        is = rp_telemetry_json(d->telemetry, d->records);
    else if (d->no_telemetry)
        is = json_pack("{s:o}", "reason", text_or_null(d->no_telemetry));
    if (is)
        json_object_set_new(out, "telemetry", is);
}

static void add_times(json_t *out, const struct rp_run_doc *d)
{
    char when[32];
    uint64_t elapsed = d->ended_ns > d->started_ns ? d->ended_ns - d->started_ns : 0;
    rp_rfc3339(when, d->started_ns);
    json_object_set_new(out, "started_at", json_string(when));
    rp_rfc3339(when, d->ended_ns);
    json_object_set_new(out, "ended_at", json_string(when));
    json_object_set_new(out, "elapsed_s", json_real((double)elapsed / 1e9));
}

static int add_agreement(json_t *out, const struct rp_run_doc *d, struct rp_err *err)
{
    const struct rp_agreement_side here = {.run = out, .before = d->before, .records = d->records};
    json_t *agreement = rp_agreement(d->first, &here, err);
    if (!agreement)
        return -1;
    json_object_set_new(out, "replicates", copy_or_null(d->replicates));
    json_object_set_new(out, "agreement", agreement);
    return 0;
}

/* The build that ran. Its own digest and what is linked in are in the captures. */
static json_t *tool_json(void)
{
    const struct rp_build *b = rp_build_record();
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "name", "repro", "version", text_or_null(b->version), "commit",
                     text_or_null(b->commit), "dirty", text_or_null(b->dirty), "compiler", text_or_null(b->compiler), "flags",
                     text_or_null(b->flags));
}

json_t *rp_run_model(const struct rp_recipe *r)
{
    const struct rp_model *m = rp_model_of(r);
    json_t *parts = json_array(), *counters = json_array();
    for (int i = 0; i < rp_model_loss_parts(m); i++)
        json_array_append_new(parts, json_string(m->loss_part[i]));
    for (int i = 0; i < rp_model_counters(m); i++)
        json_array_append_new(counters, json_string(m->counter[i].name));
    return json_pack("{s:s, s:s, s:o, s:o}", "name", m->name, "sample_unit", m->sample_unit, "loss_parts", parts, "counters", counters);
}

const char *rp_run_numerics(const struct rp_recipe *r)
{
    static const enum rp_numerics of_precision[] = {RP_NUMERICS_fp32_1}; /* as train.precision is chosen */
    return rp_numerics_name(of_precision[r->train_precision]);
}

json_t *rp_run_json(const struct rp_run_doc *d, struct rp_err *err)
{
    int complete = strcmp(d->status, "complete") == 0;
    RP_JSON *changes = d->before && d->after ? rp_capture_changes(d->before, d->after, err) : json_null();
    json_t *results = changes ? rp_results(d->records, d->recipe, d->plan, complete, err) : NULL;
    if (!results)
        return NULL;
    json_t *out = json_object();
    json_object_set_new(out, "schema", json_string(RP_RUN_SCHEMA));
    json_object_set_new(out, "numerics", json_string(rp_run_numerics(d->recipe)));
    json_object_set_new(out, "status", json_string(d->status));
    json_object_set_new(out, "reason", text_or_null(d->reason));
    json_object_set_new(out, "model", rp_run_model(d->recipe));
    json_object_set_new(out, "world", d->world ? json_deep_copy(d->world) : json_pack("{s:i, s:i}", "ranks", 1, "nodes", 1));
    json_object_set_new(out, "recipe_name", text_or_null(file_name(d->recipe->source_name)));
    json_object_set_new(out, "recipe_sha256", text_or_null(d->recipe->sha256));
    json_t *recipe = rp_recipe_to_json(d->recipe);
    if (!json_is_true(json_object_get(d->before, "identified")))
        rp_recipe_hide_folders(recipe);
    json_object_set_new(out, "recipe", recipe);
    json_object_set_new(out, "data", copy_or_null(d->data));
    if (d->init)
        json_object_set_new(out, "init", copy_or_null(d->init));
    json_object_set_new(out, "plan", copy_or_null(d->plan));
    json_object_set_new(out, "backend", text_or_null(d->backend));
    json_object_set_new(out, "device", copy_or_null(d->device));
    json_object_set_new(out, "results", results);
    add_done(out, d->recipe, d->done);
    add_telemetry(out, d);
    add_times(out, d);
    json_object_set_new(out, "tool", tool_json());
    if (!json_is_null(changes))
        json_object_set(out, "environment_changes", changes);
    if (d->command_line)
        json_object_set_new(out, "command_line", copy_or_null(d->command_line));
    if (d->challenge)
        json_object_set_new(out, "challenge", copy_or_null(d->challenge));
    if (d->ledger)
        json_object_set_new(out, "ledger", copy_or_null(d->ledger));
    if (d->replicates && add_agreement(out, d, err) < 0)
        rp_json_decref(&out);
    return out;
}
