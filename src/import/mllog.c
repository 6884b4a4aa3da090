/* MLPerf logging: `:::MLLOG {"namespace": "", "time_ms": 1710009491383, "event_type": "INTERVAL_START", "key":
 * "block_start", "value": null, "metadata": {"samples_count": 2688}}`. Throughput is samples over seconds of the
 * training blocks: evaluation lies between them and does not count. Only blocks with the number of samples (or steps)
 * at both ends count; what epoch_num counts differs between benchmarks, so it is not used. Time to train, scores and
 * the descriptions of machines next to the logs: mlperf.h. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "import/import.h"
#include "import/mlperf.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK ":::MLLOG "
#define BLOCKS_MAX 10000
#define DESCRIPTION_MAX (1ul << 20) /* bytes of systems/NAME.json */

static const struct {
    const char *key, *fact;
} facts[] = {
    {"global_batch_size", "global_batch"},
    {"gradient_accumulation_steps", "accumulation"},
    {"max_sequence_length", "sequence_length"},
    {"opt_name", "optimizer"},
    {"lowest_numerical_precision_in_linear", "precision"},
    {"tensor_parallelism", "tensor_parallel"},
    {"pipeline_parallelism", "pipeline_parallel"},
    {"micro_batch_size", "micro_batch"},
};

/* Benchmarks whose name is not that of their model. */
static const struct {
    const char *benchmark, *model;
} models[] = {{"bert", "bert-large"}, {"resnet", "resnet50-v1.5"}};

struct mllog {
    struct rp_tagged tagged, tagged_system; /* lines of :::MLLOG, of :::SYSJSON */
    struct rp_buf description;              /* the lines from the first that begins with '{' to the first of :::MLLOG */
    int is_log;                             /* and no description */
    struct rp_mlperf_run run;
    double quality, rate_sum; /* last eval_accuracy, NaN: none; printed rates */
    int64_t rate_count, rate_first, rate_last;
    double open_at, open_count;    /* of the block that is open; NaN: none */
    double samples, seconds, each; /* of closed blocks, of the last; samples may be steps: in_steps */
    int in_steps, uneven, blocks_lost, warmups;
    int64_t blocks, first_line, last_line, open_line, org_line, misfit_line;
    double size;        /* samples of a block, where its ends count them instead of all; NaN: they do not */
    double open_steps;  /* when the block that is open began; NaN: unknown */
    double ended_count; /* when a block ended last; NaN: unknown */
    char misfit[160];   /* counters that contradict each other; "": none do */
    double *block;      /* samples (or steps) per second of each */
};

static int mllog_begin(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct mllog *s = state;
    (void)src, (void)err;
    s->quality = s->open_at = s->open_count = s->open_steps = s->ended_count = s->size = NAN;
    s->block = rp_alloc(BLOCKS_MAX * sizeof *s->block);
    return 0;
}

static double steps_of(const struct rp_mllog_metadata *metadata)
{
    const double steps = rp_tagged_real(metadata->step_num);
    return isnan(steps) ? rp_tagged_real(metadata->step) : steps;
}

__attribute__((format(printf, 3, 4))) static void misfit(struct mllog *s, int64_t line, const char *format, ...)
{
    va_list args;
    if (*s->misfit)
        return;
    va_start(args, format);
    vsnprintf(s->misfit, sizeof s->misfit, format, args);
    va_end(args);
    s->misfit_line = line;
}

/* Samples up to an end of a block, or steps if it has nothing else; NaN: neither. */
static double count_of(struct mllog *s, const struct rp_mllog_metadata *metadata)
{
    double samples = rp_tagged_real(metadata->samples_count), steps = steps_of(metadata);
    if (!s->blocks && isnan(s->open_at))
        s->in_steps = isnan(samples);
    double v = s->in_steps ? steps : samples;
    return v >= 0 && v < 1e15 ? v : NAN;
}

static void block_start(struct mllog *s, double ms, const struct rp_mllog_metadata *metadata, int64_t line)
{
    if (rp_same_text(metadata->phase, "warm-up")) { /* as `repro export` marks it */
        s->warmups++;
        return;
    }
    s->open_count = count_of(s, metadata);
    s->open_steps = steps_of(metadata);
    s->open_at = ms;
    s->open_line = line;
    if (s->open_count < s->ended_count)
        misfit(s, line, "a block begins at %.6g, and the one before it ended at %.6g", s->open_count, s->ended_count);
}

/* NeMo logs the same count at both ends of a block: it is that of the block if the steps between them say so. */
static double size_of_block(struct mllog *s, double count, double steps, double batch)
{
    return count > 0 && count == s->open_count && steps > 0 && batch > 0 && steps * batch == count ? count : NAN;
}

static void block_stop(struct mllog *s, double ms, const struct rp_mllog_metadata *metadata, double batch, int64_t line)
{
    const double end = count_of(s, metadata), steps = steps_of(metadata) - s->open_steps;
    double seconds = (ms - s->open_at) / 1000, samples = end - s->open_count;
    if (!s->in_steps && isnan(s->size))
        s->size = size_of_block(s, end, steps, batch);
    if (end == s->open_count && s->size > 0)
        samples = size_of_block(s, end, steps, batch);
    else if (!s->in_steps && samples > 0 && steps > 0 && batch > 0 && samples != steps * batch)
        misfit(s, line, "%.6g samples in %.6g steps of %.6g", samples, steps, batch);
    s->ended_count = s->size > 0 ? NAN : end;
    double exact = rp_tagged_real(metadata->duration_ns) / 1e9;
    if (exact > 0 && fabs(exact - seconds) <= 0.002)
        seconds = exact;
    if (samples > 0 && seconds > 0) {
        s->samples += samples;
        s->seconds += seconds;
        if (s->blocks < BLOCKS_MAX)
            s->block[s->blocks] = samples / seconds;
        s->uneven |= s->blocks && samples != s->each;
        s->each = samples;
        s->first_line = s->blocks++ ? s->first_line : s->open_line;
        s->last_line = line;
    } else {
        s->blocks_lost++;
    }
    s->open_at = s->open_count = NAN;
}

/* Cleaned: it goes into documents as it is. */
static void take_text(char *to, size_t size, const char *text)
{
    if (!text || *to)
        return;
    snprintf(to, size, "%s", text);
    rp_sanitize(to);
}

/* The clip norm of MLPerf is a number, 0 for none; a result names the norm. */
static void take_clipping(struct rp_imported *d, const json_t *value, int64_t line)
{
    char text[60];
    double norm = rp_tagged_real(value);
    if (!(norm >= 0))
        return;
    snprintf(text, sizeof text, norm > 0 ? "global norm %g" : "none", norm);
    rp_imported_text(d, "clipping", text, line);
}

/* A log of `repro export` has the comparable result of its bundle. */
static void take_result(struct rp_imported *d, const json_t *result, int64_t line)
{
    for (const struct rp_fact *f = rp_facts; f->key; f++)
        rp_tagged_fact(d, f->key, json_object_get(result, f->key), line);
}

static void take_benchmark(struct rp_imported *d, const json_t *value, const json_t *result, int64_t line)
{
    const char *name = json_string_value(value);
    if (json_object_get(result, "model")) {
        take_result(d, result, line);
        return;
    }
    for (size_t i = 0; name && i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].benchmark, name) == 0) {
            if (!rp_imported_get_text(d, "model"))
                rp_imported_note(d, "MLPerf's benchmark %s is %s", name, models[i].model);
            name = models[i].model;
        }
    rp_imported_text(d, "model", name ? name : "", line);
}

/* The run, and whose it is; 0: not an event of these. */
static int take_run(struct mllog *s, const struct rp_mllog_event *e, double ms, int64_t line)
{
    struct rp_mlperf_run *r = &s->run;
    const char *text = json_string_value(e->value);
    if (strcmp(e->key, "run_start") == 0) {
        rp_mlperf_event(&r->start, ms, line);
    } else if (strcmp(e->key, "run_stop") == 0) {
        rp_mlperf_event(&r->stop, ms, line);
        take_text(r->status, sizeof r->status, e->metadata.status);
    } else if (strcmp(e->key, "submission_org") == 0) {
        s->org_line = *r->org ? s->org_line : line;
        take_text(r->org, sizeof r->org, text);
    } else if (strcmp(e->key, "submission_platform") == 0) {
        take_text(r->platform, sizeof r->platform, text);
    } else if (strcmp(e->key, "submission_division") == 0) {
        take_text(r->division, sizeof r->division, text);
    } else {
        return 0;
    }
    return 1;
}

static void take_event(struct mllog *s, struct rp_imported *d, const struct rp_mllog_event *e, int64_t line)
{
    const char *key = e->key;
    const json_t *value = e->value;
    const struct rp_mllog_metadata *metadata = &e->metadata;
    double ms = rp_tagged_real(e->time_ms);
    ms = ms > 0 && ms < 1e15 ? ms : NAN;
    if (take_run(s, e, ms, line))
        return;
    if (strcmp(key, "block_start") == 0 || strcmp(key, "epoch_start") == 0) {
        if (isnan(s->open_at)) /* an epoch inside a block is not another */
            block_start(s, ms, metadata, line);
    } else if (strcmp(key, "block_stop") == 0 || strcmp(key, "epoch_stop") == 0) {
        if (!isnan(s->open_at))
            block_stop(s, ms, metadata, (double)rp_imported_get(d, "global_batch"), line);
        else if (isnan(s->size))
            s->ended_count = s->in_steps ? steps_of(metadata) : rp_tagged_real(metadata->samples_count);
    } else if (strcmp(key, "eval_accuracy") == 0) {
        s->quality = rp_tagged_real(value);
    } else if (strcmp(key, "tracked_stats") == 0) {
        double rate = rp_tagged_real(json_object_get(value, "throughput"));
        if (rp_is_figure(rate)) {
            s->rate_sum += rate;
            s->rate_first = s->rate_count++ ? s->rate_first : line;
            s->rate_last = line;
        }
    } else if (strcmp(key, "opt_gradient_clip_norm") == 0) {
        take_clipping(d, value, line);
    } else if (strcmp(key, "submission_benchmark") == 0) {
        take_text(s->run.benchmark, sizeof s->run.benchmark, json_string_value(value));
        take_benchmark(d, value, metadata->result, line);
    } else {
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
            if (strcmp(facts[i].key, key) == 0)
                rp_tagged_fact(d, facts[i].fact, value, line);
    }
}

/* A description is a short file: more than that is text of a log before its first line of :::MLLOG. */
static void add_to_description(struct mllog *s, const char *line, size_t size)
{
    s->is_log |= s->description.size + size > DESCRIPTION_MAX;
    if (s->is_log)
        return;
    rp_buf_add(&s->description, line, size);
    rp_buf_puts(&s->description, "\n");
}

static int mllog_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct mllog *s = state;
    struct rp_mllog_event e;
    struct rp_mlperf_system system;
    (void)err;
    s->is_log |= strstr(line, MARK) != NULL;
    if (!s->is_log && (s->description.size || *line == '{')) {
        add_to_description(s, line, size);
        return 0;
    }
    if (rp_tagged(&system, &rp_type_mlperf_system, &s->tagged_system, &src->lines, line, ":::SYSJSON ")) {
        rp_mlperf_system(&src->draft, &system, src->lines.number, NULL);
        rp_object_fini(&system, &rp_type_mlperf_system);
        return 0;
    }
    if (!rp_tagged(&e, &rp_type_mllog_event, &s->tagged, &src->lines, line, MARK))
        return 0;
    if (e.key)
        take_event(s, &src->draft, &e, src->lines.number);
    rp_object_fini(&e, &rp_type_mllog_event);
    return 0;
}

/* What "throughput" of tracked_stats counts is known for two benchmarks: gpt3, for one, has tokens there. */
static int put_rates(const struct mllog *s, struct rp_imported *d, const char *unit)
{
    const char *model = rp_imported_get_text(d, "model");
    if (!s->rate_count || !model || (strncmp(model, "bert", 4) != 0 && strncmp(model, "resnet", 6) != 0))
        return 0;
    rp_imported_throughput(d, s->rate_sum / (double)s->rate_count, unit, s->rate_first, s->rate_last);
    json_object_set_new(d->row, "estimator", json_string("mean of the rates that the log prints in tracked_stats"));
    return 1;
}

static void put_blocks(struct mllog *s, struct rp_imported *d, const char *unit)
{
    double batch = (double)rp_imported_get(d, "global_batch"), each = s->in_steps ? batch : 1;
    if (*s->misfit) {
        rp_imported_note(d, "line %" PRId64 ": %s: the counters contradict each other, so no throughput is given",
                         s->misfit_line, s->misfit);
        return;
    }
    if (!s->blocks && put_rates(s, d, unit))
        return;
    if (!s->blocks) {
        rp_imported_note(d, "no block has a number of samples or steps, so there is no throughput");
        return;
    }
    if (s->in_steps && !(batch > 0)) {
        rp_imported_note(d, "blocks count steps, but the samples of a step are unknown: --set global_batch=N");
        return;
    }
    double value = each * s->samples / s->seconds;
    if (!rp_is_figure(value)) {
        rp_imported_note(d, "the blocks have no valid throughput: %.6g samples in %.6g s", each * s->samples,
                         s->seconds);
        return;
    }
    rp_imported_throughput(d, value, unit, s->first_line, s->last_line);
    json_object_set_new(d->row, "timed_window",
                        json_string("training blocks, from block_start to block_stop; evaluation lies between them"));
    json_object_set_new(d->row, "estimator", json_string("samples / seconds of the blocks"));
    rp_imported_beside(d, "window", json_pack("{s:I, s:f}", "blocks", (json_int_t)s->blocks, "seconds", s->seconds));
    if (s->warmups)
        rp_imported_note(d, "left out: %d block%s of warm-up", s->warmups, rp_s(s->warmups));
    if (s->blocks_lost)
        rp_imported_note(d, "left out: %d block%s without count or length", s->blocks_lost,
                         rp_s(s->blocks_lost));
    if (s->blocks > 1 && s->blocks <= BLOCKS_MAX && !s->uneven) { /* or their harmonic mean would not be the figure */
        RP_JSON *list = json_array();
        for (int64_t i = 0; i < s->blocks && rp_is_figure(each * s->block[i]); i++)
            json_array_append_new(list, json_real(each * s->block[i]));
        if (json_array_size(list) == (size_t)s->blocks) {
            json_object_set(d->row, "samples", list);
            json_object_set_new(d->row, "sample_groups", json_pack("[I]", (json_int_t)s->blocks));
        }
    }
    double mean = s->rate_sum / (double)s->rate_count;
    if (s->rate_count && fabs(mean - value) > 0.005 * value)
        rp_imported_note(d, "the log itself prints %.6g in tracked_stats, the mean of %" PRId64 " rate%s", mean,
                         s->rate_count, rp_s(s->rate_count));
}

static int mllog_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct mllog *s = state;
    struct rp_imported *d = &src->draft;
    const struct rp_mlperf_run *r = &s->run;
    if (s->description.size && !s->is_log)
        return rp_mlperf_add_system(src, &s->description, err);
    if (rp_tagged_end(&s->tagged, &src->lines, MARK, d, err) < 0)
        return -1;
    if (!r->start.line && !s->blocks && !json_object_size(d->row))
        return rp_fail(err, RP_MALFORMED, "%s: the log has no run, no block and no known setting", src->lines.name);
    char label[220], date[32];
    const char *model = rp_imported_get_text(d, "model"),
               *unit = src->opts->unit ? src->opts->unit : rp_imported_unit(d);
    snprintf(label, sizeof label, "%s%s%.40s%s%s", r->org, *r->org ? " " : "", model ? model : src->name,
             *r->platform ? ", " : "", r->platform);
    rp_imported_default(d, "label", label, *r->org ? s->org_line : RP_DRAFT_NAMED);
    if (r->start.line && r->start.ms < 1e14 && !json_object_get(d->row, "date")) {
        rp_rfc3339(date, (uint64_t)(r->start.ms * 1e6));
        rp_imported_text(d, "date", date, r->start.line);
    }
    put_blocks(s, d, unit);
    rp_imported_infer(d);
    rp_mlperf_run(d, r, src->path);
    if (isfinite(s->quality))
        rp_imported_note(d, "last eval_accuracy %.6g", s->quality);
    return rp_import_add(src, d, err);
}

static void mllog_fini(void *state)
{
    struct mllog *s = state;
    free(s->block);
    rp_buf_fini(&s->description);
}

const struct rp_importer rp_importer_mllog = {
    .name = "mllog",
    .state = sizeof(struct mllog),
    .begin = mllog_begin,
    .line = mllog_line,
    .end = mllog_end,
    .fini = mllog_fini,
    .finish = rp_mlperf_finish,
    .merge = rp_mlperf_merge,
};
