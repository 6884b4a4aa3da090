/* How the ranks of a run divide the work, and its memory plan. */
#include "cli/run_session.h"

/* "2x4x1": data, tensor, pipeline. */
static int parse_layout(struct rp_degrees *d, const char *text, struct rp_err *err)
{
    char end;
    char shown[72];
    if (sscanf(text, "%4dx%4dx%4d%c", &d->data, &d->tensor, &d->pipeline, &end) == 3 && d->data > 0 && d->tensor > 0 && d->pipeline > 0 &&
        d->data <= RP_BUNDLE_RANKS_MAX && d->tensor <= RP_BUNDLE_RANKS_MAX && d->pipeline <= RP_BUNDLE_RANKS_MAX &&
        (int64_t)d->data * d->tensor * d->pipeline <= RP_BUNDLE_RANKS_MAX)
        return 0;
    return rp_fail(err, RP_USAGE, "--layout '%s': expected DATAxTENSORxPIPELINE, such as 2x4x1, of at most %d ranks in all", rp_excerpt(shown, text),
                   RP_BUNDLE_RANKS_MAX);
}

/* Without --layout the ranks divide tensors and layers as the recipe does, if their number allows it, and else micro-batches alone. */
static struct rp_degrees default_layout(const struct rp_recipe *r, int n)
{
    const int tensor = (int)r->parallel_tensor, pipeline = (int)r->parallel_pipeline;
    if (n % (tensor * pipeline) == 0)
        return (struct rp_degrees){n / tensor / pipeline, tensor, pipeline};
    if (n % tensor == 0)
        return (struct rp_degrees){n / tensor, tensor, 1};
    if (n % pipeline == 0)
        return (struct rp_degrees){n / pipeline, 1, pipeline};
    return (struct rp_degrees){n, 1, 1};
}

int rp_run_choose_layout(struct rp_run_session *r, struct rp_err *err)
{
    const int here = r->job_of_many.ranks > 0 ? r->job_of_many.ranks : (int)r->o->ranks; /* --plan looks for no job */
    const int n = r->job_of_many.several ? r->job_of_many.joining.join.world : here > 1 ? here : 1;
    r->degrees = (struct rp_degrees){1, 1, 1};
    if (r->o->layout) {
        if (parse_layout(&r->degrees, r->o->layout, err) < 0)
            return -1;
        if ((r->o->ranks || n > 1 || r->job_of_many.several) && rp_degrees_world(r->degrees) != n)
            return rp_fail(err, RP_USAGE, "--layout %s is a layout of %d ranks, and there are %d", r->o->layout, rp_degrees_world(r->degrees), n);
    } else if (n > 1) {
        r->degrees = default_layout(&r->recipe, n);
    }
    if (!r->job_of_many.several && rp_degrees_world(r->degrees) > RP_RANKS_MAX)
        return rp_fail(err, RP_USAGE, "--layout %s: at most %d ranks on one machine", r->o->layout, RP_RANKS_MAX);
    if (rp_degrees_world(r->degrees) > RP_BUNDLE_RANKS_MAX || r->hosts > RP_BUNDLE_NODES_MAX)
        return rp_fail(err, RP_USAGE, "%d ranks on %d hosts: a bundle holds the evidence of at most %d ranks on %d hosts",
                       rp_degrees_world(r->degrees), r->hosts > 0 ? r->hosts : 1, RP_BUNDLE_RANKS_MAX, RP_BUNDLE_NODES_MAX);
    r->rank_host = r->job_of_many.several ? rp_run_job_rank_hosts(&r->job_of_many) : NULL;
    const int gpus = r->job_of_many.several ? rp_run_job_gpus(&r->job_of_many) : r->backend->separate_memory ? rp_degrees_world(r->degrees) : 0;
    if (r->recipe.run_transport == RP_TRANSPORT_nccl && rp_degrees_world(r->degrees) > 1 && !r->backend->separate_memory)
        return rp_fail(err, RP_USAGE, "run.transport nccl connects GPUs, and these ranks train on processors: leave it at auto");
    r->place = (struct rp_comm){.lost = -1, .host = r->rank_host, .route = rp_world_route(&r->recipe, gpus)};
    rp_comm_place(&r->place, 0, r->degrees);
    r->device = rp_job_device(&r->recipe);
    if (!r->device.threads && rp_degrees_world(r->degrees) > 1)
        r->device.threads = rp_world_cpus(&r->place);
    return rp_train_check_ranks(&r->recipe, &r->place, err);
}

int64_t rp_run_degrees_of(const struct rp_recipe *r)
{
    return r->parallel_data * r->parallel_tensor * r->parallel_pipeline;
}

static void print_plan(const struct rp_run_session *r)
{
    const double mib = 1.0 / (1u << 20);
    const struct rp_plan *p = &r->plan;
    printf("%-18s %12s\n", "tensor class", "MiB");
    for (int c = 0; c < RP_CLASS_COUNT; c++)
        printf("%-18s %12.1f\n", rp_class_name((enum rp_class)c), (double)p->bytes[c] * mib);
    if (p->decoders)
        printf("%-18s %12.1f\n", "image decoders", (double)p->decoders * mib);
    if (p->connections)
        printf("%-18s %12.1f\n", "connections", (double)p->connections * mib);
    printf("%-18s %12.1f\n%-18s %12.1f\n", "process", (double)p->host * mib, "total", (double)p->total * mib);
    if (p->available == RP_MEMORY_UNKNOWN)
        printf("usable here: unknown, /proc is not mounted\nbatch size %lld", (long long)p->batch);
    else
        printf("%-18s %12.1f\nbatch size %lld, largest that fits %lld", "usable here", (double)p->available * mib, (long long)p->batch,
               (long long)p->max_batch);
    printf(", parameters %llu\n", (unsigned long long)p->parameters);
}

/* A model that computes nothing again has only the first row. */
static int plan_on_gpus(struct rp_fits fits[RP_RECOMPUTE_COUNT], int *n, const struct rp_run_session *r, struct rp_err *err)
{
    *n = r->plan.hardware_flops_formula ? RP_RECOMPUTE_COUNT : 1;
    for (int i = 0; i < *n; i++)
        if (rp_fits_plan(&fits[i], &r->recipe, r->plan.batch, *n > 1 ? i : (int)r->recipe.train_recompute, err) < 0)
            return -1;
    return 0;
}

/* "no / yes / yes / yes", or with `as_batch` the largest batches */
static const char *by_size(char text[120], const struct rp_fits *f, int as_batch)
{
    size_t n = 0;
    for (int i = 0; i < RP_GPU_SIZES; i++) {
        const char *gap = i ? " / " : "";
        n += (size_t)(as_batch ? snprintf(text + n, 120 - n, "%s%lld", gap, (long long)f->largest[i])
                               : snprintf(text + n, 120 - n, "%s%s", gap, f->fits[i] ? "yes" : "no"));
    }
    return text;
}

static void print_gpus(const struct rp_run_session *r, const struct rp_fits *fits, int n)
{
    const double mib = 1.0 / (1u << 20);
    const struct rp_recipe *s = &r->recipe;
    char text[120], batches[120];
    const struct rp_fits *own = &fits[n > 1 ? s->train_recompute : 0];
    printf("GPUs of 16 / 32 / 80 / 141 GB: fits %s; largest batch %s\n", by_size(text, own, 0), by_size(batches, own, 1));
    if (n > 1)
        printf("\non these GPUs, batch size %lld:\n%-18s %15s %15s  %-30s %s\n", (long long)r->plan.batch, "train.recompute",
               "activations MiB", "total MiB", "largest batch, as above", "hardware / model FLOPs");
    for (int i = 0; i < n && n > 1; i++)
        printf("%-9s%-9s %15.1f %15.1f  %-30s %.3f\n", rp_choice_name(RP_RECOMPUTES, i), i == s->train_recompute ? " (this)" : "",
               (double)fits[i].activations * mib, (double)fits[i].total * mib, by_size(batches, &fits[i], 1),
               fits[i].hardware_flops / fits[i].flops);
    if (rp_run_degrees_of(s) > 1)
        printf("\nall of this is for one rank, which computes the arithmetic of %lld x %lld x %lld ranks (data x tensor x pipeline)\n",
               (long long)s->parallel_data, (long long)s->parallel_tensor, (long long)s->parallel_pipeline);
}

static json_t *plan_json(const struct rp_run_session *r, const struct rp_fits *fits, int n)
{
    json_t *j = rp_plan_to_json(&r->plan), *modes = json_object();
    for (int i = 0; i < n && n > 1; i++)
        json_object_set_new(modes, rp_choice_name(RP_RECOMPUTES, i), rp_fits_to_json(&fits[i]));
    RP_JSON *own = rp_fits_to_json(&fits[n > 1 ? r->recipe.train_recompute : 0]);
    json_object_set(j, "gpus", json_object_get(own, "gpus"));
    if (n > 1)
        json_object_set(j, "recompute", modes);
    json_decref(modes);
    json_object_set_new(j, "ranks", json_integer(1));
    json_object_set_new(j, "ranks_of_arithmetic", json_integer(rp_run_degrees_of(&r->recipe)));
    return j;
}

int rp_run_make_plan(struct rp_run_session *r, struct rp_err *err)
{
    return rp_job_plan(&r->plan, &r->recipe, 0, &r->place, r->backend, &r->device, err);
}

int rp_run_show_plan(struct rp_run_session *r, struct rp_err *err)
{
    struct rp_fits fits[RP_RECOMPUTE_COUNT];
    struct rp_err ignored;
    int n, fit = rp_run_make_plan(r, err) == 0;
    if (!fit && !r->plan.total)
        return -1;
    int on_gpus = plan_on_gpus(fits, &n, r, &ignored) == 0; /* of some sizes no GPU can be planned */
    if (r->cli->json) {
        r->cli->result = on_gpus ? plan_json(r, fits, n) : rp_plan_to_json(&r->plan);
    } else {
        print_plan(r);
        if (on_gpus)
            print_gpus(r, fits, n);
    }
    return fit ? 0 : -1;
}
