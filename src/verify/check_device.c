/* The device that trained: its kind, name, instruction set and threads against the captures of its node and the
 * settings. */
#include "backend/backend.h"
#include "base/isa.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "run/results.h"
#include "verify/state.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096 /* as run.threads */

/* ---- GPUs ---- */

/* A captured GPU has that name, to which CUDA adds the profile of a MIG instance. */
static int has_gpu(const json_t *capture, const char *device)
{
    const char *number;
    json_t *gpu;
    json_object_foreach((json_t *)rp_group(capture, "probes.gpu.devices"), number, gpu) {
        const char *name = json_string_value(rp_known(gpu, "name"));
        size_t n = name ? strlen(name) : 0;
        if (n && strncmp(name, device, n) == 0 && (!device[n] || strncmp(device + n, " MIG ", 5) == 0))
            return 1;
    }
    return 0;
}

/* The names of GPUs come from NVML alone: a container without the capability "utility" lacks it, and a worker that
 * crashed asked nothing. */
static int lists_no_gpu(const json_t *capture)
{
    const char *worker = rp_state_at(capture, "probes.gpu.worker");
    return strcmp(worker, "error") == 0 ||
           (strcmp(worker, "ok") == 0 && strcmp(rp_state_at(capture, "probes.gpu.nvml_library"), "ok") != 0 &&
            !rp_group(capture, "probes.gpu.devices"));
}

/* Both captures have the GPU that trained, unless they could list none; the index is the one that was asked for. */
int rp_verify_gpu(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *const capture[] = {s->run.node[0].before, s->run.node[0].after};
    struct rp_device_info d;
    const char *asked = json_string_value(rp_run_setting(s->run.json, "run.device"));
    char safe[72];
    if (rp_device_from_json(&d, json_object_get(s->run.json, "device")) < 0)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device");
    for (int i = 0; i < 2; i++) {
        if (has_gpu(capture[i], d.name))
            continue;
        if (!lists_no_gpu(capture[i]))
            return rp_fail(err, RP_MISMATCH, "the run used '%s', but the capture %s it has no GPU of that name",
                           rp_excerpt(safe, d.name), i ? "after" : "before");
        rp_check_warn(result,
                      "the capture %s the run could not list GPUs: that the machine has '%s' is the signer's word",
                      i ? "after" : "before", rp_excerpt(safe, d.name));
    }
    if (asked && *asked >= '0' && *asked <= '9' && strtol(asked, NULL, 10) != d.index)
        return rp_fail(err, RP_MISMATCH, "the run used GPU %d, but the settings require GPU %.8s", d.index, asked);
    return 0;
}

/* ---- processors ---- */

/* The captured CPU has the instruction set that the kernels used. One of another version of this program is a note. */
static int check_isa(const json_t *capture, const struct rp_device_info *d, struct rp_check_result *result,
                     struct rp_err *err)
{
    const struct rp_isa_row *isa = rp_isa_find(d->isa);
    const char *missing = isa ? rp_known_lacks(capture, "probes.cpu.flags", isa->flag) : NULL;
    if (strcmp(d->kind, "cpu") != 0 || !d->threads || d->threads > THREADS_MAX)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device of the CPU backend");
    if (missing)
        return rp_fail(err, RP_MISMATCH, "the run used %s, but the captured CPU has no %s", d->isa, missing);
    if (!isa && result->state == RP_CHECK_PASSED)
        rp_check_note(result, "unknown instruction set '%s': what it needs of a CPU is not known here", d->isa);
    return 0;
}

/* A CPU has the instruction set and threads of the settings. */
static int check_set(const json_t *run, const struct rp_device_info *d, struct rp_err *err)
{
    const char *asked = json_string_value(rp_run_setting(run, "run.isa"));
    const int64_t threads = json_integer_value(rp_run_setting(run, "run.threads"));
    struct rp_device_info first;
    if (rp_run_cpu(&first, run) == 0 && strcmp(first.isa, d->isa) != 0)
        return rp_fail(err, RP_MISMATCH, "it used %s, and rank 0 of the same process %s", d->isa, first.isa);
    if ((asked && strcmp(asked, "auto") != 0 && strcmp(asked, d->isa) != 0) || (threads > 0 && threads != d->threads))
        return rp_fail(err, RP_MISMATCH, "the run used %s and %d threads, but the settings require others", d->isa,
                       d->threads);
    return 0;
}

/* The device agrees with the settings and the captured CPU. */
int rp_verify_cpu(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *capture = s->run.node[0].before;
    struct rp_device_info d;
    int64_t threads = json_integer_value(rp_run_setting(s->run.json, "run.threads"));
    char name[72], other[72];
    double here;
    const char *captured = json_string_value(rp_known(capture, "probes.cpu.model_name"));
    if (rp_run_cpu(&d, s->run.json) < 0)
        return rp_fail(err, RP_MISMATCH, "'device' is not a device of the CPU backend");
    if (captured && *d.name &&
        strcmp(captured, d.name) != 0) /* emulators and valgrind give programs another CPU than /proc has */
        rp_check_note(result, "the run used '%s', but the captured CPU is '%s'", rp_excerpt(name, d.name),
                      rp_excerpt(other, captured));
    if (check_isa(capture, &d, result, err) < 0)
        return -1;
    if (threads == 0 && rp_known_number(capture, "probes.cpu.threads", &here) == 0 && (double)d.threads > here)
        return rp_fail(err, RP_MISMATCH, "the device has %d threads, but the captured machine %.0f processors",
                       d.threads, here);
    return check_set(s->run.json, &d, err);
}

/* ---- of one of several ranks ---- */

int rp_verify_rank_device(const struct rp_verify_state *s, int rank, int set, struct rp_check_result *result,
                          struct rp_err *err)
{
    const json_t *device = json_object_get(rp_run_rank(&s->run, rank), "device");
    const struct rp_captures *on = &s->run.node[rp_run_node_of(&s->run, rank)];
    struct rp_device_info d;
    char safe[72];
    if (!json_is_object(device) && !rp_run_is_complete(s->run.json)) /* it did not get so far */
        return 0;
    const int mixed =
        s->run.recipe.run_transport == RP_TRANSPORT_sockets; /* they connect ranks on GPUs and on processors */
    if (rp_device_from_json(&d, device) < 0 ||
        (strcmp(d.kind, json_string_value(json_object_get(s->run.json, "backend"))) != 0 &&
         !(mixed && (strcmp(d.kind, "cpu") == 0 || strcmp(d.kind, "cuda") == 0))))
        return rp_fail(err, RP_MISMATCH, "its device is not one of the backend that run.json names");
    double here;
    if (strcmp(d.kind, "cpu") == 0 && json_integer_value(rp_run_setting(s->run.json, "run.threads")) == 0 &&
        rp_known_number(on->before, "probes.cpu.threads", &here) == 0 && (double)d.threads > here)
        return rp_fail(err, RP_MISMATCH, "it has %d threads, but the captured machine %.0f processors", d.threads,
                       here);
    if (strcmp(d.kind, "cpu") == 0)
        return check_isa(on->before, &d, result, err) < 0 || (set && check_set(s->run.json, &d, err) < 0) ? -1 : 0;
    const json_t *const capture[] = {on->before, on->after};
    for (int i = 0; i < 2; i++)
        if (!has_gpu(capture[i], d.name) && !lists_no_gpu(capture[i]))
            return rp_fail(err, RP_MISMATCH, "it used '%s', but the capture %s the run has no GPU of that name",
                           rp_excerpt(safe, d.name), i ? "after" : "before");
    return 0;
}
