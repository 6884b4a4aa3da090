/* Comparison: are results comparable, and if so, by how much do they differ?
 *
 * What:    a verdict per pair with all confounders, then ratios with bootstrap intervals, scaling, differences of machines.
 * Flow:    struct rp_rows -> rp_compare() -> one JSON document -> rp_compare_show() for people.
 * Owner:   the caller owns the document; the rows are borrowed.
 * Extend:  a confounder is one row of confounders.def. Facts and figures that have a label in run/facts.def or
 *          run/figures.def are compared.
 */
#pragma once

#include "report/doc.h"
#include "compare/result.h"

struct rp_run; /* run/run.h */

enum rp_comparable { RP_COMPARABLE, RP_COMPARABLE_WITH_RESERVATIONS, RP_NOT_COMPARABLE };
const char *rp_comparable_text(enum rp_comparable verdict); /* "comparable", ... */

/* Removes rows of whole tables with another model than the first row; returns how many. A bundle, a document or table of one result, or a
 * result chosen by a selector stays. models: the models removed, "gpt, resnet50-v1.5". */
int rp_compare_narrow(struct rp_rows *rows, struct rp_buf *models);

/* Every row against the first:
 * {"schema": "repro-compare/1", "verdict", "rows": [row...],
 *  "pairs": [{"a": 0, "b": i, "verdict",
 *             "confounders": [{"key", "name", "kind", "state": "differs" | "unknown" | "unsigned", "a", "b", "why"}],
 *             "ratio": {"value": b / a, "per_device", "low", "high", "level", "replicates", "no_interval"}, "no_ratio": why not,
 *             "environment": {"important": [D...], "other", "not_compared"},
 *             "facts": [{"name", "unit", "a", "b"}], of bundles: labelled values of facts.json that differ,
 *             "figures": [the same], all of run.json}],
 *  "scaling": [{"row", "base", "devices", "base_devices", "speedup", "efficiency", "global_batch": "constant" | "proportional" to the
 *               devices | "other", "claimed"}], "notes": [text...]}
 * and "left_out", how many results, where --all was not given and some are of another model.
 * Unknown values are null. *verdict is the worst of all pairs. */
json_t *rp_compare(const struct rp_rows *rows, enum rp_comparable *verdict, struct rp_err *err) rp_must_check;
void rp_compare_show(struct rp_doc *out, const struct rp_rows *rows, const json_t *comparison);
void rp_compare_flat(struct rp_doc *out, const struct rp_rows *rows, const json_t *comparison); /* one table: for CSV */

/* n bootstrap resamples of the figure, those of a base with another seed; free() it. Needs row->samples >= 1. */
double *rp_result_resample(const struct rp_result *row, int n, int is_base);
/* Computes the interval of an imported row from its samples, if it has none and its figure is that of its samples. */
void rp_result_interval(struct rp_result *row);
double rp_result_estimate(const struct rp_result *row); /* the figure of its samples; NaN without any */
/* A figure that differs from that of its samples has another estimator, to which their interval does not apply. */
int rp_result_is_of_samples(const struct rp_result *row); /* 0 where either is unknown */

/* Differences of two machines that are reservations: of high effect, and not covered by another confounder. */
struct rp_machines_named {
    size_t n;
    struct rp_buf a, b; /* "cpu.cores 2, cpu.allowed 0-1" */
};
struct rp_machines_high {
    struct rp_machines_named differs, unknown; /* unknown: known on one side only, or not in a comparable form */
};
/* The machines before the runs, of two rows that have captures: "environment" of a pair. *high: zeroed and freed by the caller. */
json_t *rp_compare_machines(struct rp_machines_high *high, const struct rp_result *a, const struct rp_result *b, const json_t *confounders,
                            struct rp_err *err) rp_must_check;

/* "facts" and "figures" of a pair of bundles, which has its "confounders": every row of facts.def and figures.def that
 * has a label. */
void rp_compare_labelled(json_t *pair, const struct rp_result *a, const struct rp_result *b);

/* The other load during a run on processors, of its first node that had some, or "none", by the limits of doctor's
 * check of load. */
void rp_result_other_work(struct rp_result *row, const struct rp_run *run);

/* Speed-ups of rows that differ in nothing but the number of devices, against the fewest of them: "scaling" of a comparison. Bundles may
 * also differ in the layout of their ranks and in the micro-batches of a step, which the table shows. notes: oddities are added. */
json_t *rp_scaling(const struct rp_rows *rows, json_t *notes);
/* Adds why a bundle is not in that list: how it differs from the bundle that is most like it. */
void rp_scaling_explain(const struct rp_rows *rows, const json_t *list, json_t *notes);
void rp_scaling_table(struct rp_doc *d, const struct rp_rows *rows, const json_t *list);
