/* Tables of a run: one function each. */
#include "report/tables.h"

#include "backend/backend.h"
#include "base/json.h"
#include "capture/env_diff.h"
#include "model/model.h"
#include "recipe/recipe.h"
#include "report/figure.h"
#include "report/words.h"
#include "run/run.h"
#include "run/telemetry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHANGES_MAX 200 /* rows: nodes that differ in something differ in much */

static int on_page(const struct rp_doc *d)
{
    return d->as == RP_FILL_HTML;
}

static void add_table(struct rp_doc *d, const char *caption, const char *columns)
{
    if (on_page(d))
        rp_doc_title(d, "%s", caption);
    rp_doc_table(d, columns);
}

/* A row of a name and a figure with its unit; none where nothing is known. */
static void add_row(struct rp_doc *d, const json_t *run, const char *name, const char *pointer, const char *form,
                    const char *unit)
{
    RP_BUF value = {0};
    if (rp_form(&value, rp_pointer(run, pointer), form) < 0)
        return;
    RP_FREE char *after = rp_asprintf("%s%s", *unit ? " " : "", unit);
    rp_doc_cell(d, "%s", name);
    rp_doc_figure(d, run, pointer, form, after);
}

/* ---- steps ---- */

int rp_table_has_steps_for(const struct rp_figures *f, const char *pointer)
{
    return f->results.steps.timed >= (strstr(pointer, "/p99")   ? RP_P99_STEPS
                                      : strstr(pointer, "/p90") ? RP_P90_STEPS
                                                                : 0);
}

void rp_table_windows(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    const struct rp_results *results = &r->figures.results;
    if (results->windows_n < 2)
        return;
    add_table(d, "Timed windows", "#repeat|#steps|#samples|#seconds");
    rp_doc_column(d, 1, "%.40s", results->throughput.unit);
    for (int64_t i = 0; i < results->windows_n; i++) {
        static const char *const cells[] = {"repeat d0", "steps d0", "samples d0", "seconds d3", "throughput d3"};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/results/windows/%lld/%s}", (long long)i, cells[k]);
    }
}

/* "NCCL 2.20.5"; "shared memory 3, TLS 4 (1 on its host), refused 1": ranks that it is connected to by each. */
static void add_connections(struct rp_doc *d, const json_t *run, long long rank)
{
#define IS "/rank/%1$lld/exchange/connections"
    rp_doc_fill(d, run,
                "[!" IS ":-][" IS "/nccl:NCCL {" IS "/nccl t}][" IS "/shared_memory:shared memory {" IS
                "/shared_memory d0}][" IS "/tls:[" IS "/shared_memory:, ]TLS {" IS "/tls d0}][" IS "/tls_on_host: ({" IS
                "/tls_on_host d0} on its host)][" IS "/refused:, refused {" IS "/refused d0}]",
                rank);
#undef IS
}

void rp_table_ranks(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    static const char *const cells[] = {"node d0",       "samples_per_step d0", "timed_s d3",
                                        "exchange_s d3", "wait_s d3",           "exchange/bytes_per_step d1*1e-6"};
    const long long n = r->facts.rank_n;
    if (n < 2)
        return;
    add_table(d, "Ranks",
              "#rank|#node|#samples a step|#timed steps, s|#in exchanges, s|#of that waiting, s|#MB sent a step|"
              "connected to ranks");
    for (long long i = 0; i < n; i++) {
        rp_doc_cell(d, "%lld", i);
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/rank/%lld/%s}", i, cells[k]);
        add_connections(d, run, i);
    }
}

static int has_rank_of(const struct rp_facts *f, const char *kind)
{
    for (int64_t i = 0; i < f->rank_n; i++)
        if (strcmp(rp_rank_kind(f, i), kind) == 0)
            return 1;
    return 0;
}

void rp_table_places(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    static const struct {
        const char *title, *cell, *kind; /* kind: of the ranks that have it; NULL: all */
    } columns[] = {{"node", "node d0", NULL},
                   {"device", "device/name t", NULL},
                   {"index", "device/index d0", "cuda"},
                   {"PCI address", "device/pci_address t", "cuda"},
                   {"instruction set", "device/isa t", "cpu"},
                   {"threads", "device/threads d0", "cpu"},
                   {"processors", "cpus t", NULL},
                   {"device memory, MiB", "device_bytes/reserved d1/1048576", "cuda"},
                   {"peak memory, MiB", "peak_rss_bytes d1/1048576", NULL}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    int has[COLUMNS];
    const struct rp_facts *f = &r->facts;
    if (f->rank_n < 2)
        return;
    add_table(d, "Where the ranks ran", "#rank");
    for (size_t k = 0; k < COLUMNS; k++)
        if ((has[k] = !columns[k].kind || has_rank_of(f, columns[k].kind)))
            rp_doc_column(d, strstr(columns[k].cell, " d") != NULL, "%s", columns[k].title);
    for (long long i = 0; i < f->rank_n; i++) {
        rp_doc_cell(d, "%lld", i);
        for (size_t k = 0; k < COLUMNS; k++)
            if (has[k] && columns[k].kind && strcmp(rp_rank_kind(f, i), columns[k].kind) != 0)
                rp_doc_cell(d, "-");
            else if (has[k])
                rp_doc_fill(d, run, "{/rank/%lld/%s}", i, columns[k].cell);
    }
    rp_doc_line(d, "Network adapters of a node are in its capture, env/nodeN.before.json.");
}

/* ---- figures ---- */

/* What the model counts: how many a second, and their share of another counter. */
static void add_counters(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    for (long long i = 0; i < r->figures.results.counters_n; i++) {
        const struct rp_counter_figures *c = &r->figures.results.counters[i];
        RP_FREE char *rate = rp_asprintf("/results/counters/%lld/per_s", i),
                     *share = rp_asprintf("/results/counters/%lld/share", i);
        char text[160];
        add_row(d, run, c->name, rate, "d1", RP_FORMAT(text, "%.60s/s", c->name));
        if (c->of)
            add_row(d, run, RP_FORMAT(text, "%.60s, share of %.60s", c->name, c->of), share, "d2*100", "%");
    }
}

/* Units that are scaled for people. */
static const struct {
    const char *unit, *form, *shown;
} units[] = {
    {"s", "d4", "s"},
    {"B", "d1/1048576", "MiB"},
    {"B/s", "d3*1e-9", "GB/s"},
    {"FLOP", "d3*1e-9", "GFLOP"},
    {"FLOP/s", "d2*1e-9", "GFLOP/s"},
};

static void add_field(struct rp_doc *d, const json_t *run, const struct rp_object_field *f, const char *pointer)
{
    const char *form = "t", *unit = f->unit;
    if (f->type == RP_IS_COUNT || f->type == RP_IS_INTEGER)
        form = "d0";
    else if (f->type == RP_IS_FLOAT)
        form = "h";
    else if (f->type == RP_IS_INTERVAL)
        form = "i";
    else if (f->type == RP_IS_NUMBER || f->type == RP_IS_SIGNED)
        form = *f->unit ? "d3" : "d2*100", unit = *f->unit ? f->unit : "%";
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(f->unit, units[i].unit) == 0)
            form = units[i].form, unit = units[i].shown;
    add_row(d, run, f->label, pointer, form, unit);
}

/* Every value with a label, in the order of its list; at: pointer to the object. Lists are tables of their own. */
static void add_labelled(struct rp_doc *d, struct rp_run_documents *r, const struct rp_object_type *type,
                         const char *at)
{
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        RP_FREE char *pointer = rp_asprintf("%s/%s", at, f->name);
        if (f->type == RP_IS_PART || f->type == RP_IS_PART_OR_NONE)
            add_labelled(d, r, f->of, pointer);
        else if (*f->label && rp_table_has_steps_for(&r->figures, pointer))
            add_field(d, rp_run_shown(r), f, pointer);
    }
}

/* How the FLOPs of a sample are counted, in the words of its model. */
static void add_formulas(struct rp_doc *d, const struct rp_figures *f)
{
    struct rp_err unknown;
    const int id = rp_model_parse(f->model.name, &unknown);
    if (id < 0)
        return;
    const struct rp_recipe of = {.workload = id};
    const struct rp_model *m = rp_model_of(&of);
    rp_doc_cell(d, "FLOPs per sample, formula");
    rp_doc_cell(d, "%s", m->flops_formula);
    if (!m->recompute_formula)
        return;
    rp_doc_cell(d, "hardware FLOPs per sample, formula");
    rp_doc_cell(d, "%s", m->recompute_formula);
}

void rp_table_figures(struct rp_doc *d, struct rp_run_documents *r)
{
    char device[RP_DEVICE_TEXT];
    add_table(d, "Figures of the run", on_page(d) ? "figure|value" : "|");
    add_labelled(d, r, &rp_type_figures, "");
    add_counters(d, r);
    add_formulas(d, &r->figures);
    rp_doc_cell(d, r->facts.rank_n > 1 ? "device of the slowest rank" : "device");
    rp_doc_cell(d, "%s", rp_rank_device_text(device, &r->facts, r->figures.world.slowest));
    add_labelled(d, r, &rp_type_facts, "");
}

/* ---- the device ---- */

void rp_table_telemetry(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    static const char *const columns[] = {"min", "median", "mean", "max"};
    add_table(d, r->command ? "The device while the command ran" : "The device within the timed windows",
              "value|#min|#median|#mean|#max|unit");
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++) {
        rp_doc_cell(d, "%s", v->words);
        for (size_t k = 0; k < 4; k++)
            rp_doc_fill(d, run, "{/telemetry/%s/%s %s}", v->name, columns[k], v->form);
        rp_doc_cell(d, "%s", v->unit);
    }
}

/* The share of the timed device samples that name a reason for throttling which is not harmless, at most: reasons
 * overlap. NaN: not known. */
static double throttled_share(const struct rp_telemetry_figures *t)
{
    double most = 0;
    if (!t->throttle_samples)
        return NAN;
    for (int64_t i = 0; i < t->throttle_n; i++)
        if (!rp_throttle_is_harmless(t->throttle[i].reason))
            most = fmax(most, t->throttle[i].share);
    return most;
}

#define DEVICE_COLUMNS                                                                                                 \
    "|#node|#device samples|#clock, median MHz|#power, mean W|#temperature, maximum C|#energy, J|#throttled, % of "    \
    "samples"

void rp_table_devices(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    static const char *const cells[] = {"timed d0", "clock_sm_hz/median d0*1e-6", "power_w/mean d1",
                                        "temperature_c/max d0", "energy_j d1"};
    const struct rp_command_facts *c = r->command;
    const long long n = c ? c->device_n : r->figures.rank_n;
    const char *of = c ? "device" : "rank";
    int begun = 0;
    for (long long i = 0; n > 1 && i < n; i++) {
        const struct rp_telemetry_figures *is = c ? r->observed->device[i].telemetry : r->figures.rank[i].telemetry;
        if (!is)
            continue;
        if (!begun++)
            add_table(d, c ? "Devices while the command ran" : "Devices of the ranks within the timed windows",
                      c ? "#device" DEVICE_COLUMNS : "#rank" DEVICE_COLUMNS);
        rp_doc_cell(d, "%lld", i);
        if (c)
            rp_doc_fill(d, run, "{/process/%lld/node d0}", (long long)c->device[i].process);
        else
            rp_doc_fill(d, run, "{/rank/%lld/node d0}", i);
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/%s/%lld/telemetry/%s}", of, i, cells[k]);
        const double share = throttled_share(is);
        if (isnan(share))
            rp_doc_cell(d, "-");
        else
            rp_doc_cell(d, "%.1f", 100 * share);
    }
}

int64_t rp_without_telemetry(const struct rp_facts *f)
{
    for (int64_t i = 0; i < f->rank_n; i++)
        if (f->rank[i].no_telemetry)
            return i;
    return -1;
}

static const char *const sides[] = {"before", "after"};

/* The ceilings "before" or "after"; NULL: not measured. */
static const struct rp_ceiling_rates *rates_of(const struct rp_run_documents *r, int side)
{
    const struct rp_ceiling_figures *c = r->figures.ceilings;
    return !c ? NULL : side ? c->after : c->before;
}

static int has_rate(const json_t *run, const char *rate)
{
    char path[80];
    for (int k = 0; k < 2; k++)
        if (json_is_number(rp_pointer(run, RP_FORMAT(path, "/ceilings/%s/%s", sides[k], rate))))
            return 1;
    return 0;
}

void rp_table_ceilings(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    static const struct {
        const char *name, *rate, *words;
    } rows[] = {
        {"GEMM", "gemm_flops_per_s", "GFLOP/s; " RP_WORDS_GEMM},
        {"copy in device memory", "copy_bytes_per_s", "GB/s; " RP_WORDS_COPY},
        {"copy from host memory", "host_to_device_bytes_per_s", "GB/s; " RP_WORDS_HOST_TO_DEVICE},
    };
    const char *shape =
        r->facts.ceilings && r->facts.ceilings->before ? "/ceilings/before/gemm" : "/ceilings/after/gemm";
    add_table(d, "Measured with the operations of the run, outside the timed windows",
              on_page(d) ? "operation|#before the run|#after the run|unit and formula"
                         : "|#before the run|#after the run|");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!has_rate(run, rows[i].rate))
            continue;
        if (i == 0)
            rp_doc_fill(d, run, "%s, {%s/m t}x{%s/n t}x{%s/k t}", rows[i].name, shape, shape, shape);
        else
            rp_doc_cell(d, "%s", rows[i].name);
        for (int k = 0; k < 2; k++)
            rp_doc_fill(d, run, "{/ceilings/%s/%s d2*1e-9}", sides[k], rows[i].rate);
        rp_doc_cell(d, "%s", rows[i].words);
    }
}

void rp_table_exchange(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    static const char *const cells[] = {"collective t", "bytes d2*1e-6", "bytes_per_s d3*1e-9",
                                        "bus_bytes_per_s d3*1e-9"};
    int begun = 0;
    for (int k = 0; k < 2; k++) {
        const struct rp_ceiling_rates *rates = rates_of(r, k);
        for (long long i = 0; rates && i < rates->exchange_n; i++) {
            if (!begun++)
                add_table(d, "Exchanges between all ranks, outside the timed windows",
                          "measured|collective|#MB|#GB/s, algorithm bandwidth|#GB/s, bus bandwidth");
            rp_doc_cell(d, "%s the run", sides[k]);
            for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
                rp_doc_fill(d, run, "{/ceilings/%s/exchange/%lld/%s}", sides[k], i, cells[c]);
        }
    }
}

/* ---- settings and machines ---- */

void rp_table_overrides(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    int n = 0, rows = 0;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++) {
        const char *origin = rp_facts_origin(&r->facts, k[i].name);
        if (strcmp(origin, "command line") != 0 && strcmp(origin, "backend section") != 0)
            continue;
        if (!rows++)
            add_table(d, "Settings that differ from the recipe", "key|value|set by");
        rp_doc_cell(d, "%s", k[i].name);
        rp_doc_fill(d, run, "{/recipe/%s/value t}", k[i].name);
        rp_doc_cell(d, "%s", origin);
    }
}

/* One side of a difference, at a pointer. */
static void add_side(struct rp_doc *d, const json_t *run, const char *at, const char *side)
{
    rp_doc_fill(d, run, "{%s/%s %s}", at, side, on_page(d) ? "u" : "r");
}

/* The changes of that impact on a node. */
static int64_t add_changes(struct rp_doc *d, struct rp_run_documents *r, int64_t node, const char *impact,
                           int64_t shown)
{
    const struct rp_node_figures *of = &r->figures.node[node];
    const int several = r->figures.node_n > 1;
    for (int64_t i = 0; i < of->change_n && shown < CHANGES_MAX; i++) {
        const struct rp_change *c = &of->change[i];
        RP_FREE char *at = rp_asprintf("/node/%lld/change/%lld", (long long)node, (long long)i);
        if (strcmp(c->impact, impact) != 0)
            continue;
        if (!shown++)
            add_table(d, "What changed during the run",
                      several ? "field|#node|impact|before|after" : "field|impact|before|after");
        rp_doc_text(d, c->field, "-");
        if (several)
            rp_doc_cell(d, "%lld", (long long)node);
        rp_doc_cell(d, "%s%s", impact, c->varies ? ", varies" : "");
        add_side(d, rp_run_shown(r), at, "before");
        add_side(d, rp_run_shown(r), at, "after");
    }
    return shown;
}

void rp_table_changes(struct rp_doc *d, struct rp_run_documents *r)
{
    static const char *const impacts[] = {"high", "medium", "low"};
    int64_t shown = 0, all = 0;
    for (int64_t i = 0; i < r->figures.node_n; i++)
        all += r->figures.node[i].change_n;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < r->figures.node_n; i++)
            shown = add_changes(d, r, i, impacts[k], shown);
    const char *rest = shown < CHANGES_MAX ? "; the others have no known effect on throughput"
                                           : ", those with the most effect on throughput first";
    rp_doc_line(d, "%lld of %lld values that differ between the captures before and after the run are listed%s.",
                (long long)shown, (long long)all, rest);
}

/* ---- a replication ---- */

void rp_table_agreement(struct rp_doc *d, struct rp_run_documents *r)
{
    const json_t *run = rp_run_shown(r);
    const struct rp_agreement *is = r->figures.agreement;
    add_table(d, "The two runs", "what|value");
    rp_doc_cell(d, "bits");
    rp_doc_fill(d, run,
                "{/agreement/bits/equal e}; {/agreement/bits/steps d0} steps and {/agreement/bits/roots d0} state "
                "roots compared");
    if (is->bits.first_difference) {
        rp_doc_cell(d, "first difference");
#define AT "/agreement/bits/first_difference/"
        rp_doc_fill(d, run,
                    "step {" AT "step d0}, {" AT "quantity t}: original {" AT "original t}, replication {" AT
                    "replication t}");
#undef AT
    }
    rp_doc_cell(d, "throughput, replication / original");
    rp_doc_fill(d, run,
                "{/agreement/throughput/replication d3} / {/agreement/throughput/original d3} = "
                "{/agreement/throughput/ratio d4}%s",
                isnan(is->throughput.interval[0])
                    ? ""
                    : ", 95 % interval {/agreement/throughput/interval/0 d4} to {/agreement/throughput/interval/1 d4}");
    rp_doc_cell(d, "unit");
    rp_doc_fill(d, run, "{/agreement/throughput/unit t}");
    rp_doc_cell(d, "method of the interval");
    rp_doc_cell(d, RP_WORDS_AGREEMENT);
    for (long long i = 0; i < is->settings_n; i++) {
        if (i == 0)
            add_table(d, "Settings that differ", "key|original|replication");
        rp_doc_text(d, is->settings[i].key, "-");
        rp_doc_fill(d, run, "{/agreement/settings/%lld/original t}", i);
        rp_doc_fill(d, run, "{/agreement/settings/%lld/replication t}", i);
    }
}

void rp_table_differences(struct rp_doc *d, struct rp_run_documents *r)
{
    const struct rp_agreement *is = r->figures.agreement;
    int shown = 0;
    for (int64_t i = 0; i < is->environment_n; i++) {
        const struct rp_capture_difference *one = &is->environment[i];
        RP_FREE char *at = rp_asprintf("/agreement/environment/%lld", (long long)i);
        if (!rp_change_matters(one->impact, one->varies))
            continue;
        if (!shown++)
            add_table(d, "Differences between the machines that probably affect throughput",
                      "field|impact|original|replication");
        rp_doc_text(d, one->field, "-");
        rp_doc_text(d, one->impact, "-");
        add_side(d, rp_run_shown(r), at, "original");
        add_side(d, rp_run_shown(r), at, "replication");
    }
    rp_doc_line(d, "%d of %lld values that differ between the two machines before the runs have high or medium impact.",
                shown, (long long)is->environment_n);
}
