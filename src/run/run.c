/* Questions about a run: what run.json, the captures and the records answer together. */
#include "run/run.h"

#include "base/build.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/clock.h"
#include "base/text.h"
#include "capture/value.h"
#include "run/results.h"
#include "train/train.h"
#include "worker/rank.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S 86400
#define CLOCK_MOST ((int64_t)1 << 62)
#define ERROR_MOST 10000000000ll /* half of a round trip: connections that take longer are given up */

void rp_run_fini(struct rp_run *r)
{
    json_decref(r->json);
    for (int i = 0; i < r->nodes; i++) {
        json_decref(r->node[i].before);
        json_decref(r->node[i].after);
    }
    free(r->node);
    rp_records_fini(&r->records);
    rp_all_ranks_fini(&r->ranks);
    rp_recipe_fini(&r->recipe);
    rp_telemetry_fini(&r->telemetry);
    *r = (struct rp_run){0};
}

/* ---- ranks and nodes ---- */

const json_t *rp_run_rank(const struct rp_run *r, int64_t rank)
{
    return json_array_get(rp_json_at(r->json, "world/rank"), (size_t)rank);
}

const json_t *rp_run_device(const struct rp_run *r, int64_t rank)
{
    const json_t *own = json_object_get(rp_run_rank(r, rank), "device");
    return json_is_object(own) ? own : json_object_get(r->json, "device");
}

int rp_run_on_cpu(const struct rp_run *r, int64_t rank)
{
    return strcmp(rp_run_rank_kind(r->json, rank), "cpu") == 0;
}

int rp_run_node_of(const struct rp_run *r, int64_t rank)
{
    const int64_t node = rp_json_integer_at(rp_run_rank(r, rank), "node");
    return node >= 0 && node < r->nodes ? (int)node : 0;
}

const json_t *rp_run_capture(const struct rp_run *r, int node, int after)
{
    return after ? r->node[node].after : r->node[node].before;
}

const json_t *rp_run_rank_telemetry(const struct rp_run *r, int rank)
{
    return json_object_get(r->ranks.ranks > 1 ? rp_run_rank(r, rank) : r->json, "telemetry");
}

double rp_run_expected_samples(const struct rp_run *r, int rank)
{
    const json_int_t every = json_integer_value(json_object_get(rp_run_rank_telemetry(r, rank), "every"));
    return (double)r->ranks.share[rank].span_ns / 1e9 / RP_TELEMETRY_PERIOD_S / (double)(every > 0 ? every : 1);
}

int rp_run_lacks_samples(const struct rp_run *r, int rank)
{
    const double timed = json_number_value(json_object_get(rp_run_rank_telemetry(r, rank), "timed"));
    return timed == 0 || timed < rp_run_expected_samples(r, rank) / 2 - 2;
}

enum rp_route rp_run_route(const struct rp_run *r)
{
    int gpus = 0;
    for (int i = 0; i < r->ranks.ranks; i++)
        gpus += !rp_run_on_cpu(r, i);
    return rp_world_route(&r->recipe, gpus);
}

static int read_clock(struct rp_rank_clock *out, const json_t *process, int i, struct rp_err *err)
{
    *out = (struct rp_rank_clock){rp_json_integer_at(process, "clock/monotonic_ns"),
                                  rp_json_integer_at(process, "clock/error_ns")};
    if (out->offset_ns > CLOCK_MOST || out->offset_ns < -CLOCK_MOST || out->error_ns > ERROR_MOST)
        return rp_fail(err, RP_MALFORMED,
                       "run.json: the clock of process %d differs by more than any clock does, or is uncertain by "
                       "more than 10 s",
                       i);
    return 0;
}

int rp_run_clocks(struct rp_rank_clock **out, const struct rp_run *r, int ranks, struct rp_err *err)
{
    const json_t *all = rp_json_at(r->json, "world/processes"), *one;
    struct rp_rank_clock clock = {0};
    int next = 0;
    size_t i;
    *out = rp_alloc((size_t)ranks * sizeof **out); /* zeros: all on one machine */
    json_array_foreach((json_t *)all, i, one) {
        const int64_t n = rp_json_integer_at(one, "ranks");
        if (rp_json_integer_at(one, "index") != (int64_t)i || rp_json_integer_at(one, "first_rank") != next ||
            n > ranks - next)
            return rp_fail(err, RP_MALFORMED,
                           "run.json: the ranks of process %zu do not follow those of the process before it", i);
        if (read_clock(&clock, one, (int)i, err) < 0)
            return -1;
        if (i == 0 && (clock.offset_ns || rp_json_integer_at(one, "clock/wall_ns") || clock.error_ns))
            return rp_fail(err, RP_MALFORMED, "run.json: the clock of process 0 differs from itself");
        for (int k = 0; k < n; k++)
            (*out)[next++] = clock;
    }
    return !all || next == ranks
               ? 0
               : rp_fail(err, RP_MALFORMED, "run.json: its processes have %d ranks, the run has %d", next, ranks);
}

/* ---- devices ---- */

int rp_cpu_list(unsigned char *set, const char *list)
{
    while (*list) {
        char *end;
        if (*list < '0' || *list > '9')
            return -1;
        const long first = strtol(list, &end, 10);
        long last = first;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            last = strtol(end + 1, &end, 10);
        if (last < first || last >= RP_CPUS_MAX || (*end && *end != ','))
            return -1;
        for (long i = first; i <= last; i++)
            set[i] = 1;
        list = *end ? end + 1 : end;
    }
    return 0;
}

int rp_run_processors(const struct rp_run *r, int node, int most)
{
    RP_FREE unsigned char *set = rp_alloc(RP_CPUS_MAX);
    const json_t *one;
    size_t i;
    int n = 0;
    json_array_foreach((json_t *)rp_json_at(r->json, "world/rank"), i, one) {
        const char *cpus = json_string_value(json_object_get(one, "cpus"));
        if (rp_json_integer_at(one, "node") == node && rp_run_on_cpu(r, (int64_t)i) &&
            (!cpus || rp_cpu_list(set, cpus) < 0))
            return most;
    }
    for (int k = 0; k < RP_CPUS_MAX; k++)
        n += set[k];
    return n && n < most ? n : most;
}

static int64_t threads_of(const struct rp_run *r)
{
    const int64_t ranks = rp_run_ranks(r->json), nodes = r->nodes;
    RP_FREE int64_t *of = rp_alloc((size_t)nodes * sizeof *of);
    int64_t all = 0;
    for (int64_t i = 0; i < ranks; i++) {
        struct rp_device_info d;
        const int known = rp_device_from_json(&d, rp_run_device(r, i)) == 0 && d.threads > 0;
        of[rp_run_node_of(r, i)] += known ? d.threads : 1;
    }
    for (int64_t i = 0; i < nodes; i++) {
        double here;
        const int known = rp_known_number(rp_run_capture(r, (int)i, 0), "probes.cpu.threads", &here) == 0 && here >= 1;
        const int64_t most = rp_run_processors(r, (int)i, known && here < INT_MAX ? (int)here : INT_MAX);
        all += of[i] > most ? most : of[i];
    }
    return all;
}

/* GPUs: ranks, unless the addresses show that several have one. Instances of a GPU that is divided share its address. */
static int64_t gpus_of(const struct rp_run *r)
{
    const int64_t ranks = rp_run_ranks(r->json);
    RP_FREE char **place = rp_alloc((size_t)ranks * sizeof *place);
    int64_t n = 0, distinct = 0;
    for (; n < ranks; n++) {
        const char *address = rp_json_text_at(rp_run_device(r, n), "pci_address");
        if (!*address || strstr(rp_json_text_at(rp_run_device(r, n), "name"), " MIG "))
            break;
        place[n] = rp_asprintf("%lld %s", (long long)rp_json_integer_at(rp_run_rank(r, n), "node"), address);
    }
    if (n == ranks)
        rp_sort_text((const char **)place, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        distinct += i == 0 || strcmp(place[i], place[i - 1]) != 0;
    for (int64_t i = 0; i < n; i++)
        free(place[i]);
    return n == ranks && n > 0 ? distinct : ranks;
}

int64_t rp_run_devices(const struct rp_run *r)
{
    return strcmp(rp_json_text_at(r->json, "backend"), "cpu") == 0 ? threads_of(r) : gpus_of(r);
}

/* ---- settings, steps, time ---- */

struct rp_degrees rp_run_layout(const json_t *run)
{
    const int64_t data = rp_json_integer_at(run, "world/data"), tensor = rp_json_integer_at(run, "world/tensor"),
                  pipeline = rp_json_integer_at(run, "world/pipeline"), most = 9999; /* in the schema */
    if (data < 1 || tensor < 1 || pipeline < 1 || data > most || tensor > most || pipeline > most ||
        data * tensor * pipeline > most)
        return (struct rp_degrees){1, 1, 1};
    return (struct rp_degrees){(int)data, (int)tensor, (int)pipeline};
}

int rp_run_is_complete(const json_t *run)
{
    return strcmp(rp_json_text_at(run, "status"), "complete") == 0;
}

int64_t rp_run_steps(const json_t *run)
{
    const json_t *steps = rp_json_at(run, "results/steps");
    return json_integer_value(json_object_get(steps, "warm-up")) + json_integer_value(json_object_get(steps, "timed"));
}

int rp_run_cpu(struct rp_device_info *out, const json_t *run)
{
    const int known = rp_device_from_json(out, json_object_get(run, "device")) == 0;
    return known && strcmp(out->kind, "cpu") == 0 ? 0 : -1;
}

void rp_run_window(const struct rp_run *r, int64_t *from, int64_t *to)
{
    *from = *to = -1;
    for (int64_t i = 0; i < r->records.n; i++)
        if (r->records.r[i].timed) {
            *from = *from < 0 ? r->records.r[i].start_ns : *from;
            *to = r->records.r[i].end_ns;
        }
}

const char *rp_run_changed_setting(const json_t *run, const char **by)
{
    static const char *const free_of[] = {"run.", "measure.", "evidence."};
    const char *key;
    json_t *entry;
    json_object_foreach(json_object_get(run, "recipe"), key, entry) {
        const char *origin = json_string_value(json_object_get(entry, "origin"));
        const int configured = strcmp(origin, rp_origin_name(RP_FROM_CONFIG)) == 0;
        int harmless = strcmp(origin, rp_origin_name(RP_FROM_COMMAND_LINE)) != 0 && !configured;
        for (size_t i = 0; i < sizeof free_of / sizeof *free_of; i++)
            harmless |= strncmp(key, free_of[i], strlen(free_of[i])) == 0 && strcmp(key, "run.init") != 0;
        *by = configured ? "a model.config" : "the command line";
        if (!harmless)
            return key;
    }
    return NULL;
}

int rp_run_same_build(const json_t *run)
{
    const struct rp_build *here = rp_build_record();
    return strcmp(here->dirty, "clean") == 0 && strcmp(rp_json_text_at(run, "tool/dirty"), "clean") == 0 &&
           strcmp(rp_json_text_at(run, "tool/commit"), here->commit) == 0;
}

int64_t rp_run_ledger_gap(const json_t *run)
{
    const int64_t made = rp_rfc3339_seconds(rp_json_text_at(run, "ledger/key_made"));
    const int64_t begun = rp_rfc3339_seconds(rp_json_text_at(run, "ledger/begun"));
    return made < 0 || begun < 0 || begun - made < DAY_S ? 0 : (begun - made) / DAY_S;
}

double rp_wall_time(const json_t *document, const char *key)
{
    const int64_t s = rp_rfc3339_seconds(json_string_value(json_object_get(document, key)));
    return s < 0 ? NAN : (double)s;
}
