/* Paddle's report: cards x (FP32 and AMP at the usual batch size, FP32 and AMP at the largest), links to the raw logs, and the sections
 * that its authors left empty: environment, docker flags, steps, commands. */
#include "compare/layout.h"

#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "capture/value.h"
#include "report/escape.h"
#include "report/figure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BUNDLES_SHOWN 20 /* with their machines and commands */

/* The usual batch sizes of a model. */
static const struct {
    const char *model;
    int64_t fp32, amp;
} usual[] = {{"resnet50-v1.5", 128, 256}, {"bert-base", 32, 64}};

static const struct {
    const char *precision, *name;
    int is_max;
} columns[] = {{"fp32", "FP32", 0}, {"amp", "AMP", 0}, {"fp32", "FP32 (BS=max)", 1}, {"amp", "AMP (BS=max)", 1}};

static int64_t batch_of(const char *model, int column)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (rp_result_is(usual[i].model, model))
            return column ? usual[i].amp : usual[i].fp32;
    return column ? 64 : 32;
}

/* Its column, or -1: the report has no such column. */
static int column_of(const struct rp_result *row)
{
    for (int c = 0; c < 4; c++)
        if (rp_result_is(row->precision, columns[c].precision) && rp_result_is(row->batch_mode, "max") == columns[c].is_max &&
            (columns[c].is_max || row->batch_per_device == batch_of(row->model ? row->model : "", c)))
            return c;
    return -1;
}

static int is_of(const struct rp_result *row, const char *model, const char *name)
{
    RP_FREE char *own = rp_result_name(row);
    return strcmp(own, name) == 0 && strcmp(row->model ? row->model : RP_UNKNOWN, model) == 0;
}

static const struct rp_result *find_result(const struct rp_rows *rows, const char *model, const char *name, int64_t cards, int column)
{
    for (int i = 0; i < rows->n; i++)
        if (is_of(&rows->row[i], model, name) && rows->row[i].devices == cards && column_of(&rows->row[i]) == column)
            return &rows->row[i];
    return NULL;
}

static void put_throughput(struct rp_doc *d, const struct rp_rows *rows, const char *model, const char *name, const int64_t *cards, int n)
{
    rp_doc_table(d, "#cards");
    rp_doc_column(d, 1, "FP32 (BS=%" PRId64 ")", batch_of(model, 0));
    rp_doc_column(d, 1, "AMP (BS=%" PRId64 ")", batch_of(model, 1));
    rp_doc_column(d, 1, "%s", columns[2].name);
    rp_doc_column(d, 1, "%s", columns[3].name);
    for (int i = 0; i < n; i++) {
        rp_doc_cell(d, "%" PRId64, cards[i]);
        for (int c = 0; c < 4; c++)
            rp_layout_throughput(d, find_result(rows, model, name, cards[i], c), 1);
    }
}

static void put_logs(struct rp_doc *d, const struct rp_rows *rows, const char *model, const char *name, const int64_t *cards, int n)
{
    int begun = 0;
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 4; c++) {
            const struct rp_result *row = find_result(rows, model, name, cards[i], c);
            if (!row)
                continue;
            if (!begun++) {
                rp_doc_title(d, "Raw logs");
                rp_doc_table(d, "#cards|column|#batch size|log");
            }
            rp_doc_cell(d, "%" PRId64, cards[i]);
            rp_doc_cell(d, "%s", columns[c].name);
            rp_result_cells(d, row, "batch_per_device", RP_UNKNOWN);
            if (row->source.kind == RP_RESULT_PUBLISHED)
                rp_doc_cell(d, "%s: %s:%" PRId64 " is the published figure only", RP_NO_EVIDENCE, row->source.file, row->source.line);
            else
                rp_result_cells(d, row, "evidence", RP_NO_EVIDENCE);
        }
}

/* 1, 8, 16 and 32 cards as in the report, and other numbers of the results. */
static int cards_of(int64_t *out, const struct rp_rows *rows, const char *model, const char *name)
{
    int n = 0;
    for (; n < 4; n++)
        out[n] = n ? 4 << n : 1;
    for (int i = 0; i < rows->n; i++) {
        int64_t cards = rows->row[i].devices;
        int at = 0;
        if (cards < 1 || column_of(&rows->row[i]) < 0 || !is_of(&rows->row[i], model, name))
            continue;
        while (at < n && out[at] < cards)
            at++;
        if (at < n && out[at] == cards)
            continue;
        memmove(out + at + 1, out + at, (size_t)(n - at) * sizeof *out);
        out[at] = cards;
        n++;
    }
    return n;
}

/* ---- environment, flags, steps and commands of a bundle ---- */

static void put_environment(struct rp_doc *d, const struct rp_result *row)
{
    static const char *const facts[][2] = {
        {"system", "distribution.name"},      {"kernel", "kernel.release"},          {"processor", "cpu.model_name"},
        {"sockets", "cpu.sockets"},           {"threads", "cpu.threads"},            {"memory", "memory.total"},
        {"NVIDIA driver", "nvidia.version"},  {"GPU driver by NVML", "gpu.driver_version"}, {"NCCL", "gpu.nccl_version"},
        {"RDMA devices", "rdma.count"},       {"container engine", "container.engine"},
    };
    const json_t *probes = json_object_get(row->environment, "probes");
    rp_doc_title(d, "Environment");
    rp_doc_table(d, "quantity|value");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        RP_BUF text = {0};
        rp_doc_cell(d, "%s", facts[i][0]);
        if (rp_form(&text, rp_value_at(probes, facts[i][1]), "u") == 0)
            rp_doc_cell(d, "%s", text.data);
        else
            rp_doc_cell(d, "%s (%s)", RP_NO_EVIDENCE, rp_state_at(probes, facts[i][1]));
    }
    rp_doc_line(d, "Docker flags, inferred by the launch probe from what was in effect, as the capture has them");
    const char *command = rp_known_text(probes, "launch.command");
    RP_FREE char *words = command ? rp_shell_words(command, "docker run") : NULL;
    RP_FREE char *whole = command && !words ? rp_shell_word(command) : NULL; /* which no honest capture has */
    if (command)
        rp_doc_command(d, "%s", words ? words : whole);
    else
        rp_doc_line(d, "%s: the probe did not recognize a container (%s)", RP_NO_EVIDENCE, rp_state_at(probes, "launch.command"));
}

static void put_steps(struct rp_doc *d, const struct rp_result *row)
{
    const json_t *count = json_object_get(row->run, "steps");
    const char *window = row->timed_window ? row->timed_window : RP_UNKNOWN, *estimator = row->estimator ? row->estimator : RP_UNKNOWN;
    if (count)
        rp_doc_line(d, "Steps: %lld of warm-up, then %lld timed in %lld repeat%s; timed window: %s; estimator: %s",
                    json_integer_value(json_object_get(count, "warm-up")), json_integer_value(json_object_get(count, "timed")),
                    (long long)row->groups, rp_s(row->groups), window, estimator);
    else
        rp_doc_line(d, "Steps: %s", RP_NO_EVIDENCE);
}

/* A file name for the recipe in the bundle: its name without "embedded:" and without folders. Never one that another program reads: .bashrc. */
static char *recipe_file(const char *recipe)
{
    static const char prefix[] = "embedded:";
    int embedded = strncmp(recipe, prefix, sizeof prefix - 1) == 0;
    const char *name = rp_base_name(recipe + (embedded ? sizeof prefix - 1 : 0));
    name += strspn(name, ".");
    return rp_asprintf("%s%s", *name ? name : RP_UNKNOWN, embedded || !rp_ends_with(name, ".yaml") ? ".yaml" : "");
}

/* The commands to repeat and check the run, with every setting that is not the recipe's. */
static void put_commands(struct rp_doc *d, const struct rp_result *row)
{
    RP_BUF line = {0};
    RP_FREE char *file = rp_shell_word(row->source.file), *plain = recipe_file(rp_json_text_at(row->run, "recipe_name"));
    RP_FREE char *name = rp_shell_word(plain);
    const char *key;
    json_t *value;
    rp_buf_printf(&line, "repro run %s", name);
    json_object_foreach(json_object_get(row->run, "set"), key, value)
    {
        RP_BUF text = {0};
        rp_json_write_plain(&text, value);
        RP_FREE char *pair = rp_asprintf("%s=%s", key, rp_buf_text(&text)), *word = rp_shell_word(pair);
        rp_buf_printf(&line, " --set %s", word);
    }
    rp_doc_line(d, "Commands: to run it again from the recipe in the bundle, and to check it");
    rp_doc_command(d, "repro inspect %s recipe.yaml > %s", file, name);
    rp_doc_command(d, "%s", rp_buf_text(&line));
    rp_doc_command(d, "repro verify %s --replay 1", file);
    rp_doc_command(d, "repro inspect %s %s", file, RP_OF_RANK(0, ".jsonl"));
}

static void put_bundles(struct rp_doc *d, const struct rp_rows *rows)
{
    int shown = 0, all = 0;
    for (int i = 0; i < rows->n; i++) {
        const struct rp_result *row = &rows->row[i];
        if (row->source.kind != RP_RESULT_BUNDLE || all++ >= BUNDLES_SHOWN)
            continue;
        shown++;
        rp_doc_heading(d, "%s (%s)", row->source.file, row->source.verdict ? row->source.verdict : RP_UNKNOWN);
        put_environment(d, row);
        put_steps(d, row);
        put_commands(d, row);
    }
    if (!all)
        rp_doc_line(d, "Environment, docker flags, steps and commands: %s, because none of the results is a bundle.", RP_NO_EVIDENCE);
    else if (all > shown)
        rp_doc_line(d, "Environment and commands of %d more bundles are left out: compare fewer bundles.", all - shown);
}

void rp_layout_paddle(struct rp_doc *d, const struct rp_rows *rows)
{
    struct rp_layout_names done = {0};
    int no_column = 0, repeated = 0;
    RP_FREE int64_t *cards = rp_alloc((size_t)(rows->n + 5) * sizeof *cards);
    rp_doc_heading(d, "Throughput in the layout of Paddle's report");
    rp_layout_footnote(d, rows);
    for (int i = 0; i < rows->n; i++) {
        const char *model = rows->row[i].model ? rows->row[i].model : RP_UNKNOWN;
        RP_FREE char *name = rp_result_name(&rows->row[i]);
        int before = done.n, column = column_of(&rows->row[i]);
        repeated += column >= 0 && find_result(rows, model, name, rows->row[i].devices, column) != &rows->row[i];
        no_column += column_of(&rows->row[i]) < 0;
        if (column_of(&rows->row[i]) < 0 || rp_layout_names_add(&done, "%s\n%s", model, name) < before)
            continue;
        int n = cards_of(cards, rows, model, name);
        rp_doc_heading(d, "%s, %s (%s)", model, name, rows->row[i].unit ? rows->row[i].unit : RP_UNKNOWN);
        put_throughput(d, rows, model, name, cards, n);
        put_logs(d, rows, model, name, cards, n);
    }
    if (no_column)
        rp_doc_line(d, "%d results have a precision or batch size without a column in this layout: see --layout dlperf.", no_column);
    if (repeated)
        rp_doc_line(d, "%d results belong in a cell that already shows another result: --layout dlperf lists all.", repeated);
    put_bundles(d, rows);
    rp_layout_names_fini(&done);
}
