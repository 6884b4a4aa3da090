/* What the tests of training share: a device made of the literal definitions, a small model, and samples from a
 * counter.
 *
 * What:    fixture_device("reference" | "narrow" | an instruction set, threads), fixture_device_for() a recipe in its
 *          arithmetic, small_recipe(), fixture_open().
 * Flow:    recipe -> struct fixture with an opened trainer, samples in every slot.
 * Owner:   the test closes what it opens: fixture_fini() or fixture_close().
 */
#pragma once

#include "backend/backend.h"
#include "base/buf.h"
#include "tests/unit/narrow_device.h"
#include "train/inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURE static inline

/* -- a device whose operations are the definitions -- */

struct reference_device {
    struct rp_dev dev;
    struct rp_ops narrow;
    void *block[16];
    int blocks;
};

static void *reference_block(struct rp_dev *dev, enum rp_class c, size_t bytes, struct rp_err *err)
{
    struct reference_device *r = (struct reference_device *)dev;
    size_t size = ((bytes ? bytes : 1) + 63) & ~(size_t)63;
    void *p = r->blocks < 16 ? aligned_alloc(64, size) : NULL;
    if (!p)
        return rp_fail_null(err, RP_UNAVAILABLE, "no memory for %s", rp_class_name(c));
    return r->block[r->blocks++] = memset(p, 0, size);
}

static int reference_copy(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err)
{
    (void)dev;
    (void)err;
    memcpy(dst, src, bytes);
    return 0;
}

static int reference_sync(struct rp_dev *dev, struct rp_err *err)
{
    (void)dev;
    (void)err;
    return 0;
}

static void reference_close(struct rp_dev *dev)
{
    struct reference_device *r = (struct reference_device *)dev;
    for (int i = 0; i < r->blocks; i++)
        free(r->block[i]);
    free(r);
}

static int reference_supports(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err)
{
    (void)o;
    return rp_use_check(u, "reference", err);
}

static size_t reference_needs(const struct rp_device_opts *o, const struct rp_op_use *u)
{
    (void)o;
    (void)u;
    return 0;
}

static uint64_t reference_memory(const struct rp_device_opts *o)
{
    (void)o;
    return (uint64_t)1 << 30;
}

#define REFERENCE_BACKEND(called, bytes)                                                                               \
    {                                                                                                                  \
        .name = called, .mixed = bytes, .close = reference_close, .block = reference_block,                            \
        .supports = reference_supports, .needs = reference_needs, .memory = reference_memory,                          \
        .upload = reference_copy, .download = reference_copy, .sync = reference_sync,                                  \
    }
static const struct rp_backend reference_backend = REFERENCE_BACKEND("reference", sizeof(float));
static const struct rp_backend narrow_backend = REFERENCE_BACKEND("narrow", sizeof(uint16_t)); /* narrow_device.h */

/* NULL when this machine cannot: the caller skips that device. */
FIXTURE struct rp_dev *fixture_device(const char *isa, int threads, int max_seq, int max_rows)
{
    struct rp_err err;
    if (!strcmp(isa, "reference") || !strcmp(isa, "narrow")) {
        const int narrow = !strcmp(isa, "narrow");
        struct reference_device *r = rp_alloc(sizeof *r);
        r->narrow = narrow_ops();
        r->dev.backend = narrow ? &narrow_backend : &reference_backend;
        r->dev.op = narrow ? &r->narrow : &rp_reference_ops;
        r->dev.stored_bytes = narrow ? sizeof(uint16_t) : sizeof(float);
        return &r->dev;
    }
    const struct rp_backend *b = &rp_backend_cpu;
    struct rp_device_opts o = {.isa = isa, .threads = threads};
    const struct rp_op_use use[] = {{.op = RP_OP_gemm, .rows = max_rows},
                                    {.op = RP_OP_attention_backward, .seq = max_seq, .head_dim = 64}};
    struct rp_dev *dev = b && !b->unavailable(&o) ? rp_backend_open(b, &o, use, 2, &err) : NULL;
    if (!dev)
        printf("# no %s here\n", isa);
    return dev;
}

/* The same for one rank of a recipe, in its arithmetic, with the workspace of the plan that it makes. NULL: this
 * machine has none, and *err is empty; or *err says what failed. */
FIXTURE struct rp_dev *fixture_device_for(const struct rp_recipe *r, struct rp_comm *c, const char *isa, int threads,
                                          struct rp_plan *plan, struct rp_err *err)
{
    const int narrow = !strcmp(isa, "narrow"), literal = narrow || !strcmp(isa, "reference");
    const struct rp_backend *b = narrow ? &narrow_backend : literal ? &reference_backend : &rp_backend_cpu;
    const struct rp_device_opts o = {
        .isa = literal ? NULL : isa, .threads = threads, .numerics = rp_recipe_numerics(r)};
    if (!literal && b->unavailable(&o)) {
        printf("# no %s here\n", isa);
        return NULL;
    }
    if (rp_train_size(plan, r, c, b, &o, err) < 0)
        return NULL;
    struct rp_dev *dev = literal ? fixture_device(isa, threads, 1, 1) : b->open(&o, plan->bytes[RP_CLASS_BACKEND], err);
    if (dev)
        dev->numerics = o.numerics;
    return dev;
}

FIXTURE void fixture_close(struct rp_dev *dev)
{
    if (dev)
        dev->backend->close(dev);
}

/* -- samples -- */

enum { FX_IDS, FX_MASK, FX_TYPES, FX_POSITIONS, FX_LABELS, FX_WEIGHTS, FX_NEXT, FX_TOKENS, FX_FIELDS };
static const char *const fixture_names[FX_FIELDS] = {
    "input_ids",     "input_mask",        "segment_ids",          "masked_lm_positions",
    "masked_lm_ids", "masked_lm_weights", "next_sentence_labels", "tokens"};

/* A data set in memory: column k holds [samples, count of field k]. The one that is opened next: */
struct fixture_data {
    void *column[FX_FIELDS];
    int64_t samples;
};
static struct fixture_data fixture_data_now;

struct fixture_set {
    struct rp_dataset set;
    struct fixture_data data;
    struct rp_sample_field field[FX_FIELDS];
    int column[FX_FIELDS], fields;
};

static const struct rp_data_format fixture_format; /* below */

FIXTURE struct rp_dataset *fixture_set_open(const char *path, const struct rp_sample_field *field, int fields,
                                            const struct rp_data_opts *o, struct rp_err *err)
{
    (void)path, (void)o, (void)err;
    struct fixture_set *s = rp_alloc(sizeof *s);
    s->set.format = &fixture_format;
    s->data = fixture_data_now;
    s->fields = fields;
    for (int i = 0; i < fields; i++) {
        s->field[i] = field[i];
        while (strcmp(fixture_names[s->column[i]], field[i].name) != 0)
            s->column[i]++;
    }
    return &s->set;
}

FIXTURE void fixture_set_close(struct rp_dataset *d)
{
    free(d);
}

FIXTURE int fixture_set_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err)
{
    struct fixture_set *s = (struct fixture_set *)d;
    (void)err;
    for (int i = 0; i < s->fields; i++) {
        size_t bytes = (size_t)s->field[i].count * rp_dtype_bytes(s->field[i].dtype);
        memcpy(row[i], (char *)s->data.column[s->column[i]] + (size_t)(sample % s->data.samples) * bytes, bytes);
    }
    return 0;
}

static const struct rp_data_format fixture_format __attribute__((unused)) = {
    .name = "fixture", .open = fixture_set_open, .close = fixture_set_close, .get = fixture_set_get};

static _Thread_local uint32_t sample_state;
static int sample_below(int64_t n) /* numerical recipes' generator: the same samples everywhere */
{
    sample_state = sample_state * 1664525u + 1013904223u;
    return (int)((sample_state >> 8) % (uint32_t)n);
}

FIXTURE void samples_free(struct fixture_data *d)
{
    for (int k = 0; k < FX_FIELDS; k++)
        free(d->column[k]);
    *d = (struct fixture_data){.samples = 0};
}

/* Samples of one step; the last of each micro-batch has one unused prediction and padding. */
FIXTURE struct fixture_data samples_new(const struct rp_recipe *r, uint32_t seed)
{
    int64_t samples = r->train_batch_size * rp_recipe_micro_batches(r), seq = r->task_seq_length,
            n = r->task_max_predictions;
    struct fixture_data d = {.samples = samples};
    for (int k = 0; k < FX_FIELDS; k++)
        d.column[k] = rp_alloc((size_t)(samples * (seq >= n ? seq + 1 : n)) * 4);
    int32_t *ids = d.column[FX_IDS], *types = d.column[FX_TYPES], *positions = d.column[FX_POSITIONS],
            *labels = d.column[FX_LABELS];
    for (int64_t b = 0; b < samples; b++) {
        int last = b % r->train_batch_size == r->train_batch_size - 1;
        int64_t length = seq - (last ? seq / 3 : 0), split = length / 2;
        if (b % r->train_batch_size == 0)
            sample_state = seed + (uint32_t)(b / r->train_batch_size);
        for (int64_t s = 0; s < seq; s++) {
            ids[b * seq + s] = s < length ? sample_below(r->model_vocab_size) : 0;
            types[b * seq + s] = s >= split && s < length;
            ((uint8_t *)d.column[FX_MASK])[b * seq + s] = s < length;
        }
        for (int64_t p = 0; p < n; p++) {
            int unused = last && p == n - 1;
            positions[b * n + p] = unused ? 0 : (int32_t)(1 + p * (length - 2) / n);
            labels[b * n + p] = unused ? 0 : sample_below(r->model_vocab_size);
            ((float *)d.column[FX_WEIGHTS])[b * n + p] = unused ? 0.0f : 1.0f;
        }
        ((int32_t *)d.column[FX_NEXT])[b] = sample_below(2);
        for (int64_t s = 0; s <= seq; s++)
            ((int32_t *)d.column[FX_TOKENS])[b * (seq + 1) + s] = sample_below(r->model_vocab_size);
    }
    return d;
}

/* -- models -- */

/* Odd sizes everywhere: no width is a power of two, no row count divides a block of 64; everything else as recipes have
 * it by default. */
FIXTURE struct rp_recipe small_recipe(void)
{
    static const char yaml[] = "workload: bert\n";
    struct rp_recipe r;
    struct rp_err err = {0};
    if (rp_recipe_parse(&r, yaml, sizeof yaml - 1, "small.yaml", NULL, NULL, 0, &err) < 0)
        printf("# %s\n", err.msg);
    r.model_vocab_size = 83;
    r.model_hidden_size = 24;
    r.model_num_hidden_layers = 2;
    r.model_num_attention_heads = 3;
    r.model_intermediate_size = 40;
    r.model_max_position_embeddings = 16;
    r.model_initializer_range = 0.2f;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = 0;
    r.task_seq_length = 11;
    r.task_max_predictions = 3;
    r.train_batch_size = 3;
    r.optimizer_learning_rate = 1e-3;
    r.schedule_total_steps = 10;
    return r;
}

/* Three heads, a vocabulary of 81 of 84 rows, and dropout off. */
FIXTURE struct rp_recipe small_gpt(void)
{
    static const char yaml[] = "workload: gpt\n";
    struct rp_recipe r;
    struct rp_err err = {0};
    if (rp_recipe_parse(&r, yaml, sizeof yaml - 1, "small.yaml", NULL, NULL, 0, &err) < 0)
        printf("# %s\n", err.msg);
    r.model_vocab_size = 81;
    r.model_padded_vocab_size = 84;
    r.model_hidden_size = 24;
    r.model_num_hidden_layers = 2;
    r.model_num_attention_heads = 3;
    r.model_intermediate_size = 42;
    r.model_max_position_embeddings = 16;
    r.model_initializer_range = 0.2f;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = r.model_embedding_dropout_prob = 0;
    r.task_seq_length = 11;
    r.train_batch_size = 3;
    r.optimizer_learning_rate = 1e-3;
    r.schedule_total_steps = 10;
    return r;
}

struct fixture {
    struct rp_plan plan;
    struct rp_dev *dev;
    struct rp_train *t;
};

/* The recipe is needed only while this runs. Parameters initialised, samples from `seed` in every slot, or data where
 * they are given. -1: no such device here, or *err says what failed. */
FIXTURE int fixture_open(struct fixture *f, const struct rp_recipe *r, const char *isa, int threads, uint32_t seed,
                         const struct fixture_data *data, struct rp_err *err)
{
    *f = (struct fixture){.dev = NULL};
    *err = (struct rp_err){0};
    if (!(f->dev = fixture_device_for(r, NULL, isa, threads, &f->plan, err)))
        return -1;
    fixture_data_now = data ? *data : samples_new(r, seed);
    f->t = rp_train_open(
        &(struct rp_train_opts){.recipe = r, .plan = &f->plan, .dev = f->dev, .format = &fixture_format}, err);
    int failed = !f->t || rp_train_load(f->t, 0, err) < 0;
    if (!data)
        samples_free(&fixture_data_now);
    return failed ? -1 : 0;
}

FIXTURE void fixture_fini(struct fixture *f)
{
    rp_train_close(f->t);
    fixture_close(f->dev);
}
