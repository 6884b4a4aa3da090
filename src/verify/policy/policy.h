/* A policy: what a recipient requires of a bundle beyond verification.
 *
 * What:    the rules of policy.def, from a YAML file of their own; unknown rules and checks are errors with line and
 *          column.
 * Flow:    bytes -> struct rp_policy -> the row "policy" of a verification, and one answer for each rule.
 * Owner:   rp_policy_fini() frees the words.
 * Extend:  one row in policy.def and one function rp_rule_<id>() in the rules_*.c of its theme.
 */
#pragma once

#include "base/err.h"
#include "bundle/bundle.h"

#include <stddef.h>
#include <stdint.h>

#define RP_POLICY_MAX (64u << 10)    /* bytes of a policy */
#define RP_POLICY_WORDS 1024         /* of one list */
#define RP_POLICY_CHECKS 64          /* at least as many as there are in checks.def */

enum rp_rule_id {
#define RULE(id, of, type, example, meaning) RP_RULE_##id,
#include "verify/policy/policy.def"
#undef RULE
    RP_RULE_COUNT
};

struct rp_rule {
    int line, col; /* of its value; line 0: not given */
    int64_t number; /* of I, N and B */
    double rate;    /* of R; its unit is the word */
    double share;   /* of P */
    char **word;    /* [n] of L, E, D, W, R and V */
    int n;
};

struct rp_policy {
    struct rp_rule rule[RP_RULE_COUNT];
    int worst[RP_POLICY_CHECKS]; /* enum rp_check_state by enum rp_check_id; 0: not given */
};

/* file: name in messages, which read "file:line:column: ...". */
int rp_policy_parse(struct rp_policy *out, const char *data, size_t size, const char *file,
                    struct rp_err *err) rp_must_check;
int rp_policy_load(struct rp_policy *out, const char *path, struct rp_err *err) rp_must_check;
void rp_policy_fini(struct rp_policy *p);
/* Is it the fingerprint of one of `signed_by`? */
int rp_policy_names(const struct rp_policy *p, const char *fingerprint);
/* A row of policy.def. */
struct rp_rule_text {
    const char *id, *example, *meaning;
    char type;
    enum rp_bundle_kind of; /* RP_BUNDLE_RUN: no command meets it */
};
const struct rp_rule_text *rp_rule_text(int id);
