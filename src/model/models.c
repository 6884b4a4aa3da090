/* The built-in models. */
#include "model/model.h"

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
