/* `repro compare`: comparability and ratios of results. */
#include "base/json.h"
#include "base/term.h"
#include "base/text.h"
#include "cli/opts.h"
#include "compare/compare.h"
#include "compare/layout.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WIDTH 100 /* of a comparison as text, where nothing sets another one */

struct compare_opts {
    const char *format, *trust, *layout, *sort, *min_ratio;
    int unverified, strict, all, why;
};

static const char layouts[] =
#define LAYOUT(id, put, heading, note) #id "|"
#include "compare/layouts.def"
    "index";

#define AT(field) offsetof(struct compare_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_CHOICE(format, "format", 'f', "text|md|csv",
                     "text, Markdown, or one CSV line per result; with --layout its tables as CSV"),
    RP_OPTION_CHOICE(layout, "layout", 'l', layouts,
                     "tables of a report instead of a verdict; index: contents of a folder"),
    RP_OPTION_CHOICE(sort, "sort", 0, RP_COMPARE_ORDERS, "the nearest first, the highest ratio, or as given"),
    RP_OPTION_FLAG(why, "why", 'w', "list every confounder with both values, and how the machines differ"),
    RP_OPTION_TEXT(min_ratio, "min-ratio", 0, "X", "exit status 5 if a ratio is below X, or there is none"),
    RP_OPTION_FLAG(strict, "strict", 0, "exit status 5 also for results that are comparable with reservations"),
    RP_OPTION_FLAG(all, "all", 'a', "keep results of other models from tables given whole; also with --layout"),
    RP_OPT_TRUST(trust),
    RP_OPTION_FLAG(unverified, "unverified", 0, "also compare bundles that fail verification, marked as unverified"),
    {0},
};

static enum rp_doc_format format_of(const char *name)
{
    return !name || strcmp(name, "text") == 0 ? RP_DOC_TEXT : strcmp(name, "md") == 0 ? RP_DOC_MD : RP_DOC_CSV;
}

/* Without a terminal and COLUMNS, text is `piped` columns wide; 0: as wide as it is. */
static void print_doc(struct rp_doc *d, enum rp_doc_format format, int piped)
{
    RP_BUF text = {0};
    d->width = isatty(STDOUT_FILENO) || getenv("COLUMNS") ? rp_columns(STDOUT_FILENO) : piped;
    rp_doc_write(&text, d, format);
    rp_cli_print(&text);
}

static void show_layout(struct rp_cli *cli, struct rp_doc *d)
{
    const struct compare_opts *o = cli->opts;
    if (cli->json)
        cli->result =
            json_pack("{s:s, s:s, s:o}", "schema", RP_LAYOUT_SCHEMA, "layout", o->layout, "blocks", rp_doc_json(d));
    else
        print_doc(d, format_of(o->format), 0);
}

/* Tables without a selected first result keep all models. */
static int print_layout(struct rp_cli *cli, struct rp_rows *rows)
{
    RP_BUF models = {0};
    const struct compare_opts *o = cli->opts;
    RP_DOC out = {0};
    int left_out = o->all || !rows->n || !rows->row->selected ? 0 : rp_compare_narrow(rows, &models);
    rp_layout_write(&out, o->layout, rows);
    if (left_out)
        rp_doc_line(&out, "%d result%s of other models left out: %s (--all shows them)", left_out, rp_s(left_out),
                    rp_buf_text(&models));
    show_layout(cli, &out);
    return 0;
}

static int list_folder(struct rp_cli *cli, struct rp_err *err)
{
    RP_DOC out = {0};
    int failed;
    if (cli->argc != 1)
        return rp_fail(err, RP_USAGE, "--layout index takes one folder");
    if (rp_index(&out, cli->argv[0], &failed, err) < 0)
        return -1;
    show_layout(cli, &out);
    if (failed)
        return rp_fail(err, RP_MISMATCH, "%d of the bundles below '%s' did not verify: see 'repro verify FILE'", failed,
                       cli->argv[0]);
    return 0;
}

static enum rp_compare_order order_of(const char *name)
{
    return !name || strcmp(name, "nearest") == 0 ? RP_ORDER_nearest
           : strcmp(name, "ratio") == 0          ? RP_ORDER_ratio
                                                 : RP_ORDER_given;
}

static int parse_ratio(double *out, const char *text, struct rp_err *err)
{
    char *end, shown[72];
    *out = strtod(text, &end);
    if (end != text && !*end && *out > 0 && *out < 1e9)
        return 0;
    return rp_fail(err, RP_USAGE, "--min-ratio '%s': expected a number above 0, such as 0.97", rp_excerpt(shown, text));
}

/* The lowest ratio decides. */
static int check_ratios(const char *text, const struct rp_comparison *c, struct rp_err *err)
{
    const struct rp_pair *lowest = NULL;
    double least;
    if (!text)
        return 0;
    if (parse_ratio(&least, text, err) < 0)
        return -1;
    for (int64_t i = 0; i < c->pairs_n; i++) {
        const struct rp_pair *p = &c->pairs[i];
        if (!(p->ratio->value >= least) && (!lowest || p->ratio->value < lowest->ratio->value))
            lowest = p;
    }
    if (!lowest)
        return 0;
    return rp_fail(err, RP_MISMATCH, "--min-ratio %s: result %lld has %.4g times the figure of result 1", text,
                   (long long)lowest->b + 1, lowest->ratio->value);
}

/* A log names no model, and many no batch: what the user knows of it. */
static int lacks_model(const struct rp_rows *rows)
{
    for (int i = 0; i < rows->n; i++)
        if (rows->row[i].source.kind == RP_RESULT_IMPORTED && !rows->row[i].model)
            return 1;
    return 0;
}

static int compare_rows(struct rp_cli *cli, struct rp_rows *rows, struct rp_err *err)
{
    const struct compare_opts *o = cli->opts;
    enum rp_comparable verdict;
    RP_BUF models = {0};
    int left_out = o->all ? 0 : rp_compare_narrow(rows, &models);
    if (left_out && rows->n < 2)
        return rp_fail(err, RP_MISMATCH,
                       "not comparable: none of the other %d results is of %s, they are of %s (--all compares them)",
                       left_out, rows->row->model, rp_buf_text(&models));
    RP_COMPARISON c = {0};
    if (rp_compare(&c, rows, &verdict, err) < 0)
        return -1;
    rp_compare_sort(&c, order_of(o->sort));
    c.left_out = left_out ? left_out : RP_NO_INTEGER;
    if (cli->json) {
        cli->result = rp_comparison_json(&c);
    } else {
        RP_DOC out = {0};
        if (format_of(o->format) == RP_DOC_CSV)
            rp_compare_flat(&out, rows, &c);
        else
            rp_compare_show(&out, rows, &c, o->why);
        print_doc(&out, format_of(o->format), WIDTH);
    }
    if (verdict == RP_NOT_COMPARABLE)
        return rp_fail(err, RP_MISMATCH, "not comparable: see the confounders of kind 'work'%s",
                       lacks_model(rows)
                           ? "; 'repro import --set KEY=VALUE' adds what a log lacks, such as model=bert-base"
                           : "");
    if (verdict == RP_COMPARABLE_WITH_RESERVATIONS && o->strict)
        return rp_fail(err, RP_MISMATCH, "--strict: comparable with reservations only");
    return check_ratios(o->min_ratio, &c, err);
}

static int cmd_compare(struct rp_cli *cli, struct rp_err *err)
{
    RP_ROWS rows = {0};
    const struct compare_opts *o = cli->opts;
    struct rp_result_opts ro = {.trust = o->trust, .unverified = o->unverified};
    double ignored;
    if (o->min_ratio && parse_ratio(&ignored, o->min_ratio, err) < 0)
        return -1;
    if (o->layout && strcmp(o->layout, "index") == 0)
        return list_folder(cli, err);
    if (rp_rows_load_all(&rows, cli->argv, cli->argc, &ro, err) < 0)
        return -1;
    return o->layout ? print_layout(cli, &rows) : compare_rows(cli, &rows, err);
}

const struct rp_command rp_cmd_compare = {
    .name = "compare",
    .operands = "RESULT...",
    .summary = "check whether results are comparable, and by how much they differ",
    .details =
        "A RESULT is a bundle, which is verified first; published:NAME for an embedded table (dlperf_v100, gpt_v100, "
        "oneflow_v100_2020-08, published_other); a CSV file of that form; or an imported document. A selector after # "
        "picks some of its results: key=value,key=value with the names that --json prints; gpus and batch stand for "
        "devices and batch_per_device. Everything is compared with the first result. Results of other models in a "
        "table without a selector are left out and counted; --all keeps them. If nothing is left, the results are not "
        "comparable.\n"
        "\n"
        "The verdict comes first. Comparable: every property that affects throughput is known and equal on both sides, "
        "no captured value of high impact differs, and both figures have signed records. For runs on processors these "
        "properties include threads, instruction set and other load. Comparable with reservations: each reservation is "
        "listed with both values; 'unknown' is never equal to 'unknown'. Not comparable: another model, task, sequence "
        "length or unit, or an unknown model; then no ratio is printed.\n"
        "\n"
        "The nearest results come first, and text shows 20 of them: those whose confounders have the smallest effect "
        "on throughput (large: a factor, such as another device; moderate: some tens of percent, such as the batch; "
        "small: some percent). What is the same in all results is one line above the table. Of two results, or with "
        "--why, every confounder follows with both values, then facts and machines that differ, such as the program's "
        "version; --json also has every figure of both, side by side.\n"
        "\n"
        "A ratio is the other figure over that of result 1. Its 95 % interval is a bootstrap over repeats and steps of "
        "both, seeded by the digests of the files, so that it is reproducible; without records there is none, and n is "
        "how many a result has. Speed-up and efficiency are computed for results that differ only in the number of "
        "devices; bundles may also differ in the layout of their ranks and in the micro-batches of a step. The "
        "baseline is the result with the fewest devices.\n"
        "\n"
        "Of four and more results of the same settings and hardware, such as one bundle of each node, it gives median "
        "and spread, and names the outliers: those whose modified z-score is above 3.5, at least 1 % from the median.\n"
        "\n"
        "--layout prints the tables of a published report: DLPerf's nodes x devices, Paddle's cards with the sections "
        "that its authors left open, the 18 cases of the GPT report, a summary like MLPerf's, or a row per world with "
        "speed-up and efficiency. Cells without a measurement are 'no evidence'. In CSV, tables are separated by empty "
        "lines and begin with a header line; the first two columns are the section and the title of the table. "
        "--layout index FOLDER lists the contents of a folder and verifies each bundle with the key.pem next to it.\n"
        "\n"
        "Exit status 0: comparable, also with reservations unless --strict is given. 5: not comparable, or a bundle "
        "does not verify; the worst verdict of several results counts; with --min-ratio X also a ratio below X. 2: a "
        "selector matches nothing, or has an unknown key.\n"
        "\n"
        "Examples:\n"
        "  repro compare mine.repro.tar.zst theirs.repro.tar.zst\n"
        "  repro compare last.repro.tar.zst today.repro.tar.zst --min-ratio 0.97\n"
        "  repro compare mine.repro.tar.zst \\\n"
        "    'published:dlperf_v100#model=bert-base,precision=fp32,batch=32,gpus=1'\n"
        "  repro compare mine.repro.tar.zst published:dlperf_v100 --layout dlperf \\\n"
        "    --format md > report.md\n"
        "  repro compare a.repro.tar.zst b.repro.tar.zst --json |\n"
        "    jq -r '.pairs[].confounders[].name'\n",
    .opts = opts,
    .opts_size = sizeof(struct compare_opts),
    .run = cmd_compare,
};
