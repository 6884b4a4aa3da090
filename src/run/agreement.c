#include "run/agreement.h"

#include "base/bootstrap.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "run/results.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METHOD                                                                                                                    \
    "percentile bootstrap of replication / original: the estimator of resamples of each run as for its own interval, seeded with " \
    "the first 8 bytes of its records_sha256"

void rp_agreement_key(char hex[RP_SHA256_HEX], const char *signer, const char *statement)
{
    RP_FREE char *text = rp_asprintf("repro-keyed/1\n%s\n%s\n", signer, statement);
    rp_sha256_hex(hex, text, strlen(text));
}

/* ---- bits ---- */

static json_t *difference(int64_t step, const char *quantity, const char *first, const char *here)
{
    return json_pack("{s:I, s:s, s:s, s:s}", "step", (json_int_t)step, "quantity", quantity, "original", first, "replication", here);
}

static json_t *numbers_differ(int64_t step, const char *quantity, uint32_t a, uint32_t b)
{
    char first[16], here[16];
    snprintf(first, sizeof first, "%" PRIu32, a);
    snprintf(here, sizeof here, "%" PRIu32, b);
    return difference(step, quantity, first, here);
}

static json_t *floats_differ(int64_t step, const char *quantity, float a, float b)
{
    char first[32], here[32];
    rp_float_hex(first, a);
    rp_float_hex(here, b);
    return difference(step, quantity, first, here);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The first difference of two records, in the order of computation; NULL: they have the same bits. */
static json_t *differ(const struct rp_records *as, const struct rp_step_record *a, const struct rp_records *bs,
                      const struct rp_step_record *b)
{
    char first[RP_SHA256_HEX], here[RP_SHA256_HEX];
    if (a->step >= 0 && a->samples != b->samples)
        return numbers_differ(a->step, "samples", a->samples, b->samples);
    for (int i = 0; i < as->counter.n && a->step >= 0; i++) {
        int k = rp_step_name_index(&bs->counter, as->counter.name[i]);
        if (k >= 0 && rp_record_counts(as, a)[i] != rp_record_counts(bs, b)[k])
            return numbers_differ(a->step, as->counter.name[i], rp_record_counts(as, a)[i], rp_record_counts(bs, b)[k]);
    }
    for (int i = 0; i < as->part.n && a->step >= 0; i++) {
        int k = rp_step_name_index(&bs->part, as->part.name[i]);
        if (k >= 0 && bits_of(rp_record_loss_parts(as, a)[i]) != bits_of(rp_record_loss_parts(bs, b)[k]))
            return floats_differ(a->step, as->part.name[i], rp_record_loss_parts(as, a)[i], rp_record_loss_parts(bs, b)[k]);
    }
    if (a->step >= 0 && bits_of(a->loss) != bits_of(b->loss))
        return floats_differ(a->step, "loss", a->loss, b->loss);
    if (a->step >= 0 && bits_of(a->grad_norm) != bits_of(b->grad_norm))
        return floats_differ(a->step, "grad_norm", a->grad_norm, b->grad_norm);
    rp_record_root(first, as, a);
    rp_record_root(here, bs, b);
    return *first && *here && strcmp(first, here) != 0 ? difference(a->step, "state_root", first, here) : NULL;
}

static json_t *bits(const struct rp_records *a, const struct rp_records *b)
{
    int64_t n = a->n < b->n ? a->n : b->n, steps = 0, roots = 0;
    json_t *first = NULL;
    for (int64_t i = 0; i < n && !first; i++) {
        if (a->r[i].step != b->r[i].step)
            break;
        first = differ(a, &a->r[i], b, &b->r[i]);
        steps += a->r[i].step >= 0;
        roots += a->r[i].root && b->r[i].root;
    }
    return json_pack("{s:o, s:I, s:I, s:o?}", "equal", steps + roots ? json_boolean(!first) : json_null(), "steps", (json_int_t)steps,
                     "roots", (json_int_t)roots, "first_difference", first);
}

/* ---- throughput ---- */

static int64_t timed_steps(const struct rp_records *rs)
{
    int64_t timed = 0;
    for (int64_t i = 0; i < rs->n; i++)
        timed += rs->r[i].timed;
    return timed;
}

static json_t *throughput(const struct rp_agreement_side *first, const struct rp_agreement_side *here)
{
    const struct rp_throughput a = rp_throughput_of(first->run), b = rp_throughput_of(here->run);
    json_t *interval = json_null(), *ratio = json_null();
    const int64_t steps_a = timed_steps(first->records), steps_b = timed_steps(here->records);
    const int n = rp_resamples_of(steps_a > steps_b ? steps_a : steps_b);
    RP_FREE double *as = rp_alloc((size_t)n * sizeof *as);
    RP_FREE double *bs = rp_alloc((size_t)n * sizeof *bs);
    if (a.value > 0 && b.known)
        ratio = json_real(b.value / a.value);
    if (rp_results_resample(as, n, first->records) && rp_results_resample(bs, n, here->records)) {
        double ends[2];
        rp_bootstrap_ratio(ends, bs, as, n);
        interval = json_pack("[f, f]", ends[0], ends[1]);
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:f, s:s}", "unit", b.unit, "original",
                     a.known ? json_real(a.value) : json_null(), "replication",
                     b.known ? json_real(b.value) : json_null(), "ratio", ratio, "interval", interval, "level",
                     RP_BOOTSTRAP_LEVEL, "method", METHOD);
}

/* ---- settings ---- */

int rp_agreement_free(const char *key)
{
    static const char *const keys[] = {"run.backend", "run.device", "run.isa", "run.threads", "run.init", "run.save", "run.hang_seconds",
                                       "run.overlap_kib", "run.transport", "data.path", "data.archive", "data.sha256"};
    return RP_IS_IN(keys, key, strlen(key));
}

static const json_t *value_of(const json_t *recipe, const char *key)
{
    return json_object_get(json_object_get(recipe, key), "value");
}

int rp_agreement_same(const char *key, const json_t *first_run, const json_t *here_recipe, int64_t here_batch)
{
    RP_JSON *first_recipe = json_copy(json_object_get(first_run, "recipe"));
    RP_JSON *recipe = json_copy((json_t *)here_recipe);
    rp_recipe_complete(first_recipe);
    rp_recipe_complete(recipe);
    const json_t *first = value_of(first_recipe, key), *here = value_of(recipe, key);
    if (strcmp(key, "train.batch_size") == 0)
        return json_integer_value(json_object_get(json_object_get(first_run, "plan"), "batch")) ==
               (json_is_integer(here) ? json_integer_value(here) : here_batch);
    return json_equal(first, here);
}

static json_t *settings(const json_t *first, const json_t *here)
{
    RP_JSON *a = json_copy(json_object_get(first, "recipe"));
    RP_JSON *b = json_copy(json_object_get(here, "recipe"));
    json_t *entry, *out = json_array();
    rp_recipe_complete(a);
    rp_recipe_complete(b);
    int64_t batch = json_integer_value(json_object_get(json_object_get(here, "plan"), "batch"));
    RP_FREE const char **names = rp_alloc((json_object_size(a) + 1) * sizeof *names);
    const char *key;
    size_t n = 0;
    json_object_foreach(a, key, entry)
        if (!rp_agreement_same(key, first, b, batch))
            names[n++] = key;
    rp_sort_text(names, n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_pack("{s:s, s:O, s:O}", "key", names[i], "original", value_of(a, names[i]),
                                             "replication", value_of(b, names[i])));
    return out;
}

/* ---- environment ---- */

static int hidden(const json_t *side)
{
    const char *text = json_string_value(json_object_get(side, "value"));
    return text && strncmp(text, "sha256:", 7) == 0;
}

static json_t *environment(const json_t *first, const json_t *here, struct rp_err *err)
{
    RP_JSON *all = rp_capture_changes(first, here, err);
    json_t *out = all ? json_array() : NULL, *d;
    size_t i;
    json_array_foreach(all, i, d) {
        const json_t *a = json_object_get(d, "before"), *b = json_object_get(d, "after");
        if (!hidden(a) || !hidden(b))
            json_array_append_new(out, json_pack("{s:O, s:O, s:O, s:O, s:O}", "field", json_object_get(d, "field"), "impact",
                                                 json_object_get(d, "impact"), "volatile", json_object_get(d, "volatile"), "original", a,
                                                 "replication", b));
    }
    return out;
}

json_t *rp_agreement(const struct rp_agreement_side *first, const struct rp_agreement_side *here, struct rp_err *err)
{
    json_t *machine = environment(first->before, here->before, err);
    if (!machine)
        return NULL;
    return json_pack("{s:o, s:o, s:o, s:o}", "bits", bits(first->records, here->records), "throughput", throughput(first, here), "settings",
                     settings(first->run, here->run), "environment", machine);
}
