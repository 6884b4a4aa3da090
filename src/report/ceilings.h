/* Figures from ceilings: what the device did at best before and after a run, and the share of it that the run achieved.
 *
 * What:    rates of the repetitions that worker/ceilings.h measured; `run` publishes them, `verify` computes them again.
 * Flow:    {"before", "after"}: raw or with rates, and the results of the run -> the "ceilings" object of run.json.
 * Owner:   the caller owns the result.
 * Extend:  another ceiling is a row of kinds[] in ceilings.c and its key in bundle/schemas/run.schema.json.
 */
#ifndef RP_REPORT_CEILINGS_H
#define RP_REPORT_CEILINGS_H

#include <jansson.h>

/* Both sides have passed their schema or come from the worker. What is already computed in them is passed over. */
json_t *rp_ceilings_json(const json_t *raw, const json_t *results);

/* The model's FLOPs are those of its matrix products alone, so that a run stays below the ceiling of a good product. Two things take it
 * above: a product of another shape may be faster, and something else may have slowed the device down before and after the run. On a
 * processor that others use the second is by a factor of two, an accelerator is seldom shared. */
#define RP_CEILING_SLACK_CPU 2.0
#define RP_CEILING_SLACK_DEVICE 1.25

#endif
