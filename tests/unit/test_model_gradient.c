/* The whole model's gradient against central differences, with dropout: the masks depend on counters only, so the loss
 * is a smooth function of the parameters.
 *
 * Tolerance: the loss (about 5) carries about 1e-6 of rounding; steps are chosen so that it changes by about 2e-2,
 * which leaves 1e-4 of noise, and the third derivative a little more: 1 % is ten times what is seen, and no wrong
 * factor or lost term hides in it. */
#include "tests/unit/train_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

static double loss_of(struct rp_train *t)
{
    struct rp_err err;
    struct rp_losses l;
    CHECK(rp_train_forward(t, 0, 5, t->gradient[0], &l, &err) == 0, "%s", err.msg);
    return (double)l.part[0] + (t->net->model->loss_part[0] ? (double)l.part[1] : 0);
}

/* (L(w + e d) - L(w - e d)) / 2e over one tensor */
static double difference(struct rp_train *m, float *w, const float *keep, const double *d, size_t n, double e)
{
    for (size_t i = 0; i < n; i++)
        w[i] = (float)((double)keep[i] + e * d[i]);
    double up = loss_of(m);
    for (size_t i = 0; i < n; i++)
        w[i] = (float)((double)keep[i] - e * d[i]);
    double down = loss_of(m);
    memcpy(w, keep, n * sizeof *w);
    return (up - down) / (2 * e);
}

/* Along the gradient itself, and along single elements. */
static void check_tensor(struct rp_train *m, const struct rp_tensor *t, float *gradient)
{
    size_t n = t->count;
    float *w = rp_tensor_in(m->state.w, t);
    const float *g = rp_tensor_in(gradient, t);
    float *keep = rp_alloc(n * sizeof *keep);
    double *d = rp_alloc(n * sizeof *d), norm = 0;
    memcpy(keep, w, n * sizeof *w);
    for (size_t i = 0; i < n; i++)
        norm += (double)g[i] * (double)g[i];
    norm = sqrt(norm);
    CHECK(norm > 1e-6, "%s: gradient is zero", t->name);
    for (size_t i = 0; i < n; i++)
        d[i] = (double)g[i] / norm;
    double seen = difference(m, w, keep, d, n, 1e-2 / (norm > 0.2 ? norm : 0.2));
    CHECK(fabs(seen - norm) <= 0.01 * norm + 3e-5, "%s: along the gradient %.6g, by differences %.6g", t->name, norm,
          seen);
    for (int k = 0; k < 3; k++) {
        size_t i = (size_t)k * (n - 1) / 2;
        memset(d, 0, n * sizeof *d);
        d[i] = 1;
        seen = difference(m, w, keep, d, n, 2e-2);
        CHECK(fabs(seen - (double)g[i]) <= 0.02 * fabs((double)g[i]) + 2e-4, "%s[%zu]: %.6g, by differences %.6g",
              t->name, i, (double)g[i], seen);
    }
    free(keep);
    free(d);
}

static void check_model(double hidden_dropout, double attention_dropout)
{
    struct rp_err err;
    struct fixture f;
    struct rp_losses l;
    struct rp_recipe r = small_recipe();
    r.model_hidden_dropout_prob = hidden_dropout;
    r.model_attention_probs_dropout_prob = attention_dropout;
    CHECK(fixture_open(&f, &r, "auto", 1, 7, NULL, &err) == 0, "%s", err.msg);
    const struct rp_tensors *weights = f.t->state.weights;
    float *block = f.t->gradient[0], *gradient = rp_alloc(weights->bytes);
    memset(block, 0x7f, weights->t[weights->n - 1].offset); /* every element must be written */
    CHECK(rp_train_forward(f.t, 0, 5, block, &l, &err) == 0, "%s", err.msg);
    CHECK(rp_train_backward(f.t, 0, 5, block, &err) == 0, "%s", err.msg);
    memcpy(gradient, block, weights->bytes);
    for (int i = 0; i < weights->n; i++)
        if (!strstr(weights->t[i].name, "key.bias")) /* softmax does not feel it: checked to be rounding noise below */
            check_tensor(f.t, &weights->t[i], gradient);
    const struct rp_tensor *k = &weights->t[rp_tensors_find(weights, "bert.encoder.layer.0.attention.self.key.bias")];
    for (size_t i = 0; i < k->count; i++)
        CHECK(hidden_dropout > 0 || fabsf(rp_tensor_in(gradient, k)[i]) < 1e-6f, "key bias %zu", i);
    free(gradient);
    fixture_fini(&f);
    rp_recipe_fini(&r);
}

/* The embedding is used twice, so the gradient is whole only after the step's. Takes the recipe. */
static void check_gpt(struct rp_recipe *r)
{
    struct rp_err err;
    struct fixture f;
    struct rp_losses l;
    CHECK(fixture_open(&f, r, "auto", 1, 7, NULL, &err) == 0, "%s", err.msg);
    const struct rp_tensors *weights = f.t->state.weights;
    float *gradient = rp_alloc(weights->bytes);
    memset(f.t->gradient[0], 0x7f, weights->t[weights->n - 1].offset);
    CHECK(rp_train_gradient(f.t, 5, &l, &err) == 0, "%s", err.msg);
    memcpy(gradient, f.t->gradient[0], weights->bytes);
    for (int i = 0; i < weights->n; i++)
        if (!strstr(weights->t[i].name, "c_attn.bias")) /* a third of it is rounding noise */
            check_tensor(f.t, &weights->t[i], gradient);
    free(gradient);
    fixture_fini(&f);
    rp_recipe_fini(r);
}

TEST(gpt_without_dropout)
{
    struct rp_recipe r = small_gpt();
    r.task_eod_mask_loss = 1;
    r.task_eod_token = 5;
    check_gpt(&r);
}

TEST(gpt_with_documents)
{
    struct rp_recipe r = small_gpt();
    r.task_reset_position_ids = r.task_reset_attention_mask = 1;
    r.model_vocab_size = 9; /* documents of a few tokens */
    r.task_eod_token = 5;
    check_gpt(&r);
}

TEST(gpt_with_dropout_recomputed)
{
    struct rp_recipe r = small_gpt();
    r.model_hidden_dropout_prob = r.model_embedding_dropout_prob = 0.1;
    r.model_attention_probs_dropout_prob = 0.2;
    r.train_recompute = RP_RECOMPUTE_full;
    check_gpt(&r);
}

TEST(gpt_in_three_parts_with_erf)
{
    struct rp_recipe r = small_gpt();
    r.parallel_tensor = 3;
    r.model_hidden_act = RP_ACTIVATION_gelu;
    check_gpt(&r);
}

TEST(gradient_without_dropout)
{
    check_model(0, 0);
}

TEST(gradient_with_dropout)
{
    check_model(0.1, 0.2);
}
