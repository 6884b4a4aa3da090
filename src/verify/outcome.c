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

/* Where it ran, by the signer's account; NULL: unknown. */
static json_t *device_json(const struct rp_verification *v)
{
    const struct rp_verified_place *p = &v->place;
    if (!*p->text)
        return NULL;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "kind", rp_facts_kind(&v->run->facts), "ranks", (json_int_t)p->ranks,
                     "nodes", (json_int_t)p->nodes, "machines", (json_int_t)p->machines, "devices", (json_int_t)p->devices,
                     "text", p->text);
}

/* Of what was run; nothing in a bundle that failed is shown. */
static void add_run(json_t *j, const struct rp_verification *v)
{
    if (!v->run || !rp_verdict_shows(v->verdict))
        return;
    json_object_set_new(j, "recipe", json_string(v->run->facts.recipe_name));
    json_object_set_new(j, "recipe_sha256", json_string(v->run->figures.recipe_sha256));
    json_object_set_new(j, "status", json_string(v->run->facts.status));
    json_object_set_new(j, "device", device_json(v));
    json_object_set_new(j, "levels", rp_levels_json(v));
    json_object_set(j, "results", json_object_get(v->run->figures_json, "results"));
}

static void add_text(json_t *j, const char *key, const char *text)
{
    if (*text)
        json_object_set_new(j, key, json_string(text));
}

json_t *rp_verification_json(const struct rp_verification *v)
{
    json_t *j = json_pack("{s:s}", "verdict", rp_verdict_name(v->verdict)), *list = json_array(), *warnings = json_array();
    const int later = list_checks(list, warnings, v);
    RP_BUF line = {0};
    rp_verification_line(&line, v);
    json_object_set_new(j, "summary", json_string(rp_buf_text(&line)));
    add_text(j, "why", v->why);
    add_text(j, "bundle", v->bundle);
    add_text(j, "statement", v->statement);
    add_text(j, "fingerprint", v->fingerprint);
    if (*v->fingerprint)
        add_text(j, "standing", rp_standing_name(v->standing));
    add_text(j, "signer", v->signer);
    add_run(j, v);
    json_object_set_new(j, "checks", list);
    json_object_set_new(j, "counts", counts_json(v));
    if (later)
        json_object_set_new(j, "later", json_pack("{s:s, s:i}", "state", rp_check_state_name(RP_CHECK_SKIPPED), "checks", later));
    json_object_set_new(j, "warnings", warnings);
    json_object_set_new(j, "timed", timed_json(&v->timed)); /* where there is none, jansson adds nothing */
    json_object_set(j, "countersignatures", v->signatures);
    json_object_set(j, "timestamps", v->timestamps);
    json_object_set(j, "replay", v->replay);
    json_object_set(j, "policy", v->policy);
    json_object_set(j, "ledger", v->ledger);
    json_object_set(j, "forked", v->forked);
    json_object_set(j, "scaling", v->scaling);
    return j;
}
