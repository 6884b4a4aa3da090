/* "ceilings" of run.json: rates from repetitions, and what the run achieved of them. */
#include "run/derive.h"

#include <string.h>

/* By the shortest repetition; unknown when no time passed. */
static double rate_of(double work, const int64_t *ns, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++)
        best = i == 0 || ns[i] < best ? ns[i] : best;
    return best > 0 ? work / ((double)best / 1e9) : NAN;
}

static double copy_rate(double each, const struct rp_copy_times *c)
{
    return rate_of(each * (double)c->calls * (double)c->bytes, c->ns, c->ns_n);
}

/* The part of the bytes that a rank sends to others in both collectives. */
static double bus_share(double ranks)
{
    return ranks > 1 ? (ranks - 1) / ranks : 0;
}

struct rp_ceiling_rates *rp_ceiling_rates_of(const struct rp_ceiling_times *t, int64_t ranks)
{
    if (!t)
        return NULL;
    struct rp_ceiling_rates *out = rp_alloc(sizeof *out);
    const struct rp_gemm_times *g = &t->gemm;
    rp_object_init(out, &rp_type_ceiling_rates);
    out->gemm_flops_per_s =
        rate_of(2.0 * (double)g->calls * (double)g->m * (double)g->n * (double)g->k, g->ns, g->ns_n);
    out->copy_bytes_per_s = copy_rate(2, &t->copy);
    if (t->host_to_device)
        out->host_to_device_bytes_per_s = copy_rate(1, t->host_to_device);
    for (int64_t i = 0; i < t->exchange_n; i++) {
        const struct rp_exchange_times *x = &t->exchange[i];
        struct rp_exchange_rates *rate = rp_object_add(&out->exchange, &out->exchange_n, &rp_type_exchange_rates);
        const double work = (double)x->bytes * (double)x->calls;
        rate->bytes_per_s = rate_of(work, x->ns, x->ns_n);
        rate->bus_bytes_per_s = rate_of(work * bus_share((double)ranks), x->ns, x->ns_n);
    }
    return out;
}

/* The part of all work that the rank does whose ceilings these are. Stages and parts of tensors count as equal. */
static double share_of_rank(const struct rp_figures *f, const struct rp_facts *facts)
{
    const double own = (double)f->rank[f->world.slowest].samples_per_step, all = (double)f->results.samples_per_step,
                 of_model = (double)facts->layout.tensor * (double)facts->layout.pipeline;
    return facts->rank_n > 1 && all > 0 && of_model > 0 ? own / all / of_model : 1;
}

static double best_gemm(const struct rp_ceiling_figures *c)
{
    return fmax(c->before ? c->before->gemm_flops_per_s : NAN, c->after ? c->after->gemm_flops_per_s : NAN);
}

static double best_bus(const struct rp_ceiling_rates *rates)
{
    double best = NAN;
    for (int64_t i = 0; rates && i < rates->exchange_n; i++)
        best = fmax(best, rates->exchange[i].bus_bytes_per_s);
    return best;
}

static struct rp_exchange_achieved *exchange_achieved(const struct rp_figures *f, const struct rp_ceiling_figures *c,
                                                      const struct rp_facts *facts)
{
    if (!(c->before && c->before->exchange_n) && !(c->after && c->after->exchange_n))
        return NULL;
    struct rp_exchange_achieved *out = rp_alloc(sizeof *out);
    const struct rp_rank_figures *rank = &f->rank[f->world.slowest];
    const struct rp_exchange_facts *x = facts->rank[f->world.slowest].exchange;
    const double steps = (double)f->results.steps.timed, best = fmax(best_bus(c->before), best_bus(c->after));
    rp_object_init(out, &rp_type_exchange_achieved);
    if (best > 0)
        out->bus_bytes_per_s = best;
    if (x) {
        out->bytes_per_step = x->bytes_per_step;
        out->least_s = best > 0 ? (double)x->bytes_per_step / best : NAN;
    }
    if (steps > 0)
        out->measured_s = (rank->exchange_s + (isnan(rank->overlap_s) ? 0 : rank->overlap_s)) / steps;
    return out;
}

void rp_derive_ceilings(struct rp_figures *f, const struct rp_facts *facts)
{
    const struct rp_ceiling_facts *is = facts->ceilings;
    if (!is)
        return;
    struct rp_ceiling_figures *c = f->ceilings = rp_alloc(sizeof *c);
    rp_object_init(c, &rp_type_ceiling_figures);
    c->before = rp_ceiling_rates_of(is->before, facts->rank_n);
    c->after = rp_ceiling_rates_of(is->after, facts->rank_n);
    if (best_gemm(c) > 0)
        c->gemm_share = f->results.flops_per_s * share_of_rank(f, facts) / best_gemm(c);
    c->exchange = exchange_achieved(f, c, facts);
}
