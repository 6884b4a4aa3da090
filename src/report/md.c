/* report.md: a rendering of run.json, which lists what changed during the run, and of the capture before the run. verify renders it again
 * and compares bytes, so nothing may come from anywhere else, and a format that changes here needs a new schema version: the words below
 * are sealed in every bundle of version 3. */
#include "report/report.h"

#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "report/escape.h"
#include "report/figure.h"
#include "run/results.h"
#include "report/tables.h"

#include <stdlib.h>
#include <string.h>

static void fill(struct rp_buf *out, const json_t *run, const char *template)
{
    rp_fill(out, RP_FILL_MD, run, "run.json", template);
}

/* What was added to a document, with an empty line after it; the document is empty again. */
static void put_doc(struct rp_buf *out, struct rp_doc *d)
{
    rp_doc_write(out, d, RP_DOC_REPORT);
    rp_buf_puts(out, d->n ? "\n" : "");
    rp_doc_fini(d);
}

static void put_table(struct rp_buf *out, const json_t *run, void (*table)(struct rp_doc *, const json_t *))
{
    struct rp_doc d = {.as = RP_FILL_MD};
    table(&d, run);
    put_doc(out, &d);
}

/* The first line marks a run that is not complete. */
static void put_heading(struct rp_buf *out, const json_t *run)
{
    const char *status = rp_json_text_at(run, "status");
    int complete = strcmp(status, "complete") == 0;
    rp_buf_puts(out, complete ? "# " : strcmp(status, "failed") == 0 ? "# FAILED RUN: " : "# INCOMPLETE RUN: ");
    fill(out, run, *rp_json_text_at(run, "recipe/title/value") ? "{/recipe/title/value t}\n\n" : "{/recipe_name t}\n\n");
    if (!complete) {
        rp_buf_puts(out, "This run did not complete: ");
        fill(out, run, *rp_json_text_at(run, "reason") ? "{/reason t}" : "no reason given");
        rp_buf_puts(out, ". The figures below cover only the completed steps and are not a result of the recipe.\n\n");
    }
    if (rp_run_degrees(run) > rp_run_ranks(run))
        fill(out, run,
             "This run computed the arithmetic of {/recipe/parallel.data/value d0} x {/recipe/parallel.tensor/value d0} x "
             "{/recipe/parallel.pipeline/value d0} ranks (data x tensor x pipeline) on {/world/ranks d0}: the bits are those of all ranks, "
             "the throughput is that of {/world/ranks d0}.\n\n");
    if (!json_is_true(rp_json_at(run, "data/pinned")))
        rp_buf_puts(out, "The data are not from a pinned archive: a replication needs the same files.\n\n");
}

/* The row in the layout of the published reports. */
static void put_headline(struct rp_buf *out, const json_t *run)
{
    fill(out, run,
         "| model | precision | batch size per device | accumulation | sequence length | devices | throughput "
         "({/results/throughput/unit t}) | 95 % interval |\n|---|---|---:|---:|---:|---:|---:|---|\n| {/model/name t}");
    if (json_integer_value(rp_run_setting(run, "model.num_hidden_layers")))
        fill(out, run, ", {/recipe/model.num_hidden_layers/value d0} layers, hidden size {/recipe/model.hidden_size/value d0}");
    fill(out, run,
         " | strict fp32 | {/plan/batch d0} | {/recipe/train.accumulation_steps/value t} | {/recipe/task.seq_length/value t} | "
         "{/world/ranks d0} {/backend t} | **{/results/throughput/value d3}** | ");
    fill(out, run, rp_throughput_of(run).sure ? "{/results/throughput/interval/0 d3} to {/results/throughput/interval/1 d3}" : "-");
    rp_buf_puts(out, " |\n\n");
    if (rp_throughput_of(run).tokens > 0)
        fill(out, run, "That is {/results/counters/0/per_s d1} tokens/s, with {/recipe/task.seq_length/value t} tokens in every sequence.\n");
    fill(out, run,
         "Strict fp32 is IEEE binary32 in the canonical order {/numerics t}: no TF32, no reduced precision, and the same "
         "bits on every machine.\nThroughput is the {/results/estimator p}; the window is the {/results/window p}.\n"
         "Interval: {/results/bootstrap/method p} ({/results/bootstrap/resamples d0} resamples).\n\n");
}

static void put_ceilings(struct rp_buf *out, const json_t *run)
{
    if (!rp_json_at(run, "ceilings"))
        return;
    rp_buf_puts(out, "## Ceilings of the device\n\nMeasured with the operations of the run, outside the timed windows.\n\n");
    put_table(out, run, rp_table_ceilings);
    fill(out, run,
         "The run achieved {/ceilings/achieved/flops_per_s d2*1e-9} GFLOP/s, {/ceilings/achieved/gemm_share d1*100} % of the "
         "GEMM ceiling: {/ceilings/achieved/formula p}.\n\n");
    if (!rp_json_at(run, "ceilings/achieved/exchange"))
        return;
    rp_buf_puts(out, "### Exchanges\n\n");
    put_table(out, run, rp_table_exchange);
    fill(out, run,
         "{/ceilings/formulas/exchange p}.\n\nA rank sends {/ceilings/achieved/exchange/bytes_per_step d1*1e-6} MB a step to data-parallel "
         "ranks, which at {/ceilings/achieved/exchange/bus_bytes_per_s d3*1e-9} GB/s takes at least {/ceilings/achieved/exchange/least_s "
         "d3*1e3} ms; {/ceilings/achieved/exchange/measured_s d3*1e3} ms were measured: {/ceilings/achieved/exchange/formula p}.\n\n");
}

/* Of a run of several. */
static void put_ranks(struct rp_buf *out, const json_t *run)
{
    if (rp_run_ranks(run) < 2)
        return;
    fill(out, run,
         "## Ranks\n\n{/world/ranks d0} ranks, number of nodes {/world/nodes d0}: {/world/data d0} x {/world/tensor d0} x {/world/pipeline d0} "
         "(data x tensor x pipeline). Samples are those of all; times are those of rank {/world/slowest d0}, whose timed steps took longest by "
         "its own clock.\n\n");
    put_table(out, run, rp_table_ranks);
    put_table(out, run, rp_table_places);
}

/* The keys of an object in name order; free the array. */
static const char **sorted_keys(const json_t *node, size_t *n)
{
    const char *key, **names = rp_alloc((json_object_size(node) + 1) * sizeof *names);
    json_t *part;
    *n = 0;
    json_object_foreach((json_t *)node, key, part)
        names[(*n)++] = key;
    rp_sort_text(names, *n);
    return names;
}

/* "sw_power_cap 93, hw_slowdown 1" */
static void put_throttling(struct rp_buf *out, const json_t *shares)
{
    size_t n;
    RP_FREE const char **names = sorted_keys(shares, &n);
    for (size_t i = 0; i < n; i++) {
        RP_BUF line = {0};
        rp_buf_printf(&line, "%s%.40s ", i ? ", " : "", names[i]);
        if (rp_form(&line, json_object_get(shares, names[i]), "d1*100") < 0)
            rp_buf_puts(&line, "-");
        rp_sanitize(line.data);
        rp_md_text(out, line.data, 1);
    }
    if (!n)
        rp_buf_puts(out, json_is_object(shares) ? "never" : "unknown");
}

/* The time of the device by its own clock where it has one, its memory, and telemetry. */
static void put_device(struct rp_buf *out, const json_t *run)
{
    const json_t *telemetry = rp_json_at(run, "telemetry");
    if (!rp_json_at(run, "results/device_share") && !rp_json_at(run, "device_bytes") && !telemetry)
        return;
    rp_buf_puts(out, "## The device during the run\n\n");
    if (rp_json_at(run, "results/device_share"))
        fill(out, run,
             "The device was busy for {/results/device_s d3} s of the timed windows, {/results/device_share d2*100} % of them: "
             "{/results/device_share_formula p}.\n\n");
    if (rp_json_at(run, "device_bytes"))
        fill(out, run,
             "Device memory: {/device_bytes/reserved d1/1048576} MiB reserved; free memory decreased by "
             "{/device_bytes/used d1/1048576} MiB.\n\n");
    if (rp_json_at(telemetry, "reason"))
        fill(out, run, "No telemetry: {/telemetry/reason t}.\n\n");
    if (!rp_json_at(telemetry, "timed"))
        return;
    fill(out, run,
         "Sampled every {/telemetry/period_s d1} s, one in {/telemetry/every d0} kept: {/telemetry/timed d0} {/telemetry/window p}.\n\n");
    put_table(out, run, rp_table_telemetry);
    put_table(out, run, rp_table_devices);
    rp_buf_puts(out, "Throttled, in per cent of the device samples: ");
    put_throttling(out, rp_json_at(telemetry, "throttle"));
    fill(out, run,
         ". Energy: {/telemetry/energy_j d1} J, {/telemetry/energy_per_sample_j d4} J per training sample: "
         "{/telemetry/energy_formula p}.\n\n");
}

/* Keys whose value did not come from the recipe or its defaults. */
static void put_overrides(struct rp_buf *out, const json_t *run)
{
    struct rp_doc d = {.as = RP_FILL_MD};
    rp_table_overrides(&d, run);
    fill(out, run, "## Settings\n\n`recipe.yaml` has SHA-256 {/recipe_sha256 t}; `run.json` lists every key with its origin. ");
    rp_buf_puts(out, d.n ? "Overridden:\n\n" : "Nothing was overridden.\n\n");
    put_doc(out, &d);
}

/* Every captured value that is one known number or text, by dotted path in name order; lists and unknown values are in env/. */
static void flatten(struct rp_doc *d, const json_t *node, const char *path)
{
    size_t n;
    RP_FREE const char **names = sorted_keys(node, &n);
    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_object_get(node, names[i]), *value = json_object_get(part, "value");
        if (!json_is_object(part))
            continue;
        RP_FREE char *name = rp_asprintf("%s%s%.200s", path, *path ? "." : "", names[i]);
        if (!json_is_string(json_object_get(part, "state"))) {
            flatten(d, part, name);
        } else if (strcmp(rp_json_text_at(part, "state"), "ok") == 0 && !json_is_object(value) && !json_is_array(value)) {
            rp_doc_cell(d, "%s", name);
            rp_doc_figure(d, part, "", "r", "");
        }
    }
}

static void put_machine(struct rp_buf *out, const json_t *run, const json_t *probes)
{
    struct rp_doc d = {.as = RP_FILL_MD};
    rp_buf_puts(out, "## Machine before the run\n\nLists, and values that could not be read, are in `env/`.\n\n");
    rp_doc_table(&d, "|");
    flatten(&d, probes, "");
    put_doc(out, &d);
    rp_buf_puts(out, "## What changed during the run\n\n");
    put_table(out, run, rp_table_changes);
}

/* A run that replicates another: what verify --original computes again. */
static void put_replication(struct rp_buf *out, const json_t *run)
{
    if (!rp_json_at(run, "agreement"))
        return;
    fill(out, run,
         "## Replication\n\nThe original, whose settings and data this run repeats, is the run in `{/replicates/bundle t}`. Its "
         "statement has SHA-256 {/replicates/statement t} and was signed by {/replicates/signer t}.\n\n");
    put_table(out, run, rp_table_agreement);
    put_table(out, run, rp_table_differences);
}

int rp_report_md(struct rp_buf *out, const struct rp_report_source *from, struct rp_err *err)
{
    const json_t *run = from->run, *probes = json_object_get(from->before, "probes");
    if (!json_is_object(run) || !json_is_object(probes))
        return rp_fail(err, RP_MALFORMED, "the report needs run.json and the capture before the run");
    put_heading(out, run);
    put_headline(out, run);
    put_table(out, run, rp_table_windows);
    put_ranks(out, run);
    put_replication(out, run);
    rp_buf_puts(out, "## Figures\n\n");
    put_table(out, run, rp_table_figures);
    put_device(out, run);
    put_ceilings(out, run);
    put_overrides(out, run);
    put_machine(out, run, probes);
    rp_buf_printf(out, "## How to verify\n\n"
                       "`repro verify BUNDLE --trust KEY` checks the signature and every digest, recomputes every number above from\n"
                       "`steps/rank%s.jsonl`, and with `--replay K` trains the first K steps again and compares bits. With stock tools:\n"
                       "`sh verify.sh BUNDLE KEY.pem`. The key inside the bundle proves that nothing changed since it was signed, not who\n"
                       "signed it: get the signer's key, or its fingerprint, through another channel.\n",
                  rp_run_ranks(run) > 1 ? "*" : "0");
    return 0;
}
