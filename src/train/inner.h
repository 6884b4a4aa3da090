/* Shared by the files of the trainer and the tests of its parts.
 *
 * What:    struct rp_train, the input of a step, forward and backward of single micro-batches.
 * Flow:    input.c fills the slots, gradient.c walks them (pipeline.c orders the passes of passes.c), train.c
 *          updates.
 * Owner:   struct rp_train owns host memory; the backend owns every block.
 */
#pragma once

#include "optim/grad_tree.h"
#include "optim/optim.h"
#include "train/exchange.h"
#include "train/overlap.h"
#include "train/prefetch.h"
#include "train/train.h"

/* The input of a step. */
struct rp_train_input {
    const struct rp_data_format *format;
    struct rp_dataset *data;
    const char *path;            /* of the data, for messages */
    struct rp_sample_field field[RP_FIELDS_MAX];
    int fields;
    void *column[RP_FIELDS_MAX]; /* samples of one micro-batch on the host: [batch, count] of each field */
    size_t copy_at[RP_FIELDS_MAX]; /* where in an input the tensor of the field's name lies, 1 more; 0: there is none */
    char *slot;                  /* the device's block: one micro-batch after the other */
    char *views;                 /* [own micro-batches] struct rp_input of the model's size: pointers into the slots */
    char *host, *staged;         /* [staging] bytes of an input on the host, and their views */
    int staging;                 /* 1, or all own micro-batches if they are prefetched */
    uint64_t wait_ns;            /* of the last load: waiting for samples */
    int64_t skipped;             /* damaged records of the steps loaded so far, */
    int64_t skipped_ahead;       /* and of those prefetched */
    struct rp_prefetch *prefetch; /* prepares the next step's input while the device works; or NULL */
};

struct rp_train {
    struct rp_net *net;         /* set[0] */
    /* [sets] each with activations of its own, all with the same weights and scratch: micro-batch i has set i % sets */
    struct rp_net **set;
    int sets;
    struct rp_comm *comm;
    struct rp_optim optim;
    struct rp_trained state;
    struct rp_parts parts;      /* of all ranks */
    struct rp_train_input in;
    /* micro-batches of a step over all ranks; the first of this rank's, and how many those are */
    int64_t micros, first, own;
    float *micro_loss;          /* [own] of the step at hand */
    int64_t base, done;         /* steps before the file of --init was written; steps completed in all */
    struct rp_loss_scale_rule scale_rule;
    /* mixed precision: the matrices as operations take them, laid out as state.w; else NULL */
    rp_stored *rounded;
    uint64_t perturbation;      /* seed.perturbation */
    size_t bucket;              /* floats, of rp_overlap_bucket() */
    /* which data-parallel rank sums what; state.shares: which has what of the trained state */
    struct rp_shares shares;
    struct rp_exchange exchange; /* with other data-parallel ranks; unused in a group of one */
    struct rp_overlap *overlap; /* or NULL */
    int replicated;             /* the state: every rank updates all weights */
    float *room;                /* of the exchange */
    void *activations;          /* block of all sets, for the search for NaN */
    float *gradient[RP_GRADIENT_BLOCKS];
    int gradients;
};

/* How the trained state is divided among data-parallel ranks. */
void rp_train_share_state(struct rp_shares *s, const struct rp_recipe *r, const struct rp_net *m, size_t bucket);
/* Adds the trainer's own scratch to the model's; x: whose pointers are to be set. room: floats of the exchange, with
 * its pointer. */
void rp_train_declare(struct rp_net *m, struct rp_trained *x, size_t room, float **room_at);
/* Gradient blocks of a rank, with those that the exchange needs. */
int rp_train_blocks(const struct rp_exchange *x, const struct rp_comm *c);

int rp_train_input_open(struct rp_train *t, const struct rp_train_opts *o, struct rp_err *err) rp_must_check;
void rp_train_input_close(struct rp_train *t);
struct rp_input *rp_train_view(const struct rp_train *t, int64_t i); /* of own micro-batch i, on the device */

/* Own micro-batch i; step counts from 0 over the whole training. Forward: losses to the host; it may begin the gradient
 * in `block`, which backward of the same micro-batch completes. */
int rp_train_forward(struct rp_train *t, int64_t i, int64_t step, float *block, struct rp_losses *l,
                     struct rp_err *err) rp_must_check;
int rp_train_backward(struct rp_train *t, int64_t i, int64_t step, float *block, struct rp_err *err) rp_must_check;
/* On a stage that others follow: what the forward pass of micro-batch i passes on is finite, or this stage, which has
 * the tensors that made it so, is the one that reports it. */
int rp_train_check_output(const struct rp_train *t, int64_t i, struct rp_err *err) rp_must_check;
/* After the forward pass of micro-batch i made a loss or an output that is not finite: names the tensor that is the
 * first. Always -1. */
int rp_train_report_loss(const struct rp_train *t, int64_t i, struct rp_err *err);
/* Gradients of all micro-batches summed into gradient[0], with several ranks the share of its state; and sums of losses
 * (not yet times 1/G). */
int rp_train_gradient(struct rp_train *t, int64_t step, struct rp_losses *sum, struct rp_err *err) rp_must_check;
/* After a norm that is not finite: names the tensor whose gradient made it so, on every rank. Always -1. */
int rp_train_report_gradient(const struct rp_train *t, int64_t step, struct rp_err *err);
