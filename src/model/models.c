/* The built-in models. */
#include "model/model.h"

#include <math.h>
#include <string.h>

#define X(name) extern const struct rp_model rp_model_##name;
RP_MODELS(X)
#undef X

static const struct rp_model *const models[RP_MODEL_COUNT] = {
#define X(name) [RP_MODEL_##name] = &rp_model_##name,
    RP_MODELS(X)
#undef X
};

const struct rp_model *rp_model_of(const struct rp_recipe *r)
{
    return models[r->workload];
}

#define WIDTH_MAX 1.0  /* the approximation below fails for wider logits */
#define FIRST_OFF 0.25 /* error of the expectation: layers in between, few tensors */
#define FIRST_DEVIATIONS 6.0

/* Logits of an untrained model are normal with some width: the loss has the mean guess + width^2 / 2, and the same
 * width. */
struct rp_loss_expected rp_model_expected_loss(const struct rp_recipe *r, int64_t samples)
{
    struct rp_net *m = rp_net_new(r, 1);
    struct rp_loss_expected e = {.off = -1};
    double width;
    m->model->untrained(m, &e.guess, &width);
    rp_net_free(m);
    e.first = e.guess + width * width / 2;
    if (width <= WIDTH_MAX)
        e.off = FIRST_OFF + width * width / 4 + FIRST_DEVIATIONS * width * sqrt(2 / (double)samples);
    return e;
}

int rp_model_loss_parts(const struct rp_model *m)
{
    int n = 0;
    while (n < RP_LOSS_PARTS_MAX && m->loss_part[n])
        n++;
    return n;
}

int rp_model_counters(const struct rp_model *m)
{
    int n = 0;
    while (n < RP_COUNTERS_MAX && m->counter[n].name)
        n++;
    return n;
}
