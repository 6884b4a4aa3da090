/* Figures from ceilings: the peak rates of the device before and after a run, and the share of them that the run achieved.
 *
 * What:    rates of the repetitions that worker/measure_ceilings.h measured; `run` publishes them, `verify` recomputes them.
 * Flow:    {"before", "after"}: raw or with rates, and the results of the run -> the "ceilings" object of run.json.
 * Owner:   the caller owns the result.
 * Extend:  another ceiling is a row of kinds[] in ceilings.c and its key in bundle/schemas/run.schema.json.
 */
#pragma once

#include <jansson.h>

/* Both sides have passed their schema or come from the worker, of several ranks from the slowest one. Rates that they already contain are
 * ignored. world: of run.json. */
json_t *rp_ceilings_json(const json_t *raw, const json_t *results, const json_t *world);

/* The model's FLOPs count only its GEMMs, so a run stays below the ceiling of a good GEMM, with two exceptions: a GEMM of another shape may
 * be faster, and other work may have slowed the device down before and after the run: a shared processor by a factor of two; an accelerator
 * is seldom shared. */
#define RP_CEILING_SLACK_CPU 2.0
#define RP_CEILING_SLACK_DEVICE 1.25
