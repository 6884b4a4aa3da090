/* Results: every published figure of a run, computed only from its step records.
 *
 * What:    the one place where records become numbers; `run` publishes them, `verify` recomputes them and compares the texts.
 * Flow:    the records of steps/rank0.jsonl + resolved recipe -> the "results" object of run.json.
 * Owner:   the caller owns the json_t.
 * Extend:  a new figure is computed here and printed by the writers of reports; verify then covers it without changes.
 *
 * A record, with the keys of worker/step.def:
 * {"counters":{"padded_tokens":4096,"tokens":3890},"device_ns":..,"end_ns":..,"grad_norm":"0x1.1p+1","input_ns":..,"learning_rate":..,
 *  "loss":"0x1.5p+3","loss_parts":{"mlm":"0x1.4p+3","nsp":"0x1p-1"},"phase":"timed","rank":0,"repeat":0,"root_ns":..,"samples":32,
 *  "start_ns":..,"state_root":"hex","step":7}
 * phase is "init" (step -1: the state root before the first step, no times), "warm-up" or "timed".
 * Times are worker CLOCK_MONOTONIC; records are in order, steps do not overlap.
 */
#pragma once

#include "base/err.h"
#include "recipe/recipe.h"
#include "run/records.h"

#include <jansson.h>

/* Also checks that the records agree with the recipe: RP_MISMATCH. complete = 0: an interrupted or failed run may have any
 * prefix of its steps. */
json_t *rp_results(const struct rp_records *rs, const struct rp_recipe *r, const json_t *plan, int complete, struct rp_err *err)
    rp_must_check;

/* A degree of parallelism decides the arithmetic, whatever number of ranks computes it: the product of the degrees of a run, and its ranks. */
int64_t rp_run_degrees(const json_t *run);
int64_t rp_run_ranks(const json_t *run);
/* Of a run on processors, whose ranks may have different ones: threads of all ranks, 0: unknown; their instruction set or "mixed", NULL: unknown. */
int64_t rp_run_threads(const json_t *run);
const char *rp_run_isa(const json_t *run);

/* What a rank trained on, "cpu" or "cuda", by its device, or the backend of the run where it reported none; that of all ranks, or "mixed". */
const char *rp_run_rank_kind(const json_t *run, int64_t rank);
const char *rp_run_kind(const json_t *run);

/* The headline of a run.json, one of this version. */
struct rp_throughput {
    const char *unit; /* "sequences/s"; borrowed */
    double value, low, high;
    int known, sure; /* a step was timed; there is an interval */
    double tokens;   /* per second, where every sample has the same number and only that is counted; else 0 */
};
struct rp_throughput rp_throughput_of(const json_t *run);

/* The recorded value of a key of the recipe, or NULL. */
const json_t *rp_run_setting(const json_t *run, const char *key);

/* n bootstrap resamples of the headline figure, as for its interval; 0 if fewer than two steps were timed. */
int rp_results_resample(double *out, int n, const struct rp_records *rs);

/* Nanoseconds from the start of a timed step to that of the next one of its repeat, without a state root between; the last one of a
 * repeat (next NULL) to its own end. */
int64_t rp_cycle_ns(const struct rp_step_record *r, const struct rp_step_record *next);
