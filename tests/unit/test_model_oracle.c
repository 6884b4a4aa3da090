/* The model and both optimizers against PyTorch in double precision: tests/vectors/oracle/bert_small.safetensors, which
 * tests/oracle/bert_vectors.py makes (`make oracle`).
 *
 * Tolerances are what strict fp32 needs against double, with room of about four over what is seen: losses 2e-6 of their
 * value; a gradient tensor 6e-6 of its largest element (of 0.01 where it is rounding noise: the key bias); after twenty
 * steps a parameter 4e-6 of the largest element of its tensor, losses on the way 2e-6 and norms 1e-5 of their value. */
#include "train/safetensors.h"
#include "tests/unit/train_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

#define VECTORS "tests/vectors/oracle/bert_small.safetensors"
#define STEPS 20

static struct rp_st vectors;

static void *vector(const char *prefix, const char *name, size_t *bytes)
{
    struct rp_err err;
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct rp_st_tensor *t = rp_st_find(&vectors, full);
    CHECK(t != NULL, "no '%s' in " VECTORS, full);
    *bytes = t ? (size_t)(t->end - t->begin) : 0;
    void *x = rp_alloc(*bytes + 1);
    CHECK(t && rp_st_read(&vectors, t, 0, x, *bytes, &err) == 0, "%s", err.msg);
    return x;
}

/* Largest difference to the expected tensor, as a share of its largest element (at least `floor_at`). */
static double distance(const char *prefix, const struct rp_tensor *t, float *block, double floor_at)
{
    size_t bytes;
    char name[RP_TENSOR_NAME];
    float *expected = vector(prefix, rp_tensor_name(name, t), &bytes);
    const float *x = rp_tensor_in(block, t);
    double most = floor_at, worst = 0;
    CHECK(bytes == t->count * sizeof(float), "%s%s: %zu bytes", prefix, name, bytes);
    for (size_t i = 0; i < t->count && bytes; i++) {
        double d = fabs((double)expected[i] - (double)x[i]);
        most = fabs((double)expected[i]) > most ? fabs((double)expected[i]) : most;
        worst = d > worst || isnan(d) ? d : worst;
    }
    free(expected);
    return worst / most;
}

/* r: optimizer and schedule are set. */
static void oracle_model(struct fixture *f, struct rp_recipe *r)
{
    static const char *const names[FX_TOKENS] = {"ids", "mask", "types", "positions", "labels", "weights", "next"};
    struct rp_err err = {0};
    struct fixture_data data = {.samples = 6};
    r->train_accumulation_steps = 2;
    CHECK(vectors.fd > 0 || rp_st_open(&vectors, VECTORS, &err) == 0, "%s", err.msg);
    for (int k = 0; k < FX_TOKENS; k++) { /* of BERT */
        size_t bytes;
        data.column[k] = vector("in.", names[k], &bytes);
    }
    CHECK(fixture_open(f, r, "reference", 1, 0, &data, &err) == 0, "%s", err.msg);
    samples_free(&data);
    for (int i = 0; i < f->t->state.weights->n; i++) {
        const struct rp_tensor *t = &f->t->state.weights->t[i];
        char name[RP_TENSOR_NAME];
        size_t bytes;
        float *x = vector("start.", rp_tensor_name(name, t), &bytes);
        memcpy(rp_tensor_in(f->t->state.w, t), x, bytes);
        free(x);
    }
}

TEST(losses_and_gradients)
{
    struct rp_err err = {0};
    struct rp_recipe r = small_recipe();
    struct fixture f;
    size_t bytes;
    oracle_model(&f, &r);
    const struct rp_tensors *weights = f.t->state.weights;
    float *losses = vector("out.", "losses", &bytes); /* [2][mlm, nsp] */
    struct rp_losses sum;
    for (int i = 0; i < 2; i++) {
        struct rp_losses l;
        CHECK(rp_train_forward(f.t, i, 0, f.t->gradient[0], &l, &err) == 0, "%s", err.msg);
        for (int k = 0; k < 2; k++)
            CHECK(fabsf(l.part[k] - losses[2 * i + k]) <= 2e-6f * l.part[k],
                  "micro-batch %d, part %d: %.8g, expected %.8g", i, k, l.part[k], losses[2 * i + k]);
    }
    free(losses);
    CHECK(rp_train_gradient(f.t, 0, &sum, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < weights->bytes / sizeof(float); i++)
        f.t->gradient[0][i] *= 0.5f; /* the mean of two micro-batches */
    double worst = 0;
    for (int i = 0; i < weights->n; i++) {
        double d = distance("gradient.", &weights->t[i], f.t->gradient[0], 0.01);
        CHECK(d <= 6e-6, "gradient of %s is off by %.3g of its largest element", weights->t[i].name, d);
        worst = d > worst ? d : worst;
    }
    printf("# %d gradient tensors, worst difference %.3g of the largest element\n", weights->n, worst);
    fixture_fini(&f);
    rp_recipe_fini(&r);
}

static void train(int lamb, const char *prefix)
{
    struct rp_err err = {0};
    struct fixture f;
    struct rp_recipe r = small_recipe();
    r.optimizer_name = lamb ? RP_OPTIMIZER_lamb : RP_OPTIMIZER_adamw;
    r.optimizer_bias_correction = lamb;
    r.optimizer_learning_rate = 0.002;
    r.schedule_warmup_steps = 5;
    r.schedule_total_steps = 40;
    size_t bytes;
    oracle_model(&f, &r);
    float *record = vector(prefix, "record", &bytes); /* [STEPS][loss, norm] */
    double worst = 0;
    CHECK(bytes == STEPS * 2 * sizeof(float), "record of %zu bytes", bytes);
    for (int step = 0; step < STEPS; step++) {
        struct rp_step_result s;
        CHECK(rp_train_step(f.t, step, &s, &err) == 0, "%s", err.msg);
        CHECK(fabsf(s.loss - record[2 * step]) <= 2e-6f * s.loss, "%s step %d: loss %.8g, expected %.8g", prefix, step,
              s.loss, record[2 * step]);
        CHECK(fabsf(s.grad_norm - record[2 * step + 1]) <= 1e-5f * s.grad_norm, "%s step %d: norm %.8g, expected %.8g",
              prefix, step, s.grad_norm, record[2 * step + 1]);
    }
    for (int i = 0; i < f.t->state.weights->n; i++) {
        const struct rp_tensor *t = &f.t->state.weights->t[i];
        if (strstr(t->name, "key.bias")) /* its gradient is rounding noise, which Adam turns into whole steps */
            continue;
        double d = distance(prefix, t, f.t->state.w, 0.01);
        CHECK(d <= 4e-6, "%s after %d steps is off by %.3g of its largest element", t->name, STEPS, d);
        worst = d > worst ? d : worst;
    }
    printf("# %s %d steps, worst difference %.3g of the largest element\n", prefix, STEPS, worst);
    CHECK(record[2 * STEPS - 2] < 0.75f * record[0], "the loss did not fall");
    free(record);
    fixture_fini(&f);
    rp_recipe_fini(&r);
}

TEST(twenty_steps_of_adamw)
{
    train(0, "adamw.");
}

TEST(twenty_steps_of_lamb)
{
    train(1, "lamb.");
}
