#include "run/results.h"
#include "verify/verify.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "verify/levels.h"
#include "verify/state.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *id, *proves, *how;
    enum rp_severity severity;
    int (*run)(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err);
} checks[] = {
#define VERIFY(id, severity, proves, how) {#id, proves, how, RP_SEVERITY_##severity, rp_check_##id},
#include "verify/checks.def"
#undef VERIFY
};

static const char *const state_names[] = {"skipped", "passed", "note", "warning", "FAILED"};
static const char *const severity_names[] = {"fatal", "fail", "warn", "info"};

const char *rp_verdict_name(enum rp_verdict v)
{
    static const char *const names[] = {"failed", "verified-unknown-key", "verified", "inconclusive"};
    return names[v];
}

const char *rp_verdict_text(enum rp_verdict v)
{
    static const char *const texts[] = {"FAILED", "verified, but the key is unknown", "verified",
                                        "inconclusive: a requested check could not be completed; no check failed"};
    return texts[v];
}

const char *rp_check_state_name(enum rp_check_state state)
{
    return state == RP_CHECK_FAILED ? "failed" : state_names[state];
}

const char *rp_check_name(int id)
{
    return checks[id].id;
}

void rp_checks_text(struct rp_buf *out)
{
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        rp_buf_printf(out, "%-17s %-6s %s\n%25s%s\n", checks[i].id, severity_names[checks[i].severity], checks[i].proves, "",
                      checks[i].how);
}

json_t *rp_checks_json(void)
{
    json_t *list = json_array();
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "check", checks[i].id, "severity", severity_names[checks[i].severity],
                                              "proves", checks[i].proves, "how", checks[i].how));
    return json_pack("{s:o}", "checks", list);
}

int rp_check_text(struct rp_check_result *result, const char *fmt, ...)
{
    char text[sizeof result->text];
    RP_FORMAT_ARGS(text, fmt);
    rp_ascii(result->text, sizeof result->text, text);
    return 0;
}

static void format_value(char *out, size_t size, const json_t *j)
{
    RP_BUF text = {0};
    char safe[120];
    if (!j) {
        snprintf(out, size, "nothing");
        return;
    }
    rp_json_write_line(&text, j);
    text.data[text.size - 1] = 0;
    snprintf(out, size, "%.100s", rp_ascii(safe, sizeof safe, text.data));
}

/* The first difference below `path`: 1 and its text, or 0. */
static int find_difference(char *text, size_t size, char *path, size_t path_size, const json_t *is, const json_t *expected)
{
    char a[128], b[128], safe[64];
    const char *key;
    const json_t *part;
    size_t end = strlen(path), i;
    if (json_equal(is, expected))
        return 0;
    if (json_is_object(is) && json_is_object(expected)) {
        for (int turn = 0; turn < 2; turn++) /* keys of the document, then keys that it lacks */
            json_object_foreach((json_t *)(turn ? expected : is), key, part)
            {
                snprintf(path + end, path_size - end, "%s%s", end ? "/" : "", rp_ascii(safe, sizeof safe, key));
                if (find_difference(text, size, path, path_size, json_object_get(is, key), json_object_get(expected, key)))
                    return 1;
                path[end] = 0;
            }
    } else if (json_is_array(is) && json_is_array(expected) && json_array_size(is) == json_array_size(expected)) {
        json_array_foreach((json_t *)is, i, part)
        {
            snprintf(path + end, path_size - end, "/%zu", i);
            if (find_difference(text, size, path, path_size, part, json_array_get(expected, i)))
                return 1;
            path[end] = 0;
        }
    }
    format_value(a, sizeof a, is);
    format_value(b, sizeof b, expected);
    snprintf(text, size, "%s is %s, expected %s", *path ? path : "the document", a, b);
    return 1;
}

int rp_check_differ(char *text, size_t size, const json_t *is, const json_t *expected)
{
    char path[200] = "";
    return find_difference(text, size, path, sizeof path, is, expected);
}

static void captures_fini(struct rp_captures **node, int *nodes)
{
    for (int i = 0; i < *nodes; i++) {
        json_decref((*node)[i].before);
        json_decref((*node)[i].after);
    }
    free(*node);
    *node = NULL;
    *nodes = 0;
}

static void state_fini(struct rp_verify_state *s)
{
    rp_closep(&s->fd);
    rp_bundle_fini(&s->bundle);
    rp_envelope_fini(&s->envelope);
    rp_key_free(s->key);
    json_decref(s->statement);
    json_decref(s->run);
    json_decref(s->before);
    json_decref(s->after);
    captures_fini(&s->node, &s->nodes);
    rp_telemetry_fini(&s->telemetry);
    rp_records_fini(&s->records);
    rp_all_ranks_fini(&s->ranks);
    rp_recipe_fini(&s->recipe);
}

void rp_verified_fini(struct rp_verified *kept)
{
    rp_bundle_fini(&kept->bundle);
    json_decref(kept->before);
    json_decref(kept->after);
    captures_fini(&kept->node, &kept->nodes);
    rp_records_fini(&kept->records);
    rp_all_ranks_fini(&kept->ranks);
    rp_recipe_fini(&kept->recipe);
    rp_telemetry_fini(&kept->telemetry);
    *kept = (struct rp_verified){0};
}

static void move_kept(struct rp_verified *kept, struct rp_verify_state *s)
{
    *kept = (struct rp_verified){.bundle = s->bundle, .before = s->before, .after = s->after, .node = s->node,
                                 .nodes = s->nodes, .records = s->records, .ranks = s->ranks, .recipe = s->recipe,
                                 .telemetry = s->telemetry};
    s->node = NULL;
    s->nodes = 0;
    s->bundle = (struct rp_bundle){0};
    s->before = s->after = NULL;
    s->records = (struct rp_records){0};
    s->ranks = (struct rp_all_ranks){0};
    s->recipe = (struct rp_recipe){0};
    s->telemetry = (struct rp_telemetry){0};
}

static int is_requested(const struct rp_verify_opts *o, int check)
{
    switch (check) {
    case RP_CHECK_replay: return o->replay.steps > 0 || o->draw;
    case RP_CHECK_scaling: return o->baseline != NULL;
    case RP_CHECK_policy: return o->policy != NULL;
    default: return 1;
    }
}

/* Runs a check and fills its row; -1 if it did not pass. */
static int run_check(struct rp_verify_state *s, int i, struct rp_err *err)
{
    struct rp_check_result *r = &s->v->check[i];
    char more[sizeof r->text];
    r->state = RP_CHECK_PASSED;
    if (checks[i].run(s, r, err) == 0)
        return 0;
    snprintf(more, sizeof more, "%s", r->text);
    rp_check_text(r, "%s%s%s", err->msg, *more ? "; " : "", more);
    if (err->code == RP_MISMATCH && checks[i].severity == RP_SEVERITY_WARN)
        r->state = RP_CHECK_WARNING;
    else
        r->state = err->code != RP_MISMATCH && i == RP_CHECK_replay ? RP_CHECK_SKIPPED : RP_CHECK_FAILED;
    return -1;
}

struct verify_tally {
    int failed, incomplete;
};

/* A replay is not started for a bundle that failed. If one could not be completed, the verdict is inconclusive instead
 * of failed. *err: the first failure, or if there is none what kept the replay from its end. */
static void run_checks(struct rp_verify_state *s, struct verify_tally *t, struct rp_err *err)
{
    int stopped = 0;
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        struct rp_check_result *r = &s->v->check[i];
        struct rp_err e = {0};
        s->v->run = s->run;
        s->v->verdict = t->failed ? RP_VERDICT_FAILED : RP_VERDICT_VERIFIED; /* so far, for the levels of a policy */
        if (stopped || (t->failed && i == RP_CHECK_replay)) {
            rp_check_text(r, "%s", is_requested(s->o, i) ? "not run: an earlier check failed" : "not requested");
            continue;
        }
        if (run_check(s, i, &e) == 0 || r->state == RP_CHECK_WARNING)
            continue;
        int failed = r->state == RP_CHECK_FAILED;
        if (!t->failed && (failed || !t->incomplete))
            *err = e;
        ++*(failed ? &t->failed : &t->incomplete);
        stopped |= checks[i].severity == RP_SEVERITY_FATAL;
    }
}

int rp_verify(struct rp_verification *v, const char *path, const struct rp_verify_opts *o, struct rp_err *err)
{
    struct rp_verify_state s = {.path = path, .o = o, .v = v, .fd = -1};
    struct verify_tally t = {0};
    *v = (struct rp_verification){0};
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        v->check[i] = (struct rp_check_result){.name = checks[i].id, .proves = checks[i].proves};
    run_checks(&s, &t, err);
    v->verdict = t.failed ? RP_VERDICT_FAILED
                 : t.incomplete ? RP_VERDICT_INCONCLUSIVE
                 : v->check[RP_CHECK_key].state == RP_CHECK_PASSED ? RP_VERDICT_VERIFIED : RP_VERDICT_UNKNOWN_KEY;
    if (v->verdict == RP_VERDICT_INCONCLUSIVE && err->code != RP_INTERRUPTED && err->code != RP_BUG)
        err->code = RP_UNAVAILABLE; /* one exit status, whatever kept the check from its end */
    v->run = json_incref(s.run);
    if (o->keep && v->verdict != RP_VERDICT_FAILED)
        move_kept(o->keep, &s);
    state_fini(&s);
    return t.failed || t.incomplete ? -1 : 0;
}

void rp_verification_fini(struct rp_verification *v)
{
    json_decref(v->run);
    json_decref(v->policy);
    json_decref(v->replay);
    json_decref(v->signatures);
    json_decref(v->timestamps);
    json_decref(v->ledger);
    json_decref(v->forked);
    json_decref(v->scaling);
    v->scaling = NULL;
    v->run = v->policy = v->replay = v->signatures = v->timestamps = v->ledger = v->forked = NULL;
}

void rp_verification_line(struct rp_buf *out, const struct rp_verification *v)
{
    const char *status = json_string_value(json_object_get(v->run, "status"));
    int partial = v->verdict != RP_VERDICT_FAILED && status && strcmp(status, "complete") != 0;
    rp_levels_line(out, v);
    rp_buf_printf(out, "%s%s", partial ? "; the run is marked " : "", partial ? status : "");
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
        rp_buf_printf(out, "%s%-8s%s %-17s %s\n", colour ? paint[r->state] : "", state_names[r->state], colour ? "\033[0m" : "", r->name,
                      *r->text ? r->text : r->proves);
        stopped = checks[i].severity == RP_SEVERITY_FATAL && r->state == RP_CHECK_FAILED;
        if (stopped && i + 1 < RP_CHECK_COUNT)
            rp_buf_printf(out, "%s%-8s%s %d later checks: they depend on the one that failed\n", colour ? paint[RP_CHECK_SKIPPED] : "",
                          state_names[RP_CHECK_SKIPPED], colour ? "\033[0m" : "", RP_CHECK_COUNT - i - 1);
    }
    list_warnings(out, v);
    struct rp_throughput t = rp_throughput_of(v->run);
    if (v->verdict != RP_VERDICT_FAILED && t.known)
        rp_buf_printf(out, "\n%.3f %s, last loss %s\n", t.value, t.unit, rp_json_text_at(v->run, "results/loss_last"));
    if (v->verdict != RP_VERDICT_FAILED) {
        rp_buf_printf(out, "signed by %s%s%s%s\n", v->fingerprint, *v->signer ? " (" : "", v->signer, *v->signer ? ")" : "");
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
    json_t *list = json_array(), *results = json_object_get(v->run, "results");
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *r = &v->check[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "check", r->name, "severity",
                                              severity_names[checks[i].severity], "state", rp_check_state_name(r->state), "text", r->text,
                                              "proves", r->proves));
    }
    json_t *levels = v->verdict == RP_VERDICT_FAILED ? NULL : rp_levels_json(v);
    return json_pack("{s:s, s:s*, s:s*, s:O*, s:O*, s:o, s:o*, s:o*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "verdict",
                     rp_verdict_name(v->verdict), "fingerprint", *v->fingerprint ? v->fingerprint : NULL, "signer",
                     *v->signer ? v->signer : NULL, "countersignatures", v->signatures, "timestamps", v->timestamps,
                     "checks", list, "levels", levels, "timed", timed_json(&v->timed), "results",
                     v->verdict == RP_VERDICT_FAILED ? NULL : results, "replay", v->replay, "policy", v->policy,
                     "ledger", v->ledger, "forked", v->forked, "scaling", v->scaling);
}
