/* One training: open, step, evidence, close. */
#include "base/buf.h"
#include "ops/functions.h"
#include "ops/philox.h"
#include "train/checkpoint.h"
#include "train/inner.h"
#include "train/pipeline.h"
#include "train/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- open and close ---- */

/* One block of the class; NULL and *err if there is no memory. */
static void *new_block(struct rp_dev *dev, enum rp_class c, const struct rp_plan *plan, struct rp_err *err)
{
    void *p = dev->backend->block(dev, c, plan->bytes[c] ? plan->bytes[c] : 64, err);
    if (!p)
        (void)rp_wrap(err, "%s, %.1f MB", rp_class_name(c), (double)plan->bytes[c] * 1e-6);
    return p;
}

/* Sets after the first: instances of the same part, with its weights and scratch. */
static void bind_sets(struct rp_train *t, const struct rp_train_opts *o, void *scratch)
{
    for (int i = 0; i < t->sets; i++) {
        struct rp_net *m = t->set[i];
        struct rp_trained unused = {.optimizer = t->state.optimizer};
        float *room;
        if (i) {
            m = t->set[i] = rp_net_new_on(o->recipe, o->plan->batch, t->comm, o->dev->stored_bytes);
            m->dev = o->dev;
            m->alive = o->alive;
            m->alive_arg = o->alive_arg;
            rp_train_declare(m, &unused, t->exchange.room, &room);
        }
        rp_net_bind_weights(m, t->state.w, t->state.shares.master,
                            t->rounded ? t->rounded : (rp_stored *)(void *)t->state.w);
        rp_net_bind_buffers(m, t->state.buffer);
        rp_tensors_bind_set(&m->tensors[RP_ACTIVATION], t->activations, i, t->sets);
        rp_tensors_bind(&m->tensors[RP_SCRATCH], scratch, 0);
    }
}

static int allocate_blocks(struct rp_train *t, const struct rp_train_opts *o, struct rp_err *err)
{
    const struct rp_tensors *list = t->net->tensors;
    float *slots;
    void *scratch;
    if (!(t->state.w = new_block(o->dev, RP_CLASS_PARAMETERS, o->plan, err)) ||
        !(t->gradient[0] = new_block(o->dev, RP_CLASS_GRADIENTS, o->plan, err)) ||
        !(slots = new_block(o->dev, RP_CLASS_OPTIMIZER, o->plan, err)) ||
        !(t->activations = new_block(o->dev, RP_CLASS_ACTIVATIONS, o->plan, err)) ||
        !(scratch = new_block(o->dev, RP_CLASS_SCRATCH, o->plan, err)) ||
        !(t->in.slot = new_block(o->dev, RP_CLASS_INPUT, o->plan, err)))
        return -1;
    for (int i = 0; i < rp_optimizer_slots(t->state.optimizer); i++)
        t->state.slot[i] = slots + (size_t)i * rp_shares_slots(&t->state.shares);
    for (int i = 1; i < t->gradients; i++)
        t->gradient[i] = t->gradient[0] + (size_t)i * rp_net_gradient_floats(t->net);
    t->state.g = t->gradient[0];
    t->state.buffer = t->state.w + t->state.shares.masters;
    if (rp_is_mixed(o->dev->numerics))
        t->rounded = (rp_stored *)(void *)((char *)t->state.buffer + list[RP_BUFFER].bytes);
    bind_sets(t, o, scratch);
    t->state.parallel = t->net->parallel;
    t->state.gathered = t->net->gathered;
    return 0;
}

static float deviation(const struct rp_net *m, const struct rp_tensor *t)
{
    float std = t->fan ? sqrtf(2.0f / (float)t->fan) : m->init_range;
    return t->scale > 0 ? (float)((double)std * t->scale) : std;
}

static int is_normal(const struct rp_tensor *t)
{
    return t->init == RP_INIT_TRUNCATED_NORMAL || t->init == RP_INIT_NORMAL;
}

float rp_train_deviation(const struct rp_net *m, const struct rp_tensor *t)
{
    const float std = is_normal(t)                 ? deviation(m, t)
                      : t->init == RP_INIT_UNIFORM ? (float)sqrt(1.0 / (3.0 * (double)t->fan))
                                                   : 0;
    return std > 0 ? std : 0x1p-5f;
}

void rp_train_initial(float *w, const struct rp_net *m, const struct rp_tensor *t, int number, size_t first, size_t n)
{
    const float std = deviation(m, t), bound = t->fan ? sqrtf(1.0f / (float)t->fan) : 0;
    uint64_t drawn = UINT64_MAX;
    uint32_t x[4] = {0};
    if (!is_normal(t) && t->init != RP_INIT_UNIFORM) {
        for (size_t i = 0; i < n; i++)
            w[i] = t->init == RP_INIT_ONE ? 1.0f : 0.0f;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t element = first + i, quad = element / 4;
        if (quad != drawn) {
            const uint32_t counter[4] = {(uint32_t)quad, (uint32_t)(quad >> 32), RP_PHILOX_INIT, (uint32_t)number};
            memcpy(x, counter, sizeof x);
            rp_philox(x, m->seed_init);
            drawn = quad;
        }
        const uint32_t word = x[element % 4];
        if (t->init == RP_INIT_UNIFORM)
            w[i] = bound * ((float)(2 * (int32_t)(word >> 8) + 1 - (1 << 24)) * 0x1p-24f);
        else
            w[i] = std * (t->init == RP_INIT_TRUNCATED_NORMAL ? r_truncated_normal(word) : r_normal(word));
    }
}

/* Drawn here and not by the device: the few values of a uniform tensor, once, and those of a tensor that ranks divide,
 * whose elements have the numbers that they have in the whole, which are neighbours in runs alone. */
static int draw_here(struct rp_net *m, const struct rp_state_entry *e, int number, struct rp_err *err)
{
    const size_t run = rp_tensor_whole_run(e->t);
    RP_FREE float *w = rp_alloc(e->t->count * sizeof *w);
    for (size_t i = 0, n; i < e->t->count; i += n) {
        n = run < e->t->count - i ? run : e->t->count - i;
        rp_train_initial(w + i, m, e->t, number, rp_tensor_whole_element(e->t, rp_net_rank(m), i), n);
    }
    return m->dev->backend->upload(m->dev, e->x, w, e->t->count * sizeof *w, err);
}

/* Weight i of the list draws from random stream i. */
static int initialise(struct rp_train *t, const struct rp_trained *whole, struct rp_err *err)
{
    struct rp_net *m = t->net;
    for (int i = 0; i < t->state.weights->n + t->state.buffers->n; i++) {
        struct rp_state_entry e;
        rp_state_entry_at(&e, whole, i);
        if (!e.t->count)
            continue;
        if (e.t->init == RP_INIT_UNIFORM || (is_normal(e.t) && e.t->ranks > 1)) {
            if (draw_here(m, &e, i, err) < 0)
                return -1;
        } else if (is_normal(e.t))
            m->dev->op->init_normal(m->dev, e.x, e.t->count, deviation(m, e.t), m->seed_init, (uint32_t)i,
                                    e.t->init == RP_INIT_TRUNCATED_NORMAL);
        else
            m->dev->op->fill(m->dev, e.x, e.t->init == RP_INIT_ONE ? 1.0f : 0.0f, e.t->count);
    }
    return m->dev->backend->sync(m->dev, err);
}

/* The copies that operations take, of matrices and embeddings; vectors they take as they are. own: of the own share
 * alone. In a pass of its own, which reads 4 bytes a parameter more than the update would: by estimate 0.1 to 0.3 % of
 * a step on an H100, less than a second form of every update is worth. */
static void round_weights(struct rp_train *t, const struct rp_trained *from, int own)
{
    struct rp_dev *dev = t->net->dev;
    const struct rp_tensors *l = t->state.weights;
    for (int i = 0; t->rounded && i < l->n; i++) {
        const struct rp_tensor *w = &l->t[i];
        size_t first = 0, n = own ? rp_share_of_tensor(&t->state.shares, t->state.shares.own, w, &first) : w->count;
        if (rp_tensor_dims(w) > 1 && n)
            dev->op->round_stored(dev, rp_stored_at(dev, t->rounded, (long)(w->offset / w->each + first)),
                                  rp_trained_values(from, w, -1) + first, NULL, n);
    }
}

/* The state with whole masters, as a file or the initialisation has them: in the place of a gradient until
 * keep_masters(), where this rank keeps a part of them. */
static struct rp_trained whole_masters(const struct rp_train *t)
{
    struct rp_trained whole = t->state;
    if (!whole.shares.master)
        return whole;
    whole.w = t->gradient[0];
    whole.shares.master = NULL;
    return whole;
}

static void copy_floats(struct rp_dev *dev, float *to, const float *from, size_t n)
{
    dev->op->copy_columns(dev, to, (long)n, from, (long)n, 1, (int)n, sizeof *to);
}

/* The elements of weight i whose masters this rank has. */
static size_t count_kept(const struct rp_trained *x, int i, size_t *first)
{
    const struct rp_tensor *t = &x->weights->t[i];
    *first = 0;
    if (!x->shares.master || rp_tensor_dims(t) < 2)
        return t->count;
    return rp_tensor_is_owned(x->weights, t) ? rp_share_of_tensor(&x->shares, x->shares.own, t, first) : 0;
}

static void keep_masters(struct rp_train *t, const struct rp_trained *whole)
{
    struct rp_dev *dev = t->net->dev;
    if (whole->w == t->state.w)
        return;
    for (int i = 0; i < t->state.weights->n; i++) {
        const struct rp_tensor *w = &t->state.weights->t[i];
        size_t first, n = count_kept(&t->state, i, &first);
        if (n)
            copy_floats(dev, rp_trained_values(&t->state, w, -1) + first, rp_trained_values(whole, w, -1) + first, n);
    }
    dev->op->fill(dev, whole->w, 0.0f, t->state.weights->bytes / sizeof *whole->w); /* a gradient again, with padding */
}

/* Masters of the own share have changed: to all ranks what their operations take. Mixed precision: other ranks keep
 * older masters of matrices. */
static int spread_weights(struct rp_train *t, struct rp_err *err)
{
    const int is_divided = t->comm->size[RP_GROUP_DATA] > 1 && !t->replicated;
    round_weights(t, &t->state, 1);
    return (is_divided && rp_exchange_block(&t->exchange, t->state.w, t->rounded, err) < 0) ||
                   rp_pipeline_return_tied(t, err) < 0
               ? -1
               : 0;
}

/* What the files lack keeps its initialisation. */
static int load_checkpoint(struct rp_train *t, struct rp_trained *whole, const char *path, const struct rp_recipe *r,
                           struct rp_err *err)
{
    struct rp_checkpoint c;
    if (rp_checkpoint_open(&c, path, r, whole, err) < 0)
        return -1;
    int failed = (c.lacks && initialise(t, whole, err) < 0) || rp_checkpoint_load(&c, whole, err) < 0;
    t->state.batches_before = whole->batches_before;
    t->done = t->base = c.step;
    t->state.scale = c.scale;
    rp_checkpoint_close(&c);
    return failed ? -1 : 0;
}

static int train_start(struct rp_train *t, const struct rp_train_opts *o, struct rp_err *err)
{
    const char *init = o->recipe->run_init;
    if (allocate_blocks(t, o, err) < 0 || rp_train_input_open(t, o, err) < 0)
        return -1;
    if (rp_overlap_here(t->bucket, t->comm) && !(t->overlap = rp_overlap_new(&t->exchange, t->gradient, t->room, err)))
        return -1;
    rp_optim_init(&t->optim, o->recipe, t->state.weights);
    t->scale_rule = rp_loss_scale_rule_of(o->recipe);
    t->state.scale = rp_loss_scale_begin(&t->scale_rule);
    struct rp_trained whole = whole_masters(t);
    if (!init || !*init) {
        if (initialise(t, &whole, err) < 0)
            return -1;
    } else if (load_checkpoint(t, &whole, init, o->recipe, err) < 0)
        return rp_wrap(err, "--init");
    round_weights(t, &whole, 0);
    keep_masters(t, &whole);
    return o->dev->backend->sync(o->dev, err);
}

/* The micro-batches of a step, and this rank's. Single ones take the place of a step that has only one. */
static void divide_micros(struct rp_train *t, const struct rp_train_opts *o)
{
    const int rank = t->comm->rank[RP_GROUP_DATA], ranks = t->comm->size[RP_GROUP_DATA];
    RP_BUG_IF(o->micros && (t->comm->size[RP_GROUP_WORLD] > 1 || rp_recipe_micro_batches(o->recipe) > 1));
    t->micros = o->micros ? o->micros : rp_recipe_micro_batches(o->recipe);
    t->first = rp_first_micro(t->micros, rank, ranks);
    t->own = o->micros ? 1 : rp_first_micro(t->micros, rank + 1, ranks) - t->first;
    t->micro_loss = rp_alloc((size_t)t->own * sizeof *t->micro_loss);
}

struct rp_train *rp_train_open(const struct rp_train_opts *o, struct rp_err *err)
{
    struct rp_comm *comm = o->comm ? o->comm : rp_comm_self();
    if (rp_train_check_ranks(o->recipe, comm, err) < 0)
        return NULL;
    struct rp_train *t = rp_alloc(sizeof *t);
    t->comm = comm;
    divide_micros(t, o);
    t->sets = rp_pipeline_sets(comm, t->own);
    t->set = rp_alloc((size_t)t->sets * sizeof *t->set);
    t->net = t->set[0] = rp_net_new_on(o->recipe, o->plan->batch, comm, o->dev->stored_bytes);
    t->perturbation = (uint64_t)o->recipe->seed_perturbation;
    t->net->dev = o->dev;
    t->net->alive = o->alive;
    t->net->alive_arg = o->alive_arg;
    t->state = (struct rp_trained){.dev = o->dev, .optimizer = rp_optimizer_of(o->recipe),
                                   .weights = &t->net->tensors[RP_WEIGHT], .buffers = &t->net->tensors[RP_BUFFER],
                                   .parts = &t->parts};
    t->bucket = rp_overlap_bucket(o->recipe, comm);
    t->replicated =
        comm->size[RP_GROUP_DATA] > 1 && o->recipe->parallel_optimizer_state == RP_OPTIMIZER_STATE_replicated;
    rp_parts_init(&t->parts, o->recipe, comm, t->bucket);
    rp_shares_init(&t->shares, t->state.weights, t->net->parallel, comm, t->bucket);
    rp_train_share_state(&t->state.shares, o->recipe, t->net, t->bucket);
    if (t->state.shares.master)
        rp_shares_divide_masters(&t->shares);
    rp_exchange_open(&t->exchange, t->net, &t->shares, rp_recipe_micro_batches(o->recipe));
    t->gradients = rp_train_blocks(&t->exchange, t->comm);
    rp_train_declare(t->net, &t->state, t->exchange.room, &t->room);
    if (train_start(t, o, err) == 0)
        return t;
    rp_train_close(t);
    return NULL;
}

void rp_train_close(struct rp_train *t)
{
    if (!t)
        return;
    rp_overlap_free(t->overlap);
    rp_train_input_close(t);
    rp_optim_fini(&t->optim);
    rp_exchange_close(&t->exchange);
    rp_shares_fini(&t->shares);
    rp_shares_fini(&t->state.shares);
    rp_parts_fini(&t->parts);
    for (int i = 0; i < t->sets; i++)
        rp_net_free(t->set[i]);
    free(t->set);
    free(t->micro_loss);
    free(t->state.batches_before);
    free(t);
}

/* ---- a step ---- */

/* Running statistics move by the mean over the micro-batches, once. */
static void update_buffers(struct rp_train *t, float inv)
{
    const struct rp_net *m = t->net;
    const struct rp_tensors *l = &m->tensors[RP_BUFFER];
    t->net->g = t->gradient[0];
    for (int i = 0; i < l->n; i++) {
        float *r = rp_tensor_in(t->state.buffer, &l->t[i]), factor = (float)((double)inv * l->t[i].statistic);
        if (l->t[i].statistic > 0)
            m->dev->op->running_update(m->dev, r, rp_net_statistic(m, r), factor, m->running_momentum, l->t[i].count);
    }
}

/* The norm, which every rank computes, shows an overflow: all ranks skip the step, or none does. */
static int update_weights(struct rp_train *t, int64_t at, struct rp_step_result *out, float inv, struct rp_err *err)
{
    const float mean = 1.0f / t->state.scale.scale * inv; /* of the gradient: exact factors of two, and 1/G */
    const int overflow = !isfinite(out->grad_norm);
    const int64_t scheduled = rp_loss_scale_scheduled(&t->state.scale, &t->scale_rule, at + 1);
    if (overflow && !t->scale_rule.is_dynamic)
        return rp_train_report_gradient(t, at, err);
    if (!overflow && (rp_optim_step(&t->optim, &t->state, scheduled, at + 1 - t->state.scale.skipped, out->grad_norm,
                                    mean, err) < 0 ||
                      spread_weights(t, err) < 0))
        return -1;
    out->overflow = overflow;
    if (overflow) /* Inf or NaN depends on where the backward pass ended */
        out->grad_norm = INFINITY;
    rp_loss_scale_next(&t->state.scale, &t->scale_rule, overflow);
    if (rp_loss_scale_fails(&t->state.scale))
        return rp_fail(err, RP_MISMATCH,
                       "step %lld: the gradient overflowed in each of the last %d steps, with the least loss scale %g; "
                       "a lower learning rate, a smaller train.loss_scale_minimum or train.precision bf16 may help",
                       (long long)at, RP_OVERFLOWS_MOST, (double)t->scale_rule.minimum);
    return 0;
}

int rp_train_step(struct rp_train *t, int64_t step, struct rp_step_result *out, struct rp_err *err)
{
    int64_t at = t->base + step;
    float inv = 1.0f / (float)t->micros;
    struct rp_losses sum;
    *out = (struct rp_step_result){.samples = t->own * t->net->batch, .loss_scale = t->state.scale.scale,
                                   .micro_loss = t->micro_loss, .micros = t->own};
    out->learning_rate = rp_learning_rate(&t->optim, rp_loss_scale_scheduled(&t->state.scale, &t->scale_rule, at + 1));
    if ((t->net->squares && rp_trained_squares(&t->state, t->net->squares, err) < 0) ||
        rp_train_gradient(t, at, &sum, err) < 0 ||
        rp_global_norm(&out->grad_norm, &t->state, 1.0f / t->state.scale.scale, inv, err) < 0 ||
        update_weights(t, at, out, inv, err) < 0)
        return -1;
    update_buffers(t, inv);
    out->loss = sum.loss * inv;
    for (int k = 0; k < RP_LOSS_PARTS_MAX; k++)
        out->part[k] = sum.part[k] * inv;
    for (int64_t i = 0; i < t->own; i++)
        for (int k = 0; k < RP_COUNTERS_MAX; k++)
            out->counter[k] += rp_train_view(t, i)->counter[k];
    t->done = at + 1;
    return t->net->dev->backend->sync(t->net->dev, err);
}

int rp_train_micro_loss(struct rp_train *t, int64_t micro, float *loss, struct rp_err *err)
{
    struct rp_losses l;
    RP_BUG_IF(t->own != 1 || micro < 0 || micro >= t->micros);
    t->first = micro;
    if (rp_train_load(t, 0, err) < 0 || rp_train_forward(t, 0, t->base, t->gradient[0], &l, err) < 0)
        return -1;
    if (!isfinite(l.loss))
        return rp_train_report_loss(t, 0, err);
    *loss = l.loss;
    return 0;
}

/* ---- evidence ---- */

struct rp_exchange_sizes rp_train_exchange(const struct rp_train *t)
{
    return (struct rp_exchange_sizes){t->exchange.levels, t->exchange.sent_bytes, t->exchange.between_bytes,
                                      t->overlap != NULL};
}

int rp_train_root(struct rp_train *t, char hex[65], json_t **tensors, struct rp_err *err)
{
    return rp_state_root(hex, tensors, &t->state, err);
}

int rp_train_keyed_root(struct rp_train *t, char hex[65], const char *key, struct rp_err *err)
{
    return rp_state_keyed_root(hex, &t->state, key, err);
}

/* Elements have the numbers that they have in the tensor: of a divided one the own elements are moved at their places
 * in a block of gradients, where what lies around them means nothing. */
static void perturb_weight(struct rp_train *t, int i, const struct rp_perturbation *p)
{
    struct rp_dev *dev = t->net->dev;
    const struct rp_tensor *w = &t->state.weights->t[i];
    size_t first, n = count_kept(&t->state, i, &first);
    float *own = rp_trained_values(&t->state, w, -1) + first, *there = rp_tensor_in(t->gradient[0], w);
    if (n == w->count && n) {
        dev->op->perturb(dev, own, n, p);
    } else if (n) {
        copy_floats(dev, there + first, own, n);
        dev->op->perturb(dev, there, w->count, p);
        copy_floats(dev, own, there + first, n);
    }
}

int rp_train_perturb(struct rp_train *t, struct rp_err *err)
{
    const struct rp_net *m = t->net;
    struct rp_perturbation p = {.seed = t->perturbation, .root = (uint32_t)t->done};
    if (!p.seed)
        return 0;
    for (int i = 0; i < t->state.weights->n; i++) {
        const struct rp_tensor *w = &t->state.weights->t[i];
        p.tensor = (uint32_t)i;
        p.scale = rp_train_deviation(m, w) * 0x1p-10f;
        p.parts = (uint32_t)w->ranks;
        p.part = w->ranks > 1 ? (uint32_t)rp_net_rank(m) : 0;
        p.run = rp_tensor_whole_run(w);
        perturb_weight(t, i, &p);
    }
    if (t->rounded && spread_weights(t, err) < 0)
        return -1;
    return m->dev->backend->sync(m->dev, err);
}

int rp_train_root_of(const struct rp_recipe *r, const json_t *tensors, char hex[65], struct rp_err *err)
{
    struct rp_net *m = rp_net_new(r, 1);
    struct rp_trained s = {
        .optimizer = rp_optimizer_of(r), .weights = &m->tensors[RP_WEIGHT], .buffers = &m->tensors[RP_BUFFER]};
    int failed = rp_state_root_of(hex, &s, tensors, err);
    rp_net_free(m);
    return failed;
}

int rp_train_save(struct rp_train *t, const char *path, const struct rp_recipe *r, struct rp_err *err)
{
    return rp_checkpoint_save(path, r, &t->state, t->done, t->net->alive, t->net->alive_arg, err);
}
