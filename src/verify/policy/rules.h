/* The rules of a policy: one function each, in rules_origin.c, rules_figures.c and rules_evidence.c.
 *
 * What:    rp_rule_<id>() of every row of policy.def, and the answer that it gives.
 * Flow:    the state of a verification whose other checks are done -> an answer -> rp_check_policy() in rules.c.
 * Owner:   rp_check_policy() frees the text.
 * Extend:  see policy.h.
 */
#pragma once

#include "verify/policy/policy.h"
#include "verify/state.h"

struct rp_answer {
    const struct rp_rule *rule;
    int holds, remark; /* remark: it holds, and the text has to be shown anyway */
    char *text;        /* whole: digests and names are what the reader compares with the policy */
};

/* Replaces the answer. */
void rp_answer(struct rp_answer *a, int holds, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Is it a word of the rule? */
int rp_answer_lists(const struct rp_answer *a, const char *word);

#define RULE(id, of, type, example, meaning) void rp_rule_##id(const struct rp_verify_state *s, struct rp_answer *a);
#include "verify/policy/policy.def"
#undef RULE
