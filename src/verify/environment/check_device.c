/* The device of a rank: kind, name, instruction set and threads against the captures of its node and the settings. */
#include "base/build.h"
#include "base/isa.h"
#include "base/text.h"
#include "capture/value.h"
#include "ops/tensor_probe.h"
#include "verify/state.h"
#include "worker/worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096 /* as run.threads */

static const char *setting_text(const struct rp_verify_state *s, const char *key)
{
    return json_string_value(rp_facts_setting(s->run.facts, key));
}

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

/* The sums of mixed precision are those of one kind of tensor core: whether a GPU of that compute capability has it. */
static int has_tensor_core(const struct rp_arithmetic *is, int major, int minor)
{
    const int capability = 10 * major + minor;
    switch (is->tc.products) {
    case 4:
        return capability == 70 || capability == 72;
    case 8:
        return capability >= (is->format == RP_TC_BF16 ? 80 : 75) && capability < 90;
    default:
        return capability >= 90;
    }
}

static int check_arithmetic(const struct rp_verify_state *s, const struct rp_device_facts *d, struct rp_err *err)
{
    const enum rp_numerics n = rp_recipe_numerics(&s->run.recipe);
    int major = 0, minor = 0;
    char safe[72];
    if (!rp_is_mixed(n))
        return 0;
    if (sscanf(d->compute_capability, "%3d.%3d", &major, &minor) != 2 ||
        !has_tensor_core(rp_arithmetic_of(n), major, minor))
        return rp_fail(err, RP_MISMATCH,
                       "the run was in %s, which '%s' of compute capability %.8s cannot compute (train.tensor_core)",
                       rp_numerics_name(n), rp_excerpt(safe, d->name), d->compute_capability);
    return 0;
}

/* The name of the contract whose probes have that digest; NULL: none. */
static const char *find_contract(const char *digest)
{
    for (int n = 0; n < RP_NUMERICS_COUNT; n++) {
        char hex[RP_SHA256_HEX] = "";
        if (rp_is_mixed((enum rp_numerics)n))
            rp_tc_probe_digest(hex, (enum rp_numerics)n);
        if (*hex && strcmp(hex, digest) == 0)
            return rp_numerics_name((enum rp_numerics)n);
    }
    return NULL;
}

/* Tensor cores are tested before a run exactly if it has mixed precision. 0, or -1 with the error. */
static int check_tested(enum rp_numerics n, int tested, struct rp_err *err)
{
    if (rp_is_mixed(n) && !tested)
        return rp_fail(err, RP_MISMATCH,
                       "whether the GPU's tensor cores gave the sums of %s before the run is not recorded",
                       rp_numerics_name(n));
    if (!rp_is_mixed(n) && tested)
        return rp_fail(err, RP_MISMATCH,
                       "tensor cores were tested before a run in strict fp32, which has no use for them");
    return 0;
}

/* What the GPU computed before the run are the sums of the run's arithmetic. */
static int check_proof(const struct rp_verify_state *s, int rank, const struct rp_device_facts *d,
                       struct rp_check_result *result, struct rp_err *err)
{
    const enum rp_numerics n = rp_recipe_numerics(&s->run.recipe);
    const struct rp_tensor_core_facts *is = d->tensor_core;
    const struct rp_device_facts *first = s->run.facts->rank[0].device;
    char hex[RP_SHA256_HEX];
    if (!rp_is_mixed(n) || !is)
        return check_tested(n, is != NULL, err);
    const int proved = strcmp(is->outcome, "proved") == 0;
    if (is->instruction && strcmp(is->instruction, "wgmma") == 0 && strcmp(d->compute_capability, "9.0") != 0)
        return rp_fail(err, RP_MISMATCH, "products by wgmma, which a GPU of compute capability %s does not have",
                       d->compute_capability);
    if (proved != (*is->sums_sha256 != 0) || proved != (is->edges != RP_NO_INTEGER) ||
        proved != (is->instruction != NULL))
        return rp_fail(err, RP_MISMATCH,
                       "the GPU's tensor cores are '%s', which does not agree with what is recorded of their sums",
                       is->outcome);
    if (!proved)
        return rp_check_warn(
            result, "the GPU's tensor cores were not tested before the run: that they compute %s is the signer's word",
            rp_numerics_name(n));
    const int known =
        rank && first && first->tensor_core && strcmp(first->tensor_core->sums_sha256, is->sums_sha256) == 0;
    if (!known)
        rp_tc_probe_digest(hex, n);
    if (!known && strcmp(hex, is->sums_sha256) != 0) {
        const char *other = find_contract(is->sums_sha256);
        return rp_fail(err, RP_MISMATCH, "the GPU's tensor cores gave the sums of %s before the run, not those of %s",
                       other ? other : "no contract that is known here", rp_numerics_name(n));
    }
    if (is->edges && result->state == RP_CHECK_PASSED)
        rp_check_note(result,
                      "%" PRId64 " of %d sums of infinities and at the ends of the range, computed by the GPU before "
                      "the run, are not those of %s",
                      is->edges, RP_PROBE_SUMS_MOST, rp_numerics_name(n));
    return 0;
}

/* Both captures have the GPU, unless they could list none. Rank 0 has the number that was asked for; the ranks after it
 * choose. */
static int check_gpu(const struct rp_verify_state *s, int rank, const struct rp_device_facts *d,
                     struct rp_check_result *result, struct rp_err *err)
{
    const int node = (int)s->run.facts->rank[rank].node;
    const char *asked = rank ? NULL : setting_text(s, "run.device");
    char safe[72];
    if (*d->name == ' ' || strstr(d->name, "  ")) /* which a page does not show */
        return rp_fail(err, RP_MISMATCH, "the GPU is named '%s', with blanks that no driver reports",
                       rp_excerpt(safe, d->name));
    if (check_arithmetic(s, d, err) < 0 || check_proof(s, rank, d, result, err) < 0)
        return -1;
    for (int after = 0; after < 2; after++) {
        const json_t *capture = rp_run_capture(&s->run, node, after);
        if (has_gpu(capture, d->name))
            continue;
        if (!lists_no_gpu(capture))
            return rp_fail(err, RP_MISMATCH, "the run used '%s', but the capture %s it has no GPU of that name",
                           rp_excerpt(safe, d->name), after ? "after" : "before");
        rp_check_warn(result,
                      "the capture %s the run could not list GPUs: that the machine has '%s' is the signer's word",
                      after ? "after" : "before", rp_excerpt(safe, d->name));
    }
    if (asked && *asked >= '0' && *asked <= '9' && strtol(asked, NULL, 10) != d->index)
        return rp_fail(err, RP_MISMATCH, "the run used GPU %" PRId64 ", but the settings require GPU %.8s", d->index,
                       asked);
    return 0;
}

/* ---- processors ---- */

const char *rp_verify_gpu_name(const char *device)
{
    static const char *const names[] = {
#define PEAK(name, sms, units, tensor, mhz, gb_per_s, source) name,
#include "verify/physics/peaks.def"
#undef PEAK
        "NVIDIA", "GeForce", "Quadro", "H100", "H200", "H800", "B100", "B200", "B300", "A100", "A800", "V100", "P100",
        "Instinct", "MI100", "MI210", "MI250", "MI300", "MI325", "MI350", "MI355", "Gaudi"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasestr(device, names[i]))
            return names[i];
    return NULL;
}

int rp_verify_name_is_foreign(const char *device)
{
    while (*device >= ' ' && *device <= '~')
        device++;
    return *device != 0;
}

/* The captured CPU has the instruction set that the kernels used. One of another version of this program is a note. */
static int check_isa(const json_t *capture, const struct rp_device_facts *d, struct rp_check_result *result,
                     struct rp_err *err)
{
    const struct rp_isa_row *isa = rp_isa_find(d->isa);
    const char *missing = isa ? rp_known_lacks(capture, "probes.cpu.flags", isa->flag) : NULL;
    if (d->threads > THREADS_MAX)
        return rp_fail(err, RP_MISMATCH, "the device has %" PRId64 " threads; a run has at most %d", d->threads,
                       THREADS_MAX);
    if (missing)
        return rp_fail(err, RP_MISMATCH, "the run used %s, but the captured CPU has no %s", d->isa, missing);
    if (!isa && result->state == RP_CHECK_PASSED)
        rp_check_note(result, "unknown instruction set '%s': what it needs of a CPU is not known here", d->isa);
    return 0;
}

/* The settings are those of the process that sealed: others may have other places and threads. */
static int check_settings(const struct rp_verify_state *s, int rank, const struct rp_device_facts *d,
                          struct rp_err *err)
{
    const struct rp_facts *f = s->run.facts;
    const struct rp_device_facts *first = f->rank[0].device;
    const char *asked = setting_text(s, "run.isa");
    const int64_t threads = json_integer_value(rp_facts_setting(f, "run.threads"));
    if (f->process_n && rank >= f->process[0].ranks)
        return 0;
    if (first && first->isa && strcmp(first->isa, d->isa) != 0)
        return rp_fail(err, RP_MISMATCH, "it used %s, and rank 0 of the same process %s", d->isa, first->isa);
    if ((asked && strcmp(asked, "auto") != 0 && strcmp(asked, d->isa) != 0) || (threads > 0 && threads != d->threads))
        return rp_fail(err, RP_MISMATCH, "the run used %s and %" PRId64 " threads, but the settings require others",
                       d->isa, d->threads);
    return 0;
}

static int check_cpu(const struct rp_verify_state *s, int rank, const struct rp_device_facts *d,
                     struct rp_check_result *result, struct rp_err *err)
{
    const json_t *capture = rp_run_capture(&s->run, (int)s->run.facts->rank[rank].node, 0);
    const char *captured = rp_known_text(capture, "probes.cpu.model_name");
    const int64_t threads = json_integer_value(rp_facts_setting(s->run.facts, "run.threads"));
    const char *const names[] = {d->name, captured ? captured : ""}; /* what compare and reports show */
    char name[72], other[72];
    double here;
    if (rp_verify_name_is_foreign(names[1]))
        return rp_fail(err, RP_MISMATCH, "the capture names the CPU '%s', with characters that no processor reports",
                       rp_excerpt(name, names[1]));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) /* also where both were made up to agree */
        if (rp_verify_gpu_name(names[i]))
            return rp_fail(err, RP_MISMATCH, "the run used a CPU, but %s it '%s', as only GPUs are named ('%s')",
                           i ? "the capture names" : "names", rp_excerpt(name, names[i]), rp_verify_gpu_name(names[i]));
    /* not a failure: emulators and valgrind give programs another CPU than /proc has */
    if (captured && *d->name && strcmp(captured, d->name) != 0 && result->state != RP_CHECK_WARNING)
        rp_check_warn(result, "the run used '%s', but the captured CPU is '%s'", rp_excerpt(name, d->name),
                      rp_excerpt(other, captured));
    if (check_isa(capture, d, result, err) < 0)
        return -1;
    if (threads == 0 && rp_known_number(capture, "probes.cpu.threads", &here) == 0 && (double)d->threads > here)
        return rp_fail(err, RP_MISMATCH, "the device has %" PRId64 " threads, but the captured machine %.0f processors",
                       d->threads, here);
    return check_settings(s, rank, d, err);
}

/* ---- any device ---- */

int rp_verify_captured_device(const struct rp_verify_state *s, int rank, const char **captured)
{
    const struct rp_rank_facts *r = &s->run.facts->rank[rank];
    const json_t *capture = rp_run_capture(&s->run, (int)r->node, 0);
    const char *cpu = rp_known_text(capture, "probes.cpu.model_name");
    const int on_cpu = rp_rank_on_cpu(s->run.facts, rank);
    *captured = on_cpu ? cpu : NULL;
    return r->device && (on_cpu ? rp_same_text(cpu, r->device->name) : has_gpu(capture, r->device->name));
}

/* It has the values of its kind, and none of another. */
static int has_form(const struct rp_device_facts *d)
{
    const int cpu = d->isa && d->threads > 0, no_cpu = !d->isa && d->threads == RP_NO_INTEGER,
              gpu = d->index >= 0 && d->compute_capability,
              no_gpu = d->index == RP_NO_INTEGER && !d->compute_capability && !d->pci_address && !d->tensor_core;
    return strcmp(d->kind, "cpu") == 0 ? cpu && no_gpu : gpu && no_cpu;
}

int rp_verify_device(const struct rp_verify_state *s, int rank, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_device_facts *d = s->run.facts->rank[rank].device;
    const char *backend = s->run.facts->backend;
    /* sockets connect ranks on GPUs and on processors; the backend is that of rank 0 */
    const int mixed = rank && s->run.recipe.run_transport == RP_TRANSPORT_sockets;
    if (!d && s->run.records.n == 0) /* the run ended before it was opened */
        return 0;
    if (!d || !has_form(d) || (!mixed && strcmp(d->kind, backend) != 0))
        return rp_fail(err, RP_MISMATCH, "'device' is not a device of the backend '%.16s'", backend);
    return (rp_rank_on_cpu(s->run.facts, rank) ? check_cpu : check_gpu)(s, rank, d, result, err);
}
