#include "compare/result.h"

#include "base/nearest.h"
#include "base/text.h"
#include "run/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the table ---- */

static const struct property {
    const char *key;
    char type; /* 'T', 'C', 'R' */
    size_t offset;
} properties[] = {
#define TEXT(key, meaning) {#key, 'T', offsetof(struct rp_result, key)},
#define COUNT(key, meaning) {#key, 'C', offsetof(struct rp_result, key)},
#define REAL(key, meaning) {#key, 'R', offsetof(struct rp_result, key)},
#include "compare/result.def"
#undef TEXT
#undef COUNT
#undef REAL
};
#define PROPERTIES (sizeof properties / sizeof *properties)

static void *property_at(const struct rp_result *row, const struct property *p)
{
    return (char *)row + p->offset; /* NOLINT: the callers know whether they may write */
}

static const char *const also[][2] = {{"gpus", "devices"}, {"batch", "batch_per_device"}};
#define ALSO (sizeof also / sizeof *also)

static const struct property *find_property(const char *key)
{
    for (size_t i = 0; i < ALSO; i++)
        key = strcmp(key, also[i][0]) == 0 ? also[i][1] : key;
    for (size_t i = 0; i < PROPERTIES; i++)
        if (strcmp(properties[i].key, key) == 0)
            return &properties[i];
    return NULL;
}

int rp_result_has_key(const char *key)
{
    return find_property(key) != NULL;
}

const char *rp_result_nearest_key(const char *key)
{
    struct rp_nearest near = {.word = key};
    for (size_t i = 0; i < ALSO; i++)
        rp_nearest_try(&near, also[i][0]);
    for (size_t i = 0; i < PROPERTIES; i++)
        rp_nearest_try(&near, properties[i].key);
    return near.best;
}

static const char *kind_name(enum rp_result_kind kind)
{
    static const char *const names[] = {"imported", "published", "bundle", "command"};
    return names[kind];
}

const char *rp_result_unsigned_text(const struct rp_result_source *s)
{
    if (s->kind == RP_RESULT_IMPORTED)
        return "imported, unsigned";
    return s->known_table ? "published, unsigned" : "table, unsigned";
}

/* ---- life ---- */

static void set_unknown(struct rp_result *row, const struct property *p)
{
    if (p->type == 'C')
        *(int64_t *)property_at(row, p) = -1;
    else if (p->type == 'R')
        *(double *)property_at(row, p) = NAN;
}

struct rp_result *rp_rows_add(struct rp_rows *rows)
{
    rows->row = rp_realloc(rows->row, (size_t)(rows->n + 1) * sizeof *rows->row);
    struct rp_result *row = &rows->row[rows->n++];
    *row = (struct rp_result){.throughput = NAN, .low = NAN, .high = NAN, .source = {.line = -1, .number = -1}};
    for (size_t i = 0; i < PROPERTIES; i++)
        set_unknown(row, &properties[i]);
    return row;
}

void rp_result_fini(struct rp_result *row)
{
    for (size_t i = 0; i < PROPERTIES; i++)
        if (properties[i].type == 'T')
            free(*(char **)property_at(row, &properties[i]));
    for (int i = 0; i < row->links; i++)
        free(row->link[i]);
    free(row->link);
    free(row->sample);
    free(row->group);
    free(row->unit);
    free(row->source.file);
    free(row->source.sha256);
    free(row->source.log_sha256);
    free(row->source.format);
    free(row->source.signed_by);
    free(row->source.note);
    free(row->source.statement);
    free(row->source.warnings);
    free(row->source.verdict);
    json_decref(row->environment);
    rp_run_documents_free(row->run);
}

void rp_rows_fini(struct rp_rows *rows)
{
    for (int i = 0; i < rows->n; i++)
        rp_result_fini(&rows->row[i]);
    free(rows->row);
    *rows = (struct rp_rows){0};
}

/* ---- values ---- */

int rp_result_text(char **to, const char *key, const char *text, struct rp_err *err)
{
    if (strlen(text) > RP_RESULT_TEXT_MAX)
        return rp_fail(err, RP_MALFORMED, "'%s' has %zu bytes; at most %d are taken", key, strlen(text),
                       RP_RESULT_TEXT_MAX);
    free(*to);
    *to = *text ? rp_strdup(text) : NULL;
    if (*to)
        rp_sanitize(*to);
    return 0;
}

/* Decimal only: strtod also takes hexadecimal, "inf" and "nan". */
static int decimal(double *out, const char *text)
{
    char *end;
    size_t n = strlen(text);
    if (n == 0 || n > 40 || strspn(text, "0123456789.eE+-") != n)
        return -1;
    errno = 0;
    *out = strtod(text, &end);
    return *end || errno || !isfinite(*out) ? -1 : 0;
}

static int take_number(double *to, const char *key, double d, struct rp_err *err)
{
    if (!isfinite(d) || d < RP_FIGURE_LEAST || d > RP_RESULT_NUMBER_MAX)
        return rp_fail(err, RP_MALFORMED, "'%s' is %.9g; expected a number from %.0e to %.0e", key, d,
                       RP_FIGURE_LEAST, RP_RESULT_NUMBER_MAX);
    *to = d;
    return 0;
}

static int take_count(int64_t *to, const char *key, double d, struct rp_err *err)
{
    if (!isfinite(d) || d < 0 || d > RP_RESULT_NUMBER_MAX || d != floor(d))
        return rp_fail(err, RP_MALFORMED, "'%s' is %.9g; expected a whole number from 0 to %.0e", key, d,
                       RP_RESULT_NUMBER_MAX);
    *to = (int64_t)d;
    return 0;
}

static int text_to_number(double *out, const char *key, const char *text, struct rp_err *err)
{
    char shown[72];
    if (decimal(out, text) == 0)
        return 0;
    return rp_fail(err, RP_MALFORMED, "'%s' is '%s', which is not a decimal number", key, rp_excerpt(shown, text));
}

int rp_result_number(double *to, const char *key, const char *text, struct rp_err *err)
{
    double d;
    return text_to_number(&d, key, text, err) < 0 ? -1 : take_number(to, key, d, err);
}

static int set_number(struct rp_result *row, const struct property *p, double d, struct rp_err *err)
{
    return p->type == 'C' ? take_count(property_at(row, p), p->key, d, err)
                          : take_number(property_at(row, p), p->key, d, err);
}

int rp_result_set(struct rp_result *row, const char *key, const char *text, struct rp_err *err)
{
    char shown[72];
    const struct property *p = find_property(key);
    double d;
    if (!p)
        return rp_fail(err, RP_MALFORMED, "a result has no property '%s'", rp_excerpt(shown, key));
    if (p->type == 'T')
        return rp_result_text(property_at(row, p), p->key, text, err);
    set_unknown(row, p);
    return !*text ? 0 : text_to_number(&d, p->key, text, err) < 0 ? -1 : set_number(row, p, d, err);
}

int rp_result_get(char *out, size_t size, const struct rp_result *row, const char *key)
{
    const struct property *p = find_property(key);
    *out = 0;
    if (!p)
        return -1;
    if (p->type == 'T') {
        const char *text = *(char **)property_at(row, p);
        snprintf(out, size, "%s", text ? text : "");
    } else if (p->type == 'C') {
        int64_t n = *(int64_t *)property_at(row, p);
        if (n >= 0)
            snprintf(out, size, "%lld", (long long)n);
    } else {
        double d = *(double *)property_at(row, p);
        if (!isnan(d))
            snprintf(out, size, "%.10g", d);
    }
    return 0;
}

double rp_result_real(const struct rp_result *row, const char *key)
{
    const struct property *p = find_property(key);
    RP_BUG_IF(!p || p->type != 'R');
    return *(double *)property_at(row, p);
}

char *rp_result_hardware(const struct rp_result *row)
{
    if (!row->device_model || row->threads < 1)
        return row->device_model ? rp_strdup(row->device_model) : NULL;
    const int shared = row->devices > 0 && row->devices < row->threads; /* by several ranks */
    const long long here = shared ? row->devices : row->threads;
    return rp_asprintf("%lld thread%s of %s", here, rp_s(here), row->device_model);
}

double rp_result_tokens(const struct rp_result *row)
{
    if (!row->model || strncasecmp(row->model, "gpt", 3) != 0 || !row->unit)
        return NAN;
    return strcmp(row->unit, "tokens/s") == 0 ? row->throughput
           : strcmp(row->unit, "sequences/s") == 0 && row->sequence_length > 0
               ? row->throughput * (double)row->sequence_length
               : NAN;
}

void rp_result_samples(struct rp_result *row, const double *sample, int64_t n)
{
    free(row->sample);
    free(row->group);
    row->samples = row->groups = n;
    row->sample = rp_alloc((size_t)(n + 1) * sizeof *row->sample);
    row->group = rp_alloc((size_t)(n + 1) * sizeof *row->group);
    for (int64_t i = 0; i < n; i++) {
        row->sample[i] = sample[i];
        row->group[i] = 1;
    }
}

/* The product of two known positive numbers that stays a number of something; -1. */
static int64_t times(int64_t a, int64_t b)
{
    return a > 0 && b > 0 && a <= 1000000000 && b <= 1000000 ? a * b : -1;
}

int64_t rp_result_ranks(const struct rp_result *row)
{
    long long data, tensor, pipeline;
    if (!row->rank_layout || sscanf(row->rank_layout, "%lldx%lldx%lld", &data, &tensor, &pipeline) != 3)
        return row->devices;
    return times(times(data, tensor), pipeline);
}

void rp_result_complete(struct rp_result *row)
{
    int64_t *degree[] = {&row->data_parallel, &row->tensor_parallel, &row->pipeline_parallel};
    const int on_processors = row->gpus_per_node == 0;
    if (row->devices < 0)
        row->devices = on_processors ? row->threads : times(row->nodes, row->gpus_per_node);
    if (row->gpus_per_node < 0 && row->nodes > 0 && row->devices >= 0 && row->devices % row->nodes == 0)
        row->gpus_per_node = row->devices / row->nodes;
    for (int i = 0; i < 3; i++) {
        int64_t others = times(*degree[(i + 1) % 3], *degree[(i + 2) % 3]);
        if (*degree[i] < 0 && row->devices == 1)
            *degree[i] = 1;
        else if (*degree[i] < 0 && !on_processors && others > 0 && row->devices > 0 && row->devices % others == 0)
            *degree[i] = row->devices / others;
    }
    if (row->devices < 0 && !on_processors)
        row->devices = times(times(row->data_parallel, row->tensor_parallel), row->pipeline_parallel);
    if (row->devices == 1 && row->nodes < 0)
        row->nodes = 1;
    if (row->batch_per_device < 0 && row->micro_batch > 0 && row->tensor_parallel == 1 && row->pipeline_parallel == 1)
        row->batch_per_device = row->micro_batch;
    if (row->global_batch < 0)
        row->global_batch = times(times(row->batch_per_device, row->accumulation), row->data_parallel);
}

const char *rp_result_figure(char out[32], double x, int as_it_is)
{
    if (isnan(x))
        snprintf(out, 32, "unknown");
    else
        snprintf(out, 32, as_it_is ? "%.10g" : x >= 100 ? "%.2f" : x >= 1 ? "%.3f" : "%.4g", x);
    return out;
}

/* ---- to JSON ---- */

static json_t *source_json(const struct rp_result_source *s)
{
    json_t *j = json_pack("{s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*}", "kind", kind_name(s->kind), "file",
                          s->file, "sha256", s->sha256, "format", s->format, "signed_by", s->signed_by, "note", s->note,
                          "verdict", s->verdict);
    RP_BUG_IF(!j); /* only texts that are not UTF-8, and those were cleaned */
    if (s->line > 0)
        json_object_set_new(j, "line", json_integer(s->line));
    return j;
}

static void add_measured(json_t *j, const struct rp_result *row)
{
    if (!isnan(row->throughput)) {
        json_t *t = json_pack("{s:f, s:s*}", "value", row->throughput, "unit", row->unit);
        if (!isnan(row->low) && !isnan(row->high)) {
            json_object_set_new(t, "low", json_real(row->low));
            json_object_set_new(t, "high", json_real(row->high));
        }
        json_object_set_new(j, "throughput", t);
    }
    if (row->samples) {
        json_t *samples = json_array(), *groups = json_array();
        for (int64_t i = 0; i < row->samples; i++)
            json_array_append_new(samples, json_real(row->sample[i]));
        for (int64_t i = 0; i < row->groups; i++)
            json_array_append_new(groups, json_integer(row->group[i]));
        json_object_set_new(j, "samples", samples);
        json_object_set_new(j, "sample_groups", groups);
    }
    if (row->links) {
        json_t *links = json_array();
        for (int i = 0; i < row->links; i++)
            json_array_append_new(links, json_string(row->link[i]));
        json_object_set_new(j, "links", links);
    }
}

json_t *rp_result_to_json(const struct rp_result *row)
{
    json_t *j = json_object();
    for (size_t i = 0; i < PROPERTIES; i++) {
        const struct property *p = &properties[i];
        const void *value = property_at(row, p);
        if (p->type == 'T' && *(char *const *)value)
            json_object_set_new(j, p->key, json_string(*(char *const *)value));
        else if (p->type == 'C' && *(const int64_t *)value >= 0)
            json_object_set_new(j, p->key, json_integer(*(const int64_t *)value));
        else if (p->type == 'R' && !isnan(*(const double *)value))
            json_object_set_new(j, p->key, json_real(*(const double *)value));
    }
    add_measured(j, row);
    json_object_set_new(j, "source", source_json(&row->source));
    return j;
}

/* ---- from JSON ---- */

/* A number in place of a text ("dropout": 0.1) is converted to its shortest text. */
static int text_of(char **to, const char *key, const json_t *v, struct rp_err *err)
{
    char text[40];
    if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
        return rp_result_text(to, key, json_string_value(v), err);
    if (!json_is_number(v))
        return rp_fail(err, RP_MALFORMED, "'%s' is not a text", key);
    snprintf(text, sizeof text, "%.10g", json_number_value(v));
    return rp_result_text(to, key, text, err);
}

static int property_of(struct rp_result *row, const struct property *p, const json_t *v, struct rp_err *err)
{
    if (p->type == 'T')
        return text_of(property_at(row, p), p->key, v, err);
    if (!json_is_number(v))
        return rp_fail(err, RP_MALFORMED, "'%s' is not a number", p->key);
    return set_number(row, p, json_number_value(v), err);
}

static int throughput_of(struct rp_result *row, const json_t *v, struct rp_err *err)
{
    const json_t *value = json_object_get(v, "value"), *low = json_object_get(v, "low"),
                 *high = json_object_get(v, "high");
    const char *unit = json_string_value(json_object_get(v, "unit"));
    if (!json_is_number(value) || !unit || !*unit)
        return rp_fail(err, RP_MALFORMED, "'throughput' is not an object with a number 'value' and a text 'unit'");
    if (take_number(&row->throughput, "throughput/value", json_number_value(value), err) < 0 ||
        rp_result_text(&row->unit, "throughput/unit", unit, err) < 0)
        return -1;
    if (!low && !high)
        return 0;
    if (!json_is_number(low) || !json_is_number(high))
        return rp_fail(err, RP_MALFORMED, "'throughput' has only one end of an interval, or one that is not a number");
    if (take_number(&row->low, "throughput/low", json_number_value(low), err) < 0 ||
        take_number(&row->high, "throughput/high", json_number_value(high), err) < 0)
        return -1;
    return row->low <= row->high
               ? 0
               : rp_fail(err, RP_MALFORMED, "'throughput' has an interval whose low is above its high");
}

static int samples_of(struct rp_result *row, const json_t *v, struct rp_err *err)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > RP_RESULT_SAMPLES_MAX)
        return rp_fail(err, RP_MALFORMED, "'samples' is not a list of at most %d numbers", RP_RESULT_SAMPLES_MAX);
    RP_FREE double *sample = rp_alloc((n + 1) * sizeof *sample);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(v, i);
        if (take_number(&sample[i], "samples", json_is_number(one) ? json_number_value(one) : NAN, err) < 0)
            return -1;
    }
    rp_result_samples(row, sample, (int64_t)n);
    return 0;
}

static int groups_of(struct rp_result *row, const json_t *v, struct rp_err *err)
{
    int64_t n = (int64_t)json_array_size(v), sum = 0;
    if (n > row->samples)
        return rp_fail(err, RP_MALFORMED, "'sample_groups' has %lld entries for %lld samples", (long long)n,
                       (long long)row->samples);
    for (int64_t i = 0; i < n; i++) {
        int64_t size = json_integer_value(json_array_get(v, (size_t)i)); /* 0 where it is not a number */
        if (size < 1 || size > row->samples - sum)
            return rp_fail(err, RP_MALFORMED, "'sample_groups' does not divide %lld samples", (long long)row->samples);
        row->group[i] = size;
        sum += size;
    }
    row->groups = n;
    return sum == row->samples
               ? 0
               : rp_fail(err, RP_MALFORMED, "'sample_groups' does not divide %lld samples", (long long)row->samples);
}

static int links_of(struct rp_result *row, const json_t *v, struct rp_err *err)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > 1000)
        return rp_fail(err, RP_MALFORMED, "'links' is not a list of at most 1000 texts");
    row->link = rp_alloc((n + 1) * sizeof *row->link);
    for (size_t i = 0; i < n; i++) {
        if (text_of(&row->link[row->links], "links", json_array_get(v, i), err) < 0)
            return -1;
        row->links += row->link[row->links] != NULL;
    }
    return 0;
}

/* The file that the row was read from. A signer in the document is ignored. */
static int source_of(struct rp_result *row, const json_t *v, struct rp_err *err)
{
    static const char *const texts[] = {"file", "format", "note"};
    char **const to[] = {&row->source.file, &row->source.format, &row->source.note};
    double line = json_number_value(json_object_get(v, "line"));
    const json_t *kind = json_object_get(v, "kind");
    const char *sha256 = json_string_value(json_object_get(v, "sha256"));
    const char *imported = kind_name(RP_RESULT_IMPORTED);
    if (kind && (!json_is_string(kind) || strcmp(json_string_value(kind), imported) != 0))
        return rp_fail(err, RP_MALFORMED,
                       "'source/kind' is not '%s': a document cannot declare itself published or a bundle", imported);
    for (int i = 0; i < 3; i++) {
        const json_t *text = json_object_get(v, texts[i]);
        if (text && text_of(to[i], texts[i], text, err) < 0)
            return -1;
    }
    row->source.line = line >= 1 && line <= RP_RESULT_NUMBER_MAX ? (int64_t)line : -1;
    if (sha256 && rp_is_sha256(sha256))
        row->source.log_sha256 = rp_strdup(sha256);
    return 0;
}

static int row_of(struct rp_result *row, const json_t *j, struct rp_err *err)
{
    static const struct {
        const char *key;
        int (*take)(struct rp_result *row, const json_t *v, struct rp_err *err);
    } parts[] = {{"throughput", throughput_of},
                 {"samples", samples_of},
                 {"sample_groups", groups_of},
                 {"links", links_of},
                 {"source", source_of}};
    const char *key;
    json_t *v;
    char shown[72];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) { /* in this order: groups need samples */
        const json_t *part = json_object_get(j, parts[i].key);
        if (part && parts[i].take(row, part, err) < 0)
            return -1;
    }
    json_object_foreach((json_t *)j, key, v)
    {
        const struct property *p = find_property(key);
        int is_part = 0;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            is_part |= strcmp(key, parts[i].key) == 0;
        if (!is_part && (!p || strcmp(p->key, key) != 0))
            return rp_fail(err, RP_MALFORMED, "a result has no property '%s'", rp_excerpt(shown, key));
        if (!is_part && property_of(row, p, v, err) < 0)
            return -1;
    }
    return 0;
}

int rp_rows_from_json(struct rp_rows *rows, const json_t *doc, const char *file, const char *sha256, struct rp_err *err)
{
    char shown[72];
    const char *schema = json_string_value(json_object_get(doc, "schema"));
    const json_t *list = json_object_get(doc, "rows"),
                 *format = json_object_get(json_object_get(doc, "provenance"), "format");
    if (!schema || strcmp(schema, RP_IMPORTED_SCHEMA) != 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is not a document of imported results: its schema is '%s', not " RP_IMPORTED_SCHEMA, file,
                       schema ? rp_excerpt(shown, schema) : "");
    if (!json_is_array(list) || json_array_size(list) > RP_ROWS_MAX)
        return rp_fail(err, RP_MALFORMED, "'%s': 'rows' is not a list of at most %d results", file, RP_ROWS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        struct rp_result *row = rp_rows_add(rows);
        if ((json_is_object(one) ? row_of(row, one, err) : rp_fail(err, RP_MALFORMED, "is not an object")) < 0)
            return rp_wrap(err, "'%s': row %zu", file, i + 1);
        row->source.kind = RP_RESULT_IMPORTED;
        row->source.number = (int64_t)i + 1;
        if (!row->source.file && rp_result_text(&row->source.file, "file", file, err) < 0)
            return -1;
        if (!row->source.format && json_is_string(format) && text_of(&row->source.format, "format", format, err) < 0)
            return -1;
        free(row->source.sha256); /* of this document, not of one that it names */
        row->source.sha256 = sha256 ? rp_strdup(sha256) : NULL;
    }
    return 0;
}
