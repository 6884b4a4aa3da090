/* Differences listed in run.json, made again: between the two captures, and between a replication and its original. */
#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "run/agreement.h"
#include "verify/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Without the impact grades, which other versions may assign differently. */
static json_t *without_grades(const json_t *changes)
{
    json_t *out = json_deep_copy(changes), *change;
    size_t i;
    json_array_foreach(out, i, change) {
        json_object_del(change, "impact");
        json_object_del(change, "volatile");
    }
    return out;
}

/* Changes of high or medium impact, graded by this program whatever the run recorded. */
static int count_important(const json_t *changes)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(changes); i++)
        n += rp_capture_important(json_array_get(changes, i)) != 0;
    return n;
}

/* ---- changes ---- */

/* run.json lists the changes of node 0; those of the others are counted here. *nodes: how many have important ones, of which the first is
 * described. */
static int count_on_other_nodes(const struct rp_verify_state *s, int *nodes, char *text, size_t size, struct rp_err *err)
{
    *nodes = 0;
    for (int node = 1; node < s->run.nodes; node++) {
        const struct rp_captures *of = &s->run.node[node];
        RP_JSON *all = of->before && of->after ? rp_capture_changes(of->before, of->after, err) : json_array();
        size_t i;
        json_t *change;
        int important = 0;
        if (!all)
            return rp_wrap(err, "node %d", node);
        json_array_foreach(all, i, change) {
            if (!rp_capture_important(change) || important++ || *nodes)
                continue;
            char safe[72];
            snprintf(text, size, "%s of node %d", rp_excerpt(safe, rp_json_text_at(change, "field")), node);
        }
        *nodes += important > 0;
    }
    return 0;
}

int rp_check_changes(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char text[400], elsewhere[120], more[200] = "";
    int regraded = 0, nodes;
    const json_t *is = json_object_get(s->run.json, "environment_changes");
    RP_JSON *again = rp_capture_changes(s->run.node[0].before, s->run.node[0].after, err);
    if (!again)
        return -1;
    RP_JSON *recorded = without_grades(is), *expected = without_grades(again);
    if (rp_check_differ(text, sizeof text, recorded, expected))
        return rp_fail(err, RP_MISMATCH, "environment_changes in run.json does not follow from the captures: environment_changes/%s", text);
    for (size_t i = 0; i < json_array_size(is); i++)
        regraded += !json_equal(json_array_get(is, i), json_array_get(again, i));
    int important = count_important(again);
    if (count_on_other_nodes(s, &nodes, elsewhere, sizeof elsewhere, err) < 0)
        return -1;
    if (regraded || important || nodes)
        result->state = RP_CHECK_NOTE;
    if (nodes)
        RP_FORMAT(more, "; %d other node%s with values of high or medium impact, the first is %s", nodes, rp_s(nodes), elsewhere);
    snprintf(text, sizeof text, regraded ? "; this version grades %d of them differently" : "", regraded);
    return rp_check_text(result, "%zu values%s, %d of high or medium impact%s%s", json_array_size(again),
                         s->run.nodes > 1 ? " of node 0" : "", important, text, more);
}

/* ---- agreement ---- */

/* The same settings and data, except for where it ran. */
static int check_settings(const json_t *first, const struct rp_verify_state *s, struct rp_err *err)
{
    RP_JSON *recipe = json_copy(json_object_get(s->run.json, "recipe"));
    json_t *entry;
    int64_t batch = json_integer_value(json_object_get(json_object_get(s->run.json, "plan"), "batch"));
    const char *key;
    char shown[72];
    rp_recipe_complete(recipe);
    json_object_foreach(recipe, key, entry)
        if (!rp_agreement_free(key) && !rp_agreement_same(key, first, recipe, batch))
            return rp_fail(err, RP_MISMATCH, "not a replication: %s differs from that of the original", rp_excerpt(shown, key));
    if (strcmp(rp_json_text_at(first, "data/digest"), rp_json_text_at(s->run.json, "data/digest")) != 0)
        return rp_fail(err, RP_MISMATCH, "not a replication: its data differ from those of the original");
    return 0;
}

static int recompute(const struct rp_verify_state *s, const struct rp_verification *v, const struct rp_run *run,
                     struct rp_check_result *result, struct rp_err *err)
{
    char say[400], few[48];
    const json_t *is = json_object_get(s->run.json, "agreement"), *bits = json_object_get(is, "bits");
    const json_t *ratio = json_object_get(json_object_get(is, "throughput"), "ratio");
    const struct rp_agreement_side first = {v->run, run->node[0].before, &run->records},
                                   here = {s->run.json, s->run.node[0].before, &s->run.records};
    if (check_settings(v->run, s, err) < 0)
        return -1;
    RP_JSON *again = rp_agreement(&first, &here, err);
    if (!again)
        return -1;
    RP_JSON *recorded = json_copy((json_t *)is), *expected = json_copy(again);
    json_object_set_new(recorded, "environment", without_grades(json_object_get(is, "environment")));
    json_object_set_new(expected, "environment", without_grades(json_object_get(again, "environment")));
    if (rp_check_differ(say, sizeof say, recorded, expected))
        return rp_fail(err, RP_MISMATCH, "agreement in run.json does not follow from the two runs: agreement/%s", say);
    json_int_t steps = json_integer_value(json_object_get(bits, "steps")), roots = json_integer_value(json_object_get(bits, "roots"));
    size_t differ = json_array_size(json_object_get(again, "environment"));
    s->v->original_steps = rp_run_steps(v->run);
    if (!json_is_true(json_object_get(bits, "equal")) || steps == 0 || steps < s->v->original_steps)
        result->state = RP_CHECK_NOTE;
    snprintf(few, sizeof few, steps < s->v->original_steps ? " of the original's %" PRId64 : "", s->v->original_steps);
    snprintf(say, sizeof say, json_is_number(ratio) ? "%.4f" : "unknown", json_number_value(ratio));
    return rp_check_text(result, "bits %s over %" JSON_INTEGER_FORMAT "%s step%s and %" JSON_INTEGER_FORMAT " state root%s, throughput "
                         "replication / original %s, %zu environment value%s, %d of high or medium impact; the original is signed by %s%s",
                         json_is_true(json_object_get(bits, "equal")) ? "equal" : "NOT EQUAL", steps, few,
                         rp_s(*few ? s->v->original_steps : steps), roots, rp_s(roots), say, differ,
                         differ == 1 ? " differs" : "s differ",
                         count_important(json_object_get(again, "environment")), v->fingerprint,
                         strcmp(v->fingerprint, s->v->fingerprint) == 0 ? ", the same key" : "");
}

/* The original is verified by any key, and must be the bundle that run.json names. */
static int check_original(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_verification *v = &s->original->v;
    const json_t *named = json_object_get(s->run.json, "replicates");
    if (s->original->failed) {
        *err = s->original->err;
        return rp_wrap(err, "--original");
    }
    if (strcmp(v->statement, rp_json_text_at(named, "statement")) != 0 ||
        strcmp(v->fingerprint, rp_json_text_at(named, "signer")) != 0)
        return rp_fail(err, RP_MISMATCH,
                       "--original is not the replicated run: its statement is %.16s... by %.23s..., expected %.16s... "
                       "by %.23s...",
                       v->statement, v->fingerprint, rp_json_text_at(named, "statement"),
                       rp_json_text_at(named, "signer"));
    s->v->original = recompute(s, v, &s->original->kept.run, result, err) == 0;
    return s->v->original ? 0 : -1;
}

int rp_check_agreement(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *named = json_object_get(s->run.json, "replicates"), *is = json_object_get(s->run.json, "agreement");
    char name[80];
    if (!named != !is)
        return rp_fail(err, RP_MISMATCH, "run.json has only one of 'replicates' and 'agreement'");
    if (!named && s->o->original)
        return rp_fail(err, RP_MISMATCH, "--original was given, but this run does not replicate another");
    if (!named && s->run.records.keyed)
        return rp_fail(err, RP_MISMATCH, "the records have keyed roots, but this run does not replicate another");
    if (!named)
        return rp_check_skip(result, "not a replication");
    if (!json_equal(rp_json_at(is, "throughput/replication"), rp_json_at(s->run.json, "results/throughput/value")))
        return rp_fail(err, RP_MISMATCH, "agreement/throughput/replication is not the throughput of this run");
    if (s->run.records.roots && !s->run.records.keyed)
        return rp_fail(err, RP_MISMATCH, "a replication has a keyed root next to each state root, and this one has none: its roots may be "
                                         "copied from the original");
    if (s->o->original)
        return check_original(s, result, err);
    return rp_check_note(result, "replicates %s, statement %.16s... by %.23s...; give that bundle with --original to check the agreement",
                         rp_ascii(name, sizeof name, rp_json_text_at(named, "bundle")), rp_json_text_at(named, "statement"),
                         rp_json_text_at(named, "signer"));
}
