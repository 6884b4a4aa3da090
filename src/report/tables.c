/* Tables of a run: one function each. */
#include "report/tables.h"

#include "backend/backend.h"
#include "base/json.h"
#include "model/model.h"
#include "recipe/recipe.h"
#include "report/figure.h"
#include "report/words.h"
#include "run/facts.h"
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
static void add_row(struct rp_doc *d, const json_t *run, const char *name, const char *pointer, const char *form, const char *unit)
{
    RP_BUF value = {0};
    if (rp_form(&value, rp_pointer(run, pointer), form) < 0)
        return;
    RP_FREE char *after = rp_asprintf("%s%s", *unit ? " " : "", unit);
    rp_doc_cell(d, "%s", name);
    rp_doc_figure(d, run, pointer, form, after);
}

static size_t ranks_of(const json_t *run)
{
    return json_array_size(json_object_get(run, "rank"));
}

/* ---- steps ---- */

int rp_table_has_steps_for(const json_t *run, const char *pointer)
{
    json_int_t timed = json_integer_value(rp_json_at(run, "results/steps/timed"));
    return timed >= (strstr(pointer, "/p99") ? RP_P99_STEPS : strstr(pointer, "/p90") ? RP_P90_STEPS : 0);
}

void rp_table_windows(struct rp_doc *d, const json_t *run)
{
    size_t n = json_array_size(rp_json_at(run, "results/windows"));
    if (n < 2)
        return;
    add_table(d, "Timed windows", "#repeat|#steps|#samples|#seconds");
    rp_doc_column(d, 1, "%.40s", rp_json_text_at(run, "results/throughput/unit"));
    for (size_t i = 0; i < n; i++) {
        static const char *const cells[] = {"repeat d0", "steps d0", "samples d0", "seconds d3", "throughput d3"};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/results/windows/%zu/%s}", i, cells[k]);
    }
}

/* "NCCL 2.20.5"; "shared memory 3, TLS 4 (1 on its host), refused 1": ranks that it is connected to by each. */
static void add_connections(struct rp_doc *d, const json_t *run, size_t rank)
{
#define IS "/rank/%1$zu/exchange/connections"
    rp_doc_fill(d, run,
                "[!" IS ":-][" IS "/nccl:NCCL {" IS "/nccl t}][" IS "/shared_memory:shared memory {" IS
                "/shared_memory d0}][" IS "/tls:[" IS "/shared_memory:, ]TLS {" IS "/tls d0}][" IS "/tls_on_host: ({" IS
                "/tls_on_host d0} on its host)][" IS "/refused:, refused {" IS "/refused d0}]",
                rank);
#undef IS
}

void rp_table_ranks(struct rp_doc *d, const json_t *run)
{
    static const char *const cells[] = {"node d0",       "samples_per_step d0", "timed_s d3",
                                        "exchange_s d3", "wait_s d3",           "exchange/bytes_per_step d1*1e-6"};
    const size_t n = ranks_of(run);
    if (n < 2)
        return;
    add_table(d, "Ranks",
              "#rank|#node|#samples a step|#timed steps, s|#in exchanges, s|#of that waiting, s|#MB sent a step|"
              "connected to ranks");
    for (size_t i = 0; i < n; i++) {
        rp_doc_cell(d, "%zu", i);
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/rank/%zu/%s}", i, cells[k]);
        add_connections(d, run, i);
    }
}

static const char *rank_kind(const json_t *run, size_t rank)
{
    const char *kind = rp_json_text_at(json_array_get(json_object_get(run, "rank"), rank), "device/kind");
    return *kind ? kind : rp_json_text_at(run, "backend");
}

static int has_rank_of(const json_t *run, const char *kind)
{
    for (size_t i = 0; i < ranks_of(run); i++)
        if (strcmp(rank_kind(run, i), kind) == 0)
            return 1;
    return 0;
}

void rp_table_places(struct rp_doc *d, const json_t *run)
{
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
    if (ranks_of(run) < 2)
        return;
    add_table(d, "Where the ranks ran", "#rank");
    for (size_t k = 0; k < COLUMNS; k++)
        if ((has[k] = !columns[k].kind || has_rank_of(run, columns[k].kind)))
            rp_doc_column(d, strstr(columns[k].cell, " d") != NULL, "%s", columns[k].title);
    for (size_t i = 0; i < ranks_of(run); i++) {
        rp_doc_cell(d, "%zu", i);
        for (size_t k = 0; k < COLUMNS; k++)
            if (has[k] && columns[k].kind && strcmp(rank_kind(run, i), columns[k].kind) != 0)
                rp_doc_cell(d, "-");
            else if (has[k])
                rp_doc_fill(d, run, "{/rank/%zu/%s}", i, columns[k].cell);
    }
    rp_doc_line(d, "Network adapters of a node are in its capture, env/nodeN.before.json.");
}

/* ---- figures ---- */

/* What the model counts: how many a second, and their share of another counter. */
static void add_counters(struct rp_doc *d, const json_t *run)
{
    size_t n = json_array_size(rp_json_at(run, "results/counters"));
    for (size_t i = 0; i < n; i++) {
        const json_t *c = json_array_get(rp_json_at(run, "results/counters"), i);
        const char *name = rp_json_text_at(c, "name"), *of = rp_json_text_at(c, "of");
        RP_FREE char *rate = rp_asprintf("/results/counters/%zu/per_s", i), *share = rp_asprintf("/results/counters/%zu/share", i);
        char text[160];
        add_row(d, run, name, rate, "d1", RP_FORMAT(text, "%.60s/s", name));
        if (*of)
            add_row(d, run, RP_FORMAT(text, "%.60s, of %.60s", name, of), share, "d2*100", "%");
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
static void add_labelled(struct rp_doc *d, const json_t *run, const struct rp_object_type *type, const char *at)
{
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        RP_FREE char *pointer = rp_asprintf("%s/%s", at, f->name);
        if (f->type == RP_IS_PART || f->type == RP_IS_PART_OR_NONE)
            add_labelled(d, run, f->of, pointer);
        else if (*f->label && (!on_page(d) || rp_table_has_steps_for(run, pointer)))
            add_field(d, run, f, pointer);
    }
}

/* How the FLOPs of a sample are counted: what its model says. */
static void add_formulas(struct rp_doc *d, const json_t *run)
{
    struct rp_err unknown;
    const int id = rp_model_parse(rp_json_text_at(run, "model/name"), &unknown);
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

void rp_table_figures(struct rp_doc *d, const json_t *run)
{
    char device[RP_DEVICE_TEXT];
    const size_t rank = (size_t)rp_json_integer_at(run, "world/slowest");
    const json_t *slowest = json_array_get(json_object_get(run, "rank"), rank);
    add_table(d, "Figures of the run", on_page(d) ? "figure|value" : "|");
    add_labelled(d, run, &rp_type_figures, "");
    add_counters(d, run);
    add_formulas(d, run);
    rp_doc_cell(d, ranks_of(run) > 1 ? "device of the slowest rank" : "device");
    rp_doc_cell(d, "%s", rp_device_text(device, json_object_get(slowest, "device")));
    add_labelled(d, run, &rp_type_facts, "");
}

/* ---- the device ---- */

void rp_table_telemetry(struct rp_doc *d, const json_t *run)
{
    static const char *const columns[] = {"min", "median", "mean", "max"};
    add_table(d, "The device within the timed windows", "value|#min|#median|#mean|#max|unit");
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++) {
        rp_doc_cell(d, "%s", v->words);
        for (size_t k = 0; k < 4; k++)
            rp_doc_fill(d, run, "{/telemetry/%s/%s %s}", v->name, columns[k], v->form);
        rp_doc_cell(d, "%s", v->unit);
    }
}

/* Of the timed device samples those that name a reason for throttling which is not harmless, at most: reasons overlap.
 * NaN: not known. */
static double throttled_share(const json_t *telemetry)
{
    const json_t *one;
    size_t i;
    double most = 0;
    if (!rp_json_integer_at(telemetry, "throttle_samples"))
        return NAN;
    json_array_foreach(json_object_get(telemetry, "throttle"), i, one)
        if (!rp_throttle_is_harmless(rp_json_text_at(one, "reason")))
            most = fmax(most, rp_json_number_at(one, "share"));
    return most;
}

void rp_table_devices(struct rp_doc *d, const json_t *run)
{
    static const char *const cells[] = {"timed d0", "clock_sm_hz/median d0*1e-6", "power_w/mean d1", "temperature_c/max d0", "energy_j d1"};
    const size_t n = ranks_of(run);
    int begun = 0;
    for (size_t i = 0; n > 1 && i < n; i++) {
        const json_t *is = json_object_get(json_array_get(json_object_get(run, "rank"), i), "telemetry");
        if (!is)
            continue;
        if (!begun++)
            add_table(d, "Devices of the ranks within the timed windows",
                      "#rank|#node|#device samples|#clock, median MHz|#power, mean W|#temperature, maximum C|#energy, J|#throttled, % of samples");
        rp_doc_cell(d, "%zu", i);
        rp_doc_fill(d, run, "{/rank/%zu/node d0}", i);
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/rank/%zu/telemetry/%s}", i, cells[k]);
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

static int has_rate(const json_t *run, const char *rate)
{
    char path[80];
    for (int k = 0; k < 2; k++)
        if (!isnan(rp_json_number_at(run, RP_FORMAT(path, "ceilings/%s/%s", sides[k], rate))))
            return 1;
    return 0;
}

void rp_table_ceilings(struct rp_doc *d, const json_t *run)
{
    static const struct {
        const char *name, *rate, *words;
    } rows[] = {
        {"GEMM", "gemm_flops_per_s", "GFLOP/s; " RP_WORDS_GEMM},
        {"copy in device memory", "copy_bytes_per_s", "GB/s; " RP_WORDS_COPY},
        {"copy from host memory", "host_to_device_bytes_per_s", "GB/s; " RP_WORDS_HOST_TO_DEVICE},
    };
    const char *shape = rp_json_at(run, "ceilings/before/gemm") ? "/ceilings/before/gemm" : "/ceilings/after/gemm";
    add_table(d, "Measured with the operations of the run, outside the timed windows",
              on_page(d) ? "operation|#before the run|#after the run|unit and formula" : "|#before the run|#after the run|");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!has_rate(run, rows[i].rate))
            continue;
        if (i == 0)
            rp_doc_fill(d, run, "%s, {%s/m d0}x{%s/n d0}x{%s/k d0}", rows[i].name, shape, shape, shape);
        else
            rp_doc_cell(d, "%s", rows[i].name);
        for (int k = 0; k < 2; k++)
            rp_doc_fill(d, run, "{/ceilings/%s/%s d2*1e-9}", sides[k], rows[i].rate);
        rp_doc_cell(d, "%s", rows[i].words);
    }
}

void rp_table_exchange(struct rp_doc *d, const json_t *run)
{
    static const char *const cells[] = {"collective t", "bytes d2*1e-6", "bytes_per_s d3*1e-9",
                                        "bus_bytes_per_s d3*1e-9"};
    int begun = 0;
    for (int k = 0; k < 2; k++) {
        const json_t *list = rp_json_at(json_object_get(rp_json_at(run, "ceilings"), sides[k]), "exchange");
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (!begun++)
                add_table(d, "Exchanges between all ranks, outside the timed windows",
                          "measured|collective|#MB|#GB/s, algorithm bandwidth|#GB/s, bus bandwidth");
            rp_doc_cell(d, "%s the run", sides[k]);
            for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
                rp_doc_fill(d, run, "{/ceilings/%s/exchange/%zu/%s}", sides[k], i, cells[c]);
        }
    }
}

/* ---- settings and machines ---- */

void rp_table_overrides(struct rp_doc *d, const json_t *run)
{
    int n = 0, rows = 0;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++) {
        const char *origin = rp_json_text_at(json_object_get(json_object_get(run, "recipe"), k[i].name), "origin");
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
static size_t add_changes(struct rp_doc *d, const json_t *run, size_t node, const char *impact, size_t shown)
{
    const json_t *nodes = json_object_get(run, "node"), *list = json_object_get(json_array_get(nodes, node), "change");
    const int several = json_array_size(nodes) > 1;
    for (size_t i = 0; i < json_array_size(list) && shown < CHANGES_MAX; i++) {
        const json_t *c = json_array_get(list, i);
        RP_FREE char *at = rp_asprintf("/node/%zu/change/%zu", node, i);
        if (strcmp(rp_json_text_at(c, "impact"), impact) != 0)
            continue;
        if (!shown++)
            add_table(d, "What changed during the run",
                      several ? "field|#node|impact|before|after" : "field|impact|before|after");
        rp_doc_text(d, rp_json_text_at(c, "field"), "-");
        if (several)
            rp_doc_cell(d, "%zu", node);
        rp_doc_cell(d, "%s%s", impact, json_is_true(json_object_get(c, "varies")) ? ", varies" : "");
        add_side(d, run, at, "before");
        add_side(d, run, at, "after");
    }
    return shown;
}

void rp_table_changes(struct rp_doc *d, const json_t *run)
{
    static const char *const impacts[] = {"high", "medium", "low"};
    const json_t *nodes = json_object_get(run, "node");
    size_t shown = 0, all = 0;
    for (size_t i = 0; i < json_array_size(nodes); i++)
        all += json_array_size(json_object_get(json_array_get(nodes, i), "change"));
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < json_array_size(nodes); i++)
            shown = add_changes(d, run, i, impacts[k], shown);
    const char *rest = shown < CHANGES_MAX ? "; the others have no known effect on throughput"
                                           : ", those with the most effect on throughput first";
    rp_doc_line(d, "%zu of %zu values that differ between the captures before and after the run are listed%s.", shown,
                all, rest);
}

/* ---- a replication ---- */

void rp_table_agreement(struct rp_doc *d, const json_t *run)
{
    const json_t *is = rp_json_at(run, "agreement");
    add_table(d, "The two runs", "what|value");
    rp_doc_cell(d, "bits");
    rp_doc_fill(d, run, "{/agreement/bits/equal e}; {/agreement/bits/steps d0} steps and {/agreement/bits/roots d0} state roots compared");
    if (json_is_object(rp_json_at(is, "bits/first_difference"))) {
        rp_doc_cell(d, "first difference");
#define AT "/agreement/bits/first_difference/"
        rp_doc_fill(d, run, "step {" AT "step d0}, {" AT "quantity t}: original {" AT "original t}, replication {" AT "replication t}");
#undef AT
    }
    rp_doc_cell(d, "throughput, replication / original");
    rp_doc_fill(d, run, "{/agreement/throughput/replication d3} / {/agreement/throughput/original d3} = {/agreement/throughput/ratio d4}%s",
                json_array_size(rp_json_at(is, "throughput/interval")) != 2
                    ? ""
                    : ", 95 % interval {/agreement/throughput/interval/0 d4} to {/agreement/throughput/interval/1 d4}");
    rp_doc_cell(d, "unit");
    rp_doc_fill(d, run, "{/agreement/throughput/unit t}");
    rp_doc_cell(d, "method of the interval");
    rp_doc_cell(d, RP_WORDS_AGREEMENT);
    for (size_t i = 0; i < json_array_size(rp_json_at(is, "settings")); i++) {
        if (i == 0)
            add_table(d, "Settings that differ", "key|original|replication");
        rp_doc_text(d, rp_json_text_at(json_array_get(rp_json_at(is, "settings"), i), "key"), "-");
        rp_doc_fill(d, run, "{/agreement/settings/%zu/original t}", i);
        rp_doc_fill(d, run, "{/agreement/settings/%zu/replication t}", i);
    }
}

static int is_important(const json_t *difference)
{
    const char *impact = rp_json_text_at(difference, "impact");
    return !json_is_true(json_object_get(difference, "varies")) &&
           (strcmp(impact, "high") == 0 || strcmp(impact, "medium") == 0);
}

void rp_table_differences(struct rp_doc *d, const json_t *run)
{
    const json_t *list = rp_json_at(run, "agreement/environment");
    size_t shown = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        RP_FREE char *at = rp_asprintf("/agreement/environment/%zu", i);
        if (!is_important(one))
            continue;
        if (!shown++)
            add_table(d, "Differences between the machines that probably affect throughput", "field|impact|original|replication");
        rp_doc_text(d, rp_json_text_at(one, "field"), "-");
        rp_doc_text(d, rp_json_text_at(one, "impact"), "-");
        add_side(d, run, at, "original");
        add_side(d, run, at, "replication");
    }
    rp_doc_line(d, "%zu of %zu values that differ between the two machines before the runs have high or medium impact.", shown,
                json_array_size(list));
}
