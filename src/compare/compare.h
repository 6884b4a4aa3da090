/* Comparison: are results comparable, and if so, by how much do they differ?
 *
 * What:    a verdict per pair with all confounders, then ratios with bootstrap intervals, scaling, differences of
 *          machines.
 * Flow:    struct rp_rows -> rp_compare() -> struct rp_comparison -> JSON, or rp_compare_show() for people.
 * Owner:   the caller owns the comparison and frees it with rp_comparison_fini(); the rows are borrowed.
 * Extend:  a confounder is one row of confounders.def, what a comparison has one of comparison.def. Facts and
 *          figures that have a label in run/facts.def or
 *          run/figures.def are compared.
 */
#pragma once

#include "capture/env_diff.h"
#include "compare/result.h"
#include "report/doc.h"

#define RP_OBJECT_LIST "compare/comparison.def"
#include "base/object_structs.inc.h"

#define RP_COMPARISON_SCHEMA "repro-compare/1"
#define RP_LAYOUT_SCHEMA "repro-layout/1" /* tables of a layout */

struct rp_run; /* run/run.h */

enum rp_comparable { RP_COMPARABLE, RP_COMPARABLE_WITH_RESERVATIONS, RP_NOT_COMPARABLE };
const char *rp_comparable_text(enum rp_comparable verdict); /* "comparable", ... */

/* Removes rows of whole tables with another model than the first row; returns how many. A bundle, a document or table
 * of one result, or a result chosen by a selector stays. models: the models removed, "gpt, resnet50-v1.5". */
int rp_compare_narrow(struct rp_rows *rows, struct rp_buf *models);

/* Completes the error of an operand that was refused as a result: if it is a log of a known format, or a folder with
 * such logs, *err names the import to run instead. Returns -1. */
int rp_refuse_log(const char *path, struct rp_err *err);

void rp_comparison_fini(struct rp_comparison *c);
#define RP_COMPARISON __attribute__((cleanup(rp_comparison_fini))) struct rp_comparison
json_t *rp_comparison_json(const struct rp_comparison *c);

/* Every row against the first. *verdict is the worst of all pairs. *out is finished by the caller, also after a
 * failure. */
int rp_compare(struct rp_comparison *out, const struct rp_rows *rows, enum rp_comparable *verdict,
               struct rp_err *err) rp_must_check;
/* The order of pairs. nearest: those with the fewest and smallest confounders; ratio: the highest. */
#define RP_COMPARE_ORDERS "nearest|ratio|given"
enum rp_compare_order { RP_ORDER_nearest, RP_ORDER_ratio, RP_ORDER_given };
void rp_compare_sort(struct rp_comparison *c, enum rp_compare_order order);
/* Text and Markdown. why: all confounders, facts and machines that differ, which a single pair has anyway. */
void rp_compare_show(struct rp_doc *out, const struct rp_rows *rows, const struct rp_comparison *c, int why);
/* one table: for CSV */
void rp_compare_flat(struct rp_doc *out, const struct rp_rows *rows, const struct rp_comparison *c);

/* n bootstrap resamples of the figure, those of a base with another seed; free() it. Needs row->samples >= 1. */
double *rp_result_resample(const struct rp_result *row, int n, int is_base);
/* Computes the interval of an imported row from its samples, if it has none and its figure is that of its samples. */
void rp_result_interval(struct rp_result *row);
double rp_result_estimate(const struct rp_result *row); /* the figure of its samples; NaN without any */
/* A figure that differs from that of its samples has another estimator, to which their interval does not apply. */
int rp_result_is_of_samples(const struct rp_result *row); /* 0 where either is unknown */

/* Differences of two machines that are reservations: of high impact, and not covered by another confounder. */
struct rp_machines_named {
    size_t n;
    struct rp_buf a, b; /* "cpu.cores 2, cpu.allowed 0-1" */
};
struct rp_machines_high {
    struct rp_machines_named differs, unknown; /* unknown: known on one side only, or not in a comparable form */
};
/* The machines before the runs, of two rows that have captures: "environment" of a pair with its confounders. *high:
 * zeroed and freed by the caller. */
int rp_compare_machines(struct rp_pair *pair, struct rp_machines_high *high, const struct rp_result *a,
                        const struct rp_result *b, struct rp_err *err) rp_must_check;

/* "facts" and "figures" of a pair of bundles, which has its "confounders": every row of facts.def and figures.def that
 * has a label. */
void rp_compare_labelled(struct rp_pair *pair, const struct rp_result *a, const struct rp_result *b);

/* The other load during a run on processors, of its first node that had some, or "none", by the limits of doctor's
 * check of load. */
void rp_result_other_work(struct rp_result *row, const struct rp_run *run);

/* Median, spread and outliers of the most numerous results of one kind: "fleet" of a comparison. At least four, not of
 * a published table. by_digest: outliers are named by their statement, not by their file. */
void rp_fleet(struct rp_comparison *out, const struct rp_rows *rows);
void rp_fleet_show(struct rp_doc *d, const struct rp_rows *rows, const struct rp_fleet *f /* or NULL */, int by_digest);

/* Speed-ups of rows that differ in nothing but the number of devices, against the fewest of them: "scaling" of a
 * comparison, whose notes get oddities. Bundles may also differ in the layout of their ranks and in the micro-batches
 * of a step, which the table shows. */
void rp_scaling(struct rp_comparison *out, const struct rp_rows *rows);
/* Adds to the notes why a bundle is not in that list: how it differs from the bundle that is most like it. */
void rp_scaling_explain(struct rp_comparison *out, const struct rp_rows *rows);
void rp_scaling_table(struct rp_doc *d, const struct rp_rows *rows, const struct rp_scaling_entry *list, int64_t n);
