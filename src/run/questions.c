/* Questions about a run: what its documents, the captures and the records answer together. */
#include "run/run.h"

#include "base/build.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/clock.h"
#include "base/text.h"
#include "capture/capture.h"
#include "capture/value.h"
#include "train/train.h"
#include "worker/rank.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S 86400
#define CLOCK_MOST ((int64_t)1 << 62)

void rp_run_fini(struct rp_run *r)
{
    rp_run_documents_free(r->doc);
    for (int i = 0; i < r->nodes; i++) {
        json_decref(r->node[i].before);
        json_decref(r->node[i].after);
    }
    free(r->node);
    rp_records_fini(&r->records);
    rp_all_ranks_fini(&r->ranks);
    rp_recipe_fini(&r->recipe);
    rp_telemetry_fini(&r->telemetry);
    *r = (struct rp_run){0};
}

/* ---- ranks and nodes ---- */

const char *rp_rank_kind(const struct rp_facts *f, int64_t rank)
{
    return f->rank[rank].device ? f->rank[rank].device->kind : f->backend;
}

int rp_rank_on_cpu(const struct rp_facts *f, int64_t rank)
{
    return strcmp(rp_rank_kind(f, rank), "cpu") == 0;
}

const char *rp_facts_kind(const struct rp_facts *f)
{
    for (int64_t i = 1; i < f->rank_n; i++)
        if (strcmp(rp_rank_kind(f, i), rp_rank_kind(f, 0)) != 0)
            return "mixed";
    return rp_rank_kind(f, 0);
}

static const char *number_text(char out[RP_WHO], int64_t all, const char *before, const char *what, int64_t i,
                               const char *after)
{
    *out = 0;
    if (all > 1)
        snprintf(out, RP_WHO, "%s%s %" PRId64 "%s", before, what, i, after);
    return out;
}

const char *rp_run_rank_text(char out[RP_WHO], const struct rp_run *r, const char *before, int64_t rank,
                             const char *after)
{
    return number_text(out, r->facts->rank_n, before, "rank", rank, after);
}

const char *rp_run_node_text(char out[RP_WHO], const struct rp_run *r, const char *before, int64_t node,
                             const char *after)
{
    return number_text(out, r->nodes, before, "node", node, after);
}

const json_t *rp_run_capture(const struct rp_run *r, int node, int after)
{
    return after ? r->node[node].after : r->node[node].before;
}

double rp_run_expected_samples(const struct rp_run *r, int rank)
{
    const struct rp_telemetry_figures *t = r->figures->rank[rank].telemetry;
    const int64_t every = t && t->every > 0 ? t->every : 1;
    return (double)r->ranks.share[rank].span_ns / 1e9 / RP_TELEMETRY_PERIOD_S / (double)every;
}

int rp_run_lacks_samples(const struct rp_run *r, int rank)
{
    const struct rp_telemetry_figures *t = r->figures->rank[rank].telemetry;
    const double timed = t ? (double)t->timed : 0;
    return timed == 0 || timed < rp_run_expected_samples(r, rank) / 2 - 2;
}

enum rp_route rp_run_route(const struct rp_run *r)
{
    int gpus = 0;
    for (int64_t i = 0; i < r->facts->rank_n; i++)
        gpus += !rp_rank_on_cpu(r->facts, i);
    return rp_world_route(&r->recipe, gpus);
}

struct rp_degrees rp_facts_degrees(const struct rp_facts *f)
{
    return (struct rp_degrees){(int)f->layout.data, (int)f->layout.tensor, (int)f->layout.pipeline};
}

int rp_run_clocks(struct rp_rank_clock **out, const struct rp_facts *f, struct rp_err *err)
{
    int64_t next = 0;
    *out = rp_alloc((size_t)f->rank_n * sizeof **out); /* zeros: all on one machine */
    for (int64_t i = 0; i < f->process_n; i++) {
        const struct rp_process_facts *p = &f->process[i];
        const struct rp_rank_clock clock = {p->clock.monotonic_ns, p->clock.error_ns};
        if (p->first_rank != next || p->ranks < 1 || p->ranks > f->rank_n - next)
            return rp_fail(err, RP_MALFORMED,
                           "facts.json: the ranks of process %" PRId64 " do not follow those of the process before it",
                           i);
        if (clock.offset_ns > CLOCK_MOST || clock.offset_ns < -CLOCK_MOST || clock.error_ns > RP_CLOCK_ERROR_MOST ||
            clock.error_ns < -1)
            return rp_fail(err, RP_MALFORMED,
                           "facts.json: the clock of process %" PRId64
                           " differs by more than any clock does, or is uncertain by more than 10 s",
                           i);
        if (i == 0 && (clock.offset_ns || p->clock.wall_ns || clock.error_ns))
            return rp_fail(err, RP_MALFORMED, "facts.json: the clock of process 0 differs from itself");
        for (int64_t k = 0; k < p->ranks; k++)
            (*out)[next++] = clock;
    }
    if (f->process_n && next != f->rank_n)
        return rp_fail(err, RP_MALFORMED, "facts.json: its processes have %" PRId64 " ranks, the run has %" PRId64,
                       next, f->rank_n);
    return 0;
}

/* ---- devices ---- */

int rp_cpu_list(unsigned char *set, const char *list)
{
    while (*list) {
        char *end;
        if (*list < '0' || *list > '9')
            return -1;
        const long first = strtol(list, &end, 10);
        long last = first;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            last = strtol(end + 1, &end, 10);
        if (last < first || last >= RP_CPUS_MAX || (*end && *end != ','))
            return -1;
        for (long i = first; i <= last; i++)
            set[i] = 1;
        list = *end ? end + 1 : end;
    }
    return 0;
}

int rp_run_processors(const struct rp_run *r, int node, int most)
{
    RP_FREE unsigned char *set = rp_alloc(RP_CPUS_MAX);
    int n = 0;
    for (int64_t i = 0; i < r->facts->rank_n; i++) {
        const struct rp_rank_facts *one = &r->facts->rank[i];
        if (one->node == node && rp_rank_on_cpu(r->facts, i) && (!one->cpus || rp_cpu_list(set, one->cpus) < 0))
            return most;
    }
    for (int k = 0; k < RP_CPUS_MAX; k++)
        n += set[k];
    return n && n < most ? n : most;
}

static int64_t threads_of(const struct rp_run *r)
{
    RP_FREE int64_t *of = rp_alloc((size_t)r->nodes * sizeof *of);
    int64_t all = 0;
    for (int64_t i = 0; i < r->facts->rank_n; i++) {
        const struct rp_device_facts *d = r->facts->rank[i].device;
        of[r->facts->rank[i].node] += d && d->threads > 0 ? d->threads : 1;
    }
    for (int i = 0; i < r->nodes; i++) {
        double here;
        const int known = rp_known_number(rp_run_capture(r, i, 0), "probes.cpu.threads", &here) == 0 && here >= 1;
        const int64_t most = rp_run_processors(r, i, known && here < INT_MAX ? (int)here : INT_MAX);
        all += of[i] > most ? most : of[i];
    }
    return all;
}

/* GPUs: ranks, unless the addresses show that several have one. Instances of a GPU
 * that is divided share its address. */
static int64_t gpus_of(const struct rp_run *r)
{
    const int64_t ranks = r->facts->rank_n;
    RP_FREE char **place = rp_alloc((size_t)ranks * sizeof *place);
    int64_t n = 0, distinct = 0;
    for (; n < ranks; n++) {
        const struct rp_device_facts *d = r->facts->rank[n].device;
        if (!d || !d->pci_address || strstr(d->name, " MIG "))
            break;
        place[n] = rp_asprintf("%" PRId64 " %s", r->facts->rank[n].node, d->pci_address);
    }
    if (n == ranks)
        rp_sort_text((const char **)place, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        distinct += i == 0 || strcmp(place[i], place[i - 1]) != 0;
    for (int64_t i = 0; i < n; i++)
        free(place[i]);
    return n == ranks && n > 0 ? distinct : ranks;
}

int64_t rp_run_devices(const struct rp_run *r)
{
    return strcmp(r->facts->backend, "cpu") == 0 ? threads_of(r) : gpus_of(r);
}

/* The name of the devices of ranks on processors, or of the others; several: with " and others". */
static void name_devices(char *out, size_t size, const struct rp_facts *f, int on_cpu)
{
    const char *first = NULL;
    int others = 0;
    for (int64_t i = 0; i < f->rank_n; i++) {
        const struct rp_device_facts *d = f->rank[i].device;
        if (!d || !*d->name || rp_rank_on_cpu(f, i) != on_cpu)
            continue;
        first = first ? first : d->name;
        others |= strcmp(first, d->name) != 0;
    }
    snprintf(out, size, "%.60s%s",
             first    ? first
             : on_cpu ? "unknown processors"
                      : "unknown GPUs",
             others ? " and others" : "");
}

const char *rp_run_devices_text(char out[RP_PLACE_TEXT], const struct rp_run *r)
{
    const struct rp_facts *f = r->facts;
    char text[RP_PLACE_TEXT], gpus[80], processors[80];
    int64_t on_cpu = 0;
    for (int64_t i = 0; i < f->rank_n; i++)
        on_cpu += rp_rank_on_cpu(f, i);
    const int64_t devices = rp_run_devices(r), on_gpu = f->rank_n - on_cpu;
    name_devices(gpus, sizeof gpus, f, 0);
    name_devices(processors, sizeof processors, f, 1);
    if (!on_gpu)
        RP_FORMAT(text, "%" PRId64 " thread%s of %s", devices, rp_s(devices), processors);
    else if (!on_cpu)
        RP_FORMAT(text, "%" PRId64 " x %s", devices, gpus);
    else
        RP_FORMAT(text, "%" PRId64 " on %s, %" PRId64 " on %s", on_gpu, gpus, on_cpu, processors);
    return rp_ascii(out, RP_PLACE_TEXT, text);
}

const char *rp_run_place_text(char out[RP_PLACE_TEXT], const struct rp_run *r)
{
    char devices[RP_PLACE_TEXT];
    snprintf(out, RP_PLACE_TEXT, "%" PRId64 " rank%s on %d node%s: %s", r->facts->rank_n, rp_s(r->facts->rank_n),
             r->nodes, rp_s(r->nodes), rp_run_devices_text(devices, r));
    return out;
}

const char *rp_run_machine_text(char out[RP_PLACE_TEXT], const struct rp_run *r)
{
    const json_t *before = rp_run_capture(r, 0, 0);
    const char *gpu = rp_known_text(before, "probes.gpu.devices.gpu0.name"),
               *cpu = rp_known_text(before, "probes.cpu.model_name");
    char text[RP_PLACE_TEXT], gpus[96] = "";
    double n, threads;
    if (gpu && rp_known_number(before, "probes.gpu.count", &n) == 0)
        RP_FORMAT(gpus, "%.0f x %.60s, ", n, gpu);
    if (rp_known_number(before, "probes.cpu.threads", &threads) < 0)
        RP_FORMAT(text, "%s%.60s", gpus, cpu ? cpu : "unknown processors");
    else
        RP_FORMAT(text, "%s%.0f thread%s of %.60s", gpus, threads, threads == 1 ? "" : "s",
                  cpu ? cpu : "unknown processors");
    return rp_ascii(out, RP_PLACE_TEXT, text);
}

int64_t rp_facts_threads(const struct rp_facts *f)
{
    int64_t all = 0;
    for (int64_t i = 0; i < f->rank_n; i++)
        all += f->rank[i].device && f->rank[i].device->threads > 0 ? f->rank[i].device->threads : 0;
    return all;
}

const char *rp_facts_isa(const struct rp_facts *f)
{
    const char *isa = NULL;
    for (int64_t i = 0; i < f->rank_n; i++) {
        const char *own = f->rank[i].device ? f->rank[i].device->isa : NULL;
        if (isa && own && strcmp(isa, own) != 0)
            return "mixed";
        isa = own ? own : isa;
    }
    return isa;
}

int rp_rank_device(struct rp_device_info *out, const struct rp_facts *f, int64_t rank)
{
    const struct rp_device_facts *d = f->rank[rank].device;
    *out = (struct rp_device_info){0};
    if (!d)
        return -1;
    RP_FORMAT(out->kind, "%s", d->kind);
    RP_FORMAT(out->name, "%s", d->name);
    RP_FORMAT(out->isa, "%s", d->isa ? d->isa : "");
    RP_FORMAT(out->pci_address, "%s", d->pci_address ? d->pci_address : "");
    out->threads = d->threads > 0 ? (int)d->threads : 0;
    out->index = d->index > 0 ? (int)d->index : 0;
    (void)!sscanf(d->compute_capability ? d->compute_capability : "", "%d.%d", &out->major, &out->minor);
    return 0;
}

const char *rp_rank_device_text(char text[RP_DEVICE_TEXT], const struct rp_facts *f, int64_t rank)
{
    struct rp_device_info d;
    RP_JSON *j = rp_rank_device(&d, f, rank) == 0 ? rp_device_json(&d) : NULL;
    return rp_device_text(text, j);
}

/* ---- settings, steps, time ---- */

int rp_facts_complete(const struct rp_facts *f)
{
    return strcmp(f->status, "complete") == 0;
}

const json_t *rp_facts_setting(const struct rp_facts *f, const char *key)
{
    return rp_recorded(json_object_get(f->recipe, key)).value;
}

const char *rp_facts_origin(const struct rp_facts *f, const char *key)
{
    return rp_recorded(json_object_get(f->recipe, key)).origin;
}

int64_t rp_facts_parallel(const struct rp_facts *f)
{
    static const char *const keys[] = {"parallel.data", "parallel.tensor", "parallel.pipeline"};
    int64_t product = 1; /* each is at most 1024 */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t degree = json_integer_value(rp_facts_setting(f, keys[i]));
        product *= degree > 1 && degree <= 1024 ? degree : 1;
    }
    return product;
}

int64_t rp_figures_steps(const struct rp_figures *f)
{
    return f->results.steps.warm_up + f->results.steps.timed;
}

double rp_figures_tokens(const struct rp_figures *f)
{
    const struct rp_results *r = &f->results;
    return r->counters_n == 1 && strcmp(r->counters[0].name, "tokens") == 0 && !isnan(r->counters[0].per_s)
               ? r->counters[0].per_s
               : 0;
}

void rp_run_window(const struct rp_run *r, int64_t *from, int64_t *to)
{
    *from = *to = -1;
    for (int64_t i = 0; i < r->records.n; i++)
        if (r->records.r[i].timed) {
            *from = *from < 0 ? r->records.r[i].start_ns : *from;
            *to = r->records.r[i].end_ns;
        }
}

const char *rp_setting_changed_by(const char *key, const json_t *entry)
{
    static const char *const free_of[] = {"run.", "measure.", "evidence."};
    const char *origin = rp_recorded(entry).origin;
    for (size_t i = 0; i < sizeof free_of / sizeof *free_of; i++)
        if (strncmp(key, free_of[i], strlen(free_of[i])) == 0 && strcmp(key, "run.init") != 0)
            return NULL;
    if (strcmp(origin, rp_origin_name(RP_FROM_CONFIG)) == 0)
        return "a model.config";
    return strcmp(origin, rp_origin_name(RP_FROM_COMMAND_LINE)) == 0 ? "the command line" : NULL;
}

const char *rp_facts_changed_setting(const struct rp_facts *f, const char **by)
{
    const char *key;
    json_t *entry;
    json_object_foreach(f->recipe, key, entry)
        if ((*by = rp_setting_changed_by(key, entry)))
            return key;
    return NULL;
}

int rp_facts_same_build(const struct rp_facts *f)
{
    const struct rp_build *here = rp_build_record();
    return strcmp(here->dirty, "clean") == 0 && strcmp(f->tool.dirty, "clean") == 0 &&
           strcmp(f->tool.commit, here->commit) == 0;
}

int64_t rp_facts_ledger_gap(const struct rp_facts *f)
{
    const struct rp_ledger_facts *l = &f->ledger;
    const int64_t made = l->key_made ? rp_rfc3339_seconds(l->key_made) : -1,
                  begun = l->begun ? rp_rfc3339_seconds(l->begun) : -1;
    return made < 0 || begun < 0 || begun - made < DAY_S ? 0 : (begun - made) / DAY_S;
}

double rp_wall_time(const char *time)
{
    const int64_t s = rp_rfc3339_seconds(time);
    return s < 0 ? NAN : (double)s;
}

double rp_captured_at(const json_t *capture)
{
    RP_READ(capture_document, head, capture);
    return rp_wall_time(rp_text_or_empty(head.captured_at));
}

/* ---- arithmetic ---- */

/* RP_NUMERICS_COUNT: this program does not know it. */
static int find_numerics(const char *name)
{
    int n = 0;
    while (n < RP_NUMERICS_COUNT && strcmp(rp_numerics_name((enum rp_numerics)n), name) != 0)
        n++;
    return n;
}

const char *rp_numerics_what(const char *name)
{
    static const char *const what[RP_NUMERICS_COUNT + 1] = {
#define NUMERICS(id, name, storage, sums, replayable, what) what,
#include "ops/numerics.def"
#undef NUMERICS
        ""};
    return what[find_numerics(name)];
}

static void add_scaling(char out[RP_PRECISION_TEXT], const struct rp_results *r)
{
    const struct rp_loss_scaling *is = r->loss_scaling;
    size_t n = strlen(out);
    n += (size_t)snprintf(out + n, RP_PRECISION_TEXT - n, ", loss scale %.17g", (double)is->initial);
    if (is->final < is->initial || is->final > is->initial)
        n += (size_t)snprintf(out + n, RP_PRECISION_TEXT - n, " to %.17g", (double)is->final);
    if (is->skipped)
        n += (size_t)snprintf(out + n, RP_PRECISION_TEXT - n, ", %" PRId64 " step%s skipped", is->skipped,
                              rp_s(is->skipped));
    if (is->skipped_timed)
        snprintf(out + n, RP_PRECISION_TEXT - n, " (%" PRId64 " of %" PRId64 " timed ones)", is->skipped_timed,
                 r->steps.timed);
}

const char *rp_figures_precision(char out[RP_PRECISION_TEXT], const struct rp_figures *f)
{
    const int n = f->numerics ? find_numerics(f->numerics) : RP_NUMERICS_fp32_1;
    const struct rp_arithmetic *is = n < RP_NUMERICS_COUNT ? rp_arithmetic_of((enum rp_numerics)n) : NULL;
    *out = 0;
    if (is && is->storage == RP_F32)
        return out;
    if (is)
        snprintf(out, RP_PRECISION_TEXT, "%s, tc%d", is->storage == RP_F16 ? "fp16" : "bf16", is->tc.products);
    else
        snprintf(out, RP_PRECISION_TEXT, "%.31s", f->numerics);
    if (f->results.loss_scaling)
        add_scaling(out, &f->results);
    return out;
}

const char *rp_tensor_cores_text(char out[RP_TENSOR_CORES_TEXT], const struct rp_facts *f,
                                 const struct rp_figures *figures)
{
    int64_t all = 0, proved = 0;
    for (int64_t i = 0; i < f->rank_n; i++) {
        const struct rp_tensor_core_facts *is = f->rank[i].device ? f->rank[i].device->tensor_core : NULL;
        all += is != NULL;
        proved += is && strcmp(is->outcome, "proved") == 0;
    }
    *out = 0;
    if (all && proved == all)
        snprintf(out, RP_TENSOR_CORES_TEXT, "tensor cores tested before the run: the sums of %.31s", figures->numerics);
    else if (all)
        snprintf(out, RP_TENSOR_CORES_TEXT, "tensor cores not tested before the run on %" PRId64 " of %" PRId64 " GPUs",
                 all - proved, all);
    return out;
}
