/* What a verification found, as text and as JSON. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "verify/levels.h"
#include "verify/state.h"

#include <math.h>
#include <string.h>

/* A failure stands out in the table. */
static const char *state_name(enum rp_check_state state)
{
    return state == RP_CHECK_FAILED ? "FAILED" : rp_check_state_name(state);
}

void rp_verification_line(struct rp_buf *out, const struct rp_verification *v)
{
    rp_levels_line(out, v);
    if (v->verdict != RP_VERDICT_FAILED && !rp_facts_complete(&v->run->facts))
        rp_buf_printf(out, "; the run is marked %s", v->run->facts.status);
}

static void list_warnings(struct rp_buf *out, const struct rp_verification *v)
{
    int n = 0;
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        if (v->check[i].state == RP_CHECK_WARNING)
            rp_buf_printf(out, "%s%s", n++ ? ", " : "\nwarnings: ", v->check[i].name);
    if (n)
        rp_buf_puts(out, "\n");
}

void rp_verification_text(struct rp_buf *out, const struct rp_verification *v, int colour)
{
    static const char *const paint[] = {"\033[2m", "\033[32m", "\033[33m", "\033[33m", "\033[31m"};
    int stopped = 0; /* after a fatal failure one row replaces those that were not run */
    for (int i = 0; i < RP_CHECK_COUNT && !stopped; i++) {
        const struct rp_check_result *r = &v->check[i];
        rp_buf_printf(out, "%s%-8s%s %-17s %s\n", colour ? paint[r->state] : "", state_name(r->state),
                      colour ? "\033[0m" : "", r->name, *r->text ? r->text : r->proves);
        stopped = rp_check_severity(i) == RP_SEVERITY_FATAL && r->state == RP_CHECK_FAILED;
        if (stopped && i + 1 < RP_CHECK_COUNT)
            rp_buf_printf(out, "%s%-8s%s %d later checks: they depend on the one that failed\n",
                          colour ? paint[RP_CHECK_SKIPPED] : "", state_name(RP_CHECK_SKIPPED), colour ? "\033[0m" : "",
                          RP_CHECK_COUNT - i - 1);
    }
    list_warnings(out, v);
    if (v->verdict != RP_VERDICT_FAILED) {
        const struct rp_results *r = &v->run->figures.results;
        char loss[32];
        rp_float_hex(loss, r->loss_last);
        if (!isnan(r->throughput.value))
            rp_buf_printf(out, "\n%.3f %s, last loss %s\n", r->throughput.value, r->throughput.unit, loss);
        rp_buf_printf(out, "signed by %s%s%s%s\n", v->fingerprint, *v->signer ? " (" : "", v->signer,
                      *v->signer ? ")" : "");
        rp_signatures_text(out, v);
        rp_timestamps_text(out, v);
        rp_buf_puts(out, "\n");
        rp_levels_text(out, v);
    }
    rp_buf_puts(out, "\n");
    rp_verification_line(out, v);
    rp_buf_puts(out, "\n");
}

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

json_t *rp_verification_json(const struct rp_verification *v)
{
    json_t *list = json_array(), *results = v->run ? json_object_get(v->run->figures_json, "results") : NULL;
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *r = &v->check[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "check", r->name, "severity",
                                              rp_severity_name(rp_check_severity(i)), "state",
                                              rp_check_state_name(r->state), "text", r->text, "proves", r->proves));
    }
    json_t *levels = v->verdict == RP_VERDICT_FAILED ? NULL : rp_levels_json(v);
    return json_pack("{s:s, s:s*, s:s*, s:O*, s:O*, s:o, s:o*, s:o*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "verdict",
                     rp_verdict_name(v->verdict), "fingerprint", *v->fingerprint ? v->fingerprint : NULL, "signer",
                     *v->signer ? v->signer : NULL, "countersignatures", v->signatures, "timestamps", v->timestamps,
                     "checks", list, "levels", levels, "timed", timed_json(&v->timed), "results",
                     v->verdict == RP_VERDICT_FAILED ? NULL : results, "replay", v->replay, "policy", v->policy,
                     "ledger", v->ledger, "forked", v->forked, "scaling", v->scaling);
}
