/* Differences listed in run.json, made again: between the two captures, and between a replication and its original. A
 * replication that countersigned this bundle is compared with it. */
#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "run/agreement.h"
#include "run/derive.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- changes ---- */

/* Counts important ones among all changes of a node, also those beyond the limit of run.json, graded by this program.
 * -1: *err. */
static int count_important(const struct rp_node_figures *node, const struct rp_captures *of, int most,
                           struct rp_err *err)
{
    int n = 0;
    for (int64_t i = 0; i < node->change_n; i++)
        n += rp_change_matters(node->change[i].impact, node->change[i].varies);
    if (node->change_n < most)
        return n;
    RP_CAPTURE_COMPARISON all = {0};
    const int failed = rp_capture_changes(&all, of->before, of->after, err) < 0;
    for (int64_t i = node->change_n; i < all.different_n; i++)
        n += rp_capture_important(&all.different[i]);
    return failed ? -1 : n;
}

static int count_regraded(const struct rp_node_figures *is, const struct rp_node_figures *again)
{
    int n = 0;
    for (int64_t i = 0; i < is->change_n; i++)
        n += strcmp(is->change[i].impact, again->change[i].impact) != 0 ||
             is->change[i].varies != again->change[i].varies;
    return n;
}

int rp_check_changes(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char grades[60] = "", first[100] = "";
    const struct rp_figures *is = s->run.figures;
    int64_t values = 0;
    int regraded = 0, important = 0;
    if (rp_verify_follows(s, RP_CHECK_changes, err) < 0)
        return -1;
    const struct rp_figures *again = rp_verify_figures(s);
    for (int64_t i = 0; again && i < is->node_n; i++) {
        const int here = count_important(&again->node[i], &s->run.node[i], rp_changes_most(s->run.nodes), err);
        if (here < 0)
            return -1;
        if (here && !important && i > 0)
            RP_FORMAT(first, "; the first are of node %" PRId64, i);
        values += is->node[i].change_n;
        regraded += count_regraded(&is->node[i], &again->node[i]);
        important += here;
    }
    if (regraded || important)
        result->state = RP_CHECK_NOTE;
    if (regraded)
        RP_FORMAT(grades, "; this version grades %d of them differently", regraded);
    return rp_check_text(result, "%" PRId64 " values of %" PRId64 " node%s, %d of high or medium impact%s%s", values,
                         is->node_n, rp_s(is->node_n), important, first, grades);
}

/* ---- agreement ---- */

/* The same settings and data, except for where it ran. */
static int check_settings(const struct rp_facts *first, const struct rp_verify_state *s, struct rp_err *err)
{
    RP_JSON *recipe = json_copy(s->run.facts->recipe);
    json_t *entry;
    const char *key;
    char shown[72];
    rp_recipe_complete(recipe);
    json_object_foreach(recipe, key, entry)
        if (!rp_agreement_free(key) && !rp_agreement_same(key, first, recipe, s->run.facts->plan.batch))
            return rp_fail(err, RP_MISMATCH, "not a replication: %s differs from that of the original",
                           rp_excerpt(shown, key));
    if (strcmp(first->data.digest, s->run.facts->data.digest) != 0)
        return rp_fail(err, RP_MISMATCH, "not a replication: its data differ from those of the original");
    return 0;
}

static int describe_agreement(struct rp_verify_state *s, const struct rp_agreement *a, const struct rp_verification *v,
                              struct rp_check_result *result)
{
    char few[48] = "", ratio[32] = "unknown", copied[128] = "", signer[RP_WHOSE_KEY];
    const int unknown = rp_verify_whose_key(signer, s, v);
    const int64_t steps = a->bits.steps, roots = a->bits.roots;
    int important = 0;
    for (int64_t i = 0; i < a->environment_n; i++)
        important += rp_change_matters(a->environment[i].impact, a->environment[i].varies);
    if (a->bits.equal == 1 && steps > 0 && !s->v->keyed)
        RP_FORMAT(copied, "; equal bits can be copied: --replay recomputes keyed roots, and none was recomputed here");
    if (a->bits.equal != 1 || steps == 0 || steps < s->v->original_steps || *copied || unknown)
        result->state = RP_CHECK_NOTE;
    if (steps < s->v->original_steps)
        RP_FORMAT(few, " of the original's %" PRId64, s->v->original_steps);
    if (!isnan(a->throughput.ratio))
        RP_FORMAT(ratio, "%.4f", a->throughput.ratio);
    return rp_check_text(
        result,
        "bits %s over %" PRId64 "%s step%s and %" PRId64 " state root%s, throughput replication / original %s, %" PRId64
        " environment value%s, %d of high or medium impact; the original is signed by %s%s",
        a->bits.equal == 1 ? "equal" : "NOT EQUAL", steps, few, rp_s(*few ? s->v->original_steps : steps), roots,
        rp_s(roots), ratio, a->environment_n, a->environment_n == 1 ? " differs" : "s differ", important, signer,
        copied);
}

/* The "agreement" of run.json against that of the two runs. */
static int compare_again(struct rp_verify_state *s, const struct rp_verification *v, const struct rp_run *run,
                         struct rp_check_result *result, struct rp_err *err)
{
    char say[400];
    struct rp_agreement again;
    const struct rp_agreement_side first = {run->facts, run->figures, run->node[0].before, &run->records},
                                   here = {s->run.facts, s->run.figures, s->run.node[0].before, &s->run.records};
    s->v->original_steps = rp_figures_steps(run->figures);
    if (check_settings(run->facts, s, err) < 0)
        return -1;
    int failed = rp_agreement_derive(&again, &first, &here, err) < 0;
    RP_JSON *expected = failed ? NULL : rp_object_json(&again, &rp_type_agreement);
    if (!failed &&
        rp_verify_agreement_differs(say, sizeof say, json_object_get(s->run.doc->figures_json, "agreement"), expected))
        failed = rp_fail(err, RP_MISMATCH, "run.json does not follow from the two runs: agreement/%s", say) < 0;
    if (!failed)
        describe_agreement(s, &again, v, result);
    rp_object_fini(&again, &rp_type_agreement);
    return failed ? -1 : 0;
}

/* The original is verified by any key, and must be the bundle that facts.json names. */
static int check_original(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_verification *v = &s->original->v;
    const struct rp_original_facts *named = s->run.facts->replicates;
    if (s->original->failed) {
        *err = s->original->err;
        return rp_wrap(err, "--original");
    }
    if (strcmp(v->statement, named->statement) != 0 || strcmp(v->fingerprint, named->signer) != 0)
        return rp_fail(err, RP_MISMATCH,
                       "--original is not the replicated run: its statement is %.16s... by %.23s..., expected %.16s... "
                       "by %.23s...",
                       v->statement, v->fingerprint, named->statement, named->signer);
    s->v->original = compare_again(s, v, &s->original->kept.run, result, err) == 0;
    return s->v->original ? 0 : -1;
}

/* The valid countersignature that names this replication, by the key that signed it; or NULL. */
static struct rp_countersigned_answer *find_countersignature(const struct rp_verify_state *s,
                                                             const struct rp_verification *replication)
{
    struct rp_countersigned_list *all = s->v->signatures;
    for (int64_t i = 0; all && i < all->row_n; i++) {
        struct rp_countersigned_answer *row = &all->row[i];
        if (row->valid && strcmp(rp_text_or_empty(row->replication), replication->statement) == 0 &&
            strcmp(row->fingerprint, replication->fingerprint) == 0)
            return row;
    }
    return NULL;
}

/* --replication: it agrees with this bundle, and its keyed roots were computed again, which only its signer's key could
 * have made. */
static int judge_replication(struct rp_verify_state *s, const struct rp_verification *r, struct rp_check_result *result,
                             struct rp_err *err)
{
    RP_BUF text = {0};
    const char *had = s->run.facts->replicates ? result->text : "";
    struct rp_countersigned_answer *row = find_countersignature(s, r);
    const struct rp_agreement *a = r->run->figures.agreement;
    if (!row)
        return rp_fail(err, RP_MISMATCH,
                       "--replication: no countersignature of this bundle names it, statement %.16s... by %s",
                       r->statement, r->fingerprint);
    if (a->bits.equal != 1)
        return rp_fail(err, RP_MISMATCH, "--replication: its bits are not those of this bundle");
    rp_buf_printf(&text, "%s%sreplicated by %s: bits equal over %" PRId64 " step%s, ", had, *had ? "; " : "",
                  r->fingerprint, a->bits.steps, rp_s(a->bits.steps));
    if (!s->run.facts->replicates)
        result->state = RP_CHECK_PASSED;
    if (!r->keyed) {
        result->state = RP_CHECK_NOTE;
        rp_buf_puts(&text, "which can be copied: no keyed root is among the replayed steps");
        return rp_check_text(result, "%s", text.data);
    }
    rp_buf_printf(&text, "%d keyed root%s recomputed here", (int)r->keyed, rp_s(r->keyed));
    if (!r->drawn && r->replayed < rp_figures_steps(&r->run->figures)) {
        result->state = RP_CHECK_NOTE;
        rp_buf_puts(&text, "; the roots of other steps were not checked (--draw)");
    }
    row->replicated = 1;
    RP_BUF line = {0};
    rp_countersign_text(&line, row);
    free(row->text);
    row->text = rp_buf_take(&line);
    return rp_check_text(result, "%s", text.data);
}

static int check_replication(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_VERIFICATION r = {0};
    struct rp_verify_opts o = {.original = s->path, .replay = s->o->replay, .draw = s->o->draw,
                               .draws = s->o->draws, .received_ns = s->o->received_ns};
    o.replay.state = NULL; /* of this bundle's owner */
    if (rp_verify(&r, s->o->replication, &o, err) < 0)
        return rp_wrap(err, "--replication");
    return judge_replication(s, &r, result, err);
}

static int check_as_replication(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_original_facts *named = s->run.facts->replicates;
    const struct rp_agreement *is = s->run.figures->agreement;
    char name[80];
    if (!named != !is)
        return rp_fail(err, RP_MISMATCH, "facts.json has 'replicates', or run.json 'agreement', but not both");
    if (!named && s->o->original)
        return rp_fail(err, RP_MISMATCH, "--original was given, but this run does not replicate another");
    if (!named && s->run.records.keyed)
        return rp_fail(err, RP_MISMATCH, "the records have keyed roots, but this run does not replicate another");
    if (!named)
        return rp_check_not_applicable(result, "not a replication");
    if (is->throughput.replication != s->run.figures->results.throughput.value &&
        !(isnan(is->throughput.replication) && isnan(s->run.figures->results.throughput.value)))
        return rp_fail(err, RP_MISMATCH,
                       "run.json: agreement/throughput/replication is not the throughput of this run");
    if (s->run.records.roots && !s->run.records.keyed)
        return rp_fail(
            err, RP_MISMATCH,
            "a replication has a keyed root next to each state root, and this one has none: its roots may be "
            "copied from the original");
    if (s->o->original)
        return check_original(s, result, err);
    return rp_check_note(
        result,
        "replicates %s, statement %.16s... by %.23s...; give that bundle with --original to check the agreement",
        rp_ascii(name, sizeof name, named->bundle), named->statement, named->signer);
}

int rp_check_agreement(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    if (check_as_replication(s, result, err) < 0)
        return -1;
    return s->o->replication ? check_replication(s, result, err) : 0;
}
