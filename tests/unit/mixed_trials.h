/* Small trainings in mixed precision, for test_mixed_training.c and test_two_bytes.c.
 *
 * What:    the contracts that are tried, and a recipe of each model with rows that no tile divides.
 * Flow:    trial_of(recipe_of()) -> run_one() or trial_run(), and compare(), of trials.h.
 * Owner:   as in trials.h.
 */
#pragma once

#include "tests/unit/noise_images.h"
#include "tests/unit/trials.h"

/* Two kinds of tensor cores for each type that is stored. */
static const struct contract {
    enum rp_precision precision;
    enum rp_tensor_core core;
    const char *name;
} contracts[] = {{RP_PRECISION_fp16, RP_TENSOR_CORE_tc4, "fp16, tc4"},
                 {RP_PRECISION_fp16, RP_TENSOR_CORE_tc16, "fp16, tc16"},
                 {RP_PRECISION_bf16, RP_TENSOR_CORE_tc8, "bf16, tc8"},
                 {RP_PRECISION_bf16, RP_TENSOR_CORE_tc16, "bf16, tc16"}};
enum { CONTRACTS = sizeof contracts / sizeof *contracts };

static const char resnet_yaml[] = "workload: resnet50\nmodel: {width: 8, blocks: \"1,1,1,1\", num_classes: 7}\ntask: "
                                  "{image_size: 32}\nrun: {overlap_kib: 4}\n"
                                  "train: {batch_size: 2, accumulation_steps: 3}\noptimizer: {name: sgd, "
                                  "learning_rate: 0.1}\nschedule: {total_steps: 10}\n";

enum model { BERT, GPT, RESNET, MODELS };
static const char *const model_names[MODELS] = {"BERT", "GPT", "ResNet"};

/* Rows that no tile divides, tensors of several chunks, a bucket for each layer; degree: of the arithmetic of GPT. */
FIXTURE struct rp_recipe recipe_of(enum model model, const struct contract *c, int degree)
{
    struct rp_recipe r;
    struct rp_err err = {0};
    if (model == RESNET)
        CHECK(rp_recipe_parse(&r, resnet_yaml, sizeof resnet_yaml - 1, "noise.yaml", NULL, NULL, 0, &err) == 0, "%s",
              err.msg);
    else
        r = model == BERT ? small_recipe() : small_gpt();
    if (model != RESNET) {
        r.run_overlap_kib = 1;
        r.train_batch_size = 2;
        r.model_intermediate_size = 400;
        r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = 0.1f;
    }
    if (model == GPT) {
        r.model_embedding_dropout_prob = 0.1f;
        r.model_vocab_size = 701;
        r.model_padded_vocab_size = 704;
        r.model_hidden_size = 32;
        r.model_num_attention_heads = 4;
        r.parallel_tensor = degree;
    }
    r.train_precision = c->precision;
    r.train_tensor_core = c->core;
    r.train_loss_scale_initial = 1024;
    return r;
}

FIXTURE struct trial trial_of(enum model model, struct rp_recipe recipe, int64_t micros)
{
    if (model != RESNET)
        return trial_new(recipe, micros);
    recipe.train_accumulation_steps = micros;
    return (struct trial){.recipe = recipe, .format = &noise_format};
}

/* The trace of one rank on that device: its tensors belong to the caller. */
FIXTURE void run_one(struct trial *t, const char *isa, int threads, const char *what)
{
    struct rp_err err;
    const struct trial_device device = {isa, threads};
    t->device = &device;
    t->devices = 1;
    memset(t->trace, 0, sizeof t->trace);
    CHECK(trial_run(t, (struct rp_degrees){1, 1, 1}, NULL, &err) == 0, "%s: %s", what, err.msg);
    t->device = NULL;
}
