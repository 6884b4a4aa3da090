/* Replay: train the first steps of somebody's run here and compare bits.
 *
 * What:    the recorded recipe, minus everything that touches the owner's files, through the worker; records compared as they come.
 * Flow:    run.json + records -> worker -> equal, or the first divergent step, quantity and tensor.
 * Owner:   nothing outlives the call.
 * Extend:  another recorded quantity is one row in compare_step().
 */
#ifndef RP_VERIFY_REPLAY_H
#define RP_VERIFY_REPLAY_H

#include "base/err.h"
#include "report/records.h"

#include <jansson.h>
#include <stdint.h>

struct rp_replay_opts {
    int64_t steps;       /* how many of the first steps to train again */
    const char *data;    /* the samples, where the run used its own (data.path); NULL: the pinned archive */
    const char *init;    /* the file the run started from, where it used one (run.init) */
    const char *store;   /* content-addressed store, NULL: the default */
    const char *isa;     /* "auto", "scalar", "avx2", "avx512" or NULL */
    int64_t threads;     /* 0: all */
    /* called several times a second with the steps compared so far; nonzero stops with RP_INTERRUPTED. May be NULL. */
    int (*progress)(void *arg, int64_t step, int64_t steps);
    void *arg;
};

struct rp_replay_result {
    int64_t steps, roots;  /* compared */
    int diverged;          /* 0: bit-equal */
    int64_t step;          /* first divergent step; -1: the state before the first */
    const char *quantity;  /* "loss", "grad_norm", "state_root", ... static */
    char recorded[72], here[72];
    char tensor[128];      /* first divergent tensor, or "" where roots per tensor were not recorded */
};

/* 0: trained; see out->diverged. -1: could not be trained here (RP_UNAVAILABLE, RP_IO, ...). run has passed the schema. */
int rp_replay(struct rp_replay_result *out, const json_t *run, const struct rp_records *records, const struct rp_replay_opts *o,
              struct rp_err *err) rp_must_check;

#endif
