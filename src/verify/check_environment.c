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
#define THREADS_MAX 4096 /* as run.threads */

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
static int check_constants(const struct rp_verify_state *s, int *known, struct rp_err *err)
{
    static const struct {
        const char *field;
        int of_machine;
    } fixed[] = {{"cpu.vendor", 0},     {"cpu.model_name", 1}, {"cpu.family", 0},      {"cpu.stepping", 0},       {"kernel.release", 1},
                 {"kernel.machine", 0}, {"program.sha256", 0}, {"program.commit", 0},  {"program.version", 0},    {"host.boot_id", 1},
                 {"host.machine_id", 1}, {"nvidia.version", 1}, {"gpu.count", 0}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const json_t *a = rp_known(probes(s->before), fixed[i].field), *b = rp_known(probes(s->after), fixed[i].field);
        if (a && b && !json_equal(a, b))
            return rp_fail(err, RP_MISMATCH, "%s differs before and after the run: the captures are of two machines or programs",
                           fixed[i].field);
        *known += a && b && fixed[i].of_machine;
    }
    return 0;
}

/* Uptime advances as much as the wall clock. */
static int check_uptime(const struct rp_verify_state *s, int *known, struct rp_err *err)
{
    double from, to, wall = rp_verify_wall(s->after, "captured_at") - rp_verify_wall(s->before, "captured_at");
    if (rp_known_number(probes(s->before), "kernel.uptime", &from) < 0 || rp_known_number(probes(s->after), "kernel.uptime", &to) < 0)
        return 0;
    ++*known;
    double up = to - from;
    if (up >= 0 && up <= wall * UPTIME_DRIFT + UPTIME_SLACK_S && wall <= up * UPTIME_DRIFT + UPTIME_SLACK_S)
        return 0;
    return rp_fail(err, RP_MISMATCH, "between the captures the uptime advanced %.0f s and the wall clock %.0f s", up, wall);
}

/* A GPU number means the same GPU in both captures. */
static int check_gpus(const struct rp_verify_state *s, int *known, struct rp_err *err)
{
    static const char *const fixed[] = {"name", "uuid", "pci_address", "vbios"};
    const char *number;
    json_t *gpu;
    json_object_foreach((json_t *)rp_group(probes(s->before), "gpu.devices"), number, gpu)
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
            char safe[32];
            const json_t *a = rp_known(gpu, fixed[i]);
            const json_t *b = rp_known(json_object_get(rp_group(probes(s->after), "gpu.devices"), number), fixed[i]);
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
    const struct rp_verify_state one = rp_verify_node(s, node);
    *known = 0;
    if (!one.before || !one.after) { /* of a run that failed */
        *known = 1;
        return 0;
    }
    if (check_constants(&one, known, err) == 0 && check_gpus(&one, known, err) == 0 && check_uptime(&one, known, err) == 0)
        return 0;
    return node ? rp_wrap(err, "node %d", node) : -1;
}

int rp_check_same_host(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    int all = 1;
    for (int i = 0; i < s->nodes; i++) {
        int known;
        if (check_node(s, i, &known, err) < 0)
            return -1;
        all &= known > 0;
    }
    if ((s->nodes > 1 || rp_json_at(s->run, "world/processes")) && rp_verify_nodes(s, result, err) < 0)
        return -1;
    if (all)
        return 0;
    return rp_check_warn(result, "the captures%s share no value that identifies a machine: that they are of one host is the signer's word",
                         s->nodes > 1 ? " before and after, of some node," : "");
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
        const json_t *ran = json_object_get(json_object_get(s->run, "tool"), same[i][0]), *is = rp_known(probes(capture), same[i][1]);
        if (!json_equal(ran, is))
            return rp_fail(err, RP_MISMATCH, "tool/%s differs from the captured program", same[i][0]);
    }
    return 0;
}

int rp_verify_cpu(struct rp_device_info *out, const json_t *run)
{
    int known = rp_device_from_json(out, json_object_get(run, "device")) == 0;
    return known && strcmp(out->kind, "cpu") == 0 ? 0 : -1;
}

/* The device is of the backend that run.json names, and only a GPU has a clock, memory and links of its own: of several ranks the times and
 * ceilings are the slowest one's. *none: the run ended before a device was opened. */
static int check_kind(const struct rp_verify_state *s, const char *backend, int *none, struct rp_err *err)
{
    static const char *const sides[] = {"before", "after"};
    struct rp_device_info d;
    const int is_cpu = rp_verify_on_cpu(s, s->ranks.slowest);
    *none = json_is_null(json_object_get(s->run, "device")) && s->records.n == 0;
    if (*none)
        return 0;
    if (rp_device_from_json(&d, json_object_get(s->run, "device")) < 0 || strcmp(d.kind, backend) != 0)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device of the backend '%.16s'", backend);
    for (int64_t i = 0; i < s->records.n; i++)
        if (is_cpu && s->records.r[i].step >= 0 && s->records.r[i].device_ns >= 0)
            return rp_fail(err, RP_MISMATCH, "step %d has a device_ns; the CPU backend has no clock of its own", s->records.r[i].step);
    if (is_cpu && json_object_get(s->run, "device_bytes"))
        return rp_fail(err, RP_MISMATCH, "device_bytes: the CPU backend has no memory of its own");
    for (int i = 0; is_cpu && i < 2; i++) {
        const json_t *c = json_object_get(json_object_get(s->run, "ceilings"), sides[i]);
        if (json_is_object(c) && (strcmp(rp_json_text_at(c, "clock"), "host") != 0 || json_object_get(c, "host_to_device")))
            return rp_fail(err, RP_MISMATCH, "ceilings/%s was not measured on a CPU", sides[i]);
    }
    return 0;
}

/* A captured GPU has that name, to which CUDA adds the profile of a MIG instance. */
static int has_gpu(const json_t *capture, const char *device)
{
    const char *number;
    json_t *gpu;
    json_object_foreach((json_t *)rp_group(probes(capture), "gpu.devices"), number, gpu) {
        const char *name = json_string_value(rp_known(gpu, "name"));
        size_t n = name ? strlen(name) : 0;
        if (n && strncmp(name, device, n) == 0 && (!device[n] || strncmp(device + n, " MIG ", 5) == 0))
            return 1;
    }
    return 0;
}

/* The names of GPUs come from NVML alone: a container without the capability "utility" lacks it, and a worker that crashed asked nothing. */
static int lists_no_gpu(const json_t *capture)
{
    const char *worker = rp_state_at(probes(capture), "gpu.worker");
    return strcmp(worker, "error") == 0 ||
           (strcmp(worker, "ok") == 0 && strcmp(rp_state_at(probes(capture), "gpu.nvml_library"), "ok") != 0 &&
            !rp_group(probes(capture), "gpu.devices"));
}

/* Both captures have the GPU that trained, unless they could list none; the index is the one that was asked for. */
static int check_gpu_device(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *const capture[] = {s->before, s->after};
    struct rp_device_info d;
    const char *asked = json_string_value(rp_run_setting(s->run, "run.device"));
    char safe[72];
    if (rp_device_from_json(&d, json_object_get(s->run, "device")) < 0)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device");
    for (int i = 0; i < 2; i++) {
        if (has_gpu(capture[i], d.name))
            continue;
        if (!lists_no_gpu(capture[i]))
            return rp_fail(err, RP_MISMATCH, "the run used '%s', but the capture %s it has no GPU of that name", rp_excerpt(safe, d.name),
                           i ? "after" : "before");
        rp_check_warn(result, "the capture %s the run could not list GPUs: that the machine has '%s' is the signer's word",
                      i ? "after" : "before", rp_excerpt(safe, d.name));
    }
    if (asked && *asked >= '0' && *asked <= '9' && strtol(asked, NULL, 10) != d.index)
        return rp_fail(err, RP_MISMATCH, "the run used GPU %d, but the settings require GPU %.8s", d.index, asked);
    return 0;
}

/* The captured CPU has the instruction set that the kernels used. */
static int check_isa(const struct rp_verify_state *s, const struct rp_device_info *d, struct rp_err *err)
{
    static const struct {
        const char *isa, *flag[9];
    } sets[] = {{"scalar", {NULL}},
                {"avx2", {"avx", "avx2", "fma", "f16c", NULL}},
                {"avx512", {"avx", "avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw", "avx512vl", NULL}}};
    const int flags_known = json_is_array(rp_known(probes(s->before), "cpu.flags"));
    size_t i = 0;
    if (strcmp(d->kind, "cpu") == 0)
        while (i < 3 && strcmp(sets[i].isa, d->isa) != 0)
            i++;
    if (strcmp(d->kind, "cpu") != 0 || !d->threads || d->threads > THREADS_MAX || i == 3)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device of the CPU backend");
    for (const char *const *f = sets[i].flag; flags_known && *f; f++)
        if (!rp_known_has(probes(s->before), "cpu.flags", *f))
            return rp_fail(err, RP_MISMATCH, "the run used %s, but the captured CPU has no %s", d->isa, *f);
    return 0;
}

/* A CPU has the instruction set and threads of the settings. */
static int check_set(const struct rp_verify_state *s, const struct rp_device_info *d, struct rp_err *err)
{
    const char *asked = json_string_value(rp_run_setting(s->run, "run.isa"));
    const int64_t threads = json_integer_value(rp_run_setting(s->run, "run.threads"));
    struct rp_device_info first;
    if (rp_verify_cpu(&first, s->run) == 0 && strcmp(first.isa, d->isa) != 0)
        return rp_fail(err, RP_MISMATCH, "it used %s, and rank 0 of the same process %s", d->isa, first.isa);
    if ((asked && strcmp(asked, "auto") != 0 && strcmp(asked, d->isa) != 0) || (threads > 0 && threads != d->threads))
        return rp_fail(err, RP_MISMATCH, "the run used %s and %d threads, but the settings require others", d->isa, d->threads);
    return 0;
}

/* The device agrees with the settings and the captured CPU. */
static int check_device(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_device_info d;
    int64_t threads = json_integer_value(rp_run_setting(s->run, "run.threads"));
    char name[72], other[72];
    double here;
    const char *captured = json_string_value(rp_known(probes(s->before), "cpu.model_name"));
    if (rp_verify_cpu(&d, s->run) < 0)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device of the CPU backend");
    if (check_isa(s, &d, err) < 0)
        return -1;
    if (captured && *d.name && strcmp(captured, d.name) != 0) /* emulators and valgrind give programs another CPU than /proc has */
        rp_check_note(result, "the run used '%s', but the captured CPU is '%s'", rp_excerpt(name, d.name), rp_excerpt(other, captured));
    if (threads == 0 && rp_known_number(probes(s->before), "cpu.threads", &here) == 0 && (double)d.threads > here)
        return rp_fail(err, RP_MISMATCH, "the device has %d threads, but the captured machine %.0f processors", d.threads, here);
    return check_set(s, &d, err);
}

int rp_verify_device_of(const struct rp_verify_state *one, const json_t *device, int set, struct rp_err *err)
{
    struct rp_device_info d;
    char safe[72];
    if (!json_is_object(device) && !rp_verify_complete(one)) /* it did not get so far */
        return 0;
    const int mixed = one->recipe.run_transport == RP_TRANSPORT_sockets; /* they connect ranks on GPUs and on processors */
    if (rp_device_from_json(&d, device) < 0 ||
        (strcmp(d.kind, json_string_value(json_object_get(one->run, "backend"))) != 0 &&
         !(mixed && (strcmp(d.kind, "cpu") == 0 || strcmp(d.kind, "cuda") == 0))))
        return rp_fail(err, RP_MISMATCH, "its device is not one of the backend that run.json names");
    double here;
    if (strcmp(d.kind, "cpu") == 0 && json_integer_value(rp_run_setting(one->run, "run.threads")) == 0 &&
        rp_known_number(probes(one->before), "cpu.threads", &here) == 0 && (double)d.threads > here)
        return rp_fail(err, RP_MISMATCH, "it has %d threads, but the captured machine %.0f processors", d.threads, here);
    if (strcmp(d.kind, "cpu") == 0)
        return check_isa(one, &d, err) < 0 || (set && check_set(one, &d, err) < 0) ? -1 : 0;
    const json_t *const capture[] = {one->before, one->after};
    for (int i = 0; i < 2; i++)
        if (!has_gpu(capture[i], d.name) && !lists_no_gpu(capture[i]))
            return rp_fail(err, RP_MISMATCH, "it used '%s', but the capture %s the run has no GPU of that name", rp_excerpt(safe, d.name),
                           i ? "after" : "before");
    return 0;
}

/* The sum of the plan, which is rank 0's, is right. */
static int check_planned(const struct rp_verify_state *s, struct rp_err *err)
{
    const json_t *plan = json_object_get(s->run, "plan"), *bytes = json_object_get(plan, "bytes"), *v;
    double sum = rp_json_number_at(plan, "host_bytes") + rp_json_number_at(plan, "decoder_bytes") +
                 (double)rp_json_integer_at(plan, "connection_bytes");
    double total = json_number_value(json_object_get(plan, "total_bytes"));
    const double parameters = 4 * json_number_value(json_object_get(plan, "parameters"));
    const char *key;
    json_object_foreach((json_t *)bytes, key, v)
        sum += json_number_value(v);
    if (sum != total)
        return rp_fail(err, RP_MISMATCH, "the plan's parts add up to %.0f bytes, but its total_bytes is %.0f", sum, total);
    const struct rp_degrees d = rp_verify_degrees(s->run); /* ranks that divide the model have parts of it: check_plan.c sizes those */
    if (d.tensor * d.pipeline == 1 && json_number_value(json_object_get(bytes, rp_class_name(RP_CLASS_PARAMETERS))) < parameters)
        return rp_fail(err, RP_MISMATCH, "the plan has less memory than its %.0f bytes of parameters", parameters);
    return 0;
}

/* The peak lies between the size of the parameters and the machine's memory; of several ranks it is the slowest one's, and
 * rp_verify_places() compares each one's with the memory of its node. */
static int check_peak_memory(const struct rp_verify_state *s, struct rp_err *err)
{
    const json_t *peak = json_object_get(s->run, "peak_rss_bytes");
    const double parameters = 4 * rp_json_number_at(s->run, "plan/parameters");
    const struct rp_degrees d = rp_verify_degrees(s->run);
    double memory;
    if (d.tensor * d.pipeline == 1 && json_is_integer(peak) && json_number_value(peak) < parameters)
        return rp_fail(err, RP_MISMATCH, "peak_rss_bytes is %.0f, less than the parameters alone, %.0f", json_number_value(peak),
                       parameters);
    if (s->ranks.ranks == 1 && json_is_integer(peak) && rp_known_number(probes(s->before), "memory.total", &memory) == 0 &&
        json_number_value(peak) > memory)
        return rp_fail(err, RP_MISMATCH, "peak_rss_bytes is %.0f, but the machine had %.0f", json_number_value(peak), memory);
    return 0;
}

/* The device memory that was reserved lies between the size of the parameters and the plan. Of several ranks it is the slowest one's, the plan
 * is that of rank 0, and their parts differ. */
static int check_device_memory(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *plan = json_object_get(s->run, "plan"), *is = json_object_get(s->run, "device_bytes");
    double reserved = json_number_value(json_object_get(is, "reserved")), total = json_number_value(json_object_get(plan, "total_bytes"));
    const struct rp_degrees d = rp_verify_degrees(s->run);
    double parameters = d.tensor * d.pipeline > 1 ? 0 : 4 * json_number_value(json_object_get(plan, "parameters")); /* of a part: see above */
    const int planned = d.data * d.tensor * d.pipeline == 1;
    if (is && ((planned && reserved > total) || reserved < parameters))
        return rp_fail(err, RP_MISMATCH, "device_bytes/reserved is %.0f; the plan has %.0f, of which %.0f are parameters", reserved, total,
                       parameters);
    if (!is && rp_verify_complete(s))
        rp_check_warn(result, "run.json has no device_bytes, the memory taken of the device, which every GPU reports");
    return 0;
}

/* Every capture has the values of every other, and processes of another build are refused when they join. */
static int check_captures(const struct rp_verify_state *s, struct rp_err *err)
{
    if (check_leaves(s->before, RP_OF_NODE(0, ".before.json"), err) < 0 || check_leaves(s->after, RP_OF_NODE(0, ".after.json"), err) < 0 ||
        check_program(s, s->before, err) < 0)
        return -1;
    for (int i = 1; i < s->nodes; i++) {
        const json_t *before = s->node[i].before, *after = s->node[i].after;
        if ((before && check_leaves(before, RP_OF_NODE(i, ".before.json"), err) < 0) ||
            (after && check_leaves(after, RP_OF_NODE(i, ".after.json"), err) < 0) || (before && check_program(s, before, err) < 0))
            return rp_wrap(err, "node %d", i);
    }
    return 0;
}

int rp_check_environment(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const char *backend = json_string_value(json_object_get(s->run, "backend"));
    const char *asked = json_string_value(rp_run_setting(s->run, "run.backend"));
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
        (rp_verify_on_cpu(s, s->ranks.slowest) ? check_peak_memory(s, err) : check_device_memory(s, result, err)) < 0)
        return -1;
    if (none)
        return 0;
    if ((is_cpu ? check_device(s, result, err) : check_gpu_device(s, result, err)) < 0)
        return -1;
    return rp_verify_places(s, result, err);
}
