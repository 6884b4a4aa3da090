/* run.json: the record of a run in one document (schema repro-run/3).
 *
 * What:    builds it; bundle/schemas/run.schema.json documents the layout.
 * Flow:    struct rp_run_doc (borrowed parts) -> json_t.
 * Owner:   the caller owns the result; nothing of the parts is kept.
 * Extend:  a field in the struct, a line in rp_run_json(), a property in the schema.
 */
#pragma once

#include "base/err.h"
#include "recipe/recipe.h"
#include "run/agreement.h"
#include "run/records.h"
#include "run/telemetry.h"

#include <jansson.h>
#include <stdint.h>

#define RP_RUN_SCHEMA "repro-run/3" /* sign/statement.h has the predicate's, and refuses the version before */

struct rp_run_doc {
    const char *status; /* "complete", "incomplete", "failed" */
    const char *reason; /* of the last two, else NULL */
    const struct rp_recipe *recipe;
    const json_t *data; /* {"pinned", "archive", "archive_sha256", "digest"} */
    const json_t *init; /* rp_checkpoint_check() of the files that it started from; NULL: none */
    const json_t *plan; /* rp_plan_to_json(): batch, parameters, bytes per tensor class, FLOPs and their formula */
    const char *backend;  /* "cpu" */
    const json_t *device; /* rp_device_json(), or NULL if the worker did not report it */
    const json_t *done;           /* body of the DONE record of the slowest rank, or NULL: worker/job.h */
    const json_t *world;              /* rp_world_json() */
    const struct rp_records *records; /* of all ranks: records.h */
    const struct rp_telemetry *telemetry; /* of the only rank, or NULL; of several, world has the figures of each */
    const char *no_telemetry;             /* reason for missing telemetry; NULL: the backend has none */
    const json_t *before, *after;     /* captures, whose changes are listed; NULL: left out */
    uint64_t started_ns, ended_ns; /* wall clock */
    const json_t *command_line;    /* array of texts; NULL: left out */
    const json_t *replicates;      /* {"statement", "bundle", "signer"} of the original of this run, or NULL */
    const struct rp_agreement_side *first; /* that run */
    const json_t *challenge;       /* rp_challenge_json() of the challenge that the run answers, or NULL */
    const json_t *ledger;          /* the place of the run in the ledger; NULL: left out */
};

/* What follows from the recipe alone: {"name", "sample_unit", "loss_parts", "counters"}; "repro-fp32/1". Verify compares both. */
json_t *rp_run_model(const struct rp_recipe *r);
const char *rp_run_numerics(const struct rp_recipe *r);
/* Also computes the results, so records that disagree with the recipe are refused: RP_MISMATCH. */
json_t *rp_run_json(const struct rp_run_doc *d, struct rp_err *err) rp_must_check;
