/* JSON Schema, the part of it that our documents use.
 *
 * What:    checks a document against one of the schemas in bundle/schemas/, which are embedded and double as documentation.
 * Flow:    document + schema name -> yes, or the path of the first thing that does not fit.
 * Owner:   nothing is kept.
 * Extend:  a keyword is one row of keywords[] in schema.c; a schema that uses one that is not there is refused, never half applied.
 */
#ifndef RP_BUNDLE_SCHEMA_H
#define RP_BUNDLE_SCHEMA_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

const char *rp_schema_text(const char *name, size_t *size); /* "run", "step", "statement", "env"; NULL if there is none of that name */
json_t *rp_schema_load(const char *name, struct rp_err *err) rp_must_check; /* parsed once by callers that check many lines */
/* RP_MALFORMED with `what` and the path of the value: "run.json: /results/windows/0/seconds is not a number" */
int rp_schema_check(const json_t *schema, const json_t *doc, const char *what, struct rp_err *err) rp_must_check;

#endif
