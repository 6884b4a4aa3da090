/* What a verification proved, level by level.
 *
 * What:    authentic   signed by a key that the verifier named or trusts
 *          consistent  whatever follows from the signed records follows from them
 *          computed    steps were trained again here, with the same bits
 *          timed       others' clocks bound the time that the run can have taken
 *          claimed     the rest: the signer's word
 * Flow:    struct rp_verification -> rows as JSON, the end of the last line, rules of a policy.
 * Owner:   texts are in struct rp_level.
 * Extend:  another level is a row of RP_LEVELS and a case in rp_level_of().
 */
#pragma once

#include "verify/verify.h"

/* Repeated samples in a step up to this share are those at the end of an epoch, and save less than they are. */
#define RP_REPEATED_MOST 0.01
/* Training makes some activations 0 that are not at first, above all those of ReLU: a margin of a fifth. A signer who
 * uses all of it shows a speed 1.25 times as high. */
#define RP_NEEDED_LEAST 0.8

#define RP_LEVELS(X) X(authentic) X(consistent) X(computed) X(timed) X(claimed)
#define RP_LEVEL_ID(name) RP_LEVEL_##name,
enum rp_level_id { RP_LEVELS(RP_LEVEL_ID) RP_LEVEL_COUNT };

/* PART, of consistent: with warnings; of computed: some of the steps; of timed: those that were replayed are not drawn
 * by a challenge, or too few, so the others may be made up; or something else may have saved work. CLAIMED has neither
 * yes nor no. */
enum rp_level_state { RP_LEVEL_NO, RP_LEVEL_PART, RP_LEVEL_YES };
struct rp_level {
    const char *name;
    enum rp_level_state state;
    char text[720];
};

struct rp_level rp_level_of(const struct rp_verification *v, enum rp_level_id id);
/* "same_host, outliers": checks with a warning */
void rp_level_warnings(struct rp_buf *out, const struct rp_verification *v);
/* The probability that a run that skipped half of its steps passed this verification as it was done; 1: nothing was
 * replayed that a signer could not foresee. */
double rp_level_undetected(const struct rp_verification *v);
int rp_level_find(const char *name); /* -1: none has that name */
/* {"authentic": {"reached": "yes", "text"}, ...}, "claimed" without "reached" */
json_t *rp_levels_json(const struct rp_verification *v);
/* "verified: authentic, consistent, computed in part; claimed: speed, machine, other losses"; "FAILED: digests and 2
 * other checks", "not checked: why" and "inconclusive...: why" name no level. */
void rp_levels_line(struct rp_buf *out, const struct rp_verification *v);
