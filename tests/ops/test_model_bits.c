/* The same bits: every instruction set, 1, 2, 3 and 7 threads, any grouping of micro-batches, against the literal definitions. */
#include "model/bert_step.h"
#include "model/grad_tree.h"
#include "model/state_root.h"
#include "tests/unit/bert_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

#define STEPS 2

struct outcome {
    float loss[STEPS], norm[STEPS];
    char root[65];
};

static int train(struct outcome *out, const struct rp_bert_config *c, const char *isa, int threads, int lamb)
{
    struct rp_err err = {0};
    struct rp_recipe r = {.optimizer_name = lamb, .optimizer_bias_correction = lamb, .optimizer_learning_rate = 1e-3,
                          .optimizer_beta1 = 0.9, .optimizer_beta2 = 0.999, .optimizer_epsilon = 1e-6, .optimizer_weight_decay = 0.01,
                          .optimizer_exclude = (char *)"LayerNorm,bias", .optimizer_clip_norm = 1, .schedule_total_steps = 10,
                          .schedule_decay = RP_DECAY_linear};
    struct rp_optim o;
    struct rp_dev *dev = fixture_device(isa, threads, c->seq, c->batch * c->seq);
    if (!dev)
        return 0;
    struct rp_bert *m = model_new(c, dev, 11, &err);
    CHECK(m != NULL, "%s", err.msg);
    rp_optim_init(&o, &r, &m->manifest);
    for (int step = 0; step < STEPS; step++) {
        struct rp_bert_result s;
        CHECK(rp_bert_step(m, &o, step, &s, &err) == 0, "%s", err.msg);
        out->loss[step] = s.loss;
        out->norm[step] = s.norm;
    }
    const float *block[3] = {m->parameters, m->moment[0], m->moment[1]};
    CHECK(rp_state_root(out->root, NULL, dev, &m->manifest, block, m->leaves, &err) == 0, "%s", err.msg);
    rp_optim_fini(&o);
    rp_bert_close(m);
    fixture_close(dev);
    return 1;
}

static void same_everywhere(const struct rp_bert_config *c, int lamb)
{
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    static const int threads[] = {1, 2, 3, 7};
    struct outcome expected = {0};
    train(&expected, c, "reference", 1, lamb);
    printf("# loss %a norm %a root %.16s\n", expected.loss[STEPS - 1], expected.norm[STEPS - 1], expected.root);
    CHECK(isfinite(expected.loss[1]) && expected.loss[1] != expected.loss[0], "nothing was learned");
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 4; t++) {
            struct outcome got = {0};
            if (train(&got, c, isas[i], threads[t], lamb))
                CHECK(!memcmp(&got, &expected, sizeof got), "%s with %d threads: loss %a, %a norm %a, %a root %.16s", isas[i], threads[t],
                      got.loss[0], got.loss[1], got.norm[0], got.norm[1], got.root);
        }
}

TEST(small_model_adamw)
{
    struct rp_bert_config c = small_config();
    c.micros = 5;
    c.hidden_dropout = 0.1;
    c.attention_dropout = 0.1;
    same_everywhere(&c, 0);
}

TEST(small_model_lamb_without_dropout)
{
    struct rp_bert_config c = small_config();
    same_everywhere(&c, 1);
}

/* Width 240 hides no contraction error, as a power of two does; rows and columns leave remainders in every tile and tree. */
TEST(awkward_model)
{
    struct rp_bert_config c = small_config();
    c.vocab = 1023;
    c.hidden = 240;
    c.heads = 4;
    c.inner = 301;
    c.seq = 77;
    c.positions = 96;
    c.predictions = 9;
    c.batch = 2;
    c.micros = 2;
    c.init_range = 0.05f;
    c.hidden_dropout = 0.1;
    c.attention_dropout = 0.1;
    same_everywhere(&c, 0);
}

/* -- grouping -- */

static struct rp_bert *five_micros(struct rp_dev **dev, int micros)
{
    struct rp_err err = {0};
    struct rp_bert_config c = small_config();
    c.micros = micros;
    c.hidden_dropout = 0.1;
    *dev = fixture_device("reference", 1, c.seq, c.batch * c.seq);
    struct rp_bert *m = model_new(&c, *dev, 3, &err);
    CHECK(m != NULL, "%s", err.msg);
    return m;
}

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
static void tree_by_ranks(struct rp_bert *m, float *const *leaf, const struct rp_losses *losses, int micros, int ranks, float **whole,
                          struct rp_losses *sum)
{
    size_t bytes = m->manifest.floats * sizeof(float);
    struct rp_grad_tree all;
    float *mine[8];
    for (int i = 0; i < 8; i++)
        mine[i] = rp_alloc(bytes);
    rp_grad_tree_init(&all, m->dev, whole, 8, m->manifest.floats);
    for (int r = 0; r < ranks; r++) {
        struct rp_grad_tree part;
        rp_grad_tree_init(&part, m->dev, mine, 8, m->manifest.floats);
        for (int i = r * micros / ranks; i < (r + 1) * micros / ranks; i++) {
            memcpy(rp_grad_tree_leaf(&part), leaf[i], bytes);
            rp_grad_tree_push(&part, i, &losses[i]);
        }
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
        struct rp_dev *dev;
        struct rp_bert *m = five_micros(&dev, micros);
        size_t bytes = m->manifest.floats * sizeof(float);
        float *leaf[MOST], *whole[8], *expected = rp_alloc(bytes);
        struct rp_losses losses[MOST], sum;
        struct rp_bert_result all;
        for (int i = 0; i < micros; i++) {
            leaf[i] = rp_alloc(bytes);
            CHECK(rp_bert_forward(m, i, 4, &losses[i].mlm, &losses[i].nsp, &err) == 0, "%s", err.msg);
            losses[i].loss = losses[i].mlm + losses[i].nsp;
            CHECK(rp_bert_backward(m, i, 4, leaf[i], &err) == 0, "%s", err.msg);
        }
        tree_by_definition(expected, leaf, micros, m->manifest.floats);
        CHECK(rp_bert_gradient(m, 4, &all, &err) == 0, "%s", err.msg);
        CHECK(!memcmp(m->gradient[0], expected, bytes), "%d micro-batches: not the tree of the definition", micros);
        for (int i = 0; i < 8; i++)
            whole[i] = rp_alloc(bytes);
        for (int ranks = 1; ranks <= micros; ranks++) {
            tree_by_ranks(m, leaf, losses, micros, ranks, whole, &sum);
            CHECK(!memcmp(whole[0], expected, bytes) && !memcmp(&sum.loss, &all.loss, 4) && !memcmp(&sum.mlm, &all.mlm, 4) &&
                      !memcmp(&sum.nsp, &all.nsp, 4),
                  "%d micro-batches on %d ranks", micros, ranks);
        }
        for (int i = 0; i < 8; i++)
            free(whole[i]);
        for (int i = 0; i < micros; i++)
            free(leaf[i]);
        free(expected);
        rp_bert_close(m);
        fixture_close(dev);
    }
}
