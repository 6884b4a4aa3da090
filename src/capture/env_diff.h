/* Comparison of two captures: differences, values that cannot be compared, and their likely impact on throughput.
 *
 * What:    one walk over both documents; `repro capture diff` shows its result, a run lists it for its two captures,
 *          `verify` repeats it.
 * Flow:    two documents of the form of bundle/schemas/env.schema.json -> struct rp_capture_comparison, with the grades
 *          of fields.def.
 * Owner:   the caller; rp_capture_comparison_fini() frees it, also after a failure.
 * Extend:  a field is graded in fields.def; nothing here names one. What a difference has is a row of env_diff.def.
 */
#pragma once

#include "base/object.h"

/* A side of a difference: the value with its state and unit, or of a whole group how many known values it has. */
#define RP_SCHEMA_SIDE                                                                                                 \
    "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"state\": {\"enum\": [\"ok\", "         \
    "\"absent\", \"denied\", \"error\"]}, \"value\": {\"type\": [\"string\", \"number\", \"array\", \"null\"], "       \
    "\"items\": {\"type\": \"string\"}}, \"unit\": {\"type\": \"string\"}, \"values\": {\"type\": \"integer\"}}}"

#define RP_OBJECT_LIST "capture/env_diff.def"
#include "base/object_structs.inc.h"

/* Equal: also the limit "max" and none at all, and sizes of memory that differ by less than 1 % (APPROX in fields.def);
 * not equal: the same number in two units. Fails only for names that no capture has: RP_MALFORMED. */
int rp_capture_compare(struct rp_capture_comparison *out, const json_t *a, const json_t *b,
                       struct rp_err *err) rp_must_check;

/* The changes of a node in run.json: all differences as one list, `different`, value by value, and only identical
 * values are equal: except for the grades it does not depend on fields.def, so that later versions compute the same
 * list. */
int rp_capture_changes(struct rp_capture_comparison *out, const json_t *before, const json_t *after,
                       struct rp_err *err) rp_must_check;
void rp_capture_comparison_fini(struct rp_capture_comparison *c);
#define RP_CAPTURE_COMPARISON __attribute__((cleanup(rp_capture_comparison_fini))) struct rp_capture_comparison

/* Is a difference or such a change a setting that is likely to change the throughput: of high or medium impact, and not
 * volatile? A figure measured across such a difference describes neither side. */
int rp_change_matters(const char *impact, int varies);
int rp_capture_important(const struct rp_difference *d);
/* The words of `list` that `other` lacks, as a new list; NULL unless both are lists of at most 4096 words. */
json_t *rp_capture_only_here(const json_t *list, const json_t *other);
