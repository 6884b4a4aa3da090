/* The same bits: every instruction set, 1, 2, 3 and 7 threads, any grouping of micro-batches, against the literal
 * definitions. */
#include "backend/cpu/inner.h"
#include "tests/unit/train_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

#define STEPS 2

struct outcome {
    float loss[STEPS], norm[STEPS];
    char root[65];
};

/* 0: this machine lacks the instruction set. */
static int train(struct outcome *out, const struct rp_recipe *r, const char *isa, int threads, int steps)
{
    struct rp_err err = {0};
    struct fixture f;
    int opened = fixture_open(&f, r, isa, threads, 11, NULL, &err) == 0;
    CHECK(opened || !f.dev, "%s", err.msg);
    for (int step = 0; step < steps && opened; step++) {
        struct rp_step_result s;
        CHECK(rp_train_step(f.t, step, &s, &err) == 0, "%s", err.msg);
        out->loss[step] = s.loss;
        out->norm[step] = s.grad_norm;
    }
    if (opened)
        CHECK(rp_train_root(f.t, out->root, NULL, &err) == 0, "%s", err.msg);
    fixture_fini(&f);
    return opened;
}

/* Each instruction set on two of the numbers of threads, with LONG=1 on all. Takes the recipe. */
static void same_everywhere(struct rp_recipe *c)
{
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    static const int threads[] = {1, 2, 3, 7};
    struct outcome expected = {0};
    train(&expected, c, "reference", 1, STEPS);
    printf("# loss %a norm %a root %.16s\n", expected.loss[STEPS - 1], expected.norm[STEPS - 1], expected.root);
    CHECK(isfinite(expected.loss[1]) && expected.loss[1] != expected.loss[0], "nothing was learned");
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 4; t++) {
            struct outcome got = {0};
            if (((i + t) % 2 == 0 || tap_long()) && train(&got, c, isas[i], threads[t], STEPS))
                CHECK(!memcmp(&got, &expected, sizeof got), "%s with %d threads: loss %a, %a norm %a, %a root %.16s",
                      isas[i], threads[t], got.loss[0], got.loss[1], got.norm[0], got.norm[1], got.root);
        }
    rp_recipe_fini(c);
}

TEST(small_model_adamw)
{
    struct rp_recipe r = small_recipe();
    r.train_accumulation_steps = 5;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = 0.1;
    same_everywhere(&r);
}

TEST(small_model_lamb_without_dropout)
{
    struct rp_recipe r = small_recipe();
    r.optimizer_name = RP_OPTIMIZER_lamb;
    r.optimizer_bias_correction = 1;
    same_everywhere(&r);
}

/* Width 240 hides no contraction error, as a power of two does; rows and columns leave remainders in every tile and
 * tree. */
TEST(awkward_model)
{
    struct rp_recipe r = small_recipe();
    r.model_vocab_size = 1023;
    r.model_hidden_size = 240;
    r.model_num_attention_heads = 4;
    r.model_intermediate_size = 301;
    r.task_seq_length = 77;
    r.model_max_position_embeddings = 96;
    r.task_max_predictions = 9;
    r.train_batch_size = 2;
    r.train_accumulation_steps = 2;
    r.model_initializer_range = 0.05f;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = 0.1;
    same_everywhere(&r);
}

TEST(small_gpt_in_three_parts)
{
    struct rp_recipe r = small_gpt();
    r.parallel_tensor = 3;
    r.parallel_data = 2;
    r.train_accumulation_steps = 2;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = r.model_embedding_dropout_prob = 0.1;
    same_everywhere(&r);
}

/* Rows are more than one block of the head, heads are 40 wide, and sequences end within a tile. */
static struct rp_recipe awkward_gpt(void)
{
    struct rp_recipe r = small_gpt();
    r.model_vocab_size = 1021;
    r.model_padded_vocab_size = 1024;
    r.model_hidden_size = 120;
    r.model_intermediate_size = 301;
    r.task_seq_length = 177;
    r.model_max_position_embeddings = 180;
    r.train_batch_size = 3;
    r.model_initializer_range = 0.05f;
    r.model_hidden_dropout_prob = r.model_attention_probs_dropout_prob = r.model_embedding_dropout_prob = 0.1;
    return r;
}

TEST(awkward_gpt)
{
    struct rp_recipe r = awkward_gpt();
    same_everywhere(&r);
}

/* Documents of about 12 tokens. */
TEST(documents_of_gpt)
{
    struct rp_recipe r = awkward_gpt();
    struct outcome whole = {0}, apart = {0};
    r.model_vocab_size = 12;
    r.task_eod_token = 3;
    train(&whole, &r, "scalar", 2, 1);
    r.task_reset_position_ids = r.task_reset_attention_mask = 1;
    train(&apart, &r, "scalar", 2, 1);
    CHECK(whole.loss[0] != apart.loss[0], "both losses are %a", apart.loss[0]);
    same_everywhere(&r);
}

TEST(recomputation_changes_no_bit)
{
    struct outcome kept = {0}, again = {0};
    struct rp_recipe r = awkward_gpt();
    r.parallel_tensor = 3;
    r.model_intermediate_size = 300;
    r.model_padded_vocab_size = 1023;
    CHECK(train(&kept, &r, "scalar", 2, STEPS));
    for (int mode = RP_RECOMPUTE_selective; mode <= RP_RECOMPUTE_full; mode++) {
        r.train_recompute = mode;
        CHECK(train(&again, &r, "scalar", 2, STEPS) && !memcmp(&again, &kept, sizeof kept),
              "recompute %s: root %.16s, not %.16s", rp_choice_name(RP_RECOMPUTES, mode), again.root, kept.root);
    }
    rp_recipe_fini(&r);
}

/* -- BERT-base, one step with dropout -- */

static const struct run {
    const char *isa;
    int threads;
} short_runs[] = {{"scalar", 7}, {"avx2", 3}, {"avx512", 1}},
  long_runs[] = {{"avx2", 2}, {"avx2", 7}, {"avx512", 1}, {"avx512", 3}};

static void same_on_base(const struct run *runs, int n, int layers, int batch, int seq, int predictions)
{
    static const char yaml[] = "workload: bert\n"; /* BERT-base, by the defaults of the keys */
    struct rp_err err = {0};
    struct rp_recipe r;
    struct outcome first = {0}, got = {0};
    CHECK(rp_recipe_parse(&r, yaml, sizeof yaml - 1, "base.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    r.model_num_hidden_layers = layers;
    r.train_batch_size = batch;
    r.task_seq_length = seq;
    r.task_max_predictions = predictions;
    for (int i = 0; i < n; i++) {
        if (!train(i ? &got : &first, &r, runs[i].isa, runs[i].threads, 1))
            continue;
        CHECK(i > 0 || (first.loss[0] > 10 && first.loss[0] < 13), "loss %g: expected about ln 30522 + ln 2",
              first.loss[0]);
        CHECK(i == 0 || !memcmp(&got, &first, sizeof got), "%s with %d threads differs from %s with %d", runs[i].isa,
              runs[i].threads, runs[0].isa, runs[0].threads);
    }
    rp_recipe_fini(&r);
}

/* One sequence of 16 tokens takes scalar code seconds; two of 128 would take it minutes. Layers are alike: two of the
 * twelve will do. */
TEST(scalar_avx2_and_avx512_agree_on_base)
{
    same_on_base(short_runs, 3, tap_long() ? 12 : 2, 1, 16, 3);
}

TEST(avx2_and_avx512_agree_on_base_at_full_length)
{
    if (!tap_long())
        SKIP("takes half a minute: LONG=1");
    if (!rp_isa_usable(RP_ISA_avx2))
        SKIP("no AVX2 here, and scalar code would take minutes");
    same_on_base(long_runs, 4, 12, 2, 128, 20);
}

/* -- grouping -- */

/* The definition: a balanced tree that splits at the largest power of two below n, on copies of the leaves. */
static void tree_by_definition(float *out, float *const *leaf, long n, size_t floats)
{
    if (n == 1) {
        memcpy(out, leaf[0], floats * sizeof *out);
        return;
    }
    long k = rp_tree_split(n);
    float *right = rp_alloc(floats * sizeof *right);
    tree_by_definition(out, leaf, k, floats);
    tree_by_definition(right, leaf + k, n - k, floats);
    for (size_t i = 0; i < floats; i++)
        out[i] = out[i] + right[i];
    free(right);
}

/* `ranks` workers own contiguous ranges, merge what they may, and hand their nodes to one that finishes. */
static void tree_by_ranks(struct rp_train *m, float *const *leaf, const struct rp_losses *losses, int micros, int ranks,
                          float **whole, struct rp_losses *sum)
{
    size_t bytes = m->state.weights->bytes, floats = bytes / sizeof(float);
    struct rp_grad_tree all;
    float *mine[8];
    for (int i = 0; i < 8; i++)
        mine[i] = rp_alloc(bytes);
    rp_grad_tree_init(&all, m->net->dev, whole, 8, floats);
    for (int r = 0; r < ranks; r++) {
        struct rp_grad_tree part;
        int first = r * micros / ranks, end = (r + 1) * micros / ranks, most = 0;
        /* one more ends the test */
        rp_grad_tree_init(&part, m->net->dev, mine, rp_grad_tree_blocks(first, end - first), floats);
        for (int i = first; i < end; i++) {
            memcpy(rp_grad_tree_leaf(&part), leaf[i], bytes);
            most = part.n + 1 > most ? part.n + 1 : most;
            rp_grad_tree_push(&part, i, &losses[i]);
        }
        CHECK(most == part.blocks, "rank %d of %d uses %d of %d blocks", r, ranks, most, part.blocks);
        for (int i = 0; i < part.n; i++) {
            memcpy(rp_grad_tree_leaf(&all), mine[i], bytes);
            rp_grad_tree_push_node(&all, part.node[i].lo, part.node[i].hi, &part.node[i].sum);
        }
    }
    rp_grad_tree_finish(&all, sum);
    for (int i = 0; i < 8; i++)
        free(mine[i]);
}

TEST(grouping_of_micro_batches)
{
    enum { MOST = 13 };
    for (int micros = 1; micros <= MOST; micros++) {
        struct rp_err err = {0};
        struct fixture f;
        struct rp_recipe r = small_recipe();
        r.train_accumulation_steps = micros;
        r.model_hidden_dropout_prob = 0.1;
        CHECK(fixture_open(&f, &r, "reference", 1, 3, NULL, &err) == 0, "%s", err.msg);
        size_t bytes = f.t->state.weights->bytes;
        float *leaf[MOST], *whole[8], *expected = rp_alloc(bytes);
        struct rp_losses losses[MOST], sum, all;
        for (int i = 0; i < micros; i++) {
            leaf[i] = rp_alloc(bytes);
            CHECK(rp_train_forward(f.t, i, 4, leaf[i], &losses[i], &err) == 0, "%s", err.msg);
            CHECK(rp_train_backward(f.t, i, 4, leaf[i], &err) == 0, "%s", err.msg);
        }
        tree_by_definition(expected, leaf, micros, bytes / sizeof(float));
        CHECK(rp_train_gradient(f.t, 4, &all, &err) == 0, "%s", err.msg);
        CHECK(!memcmp(f.t->gradient[0], expected, bytes), "%d micro-batches: not the tree of the definition", micros);
        for (int i = 0; i < 8; i++)
            whole[i] = rp_alloc(bytes);
        for (int ranks = 1; ranks <= micros; ranks++) {
            tree_by_ranks(f.t, leaf, losses, micros, ranks, whole, &sum);
            CHECK(!memcmp(whole[0], expected, bytes) && !memcmp(&sum, &all, sizeof sum), "%d micro-batches on %d ranks",
                  micros, ranks);
        }
        for (int i = 0; i < 8; i++)
            free(whole[i]);
        for (int i = 0; i < micros; i++)
            free(leaf[i]);
        free(expected);
        fixture_fini(&f);
        rp_recipe_fini(&r);
    }
}
