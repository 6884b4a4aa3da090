/* How a run agrees with the original run that it replicates.
 *
 * What:    the "agreement" of run.json: bits, throughput, settings and machine of two runs compared. `replicate`
 *          writes it, `verify --original` computes it again from both bundles.
 * Flow:    two verified runs -> struct rp_agreement.
 * Owner:   sides are borrowed; the agreement owns what it holds.
 * Extend:  another part is an object of figures.def, a function in agreement.c and rows in report/tables.c.
 */
#pragma once

#include "base/err.h"
#include "run/facts.h"
#include "run/records.h"

#include <jansson.h>

struct rp_agreement_side {
    const struct rp_facts *facts;     /* recipe and plan */
    const struct rp_figures *figures; /* results */
    const json_t *before;             /* capture of node 0 */
    const struct rp_records *records;
};
/* After a failure, too, *out is to be freed. */
int rp_agreement_derive(struct rp_agreement *out, const struct rp_agreement_side *first,
                        const struct rp_agreement_side *here, struct rp_err *err) rp_must_check;

/* The key of a replication's keyed roots, in hex: SHA-256("repro-keyed/1\n" || fingerprint of its signer || "\n" ||
 * SHA-256 of the original's statement || "\n"). */
void rp_agreement_key(char hex[RP_SHA256_HEX], const char *signer, const char *statement);

/* May this key differ between a run and its original? Keys of the machine, and names of files. */
int rp_agreement_free(const char *key);
/* Are the values of a key of two recorded recipes equal? A batch size of max counts as the number that the run found.
 * */
int rp_agreement_same(const char *key, const struct rp_facts *original, const json_t *here_recipe, int64_t here_batch);
