#include "estimate/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BACKWARD (2.0 / 3) /* of the time of a micro-batch: two products for each of the forward pass */
static const struct rp_range memory_share = {0.7, 0.92}; /* of a GPU's memory bandwidth, by large copies: assumed */

const struct rp_range rp_share_of_peak = {0.33, 0.67};
const char rp_share_of_peak_source[] =
    "high: BERT-base on V100 of OneFlow, 149.8 sequences/s (published:oneflow_v100_2020-08); low: half of it, "
    "assumed; --from BUNDLE takes a measured time";

/* ---- tables ---- */

enum link_row {
#define LINK(row, ...) LINK_##row,
#include "estimate/links.def"
#undef LINK
};

static const struct rp_link links[] = {
#define LINK(row, id, name, rate, share_low, share_high, us_low, us_high, peer_low, peer_high, source) \
    {id, name, rate, {share_low, share_high}, {us_low, us_high}, {peer_low, peer_high}, source},
#include "estimate/links.def"
#undef LINK
};

static const struct gpu_rates {
    const char *name;
    double flops, memory;
} gpus_known[] = {
#define PEAK(name, sms, units, tensor, mhz, gb_per_s, source) {name, (sms) * (units)*2.0 * (mhz)*1e6, (gb_per_s)*1e9},
#include "verify/physics/peaks.def"
#undef PEAK
};

static const struct rp_machine machines[] = {
#define MACHINE(id, gpu, per_host, within, between, adapters, source) \
    {id, gpu, per_host, &links[LINK_##within], &links[LINK_##between], adapters, source, 0, 0, {0, 0}, {0, 0}},
#include "estimate/machines.def"
#undef MACHINE
};
#define MACHINES (int)(sizeof machines / sizeof *machines)

const char *rp_machine_id(int i)
{
    return i < MACHINES ? machines[i].id : NULL;
}

static struct rp_range bytes_of(const struct rp_link *l, double each)
{
    return (struct rp_range){l->gb_per_s * 1e9 * each * l->share.low, l->gb_per_s * 1e9 * each * l->share.high};
}

int rp_machine_find(struct rp_machine *out, const char *id, struct rp_err *err)
{
    for (int i = 0; i < MACHINES; i++) {
        if (strcmp(machines[i].id, id) != 0)
            continue;
        *out = machines[i];
        for (size_t k = 0; k < sizeof gpus_known / sizeof *gpus_known; k++)
            if (strcmp(gpus_known[k].name, out->gpu) == 0) {
                out->flops = gpus_known[k].flops;
                out->memory = gpus_known[k].memory;
            }
        RP_BUG_IF(out->flops <= 0);
        out->within_bytes = bytes_of(out->within, 1);
        out->between_bytes = bytes_of(out->between, (double)out->adapters / out->per_host);
        return 0;
    }
    RP_BUF known = {0};
    for (int i = 0; i < MACHINES; i++)
        rp_buf_printf(&known, "%s%s", i ? ", " : "", machines[i].id);
    return rp_fail(err, RP_USAGE, "unknown machine '%.40s'; expected one of %s", id, rp_buf_text(&known));
}

/* ---- a step ---- */

/* Seconds of one kind of transfer. One level: the host's own link and the adapters work at the same time. */
static double transfer_s(const struct rp_exchange_bytes *b, int levels, double within, double between)
{
    const double here = (double)b->within / within, there = b->between ? (double)b->between / between : 0;
    return levels > 1 ? here + there : fmax(here, there);
}

/* The calls of a step; two more, with all ranks, exchange losses and sums for the norm. */
static double latency_s(const struct rp_exchange_plan *p, const struct rp_machine *m, int best)
{
    const struct rp_link *in = m->within, *out = m->between;
    const int several = p->hosts > 1, small = 2;
    const double here = best ? in->latency_us.low : in->latency_us.high,
                 base = best ? out->latency_us.low : out->latency_us.high;
    const double each = best ? out->peer_us.low : out->peer_us.high;
    const double peers = p->levels > 1 ? p->hosts - 1 : p->ranks - (double)p->ranks / p->hosts;
    const double far = base + each * peers,
                 all = several ? base + each * (p->ranks - (double)p->ranks / p->hosts) : here;
    return 1e-6 * (p->calls_within * here + p->calls_between * far + small * all);
}

struct exchange_time {
    double gradients, rest;
};

static struct exchange_time exchange_time(const struct rp_exchange_plan *p, const struct rp_machine *m, int best)
{
    const double within = best ? m->within_bytes.high : m->within_bytes.low,
                 between = best ? m->between_bytes.high : m->between_bytes.low;
    struct exchange_time t = {0};
    if (p->ranks == 1)
        return t;
    t.gradients = transfer_s(&p->gradients, p->levels, within, between);
    t.rest = transfer_s(&p->updated, p->levels, within, between) + latency_s(p, m, best);
    if (m->memory > 0)
        t.rest += (double)p->merged / (m->memory * (best ? memory_share.high : memory_share.low));
    return t;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

int rp_estimate(struct rp_estimate *out, const struct rp_estimate_opts *o, int gpus, struct rp_err *err)
{
    const struct rp_machine *m = o->machine;
    if (gpus < 1 || (gpus > m->per_host && gpus % m->per_host))
        return rp_fail(err, RP_USAGE, "%d GPUs are not a whole number of hosts with %d each", gpus, m->per_host);
    *out = (struct rp_estimate){.gpus = gpus};
    rp_exchange_count(&out->plan, o->net, o->micros, gpus, m->per_host, o->bucket);
    const struct exchange_time best = exchange_time(&out->plan, m, 1), worst = exchange_time(&out->plan, m, 0);
    const struct rp_range c = {(double)o->micros * o->micro_s.low, (double)o->micros * o->micro_s.high};
    const double most = o->bucket ? best.gradients : 0;
    const double fast_hidden = fmin(most, BACKWARD * o->micro_s.low),
                 slow_hidden = fmin(most, BACKWARD * o->micro_s.high);
    const double samples = (double)o->micros * (double)o->batch * gpus;
    const double fast = best.gradients + best.rest, slow = worst.gradients + worst.rest;
    out->compute_s = c;
    out->exchange_s = (struct rp_range){fast, slow};
    out->hidden_s = fast_hidden;
    out->samples_per_s = (struct rp_range){samples / (c.high + slow), samples / (c.low + fast - fast_hidden)};
    out->efficiency = (struct rp_range){c.low / (c.low + slow), c.high / (c.high + fast - slow_hidden)};
    const struct rp_exchange_bytes *g = &out->plan.gradients, *u = &out->plan.updated;
    const double ring = 2.0 * (gpus - 1) / gpus * (double)out->plan.weights,
                 away = (double)(g->between + u->between) * gpus / out->plan.hosts;
    out->ring = ratio((double)(g->within + g->between + u->within + u->between), ring);
    out->host_ring = ratio(away, ring);
    return 0;
}

/* ---- published figures ---- */

enum collective { RING, ALL_TO_ALL, PAIRS };
static const char *const collective_names[] = {"ring", "alltoall", "sendrecv"};

static const struct measured_row {
    int hosts, per_host;
    enum collective collective;
    const struct rp_link *within, *between;
    int adapters;
    double gb_per_s;
    enum rp_measured_role role;
    const char *source;
} rows[] = {
#define MEASURED(hosts, per_host, collective, within, between, adapters, gb_per_s, role, source)                       \
    {hosts,    per_host,           collective, &links[LINK_##within], &links[LINK_##between], adapters,                \
     gb_per_s, RP_MEASURED_##role, source},
#include "estimate/measured.def"
#undef MEASURED
};

/* Bus bandwidth as nccl-tests defines it, from bytes a second of a GPU on each link. A ring of several hosts is cut
 * into one for each adapter; of an all-to-all every rank sends the same to each other one. */
static double bus_bandwidth(const struct measured_row *r, double within, double between)
{
    const double n = r->hosts * r->per_host, g = r->per_host;
    if (r->hosts == 1)
        return within;
    if (r->collective == ALL_TO_ALL)
        return (n - 1) / fmax((g - 1) / within, (n - g) / between);
    return r->collective == RING ? fmin(within, g * between) : between;
}

int rp_measured_row(struct rp_measured *out, int i)
{
    if (i < 0 || (size_t)i >= sizeof rows / sizeof *rows)
        return 0;
    const struct measured_row *r = &rows[i];
    const struct rp_range in = bytes_of(r->within, 1), far = bytes_of(r->between, (double)r->adapters / r->per_host);
    const struct rp_range m = {1e-9 * bus_bandwidth(r, in.low, far.low), 1e-9 * bus_bandwidth(r, in.high, far.high)};
    const double p = r->gb_per_s;
    *out = (struct rp_measured){.hosts = r->hosts, .per_host = r->per_host, .adapters = r->adapters,
                                .collective = collective_names[r->collective], .within = r->within->id,
                                .between = r->between->id, .role = r->role, .published = p, .modelled = m,
                                .deviation = p < m.low    ? p / m.low - 1
                                             : p > m.high ? p / m.high - 1
                                                          : 0,
                                .source = r->source};
    return 1;
}

const char *rp_measured_role_name(enum rp_measured_role r)
{
    return r == RP_MEASURED_SETS ? "sets" : r == RP_MEASURED_CHECKS ? "checks" : "outside";
}
