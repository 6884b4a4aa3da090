/* Rules on what was measured: how much, on which devices, and how fast. */
#include "verify/policy/rules.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "run/derive.h"
#include "verify/levels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void rp_rule_min_steps(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_loss_scaling *scaling = s->run.figures->results.loss_scaling;
    const int64_t n = s->run.figures->results.steps.timed - (scaling ? scaling->skipped_timed : 0);
    rp_answer(a, n >= a->rule->number, "%" PRId64 " timed step%s%s, at least %" PRId64 " required", n, rp_s(n),
              scaling ? " that changed weights" : "", a->rule->number);
}

void rp_rule_min_repeats(const struct rp_verify_state *s, struct rp_answer *a)
{
    const int64_t n = s->run.figures->results.windows_n;
    rp_answer(a, n >= a->rule->number, "%" PRId64 " repeat%s, at least %" PRId64 " required", n, rp_s(n),
              a->rule->number);
}

void rp_rule_min_ranks(const struct rp_verify_state *s, struct rp_answer *a)
{
    const int64_t n = s->run.facts->rank_n;
    rp_answer(a, n >= a->rule->number, "%" PRId64 " rank%s, at least %" PRId64 " required", n, rp_s(n),
              a->rule->number);
}

void rp_rule_min_nodes(const struct rp_verify_state *s, struct rp_answer *a)
{
    const int64_t n = s->run.nodes, machines = rp_verify_machines(&s->run);
    if (machines < n)
        rp_answer(a, machines >= a->rule->number,
                  "%" PRId64 " nodes, which by their captures are %" PRId64 " machine%s, at least %" PRId64 " required",
                  n, machines, rp_s(machines), a->rule->number);
    else
        rp_answer(a, n >= a->rule->number, "%" PRId64 " node%s, at least %" PRId64 " required", n, rp_s(n),
                  a->rule->number);
}

void rp_rule_min_devices(const struct rp_verify_state *s, struct rp_answer *a)
{
    const int64_t n = rp_run_devices(&s->run), machines = rp_verify_machines(&s->run);
    const char *kind = rp_facts_kind(s->run.facts);
    const char *what = strcmp(kind, "cpu") == 0 ? "thread" : strcmp(kind, "cuda") == 0 ? "GPU" : "device";
    if (machines < s->run.nodes)
        rp_answer(a, 0,
                  "unknown: %d nodes are %" PRId64 " machine%s by their captures, so that devices may be counted twice",
                  s->run.nodes, machines, rp_s(machines));
    else
        rp_answer(a, n >= a->rule->number, "%" PRId64 " %s%s, at least %" PRId64 " required", n, what, rp_s(n),
                  a->rule->number);
}

/* Listed names count where the capture has them too: a processor's name may honestly differ, but is then only the
 * signer's word. */
void rp_rule_device_models(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_facts *f = s->run.facts;
    char who[RP_WHO];
    for (int64_t i = 0; i < f->rank_n; i++) {
        const char *name = f->rank[i].device ? f->rank[i].device->name : "", *cpu;
        rp_run_rank_text(who, &s->run, "", i, ": ");
        if (!*name)
            rp_answer(a, 0, "%sunknown: the device has no name", who);
        else if (!rp_answer_lists(a, name))
            rp_answer(a, 0, "%s'%s' is not in the list", who, name);
        else if (rp_verify_captured_device(s, (int)i, &cpu))
            continue;
        else if (cpu)
            rp_answer(a, 0, "%s'%s' is in the list, but the captured CPU is '%s'", who, name, cpu);
        else
            rp_answer(a, 0, "%sunknown: '%s' is in the list, but the capture names no such device", who, name);
        return;
    }
    rp_answer(a, 1, "all in the list, by the signer's own account");
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

void rp_rule_min_driver(const struct rp_verify_state *s, struct rp_answer *a)
{
    const char *least = a->rule->word[0];
    char where[RP_WHO];
    rp_answer(a, 0, "no rank ran on a GPU");
    for (int64_t i = 0; i < s->run.facts->rank_n; i++) {
        const int node = (int)s->run.facts->rank[i].node;
        const char *is = rp_known_text(rp_run_capture(&s->run, node, 0), "probes.nvidia.version");
        if (rp_rank_on_cpu(s->run.facts, i))
            continue;
        rp_run_node_text(where, &s->run, " on ", node, "");
        if (!is || *is < '0' || *is > '9')
            rp_answer(a, 0, "unknown: the driver was not captured%s", where);
        else
            rp_answer(a, !version_is_less(is, least), "%s%s, at least %s required", is, where, least);
        if (!a->holds)
            return;
    }
}

void rp_rule_precisions(const struct rp_verify_state *s, struct rp_answer *a)
{
    const char *is = json_string_value(rp_facts_setting(s->run.facts, "train.precision"));
    const int listed = is && rp_answer_lists(a, is);
    rp_answer(a, listed, listed ? "'%s'" : "'%s' is not in the list", is ? is : "unknown");
}

void rp_rule_batch_sizes(const struct rp_verify_state *s, struct rp_answer *a)
{
    char is[24];
    RP_FORMAT(is, "%" PRId64, s->run.facts->plan.batch);
    rp_answer(a, rp_answer_lists(a, is), rp_answer_lists(a, is) ? "%s" : "%s is not in the list", is);
}

void rp_rule_min_throughput(const struct rp_verify_state *s, struct rp_answer *a)
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
        char given[160] = "";
        if (s->run.doc->command->log)
            rp_command_log_given(given, s->run.doc->command->log);
        if (isnan(by_log))
            rp_answer(a, 0, "unknown: the log of the command has not exactly one result");
        else if (strcmp(unit, own) != 0)
            rp_answer(a, 0, "the log of the command is in %.40s", own);
        else
            rp_answer(a, by_log >= a->rule->rate, "%.6g %s, at least %.6g required; " RP_MEASURED_BY_LOG "%s%s", by_log,
                      unit, a->rule->rate, *given ? " with the signer's " : "", given);
        a->remark = *given != 0;
        return;
    }
    double least = timed ? s->v->timed.rate : isnan(t->interval[0]) ? t->value : t->interval[0];
    if (isnan(t->value)) {
        rp_answer(a, 0, "unknown: no step was timed");
        return;
    }
    if (strcmp(unit, "tokens/s") == 0 && tokens > 0)
        least *= tokens / t->value;
    else if (strcmp(unit, t->unit) != 0) {
        rp_answer(a, 0, "the run is measured in %s", t->unit);
        return;
    }
    /* a small model has any rate */
    const int any_work = least >= a->rule->rate && !s->o->policy->rule[RP_RULE_recipes].line;
    a->remark = any_work;
    rp_answer(a, least >= a->rule->rate, "%.6g %s%s, at least %.6g required%s%s", least, unit,
              timed                   ? ", by the challenger's clock"
              : isnan(t->interval[0]) ? ""
                                      : ", the lower end of its interval",
              a->rule->rate, timed ? "" : "; the signer's word",
              any_work ? "; of a recipe of the signer's choice, as the policy has no rule 'recipes'" : "");
}

void rp_rule_min_efficiency_percent(const struct rp_verify_state *s, struct rp_answer *a)
{
    const struct rp_scaling_answer *is = s->v->scaling;
    if (!s->o->baseline) {
        rp_answer(a, 0, "no baseline was given: use --baseline");
        return;
    }
    if (!is || is->width <= is->base_width) {
        rp_answer(a, 0, "not compared with a baseline of fewer threads or devices: see the check 'scaling'");
        return;
    }
    const double least = 100 * is->efficiency[0];
    rp_answer(a, least >= (double)a->rule->number, "%.1f %%, at least %" PRId64 " required%s%s", least, a->rule->number,
              *is->conditions ? "; other differences: " : "", is->conditions);
    a->remark = *is->conditions != 0;
}

/* ---- throttling ---- */

/* Counters of a node's processors since boot, before and after the run. */
static void cpu_throttling(const struct rp_captures *of, const char *where, struct rp_answer *a)
{
    static const char *const counts[] = {"probes.frequency.core_throttles", "probes.frequency.package_throttles"};
    double before, after, more = 0;
    int known = 0;
    for (int i = 0; i < 2; i++) {
        int knew = rp_known_number(of->before, counts[i], &before) == 0,
            knows = rp_known_number(of->after, counts[i], &after) == 0;
        if (knew != knows || (knew && after < before)) {
            rp_answer(a, 0,
                      knew != knows ? "unknown: %s was captured only once%s"
                                    : "unknown: %s decreased, as after a restart%s",
                      counts[i], where);
            return;
        }
        known |= knew;
        more += knew ? after - before : 0;
    }
    if (!known)
        rp_answer(a, 0, "unknown: this processor does not count throttling, or not for guests%s", where);
    else
        rp_answer(a, more == 0, "throttled %.0f times during the run, by the signer's own account%s", more,
                  more > 0 ? where : "");
}

/* Throttling of every node with a rank on its processors. */
static void cpus_throttling(const struct rp_verify_state *s, struct rp_answer *a)
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

/* Throttling of a rank on a GPU; answers only if it was, or may have been, throttled. */
static void gpu_throttling(const struct rp_verify_state *s, int rank, struct rp_answer *a)
{
    const struct rp_telemetry_figures *is = s->run.figures->rank[rank].telemetry;
    char who[RP_WHO];
    rp_run_rank_text(who, &s->run, "", rank, ": ");
    if (!is || !is->throttle_samples) {
        rp_answer(a, 0, "%sunknown: no device sample has it", who);
        return;
    }
    if (is->throttle_samples < is->timed)
        rp_answer(a, 0, "%sunknown: %" PRId64 " of %" PRId64 " device samples lack it", who,
                  is->timed - is->throttle_samples, is->timed);
    if (rp_run_lacks_samples(&s->run, rank))
        rp_answer(a, 0, "%sunknown: too few device samples (%" PRId64 ")", who, is->timed);
    for (int64_t i = 0; i < is->throttle_n; i++)
        if (!rp_throttle_is_harmless(is->throttle[i].reason))
            rp_answer(a, 0, "%s%s in %.1f %% of the device samples", who, is->throttle[i].reason,
                      100 * is->throttle[i].share);
}

void rp_rule_no_throttling(const struct rp_verify_state *s, struct rp_answer *a)
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
    rp_answer(a, 1, "none in %" PRId64 " device samples, by the signer's own account",
              s->run.figures->telemetry ? s->run.figures->telemetry->timed : 0);
    for (int i = 0; i < s->run.ranks.ranks && a->holds; i++)
        if (!rp_rank_on_cpu(s->run.facts, i))
            gpu_throttling(s, i, a);
    if (silent && a->holds)
        rp_answer(a, 0, "unknown: %" PRId64 " of %" PRId64 " device samples lack it", silent, s->run.telemetry.n);
}
