/* Consistency of the two captures, and of captures, program, device and memory with each other. */
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "verify/state.h"

#include <inttypes.h>
#include <string.h>

#define UPTIME_SLACK_S 120.0 /* a capture takes at most this long, even if a probe hangs */
#define UPTIME_DRIFT 1.01

static const json_t *probes(const json_t *capture)
{
    return rp_group(capture, "probes");
}

/* A capture has every probe and every value of capture/leaves.def: which builds wrote other ones is decided by its
 * schema alone. */
static int check_leaves(const json_t *capture, const char *member, struct rp_err *err)
{
    static const char *const groups[] = {
#define PROBE(name) #name,
#include "capture/probes.def"
#undef PROBE
    };
    static const struct {
        const char *name;
        int known;
    } leaves[] = {
#define LEAF(name) {name, 0},
#define KNOWN(name) {name, 1},
#include "capture/leaves.def"
#undef LEAF
#undef KNOWN
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (!rp_group(probes(capture), groups[i]))
            return rp_fail(err, RP_MISMATCH, "%s has no probe '%s', which every capture of repro-env/1 has", member,
                           groups[i]);
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (!*rp_leaf(rp_value_at(probes(capture), leaves[i].name)).state)
            return rp_fail(err, RP_MISMATCH,
                           "%s has no value '%s', known or not, which every capture of repro-env/1 has", member,
                           leaves[i].name);
        else if (leaves[i].known && !rp_known(probes(capture), leaves[i].name))
            return rp_fail(err, RP_MISMATCH, "%s: '%s' is not known, but it is compiled into the program", member,
                           leaves[i].name);
    return 0;
}

/* Values that cannot change during a run. *known: how many values that identify a machine both captures have. */
static int check_constants(const struct rp_captures *of, int *known, struct rp_err *err)
{
    static const struct {
        const char *field;
        int of_machine;
    } fixed[] = {{"cpu.vendor", 0},      {"cpu.model_name", 1}, {"cpu.family", 0},      {"cpu.stepping", 0},
                 {"kernel.release", 1},  {"kernel.machine", 0}, {"program.sha256", 0},  {"program.commit", 0},
                 {"program.version", 0}, {"host.boot_id", 1},   {"host.machine_id", 1}, {"nvidia.version", 1},
                 {"gpu.count", 0}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const json_t *a = rp_known(probes(of->before), fixed[i].field),
                     *b = rp_known(probes(of->after), fixed[i].field);
        if (a && b && !json_equal(a, b))
            return rp_fail(err, RP_MISMATCH,
                           "%s differs before and after the run: the captures are of two machines or programs",
                           fixed[i].field);
        *known += a && b && fixed[i].of_machine;
    }
    return 0;
}

/* Uptime advances as much as the wall clock. */
static int check_uptime(const struct rp_captures *of, int *known, struct rp_err *err)
{
    double from, to;
    const double wall = rp_captured_at(of->after) - rp_captured_at(of->before);
    if (rp_known_number(probes(of->before), "kernel.uptime", &from) < 0 ||
        rp_known_number(probes(of->after), "kernel.uptime", &to) < 0)
        return 0;
    ++*known;
    double up = to - from;
    if (up >= 0 && up <= wall * UPTIME_DRIFT + UPTIME_SLACK_S && wall <= up * UPTIME_DRIFT + UPTIME_SLACK_S)
        return 0;
    return rp_fail(err, RP_MISMATCH, "between the captures the uptime advanced %.0f s and the wall clock %.0f s", up,
                   wall);
}

/* A GPU number means the same GPU in both captures. */
static int check_gpus(const struct rp_captures *of, int *known, struct rp_err *err)
{
    static const char *const fixed[] = {"name", "uuid", "pci_address", "vbios"};
    const char *number;
    json_t *gpu;
    json_object_foreach((json_t *)rp_group(probes(of->before), "gpu.devices"), number, gpu)
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
            char safe[32];
            const json_t *a = rp_known(gpu, fixed[i]);
            const json_t *b = rp_known(json_object_get(rp_group(probes(of->after), "gpu.devices"), number), fixed[i]);
            if (a && b && !json_equal(a, b))
                return rp_fail(err, RP_MISMATCH,
                               "gpu.devices.%s.%s differs before and after the run: the captures are of two machines",
                               rp_ascii(safe, sizeof safe, number), fixed[i]);
            *known += a && b;
        }
    return 0;
}

/* -1, with the node where there are several. */
static int fail_node(const struct rp_verify_state *s, int node, struct rp_err *err)
{
    char who[RP_WHO];
    return *rp_run_node_text(who, &s->run, "", node, "") ? rp_wrap(err, "%s", who) : -1;
}

/* Compares the captures of one node; *known: how many values identify it. */
static int check_node(const struct rp_verify_state *s, int node, int *known, struct rp_err *err)
{
    const struct rp_captures *of = &s->run.node[node];
    *known = 0;
    if (!of->before || !of->after) { /* of a run that failed */
        *known = 1;
        return 0;
    }
    if (check_constants(of, known, err) == 0 && check_gpus(of, known, err) == 0 && check_uptime(of, known, err) == 0)
        return 0;
    return fail_node(s, node, err);
}

int rp_check_same_host(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char who[RP_WHO];
    int without = -1;
    for (int i = 0; i < s->run.nodes; i++) {
        int known;
        if (check_node(s, i, &known, err) < 0)
            return -1;
        without = known || without >= 0 ? without : i;
    }
    if (rp_verify_nodes(s, result, err) < 0)
        return -1;
    if (without < 0)
        return 0;
    return rp_check_warn(result,
                         "the captures before and after%s share no value that identifies a machine: that they are "
                         "of one host is the signer's word",
                         rp_run_node_text(who, &s->run, " on ", without, ""));
}

/* facts.json and the capture of a node name the same build. */
static int check_program(const struct rp_verify_state *s, const json_t *capture, struct rp_err *err)
{
    const struct rp_build_facts *ran = &s->run.facts->tool;
    const char *const same[][3] = {{"version", ran->version, "program.version"},
                                   {"commit", ran->commit, "program.commit"},
                                   {"dirty", ran->dirty, "program.source_state"},
                                   {"compiler", ran->compiler, "program.compiler"},
                                   {"flags", ran->flags, "program.flags"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!rp_known_is(probes(capture), same[i][2], same[i][1]))
            return rp_fail(err, RP_MISMATCH, "tool/%s differs from the captured program", same[i][0]);
    return 0;
}

/* Only a GPU has a clock and links of its own: the times of the steps are the slowest rank's, the ceilings those of the
 * rank that facts.json names. */
static int check_clock(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_ceiling_facts *c = s->run.facts->ceilings;
    const struct rp_ceiling_times *const times[] = {c ? c->before : NULL, c ? c->after : NULL};
    if (rp_rank_on_cpu(s->run.facts, s->run.ranks.slowest))
        for (int64_t i = 0; i < s->run.records.n; i++)
            if (s->run.records.r[i].step >= 0 &&
                rp_record_times(&s->run.records, &s->run.records.r[i]).device_ns >= 0)
                return rp_fail(err, RP_MISMATCH, "step %d has a device_ns; the CPU backend has no clock of its own",
                               s->run.records.r[i].step);
    for (int i = 0; i < 2; i++)
        if (times[i] && rp_rank_on_cpu(s->run.facts, c->rank) &&
            (strcmp(times[i]->clock, "host") != 0 || times[i]->host_to_device))
            return rp_fail(err, RP_MISMATCH, "ceilings/%s was not measured on a CPU", i ? "after" : "before");
    return 0;
}

/* The least that rank 0 has of a weight: the fp32 number, or a copy of 16 bits where data-parallel ranks divide the
 * masters. Ranks that divide the model have parts of it: check_plan.c sizes those. */
static double weight_bytes(const struct rp_verify_state *s)
{
    const struct rp_recipe *r = &s->run.recipe;
    const struct rp_layout_facts *d = &s->run.facts->layout;
    if (d->tensor * d->pipeline > 1)
        return 0;
    return rp_is_mixed(rp_recipe_numerics(r)) && d->data > 1 &&
                   r->parallel_optimizer_state != RP_OPTIMIZER_STATE_replicated
               ? 2
               : 4;
}

/* The sum of the plan, which is rank 0's, is right. A GPU has memory of its own: the host's is not in the sum. */
static int check_planned(const struct rp_verify_state *s, struct rp_err *err)
{
    const struct rp_plan_facts *plan = &s->run.facts->plan;
    const struct rp_class_bytes *b = &plan->bytes;
    const int64_t parts[] = {plan->host_bytes, plan->decoder_bytes, plan->connection_bytes, b->parameters,
                             b->gradients,     b->optimizer_state,  b->activations,         b->scratch,
                             b->input_batches, b->backend_buffers};
    const double total = (double)plan->total_bytes;
    const double parameters = weight_bytes(s) * (double)s->run.figures->model.parameters;
    double sum = 0;
    for (size_t i = rp_rank_on_cpu(s->run.facts, 0) ? 0 : 3; i < sizeof parts / sizeof *parts; i++)
        sum += (double)parts[i];
    if (sum != total)
        return rp_fail(err, RP_MISMATCH, "the plan's parts add up to %.0f bytes, but its total_bytes is %.0f", sum,
                       total);
    if ((double)b->parameters < parameters)
        return rp_fail(err, RP_MISMATCH, "the plan has less memory than its %.0f bytes of parameters", parameters);
    return 0;
}

/* As many GPUs as were counted: verify and reports show the number and the name of the first. */
static int check_count(const json_t *capture, struct rp_err *err)
{
    const json_t *listed = rp_group(capture, "probes.gpu.devices");
    double count;
    if (!listed || rp_known_number(capture, "probes.gpu.count", &count) < 0 ||
        count == (double)json_object_size(listed))
        return 0;
    return rp_fail(err, RP_MISMATCH, "a capture counts %.0f GPUs and lists %zu", count, json_object_size(listed));
}

/* Of a command no rank has a device: what it ran on is what the captures name. */
static int check_names(const json_t *capture, struct rp_err *err)
{
    char safe[72];
    const char *number, *cpu = rp_text_or_empty(rp_known_text(capture, "probes.cpu.model_name"));
    json_t *gpu;
    if (rp_verify_name_is_foreign(cpu) || rp_verify_gpu_name(cpu))
        return rp_fail(err, RP_MISMATCH, "the capture names the CPU '%s', as no processor is named",
                       rp_excerpt(safe, cpu));
    json_object_foreach((json_t *)rp_group(capture, "probes.gpu.devices"), number, gpu) {
        const char *name = rp_text_or_empty(rp_known_text(gpu, "name"));
        if (rp_verify_name_is_foreign(name))
            return rp_fail(err, RP_MISMATCH, "the capture names a GPU '%s', with characters that no device reports",
                           rp_excerpt(safe, name));
    }
    return 0;
}

/* Every capture has the values of every other, and processes of another build are refused when they join. */
static int check_captures(const struct rp_verify_state *s, struct rp_err *err)
{
    for (int i = 0; i < s->run.nodes; i++) {
        const json_t *before = s->run.node[i].before, *after = s->run.node[i].after;
        if ((before && check_leaves(before, RP_OF_NODE(i, ".before.json"), err) < 0) ||
            (after && check_leaves(after, RP_OF_NODE(i, ".after.json"), err) < 0) ||
            (before && (check_program(s, before, err) < 0 || check_count(before, err) < 0)) ||
            (before && s->run.doc->command && check_names(before, err) < 0))
            return fail_node(s, i, err);
    }
    return 0;
}

int rp_check_environment(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const char *backend = s->run.facts->backend;
    const char *asked = json_string_value(rp_facts_setting(s->run.facts, "run.backend"));
    char safe[72];
    const int is_cpu = strcmp(backend, "cpu") == 0;
    if (check_captures(s, err) < 0)
        return -1;
    if (s->run.doc->command)
        return rp_check_text(result, "the captures are complete and of the program that observed the command");
    if (asked && strcmp(asked, "auto") != 0 && strcmp(asked, backend) != 0)
        return rp_fail(err, RP_MISMATCH, "the settings require the backend '%.64s', but facts.json has another", asked);
    if (strspn(backend, "abcdefghijklmnopqrstuvwxyz") != strlen(backend))
        return rp_fail(err, RP_MISMATCH, "'%s' is not the name of a backend", rp_excerpt(safe, backend));
    for (int64_t i = 0; i < s->run.facts->rank_n; i++) { /* whatever the backend */
        const struct rp_device_facts *d = s->run.facts->rank[i].device;
        if (d && rp_verify_name_is_foreign(d->name))
            return rp_fail(err, RP_MISMATCH,
                           "the device of rank %" PRId64 " is named '%s', with characters that no device reports", i,
                           rp_excerpt(safe, d->name));
        if (d && rp_rank_on_cpu(s->run.facts, i) && rp_verify_gpu_name(d->name))
            return rp_fail(err, RP_MISMATCH, "the run used a CPU, but names it '%s', as only GPUs are named ('%s')",
                           rp_excerpt(safe, d->name), rp_verify_gpu_name(d->name));
    }
    if (!is_cpu && strcmp(backend, "cuda") != 0)
        return rp_check_warn(
            result, "the backend '%s' is not of this version: whether its device fits the captures is not known here",
            backend);
    if (check_clock(s, err) < 0 || check_planned(s, err) < 0)
        return -1;
    return rp_verify_places(s, result, err);
}
