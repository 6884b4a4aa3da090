/* Supervision of the workers of a run, one a rank: collects records, shows progress and records how it ended.
 *
 * What:    starts the workers, lets ranks find each other, collects the raw records, reacts to Ctrl-C, hangs, crashes
 *          and kills. One rank that fails ends all.
 * Flow:    job -> frames -> struct rp_outcome.
 * Owner:   struct rp_outcome owns its JSON and bytes; rp_outcome_fini().
 * Extend:  a new frame gets its case in on_frame().
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/term.h"
#include "run/telemetry.h"
#include "worker/group.h"
#include "worker/job.h"

#include <jansson.h>

enum rp_run_status { RP_RUN_COMPLETE, RP_RUN_INCOMPLETE, RP_RUN_FAILED };
const char *rp_run_status_name(enum rp_run_status s); /* "complete", "incomplete", "failed" */

/* What one rank sent. */
struct rp_rank_outcome {
    struct rp_buf steps;     /* bytes of steps/rankN.jsonl */
    struct rp_sampling telemetry;
    json_t *hello, *done;    /* NULL if not received */
    int64_t steps_done, records; /* records: lines of `steps` */
};

struct rp_outcome {
    enum rp_run_status status;
    struct rp_run_reason reason; /* of incomplete and failed */
    int ranks;
    struct rp_rank_outcome *rank; /* [ranks] */
    int64_t steps_done;           /* by every rank */
};
/* One more record; 0: the bundle is full (lines, RP_BUNDLE_MEMBER_MAX bytes), nothing was added. ranks: of the run. */
int rp_outcome_record(struct rp_rank_outcome *o, int ranks, const json_t *record);

/* For a run that ended before all its `steps`: keeps the steps that every rank completed. The roots of the state after
 * the last step belong to its record, which may be missing although a worker went that far: it was not received, or
 * there was no room. */
void rp_outcome_trim(struct rp_outcome *o, int64_t steps);

/* Always fills *o; never fails itself. world: the other processes of the job; NULL: all ranks run on this machine. */
void rp_supervise(struct rp_outcome *o, const struct rp_job *job, struct rp_degrees degrees,
                  const struct rp_job_world *world, struct rp_progress *progress);
void rp_outcome_fini(struct rp_outcome *o);
