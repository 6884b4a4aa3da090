/* The rule of the loss scale: loss_scale.h. */
#include "optim/loss_scale.h"

#include <math.h>

int rp_loss_is_scaled(const struct rp_recipe *r)
{
    return r->train_precision == RP_PRECISION_fp16 && r->train_loss_scale != RP_LOSS_SCALE_none;
}

struct rp_loss_scale_rule rp_loss_scale_rule_of(const struct rp_recipe *r)
{
    if (!rp_loss_is_scaled(r))
        return (struct rp_loss_scale_rule){.initial = 1, .minimum = 1, .window = 1, .hysteresis = 1};
    return (struct rp_loss_scale_rule){
        .is_dynamic = r->train_loss_scale == RP_LOSS_SCALE_dynamic,
        .initial = (float)r->train_loss_scale_initial,
        .minimum = (float)r->train_loss_scale_minimum,
        .window = r->train_loss_scale_window,
        .hysteresis = r->train_loss_scale_hysteresis,
        .if_finite = r->train_loss_scale_growth_form == RP_GROWTH_FORM_if_finite,
        .holds_schedule = r->optimizer_on_overflow == RP_ON_OVERFLOW_hold,
    };
}

struct rp_loss_scale rp_loss_scale_begin(const struct rp_loss_scale_rule *rule)
{
    return (struct rp_loss_scale){.scale = rule->initial};
}

void rp_loss_scale_next(struct rp_loss_scale *s, const struct rp_loss_scale_rule *rule, int overflow)
{
    s->skipped += overflow;
    if (!rule->is_dynamic)
        return;
    if (overflow) {
        s->good = 0;
        s->bad++;
        s->at_minimum = s->scale <= rule->minimum ? s->at_minimum + 1 : 0;
        if (s->bad >= rule->hysteresis)
            s->scale = s->scale / 2 > rule->minimum ? s->scale / 2 : rule->minimum;
        return;
    }
    s->at_minimum = 0;
    if (++s->good < rule->window)
        return;
    s->good = s->bad = 0;
    if (!rule->if_finite || isfinite(2 * s->scale))
        s->scale = 2 * s->scale;
}
