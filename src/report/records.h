/* Raw step records, parsed: the lines of steps/rank0.jsonl as structs.
 *
 * What:    one pass over the bytes; every line checked for form (as strictly as bundle/schemas/step.schema.json), order and times.
 * Flow:    JSON lines -> struct rp_records.
 * Owner:   struct rp_records owns its array; rp_records_fini().
 * Extend:  a field here, a line in parse_step(), a property in bundle/schemas/step.schema.json.
 */
#ifndef RP_REPORT_RECORDS_H
#define RP_REPORT_RECORDS_H

#include "base/err.h"
#include "base/hash.h"
#include "recipe/recipe.h"

#include <stddef.h>
#include <stdint.h>

struct rp_record {
    int64_t step, repeat; /* step -1: the state before the first step; it has only a root */
    int timed;
    int64_t start_ns, end_ns, root_ns;
    int64_t device_ns; /* from the first to the last work of the step by the device's clock; -1: it has none of its own */
    int64_t samples, tokens, padded_tokens;
    double learning_rate;
    char loss[32], grad_norm[32];  /* hex floats as written */
    char state_root[RP_SHA256_HEX]; /* "" where none was taken */
};
struct rp_records {
    struct rp_record *r;
    int64_t n;
    char sha256[RP_SHA256_HEX]; /* of the bytes */
};

/* Form: RP_MALFORMED with the line number. Numbers that cannot be (not finite, time running backwards): RP_MISMATCH. */
int rp_records_parse(struct rp_records *out, const char *text, size_t size, struct rp_err *err) rp_must_check;
/* Do they follow from the recipe: phases, repeats, samples per step, learning rates (not of a run that began from a file: how many
 * steps that had behind it is not recorded); complete: all steps, and roots at both ends. */
int rp_records_match(const struct rp_records *rs, const struct rp_recipe *r, int complete, struct rp_err *err) rp_must_check;
void rp_records_fini(struct rp_records *rs);

#endif
