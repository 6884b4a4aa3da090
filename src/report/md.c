/* The report as Markdown: a rendering of facts.json and run.json, and of the captures before the run. */
#include "report/report.h"

#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "capture/value.h"
#include "report/escape.h"
#include "report/tables.h"
#include "report/words.h"

#include <stdlib.h>
#include <string.h>

static void fill_template(struct rp_buf *out, const struct rp_run *r, const char *template)
{
    rp_fill(out, RP_FILL_MD, rp_run_shown(r->doc), "run.json", template);
}

/* What was added to a document, with an empty line after it; the document is empty again. */
static void put_doc(struct rp_buf *out, struct rp_doc *d)
{
    rp_doc_write(out, d, RP_DOC_MD);
    rp_buf_puts(out, d->n ? "\n" : "");
    rp_doc_fini(d);
}

static void put_table(struct rp_buf *out, const struct rp_run *r,
                      void (*table)(struct rp_doc *, struct rp_run_documents *))
{
    struct rp_doc d = {.as = RP_FILL_MD};
    table(&d, r->doc);
    put_doc(out, &d);
}

/* The first line marks a run that is not complete. */
static void put_heading(struct rp_buf *out, const struct rp_run *r)
{
    const struct rp_facts *f = r->facts;
    const int complete = rp_facts_complete(f);
    const json_t *title = rp_facts_setting(f, "title");
    rp_buf_puts(out, complete ? "# " : strcmp(f->status, "failed") == 0 ? "# FAILED RUN: " : "# INCOMPLETE RUN: ");
    fill_template(out, r, json_string_length(title) ? "{/recipe/title/value t}\n\n" : "{/recipe_name t}\n\n");
    if (!complete) {
        rp_buf_puts(out, "This run did not complete: ");
        fill_template(out, r, f->reason && *f->reason ? "{/reason t}" : "no reason given");
        rp_buf_puts(out, ". The figures below cover only the completed steps and are not a result of the recipe.\n\n");
    }
    if (rp_facts_parallel(f) > f->rank_n)
        fill_template(
            out, r,
            "This run computed the arithmetic of {/recipe/parallel.data/value d0} x {/recipe/parallel.tensor/value "
            "d0} x {/recipe/parallel.pipeline/value d0} ranks (data x tensor x pipeline) on {/world/ranks d0}: the "
            "bits are those of all ranks, the throughput is that of {/world/ranks d0}.\n\n");
    if (!f->data.pinned)
        rp_buf_puts(out, "The data are not from a pinned archive: a replication needs the same files.\n\n");
}

/* The arithmetic of mixed precision. */
static void put_arithmetic(struct rp_buf *out, const struct rp_run *r)
{
    const struct rp_loss_scaling *is = r->figures->results.loss_scaling;
    char tensor_cores[RP_TENSOR_CORES_TEXT];
    fill_template(out, r, "{/numerics t} is mixed precision, ");
    rp_md_text(out, rp_numerics_what(r->figures->numerics));
    rp_buf_puts(
        out, ": activations, their gradients and the weights of products have 16 bits, master weights, moments, "
             "gradients of weights and their exchange, norms and statistics 32; the same bits on every machine that "
             "computes it.\n");
    if (*rp_tensor_cores_text(tensor_cores, r->facts, r->figures)) {
        rp_buf_puts(out, "Start-up test: ");
        rp_md_text(out, tensor_cores);
        rp_buf_puts(out, ".\n");
    }
    if (is && is->skipped_timed)
        fill_template(
            out, r,
            "{/results/loss_scaling/skipped_timed d0} of {/results/steps/timed d0} timed steps, "
            "{/results/loss_scaling/skipped_share d1*100} %, changed no weight, because their gradient overflowed; "
            "the throughput counts their samples.\n");
}

/* The row in the layout of the published reports. */
static void put_headline(struct rp_buf *out, const struct rp_run *r)
{
    char devices[RP_PLACE_TEXT];
    fill_template(
        out, r,
        "| model | precision | batch size per device | accumulation | sequence length | devices | throughput "
        "({/results/throughput/unit t}) | 95 % interval |\n|---|---|---:|---:|---:|---:|---:|---|\n| {/model/name t}");
    if (json_integer_value(rp_facts_setting(r->facts, "model.num_hidden_layers")))
        fill_template(
            out, r,
            ", {/recipe/model.num_hidden_layers/value d0} layers, hidden size {/recipe/model.hidden_size/value d0}");
    char precision[RP_PRECISION_TEXT];
    rp_buf_puts(out, " | ");
    rp_md_text(out, *rp_figures_precision(precision, r->figures) ? precision : "strict fp32");
    fill_template(out, r,
                  " | {/plan/batch d0} | {/recipe/train.accumulation_steps/value t} | "
                  "{/recipe/task.seq_length/value t} | ");
    rp_md_text(out, rp_run_devices_text(devices, r));
    fill_template(out, r, " | **{/results/throughput/value d3}** | ");
    fill_template(out, r,
                  isnan(r->figures->results.throughput.interval[0])
                      ? "-"
                      : "{/results/throughput/interval/0 d3} to {/results/throughput/interval/1 d3}");
    rp_buf_puts(out, " |\n\n");
    if (rp_figures_tokens(r->figures) > 0)
        fill_template(
            out, r,
            "That is {/results/counters/0/per_s d1} tokens/s, with {/recipe/task.seq_length/value t} tokens in every "
            "sequence.\n");
    if (!*precision)
        fill_template(
            out, r,
            "Strict fp32 is IEEE binary32 in the canonical order {/numerics t}: no TF32, no reduced precision, and "
            "the same bits on every machine.\n");
    else
        put_arithmetic(out, r);
    fill_template(out, r,
                  "Throughput is the " RP_WORDS_ESTIMATOR "; the window is the " RP_WORDS_WINDOW ".\n"
                  "Interval: " RP_WORDS_BOOTSTRAP " ({/results/throughput/resamples d0} resamples).\n\n");
}

static void put_ceilings(struct rp_buf *out, const struct rp_run *r)
{
    if (!r->figures->ceilings)
        return;
    rp_buf_puts(out, "## Ceilings of the device\n\n");
    rp_buf_puts(out, "Measured with the operations of the run, outside the timed windows.\n\n");
    put_table(out, r, rp_table_ceilings);
    fill_template(
        out, r,
        "The run achieved {/results/flops_per_s d2*1e-9} GFLOP/s, {/ceilings/gemm_share d1*100} % of the GEMM "
        "ceiling: " RP_WORDS_ACHIEVED ".\n\n");
    if (!r->figures->ceilings->exchange)
        return;
    rp_buf_puts(out, "### Exchanges\n\n");
    put_table(out, r, rp_table_exchange);
    fill_template(
        out, r,
        RP_WORDS_EXCHANGE
        ".\n\nA rank sends {/ceilings/exchange/bytes_per_step d1*1e-6} MB a step to data-parallel ranks, which at "
        "{/ceilings/exchange/bus_bytes_per_s d3*1e-9} GB/s takes at least {/ceilings/exchange/least_s "
        "d3*1e3} ms; {/ceilings/exchange/measured_s d3*1e3} ms were measured: " RP_WORDS_LEAST ".\n\n");
}

/* Nothing for one rank. */
static void put_ranks(struct rp_buf *out, const struct rp_run *r)
{
    if (r->facts->rank_n < 2)
        return;
    fill_template(
        out, r,
        "## Ranks\n\n{/world/ranks d0} ranks, number of nodes {/world/nodes d0}: {/layout/data d0} x {/layout/tensor "
        "d0} x {/layout/pipeline d0} (data x tensor x pipeline). Samples are those of all; times are those of rank "
        "{/world/slowest d0}, whose timed steps took longest by its own clock.\n\n");
    put_table(out, r, rp_table_ranks);
    put_table(out, r, rp_table_places);
}

/* "sw_power_cap 93.0, hw_slowdown 1.0" */
static void put_throttling(struct rp_buf *out, const struct rp_telemetry_figures *t)
{
    for (int64_t i = 0; i < t->throttle_n; i++) {
        RP_FREE char *line =
            rp_asprintf("%s%.40s %.1f", i ? ", " : "", t->throttle[i].reason, 100 * t->throttle[i].share);
        rp_sanitize(line);
        rp_md_text(out, line);
    }
    if (!t->throttle_n)
        rp_buf_puts(out, t->throttle_samples ? "never" : "unknown");
}

/* GPUs of a command that were not sampled, or not to the end. */
static void put_without(struct rp_buf *out, const struct rp_run *r)
{
    const struct rp_command_facts *c = r->doc->command;
    for (int64_t i = 0; i < c->device_n; i++) {
        RP_FREE char *text =
            rp_asprintf("Device %lld has no telemetry, or it ended early: {/device/%lld/no_telemetry t}.\n\n",
                        (long long)i, (long long)i);
        if (c->device[i].no_telemetry)
            fill_template(out, r, text);
    }
}

static void put_telemetry(struct rp_buf *out, const struct rp_run *r)
{
    const int64_t without = rp_without_telemetry(r->facts);
    if (without >= 0) {
        RP_FREE char *text =
            rp_asprintf("Rank %lld has no telemetry, or it ended early: {/rank/%lld/no_telemetry t}.\n\n",
                        (long long)without, (long long)without);
        fill_template(out, r, text);
    }
    if (r->doc->command)
        put_without(out, r);
    if (!r->figures->telemetry)
        return;
    fill_template(
        out, r,
        r->doc->command
            ? "Sampled every {/telemetry/period_s d1} s, one in {/telemetry/every d0} kept: {/telemetry/timed "
              "d0} device samples from the start to the end of the command.\n\n"
            : "Sampled every {/telemetry/period_s d1} s, one in {/telemetry/every d0} kept: {/telemetry/timed "
              "d0} " RP_WORDS_TELEMETRY ".\n\n");
    put_table(out, r, rp_table_telemetry);
    put_table(out, r, rp_table_devices);
    rp_buf_puts(out, "Throttled, in per cent of the device samples: ");
    put_throttling(out, r->figures->telemetry);
    fill_template(out, r,
                  r->doc->command
                      ? ". Energy: {/telemetry/energy_j d1} J: mean power x time of the process that sampled the "
                        "device, summed over devices.\n\n"
                      : ". Energy: {/telemetry/energy_j d1} J, {/telemetry/energy_per_sample_j d4} J per training "
                        "sample: " RP_WORDS_ENERGY ".\n\n");
}

/* The time of the device by its own clock where it has one, its memory, and telemetry. */
static void put_device(struct rp_buf *out, const struct rp_run *r)
{
    const int64_t slowest = r->figures->world.slowest;
    const struct rp_device_bytes *memory = r->facts->rank[slowest].device_bytes;
    const int busy = !isnan(r->figures->results.device_share);
    if (!busy && !memory && !r->figures->telemetry && rp_without_telemetry(r->facts) < 0)
        return;
    rp_buf_puts(out, "## The device during the run\n\n");
    if (busy)
        fill_template(
            out, r,
            "The device was busy for {/results/device_s d3} s of the timed windows, {/results/device_share d2*100} % "
            "of them: " RP_WORDS_DEVICE_SHARE ".\n\n");
    if (memory) {
        RP_FREE char *text =
            rp_asprintf("Device memory%s: {/rank/%lld/device_bytes/reserved d1/1048576} MiB reserved; free "
                        "memory decreased by {/rank/%lld/device_bytes/used d1/1048576} MiB.\n\n",
                        r->facts->rank_n > 1 ? " of the slowest rank" : "", (long long)slowest, (long long)slowest);
        fill_template(out, r, text);
    }
    put_telemetry(out, r);
}

/* Keys whose value did not come from the recipe or its defaults. */
static void put_overrides(struct rp_buf *out, const struct rp_run *r)
{
    struct rp_doc d = {.as = RP_FILL_MD};
    rp_table_overrides(&d, r->doc);
    fill_template(
        out, r,
        "## Settings\n\n`recipe.yaml` has SHA-256 {/recipe_sha256 t}; `facts.json` lists every key with its origin. ");
    rp_buf_puts(out, d.n ? "Overridden:\n\n" : "Nothing was overridden.\n\n");
    put_doc(out, &d);
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

/* Every captured value that is one known number or text, by dotted path in name order; lists and unknown values are in
 * env/. */
static void flatten_values(struct rp_doc *d, const json_t *node, const char *path)
{
    size_t n;
    RP_FREE const char **names = sorted_keys(node, &n);
    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_object_get(node, names[i]);
        const struct rp_leaf is = rp_leaf(part);
        if (!json_is_object(part))
            continue;
        RP_FREE char *name = rp_asprintf("%s%s%.200s", path, *path ? "." : "", names[i]);
        if (is.kind == RP_LEAF_GROUP) {
            flatten_values(d, part, name);
        } else if (is.kind == RP_LEAF_KNOWN && !json_is_array(is.value)) {
            rp_doc_cell(d, "%s", name);
            rp_doc_figure(d, part, "", "r", "");
        }
    }
}

/* The machine of node 0, which the others are compared with on a page. */
static void put_machine(struct rp_buf *out, const struct rp_run *r)
{
    struct rp_doc d = {.as = RP_FILL_MD};
    rp_buf_puts(out, r->nodes > 1 ? "## Machine before the run: node 0\n\n" : "## Machine before the run\n\n");
    rp_buf_puts(out, "Lists, and values that could not be read, are in `env/`.\n\n");
    rp_doc_table(&d, "|");
    flatten_values(&d, rp_json_at(rp_run_capture(r, 0, 0), "probes"), "");
    put_doc(out, &d);
    rp_table_findings(&d, r);
    put_doc(out, &d);
    rp_buf_puts(out, "## What changed during the run\n\n");
    put_table(out, r, rp_table_changes);
}

/* A run that replicates another: what verify --original computes again. */
static void put_replication(struct rp_buf *out, const struct rp_run *r)
{
    if (!r->figures->agreement)
        return;
    fill_template(
        out, r,
        "## Replication\n\nThe original, whose settings and data this run repeats, is the run in {/replicates/bundle "
        "t}. Its statement has SHA-256 {/replicates/statement t} and was signed by {/replicates/signer t}.\n\n");
    put_table(out, r, rp_table_agreement);
    put_table(out, r, rp_table_differences);
}

static void put_command(struct rp_buf *out, const struct rp_run *r)
{
    const struct rp_facts *f = r->facts;
    const int complete = rp_facts_complete(f);
    rp_buf_puts(out, complete                           ? "# "
                     : strcmp(f->status, "failed") == 0 ? "# FAILED COMMAND: "
                                                        : "# INTERRUPTED COMMAND: ");
    fill_template(out, r, "{/name t}, " RP_MEASURED_BY_LOG "\n\n");
    if (!complete)
        fill_template(out, r, f->reason && *f->reason ? "{/reason t}.\n\n" : "No reason was given.\n\n");
    put_table(out, r, rp_table_command);
    if (r->doc->command->device_n) {
        rp_buf_puts(out, "## The device while the command ran\n\n");
        put_telemetry(out, r);
    }
    put_machine(out, r);
    rp_buf_puts(
        out,
        "## How to verify\n\n"
        "`repro verify BUNDLE --trust KEY` checks the signature and every digest, and reads every figure above again "
        "from the log\n"
        "in the bundle. That the log is true is the word of the signer and of the command. With stock\n"
        "tools: `sh verify.sh BUNDLE KEY.pem`. The key inside the bundle proves that nothing changed since it was\n"
        "signed, not who signed it: get the signer's key, or its fingerprint, through another channel.\n");
}

void rp_report_md(struct rp_buf *out, const struct rp_run *r)
{
    if (r->doc->command) {
        put_command(out, r);
        return;
    }
    put_heading(out, r);
    put_headline(out, r);
    put_table(out, r, rp_table_windows);
    put_ranks(out, r);
    put_replication(out, r);
    rp_buf_puts(out, "## Figures\n\n");
    put_table(out, r, rp_table_figures);
    put_device(out, r);
    put_ceilings(out, r);
    put_overrides(out, r);
    put_machine(out, r);
    rp_buf_printf(
        out,
        "## How to verify\n\n"
        "`repro verify BUNDLE --trust KEY` checks the signature and every digest, recomputes every figure above from\n"
        "`steps/rank%s.jsonl`, and with `--replay K` trains the first K steps again and compares bits. With stock\n"
        "tools: `sh verify.sh BUNDLE KEY.pem`. The key inside the bundle proves that nothing changed since it was\n"
        "signed, not who signed it: get the signer's key, or its fingerprint, through another channel.\n",
        r->facts->rank_n > 1 ? "*" : "0");
}
