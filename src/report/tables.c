#include "report/tables.h"

#include "backend/backend.h"
#include "base/json.h"
#include "capture/env_diff.h"
#include "recipe/recipe.h"
#include "report/figure.h"
#include "run/results.h"
#include "run/telemetry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* A row of a name and a figure with its unit; on a page none where nothing is known. */
static void add_row(struct rp_doc *d, const json_t *run, const char *name, const char *pointer, const char *form, const char *unit)
{
    RP_BUF value = {0};
    int known = rp_form(&value, rp_pointer(run, pointer), form) == 0;
    if (!known && on_page(d))
        return;
    RP_FREE char *after = rp_asprintf("%s%s", known && *unit ? " " : "", known ? unit : "");
    rp_doc_literal(d, name);
    rp_doc_figure(d, run, pointer, form, after);
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
    rp_doc_column(d, 1, "%.40s", rp_throughput_of(run).unit);
    for (size_t i = 0; i < n; i++) {
        static const char *const cells[] = {"repeat d0", "steps d0", "samples d0", "seconds d3", "throughput d3"};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/results/windows/%zu/%s}", i, cells[k]);
    }
}

void rp_table_ranks(struct rp_doc *d, const json_t *run)
{
    static const char *const cells[] = {"rank d0", "node d0", "samples_per_step d0", "timed_s d3", "exchange_s d3", "wait_s d3",
                                        "exchange/bytes_per_step d1*1e-6", "exchange/transport t"};
    const size_t n = json_array_size(rp_json_at(run, "world/rank"));
    if (n < 2)
        return;
    add_table(d, "Ranks", "#rank|#node|#samples a step|#timed steps, s|#in exchanges, s|#of that waiting, s|#MB sent a step|connections");
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/world/rank/%zu/%s}", i, cells[k]);
}

void rp_table_places(struct rp_doc *d, const json_t *run)
{
    static const struct {
        const char *title, *cell, *kind; /* kind: of the ranks that have it; NULL: all */
    } columns[] = {{"|#node", "node d0", NULL},
                   {"|device", "device/name t", NULL},
                   {"|#index", "device/index d0", "cuda"},
                   {"|PCI address", "device/pci_address t", "cuda"},
                   {"|instruction set", "device/isa t", "cpu"},
                   {"|#threads", "device/threads d0", "cpu"},
                   {"|processors", "cpus t", NULL},
                   {"|#device memory, MiB", "device_bytes/reserved d1/1048576", "cuda"},
                   {"|#peak memory, MiB", "peak_rss_bytes d1/1048576", NULL}};
    const size_t n = json_array_size(rp_json_at(run, "world/rank")), most = sizeof columns / sizeof *columns;
    const char *kind = rp_run_kind(run);
    char titles[200] = "#rank";
    if (n < 2)
        return;
    for (size_t k = 0; k < most; k++)
        if (!columns[k].kind || strcmp(kind, "mixed") == 0 || strcmp(kind, columns[k].kind) == 0)
            snprintf(titles + strlen(titles), sizeof titles - strlen(titles), "%s", columns[k].title);
    add_table(d, "Where the ranks ran", titles);
    for (size_t i = 0; i < n; i++) {
        rp_doc_fill(d, run, "{/world/rank/%zu/rank d0}", i);
        for (size_t k = 0; k < most; k++) {
            const char *own = columns[k].kind;
            if (own && strcmp(kind, "mixed") != 0 && strcmp(kind, own) != 0)
                continue;
            if (own && strcmp(rp_run_rank_kind(run, (int64_t)i), own) != 0)
                rp_doc_cell(d, "-");
            else
                rp_doc_fill(d, run, "{/world/rank/%zu/%s}", i, columns[k].cell);
        }
    }
    rp_doc_line(d, "Network adapters of a node are in its capture, env/nodeN.before.json.");
}

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

static const struct row {
    const char *name, *pointer, *form, *unit;
} of_run[] = {
    {"step time, median", "/results/step_s/median", "d4", "s"},
    {"step time, p90", "/results/step_s/p90", "d4", "s"},
    {"step time, p99", "/results/step_s/p99", "d4", "s"},
    {"step time, minimum", "/results/step_s/min", "d4", "s"},
    {"step time, maximum", "/results/step_s/max", "d4", "s"},
    {"warm-up steps", "/results/steps/warm-up", "d0", ""},
    {"timed steps", "/results/steps/timed", "d0", ""},
    {"samples per step", "/results/samples_per_step", "d0", ""},
    {"achieved", "/results/flops_per_s", "d2*1e-9", "GFLOP/s"},
    {"achieved, recomputation included", "/results/hardware_flops_per_s", "d2*1e-9", "GFLOP/s"},
    {"limited by", "/results/input/limited_by", "t", ""},
    {"in exchanges, share of the timed steps", "/results/input/exchange_share", "d2*100", "%"},
    {"waiting for input, share of the timed steps", "/results/input/share", "d2*100", "%"},
    {"waiting for input, median of a step", "/results/input/median_s", "d4", "s"},
    {"damaged samples replaced", "/skipped_samples", "d0", ""},
    {"time between steps of the windows", "/results/between_steps_s", "d4", "s"},
    {"time of state roots, not in the windows", "/results/state_roots/seconds", "d4", "s"},
    {"parameters", "/plan/parameters", "d0", ""},
    {"memory planned", "/plan/total_bytes", "d1/1048576", "MiB"},
    {"peak memory", "/peak_rss_bytes", "d1/1048576", "MiB"},
    {"elapsed time", "/elapsed_s", "d1", "s"},
    {NULL, NULL, NULL, NULL}, /* the counters */
    {"first loss", "/results/loss_first", "h", ""},
    {"last loss", "/results/loss_last", "h", ""},
    {"first gradient norm", "/results/grad_norm_first", "h", ""},
    {"last gradient norm", "/results/grad_norm_last", "h", ""},
    {"device", NULL, NULL, NULL},
    {"FLOPs per sample", "/plan/flops_formula", "t", ""},
    {"hardware FLOPs per sample", "/plan/hardware_flops_formula", "t", ""},
    {"state root before", "/results/state_root_first", "t", ""},
    {"state root after", "/results/state_root_last", "t", ""},
    {"program", "/tool/version", "t", ""},
    {"program commit", "/tool/commit", "t", ""},
    {"data digest", "/data/digest", "t", ""},
    {"data archive", "/data/archive", "t", ""},
    {"started", "/started_at", "t", ""},
    {"ended", "/ended_at", "t", ""},
};

void rp_table_figures(struct rp_doc *d, const json_t *run)
{
    char device[RP_DEVICE_TEXT];
    add_table(d, "Figures of the run", on_page(d) ? "figure|value" : "|");
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++) {
        const struct row *r = &of_run[i];
        if (!r->name) {
            add_counters(d, run);
        } else if (!r->pointer) {
            rp_doc_cell(d, "%s", r->name);
            rp_doc_cell(d, "%s", rp_device_text(device, json_object_get(run, "device")));
        } else if ((strstr(r->pointer, "/hardware_") || strstr(r->pointer, "/skipped_") || strstr(r->pointer, "/exchange_share")) &&
                   !rp_pointer(run, r->pointer)) {
            continue; /* the model computes nothing again; no sample may be skipped; there is one rank */
        } else if (!on_page(d) || rp_table_has_steps_for(run, r->pointer)) {
            add_row(d, run, r->name, r->pointer, r->form, r->unit);
        }
    }
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

/* Of the timed device samples those that name a reason for throttling which is not harmless, at most: reasons overlap. */
static double throttled_share(const json_t *telemetry)
{
    const json_t *shares = json_object_get(telemetry, "throttle");
    const char *name;
    json_t *share;
    double most = 0;
    if (!json_is_object(shares))
        return NAN;
    json_object_foreach((json_t *)shares, name, share)
        if (!rp_throttle_is_harmless(name))
            most = fmax(most, json_number_value(share));
    return most;
}

void rp_table_devices(struct rp_doc *d, const json_t *run)
{
    static const char *const cells[] = {"timed d0", "clock_sm_hz/median d0*1e-6", "power_w/mean d1", "temperature_c/max d0", "energy_j d1"};
    const json_t *list = rp_json_at(run, "world/rank");
    int begun = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *is = json_object_get(json_array_get(list, i), "telemetry");
        if (!json_object_get(is, "timed"))
            continue;
        if (!begun++)
            add_table(d, "Devices of the ranks within the timed windows",
                      "#rank|#node|#device samples|#clock, median MHz|#power, mean W|#temperature, maximum C|#energy, J|#throttled, % of samples");
        rp_doc_fill(d, run, "{/world/rank/%zu/rank d0}", i);
        rp_doc_fill(d, run, "{/world/rank/%zu/node d0}", i);
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            rp_doc_fill(d, run, "{/world/rank/%zu/telemetry/%s}", i, cells[k]);
        const double share = throttled_share(is);
        if (isnan(share))
            rp_doc_cell(d, "-");
        else
            rp_doc_cell(d, "%.1f", 100 * share);
    }
}

void rp_table_ceilings(struct rp_doc *d, const json_t *run)
{
    static const struct row rows[] = {
        {"GEMM", "gemm", "flops_per_s", "GFLOP/s"},
        {"copy in device memory", "copy", "bytes_per_s", "GB/s"},
        {"copy from host memory", "host_to_device", "bytes_per_s", "GB/s"},
    };
    const json_t *is = rp_json_at(run, "ceilings");
    const char *shape = json_is_object(rp_json_at(is, "before")) ? "/ceilings/before/gemm" : "/ceilings/after/gemm";
    add_table(d, "Measured with the operations of the run, outside the timed windows",
              on_page(d) ? "operation|#before the run|#after the run|unit and formula" : "|#before the run|#after the run|");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        if (!rp_json_at(is, RP_FORMAT(path, "before/%s", rows[i].pointer)) && !rp_json_at(is, RP_FORMAT(path, "after/%s", rows[i].pointer)))
            continue;
        if (i == 0)
            rp_doc_fill(d, run, "%s, {%s/m d0}x{%s/n d0}x{%s/k d0}", rows[i].name, shape, shape, shape);
        else
            rp_doc_cell(d, "%s", rows[i].name);
        rp_doc_fill(d, run, "{/ceilings/before/%s/%s d2*1e-9}", rows[i].pointer, rows[i].form);
        rp_doc_fill(d, run, "{/ceilings/after/%s/%s d2*1e-9}", rows[i].pointer, rows[i].form);
        rp_doc_fill(d, run, "%s; {/ceilings/formulas/%s t}", rows[i].unit, rows[i].pointer);
    }
}

void rp_table_exchange(struct rp_doc *d, const json_t *run)
{
    static const char *const sides[] = {"before", "after"};
    int begun = 0;
    for (int k = 0; k < 2; k++) {
        const json_t *list = rp_json_at(json_object_get(rp_json_at(run, "ceilings"), sides[k]), "exchange");
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (!begun++)
                add_table(d, "Exchanges between all ranks, outside the timed windows",
                          "measured|collective|#MB|#GB/s, algorithm bandwidth|#GB/s, bus bandwidth");
            rp_doc_cell(d, "%s the run", sides[k]);
            rp_doc_fill(d, run, "{/ceilings/%s/exchange/%zu/collective t}", sides[k], i);
            rp_doc_fill(d, run, "{/ceilings/%s/exchange/%zu/bytes d2*1e-6}", sides[k], i);
            rp_doc_fill(d, run, "{/ceilings/%s/exchange/%zu/bytes_per_s d3*1e-9}", sides[k], i);
            rp_doc_fill(d, run, "{/ceilings/%s/exchange/%zu/bus_bytes_per_s d3*1e-9}", sides[k], i);
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
        rp_doc_literal(d, k[i].name);
        rp_doc_fill(d, run, "{/recipe/%s/value t}", k[i].name);
        rp_doc_cell(d, "%s", origin);
    }
}

/* One side of a difference: an entry of a list of run.json. */
static void add_side(struct rp_doc *d, const json_t *run, const char *list, size_t i, const char *side)
{
    rp_doc_fill(d, run, "{/%s/%zu/%s %s}", list, i, side, on_page(d) ? "u" : "r");
}

void rp_table_changes(struct rp_doc *d, const json_t *run)
{
    static const char *const impacts[] = {"high", "medium", "low"};
    const json_t *list = json_object_get(run, "environment_changes");
    size_t shown = 0;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *c = json_array_get(list, i);
            if (strcmp(rp_json_text_at(c, "impact"), impacts[k]) != 0)
                continue;
            if (!shown++)
                add_table(d, "What changed during the run", "field|impact|before|after");
            rp_doc_text(d, rp_json_text_at(c, "field"), "-");
            rp_doc_cell(d, "%s%s", impacts[k], json_is_true(json_object_get(c, "volatile")) ? ", volatile" : "");
            add_side(d, run, "environment_changes", i, "before");
            add_side(d, run, "environment_changes", i, "after");
        }
    rp_doc_line(d, "%zu of %zu values that differ between the two captures are listed; the others have no known effect on throughput.", shown,
                json_array_size(list));
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
    rp_doc_fill(d, run, "{/agreement/throughput/method t}");
    for (size_t i = 0; i < json_array_size(rp_json_at(is, "settings")); i++) {
        if (i == 0)
            add_table(d, "Settings that differ", "key|original|replication");
        rp_doc_text(d, rp_json_text_at(json_array_get(rp_json_at(is, "settings"), i), "key"), "-");
        rp_doc_fill(d, run, "{/agreement/settings/%zu/original t}", i);
        rp_doc_fill(d, run, "{/agreement/settings/%zu/replication t}", i);
    }
}

void rp_table_differences(struct rp_doc *d, const json_t *run)
{
    const json_t *list = rp_json_at(run, "agreement/environment");
    size_t shown = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (!rp_capture_important(one))
            continue;
        if (!shown++)
            add_table(d, "Differences between the machines that probably affect throughput", "field|impact|original|replication");
        rp_doc_text(d, rp_json_text_at(one, "field"), "-");
        rp_doc_text(d, rp_json_text_at(one, "impact"), "-");
        add_side(d, run, "agreement/environment", i, "original");
        add_side(d, run, "agreement/environment", i, "replication");
    }
    rp_doc_line(d, "%zu of %zu values that differ between the two machines before the runs have high or medium impact.", shown,
                json_array_size(list));
}
