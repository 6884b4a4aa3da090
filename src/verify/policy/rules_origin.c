/* Rules on who signed, what ran, and when. */
#include "verify/policy/rules.h"

#include "base/clock.h"
#include "base/embed.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "sign/trust.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S 86400.0
#define CLOCKS_S 300.0 /* clocks of two machines differ by less; policy.def names it too */

/* The word of `signed_by` whose key it is; NULL: none, and why one of them could not be read. */
static const char *find_signer(const struct rp_rule *rule, const char *fingerprint, struct rp_err *why)
{
    char print[RP_FINGERPRINT_SIZE];
    for (int i = 0; i < rule->n; i++) {
        struct rp_err e = {0};
        if (rp_trust_resolve(print, rule->word[i], &e) < 0)
            *why = e;
        else if (strcmp(print, fingerprint) == 0)
            return rule->word[i];
    }
    return NULL;
}

int rp_policy_names(const struct rp_policy *p, const char *fingerprint)
{
    struct rp_err why = {0};
    return find_signer(&p->rule[RP_RULE_signed_by], fingerprint, &why) != NULL;
}

void rp_rule_signed_by(const struct rp_verify_state *s, struct rp_answer *a)
{
    struct rp_err err = {0};
    const char *word = find_signer(a->rule, s->v->fingerprint, &err);
    if (word)
        rp_answer(a, 1, "'%s'", word);
    else
        rp_answer(a, 0, "signed by %s, which is not in the list%s%s", s->v->fingerprint, *err.msg ? "; " : "", err.msg);
}

void rp_rule_countersigned_by(const struct rp_verify_state *s, struct rp_answer *a)
{
    char print[RP_FINGERPRINT_SIZE];
    rp_answer(a, 1, "all in the list");
    for (int i = 0; i < a->rule->n; i++) {
        struct rp_err err = {0};
        if (rp_trust_resolve(print, a->rule->word[i], &err) < 0)
            rp_answer(a, 0, "'%s': %s", a->rule->word[i], err.msg);
        else if (!rp_countersign_role(s->v, print))
            rp_answer(a, 0, "'%s' did not countersign", a->rule->word[i]);
        if (!a->holds)
            return;
    }
}

void rp_rule_max_age_days(const struct rp_verify_state *s, struct rp_answer *a)
{
    double age = (double)rp_wall_ns() / 1e9 - rp_wall_time(s->run.facts->ended_at), days = age > 0 ? age / DAY_S : 0;
    if (age < -CLOCKS_S)
        rp_answer(a, 0, "the run ends %.0f minutes in the future by the clock of this machine; %.0f are tolerated",
                  -age / 60, CLOCKS_S / 60);
    else
        rp_answer(a, age <= DAY_S * (double)a->rule->number, "%.2f days old, %" PRId64 " allowed", days,
                  a->rule->number);
}

/* `word` is the name of an embedded recipe or a SHA-256. */
static int recipe_digest(char out[RP_SHA256_HEX], const char *word)
{
    RP_FREE char *path = rp_asprintf("recipes/%s.yaml", word);
    const struct rp_embed *e = rp_embed_find(path);
    if (e)
        rp_sha256_hex(out, e->data, e->size);
    else if (rp_is_sha256(word))
        memcpy(out, word, RP_SHA256_HEX);
    return e || rp_is_sha256(word) ? 0 : -1;
}

void rp_rule_recipes(const struct rp_verify_state *s, struct rp_answer *a)
{
    char digest[RP_SHA256_HEX];
    const char *is = s->run.figures->recipe_sha256, *by = "", *changed = rp_facts_changed_setting(s->run.facts, &by);
    for (int i = 0; i < a->rule->n; i++)
        if (recipe_digest(digest, a->rule->word[i]) == 0 && strcmp(digest, is) == 0) {
            rp_answer(a, !changed, changed ? "'%s', but %s set %s" : "'%s'", a->rule->word[i], by, changed);
            return;
        }
    rp_answer(a, 0, "%s SHA-256 %s, which is not in the list",
              s->run.doc->command ? "the command and its inputs have" : "recipe.yaml has", is);
}

void rp_rule_commands(const struct rp_verify_state *s, struct rp_answer *a)
{
    int others = 0;
    for (int i = 0; i < RP_RULE_COUNT; i++)
        others += i != RP_RULE_commands && s->o->policy->rule[i].line;
    a->remark = !others;
    rp_answer(a, 1, "%s%s", s->run.doc->command ? "a command, " RP_MEASURED_BY_LOG : "not of a command",
              others ? "" : "; this rule only permits, and the policy requires nothing");
}

/* One program that ran; NULL: its digest is not there. 0, or -1 with the answer. */
static int check_digest(const char *is, const char *where, struct rp_answer *a)
{
    if (is && rp_answer_lists(a, is)) {
        rp_answer(a, 1, "%s, by the signer's own account", is);
        return 0;
    }
    if (is)
        rp_answer(a, 0, "the program that ran%s has SHA-256 %s, which is not in the list", where, is);
    else
        rp_answer(a, 0, "the program's digest was not captured%s", where);
    return -1;
}

/* Those of the captures of all nodes, and of the processes of a job, which may be other builds. */
void rp_rule_programs(const struct rp_verify_state *s, struct rp_answer *a)
{
    char where[RP_WHO] = "";
    for (int node = 0; node < s->run.nodes; node++) {
        rp_run_node_text(where, &s->run, " on ", node, "");
        if (check_digest(rp_known_text(s->run.node[node].before, "probes.program.sha256"), where, a) < 0)
            return;
    }
    for (int64_t i = 0; i < s->run.facts->process_n; i++) {
        const char *digest = s->run.facts->process[i].program;
        RP_FORMAT(where, " in process %" PRId64, i);
        if (check_digest(*digest ? digest : NULL, where, a) < 0)
            return;
    }
}

/* A captured repository: the working directory's, or one named with --repo. "absent": not a repository. What could not
 * be read or was not captured counts as possibly changed. 0, or -1 with the answer. */
static int check_repository(const char *name, const char *where, const json_t *values, struct rp_answer *a)
{
    const char *state = rp_state_at(values, "modified"), *below = rp_state_at(values, "submodules_changed");
    double modified = 0, submodules = 0;
    int none = strcmp(state, "absent") == 0 && rp_value_at(values, "modified");
    if (rp_known_number(values, "modified", &modified) < 0 && !none)
        rp_answer(a, 0, "unknown: whether the repository '%s'%s was changed is '%s'", name, where,
                  rp_value_at(values, "modified") ? state : "not captured");
    else if (rp_known_number(values, "submodules_changed", &submodules) < 0 && strcmp(below, "absent") != 0)
        rp_answer(a, 0, "unknown: whether submodules of the repository '%s'%s were changed is '%s'", name, where,
                  below);
    else if (modified > 0 || submodules > 0)
        rp_answer(a, 0, "%.0f files and %.0f submodules of the repository '%s'%s were modified", modified, submodules,
                  name, where);
    else
        return 0;
    return -1;
}

void rp_rule_clean_tree(const struct rp_verify_state *s, struct rp_answer *a)
{
    const char *tool = s->run.facts->tool.dirty, *name;
    if (strcmp(tool, "clean") != 0) {
        rp_answer(a, 0, "the program was built from a tree that is '%s'", tool);
        return;
    }
    rp_answer(a, 1, "built from a clean tree, by the signer's own account");
    for (int node = 0; node < s->run.nodes; node++) {
        const json_t *all = rp_group(s->run.node[node].before, "probes.git");
        json_t *values;
        char where[RP_WHO] = "";
        rp_run_node_text(where, &s->run, " on ", node, "");
        json_object_foreach((json_t *)all, name, values)
            if (check_repository(name, where, values, a) < 0)
                return;
        if (!rp_value_at(all, "workdir")) {
            rp_answer(a, 0, "unknown: the working directory was not captured%s", where);
            return;
        }
    }
}

void rp_rule_complete(const struct rp_verify_state *s, struct rp_answer *a)
{
    rp_answer(a, rp_facts_complete(s->run.facts), "the run is %s", s->run.facts->status);
}
