#include "compare/compare.h"

#include "base/bootstrap.h"
#include "base/text.h"
#include "compare/layout.h"
#include "run/run.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RP_OBJECT_LIST "compare/comparison.def"
#include "base/object_tables.inc.h"

#define COMPARED_MAX 1000 /* results at once: each is a table of its own against the first */
#define MODELS_NAMED 10
#define MUCH_MORE 1.2 /* the larger number over the smaller one */

enum compare_kind { WORK, SETTING, METHOD, MACHINE };
enum scope { REQUIRED, ALWAYS, TOKENS, PROCESSORS, GPUS, COLLECTIVES, KNOWN, MUCH };

enum effect { SMALL, MODERATE, LARGE };

static const struct confounder {
    const char *key, *name, *why;
    enum compare_kind kind;
    enum scope scope;
    enum effect effect;
} confounders[] = {
#define CONFOUNDER(key, name, kind, scope, effect, why) {#key, name, why, kind, scope, effect},
#include "compare/confounders.def"
#undef CONFOUNDER
};

static const char *const kind_names[] = {"work", "setting", "method", "machine"};
static const char *const effect_names[] = {"small", "moderate", "large"};
/* What an effect adds to the distance of two results: one large effect is further than any number of smaller ones. A
 * value that is unknown may be the same: it counts half. */
static const int effect_distance[] = {1, 30, 1000};

const char *rp_comparable_text(enum rp_comparable verdict)
{
    static const char *const texts[] = {"comparable", "comparable with reservations", "not comparable"};
    return texts[verdict];
}

/* ---- confounders ---- */

/* 0.1 and 0.10 are the same; so are fp32 and FP32. */
static int is_equal(const char *a, const char *b)
{
    char *end_a, *end_b;
    if (strcasecmp(a, b) == 0)
        return 1;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return *a && *b && !*end_a && !*end_b && x == y;
}

/* Chips whose tensor cores have no bf16: there amp is fp16. */
static int lacks_bf16(const char *device)
{
    static const char *const names[] = {"V100", "TITAN V", "Tesla T4"};
    int lacks = device && strcmp(device, "T4") == 0;
    for (size_t i = 0; device && i < sizeof names / sizeof *names; i++)
        lacks |= strstr(device, names[i]) != NULL;
    return lacks;
}

/* What published tables name amp is mixed precision of fp16, or of bf16 where the device has it. */
static int is_same_precision(const struct rp_result *a, const struct rp_result *b)
{
    const struct rp_result *amp = rp_result_is(a->precision, "amp") ? a : b, *other = amp == a ? b : a;
    return rp_result_is(amp->precision, "amp") &&
           (rp_result_is(other->precision, "fp16") ||
            (rp_result_is(other->precision, "bf16") && !lacks_bf16(amp->device_model)));
}

/* A report may name only the family of its model: "NAME" of "NAME-base", "NAME2-124m" and "NAME of 2 x 128". */
static int less_exact(const char *a, const char *b)
{
    size_t n = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    const char *rest = strlen(a) > n ? a + n : b + n;
    rest += strspn(rest, "0123456789");
    return n && strncasecmp(a, b, n) == 0 && (*rest == '-' || *rest == ' ');
}

/* With both sizes known, their own rows judge them, and the name of the family is enough. */
static int has_sizes(const struct rp_result *a, const struct rp_result *b)
{
    return a->hidden_size > 0 && a->layers > 0 && b->hidden_size > 0 && b->layers > 0;
}

#define VAGUE "the shorter name may mean a model of another size: name it with 'repro import --set model=NAME'"

#define NO_MODEL "the work is unknown without the name of the model: name it with 'repro import --set model=NAME'"

static int effect_of(const char *name)
{
    int i = LARGE;
    while (i > SMALL && strcmp(effect_names[i], name) != 0)
        i--;
    return i;
}

/* Before those of a smaller effect. */
static void add_confounder(struct rp_pair *pair, const struct confounder *c, const char *state, const char *a,
                           const char *b)
{
    rp_object_add(&pair->confounders, &pair->confounders_n, &rp_type_confounding);
    struct rp_confounding *list = pair->confounders;
    int64_t i = pair->confounders_n - 1;
    for (; i > 0 && effect_of(list[i - 1].effect) < (int)c->effect; i--)
        list[i] = list[i - 1];
    list[i] = (struct rp_confounding){.key = rp_strdup(c->key),
                                      .name = rp_strdup(c->name),
                                      .kind = rp_strdup(kind_names[c->kind]),
                                      .state = rp_strdup(state),
                                      .effect = rp_strdup(effect_names[c->effect]),
                                      .a = rp_text_copy(*a ? a : NULL),
                                      .b = rp_text_copy(*b ? b : NULL),
                                      .why = rp_strdup(c->why)};
    pair->distance += 2 * effect_distance[c->effect] / (strcmp(state, "unknown") == 0 ? 2 : 1);
}

static int in_images(const struct rp_result *row)
{
    return row->unit && strcmp(row->unit, "images/s") == 0;
}

/* The unit of the importer of nccl-tests. */
static int is_collective(const struct rp_result *row)
{
    return row->unit && strcmp(row->unit, "GB/s") == 0;
}

static int on_processors(const struct rp_result *row)
{
    return row->gpus_per_node == 0;
}

/* Does the scope of a confounder include these results? */
static int confounder_applies(const struct confounder *c, const struct rp_result *a, const struct rp_result *b)
{
    const enum scope scope = c->scope;
    if (is_collective(a) && is_collective(b))
        return scope == COLLECTIVES || scope == GPUS || strcmp(c->key, "task") == 0 ||
               (scope == ALWAYS && (c->kind == METHOD || c->kind == MACHINE));
    switch (scope) {
    case COLLECTIVES:
        return 0;
    case TOKENS:
        return !in_images(a) && !in_images(b);
    case PROCESSORS:
        return on_processors(a) && on_processors(b);
    case GPUS:
        return !on_processors(a) && !on_processors(b);
    default:
        return 1;
    }
}

static int is_near(const char *a, const char *b)
{
    double x = strtod(a, NULL), y = strtod(b, NULL);
    return x <= y * MUCH_MORE && y <= x * MUCH_MORE;
}

/* Other work is a reservation even if both machines have the same load, though not a difference. */
static int is_disturbed(const struct confounder *c, const char *value)
{
    return strcmp(c->key, "other_work") == 0 && strcmp(value, "none") != 0;
}

/* An unknown value that does not count: it is unknown on both sides, or only bundles have it. Steps that were skipped
 * count: who does not tell may have skipped none, and strict fp32 does. */
static int is_ignored(const struct confounder *c, const struct rp_result *a, const char *x, const struct rp_result *b,
                      const char *y)
{
    int bundles = a->source.kind == RP_RESULT_BUNDLE && b->source.kind == RP_RESULT_BUNDLE;
    if (strcmp(c->key, "skipped_steps") == 0 && (a->skipped_steps > 0 || b->skipped_steps > 0))
        return (!*x || !*y) && (rp_result_is(a->precision, "fp32") || rp_result_is(b->precision, "fp32"));
    return (!*x || !*y) && (c->scope == KNOWN || (c->scope == MUCH && (!bundles || *x == *y)));
}

static enum rp_comparable worse_of(enum rp_comparable a, enum rp_comparable b)
{
    return a > b ? a : b;
}

static enum rp_comparable compare_properties(struct rp_pair *pair, const struct rp_result *a, const struct rp_result *b)
{
    enum rp_comparable verdict = RP_COMPARABLE;
    char x[RP_RESULT_TEXT_MAX + 1], y[RP_RESULT_TEXT_MAX + 1];
    for (size_t i = 0; i < sizeof confounders / sizeof *confounders; i++) {
        const struct confounder *c = &confounders[i];
        rp_result_get(x, sizeof x, a, c->key);
        rp_result_get(y, sizeof y, b, c->key);
        int vague = strcmp(c->key, "model") == 0 && !is_equal(x, y) && less_exact(x, y), known = *x && *y && !vague;
        if (vague && has_sizes(a, b))
            continue;
        int equal = known && (c->scope == MUCH ? is_near(x, y) : is_equal(x, y));
        equal |= strcmp(c->key, "precision") == 0 && is_same_precision(a, b);
        if ((equal && !is_disturbed(c, x)) || is_ignored(c, a, x, b, y) || !confounder_applies(c, a, b))
            continue;
        struct confounder one = *c;
        one.why = vague ? VAGUE : !known && c->scope == REQUIRED ? NO_MODEL : c->why;
        add_confounder(pair, &one, equal ? "equal" : known ? "differs" : "unknown", x, y);
        int is_fatal = (known && c->kind == WORK) || (c->scope == REQUIRED && (!*x || !*y));
        verdict = worse_of(verdict, is_fatal ? RP_NOT_COMPARABLE : RP_COMPARABLE_WITH_RESERVATIONS);
    }
    return verdict;
}

/* One bundle, named twice: what is unknown of it is the same all the same. */
static int is_one_bundle(const struct rp_result *a, const struct rp_result *b)
{
    return a->source.statement && b->source.statement && strcmp(a->source.statement, b->source.statement) == 0;
}

/* "published, unsigned" and so on, or the verdict of a bundle and what is wrong with its run. */
static void evidence_text(char *out, size_t size, const struct rp_result *row)
{
    const struct rp_result_source *s = &row->source;
    if (s->kind == RP_RESULT_BUNDLE || s->kind == RP_RESULT_COMMAND)
        snprintf(out, size, "%s%s%s", s->verdict ? s->verdict : RP_UNKNOWN, s->note ? "; " : "",
                 s->note ? s->note : "");
    else
        snprintf(out, size, "%s", rp_result_unsigned_text(s));
}

/* Signed, verified and complete: the figure follows from records. The key may be unknown. */
static int has_records(const struct rp_result *row)
{
    return row->source.kind == RP_RESULT_BUNDLE && row->source.signed_by && !row->source.note;
}

/* And no check found what is suspicious. */
static int has_evidence(const struct rp_result *row)
{
    return has_records(row) && !row->source.warnings;
}

static enum rp_comparable compare_evidence(struct rp_pair *pair, const struct rp_result *a, const struct rp_result *b)
{
    char x[RP_RESULT_TEXT_MAX * 2], y[RP_RESULT_TEXT_MAX * 2];
    if (has_evidence(a) && has_evidence(b))
        return RP_COMPARABLE;
    evidence_text(x, sizeof x, a);
    evidence_text(y, sizeof y, b);
    const char *why = has_records(a) && has_records(b) ? "a check found what an honest run rarely has"
                                                       : "a figure without records cannot be checked";
    add_confounder(
        pair,
        &(struct confounder){.key = "evidence", .name = "evidence", .why = why, .kind = METHOD, .effect = MODERATE},
        "unsigned", x, y);
    return RP_COMPARABLE_WITH_RESERVATIONS;
}

static enum rp_comparable name_machines(struct rp_pair *pair, const char *key, const char *state,
                                        struct rp_machines_named *named, const char *what, const char *why)
{
    int any = named->n > 0;
    if (any) {
        RP_FREE char *name =
            rp_asprintf("environment (%zu %s of high impact%s)", named->n, named->n == 1 ? "value" : "values", what);
        rp_sanitize(named->a.data);
        rp_sanitize(named->b.data);
        add_confounder(pair,
                       &(struct confounder){.key = key, .name = name, .why = why, .kind = MACHINE, .effect = MODERATE},
                       state, rp_buf_text(&named->a), rp_buf_text(&named->b));
    }
    rp_buf_fini(&named->a);
    rp_buf_fini(&named->b);
    return any ? RP_COMPARABLE_WITH_RESERVATIONS : RP_COMPARABLE;
}

/* Differences of the machines that no other confounder covers. */
static int compare_machines(struct rp_pair *pair, const struct rp_result *a, const struct rp_result *b,
                            enum rp_comparable *verdict, struct rp_err *err)
{
    struct rp_machines_high high = {0};
    const int failed = rp_compare_machines(pair, &high, a, b, err);
    *verdict = worse_of(*verdict, name_machines(pair, "environment", "differs", &high.differs, "",
                                                "captured before the runs: each of them affects throughput"));
    *verdict = worse_of(*verdict, name_machines(pair, "environment_unknown", "unknown", &high.unknown,
                                                ", not comparable", "known for one machine only: they may differ"));
    return failed;
}

/* A ratio needs the same unit on both sides. */
static enum rp_comparable compare_units(struct rp_pair *pair, const struct rp_result *a, const struct rp_result *b)
{
    const char *x = a->unit ? a->unit : "", *y = b->unit ? b->unit : "";
    if (*x && *y && strcmp(x, y) == 0)
        return RP_COMPARABLE;
    add_confounder(pair,
                   &(struct confounder){.key = "throughput", .name = "unit", .kind = WORK, .effect = LARGE,
                                        .why = "the units of the figures differ or are unknown"},
                   *x && *y ? "differs" : "unknown", x, y);
    return RP_NOT_COMPARABLE;
}

/* ---- ratios ---- */

/* Why there is no interval, or NULL. */
static const char *no_interval(const struct rp_result *a, const struct rp_result *b)
{
    if (a->samples < 2 && b->samples < 2)
        return "neither has records";
    if (a->samples < 2 || b->samples < 2)
        return a->samples < 2 ? "the first has no records" : "the other has no records";
    return NULL;
}

/* How many times the devices of b those of a are; 0: unknown, or GPUs and threads of processors. */
static double width_ratio(const struct rp_result *a, const struct rp_result *b)
{
    if ((a->threads > 0) != (b->threads > 0) || a->devices <= 0 || b->devices <= 0)
        return 0;
    return (double)b->devices / (double)a->devices;
}

/* *base: resamples of the first result, made when they are first needed. */
static struct rp_ratio *ratio_of(const struct rp_result *a, const struct rp_result *b, double **base)
{
    struct rp_ratio *r = rp_alloc(sizeof *r);
    rp_object_init(r, &rp_type_ratio);
    r->value = b->throughput / a->throughput;
    const double width = width_ratio(a, b);
    if (width > 0 && (width < 1 || width > 1))
        r->per_device = r->value / width;
    const char *why = no_interval(a, b);
    if (why) {
        r->no_interval = rp_strdup(why);
        return r;
    }
    if (!*base)
        *base = rp_result_resample(a, rp_resamples_of(a->samples), 1);
    double interval[2];
    const int n = rp_resamples_of(a->samples > b->samples ? a->samples : b->samples);
    RP_FREE double *all = rp_result_resample(b, n, 0);
    rp_bootstrap_ratio(interval, all, *base, n);
    r->low = interval[0];
    r->high = interval[1];
    r->level = RP_BOOTSTRAP_LEVEL;
    r->resamples = n;
    r->records = rp_alloc(2 * sizeof *r->records);
    r->records[0] = a->samples;
    r->records[1] = b->samples;
    r->records_n = 2;
    return r;
}

/* ---- other models ---- */

static int of_another_model(const struct rp_result *row, const struct rp_result *first)
{
    return row->source.kind != RP_RESULT_BUNDLE && !row->selected && row->model && first->model &&
           !is_equal(row->model, first->model) && !less_exact(row->model, first->model);
}

int rp_compare_narrow(struct rp_rows *rows, struct rp_buf *models)
{
    struct rp_layout_names names = {0};
    int kept = 1, had = rows->n;
    for (int i = 1; i < had; i++)
        if (of_another_model(&rows->row[i], rows->row)) {
            rp_layout_names_add(&names, "%s", rows->row[i].model);
            rp_result_fini(&rows->row[i]);
        } else {
            rows->row[kept++] = rows->row[i];
        }
    rows->n = had ? kept : 0;
    rp_layout_names_join(models, &names, MODELS_NAMED);
    rp_layout_names_fini(&names);
    return had - rows->n;
}

/* ---- all pairs ---- */

static int compare_pair(struct rp_pair *pair, const struct rp_rows *rows, int i, double **base,
                        enum rp_comparable *verdict, struct rp_err *err)
{
    const struct rp_result *a = rows->row, *b = &rows->row[i];
    pair->b = i;
    *verdict = compare_units(pair, a, b);
    if (!is_one_bundle(a, b))
        *verdict = worse_of(*verdict, compare_properties(pair, a, b));
    if (a->environment && b->environment && compare_machines(pair, a, b, verdict, err) < 0)
        return -1;
    *verdict = worse_of(*verdict, compare_evidence(pair, a, b));
    pair->verdict = rp_strdup(rp_comparable_text(*verdict));
    if (*verdict == RP_NOT_COMPARABLE)
        pair->no_ratio = rp_strdup("not comparable");
    else
        pair->ratio = ratio_of(a, b, base);
    rp_compare_labelled(pair, a, b);
    return 0;
}

/* Whether b is a again: a bundle by its statement, an imported result by its log, its place in it and its figure, any
 * other by its file and place there. */
static int is_one_result(const struct rp_result *a, const struct rp_result *b)
{
    const struct rp_result_source *x = &a->source, *y = &b->source;
    const int logs = x->log_sha256 && y->log_sha256;
    const char *of_a = logs ? x->log_sha256 : x->sha256, *of_b = logs ? y->log_sha256 : y->sha256;
    if (x->statement || y->statement)
        return is_one_bundle(a, b);
    if (!of_a || !of_b || strcmp(of_a, of_b) != 0 || x->line != y->line || (!logs && x->number != y->number))
        return 0;
    return (isnan(a->throughput) && isnan(b->throughput)) || a->throughput == b->throughput;
}

/* Whether two bundles have the same step records, to the nanosecond. */
static int is_one_measurement(const struct rp_result *a, const struct rp_result *b)
{
    const int runs = a->source.kind == RP_RESULT_BUNDLE && b->source.kind == RP_RESULT_BUNDLE && a->run && b->run;
    const char *of_a = runs ? a->run->figures.results.records_sha256 : "";
    return *of_a && strcmp(of_a, b->run->figures.results.records_sha256) == 0;
}

static void add_note(struct rp_comparison *out, char *text)
{
    rp_texts_add(&out->notes, &out->notes_n, text);
}

/* Oddities of a single result. */
static void add_notes(struct rp_comparison *out, const struct rp_rows *rows, int i)
{
    const struct rp_result *row = &rows->row[i];
    double own = rp_result_estimate(row);
    if (row->source.note && row->source.kind != RP_RESULT_PUBLISHED)
        add_note(out, rp_asprintf("%d: %s", i + 1, row->source.note));
    if (!isnan(own) && !isnan(row->throughput) && !rp_result_is_of_samples(row))
        add_note(out, rp_asprintf("%d: its figure is %.8g, but the median over repeats of its samples is %.8g", i + 1,
                                  row->throughput, own));
    const int64_t ranks = rp_result_ranks(row);
    if (ranks > 0 && row->data_parallel > 0 && row->tensor_parallel > 0 && row->pipeline_parallel > 0 &&
        (double)row->data_parallel * (double)row->tensor_parallel * (double)row->pipeline_parallel > (double)ranks)
        add_note(out, rp_asprintf(
                          "%d: the arithmetic of %lld x %lld x %lld ranks (data x tensor x pipeline), computed by %lld",
                          i + 1, (long long)row->data_parallel, (long long)row->tensor_parallel,
                          (long long)row->pipeline_parallel, (long long)ranks));
    if (i && rows->row->score_min > 0 && row->score_min > 0)
        add_note(out, rp_asprintf("%d: MLPerf's score is %.6g minutes, that of 1 %.6g: %.4g times as fast", i + 1,
                                  row->score_min, rows->row->score_min, rows->row->score_min / row->score_min));
    for (int k = 0; k < i && k < 100; k++)
        if (is_one_result(row, &rows->row[k])) {
            add_note(out, rp_asprintf("%d is the same result as %d", i + 1, k + 1));
            break;
        } else if (is_one_measurement(row, &rows->row[k])) {
            add_note(out, rp_asprintf("%d has the step records of %d: one run in two bundles", i + 1, k + 1));
            break;
        }
}

/* The nearest first; of those the one with the closest figure; in the order of the rows otherwise. */
static int compare_distance(const void *a, const void *b)
{
    const struct rp_pair *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return x->b < y->b ? -1 : 1;
}

static int compare_ratios(const void *a, const void *b)
{
    const struct rp_pair *x = a, *y = b;
    const double p = x->ratio ? x->ratio->value : -1, q = y->ratio ? y->ratio->value : -1;
    if (p < q || p > q)
        return p > q ? -1 : 1;
    return x->b < y->b ? -1 : 1;
}

static int compare_places(const void *a, const void *b)
{
    const struct rp_pair *x = a, *y = b;
    return x->b < y->b ? -1 : x->b > y->b;
}

void rp_compare_sort(struct rp_comparison *c, enum rp_compare_order order)
{
    static int (*const by[])(const void *, const void *) = {
        [RP_ORDER_nearest] = compare_distance, [RP_ORDER_ratio] = compare_ratios, [RP_ORDER_given] = compare_places};
    if (c->pairs_n > 1)
        qsort(c->pairs, (size_t)c->pairs_n, sizeof *c->pairs, by[order]);
}

static json_t *row_json(const struct rp_result *row)
{
    const double tokens = rp_result_tokens(row);
    json_t *j = rp_result_to_json(row);
    if (!isnan(tokens))
        json_object_set_new(j, "tokens_per_s", json_real(tokens));
    return j;
}

void rp_comparison_fini(struct rp_comparison *c)
{
    rp_object_fini(c, &rp_type_comparison);
}

json_t *rp_comparison_json(const struct rp_comparison *c)
{
    json_t *j = rp_object_json(c, &rp_type_comparison);
    json_object_set_new(j, "schema", json_string(RP_COMPARISON_SCHEMA));
    return j;
}

int rp_compare(struct rp_comparison *out, const struct rp_rows *rows, enum rp_comparable *verdict, struct rp_err *err)
{
    RP_FREE double *base = NULL;
    rp_object_init(out, &rp_type_comparison);
    *verdict = RP_COMPARABLE;
    if (rows->n < 2)
        return rp_fail(err, RP_USAGE,
                       "a comparison needs two results: name another bundle, document or published:NAME");
    if (rows->n > COMPARED_MAX)
        return rp_fail(err, RP_USAGE, "%d results, but at most %d can be compared: select some with FILE#key=value",
                       rows->n, COMPARED_MAX);
    out->rows = json_array();
    out->notes = rp_alloc(sizeof *out->notes); /* listed also where there is none */
    for (int i = 0; i < rows->n; i++) {
        enum rp_comparable one = RP_COMPARABLE;
        json_array_append_new(out->rows, row_json(&rows->row[i]));
        add_notes(out, rows, i);
        if (i && compare_pair(rp_object_add(&out->pairs, &out->pairs_n, &rp_type_pair), rows, i, &base, &one, err) < 0)
            return -1;
        *verdict = worse_of(*verdict, one);
    }
    out->verdict = rp_strdup(rp_comparable_text(*verdict));
    rp_scaling(out, rows);
    rp_fleet(out, rows);
    return 0;
}
