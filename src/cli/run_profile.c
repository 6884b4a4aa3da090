/* `repro run --profile`: where the time of a training step goes, by operation. */
#include "cli/run_session.h"

#include "base/object.h"
#include "process/process.h"
#include "train/profile.h"

#include <math.h>

static const char profile_text[] =
    "operation\t\rcalls\rms\rshare\rGFLOP/s\rof GEMM\rGB/s\rof copy\n"
    "[/profile/operations:{/op t}[/form: {/form t}]\t\r{/calls d0}\r{/seconds d2*1e3}\r{/share d1*100} %\r"
    "[/flops_per_s:{/flops_per_s d0*1e-9}]\r[/of_gemm:{/of_gemm d0*100} %]\r"
    "[/bytes_per_s:{/bytes_per_s d1*1e-9}]\r[/of_copy:{/of_copy d0*100} %]\n]"
    "between operations\t\r\r{/profile/other_s d2*1e3}\r{/profile/other_share d1*100} %\r\r\r\r\n"
    "\n"
    "a step of {/profile/samples t} {/profile/unit t}: {/profile/step_s d4} s, mean of {/profile/steps t} on "
    "{/profile/device t}\n"
    "[/profile/gemm_flops_per_s:the fastest matrix product here: {/profile/gemm_flops_per_s d0*1e-9} GFLOP/s; copies "
    "in memory, read and written: {/profile/copy_bytes_per_s d1*1e-9} GB/s\n]";

/* One rank, here, on a device whose operations are done when they return. */
int rp_run_check_profile(const struct rp_run_session *r, struct rp_err *err)
{
    const struct rp_run_opts *o = r->o;
    if (o->plan)
        return rp_fail(err, RP_USAGE, "--plan computes no step, --profile times some: leave one of them out");
    if (o->hosts || rp_degrees_world(r->degrees) > 1)
        return rp_fail(err, RP_USAGE, "--profile times one rank on this machine: leave out --%s",
                       o->hosts    ? "hosts"
                       : o->layout ? "layout"
                                   : "ranks");
    if (r->backend->separate_memory)
        return rp_fail(err, RP_USAGE,
                       "--profile times operations of the CPU: add --backend cpu, or profile a GPU with "
                       "RP_GPU_TOOL='nsys profile' repro run %s",
                       r->recipe.source_name);
    return 0;
}

static void add_rate(json_t *row, const char *rate, const char *share, double work, double seconds, double best)
{
    if (!(work > 0) || !(seconds > 0))
        return;
    json_object_set_new(row, rate, json_real(work / seconds));
    if (best > 0)
        json_object_set_new(row, share, json_real(work / seconds / best));
}

/* The row of an operation, for one step. Products are compared with the fastest product, all others with copies. */
static json_t *row_json(const struct rp_operation_times *t, const struct rp_profile *p,
                        const struct rp_ceiling_rates *best)
{
    const double steps = (double)p->steps;
    json_t *row = json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f}", "op", t->op, "form", t->form, "calls",
                            (double)t->calls / steps, "seconds", t->seconds / steps, "share", t->seconds / p->seconds,
                            "flops", t->flops / steps, "bytes", t->bytes / steps);
    add_rate(row, "flops_per_s", "of_gemm", t->flops, t->seconds, best ? best->gemm_flops_per_s : NAN);
    add_rate(row, "bytes_per_s", "of_copy", t->bytes, t->seconds,
             best && !(t->flops > 0) ? best->copy_bytes_per_s : NAN);
    return row;
}

static json_t *profile_json(const struct rp_run_session *r, const struct rp_profile *p,
                            const struct rp_ceiling_rates *best)
{
    RP_READ(hello_frame, hello, r->outcome.rank[0].hello);
    double other = p->seconds;
    char text[RP_DEVICE_TEXT];
    json_t *rows = json_array();
    for (int64_t i = 0; i < p->operations_n; i++) {
        json_array_append_new(rows, row_json(&p->operations[i], p, best));
        other -= p->operations[i].seconds;
    }
    rp_device_text(text, hello.device);
    json_t *j = json_pack("{s:I, s:f, s:I, s:s, s:s, s:f, s:f, s:o}", "steps", (json_int_t)p->steps, "step_s",
                          p->seconds / (double)p->steps, "samples",
                          (json_int_t)(r->plan.batch * rp_recipe_micro_batches(&r->recipe)), "unit",
                          rp_model_of(&r->recipe)->sample_unit, "device", text, "other_s", other / (double)p->steps,
                          "other_share", other / p->seconds, "operations", rows);
    if (best)
        json_object_update_new(j, json_pack("{s:f, s:f}", "gemm_flops_per_s", best->gemm_flops_per_s,
                                            "copy_bytes_per_s", best->copy_bytes_per_s));
    return json_pack("{s:o}", "profile", j);
}

/* What the worker measured before it trained; NULL: nothing. */
static struct rp_ceiling_rates *best_rates(const json_t *ceilings)
{
    RP_READ(ceiling_facts, measured, ceilings);
    return measured.before ? rp_ceiling_rates_of(measured.before, 1) : NULL;
}

static void show_profile(struct rp_run_session *r)
{
    RP_READ(done_frame, done, r->outcome.rank[0].done);
    RP_READ(profile, p, done.profile);
    struct rp_ceiling_rates *best = best_rates(done.ceilings);
    RP_BUG_IF(p.steps < 1);
    rp_cli_return(r->cli, profile_json(r, &p, best), profile_text);
    if (best)
        rp_object_fini(best, &rp_type_ceiling_rates);
    free(best);
}

int rp_run_show_profile(struct rp_run_session *r, struct rp_err *err)
{
    r->recipe.measure_repeats = 1;
    r->job = (struct rp_job){.recipe = &r->recipe, .backend = r->backend, .data = r->data.path, .batch = r->plan.batch,
                             .profiles = 1};
    rp_supervise(&r->outcome, &r->job, r->degrees, NULL, &r->progress);
    if (r->outcome.status != RP_RUN_COMPLETE) {
        *err = r->outcome.reason.err;
        return -1;
    }
    show_profile(r);
    return 0;
}
