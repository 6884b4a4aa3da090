/* Physical limits: peak speed, power, and explanations of slow steps. */
#include "base/isa.h"
#include "base/sort.h"
#include "base/text.h"
#include "capture/value.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the highest of any processor sold: a bound always, and the only one if no clock was captured */
#define CPU_CLOCK 6.2e9
#define GPU_CLOCK 4e9 /* likewise of GPUs, with their multiprocessors */
#define GPU_SMS 512
#define CPU_FAVOURED 1.15 /* some cores may be faster than the one whose highest clock is captured */
/* highest clock by base clock, at most: 3.9 by 1.9 GHz of a Xeon Platinum 8592+ is 2.05 (Intel's data sheet) */
#define CPU_TURBO 2.2
#define THREADS_MAX 4096  /* of run.threads; used if neither device nor capture has a number */
#define DATA_SHEET 1.02   /* data sheets are rounded */
#define POWER_OVER 1.1    /* a limit holds for the mean over some time */
/* Both limits must be exceeded. Steps of a quiet machine are within a few percent: longer by half is worth a look. Ten
 * median absolute deviations are 6.7 standard deviations of a normal distribution, so that a noisy machine whose steps
 * vary by that much anyway has none. */
#define OUTLIER_TIMES 1.5
#define OUTLIER_DEVIATIONS 10
#define OUTLIER_STEPS 5 /* fewer have no outliers: their median deviation is too uncertain */

/* ---- peak ---- */

static const struct peak {
    const char *name;
    double sms, units, tensor, mhz, gb_per_s;
    const char *source;
} peaks[] = {
#define PEAK(name, sms, units, tensor, mhz, gb_per_s, source) {name, sms, units, tensor, mhz, gb_per_s, source},
#include "verify/physics/peaks.def"
#undef PEAK
};

struct bound {
    double flops, bytes; /* per second; 0: not known */
    char what[160];      /* "NVIDIA H100 PCIe: ...", or why flops is not known */
    int assumed;         /* no clock was captured */
    const char *peak;    /* whose FLOP/s: "peak", "tensor-core peak" */
};

static const struct peak *find_peak(const char *name)
{
    const struct peak *best = NULL;
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        size_t n = strlen(peaks[i].name);
        int is = strncmp(name, peaks[i].name, n) == 0 && strchr(" -", name[n]); /* a whole word: an L40 is not an L4 */
        if (is && (!best || n > strlen(best->name)))
            best = &peaks[i];
    }
    return best;
}

/* fp32 units of a multiprocessor by compute capability; the highest number if it is unknown. */
static double units_of(const char *capability)
{
    static const char *const half[] = {"6.0", "7.0", "7.2", "7.5", "8.0"};
    for (size_t i = 0; capability && i < sizeof half / sizeof *half; i++)
        if (strcmp(capability, half[i]) == 0)
            return 64;
    return 128;
}

/* FLOP of the tensor cores of a multiprocessor in a cycle by compute capability; the highest number if it is
 * unknown. */
static double tensor_of(const char *capability)
{
    static const struct {
        const char *capability;
        double flop;
    } known[] = {{"6.0", 0},    {"6.1", 0},    {"7.0", 1024}, {"7.2", 1024}, {"7.5", 1024}, {"8.0", 2048},
                 {"8.6", 1024}, {"8.7", 2048}, {"8.9", 1024}, {"9.0", 4096}, {"12.0", 1024}, {"12.1", 1024}};
    for (size_t i = 0; capability && i < sizeof known / sizeof *known; i++)
        if (strcmp(capability, known[i].capability) == 0)
            return known[i].flop;
    return 8192;
}

/* FLOP that a multiprocessor does in a cycle, in the arithmetic of the run: with its tensor cores in mixed
 * precision. */
static double flop_in_a_cycle(const struct rp_verify_state *s, double units, double tensor)
{
    return rp_is_mixed(rp_recipe_numerics(&s->run.recipe)) ? fmax(2 * units, tensor) : 2 * units;
}

static const char *peak_name(const struct rp_verify_state *s, double units, double tensor)
{
    return flop_in_a_cycle(s, units, tensor) > 2 * units ? "tensor-core peak" : "peak";
}

/* A rank: its device, NULL where it did not report one, and the captures of its node. */
struct place {
    const struct rp_device_facts *device;
    const json_t *before, *after;
};

static int node_of(const struct rp_verify_state *s, int rank)
{
    return (int)s->run.facts->rank[rank].node;
}

static struct place place_of(const struct rp_verify_state *s, int rank)
{
    const int node = node_of(s, rank);
    return (struct place){s->run.facts->rank[rank].device, rp_run_capture(&s->run, node, 0),
                          rp_run_capture(&s->run, node, 1)};
}

/* The fastest captured GPU of that name: which of several trained is not recorded. */
static void bound_by_capture(struct bound *out, const struct rp_verify_state *s, const struct place *p,
                             const char *name)
{
    const char *number;
    json_t *gpu;
    json_object_foreach((json_t *)rp_group(p->before, "probes.gpu.devices"), number, gpu)
    {
        double sms, hz;
        if (!rp_known_is(gpu, "name", name) || rp_known_number(gpu, "sm_count", &sms) < 0 ||
            rp_known_number(gpu, "clock_sm_max", &hz) < 0 || sms > GPU_SMS || hz > GPU_CLOCK)
            continue;
        const char *capability = rp_known_text(gpu, "compute_capability");
        double flops = sms * flop_in_a_cycle(s, units_of(capability), tensor_of(capability)) * hz;
        out->flops = flops > out->flops ? flops : out->flops;
        snprintf(out->what, sizeof out->what, "%.64s with %.0f multiprocessors at %.0f MHz, as captured", name, sms,
                 hz / 1e6);
        out->peak = peak_name(s, units_of(capability), tensor_of(capability));
    }
}

static void gpu_bound(struct bound *out, const struct rp_verify_state *s, const struct place *p)
{
    const char *name = p->device ? p->device->name : "";
    const struct peak *known = *name ? find_peak(name) : NULL;
    if (known) {
        out->flops = known->sms * flop_in_a_cycle(s, known->units, known->tensor) * known->mhz * 1e6 * DATA_SHEET;
        out->bytes = known->gb_per_s * 1e9 * DATA_SHEET;
        snprintf(out->what, sizeof out->what, "%.64s (%.80s)", known->name, known->source);
        out->peak = peak_name(s, known->units, known->tensor);
    } else if (*name)
        bound_by_capture(out, s, p, name);
    if (out->flops <= 0)
        snprintf(out->what, sizeof out->what, "the peak of '%.64s' is neither listed nor captured", name);
}

/* The clock of a virtual machine without a clock driver: that of the time stamp counter, the base clock of the
 * processor. Elsewhere /proc/cpuinfo has the clock of the moment, which says nothing about another. */
static double counter_clock(const json_t *capture)
{
    double least, most;
    if (strcmp(rp_state_at(capture, "probes.frequency.driver"), "absent") != 0 ||
        rp_known_number(capture, "probes.cpu.clock_min", &least) < 0 ||
        rp_known_number(capture, "probes.cpu.clock_max", &most) < 0)
        return 0;
    return least == most ? most * 1e6 : 0;
}

/* The highest clock that captured ones allow; 0: there is none, or none that a processor has. how: printed after it. */
static double highest_clock(const struct place *p, char how[64])
{
    double max, base;
    int listed = rp_known_number(p->before, "probes.frequency.hardware_max", &max) == 0;
    /* that driver's highest clock is the base */
    int without_boost = rp_known_is(p->before, "probes.frequency.driver", "acpi-cpufreq");
    if (listed && !without_boost && max >= 1e8 && max <= CPU_CLOCK) {
        snprintf(how, 64, ", %.2f times the captured maximum", CPU_FAVOURED);
        return fmin(max * CPU_FAVOURED, CPU_CLOCK);
    }
    if (rp_known_number(p->before, "probes.frequency.base", &base) < 0)
        base = listed && without_boost ? max : fmax(counter_clock(p->before), counter_clock(p->after));
    snprintf(how, 64, ", %.1f times the captured %.2f GHz", CPU_TURBO, base / 1e9);
    return base >= 1e8 && base <= CPU_CLOCK ? fmin(base * CPU_TURBO, CPU_CLOCK) : 0;
}

/* Threads of ranks on one processor, each with an instruction set of its own. */
struct cpu_ranks {
    double threads, flops, widest; /* of all; in a cycle, of all and of the widest thread */
    char isa[16];                  /* "mixed" */
    char unknown_isa[16];          /* one that has no row in base/isa.h: nothing is known about its speed */
    bool unknown;                  /* some have not reported their device */
};

static void add_cpu(struct cpu_ranks *of, const struct rp_device_facts *d)
{
    if (!d || strcmp(d->kind, "cpu") != 0 || !d->isa) {
        of->unknown = true;
        return;
    }
    const struct rp_isa_row *isa = rp_isa_find(d->isa);
    if (!isa) {
        RP_FORMAT(of->unknown_isa, "%.15s", d->isa);
        return;
    }
    const double threads = d->threads > 0 ? (double)d->threads : 0;
    RP_FORMAT(of->isa, "%.15s", !*of->isa || strcmp(of->isa, d->isa) == 0 ? d->isa : "mixed");
    of->threads += threads;
    of->flops += threads * isa->flops;
    of->widest = fmax(of->widest, isa->flops);
}

/* The threads that compute at once, on the processors that its node has. */
static void cpu_bound(struct bound *out, const struct rp_verify_state *s, int node, const struct place *p,
                      const struct cpu_ranks *of)
{
    double here;
    char how[64];
    if (*of->unknown_isa) {
        snprintf(out->what, sizeof out->what, "unknown instruction set '%s': its peak is not known here",
                 of->unknown_isa);
        return;
    }
    if (rp_known_number(p->before, "probes.cpu.threads", &here) < 0 || here < 1 || here > THREADS_MAX)
        here = THREADS_MAX;
    here = rp_run_processors(&s->run, node, (int)here);
    double hz = highest_clock(p, how);
    if (hz == 0) {
        hz = CPU_CLOCK;
        out->assumed = 1;
        snprintf(how, sizeof how, ", assumed: no plausible clock was captured");
    }
    const double threads = of->unknown ? here : fmin(of->threads, here);
    out->flops = (of->unknown ? here * rp_isa_most_flops() : fmin(of->flops, here * of->widest)) * hz;
    snprintf(out->what, sizeof out->what, "at most %.0f %s thread%s at %.2f GHz%s", threads,
             of->unknown ? "CPU" : of->isa, rp_s((int64_t)threads), hz / 1e9, how);
}

/* The bound of `rank` and, with `all`, of those that share its processors: a GPU is one rank's. */
static struct bound bound_of(const struct rp_verify_state *s, int rank, int all)
{
    struct bound b = {.peak = "peak"};
    struct cpu_ranks of = {0};
    const struct place p = place_of(s, rank);
    if (!rp_rank_on_cpu(s->run.facts, rank)) {
        gpu_bound(&b, s, &p);
        return b;
    }
    for (int i = 0; all && i < s->run.ranks.ranks; i++)
        if (node_of(s, i) == node_of(s, rank) && rp_rank_on_cpu(s->run.facts, i))
            add_cpu(&of, place_of(s, i).device);
    if (!all)
        add_cpu(&of, p.device);
    cpu_bound(&b, s, node_of(s, rank), &p, &of);
    return b;
}

/* A rank before this one has its GPU, or another part of it. */
static int is_shared(const struct rp_verify_state *s, int rank)
{
    const struct rp_rank_facts *ranks = s->run.facts->rank;
    const char *own = ranks[rank].device ? ranks[rank].device->pci_address : NULL;
    for (int i = 0; i < rank && own; i++) {
        const char *other = ranks[i].device ? ranks[i].device->pci_address : NULL;
        if (ranks[i].node == ranks[rank].node && other && strcmp(other, own) == 0)
            return 1;
    }
    return 0;
}

/* The sum over GPUs, and over the processors of every node; the first one that is not known, if there is one. */
static struct bound bound_of_all(const struct rp_verify_state *s)
{
    struct bound sum = bound_of(s, 0, 1);
    int node = rp_rank_on_cpu(s->run.facts, 0) ? node_of(s, 0) : -1;
    for (int i = 1; i < s->run.ranks.ranks && sum.flops > 0; i++) {
        const int on_cpu = rp_rank_on_cpu(s->run.facts, i);
        if (on_cpu ? node_of(s, i) <= node : is_shared(s, i)) /* nodes are numbered in the order of ranks */
            continue;
        node = on_cpu ? node_of(s, i) : node;
        const struct bound one = bound_of(s, i, 1);
        if (one.flops <= 0)
            return one;
        sum.flops += one.flops;
        sum.assumed |= one.assumed;
    }
    return sum;
}

/* The higher rate of a ceiling before and after the run; NaN: it has none. */
static double best_gemm(const struct rp_ceiling_figures *c)
{
    return c ? fmax(c->before ? c->before->gemm_flops_per_s : NAN, c->after ? c->after->gemm_flops_per_s : NAN) : NAN;
}

static double best_copy(const struct rp_ceiling_figures *c)
{
    return c ? fmax(c->before ? c->before->copy_bytes_per_s : NAN, c->after ? c->after->copy_bytes_per_s : NAN) : NAN;
}

int rp_check_peak(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_facts *f = s->run.facts;
    const struct bound all = bound_of_all(s),
                       b = bound_of(s, f->ceilings ? (int)f->ceilings->rank : s->run.ranks.slowest, 0);
    const double run = s->run.figures->results.flops_per_s, gemm = best_gemm(s->run.figures->ceilings),
                 copy = best_copy(s->run.figures->ceilings);
    char each[RP_WHO];
    rp_run_node_text(each, &s->run, "all nodes, ", 0, " with ");
    if (strcmp(rp_facts_kind(f), "cpu") != 0)
        rp_run_rank_text(each, &s->run, "all ranks, ", 0, " on ");
    if (all.flops > 0 && run > all.flops)
        return rp_fail(err, RP_MISMATCH, "%.4g FLOP/s exceed %.4g, the %s of %s%s", run, all.flops, all.peak, each,
                       all.what);
    if (b.flops > 0 && gemm > b.flops)
        return rp_fail(err, RP_MISMATCH, "the measured ceiling of %.4g FLOP/s exceeds %.4g, the %s of %s", gemm,
                       b.flops, b.peak, b.what);
    if (b.bytes > 0 && copy > b.bytes)
        return rp_fail(err, RP_MISMATCH, "the measured copies of %.4g bytes/s exceed %.4g, the peak of %s", copy,
                       b.bytes, b.what);
    if (isnan(run) && isnan(gemm))
        return rp_check_not_applicable(result, "no step was timed, and no ceiling measured");
    if (all.flops <= 0 || b.flops <= 0)
        return rp_check_note(result, "%s", all.flops <= 0 ? all.what : b.what);
    result->state = all.assumed || b.assumed ? RP_CHECK_NOTE : RP_CHECK_PASSED;
    if (isnan(run))
        return rp_check_text(result, "no step was timed; the ceiling is %.1f %% of the %s of %s", 100 * gemm / b.flops,
                             b.peak, b.what);
    return rp_check_text(result, "%.1f %% of the %s of %s%s", 100 * run / all.flops, all.peak, each, all.what);
}

/* ---- energy ---- */

/* The highest limit of a captured GPU of the rank's node; 0: unknown. */
static double power_limit(const struct rp_verify_state *s, int rank)
{
    const char *number;
    json_t *gpu;
    double most = 0, w;
    const json_t *capture = rp_run_capture(&s->run, node_of(s, rank), 0);
    json_object_foreach((json_t *)rp_group(capture, "probes.gpu.devices"), number, gpu)
        if (rp_known_number(gpu, "power_limit_enforced", &w) == 0 && w > most)
            most = w;
    return most;
}

int rp_check_energy(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_figures *f = s->run.figures;
    char who[RP_WHO];
    double mean = 0;
    for (int i = 0; i < s->run.ranks.ranks; i++) {
        const struct rp_telemetry_figures *t = f->rank[i].telemetry;
        const double own = t && t->power_w ? t->power_w->mean : 0, limit = power_limit(s, i);
        rp_run_rank_text(who, &s->run, " of ", i, "");
        if (limit > 0 && own > limit * POWER_OVER)
            return rp_fail(err, RP_MISMATCH, "mean power%s is %.1f W, but the limit of the device is %.1f W", who, own,
                           limit);
        mean = i == s->run.ranks.slowest ? own : mean;
    }
    rp_run_rank_text(who, &s->run, " of ", s->run.ranks.slowest, "");
    if (s->run.telemetry.n == 0 || !(mean > 0))
        return rp_check_not_applicable(result, "none: power%s was not sampled", who);
    if (!f->telemetry || isnan(f->telemetry->energy_j))
        return rp_check_note(result, "unknown: not every device was sampled");
    result->state = *s->power_doubt ? RP_CHECK_WARNING : RP_CHECK_PASSED;
    return rp_check_text(result, "%.4g J; mean power%s %.4g W by integration, %.4g W by device samples%s%s",
                         f->telemetry->energy_j, who, s->power.integrated, mean, *s->power_doubt ? "; " : "",
                         s->power_doubt);
}

/* ---- outliers ---- */

/* Nanoseconds above which a timed step is an outlier; 0: too few steps. */
static double outlier_limit(const struct rp_records *rs)
{
    int64_t n = 0;
    RP_FREE double *v = rp_alloc((size_t)(rs->n + 1) * sizeof *v);
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].timed)
            v[n++] = (double)(rs->r[i].end_ns - rs->r[i].start_ns);
    if (n < OUTLIER_STEPS)
        return 0;
    double middle = rp_median(v, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        v[i] = fabs(v[i] - middle);
    double deviations = middle + OUTLIER_DEVIATIONS * rp_median(v, (size_t)n);
    return deviations > OUTLIER_TIMES * middle ? deviations : OUTLIER_TIMES * middle;
}

/* A sample during the step, or the next one, has a throttle reason. *at: the sample to begin with, for the next
 * step. */
static int is_explained(const struct rp_verify_state *s, const struct rp_step_record *r, int64_t *at)
{
    while (*at < s->run.telemetry.n && s->run.telemetry.sample[*at].ns < r->start_ns)
        ++*at;
    for (int64_t i = *at; i < s->run.telemetry.n; i++) {
        const struct rp_device_sample *one = &s->run.telemetry.sample[i];
        for (int64_t k = 0; k < one->throttle_n; k++)
            if (!rp_throttle_is_harmless(one->throttle[k]))
                return 1;
        if (one->ns > r->end_ns)
            break;
    }
    return 0;
}

int rp_check_outliers(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_step_record *worst = NULL;
    double limit = outlier_limit(&s->run.records);
    int64_t found = 0, known = 0, at = 0;
    for (int64_t i = 0; i < s->run.records.n && limit > 0; i++) {
        const struct rp_step_record *r = &s->run.records.r[i];
        if (!r->timed || (double)(r->end_ns - r->start_ns) <= limit)
            continue;
        found++;
        known += is_explained(s, r, &at);
        if (!worst || r->end_ns - r->start_ns > worst->end_ns - worst->start_ns)
            worst = r;
    }
    double longest = worst ? (double)(worst->end_ns - worst->start_ns) / 1e9 : 0;
    if (limit <= 0)
        return rp_check_not_applicable(result, "too few timed steps to judge: at least %d are needed", OUTLIER_STEPS);
    if (!found)
        return rp_check_text(result, "none: no timed step took more than %.4g s", limit / 1e9);
    if (known < found)
        return rp_fail(err, RP_MISMATCH,
                       "%" PRId64 " timed step%s took more than %.4g s, %" PRId64
                       " of them without throttling; step %d took %.4g s",
                       found, rp_s(found), limit / 1e9, found - known, worst->step, longest);
    return rp_check_note(
        result, "%" PRId64 " timed step%s took more than %.4g s while the device was throttled; step %d took %.4g s",
        found, rp_s(found), limit / 1e9, worst->step, longest);
}
