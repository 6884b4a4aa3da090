/* Training in mixed precision: instruction sets, threads, layouts of ranks and recomputation have one set of bits. */
#include "backend/cpu/inner.h"
#include "tests/unit/mixed_trials.h"

#include <math.h>

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

enum { ALL = -1 };
/* turn: every second layout, from this one, with LONG=1 all; or ALL */
static void check_layouts(enum model model, const struct rp_recipe *r, int64_t micros, const struct rp_degrees *by,
                          int n, int turn, const char *what)
{
    struct rp_err err;
    struct trial one = trial_of(model, *r, micros);
    CHECK(trial_run(&one, (struct rp_degrees){1, 1, 1}, NULL, &err) == 0, "%s: %s", what, err.msg);
    for (int i = turn == ALL || tap_long() ? 0 : turn % 2; i < n; i += turn == ALL || tap_long() ? 1 : 2) {
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
#define CHECK_LAYOUTS(model, recipe, micros, turn, what, ...)                                                          \
    do {                                                                                                               \
        static const struct rp_degrees by[] = {__VA_ARGS__};                                                           \
        check_layouts(model, recipe, micros, by, sizeof by / sizeof *by, turn, what);                                  \
    } while (0)

TEST(data_parallel_ranks_compute_the_bits_of_one)
{
    for (int m = 0; m < MODELS; m++)
        for (int c = 0; c < CONTRACTS; c++) {
            struct rp_recipe r = recipe_of((enum model)m, &contracts[c], 1);
            r.parallel_optimizer_state = c % 2 ? RP_OPTIMIZER_STATE_replicated : RP_OPTIMIZER_STATE_sharded;
            CHECK_LAYOUTS((enum model)m, &r, 4, m + c / 2, contracts[c].name, {2, 1, 1}, {4, 1, 1});
        }
}

TEST(tensor_parallel_ranks_and_stages_compute_the_bits_of_one)
{
    for (int c = 0; c < CONTRACTS; c++) {
        struct rp_recipe r = recipe_of(GPT, &contracts[c], 2);
        r.train_recompute = c % 2 ? RP_RECOMPUTE_full : RP_RECOMPUTE_selective;
        r.parallel_optimizer_state = c / 2 ? RP_OPTIMIZER_STATE_replicated : RP_OPTIMIZER_STATE_sharded;
        CHECK_LAYOUTS(GPT, &r, 3, c, contracts[c].name, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1});
    }
}

TEST(lamb_adapts_by_the_same_sums_on_several_ranks)
{
    struct rp_recipe r = recipe_of(BERT, &contracts[1], 1);
    r.optimizer_name = RP_OPTIMIZER_lamb;
    CHECK_LAYOUTS(BERT, &r, 3, ALL, "LAMB", {2, 1, 1}, {3, 1, 1});
}

/* The first step overflows, in the gradient of the logits or in an earlier layer alone: no rank changes a weight or
 * waits for another, and all of them go on with half the scale. */
TEST(ranks_skip_a_step_together)
{
    static const struct rp_degrees by[] = {{2, 1, 1}, {4, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1}};
    static const struct {
        enum model model;
        double scale;
    } cases[] = {{BERT, 0x1p40}, {GPT, 0x1p40}, {RESNET, 0x1p40}, {BERT, 0x1p18}, {GPT, 0x1p20}};
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
        check_layouts(m, &r, 4, by, m == GPT ? 5 : 2, ALL,
                      cases[i].scale > 0x1p30 ? "logits overflow" : "a layer overflows");
        traces_fini(one.trace, 1);
        samples_free(&one.data);
    }
}

/* The products that each rank has its device compute. */
static struct products {
    struct rp_ops op;
    const struct rp_ops *whole;
    int n;
} products[RANKS_MAX];
static _Thread_local struct products *own_products;

static void counted_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    own_products->n++;
    own_products->whole->gemm(dev, g);
}

static void count_products(struct rp_dev *dev, int rank)
{
    own_products = &products[rank];
    *own_products = (struct products){.op = *dev->op, .whole = dev->op};
    own_products->op.gemm = counted_gemm;
    dev->op = &own_products->op;
}

/* No rank, of whatever part, computes the gradients of layers before the one that overflowed: a third of the products
 * are of the forward pass. */
TEST(a_backward_pass_ends_on_all_ranks_at_the_first_gradient_that_is_not_finite)
{
    static const struct rp_degrees by[] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        const int ranks = by[i].tensor * by[i].pipeline;
        int whole[RANKS_MAX];
        for (int overflows = 0; overflows < 2; overflows++) {
            struct rp_recipe r = recipe_of(GPT, &contracts[1], 2);
            struct rp_err err;
            r.train_loss_scale_initial = overflows ? 0x1p40 : 1024;
            struct trial t = trial_of(GPT, r, 4);
            t.opened = count_products;
            CHECK(trial_run(&t, by[i], NULL, &err) == 0, "layout %zu: %s", i, err.msg);
            CHECK(isfinite(t.trace[0].norm[0]) != overflows, "layout %zu: norm %a", i, (double)t.trace[0].norm[0]);
            for (int k = 0; k < ranks; k++) {
                CHECK(!overflows || products[k].n * 2 < whole[k],
                      "layout %zu, rank %d: %d products, %d without overflow", i, k, products[k].n, whole[k]);
                whole[k] = products[k].n;
            }
            traces_fini(t.trace, ranks);
            trial_fini(&t);
        }
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
