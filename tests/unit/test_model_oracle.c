/* The model and both optimizers against PyTorch in double precision: tests/vectors/oracle/bert_small.safetensors, which
 * tests/oracle/bert_vectors.py makes (`make oracle`).
 *
 * Tolerances are what strict fp32 needs against double, with room of about four over what is seen: losses 2e-6 of their value; a
 * gradient tensor 6e-6 of its largest element (of 0.01 where it is rounding noise: the key bias); after twenty steps a parameter
 * 4e-6 of the largest element of its tensor, losses on the way 2e-6 and norms 1e-5 of their value. */
#include "model/bert_step.h"
#include "train/safetensors.h"
#include "tests/unit/bert_fixture.h"
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
static double distance(const char *prefix, const struct rp_tensor *t, const float *block, double floor_at)
{
    size_t bytes;
    float *expected = vector(prefix, t->name, &bytes);
    double most = floor_at, worst = 0;
    CHECK(bytes == t->count * sizeof(float), "%s%s: %zu bytes", prefix, t->name, bytes);
    for (size_t i = 0; i < t->count && bytes; i++) {
        double d = fabs((double)expected[i] - (double)block[t->offset + i]);
        most = fabs((double)expected[i]) > most ? fabs((double)expected[i]) : most;
        worst = d > worst || isnan(d) ? d : worst;
    }
    free(expected);
    return worst / most;
}

static struct rp_bert *oracle_model(struct rp_dev **dev)
{
    struct rp_err err = {0};
    struct rp_bert_config c = small_config();
    c.micros = 2;
    *dev = fixture_device("reference", 1, c.seq, c.batch * c.seq);
    struct rp_bert *m = rp_bert_open(&c, *dev, &err);
    CHECK(m && (vectors.fd > 0 || rp_st_open(&vectors, VECTORS, &err) == 0), "%s", err.msg);
    for (int i = 0; i < m->manifest.n; i++) {
        size_t bytes;
        float *x = vector("start.", m->manifest.t[i].name, &bytes);
        memcpy(m->parameters + m->manifest.t[i].offset, x, bytes);
        free(x);
    }
    static const char *const names[] = {"ids", "types", "mask", "positions", "labels", "weights", "next"};
    char *in[7];
    size_t bytes[7];
    for (int k = 0; k < 7; k++)
        in[k] = vector("in.", names[k], &bytes[k]);
    for (int i = 0; i < 2; i++) {
        const void *at[7];
        for (int k = 0; k < 7; k++)
            at[k] = in[k] + (size_t)i * bytes[k] / 2;
        struct rp_bert_samples s = {at[0], at[1], at[2], at[3], at[4], at[5], at[6]};
        CHECK(rp_bert_input(m, i, &s, &err) == 0, "%s", err.msg);
    }
    for (int k = 0; k < 7; k++)
        free(in[k]);
    return m;
}

TEST(losses_and_gradients)
{
    struct rp_err err = {0};
    struct rp_dev *dev;
    struct rp_bert *m = oracle_model(&dev);
    size_t bytes;
    float *losses = vector("out.", "losses", &bytes); /* [2][mlm, nsp] */
    struct rp_bert_result sum;
    for (int i = 0; i < 2; i++) {
        float mlm, nsp;
        CHECK(rp_bert_forward(m, i, 0, &mlm, &nsp, &err) == 0, "%s", err.msg);
        CHECK(fabsf(mlm - losses[2 * i]) <= 2e-6f * mlm, "micro-batch %d: mlm %.8g, expected %.8g", i, mlm, losses[2 * i]);
        CHECK(fabsf(nsp - losses[2 * i + 1]) <= 2e-6f * nsp, "micro-batch %d: nsp %.8g, expected %.8g", i, nsp, losses[2 * i + 1]);
    }
    free(losses);
    CHECK(rp_bert_gradient(m, 0, &sum, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < m->manifest.floats; i++)
        m->gradient[0][i] *= 0.5f; /* the mean of two micro-batches */
    double worst = 0;
    for (int i = 0; i < m->manifest.n; i++) {
        double d = distance("gradient.", &m->manifest.t[i], m->gradient[0], 0.01);
        CHECK(d <= 6e-6, "gradient of %s is off by %.3g of its largest element", m->manifest.t[i].name, d);
        worst = d > worst ? d : worst;
    }
    printf("# %d gradient tensors, worst difference %.3g of the largest element\n", m->manifest.n, worst);
    rp_bert_close(m);
    fixture_close(dev);
}

static void train(int lamb, const char *prefix)
{
    struct rp_err err = {0};
    struct rp_dev *dev;
    struct rp_bert *m = oracle_model(&dev);
    struct rp_recipe r = {.optimizer_name = lamb, .optimizer_bias_correction = lamb, .optimizer_learning_rate = 0.002,
                          .optimizer_beta1 = 0.9, .optimizer_beta2 = 0.999, .optimizer_epsilon = 1e-6, .optimizer_weight_decay = 0.01,
                          .optimizer_exclude = (char *)"LayerNorm,bias", .optimizer_clip_norm = 1, .schedule_warmup_steps = 5,
                          .schedule_total_steps = 40, .schedule_decay = RP_DECAY_linear};
    struct rp_optim o;
    size_t bytes;
    float *record = vector(prefix, "record", &bytes); /* [STEPS][loss, norm] */
    double worst = 0;
    CHECK(bytes == STEPS * 2 * sizeof(float), "record of %zu bytes", bytes);
    rp_optim_init(&o, &r, &m->manifest);
    for (int step = 0; step < STEPS; step++) {
        struct rp_bert_result s;
        CHECK(rp_bert_step(m, &o, step, &s, &err) == 0, "%s", err.msg);
        CHECK(fabsf(s.loss - record[2 * step]) <= 2e-6f * s.loss, "%s step %d: loss %.8g, expected %.8g", prefix, step, s.loss,
              record[2 * step]);
        CHECK(fabsf(s.norm - record[2 * step + 1]) <= 1e-5f * s.norm, "%s step %d: norm %.8g, expected %.8g", prefix, step, s.norm,
              record[2 * step + 1]);
    }
    for (int i = 0; i < m->manifest.n; i++) {
        const struct rp_tensor *t = &m->manifest.t[i];
        if (strstr(t->name, "key.bias")) /* its gradient is rounding noise, which Adam turns into whole steps */
            continue;
        double d = distance(prefix, t, m->parameters, 0.01);
        CHECK(d <= 4e-6, "%s after %d steps is off by %.3g of its largest element", t->name, STEPS, d);
        worst = d > worst ? d : worst;
    }
    printf("# %s %d steps, worst difference %.3g of the largest element\n", prefix, STEPS, worst);
    CHECK(record[2 * STEPS - 2] < 0.75f * record[0], "the loss did not fall");
    free(record);
    rp_optim_fini(&o);
    rp_bert_close(m);
    fixture_close(dev);
}

TEST(twenty_steps_of_adamw)
{
    train(0, "adamw.");
}

TEST(twenty_steps_of_lamb)
{
    train(1, "lamb.");
}
