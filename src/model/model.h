/* A model: its tensors and mathematics, as declarations and functions. All other code of training is in train/, once
 * for all models.
 *
 * What:    the interface between the trainer and the mathematics of one model.
 * Flow:    recipe -> configure() -> declare(), declare_input(): its tensors and the operations it will call ->
 *          prepare(), forward(), backward() of one micro-batch at a time.
 * Owner:   a model's own struct begins with struct rp_net, that of its input with struct rp_input; the trainer
 *          allocates and frees both.
 * Extend:  model/NAME.c with struct rp_model rp_model_NAME, NAME in RP_MODELS of recipe/choices.h, its keys in
 *          recipe/keys.def. It declares tensors and operations and computes one micro-batch from the pieces in
 *          model/nn/; everything else is shared. Names and settings in checkpoints of other tools are tables of
 *          model/public.h. tests/build/new_model.sh does exactly this with a perceptron, and trains it.
 *
 * Ranks that divide a model. Weights and activations with a shard axis are declared whole and held in part (tensors.h);
 * rp_net_ranks() divides heads and widths, nn/linear.h joins the sums of parts, nn/vocabulary.h divides an embedding
 * and its logits. A model with layers() has stages: forward() starts from *boundary and leaves it for the next one,
 * backward() too, and a tensor's `stage` is its layer in forward order. The key parallel.tensor limits the number of
 * ranks that divide tensors; a model without a RULE for it in recipe/agree.c allows one. tests/unit/test_parallel.c
 * compares every layout with one rank.
 *
 * Gradients, early. backward() calls rp_net_gradients_ready(m, layer) when it has written all gradients of that layer
 * and of later ones; train/overlap.h then exchanges their buckets. Tests with run.overlap_kib 1 have a bucket for every
 * layer.
 */
#pragma once

#include "backend/backend.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "model/public.h"
#include "model/tensors.h"
#include "recipe/recipe.h"

#include <stdint.h>

#define RP_LOSS_PARTS_MAX 4
#define RP_COUNTERS_MAX 3
#define RP_FIELDS_MAX RP_SAMPLE_FIELDS_MAX
/* Floats of a tied weight's gradient that stages exchange at once: its model declares that many by
 * rp_net_reserve_received(). */
#define RP_TIED_PIECE ((size_t)1 << 20)
#define RP_GROUPS_MAX 80 /* counts in an input: of groups, and of each tensor-parallel rank's lookups */

/* A quantity that a step counts in addition to its samples, such as tokens. */
struct rp_step_counter {
    const char *name;
    /* The number per sample, if it is the same for every sample; NULL: it varies, and is at most that of the counter
     * `most`. */
    int64_t (*per_sample)(const struct rp_recipe *r);
    int most; /* index of a counter, only where per_sample is NULL */
};

/* Called between the parts of a step (a layer, a micro-batch); also a sign of life. Nonzero: stop now. */
typedef int (*rp_alive_fn)(void *arg);

/* The input of one micro-batch: pointers and counts, in host memory for prepare(), on the device for forward() and
 * backward(). */
struct rp_input {
    int64_t counter[RP_COUNTERS_MAX];
    /* the model's pointers and struct rp_row_groups follow */
};

struct rp_net;
/* Called in the backward pass when all gradients of weights of `layer` and later ones are complete. */
typedef void (*rp_gradients_ready_fn)(struct rp_net *m, int layer, void *arg);

/* An instance of a model; the model's own struct begins with it. */
struct rp_net {
    const struct rp_model *model;
    struct rp_dev *dev;                          /* NULL while only sizes are asked for */
    int64_t batch;                               /* samples of a micro-batch */
    int is_mixed;                                /* it computes in mixed precision */
    /* ... and data-parallel ranks divide the masters: they gather 16-bit copies of matrices */
    int gathers_copies;
    uint64_t seed_init, seed_dropout;
    float running_momentum;                      /* of buffers with a statistic */
    float init_range;                            /* standard deviation of normal weights without fan */
    struct rp_tensors tensors[RP_TENSOR_CLASSES]; /* declared */
    struct rp_input *input;                      /* whose pointers were declared; the trainer's are copies */
    int *groups[RP_GROUPS_MAX];                  /* counts in it, which are copied as well as the bytes */
    int n_groups;
    /* calls of operations, each once: backends check them for support and memory */
    struct rp_op_use *use;
    int uses;
    void *array;
    rp_stored *w;                                /* copies of matrices as operations take them, laid out as the list;
                                                  * strict fp32: masters */
    float *g;                                    /* of the micro-batch's gradient, second gradients, statistics */
    float *masters;                              /* block of weights as they are trained */
    float *buffers;                              /* block of buffers */
    /* device: square sums of the chunks of all weights, by the trainer before each step: a rank with divided masters
     * cannot compute them in forward(). NULL: not needed */
    float *squares;
    float loss_scale;                            /* factor of the loss's gradient, a power of two; 1: none */
    /* backward() may end at the first layer whose gradient is not finite */
    int watches_overflow;
    /* 0, or 1 + that layer: from it on gradients are complete; INT_MAX: none is */
    int overflowed;
    float *loss;                                 /* device: [loss parts] of the micro-batch */
    float *work;                                 /* device: scratch for column sums */
    int parallel;                                /* tensor-parallel degree of the arithmetic */
    struct rp_comm *comm;                        /* whose place decides which part of the model this is; borrowed */
    /* the first exchange that failed, until rp_net_alive() reports it; later ones do nothing */
    struct rp_err failed;
    int first, end;                              /* layers in forward order: a stage passes on `boundary` to the next */
    /* device: forward() starts from it and leaves it for the next stage, so does backward() */
    rp_stored **boundary;
    size_t boundary_elements;
    float *partial;                              /* device, if parallel > 1: scratch of linear.c */
    void *gathered;                              /* likewise: stored tensors of linear.c, floats of shards */
    void *received;                              /* device, if ranks divide tensors: parts from other ranks */
    size_t received_floats;                      /* the most that was declared */
    size_t partial_floats, gathered_floats;      /* the most that was declared */
    size_t work_floats;                          /* the most that was declared */
    int64_t step, micro;                         /* at hand: dropout counts with both, micro over all ranks */
    rp_alive_fn alive;
    void *alive_arg;
    rp_gradients_ready_fn gradients_ready;       /* of the last micro-batch, if somebody wants to know; else NULL */
    void *gradients_ready_arg;
};

struct rp_model {
    const char *name, *sample_unit;                 /* "bert", "sequences" */
    /* ended by NULL; they add up to the loss. None: the loss has no parts */
    const char *loss_part[RP_LOSS_PARTS_MAX + 1];
    int (*loss_parts_of)(const struct rp_recipe *r); /* that many of them; the others are 0. NULL: all */
    struct rp_step_counter counter[RP_COUNTERS_MAX + 1]; /* ended by a name of NULL */
    const struct rp_public *public;                 /* its names in other tools' files; or NULL */
    const char *flops_formula;
    size_t size, input_size;                        /* of its structs */
    int (*layers)(const struct rp_recipe *r);     /* that stages divide: 1 to this number. NULL: one stage only */
    void (*configure)(struct rp_net *m, const struct rp_recipe *r); /* sizes; the recipe's keys have been checked */
    void (*declare)(struct rp_net *m);
    void (*declare_input)(struct rp_net *m, struct rp_input *in);
    /* what it wants of a sample; how many */
    int (*fields)(const struct rp_net *m, struct rp_sample_field field[RP_FIELDS_MAX]);
    /* Computes the input from samples: field i is [batch, count] in column[i], checked. Input tensors with the name of
     * a field already contain its samples. Does not modify the model: another thread may call it during a step. Fails
     * where nothing in them has a loss. */
    int (*prepare)(const struct rp_net *m, struct rp_input *in, void *const *column, struct rp_err *err);
    /* -> m->loss; may begin to write m->g */
    int (*forward)(struct rp_net *m, const struct rp_input *in, struct rp_err *err);
    /* After forward: counters that follow from its results. NULL: none do. */
    int (*measure)(struct rp_net *m, struct rp_input *in, struct rp_err *err);
    /* -> m->g, every weight's gradient */
    int (*backward)(struct rp_net *m, const struct rp_input *in, struct rp_err *err);
    /* of a sample, by flops_formula */
    double (*flops)(const struct rp_net *m);
    const char *recompute_formula;                /* NULL: the model computes nothing again */
    double (*recompute_flops)(const struct rp_net *m); /* of a sample, what the backward pass computes again */
    const char *task;                                    /* what is trained, in published tables: "pre-training" */
    const char *(*size_name)(const struct rp_recipe *r); /* name of these sizes in tables: "bert-base"; NULL: none */
    /* The loss of guessing, and the standard deviation of an untrained model's logits. */
    void (*untrained)(const struct rp_net *m, double *guessing, double *logit_width);
};

const struct rp_model *rp_model_of(const struct rp_recipe *r);

/* Losses that follow from the recipe alone. */
struct rp_loss_expected {
    double guess;      /* of guessing */
    double first, off; /* of the first step of an initialised model, and its tolerance; off < 0: unknown */
};
struct rp_loss_expected rp_model_expected_loss(const struct rp_recipe *r, int64_t samples);

/* Lengths of lists that end with NULL. */
int rp_model_loss_parts(const struct rp_model *m);
int rp_model_counters(const struct rp_model *m);

/* An instance of the recipe's model with its tensors declared; `batch` of them a micro-batch. */
struct rp_net *rp_net_new(const struct rp_recipe *r, int64_t batch);
/* The part of it that belongs to a place among ranks, which rp_net_check_ranks() has allowed, for a device whose stored
 * elements have that many bytes (rp_stored_bytes()). */
struct rp_net *rp_net_new_on(const struct rp_recipe *r, int64_t batch, struct rp_comm *c, size_t stored_bytes);
/* Sets the pointers to weights: to masters, and those to matrices to the copies in w. master: floats before each weight
 * in a block of divided masters (optim/shares.h), or NULL. */
void rp_net_bind_weights(struct rp_net *m, float *masters, const size_t *master, rp_stored *w);
void rp_net_bind_buffers(struct rp_net *m, float *block);
/* Tensor ranks divide parallel.tensor, and every stage has a layer; else RP_USAGE. */
int rp_net_check_ranks(const struct rp_recipe *r, struct rp_degrees ranks, struct rp_err *err) rp_must_check;
/* The first layer, from 0, of a stage: L layers over P stages begin at ceil(stage * L / P), so that sizes differ by at
 * most one and the last stage, which also has the logits, is never larger than the others. */
int rp_stage_begin(int layers, int stages, int stage);
void rp_net_free(struct rp_net *m);
/* -1 with RP_INTERRUPTED: stop; or an exchange failed */
int rp_net_alive(const struct rp_net *m, struct rp_err *err) rp_must_check;
int rp_net_exchanged(const struct rp_net *m, struct rp_err *err) rp_must_check; /* -1: an exchange failed */
/* For backward(), before rp_net_alive(): it will write no gradient of this layer and of later ones any more. Optional:
 * what was not announced is complete at the end. */
void rp_net_gradients_ready(struct rp_net *m, int layer);
/* Looks for overflow in a gradient from which those of all weights follow, of logits or from the stage after: before
 * products over values that are not finite, which take a CPU tens of times as long. Tensor-parallel ranks, of which
 * each has a part, end together: all of them call it. */
void rp_net_watch_gradient(struct rp_net *m, const rp_stored *gradient, size_t n);

/* -- for declare() -- */
/* zeroed, for layers; at most one, which rp_net_free() frees */
void *rp_net_array(struct rp_net *m, long n, size_t size);
void rp_net_use(struct rp_net *m, struct rp_op_use use);
void rp_net_use_rows(struct rp_net *m, enum rp_op op, long rows, long width); /* an operation over [rows, width] */
void rp_net_work(struct rp_net *m, long rows, long width); /* scratch for a column sum of that size */
/* Scratch of linear.c: sums, and one part gathered. */
void rp_net_parts(struct rp_net *m, size_t partial, size_t gathered);
/* Scratch for what other ranks send: `received`. */
void rp_net_reserve_received(struct rp_net *m, size_t floats);
void rp_net_count(struct rp_net *m, int *count); /* a count in the input */
/* rows of the input summed by key */
void rp_net_groups(struct rp_net *m, struct rp_row_groups *g, long keys, long sources);

/* -- for forward() and backward() -- */
/* Tensor-parallel ranks that divide the model, and which of them this is. */
static inline int rp_net_ranks(const struct rp_net *m)
{
    return m->comm->size[RP_GROUP_TENSOR];
}
static inline int rp_net_rank(const struct rp_net *m)
{
    return m->comm->rank[RP_GROUP_TENSOR];
}
/* Where the share of rank i begins of n rows that ranks divide; of rank `ranks`: where the last one ends. */
static inline int rp_net_share(const struct rp_net *m, int n, int i)
{
    return (int)((long)n * i / rp_net_ranks(m));
}
/* rp_comm_exchange_device() after all operations before it; a failure is shown by rp_net_alive(). */
void rp_net_exchange(struct rp_net *m, enum rp_group g, const struct rp_transfer *t, int n);
/* Rank i of the tensor group has rows [at[i], at[i + 1]) of x, `width` wide, and gets the others. */
void rp_net_gather_rows(struct rp_net *m, rp_stored *x, const int *at, long width);
/* site: number of the dropout within the model, part of the random counter */
struct rp_dropout rp_net_dropout(const struct rp_net *m, double p, int site, int rows_per_sample);
/* x as the fp32 numbers that it is in strict fp32. */
static inline float *rp_net_strict(const struct rp_net *m, rp_stored *x)
{
    RP_BUG_IF(rp_is_mixed(m->dev->numerics));
    return (float *)(void *)x;
}
/* Where the gradient of a matrix goes. */
static inline float *rp_net_grad(const struct rp_net *m, const rp_stored *w)
{
    return m->g + ((const char *)w - (const char *)m->w) / (ptrdiff_t)m->dev->stored_bytes;
}
/* That of a bias, or of scales or shifts of a norm. */
float *rp_net_vector_grad(const struct rp_net *m, const float *w);
/* That of second gradient i. */
static inline float *rp_net_second_grad(const struct rp_net *m, int i)
{
    return m->g + (m->tensors[RP_WEIGHT].bytes + m->tensors[RP_SECOND_GRADIENT].t[i].offset) / sizeof(float);
}
/* Where a micro-batch's statistic goes, of which a buffer is the running mean. */
static inline float *rp_net_statistic(const struct rp_net *m, const float *buffer)
{
    const struct rp_tensors *t = m->tensors;
    return m->g + (t[RP_WEIGHT].bytes + t[RP_SECOND_GRADIENT].bytes) / sizeof(float) + (buffer - m->buffers);
}
/* Floats of a block of gradients. */
static inline size_t rp_net_gradient_floats(const struct rp_net *m)
{
    return (m->tensors[RP_WEIGHT].bytes + m->tensors[RP_SECOND_GRADIENT].bytes + m->tensors[RP_BUFFER].bytes) /
           sizeof(float);
}
