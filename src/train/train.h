/* The trainer: one opened model on one device, and all of training that does not depend on the model.
 *
 * What:    memory plan, batch search, input ahead of the device, micro-batches, gradient tree, norm, clipping, update,
 *          state root, save.
 * Flow:    rp_train_plan() sizes everything without allocating, rp_train_size() does so independently of this machine;
 *          open() allocates and initialises; load() and step() train one step; root() digests.
 * Owner:   the caller of open() closes.
 * Extend:  what differs between models is a function of struct rp_model (model/model.h); everything else goes here.
 *
 * A step is G = accumulation x parallel.data micro-batches of B samples; sample b of micro-batch i of step s is sample
 * (s * G + i) * B + b of the data set. Data-parallel rank r of R computes micro-batches r * G / R to (r + 1) * G / R -
 * 1, rounded down, and updates its share of the weights (optim/shares.h), or, with parallel.optimizer_state replicated,
 * all of them. --init from a file with optimizer slots continues that run: the file's step is added to every step
 * number, so that samples, dropout and schedule continue as if the run had never stopped.
 */
#pragma once

#include "backend/backend.h"
#include "base/err.h"
#include "comm/comm.h"
#include "model/model.h"
#include "recipe/recipe.h"

#include <jansson.h>
#include <stdint.h>

/* The memory plan: bytes per tensor class, and what follows from it. */
struct rp_plan {
    uint64_t bytes[RP_CLASS_COUNT];
    uint64_t host;      /* code, stacks, libraries, data in flight: estimated */
    uint64_t decoders;  /* buffers of the threads that decode samples */
    /* with other ranks: a part of the rings of its host, buffers of TLS; those of NCCL are unknown */
    uint64_t connections;
    /* sum of the above; of a device with memory of its own without host, decoders and connections */
    uint64_t total;
    uint64_t available; /* what a run may use, according to the backend; RP_MEMORY_UNKNOWN; for `max` less a reserve */
    int64_t batch;      /* batch size planned for (the recipe's, or the largest that fits for `max`) */
    int64_t max_batch;  /* largest batch that fits in `available` */
    uint64_t parameters; /* count of trained scalars */
    double flops_per_sample; /* model FLOPs, forward and backward, by the formula below */
    const char *flops_formula;
    double hardware_flops_per_sample; /* the same with what the backward pass computes again */
    const char *hardware_flops_formula; /* NULL: the model has no train.recompute */
};

/* What one step produced. Times are not here: the worker takes them around step(). */
struct rp_step_result {
    float loss, grad_norm;         /* loss: mean over micro-batches; norm before clipping */
    float part[RP_LOSS_PARTS_MAX]; /* parts of loss, as the model lists them */
    double learning_rate;
    float loss_scale; /* of this step; 1 without */
    int overflow;     /* the norm is not finite, and no weight changed */
    int64_t samples, counter[RP_COUNTERS_MAX]; /* counters as the model lists them */
    const float *micro_loss; /* [micros] of this rank's micro-batches; the trainer's, until the next step */
    int64_t micros;
};

/* Whether these ranks can divide the work of the recipe. RP_USAGE: not, with the most that can. */
int rp_train_check_ranks(const struct rp_recipe *r, const struct rp_comm *c, struct rp_err *err) rp_must_check;

/* On a device of which a run may use `available` bytes. A device that refuses an operation is RP_UNAVAILABLE naming it;
 * a batch that cannot be addressed is RP_USAGE. Of one rank, which need not be connected to others; comm NULL: a world
 * of one. */
int rp_train_plan(struct rp_plan *plan, const struct rp_recipe *r, struct rp_comm *comm,
                  const struct rp_backend *backend, const struct rp_device_opts *o, uint64_t available,
                  struct rp_err *err) rp_must_check;
/* For the recipe's batch, which has to be a number; available and max_batch stay 0. */
int rp_train_size(struct rp_plan *plan, const struct rp_recipe *r, struct rp_comm *comm,
                  const struct rp_backend *backend, const struct rp_device_opts *o, struct rp_err *err) rp_must_check;

/* Before a run is an attempt: the data set opens, and its first sample has the fields that the model takes. Samples
 * that are decoded have them by construction: of those only the files are opened. */
int rp_train_check_data(const struct rp_recipe *r, int64_t batch, const char *path, struct rp_err *err) rp_must_check;

/* Samples of an epoch, at least 1. */
int rp_train_count_samples(int64_t *n, const struct rp_recipe *r, int64_t batch, const char *path,
                           struct rp_err *err) rp_must_check;

struct rp_train;

struct rp_train_opts {
    const struct rp_recipe *recipe;
    const struct rp_plan *plan;
    struct rp_dev *dev;
    struct rp_comm *comm;                /* NULL: a world of one */
    const char *data;                    /* directory, file or glob that holds the samples */
    const struct rp_data_format *format;
    /* 0: whole steps. Else a step has that many micro-batches, whatever the recipe has, and only rp_train_micro_loss()
     * is used, on one rank */
    int64_t micros;
    rp_alive_fn alive;                   /* or NULL */
    void *alive_arg;
};
/* Allocates every block, initialises or loads the state. */
struct rp_train *rp_train_open(const struct rp_train_opts *o, struct rp_err *err) rp_must_check;
void rp_train_close(struct rp_train *t);
/* Read and check the next step's samples (outside the timed part), then train it. step counts from 0. A loss or norm
 * that is not finite is RP_MISMATCH naming step, tensor and operation, and leaves the state as it was. */
int rp_train_load(struct rp_train *t, int64_t step, struct rp_err *err) rp_must_check;
/* Nanoseconds that the last rp_train_load() waited for samples, without their upload: input_ns of worker/step.def. */
uint64_t rp_train_input_ns(const struct rp_train *t);
/* Damaged records of the steps loaded so far, each replaced by another one (data.skip_damaged). */
int64_t rp_train_skipped(const struct rp_train *t);
int rp_train_step(struct rp_train *t, int64_t step, struct rp_step_result *out, struct rp_err *err) rp_must_check;
/* The loss of micro-batch `micro` of the first step, which changes nothing of the state: its forward pass. */
int rp_train_micro_loss(struct rp_train *t, int64_t micro, float *loss, struct rp_err *err) rp_must_check;
/* What a rank exchanges in a step within its data-parallel group: gradients, and weights or merged gradients. What
 * tensor-parallel ranks and stages exchange is not in it: rp_comm.sent_in counts all. */
struct rp_exchange_sizes {
    int levels;                         /* of the exchange; 0: none */
    uint64_t sent_bytes, between_bytes; /* that it sends; of those, to other hosts */
    int overlaps;                       /* part of it during the backward pass */
};
struct rp_exchange_sizes rp_train_exchange(const struct rp_train *t);
/* The same of a rank with those coordinates (rp_comm_set_coords()), without a device; train.batch_size is a number. */
int rp_train_exchange_at(struct rp_exchange_sizes *out, const struct rp_recipe *r, struct rp_comm *place,
                         struct rp_err *err) rp_must_check;
/* As rp_state_root(): per-tensor roots into *tensors ({"name": "hex"}) unless NULL. */
int rp_train_root(struct rp_train *t, char hex[65], json_t **tensors, struct rp_err *err) rp_must_check;
/* As rp_state_keyed_root(). */
int rp_train_keyed_root(struct rp_train *t, char hex[65], const char *key, struct rp_err *err) rp_must_check;
/* After a root, if the recipe has seed.perturbation: moves every weight as ops/NUMERICS.md has it. What is saved
 * afterwards is no longer the state of that root. */
int rp_train_perturb(struct rp_train *t, struct rp_err *err) rp_must_check;
/* The deviation that the initialisation of a weight has; 1/32 of constant ones. */
float rp_train_deviation(const struct rp_net *m, const struct rp_tensor *t);
/* Elements [first, first + n) of the whole weight of that number, as the recipe's seed initialises it; m: without a
 * device. */
void rp_train_initial(float *w, const struct rp_net *m, const struct rp_tensor *t, int number, size_t first, size_t n);
/* That root from those of the tensors, as a bundle lists them, without a device. RP_MISMATCH: other tensors than the
 * recipe's. */
int rp_train_root_of(const struct rp_recipe *r, const json_t *tensors, char hex[65], struct rp_err *err) rp_must_check;
int rp_train_save(struct rp_train *t, const char *path, const struct rp_recipe *r, struct rp_err *err) rp_must_check;
