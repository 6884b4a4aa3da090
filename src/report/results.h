/* Results: every published figure of a run, computed from its raw step records and from nothing else.
 *
 * What:    the one place where records become numbers; `run` publishes them, `verify` computes them again and compares texts.
 * Flow:    the records of steps/rank0.jsonl + resolved recipe -> the "results" object of run.json.
 * Owner:   the caller owns the json_t.
 * Extend:  a new figure is computed here and printed by the writers of reports; verify then covers it by itself.
 *
 * A record: {"step":7,"phase":"timed","repeat":0,"start_ns":..,"end_ns":..,"loss":"0x1.5p+3","grad_norm":"0x1.1p+1","samples":32,
 *            "tokens":3890,"padded_tokens":4096,"learning_rate":..,"state_root":"hex" (where taken), "root_ns":.. (seconds it took),
 *            "device_ns":.. (where the device has a clock of its own)}
 * phase is "init" (step -1: the state root before the first step, no times), "warm-up" or "timed".
 * Times are worker CLOCK_MONOTONIC; records are in order, steps do not overlap.
 */
#ifndef RP_REPORT_RESULTS_H
#define RP_REPORT_RESULTS_H

#include "base/err.h"
#include "recipe/recipe.h"
#include "report/records.h"

#include <jansson.h>

/* Checks on the way that the records follow from the recipe: RP_MISMATCH. complete = 0: an interrupted or failed run may have any
 * prefix of its steps. */
json_t *rp_results(const struct rp_records *rs, const struct rp_recipe *r, double flops_per_sample, int complete, struct rp_err *err)
    rp_must_check;

/* n draws of the headline figure, as its interval is made of them; 0 where fewer than two steps were timed. */
int rp_results_draws(double *out, int n, const struct rp_records *rs);

/* 0 .. n - 1 by SplitMix64, whose state goes on: what every bootstrap here draws with. */
int64_t rp_results_draw(uint64_t *state, int64_t n);

/* Nanoseconds from the start of a timed step to that of the next one of its repeat, without a state root between; the last one of a
 * repeat (next NULL) to its own end. */
int64_t rp_cycle_ns(const struct rp_record *r, const struct rp_record *next);

#endif
