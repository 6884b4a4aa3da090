/* Training in mixed precision: instruction sets, threads, layouts of ranks and recomputation have one set of bits.
 * timeout: 900 */
#include "backend/cpu/cpu.h"
#include "tests/unit/noise_images.h"
#include "tests/unit/trials.h"

#include <math.h>

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
static struct rp_recipe recipe_of(enum model model, const struct contract *c, int degree)
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

static struct trial trial_of(enum model model, struct rp_recipe recipe, int64_t micros)
{
    if (model != RESNET)
        return trial_new(recipe, micros);
    recipe.train_accumulation_steps = micros;
    return (struct trial){.recipe = recipe, .format = &noise_format};
}

/* The trace of one rank on that device: its tensors belong to the caller. */
static void run_one(struct trial *t, const char *isa, int threads, const char *what)
{
    struct rp_err err;
    const struct trial_device device = {isa, threads};
    t->device = &device;
    t->devices = 1;
    memset(t->trace, 0, sizeof t->trace);
    CHECK(trial_run(t, (struct rp_degrees){1, 1, 1}, NULL, &err) == 0, "%s: %s", what, err.msg);
    t->device = NULL;
}

/* ---- instruction sets and threads ---- */

TEST(every_instruction_set_has_the_bits_of_the_definitions)
{
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int m = 0; m < MODELS; m++)
        for (int c = 0; c < CONTRACTS; c++) {
            struct trial one = trial_of((enum model)m, recipe_of((enum model)m, &contracts[c], 1), 2);
            char what[80];
            run_one(&one, "reference", 1, model_names[m]);
            const struct trace *is = &one.trace[0];
            CHECK(isfinite(is->loss[1]) && is->loss[0] != is->loss[1] && isfinite(is->norm[1]) &&
                      strcmp(is->root[1], is->root[2]) != 0,
                  "%s, %s: nothing was learned", model_names[m], contracts[c].name);
            for (int i = 0; i < 9; i++) {
                const char *isa = isas[i / 3];
                if (!rp_isa_usable((enum rp_isa)rp_isa_from_name(isa)) || (!tap_long() && (i + c) % 3 != 0))
                    continue; /* each number of threads with each set, over the contracts */
                struct trial other = one;
                snprintf(what, sizeof what, "%s, %s, %s, %d threads", model_names[m], contracts[c].name, isa,
                         1 + (i % 3 + m) % 3);
                run_one(&other, isa, 1 + (i % 3 + m) % 3, what);
                compare(is, &other, (struct rp_degrees){1, 1, 1}, what);
                traces_fini(other.trace, 1);
            }
            traces_fini(one.trace, 1);
            trial_fini(&one);
        }
}

/* A device that keeps 16 bits of them: addresses, sizes and copies follow from the bytes of an element. */
TEST(stored_tensors_of_two_bytes_have_the_bits_of_those_of_four)
{
    for (int m = 0; m < MODELS; m++)
        for (int c = m % 2; c < CONTRACTS; c += 2) {
            struct trial one = trial_of((enum model)m, recipe_of((enum model)m, &contracts[c], 2), 2), other = one;
            run_one(&one, "reference", 1, model_names[m]);
            run_one(&other, "narrow", 1, model_names[m]);
            compare(&one.trace[0], &other, (struct rp_degrees){1, 1, 1}, model_names[m]);
            traces_fini(one.trace, 1);
            traces_fini(other.trace, 1);
            trial_fini(&one);
        }
}

/* Contracts are different arithmetics, and none is strict fp32. */
TEST(contracts_differ_in_their_bits)
{
    for (int m = 0; m < MODELS; m++) {
        struct trace is[CONTRACTS + 1];
        for (int c = 0; c <= CONTRACTS; c++) {
            struct trial t = trial_of((enum model)m, recipe_of((enum model)m, &contracts[c % CONTRACTS], 1), 2);
            if (c == CONTRACTS) {
                t.recipe.train_precision = RP_PRECISION_fp32;
                t.recipe.train_tensor_core = RP_TENSOR_CORE_auto;
            }
            run_one(&t, "avx2", 1, model_names[m]);
            is[c] = t.trace[0];
            for (int k = 0; k < c; k++)
                CHECK(strcmp(is[c].root[0], is[k].root[0]) == 0 && strcmp(is[c].root[2], is[k].root[2]) != 0 &&
                          fabsf(is[c].loss[0] - is[k].loss[0]) < 0.03f,
                      "%s, contracts %d and %d: losses %a and %a", model_names[m], c, k, (double)is[c].loss[0],
                      (double)is[k].loss[0]);
            trial_fini(&t);
        }
        traces_fini(is, CONTRACTS + 1);
    }
}

/* ---- ranks ---- */

static void check_layouts(enum model model, const struct rp_recipe *r, int64_t micros, const struct rp_degrees *by,
                          int n, const char *what)
{
    struct rp_err err;
    struct trial one = trial_of(model, *r, micros);
    CHECK(trial_run(&one, (struct rp_degrees){1, 1, 1}, NULL, &err) == 0, "%s: %s", what, err.msg);
    for (int i = 0; i < n; i++) {
        struct trial many = one;
        char text[120];
        snprintf(text, sizeof text, "%s, %s, %d x %d x %d", model_names[model], what, by[i].data, by[i].tensor,
                 by[i].pipeline);
        memset(many.trace, 0, sizeof many.trace);
        CHECK(trial_run(&many, by[i], NULL, &err) == 0, "%s: %s", text, err.msg);
        compare(&one.trace[0], &many, by[i], text);
        traces_fini(many.trace, by[i].data * by[i].tensor * by[i].pipeline);
    }
    traces_fini(one.trace, 1);
    trial_fini(&one);
}
#define CHECK_LAYOUTS(model, recipe, micros, what, ...)                                                                \
    do {                                                                                                               \
        static const struct rp_degrees by[] = {__VA_ARGS__};                                                           \
        check_layouts(model, recipe, micros, by, sizeof by / sizeof *by, what);                                        \
    } while (0)

TEST(data_parallel_ranks_compute_the_bits_of_one)
{
    for (int m = 0; m < MODELS; m++)
        for (int c = 0; c < CONTRACTS; c++) {
            struct rp_recipe r = recipe_of((enum model)m, &contracts[c], 1);
            r.parallel_optimizer_state = c % 2 ? RP_OPTIMIZER_STATE_replicated : RP_OPTIMIZER_STATE_sharded;
            CHECK_LAYOUTS((enum model)m, &r, 4, contracts[c].name, {2, 1, 1}, {4, 1, 1});
        }
}

TEST(tensor_parallel_ranks_and_stages_compute_the_bits_of_one)
{
    for (int c = 0; c < CONTRACTS; c++) {
        struct rp_recipe r = recipe_of(GPT, &contracts[c], 2);
        r.train_recompute = c % 2 ? RP_RECOMPUTE_full : RP_RECOMPUTE_selective;
        r.parallel_optimizer_state = c / 2 ? RP_OPTIMIZER_STATE_replicated : RP_OPTIMIZER_STATE_sharded;
        CHECK_LAYOUTS(GPT, &r, 3, contracts[c].name, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1});
    }
}

/* What they exchange has 2 bytes an element, too. */
TEST(ranks_whose_stored_tensors_have_two_bytes_compute_the_bits_of_one)
{
    static const struct trial_device narrow = {"narrow", 1};
    static const struct rp_degrees by[] = {{1, 2, 1}, {1, 1, 2}, {2, 2, 1}};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        struct rp_recipe r = recipe_of(GPT, &contracts[i], 2);
        struct rp_err err;
        r.train_recompute = (int[]){RP_RECOMPUTE_none, RP_RECOMPUTE_full, RP_RECOMPUTE_selective}[i];
        struct trial one = trial_of(GPT, r, 3), many = one;
        run_one(&one, "avx2", 1, "one rank");
        many.device = &narrow;
        many.devices = 1;
        CHECK(trial_run(&many, by[i], NULL, &err) == 0, "layout %zu: %s", i, err.msg);
        compare(&one.trace[0], &many, by[i], "two bytes");
        traces_fini(many.trace, by[i].data * by[i].tensor * by[i].pipeline);
        traces_fini(one.trace, 1);
        trial_fini(&one);
    }
}

TEST(lamb_adapts_by_the_same_sums_on_several_ranks)
{
    struct rp_recipe r = recipe_of(BERT, &contracts[1], 1);
    r.optimizer_name = RP_OPTIMIZER_lamb;
    CHECK_LAYOUTS(BERT, &r, 3, "LAMB", {2, 1, 1}, {3, 1, 1});
}

/* The first step overflows, in the gradient of the logits or in an earlier layer alone: no rank changes a weight or waits for another, and all
 * of them go on with half the scale. */
TEST(ranks_skip_a_step_together)
{
    static const struct rp_degrees by[] = {{2, 1, 1}, {4, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1}};
    static const struct {
        enum model model;
        double scale;
    } cases[] = {{BERT, 0x1p40}, {GPT, 0x1p40}, {RESNET, 0x1p40}, {BERT, 0x1p18}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum model m = cases[i].model;
        struct rp_recipe r = recipe_of(m, &contracts[1], 2);
        r.train_loss_scale_initial = cases[i].scale;
        r.parallel_optimizer_state = i % 2 ? RP_OPTIMIZER_STATE_replicated : RP_OPTIMIZER_STATE_sharded;
        struct trial one = trial_of(m, r, 4);
        run_one(&one, "avx2", 1, model_names[m]);
        const struct trace *is = &one.trace[0];
        CHECK(isinf(is->norm[0]) && isfinite(is->loss[0]), "%s: norm %a", model_names[m], (double)is->norm[0]);
        CHECK(!strcmp(is->root[0], is->root[1]) == (m != RESNET), "%s: running statistics alone move", model_names[m]);
        check_layouts(m, &r, 4, by, m == GPT ? 5 : 2,
                      cases[i].scale > 0x1p30 ? "logits overflow" : "a layer overflows");
        traces_fini(one.trace, 1);
        samples_free(&one.data);
    }
}

/* ---- recomputation ---- */

TEST(recomputation_changes_no_bit)
{
    for (int m = GPT; m < MODELS; m++)
        for (int c = 0; c < CONTRACTS; c++) {
            struct trial kept = trial_of((enum model)m, recipe_of((enum model)m, &contracts[c], 2), 2);
            run_one(&kept, "avx2", 2, model_names[m]);
            for (int mode = RP_RECOMPUTE_selective; mode <= (m == GPT ? RP_RECOMPUTE_full : RP_RECOMPUTE_selective);
                 mode++) {
                struct trial again = kept;
                char what[80];
                again.recipe.train_recompute = mode;
                snprintf(what, sizeof what, "%s, %s, recompute %s", model_names[m], contracts[c].name,
                         rp_choice_name(RP_RECOMPUTES, mode));
                run_one(&again, "avx2", 2, what);
                compare(&kept.trace[0], &again, (struct rp_degrees){1, 1, 1}, what);
                traces_fini(again.trace, 1);
            }
            traces_fini(kept.trace, 1);
            trial_fini(&kept);
        }
}
