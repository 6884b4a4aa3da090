/* A bundle as an MLPerf log that the public compliance checker accepts (rulesets 3.1.0 to 5.0.0, open division,
 * benchmark bert).
 *
 * It is not a submission. Four values need an explanation, which the metadata of their lines give:
 *   status         "aborted": MLPerf calls a run a success when it reached a quality, and a bundle has none to reach
 *   train_samples  samples trained on, as in MLPerf's own BERT logs; the size of the data set is not recorded
 *   eval_samples   0, and no eval_start: nothing was evaluated
 *   eval_accuracy  the checker requires a quality below 1; the records have exp(-loss) of the training step
 * Times are those of the records; the time of day follows from started_at and elapsed_s, to a second. */
#include "base/json.h"
#include "base/text.h"
#include "import/imported.h"
#include "export/export.h"
#include "import/scan.h"
#include "run/derive.h"
#include "verify/levels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct rp_exporter rp_exporters[] = {
#define EXPORT(id, writes) {#id, writes, rp_export_##id},
#include "export/exporters.def"
#undef EXPORT
    {0},
};

struct log {
    struct rp_buf *out;
    const struct rp_export_source *from;
    const struct rp_run *run;
    const struct rp_records *records; /* of run */
    int64_t wall_ns; /* what to add to a time of the records */
    int64_t now;     /* ns of the records */
};

/* Consumes the value. */
static char *text_of(json_t *j)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_SORT_KEYS | JSON_REAL_PRECISION(17);
    size_t size = json_dumpb(j, NULL, 0, flags);
    char *text = rp_alloc(size + 1);
    RP_BUG_IF(size == 0 || json_dumpb(j, text, size, flags) != size);
    json_decref(j);
    return text;
}

/* Takes value and metadata. */
static void put_line(struct log *l, const char *type, const char *key, json_t *value, json_t *metadata)
{
    RP_FREE char *v = text_of(value);
    RP_FREE char *m = text_of(metadata);
    rp_buf_printf(l->out,
                  ":::MLLOG {\"namespace\": \"repro\", \"time_ms\": %" PRId64
                  ", \"event_type\": \"%s\", \"key\": \"%s\", \"value\": %s, \"metadata\": %s}\n",
                  (l->wall_ns + l->now) / 1000000, type, key, v, m);
}

static void put_event(struct log *l, const char *key, json_t *value, json_t *metadata)
{
    put_line(l, "POINT_IN_TIME", key, value, metadata);
}

/* A recorded setting, whose place the metadata name. */
static void from_recipe(struct log *l, const char *key, const char *name)
{
    const json_t *value = rp_facts_setting(l->run->facts, name);
    char path[80];
    snprintf(path, sizeof path, "recipe/%s", name);
    if (value && !json_is_null(value))
        put_event(l, key, json_incref((json_t *)value), json_pack("{s:s, s:s}", "file", "facts.json", "path", path));
}

/* ---- what was run ---- */

/* Nodes by the model name of the first one's CPU, GPUs by the name of rank 0's. */
static json_t *platform(const struct log *l)
{
    const struct rp_device_facts *first = l->run->facts->rank[0].device;
    const char *cpu = rp_json_text_at(l->run->node[0].before, "probes/cpu/model_name/value");
    const char *kind = rp_facts_kind(l->run->facts), *device = first && *first->name ? first->name : "device";
    const int is_cpu = strcmp(kind, "cpu") == 0;
    char text[200];
    snprintf(text, sizeof text, "%" PRId64 " x %.160s", is_cpu ? l->run->nodes : rp_run_devices(l->run),
             strcmp(kind, "mixed") == 0 ? "GPU or CPU"
             : is_cpu && *cpu           ? cpu
                                        : device);
    rp_sanitize(text);
    return json_string(text);
}

/* The facts of the comparable result under their own keys, for which MLPerf mostly has none; the importer reads them
 * back. */
static json_t *result_of(const struct log *l)
{
    json_t *out = json_object();
    for (const struct rp_fact *f = rp_facts; f->key; f++) {
        json_t *v = json_object_get(l->from->result, f->key);
        if (json_is_string(v) || json_is_integer(v))
            json_object_set(out, f->key, v);
    }
    return out;
}

static void put_submission(struct log *l)
{
    const struct rp_verification *v = l->from->verification;
    const struct rp_records *rs = l->records;
    char name[200];
    RP_BUF verdict = {0};
    rp_levels_line(&verdict, v);
    snprintf(name, sizeof name, "%.190s", l->from->name);
    rp_sanitize(name);
    put_event(l, "cache_clear", json_false(), json_pack("{s:s}", "note", "no cache was cleared"));
    put_event(l, "submission_benchmark", json_string("bert"),
              json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "note", "exported from a bundle; not a submission to MLPerf",
                        "bundle", name, "records_sha256", rs->sha256, "signed_by", v->fingerprint, "verdict",
                        rp_buf_text(&verdict), "result", result_of(l)));
    put_event(l, "submission_org", json_string(l->from->org ? l->from->org : v->fingerprint),
              json_pack("{s:s}", "note", l->from->org ? "given at export" : "the key that signed"));
    put_event(l, "submission_division", json_string("open"), json_object());
    put_event(l, "submission_status", json_string(l->from->status), json_pack("{s:s}", "note", "given at export"));
    put_event(l, "submission_platform", platform(l), json_pack("{s:s}", "file", RP_OF_NODE(0, ".before.json")));
}

static void put_optimizer(struct log *l)
{
    const char *name = json_string_value(rp_facts_setting(l->run->facts, "optimizer.name"));
    char key[80];
    static const struct {
        const char *suffix, *key;
    } of_each[] = {{"beta_1", "optimizer.beta1"}, {"beta_2", "optimizer.beta2"}, {"epsilon", "optimizer.epsilon"}};
    from_recipe(l, "opt_name", "optimizer.name");
    from_recipe(l, "opt_base_learning_rate", "optimizer.learning_rate");
    for (size_t i = 0; name && i < sizeof of_each / sizeof *of_each; i++) {
        snprintf(key, sizeof key, "opt_%.16s_%s", name, of_each[i].suffix);
        from_recipe(l, key, of_each[i].key);
    }
    if (name) {
        snprintf(key, sizeof key, "opt_%.16s_weight_decay%s", name, strcmp(name, "lamb") == 0 ? "_rate" : "");
        from_recipe(l, key, "optimizer.weight_decay");
    }
    from_recipe(l, "opt_gradient_clip_norm", "optimizer.clip_norm");
    from_recipe(l, "opt_learning_rate_training_steps", "schedule.total_steps");
    from_recipe(l, "opt_learning_rate_warmup_steps", "schedule.warmup_steps");
    from_recipe(l, "num_warmup_steps", "schedule.warmup_steps");
    put_event(l, "start_warmup_step", json_integer(0), json_object());
}

static void put_settings(struct log *l)
{
    static const char *const seeds[] = {"seed.init", "seed.dropout", "seed.data"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        from_recipe(l, "seed", seeds[i]);
    put_event(l, "global_batch_size", json_integer(l->run->figures->results.samples_per_step),
              json_pack("{s:s, s:s}", "file", "run.json", "path", "results/samples_per_step"));
    from_recipe(l, "gradient_accumulation_steps", "train.accumulation_steps");
    from_recipe(l, "max_sequence_length", "task.seq_length");
    from_recipe(l, "lowest_numerical_precision_in_linear", "train.precision");
    from_recipe(l, "tensor_parallelism", "parallel.tensor");
    from_recipe(l, "pipeline_parallelism", "parallel.pipeline");
    put_optimizer(l);
    put_event(l, "eval_samples", json_integer(0), json_pack("{s:s}", "note", "nothing was evaluated"));
}

/* ---- the steps ---- */

static json_t *record_at(int64_t line, int64_t step, int64_t samples)
{
    return json_pack("{s:s, s:I, s:I, s:I}", "file", RP_OF_RANK(0, ".jsonl"), "lineno", (json_int_t)line, "step_num",
                     (json_int_t)step, "samples_count", (json_int_t)samples);
}

/* Steps i..end-1 lie in one block: same phase and repeat, no state root between them. */
static int64_t block_end(const struct rp_records *rs, int64_t i)
{
    int64_t end = i + 1;
    while (end < rs->n && !rs->r[end - 1].root && rs->r[end].timed == rs->r[i].timed &&
           rs->r[end].repeat == rs->r[i].repeat)
        end++;
    return end;
}

static int64_t put_block(struct log *l, int64_t i, int64_t end, int64_t samples)
{
    const struct rp_step_record *r = l->records->r;
    char hex[32];
    json_t *begin = record_at(i + 1, r[i].step, samples);
    json_object_set_new(begin, "phase", json_string(r[i].timed ? "timed" : "warm-up"));
    json_object_set_new(begin, "repeat", json_integer(r[i].repeat));
    l->now = r[i].start_ns;
    put_line(l, "INTERVAL_START", "block_start", json_null(), begin);
    for (int64_t j = i; j < end; j++) {
        samples += r[j].samples;
        json_t *metadata = record_at(j + 1, r[j].step, samples);
        rp_float_hex(hex, r[j].loss);
        json_object_set_new(metadata, "loss", json_string(hex));
        json_object_set_new(metadata, "lr", json_real(r[j].learning_rate));
        l->now = r[j].end_ns;
        put_event(l, "train_loss", json_real((double)r[j].loss), metadata);
    }
    json_t *stop = record_at(end, r[end - 1].step + 1, samples);
    json_object_set_new(stop, "duration_ns", json_integer(r[end - 1].end_ns - r[i].start_ns));
    put_line(l, "INTERVAL_END", "block_stop", json_null(), stop);
    return samples;
}

static void put_quality(struct log *l, int64_t samples)
{
    const struct rp_step_record *last = &l->records->r[l->records->n - 1];
    json_t *metadata = record_at(l->records->n, last->step, samples);
    json_object_set_new(metadata, "epoch_num", json_integer(samples)); /* MLPerf's BERT counts samples there */
    json_object_set_new(
        metadata, "metric",
        json_string("exp(-loss) of the last training step, before its update; no accuracy, nothing was evaluated"));
    put_event(l, "eval_accuracy", json_real(exp(-(double)last->loss)), metadata);
}

static void put_stop(struct log *l, int64_t samples)
{
    const struct rp_throughput_figures *rate = &l->run->figures->results.throughput;
    const char *why = rp_facts_complete(l->run->facts)
                          ? "all steps of the recipe were trained; it has no target quality"
                          : "the run was interrupted or failed";
    if (!isnan(rate->value))
        put_event(l, "tracked_stats", json_pack("{s:f}", "throughput", rate->value),
                  json_pack("{s:s, s:s, s:s, s:I}", "file", "run.json", "path", "results/throughput/value", "unit",
                            rate->unit, "samples_count", (json_int_t)samples));
    put_event(l, "train_samples", json_integer(samples),
              json_pack("{s:s}", "note", "what was trained on; the size of the data set is not recorded"));
    put_line(l, "INTERVAL_END", "run_stop", json_null(),
             json_pack("{s:s, s:s, s:I}", "status", "aborted", "reason", why, "samples_count", (json_int_t)samples));
}

/* The end of the last record, with its state root, is the end of the run as far as started_at and elapsed_s know it. */
static int find_clock(struct log *l, struct rp_err *err)
{
    const double elapsed = l->run->facts->elapsed_s;
    double at;
    int of_day;
    const struct rp_step_record *last = &l->records->r[l->records->n - 1];
    if (rp_scan_stamp(l->run->facts->started_at, &at, &of_day) < 0 || of_day || !(elapsed >= 0 && elapsed < 1e9) ||
        at > 4e9)
        return rp_fail(err, RP_MALFORMED, "facts.json: started_at and elapsed_s are not valid times");
    l->wall_ns = (int64_t)((at + elapsed) * 1e9) - last->end_ns - (last->root ? last->root_ns : 0);
    l->now = (int64_t)(at * 1e9) - l->wall_ns;
    return 0;
}

/* The lines of a command are those of its own log: this program did not time its steps, and only MLLOG itself names the
 * submitter and has the time of every event. */
static int export_command(struct rp_buf *out, const struct rp_export_source *from, struct rp_err *err)
{
    static const char mark[] = ":::MLLOG";
    const struct rp_run_documents *d = from->kept->run.doc;
    char at[RP_MEMBER_NAME];
    const char *name = rp_command_log_member(at, d->command);
    const struct rp_member *m = name ? rp_bundle_find(&from->kept->bundle, name) : NULL;
    if (!m)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the bundle of the command has no log, and this program timed no step of it: 'repro exec --log "
                       "mllog' seals one that can be exported");
    if (strcmp(d->command->log->format, "mllog") != 0)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the log of the command, %s, lacks run_start, run_stop, samples_count and the other values of "
                       "an MLPerf log, and this program timed no step of it; the log is in the bundle ('repro inspect "
                       "BUNDLE %s')",
                       d->command->log->format, name);
    if (!d->observed->log || !d->observed->log->read)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the importer 'mllog' finds no figure in the log of the command ('repro verify' repeats why)");
    const char *text = rp_buf_text(&m->bytes);
    for (const char *line = text, *end; *line; line = end) {
        const size_t n = strcspn(line, "\n");
        end = line + n + (line[n] == '\n');
        const char *from_mark = memmem(line, n, mark, sizeof mark - 1);
        if (from_mark) /* torchrun and srun put a label before it */
            rp_buf_printf(out, "%.*s\n", (int)(line + n - from_mark), from_mark);
    }
    return 0;
}

int rp_export_mllog(struct rp_buf *out, const struct rp_export_source *from, struct rp_err *err)
{
    const struct rp_run *run = &from->kept->run;
    struct log l = {.out = out, .from = from, .run = run, .records = &run->records};
    const char *model = run->figures->model.name;
    char shown[72];
    int64_t i = 0, samples = 0;
    if (run->doc && run->doc->command)
        return export_command(out, from, err);
    if (strcmp(model, "bert") != 0)
        return rp_fail(err, RP_UNAVAILABLE, "no MLPerf benchmark is known for the model '%s'",
                       rp_excerpt(shown, model));
    while (i < l.records->n && l.records->r[i].step < 0) /* the state before the first step */
        i++;
    if (i == l.records->n)
        return rp_fail(err, RP_UNAVAILABLE, "the bundle has no steps to log");
    if (find_clock(&l, err) < 0)
        return -1;
    put_submission(&l);
    put_line(&l, "INTERVAL_START", "init_start", json_null(),
             json_pack("{s:s, s:s}", "file", "facts.json", "note",
                       "the time of day follows from started_at and elapsed_s, to a second"));
    put_settings(&l);
    l.now = l.records->r[i].start_ns;
    put_line(&l, "INTERVAL_END", "init_stop", json_null(), json_object());
    put_line(&l, "INTERVAL_START", "run_start", json_null(), json_object());
    for (int64_t end; i < l.records->n; i = end) {
        end = block_end(l.records, i);
        samples = put_block(&l, i, end, samples);
    }
    put_quality(&l, samples);
    put_stop(&l, samples);
    return 0;
}
