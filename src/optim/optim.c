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

/* Taylor series of the sine of an angle of at most pi/4, in double by multiplication and addition: exact to the last
 * bits. */
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
    return o->min_lr +
           (o->lr - o->min_lr) * (o->decay == RP_DECAY_cosine ? 0.5 * (1.0 + rp_cos_pi(x)) : (1.0 - x) * (1.0 - x));
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

float *rp_trained_values(const struct rp_trained *x, const struct rp_tensor *t, int slot)
{
    const int is_weight = t >= x->weights->t && t < x->weights->t + x->weights->n;
    float *block = slot >= 0 ? x->slot[slot] : is_weight ? x->w : x->buffer;
    size_t first;
    if (!block || (slot < 0 && (!is_weight || !x->shares.master)))
        return block ? rp_tensor_in(block, t) : NULL;
    if (slot < 0 && rp_tensor_dims(t) < 2)
        return block + rp_shares_master_of(&x->shares, (int)(t - x->weights->t), 0);
    const size_t n = rp_share_of_tensor(&x->shares, x->shares.own, t, &first);
    if (!n || !rp_tensor_is_owned(x->weights, t))
        return block;
    return block - first + (slot < 0 ? rp_shares_master_of(&x->shares, (int)(t - x->weights->t), first)
                                     : rp_shares_slot_of(&x->shares, t, first));
}

const float *rp_trained_shard(const struct rp_trained *x, const struct rp_tensor *t, const float *data, int i,
                              size_t *n)
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
        x->dev->op->copy_columns(x->dev, x->gathered + k * each, pieces * each, data + (k * shards + i) * each, cols,
                                 (int)rows, (int)each, sizeof *data);
    return x->gathered;
}

/* Square sums of the own chunks of weight i, to their places in out, which has all of the tensor's. */
static void chunk_sums(const struct rp_trained *x, int i, const float *data, float factor, float *out)
{
    struct rp_run_of_chunks run[RP_SHARDS_MAX];
    const struct rp_tensor *t = &x->weights->t[i];
    const int ranges = rp_tensor_shards_are_ranges(t, x->parallel), runs = rp_shares_runs(&x->shares, i, run);
    for (int k = 0; ranges && k < runs; k++)
        x->dev->op->square_sums(x->dev, out + run[k].chunk, data + run[k].first, factor, run[k].count);
    for (int shard = 0; !ranges && runs && shard < rp_tensor_shards(t, x->parallel); shard++) {
        size_t n;
        const float *part = rp_trained_shard(x, t, data, shard, &n);
        x->dev->op->square_sums(x->dev, out, part, factor, n);
        out += (n + RP_NORM_CHUNK - 1) / RP_NORM_CHUNK;
    }
}

/* Chunks of weight i in this rank's list, and on all ranks. */
static size_t own_chunks(const struct rp_trained *x, int i)
{
    return rp_tensor_parts(&x->weights->t[i], x->parallel, RP_NORM_CHUNK);
}
static size_t chunks_of(const struct rp_trained *x, int i)
{
    return x->parts ? rp_parts_chunks(x->parts, i) : own_chunks(x, i);
}

static int has_peers(const struct rp_trained *x)
{
    return x->shares.n > 1 || (x->parts && rp_parts_are_several(x->parts));
}

/* The sums of this rank's list become those of all weights. Returns their number, or 0 on failure. */
static size_t gather_parts(const struct rp_trained *x, float *sums, struct rp_err *err)
{
    const size_t own = rp_parts_own_chunks(x->parts), all = rp_parts_all_chunks(x->parts);
    RP_FREE float *here = rp_alloc(own * sizeof *here + 1), *whole = rp_alloc(all * sizeof *whole);
    if (x->dev->backend->sync(x->dev, err) < 0 ||
        x->dev->backend->download(x->dev, here, sums, own * sizeof *here, err) < 0 ||
        rp_parts_gather(x->parts, whole, here, sizeof *whole, err) < 0 ||
        x->dev->backend->upload(x->dev, sums, whole, all * sizeof *whole, err) < 0)
        return 0;
    return all;
}

/* Square sums of all chunks of the gradient, or of the weights; with several ranks each computes its own. Returns their
 * number, or 0 on failure. */
static size_t all_chunk_sums(const struct rp_trained *x, int of_weights, float factor, float *out, struct rp_err *err)
{
    size_t chunks = 0;
    for (int i = 0; i < x->weights->n; i++) {
        const struct rp_tensor *t = &x->weights->t[i];
        chunk_sums(x, i, of_weights ? rp_trained_values(x, t, -1) : rp_tensor_in(x->g, t), factor, out + chunks);
        chunks += own_chunks(x, i);
    }
    if (x->shares.n > 1 &&
        (x->dev->backend->sync(x->dev, err) < 0 || rp_shares_gather_device(&x->shares, out, sizeof *out, err) < 0))
        return 0;
    return x->parts && rp_parts_are_several(x->parts) ? gather_parts(x, out, err) : chunks;
}

int rp_trained_squares(const struct rp_trained *x, float *chunks, struct rp_err *err)
{
    return all_chunk_sums(x, 1, 1.0f, chunks, err) ? 0 : -1;
}

int rp_global_norm(float *norm, const struct rp_trained *x, float unscale, float inv_micros, struct rp_err *err)
{
    const size_t chunks = all_chunk_sums(x, 0, unscale, x->chunks, err);
    float sum;
    if (!chunks)
        return -1;
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

static struct rp_adam adam_of(const struct rp_optim *o, int64_t t, int64_t updates, float grad_scale)
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
        a.correct1 = (float)(1.0 / (1.0 - power(o->beta1, updates)));
        a.correct2 = (float)(1.0 / (1.0 - power(o->beta2, updates)));
    }
    return a;
}

static float decay_of(const struct rp_optim *o, int i)
{
    return o->excluded[i] ? 0.0f : (float)o->weight_decay;
}

/* The own part of weight i, which this rank updates. */
struct own_part {
    size_t n;
    float *w, *g, *slot[RP_SLOTS_MAX];
};

static struct own_part own_part_of(const struct rp_trained *x, int i)
{
    const struct rp_tensor *t = &x->weights->t[i];
    size_t first;
    struct own_part p = {.n = rp_share_of_tensor(&x->shares, x->shares.own, t, &first)};
    if (!p.n || !rp_tensor_is_owned(x->weights, t))
        return (struct own_part){0};
    p.w = rp_trained_values(x, t, -1) + first;
    p.g = rp_tensor_in(x->g, t) + first;
    for (int k = 0; k < rp_optimizer_slots(x->optimizer); k++)
        p.slot[k] = x->slot[k] + rp_shares_slot_of(&x->shares, t, first);
    return p;
}

static int adamw(const struct rp_optim *o, const struct rp_trained *x, int64_t t, int64_t updates, float grad_scale,
                 struct rp_err *err)
{
    struct rp_adam a = adam_of(o, t, updates, grad_scale);
    (void)err;
    for (int i = 0; i < x->weights->n; i++) {
        const struct own_part p = own_part_of(x, i);
        a.weight_decay = decay_of(o, i);
        if (p.n)
            x->dev->op->adam_update(x->dev, p.w, p.slot[0], p.slot[1], p.g, p.n, &a);
    }
    return 0;
}

/* Square sums of the weights and of g, for trust ratios: those of all ranks are gathered at once, before the first is
 * used. */
static int gather_trust_sums(const struct rp_trained *x, struct rp_err *err)
{
    if (!has_peers(x))
        return 0;
    size_t chunks = all_chunk_sums(x, 1, 1.0f, x->chunks, err);
    return chunks && all_chunk_sums(x, 0, 1.0f, x->chunks + chunks, err) ? 0 : -1;
}

/* sums = {sum of w*w, sum of g*g}, or zeros for a tensor that is not adapted: the ratio is then 1. before: chunks of
 * the tensors before. */
static void trust_sums(const struct rp_trained *x, int i, size_t before, size_t all, int adapted)
{
    const struct rp_ops *op = x->dev->op;
    const struct rp_tensor *t = &x->weights->t[i];
    const size_t chunks = chunks_of(x, i);
    if (!adapted)
        op->fill(x->dev, x->sums, 0.0f, 2);
    else if (has_peers(x)) {
        op->tree_sum(x->dev, &x->sums[0], x->chunks + before, chunks);
        op->tree_sum(x->dev, &x->sums[1], x->chunks + all + before, chunks);
    } else {
        chunk_sums(x, i, rp_trained_values(x, t, -1), 1.0f, x->chunks);
        op->tree_sum(x->dev, &x->sums[0], x->chunks, chunks);
        chunk_sums(x, i, rp_tensor_in(x->g, t), 1.0f, x->chunks);
        op->tree_sum(x->dev, &x->sums[1], x->chunks, chunks);
    }
}

static size_t all_chunks(const struct rp_trained *x)
{
    size_t n = 0;
    for (int i = 0; i < x->weights->n; i++)
        n += chunks_of(x, i);
    return n;
}

static int lamb(const struct rp_optim *o, const struct rp_trained *x, int64_t t, int64_t updates, float grad_scale,
                struct rp_err *err)
{
    struct rp_adam a = adam_of(o, t, updates, grad_scale);
    const size_t all = all_chunks(x);
    size_t before = 0;
    for (int i = 0; i < x->weights->n; i++) {
        const struct own_part p = own_part_of(x, i);
        a.weight_decay = decay_of(o, i);
        if (p.n)
            x->dev->op->lamb_direction(x->dev, p.g, p.slot[0], p.slot[1], p.w, p.n, &a);
    }
    if (gather_trust_sums(x, err) < 0)
        return -1;
    for (int i = 0; i < x->weights->n; before += chunks_of(x, i++)) {
        const struct own_part p = own_part_of(x, i);
        if (!p.n)
            continue;
        trust_sums(x, i, before, all, !o->excluded[i]);
        x->dev->op->lamb_apply(x->dev, p.w, p.g, x->sums, a.lr, p.n);
    }
    return 0;
}

static int sgd(const struct rp_optim *o, const struct rp_trained *x, int64_t t, int64_t updates, float grad_scale,
               struct rp_err *err)
{
    (void)updates;
    struct rp_sgd a = {.grad_scale = grad_scale, .lr = (float)rp_learning_rate(o, t), .momentum = (float)o->momentum,
                       .nesterov = o->nesterov};
    (void)err;
    for (int i = 0; i < x->weights->n; i++) {
        const struct own_part p = own_part_of(x, i);
        a.weight_decay = decay_of(o, i);
        if (p.n)
            x->dev->op->sgd_update(x->dev, p.w, p.slot[0], p.g, p.n, &a);
    }
    return 0;
}

static int lars(const struct rp_optim *o, const struct rp_trained *x, int64_t t, int64_t updates, float grad_scale,
                struct rp_err *err)
{
    (void)updates;
    struct rp_lars a = {.grad_scale = grad_scale, .lr = (float)rp_learning_rate(o, t), .momentum = (float)o->momentum,
                        .eeta = (float)o->trust, .eps = (float)o->eps, .nesterov = o->nesterov};
    const size_t all = all_chunks(x);
    size_t before = 0;
    if (gather_trust_sums(x, err) < 0)
        return -1;
    for (int i = 0; i < x->weights->n; before += chunks_of(x, i++)) {
        const struct own_part p = own_part_of(x, i);
        if (!p.n)
            continue;
        a.weight_decay = decay_of(o, i);
        a.adapt = !o->excluded[i];
        trust_sums(x, i, before, all, a.adapt);
        x->dev->op->lars_update(x->dev, p.w, p.slot[0], p.g, x->sums, p.n, &a);
    }
    return 0;
}

static const struct rp_optimizer optimizers[] = {
    [RP_OPTIMIZER_adamw] =
        {.name = "adamw", .slot = {"m", "v"}, .update = adamw, .use = {RP_OP_adam_update}, .uses = 1},
    [RP_OPTIMIZER_lamb] = {.name = "lamb", .slot = {"m", "v"}, .update = lamb, .adapts = 1,
                           .use = {RP_OP_lamb_direction, RP_OP_lamb_apply}, .uses = 2},
    [RP_OPTIMIZER_sgd] = {.name = "sgd", .slot = {"momentum"}, .update = sgd, .use = {RP_OP_sgd_update}, .uses = 1},
    [RP_OPTIMIZER_lars] =
        {.name = "lars", .slot = {"momentum"}, .update = lars, .adapts = 1, .use = {RP_OP_lars_update}, .uses = 1},
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

int rp_optim_step(const struct rp_optim *o, const struct rp_trained *x, int64_t t, int64_t updates, float norm,
                  float inv_micros, struct rp_err *err)
{
    return o->optimizer->update(o, x, t, updates, inv_micros * clip_factor(o, norm), err);
}
