/* How a run that repeats another agrees with it.
 *
 * What:    the "agreement" of run.json: bits, throughput, settings and machine of two runs held against each other. `replicate` writes it,
 *          `verify --original` computes it again from both bundles.
 * Flow:    two verified runs -> JSON.
 * Owner:   sides are borrowed; the caller owns the JSON.
 * Extend:  another part is a function in agreement.c, a property in bundle/schemas/run.schema.json and rows in report/md.c.
 *
 * {"bits": {"equal": bool or null where no step is on both sides, "steps", "roots": compared,
 *           "first_difference": null or {"step", "quantity", "first", "here"}},
 *  "throughput": {"first", "here", "ratio": here / first, "interval": [low, high] or null, "level", "method"},
 *  "settings": [{"key", "first", "here"}...] that differ,
 *  "environment": [{"field", "impact", "moment", "first", "here"}...] before the runs; what is hidden on both sides is left out}
 */
#ifndef RP_REPORT_AGREEMENT_H
#define RP_REPORT_AGREEMENT_H

#include "base/err.h"
#include "report/records.h"

#include <jansson.h>

struct rp_agreement_side {
    const json_t *run;    /* run.json; of it recipe, plan and results */
    const json_t *before; /* capture */
    const struct rp_records *records;
};
json_t *rp_agreement(const struct rp_agreement_side *first, const struct rp_agreement_side *here, struct rp_err *err) rp_must_check;

/* May this key differ between a run and one that repeats it: where it runs, and names of files. */
int rp_agreement_free(const char *key);
/* The values of a key of two recorded recipes are the same: a batch size that was found out counts as that number. */
int rp_agreement_same(const char *key, const json_t *first_run, const json_t *here_recipe, int64_t here_batch);

#endif
