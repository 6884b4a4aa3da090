/* Replay: trains steps of a recorded run here and compares bits.
 *
 * What:    runs the recorded recipe, without settings that name the owner's files, in the worker, and compares its
 *          records as they arrive.
 * Flow:    facts.json + records -> worker -> equal, or the first divergent step, quantity and tensor, and with `state`
 *          the elements.
 * Owner:   nothing outlives the call.
 * Extend:  another recorded quantity is one row in rp_replay_compare_step().
 *
 * Step S + i of the run is step i of the worker, which starts from the state before step S: the recipe's initialisation
 * where S is 0, else the file `init`, which must have the root recorded there.
 *
 * A step of thousands of micro-batches is checked in parts. A few are drawn at random, so that the signer cannot
 * foresee which, and their forward passes must give the recorded losses. Gradients are not compared: equal losses show
 * that they follow from the state before the step, not that the step was trained.
 */
#pragma once

#include "base/err.h"
#include "run/facts.h"
#include "run/records.h"
#include "train/products.h"
#include "verify/challenge/reach.h"
#include "verify/replay/states.h"

#include <jansson.h>
#include <inttypes.h>
#include <stdint.h>

struct rp_replay_opts {
    int64_t first;       /* S: the step to begin with */
    int64_t steps;       /* how many to train again */
    /* not 0: of the first of these steps, the losses of that many micro-batches, chosen here, are computed instead */
    int64_t micros;
    const char *data;    /* the samples, if the run used its owner's (data.path); NULL: the pinned archive */
    const char *init;    /* the state before step `first`: the file that the run started from, or one saved then */
    const char *state;   /* the owner's state after the last of these steps, to compare element by element; or NULL */
    /* where to write the state after the last of these steps; or NULL. Not together with `state` */
    const char *save;
    const char *store;   /* content-addressed store, NULL: the default */
    const char *signer;   /* fingerprint: of a replication its keyed roots are compared; NULL: they are not */
    const json_t *before; /* the capture of the run; or NULL */
    /* For a run that answers a challenge: whether the state `init` is one to which training can have come, and how many
     * products it spares. In: those of an untrained state, or zeros; out: counted. NULL: not looked at. */
    struct rp_products *untrained;
    const char *isa;     /* one of RP_ISAS, or NULL */
    int64_t threads;     /* 0: all */
    /* most time and host memory for it, whatever the bundle asks for; 0: an hour, half of what is free */
    uint64_t limit_ns, limit_bytes;
    /* Before the first step; work: "steps 0 to 3"; seconds: estimated shortest and longest time, NULL if unknown. May
     * be NULL. */
    void (*begin)(void *arg, const char *work, const double seconds[2]);
    /* By the check that replays: before it does, what the replay will not show. May be NULL. */
    void (*remark)(void *arg, const char *text);
    /* Several times a second, with how many are compared so far of what: "step" or "micro-batch"; nonzero stops with
     * RP_INTERRUPTED. May be NULL. */
    int (*progress)(void *arg, const char *what, int64_t done, int64_t to_do);
    void *arg;
};

struct rp_replay_result {
    int64_t keyed;         /* keyed roots after a step that were compared */
    int64_t first, steps, roots;  /* the first step; how many steps and roots were compared */
    /* how many losses of micro-batches were compared, and how many the step has; 0: whole steps */
    int64_t micros, of_micros;
    int64_t *micro_batch;         /* [micros] their numbers, ascending */
    int start_root;        /* the state before the first step has the recorded root; 0: none was recorded */
    int diverged;          /* 0: bit-equal */
    int64_t step;          /* first divergent step; first - 1: the state before it */
    int64_t micro;         /* its micro-batch, if `quantity` is micro_losses; else -1 */
    /* the state before this step had the recorded root; -1: none was compared before the divergence */
    int64_t agreed;
    const char *quantity;  /* "loss", "grad_norm", "state_root", ... static */
    char recorded[72], here[72];
    char tensor[128];      /* first divergent tensor, or "" if tensor roots were not recorded */
    int64_t tensors;       /* how many differ */
    double step_s[2];      /* mean time of these steps, without the first of several: recorded, here; 0: unknown */
    int same_device;       /* trained by a CPU of the model, instruction set and threads of the run, otherwise idle */
    int state_compared;    /* whether `state` was compared */
    struct rp_state_difference state;
    int reached;               /* `reach` and `products` were found */
    struct rp_reach reach;
    struct rp_products products; /* of a step from the state before the first */
    int64_t samples, repeated; /* of all steps; of those, samples that their step has twice (samples.h) */
};

#define RP_REPLAY_LIMIT_NS (3600 * (uint64_t)1000000000) /* where limit_ns is 0 */

/* Whether the file `init` can be the state before step `first`, by its headers: the tensors of the run's model and
 * optimizer, with their shapes, after that many steps. RP_MISMATCH, RP_MALFORMED or RP_IO. */
int rp_replay_check_state(const struct rp_facts *run, const char *init, int64_t first,
                          struct rp_err *err) rp_must_check;
/* 0: trained; see out->diverged. -1: not possible here, or not within the limits (RP_UNAVAILABLE, RP_IO, ...). */
int rp_replay(struct rp_replay_result *out, const struct rp_facts *run, const struct rp_records *records,
              const struct rp_replay_opts *o, struct rp_err *err) rp_must_check;
void rp_replay_result_fini(struct rp_replay_result *r);
json_t *rp_replay_json(const struct rp_replay_result *r);
