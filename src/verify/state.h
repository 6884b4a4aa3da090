/* What the checks hand to each other, in the order of checks.def: inner header of verify/.
 *
 * What:    the bundle and, as checks pass, its parsed parts.
 * Flow:    a check may use what earlier fatal checks filled in.
 * Owner:   rp_verify() frees everything.
 * Extend:  a part that several checks need gets a field here.
 */
#ifndef RP_VERIFY_STATE_H
#define RP_VERIFY_STATE_H

#include "backend/backend.h"
#include "bundle/bundle.h"
#include "recipe/recipe.h"
#include "report/records.h"
#include "report/samples.h"
#include "sign/dsse.h"
#include "verify/verify.h"

struct rp_verify_state {
    const char *path;
    const struct rp_verify_opts *o;
    struct rp_verification *v;
    int fd;                       /* container: the file, for members that were left out; -1 */
    struct rp_bundle bundle;      /* container */
    struct rp_envelope envelope;  /* signature */
    struct rp_key_pair *key;      /* signature: of key.pem */
    json_t *statement;            /* statement */
    json_t *run, *before, *after; /* schema */
    struct rp_records records;    /* schema */
    struct rp_samples samples;    /* samples; n 0: none */
    struct rp_recipe recipe;      /* schema: the recorded settings, with the batch size that was planned */
};

/* 0 passed (or result->state set to RP_CHECK_NOTE or RP_CHECK_SKIPPED), -1 failed with the message in *err; result->text is what a
 * pass has to say. */
#define VERIFY(id, severity, proves, how)                                                                                       \
    int rp_check_##id(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;
#include "verify/checks.def"
#undef VERIFY

/* The recorded value of a key of the recipe, or NULL. */
const json_t *rp_verify_setting(const struct rp_verify_state *s, const char *key);
/* The run says that the very sources of this program made it, and nothing else. */
int rp_verify_same_build(const struct rp_verify_state *s);
/* Seconds since 1970 of a time of a document that passed its schema; NaN for a day that no calendar has. */
double rp_verify_wall(const json_t *j, const char *key);
int64_t rp_verify_steps(const json_t *run); /* of its results: warm-up and timed */
int rp_verify_cpu(struct rp_device_info *out, const json_t *run); /* its device; -1 where that is not a CPU */

/* A reason for a lower clock that says nothing about heat or power. */
int rp_verify_harmless(const char *reason);
int rp_verify_few_samples(const struct rp_verify_state *s); /* less than half of what the timed windows have room for */

/* A line for each counter-signature that holds. */
void rp_signatures_text(struct rp_buf *out, const struct rp_verification *v);

/* Printable ASCII into the result's text. */
void rp_check_say(struct rp_check_result *result, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The first place where two documents differ: "results/flops_per_s is 9, expected 3.5", into text. 0 when they are equal. */
int rp_check_differ(char *text, size_t size, const json_t *is, const json_t *expected);

#endif
