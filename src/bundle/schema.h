/* JSON Schema, the part of it that our documents use.
 *
 * What:    checks a document against one of the schemas in bundle/schemas/, which are embedded and double as
 *          documentation.
 * Flow:    name -> struct rp_schema, compiled; document + schema -> 0, or the path of the first value that does not
 *          fit.
 * Owner:   an embedded schema is compiled once and stays for the life of the process, for all its threads; another is
 *          the caller's.
 * Extend:  a keyword is one row of keywords[] in schema.c; a schema with an unknown keyword is refused.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

/* "step", "telemetry", "statement", "env"; NULL if there is none of that name */
const char *rp_schema_text(const char *name, size_t *size);
struct rp_schema;
/* one of those; not to be freed */
const struct rp_schema *rp_schema_load(const char *name, struct rp_err *err) rp_must_check;
/* Compiles any schema document, which is kept and must not change; RP_BUG: it uses a keyword that is not supported. */
struct rp_schema *rp_schema_new(const json_t *schema, struct rp_err *err) rp_must_check;
void rp_schema_free(struct rp_schema *s); /* NULL is fine */
/* RP_MALFORMED with `what` and the path of the value: "run.json: /results/windows/0/seconds is not a number" */
int rp_schema_check(const struct rp_schema *schema, const json_t *doc, const char *what,
                    struct rp_err *err) rp_must_check;
/* A text parsed, and checked against the schema of that name. */
json_t *rp_schema_parse(const char *schema, const char *data, size_t size, const char *what,
                        struct rp_err *err) rp_must_check;
