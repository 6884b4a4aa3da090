/* What a verification found: the document and its text. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "sign/timestamp.h"
#include "verify/levels.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void rp_verification_line(struct rp_buf *out, const struct rp_verification *v)
{
    char precision[RP_PRECISION_TEXT];
    rp_levels_line(out, v);
    if (rp_verdict_shows(v->verdict) && !rp_facts_complete(&v->run->facts))
        rp_buf_printf(out, "; the run is marked %s", v->run->facts.status);
    if (rp_verdict_shows(v->verdict) && *rp_figures_precision(precision, &v->run->figures))
        rp_buf_printf(out, "; in %s", precision);
}

#define STATE(pointer) "{" pointer " c:skipped=2,n/a=2,passed=32,note=33,warning=33,broken=31,FAILED=31}"

static const char text_template[] =
    "[/name:{/name p}: ]{/summary p}\n"
    "[/any:\n][/rows:" STATE(
        "/state") "\t{/check t}\t[/text:{/text p}][!/text:{/proves p}]\n]"
                  "[/later/checks:" STATE(
                      "/later/state") "\t\t{/later/checks t} later checks: they depend on the one that failed\n]"
                                      "[/rest:\n{/rest p}\n]"
                                      "[/levels/claimed/text:\n[/command/name:{/command/name p}, " RP_MEASURED_BY_LOG
                                      ": [/command/throughput/value:{/command/throughput/value d3} "
                                      "{/command/throughput/unit t}][!/command/throughput/value:"
                                      "[/command/time_to_train_min:{/command/time_to_train_min d3} minutes to train]"
                                      "[!/command/time_to_train_min:{/command/results d0} result"
                                      "{/command/results s}]]; {/command/machine "
                                      "p}\n][/results/throughput/value:{/results/throughput/value d3} "
                                      "{/results/throughput/unit t}, last loss {/results/loss_last h}; "
                                      "[/precision:{/precision t}; ]{/device/text p}\n]signed by {/fingerprint "
                                      "t}[/signer: ({/signer t})]\n][/countersignatures:{/text p} ([/trusted:{/name "
                                      "t}][!/trusted:[/name:'{/name t}', no longer trusted since {/until "
                                      "t}][!/name:key unknown]]) on {/at a}[/note:: {/note q}]\n]"
                                      "[/timestamps:" RP_TIMESTAMP_TEXT "[!/checked: (not checked)]\n]"
                                      "[/levels/claimed/text:\n][/levels:{@ t}\t[/reached:{/reached t}]\t{/text p}\n]";

static int is_info(const struct rp_check_answer *row)
{
    return rp_same_text(row->severity, "info");
}

/* Is the row shown without --all? `claims` is the level `claimed` in full. */
static int is_worth_showing(const struct rp_check_answer *row)
{
    static const char *const states[] = {"note", "warning", "failed"};
    int worth = row->requested == 1;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        worth |= rp_same_text(row->state, states[i]);
    return worth && !is_info(row);
}

static int is_policy(const struct rp_check_answer *row)
{
    return rp_same_text(row->check, "policy");
}

/* A broken policy has a word of its own, and a row for each broken rule. */
static void add_row(json_t *rows, const struct rp_check_answer *row, const struct rp_checked_answer *all)
{
    if (!is_policy(row) || !rp_same_text(row->state, "failed")) {
        json_array_append_new(rows, rp_object_json(row, &rp_type_check_answer));
        return;
    }
    for (int64_t i = 0; i < all->policy_n; i++)
        if (!all->policy[i].holds)
            json_array_append_new(rows, json_pack("{s:s, s:s, s:s}", "state", "broken", "check", all->policy[i].rule,
                                                  "text", all->policy[i].text));
}

/* "25 more checks passed; not applicable: energy, outliers; skipped: replay" */
static void describe_rest(struct rp_buf *out, const struct rp_check_answer *const *hidden, int64_t n_hidden)
{
    static const struct {
        const char *state, *words;
    } named[] = {{"not_applicable", "not applicable"}, {"skipped", "skipped"}};
    int64_t passed = 0;
    for (int64_t i = 0; i < n_hidden; i++)
        passed += rp_same_text(hidden[i]->state, "passed");
    rp_buf_printf(out, "%" PRId64 " more check%s passed", passed, rp_s(passed));
    for (size_t k = 0; k < sizeof named / sizeof *named; k++) {
        int n = 0;
        for (int64_t i = 0; i < n_hidden; i++) {
            if (!rp_same_text(hidden[i]->state, named[k].state) || is_policy(hidden[i]))
                continue;
            if (!n++)
                rp_buf_printf(out, "; %s: %s", named[k].words, hidden[i]->check);
            else
                rp_buf_printf(out, ", %s", hidden[i]->check);
        }
    }
    rp_buf_puts(out, " (--all)");
}

void rp_verification_text(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *name, int all,
                          int width)
{
    RP_JSON *shown = json_copy((json_t *)document);
    RP_READ(checked_answer, answer, document);
    RP_FREE const struct rp_check_answer **hidden = rp_alloc((size_t)(answer.checks_n + 1) * sizeof *hidden);
    json_t *rows = json_array();
    int64_t n_hidden = 0;
    for (int64_t i = 0; i < answer.checks_n; i++) {
        if (answer.checks[i].later == 1)
            continue;
        if (all || is_worth_showing(&answer.checks[i]))
            add_row(rows, &answer.checks[i], &answer);
        else if (!is_info(&answer.checks[i]))
            hidden[n_hidden++] = &answer.checks[i];
    }
    json_object_set_new(shown, "rows", rows);
    json_object_set_new(shown, "any", json_boolean(json_array_size(rows) > 0));
    if (!all)
        json_object_del(shown, "later");
    if (n_hidden && json_object_get(document, "levels")) {
        RP_BUF rest = {0};
        describe_rest(&rest, hidden, n_hidden);
        json_object_set_new(shown, "rest", json_string(rp_buf_text(&rest)));
    }
    if (name)
        json_object_set_new(shown, "name", json_string(name));
    rp_show_wrapped(out, as, shown, text_template, width);
}

static json_t *timed_json(const struct rp_verification *v)
{
    const struct rp_timed *t = &v->timed;
    char from[32], to[32];
    if (t->rate <= 0)
        return NULL;
    rp_rfc3339(from, (uint64_t)t->not_before_ns);
    rp_rfc3339(to, (uint64_t)t->not_after_ns);
    return json_pack("{s:s, s:s, s:f, s:I, s:f, s:f}", "not_before", from, "not_after", to, "seconds", t->seconds,
                     "samples", (json_int_t)t->samples, "samples_per_s", t->rate, "undetected", rp_level_undetected(v));
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
        if (r->requested)
            json_object_set_new(row, "requested", json_true());
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

/* Where a run ran, by the signer's account; NULL: unknown, or a command. */
static json_t *device_json(const struct rp_verification *v)
{
    const struct rp_verified_place *p = &v->place;
    if (!*p->text)
        return NULL;
    if (v->run->command)
        return NULL;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "kind", rp_facts_kind(&v->run->facts), "ranks",
                     (json_int_t)p->ranks, "nodes", (json_int_t)p->nodes, "machines", (json_int_t)p->machines,
                     "devices", (json_int_t)p->devices, "text", p->text);
}

/* A command: its words, its end, and the rate of its log where that has one result. */
static json_t *command_json(const struct rp_run_documents *d, const char *machine)
{
    const struct rp_command_facts *c = d->command;
    const struct rp_log_figures *log = d->observed->log;
    const char *unit;
    const double rate = rp_run_throughput(d, &unit);
    json_t *j =
        json_pack("{s:s, s:O, s:O, s:O, s:i, s:s}", "name", c->name, "argv", json_object_get(d->facts_json, "argv"),
                  "exit_status", json_object_get(d->figures_json, "exit_status"), "signal",
                  json_object_get(d->figures_json, "signal"), "results", log ? (int)json_array_size(log->result) : 0,
                  "machine", machine);
    json_object_set_new(j, "log", c->log ? json_string(c->log->format) : json_null());
    if (!isnan(rate))
        json_object_set_new(j, "throughput", json_pack("{s:f, s:s}", "value", rate, "unit", unit));
    if (!isnan(rp_run_minutes(d)))
        json_object_set_new(j, "time_to_train_min", json_real(rp_run_minutes(d)));
    return j;
}

/* What was run; nothing in a bundle that failed is shown. */
static void add_run(json_t *j, const struct rp_verification *v)
{
    char precision[RP_PRECISION_TEXT];
    if (!v->run || !rp_verdict_shows(v->verdict))
        return;
    json_object_set_new(j, "recipe", json_string(v->run->facts.recipe_name));
    json_object_set_new(j, "recipe_sha256", json_string(v->run->figures.recipe_sha256));
    json_object_set_new(j, "status", json_string(v->run->facts.status));
    if (*rp_figures_precision(precision, &v->run->figures))
        json_object_set_new(j, "precision", json_string(precision));
    json_object_set_new(j, "device", device_json(v));
    json_object_set_new(j, "sealed_by", json_pack("{s:s, s:s, s:s}", "version", v->run->facts.tool.version, "commit",
                                                  v->run->facts.tool.commit, "dirty", v->run->facts.tool.dirty));
    json_object_set_new(j, "levels", rp_levels_json(v));
    json_object_set(j, "results", json_object_get(v->run->figures_json, "results"));
    if (v->run->command)
        json_object_set_new(j, "command", command_json(v->run, v->place.text));
}

static void add_text(json_t *j, const char *key, const char *text)
{
    if (*text)
        json_object_set_new(j, key, json_string(text));
}

/* The rows of a list of answer.def; nothing where it is NULL. */
static void add_rows(json_t *j, const char *key, const void *list, const struct rp_object_type *type)
{
    RP_JSON *all = list ? rp_object_json(list, type) : NULL;
    json_object_set(j, key, json_object_get(all, "row"));
}

static void add_part(json_t *j, const char *key, const void *part, const struct rp_object_type *type)
{
    if (part)
        json_object_set_new(j, key, rp_object_json(part, type));
}

json_t *rp_verification_json(const struct rp_verification *v)
{
    json_t *j = json_pack("{s:s}", "verdict", rp_verdict_name(v->verdict)), *list = json_array(),
           *warnings = json_array();
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
        json_object_set_new(j, "later",
                            json_pack("{s:s, s:i}", "state", rp_check_state_name(RP_CHECK_SKIPPED), "checks", later));
    json_object_set_new(j, "warnings", warnings);
    json_object_set_new(j, "timed", timed_json(v)); /* where there is none, jansson adds nothing */
    add_rows(j, "countersignatures", v->signatures, &rp_type_countersigned_list);
    add_rows(j, "timestamps", v->timestamps, &rp_type_timestamped_list);
    json_object_set(j, "replay", v->replay);
    add_rows(j, "policy", v->policy, &rp_type_policy_list);
    add_part(j, "ledger", v->ledger, &rp_type_attempts_answer);
    json_object_set(j, "forked", v->forked);
    add_part(j, "scaling", v->scaling, &rp_type_scaling_answer);
    return j;
}
