/* The in-toto Statement v1 that is signed: which files, with which digests, and the run's key figures.
 *
 * What:    {"_type", "subject": [{"name", "digest": {"sha256"}}], "predicateType", "predicate"}
 * Flow:    subjects + run.json -> statement; statement -> the signed digest of a name.
 * Owner:   json_t are reference counted; subject arrays are borrowed.
 * Extend:  another key figure is one line in rp_statement_predicate(); verify rebuilds the predicate and compares.
 */
#pragma once

#include "base/err.h"
#include "base/object.h"

#include <jansson.h>

#define RP_OBJECT_LIST "sign/statement.def"
#include "base/object_structs.inc.h"

#define RP_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define RP_PREDICATE_TYPE "urn:repro:run:4"

struct rp_subject {
    const char *name;
    char sha256[65];
};

/* RP_VERSION for a run.json or statement of an earlier or later version, which this program does not read; 0 for
 * anything else. */
int rp_statement_version(const json_t *j, const char *what, struct rp_err *err) rp_must_check;
/* The predicate: schema version, status, the build that ran, and the key figures; of a command (the schema of run.json
 * tells) the rate of its log. sha256: of the bytes of run.json. */
json_t *rp_statement_predicate(const json_t *facts, const json_t *run, const char *sha256);
json_t *rp_statement(const struct rp_subject *subject, int n, json_t *predicate /* reference taken */);

/* Checks the form of a parsed payload and fills at most max subjects, with names borrowed from j; returns their number
 * or -1. */
int rp_statement_subjects(const json_t *j, struct rp_subject *subject, int max, struct rp_err *err) rp_must_check;
