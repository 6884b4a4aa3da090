/* Every model that is built in. */
#include "model/model.h"

#include <string.h>

#define X(name) extern const struct rp_model rp_model_##name;
RP_MODELS_BUILT(X)
#undef X

static const struct rp_model *const models[RP_MODEL_COUNT] = {
#define X(name) [RP_MODEL_##name] = &rp_model_##name,
    RP_MODELS_BUILT(X)
#undef X
};

const struct rp_model *rp_model_find(const char *name)
{
    for (int i = 0; i < RP_MODEL_COUNT; i++)
        if (models[i] && !strcmp(models[i]->name, name))
            return models[i];
    return NULL;
}

const struct rp_model *rp_model_of(const struct rp_recipe *r)
{
    return models[r->workload];
}

int rp_model_check(const struct rp_recipe *r, struct rp_err *err)
{
    RP_BUF have = {0};
    if (models[r->workload])
        return 0;
    for (int i = 0; i < RP_MODEL_COUNT; i++)
        if (models[i])
            rp_buf_printf(&have, "%s%s", have.size ? ", " : "", models[i]->name);
    rp_fail(err, RP_UNAVAILABLE, "this build cannot train %s; it trains %s", rp_choice_name(RP_MODELS, r->workload), rp_buf_text(&have));
    return rp_recipe_blame(r, "workload", err);
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
