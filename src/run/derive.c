/* run.json: every figure of a run, from the facts, records and captures. */
#include "run/derive.h"

#include "base/json.h"
#include "capture/env_diff.h"
#include "model/model.h"
#include "ops/numerics.h"
#include "train/train.h"

#include <string.h>

/* Listed of all nodes together, and of each at least. */
#define CHANGES 4096
#define CHANGES_LEAST 16

const char *rp_numerics_of(const struct rp_recipe *r)
{
    return rp_numerics_name(rp_recipe_numerics(r));
}

static void derive_model(struct rp_model_figures *out, const struct rp_model *m)
{
    out->name = rp_strdup(m->name);
    out->sample_unit = rp_strdup(m->sample_unit);
    out->loss_parts = rp_alloc((RP_LOSS_PARTS_MAX + 1) * sizeof *out->loss_parts);
    for (; out->loss_parts_n < rp_model_loss_parts(m); out->loss_parts_n++)
        out->loss_parts[out->loss_parts_n] = rp_strdup(m->loss_part[out->loss_parts_n]);
    out->counters = rp_alloc((RP_COUNTERS_MAX + 1) * sizeof *out->counters);
    for (; out->counters_n < rp_model_counters(m); out->counters_n++)
        out->counters[out->counters_n] = rp_strdup(m->counter[out->counters_n].name);
}

/* These do not depend on the backend. */
static int derive_work(struct rp_model_figures *out, const struct rp_recipe *r, struct rp_err *err)
{
    struct rp_plan plan = {0};
    const struct rp_device_opts o = {.threads = 1};
    if (rp_train_size(&plan, r, NULL, &rp_backend_cpu, &o, err) < 0) {
        err->code = RP_MISMATCH;
        return rp_wrap(err, "planning the run again");
    }
    out->parameters = (int64_t)plan.parameters;
    out->flops_per_sample = plan.flops_per_sample;
    if (plan.hardware_flops_formula)
        out->hardware_flops_per_sample = plan.hardware_flops_per_sample;
    return 0;
}

static double seconds_or_unknown(int64_t ns)
{
    return ns < 0 ? NAN : (double)ns / 1e9;
}

static void derive_ranks(struct rp_figures *f, const struct rp_all_ranks *all, const struct rp_facts *facts)
{
    for (int i = 0; i < all->ranks; i++) {
        const struct rp_rank_share *s = &all->share[i];
        struct rp_rank_figures *r = rp_object_add(&f->rank, &f->rank_n, &rp_type_rank_figures);
        r->samples_per_step = (int64_t)s->samples;
        memcpy(r->records_sha256, s->sha256, sizeof r->records_sha256);
        r->timed_s = (double)s->span_ns / 1e9;
        r->exchange_s = (double)s->exchange_ns / 1e9;
        r->wait_s = all->ranks > 1 ? seconds_or_unknown(s->wait_ns) : NAN;
        r->overlap_s = seconds_or_unknown(s->overlap_ns);
    }
    f->world = (struct rp_world){.ranks = all->ranks, .nodes = rp_facts_nodes(facts), .slowest = all->slowest};
    for (int64_t i = 0; i < facts->rank_n; i++)
        if (facts->rank[i].peak_rss_bytes > f->peak_rss_bytes) /* which is unknown at first, the least of all */
            f->peak_rss_bytes = facts->rank[i].peak_rss_bytes;
}

/* A node with eight GPUs has a hundred changes, and run.json a limit. */
int rp_changes_most(int nodes)
{
    return CHANGES / nodes < CHANGES_LEAST ? CHANGES_LEAST : CHANGES / nodes;
}

int rp_derive_changes(struct rp_node_figures **list, int64_t *n, const struct rp_captures *of, int nodes,
                      struct rp_err *err)
{
    const int most = rp_changes_most(nodes);
    for (int i = 0; i < nodes; i++) {
        struct rp_node_figures *node = rp_object_add(list, n, &rp_type_node_figures);
        if (!of[i].before || !of[i].after)
            continue;
        RP_CAPTURE_COMPARISON all = {0};
        if (rp_capture_changes(&all, of[i].before, of[i].after, err) < 0)
            return -1;
        for (int64_t k = 0; k < all.different_n && k < most; k++) {
            const struct rp_difference *d = &all.different[k];
            struct rp_change *c = rp_object_add(&node->change, &node->change_n, &rp_type_change);
            *c = (struct rp_change){rp_strdup(d->field), rp_strdup(d->impact), d->varies, json_deep_copy(d->a),
                                    json_deep_copy(d->b)};
        }
    }
    return 0;
}

int rp_derive(struct rp_figures *f, const struct rp_run *r, struct rp_err *err)
{
    const struct rp_model *m = rp_model_of(&r->recipe);
    const int complete = strcmp(r->facts->status, "complete") == 0;
    rp_object_init(f, &rp_type_figures);
    if (rp_records_match(&r->records, &r->recipe, r->facts->init, complete, err) < 0 ||
        derive_work(&f->model, &r->recipe, err) < 0 ||
        rp_derive_changes(&f->node, &f->node_n, r->node, r->nodes, err) < 0)
        return -1;
    f->numerics = rp_strdup(rp_numerics_of(&r->recipe));
    memcpy(f->recipe_sha256, r->recipe_sha256, sizeof f->recipe_sha256);
    derive_model(&f->model, m);
    derive_ranks(f, &r->ranks, r->facts);
    rp_derive_results(f, &r->records, m);
    rp_derive_ceilings(f, r->facts);
    return 0;
}
