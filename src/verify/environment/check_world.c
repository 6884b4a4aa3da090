/* The ranks of a run against each other: who is where, by which clock, and what they exchanged. Part of the check
 * `ranks`. */
#include "comm/comm.h"
#include "train/train.h"
#include "verify/state.h"
#include "worker/rank.h"

#include <inttypes.h>
#include <stdio.h>

/* of steps on two clocks, and a thousandth of the time since the first step: clocks drift */
#define SLACK_NS 1000000
#define DRIFT 1000
#define EXCHANGES_MOST 64     /* ranks whose exchange is computed again: every one takes as long as a plan */
#define LINK_MOST 4e12        /* bytes a second that a rank sends: more than twice what any published link does */

/* ---- processes ---- */

/* Hosts and network namespaces are numbered as they appear, a namespace is on one host, and a process counts its ranks
 * there from those before it on. */
static int check_numbers(const struct rp_process_facts *all, int64_t i, struct rp_err *err)
{
    const struct rp_process_facts *own = &all[i];
    int64_t hosts = 0, namespaces = 0, local = 0;
    for (const struct rp_process_facts *one = all; one < own; one++) {
        hosts = one->host >= hosts ? one->host + 1 : hosts;
        namespaces = one->network_namespace >= namespaces ? one->network_namespace + 1 : namespaces;
        if (one->network_namespace == own->network_namespace && one->host != own->host)
            return rp_fail(err, RP_MISMATCH,
                           "facts.json: processes %d and %" PRId64 " are in one network namespace, and on two hosts",
                           (int)(one - all), i);
        local += one->network_namespace == own->network_namespace ? one->ranks : 0;
    }
    if (own->host > hosts || own->network_namespace > namespaces)
        return rp_fail(err, RP_MISMATCH,
                       "facts.json: the host or network namespace of process %" PRId64
                       " does not continue the numbers of the processes before it",
                       i);
    if (local != own->local_rank)
        return rp_fail(err, RP_MISMATCH,
                       "facts.json: the local_rank of process %" PRId64 " is not the number of ranks "
                       "before it in its network namespace",
                       i);
    return 0;
}

/* The process that seals is the first one, and the launcher started as many as there are. */
static int check_launch(const struct rp_facts *f, struct rp_err *err)
{
    const struct rp_launch_facts *launch = f->launch;
    if (!launch != !f->process_n)
        return rp_fail(err, RP_MISMATCH, "facts.json has '%s' without '%s'", launch ? "launch" : "process",
                       launch ? "process" : "launch");
    if (!launch)
        return 0;
    if (launch->rank != 0)
        return rp_fail(err, RP_MISMATCH,
                       "facts.json: process %" PRId64 " of the launcher sealed, and only process 0 does", launch->rank);
    if (launch->size != RP_NO_INTEGER && launch->size != f->process_n)
        return rp_fail(err, RP_MISMATCH,
                       "facts.json: the launcher started processes 0 to %" PRId64 ", and %" PRId64 " are listed",
                       launch->size - 1, f->process_n);
    return 0;
}

/* Processes are on the nodes of their ranks, and several nodes have several processes. */
static int check_processes(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_facts *f = s->run.facts;
    if (f->rank_n == 1 && (f->launch || f->process_n || f->rank[0].exchange))
        return rp_fail(err, RP_MISMATCH, "facts.json has '%s', which is of several ranks, and the run has one",
                       f->rank[0].exchange ? "exchange" : f->launch ? "launch" : "process");
    if (check_launch(f, err) < 0)
        return -1;
    for (int64_t i = 0; i < f->rank_n && !f->process_n; i++)
        if (f->rank[i].node)
            return rp_fail(err, RP_MISMATCH, "facts.json has several nodes, but not the processes that ran on them");
    for (int64_t i = 0; i < f->process_n; i++) {
        const struct rp_process_facts *one = &f->process[i];
        if (check_numbers(f->process, i, err) < 0)
            return -1;
        for (int64_t k = one->first_rank; k < one->first_rank + one->ranks; k++)
            if (one->host != f->rank[k].node)
                return rp_fail(err, RP_MISMATCH,
                               "facts.json: rank %" PRId64 " is on node %" PRId64 ", its process %" PRId64
                               " on host %" PRId64,
                               k, f->rank[k].node, i, one->host);
    }
    for (int node = 0; node < s->run.nodes; node++) {
        int64_t k = 0;
        while (k < f->rank_n && f->rank[k].node != node)
            k++;
        if (k == f->rank_n)
            return rp_fail(err, RP_MISMATCH, "facts.json: no rank is on node %d of %d", node, s->run.nodes);
    }
    return 0;
}

/* ---- exchanges ---- */

/* What rank i sends in a step is a function of the recipe and of who is where. */
static int check_exchange(const struct rp_verify_state *s, int i, const int *host, char *text, size_t size)
{
    const struct rp_exchange_facts *is = s->run.facts->rank[i].exchange;
    struct rp_comm place = {.lost = -1, .host = host, .route = rp_run_route(&s->run)};
    rp_comm_set_coords(&place, i, s->run.ranks.degrees);
    struct rp_exchange_sizes x;
    struct rp_err why;
    if (rp_train_exchange_at(&x, &s->run.recipe, &place, &why) < 0) {
        snprintf(text, size, "rank %d: %.160s", i, why.msg);
        return -1;
    }
    const struct {
        const char *key;
        int64_t is, expected;
    } rows[] = {{"levels", is->levels, x.levels},
                {"bytes_per_step", is->bytes_per_step, (int64_t)x.sent_bytes},
                {"bytes_per_step_between_hosts", is->bytes_per_step_between_hosts, (int64_t)x.between_bytes}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].is != rows[k].expected) {
            snprintf(text, size, "rank %d: exchange/%s is %" PRId64 ", expected %" PRId64, i, rows[k].key, rows[k].is,
                     rows[k].expected);
            return -1;
        }
    return 0;
}

/* In exchanges a rank spent some time, and not less than its bytes take on any link. */
static int check_rate(const struct rp_verify_state *s, int i, int64_t steps, int64_t timed, int64_t sent,
                      struct rp_err *err)
{
    const struct rp_rank_share *share = &s->run.ranks.share[i];
    const double took = (double)(share->exchange_ns + (share->overlap_ns > 0 ? share->overlap_ns : 0)) / 1e9;
    const double bytes = steps > 0 ? (double)sent / (double)steps * (double)timed : 0;
    if (bytes <= took * LINK_MOST)
        return 0;
    return rp_fail(err, RP_MISMATCH,
                   "rank %d sent %.4g bytes in its timed steps, and was %.4g s in exchanges: no link is that fast", i,
                   bytes, took);
}

/* All that a rank sent is at least what its steps send. One that overflowed sends no weights: only updates count. */
static int check_sent(const struct rp_verify_state *s, int i, int64_t steps, int64_t timed, struct rp_err *err)
{
    const struct rp_exchange_facts *x = s->run.facts->rank[i].exchange;
    const struct rp_group_bytes *by = x->sent_bytes_by_group;
    int64_t sum = 0;
    if (by && (__builtin_add_overflow(by->world, by->data, &sum) || __builtin_add_overflow(sum, by->tensor, &sum) ||
               __builtin_add_overflow(sum, by->pipeline, &sum) || sum != x->sent_bytes))
        return rp_fail(err, RP_MISMATCH, "facts.json: rank %d sent %" PRId64 " bytes, by groups another number", i,
                       x->sent_bytes);
    if (check_rate(s, i, steps, timed, x->sent_bytes, err) < 0)
        return -1;
    const struct rp_loss_scaling *scaling = s->run.figures->results.loss_scaling;
    const int64_t data = by ? by->data : x->sent_bytes, each = x->bytes_per_step;
    if (each == 0 || data / each >= steps - (scaling ? scaling->skipped : 0))
        return 0;
    return rp_fail(err, RP_MISMATCH,
                   "facts.json: rank %d sent %" PRId64 " bytes%s in %" PRId64 " steps that send %" PRId64 " bytes each",
                   i, data, by ? " in its data group" : "", steps, each);
}

static int check_exchanges(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const int n = s->run.ranks.ranks, every = n / EXCHANGES_MOST + 1;
    const int64_t steps = rp_records_steps(&s->run.records), timed = s->run.figures->results.steps.timed;
    RP_FREE int *host = rp_alloc((size_t)n * sizeof *host);
    char text[200];
    for (int i = 0; i < n; i++)
        host[i] = (int)s->run.facts->rank[i].node;
    for (int i = 0; i < n; i++) {
        if (!s->run.facts->rank[i].exchange) {
            if (n > 1 && rp_facts_complete(s->run.facts))
                return rp_fail(err, RP_MISMATCH, "facts.json: the run is complete, but rank %d has no 'exchange'", i);
            continue;
        }
        if (check_sent(s, i, steps, timed, err) < 0)
            return -1;
        if (i % every || check_exchange(s, i, host, text, sizeof text) == 0)
            continue;
        if (rp_facts_same_build(s->run.facts))
            return rp_fail(err, RP_MISMATCH,
                           "facts.json: what the ranks exchange does not follow from the settings: %s", text);
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
            return rp_fail(err, RP_MISMATCH,
                           "step %d ended on rank %d %.3f s before it began on rank %d, by the clocks in facts.json; "
                           "ranks exchange in every step",
                           rs->r[i].step, x->ended_on, (double)((uint64_t)x->begun_ns - (uint64_t)x->ended_ns) / 1e9,
                           x->begun_on);
    }
    return 0;
}

/* Every rank measures by its own reading of a clock: equal times of all steps are one rank's, copied. */
static int check_lengths(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_rank_share *share = s->run.ranks.share;
    for (int i = 1; i < s->run.ranks.ranks; i++)
        for (int k = 0; k < i && share[i].lengths; k++)
            if (share[k].lengths == share[i].lengths)
                return rp_fail(err, RP_MISMATCH,
                               "ranks %d and %d took the same time for every one of their %" PRId64
                               " steps, to the nanosecond: no two ranks do",
                               k, i, rp_records_steps(&s->run.records));
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
            return rp_check_warn(
                result,
                "the clock of rank %d was not compared with that of rank 0: that their steps overlap is the "
                "signer's word",
                i);
        if (c->error_ns > shortest && c->error_ns > SLACK_NS)
            return rp_check_warn(
                result,
                "the clock of rank %d is known to within %.3g s, and a step took %.3g s: that steps overlap is the "
                "signer's word",
                i, (double)c->error_ns / 1e9, (double)shortest / 1e9);
    }
    return 0;
}

int rp_verify_world(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    if (check_processes(s, err) < 0 || check_spans(s, err) < 0 || check_lengths(s, err) < 0 ||
        check_exchanges(s, result, err) < 0)
        return -1;
    return check_uncertainty(s, result);
}
