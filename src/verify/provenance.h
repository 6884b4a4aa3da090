/* Verification of the provenance of a release: what `make dist` signs.
 *
 * What:    an in-toto statement with a predicate of SLSA v1, in a DSSE envelope; its subjects are files next to it.
 * Flow:    path -> signature, key, then digests of the files -> document of `verify --json`.
 * Owner:   the caller frees the document.
 * Extend:  what `make dist` adds to the statement is shown in provenance.c.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>

/* A file named as `make dist` names it (*.intoto.dsse.json) that begins as an envelope does. Under any other name it
 * is a malformed bundle, so that a release cannot pass for a bundle. */
int rp_provenance_is(const char *path);
/* The verdicts are those of a bundle after "release-", except "failed". The key is the file of `trust`, or the key.pem
 * next to the envelope, looked up like that of a bundle. *document stays NULL without a verdict. Returns 0 if verified;
 * errors: RP_MISMATCH if a file differs or is missing; RP_SIGNATURE, RP_MALFORMED and RP_UNKNOWN_KEY as for a
 * bundle. */
int rp_provenance_verify(json_t **document, const char *path, const char *trust, int any_key,
                         struct rp_err *err) rp_must_check;
extern const char rp_provenance_text[]; /* template of the document */
