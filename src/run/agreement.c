#include "run/agreement.h"

#include "base/bootstrap.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "capture/value.h"
#include "ops/functions.h"
#include "run/derive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rp_agreement_key(char hex[RP_SHA256_HEX], const char *signer, const char *statement)
{
    RP_FREE char *text = rp_asprintf("repro-keyed/1\n%s\n%s\n", signer, statement);
    rp_sha256_hex(hex, text, strlen(text));
}

/* ---- bits ---- */

static struct rp_bit_difference *difference(int64_t step, const char *quantity, const char *first, const char *here)
{
    struct rp_bit_difference *d = rp_alloc(sizeof *d);
    *d = (struct rp_bit_difference){step, rp_strdup(quantity), rp_strdup(first), rp_strdup(here)};
    return d;
}

static struct rp_bit_difference *numbers_differ(int64_t step, const char *quantity, uint32_t a, uint32_t b)
{
    char first[16], here[16];
    snprintf(first, sizeof first, "%" PRIu32, a);
    snprintf(here, sizeof here, "%" PRIu32, b);
    return difference(step, quantity, first, here);
}

static struct rp_bit_difference *floats_differ(int64_t step, const char *quantity, float a, float b)
{
    char first[32], here[32];
    rp_float_hex(first, a);
    rp_float_hex(here, b);
    return difference(step, quantity, first, here);
}

/* The first difference of two records, in the order of computation; NULL: they have the same bits. */
static struct rp_bit_difference *new_difference(const struct rp_records *as, const struct rp_step_record *a,
                                                const struct rp_records *bs, const struct rp_step_record *b)
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
        if (k >= 0 && r_bits(rp_record_loss_parts(as, a)[i]) != r_bits(rp_record_loss_parts(bs, b)[k]))
            return floats_differ(a->step, as->part.name[i], rp_record_loss_parts(as, a)[i],
                                 rp_record_loss_parts(bs, b)[k]);
    }
    if (a->scale && b->scale && a->scale != b->scale)
        return floats_differ(a->step, "loss_scale", rp_record_loss_scale(a), rp_record_loss_scale(b));
    if (a->step >= 0 && r_bits(a->loss) != r_bits(b->loss))
        return floats_differ(a->step, "loss", a->loss, b->loss);
    if (a->step >= 0 && r_bits(a->grad_norm) != r_bits(b->grad_norm))
        return floats_differ(a->step, "grad_norm", a->grad_norm, b->grad_norm);
    rp_record_root(first, as, a);
    rp_record_root(here, bs, b);
    return *first && *here && strcmp(first, here) != 0 ? difference(a->step, "state_root", first, here) : NULL;
}

static void compare_bits(struct rp_bit_agreement *out, const struct rp_records *a, const struct rp_records *b)
{
    const int64_t n = a->n < b->n ? a->n : b->n;
    for (int64_t i = 0; i < n && !out->first_difference; i++) {
        if (a->r[i].step != b->r[i].step)
            break;
        out->first_difference = new_difference(a, &a->r[i], b, &b->r[i]);
        out->steps += a->r[i].step >= 0;
        out->roots += a->r[i].root && b->r[i].root;
    }
    if (out->steps + out->roots)
        out->equal = !out->first_difference;
}

/* ---- throughput ---- */

static void compare_throughput(struct rp_speed_agreement *out, const struct rp_agreement_side *first,
                               const struct rp_agreement_side *here)
{
    const struct rp_results *a = &first->figures->results, *b = &here->figures->results;
    const int n = rp_resamples_of(a->steps.timed > b->steps.timed ? a->steps.timed : b->steps.timed);
    RP_FREE double *as = rp_alloc((size_t)n * sizeof *as);
    RP_FREE double *bs = rp_alloc((size_t)n * sizeof *bs);
    out->unit = rp_strdup(b->throughput.unit);
    out->original = a->throughput.value;
    out->replication = b->throughput.value;
    if (out->original > 0)
        out->ratio = out->replication / out->original;
    if (rp_results_resample(as, n, first->records) && rp_results_resample(bs, n, here->records))
        rp_bootstrap_ratio(out->interval, bs, as, n);
    out->level = RP_BOOTSTRAP_LEVEL;
}

/* ---- settings ---- */

int rp_agreement_free(const char *key)
{
    static const char *const keys[] = {"run.backend",   "run.device", "run.isa",          "run.threads",
                                       "run.init",      "run.save",   "run.hang_seconds", "run.overlap_kib",
                                       "run.transport", "data.path",  "data.archive",     "data.sha256"};
    return RP_IS_IN(keys, key, strlen(key));
}

static json_t *value_of(const json_t *recipe, const char *key)
{
    return (json_t *)rp_recorded(json_object_get(recipe, key)).value; /* for another reference */
}

int rp_agreement_same(const char *key, const struct rp_facts *original, const json_t *here_recipe, int64_t here_batch)
{
    RP_JSON *first_recipe = json_copy(original->recipe);
    RP_JSON *recipe = json_copy((json_t *)here_recipe);
    rp_recipe_complete(first_recipe);
    rp_recipe_complete(recipe);
    const json_t *first = value_of(first_recipe, key), *here = value_of(recipe, key);
    if (strcmp(key, "train.batch_size") == 0)
        return original->plan.batch == (json_is_integer(here) ? json_integer_value(here) : here_batch);
    return json_equal(first, here);
}

static void compare_settings(struct rp_agreement *out, const struct rp_facts *first, const struct rp_facts *here)
{
    RP_JSON *a = json_copy(first->recipe);
    RP_JSON *b = json_copy(here->recipe);
    json_t *entry;
    rp_recipe_complete(a);
    rp_recipe_complete(b);
    RP_FREE const char **names = rp_alloc((json_object_size(a) + 1) * sizeof *names);
    const char *key;
    size_t n = 0;
    json_object_foreach(a, key, entry)
        if (!rp_agreement_same(key, first, b, here->plan.batch))
            names[n++] = key;
    rp_sort_text(names, n);
    for (size_t i = 0; i < n; i++) {
        struct rp_setting_difference *d = rp_object_add(&out->settings, &out->settings_n, &rp_type_setting_difference);
        *d = (struct rp_setting_difference){rp_strdup(names[i]), json_incref(value_of(a, names[i])),
                                            json_incref(value_of(b, names[i]))};
    }
}

/* ---- environment ---- */

static int is_hidden(const json_t *side)
{
    const char *text = json_string_value(rp_leaf(side).value);
    return text && strncmp(text, "sha256:", 7) == 0;
}

static int compare_environments(struct rp_agreement *out, const json_t *first, const json_t *here, struct rp_err *err)
{
    RP_CAPTURE_COMPARISON all = {0};
    if (rp_capture_changes(&all, first, here, err) < 0)
        return -1;
    for (int64_t i = 0; i < all.different_n; i++) {
        const struct rp_difference *d = &all.different[i];
        if (is_hidden(d->a) && is_hidden(d->b))
            continue;
        struct rp_capture_difference *one =
            rp_object_add(&out->environment, &out->environment_n, &rp_type_capture_difference);
        *one = (struct rp_capture_difference){rp_strdup(d->field), rp_strdup(d->impact), d->varies, json_incref(d->a),
                                              json_incref(d->b)};
    }
    return 0;
}

int rp_agreement_derive(struct rp_agreement *out, const struct rp_agreement_side *first,
                        const struct rp_agreement_side *here, struct rp_err *err)
{
    rp_object_init(out, &rp_type_agreement);
    compare_bits(&out->bits, first->records, here->records);
    compare_throughput(&out->throughput, first, here);
    compare_settings(out, first->facts, here->facts);
    return compare_environments(out, first->before, here->before, err);
}
