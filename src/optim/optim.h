/* Optimizers: learning-rate schedule, global gradient norm, clipping, AdamW as BERT's authors wrote it, LAMB.
 *
 * What:    the summed gradient of G micro-batches -> new weights and slots.
 * Flow:    rp_global_norm() -> rp_optim_step(); both walk the list of weights in order, each rank within its share
 *          (shares.h). Sums of chunks are gathered from all ranks, so that every rank adds them in the same tree.
 * Owner:   struct rp_optim owns its list of exclusions; tensors are borrowed through struct rp_trained.
 * Extend:  NAME in RP_OPTIMIZERS of recipe/choices.h; a row of optimizers[] in optim.c with its slots (state root,
 *          checkpoints and memory plan follow from them), operations and function; its expressions as operations of
 *          ops/ops.def; new settings in struct rp_optim.
 *
 * Order of roundings, G micro-batches, t = step + 1:
 *   norm       = sqrtf(tree over chunks(square sums)) * (1/G)    chunks of 4096 elements, begun anew at every tensor
 *   coef       = norm > clip ? clip / norm : 1                   clip 0: never
 *                or min(clip / (norm + 1e-6), 1)                 optimizer.clip_form norm_plus_epsilon, as Megatron-LM
 *   grad_scale = (1/G) * coef                                    then one multiplication per element
 * The schedule is computed in double and rounded to fp32 once:
 *   t <= warmup: lr * (t / warmup);  after: lr * (1 - t/total)^p, p 0, 1, 1/2 or 2, and 0 from t = total on (p > 0);
 *   cosine: min + (lr - min) * (1 + cos(pi x)) / 2, x = (t - warmup) / (total - warmup), at most 1; rp_cos_pi() in
 *   optim.c; quadratic: min + (lr - min) * (1 - x)^2; step: lr / 10^(epoch / step_epochs), epoch = (t - 1) / steps per
 *   epoch.
 * With whole epochs warmup and total are counted in them, t is the epoch (from 0), and in warm-up one more.
 * The original counts t from 0, so that its first step has learning rate 0 and changes only the moments; here the first
 * step already learns. Like the original, decay is measured from step 0, not from the end of warm-up. Bias correction
 * (off in the original) multiplies by 1/(1 - beta^t), beta^t by repeated squaring in double. A tensor whose name
 * contains an excluded word has no weight decay, and in LAMB and LARS the trust ratio 1.
 */
#pragma once

#include "backend/backend.h"
#include "base/err.h"
#include "model/tensors.h"
#include "optim/loss_scale.h"
#include "optim/parts.h"
#include "recipe/recipe.h"

#include <stdint.h>

#define RP_SLOTS_MAX 2
#define RP_OPTIMIZER_USES_MAX 4

struct rp_optim;
struct rp_trained;

struct rp_optimizer {
    const char *name;
    /* state for each weight, by its name in checkpoints and state roots; ended by NULL */
    const char *slot[RP_SLOTS_MAX + 1];
    int (*update)(const struct rp_optim *o, const struct rp_trained *x, int64_t t, int64_t updates, float grad_scale,
                  struct rp_err *err);
    int adapts; /* uses norms of each tensor */
    /* its operations over whole tensors, for the memory plan; the norm's are everyone's */
    enum rp_op use[RP_OPTIMIZER_USES_MAX];
    int uses;
};
const struct rp_optimizer *rp_optimizer_of(const struct rp_recipe *r);
int rp_optimizer_slots(const struct rp_optimizer *o);

/* The trained state: blocks on the device, with the layout of the lists of tensors. */
struct rp_trained {
    struct rp_dev *dev;
    const struct rp_optimizer *optimizer;
    const struct rp_tensors *weights, *buffers;
    float *w, *buffer, *g; /* w: [shares.masters] */
    float *slot[RP_SLOTS_MAX]; /* [rp_shares_slots()] of the own share, bucket by bucket */
    struct rp_shares shares;
    const struct rp_parts *parts; /* of all ranks; NULL without a device */
    /* one per 4096-element chunk of every weight; two arrays where several ranks adapt each tensor (LAMB, LARS) */
    float *chunks;
    float *sums;     /* 4 floats */
    uint8_t *leaves; /* digests of one tensor's leaves, for state roots */
    struct rp_loss_scale scale; /* of the next step; its counts are those of the whole training */
    int64_t *batches_before; /* [buffers->n] that a file counted before step 0 (train/batch_counts.h); NULL: none */
    int parallel;    /* tensor-parallel degree: shards of a tensor with an axis to divide, one after the other */
    float *gathered; /* one shard of columns */
};

/* Element 0 of a weight or buffer, or of a slot of a weight. Of a slot, and of a matrix where masters are divided, only
 * elements of the own share are there. NULL: no memory. */
float *rp_trained_values(const struct rp_trained *x, const struct rp_tensor *t, int slot);
/* Shard i of a tensor's data, and its elements; gathered if it is not contiguous. */
const float *rp_trained_shard(const struct rp_trained *x, const struct rp_tensor *t, const float *data, int i,
                              size_t *n);

/* Square sums of the chunks of all weights in list order, on every rank: `chunks` has room for them on the device. */
int rp_trained_squares(const struct rp_trained *x, float *chunks, struct rp_err *err) rp_must_check;

struct rp_optim {
    const struct rp_optimizer *optimizer;
    int bias_correction;
    int nesterov;
    double lr, min_lr, beta1, beta2, momentum, trust, eps, weight_decay;
    float clip;
    enum rp_clip_form clip_form;
    int64_t warmup, total;
    int64_t epoch, step_epochs; /* steps of an epoch, 0: none; epochs after which the decay `step` divides by 10 */
    int whole_epochs;
    enum rp_decay decay;
    unsigned char *excluded; /* [tensors] */
};

void rp_optim_init(struct rp_optim *o, const struct rp_recipe *r, const struct rp_tensors *weights);
void rp_optim_fini(struct rp_optim *o);

struct rp_optim rp_schedule_of(const struct rp_recipe *r);      /* what rp_learning_rate() needs, without tensors */
double rp_learning_rate(const struct rp_optim *o, int64_t t); /* t counts from 1 */
double rp_cos_pi(double x);                                   /* cos(pi x) for x in [0, 1], the same bits everywhere */

/* Norm of the mean gradient; inv_micros = 1/G; unscale: the inverse of the loss scale. */
int rp_global_norm(float *norm, const struct rp_trained *x, float unscale, float inv_micros,
                   struct rp_err *err) rp_must_check;
/* One update of the own share. t, from 1: which step it is for the schedule; updates: which update, for the bias
 * correction. inv_micros: 1/G, over the loss scale. In LAMB the gradient block becomes the update direction. */
int rp_optim_step(const struct rp_optim *o, const struct rp_trained *x, int64_t t, int64_t updates, float norm,
                  float inv_micros, struct rp_err *err) rp_must_check;
