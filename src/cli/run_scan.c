/* `repro run --scan KEY=V1,V2,... --runs N`: several runs and one table. */
#include "cli/run_scan.h"

#include "base/interrupt.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/term.h"
#include "base/text.h"
#include "launch/launcher.h"
#include "report/doc.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RP_OBJECT_LIST "cli/scan.def"
#include "base/object_tables.inc.h"

#define AXES_MAX 4
#define VALUES_MAX 64
#define SCAN_RUNS_MAX 1000

/* One --scan: a key and its values, which point into a copy of the option's text. */
struct scan_axis {
    char *text;
    const char *key, *value[VALUES_MAX];
    int n;
};

struct scan {
    struct scan_axis axis[AXES_MAX];
    int axes, settings, runs; /* runs of each setting */
    json_t **run;             /* run[i * settings + s]: the document of run i of setting s; NULL before it began */
    struct rp_err worst;
    int failed;
};

static void scan_fini(struct scan *s)
{
    for (int i = 0; i < s->axes; i++)
        free(s->axis[i].text);
    for (int i = 0; s->run && i < s->runs * s->settings; i++)
        json_decref(s->run[i]);
    free(s->run);
}

static int parse_axis(struct scan_axis *a, const char *text, struct rp_err *err)
{
    char shown[72];
    a->text = rp_strdup(text);
    char *rest = strchr(a->text, '=');
    if (!rest || rest == a->text)
        return rp_fail(err, RP_USAGE, "--scan '%s': expected KEY=V1,V2,..., such as train.batch_size=8,16,32",
                       rp_excerpt(shown, text));
    *rest++ = 0;
    a->key = a->text;
    for (char *value; (value = strsep(&rest, ","));) {
        if (!*value)
            return rp_fail(err, RP_USAGE, "--scan '%s': a value is empty", rp_excerpt(shown, text));
        if (a->n == VALUES_MAX)
            return rp_fail(err, RP_USAGE, "--scan %.40s: more than %d values", a->key, VALUES_MAX);
        a->value[a->n++] = value;
    }
    return 0;
}

/* The value of axis i in a setting: the last axis varies fastest. */
static const char *value_of(const struct scan *s, int setting, int i)
{
    for (int k = s->axes - 1; k > i; k--)
        setting /= s->axis[k].n;
    return s->axis[i].value[setting % s->axis[i].n];
}

static json_t *settings_json(const struct scan *s, int setting)
{
    json_t *j = json_object();
    for (int i = 0; i < s->axes; i++)
        json_object_set_new(j, s->axis[i].key, json_string(value_of(s, setting, i)));
    return j;
}

/* "train.batch_size=8 train.seed=1"; "": there is no --scan. */
static void settings_text(struct rp_buf *out, const struct scan *s, int setting)
{
    for (int i = 0; i < s->axes; i++)
        rp_buf_printf(out, "%s%s=%s", i ? " " : "", s->axis[i].key, value_of(s, setting, i));
}

/* The command line of one setting. `text` and `item` are freed by the caller after use. */
static void options_of(struct rp_run_opts *out, char *text[AXES_MAX], const char ***item, const struct scan *s,
                       int setting, const struct rp_run_opts *o)
{
    *out = *o;
    *item = rp_alloc((size_t)(o->set.n + s->axes + 1) * sizeof **item);
    for (int i = 0; i < o->set.n; i++)
        (*item)[i] = o->set.item[i];
    for (int i = 0; i < s->axes; i++)
        (*item)[o->set.n + i] = text[i] = rp_asprintf("%s=%s", s->axis[i].key, value_of(s, setting, i));
    out->set = (struct rp_opt_list){.item = *item, .n = o->set.n + s->axes};
    out->scan.n = 0;
    out->runs = 0;
}

static void options_fini(char *text[AXES_MAX], const char **item)
{
    for (int i = 0; i < AXES_MAX; i++)
        free(text[i]);
    free(item);
}

/* A wrong key or value ends the command before the first run. */
static int check_setting(const struct scan *s, int setting, const struct rp_run_opts *o, const struct rp_run_from *from,
                         struct rp_err *err)
{
    struct rp_run_opts one;
    struct rp_recipe recipe = {0};
    char *text[AXES_MAX] = {0};
    const char **item;
    int n;
    options_of(&one, text, &item, s, setting, o);
    char **set = rp_run_settings(&one, &n);
    const int failed = from->load(from, &recipe, NULL, (const char *const *)set, n, err) < 0;
    rp_recipe_fini(&recipe);
    for (int i = 0; i < n; i++)
        free(set[i]);
    free(set);
    options_fini(text, item);
    return failed ? -1 : 0;
}

static int check_options(const struct rp_run_opts *o, struct rp_err *err)
{
    struct rp_launch launch;
    if (o->output)
        return rp_fail(err, RP_USAGE, "--output names one bundle: --scan and --runs write several, to this directory");
    if (o->plan || o->profile || o->run_save || o->challenge || o->hosts)
        return rp_fail(err, RP_USAGE, "--%s is for one run: leave --scan and --runs out",
                       o->plan        ? "plan"
                       : o->profile   ? "profile"
                       : o->run_save  ? "save"
                       : o->challenge ? "challenge"
                                      : "hosts");
    if (rp_launch_detect(&launch, NULL, err) < 0)
        return -1;
    if ((launch.kind != RP_LAUNCH_ALONE && launch.size != 1) || o->joining.nodes > 1)
        return rp_fail(err, RP_USAGE, "--scan and --runs are for one process: start a job for each setting");
    return 0;
}

static int prepare_scan(struct scan *s, const struct rp_run_opts *o, const struct rp_run_from *from, struct rp_err *err)
{
    s->runs = o->runs ? (int)o->runs : 1;
    s->settings = 1;
    if (o->scan.n > AXES_MAX)
        return rp_fail(err, RP_USAGE, "--scan: at most %d keys", AXES_MAX);
    for (int i = 0; i < o->scan.n; i++) {
        s->axes++;
        if (parse_axis(&s->axis[i], o->scan.item[i], err) < 0)
            return -1;
        s->settings *= s->axis[i].n;
        if (s->settings * s->runs > SCAN_RUNS_MAX)
            return rp_fail(err, RP_USAGE, "--scan and --runs make more than %d runs", SCAN_RUNS_MAX);
    }
    for (int i = 0; i < s->settings; i++)
        if (check_setting(s, i, o, from, err) < 0)
            return rp_wrap(err, "--scan");
    s->run = rp_alloc((size_t)(s->settings * s->runs) * sizeof *s->run);
    return 0;
}

static void note_option(const struct rp_cli *cli, const struct rp_run_opts *o, const char *text)
{
    struct rp_progress p;
    rp_progress_init(&p, STDERR_FILENO, cli->quiet);
    p.json = o->progress && strcmp(o->progress, "json") == 0;
    rp_progress_note(&p, "%s", text);
    rp_progress_end(&p);
}

/* Run `i` of all. Its document is kept, with the error where it failed. */
static void run_one(struct scan *s, int i, struct rp_cli *cli, const struct rp_run_opts *o,
                    const struct rp_run_from *from)
{
    struct rp_cli quiet = *cli; /* its result is a row of the table */
    struct rp_run_opts one;
    struct rp_err e = {0};
    char *text[AXES_MAX] = {0};
    const char **item;
    RP_BUF setting = {0}, line = {0};
    quiet.json = 1;
    quiet.result = NULL;
    settings_text(&setting, s, i % s->settings);
    rp_buf_printf(&line, "run %d of %d%s%s", i + 1, s->runs * s->settings, setting.size ? ": " : "",
                  rp_buf_text(&setting));
    note_option(cli, o, rp_buf_text(&line));
    options_of(&one, text, &item, s, i % s->settings, o);
    const int failed = rp_run(&quiet, &one, from, &e) < 0;
    cli->events = quiet.events;
    options_fini(text, item);
    s->run[i] = quiet.result ? quiet.result : json_object();
    json_object_set_new(s->run[i], "settings", settings_json(s, i % s->settings));
    if (!failed)
        return;
    json_object_set_new(s->run[i], "error", rp_cli_error_json(&e));
    if (setting.size)
        (void)rp_wrap(&e, "%s", rp_buf_text(&setting));
    if (!s->failed++ || rp_cli_is_worse(e.code, s->worst.code))
        s->worst = e;
    if (e.code != RP_INTERRUPTED)
        note_option(cli, o, e.msg);
}

/* A row of the table: the figures of all complete runs of a setting. */
static void fill_row(struct rp_scan_answer *row, const struct scan *s, int setting)
{
    RP_FREE double *figure = rp_alloc((size_t)s->runs * sizeof *figure);
    size_t n = 0;
    row->settings = settings_json(s, setting);
    row->bundles = rp_alloc(sizeof *row->bundles); /* there also if it is empty */
    for (int i = 0; i < s->runs; i++) {
        RP_READ(scanned_run, run, s->run[i * s->settings + setting]);
        if (run.bundle)
            rp_texts_add(&row->bundles, &row->bundles_n, rp_strdup(run.bundle));
        if (isnan(run.results.throughput.value) || run.error)
            continue;
        figure[n++] = run.results.throughput.value;
        free(row->unit);
        json_decref(row->loss_last);
        row->unit = rp_strdup(rp_text_or_empty(run.results.throughput.unit));
        row->loss_last = json_incref(run.results.loss_last);
    }
    row->runs = (int64_t)n;
    if (!n)
        return;
    row->median = rp_median(figure, n); /* sorts */
    row->lowest = figure[0];
    row->highest = figure[n - 1];
    row->spread = (row->highest - row->lowest) / row->median;
}

static void show_table(const struct scan *s, const struct rp_scan_answer *row)
{
    RP_DOC d = {0};
    RP_BUF text = {0};
    rp_doc_table(&d, NULL);
    for (int a = 0; a < s->axes; a++)
        rp_doc_column(&d, 0, "%s", s->axis[a].key);
    rp_doc_column(&d, 1, "runs");
    rp_doc_column(&d, 1, "median");
    rp_doc_column(&d, 0, "unit");
    rp_doc_column(&d, 1, "lowest");
    rp_doc_column(&d, 1, "highest");
    rp_doc_column(&d, 1, "spread");
    rp_doc_column(&d, 1, "last loss");
    for (int i = 0; i < s->settings; i++) {
        RP_JSON *j = rp_object_json(&row[i], &rp_type_scan_answer);
        for (int a = 0; a < s->axes; a++)
            rp_doc_cell(&d, "%s", value_of(s, i, a));
        rp_doc_cell(&d, "%lld", (long long)row[i].runs);
        rp_doc_fill(&d, j, "{/median d3}");
        rp_doc_text(&d, rp_text_or_empty(row[i].unit), "-");
        rp_doc_fill(&d, j, "{/lowest d3}");
        rp_doc_fill(&d, j, "{/highest d3}");
        if (isnan(row[i].spread))
            rp_doc_text(&d, NULL, "-");
        else
            rp_doc_cell(&d, "%.1f %%", 100 * row[i].spread);
        rp_doc_fill(&d, j, "{/loss_last x}");
    }
    d.width = rp_cli_width();
    rp_doc_write(&text, &d, RP_DOC_TEXT);
    for (int i = 0; i < s->settings; i++)
        for (int64_t k = 0; k < row[i].bundles_n; k++)
            rp_buf_printf(&text, "%s\n", row[i].bundles[k]);
    rp_cli_print(&text);
}

static void show_scan(struct rp_cli *cli, const struct scan *s)
{
    json_t *rows = json_array(), *runs = json_array();
    struct rp_scan_answer *row = NULL;
    int64_t n = 0;
    for (int i = 0; i < s->settings; i++) {
        struct rp_scan_answer *one = rp_object_add(&row, &n, &rp_type_scan_answer);
        fill_row(one, s, i);
        json_array_append_new(rows, rp_object_json(one, &rp_type_scan_answer));
    }
    for (int i = 0; i < s->runs * s->settings; i++)
        if (s->run[i])
            json_array_append(runs, s->run[i]);
    if (!cli->json)
        show_table(s, row);
    while (n > 0)
        rp_object_fini(&row[--n], &rp_type_scan_answer);
    free(row);
    cli->result = json_pack("{s:o, s:o}", "scan", rows, "runs", runs);
}

int rp_run_scan(struct rp_cli *cli, const struct rp_run_opts *o, const struct rp_run_from *from, struct rp_err *err)
{
    __attribute__((cleanup(scan_fini))) struct scan s = {0};
    int began = 0;
    if (check_options(o, err) < 0 || prepare_scan(&s, o, from, err) < 0)
        return -1;
    rp_interrupt_catch();
    for (; began < s.runs * s.settings && s.worst.code != RP_INTERRUPTED; began++) {
        rp_interrupt_resume();
        run_one(&s, began, cli, o, from);
    }
    show_scan(cli, &s);
    if (!s.failed)
        return 0;
    *err = s.worst;
    return began > 1 ? rp_wrap(err, "%d of %d runs failed", s.failed, began) : -1;
}
