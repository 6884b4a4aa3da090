/* The loss scale of fp16 training: a power of two that keeps small gradients above zero.
 *
 * What:    one rule for the scalers of Megatron-LM, PyTorch, TensorFlow and DeepLearningExamples, as a pure function.
 * Flow:    rule of a recipe, state, whether the step overflowed -> the next state. The trainer, verify and the report
 *          call it: the scale of every step follows from the recipe and from which steps overflowed.
 * Owner:   none.
 * Extend:  what another scaler does differently is a key of the recipe and a field of the rule.
 *
 * A step overflows if the norm of its gradient, divided by the scale, is not finite. It changes no weight:
 *   overflow:  good = 0; bad = bad + 1; if bad >= hysteresis: scale = max(scale / 2, minimum)
 *   else:      good = good + 1; if good == window: good = 0, bad = 0, scale = 2 * scale (if_finite: unless that is Inf)
 * Only growth sets bad back, as in Megatron-LM; with hysteresis 1 it has no effect.
 */
#pragma once

#include "recipe/recipe.h"

#include <stdint.h>

#define RP_OVERFLOWS_MOST 20 /* steps in a row that overflow at the least scale end the run */

struct rp_loss_scale_rule {
    int is_dynamic;         /* 0: the scale stays, and an overflow ends the run */
    float initial, minimum; /* powers of two */
    int64_t window, hysteresis;
    int if_finite;      /* growth stops before infinity */
    int holds_schedule; /* a skipped step does not advance the learning rate */
};

struct rp_loss_scale {
    float scale;       /* of the next step */
    int64_t good, bad; /* steps since the last overflow or growth; overflows since the last growth */
    int64_t at_minimum; /* overflows in a row at the least scale */
    int64_t skipped; /* steps that changed no weight, of all so far */
};

/* The loss of its steps has a scale, dynamic or fixed: their records say so (worker/step.def). */
int rp_loss_is_scaled(const struct rp_recipe *r);
struct rp_loss_scale_rule rp_loss_scale_rule_of(const struct rp_recipe *r);
/* Before the first step. */
struct rp_loss_scale rp_loss_scale_begin(const struct rp_loss_scale_rule *rule);
/* After a step. */
void rp_loss_scale_next(struct rp_loss_scale *s, const struct rp_loss_scale_rule *rule, int overflow);
/* What the schedule of learning rates counts step t as; both from 1. */
static inline int64_t rp_loss_scale_scheduled(const struct rp_loss_scale *s, const struct rp_loss_scale_rule *rule,
                                              int64_t t)
{
    return rule->holds_schedule ? t - s->skipped : t;
}
/* Whether the run ends: nothing but overflows at the least scale. */
static inline int rp_loss_scale_fails(const struct rp_loss_scale *s)
{
    return s->at_minimum >= RP_OVERFLOWS_MOST;
}
