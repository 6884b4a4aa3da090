/* The rules of a policy, each against the findings of the other checks. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/embed.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "sign/trust.h"
#include "verify/levels.h"
#include "verify/policy/policy.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASONS_BYTES 420 /* of a message of 512; longer ones are only in the list of rules */
#define DAY_S 86400.0
#define CLOCKS_S 300.0 /* clocks of two machines differ by less; policy.def names it too */

struct rules_answer {
    const struct rp_rule *rule;
    int holds, remark; /* remark: it holds, but not without a word about it */
    char *text;        /* whole: digests and names are what the reader compares with the policy */
};

static void answer(struct rules_answer *a, int holds, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void answer(struct rules_answer *a, int holds, const char *fmt, ...)
{
    char *had = a->text;
    RP_ASPRINTF_ARGS(a->text, fmt);
    free(had);
    a->holds = holds;
}

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

static void rule_signed_by(const struct rp_verify_state *s, struct rules_answer *a)
{
    struct rp_err err = {0};
    const char *word = find_signer(a->rule, s->v->fingerprint, &err);
    if (word)
        answer(a, 1, "'%s'", word);
    else
        answer(a, 0, "signed by %s, which is not in the list%s%s", s->v->fingerprint, *err.msg ? "; " : "", err.msg);
}

static void rule_countersigned_by(const struct rp_verify_state *s, struct rules_answer *a)
{
    char print[RP_FINGERPRINT_SIZE];
    answer(a, 1, "all in the list");
    for (int i = 0; i < a->rule->n; i++) {
        struct rp_err err = {0};
        if (rp_trust_resolve(print, a->rule->word[i], &err) < 0)
            answer(a, 0, "'%s': %s", a->rule->word[i], err.msg);
        else if (!rp_countersign_role(s->v, print))
            answer(a, 0, "'%s' did not countersign", a->rule->word[i]);
        if (!a->holds)
            return;
    }
}

static void rule_max_age_days(const struct rp_verify_state *s, struct rules_answer *a)
{
    double age = (double)rp_wall_ns() / 1e9 - rp_wall_time(s->run.facts->ended_at), days = age > 0 ? age / DAY_S : 0;
    if (age < -CLOCKS_S)
        answer(a, 0, "the run ends %.0f minutes in the future by the clock of this machine; %.0f are tolerated",
               -age / 60, CLOCKS_S / 60);
    else
        answer(a, age <= DAY_S * (double)a->rule->number, "%.2f days old, %" PRId64 " allowed", days, a->rule->number);
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

static void rule_recipes(const struct rp_verify_state *s, struct rules_answer *a)
{
    char digest[RP_SHA256_HEX];
    const char *is = s->run.figures->recipe_sha256, *by = "", *changed = rp_facts_changed_setting(s->run.facts, &by);
    for (int i = 0; i < a->rule->n; i++)
        if (recipe_digest(digest, a->rule->word[i]) == 0 && strcmp(digest, is) == 0) {
            answer(a, !changed, changed ? "'%s', but %s set %s" : "'%s'", a->rule->word[i], by, changed);
            return;
        }
    answer(a, 0, "%s SHA-256 %s, which is not in the list",
           s->run.doc->command ? "the command and its inputs have" : "recipe.yaml has", is);
}

static void rule_commands(const struct rp_verify_state *s, struct rules_answer *a)
{
    answer(a, 1, s->run.doc->command ? "a command, " RP_MEASURED_BY_LOG : "not of a command");
}

static int is_listed(const char *word, const struct rules_answer *a)
{
    for (int i = 0; i < a->rule->n; i++)
        if (strcmp(word, a->rule->word[i]) == 0)
            return 1;
    return 0;
}

/* One program that ran; NULL: its digest is not there. 0, or -1 with the answer. */
static int check_digest(const char *is, const char *where, struct rules_answer *a)
{
    if (is && is_listed(is, a)) {
        answer(a, 1, "%s, by the signer's own account", is);
        return 0;
    }
    if (is)
        answer(a, 0, "the program that ran%s has SHA-256 %s, which is not in the list", where, is);
    else
        answer(a, 0, "the program's digest was not captured%s", where);
    return -1;
}

/* Those of the captures of all nodes, and of the processes of a job, which may be other builds. */
static void rule_programs(const struct rp_verify_state *s, struct rules_answer *a)
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

/* A captured repository: the working directory's, or one named with --repo. "absent": not a repository. What could not be read or was not
 * captured counts as possibly changed. 0, or -1 with the answer. */
static int check_repository(const char *name, const char *where, const json_t *values, struct rules_answer *a)
{
    const char *state = rp_state_at(values, "modified"), *below = rp_state_at(values, "submodules_changed");
    double modified = 0, submodules = 0;
    int none = strcmp(state, "absent") == 0 && rp_value_at(values, "modified");
    if (rp_known_number(values, "modified", &modified) < 0 && !none)
        answer(a, 0, "unknown: whether the repository '%s'%s was changed is '%s'", name, where,
            rp_value_at(values, "modified") ? state : "not captured");
    else if (rp_known_number(values, "submodules_changed", &submodules) < 0 && strcmp(below, "absent") != 0)
        answer(a, 0, "unknown: whether submodules of the repository '%s'%s were changed is '%s'", name, where, below);
    else if (modified > 0 || submodules > 0)
        answer(a, 0, "%.0f files and %.0f submodules of the repository '%s'%s were modified", modified, submodules,
               name, where);
    else
        return 0;
    return -1;
}

static void rule_clean_tree(const struct rp_verify_state *s, struct rules_answer *a)
{
    const char *tool = s->run.facts->tool.dirty, *name;
    if (strcmp(tool, "clean") != 0) {
        answer(a, 0, "the program was built from a tree that is '%s'", tool);
        return;
    }
    answer(a, 1, "built from a clean tree, by the signer's own account");
    for (int node = 0; node < s->run.nodes; node++) {
        json_t *all = json_object_get(json_object_get(s->run.node[node].before, "probes"), "git"), *values;
        char where[RP_WHO] = "";
        rp_run_node_text(where, &s->run, " on ", node, "");
        json_object_foreach(all, name, values)
            if (check_repository(name, where, values, a) < 0)
                return;
        if (!json_object_get(all, "workdir")) {
            answer(a, 0, "unknown: the working directory was not captured%s", where);
            return;
        }
    }
}

static void rule_complete(const struct rp_verify_state *s, struct rules_answer *a)
{
    answer(a, rp_facts_complete(s->run.facts), "the run is %s", s->run.facts->status);
}

static void rule_min_steps(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_loss_scaling *scaling = s->run.figures->results.loss_scaling;
    const int64_t n = s->run.figures->results.steps.timed - (scaling ? scaling->skipped_timed : 0);
    answer(a, n >= a->rule->number, "%" PRId64 " timed step%s%s, at least %" PRId64 " required", n, rp_s(n),
           scaling ? " that changed weights" : "", a->rule->number);
}

static void rule_min_repeats(const struct rp_verify_state *s, struct rules_answer *a)
{
    const int64_t n = s->run.figures->results.windows_n;
    answer(a, n >= a->rule->number, "%" PRId64 " repeat%s, at least %" PRId64 " required", n, rp_s(n), a->rule->number);
}

static void rule_min_ranks(const struct rp_verify_state *s, struct rules_answer *a)
{
    const int64_t n = s->run.facts->rank_n;
    answer(a, n >= a->rule->number, "%" PRId64 " rank%s, at least %" PRId64 " required", n, rp_s(n), a->rule->number);
}

static void rule_min_nodes(const struct rp_verify_state *s, struct rules_answer *a)
{
    const int64_t n = s->run.nodes, machines = rp_verify_machines(&s->run);
    if (machines < n)
        answer(a, machines >= a->rule->number,
               "%" PRId64 " nodes, which by their captures are %" PRId64 " machine%s, at least %" PRId64 " required", n,
               machines, rp_s(machines), a->rule->number);
    else
        answer(a, n >= a->rule->number, "%" PRId64 " node%s, at least %" PRId64 " required", n, rp_s(n),
               a->rule->number);
}

static void rule_min_devices(const struct rp_verify_state *s, struct rules_answer *a)
{
    const int64_t n = rp_run_devices(&s->run), machines = rp_verify_machines(&s->run);
    const char *kind = rp_facts_kind(s->run.facts);
    const char *what = strcmp(kind, "cpu") == 0 ? "thread" : strcmp(kind, "cuda") == 0 ? "GPU" : "device";
    if (machines < s->run.nodes)
        answer(a, 0,
               "unknown: %d nodes are %" PRId64 " machine%s by their captures, so that devices may be counted twice",
               s->run.nodes, machines, rp_s(machines));
    else
        answer(a, n >= a->rule->number, "%" PRId64 " %s%s, at least %" PRId64 " required", n, what, rp_s(n),
               a->rule->number);
}

/* Listed names count where the capture has them too: a processor's name may honestly differ, but is then only the
 * signer's word. */
static void rule_device_models(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_facts *f = s->run.facts;
    char who[RP_WHO];
    for (int64_t i = 0; i < f->rank_n; i++) {
        const char *name = f->rank[i].device ? f->rank[i].device->name : "", *cpu;
        rp_run_rank_text(who, &s->run, "", i, ": ");
        if (!*name)
            answer(a, 0, "%sunknown: the device has no name", who);
        else if (!is_listed(name, a))
            answer(a, 0, "%s'%s' is not in the list", who, name);
        else if (rp_verify_captured_device(s, (int)i, &cpu))
            continue;
        else if (cpu)
            answer(a, 0, "%s'%s' is in the list, but the captured CPU is '%s'", who, name, cpu);
        else
            answer(a, 0, "%sunknown: '%s' is in the list, but the capture names no such device", who, name);
        return;
    }
    answer(a, 1, "all in the list, by the signer's own account");
}

/* Numbers between dots are compared one by one; a missing one is 0. */
static int version_is_less(const char *a, const char *b)
{
    while (*a || *b) {
        char *after_a, *after_b;
        const long long x = strtoll(a, &after_a, 10), y = strtoll(b, &after_b, 10);
        if (x != y)
            return x < y;
        a = after_a + (*after_a == '.');
        b = after_b + (*after_b == '.');
        if (after_a == a && after_b == b) /* neither goes on with a number */
            break;
    }
    return 0;
}

static void rule_min_driver(const struct rp_verify_state *s, struct rules_answer *a)
{
    const char *least = a->rule->word[0];
    char where[RP_WHO];
    answer(a, 0, "no rank ran on a GPU");
    for (int64_t i = 0; i < s->run.facts->rank_n; i++) {
        const int node = (int)s->run.facts->rank[i].node;
        const char *is = rp_known_text(rp_run_capture(&s->run, node, 0), "probes.nvidia.version");
        if (rp_rank_on_cpu(s->run.facts, i))
            continue;
        rp_run_node_text(where, &s->run, " on ", node, "");
        if (!is || *is < '0' || *is > '9')
            answer(a, 0, "unknown: the driver was not captured%s", where);
        else
            answer(a, !version_is_less(is, least), "%s%s, at least %s required", is, where, least);
        if (!a->holds)
            return;
    }
}

static void rule_precisions(const struct rp_verify_state *s, struct rules_answer *a)
{
    const char *is = json_string_value(rp_facts_setting(s->run.facts, "train.precision"));
    const int listed = is && is_listed(is, a);
    answer(a, listed, listed ? "'%s'" : "'%s' is not in the list", is ? is : "unknown");
}

static void rule_batch_sizes(const struct rp_verify_state *s, struct rules_answer *a)
{
    char is[24];
    RP_FORMAT(is, "%" PRId64, s->run.facts->plan.batch);
    answer(a, is_listed(is, a), is_listed(is, a) ? "%s" : "%s is not in the list", is);
}

static void rule_min_throughput(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_throughput_figures *t = &s->run.figures->results.throughput;
    const char *unit = a->rule->word[0], *own;
    const double by_log = rp_run_throughput(s->run.doc, &own);
    const double tokens = rp_figures_tokens(s->run.figures);
    const struct rp_rule *levels = &s->o->policy->rule[RP_RULE_levels];
    int timed = 0;
    for (int i = 0; i < levels->n; i++)
        timed |= rp_level_find(levels->word[i]) == RP_LEVEL_timed;
    if (s->run.doc->command && !timed) {
        if (isnan(by_log))
            answer(a, 0, "unknown: the log of the command has not exactly one result");
        else if (strcmp(unit, own) != 0)
            answer(a, 0, "the log of the command is in %.40s", own);
        else
            answer(a, by_log >= a->rule->rate, "%.6g %s, at least %.6g required; " RP_MEASURED_BY_LOG, by_log, unit,
                   a->rule->rate);
        return;
    }
    double least = timed ? s->v->timed.rate : isnan(t->interval[0]) ? t->value : t->interval[0];
    if (isnan(t->value)) {
        answer(a, 0, "unknown: no step was timed");
        return;
    }
    if (strcmp(unit, "tokens/s") == 0 && tokens > 0)
        least *= tokens / t->value;
    else if (strcmp(unit, t->unit) != 0) {
        answer(a, 0, "the run is measured in %s", t->unit);
        return;
    }
    answer(a, least >= a->rule->rate, "%.6g %s%s, at least %.6g required%s", least, unit,
           timed                    ? ", by the challenger's clock"
           : isnan(t->interval[0]) ? ""
                                   : ", the lower end of its interval",
           a->rule->rate, timed ? "" : "; the signer's word");
}

static void rule_min_efficiency_percent(const struct rp_verify_state *s, struct rules_answer *a)
{
    const double least = 100 * rp_json_number_at(s->v->scaling, "efficiency/0");
    const char *conditions = rp_json_text_at(s->v->scaling, "conditions");
    if (!s->o->baseline) {
        answer(a, 0, "no baseline was given: use --baseline");
        return;
    }
    if (isnan(least) || rp_json_integer_at(s->v->scaling, "width") <= rp_json_integer_at(s->v->scaling, "base_width")) {
        answer(a, 0, "not compared with a baseline of fewer threads or devices: see the check 'scaling'");
        return;
    }
    answer(a, least >= (double)a->rule->number, "%.1f %%, at least %" PRId64 " required%s%s", least, a->rule->number,
           *conditions ? "; other differences: " : "", conditions);
    a->remark = *conditions != 0;
}

static void rule_levels(const struct rp_verify_state *s, struct rules_answer *a)
{
    RP_BUF broken = {0};
    answer(a, 1, "all in the list");
    for (int i = 0; i < a->rule->n; i++) {
        int id = rp_level_find(a->rule->word[i]);
        struct rp_level l = rp_level_of(s->v, (enum rp_level_id)(id < 0 ? RP_LEVEL_claimed : id));
        if (l.state == RP_LEVEL_NO || (id == RP_LEVEL_timed && l.state != RP_LEVEL_YES))
            rp_buf_printf(&broken, "%snot %s: %s", broken.size ? "; " : "", a->rule->word[i], l.text);
        else if (id == RP_LEVEL_consistent && l.state == RP_LEVEL_PART)
            a->remark = 1;
    }
    if (broken.size)
        answer(a, 0, "%s", rp_buf_text(&broken));
    else if (a->remark)
        answer(a, 1, "all in the list; consistent with warnings");
}

static void rule_max_undetected(const struct rp_verify_state *s, struct rules_answer *a)
{
    const double p = rp_level_undetected(s->v);
    answer(a, p <= a->rule->share, "%.4g, at most %.4g allowed%s", p, a->rule->share,
           p <= a->rule->share ? "" : " (--draw, --draws)");
}

static void rule_replayed(const struct rp_verify_state *s, struct rules_answer *a)
{
    answer(a, s->v->replayed >= a->rule->number, "%" PRId64 " step%s replayed, at least %" PRId64 " required%s",
           s->v->replayed, rp_s(s->v->replayed), a->rule->number,
           s->v->replayed < a->rule->number ? " (--replay)" : "");
}

/* A first line has nothing before it, even if the ledger was begun anew; neither has one that began long after its
 * key was made, or nobody says how long. The rules hold; `checks: {ledger: passed}` refuses such a run. */
static const char *first_line(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const char *why = is->position == 1                     ? "; the ledger begins with this run"
                      : !is->key_made                       ? "; when the ledger's key was made is not recorded"
                      : rp_facts_ledger_gap(s->run.facts) ? "; the ledger begins long after its key was made"
                                                            : "";
    a->remark = *why != 0;
    return why;
}

static void rule_in_ledger(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    if (is->position > 0)
        answer(a, 1, "line %" PRId64 "%s", is->position, first_line(s, a));
    else
        answer(a, 0, "in no ledger: %s", is->reason ? is->reason : "");
}

/* Why the ledger is unknown. A given one that lacks the entry fails the check `ledger` first. */
static const char *not_looked_up(const struct rp_verify_state *s)
{
    return !s->o->ledger ? "unknown: no ledger was given (--ledger)"
           : s->run.facts->ledger.position > 0
               ? "unknown: the given ledger does not have the entry (see the check ledger)"
               : "unknown: the run cites no ledger entry";
}

static void rule_ledger_checked(const struct rp_verify_state *s, struct rules_answer *a)
{
    int recorded = json_is_true(json_object_get(s->v->ledger, "recorded"));
    answer(a, recorded, "%s", recorded       ? "found, with this bundle"
                       : s->v->ledger ? "found, but its end in this bundle is not recorded"
                                      : not_looked_up(s));
}

static void rule_max_attempts_before(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const int64_t n = is->earlier;
    if (is->reason || n < 0)
        answer(a, 0, "unknown: the run is in no ledger");
    else
        answer(a, n <= a->rule->number, "%" PRId64 " before it, %" PRId64 " allowed%s%s", n, a->rule->number,
            s->v->ledger ? "" : "; according to the signer", first_line(s, a));
}

static void rule_max_failed_before(const struct rp_verify_state *s, struct rules_answer *a)
{
    static const char *const ends[] = {"failed", "interrupted", "open"};
    int64_t n = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        n += json_integer_value(json_object_get(s->v->ledger, ends[i]));
    if (!s->v->ledger)
        answer(a, 0, "%s", not_looked_up(s));
    else
        answer(a, n <= a->rule->number,
               "%" PRId64 " earlier runs failed, were interrupted or have no end, %" PRId64 " allowed", n,
               a->rule->number);
}

/* The original was given and compared. 0, or -1 with the answer. */
static int require_original(const struct rp_verify_state *s, struct rules_answer *a)
{
    if (s->v->original)
        return 0;
    answer(a, 0, "%s",
           s->run.figures->agreement ? "unknown: the original was not given (--original)" : "not a replication");
    return -1;
}

static void rule_bits_equal(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_agreement *both = s->run.figures->agreement;
    if (require_original(s, a) < 0)
        return;
    const int equal = both && both->bits.equal > 0;
    const int64_t steps = both ? both->bits.steps : 0, own = rp_figures_steps(s->run.figures),
                  first = s->v->original_steps;
    if (equal && (!s->v->keyed || (s->v->replayed < own && !s->v->drawn)))
        answer(a, 0,
               "unknown: equal bits can be copied; %" PRId64 " of %" PRId64 " step%s recomputed here with %" PRId64
               " keyed root%s "
               "(--replay of all, or --draw with --received)",
               s->v->replayed, own, rp_s(own), s->v->keyed, rp_s(s->v->keyed));
    else if (equal && steps >= 1 && steps == own && steps == first)
        answer(a, 1, "equal over %" PRId64 " step%s", steps, rp_s(steps));
    else
        answer(a, 0, "%s over %" PRId64 " step%s; the run has %" PRId64 ", the original %" PRId64,
               equal ? "equal" : "not equal", steps, rp_s(steps), own, first);
}

static void rule_throughput_within_percent(const struct rp_verify_state *s, struct rules_answer *a)
{
    const struct rp_agreement *both = s->run.figures->agreement;
    const double off = both ? 100 * fabs(both->throughput.ratio - 1) : NAN;
    if (require_original(s, a) == 0)
        answer(a, off <= (double)a->rule->number,
               isnan(off) ? "unknown" : "%.2f %% from the original's, %" PRId64 " allowed", off, a->rule->number);
}

/* Counters of a node's processors since boot, before and after the run. */
static void cpu_throttling(const struct rp_captures *of, const char *where, struct rules_answer *a)
{
    static const char *const counts[] = {"probes.frequency.core_throttles", "probes.frequency.package_throttles"};
    double before, after, more = 0;
    int known = 0;
    for (int i = 0; i < 2; i++) {
        int knew = rp_known_number(of->before, counts[i], &before) == 0,
            knows = rp_known_number(of->after, counts[i], &after) == 0;
        if (knew != knows || (knew && after < before)) {
            answer(a, 0,
                   knew != knows ? "unknown: %s was captured only once%s"
                                 : "unknown: %s decreased, as after a restart%s",
                   counts[i], where);
            return;
        }
        known |= knew;
        more += knew ? after - before : 0;
    }
    if (!known)
        answer(a, 0, "unknown: this processor does not count throttling, or not for guests%s", where);
    else
        answer(a, more == 0, "throttled %.0f times during the run, by the signer's own account%s", more,
               more > 0 ? where : "");
}

/* Of every node with a rank on its processors. */
static void cpus_throttling(const struct rp_verify_state *s, struct rules_answer *a)
{
    char where[RP_WHO] = "";
    int last = -1; /* nodes are numbered in the order of ranks */
    for (int64_t i = 0; i < s->run.facts->rank_n; i++) {
        const int node = (int)s->run.facts->rank[i].node;
        if (node <= last || !rp_rank_on_cpu(s->run.facts, i))
            continue;
        last = node;
        rp_run_node_text(where, &s->run, " (", node, ")");
        cpu_throttling(&s->run.node[node], where, a);
        if (!a->holds)
            return;
    }
}

/* Of a rank on a GPU; answers only if it was, or may have been, throttled. */
static void gpu_throttling(const struct rp_verify_state *s, int rank, struct rules_answer *a)
{
    const struct rp_telemetry_figures *is = s->run.figures->rank[rank].telemetry;
    char who[RP_WHO];
    rp_run_rank_text(who, &s->run, "", rank, ": ");
    if (!is || !is->throttle_samples) {
        answer(a, 0, "%sunknown: no device sample has it", who);
        return;
    }
    if (rp_run_lacks_samples(&s->run, rank))
        answer(a, 0, "%sunknown: too few device samples (%" PRId64 ")", who, is->timed);
    for (int64_t i = 0; i < is->throttle_n; i++)
        if (!rp_throttle_is_harmless(is->throttle[i].reason))
            answer(a, 0, "%s%s in %.1f %% of the device samples", who, is->throttle[i].reason,
                   100 * is->throttle[i].share);
}

static void rule_no_throttling(const struct rp_verify_state *s, struct rules_answer *a)
{
    int64_t silent = 0;
    int gpus = 0;
    for (int i = 0; i < s->run.ranks.ranks; i++)
        gpus += !rp_rank_on_cpu(s->run.facts, i);
    if (gpus < s->run.ranks.ranks) {
        cpus_throttling(s, a);
        if (!gpus || !a->holds)
            return;
    }
    for (int64_t i = 0; i < s->run.telemetry.n; i++)
        silent += !s->run.telemetry.sample[i].throttle;
    answer(a, 1, "none in %" PRId64 " device samples, by the signer's own account",
           s->run.figures->telemetry ? s->run.figures->telemetry->timed : 0);
    for (int i = 0; i < s->run.ranks.ranks && a->holds; i++)
        if (!rp_rank_on_cpu(s->run.facts, i))
            gpu_throttling(s, i, a);
    if (silent && a->holds)
        answer(a, 0, "unknown: %" PRId64 " of %" PRId64 " device samples lack it", silent, s->run.telemetry.n);
}

static void rule_no_warnings(const struct rp_verify_state *s, struct rules_answer *a)
{
    answer(a, 1, "none");
    for (int i = 0; i < RP_CHECK_policy; i++)
        if (s->v->check[i].state == RP_CHECK_WARNING)
            answer(a, 0, "%s: %s", s->v->check[i].name, s->v->check[i].text);
}

static void rule_checks(const struct rp_verify_state *s, struct rules_answer *a)
{
    RP_BUF broken = {0}; /* the text of each check stands in its own row */
    answer(a, 1, "all as required");
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *is = &s->v->check[i];
        int worst = s->o->policy->worst[i];
        if (worst && ((int)is->state > worst || is->state < RP_CHECK_PASSED))
            rp_buf_printf(&broken, "%s%s is '%s', allowed is '%s'", broken.size ? "; " : "", is->name,
                          rp_check_state_name(is->state), rp_check_state_name((enum rp_check_state)worst));
    }
    if (broken.size)
        answer(a, 0, "%s", rp_buf_text(&broken));
}

/* What only a run can meet, and a bundle of a command at all, which a policy has to allow. 0, or -1 with the answer. */
static int allows_command(const struct rp_verify_state *s, int rule, struct rules_answer *a)
{
    if (!s->run.doc->command || rp_rule_text(rule)->of != RP_BUNDLE_RUN)
        return 0;
    answer(a, 0, "the bundle is of a command, which this program did not train");
    return -1;
}

/* Rules for runs were not written for the log of another program: a bundle of a command is accepted only with
 * `commands`. */
static int is_refused_command(const struct rp_verify_state *s, int rule)
{
    return rule == RP_RULE_commands && s->run.doc->command && !s->o->policy->rule[rule].line;
}

int rp_check_policy(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    static void (*const rules[])(const struct rp_verify_state *, struct rules_answer *) = {
#define RULE(id, of, type, example, meaning) rule_##id,
#include "verify/policy/policy.def"
#undef RULE
    };
    const struct rp_policy *p = s->o->policy;
    int rules_given = 0, broken = 0, remarks = 0;
    RP_BUF names = {0}, reasons = {0}, first = {0}; /* of the broken rules; the first remark of one that holds */
    if (!p)
        return rp_check_skip(result, "not requested; --policy FILE gives the rules that the bundle must meet");
    s->v->policy = json_array();
    for (int i = 0; i < RP_RULE_COUNT; i++) {
        struct rules_answer a = {.rule = &p->rule[i]};
        if (!p->rule[i].line && !is_refused_command(s, i))
            continue;
        rules_given++;
        if (is_refused_command(s, i))
            answer(&a, 0, "the bundle is of a command, " RP_MEASURED_BY_LOG ": `commands: true` accepts such bundles");
        else if (allows_command(s, i, &a) == 0)
            rules[i](s, &a);
        const size_t size = strlen(a.text) + 1;
        RP_FREE char *text = a.text, *safe = rp_alloc(size);
        rp_ascii(safe, size, text);
        json_array_append_new(
            s->v->policy, json_pack("{s:s, s:b, s:s}", "rule", rp_rule_text(i)->id, "holds", a.holds, "text", safe));
        if (a.holds && a.remark && !remarks++)
            rp_buf_printf(&first, "%s: %s", rp_rule_text(i)->id, safe);
        if (!a.holds) {
            rp_buf_printf(&names, "%s%s", broken ? ", " : "", rp_rule_text(i)->id);
            rp_buf_printf(&reasons, "%s%s: %s", broken++ ? "; " : "", rp_rule_text(i)->id, safe);
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
