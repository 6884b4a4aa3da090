/* Consistency of the two captures, and of captures, program, device and memory with each other. */
#include "backend/backend.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "verify/state.h"

#include <stdlib.h>
#include <string.h>

#define UPTIME_SLACK_S 120.0 /* a capture takes at most this long, even if a probe hangs */
#define UPTIME_DRIFT 1.01

static const json_t *probes(const json_t *capture)
{
    return json_object_get(capture, "probes");
}

/* A capture has every probe and every value of capture/leaves.def: which builds wrote other ones is decided by its schema alone. */
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
        if (!json_is_object(json_object_get(probes(capture), groups[i])))
            return rp_fail(err, RP_MISMATCH, "%s has no probe '%s', which every capture of repro-env/1 has", member, groups[i]);
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (!json_is_string(json_object_get(rp_value_at(probes(capture), leaves[i].name), "state")))
            return rp_fail(err, RP_MISMATCH, "%s has no value '%s', known or not, which every capture of repro-env/1 has", member,
                           leaves[i].name);
        else if (leaves[i].known && !rp_known(probes(capture), leaves[i].name))
            return rp_fail(err, RP_MISMATCH, "%s: '%s' is not known, but it is compiled into the program", member, leaves[i].name);
    return 0;
}

/* Values that cannot change during a run. *known: how many values that identify a machine both captures have. */
static int check_constants(const struct rp_captures *of, int *known, struct rp_err *err)
{
    static const struct {
        const char *field;
        int of_machine;
    } fixed[] = {{"cpu.vendor", 0},     {"cpu.model_name", 1}, {"cpu.family", 0},      {"cpu.stepping", 0},       {"kernel.release", 1},
                 {"kernel.machine", 0}, {"program.sha256", 0}, {"program.commit", 0},  {"program.version", 0},    {"host.boot_id", 1},
                 {"host.machine_id", 1}, {"nvidia.version", 1}, {"gpu.count", 0}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const json_t *a = rp_known(probes(of->before), fixed[i].field),
                     *b = rp_known(probes(of->after), fixed[i].field);
        if (a && b && !json_equal(a, b))
            return rp_fail(err, RP_MISMATCH, "%s differs before and after the run: the captures are of two machines or programs",
                           fixed[i].field);
        *known += a && b && fixed[i].of_machine;
    }
    return 0;
}

/* Uptime advances as much as the wall clock. */
static int check_uptime(const struct rp_captures *of, int *known, struct rp_err *err)
{
    double from, to, wall = rp_wall_time(of->after, "captured_at") - rp_wall_time(of->before, "captured_at");
    if (rp_known_number(probes(of->before), "kernel.uptime", &from) < 0 ||
        rp_known_number(probes(of->after), "kernel.uptime", &to) < 0)
        return 0;
    ++*known;
    double up = to - from;
    if (up >= 0 && up <= wall * UPTIME_DRIFT + UPTIME_SLACK_S && wall <= up * UPTIME_DRIFT + UPTIME_SLACK_S)
        return 0;
    return rp_fail(err, RP_MISMATCH, "between the captures the uptime advanced %.0f s and the wall clock %.0f s", up, wall);
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
                return rp_fail(err, RP_MISMATCH, "gpu.devices.%s.%s differs before and after the run: the captures are of two machines",
                               rp_ascii(safe, sizeof safe, number), fixed[i]);
            *known += a && b;
        }
    return 0;
}

/* Of one node: how many values identify it. */
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
    return node ? rp_wrap(err, "node %d", node) : -1;
}

int rp_check_same_host(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    int all = 1;
    for (int i = 0; i < s->run.nodes; i++) {
        int known;
        if (check_node(s, i, &known, err) < 0)
            return -1;
        all &= known > 0;
    }
    if ((s->run.nodes > 1 || rp_json_at(s->run.json, "world/processes")) && rp_verify_nodes(s, result, err) < 0)
        return -1;
    if (all)
        return 0;
    return rp_check_warn(
        result,
        "the captures%s share no value that identifies a machine: that they are of one host is the signer's word",
        s->run.nodes > 1 ? " before and after, of some node," : "");
}

/* run.json and the capture of a node name the same build. */
static int check_program(const struct rp_verify_state *s, const json_t *capture, struct rp_err *err)
{
    static const char *const same[][2] = {{"version", "program.version"},
                                          {"commit", "program.commit"},
                                          {"dirty", "program.source_state"},
                                          {"compiler", "program.compiler"},
                                          {"flags", "program.flags"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const json_t *ran = json_object_get(json_object_get(s->run.json, "tool"), same[i][0]),
                     *is = rp_known(probes(capture), same[i][1]);
        if (!json_equal(ran, is))
            return rp_fail(err, RP_MISMATCH, "tool/%s differs from the captured program", same[i][0]);
    }
    return 0;
}

/* The device is of the backend that run.json names, and only a GPU has a clock, memory and links of its own: of several ranks the times and
 * ceilings are the slowest one's. *none: the run ended before a device was opened. */
static int check_kind(const struct rp_verify_state *s, const char *backend, int *none, struct rp_err *err)
{
    static const char *const sides[] = {"before", "after"};
    struct rp_device_info d;
    const int is_cpu = rp_run_on_cpu(&s->run, s->run.ranks.slowest);
    *none = json_is_null(json_object_get(s->run.json, "device")) && s->run.records.n == 0;
    if (*none)
        return 0;
    if (rp_device_from_json(&d, json_object_get(s->run.json, "device")) < 0 || strcmp(d.kind, backend) != 0)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device of the backend '%.16s'", backend);
    for (int64_t i = 0; i < s->run.records.n; i++)
        if (is_cpu && s->run.records.r[i].step >= 0 && s->run.records.r[i].device_ns >= 0)
            return rp_fail(err, RP_MISMATCH, "step %d has a device_ns; the CPU backend has no clock of its own",
                           s->run.records.r[i].step);
    if (is_cpu && json_object_get(s->run.json, "device_bytes"))
        return rp_fail(err, RP_MISMATCH, "device_bytes: the CPU backend has no memory of its own");
    for (int i = 0; is_cpu && i < 2; i++) {
        const json_t *c = json_object_get(json_object_get(s->run.json, "ceilings"), sides[i]);
        if (json_is_object(c) && (strcmp(rp_json_text_at(c, "clock"), "host") != 0 || json_object_get(c, "host_to_device")))
            return rp_fail(err, RP_MISMATCH, "ceilings/%s was not measured on a CPU", sides[i]);
    }
    return 0;
}

/* The sum of the plan, which is rank 0's, is right. */
static int check_planned(const struct rp_verify_state *s, struct rp_err *err)
{
    const json_t *plan = json_object_get(s->run.json, "plan"), *bytes = json_object_get(plan, "bytes"), *v;
    double sum = rp_json_number_at(plan, "host_bytes") + rp_json_number_at(plan, "decoder_bytes") +
                 (double)rp_json_integer_at(plan, "connection_bytes");
    double total = json_number_value(json_object_get(plan, "total_bytes"));
    const double parameters = 4 * json_number_value(json_object_get(plan, "parameters"));
    const char *key;
    json_object_foreach((json_t *)bytes, key, v)
        sum += json_number_value(v);
    if (sum != total)
        return rp_fail(err, RP_MISMATCH, "the plan's parts add up to %.0f bytes, but its total_bytes is %.0f", sum, total);
    const struct rp_degrees d =
        rp_run_layout(s->run.json); /* ranks that divide the model have parts of it: check_plan.c sizes those */
    if (d.tensor * d.pipeline == 1 && json_number_value(json_object_get(bytes, rp_class_name(RP_CLASS_PARAMETERS))) < parameters)
        return rp_fail(err, RP_MISMATCH, "the plan has less memory than its %.0f bytes of parameters", parameters);
    return 0;
}

/* The peak lies between the size of the parameters and the machine's memory; of several ranks it is the slowest one's, and
 * rp_verify_places() compares each one's with the memory of its node. */
static int check_peak_memory(const struct rp_verify_state *s, struct rp_err *err)
{
    const json_t *peak = json_object_get(s->run.json, "peak_rss_bytes");
    const double parameters = 4 * rp_json_number_at(s->run.json, "plan/parameters");
    const struct rp_degrees d = rp_run_layout(s->run.json);
    double memory;
    if (d.tensor * d.pipeline == 1 && json_is_integer(peak) && json_number_value(peak) < parameters)
        return rp_fail(err, RP_MISMATCH, "peak_rss_bytes is %.0f, less than the parameters alone, %.0f", json_number_value(peak),
                       parameters);
    if (s->run.ranks.ranks == 1 && json_is_integer(peak) &&
        rp_known_number(probes(s->run.node[0].before), "memory.total", &memory) == 0 &&
        json_number_value(peak) > memory)
        return rp_fail(err, RP_MISMATCH, "peak_rss_bytes is %.0f, but the machine had %.0f", json_number_value(peak), memory);
    return 0;
}

/* The device memory that was reserved lies between the size of the parameters and the plan. Of several ranks it is the slowest one's, the plan
 * is that of rank 0, and their parts differ. */
static int check_device_memory(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *plan = json_object_get(s->run.json, "plan"), *is = json_object_get(s->run.json, "device_bytes");
    double reserved = json_number_value(json_object_get(is, "reserved")), total = json_number_value(json_object_get(plan, "total_bytes"));
    const struct rp_degrees d = rp_run_layout(s->run.json);
    double parameters = d.tensor * d.pipeline > 1 ? 0 : 4 * json_number_value(json_object_get(plan, "parameters")); /* of a part: see above */
    const int planned = d.data * d.tensor * d.pipeline == 1;
    if (is && ((planned && reserved > total) || reserved < parameters))
        return rp_fail(err, RP_MISMATCH, "device_bytes/reserved is %.0f; the plan has %.0f, of which %.0f are parameters", reserved, total,
                       parameters);
    if (!is && rp_run_is_complete(s->run.json))
        rp_check_warn(result, "run.json has no device_bytes, the memory taken of the device, which every GPU reports");
    return 0;
}

/* Every capture has the values of every other, and processes of another build are refused when they join. */
static int check_captures(const struct rp_verify_state *s, struct rp_err *err)
{
    for (int i = 0; i < s->run.nodes; i++) {
        const json_t *before = s->run.node[i].before, *after = s->run.node[i].after;
        if ((before && check_leaves(before, RP_OF_NODE(i, ".before.json"), err) < 0) ||
            (after && check_leaves(after, RP_OF_NODE(i, ".after.json"), err) < 0) ||
            (before && check_program(s, before, err) < 0))
            return i ? rp_wrap(err, "node %d", i) : -1;
    }
    return 0;
}

int rp_check_environment(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const char *backend = json_string_value(json_object_get(s->run.json, "backend"));
    const char *asked = json_string_value(rp_run_setting(s->run.json, "run.backend"));
    char safe[72];
    int none, is_cpu = strcmp(backend, "cpu") == 0;
    if (check_captures(s, err) < 0)
        return -1;
    if (asked && strcmp(asked, "auto") != 0 && strcmp(asked, backend) != 0)
        return rp_fail(err, RP_MISMATCH, "the settings require the backend '%.64s', but run.json has another", asked);
    if (strspn(backend, "abcdefghijklmnopqrstuvwxyz") != strlen(backend))
        return rp_fail(err, RP_MISMATCH, "'%s' is not the name of a backend", rp_excerpt(safe, backend));
    if (!is_cpu && strcmp(backend, "cuda") != 0)
        return rp_check_warn(result, "the backend '%s' is not of this version: whether its device fits the captures is not known here",
                             backend);
    if (check_kind(s, backend, &none, err) < 0 || (is_cpu && check_planned(s, err) < 0) ||
        (rp_run_on_cpu(&s->run, s->run.ranks.slowest) ? check_peak_memory(s, err)
                                                      : check_device_memory(s, result, err)) < 0)
        return -1;
    if (none)
        return 0;
    if ((is_cpu ? rp_verify_cpu(s, result, err) : rp_verify_gpu(s, result, err)) < 0)
        return -1;
    return rp_verify_places(s, result, err);
}
