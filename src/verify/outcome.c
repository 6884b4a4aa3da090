/* What a verification found: the document and its text. */
#include "base/clock.h"
#include "sign/timestamp.h"
#include "verify/levels.h"
#include "verify/state.h"

void rp_verification_line(struct rp_buf *out, const struct rp_verification *v)
{
    rp_levels_line(out, v);
    if (rp_verdict_shows(v->verdict) && !rp_facts_complete(&v->run->facts))
        rp_buf_printf(out, "; the run is marked %s", v->run->facts.status);
}

#define STATE(pointer) "{" pointer " c:skipped=2,n/a=2,passed=32,note=33,warning=33,FAILED=31 -8} "

const char rp_verification_text[] =
    "[/checks:[!/later:" STATE("/state") "{/check t -17} [/text:{/text p}][!/text:{/proves p}]\n]]"
    "[/later/checks:" STATE("/later/state") "{/later/checks t} later checks: they depend on the one that failed\n]"
    "[/warnings/0:\nwarnings: [/warnings:[#:, ]{ t}]\n]"
    "[/levels/claimed/text:[/results/throughput/value:\n{/results/throughput/value d3} {/results/throughput/unit t}, "
    "last loss {/results/loss_last h}\n]"
    "signed by {/fingerprint t}[/signer: ({/signer t})]\n"
    "[/countersignatures:{/text p} ([/trusted:{/name t}][!/trusted:[/name:'{/name t}', no longer trusted since "
    "{/until t}][!/name:key unknown]]) on {/at a}[/note:: {/note q}]\n]"
    "[/timestamps:" RP_TIMESTAMP_TEXT "[!/checked: (not checked)]\n]"
    "\n[/levels:{@ t -11} [/reached:{/reached t -5}][!/reached:     ] {/text p}\n]]"
    "\n{/summary p}\n";

static json_t *timed_json(const struct rp_timed *t)
{
    char from[32], to[32];
    if (t->rate <= 0)
        return NULL;
    rp_rfc3339(from, (uint64_t)t->not_before_ns);
    rp_rfc3339(to, (uint64_t)t->not_after_ns);
    return json_pack("{s:s, s:s, s:f, s:I, s:f}", "not_before", from, "not_after", to, "seconds", t->seconds, "samples",
                     (json_int_t)t->samples, "samples_per_s", t->rate);
}

/* Adds every check, and the names of those with a warning. Returns the number of those that were not run after a fatal
 * failure. */
static int list_checks(json_t *list, json_t *warnings, const struct rp_verification *v)
{
    int later = 0, ended = 0;
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *r = &v->check[i];
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s}", "check", r->name, "severity",
                                rp_severity_name(rp_check_severity(i)), "state", rp_check_state_name(r->state), "text",
                                r->text, "proves", r->proves);
        json_array_append_new(list, row);
        if (ended)
            json_object_set_new(row, "later", json_true());
        later += ended;
        if (r->state == RP_CHECK_WARNING)
            json_array_append_new(warnings, json_string(r->name));
        ended |= rp_check_severity(i) == RP_SEVERITY_FATAL && r->state == RP_CHECK_FAILED;
    }
    return later;
}

static json_t *counts_json(const struct rp_verification *v)
{
    const struct rp_check_counts n = rp_check_counts(v);
    json_t *j = json_pack("{s:i}", "applicable", n.applicable);
    for (int state = RP_CHECK_SKIPPED; state <= RP_CHECK_FAILED; state++)
        json_object_set_new(j, rp_check_state_name((enum rp_check_state)state), json_integer(n.of[state]));
    return j;
}

json_t *rp_verification_json(const struct rp_verification *v)
{
    json_t *list = json_array(), *warnings = json_array();
    const int later = list_checks(list, warnings, v), shows = rp_verdict_shows(v->verdict);
    RP_BUF line = {0};
    rp_verification_line(&line, v);
    return json_pack("{s:s, s:s*, s:s*, s:s*, s:O*, s:O*, s:o, s:o, s:o*, s:o, s:o*, s:o*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, "
                     "s:s}",
                     "verdict", rp_verdict_name(v->verdict), "standing",
                     *v->fingerprint ? rp_standing_name(v->standing) : NULL, "fingerprint", *v->fingerprint ? v->fingerprint : NULL,
                     "signer", *v->signer ? v->signer : NULL, "countersignatures", v->signatures, "timestamps",
                     v->timestamps, "checks", list, "counts", counts_json(v), "later",
                     later ? json_pack("{s:s, s:i}", "state", rp_check_state_name(RP_CHECK_SKIPPED), "checks", later)
                           : NULL,
                     "warnings", warnings, "levels", shows ? rp_levels_json(v) : NULL, "timed", timed_json(&v->timed),
                     "results", shows && v->run ? json_object_get(v->run->figures_json, "results") : NULL, "replay",
                     v->replay, "policy", v->policy, "ledger", v->ledger, "forked", v->forked, "scaling", v->scaling,
                     "summary", line.data);
}
