/* How a run agrees with the original run that it replicates.
 *
 * What:    the "agreement" of run.json: bits, throughput, settings and machine of two runs compared. `replicate` writes it,
 *          `verify --original` recomputes it from both bundles.
 * Flow:    two verified runs -> JSON.
 * Owner:   sides are borrowed; the caller owns the JSON.
 * Extend:  another part is a function in agreement.c, a property in bundle/schemas/run.schema.json and rows in report/md.c.
 *
 * {"bits": {"equal": bool or null if no step is on both sides, "steps", "roots": compared,
 *           "first_difference": null or {"step", "quantity", "original", "replication"}},
 *  "throughput": {"original", "replication", "ratio": replication / original, "interval": [low, high] or null, "level", "method"},
 *  "settings": [{"key", "original", "replication"}...] that differ,
 *  "environment": [{"field", "impact", "volatile", "original", "replication"}...] before the runs; values hidden on both sides are
 *  left out}
 */
#pragma once

#include "base/err.h"
#include "run/records.h"

#include <jansson.h>

struct rp_agreement_side {
    const json_t *run;    /* run.json; of it recipe, plan and results */
    const json_t *before; /* capture */
    const struct rp_records *records;
};
json_t *rp_agreement(const struct rp_agreement_side *first, const struct rp_agreement_side *here, struct rp_err *err) rp_must_check;

/* The key of a replication's keyed roots, in hex: SHA-256("repro-keyed/1\n" || fingerprint of its signer || "\n" || SHA-256 of the original's
 * statement || "\n"). */
void rp_agreement_key(char hex[RP_SHA256_HEX], const char *signer, const char *statement);

/* May this key differ between a run and its original? Keys of the machine, and names of files. */
int rp_agreement_free(const char *key);
/* Are the values of a key of two recorded recipes equal? A batch size of max counts as the number that the run found. */
int rp_agreement_same(const char *key, const json_t *first_run, const json_t *here_recipe, int64_t here_batch);
