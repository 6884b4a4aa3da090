/* How the ranks of a run divide the work, and its memory plan. */
#include "cli/run_session.h"

int rp_run_choose_layout(struct rp_run_session *r, struct rp_err *err)
{
    const int here = r->job_of_many.ranks > 0 ? r->job_of_many.ranks : (int)r->o->ranks; /* --plan looks for no job */
    const int n = r->job_of_many.several ? r->job_of_many.joining.join.world : here > 1 ? here : 1;
    r->degrees = (struct rp_degrees){1, 1, 1};
    if (r->o->layout) {
        if (rp_run_parse_layout(&r->degrees, r->o->layout, err) < 0)
            return -1;
        if ((r->o->ranks || n > 1 || r->job_of_many.several) && rp_degrees_world(r->degrees) != n)
            return rp_fail(err, RP_USAGE, "--layout %s is a layout of %d ranks, and there are %d", r->o->layout,
                           rp_degrees_world(r->degrees), n);
    } else if (n > 1) {
        r->degrees = rp_run_default_layout(&r->recipe, n);
    }
    if (!r->job_of_many.several && rp_degrees_world(r->degrees) > RP_RANKS_MAX)
        return rp_fail(err, RP_USAGE, "--layout %s: at most %d ranks on one machine", r->o->layout, RP_RANKS_MAX);
    if (rp_degrees_world(r->degrees) > RP_BUNDLE_RANKS_MAX || r->hosts > RP_BUNDLE_NODES_MAX)
        return rp_fail(
            err, RP_USAGE, "%d ranks on %d hosts: a bundle holds the evidence of at most %d ranks on %d hosts",
            rp_degrees_world(r->degrees), r->hosts > 0 ? r->hosts : 1, RP_BUNDLE_RANKS_MAX, RP_BUNDLE_NODES_MAX);
    r->rank_host = r->job_of_many.several ? rp_run_job_rank_hosts(&r->job_of_many) : NULL;
    const int gpus = r->job_of_many.several        ? rp_run_job_gpus(&r->job_of_many)
                     : r->backend->separate_memory ? rp_degrees_world(r->degrees)
                                                   : 0;
    if (r->recipe.run_transport == RP_TRANSPORT_nccl && rp_degrees_world(r->degrees) > 1 &&
        !r->backend->separate_memory)
        return rp_fail(err, RP_USAGE,
                       "run.transport nccl connects GPUs, and these ranks train on processors: leave it at auto");
    r->place = (struct rp_comm){.lost = -1, .host = r->rank_host, .route = rp_world_route(&r->recipe, gpus)};
    rp_comm_set_coords(&r->place, 0, r->degrees);
    r->device = rp_job_device(&r->recipe);
    if (!r->device.threads && rp_degrees_world(r->degrees) > 1)
        r->device.threads = rp_world_cpus(rp_run_cpu_sharers(r));
    return rp_train_check_ranks(&r->recipe, &r->place, err);
}

int64_t rp_run_degrees_of(const struct rp_recipe *r)
{
    return r->parallel_data * r->parallel_tensor * r->parallel_pipeline;
}

/* A model that computes nothing again has only the first row. */
static int plan_on_gpus(struct rp_fits fits[RP_RECOMPUTE_COUNT], int *n, const struct rp_run_session *r,
                        struct rp_err *err)
{
    *n = r->plan.hardware_flops_formula ? RP_RECOMPUTE_COUNT : 1;
    for (int i = 0; i < *n; i++)
        if (rp_fits_plan(&fits[i], &r->recipe, r->plan.batch, *n > 1 ? i : (int)r->recipe.train_recompute, err) < 0)
            return -1;
    return 0;
}

static json_t *plan_json(const struct rp_run_session *r, const struct rp_fits *fits, int n)
{
    const struct rp_recipe *s = &r->recipe;
    json_t *j = rp_plan_to_json(&r->plan), *modes = json_object();
    for (int i = 0; i < n && n > 1; i++) {
        json_t *mode = rp_fits_to_json(&fits[i]);
        json_object_set_new(mode, "flops_ratio", json_real(fits[i].hardware_flops / fits[i].flops));
        json_object_set_new(mode, "chosen", json_boolean(i == s->train_recompute));
        json_object_set_new(modes, rp_choice_name(RP_RECOMPUTES, i), mode);
    }
    RP_JSON *own = rp_fits_to_json(&fits[n > 1 ? s->train_recompute : 0]);
    json_object_set(j, "gpus", json_object_get(own, "gpus"));
    if (n > 1)
        json_object_set(j, "recompute", modes);
    json_decref(modes);
    json_object_set_new(j, "ranks", json_integer(1));
    json_object_set_new(j, "ranks_of_arithmetic", json_integer(rp_run_degrees_of(s)));
    if (rp_run_degrees_of(s) > 1)
        json_object_set_new(j, "parallel", json_pack("{s:I, s:I, s:I}", "data", (json_int_t)s->parallel_data, "tensor",
                                                     (json_int_t)s->parallel_tensor, "pipeline",
                                                     (json_int_t)s->parallel_pipeline));
    return j;
}

static const char plan_text[] =
    "tensor class\rMiB\n"
    "[/bytes:{@ t}\r{ d1/1048576}\n][/decoder_bytes:reading data\r{/decoder_bytes "
    "d1/1048576}\n][/connection_bytes:connections\r{/connection_bytes d1/1048576}\n]process\r{/host_bytes d1/1048576}\n"
    "total\r{/total_bytes d1/1048576}\n"
    "[/available_bytes:usable here\r{/available_bytes d1/1048576}\n][!/available_bytes:usable here: unknown, /proc is "
    "not mounted\n]batch size {/batch t}[/available_bytes:, largest that fits {/max_batch t}], parameters {/parameters "
    "t}\n"
    "[/training:training: {/steps t} steps, {/training t} here\n][/precision:arithmetic: {/precision t}, with copies "
    "of the weights in 16 bits\n][/ranks:GPUs of [/gpus:[#: / ]{/gb t}] GB: fits [/gpus:[#: / "
    "][/fits:yes][!/fits:no]]; largest batch [/gpus:[#: / ]{/max_batch t}]\n][/recompute:[!#:\non these "
    "GPUs:\ntrain.recompute\t\ractivations MiB\rtotal MiB\tlargest batch, as above\thardware / model FLOPs\n]{@ "
    "t}\t[/chosen:(this)]\r{/activation_bytes d1/1048576}\r{/total_bytes d1/1048576}\t[/gpus:[#: / ]{/max_batch "
    "t}]\t{/flops_ratio d3}\n][/parallel/data:\nall of this is for one rank, which computes the arithmetic of "
    "{/parallel/data t} x {/parallel/tensor t} x {/parallel/pipeline t} ranks (data x tensor x pipeline)\n]";

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
    json_t *j = on_gpus ? plan_json(r, fits, n) : rp_plan_to_json(&r->plan);
    const struct rp_figures arithmetic = {.numerics = (char *)rp_numerics_of(&r->recipe)};
    char precision[RP_PRECISION_TEXT], time[RP_TIME_TEXT];
    double seconds[2];
    if (*rp_figures_precision(precision, &arithmetic))
        json_object_set_new(j, "precision", json_string(precision));
    rp_run_note_processors(r);
    rp_run_note_batch(r);
    if (fit && rp_run_estimate(seconds, r) == 0)
        json_object_update_new(j, json_pack("{s:I, s:[f, f], s:s}", "steps", (json_int_t)rp_job_steps(&r->recipe),
                                            "training_s", seconds[0], seconds[1], "training",
                                            rp_run_time_text(time, seconds)));
    rp_cli_return(r->cli, j, plan_text);
    return fit ? 0 : -1;
}
