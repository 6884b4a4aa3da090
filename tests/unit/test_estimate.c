/* The estimate of `repro estimate`: its bytes are those that ranks send, its ranges are ranges, its links agree with
 * published figures. */
#include "estimate/estimate.h"

#include "tests/unit/trials.h"

#include <math.h>

static struct rp_recipe wide(int overlap_kib)
{
    struct rp_recipe r = small_recipe();
    r.run_overlap_kib = overlap_kib;
    r.model_vocab_size = 701;
    r.model_intermediate_size = 400;
    return r;
}

/* Ranks as threads train, and their communicators count; micro-batches of each rank, ranks, ranks of a host.
 * overlap_kib: size of buckets. */
static void check_bytes(int64_t micros, int ranks, int per_host, int levels, int overlap_kib)
{
    struct rp_err err;
    struct rp_exchange_plan plan;
    struct rp_exchange_bytes most = {0};
    int host[RANKS_MAX];
    struct trial t = trial_new(wide(overlap_kib), micros * ranks);
    struct rp_net *m = rp_net_new(&t.recipe, 2);
    for (int i = 0; i < ranks; i++)
        host[i] = i / per_host;
    CHECK(trial_run(&t, (struct rp_degrees){ranks, 1, 1}, host, &err) == 0, "%s", err.msg);
    rp_exchange_count(&plan, m, micros, ranks, per_host, (size_t)overlap_kib * 256);
    CHECK((t.trace[0].buckets > 1) == (overlap_kib > 0), "%d buckets", t.trace[0].buckets);
    for (int r = 0; r < ranks; r++) {
        const struct trace *is = &t.trace[r];
        const uint64_t small = (uint64_t)ranks * 8192; /* losses, sums for the norm */
        most.within = is->sent - is->between > most.within ? is->sent - is->between : most.within;
        most.between = is->between > most.between ? is->between : most.between;
        CHECK(is->moved >= is->sent && is->moved - is->sent < small,
              "rank %d of %d sent %llu bytes in a step, not %llu", r, ranks, (unsigned long long)is->moved,
              (unsigned long long)is->sent);
    }
    /* The rank with most gradients may not be the one with most weights: a chunk of difference in every bucket. */
    const uint64_t within = plan.gradients.within + plan.updated.within,
                   between = plan.gradients.between + plan.updated.between,
                   chunk = 16384 * (uint64_t)t.trace[0].buckets;
    CHECK(within >= most.within && within - most.within <= (uint64_t)ranks * chunk,
          "%d ranks within a host: %llu, not %llu", ranks, (unsigned long long)within, (unsigned long long)most.within);
    CHECK(between >= most.between && between - most.between <= (uint64_t)ranks * chunk,
          "%d ranks between hosts: %llu, not %llu", ranks, (unsigned long long)between,
          (unsigned long long)most.between);
    CHECK(plan.levels == levels && t.trace[0].levels == levels, "%d levels, not %d", plan.levels, levels);
    traces_fini(t.trace, ranks);
    trial_fini(&t);
    rp_net_free(m);
}

TEST(bytes_are_those_that_ranks_send)
{
    check_bytes(1, 2, 2, 1, 0);
    check_bytes(3, 3, 3, 1, 1); /* several nodes of a rank travel */
    check_bytes(1, 4, 2, 2, 1);
    check_bytes(1, 6, 3, 1, 0); /* no host has a subtree: all with all */
    check_bytes(2, 8, 2, 2, 1);
}

static struct rp_estimate_opts bert_on(struct rp_machine *m, struct rp_net **net, const char *id, int64_t micros)
{
    struct rp_err err;
    struct rp_recipe r = small_recipe(); /* so large that a chunk more or less is nothing */
    r.model_vocab_size = 30522;
    r.model_hidden_size = 256;
    r.model_intermediate_size = 1024;
    CHECK(rp_machine_find(m, id, &err) == 0, "%s", err.msg);
    *net = rp_net_new(&r, 2);
    rp_recipe_fini(&r);
    return (struct rp_estimate_opts){.machine = m, .net = *net, .micros = micros, .batch = 2, .micro_s = {0.01, 0.02}};
}

#define is_near(value, expected) near_to(__LINE__, value, expected)
static void near_to(int line, double value, double expected)
{
    CHECK(fabs(value - expected) <= 1e-9 * fabs(expected), "line %d: %.12g, not %.12g", line, value, expected);
}

TEST(ranges_of_every_machine)
{
    for (int i = 0; rp_machine_id(i); i++) {
        struct rp_machine m;
        struct rp_net *net;
        const struct rp_estimate_opts o = bert_on(&m, &net, rp_machine_id(i), 2);
        CHECK(m.flops > 1e12 && m.memory > 1e11 && m.within_bytes.low < m.within_bytes.high &&
                  m.between_bytes.low < m.between_bytes.high,
              "%s", m.id);
        for (int gpus = 1; gpus <= 256; gpus = gpus == 1 && m.per_host > 1 ? m.per_host : gpus * 2) {
            struct rp_err err;
            struct rp_estimate e;
            CHECK(rp_estimate(&e, &o, gpus, &err) == 0, "%s", err.msg);
            CHECK(e.exchange_s.low <= e.exchange_s.high && e.samples_per_s.low <= e.samples_per_s.high &&
                      e.efficiency.low <= e.efficiency.high,
                  "%s, %d", m.id, gpus);
            CHECK(e.efficiency.low > 0 && e.efficiency.high <= 1 && e.hidden_s <= e.exchange_s.low, "%s, %d", m.id,
                  gpus);
            CHECK((gpus == 1) == (e.exchange_s.high == 0) && (gpus <= m.per_host) == (e.plan.gradients.between == 0),
                  "%s, %d", m.id, gpus);
        }
        rp_net_free(net);
    }
}

/* The exchange of 8 equal ranks in one host, by hand: each sends 7 times an eighth of the gradient, and as much of the
 * weights. */
TEST(one_host_by_hand)
{
    struct rp_machine m;
    struct rp_net *net;
    struct rp_err err;
    struct rp_estimate e;
    struct rp_estimate_opts o = bert_on(&m, &net, "dgx-h100", 1);
    const double weights = (double)net->tensors[RP_WEIGHT].bytes;
    m.within_bytes = (struct rp_range){1e9, 1e9};
    CHECK(rp_estimate(&e, &o, 8, &err) == 0, "%s", err.msg);
    CHECK(e.ring > 0.95 && e.ring < 1.1, "%.3f of a ring", e.ring);
    const double seconds = 2 * 7.0 / 8 * weights / 1e9;
    CHECK(e.exchange_s.low > seconds && e.exchange_s.low < 1.2 * seconds + 1e-3, "%g s, not %g", e.exchange_s.low,
          seconds);
    /* 4 hosts: within a host as above but for the shares of others; what leaves it is 2 * 3/4 of the weights, a ring's
     * is 2 * 31/32. */
    CHECK(rp_estimate(&e, &o, 32, &err) == 0, "%s", err.msg);
    CHECK(e.plan.levels == 2 && e.host_ring > 0.7 && e.host_ring < 0.9, "%d levels, %.3f of a ring leave a host",
          e.plan.levels, e.host_ring);
    CHECK(rp_estimate(&e, &o, 12, &err) < 0 && err.code == RP_USAGE, "a host and a half");
    CHECK(rp_machine_find(&m, "no such", &err) < 0 && err.code == RP_USAGE, "a machine that nobody knows");
    rp_net_free(net);
}

/* Links so fast that bytes take no time: what is left are the calls of a step, by the latency of the link and of each
 * peer. */
TEST(latency_by_hand)
{
    /* which counts between hosts alone */
    static const struct rp_link within = {.latency_us = {10, 20}, .peer_us = {1000, 1000}},
        between = {.latency_us = {100, 300}, .peer_us = {2, 5}};
    const struct rp_range fast = {1e300, 1e300};
    struct rp_machine m;
    struct rp_net *net;
    struct rp_err err;
    struct rp_estimate e;
    struct rp_estimate_opts o = bert_on(&m, &net, "dgx-h100", 2);
    m.within = &within;
    m.between = &between;
    m.within_bytes = m.between_bytes = fast;
    m.memory = 0;
    /* The last two calls of a step exchange losses and sums for the norm. */
    CHECK(rp_estimate(&e, &o, 8, &err) == 0 && e.plan.calls_within > 0 && e.plan.calls_between == 0,
          "8 GPUs of a host");
    is_near(e.exchange_s.low, 10e-6 * (e.plan.calls_within + 2));
    is_near(e.exchange_s.high, 20e-6 * (e.plan.calls_within + 2));
    is_near(e.efficiency.low, 0.02 / (0.02 + e.exchange_s.high)); /* two micro-batches of 10 to 20 ms */
    is_near(e.efficiency.high, 0.04 / (0.04 + e.exchange_s.low));
    is_near(e.samples_per_s.low, 2 * 2 * 8 / (0.04 + e.exchange_s.high));
    is_near(e.samples_per_s.high, 2 * 2 * 8 / (0.02 + e.exchange_s.low));
    /* 4 hosts: a GPU has a peer in each of 3 others, and 24 others where all exchange with all. */
    CHECK(rp_estimate(&e, &o, 32, &err) == 0 && e.plan.levels == 2 && e.plan.calls_between > 0, "32 GPUs of 4 hosts");
    is_near(e.exchange_s.low,
            1e-6 * (10 * e.plan.calls_within + (100 + 2 * 3) * e.plan.calls_between + 2 * (100 + 2 * 24)));
    is_near(e.exchange_s.high,
            1e-6 * (20 * e.plan.calls_within + (300 + 5 * 3) * e.plan.calls_between + 2 * (300 + 5 * 24)));
    /* Nodes are merged in memory, 70 to 92 % as fast as it is. */
    const struct rp_range before = e.exchange_s;
    m.memory = 1e9;
    CHECK(rp_estimate(&e, &o, 32, &err) == 0 && e.plan.merged > 0, "merging");
    is_near(e.exchange_s.low - before.low, (double)e.plan.merged / (0.92 * 1e9));
    is_near(e.exchange_s.high - before.high, (double)e.plan.merged / (0.7 * 1e9));
    rp_net_free(net);
}

/* At best the gradients are exchanged during the backward pass of the last micro-batch, which is two thirds of it. */
TEST(what_is_hidden_by_hand)
{
    static const struct rp_link none = {0};
    struct rp_machine m;
    struct rp_net *net;
    struct rp_err err;
    struct rp_estimate e;
    struct rp_estimate_opts o = bert_on(&m, &net, "dgx-h100", 3);
    m.within = m.between = &none;
    m.memory = 0;
    o.bucket = 1 << 20;
    for (int slow = 0; slow < 2; slow++) {
        m.within_bytes = slow ? (struct rp_range){2e9, 4e9} : (struct rp_range){1e13, 2e13};
        CHECK(rp_estimate(&e, &o, 8, &err) == 0, "%s", err.msg);
        const double gradients = (double)e.plan.gradients.within / m.within_bytes.high,
                     updated = (double)e.plan.updated.within / m.within_bytes.high;
        is_near(e.exchange_s.low, gradients + updated);
        CHECK((gradients > 2.0 / 3 * 0.02) == slow, "%g s of gradients", gradients);
        is_near(e.hidden_s, slow ? 2.0 / 3 * 0.01 : gradients);
        is_near(e.samples_per_s.high, 3 * 2 * 8 / (3 * 0.01 + e.exchange_s.low - e.hidden_s));
        is_near(e.efficiency.high, 3 * 0.02 / (3 * 0.02 + e.exchange_s.low - (slow ? 2.0 / 3 * 0.02 : gradients)));
        is_near(e.efficiency.low, 3 * 0.01 / (3 * 0.01 + e.exchange_s.high));
        is_near(e.exchange_s.high, 2 * e.exchange_s.low);
    }
    rp_net_free(net);
}

/* What sets a range lies at its end, what checks it within, to 5 %; what is listed as outside is really. */
TEST(links_against_published_figures)
{
    struct rp_measured m;
    int n[3] = {0};
    for (int i = 0; rp_measured_row(&m, i); i++) {
        const double off = m.deviation < 0 ? -m.deviation : m.deviation;
        n[m.role]++;
        CHECK(m.modelled.low < m.modelled.high && m.published > 0, "row %d", i);
        if (m.role == RP_MEASURED_OUTSIDE)
            CHECK(off > 0.1, "row %d is not outside: %.3f", i, off);
        else
            CHECK(off <= 0.05, "row %d (%s): %.1f GB/s is %.1f %% off", i, m.source, m.published, 100 * off);
    }
    CHECK(n[RP_MEASURED_CHECKS] >= 8 && n[RP_MEASURED_SETS] >= 3 && n[RP_MEASURED_OUTSIDE] >= 3, "%d, %d, %d rows",
          n[0], n[1], n[2]);
}
