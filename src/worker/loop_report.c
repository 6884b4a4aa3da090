/* What a worker reports: the record of each step with its state root, and the body of DONE. */
#include "worker/loop.h"

#include "base/clock.h"
#include "base/json.h"
#include "optim/loss_scale.h"
#include "train/products.h"
#include "train/profile.h"

#include <math.h>

static void add_value(json_t *record, enum rp_step_key key, json_t *value)
{
    json_object_set_new(record, rp_step_key_name(key), value);
}

void rp_loop_add_integer(json_t *record, enum rp_step_key key, int64_t value)
{
    add_value(record, key, json_integer((json_int_t)value));
}

json_t *rp_loop_float_json(float x)
{
    char text[32];
    rp_float_hex(text, x);
    return json_string(text);
}

json_t *rp_loop_begin_record(const struct rp_loop *l, const char *phase)
{
    json_t *record = json_object();
    add_value(record, RP_STEP_phase, json_string(phase));
    rp_loop_add_integer(record, RP_STEP_rank, l->comm->rank[RP_GROUP_WORLD]);
    rp_loop_add_integer(record, RP_STEP_step, l->step);
    return record;
}

/* Loss parts and counters by the names that the model declares; a model without them has no such key. */
static void add_named(json_t *record, const struct rp_model *m, const struct rp_step_result *s)
{
    json_t *parts = json_object(), *counters = json_object();
    for (int i = 0; i < rp_model_loss_parts(m); i++)
        json_object_set_new(parts, m->loss_part[i], rp_loop_float_json(s->part[i]));
    for (int i = 0; i < rp_model_counters(m); i++)
        json_object_set_new(counters, m->counter[i].name, json_integer((json_int_t)s->counter[i]));
    if (json_object_size(parts))
        add_value(record, RP_STEP_loss_parts, json_incref(parts));
    if (json_object_size(counters))
        add_value(record, RP_STEP_counters, json_incref(counters));
    json_decref(parts);
    json_decref(counters);
}

static json_t *micro_losses(const struct rp_step_result *s)
{
    RP_BUF text = {0};
    char one[32];
    for (int64_t i = 0; i < s->micros; i++) {
        rp_float_hex(one, s->micro_loss[i]);
        rp_buf_printf(&text, "%s%s", i ? " " : "", one);
    }
    return json_stringn(text.data, text.size);
}

json_t *rp_loop_step_record(const struct rp_loop *l, const struct rp_step_result *s, uint64_t start, uint64_t end)
{
    const struct rp_recipe *r = l->job.recipe;
    int64_t timed = l->step - r->measure_warmup_steps;
    json_t *record = rp_loop_begin_record(l, timed < 0 ? "warm-up" : "timed");
    rp_loop_add_integer(record, RP_STEP_repeat, timed < 0 ? 0 : timed / r->measure_timed_steps);
    rp_loop_add_integer(record, RP_STEP_start_ns, (int64_t)start);
    rp_loop_add_integer(record, RP_STEP_end_ns, (int64_t)end);
    add_value(record, RP_STEP_loss, rp_loop_float_json(s->loss));
    add_value(record, RP_STEP_grad_norm, rp_loop_float_json(s->overflow ? INFINITY : s->grad_norm));
    rp_loop_add_integer(record, RP_STEP_input_ns, (int64_t)rp_train_input_ns(l->train));
    add_value(record, RP_STEP_learning_rate, json_real(s->learning_rate));
    rp_loop_add_integer(record, RP_STEP_samples, s->samples);
    if (rp_loss_is_scaled(r)) {
        add_value(record, RP_STEP_loss_scale, rp_loop_float_json(s->loss_scale));
        rp_loop_add_integer(record, RP_STEP_overflow, s->overflow);
    }
    if (rp_job_has_micro_losses(r))
        add_value(record, RP_STEP_micro_losses, micro_losses(s));
    add_named(record, rp_model_of(r), s);
    return record;
}

int rp_loop_has_root(const struct rp_loop *l, int64_t steps)
{
    const int64_t every = l->job.recipe->evidence_state_root_every, done = l->job.first + steps;
    return every > 0 ? done % every == 0 : done == 0;
}

int rp_loop_add_root(struct rp_loop *l, json_t *record, const char *which, int perturbs, struct rp_err *err)
{
    char hex[65];
    json_t *tensors = NULL;
    uint64_t t0 = rp_now_ns();
    rp_loop_send(l, RP_FRAME_ALIVE, json_pack("{s:s}", "in", "state root"));
    if (rp_train_root(l->train, hex, which ? &tensors : NULL, err) < 0)
        return -1;
    if (l->job.root_key) {
        char keyed[65];
        if (rp_train_keyed_root(l->train, keyed, l->job.root_key, err) < 0)
            return -1;
        add_value(record, RP_STEP_keyed_root, json_string(keyed));
    }
    if (perturbs && rp_train_perturb(l->train, err) < 0)
        return -1;
    uint64_t ns = rp_now_ns() - t0;
    add_value(record, RP_STEP_state_root, json_string(hex));
    rp_loop_add_integer(record, RP_STEP_root_ns, (int64_t)ns);
    l->root_ns += ns;
    if (which)
        json_object_set_new(l->roots, which, tensors);
    rp_loop_leave_phase(l, "state_roots", t0);
    return 0;
}

void rp_loop_add_exchange(json_t *record, const struct rp_loop *l, const struct rp_comm_count *before)
{
    const struct rp_comm_count *now = &l->comm->count;
    if (l->comm->size[RP_GROUP_WORLD] == 1)
        return;
    rp_loop_add_integer(record, RP_STEP_exchange_ns, (int64_t)(now->exchange_ns - before->exchange_ns));
    if (!l->comm->waits_unknown)
        rp_loop_add_integer(record, RP_STEP_wait_ns, (int64_t)(now->wait_ns - before->wait_ns));
    if (l->exchange.overlaps)
        rp_loop_add_integer(record, RP_STEP_overlap_ns, (int64_t)(now->overlap_ns - before->overlap_ns));
}

/* ---- DONE ---- */

/* How this rank exchanged with others; NULL: there were none. */
static json_t *exchange_json(const struct rp_loop *l)
{
    struct rp_connections c;
    if (l->comm->size[RP_GROUP_WORLD] == 1)
        return NULL;
    l->comm->op->connections(l->comm, &c);
    json_t *connections =
        json_pack("{s:i, s:i, s:i, s:i, s:s*}", "shared_memory", c.shared_memory, "tls", c.tls, "tls_on_host",
                  c.tls_on_host, "refused", c.refused, "nccl", *c.nccl ? c.nccl : NULL);
    json_t *sent = json_object();
    for (int g = 0; g < RP_GROUPS; g++)
        json_object_set_new(sent, rp_group_name((enum rp_group)g), json_integer((json_int_t)l->comm->count.sent_in[g]));
    return json_pack("{s:o, s:i, s:I, s:I, s:I, s:o}", "connections", connections, "levels", l->exchange.levels,
                     "bytes_per_step", (json_int_t)l->exchange.sent_bytes, "bytes_per_step_between_hosts",
                     (json_int_t)l->exchange.between_bytes, "sent_bytes", (json_int_t)l->comm->count.sent_bytes,
                     "sent_bytes_by_group", sent);
}

/* NULL: they were not counted. */
static json_t *products_json(const struct rp_loop *l)
{
    if (!l->job.counts)
        return NULL;
    const struct rp_products p = rp_products_end(l->dev);
    return json_pack("{s:f, s:f}", "all", p.all, "spared", p.spared);
}

/* NULL: there is none. */
static json_t *profile_json(const struct rp_loop *l)
{
    struct rp_profile p;
    if (!l->job.profiles)
        return NULL;
    rp_profile_take(&p);
    json_t *j = rp_object_json(&p, &rp_type_profile);
    rp_object_fini(&p, &rp_type_profile);
    return j;
}

void rp_loop_send_done(struct rp_loop *l)
{
    const json_t *ceilings = json_object_size(l->ceilings) ? l->ceilings : NULL;
    rp_loop_send(l, RP_FRAME_DONE,
                 json_pack("{s:I, s:I, s:O, s:O*, s:b, s:O, s:O*, s:O*, s:o*, s:o*, s:o*}", "peak_rss_bytes",
                           (json_int_t)l->peak_rss, "skipped_samples", (json_int_t)l->skipped, "phases_s", l->phases,
                           "trained_s", l->trained, "stopped", l->stop, "tensor_roots", l->roots, "device_bytes",
                           l->device_bytes, "ceilings", ceilings, "exchange", exchange_json(l), "products",
                           products_json(l), "profile", profile_json(l)));
}
