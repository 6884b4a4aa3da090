/* `repro estimate`: how a recipe would scale on a machine that is not here. */
#include "estimate/estimate.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "run/results.h"
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
    {.name = "set", .letter = 's', .type = RP_OPT_LIST, .offset = AT(set), .arg = "KEY=VALUE",
     .help = "set any recipe key; see 'repro recipes keys'"},
    RP_OPTION_TEXT(machine, "machine", 'm', "ID", "machine of the list in 'repro help estimate'; default dgx-h100"),
    RP_OPTION_TEXT(gpus, "gpus", 'g', "N,N,...", "numbers of GPUs, whole hosts from one host on; default 1, one host, two, ... to 1024 GPUs"),
    RP_OPTION_INT(per_host, "per-host", 0, 1, 64, "GPUs of a host, each with its own adapter, in place of the machine's"),
    RP_OPTION_TEXT(within, "within", 0, "GB/s", "measured bandwidth of a GPU to others of its host, in each direction"),
    RP_OPTION_TEXT(between, "between", 0, "GB/s", "measured bandwidth of a GPU to other hosts, in each direction"),
    RP_OPTION_TEXT(from, "from", 0, "BUNDLE", "time of a micro-batch by this bundle of one rank; default by the GPU's peak"),
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
        return rp_fail(err, RP_USAGE, "the recipe divides tensors or layers (parallel.tensor %lld, parallel.pipeline %lld), and only the exchange of "
                                      "data-parallel ranks is counted: set both to 1",
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
    s->model.micro_s = (struct rp_range){flops / (s->machine.flops * rp_share_of_peak.high), flops / (s->machine.flops * rp_share_of_peak.low)};
}

/* Of a verified run of one rank with the same model and batch; its interval is the range. */
static int time_by_bundle(struct estimate_session *s, const char *path, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    const struct rp_verify_opts vo = {.keep = &kept};
    if (rp_verify(&v, path, &vo, err) < 0)
        return rp_wrap(err, "--from");
    const struct rp_throughput t = rp_throughput_of(v.run);
    const json_t *flops = rp_json_at(v.run, "plan/flops_per_sample"), *batch = rp_json_at(v.run, "plan/batch");
    const int links_given = s->o->within && s->o->between;
    if (rp_run_ranks(v.run) != 1 || !t.known)
        return rp_fail(err, RP_USAGE, "--from: the time of a micro-batch follows from a run of one rank with timed steps only");
    if (strcmp(rp_run_kind(v.run), "cpu") == 0 && !links_given)
        return rp_fail(err, RP_USAGE, "--from: that run was timed on processors, and the links of %s are those of GPUs: give the bandwidths "
                       "between your hosts with --within and --between", s->machine.id);
    if (fabs(json_number_value(flops) - s->flops) > 1e-6 * s->flops || json_integer_value(batch) != s->recipe.train_batch_size)
        return rp_fail(err, RP_MISMATCH, "--from: the bundle has another model or batch (%.4g FLOPs a sample, %lld samples) than the recipe "
                       "(%.4g, %lld)",
                       json_number_value(flops), (long long)json_integer_value(batch), s->flops, (long long)s->recipe.train_batch_size);
    const double size = (double)s->recipe.train_batch_size;
    s->model.micro_s = (struct rp_range){size / (t.sure ? t.high : t.value), size / (t.sure ? t.low : t.value)};
    snprintf(s->from, sizeof s->from, "%s", rp_json_text_at(v.run, "device/name"));
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
    json_t *j = json_pack("{s:i, s:i, s:i, s:o, s:o, s:I, s:I}", "gpus", e->gpus, "hosts", p->hosts, "levels", p->levels, "gradient_bytes",
                          sent_json(&p->gradients), "weight_bytes", sent_json(&p->updated), "bytes_per_step",
                          (json_int_t)(p->gradients.within + p->gradients.between + p->updated.within + p->updated.between),
                          "bytes_per_step_between_hosts", (json_int_t)(p->gradients.between + p->updated.between));
    json_object_set_new(j, "bytes_by_ring", json_real(e->ring));
    json_object_set_new(j, "host_bytes_by_ring", json_real(e->host_ring));
    json_object_set_new(j, "compute_s", range_json(e->compute_s));
    json_object_set_new(j, "exchange_s", range_json(e->exchange_s));
    json_object_set_new(j, "hidden_s_at_best", json_real(e->hidden_s));
    json_object_set_new(j, "samples_per_s", range_json(e->samples_per_s));
    json_object_set_new(j, "efficiency", range_json(e->efficiency));
    return j;
}

static json_t *estimate_json(const struct estimate_session *s)
{
    const struct rp_machine *m = &s->machine;
    json_t *sizes = json_array();
    for (int i = 0; i < s->sizes; i++)
        json_array_append_new(sizes, size_json(&s->size[i]));
    json_t *machine = json_pack("{s:s, s:s, s:i, s:s, s:s, s:i, s:o, s:o, s:s}", "id", m->id, "gpu", *s->from ? s->from : m->gpu,
                                "gpus_per_host", m->per_host, "within_host",
                                s->o->within ? "given" : m->within->id, "between_hosts", s->o->between ? "given" : m->between->id,
                                "adapters_per_host", m->adapters, "within_bytes_per_s",
                                range_json(m->within_bytes), "between_bytes_per_s", range_json(m->between_bytes), "source", m->source);
    return json_pack("{s:b, s:s, s:I, s:I, s:I, s:f, s:o, s:s*, s:o, s:o}", "estimate", 1, "recipe", s->recipe.source_name, "batch",
                     (json_int_t)s->model.batch, "micro_batches_per_gpu", (json_int_t)s->model.micros, "weight_bytes",
                     (json_int_t)s->net->tensors[RP_WEIGHT].bytes, "flops_per_sample", s->flops, "micro_batch_s", range_json(s->model.micro_s),
                     "measured_on", *s->from ? s->from : NULL, "machine", machine, "sizes", sizes);
}

/* "12.3 - 45.6", or one number if both are the same in these digits. */
static const char *range_text(char text[40], struct rp_range r, double unit, int digits)
{
    char low[20], high[20];
    snprintf(low, sizeof low, "%.*f", digits, r.low * unit);
    snprintf(high, sizeof high, "%.*f", digits, r.high * unit);
    snprintf(text, 40, strcmp(low, high) == 0 ? "%s" : "%s - %s", low, high);
    return text;
}

static int digits_of(double value)
{
    return value < 10 ? 2 : value < 1000 ? 1 : 0;
}

static void print_assumptions(const struct estimate_session *s, struct rp_buf *out)
{
    const struct rp_machine *m = &s->machine;
    const char *gpu = *s->from ? s->from : m->gpu, *in = s->o->within ? "given" : m->within->name, *far = s->o->between ? "given" : m->between->name;
    char a[40], b[40];
    rp_buf_printf(out, "estimate, not a measurement: %s, batch size %lld, %lld micro-batch%s a GPU and step; the step grows with the GPUs\n",
                  s->recipe.source_name, (long long)s->model.batch, (long long)s->model.micros, s->model.micros == 1 ? "" : "es");
    rp_buf_printf(out, "machine   %s: %d x %s a host; for each, within a host %s GB/s (%s), between hosts %s GB/s (%s)\n",
                  s->o->within && s->o->between ? "given" : m->id, m->per_host, gpu, range_text(a, m->within_bytes, 1e-9, 1), in,
                  range_text(b, m->between_bytes, 1e-9, 1), far);
    if (*s->from)
        rp_buf_printf(out, "compute   %s ms a micro-batch, measured on %s\n", range_text(a, s->model.micro_s, 1e3, 1), s->from);
    else
        rp_buf_printf(out, "compute   %s ms a micro-batch: %.2f to %.2f of %.1f TFLOP/s in fp32 (%s)\n", range_text(a, s->model.micro_s, 1e3, 1),
                      rp_share_of_peak.low, rp_share_of_peak.high, m->flops * 1e-12, rp_share_of_peak_source);
    rp_buf_puts(out, s->model.bucket
                         ? "exchange  after the backward pass at worst; at best gradients during the last micro-batch's, weights never\n\n"
                         : "exchange  after the backward pass (run.overlap_kib off)\n\n");
}

static void print_sizes(const struct estimate_session *s, struct rp_buf *out)
{
    char unit[40];
    snprintf(unit, sizeof unit, "%s/s", s->net->model->sample_unit);
    rp_buf_printf(out, "%5s %5s %6s %10s %11s %6s %9s %17s %7s %23s %13s\n", "GPUs", "hosts", "levels", "MB in host", "MB to hosts",
                  "/ ring", "host/ring",
                  "exchange ms", "hidden", unit, "efficiency");
    for (int i = 0; i < s->sizes; i++) {
        const struct rp_estimate *e = &s->size[i];
        const struct rp_exchange_plan *p = &e->plan;
        char ms[40], rate[40], share[40];
        rp_buf_printf(out, "%5d %5d %6d %10.1f %11.1f %6.2f %9.2f %17s %6.0f%% %23s %13s\n", e->gpus, p->hosts, p->levels,
                      (double)(p->gradients.within + p->updated.within) * 1e-6, (double)(p->gradients.between + p->updated.between) * 1e-6, e->ring,
                      e->host_ring, range_text(ms, e->exchange_s, 1e3, digits_of(e->exchange_s.high * 1e3)),
                      e->exchange_s.low > 0 ? 100 * e->hidden_s / e->exchange_s.low : 0,
                      range_text(rate, e->samples_per_s, 1, digits_of(e->samples_per_s.high)), range_text(share, e->efficiency, 1, 3));
    }
    rp_buf_puts(out, "\nMB: sent a step by the rank that sends most. / ring: of these, and of those that leave a host, by the bytes of a "
                "ring all-reduce.\n"
                     "hidden: share of the shortest exchange, at best. efficiency: against as many single GPUs.\n");
}

/* ---- published figures ---- */

static json_t *measured_json(void)
{
    struct rp_measured m;
    json_t *list = json_array();
    for (int i = 0; rp_measured_row(&m, i); i++)
        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:f, s:o, s:f, s:s}", "hosts", m.hosts, "gpus_per_host", m.per_host,
                                              "collective", m.collective, "within_host", m.within, "between_hosts", m.between, "role",
                                              rp_measured_role_name(m.role), "published_gb_per_s", m.published, "modelled_gb_per_s",
                                              range_json(m.modelled), "deviation", m.deviation, "source", m.source));
    return list;
}

static void print_measured(struct rp_buf *out)
{
    struct rp_measured m;
    rp_buf_printf(out, "%5s %4s %-9s %-8s %-8s %9s %15s %9s  %-7s %s\n", "hosts", "GPUs", "", "within", "between", "published",
                  "model GB/s", "deviation",
                  "role", "source");
    for (int i = 0; rp_measured_row(&m, i); i++) {
        char range[40];
        rp_buf_printf(out, "%5d %4d %-9s %-8s %-8s %9.1f %15s %8.0f%%  %-7s %s\n", m.hosts, m.per_host, m.collective, m.within, m.between,
                      m.published,
                      range_text(range, m.modelled, 1, 1), 100 * m.deviation, rp_measured_role_name(m.role), m.source);
    }
    rp_buf_printf(out, "\nbus bandwidth of nccl-tests. sets: an end of a link's range follows from it; checks: has to lie within the range, or at "
                       "most %.0f %% from it; outside: does not.\n", 100 * RP_MEASURED_SLACK);
}

static int check_measured(struct rp_err *err)
{
    struct rp_measured m;
    for (int i = 0; rp_measured_row(&m, i); i++)
        if (m.role == RP_MEASURED_CHECKS && fabs(m.deviation) > RP_MEASURED_SLACK)
            return rp_fail(err, RP_MISMATCH, "%.1f GB/s of %s on %d x %d GPUs is %.0f %% from the model's range", m.published, m.collective, m.hosts,
                           m.per_host, 100 * m.deviation);
    return 0;
}

/* ---- the command ---- */

static int make_estimate(struct estimate_session *s, const char *where, struct rp_err *err)
{
    int gpus[SIZES_MAX];
    if (choose_machine(s, err) < 0 || load_recipe_to_scale(s, where, err) < 0)
        return -1;
    time_by_peak(s);
    if (s->o->from && time_by_bundle(s, s->o->from, err) < 0)
        return -1;
    s->model.machine = &s->machine;
    s->model.net = s->net;
    s->model.micros = s->recipe.train_accumulation_steps;
    s->model.batch = s->recipe.train_batch_size;
    struct rp_comm several = {.lost = -1, .route = RP_ROUTE_DEVICE};
    rp_comm_place(&several, 0, (struct rp_degrees){2, 1, 1});
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
    RP_BUF text = {0};
    if (s.o->check == (cli->argc > 0))
        return rp_fail(err, RP_USAGE, "expected a recipe, or --check without one");
    int failed = cli->argc && make_estimate(&s, cli->argv[0], err) < 0;
    if (!failed && cli->json) {
        cli->result = s.o->check ? json_pack("{s:o}", "measured", measured_json()) : estimate_json(&s);
    } else if (!failed) {
        if (s.o->check)
            print_measured(&text);
        else {
            print_assumptions(&s, &text);
            print_sizes(&s, &text);
        }
        rp_cli_print(&text);
    }
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
        "Data-parallel training of RECIPE on 1 to 1024 GPUs: bytes that ranks send, time of their exchange, throughput and efficiency as ranges. "
        "Each GPU has train.accumulation_steps micro-batches, so a step grows with the GPUs. It is an estimate: nothing is run.\n"
        "\n"
        "The bytes are exact, computed by the code that exchanges them: nodes of the gradient's tree, summed within each host first where hosts own "
        "subtrees, then the new weights. A run records the same numbers as bytes_per_step of its ranks. The table has them next to those of a ring "
        "all-reduce, 2(n - 1)/n times the weights: in several levels a rank sends more within its host, and less leaves the host.\n"
        "\n"
        "Times follow from bytes, links and the GPU's fp32 peak, each as a range. The better end assumes that gradients are exchanged during the "
        "backward pass of the last micro-batch, the worse one that nothing overlaps. Reading data, stragglers, congested switches and the "
        "launch of kernels are not in it. With run.overlap_kib off nothing is exchanged during the backward pass. --from takes the time of a "
        "micro-batch from a bundle of one rank, of processors only with both bandwidths; --within and --between take "
        "bandwidths that you measured, such as busbw of all_gather_perf in one host, and of sendrecv_perf between two.\n"
        "\n"
        "--check compares the links with published figures of nccl-tests: those that set the ranges, those that have to lie within them, and those "
        "that the model is wrong about.\n"
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
