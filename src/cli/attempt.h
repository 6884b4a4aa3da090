/* Ledger entries of `run`, `replicate` and `verify`.
 *
 * What:    a line before training and one at its end, or one for a verification. Nothing here fails a command: a line
 *          that cannot be written is reported, and recorded in facts.json.
 * Flow:    recipe or verdict -> ledger/ledger.h; the place of the line -> "ledger" of facts.json.
 * Owner:   struct rp_attempt owns its texts; rp_attempt_fini().
 * Extend:  another key of a line is one json_object_set_new() here, and its description in ledger.h.
 */
#pragma once

#include "base/term.h"
#include "ledger/ledger.h"
#include "verify/verify.h"

#include <jansson.h>

struct rp_attempt {
    int off; /* --no-ledger */
    int on_layer; /* the ledger ends with its container */
    char *path, *recipe, *recipe_name;
    struct rp_ledger_writer writer;
    struct rp_ledger_ref mark;
};

/* The key of a run, and its file. */
struct rp_attempt_key {
    const struct rp_key_pair *pair;
    const char *file;
    int created; /* by this run */
};

/* replicates: digest of the statement of the original, or NULL. The key has to outlive the attempt. */
void rp_attempt_start(struct rp_attempt *a, int off, const struct rp_attempt_key *key, const char *recipe_sha256,
                      const char *recipe_name, const char *replicates, struct rp_progress *progress);
/* "ledger" of facts.json: {"position", "head", "earlier", "at", "begun", ...} or {"reason"} */
json_t *rp_attempt_json(const struct rp_attempt *a);
/* bundle NULL: none was written; statement: SHA-256 of its statement.dsse.json. */
void rp_attempt_end(struct rp_attempt *a, enum rp_ledger_event e, const char *bundle, const char *statement,
                    int exit_status, struct rp_progress *progress);
void rp_attempt_fini(struct rp_attempt *a);

/* A verification, by its verdict, in one line of the record of verifications. */
void rp_attempt_verified(const char *bundle, const struct rp_verification *v, int exit_status,
                         struct rp_progress *progress);
