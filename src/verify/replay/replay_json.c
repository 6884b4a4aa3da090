/* The result of a replay as JSON. */
#include "base/json.h"
#include "verify/replay/replay.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

void rp_replay_result_fini(struct rp_replay_result *r)
{
    free(r->micro_batch);
    r->micro_batch = NULL;
}

/* Which micro-batches of the first step were compared. */
static json_t *micros_json(const struct rp_replay_result *r)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < r->micros; i++)
        json_array_append_new(list, json_integer((json_int_t)r->micro_batch[i]));
    return json_pack("{s:I, s:o}", "of", (json_int_t)r->of_micros, "numbers", list);
}

json_t *rp_replay_json(const struct rp_replay_result *r)
{
    json_t *out = json_pack("{s:I, s:I, s:I, s:b, s:b}", "from", (json_int_t)r->first, "steps", (json_int_t)r->steps,
                            "state_roots", (json_int_t)r->roots, "start_root", r->start_root, "equal", !r->diverged);
    const struct rp_state_difference *d = &r->state;
    if (r->step_s[1] > 0)
        json_object_set_new(out, "step_s",
                            json_pack("{s:f, s:f, s:b}", "recorded", r->step_s[0], "here", r->step_s[1], "same_device",
                                      r->same_device));
    if (r->diverged)
        json_object_set_new(out, "divergence",
                            json_pack("{s:I, s:s, s:s, s:s}", "step", (json_int_t)r->step, "quantity", r->quantity,
                                      "recorded", r->recorded, "here", r->here));
    if (r->of_micros)
        json_object_set_new(out, "micro_batches", micros_json(r));
    if (r->micro >= 0)
        json_object_set_new(json_object_get(out, "divergence"), "micro_batch", json_integer((json_int_t)r->micro));
    if (r->diverged && r->agreed >= 0)
        json_object_set_new(out, "equal_before_step", json_integer((json_int_t)r->agreed));
    if (r->reached)
        json_object_set_new(out, "state_before",
                            json_pack("{s:f, s:s}", "reach", fmin(r->reach.used, DBL_MAX), "tensor", r->reach.tensor));
    if (r->reached && r->products.all > 0)
        json_object_set_new(json_object_get(out, "state_before"), "products_needed",
                            json_real(rp_products_needed(&r->products)));
    if (*r->tensor)
        json_object_set_new(out, "tensors",
                            json_pack("{s:s, s:I}", "first", r->tensor, "differ", (json_int_t)r->tensors));
    if (r->state_compared && d->tensors)
        json_object_set_new(out, "state",
                            json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:s, s:s}", "tensors", (json_int_t)d->tensors,
                                      "tensor", d->name, "elements", (json_int_t)d->size, "first", (json_int_t)d->first,
                                      "last", (json_int_t)d->last, "differ", (json_int_t)d->count, "recorded", d->was,
                                      "here", d->here));
    return out;
}
