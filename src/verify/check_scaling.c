/* Scaling against a baseline with fewer threads or devices: the speed-up is at most ideal, unless something else differs. With as many, as of
 * 2 ranks of 1 thread against 1 rank of 2, the ratio is what dividing the work costs. */
#include "base/buf.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "capture/value.h"
#include "run/results.h"
#include "verify/state.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 1.05       /* caches that grow with the cores */
#define EQUAL_SLACK 1.25 /* of as many threads or devices: where they are on the machine, and what else ran there */
#define CONDITIONS 200 /* bytes of their names in a message */

/* A run and what was captured of its machines. */
struct scaling_side {
    const json_t *run, *before;     /* capture of node 0 */
    const struct rp_captures *node; /* [nodes], of those after the first */
    int nodes;
};

static const json_t *probes_of(const struct scaling_side *s, int64_t node)
{
    const json_t *own = node > 0 && node < s->nodes && s->node ? s->node[node].before : NULL;
    return json_object_get(own ? own : s->before, "probes");
}

static const json_t *rank_of(const struct scaling_side *s, int64_t rank)
{
    return json_array_get(rp_json_at(s->run, "world/rank"), (size_t)rank);
}

static const json_t *device_of(const struct scaling_side *s, int64_t rank)
{
    const json_t *own = json_object_get(rank_of(s, rank), "device");
    return json_is_object(own) ? own : json_object_get(s->run, "device");
}

/* ---- how wide a run is ---- */

static int64_t threads_of(const struct scaling_side *s)
{
    const int64_t ranks = rp_run_ranks(s->run), nodes = s->nodes > 0 ? s->nodes : 1;
    RP_FREE int64_t *of = rp_alloc((size_t)nodes * sizeof *of);
    int64_t all = 0;
    for (int64_t i = 0; i < ranks; i++) {
        struct rp_device_info d;
        const int known = rp_device_from_json(&d, device_of(s, i)) == 0 && d.threads > 0;
        const int64_t node = rp_json_integer_at(rank_of(s, i), "node");
        of[node >= 0 && node < nodes ? node : 0] += known ? d.threads : 1;
    }
    for (int64_t i = 0; i < nodes; i++) {
        double here;
        const int known = rp_known_number(probes_of(s, i), "cpu.threads", &here) == 0 && here >= 1;
        const int64_t most = rp_verify_processors(s->run, (int)i, known && here < INT_MAX ? (int)here : INT_MAX);
        all += of[i] > most ? most : of[i];
    }
    return all;
}

int64_t rp_verify_threads(const json_t *run, const json_t *before, const struct rp_captures *node, int nodes)
{
    return threads_of(&(struct scaling_side){run, before, node, nodes});
}

/* GPUs: ranks, unless the addresses show that several have one. Instances of a GPU that is divided share its address. */
static int64_t gpus_of(const struct scaling_side *s)
{
    const int64_t ranks = rp_run_ranks(s->run);
    RP_FREE char **place = rp_alloc((size_t)ranks * sizeof *place);
    int64_t n = 0, distinct = 0;
    for (; n < ranks; n++) {
        const char *address = rp_json_text_at(device_of(s, n), "pci_address");
        if (!*address || strstr(rp_json_text_at(device_of(s, n), "name"), " MIG "))
            break;
        place[n] = rp_asprintf("%lld %s", (long long)rp_json_integer_at(rank_of(s, n), "node"), address);
    }
    if (n == ranks)
        rp_sort_text((const char **)place, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        distinct += i == 0 || strcmp(place[i], place[i - 1]) != 0;
    for (int64_t i = 0; i < n; i++)
        free(place[i]);
    return n == ranks && n > 0 ? distinct : ranks;
}

static int64_t width_of(const struct scaling_side *s)
{
    return strcmp(rp_json_text_at(s->run, "backend"), "cpu") == 0 ? threads_of(s) : gpus_of(s);
}

/* ---- conditions that differ ---- */

static void add_condition(char *out, const char *name, int differs)
{
    const size_t n = strlen(out);
    if (differs && n + 1 < CONDITIONS)
        snprintf(out + n, CONDITIONS - n, "%s%s", n ? ", " : "", name);
}

static int unequal(const json_t *a, const json_t *b)
{
    return a != b && !(a && b && json_equal(a, b));
}

/* Settings that change neither the work on a sample nor the device that does it. */
static int is_free(const char *key)
{
    static const char *const groups[] = {"measure.", "evidence.", "run.", "seed.", "schedule."};
    static const char *const keys[] = {"title", "follows", "parallel.data", "train.global_batch_size", "train.accumulation_steps",
                                       "train.batch_size", "optimizer.learning_rate"}; /* batches: see below */
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncmp(key, groups[i], strlen(groups[i])) == 0)
            return 1;
    return RP_IS_IN(keys, key, strlen(key));
}

/* Micro-batches of a rank between two updates. The same number where the global batch grows with the ranks; fewer where it does not, which
 * makes no rank faster; more save updates. */
static double micro_batches_of(const json_t *run)
{
    return json_number_value(rp_run_setting(run, "train.accumulation_steps")) * json_number_value(rp_run_setting(run, "parallel.data")) /
           rp_verify_degrees(run).data;
}

/* The devices of all ranks are of the same kind, those of the baseline too. */
static int other_devices(const struct scaling_side *s, const struct scaling_side *base)
{
    struct rp_device_info first, one;
    if (rp_device_from_json(&first, device_of(base, 0)) < 0)
        return 1;
    for (int k = 0; k < 2; k++) {
        const struct scaling_side *of = k ? s : base;
        for (int64_t i = 0; i < rp_run_ranks(of->run); i++)
            if (rp_device_from_json(&one, device_of(of, i)) < 0 || strcmp(one.kind, first.kind) != 0 || strcmp(one.name, first.name) != 0 ||
                strcmp(one.isa, first.isa) != 0)
                return 1;
    }
    return 0;
}

/* Differences other than the number of ranks that can explain a speed-up: settings that change the work, and the machines. */
static void find_conditions(char *out, const struct scaling_side *s, const struct scaling_side *base)
{
    static const char *const captured[] = {"cpu.model_name", "frequency.hardware_max", "frequency.governor", "nvidia.version"};
    const char *key;
    json_t *entry;
    *out = 0;
    json_object_foreach(json_object_get(s->run, "recipe"), key, entry)
        if (!is_free(key))
            add_condition(out, key, unequal(json_object_get(entry, "value"), rp_run_setting(base->run, key)));
    add_condition(out, "micro-batches between two updates", micro_batches_of(s->run) > micro_batches_of(base->run));
    add_condition(out, "batch size", unequal(rp_json_at(s->run, "plan/batch"), rp_json_at(base->run, "plan/batch")));
    add_condition(out, "backend", unequal(json_object_get(s->run, "backend"), json_object_get(base->run, "backend")));
    add_condition(out, "device", other_devices(s, base));
    for (size_t i = 0; i < sizeof captured / sizeof *captured; i++) {
        int differs = 0;
        for (int k = 0; k < s->nodes || k == 0; k++)
            differs |= unequal(rp_known(probes_of(s, k), captured[i]), rp_known(probes_of(base, 0), captured[i]));
        for (int k = 1; k < base->nodes; k++)
            differs |= unequal(rp_known(probes_of(base, k), captured[i]), rp_known(probes_of(base, 0), captured[i]));
        add_condition(out, captured[i], differs);
    }
}

/* ---- the speed-up ---- */

/* One end of the interval of the throughput, or the throughput where there is none. */
static double rate_of(const json_t *run, size_t end)
{
    struct rp_throughput t = rp_throughput_of(run);
    return !t.sure ? t.value : end ? t.high : t.low;
}

/* As many threads or devices, in other ranks or on other machines. */
static int judge_equals(int64_t n, const struct rp_throughput *t, const struct rp_throughput *base, double least, double most, const char *conditions,
                        struct rp_check_result *result)
{
    char figures[240];
    RP_FORMAT(figures, "%.5g %.20s on %" PRId64 " threads or devices, %.5g on as many of the baseline: %.3f to %.3f times as fast", t->value, t->unit,
              n, base->value, least, most);
    if (*conditions)
        return rp_check_note(result, "%s; other differences: %s", figures, conditions);
    if (least > EQUAL_SLACK)
        return rp_check_warn(result, "%s, and nothing else differs", figures);
    return rp_check_text(result, "%s", figures);
}

static int compare_runs(const struct scaling_side *s, const struct scaling_side *base, json_t **found, struct rp_check_result *result,
                        struct rp_err *err)
{
    char conditions[CONDITIONS], figures[240];
    const int64_t n = width_of(s), n_base = width_of(base);
    const struct rp_throughput t = rp_throughput_of(s->run), t_base = rp_throughput_of(base->run);
    const double least = rate_of(s->run, 0) / rate_of(base->run, 1), most = rate_of(s->run, 1) / rate_of(base->run, 0);
    const double ideal = n_base > 0 ? (double)n / (double)n_base : 0;
    if (strcmp(t.unit, t_base.unit) != 0)
        return rp_check_warn(result, "throughput is in %.40s, that of the baseline in %.40s: they are not compared", t.unit, t_base.unit);
    if (!(least > 0))
        return rp_check_note(result, "no throughput in one of the two bundles: nothing to compare");
    if (n < n_base)
        return rp_check_note(result, "%" PRId64 " threads or devices, the baseline has %" PRId64 ": verify that one with this as the baseline", n,
                             n_base);
    find_conditions(conditions, s, base);
    *found = json_pack("{s:I, s:I, s:[f, f], s:f, s:[f, f], s:f, s:s}", "width", (json_int_t)n, "base_width", (json_int_t)n_base, "speedup",
                       least, most, "ideal", ideal, "efficiency", least / ideal, most / ideal, "slack",
                       n == n_base ? EQUAL_SLACK : SLACK, "conditions", conditions);
    if (n == n_base)
        return judge_equals(n, &t, &t_base, least, most, conditions, result);
    RP_FORMAT(figures, "%.5g %.20s for each of %" PRId64 " threads or devices, %.5g for each of %" PRId64 " of the baseline: speed-up %.2f to "
                       "%.2f, ideal %.2f, efficiency %.0f to %.0f %%",
              t.value / (double)n, t.unit, n, t_base.value / (double)n_base, n_base, least, most, ideal, 100 * least / ideal,
              100 * most / ideal);
    if (least > ideal * SLACK && !*conditions)
        return rp_fail(err, RP_MISMATCH, "%s; more than %.2f times ideal, and nothing else differs", figures, SLACK);
    if (least > ideal * SLACK)
        return rp_check_warn(result, "%s; more than %.2f times ideal; other differences: %s", figures, SLACK, conditions);
    if (*conditions)
        return rp_check_note(result, "%s; other differences: %s", figures, conditions);
    return rp_check_text(result, "%s", figures);
}

int rp_check_scaling(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_verify_opts o = {.trust = s->o->trust, .keep = &kept};
    if (!s->o->baseline)
        return rp_check_skip(result, "not requested; --baseline BUNDLE names a run with fewer threads or devices, or as many");
    if (rp_verify(&v, s->o->baseline, &o, err) < 0)
        return rp_wrap(err, "--baseline");
    const struct scaling_side own = {s->run, s->before, s->node, s->nodes}, base = {v.run, kept.before, kept.node, kept.nodes};
    return compare_runs(&own, &base, &s->v->scaling, result, err);
}
