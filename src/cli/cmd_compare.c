/* `repro compare`: results beside each other, and first whether they may stand there. */
#include "base/term.h"
#include "base/text.h"
#include "cli/opts.h"
#include "compare/compare.h"
#include "compare/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct compare_opts {
    const char *format, *trust, *layout;
    int unverified, strict, all;
};

#define AT(field) offsetof(struct compare_opts, field)
static const struct rp_opt opts[] = {
    RP_ROW_CHOICE(format, "format", 'f', "text|md|csv", "text, Markdown, or one CSV line per result; with --layout its tables as CSV"),
    RP_ROW_CHOICE(layout, "layout", 'l', "dlperf|paddle|gpt|mlperf|index",
                  "tables of a published report instead of a verdict; index: contents of a folder"),
    RP_ROW_FLAG(strict, "strict", 0, "exit status 5 also for results that are comparable with reservations"),
    RP_ROW_FLAG(all, "all", 'a', "keep results of other models from tables given whole; also with --layout"),
    RP_OPT_TRUST(trust),
    RP_ROW_FLAG(unverified, "unverified", 0, "also compare bundles that fail verification, each marked as unverified"),
    {0},
};

static enum rp_doc_format format_of(const char *name)
{
    return !name || strcmp(name, "text") == 0 ? RP_DOC_TEXT : strcmp(name, "md") == 0 ? RP_DOC_MD : RP_DOC_CSV;
}

static int load(struct rp_rows *rows, struct rp_cli *cli, struct rp_err *err)
{
    const struct compare_opts *o = cli->opts;
    struct rp_row_opts ro = {.trust = o->trust, .unverified = o->unverified};
    return rp_rows_load_all(rows, cli->argv, cli->argc, &ro, err);
}

/* A pipe takes lines of any width, unless COLUMNS says otherwise. */
static void print(struct rp_doc *d, enum rp_doc_format format)
{
    RP_BUF text = {0};
    d->width = isatty(STDOUT_FILENO) || getenv("COLUMNS") ? rp_columns(STDOUT_FILENO) : 0;
    rp_doc_write(&text, d, format);
    rp_cli_print(&text);
}

/* Hands it out; *d is empty again. */
static int show_layout(struct rp_cli *cli, struct rp_doc *d)
{
    const struct compare_opts *o = cli->opts;
    if (cli->json)
        cli->result = json_pack("{s:s, s:s, s:o}", "schema", "urn:repro:layout:1", "layout", o->layout, "blocks", rp_doc_json(d));
    else
        print(d, format_of(o->format));
    rp_doc_fini(d);
    return 0;
}

/* Against the first result; tables alone are laid out whole, as no model was chosen. */
static int lay_out(struct rp_cli *cli, struct rp_rows *rows)
{
    RP_BUF models = {0};
    const struct compare_opts *o = cli->opts;
    const struct rp_layout *l = rp_layouts;
    struct rp_doc out = {0};
    while (l->name && strcmp(l->name, o->layout) != 0)
        l++;
    RP_BUG_IF(!l->name);
    int left_out = o->all || !rows->n || !rows->row->selected ? 0 : rp_compare_narrow(rows, &models);
    l->write(&out, rows);
    if (left_out)
        rp_doc_line(&out, "%d results of other models left out: %s (--all shows them)", left_out, rp_buf_text(&models));
    return show_layout(cli, &out);
}

static int list_folder(struct rp_cli *cli, struct rp_err *err)
{
    struct rp_doc out = {0};
    if (cli->argc != 1)
        return rp_fail(err, RP_USAGE, "--layout index takes one folder");
    int failed, rc = rp_index(&out, cli->argv[0], &failed, err);
    if (rc == 0)
        rc = show_layout(cli, &out);
    rp_doc_fini(&out);
    if (rc == 0 && failed)
        return rp_fail(err, RP_MISMATCH, "%d of the bundles below '%s' did not verify: 'repro verify FILE' says why", failed, cli->argv[0]);
    return rc;
}

static int compare(struct rp_cli *cli, struct rp_rows *rows, struct rp_err *err)
{
    const struct compare_opts *o = cli->opts;
    enum rp_comparable verdict;
    RP_BUF models = {0};
    int left_out = o->all ? 0 : rp_compare_narrow(rows, &models);
    if (left_out && rows->n < 2)
        return rp_fail(err, RP_MISMATCH, "not comparable: none of the other %d results is of %s, they are of %s (--all compares them "
                                         "all the same)", left_out, rows->row->model, rp_buf_text(&models));
    json_t *doc = rp_compare(rows, &verdict, err);
    if (!doc)
        return -1;
    if (left_out)
        json_object_set_new(doc, "left_out", json_integer(left_out));
    if (cli->json) {
        cli->result = doc;
    } else {
        struct rp_doc out = {0};
        if (format_of(o->format) == RP_DOC_CSV)
            rp_compare_flat(&out, rows, doc);
        else
            rp_compare_show(&out, rows, doc);
        print(&out, format_of(o->format));
        rp_doc_fini(&out);
        json_decref(doc);
    }
    if (verdict == RP_NOT_COMPARABLE)
        return rp_fail(err, RP_MISMATCH, "not comparable: see what the confounders of kind 'work' say");
    if (verdict == RP_COMPARABLE_WITH_RESERVATIONS && o->strict)
        return rp_fail(err, RP_MISMATCH, "--strict: comparable with reservations only");
    return 0;
}

static int cmd_compare(struct rp_cli *cli, struct rp_err *err)
{
    struct rp_rows rows = {0};
    const struct compare_opts *o = cli->opts;
    if (o->layout && strcmp(o->layout, "index") == 0)
        return list_folder(cli, err);
    int rc = load(&rows, cli, err);
    if (rc == 0)
        rc = o->layout ? lay_out(cli, &rows) : compare(cli, &rows, err);
    rp_rows_fini(&rows);
    return rc;
}

const struct rp_command rp_cmd_compare = {
    .name = "compare",
    .operands = "RESULT...",
    .min_operands = 1,
    .max_operands = -1,
    .summary = "check whether results are comparable, and by how much they differ",
    .details =
        "A RESULT is a bundle, which is verified first; published:NAME for a table of others that is inside this program (dlperf_v100, "
        "gpt_v100, oneflow_v100_2020-08, published_other); a CSV file of that form; or an imported document. Behind a # "
        "a selector picks some of its results: key=value,key=value with the names that --json shows; gpus and batch stand for devices and "
        "batch_per_device. Everything is compared with the first result. Of a table named without a selector, results of another model "
        "than the first are left out, and counted, with --layout too (there only where the first was itself named by file or selector: "
        "tables alone are laid out whole); if nothing is left, that is not comparable. --all keeps them.\n"
        "\n"
        "First comes the verdict. Comparable: every property that moves throughput is known on both sides and equal, no captured value "
        "of high effect differs, and both figures have signed records. Of runs on processors threads, instruction set and other work on "
        "the machine are such properties too. With reservations: each one is named, with both values; 'unknown' where a report does not "
        "say, and unknown on both sides is not equal. Not comparable: another model, task, sequence length or unit, or a model that nobody "
        "names, and then no ratio is given.\n"
        "\n"
        "A ratio is the other figure over that of result 1. Its interval of 95 % is a bootstrap over the samples of both, repeats and "
        "steps in them drawn again, seeded by the digests of the files, so that it is the same everywhere; where a side has no samples "
        "there is none. Speed-up and efficiency are computed for results that differ in nothing but the number of devices.\n"
        "\n"
        "--layout prints the same results in the tables of a published report: DLPerf's nodes x devices, Paddle's cards with the sections "
        "that its authors left to be done, the 18 cases of the GPT report, a summary like MLPerf's. What nothing measured says 'no "
        "evidence'. In CSV, tables stand below each other, an empty line between them, each with a line of names; the first two columns of "
        "every table are 'section', the heading above it, and 'table', its title there. --layout index FOLDER lists what "
        "lies in a folder, each bundle verified with the key.pem beside it.\n"
        "\n"
        "Exit status 0: comparable, with or without reservations (with --strict: without). 5: not comparable, or a bundle does not "
        "verify. Of several results the worst verdict decides: one that is not comparable is enough. 2: a selector that nothing fits.\n"
        "\n"
        "Examples:\n"
        "  repro compare mine.repro.tar.zst theirs.repro.tar.zst\n"
        "  repro compare mine.repro.tar.zst \\\n"
        "    'published:dlperf_v100#model=bert-base,precision=fp32,batch=32,gpus=1'\n"
        "  repro compare 'published:dlperf_v100#framework=OneFlow,batch_mode=max'\n"
        "  repro compare mine.repro.tar.zst published:dlperf_v100 --layout dlperf \\\n"
        "    --format md > report.md\n"
        "  repro compare a.repro.tar.zst b.repro.tar.zst --json |\n"
        "    jq -r '.pairs[].confounders[].name'\n",
    .opts = opts,
    .opts_size = sizeof(struct compare_opts),
    .run = cmd_compare,
};
