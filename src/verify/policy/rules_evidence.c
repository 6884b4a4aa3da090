/* Rules on what the verification proved: levels, replay, ledger, replication, and the other checks. */
#include "verify/policy/rules.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "verify/levels.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void rp_rule_levels(const struct rp_verify_state *s, struct rp_answer *a)
{
    RP_BUF broken = {0};
    rp_answer(a, 1, "all in the list");
    for (int i = 0; i < a->rule->n; i++) {
        int id = rp_level_find(a->rule->word[i]);
        struct rp_level l = rp_level_of(s->v, (enum rp_level_id)(id < 0 ? RP_LEVEL_claimed : id));
        if (l.state == RP_LEVEL_NO || (id == RP_LEVEL_timed && l.state != RP_LEVEL_YES))
            rp_buf_printf(&broken, "%snot %s: %s", broken.size ? "; " : "", a->rule->word[i], l.text);
        else if (id == RP_LEVEL_consistent && l.state == RP_LEVEL_PART)
            a->remark = 1;
    }
    if (broken.size)
        rp_answer(a, 0, "%s", rp_buf_text(&broken));
    else if (a->remark)
        rp_answer(a, 1, "all in the list; consistent with warnings");
}

void rp_rule_max_undetected(const struct rp_verify_state *s, struct rp_answer *a)
{
    const double p = rp_level_undetected(s->v);
    rp_answer(a, p <= a->rule->share, "%.4g, at most %.4g allowed%s", p, a->rule->share,
              p <= a->rule->share ? "" : " (--draw, --draws)");
}

void rp_rule_replayed(const struct rp_verify_state *s, struct rp_answer *a)
{
    rp_answer(a, s->v->replayed >= a->rule->number, "%" PRId64 " step%s replayed, at least %" PRId64 " required%s",
              s->v->replayed, rp_s(s->v->replayed), a->rule->number,
              s->v->replayed < a->rule->number ? " (--replay)" : "");
}

/* A first line has nothing before it, even if the ledger was begun anew; neither has one that began long after its
 * key was made, or nobody says how long. The rules hold; `checks: {ledger: passed}` refuses such a run. */
static const char *note_first_line(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const char *why = is->position == 1                   ? "; the ledger begins with this run"
                      : !is->key_made                     ? "; when the ledger's key was made is not recorded"
                      : rp_facts_ledger_gap(s->run.facts) ? "; the ledger begins long after its key was made"
                                                          : "";
    a->remark = *why != 0;
    return why;
}

void rp_rule_in_ledger(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    if (is->position > 0)
        rp_answer(a, 1, "line %" PRId64 "%s", is->position, note_first_line(s, a));
    else
        rp_answer(a, 0, "in no ledger: %s", is->reason ? is->reason : "");
}

/* Why the ledger is unknown. A given one that lacks the entry fails the check `ledger` first. */
static const char *ledger_reason(const struct rp_verify_state *s)
{
    return !s->o->ledger ? "unknown: no ledger was given (--ledger)"
           : s->run.facts->ledger.position > 0
               ? "unknown: the given ledger does not have the entry (see the check ledger)"
               : "unknown: the run cites no ledger entry";
}

void rp_rule_ledger_checked(const struct rp_verify_state *s, struct rp_answer *a)
{
    const int recorded = s->v->ledger && s->v->ledger->recorded;
    rp_answer(a, recorded, "%s",
              recorded       ? "found, with this bundle"
              : s->v->ledger ? "found, but its end in this bundle is not recorded"
                             : ledger_reason(s));
}

void rp_rule_max_attempts_before(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const int64_t n = is->earlier;
    if (is->reason || n < 0)
        rp_answer(a, 0, "unknown: the run is in no ledger");
    else
        rp_answer(a, n <= a->rule->number, "%" PRId64 " before it, %" PRId64 " allowed%s%s", n, a->rule->number,
                  s->v->ledger ? "" : "; according to the signer", note_first_line(s, a));
}

void rp_rule_max_failed_before(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_attempts_answer *is = s->v->ledger;
    const int64_t n = is ? is->failed + is->interrupted + is->open : 0;
    if (!is)
        rp_answer(a, 0, "%s", ledger_reason(s));
    else
        rp_answer(a, n <= a->rule->number,
                  "%" PRId64 " earlier runs failed, were interrupted or have no end, %" PRId64 " allowed", n,
                  a->rule->number);
}

/* The original was given and compared. 0, or -1 with the answer. */
static int require_original(const struct rp_verify_state *s, struct rp_answer *a)
{
    if (s->v->original)
        return 0;
    rp_answer(a, 0, "%s",
              s->run.figures->agreement ? "unknown: the original was not given (--original)" : "not a replication");
    return -1;
}

void rp_rule_bits_equal(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_agreement *both = s->run.figures->agreement;
    if (require_original(s, a) < 0)
        return;
    const int equal = both && both->bits.equal > 0;
    const int64_t steps = both ? both->bits.steps : 0, own = rp_figures_steps(s->run.figures),
                  first = s->v->original_steps;
    if (equal && (!s->v->keyed || (s->v->replayed < own && !s->v->drawn)))
        rp_answer(a, 0,
                  "unknown: equal bits can be copied; %" PRId64 " of %" PRId64 " step%s recomputed here with %" PRId64
                  " keyed root%s (--replay of all, or --draw with --received)",
                  s->v->replayed, own, rp_s(own), s->v->keyed, rp_s(s->v->keyed));
    else if (equal && steps >= 1 && steps == own && steps == first)
        rp_answer(a, 1, "equal over %" PRId64 " step%s", steps, rp_s(steps));
    else
        rp_answer(a, 0, "%s over %" PRId64 " step%s; the run has %" PRId64 ", the original %" PRId64,
                  equal ? "equal" : "not equal", steps, rp_s(steps), own, first);
}

void rp_rule_throughput_within_percent(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_agreement *both = s->run.figures->agreement;
    const double off = both ? 100 * fabs(both->throughput.ratio - 1) : NAN;
    if (require_original(s, a) == 0)
        rp_answer(a, off <= (double)a->rule->number,
                  isnan(off) ? "unknown" : "%.2f %% from the original's, %" PRId64 " allowed", off, a->rule->number);
}

void rp_rule_no_warnings(const struct rp_verify_state *s, struct rp_answer *a)
{
    rp_answer(a, 1, "none");
    for (int i = 0; i < RP_CHECK_policy; i++)
        if (s->v->check[i].state == RP_CHECK_WARNING)
            rp_answer(a, 0, "%s: %s", s->v->check[i].name, s->v->check[i].text);
}

void rp_rule_checks(const struct rp_verify_state *s, struct rp_answer *a)
{
    RP_BUF broken = {0}; /* the text of each check stands in its own row */
    rp_answer(a, 1, "all as required");
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *is = &s->v->check[i];
        int worst = s->o->policy->worst[i];
        if (worst && ((int)is->state > worst || is->state < RP_CHECK_PASSED))
            rp_buf_printf(&broken, "%s%s is '%s', allowed is '%s'", broken.size ? "; " : "", is->name,
                          rp_check_state_name(is->state), rp_check_state_name((enum rp_check_state)worst));
    }
    if (broken.size)
        rp_answer(a, 0, "%s", rp_buf_text(&broken));
}
