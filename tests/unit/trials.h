/* Trainings by ranks as threads, and what each recorded.
 *
 * What:    a recipe, trained for two steps in a layout of ranks: losses, norms, state roots, keyed roots, tensors, a
 *          saved file.
 * Flow:    trial_new() -> trial_run() in any layouts -> compare() of traces.
 * Owner:   the test: trial_fini(), traces_fini().
 */
#pragma once

#include "base/buf.h"

#include "tests/unit/ranks.h"
#include "tests/unit/tap.h"
#include "tests/unit/train_fixture.h"

enum { STEPS = 2 };

/* What a rank recorded. */
struct trace {
    float loss[STEPS], part[STEPS], norm[STEPS];
    char root[STEPS + 1][65], keyed[65];
    int64_t samples;
    json_t *tensors;
    uint64_t sent, between;
    uint64_t moved; /* sent in the last step, counted where it happened: losses and sums for norms too */
    int levels, buckets, overlaps;
    size_t masters; /* floats of them that the rank has */
    const struct rp_train *train; /* while it runs */
};

struct trial_device {
    const char *isa;
    int threads;
};

struct trial {
    struct rp_recipe recipe;
    struct fixture_data data;
    const struct rp_data_format *format;
    const char *save;
    const struct trial_device *device; /* [devices] of rank r: device[r % devices]; NULL: AVX2 with one thread */
    int devices;
    const char *wrong; /* NULL, or the name of a tensor that rank 1 disturbs after the first step */
    rp_alive_fn alive; /* or NULL; its argument is the trace of the rank */
    void (*opened)(struct rp_dev *dev, int rank); /* or NULL: called by the thread of the rank before it trains */
    struct trace trace[RANKS_MAX];
};

FIXTURE int train(struct rp_train *t, struct rp_comm *c, struct trial *trial, struct trace *is, struct rp_err *err)
{
    if (rp_train_root(t, is->root[0], NULL, err) < 0 || rp_train_perturb(t, err) < 0)
        return -1;
    for (int step = 0; step < STEPS; step++) {
        struct rp_step_result s;
        const uint64_t sent = c->count.sent_bytes;
        if (rp_train_load(t, step, err) < 0 || rp_train_step(t, step, &s, err) < 0)
            return -1;
        is->moved = c->count.sent_bytes - sent;
        is->loss[step] = s.loss;
        is->part[step] = s.part[0];
        is->norm[step] = s.grad_norm;
        is->samples += s.samples;
        const int at = trial->wrong && c->rank[RP_GROUP_WORLD] == 1 && step == 0
                           ? rp_tensors_find(t->state.weights, trial->wrong)
                           : -1;
        if (at >= 0)
            rp_trained_values(&t->state, &t->state.weights->t[at], -1)[0] += 1;
        if (rp_train_root(t, is->root[step + 1], step == STEPS - 1 ? &is->tensors : NULL, err) < 0 ||
            (step < STEPS - 1 && rp_train_perturb(t, err) < 0))
            return -1;
    }
    if (rp_train_keyed_root(t, is->keyed, "a key", err) < 0)
        return -1;
    return trial->save ? rp_train_save(t, trial->save, &trial->recipe, err) : 0;
}

FIXTURE int run_rank(struct rp_comm *c, void *arg, struct rp_err *err)
{
    struct trial *trial = arg;
    struct trace *is = &trial->trace[c->rank[RP_GROUP_WORLD]];
    struct rp_plan plan;
    const struct trial_device usual = {"avx2", 1},
                              *d = trial->device ? &trial->device[c->rank[RP_GROUP_WORLD] % trial->devices] : &usual;
    *is = (struct trace){0};
    *err = (struct rp_err){0};
    struct rp_dev *dev = fixture_device_for(&trial->recipe, c, d->isa, d->threads, &plan, err);
    if (!dev && !err->code) /* none here: the definitions, which take longer */
        dev = fixture_device_for(&trial->recipe, c, "reference", 1, &plan, err);
    if (!dev)
        return -1;
    if (trial->opened)
        trial->opened(dev, c->rank[RP_GROUP_WORLD]);
    struct rp_train *t = rp_train_open(&(struct rp_train_opts){.recipe = &trial->recipe, .plan = &plan, .dev = dev,
                                                               .comm = c, .format = trial->format,
                                                               .alive = trial->alive, .alive_arg = is},
                                       err);
    is->train = t;
    int failed = !t || train(t, c, trial, is, err) < 0;
    if (t) {
        is->buckets = t->shares.buckets;
        is->overlaps = t->overlap != NULL;
        is->sent = t->exchange.sent_bytes;
        is->between = t->exchange.between_bytes;
        is->levels = t->exchange.levels;
        is->masters = t->state.shares.masters;
    }
    rp_train_close(t);
    fixture_close(dev);
    return failed ? -1 : 0;
}

FIXTURE struct trial trial_new(struct rp_recipe recipe, int64_t micros)
{
    struct trial t = {.recipe = recipe, .format = &fixture_format};
    t.recipe.train_accumulation_steps = micros;
    t.recipe.train_batch_size = 2;
    t.data = samples_new(&t.recipe, 7);
    return t;
}

FIXTURE void trial_fini(struct trial *t)
{
    samples_free(&t->data);
    rp_recipe_fini(&t->recipe);
}

FIXTURE void traces_fini(struct trace *t, int n)
{
    for (int i = 0; i < n; i++)
        json_decref(t[i].tensors);
}

FIXTURE int trial_run(struct trial *t, struct rp_degrees ranks, const int *host, struct rp_err *err)
{
    *err = (struct rp_err){0};
    fixture_data_now = t->data;
    return ranks_run(ranks, host, run_rank, t, err);
}

/* Every rank of `of` against the one rank `one`; samples of data-parallel ranks add up. */
FIXTURE void compare(const struct trace *one, const struct trial *of, struct rp_degrees by, const char *what)
{
    const int ranks = by.data * by.tensor * by.pipeline;
    int64_t samples = 0;
    for (int r = 0; r < ranks; r++) {
        const struct trace *is = &of->trace[r];
        samples += is->samples;
        CHECK(!memcmp(is->loss, one->loss, sizeof one->loss), "%s: loss of rank %d of %d, %a not %a", what, r, ranks,
              (double)is->loss[0], (double)one->loss[0]);
        CHECK(!memcmp(is->part, one->part, sizeof one->part), "%s: loss part of rank %d of %d", what, r, ranks);
        CHECK(!memcmp(is->norm, one->norm, sizeof one->norm), "%s: norm of rank %d of %d, %a not %a", what, r, ranks,
              (double)is->norm[0], (double)one->norm[0]);
        for (int s = 0; s <= STEPS; s++)
            CHECK(!strcmp(is->root[s], one->root[s]), "%s: root %d of rank %d of %d", what, s, r, ranks);
        CHECK(!strcmp(is->keyed, one->keyed), "%s: keyed root of rank %d of %d", what, r, ranks);
        CHECK(json_equal(is->tensors, one->tensors), "%s: tensors of rank %d of %d", what, r, ranks);
    }
    CHECK(samples == one->samples * by.tensor * by.pipeline, "%s: %lld samples by %d ranks, %lld by one", what,
          (long long)samples, ranks, (long long)one->samples);
}
