/* The whole model's gradient against central differences, with dropout: the masks depend on counters only, so the loss is a smooth
 * function of the parameters.
 *
 * Tolerance: the loss (about 5) carries about 1e-6 of rounding; steps are chosen so that it changes by about 2e-2, which leaves
 * 1e-4 of noise, and the third derivative a little more: 1 % is ten times what is seen, and no wrong factor or lost term hides in it. */
#include "tests/unit/bert_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

static double loss_of(struct rp_bert *m)
{
    struct rp_err err;
    float mlm, nsp;
    CHECK(rp_bert_forward(m, 0, 5, &mlm, &nsp, &err) == 0, "%s", err.msg);
    return (double)mlm + (double)nsp;
}

/* (L(w + e d) - L(w - e d)) / 2e over one tensor */
static double difference(struct rp_bert *m, float *w, const float *keep, const double *d, size_t n, double e)
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
static void check_tensor(struct rp_bert *m, const struct rp_tensor *t, const float *gradient)
{
    size_t n = t->count;
    float *w = m->parameters + t->offset;
    const float *g = gradient + t->offset;
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
    CHECK(fabs(seen - norm) <= 0.01 * norm + 3e-5, "%s: along the gradient %.6g, by differences %.6g", t->name, norm, seen);
    for (int k = 0; k < 5; k++) {
        size_t i = (size_t)k * (n - 1) / 4;
        memset(d, 0, n * sizeof *d);
        d[i] = 1;
        seen = difference(m, w, keep, d, n, 2e-2);
        CHECK(fabs(seen - (double)g[i]) <= 0.02 * fabs((double)g[i]) + 2e-4, "%s[%zu]: %.6g, by differences %.6g", t->name, i,
              (double)g[i], seen);
    }
    free(keep);
    free(d);
}

static void check_model(double hidden_dropout, double attention_dropout)
{
    struct rp_err err;
    struct rp_bert_config c = small_config();
    float mlm, nsp;
    c.hidden_dropout = hidden_dropout;
    c.attention_dropout = attention_dropout;
    struct rp_dev *dev = fixture_device("reference", 1, c.seq, c.batch * c.seq);
    struct rp_bert *m = model_new(&c, dev, 7, &err);
    CHECK(m != NULL, "%s", err.msg);
    float *gradient = rp_alloc(m->manifest.floats * sizeof *gradient);
    memset(m->gradient[0], 0x7f, m->manifest.t[m->manifest.n - 1].offset * sizeof(float)); /* every element must be written */
    CHECK(rp_bert_forward(m, 0, 5, &mlm, &nsp, &err) == 0, "%s", err.msg);
    CHECK(rp_bert_backward(m, 0, 5, m->gradient[0], &err) == 0, "%s", err.msg);
    memcpy(gradient, m->gradient[0], m->manifest.floats * sizeof *gradient);
    for (int i = 0; i < m->manifest.n; i++)
        if (!strstr(m->manifest.t[i].name, "key.bias")) /* softmax does not feel it: checked to be rounding noise below */
            check_tensor(m, &m->manifest.t[i], gradient);
    int k = rp_manifest_find(&m->manifest, "bert.encoder.layer.0.attention.self.key.bias");
    for (size_t i = 0; i < m->manifest.t[k].count; i++)
        CHECK(hidden_dropout > 0 || fabsf(gradient[m->manifest.t[k].offset + i]) < 1e-6f, "key bias %zu", i);
    free(gradient);
    rp_bert_close(m);
    fixture_close(dev);
}

TEST(gradient_without_dropout)
{
    check_model(0, 0);
}

TEST(gradient_with_dropout)
{
    check_model(0.1, 0.2);
}
