/* A policy: every rule that it has, against the findings of the other checks. */
#include "verify/policy/rules.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define REASONS_BYTES 420 /* of a message of 512; longer ones are only in the list of rules */

void rp_answer(struct rp_answer *a, int holds, const char *fmt, ...)
{
    char *had = a->text;
    RP_ASPRINTF_ARGS(a->text, fmt);
    free(had);
    a->holds = holds;
}

int rp_answer_lists(const struct rp_answer *a, const char *word)
{
    for (int i = 0; i < a->rule->n; i++)
        if (strcmp(word, a->rule->word[i]) == 0)
            return 1;
    return 0;
}

/* What only a run can meet, and a bundle of a command at all, which a policy has to allow. 0, or -1 with the answer. */
static int check_kind(const struct rp_verify_state *s, int rule, struct rp_answer *a)
{
    if (!s->run.doc->command || rp_rule_text(rule)->of != RP_BUNDLE_RUN)
        return 0;
    rp_answer(a, 0, "the bundle is of a command, which this program did not train");
    return -1;
}

/* Rules for runs were not written for the log of another program: a bundle of a command is accepted only with
 * `commands`. */
static int is_refused_command(const struct rp_verify_state *s, int rule)
{
    return rule == RP_RULE_commands && s->run.doc->command && !s->o->policy->rule[rule].line;
}

/* Takes the text of the answer. */
static const struct rp_policy_answer *add_row(struct rp_policy_list *list, int rule, const struct rp_answer *a)
{
    struct rp_policy_answer *row = rp_object_add(&list->row, &list->row_n, &rp_type_policy_answer);
    const size_t size = strlen(a->text) + 1;
    RP_FREE char *text = a->text;
    row->rule = rp_strdup(rp_rule_text(rule)->id);
    row->holds = a->holds;
    row->text = rp_alloc(size);
    rp_ascii(row->text, size, text);
    return row;
}

int rp_check_policy(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    static void (*const rules[])(const struct rp_verify_state *, struct rp_answer *) = {
#define RULE(id, of, type, example, meaning) rp_rule_##id,
#include "verify/policy/policy.def"
#undef RULE
    };
    const struct rp_policy *p = s->o->policy;
    int rules_given = 0, broken = 0, remarks = 0;
    RP_BUF names = {0}, reasons = {0}, first = {0}; /* of the broken rules; the first remark of one that holds */
    if (!p)
        return rp_check_skip(result, "not requested; --policy FILE gives the rules that the bundle must meet");
    s->v->policy = rp_alloc(sizeof *s->v->policy);
    for (int i = 0; i < RP_RULE_COUNT; i++) {
        struct rp_answer a = {.rule = &p->rule[i]};
        if (!p->rule[i].line && !is_refused_command(s, i))
            continue;
        rules_given++;
        if (is_refused_command(s, i))
            rp_answer(&a, 0,
                      "the bundle is of a command, " RP_MEASURED_BY_LOG ": `commands: true` accepts such bundles");
        else if (check_kind(s, i, &a) == 0)
            rules[i](s, &a);
        const struct rp_policy_answer *row = add_row(s->v->policy, i, &a);
        if (a.holds && a.remark && !remarks++)
            rp_buf_printf(&first, "%s: %s", row->rule, row->text);
        if (!a.holds) {
            rp_buf_printf(&names, "%s%s", broken ? ", " : "", row->rule);
            rp_buf_printf(&reasons, "%s%s: %s", broken++ ? "; " : "", row->rule, row->text);
        }
    }
    if (broken)
        return rp_fail(err, RP_POLICY, "%d of %d rule%s of your policy %s broken: %s", broken, rules_given,
                       rp_s(rules_given), broken == 1 ? "is" : "are",
                       rp_buf_text(reasons.size <= REASONS_BYTES ? &reasons : &names));
    if (remarks)
        return rp_check_note(result, rules_given == 1 ? "%d rule holds; %s" : "%d rules hold; %s", rules_given,
                             first.size <= REASONS_BYTES ? rp_buf_text(&first) : "with a remark (--json has it)");
    return rp_check_text(result, rules_given == 1 ? "%d rule holds" : "%d rules hold", rules_given);
}
