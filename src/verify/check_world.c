/* The ranks of a run against each other: who is where, by which clock, and what they exchanged. Part of the check
 * `ranks`. */
#include "base/json.h"
#include "comm/comm.h"
#include "train/train.h"
#include "verify/state.h"
#include "worker/rank.h"

#include <inttypes.h>
#include <stdio.h>

#define SLACK_NS 1000000      /* of steps on two clocks, and a thousandth of the time since the first step: clocks drift */
#define DRIFT 1000
#define EXCHANGES_MOST 64     /* ranks whose exchange is computed again: every one takes as long as a plan */
#define LINK_MOST 4e12        /* bytes a second that a rank sends: more than twice what any published link does */

/* ---- processes ---- */

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
    const json_t *launch = rp_json_at(s->run.json, "world/launch"), *size = json_object_get(launch, "size");
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
    const json_t *all = rp_json_at(s->run.json, "world/processes"), *one;
    size_t i;
    if (check_launch(s, all, err) < 0)
        return -1;
    if (!all && s->run.nodes > 1)
        return rp_fail(err, RP_MISMATCH, "run.json has %d nodes, but not the processes that ran on them", s->run.nodes);
    json_array_foreach((json_t *)all, i, one) {
        const int first = (int)rp_json_integer_at(one, "first_rank"), n = (int)rp_json_integer_at(one, "ranks");
        if (check_numbers(all, i, err) < 0)
            return -1;
        for (int k = first; k < first + n; k++)
            if (rp_json_integer_at(one, "host") != rp_run_node_of(&s->run, k))
                return rp_fail(err, RP_MISMATCH, "run.json: rank %d is on node %d, its process %zu on host %lld", k,
                               rp_run_node_of(&s->run, k), i, rp_json_integer_at(one, "host"));
    }
    for (int node = 0; node < s->run.nodes; node++) {
        int found = 0;
        for (int k = 0; k < s->run.ranks.ranks && !found; k++)
            found = rp_run_node_of(&s->run, k) == node;
        if (!found)
            return rp_fail(err, RP_MISMATCH, "run.json: no rank is on node %d of %d", node, s->run.nodes);
    }
    return 0;
}

/* ---- exchanges ---- */

/* What rank i sends in a step is a function of the recipe and of who is where. */
static int check_exchange(const struct rp_verify_state *s, int i, const int *host, char *text, size_t size)
{
    const json_t *is = json_object_get(rp_run_rank(&s->run, i), "exchange");
    struct rp_comm place = {.lost = -1, .host = host, .route = rp_run_route(&s->run)};
    rp_comm_place(&place, i, s->run.ranks.degrees);
    struct rp_exchange_sizes x;
    struct rp_err why;
    if (rp_train_exchange_at(&x, &s->run.recipe, &place, &why) < 0) {
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
    const struct rp_rank_share *share = &s->run.ranks.share[i];
    const double took = (double)(share->exchange_ns + (share->overlap_ns > 0 ? share->overlap_ns : 0)) / 1e9;
    const double bytes = steps > 0 ? (double)sent / (double)steps * (double)timed : 0;
    if (bytes <= took * LINK_MOST)
        return 0;
    return rp_fail(err, RP_MISMATCH, "rank %d sent %.4g bytes in its timed steps, and was %.4g s in exchanges: no link is that fast", i, bytes, took);
}

/* All that a rank sent is at least what its steps send. */
static int check_sent(const struct rp_verify_state *s, int i, int64_t steps, int64_t timed, struct rp_err *err)
{
    const json_t *x = json_object_get(rp_run_rank(&s->run, i), "exchange");
    const int64_t each = rp_json_integer_at(x, "bytes_per_step"), sent = rp_json_integer_at(x, "sent_bytes");
    const json_t *groups = json_object_get(x, "sent_bytes_by_group"), *bytes;
    const char *name;
    int64_t sum = 0;
    json_object_foreach((json_t *)groups, name, bytes)
        if (json_integer_value(bytes) < 0 || __builtin_add_overflow(sum, json_integer_value(bytes), &sum))
            sum = -1;
    if (groups && sum != sent)
        return rp_fail(err, RP_MISMATCH, "run.json: rank %d sent %" PRId64 " bytes, by groups another number", i, sent);
    if (check_rate(s, i, steps, timed, sent, err) < 0)
        return -1;
    const int64_t data = groups ? rp_json_integer_at(groups, "data") : sent;
    if (!x || each == 0 || data / each >= steps)
        return 0;
    return rp_fail(err, RP_MISMATCH, "run.json: rank %d sent %" PRId64 " bytes%s in %" PRId64 " steps that send %" PRId64 " bytes each", i,
                   data, groups ? " in its data group" : "", steps, each);
}

static int check_exchanges(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const int n = s->run.ranks.ranks, every = n / EXCHANGES_MOST + 1;
    const int64_t steps = s->run.records.n ? s->run.records.r[s->run.records.n - 1].step + 1 : 0;
    RP_FREE int *host = rp_alloc((size_t)n * sizeof *host);
    int64_t timed = 0;
    for (int64_t k = 0; k < s->run.records.n; k++)
        timed += s->run.records.r[k].timed;
    char text[200];
    for (int i = 0; i < n; i++)
        host[i] = rp_run_node_of(&s->run, i);
    for (int i = 0; i < n; i++) {
        if (!json_object_get(rp_run_rank(&s->run, i), "exchange")) {
            if (rp_run_is_complete(s->run.json))
                return rp_fail(err, RP_MISMATCH, "run.json: the run is complete, but rank %d has no 'exchange'", i);
            continue;
        }
        if (check_sent(s, i, steps, timed, err) < 0)
            return -1;
        if (i % every || check_exchange(s, i, host, text, sizeof text) == 0)
            continue;
        if (rp_run_same_build(s->run.json))
            return rp_fail(err, RP_MISMATCH, "run.json: what the ranks exchange does not follow from the settings: %s", text);
        return rp_check_note(result, "another version counted what ranks exchange, this one differs: %s", text);
    }
    return 0;
}

/* ---- steps ---- */

/* Ranks exchange in every step, so none ends it before another begins it. */
static int check_spans(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_records *rs = &s->run.records;
    int64_t first = -1;
    for (int64_t i = 0; s->run.ranks.span && i < rs->n; i++) {
        const struct rp_step_span *x = &s->run.ranks.span[i];
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

/* That steps overlap follows from clocks only as far as these are known. */
static int check_uncertainty(const struct rp_verify_state *s, struct rp_check_result *result)
{
    int64_t shortest = INT64_MAX;
    for (int64_t i = 0; i < s->run.records.n; i++) {
        const int64_t took = s->run.records.r[i].end_ns - s->run.records.r[i].start_ns;
        shortest = s->run.records.r[i].step >= 0 && took < shortest ? took : shortest;
    }
    for (int i = 0; i < s->run.ranks.ranks; i++) {
        const struct rp_rank_clock *c = &s->run.ranks.clock[i];
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
    if (check_processes(s, err) < 0 || check_spans(s, err) < 0 || check_exchanges(s, result, err) < 0)
        return -1;
    return check_uncertainty(s, result);
}
