/* A bundle as a row: its verified run.json, the cycles of its steps, its capture. */
#include "compare/compare.h"

#include "backend/backend.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"
#include "capture/value.h"
#include "model/model.h"
#include "run/results.h"
#include "sign/statement.h"
#include "verify/levels.h"
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_of(const json_t *j)
{
    return json_is_integer(j) && json_integer_value(j) >= 0 ? json_integer_value(j) : -1;
}
static double real_of(const json_t *j)
{
    double d = json_is_number(j) ? json_number_value(j) : NAN;
    return isfinite(d) && d > 0 && d <= RP_RESULT_NUMBER_MAX ? d : NAN;
}

/* Text that is too long for a row is cut: the bundle has it in full. */
static void set_text(char **to, const char *text)
{
    struct rp_err err;
    char cut[RP_RESULT_TEXT_MAX + 1];
    snprintf(cut, sizeof cut, "%s", text ? text : "");
    RP_BUG_IF(rp_result_text(to, "text", cut, &err) < 0);
}
static void set_json(char **to, const json_t *j)
{
    if (json_is_string(j))
        set_text(to, json_string_value(j));
}

/* ---- what was trained ---- */

/* The length that samples are padded to, if the model counts both; "none" if every sample has the same number of what it counts. */
static void set_padding(struct rp_result *row, const struct rp_recipe *r, const struct rp_model *m)
{
    char text[120];
    if (rp_model_counters(m))
        set_text(&row->padding, "none");
    for (int i = 0; i < rp_model_counters(m); i++) {
        const struct rp_step_counter *of = &m->counter[m->counter[i].most];
        if (m->counter[i].per_sample || !of->per_sample)
            continue;
        snprintf(text, sizeof text, "every sample has %lld %.40s, all counted as work", (long long)of->per_sample(r), of->name);
        set_text(&row->padding, text);
    }
}

static void set_model(struct rp_result *row, const json_t *run)
{
    struct rp_recipe r = {0};
    struct rp_err ignored;
    char text[120];
    const int64_t pixels = count_of(rp_run_setting(run, "task.image_size"));
    row->layers = count_of(rp_run_setting(run, "model.num_hidden_layers"));
    row->hidden_size = count_of(rp_run_setting(run, "model.hidden_size"));
    row->attention_heads = count_of(rp_run_setting(run, "model.num_attention_heads"));
    row->sequence_length = count_of(rp_run_setting(run, "task.seq_length"));
    row->parameters = count_of(rp_json_at(run, "plan/parameters"));
    if (row->layers >= 0 && row->hidden_size >= 0)
        snprintf(text, sizeof text, "%.20s of %lld x %lld", rp_json_text_at(run, "model/name"), (long long)row->layers,
                 (long long)row->hidden_size);
    else if (pixels > 0)
        snprintf(text, sizeof text, "%.20s of %lld parameters, %lldx%lld pixels", rp_json_text_at(run, "model/name"), (long long)row->parameters,
                 (long long)pixels, (long long)pixels);
    else
        snprintf(text, sizeof text, "%.20s of %lld parameters", rp_json_text_at(run, "model/name"), (long long)row->parameters);
    /* a bundle that failed may have no valid recipe */
    if (rp_recipe_from_json(&r, json_object_get(run, "recipe"), &ignored) == 0) {
        const struct rp_model *m = rp_model_of(&r);
        const char *alias = m->size_name ? m->size_name(&r) : NULL;
        if (alias)
            snprintf(text, sizeof text, "%s", alias);
        if (m->task)
            set_text(&row->task, m->task);
        set_padding(row, &r, m);
    }
    rp_recipe_fini(&r);
    set_text(&row->model, text);
}

static void set_dropout(struct rp_result *row, const json_t *run)
{
    double hidden = json_number_value(rp_run_setting(run, "model.hidden_dropout_prob")),
           attention = json_number_value(rp_run_setting(run, "model.attention_probs_dropout_prob"));
    char text[80];
    if (hidden == attention)
        snprintf(text, sizeof text, hidden > 0 ? "%g" : "none", hidden);
    else
        snprintf(text, sizeof text, "%g, attention %g", hidden, attention);
    set_text(&row->dropout, text);
}

static void set_data(struct rp_result *row, const json_t *run)
{
    const char *archive = rp_json_text_at(run, "data/archive"), *digest = rp_json_text_at(run, "data/digest");
    char text[200];
    if (json_is_true(rp_json_at(run, "data/pinned")))
        RP_FORMAT(text, "%.80s, digest %.16s", *archive ? archive : "archive", *digest ? digest : "unknown");
    else
        RP_FORMAT(text, "not pinned, digest %.16s", *digest ? digest : "unknown");
    set_text(&row->data, text);
}

/* The ranks whose arithmetic the run has; set_machine() counts those that computed it. */
static void set_degrees(struct rp_result *row, const json_t *run)
{
    row->data_parallel = count_of(rp_run_setting(run, "parallel.data"));
    row->tensor_parallel = count_of(rp_run_setting(run, "parallel.tensor"));
    row->pipeline_parallel = count_of(rp_run_setting(run, "parallel.pipeline"));
    if (rp_run_degrees(run) > 1)
        row->micro_batch = count_of(rp_json_at(run, "plan/batch"));
    row->vocabulary = count_of(rp_run_setting(run, "model.padded_vocab_size"));
    set_json(&row->recomputation, rp_run_setting(run, "train.recompute"));
    const json_t *apart = rp_run_setting(run, "task.reset_attention_mask");
    if (json_is_boolean(apart))
        set_text(&row->documents, json_is_true(apart) ? "masked" : "kept");
}

/* With the momentum, in which published runs of one model differ. */
static void set_optimizer(struct rp_result *row, const json_t *run)
{
    const json_t *name = rp_run_setting(run, "optimizer.name"), *momentum = rp_run_setting(run, "optimizer.momentum");
    char text[80];
    if (!json_is_string(name))
        return;
    const char *id = json_string_value(name);
    if (strcmp(id, "sgd") == 0 || strcmp(id, "lars") == 0)
        snprintf(text, sizeof text, "%.20s, momentum %g%s", id, json_number_value(momentum),
                 json_is_true(rp_run_setting(run, "optimizer.nesterov")) ? " (Nesterov)" : "");
    else
        snprintf(text, sizeof text, "%.60s", id);
    set_text(&row->optimizer, text);
}

static void set_settings(struct rp_result *row, const json_t *run)
{
    const json_t *batch = rp_run_setting(run, "train.batch_size");
    double clip = json_number_value(rp_run_setting(run, "optimizer.clip_norm"));
    char text[120];
    row->batch_per_device = count_of(rp_json_at(run, "plan/batch"));
    set_text(&row->batch_mode, json_is_string(batch) || json_integer_value(batch) == 0 ? "max" : "fixed");
    row->accumulation = count_of(rp_run_setting(run, "train.accumulation_steps"));
    set_degrees(row, run);
    row->global_batch = count_of(rp_json_at(run, "results/samples_per_step"));
    if (row->global_batch == 0) /* no step was recorded */
        row->global_batch = -1;
    set_optimizer(row, run);
    snprintf(text, sizeof text, clip > 0 ? "global norm %g" : "none", clip);
    set_text(&row->clipping, text);
    set_json(&row->precision, rp_run_setting(run, "train.precision"));
    set_dropout(row, run);
    set_data(row, run);
}

/* ---- where, and how fast ---- */

/* The governor of the clock. A guest does not see it: then its hypervisor and the one clock that this reports for all processors. */
static void set_clocks(struct rp_result *row, const json_t *probes)
{
    const char *governor = rp_known_text(probes, "frequency.governor"), *hypervisor = rp_known_text(probes, "cpu.hypervisor");
    char text[RP_RESULT_TEXT_MAX + 1];
    double low, high;
    if (governor)
        snprintf(text, sizeof text, "governor %.40s", governor);
    else if (hypervisor && rp_known_number(probes, "cpu.clock_min", &low) == 0 && rp_known_number(probes, "cpu.clock_max", &high) == 0 &&
             low == high)
        snprintf(text, sizeof text, "hypervisor %.40s, %.6g MHz, no governor", hypervisor, high);
    else
        return;
    set_text(&row->clocks, text);
}

/* "Intel(R) Xeon(R) Processor (model 6/207/8)": hypervisors give many processors one name, so family, model and stepping are added. */
static void set_cpu_name(struct rp_result *row, const json_t *probes)
{
    const char *name = rp_known_text(probes, "cpu.model_name"), *family = rp_known_text(probes, "cpu.family"),
               *number = rp_known_text(probes, "cpu.model"), *stepping = rp_known_text(probes, "cpu.stepping");
    char text[RP_RESULT_TEXT_MAX + 1];
    if (number)
        snprintf(text, sizeof text, "%.200s (model %.20s/%.20s/%.20s)", name ? name : "processor", family ? family : "?", number,
                 stepping ? stepping : "?");
    else
        snprintf(text, sizeof text, "%.200s", name ? name : "");
    set_text(&row->device_model, text);
}

/* The most of a GPU's memory that was used, over all ranks. */
static double most_used(const json_t *run)
{
    double most = real_of(rp_json_at(run, "device_bytes/used"));
    for (int64_t i = 0; i < rp_run_ranks(run); i++)
        most = fmax(most, real_of(rp_json_at(json_array_get(rp_json_at(run, "world/rank"), (size_t)i), "device_bytes/used")));
    return most;
}

static void set_machine(struct rp_result *row, const json_t *run, const json_t *env)
{
    const char *kind = rp_run_kind(run);
    const int cuda = strcmp(kind, "cuda") == 0, mixed = strcmp(kind, "mixed") == 0;
    struct rp_device_info device;
    int known = rp_device_from_json(&device, json_object_get(run, "device")) == 0;
    const json_t *probes = json_object_get(env, "probes");
    row->nodes = count_of(rp_json_at(run, "world/nodes"));
    row->devices = rp_run_ranks(run);
    row->gpus_per_node = mixed ? -1 : !cuda ? 0 : row->nodes > 0 && row->devices % row->nodes == 0 ? row->devices / row->nodes : -1;
    /* of a GPU the decrease of its free memory, with the context of the driver */
    row->memory_mib_per_device = (cuda ? most_used(run) : real_of(json_object_get(run, "peak_rss_bytes"))) / 1048576;
    if (cuda && known)
        set_text(&row->device_model, device.name);
    if (mixed) {
        set_text(&row->device_model, "GPUs and CPUs");
        row->memory_mib_per_device = NAN;
    } else if (!cuda) {
        set_cpu_name(row, probes);
        if (known) {
            set_text(&row->isa, rp_run_isa(run));
            row->threads = rp_run_threads(run);
        }
        rp_result_other_work(row, probes, json_object_get(run, "environment_changes"));
        set_clocks(row, probes);
    }
    double share = real_of(rp_json_at(run, "ceilings/achieved/gemm_share"));
    row->ceiling_share = round(share * 1000) / 1000;
}

/* How ranks divided the work, and of several the slowest one, whose times are those of the run. */
static void set_ranks(struct rp_result *row, const json_t *run)
{
    const json_t *world = json_object_get(run, "world");
    static const char *const kinds[] = {"data", "tensor", "pipeline"};
    char layout[64] = "";
    for (int i = 0; i < 3; i++) {
        const int64_t degree = count_of(json_object_get(world, kinds[i]));
        snprintf(layout + strlen(layout), sizeof layout - strlen(layout), "%s%lld", i ? "x" : "", degree > 0 ? (long long)degree : 1);
    }
    set_text(&row->rank_layout, layout);
    const int64_t slowest = count_of(json_object_get(world, "slowest"));
    const json_t *rank = slowest < 0 ? NULL : json_array_get(json_object_get(world, "rank"), (size_t)slowest);
    const double span = rp_json_number_at(rank, "timed_s");
    if (!rank)
        return;
    row->slowest_rank = slowest;
    row->slowest_node = count_of(json_object_get(rank, "node"));
    row->exchange_share = span > 0 ? rp_json_number_at(rank, "exchange_s") / span : NAN;
    row->wait_share = span > 0 ? rp_json_number_at(rank, "wait_s") / span : NAN;
}

static void set_figures(struct rp_result *row, const json_t *run)
{
    row->throughput = real_of(rp_json_at(run, "results/throughput/value"));
    row->latency_ms = real_of(rp_json_at(run, "results/step_s/median")) * 1000;
    if (!isnan(row->throughput))
        set_json(&row->unit, rp_json_at(run, "results/throughput/unit"));
    row->low = real_of(rp_json_at(run, "results/throughput/interval/0"));
    row->high = real_of(rp_json_at(run, "results/throughput/interval/1"));
    row->tflops_per_device = real_of(rp_json_at(run, "results/flops_per_s")) / 1e12 / (double)rp_run_ranks(run);
    set_json(&row->limited_by, rp_json_at(run, "results/input/limited_by"));
    set_json(&row->timed_window, rp_json_at(run, "results/window"));
    set_json(&row->estimator, rp_json_at(run, "results/estimator"));
}

/* Throughput of each step's cycle, repeat by repeat. */
static void set_samples(struct rp_result *row, const struct rp_records *rs)
{
    int64_t n = 0;
    RP_FREE double *rate = rp_alloc((size_t)(rs->n + 1) * sizeof *rate);
    RP_FREE int64_t *group = rp_alloc((size_t)(rs->n + 1) * sizeof *group);
    int64_t groups = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        const struct rp_step_record *next = i + 1 < rs->n && r[1].timed && r[1].repeat == r->repeat ? r + 1 : NULL;
        if (!r->timed)
            continue;
        if (n == 0 || r[-1].repeat != r->repeat || !r[-1].timed)
            groups++;
        group[groups - 1]++;
        rate[n++] = (double)r->samples / ((double)rp_cycle_ns(r, next) / 1e9);
    }
    for (int64_t i = 0; i < n; i++)
        if (!(rate[i] > 0) || !isfinite(rate[i]))
            return;
    rp_result_samples(row, rate, n);
    memcpy(row->group, group, (size_t)groups * sizeof *group);
    row->groups = groups;
}

/* For the commands in layouts: the settings that are neither the recipe's nor defaults. */
static json_t *settings_of(const json_t *run)
{
    static const char *const others[] = {"", "recipe", "default", "backend section"};
    const char *key;
    json_t *v, *set = json_object();
    json_object_foreach(json_object_get(run, "recipe"), key, v)
    {
        const char *origin = rp_json_text_at(v, "origin");
        if (!RP_IS_IN(others, origin, strlen(origin)))
            json_object_set(set, key, json_object_get(v, "value"));
    }
    return json_pack("{s:O?, s:O?, s:o}", "recipe_name", json_object_get(run, "recipe_name"), "steps", rp_json_at(run, "results/steps"),
                     "set", set);
}

static void fill(struct rp_result *row, const json_t *run, const json_t *env, const struct rp_records *rs)
{
    const char *status = rp_json_text_at(run, "status");
    char text[120];
    set_json(&row->label, json_object_get(run, "recipe_name"));
    RP_FORMAT(text, "repro %.40s", rp_json_text_at(run, "tool/version"));
    set_text(&row->framework, text);
    set_json(&row->date, json_object_get(run, "started_at"));
    set_model(row, run);
    set_settings(row, run);
    set_machine(row, run, env);
    set_figures(row, run);
    set_ranks(row, run);
    if (rs)
        set_samples(row, rs);
    row->link = rp_alloc(2 * sizeof *row->link);
    set_text(&row->link[row->links++], RP_OF_RANK(0, ".jsonl"));
    row->environment = json_incref((json_t *)env);
    row->run = settings_of(run);
    if (*status && strcmp(status, "complete") != 0) {
        snprintf(text, sizeof text, "the run is marked %.20s", status);
        set_text(&row->source.note, text);
    }
}

/* ---- verified or not ---- */

static json_t *member_json(const struct rp_bundle *b, const char *name, const char *schema_name, struct rp_err *err)
{
    const struct rp_member *m = rp_bundle_find(b, name);
    if (!m)
        return rp_fail_null(err, RP_MALFORMED, "it has no member %s", name);
    const struct rp_schema *schema = rp_schema_load(schema_name, err);
    json_t *j = schema ? rp_json_parse(rp_buf_text(&m->bytes), m->bytes.size, name, err) : NULL;
    if (j && (rp_statement_version(j, name, err) < 0 || rp_schema_check(schema, j, name, err) < 0))
        rp_json_decref(&j);
    return j;
}

/* The documents of a bundle that failed, as they are; they must still have the right form. */
static int fill_unverified(struct rp_result *row, const char *path, struct rp_err *err)
{
    RP_BUNDLE b = {0};
    if (rp_bundle_skim(&b, path, err) < 0)
        return -1;
    RP_JSON *run = member_json(&b, "run.json", "run", err), *env = run ? member_json(&b, RP_OF_NODE(0, ".before.json"), "env", err) : NULL;
    if (!env)
        return -1;
    fill(row, run, env, NULL);
    return 0;
}

struct rp_result *rp_rows_add_verified(struct rp_rows *rows, const struct rp_verification *v, const struct rp_verified *kept)
{
    struct rp_result *row = rp_rows_add(rows);
    row->source.kind = RP_RESULT_BUNDLE;
    fill(row, v->run, kept->run.node[0].before, NULL);
    set_text(&row->source.signed_by, v->fingerprint);
    row->source.key_known = v->verdict == RP_VERDICT_VERIFIED;
    rp_result_complete(row);
    return row;
}

int rp_rows_from_bundle(struct rp_rows *rows, const char *path, const struct rp_result_opts *o, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_verify_opts vo = {.trust = o->trust, .keep = &kept};
    struct rp_err why = {0};
    char sha256[RP_SHA256_HEX], text[RP_RESULT_TEXT_MAX + 1];
    int failed = rp_verify(&v, path, &vo, &why) < 0, rc = 0;
    struct rp_result *row = rp_rows_add(rows);
    row->source.kind = RP_RESULT_BUNDLE;
    set_text(&row->source.file, path);
    set_text(&row->source.format, "repro bundle");
    if (!failed) {
        fill(row, v.run, kept.run.node[0].before, &kept.run.records);
        snprintf(text, sizeof text, "%s%s%s%s", v.fingerprint, *v.signer ? " (" : "", v.signer, *v.signer ? ")" : "");
        set_text(&row->source.signed_by, text);
        RP_BUF verdict = {0};
        rp_levels_line(&verdict, &v);
        set_text(&row->source.verdict, rp_buf_text(&verdict));
        set_text(&row->source.statement, v.statement);
        row->source.key_known = v.verdict == RP_VERDICT_VERIFIED;
    } else if (o->unverified) {
        snprintf(text, sizeof text, "NOT VERIFIED: %.400s", why.msg);
        set_text(&row->source.verdict, text);
        rc = fill_unverified(row, path, err);
    } else {
        *err = why;
        rc = rp_wrap(err, "'%s' does not verify, so it is not compared (--unverified compares it anyway)", path);
    }
    if (rc < 0 || rp_sha256_file(sha256, path, NULL, err) < 0)
        return -1;
    set_text(&row->source.sha256, sha256);
    return 0;
}
