/* report.md: a rendering of run.json, which lists what changed meanwhile, and of the capture before the run. Verify renders it again and
 * compares bytes, so nothing may come from anywhere else, and a format that changes here needs a new schema version. */
#include "report/report.h"

#include "backend/backend.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/compare.h"
#include "recipe/recipe.h"
#include "report/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 100 /* characters of a captured value; longer ones are in env/ */

/* One line without anything that a terminal would act on; free() it. */
static char *plain(const char *text)
{
    char *s = rp_strdup(text);
    for (char *p = s; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = ' ';
    rp_clean(s);
    return s;
}

/* Text inside a table cell: besides, nothing that Markdown would act on. But for addresses, ~~ and $, of which some renderers make links,
 * lines and formulas within the cell: honest commands and titles have them, and what was sealed has to come out the same for ever. */
static void cell(struct rp_buf *out, const char *text, size_t limit)
{
    size_t n = 0;
    RP_FREE char *safe = plain(text);
    const char *s = safe;
    for (; *s && n < limit; s++, n++) {
        if (strchr("\\`*_|<>[]&#", *s))
            rp_buf_puts(out, "\\");
        rp_buf_add(out, s, 1);
    }
    while (((unsigned char)*s & 0xc0) == 0x80) /* do not cut a character of several bytes */
        rp_buf_add(out, s++, 1);
    if (*s)
        rp_buf_puts(out, "...");
}

static double bounded(double x)
{
    return x < 1e18 ? x : 1e18;
}

/* A number as text with that many decimals, or "-". */
static const char *number(char out[48], const json_t *v, int decimals, double scale)
{
    if (!json_is_number(v) || !isfinite(json_number_value(v) * scale))
        return "-";
    snprintf(out, 48, "%.*f", decimals, bounded(json_number_value(v) * scale));
    return out;
}

static const char *num(char out[48], const json_t *j, const char *path, int decimals, double scale)
{
    return number(out, rp_json_at(j, path), decimals, scale);
}

/* A recipe value as text. */
static void setting(struct rp_buf *out, const json_t *run, const char *key)
{
    const json_t *v = rp_run_setting(run, key), *word;
    size_t i;
    if (json_is_string(v))
        cell(out, json_string_value(v), 200);
    else if (json_is_integer(v))
        rp_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        rp_buf_printf(out, "%.9g", json_real_value(v));
    else if (json_is_boolean(v))
        rp_buf_puts(out, json_is_true(v) ? "true" : "false");
    else if (json_is_array(v))
        json_array_foreach((json_t *)v, i, word)
        {
            rp_buf_puts(out, i ? ", " : "");
            cell(out, json_is_string(word) ? json_string_value(word) : "?", 200);
        }
    else
        rp_buf_puts(out, "-");
}

static int64_t whole(const json_t *run, const char *key)
{
    return json_integer_value(rp_run_setting(run, key));
}

/* The first line says at once when a run is not what it was meant to be. */
static void heading(struct rp_buf *out, const json_t *run)
{
    const char *status = rp_json_text_at(run, "status"), *title = rp_json_text_at(rp_json_at(rp_json_at(run, "recipe"), "title"), "value");
    int complete = strcmp(status, "complete") == 0;
    rp_buf_puts(out, "# ");
    if (!complete)
        rp_buf_puts(out, strcmp(status, "failed") == 0 ? "FAILED RUN: " : "INCOMPLETE RUN: ");
    cell(out, *title ? title : rp_json_text_at(run, "recipe_name"), 200);
    rp_buf_puts(out, "\n\n");
    if (!complete) {
        rp_buf_puts(out, "This run did not reach its end: ");
        cell(out, *rp_json_text_at(run, "reason") ? rp_json_text_at(run, "reason") : "no reason given", 1000);
        rp_buf_puts(out, ". The figures below cover only the steps that were finished and are no result of the recipe.\n\n");
    }
    if (!json_is_true(rp_json_at(run, "data/pinned")))
        rp_buf_puts(out, "The data are the owner's own, not a pinned archive: others cannot repeat this run without them.\n\n");
}

/* The row in the layout of the published reports. */
static void headline(struct rp_buf *out, const json_t *run)
{
    char a[48], b[48];
    const struct rp_throughput t = rp_throughput_of(run);
    rp_buf_puts(out, "| model | precision | batch size per device | accumulation | sequence length | devices | throughput (");
    cell(out, t.unit, 40);
    rp_buf_puts(out, ") | 95 % interval |\n|---|---|---:|---:|---:|---:|---:|---|\n| ");
    cell(out, rp_json_text_at(run, "model/name"), 64);
    if (whole(run, "model.num_hidden_layers"))
        rp_buf_printf(out, ", %" PRId64 " layers of %" PRId64, whole(run, "model.num_hidden_layers"), whole(run, "model.hidden_size"));
    rp_buf_printf(out, " | strict fp32 | %s | ", num(a, run, "plan/batch", 0, 1));
    setting(out, run, "train.accumulation_steps");
    rp_buf_puts(out, " | ");
    setting(out, run, "task.seq_length");
    rp_buf_printf(out, " | %" PRId64 " ", whole(run, "parallel.data"));
    cell(out, rp_json_text_at(run, "backend"), 64);
    rp_buf_printf(out, " | **%s** | ", num(a, run, "results/throughput/value", 3, 1));
    if (t.sure)
        rp_buf_printf(out, "%.3f to %.3f", bounded(t.low), bounded(t.high));
    else
        rp_buf_puts(out, "-");
    rp_buf_puts(out, " |\n\nStrict fp32 is IEEE binary32 in the canonical order ");
    cell(out, rp_json_text_at(run, "numerics"), 64);
    rp_buf_puts(out, ": no TF32, no reduced precision, and the same bits on every machine.\n");
    RP_FREE char *estimator = plain(rp_json_text_at(run, "results/estimator")), *window = plain(rp_json_text_at(run, "results/window"));
    RP_FREE char *method = plain(rp_json_text_at(run, "results/bootstrap/method"));
    rp_buf_printf(out, "Throughput is the %s; the window is the %s.\n", estimator, window);
    rp_buf_printf(out, "Interval: %s (%s resamples).\n\n", method, num(b, run, "results/bootstrap/resamples", 0, 1));
}

static void windows(struct rp_buf *out, const json_t *run)
{
    char a[48], b[48];
    size_t i;
    json_t *w;
    const json_t *list = rp_json_at(run, "results/windows");
    if (json_array_size(list) < 2)
        return;
    rp_buf_puts(out, "| repeat | steps | samples | seconds | ");
    cell(out, rp_throughput_of(run).unit, 40);
    rp_buf_puts(out, " |\n|---:|---:|---:|---:|---:|\n");
    json_array_foreach((json_t *)list, i, w)
        rp_buf_printf(out, "| %" JSON_INTEGER_FORMAT " | %" JSON_INTEGER_FORMAT " | %" JSON_INTEGER_FORMAT " | %s | %s |\n",
                      json_integer_value(rp_json_at(w, "repeat")), json_integer_value(rp_json_at(w, "steps")), json_integer_value(rp_json_at(w, "samples")),
                      num(a, w, "seconds", 3, 1), num(b, w, "throughput", 3, 1));
    rp_buf_puts(out, "\n");
}

static void row(struct rp_buf *out, const char *name, const char *value, const char *unit)
{
    rp_buf_printf(out, "| %s | ", name);
    cell(out, value, 400);
    rp_buf_printf(out, "%s%s |\n", *unit ? " " : "", unit);
}

/* A hex float, in decimal for people and as it is for comparing. */
static void float_row(struct rp_buf *out, const char *name, const char *hex)
{
    float x;
    char text[64];
    if (strlen(hex) < 32 && rp_float_unhex(&x, hex) == 0 && isfinite(x))
        snprintf(text, sizeof text, "%.6g = %s", (double)x, hex);
    else
        snprintf(text, sizeof text, "-");
    row(out, name, text, "");
}

/* What the model counts: how much a second, and which part of another counter it is. */
static void counters(struct rp_buf *out, const json_t *run)
{
    char a[48], text[160];
    size_t i;
    json_t *c;
    json_array_foreach((json_t *)rp_json_at(run, "results/counters"), i, c) {
        RP_FREE char *name = plain(rp_json_text_at(c, "name")), *of = plain(rp_json_text_at(c, "of"));
        snprintf(text, sizeof text, "%.60s/s", name);
        row(out, name, num(a, c, "per_s", 1, 1), json_is_number(rp_json_at(c, "per_s")) ? text : "");
        snprintf(text, sizeof text, "%.60s, of %.60s", name, of);
        if (*of)
            row(out, text, num(a, c, "share", 2, 100), json_is_number(rp_json_at(c, "share")) ? "%" : "");
    }
}

static void figures(struct rp_buf *out, const json_t *run)
{
    static const struct {
        const char *name, *path, *unit;
        int decimals;
        double scale;
    } numbers[] = {
        {"step time, median", "results/step_s/median", "s", 4, 1},
        {"step time, p90", "results/step_s/p90", "s", 4, 1},
        {"step time, p99", "results/step_s/p99", "s", 4, 1},
        {"step time, shortest", "results/step_s/min", "s", 4, 1},
        {"step time, longest", "results/step_s/max", "s", 4, 1},
        {"warm-up steps", "results/steps/warm-up", "", 0, 1},
        {"timed steps", "results/steps/timed", "", 0, 1},
        {"samples per step", "results/samples_per_step", "", 0, 1},
        {"achieved", "results/flops_per_s", "GFLOP/s", 2, 1e-9},
        {"between steps, inside the windows", "results/between_steps_s", "s", 4, 1},
        {"state roots, outside the windows", "results/state_roots/seconds", "s", 4, 1},
        {"parameters", "plan/parameters", "", 0, 1},
        {"memory planned", "plan/total_bytes", "MiB", 1, 1.0 / (1 << 20)},
        {"memory used at most", "peak_rss_bytes", "MiB", 1, 1.0 / (1 << 20)},
        {"whole run", "elapsed_s", "s", 1, 1},
    };
    static const char *const texts[][2] = {
        {"FLOPs per sample", "plan/flops_formula"},
        {"state root before", "results/state_root_first"},
        {"state root after", "results/state_root_last"},
        {"program", "tool/version"},
        {"program's commit", "tool/commit"},
        {"data digest", "data/digest"},
        {"data archive", "data/archive"},
        {"started", "started_at"},
        {"ended", "ended_at"},
    };
    static const char *const floats[][2] = {
        {"first loss", "results/loss_first"},
        {"last loss", "results/loss_last"},
        {"first gradient norm", "results/grad_norm_first"},
        {"last gradient norm", "results/grad_norm_last"},
    };
    char a[48], device[RP_DEVICE_TEXT];
    rp_buf_puts(out, "## Figures\n\n| | |\n|---|---|\n");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *v = num(a, run, numbers[i].path, numbers[i].decimals, numbers[i].scale);
        row(out, numbers[i].name, v, *v == '-' ? "" : numbers[i].unit);
    }
    counters(out, run);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        float_row(out, floats[i][0], rp_json_text_at(run, floats[i][1]));
    row(out, "device", rp_device_text(device, json_object_get(run, "device")), "");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        row(out, texts[i][0], *rp_json_text_at(run, texts[i][1]) ? rp_json_text_at(run, texts[i][1]) : "-", "");
    rp_buf_puts(out, "\n");
}

static void ceilings(struct rp_buf *out, const json_t *run)
{
    static const struct {
        const char *name, *kind, *path, *unit;
    } rows[] = {
        {"matrix product", "gemm", "gemm/flops_per_s", "GFLOP/s"},
        {"copy between two blocks of its memory", "copy", "copy/bytes_per_s", "GB/s"},
        {"copy from the host's memory", "host_to_device", "host_to_device/bytes_per_s", "GB/s"},
    };
    char a[48], b[48], c[48];
    const json_t *is = rp_json_at(run, "ceilings"), *before = rp_json_at(is, "before"), *after = rp_json_at(is, "after");
    const json_t *shape = json_is_object(before) ? rp_json_at(before, "gemm") : rp_json_at(after, "gemm");
    if (!is)
        return;
    rp_buf_puts(out, "## What the device does at best\n\nOutside the timed windows, with the same operations.\n\n"
                     "| | before the run | after it | |\n|---|---:|---:|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rp_json_at(before, rows[i].path) && !rp_json_at(after, rows[i].path))
            continue;
        rp_buf_printf(out, "| %s", rows[i].name);
        if (i == 0)
            rp_buf_printf(out, ", %sx%sx%s", num(a, shape, "rows", 0, 1), num(b, shape, "width", 0, 1), num(c, shape, "depth", 0, 1));
        rp_buf_printf(out, " | %s | %s | %s; ", num(a, before, rows[i].path, 2, 1e-9), num(b, after, rows[i].path, 2, 1e-9), rows[i].unit);
        cell(out, rp_json_text_at(rp_json_at(is, "formulas"), rows[i].kind), 200);
        rp_buf_puts(out, " |\n");
    }
    RP_FREE char *formula = plain(rp_json_text_at(is, "achieved/formula"));
    rp_buf_printf(out, "\nThe run achieved %s GFLOP/s, %s %% of the matrix product's ceiling: %s.\n\n",
                  num(a, is, "achieved/flops_per_s", 2, 1e-9), num(b, is, "achieved/gemm_share", 1, 100), formula);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The keys of an object in name order; free the array. */
static const char **sorted(const json_t *node, size_t *n)
{
    const char *key, **names = rp_alloc((json_object_size(node) + 1) * sizeof *names);
    json_t *part;
    *n = 0;
    json_object_foreach((json_t *)node, key, part)
        names[(*n)++] = key;
    qsort(names, *n, sizeof *names, by_name);
    return names;
}

/* "sw_power_cap 93, hw_slowdown 1" */
static void throttling(struct rp_buf *out, const json_t *shares)
{
    size_t n;
    RP_FREE const char **names = sorted(shares, &n);
    for (size_t i = 0; i < n; i++) {
        char a[48];
        rp_buf_puts(out, i ? ", " : "");
        cell(out, names[i], 40);
        rp_buf_printf(out, " %s", number(a, json_object_get(shares, names[i]), 1, 100));
    }
    if (!n)
        rp_buf_puts(out, json_is_object(shares) ? "never" : "not known");
}

/* What was seen of the device from beside the run. */
static void samples(struct rp_buf *out, const json_t *run)
{
    static const struct {
        const char *name, *key, *unit;
        int decimals;
        double scale;
    } rows[] = {
        {"clock of the multiprocessors", "clock_sm_hz", "MHz", 0, 1e-6},
        {"clock of the memory", "clock_memory_hz", "MHz", 0, 1e-6},
        {"power", "power_w", "W", 1, 1},
        {"temperature", "temperature_c", "C", 0, 1},
        {"utilization", "utilization", "%", 0, 1},
    };
    char a[48], b[48], c[48], d[48];
    const json_t *is = rp_json_at(run, "samples");
    if (rp_json_at(is, "reason")) {
        rp_buf_puts(out, "The device was not sampled: ");
        cell(out, rp_json_text_at(is, "reason"), 300);
        rp_buf_puts(out, ".\n\n");
    }
    if (!rp_json_at(is, "timed"))
        return;
    RP_FREE char *window = plain(rp_json_text_at(is, "window")), *energy = plain(rp_json_text_at(is, "energy_formula"));
    rp_buf_printf(out, "Every %s s, of which one in %s is kept: %s %s.\n\n"
                       "| | min | median | mean | max | |\n|---|---:|---:|---:|---:|---|\n",
                  num(a, is, "period_s", 1, 1), num(b, is, "every", 0, 1), num(c, is, "timed", 0, 1), window);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = rp_json_at(is, rows[i].key);
        rp_buf_printf(out, "| %s | %s | %s | %s | %s | %s |\n", rows[i].name, num(a, v, "min", rows[i].decimals, rows[i].scale),
                      num(b, v, "median", rows[i].decimals, rows[i].scale), num(c, v, "mean", rows[i].decimals, rows[i].scale),
                      num(d, v, "max", rows[i].decimals, rows[i].scale), rows[i].unit);
    }
    rp_buf_puts(out, "\nThrottled, in percent of the samples: ");
    throttling(out, rp_json_at(is, "throttle"));
    rp_buf_printf(out, ". Energy: %s J, %s J per sample: %s.\n\n", num(a, is, "energy_j", 1, 1),
                  num(b, is, "energy_per_sample_j", 4, 1), energy);
}

/* By the device's own clock, where it has one, and of its own memory. */
static void device(struct rp_buf *out, const json_t *run)
{
    char a[48], b[48];
    if (rp_json_at(run, "results/device_share")) {
        RP_FREE char *formula = plain(rp_json_text_at(run, "results/device_share_formula"));
        rp_buf_printf(out, "The device worked for %s s of the timed windows, %s %% of them: %s.\n\n", num(a, run, "results/device_s", 3, 1),
                      num(b, run, "results/device_share", 2, 100), formula);
    }
    if (rp_json_at(run, "device_bytes"))
        rp_buf_printf(out, "Memory of the device: %s MiB reserved, %s MiB less free than before.\n\n",
                      num(a, run, "device_bytes/reserved", 1, 1.0 / (1 << 20)), num(b, run, "device_bytes/taken", 1, 1.0 / (1 << 20)));
}

/* Keys whose value did not come from the recipe or its defaults. */
static void overrides(struct rp_buf *out, const json_t *run)
{
    RP_JSON *sorted = json_object();
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)rp_json_at(run, "recipe"), key, entry)
    {
        const char *origin = rp_json_text_at(entry, "origin");
        if (strcmp(origin, "command line") == 0 || strcmp(origin, "backend section") == 0)
            json_object_set_new(sorted, key, json_string(origin));
    }
    rp_buf_puts(out, "## Settings\n\n`recipe.yaml` has SHA-256 ");
    cell(out, rp_json_text_at(run, "recipe_sha256"), 64);
    rp_buf_puts(out, "; `run.json` lists every key with its origin. ");
    if (json_object_size(sorted) == 0) {
        rp_buf_puts(out, "Nothing was overridden.\n\n");
        return;
    }
    rp_buf_puts(out, "Overridden:\n\n| key | value | by |\n|---|---|---|\n");
    int n = 0;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++) { /* in the order of the key table */
        const char *origin = json_string_value(json_object_get(sorted, k[i].name));
        if (!origin)
            continue;
        rp_buf_printf(out, "| %s | ", k[i].name);
        setting(out, run, k[i].name);
        rp_buf_printf(out, " | %s |\n", origin);
    }
    rp_buf_puts(out, "\n");
}

static void scalar(struct rp_buf *out, const json_t *leaf)
{
    const json_t *v = json_object_get(leaf, "value");
    if (json_is_string(v))
        cell(out, json_string_value(v), VALUE_MAX);
    else if (json_is_integer(v))
        rp_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        rp_buf_printf(out, "%.9g", json_real_value(v));
    else
        rp_buf_puts(out, json_is_true(v) ? "yes" : "no");
    if (*rp_json_text_at(leaf, "unit")) {
        rp_buf_puts(out, " ");
        cell(out, rp_json_text_at(leaf, "unit"), 16);
    }
}

/* Every captured value that is one known number or text, by dotted path in name order; lists and unknown values are in env/. */
static void flatten(struct rp_buf *out, const json_t *node, const char *path)
{
    size_t n;
    RP_FREE const char **names = sorted(node, &n);
    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_object_get(node, names[i]);
        if (!json_is_object(part))
            continue;
        RP_FREE char *name = rp_asprintf("%s%s%s", path, *path ? "." : "", names[i]);
        if (!json_is_string(json_object_get(part, "state"))) {
            flatten(out, part, name);
        } else if (strcmp(rp_json_text_at(part, "state"), "ok") == 0 && !json_is_object(json_object_get(part, "value")) &&
                   !json_is_array(json_object_get(part, "value"))) {
            rp_buf_puts(out, "| ");
            cell(out, name, 200);
            rp_buf_puts(out, " | ");
            scalar(out, part);
            rp_buf_puts(out, " |\n");
        }
    }
}

/* One side of a change; "-" where nothing is known. */
static void changed_side(struct rp_buf *out, const json_t *side)
{
    const json_t *v = json_object_get(side, "value");
    size_t i;
    json_t *word;
    RP_BUF words = {0};
    rp_buf_puts(&words, "");
    json_array_foreach((json_t *)v, i, word)
        rp_buf_printf(&words, "%s%s", i ? " " : "", json_is_string(word) ? json_string_value(word) : "?");
    if (json_is_array(v))
        cell(out, words.size ? words.data : "none", VALUE_MAX);
    else if (json_is_string(v) || json_is_number(v))
        scalar(out, side);
    else
        cell(out, *rp_json_text_at(side, "state") ? rp_json_text_at(side, "state") : "-", 16);
}

/* What has no known influence stays in run.json. */
static void changes(struct rp_buf *out, const json_t *run)
{
    static const char *const impacts[] = {"high", "medium", "low"};
    const json_t *list = json_object_get(run, "environment_changes");
    size_t k, shown = 0;
    json_t *c;
    rp_buf_puts(out, "\n## What changed during the run\n\n");
    for (int i = 0; i < 3; i++)
        json_array_foreach((json_t *)list, k, c) {
            if (strcmp(rp_json_text_at(c, "impact"), impacts[i]) != 0)
                continue;
            rp_buf_puts(out, shown++ ? "| " : "| field | impact | before | after |\n|---|---|---|---|\n| ");
            cell(out, rp_json_text_at(c, "field"), 200);
            rp_buf_printf(out, " | %s%s | ", impacts[i], json_is_true(json_object_get(c, "moment")) ? ", of the moment" : "");
            changed_side(out, json_object_get(c, "before"));
            rp_buf_puts(out, " | ");
            changed_side(out, json_object_get(c, "after"));
            rp_buf_puts(out, " |\n");
        }
    rp_buf_printf(out,
                  "%s%zu of %zu values that differ between the two captures are listed; the others have no known influence on speed.\n",
                  shown ? "\n" : "", shown, json_array_size(list));
}

static void listed_differences(struct rp_buf *out, const json_t *list)
{
    size_t k, shown = 0;
    json_t *d;
    json_array_foreach((json_t *)list, k, d) {
        if (!rp_capture_important(d))
            continue;
        rp_buf_puts(out, shown++ ? "| " : "| field | impact | first | here |\n|---|---|---|---|\n| ");
        cell(out, rp_json_text_at(d, "field"), 200);
        rp_buf_printf(out, " | %s | ", rp_json_text_at(d, "impact"));
        changed_side(out, json_object_get(d, "first"));
        rp_buf_puts(out, " | ");
        changed_side(out, json_object_get(d, "here"));
        rp_buf_puts(out, " |\n");
    }
    rp_buf_printf(out, "%s%zu of %zu values that differ between the two machines before the runs are of high or medium impact.\n\n",
                  shown ? "\n" : "", shown, json_array_size(list));
}

/* A run that repeats another: what verify --original computes again. */
static void replication(struct rp_buf *out, const json_t *run)
{
    char a[48], b[48], c[48], low[48], high[48];
    const json_t *is = rp_json_at(run, "agreement"), *differs = rp_json_at(is, "bits/first_difference"), *ends = rp_json_at(is, "throughput/interval"), *equal;
    if (!is)
        return;
    rp_buf_puts(out, "## Replication\n\nThis run repeats, with the same settings and data, the run in `");
    cell(out, rp_json_text_at(run, "replicates/bundle"), 200);
    rp_buf_puts(out, "`, whose statement has SHA-256 ");
    cell(out, rp_json_text_at(run, "replicates/statement"), 64);
    rp_buf_puts(out, " and was signed by ");
    cell(out, rp_json_text_at(run, "replicates/signer"), 80);
    equal = rp_json_at(is, "bits/equal");
    rp_buf_printf(out, ".\n\n| | |\n|---|---|\n| bits | %s; %s steps and %s state roots compared |\n",
                  json_is_true(equal) ? "equal" : json_is_false(equal) ? "NOT EQUAL" : "not compared", num(a, is, "bits/steps", 0, 1),
                  num(b, is, "bits/roots", 0, 1));
    if (json_is_object(differs)) {
        rp_buf_printf(out, "| first difference | step %s, %s: first ", num(a, differs, "step", 0, 1), rp_json_text_at(differs, "quantity"));
        cell(out, rp_json_text_at(differs, "first"), 64);
        rp_buf_puts(out, ", here ");
        cell(out, rp_json_text_at(differs, "here"), 64);
        rp_buf_puts(out, " |\n");
    }
    rp_buf_printf(out, "| throughput here / first | %s / %s = %s", num(a, is, "throughput/here", 3, 1),
                  num(b, is, "throughput/first", 3, 1), num(c, is, "throughput/ratio", 3, 1));
    if (json_array_size(ends) == 2)
        rp_buf_printf(out, ", 95 %% interval %s to %s", number(low, json_array_get(ends, 0), 3, 1),
                      number(high, json_array_get(ends, 1), 3, 1));
    RP_FREE char *method = plain(rp_json_text_at(is, "throughput/method"));
    rp_buf_printf(out, " |\n\nInterval: %s.\n\n", method);
    listed_differences(out, rp_json_at(is, "environment"));
}

int rp_report_md(struct rp_buf *out, const struct rp_report_source *from, struct rp_err *err)
{
    const json_t *run = from->run, *probes = json_object_get(from->before, "probes");
    if (!json_is_object(run) || !json_is_object(probes))
        return rp_fail(err, RP_MALFORMED, "the report needs run.json and the capture before the run");
    heading(out, run);
    headline(out, run);
    windows(out, run);
    replication(out, run);
    figures(out, run);
    if (rp_json_at(run, "results/device_share") || rp_json_at(run, "device_bytes") || rp_json_at(run, "samples"))
        rp_buf_puts(out, "## The device during the run\n\n");
    device(out, run);
    samples(out, run);
    ceilings(out, run);
    overrides(out, run);
    rp_buf_puts(out, "## Machine before the run\n\nValues that are lists, and those that could not be read, are in `env/`.\n\n"
                     "| | |\n|---|---|\n");
    flatten(out, probes, "");
    changes(out, run);
    rp_buf_puts(out, "\n## How to verify\n\n"
                     "`repro verify BUNDLE --trust KEY` checks the signature and every digest, computes every number above again from\n"
                     "`steps/rank0.jsonl`, and with `--replay K` trains the first K steps again and compares bits. With stock tools:\n"
                     "`sh verify.sh BUNDLE KEY.pem`. The key inside the bundle shows that nothing changed since it was signed, not who\n"
                     "signed it: get the signer's key, or its fingerprint, some other way.\n");
    return 0;
}
