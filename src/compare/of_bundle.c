/* A bundle as a row: its verified documents, the cycles of its steps, its captures. */
#include "compare/compare.h"

#include "backend/backend.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/source.h"
#include "bundle/schema.h"
#include "capture/value.h"
#include "compare/layout.h"
#include "model/model.h"
#include "run/derive.h"
#include "sign/statement.h"
#include "verify/levels.h"
#include "verify/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How every figure of a run is computed: run/derive.h. */
#define TIMED_WINDOW                                                                                                   \
    "start of the first timed step of a repeat to the end of its last, with the loading of samples and without state " \
    "roots between steps"
#define ESTIMATOR "median over repeats of samples / window seconds"

static int64_t count_of(const json_t *j)
{
    return json_is_integer(j) && json_integer_value(j) >= 0 ? json_integer_value(j) : -1;
}
static double real_of(double d)
{
    return isfinite(d) && d > 0 && d <= RP_RESULT_NUMBER_MAX ? d : NAN;
}

/* The recorded value of a key of the recipe: a whole number, or -1. */
static int64_t number_set(const struct rp_run *run, const char *key)
{
    return count_of(rp_facts_setting(run->facts, key));
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

/* The length that samples are padded to, if the model counts both; "none" if every sample has the same number of what
 * it counts. */
static void set_padding(struct rp_result *row, const struct rp_recipe *r, const struct rp_model *m)
{
    char text[120];
    if (rp_model_counters(m))
        set_text(&row->padding, "none");
    for (int i = 0; i < rp_model_counters(m); i++) {
        const struct rp_step_counter *of = &m->counter[m->counter[i].most];
        if (m->counter[i].per_sample || !of->per_sample)
            continue;
        snprintf(text, sizeof text, "every sample has %lld %.40s, all counted as work", (long long)of->per_sample(r),
                 of->name);
        set_text(&row->padding, text);
    }
}

static void name_model(char *text, size_t size, const struct rp_result *row, const struct rp_run *run)
{
    const char *name = run->figures->model.name;
    const int64_t pixels = number_set(run, "task.image_size");
    if (row->layers >= 0 && row->hidden_size >= 0)
        snprintf(text, size, "%.20s of %" PRId64 " x %" PRId64, name, row->layers, row->hidden_size);
    else if (pixels > 0)
        snprintf(text, size, "%.20s of %" PRId64 " parameters, %" PRId64 "x%" PRId64 " pixels", name, row->parameters,
                 pixels, pixels);
    else
        snprintf(text, size, "%.20s of %" PRId64 " parameters", name, row->parameters);
}

/* In mixed precision frameworks differ in more than their type. */
static void set_mixed(struct rp_result *row, const struct rp_run *run, const struct rp_recipe *r)
{
    const struct rp_figures arithmetic = {.numerics = run->figures->numerics};
    const struct rp_loss_scaling *is = run->figures->results.loss_scaling;
    char text[RP_PRECISION_TEXT];
    if (!*rp_figures_precision(text, &arithmetic))
        return;
    set_text(&row->arithmetic, text);
    set_text(&row->gradient_exchange, "fp32");
    set_json(&row->logits, rp_facts_setting(run->facts, "train.precision"));
    set_text(&row->weight_rounding, "to nearest, from fp32 masters");
    row->skipped_steps = is ? is->skipped_share : 0;
    if (!is)
        snprintf(text, sizeof text, "none");
    else if (r->train_loss_scale == RP_LOSS_SCALE_fixed)
        snprintf(text, sizeof text, "fixed at %.17g", r->train_loss_scale_initial);
    else
        snprintf(text, sizeof text, "dynamic from %.17g, window %" PRId64 ", hysteresis %" PRId64,
                 r->train_loss_scale_initial, r->train_loss_scale_window, r->train_loss_scale_hysteresis);
    set_text(&row->loss_scaling, text);
}

static void set_model(struct rp_result *row, const struct rp_run *run)
{
    struct rp_recipe r = {0};
    struct rp_err ignored;
    char text[120];
    row->layers = number_set(run, "model.num_hidden_layers");
    row->hidden_size = number_set(run, "model.hidden_size");
    row->attention_heads = number_set(run, "model.num_attention_heads");
    row->sequence_length = number_set(run, "task.seq_length");
    row->parameters = run->figures->model.parameters;
    name_model(text, sizeof text, row, run);
    /* a bundle that failed may have no valid recipe */
    if (rp_recipe_from_json(&r, run->facts->recipe, &ignored) == 0) {
        const struct rp_model *m = rp_model_of(&r);
        const char *alias = m->size_name ? m->size_name(&r) : NULL;
        if (alias)
            snprintf(text, sizeof text, "%s", alias);
        if (m->task)
            set_text(&row->task, m->task);
        set_padding(row, &r, m);
        set_mixed(row, run, &r);
    }
    rp_recipe_fini(&r);
    set_text(&row->model, text);
}

static void set_dropout(struct rp_result *row, const struct rp_facts *f)
{
    double hidden = json_number_value(rp_facts_setting(f, "model.hidden_dropout_prob")),
           attention = json_number_value(rp_facts_setting(f, "model.attention_probs_dropout_prob"));
    const json_t *embedding = rp_facts_setting(f, "model.embedding_dropout_prob"); /* of GPT */
    char text[120];
    size_t n;
    if (hidden == attention)
        n = (size_t)snprintf(text, sizeof text, hidden > 0 ? "%g" : "none", hidden);
    else
        n = (size_t)snprintf(text, sizeof text, "%g, attention %g", hidden, attention);
    if (embedding && json_number_value(embedding) != hidden)
        snprintf(text + n, sizeof text - n, ", embedding %g", json_number_value(embedding));
    set_text(&row->dropout, text);
}

static void set_data(struct rp_result *row, const struct rp_data_facts *data)
{
    const char *archive = data->archive && *data->archive ? data->archive : "archive";
    char text[200];
    if (data->pinned)
        RP_FORMAT(text, "%.80s, digest %.16s", archive, *data->digest ? data->digest : "unknown");
    else
        RP_FORMAT(text, "not pinned, digest %.16s", *data->digest ? data->digest : "unknown");
    set_text(&row->data, text);
}

/* The ranks whose arithmetic the run has; set_ranks() counts those that computed it. */
static void set_degrees(struct rp_result *row, const struct rp_run *run)
{
    row->data_parallel = number_set(run, "parallel.data");
    row->tensor_parallel = number_set(run, "parallel.tensor");
    row->pipeline_parallel = number_set(run, "parallel.pipeline");
    if (rp_facts_parallel(run->facts) > 1)
        row->micro_batch = run->facts->plan.batch;
    row->vocabulary = number_set(run, "model.padded_vocab_size");
    row->predictions = number_set(run, "task.max_predictions_per_seq");
    set_json(&row->recomputation, rp_facts_setting(run->facts, "train.recompute"));
    const json_t *apart = rp_facts_setting(run->facts, "task.reset_attention_mask");
    if (json_is_boolean(apart))
        set_text(&row->documents, json_is_true(apart) ? "masked" : "kept");
}

/* With the momentum, in which published runs of one model differ. */
static void set_optimizer(struct rp_result *row, const struct rp_facts *f)
{
    const json_t *name = rp_facts_setting(f, "optimizer.name"), *momentum = rp_facts_setting(f, "optimizer.momentum");
    char text[80];
    if (!json_is_string(name))
        return;
    const char *id = json_string_value(name);
    if (strcmp(id, "sgd") == 0 || strcmp(id, "lars") == 0)
        snprintf(text, sizeof text, "%.20s, momentum %g%s", id, json_number_value(momentum),
                 json_is_true(rp_facts_setting(f, "optimizer.nesterov")) ? " (Nesterov)" : "");
    else
        snprintf(text, sizeof text, "%.60s", id);
    set_text(&row->optimizer, text);
}

static void set_settings(struct rp_result *row, const struct rp_run *run)
{
    const json_t *batch = rp_facts_setting(run->facts, "train.batch_size");
    double clip = json_number_value(rp_facts_setting(run->facts, "optimizer.clip_norm"));
    char text[120];
    row->batch_per_device = run->facts->plan.batch;
    set_text(&row->batch_mode, json_is_string(batch) || json_integer_value(batch) == 0 ? "max" : "fixed");
    row->accumulation = number_set(run, "train.accumulation_steps");
    set_degrees(row, run);
    if (run->figures->results.samples_per_step) /* a step was recorded */
        row->global_batch = run->figures->results.samples_per_step;
    set_optimizer(row, run->facts);
    snprintf(text, sizeof text, clip > 0 ? "global norm %g" : "none", clip);
    set_text(&row->clipping, text);
    set_json(&row->precision, rp_facts_setting(run->facts, "train.precision"));
    set_dropout(row, run->facts);
    set_data(row, &run->facts->data);
}

/* ---- where, and how fast ---- */

/* The governor of the clock. A guest does not see it: then its hypervisor and the one clock that this reports for all
 * processors. */
static void set_clocks(struct rp_result *row, const json_t *probes)
{
    const char *governor = rp_known_text(probes, "frequency.governor"),
               *hypervisor = rp_known_text(probes, "cpu.hypervisor");
    char text[RP_RESULT_TEXT_MAX + 1];
    double low, high;
    if (governor)
        snprintf(text, sizeof text, "governor %.40s", governor);
    else if (hypervisor && rp_known_number(probes, "cpu.clock_min", &low) == 0 &&
             rp_known_number(probes, "cpu.clock_max", &high) == 0 && low == high)
        snprintf(text, sizeof text, "hypervisor %.40s, %.6g MHz, no governor", hypervisor, high);
    else
        return;
    set_text(&row->clocks, text);
}

/* "Intel(R) Xeon(R) Processor (model 6/207/8)": hypervisors give many processors one name, so family, model and
 * stepping are added. */
static void set_cpu_name(struct rp_result *row, const json_t *probes)
{
    const char *name = rp_known_text(probes, "cpu.model_name"), *family = rp_known_text(probes, "cpu.family"),
               *number = rp_known_text(probes, "cpu.model"), *stepping = rp_known_text(probes, "cpu.stepping");
    char text[RP_RESULT_TEXT_MAX + 1];
    if (number)
        snprintf(text, sizeof text, "%.200s (model %.20s/%.20s/%.20s)", name ? name : "processor",
                 family ? family : "?", number, stepping ? stepping : "?");
    else
        snprintf(text, sizeof text, "%.200s", name ? name : "");
    set_text(&row->device_model, text);
}

/* The most of a GPU's memory that was used, over all ranks: with the context of the driver. */
static double most_used(const struct rp_facts *f)
{
    double most = NAN;
    for (int64_t i = 0; i < f->rank_n; i++)
        if (f->rank[i].device_bytes)
            most = fmax(most, real_of((double)f->rank[i].device_bytes->used));
    return most;
}

/* "A100-SXM4-40GB", or all of several names. */
static void set_gpu_names(struct rp_result *row, const struct rp_facts *f)
{
    struct rp_layout_names names = {0};
    RP_BUF text = {0};
    for (int64_t i = 0; i < f->rank_n; i++)
        if (f->rank[i].device)
            rp_layout_names_add(&names, "%s", f->rank[i].device->name);
    rp_layout_names_join(&text, &names, names.n);
    set_text(&row->device_model, rp_buf_text(&text));
    rp_layout_names_fini(&names);
}

static void set_processors(struct rp_result *row, const struct rp_run *run, const json_t *probes)
{
    const int64_t threads = rp_facts_threads(run->facts);
    set_cpu_name(row, probes);
    set_text(&row->isa, rp_facts_isa(run->facts));
    row->threads = threads > 0 ? threads : -1;
    row->gpus_per_node = 0;
    row->memory_mib_per_device = real_of((double)run->figures->peak_rss_bytes) / 1048576;
    rp_result_other_work(row, run);
    set_clocks(row, probes);
}

static void set_machine(struct rp_result *row, const struct rp_run *run)
{
    const char *kind = rp_facts_kind(run->facts);
    const struct rp_ceiling_figures *ceilings = run->figures->ceilings;
    row->nodes = run->figures->world.nodes;
    row->devices = rp_run_devices(run);
    if (strcmp(kind, "mixed") == 0) {
        set_text(&row->device_model, "GPUs and CPUs");
    } else if (strcmp(kind, "cuda") == 0) {
        set_gpu_names(row, run->facts);
        row->gpus_per_node = row->devices % row->nodes == 0 ? row->devices / row->nodes : -1;
        row->memory_mib_per_device = most_used(run->facts) / 1048576;
    } else {
        set_processors(row, run, rp_group(run->node[0].before, "probes"));
    }
    row->ceiling_share = round(real_of(ceilings ? ceilings->gemm_share : NAN) * 1000) / 1000;
}

/* How ranks divided the work, and the slowest one, whose times are those of the run. */
static void set_ranks(struct rp_result *row, const struct rp_run *run)
{
    const struct rp_layout_facts *l = &run->facts->layout;
    const int64_t slowest = run->figures->world.slowest;
    const struct rp_rank_figures *rank = &run->figures->rank[slowest];
    char layout[64];
    snprintf(layout, sizeof layout, "%" PRId64 "x%" PRId64 "x%" PRId64, l->data, l->tensor, l->pipeline);
    set_text(&row->rank_layout, layout);
    row->slowest_rank = slowest;
    row->slowest_node = run->facts->rank[slowest].node;
    row->exchange_share = rank->timed_s > 0 ? rank->exchange_s / rank->timed_s : NAN;
    row->wait_share = rank->timed_s > 0 ? rank->wait_s / rank->timed_s : NAN;
}

static void set_figures(struct rp_result *row, const struct rp_run *run)
{
    const struct rp_results *r = &run->figures->results;
    row->throughput = real_of(r->throughput.value);
    row->latency_ms = real_of(r->step_s ? r->step_s->median : NAN) * 1000;
    if (!isnan(row->throughput))
        set_text(&row->unit, r->throughput.unit);
    row->low = real_of(r->throughput.interval[0]);
    row->high = real_of(r->throughput.interval[1]);
    row->tflops_per_device = real_of(r->flops_per_s) / 1e12 / (double)row->devices;
    set_text(&row->limited_by, r->input.limited_by);
    set_text(&row->timed_window, TIMED_WINDOW);
    set_text(&row->estimator, ESTIMATOR);
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

static void fill_result(struct rp_result *row, const struct rp_run *run, const struct rp_records *rs)
{
    const struct rp_facts *f = run->facts;
    char text[120];
    set_text(&row->label, f->recipe_name);
    RP_FORMAT(text, "repro %.40s", f->tool.version);
    set_text(&row->framework, text);
    set_text(&row->date, f->started_at);
    set_model(row, run);
    set_settings(row, run);
    set_machine(row, run);
    set_figures(row, run);
    set_ranks(row, run);
    if (rs)
        set_samples(row, rs);
    row->link = rp_alloc(2 * sizeof *row->link);
    set_text(&row->link[row->links++], RP_OF_RANK(0, ".jsonl"));
    row->environment = json_incref(run->node[0].before);
    row->run = rp_run_documents_use(run->doc);
    if (!rp_facts_complete(f)) {
        snprintf(text, sizeof text, "the run is marked %.20s", f->status);
        set_text(&row->source.note, text);
    }
}

/* ---- of a command ---- */

/* Takes from the captures what the log does not say: which of its processors and GPUs a command used is not known. */
static void set_machine_of_command(struct rp_result *row, const struct rp_run *run)
{
    char machine[RP_PLACE_TEXT], text[RP_RESULT_TEXT_MAX + 1];
    if (row->nodes < 0)
        row->nodes = rp_command_nodes(run->doc->command);
    if (row->device_model)
        return;
    RP_FORMAT(text, "any of %s", rp_run_machine_text(machine, run));
    set_text(&row->device_model, text);
}

/* The results of its log, as imported ones are, but from signed bytes. */
static int add_command(struct rp_rows *rows, const struct rp_run *run, struct rp_err *err)
{
    const struct rp_run_documents *d = run->doc;
    const int first = rows->n;
    if (!d->observed->log || !json_array_size(d->observed->log->result))
        return rp_fail(err, RP_UNAVAILABLE, "the bundle of the command '%.100s' has no figure: %s", d->command->name,
                       !d->command->log    ? "no log was named (repro exec --log)"
                       : !d->observed->log ? "the command wrote no log"
                                           : "the importer found none in its log ('repro verify' repeats why)");
    RP_JSON *doc = json_pack("{s:s, s:O}", "schema", RP_IMPORTED_SCHEMA, "rows", d->observed->log->result);
    char at[RP_MEMBER_NAME];
    const char *log = rp_command_log_member(at, d->command);
    if (rp_rows_from_json(rows, doc, log, NULL, err) < 0)
        return -1;
    for (int i = first; i < rows->n; i++) {
        struct rp_result *row = &rows->row[i];
        row->source.kind = RP_RESULT_COMMAND;
        row->source.line = -1;
        free(row->source.log_sha256);
        row->source.log_sha256 = NULL;
        if (!row->link)
            row->link = rp_alloc(2 * sizeof *row->link);
        if (!row->links)
            set_text(&row->link[row->links++], log);
        if (!row->date)
            set_text(&row->date, d->command->started_at);
        set_machine_of_command(row, run);
        row->environment = json_incref(run->node[0].before);
        if (rp_facts_complete(run->facts))
            continue;
        RP_FREE char *note = rp_asprintf("the command is marked %.20s%s%.400s", run->facts->status,
                                         row->source.note ? "; " : "", row->source.note ? row->source.note : "");
        set_text(&row->source.note, note);
    }
    return 0;
}

/* ---- verified or not ---- */

static json_t *member_json(const struct rp_bundle *b, const char *name, const struct rp_schema *schema,
                           struct rp_err *err)
{
    const struct rp_member *m = rp_bundle_find(b, name);
    if (!m)
        return rp_fail_null(err, RP_MALFORMED, "it has no member %s", name);
    json_t *j = schema ? rp_json_parse(rp_buf_text(&m->bytes), m->bytes.size, name, err) : NULL;
    if (j && (rp_statement_version(j, name, err) < 0 || rp_schema_check(schema, j, name, err) < 0))
        rp_json_decref(&j);
    return j;
}

/* The documents and the captures before the run, which those of nodes after the first may lack. */
static int read_unverified(struct rp_run *run, const struct rp_bundle *b, struct rp_err *err)
{
    RP_JSON *facts = member_json(b, "facts.json", rp_facts_schema("facts", err), err);
    RP_JSON *figures = facts ? member_json(b, "run.json", rp_facts_schema("run", err), err) : NULL;
    run->doc = figures ? rp_run_documents_read(facts, figures, err) : NULL;
    if (!run->doc)
        return -1;
    run->facts = &run->doc->facts;
    run->figures = &run->doc->figures;
    run->nodes = (int)run->figures->world.nodes;
    run->node = rp_alloc((size_t)run->nodes * sizeof *run->node);
    for (int i = 0; i < run->nodes; i++) {
        const char *name = RP_OF_NODE(i, ".before.json");
        if (i > 0 && !rp_bundle_find(b, name))
            continue;
        run->node[i].before = member_json(b, name, rp_schema_load("env", err), err);
        if (!run->node[i].before)
            return -1;
    }
    return 0;
}

/* The members of a bundle that failed, as they are; they must still have the right form. The log of a command would be
 * read again: that is what `verify` does. */
static int fill_unverified(struct rp_result *row, const char *path, struct rp_err *err)
{
    RP_BUNDLE b = {0};
    struct rp_run run = {0};
    const int failed = rp_bundle_skim(&b, path, err) < 0 ||
                       (rp_bundle_kind(&b) == RP_BUNDLE_COMMAND
                            ? rp_fail(err, RP_UNAVAILABLE, "the bundle of a command is compared only where it verifies")
                            : read_unverified(&run, &b, err)) < 0;
    if (!failed)
        fill_result(row, &run, NULL);
    rp_run_fini(&run);
    return failed ? -1 : 0;
}

/* -1; --unverified is offered only where it would help. The caller discards the row. */
static int refuse_unverified(struct rp_result *row, const char *path, const struct rp_err *why, struct rp_err *err)
{
    struct rp_err unread;
    const int readable = fill_unverified(row, path, &unread) == 0;
    *err = *why;
    if (why->code == RP_IO || why->code == RP_VERSION)
        return -1;
    return rp_wrap(err, "'%s' does not verify, so it is not compared%s", path,
                   readable ? " (--unverified compares it anyway)" : "");
}

/* The first result of its log, or a row with its name alone. */
static struct rp_result *add_verified_command(struct rp_rows *rows, const struct rp_verification *v,
                                              const struct rp_verified *kept)
{
    struct rp_err ignored;
    struct rp_rows own = {0};
    const int none = add_command(&own, &kept->run, &ignored) < 0 || own.n == 0;
    struct rp_result *row = rp_rows_add(rows);
    if (!none) {
        struct rp_result empty = *row;
        *row = own.row[0];
        own.row[0] = empty;
    }
    rp_rows_fini(&own);
    row->source.kind = RP_RESULT_COMMAND;
    if (!row->label)
        set_text(&row->label, kept->run.doc->command->name);
    set_text(&row->source.signed_by, v->fingerprint);
    row->source.key_known = v->standing >= RP_STANDING_TRUSTED;
    rp_result_complete(row);
    return row;
}

struct rp_result *rp_rows_add_verified(struct rp_rows *rows, const struct rp_verification *v,
                                       const struct rp_verified *kept)
{
    if (kept->run.doc->command)
        return add_verified_command(rows, v, kept);
    struct rp_result *row = rp_rows_add(rows);
    row->source.kind = RP_RESULT_BUNDLE;
    fill_result(row, &kept->run, NULL);
    set_text(&row->source.signed_by, v->fingerprint);
    row->source.key_known = v->standing >= RP_STANDING_TRUSTED;
    rp_result_complete(row);
    return row;
}

/* Who signed, and what the checks proved. */
static void set_verdict(struct rp_result *row, const struct rp_verification *v)
{
    char text[RP_RESULT_TEXT_MAX + 1];
    RP_BUF verdict = {0}, warnings = {0};
    snprintf(text, sizeof text, "%s%s%s%s", v->fingerprint, *v->signer ? " (" : "", v->signer, *v->signer ? ")" : "");
    set_text(&row->source.signed_by, text);
    rp_levels_line(&verdict, v);
    set_text(&row->source.verdict, rp_buf_text(&verdict));
    row->source.key_known = v->standing >= RP_STANDING_TRUSTED;
    rp_level_warnings(&warnings, v);
    set_text(&row->source.warnings, rp_buf_text(&warnings));
}

static int rows_from_command(struct rp_rows *rows, const char *path, const struct rp_verification *v,
                             const struct rp_verified *kept, struct rp_err *err)
{
    char sha256[RP_SHA256_HEX];
    const int first = rows->n;
    if (add_command(rows, &kept->run, err) < 0 || rp_sha256_file(sha256, path, NULL, err) < 0)
        return -1;
    for (int i = first; i < rows->n; i++) {
        set_verdict(&rows->row[i], v);
        set_text(&rows->row[i].source.file, path);
        set_text(&rows->row[i].source.format, "repro bundle of a command");
        set_text(&rows->row[i].source.sha256, sha256);
    }
    return 0;
}

int rp_rows_from_bundle(struct rp_rows *rows, const char *path, const struct rp_result_opts *o, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_verify_opts vo = {.trust = o->trust, .keep = &kept};
    struct rp_err why = {0};
    char sha256[RP_SHA256_HEX], text[RP_RESULT_TEXT_MAX + 1];
    int failed = rp_verify(&v, path, &vo, &why) < 0, rc = 0;
    if (!failed && kept.run.doc->command)
        return rows_from_command(rows, path, &v, &kept, err);
    struct rp_result *row = rp_rows_add(rows);
    row->source.kind = RP_RESULT_BUNDLE;
    set_text(&row->source.file, path);
    set_text(&row->source.format, "repro bundle");
    if (!failed) {
        fill_result(row, &kept.run, &kept.run.records);
        set_verdict(row, &v);
        set_text(&row->source.statement, v.statement);
    } else if (o->unverified) {
        snprintf(text, sizeof text, "NOT VERIFIED: %.400s", why.msg);
        set_text(&row->source.verdict, text);
        rc = fill_unverified(row, path, err);
    } else {
        rc = refuse_unverified(row, path, &why, err);
    }
    if (rc < 0 || rp_sha256_file(sha256, path, NULL, err) < 0)
        return -1;
    set_text(&row->source.sha256, sha256);
    rp_run_documents_shrink(row->run);
    return 0;
}
