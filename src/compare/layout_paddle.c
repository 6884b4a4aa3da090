/* Paddle's report: cards x (FP32 and AMP at the usual batch, FP32 and AMP at the largest), links to the raw logs, and what its authors left
 * to be done: environment, docker flags, steps, commands. */
#include "compare/layout.h"

#include "base/json.h"
#include "bundle/bundle.h"
#include "capture/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUNDLES_SHOWN 20 /* with their machines and commands */

/* The four columns; the usual batches of a model. */
static const struct {
    const char *model;
    int64_t fp32, amp;
} usual[] = {{"resnet50-v1.5", 128, 256}, {"bert-base", 32, 64}};

static const struct {
    const char *precision;
    int is_max;
} columns[] = {{"fp32", 0}, {"amp", 0}, {"fp32", 1}, {"amp", 1}};

static int64_t batch_of(const char *model, int column)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (rp_row_is(usual[i].model, model))
            return column ? usual[i].amp : usual[i].fp32;
    return column ? 64 : 32;
}

/* Its column, or -1: the report has none for it. */
static int column_of(const struct rp_row *row)
{
    for (int c = 0; c < 4; c++)
        if (rp_row_is(row->precision, columns[c].precision) && rp_row_is(row->batch_mode, "max") == columns[c].is_max &&
            (columns[c].is_max || row->batch_per_device == batch_of(row->model ? row->model : "", c)))
            return c;
    return -1;
}

static int belongs(const struct rp_row *row, const char *model, const char *name)
{
    RP_FREE char *own = rp_row_name(row);
    return strcmp(own, name) == 0 && strcmp(row->model ? row->model : RP_UNKNOWN, model) == 0;
}

static const struct rp_row *find(const struct rp_rows *rows, const char *model, const char *name, int64_t cards, int column)
{
    for (int i = 0; i < rows->n; i++)
        if (belongs(&rows->row[i], model, name) && rows->row[i].devices == cards && column_of(&rows->row[i]) == column)
            return &rows->row[i];
    return NULL;
}

static void throughput(struct rp_doc *d, const struct rp_rows *rows, const char *model, const char *name, const int64_t *cards, int n)
{
    rp_doc_table(d);
    rp_doc_column(d, 1, "cards");
    rp_doc_column(d, 1, "FP32 (BS=%lld)", (long long)batch_of(model, 0));
    rp_doc_column(d, 1, "AMP (BS=%lld)", (long long)batch_of(model, 1));
    rp_doc_column(d, 1, "FP32 (BS=max)");
    rp_doc_column(d, 1, "AMP (BS=max)");
    for (int i = 0; i < n; i++) {
        rp_doc_cell(d, "%lld", (long long)cards[i]);
        for (int c = 0; c < 4; c++)
            rp_layout_throughput(d, find(rows, model, name, cards[i], c));
    }
}

static void logs(struct rp_doc *d, const struct rp_rows *rows, const char *model, const char *name, const int64_t *cards, int n)
{
    static const char *const names[] = {"FP32", "AMP", "FP32 (BS=max)", "AMP (BS=max)"};
    int begun = 0;
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 4; c++) {
            const struct rp_row *row = find(rows, model, name, cards[i], c);
            if (!row)
                continue;
            if (!begun++) {
                rp_doc_title(d, "Raw logs");
                rp_doc_table(d);
                rp_doc_column(d, 1, "cards");
                rp_doc_column(d, 0, "column");
                rp_doc_column(d, 1, "batch size");
                rp_doc_column(d, 0, "log");
            }
            rp_doc_cell(d, "%lld", (long long)cards[i]);
            rp_doc_cell(d, "%s", names[c]);
            rp_doc_cell(d, "%lld", (long long)row->batch_per_device);
            if (row->source.kind == RP_ROW_PUBLISHED)
                rp_doc_cell(d, "%s: %s:%lld is the published figure alone", RP_NO_EVIDENCE, row->source.file, (long long)row->source.line);
            else
                rp_layout_evidence(d, row);
        }
}

/* 1, 8, 16 and 32 cards as in the report, and what else there is. */
static int cards_of(int64_t *out, const struct rp_rows *rows, const char *model, const char *name)
{
    int n = 0;
    for (; n < 4; n++)
        out[n] = n ? 4 << n : 1;
    for (int i = 0; i < rows->n; i++) {
        int64_t cards = rows->row[i].devices;
        int at = 0;
        if (cards < 1 || column_of(&rows->row[i]) < 0 || !belongs(&rows->row[i], model, name))
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

/* ---- of a bundle: machine, flags, steps, commands ---- */

static void fact(struct rp_doc *d, const json_t *probes, const char *name, const char *path)
{
    char text[40];
    double number;
    const json_t *leaf = rp_value_at(probes, path);
    const char *known = rp_known_text(probes, path);
    rp_doc_cell(d, "%s", name);
    if (known)
        rp_doc_cell(d, "%s", known);
    else if (rp_known_number(probes, path, &number) == 0) {
        rp_show_number(text, number, json_string_value(json_object_get(leaf, "unit")));
        rp_doc_cell(d, "%s", text);
    } else
        rp_doc_cell(d, "%s (%s)", RP_NO_EVIDENCE, rp_state_at(probes, path));
}

static void environment(struct rp_doc *d, const struct rp_row *row)
{
    static const char *const facts[][2] = {
        {"system", "distribution.name"},      {"kernel", "kernel.release"},          {"processor", "cpu.model_name"},
        {"sockets", "cpu.sockets"},           {"threads", "cpu.threads"},            {"memory", "memory.total"},
        {"NVIDIA driver", "nvidia.version"},  {"GPU driver by NVML", "gpu.driver_version"}, {"NCCL", "gpu.nccl_version"},
        {"RDMA devices", "rdma.count"},       {"container engine", "container.engine"},
    };
    const json_t *probes = json_object_get(row->environment, "probes");
    rp_doc_title(d, "Environment");
    rp_doc_table(d);
    rp_doc_column(d, 0, "what");
    rp_doc_column(d, 0, "value");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        fact(d, probes, facts[i][0], facts[i][1]);
    rp_doc_line(d, "Docker flags, inferred by the launch probe from what was in effect");
    const char *command = rp_known_text(probes, "launch.command");
    if (command)
        rp_doc_command(d, "%s", command);
    else
        rp_doc_line(d, "%s: the run was in no container that the probe knows (%s)", RP_NO_EVIDENCE, rp_state_at(probes, "launch.command"));
}

static void steps(struct rp_doc *d, const struct rp_row *row)
{
    const json_t *count = json_object_get(row->run, "steps");
    if (!count) {
        rp_doc_line(d, "Steps: %s", RP_NO_EVIDENCE);
        return;
    }
    rp_doc_line(d, "Steps: %lld of warm-up, then %lld timed in %lld repeats; timed window: %s; estimator: %s",
                (long long)json_integer_value(json_object_get(count, "warm-up")),
                (long long)json_integer_value(json_object_get(count, "timed")),
                (long long)row->groups, row->timed_window ? row->timed_window : RP_UNKNOWN, row->estimator ? row->estimator : RP_UNKNOWN);
}

/* A file for the recipe in the bundle: of its name what is a name, without "embedded:" and without folders. */
static char *recipe_file(const char *recipe)
{
    static const char prefix[] = "embedded:";
    int embedded = recipe && strncmp(recipe, prefix, sizeof prefix - 1) == 0;
    const char *name = recipe ? recipe + (embedded ? sizeof prefix - 1 : 0) : RP_UNKNOWN, *slash = strrchr(name, '/');
    return rp_asprintf("%s%s", slash ? slash + 1 : name, embedded ? ".yaml" : "");
}

/* Everything that was set otherwise than the recipe says; where the run was given a command line that is in the bundle, that. */
static void commands(struct rp_doc *d, const struct rp_row *row)
{
    RP_BUF line = {0};
    const char *recipe = json_string_value(json_object_get(row->run, "recipe_name")), *key;
    RP_FREE char *file = rp_doc_quoted(row->source.file), *plain = recipe_file(recipe), *name = rp_doc_quoted(plain);
    json_t *value;
    rp_buf_printf(&line, "repro run %s", name);
    json_object_foreach(json_object_get(row->run, "set"), key, value)
    {
        RP_BUF text = {0};
        if (json_is_string(value))
            rp_buf_puts(&text, json_string_value(value));
        else
            rp_json_write_line(&text, value);
        while (text.size && text.data[text.size - 1] == '\n')
            text.data[--text.size] = 0;
        RP_FREE char *pair = rp_asprintf("%s=%s", key, rp_buf_text(&text)), *word = rp_doc_quoted(pair);
        rp_buf_printf(&line, " --set %s", word);
    }
    rp_doc_line(d, "Commands: to run it again from the recipe in the bundle, and to check it");
    rp_doc_command(d, "repro inspect %s recipe.yaml > %s", file, name);
    rp_doc_command(d, "%s", rp_buf_text(&line));
    rp_doc_command(d, "repro verify %s --replay 1", file);
    rp_doc_command(d, "repro inspect %s %s", file, RP_OF_RANK(0, ".jsonl"));
}

static void bundles(struct rp_doc *d, const struct rp_rows *rows)
{
    int shown = 0, all = 0;
    for (int i = 0; i < rows->n; i++) {
        const struct rp_row *row = &rows->row[i];
        if (row->source.kind != RP_ROW_BUNDLE || all++ >= BUNDLES_SHOWN)
            continue;
        shown++;
        rp_doc_heading(d, "%s (%s)", row->source.file, row->source.verdict ? row->source.verdict : RP_UNKNOWN);
        environment(d, row);
        steps(d, row);
        commands(d, row);
    }
    if (!all)
        rp_doc_line(d, "Environment, docker flags, steps and commands: %s, as none of the results is a bundle.", RP_NO_EVIDENCE);
    else if (all > shown)
        rp_doc_line(d, "%d more bundles are not shown with their machines: name fewer.", all - shown);
}

void rp_layout_paddle(struct rp_doc *d, const struct rp_rows *rows)
{
    struct rp_layout_names done = {0};
    int elsewhere = 0, beside = 0;
    RP_FREE int64_t *cards = rp_alloc((size_t)(rows->n + 5) * sizeof *cards);
    rp_doc_heading(d, "Throughput in the layout of Paddle's report");
    rp_layout_footnote(d, rows);
    for (int i = 0; i < rows->n; i++) {
        const char *model = rows->row[i].model ? rows->row[i].model : RP_UNKNOWN;
        RP_FREE char *name = rp_row_name(&rows->row[i]);
        int before = done.n, column = column_of(&rows->row[i]);
        beside += column >= 0 && find(rows, model, name, rows->row[i].devices, column) != &rows->row[i];
        elsewhere += column_of(&rows->row[i]) < 0;
        if (column_of(&rows->row[i]) < 0 || rp_layout_names_add(&done, "%s\n%s", model, name) < before)
            continue;
        int n = cards_of(cards, rows, model, name);
        rp_doc_heading(d, "%s, %s (%s)", model, name, rows->row[i].unit ? rows->row[i].unit : RP_UNKNOWN);
        throughput(d, rows, model, name, cards, n);
        logs(d, rows, model, name, cards, n);
    }
    if (elsewhere)
        rp_doc_line(d, "%d results have another precision or batch than this layout has columns for: see --layout dlperf.", elsewhere);
    if (beside)
        rp_doc_line(d, "%d results are of the same cell as one before them, which stands there: see --layout dlperf for all.", beside);
    bundles(d, rows);
    rp_layout_names_fini(&done);
}
