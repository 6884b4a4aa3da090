/* `repro estimate`: how a recipe would scale on a machine that is not here. */
#include "estimate/estimate.h"

#include "cli/opts.h"
#include "train/overlap.h"
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 1024
#define SIZES_MAX 32

struct estimate_opts {
    struct rp_opt_list set;
    const char *machine, *gpus, *within, *between, *from;
    long per_host;
    int check;
};

#define AT(field) offsetof(struct estimate_opts, field)
static const struct rp_opt opts[] = {
    {.name = "set",
     .letter = 's',
     .type = RP_OPT_LIST,
     .offset = AT(set),
     .arg = "KEY=VALUE",
     .help = "set any recipe key; see 'repro recipes keys'"},
    RP_OPTION_TEXT(machine, "machine", 'm', "ID", "machine of the list in 'repro help estimate'; default dgx-h100"),
    RP_OPTION_TEXT(
        gpus, "gpus", 'g', "N,N,...",
        "GPU counts to estimate; above one host, a multiple of its GPUs; default 1, one host, two, ... to 1024"),
    RP_OPTION_INT(per_host, "per-host", 0, 1, 64,
                  "GPUs of a host, each with its own adapter, in place of the machine's"),
    RP_OPTION_TEXT(within, "within", 0, "GB/s", "measured bandwidth of a GPU to others of its host, in each direction"),
    RP_OPTION_TEXT(between, "between", 0, "GB/s", "measured bandwidth of a GPU to other hosts, in each direction"),
    RP_OPTION_TEXT(from, "from", 0, "BUNDLE",
                   "time of a micro-batch by this bundle of one rank; default by the GPU's peak"),
    RP_OPTION_FLAG(check, "check", 0, "compare the links with published figures of nccl-tests instead"),
    {0},
};
#undef AT

struct estimate_session {
    const struct estimate_opts *o;
    struct rp_recipe recipe;
    struct rp_machine machine;
    struct rp_net *net;
    struct rp_estimate_opts model;
    struct rp_estimate size[SIZES_MAX];
    int sizes;
    double flops; /* of a sample */
    char from[80]; /* device of the bundle of --from, or "" */
};

/* ---- options ---- */

static int parse_rate(struct rp_range *out, const char *option, const char *text, struct rp_err *err)
{
    char *end;
    if (!text)
        return 0;
    const double rate = strtod(text, &end);
    if (end == text || *end || !(rate > 0.001 && rate < 100000))
        return rp_fail(err, RP_USAGE, "--%s: expected GB/s as a number", option);
    *out = (struct rp_range){rate * 1e9, rate * 1e9};
    return 0;
}

static int choose_machine(struct estimate_session *s, struct rp_err *err)
{
    const struct estimate_opts *o = s->o;
    if (rp_machine_find(&s->machine, o->machine ? o->machine : rp_machine_id(0), err) < 0)
        return -1;
    if (o->per_host) {
        const double each = (double)s->machine.adapters / s->machine.per_host;
        s->machine.per_host = s->machine.adapters = (int)o->per_host;
        s->machine.between_bytes.low /= each;
        s->machine.between_bytes.high /= each;
    }
    if (parse_rate(&s->machine.within_bytes, "within", o->within, err) < 0)
        return -1;
    return parse_rate(&s->machine.between_bytes, "between", o->between, err);
}

static int default_sizes(int *gpus, int per_host)
{
    int n = 0;
    gpus[n++] = 1;
    for (int i = per_host; i <= GPUS_MAX && n < SIZES_MAX; i *= 2)
        if (i > 1)
            gpus[n++] = i;
    return n;
}

static int parse_sizes(int *gpus, const char *text, struct rp_err *err)
{
    int n = 0;
    for (const char *p = text;; p++) {
        char *end;
        const long one = strtol(p, &end, 10);
        if (end == p || one < 1 || one > GPUS_MAX || (*end && *end != ',') || n == SIZES_MAX)
            return rp_fail(err, RP_USAGE, "--gpus: expected at most %d numbers from 1 to %d", SIZES_MAX, GPUS_MAX);
        gpus[n++] = (int)one;
        if (!*end)
            return n;
        p = end;
    }
}

static int load_recipe_to_scale(struct estimate_session *s, const char *where, struct rp_err *err)
{
    struct rp_recipe *r = &s->recipe;
    if (rp_recipe_load(r, where, "cuda", s->o->set.item, s->o->set.n, err) < 0)
        return -1;
    if (r->parallel_tensor * r->parallel_pipeline > 1)
        return rp_fail(err, RP_USAGE,
                       "the recipe divides tensors or layers (parallel.tensor %lld, parallel.pipeline %lld), and only "
                       "the exchange of data-parallel ranks is counted: set both to 1",
                       (long long)r->parallel_tensor, (long long)r->parallel_pipeline);
    if (r->train_batch_size < 1)
        return rp_fail(err, RP_USAGE, "train.batch_size max depends on a device: set a number");
    s->net = rp_net_new(r, r->train_batch_size);
    s->flops = s->net->model->flops(s->net);
    return 0;
}

/* ---- time of a micro-batch ---- */

static void time_by_peak(struct estimate_session *s)
{
    const double flops = s->flops * (double)s->recipe.train_batch_size;
    s->model.micro_s = (struct rp_range){flops / (s->machine.flops * rp_share_of_peak.high),
                                         flops / (s->machine.flops * rp_share_of_peak.low)};
}

/* The step time of a verified run of one rank with the same model and batch; its interval is the range. */
static int time_by_bundle(struct estimate_session *s, const char *path, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    const struct rp_verify_opts vo = {0};
    if (rp_verify(&v, path, &vo, err) < 0)
        return rp_wrap(err, "--from");
    const struct rp_facts *f = &v.run->facts;
    const struct rp_throughput_figures *t = &v.run->figures.results.throughput;
    const double flops = v.run->figures.model.flops_per_sample;
    const int links_given = s->o->within && s->o->between;
    if (f->rank_n != 1 || isnan(t->value))
        return rp_fail(err, RP_USAGE,
                       "--from: the time of a micro-batch follows from a run of one rank with timed steps only");
    if (rp_rank_on_cpu(f, 0) && !links_given)
        return rp_fail(err, RP_USAGE,
                       "--from: that run was timed on processors, and the links of %s are those of GPUs: give the "
                       "bandwidths between your hosts with --within and --between", s->machine.id);
    if (fabs(flops - s->flops) > 1e-6 * s->flops || f->plan.batch != s->recipe.train_batch_size)
        return rp_fail(err, RP_MISMATCH,
                       "--from: the bundle has another model or batch (%.4g FLOPs a sample, %lld samples) than the "
                       "recipe (%.4g, %lld)",
                       flops, (long long)f->plan.batch, s->flops, (long long)s->recipe.train_batch_size);
    if (strcmp(v.run->figures.numerics, rp_numerics_name(rp_recipe_numerics(&s->recipe))) != 0)
        return rp_fail(err, RP_MISMATCH, "--from: the bundle was computed in %s, the recipe is in %s",
                       v.run->figures.numerics, rp_numerics_name(rp_recipe_numerics(&s->recipe)));
    const double size = (double)s->recipe.train_batch_size;
    const int sure = !isnan(t->interval[0]);
    s->model.micro_s.low = size / (sure ? t->interval[1] : t->value);
    s->model.micro_s.high = size / (sure ? t->interval[0] : t->value);
    snprintf(s->from, sizeof s->from, "%.79s", f->rank[0].device ? f->rank[0].device->name : "");
    s->machine.memory = 0; /* that of another device */
    return 0;
}

/* ---- output ---- */

static json_t *range_json(struct rp_range r)
{
    return json_pack("[f, f]", r.low, r.high);
}

static json_t *sent_json(const struct rp_exchange_bytes *b)
{
    return json_pack("{s:I, s:I}", "within_host", (json_int_t)b->within, "between_hosts", (json_int_t)b->between);
}

static json_t *size_json(const struct rp_estimate *e)
{
    const struct rp_exchange_plan *p = &e->plan;
    const json_int_t within = (json_int_t)(p->gradients.within + p->updated.within);
    const json_int_t between = (json_int_t)(p->gradients.between + p->updated.between);
    return json_pack("{s:i, s:i, s:i, s:o, s:o, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:f, s:f, s:o, s:o}", "gpus",
                     e->gpus, "hosts", p->hosts, "levels", p->levels, "gradient_bytes", sent_json(&p->gradients),
                     "weight_bytes", sent_json(&p->updated), "bytes_per_step", within + between,
                     "bytes_per_step_within_host", within, "bytes_per_step_between_hosts", between, "bytes_by_ring",
                     e->ring, "host_bytes_by_ring", e->host_ring, "compute_s", range_json(e->compute_s), "exchange_s",
                     range_json(e->exchange_s), "hidden_s_at_best", e->hidden_s, "hidden_share_at_best",
                     e->exchange_s.low > 0 ? e->hidden_s / e->exchange_s.low : 0, "samples_per_s",
                     range_json(e->samples_per_s), "efficiency", range_json(e->efficiency));
}

static json_t *machine_json(const struct estimate_session *s)
{
    const struct rp_machine *m = &s->machine;
    const char *given = "given";
    json_t *j = json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:o, s:s, s:s, s:o, s:s}", "id", m->id, "gpu",
                          *s->from ? s->from : m->gpu, "gpus_per_host", m->per_host, "adapters_per_host", m->adapters,
                          "within_host", s->o->within ? given : m->within->id, "within_host_name",
                          s->o->within ? given : m->within->name, "within_bytes_per_s", range_json(m->within_bytes),
                          "between_hosts", s->o->between ? given : m->between->id, "between_hosts_name",
                          s->o->between ? given : m->between->name, "between_bytes_per_s",
                          range_json(m->between_bytes), "source", m->source);
    if (!*s->from)
        json_object_update_new(j, json_pack("{s:f, s:o, s:s}", "peak_flops_per_s", m->flops, "share_of_peak",
                                            range_json(rp_share_of_peak), "share_source", rp_share_of_peak_source));
    return j;
}

static json_t *estimate_json(const struct estimate_session *s)
{
    json_t *sizes = json_array();
    for (int i = 0; i < s->sizes; i++)
        json_array_append_new(sizes, size_json(&s->size[i]));
    return json_pack("{s:b, s:s, s:I, s:I, s:b, s:I, s:f, s:s, s:o, s:s*, s:o, s:o}", "estimate", 1, "recipe",
                     s->recipe.source_name, "batch", (json_int_t)s->model.batch, "micro_batches_per_gpu",
                     (json_int_t)s->model.micros, "overlap", s->model.bucket > 0, "weight_bytes",
                     (json_int_t)s->net->tensors[RP_WEIGHT].bytes, "flops_per_sample", s->flops, "sample_unit",
                     s->net->model->sample_unit, "micro_batch_s", range_json(s->model.micro_s), "measured_on",
                     *s->from ? s->from : NULL, "machine", machine_json(s), "sizes", sizes);
}

static const char estimate_text[] =
    "estimate, not a measurement: {/recipe t}; each GPU computes {/micro_batches_per_gpu t} x {/batch t} {/sample_unit "
    "t} a step, so that the step grows with the GPUs\n"
    "machine\t[!/measured_on:{/machine/id t}: ]{/machine/gpus_per_host t} x {/machine/gpu t} a host; for each, within "
    "a host {/machine/within_bytes_per_s i1*1e-9} GB/s ({/machine/within_host_name t}), between hosts "
    "{/machine/between_bytes_per_s i1*1e-9} GB/s ({/machine/between_hosts_name t})\n"
    "compute\t{/micro_batch_s i1*1e3} ms a micro-batch[/measured_on:, measured on {/measured_on t}][!/measured_on:: "
    "{/machine/share_of_peak i2} of {/machine/peak_flops_per_s d1*1e-12} TFLOP/s in fp32 ({/machine/share_source t})]\n"
    "exchange\tafter the backward pass[/overlap: in the worst case; in the best case, gradients overlap the last "
    "backward pass; the gather of weights never does][!/overlap: (run.overlap_kib off)]\n"
    "\n"
    "\rGPUs\rhosts\rlevels\rMB in host\rMB to hosts\r/ ring\rhost/ring\rexchange ms\rhidden\r{/sample_unit "
    "t}/s\refficiency\n"
    "[/sizes:\r{/gpus t}\r{/hosts t}\r{/levels t}\r{/bytes_per_step_within_host "
    "d1*1e-6}\r{/bytes_per_step_between_hosts d1*1e-6}\r{/bytes_by_ring d2}\r{/host_bytes_by_ring d2}\r{/exchange_s "
    "i*1e3}\r{/hidden_share_at_best d0*100}%\r{/samples_per_s i}\r{/efficiency i3}\n]\n"
    "MB: sent a step by the rank that sends most. / ring: of these, and of those that leave a host, by the bytes of a "
    "ring all-reduce.\n"
    "hidden: share of the shortest exchange, at best. efficiency: against as many single GPUs.\n";

/* ---- published figures ---- */

static json_t *measured_json(void)
{
    struct rp_measured m;
    json_t *list = json_array();
    for (int i = 0; rp_measured_row(&m, i); i++)
        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:f, s:o, s:f, s:s}", "hosts", m.hosts,
                                              "gpus_per_host", m.per_host, "collective", m.collective, "within_host",
                                              m.within, "between_hosts", m.between, "role",
                                              rp_measured_role_name(m.role), "published_gb_per_s", m.published,
                                              "modelled_gb_per_s", range_json(m.modelled), "deviation", m.deviation,
                                              "source", m.source));
    return json_pack("{s:o, s:f}", "measured", list, "slack", RP_MEASURED_SLACK);
}

static const char measured_text[] =
    "\rhosts\rGPUs\t\twithin\tbetween\rpublished\rmodel GB/s\rdeviation\trole\tsource\n"
    "[/measured:\r{/hosts t}\r{/gpus_per_host t}\t{/collective t}\t{/within_host t}\t{/between_hosts t}\r"
    "{/published_gb_per_s d1}\r{/modelled_gb_per_s i1}\r{/deviation d0*100}%\t{/role t}\t{/source t}\n]"
    "\n"
    "bus bandwidth of nccl-tests. sets: an end of a link's range follows from it; checks: has to lie within the range, "
    "or at most {/slack d0*100} % from it; outside: does not.\n";

static int check_measured(struct rp_err *err)
{
    struct rp_measured m;
    for (int i = 0; rp_measured_row(&m, i); i++)
        if (m.role == RP_MEASURED_CHECKS && fabs(m.deviation) > RP_MEASURED_SLACK)
            return rp_fail(err, RP_MISMATCH, "%.1f GB/s of %s on %d x %d GPUs is %.0f %% from the model's range",
                           m.published, m.collective, m.hosts, m.per_host, 100 * m.deviation);
    return 0;
}

/* ---- the command ---- */

static int make_estimate(struct estimate_session *s, const char *where, struct rp_err *err)
{
    int gpus[SIZES_MAX];
    if (choose_machine(s, err) < 0 || load_recipe_to_scale(s, where, err) < 0)
        return -1;
    if (rp_is_mixed(rp_recipe_numerics(&s->recipe)) && !s->o->from)
        return rp_fail(err, RP_USAGE,
                       "train.precision %s: no GPU was measured with it, and the share of a tensor core's peak that "
                       "training reaches is unknown: give --from a bundle, or --set train.precision=fp32",
                       rp_choice_name(RP_PRECISIONS, s->recipe.train_precision));
    time_by_peak(s);
    if (s->o->from && time_by_bundle(s, s->o->from, err) < 0)
        return -1;
    s->model.machine = &s->machine;
    s->model.net = s->net;
    s->model.micros = s->recipe.train_accumulation_steps;
    s->model.batch = s->recipe.train_batch_size;
    struct rp_comm several = {.lost = -1, .route = RP_ROUTE_DEVICE};
    rp_comm_set_coords(&several, 0, (struct rp_degrees){2, 1, 1});
    s->model.bucket = rp_overlap_bucket(&s->recipe, &several);
    const int n = s->o->gpus ? parse_sizes(gpus, s->o->gpus, err) : default_sizes(gpus, s->machine.per_host);
    if (n < 0)
        return -1;
    for (s->sizes = 0; s->sizes < n; s->sizes++)
        if (rp_estimate(&s->size[s->sizes], &s->model, gpus[s->sizes], err) < 0)
            return -1;
    return 0;
}

static int cmd_estimate(struct rp_cli *cli, struct rp_err *err)
{
    struct estimate_session s = {.o = cli->opts};
    if (s.o->check == (cli->argc > 0))
        return rp_fail(err, RP_USAGE,
                       s.o->check ? "--check takes no recipe" : "missing operand: repro estimate RECIPE");
    int failed = cli->argc && make_estimate(&s, cli->argv[0], err) < 0;
    if (!failed && s.o->check)
        rp_cli_return(cli, measured_json(), measured_text);
    else if (!failed)
        rp_cli_return(cli, estimate_json(&s), estimate_text);
    if (s.net)
        rp_net_free(s.net);
    rp_recipe_fini(&s.recipe);
    return failed ? -1 : s.o->check ? check_measured(err) : 0;
}

const struct rp_command rp_cmd_estimate = {
    .name = "estimate",
    .operands = "[RECIPE]",
    .summary = "estimate how a recipe scales over many GPUs, without them",
    .details =
        "Data-parallel training of RECIPE on 1 to 1024 GPUs: bytes that ranks send, time of their exchange, throughput "
        "and efficiency as ranges. Each GPU has train.accumulation_steps micro-batches, so a step grows with the GPUs. "
        "It is an estimate: nothing is run.\n"
        "\n"
        "The bytes are exact, computed by the code that exchanges them: nodes of the gradient's tree, summed within "
        "each host first where hosts own subtrees, then the new weights. A run records the same numbers as "
        "bytes_per_step of its ranks. The table has them next to those of a ring all-reduce, 2(n - 1)/n times the "
        "weights: in several levels a rank sends more within its host, and less leaves the host.\n"
        "\n"
        "Times follow from bytes, links and the GPU's fp32 peak, each as a range. The better end assumes that "
        "gradients are exchanged during the backward pass of the last micro-batch, the worse one that nothing "
        "overlaps. Reading data, stragglers, congested switches, the launch of kernels and the bandwidth of a GPU's "
        "memory are not in it: with the LPDDR of DGX Spark and Jetson, compute may take longer than its range. With "
        "run.overlap_kib off nothing is exchanged during the backward pass. --from takes the time of a "
        "micro-batch from a bundle of one rank, of processors only with both bandwidths; --within and --between take "
        "bandwidths that you measured, such as busbw of all_gather_perf in one host, and of sendrecv_perf between "
        "two.\n"
        "\n"
        "--check compares the links with published figures of nccl-tests: those that set the ranges, those that have "
        "to lie within them, and those that the model is wrong about.\n"
        "\n"
        "Machines:\n"
#define MACHINE(id, gpu, per_host, within, between, adapters, source) "  " id ": " #per_host " x " gpu "; " source "\n"
#include "estimate/machines.def"
#undef MACHINE
        "\n"
        "Examples:\n"
        "  repro estimate bert_fp32\n"
        "  repro estimate gpt2_124m_fp32 --machine dgx-a100 --gpus 8,64,512 --set train.accumulation_steps=4\n"
        "  repro estimate --check\n",
    .opts = opts,
    .opts_size = sizeof(struct estimate_opts),
    .run = cmd_estimate,
};
