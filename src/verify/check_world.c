/* The ranks of a run against each other: who is where, on which device, by which clock, and what they exchanged. Part of the check `ranks`. */
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "comm/comm.h"
#include "train/train.h"
#include "verify/state.h"
#include "worker/rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_MOST ((int64_t)1 << 62)
#define ERROR_MOST 10000000000ll /* half of a round trip: connections that take longer are given up */
#define SLACK_NS 1000000      /* of steps on two clocks, and a thousandth of the time since the first step: clocks drift */
#define DRIFT 1000
#define EXCHANGES_MOST 64     /* ranks whose exchange is computed again: every one takes as long as a plan */
#define LINK_MOST 4e12         /* bytes a second that a rank sends: more than twice what any published link does */
#define COPIED_STEPS 3        /* this many steps of equal lengths on two ranks were not measured */

int rp_verify_node_of(const struct rp_verify_state *s, int i)
{
    const int64_t node = rp_json_integer_at(rp_verify_rank(s, i), "node");
    return node < s->nodes ? (int)node : 0; /* else rp_check_ranks() fails */
}

const json_t *rp_verify_capture(const struct rp_verify_state *s, int node, int after)
{
    if (node == 0)
        return after ? s->after : s->before;
    return after ? s->node[node].after : s->node[node].before;
}

enum rp_route rp_verify_route(const struct rp_verify_state *s)
{
    int gpus = 0;
    for (int i = 0; i < s->ranks.ranks; i++)
        gpus += !rp_verify_on_cpu(s, i);
    return rp_world_route(&s->recipe, gpus);
}

/* ---- processes ---- */

static int read_clock(struct rp_rank_clock *out, const json_t *process, int i, struct rp_err *err)
{
    *out = (struct rp_rank_clock){rp_json_integer_at(process, "clock/monotonic_ns"), rp_json_integer_at(process, "clock/error_ns")};
    if (out->offset_ns > CLOCK_MOST || out->offset_ns < -CLOCK_MOST || out->error_ns > ERROR_MOST)
        return rp_fail(err, RP_MALFORMED, "run.json: the clock of process %d differs by more than any clock does, or is uncertain by "
                       "more than 10 s", i);
    return 0;
}

int rp_verify_clocks(struct rp_rank_clock **out, const struct rp_verify_state *s, int ranks, struct rp_err *err)
{
    const json_t *all = rp_json_at(s->run, "world/processes"), *one;
    struct rp_rank_clock clock = {0};
    int next = 0;
    size_t i;
    *out = rp_alloc((size_t)ranks * sizeof **out); /* zeros: all on one machine */
    json_array_foreach((json_t *)all, i, one) {
        const int64_t n = rp_json_integer_at(one, "ranks");
        if (rp_json_integer_at(one, "index") != (int64_t)i || rp_json_integer_at(one, "first_rank") != next || n > ranks - next)
            return rp_fail(err, RP_MALFORMED, "run.json: the ranks of process %zu do not follow those of the process before it", i);
        if (read_clock(&clock, one, (int)i, err) < 0)
            return -1;
        if (i == 0 && (clock.offset_ns || rp_json_integer_at(one, "clock/wall_ns") || clock.error_ns))
            return rp_fail(err, RP_MALFORMED, "run.json: the clock of process 0 differs from itself");
        for (int k = 0; k < n; k++)
            (*out)[next++] = clock;
    }
    return !all || next == ranks ? 0
                                 : rp_fail(err, RP_MALFORMED, "run.json: its processes have %d ranks, the run has %d", next, ranks);
}

/* Hosts and places are numbered as they appear, a place is on one host, and a process counts its ranks there from those before it on. */
static int check_numbers(const json_t *all, size_t i, struct rp_err *err)
{
    const json_t *own = json_array_get(all, i);
    const int64_t host = rp_json_integer_at(own, "host"), place = rp_json_integer_at(own, "place");
    int64_t hosts = 0, places = 0, local = 0;
    for (size_t k = 0; k < i; k++) {
        const json_t *one = json_array_get(all, k);
        const int64_t at = rp_json_integer_at(one, "host"), in = rp_json_integer_at(one, "place");
        hosts = at >= hosts ? at + 1 : hosts;
        places = in >= places ? in + 1 : places;
        if (in == place && at != host)
            return rp_fail(err, RP_MISMATCH, "run.json: processes %zu and %zu are at one place, and on two hosts", k, i);
        local += in == place ? rp_json_integer_at(one, "ranks") : 0;
    }
    if (host > hosts || place > places)
        return rp_fail(err, RP_MISMATCH, "run.json: the host or place of process %zu is not numbered after those before it", i);
    return local == rp_json_integer_at(own, "local_rank")
               ? 0 : rp_fail(err, RP_MISMATCH, "run.json: the local_rank of process %zu is not the number of ranks before it at its place", i);
}

/* The process that seals is the first one, and the launcher started as many as there are. */
static int check_launch(const struct rp_verify_state *s, const json_t *processes, struct rp_err *err)
{
    const json_t *launch = rp_json_at(s->run, "world/launch"), *size = json_object_get(launch, "size");
    if (!launch != !processes)
        return rp_fail(err, RP_MISMATCH, "run.json has 'world/%s' without 'world/%s'", launch ? "launch" : "processes",
                       launch ? "processes" : "launch");
    if (!launch)
        return 0;
    if (rp_json_integer_at(launch, "rank") != 0)
        return rp_fail(err, RP_MISMATCH, "run.json: process %lld of the launcher sealed, and only process 0 does",
                       rp_json_integer_at(launch, "rank"));
    if (size && json_integer_value(size) != (json_int_t)json_array_size(processes))
        return rp_fail(err, RP_MISMATCH, "run.json: the launcher started processes 0 to %lld, and %zu are listed",
                       rp_json_integer_at(launch, "size") - 1, json_array_size(processes));
    return 0;
}

/* Processes are on the nodes of their ranks, and several nodes have several processes. */
static int check_processes(const struct rp_verify_state *s, struct rp_err *err)
{
    const json_t *all = rp_json_at(s->run, "world/processes"), *one;
    size_t i;
    if (check_launch(s, all, err) < 0)
        return -1;
    if (!all && s->nodes > 1)
        return rp_fail(err, RP_MISMATCH, "run.json has %d nodes, but not the processes that ran on them", s->nodes);
    json_array_foreach((json_t *)all, i, one) {
        const int first = (int)rp_json_integer_at(one, "first_rank"), n = (int)rp_json_integer_at(one, "ranks");
        if (check_numbers(all, i, err) < 0)
            return -1;
        for (int k = first; k < first + n; k++)
            if (rp_json_integer_at(one, "host") != rp_verify_node_of(s, k))
                return rp_fail(err, RP_MISMATCH, "run.json: rank %d is on node %d, its process %zu on host %lld", k,
                               rp_verify_node_of(s, k), i, rp_json_integer_at(one, "host"));
    }
    for (int node = 0; node < s->nodes; node++) {
        int found = 0;
        for (int k = 0; k < s->ranks.ranks && !found; k++)
            found = rp_verify_node_of(s, k) == node;
        if (!found)
            return rp_fail(err, RP_MISMATCH, "run.json: no rank is on node %d of %d", node, s->nodes);
    }
    return 0;
}

/* ---- devices ---- */

/* Number of the process that has the rank. */
static int process_of(const struct rp_verify_state *s, int rank)
{
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)rp_json_at(s->run, "world/processes"), i, one)
        if (rank < rp_json_integer_at(one, "first_rank") + rp_json_integer_at(one, "ranks"))
            return (int)i;
    return 0;
}

/* With NCCL two ranks of a process do not share a GPU. Other processes may number GPUs from another one on (CUDA_VISIBLE_DEVICES). */
static int check_shared_gpus(const struct rp_verify_state *s, struct rp_err *err)
{
    for (int i = 0; i < s->ranks.ranks && rp_verify_route(s) != RP_ROUTE_STAGED; i++) {
        struct rp_device_info a, b;
        if (rp_device_from_json(&a, json_object_get(rp_verify_rank(s, i), "device")) < 0 || strcmp(a.kind, "cpu") == 0)
            continue;
        for (int k = i + 1; k < s->ranks.ranks && process_of(s, k) == process_of(s, i); k++)
            if (rp_device_from_json(&b, json_object_get(rp_verify_rank(s, k), "device")) == 0 && a.index == b.index)
                return rp_fail(err, RP_MISMATCH, "run.json: ranks %d and %d of one process both have GPU %d", i, k, a.index);
    }
    return 0;
}

/* ---- exchanges ---- */

/* What rank i sends in a step is a function of the recipe and of who is where. */
static int check_exchange(const struct rp_verify_state *s, int i, const int *host, char *text, size_t size)
{
    const json_t *is = json_object_get(rp_verify_rank(s, i), "exchange");
    struct rp_comm place = {.lost = -1, .host = host, .route = rp_verify_route(s)};
    rp_comm_place(&place, i, s->ranks.degrees);
    struct rp_exchange_sizes x;
    struct rp_err why;
    if (rp_train_exchange_at(&x, &s->recipe, &place, &why) < 0) {
        snprintf(text, size, "rank %d: %.160s", i, why.msg);
        return -1;
    }
    RP_JSON *expected = json_pack("{s:i, s:I, s:I}", "levels", x.levels, "bytes_per_step", (json_int_t)x.sent_bytes,
                                  "bytes_per_step_between_hosts", (json_int_t)x.between_bytes);
    const char *key;
    json_t *v;
    json_object_foreach(expected, key, v)
        if (!json_equal(v, json_object_get(is, key))) {
            snprintf(text, size, "rank %d: exchange/%s is %lld, expected %lld", i, key, rp_json_integer_at(is, key),
                     (long long)json_integer_value(v));
            return -1;
        }
    return 0;
}

/* In exchanges a rank spent some time, and not less than its bytes take on any link. */
static int check_rate(const struct rp_verify_state *s, int i, int64_t steps, int64_t timed, int64_t sent, struct rp_err *err)
{
    const struct rp_rank_share *share = &s->ranks.share[i];
    const double took = (double)(share->exchange_ns + (share->overlap_ns > 0 ? share->overlap_ns : 0)) / 1e9;
    const double bytes = steps > 0 ? (double)sent / (double)steps * (double)timed : 0;
    if (bytes <= took * LINK_MOST)
        return 0;
    return rp_fail(err, RP_MISMATCH, "rank %d sent %.4g bytes in its timed steps, and was %.4g s in exchanges: no link is that fast", i, bytes, took);
}

/* Ranks that divide the model exchange in every step within these groups, and those that do not never do. */
static int check_groups(const struct rp_verify_state *s, int i, int64_t steps, const json_t *groups, struct rp_err *err)
{
    const struct {
        const char *name;
        int degree;
    } all[] = {{"tensor", s->ranks.degrees.tensor}, {"pipeline", s->ranks.degrees.pipeline}};
    for (size_t k = 0; groups && k < sizeof all / sizeof *all; k++) {
        const int64_t bytes = rp_json_integer_at(groups, all[k].name);
        if (all[k].degree == 1 && bytes > 0)
            return rp_fail(err, RP_MISMATCH, "run.json: rank %d sent bytes in a group of one rank", i);
        if (all[k].degree > 1 && steps > 0 && bytes == 0)
            return rp_fail(err, RP_MISMATCH, "run.json: rank %d sent nothing in its %s group of %d ranks, which exchange in every step", i,
                           all[k].name, all[k].degree);
    }
    return 0;
}

/* All that a rank sent is at least what its steps send. */
static int check_sent(const struct rp_verify_state *s, int i, int64_t steps, int64_t timed, struct rp_err *err)
{
    const json_t *x = json_object_get(rp_verify_rank(s, i), "exchange");
    const int64_t each = rp_json_integer_at(x, "bytes_per_step"), sent = rp_json_integer_at(x, "sent_bytes");
    const json_t *groups = json_object_get(x, "sent_bytes_by_group"), *bytes;
    const char *name;
    int64_t sum = 0;
    json_object_foreach((json_t *)groups, name, bytes)
        if (json_integer_value(bytes) < 0 || __builtin_add_overflow(sum, json_integer_value(bytes), &sum))
            sum = -1;
    if (groups && sum != sent)
        return rp_fail(err, RP_MISMATCH, "run.json: rank %d sent %" PRId64 " bytes, by groups another number", i, sent);
    if (check_groups(s, i, steps, groups, err) < 0 || check_rate(s, i, steps, timed, sent, err) < 0)
        return -1;
    const int64_t data = groups ? rp_json_integer_at(groups, "data") : sent;
    if (!x || each == 0 || data / each >= steps)
        return 0;
    return rp_fail(err, RP_MISMATCH, "run.json: rank %d sent %" PRId64 " bytes%s in %" PRId64 " steps that send %" PRId64 " bytes each", i,
                   data, groups ? " in its data group" : "", steps, each);
}

/* "3 ranks by shared memory, 4 by TLS, 1 of these on this host, 2 strangers refused", of which only what there is. -1: another form. */
static int parse_transport(const char *text, int64_t *rings, int64_t *channels)
{
    *rings = *channels = 0;
    for (const char *at = text; *at;) {
        char *words;
        const long long n = strtoll(at, &words, 10);
        const size_t size = strcspn(words, ",");
        if (words == at || n < 1 || *words != ' ')
            return -1;
        words++;
        static const char *const known[] = {"rank by shared memory", "ranks by shared memory", "by TLS", "rank by TLS", "ranks by TLS",
                                            "of these on this host", "stranger refused", "strangers refused"};
        size_t k = 0;
        while (k < sizeof known / sizeof *known && (size - 1 != strlen(known[k]) || strncmp(words, known[k], size - 1) != 0))
            k++;
        if (k == sizeof known / sizeof *known)
            return -1;
        *(k < 2 ? rings : channels) += k < 5 ? n : 0;
        at = words + size - 1;
        at += strspn(at, ", ");
    }
    return 0;
}

/* A rank is connected with every other one: by NCCL where all are on GPUs, and by sockets otherwise; shared memory does not leave a host. */
static int check_transport(const struct rp_verify_state *s, int i, const int *host, int64_t *by_memory, struct rp_err *err)
{
    const char *text = json_string_value(rp_json_at(rp_verify_rank(s, i), "exchange/transport"));
    const int nccl = strcmp(rp_run_kind(s->run), "cuda") == 0 && rp_verify_route(s) != RP_ROUTE_STAGED;
    int64_t rings, channels, here = 0;
    if (!text)
        return 0;
    if ((strncmp(text, "NCCL ", 5) == 0) != nccl)
        return rp_fail(err, RP_MISMATCH, "run.json: rank %d exchanged by '%.40s', and %s", i, text,
                       nccl ? "GPUs use NCCL" : "NCCL connects GPUs alone");
    if (nccl)
        return 0;
    for (int k = 0; k < s->ranks.ranks; k++)
        here += k != i && host[k] == host[i];
    if (parse_transport(text, &rings, &channels) < 0)
        return rp_fail(err, RP_MISMATCH, "run.json: '%.60s' of rank %d does not say how it was connected", text, i);
    if (rings > here || rings + channels != s->ranks.ranks - 1)
        return rp_fail(err, RP_MISMATCH, "run.json: rank %d was connected by '%.60s', of %d other ranks %lld are on its host", i, text,
                       s->ranks.ranks - 1, (long long)here);
    *by_memory = rings;
    return 0;
}

/* Two ranks share memory with each other: of the ranks of a host, as many others as one shares with share some. */
static int check_memory_pairs(const int64_t *by_memory, const int *host, int n, struct rp_err *err)
{
    for (int i = 0; i < n; i++) {
        int64_t sum = 0, others = 0;
        for (int k = 0; k < n; k++) {
            sum += host[k] == host[i] ? by_memory[k] : 0;
            others += k != i && host[k] == host[i] && by_memory[k] > 0;
        }
        if (sum % 2 || by_memory[i] > others)
            return rp_fail(err, RP_MISMATCH, "run.json: ranks of node %d were connected by shared memory with others that do not say so", host[i]);
    }
    return 0;
}

static int check_exchanges(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const int n = s->ranks.ranks, every = n / EXCHANGES_MOST + 1;
    const int64_t steps = s->records.n ? s->records.r[s->records.n - 1].step + 1 : 0;
    RP_FREE int *host = rp_alloc((size_t)n * sizeof *host);
    RP_FREE int64_t *by_memory = rp_alloc((size_t)n * sizeof *by_memory);
    int connected = 0; /* ranks that say how */
    int64_t timed = 0;
    for (int64_t k = 0; k < s->records.n; k++)
        timed += s->records.r[k].timed;
    char text[200];
    for (int i = 0; i < n; i++)
        host[i] = rp_verify_node_of(s, i);
    for (int i = 0; i < n; i++) {
        if (!json_object_get(rp_verify_rank(s, i), "exchange")) {
            if (rp_verify_complete(s))
                return rp_fail(err, RP_MISMATCH, "run.json: the run is complete, but rank %d has no 'exchange'", i);
            continue;
        }
        if (check_sent(s, i, steps, timed, err) < 0 || check_transport(s, i, host, &by_memory[i], err) < 0)
            return -1;
        connected += rp_json_at(rp_verify_rank(s, i), "exchange/transport") != NULL;
        if (i % every || check_exchange(s, i, host, text, sizeof text) == 0)
            continue;
        if (rp_verify_same_build(s))
            return rp_fail(err, RP_MISMATCH, "run.json: what the ranks exchange does not follow from the settings: %s", text);
        return rp_check_note(result, "another version counted what ranks exchange, this one differs: %s", text);
    }
    return connected == n ? check_memory_pairs(by_memory, host, n, err) : 0;
}

/* ---- steps ---- */

/* Ranks exchange in every step, so none ends it before another begins it. */
static int check_spans(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_records *rs = &s->records;
    int64_t first = -1;
    for (int64_t i = 0; s->ranks.span && i < rs->n; i++) {
        const struct rp_step_span *x = &s->ranks.span[i];
        if (rs->r[i].step < 0)
            continue;
        first = first < 0 ? rs->r[i].start_ns : first;
        const int64_t slack = SLACK_NS + (rs->r[i].end_ns - first) / DRIFT;
        if (x->begun_ns > x->ended_ns && (uint64_t)x->begun_ns - (uint64_t)x->ended_ns > (uint64_t)slack)
            return rp_fail(err, RP_MISMATCH, "step %d ended on rank %d %.3f s before it began on rank %d, by the clocks in run.json; "
                           "ranks exchange in every step", rs->r[i].step, x->ended_on,
                           (double)((uint64_t)x->begun_ns - (uint64_t)x->ended_ns) / 1e9, x->begun_on);
    }
    return 0;
}

/* Two ranks that count ticks may have steps of the same lengths. */
static int counts_nanoseconds(const struct rp_verify_state *s)
{
    int fine = 1;
    for (int node = 0; node < s->nodes && fine; node++)
        fine = rp_verify_fine_clock(s, node);
    for (int64_t i = 0; i < s->records.n && !fine; i++)
        fine = (s->records.r[i].end_ns - s->records.r[i].start_ns) % 1000 != 0;
    return fine;
}

static int check_copies(const struct rp_verify_state *s, struct rp_err *err)
{
    const int64_t steps = s->records.n ? s->records.r[s->records.n - 1].step + 1 : 0;
    for (int i = 0; i < s->ranks.ranks && steps >= COPIED_STEPS && counts_nanoseconds(s); i++)
        for (int k = i + 1; k < s->ranks.ranks; k++)
            if (strcmp(s->ranks.share[i].lengths, s->ranks.share[k].lengths) == 0)
                return rp_fail(err, RP_MISMATCH, "steps/rank%d.jsonl and steps/rank%d.jsonl: all %" PRId64 " steps took equally long, "
                               "to the nanosecond: one was copied", i, k, steps);
    return 0;
}

/* That steps overlap follows from clocks only as far as these are known. */
static int check_uncertainty(const struct rp_verify_state *s, struct rp_check_result *result)
{
    int64_t shortest = INT64_MAX;
    for (int64_t i = 0; i < s->records.n; i++) {
        const int64_t took = s->records.r[i].end_ns - s->records.r[i].start_ns;
        shortest = s->records.r[i].step >= 0 && took < shortest ? took : shortest;
    }
    for (int i = 0; i < s->ranks.ranks; i++) {
        const struct rp_rank_clock *c = &s->ranks.clock[i];
        if (c->error_ns < 0)
            return rp_check_warn(result, "the clock of rank %d was not compared with that of rank 0: that their steps overlap is the "
                                         "signer's word", i);
        if (c->error_ns > shortest && c->error_ns > SLACK_NS)
            return rp_check_warn(result, "the clock of rank %d is known to within %.3g s, and a step took %.3g s: that steps overlap is the "
                                         "signer's word", i, (double)c->error_ns / 1e9, (double)shortest / 1e9);
    }
    return 0;
}

int rp_verify_world(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    if (check_processes(s, err) < 0 || check_shared_gpus(s, err) < 0 || check_copies(s, err) < 0 || check_spans(s, err) < 0 ||
        check_exchanges(s, result, err) < 0)
        return -1;
    return check_uncertainty(s, result);
}
