#include "optim/optim.h"

#include "base/buf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rp_optim rp_schedule_of(const struct rp_recipe *r)
{
    return (struct rp_optim){
        .lr = r->optimizer_learning_rate,
        .min_lr = r->schedule_min_learning_rate,
        .warmup = r->schedule_warmup_steps,
        .total = r->schedule_total_steps,
        .decay = (enum rp_decay)r->schedule_decay,
        .epoch = r->schedule_steps_per_epoch,
        .step_epochs = r->schedule_step_epochs,
        .whole_epochs = r->schedule_whole_epochs,
    };
}

void rp_optim_init(struct rp_optim *o, const struct rp_recipe *r, const struct rp_tensors *weights)
{
    *o = rp_schedule_of(r);
    o->optimizer = rp_optimizer_of(r);
    o->bias_correction = r->optimizer_bias_correction;
    o->beta1 = r->optimizer_beta1;
    o->beta2 = r->optimizer_beta2;
    o->momentum = r->optimizer_momentum;
    o->nesterov = r->optimizer_nesterov;
    o->trust = r->optimizer_trust_coefficient;
    o->eps = r->optimizer_epsilon;
    o->weight_decay = r->optimizer_weight_decay;
    o->clip = (float)r->optimizer_clip_norm;
    o->clip_form = (enum rp_clip_form)r->optimizer_clip_form;
    o->excluded = rp_alloc((size_t)weights->n);
    for (int i = 0; i < weights->n; i++) {
        char name[RP_TENSOR_NAME];
        o->excluded[i] = (unsigned char)rp_name_excluded(rp_tensor_name(name, &weights->t[i]), r->optimizer_exclude);
    }
}

void rp_optim_fini(struct rp_optim *o)
{
    free(o->excluded);
    *o = (struct rp_optim){0};
}

/* Taylor series of the sine of an angle of at most pi/4, in double by multiplication and addition: exact to the last bits. */
static double sine(double a)
{
    double z = a * a, s = 0;
    for (int n = 19; n >= 3; n -= 2)
        s = (1.0 + s) * (-z / (double)(n * (n - 1)));
    return a + a * s;
}

static double cosine(double a)
{
    double z = a * a, s = 0;
    for (int n = 20; n >= 2; n -= 2)
        s = (1.0 + s) * (-z / (double)(n * (n - 1)));
    return 1.0 + s;
}

double rp_cos_pi(double x)
{
    const double pi = 0x1.921fb54442d18p1;
    if (x > 0.5)
        return -rp_cos_pi(1.0 - x);
    return x > 0.25 ? sine(pi * (0.5 - x)) : cosine(pi * x);
}

/* The part of the decay that lies behind, for those that begin at the end of warm-up. */
static double decayed(const struct rp_optim *o, int64_t t, int64_t warmup, int64_t total)
{
    double x = t >= total ? 1.0 : (double)(t - warmup) / (double)(total - warmup);
    if (x >= 1.0)
        return o->min_lr;
    return o->min_lr + (o->lr - o->min_lr) * (o->decay == RP_DECAY_cosine ? 0.5 * (1.0 + rp_cos_pi(x)) : (1.0 - x) * (1.0 - x));
}

static double stepped(const struct rp_optim *o, int64_t t)
{
    double lr = o->lr;
    for (int64_t n = (t - 1) / o->epoch / o->step_epochs; n > 0 && lr > 0; n--)
        lr = lr / 10.0;
    return lr;
}

double rp_learning_rate(const struct rp_optim *o, int64_t t)
{
    int64_t warmup = o->warmup, total = o->total, now = t;
    if (o->whole_epochs) {
        warmup /= o->epoch;
        total /= o->epoch;
        now = (t - 1) / o->epoch;
        if (now < warmup)
            return o->lr * ((double)(now + 1) / (double)warmup);
    } else if (t <= warmup)
        return o->lr * ((double)t / (double)warmup);
    double left = now < total ? 1.0 - (double)now / (double)total : 0.0;
    switch (o->decay) {
    case RP_DECAY_constant:
        return o->lr;
    case RP_DECAY_sqrt:
        return o->lr * sqrt(left);
    case RP_DECAY_square:
        return o->lr * (left * left);
    case RP_DECAY_cosine:
    case RP_DECAY_quadratic:
        return decayed(o, now, warmup, total);
    case RP_DECAY_step:
        return stepped(o, t);
    case RP_DECAY_linear:
        break;
    }
    return o->lr * left;
}

const float *rp_trained_shard(const struct rp_trained *x, const struct rp_tensor *t, const float *data, int i, size_t *n)
{
    const int shards = rp_tensor_shards(t, x->parallel), pieces = t->pieces ? t->pieces : 1, axis = t->shard - 1;
    *n = t->count / (size_t)shards;
    if (shards == 1)
        return data;
    if (axis == 0 && pieces == 1)
        return data + (size_t)i * *n;
    const long rows = axis ? t->dim[0] : 1, cols = (long)t->count / rows, each = cols / pieces / shards;
    RP_BUG_IF(axis > 1 || t->dim[axis + 1]); /* the last axis of a vector or matrix */
    for (int k = 0; k < pieces; k++)
        x->dev->op->copy_columns(x->dev, x->gathered + k * each, pieces * each, data + (k * shards + i) * each, cols, (int)rows, (int)each);
    return x->gathered;
}

/* Square sums of a tensor's chunks; returns their number. */
static size_t chunk_sums(const struct rp_trained *x, const struct rp_tensor *t, const float *data, float *out)
{
    size_t chunks = 0, n;
    for (int i = 0; i < rp_tensor_shards(t, x->parallel); i++) {
        const float *shard = rp_trained_shard(x, t, data, i, &n);
        x->dev->op->square_sums(x->dev, out + chunks, shard, n);
        chunks += (n + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK;
    }
    return chunks;
}

int rp_global_norm(float *norm, const struct rp_trained *x, float inv_micros, struct rp_err *err)
{
    size_t chunks = 0;
    float sum;
    for (int i = 0; i < x->weights->n; i++) {
        const struct rp_tensor *t = &x->weights->t[i];
        chunks += chunk_sums(x, t, rp_tensor_in(x->g, t), x->chunks + chunks);
    }
    x->dev->op->tree_sum(x->dev, x->sums, x->chunks, chunks);
    if (x->dev->backend->sync(x->dev, err) < 0 || x->dev->backend->download(x->dev, &sum, x->sums, sizeof sum, err) < 0)
        return -1;
    *norm = sqrtf(sum) * inv_micros;
    return 0;
}

static double power(double x, int64_t n)
{
    double r = 1.0;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            r *= x;
    return r;
}

static struct rp_adam adam_of(const struct rp_optim *o, int64_t t, float grad_scale)
{
    struct rp_adam a = {
        .grad_scale = grad_scale,
        .lr = (float)rp_learning_rate(o, t),
        .beta1 = (float)o->beta1,
        .one_minus_beta1 = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .one_minus_beta2 = (float)(1.0 - o->beta2),
        .eps = (float)o->eps,
        .bias_correction = o->bias_correction,
    };
    if (a.bias_correction) {
        a.correct1 = (float)(1.0 / (1.0 - power(o->beta1, t)));
        a.correct2 = (float)(1.0 / (1.0 - power(o->beta2, t)));
    }
    return a;
}

static float decay_of(const struct rp_optim *o, int i)
{
    return o->excluded[i] ? 0.0f : (float)o->weight_decay;
}

static void adamw(const struct rp_optim *o, const struct rp_trained *x, int64_t t, float grad_scale)
{
    struct rp_adam a = adam_of(o, t, grad_scale);
    for (int i = 0; i < x->weights->n; i++) {
        const struct rp_tensor *w = &x->weights->t[i];
        a.weight_decay = decay_of(o, i);
        x->dev->op->adam_update(x->dev, rp_tensor_in(x->w, w), rp_tensor_in(x->slot[0], w), rp_tensor_in(x->slot[1], w),
                                rp_tensor_in(x->g, w), w->count, &a);
    }
}

/* sums = {sum of w*w, sum of g*g}, or zeros for a tensor that is not adapted: the ratio is then 1 */
static void trust_sums(const struct rp_trained *x, const struct rp_tensor *t, int adapted)
{
    const struct rp_ops *op = x->dev->op;
    if (!adapted) {
        op->fill(x->dev, x->sums, 0.0f, 2);
        return;
    }
    op->tree_sum(x->dev, &x->sums[0], x->chunks, chunk_sums(x, t, rp_tensor_in(x->w, t), x->chunks));
    op->tree_sum(x->dev, &x->sums[1], x->chunks, chunk_sums(x, t, rp_tensor_in(x->g, t), x->chunks));
}

static void lamb(const struct rp_optim *o, const struct rp_trained *x, int64_t t, float grad_scale)
{
    struct rp_adam a = adam_of(o, t, grad_scale);
    for (int i = 0; i < x->weights->n; i++) {
        const struct rp_tensor *w = &x->weights->t[i];
        a.weight_decay = decay_of(o, i);
        x->dev->op->lamb_direction(x->dev, rp_tensor_in(x->g, w), rp_tensor_in(x->slot[0], w), rp_tensor_in(x->slot[1], w),
                                   rp_tensor_in(x->w, w), w->count, &a);
        trust_sums(x, w, !o->excluded[i]);
        x->dev->op->lamb_apply(x->dev, rp_tensor_in(x->w, w), rp_tensor_in(x->g, w), x->sums, a.lr, w->count);
    }
}

static void sgd(const struct rp_optim *o, const struct rp_trained *x, int64_t t, float grad_scale)
{
    struct rp_sgd a = {.grad_scale = grad_scale, .lr = (float)rp_learning_rate(o, t), .momentum = (float)o->momentum, .nesterov = o->nesterov};
    for (int i = 0; i < x->weights->n; i++) {
        const struct rp_tensor *w = &x->weights->t[i];
        a.weight_decay = decay_of(o, i);
        x->dev->op->sgd_update(x->dev, rp_tensor_in(x->w, w), rp_tensor_in(x->slot[0], w), rp_tensor_in(x->g, w), w->count, &a);
    }
}

static void lars(const struct rp_optim *o, const struct rp_trained *x, int64_t t, float grad_scale)
{
    struct rp_lars a = {.grad_scale = grad_scale, .lr = (float)rp_learning_rate(o, t), .momentum = (float)o->momentum,
                        .eeta = (float)o->trust, .eps = (float)o->eps, .nesterov = o->nesterov};
    for (int i = 0; i < x->weights->n; i++) {
        const struct rp_tensor *w = &x->weights->t[i];
        a.weight_decay = decay_of(o, i);
        a.adapt = !o->excluded[i];
        trust_sums(x, w, a.adapt);
        x->dev->op->lars_update(x->dev, rp_tensor_in(x->w, w), rp_tensor_in(x->slot[0], w), rp_tensor_in(x->g, w), x->sums, w->count, &a);
    }
}

static const struct rp_optimizer optimizers[] = {
    [RP_OPTIMIZER_adamw] = {.name = "adamw", .slot = {"m", "v"}, .update = adamw, .use = {RP_OP_adam_update}, .uses = 1},
    [RP_OPTIMIZER_lamb] = {.name = "lamb", .slot = {"m", "v"}, .update = lamb, .use = {RP_OP_lamb_direction, RP_OP_lamb_apply}, .uses = 2},
    [RP_OPTIMIZER_sgd] = {.name = "sgd", .slot = {"momentum"}, .update = sgd, .use = {RP_OP_sgd_update}, .uses = 1},
    [RP_OPTIMIZER_lars] = {.name = "lars", .slot = {"momentum"}, .update = lars, .use = {RP_OP_lars_update}, .uses = 1},
};
_Static_assert(sizeof optimizers / sizeof *optimizers == RP_OPTIMIZER_COUNT, "each optimizer of a recipe has its row");

const struct rp_optimizer *rp_optimizer_of(const struct rp_recipe *r)
{
    return &optimizers[r->optimizer_name];
}

int rp_optimizer_slots(const struct rp_optimizer *o)
{
    int n = 0;
    while (n < RP_SLOTS_MAX && o->slot[n])
        n++;
    return n;
}

static float clip_factor(const struct rp_optim *o, float norm)
{
    if (o->clip <= 0)
        return 1.0f;
    if (o->clip_form == RP_CLIP_FORM_norm)
        return norm > o->clip ? o->clip / norm : 1.0f;
    float c = o->clip / (norm + 1e-6f);
    return c < 1.0f ? c : 1.0f;
}

void rp_optim_step(const struct rp_optim *o, const struct rp_trained *x, int64_t t, float norm, float inv_micros)
{
    o->optimizer->update(o, x, t, inv_micros * clip_factor(o, norm));
}
