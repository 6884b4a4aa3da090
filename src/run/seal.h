/* facts.json of a run that just ended.
 *
 * What:    what the recipe, the launcher, the workers and the session said, as struct rp_facts.
 * Flow:    struct rp_seal -> rp_facts_seal() -> rp_derive() -> rp_run_documents_write() -> members of the bundle.
 * Owner:   the parts are borrowed; rp_object_fini() frees the facts.
 * Extend:  a fact is a row of facts.def and a line in rp_facts_seal(), or in what a worker sends: worker/job.h.
 */
#pragma once

#include "comm/comm.h"
#include "recipe/recipe.h"
#include "run/run.h"
#include "train/train.h"

struct rp_seal {
    const char *status, *reason;   /* reason: why it is not complete, without names (rp_run_reason_text); NULL: it is */
    uint64_t started_ns, ended_ns; /* wall clock */
    const struct rp_recipe *recipe;
    int identified;      /* names of folders are not hidden */
    const char *backend; /* "cpu" */
    const json_t *data;  /* {"pinned", "archive", "archive_sha256", "digest"} */
    const json_t *init;  /* rp_checkpoint_check() of the files that it started from; NULL: none */
    const struct rp_plan *plan;
    const json_t *launch,
        *processes; /* what started the processes of the job, and who is where (launch/join.h); NULL: there was one */
    struct rp_degrees degrees;                /* ranks of each kind */
    const int *host;                          /* [ranks] number of each rank's node; NULL: one node */
    const json_t *const *hello, *const *done; /* [ranks] as in worker/job.h; each may be NULL */
    const char *const *no_telemetry;          /* [ranks] why there is none, or NULL */
    int slowest;                              /* rank whose ceilings and tensor roots are recorded */
    const json_t *ledger;                     /* rp_attempt_json() */
    const json_t *challenge;                  /* rp_challenge_json() of the challenge that the run answers, or NULL */
    const json_t *replicates; /* {"statement", "bundle", "signer"} of the original of this run, or NULL */
};
void rp_facts_seal(struct rp_facts *out, const struct rp_seal *s);

void rp_build_facts_seal(struct rp_build_facts *out); /* of this program */
struct rp_class_bytes rp_class_bytes_of(const struct rp_plan *p);
/* facts_json and figures_json of structs that are filled: of a run or of a command. */
void rp_run_documents_write(struct rp_run_documents *d);
