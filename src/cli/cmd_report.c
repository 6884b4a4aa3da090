/* `repro report`: verified bundles as one HTML or Markdown report. */
#include "base/buf.h"
#include "base/text.h"
#include "cli/opts.h"
#include "ledger/ledger.h"
#include "page/page.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct report_opts {
    const char *output, *trust, *format, *ledger, *original;
    int force, any_key;
};

#define AT(field) offsetof(struct report_opts, field)
static const struct rp_opt opts[] = {
    RP_OPT_OUTPUT_OR_STDOUT(
        output,
        "report to write, its form by the ending .html or .md; default -, standard output, unless it is a terminal"),
    RP_OPT_FORCE(force),
    RP_OPTION_CHOICE(format, "format", 0, "html|md", "html or Markdown; default by the ending of --output, else html"),
    RP_OPT_TRUST(trust),
    RP_OPT_ANY_KEY(any_key),
    RP_OPT_LEDGER(ledger),
    RP_OPT_ORIGINAL(original),
    {0},
};

static int choose_format(const struct report_opts *o, int json, int *markdown, struct rp_err *err)
{
    *markdown = o->format ? strcmp(o->format, "md") == 0 : o->output && rp_ends_with(o->output, ".md");
    if (!o->format && o->output && !*markdown && !rp_ends_with(o->output, ".html") &&
        !rp_ends_with(o->output, ".htm") && strncmp(o->output, "/dev/", 5) != 0)
        return rp_fail(err, RP_USAGE, "'%s' ends neither in .html nor in .md: choose the format with --format",
                       o->output);
    if (!o->output && !*markdown && !json && isatty(STDOUT_FILENO))
        return rp_fail(err, RP_USAGE,
                       "an HTML report is not for a terminal: name its file with -o FILE.html, or read it here with "
                       "--format md");
    return o->output ? rp_cli_check_output(o->output, o->force, err) : 0;
}

/* The verdict as `verify` prints it. */
static void print_verdict(const struct rp_shown_bundle *b)
{
    RP_BUF line = {0};
    char name[512];
    rp_verification_line(&line, b->v);
    fprintf(stderr, "%s: %s\n", rp_ascii(name, sizeof name, b->name), rp_buf_text(&line));
}

/* An unreadable file or a bad --trust ends the command without a report. *worst: of the bundles that `verify` would
 * not end with 0 for. */
static int verify_bundles(struct rp_page_bundles *s, const struct rp_cli *cli, struct rp_err *worst, struct rp_err *err)
{
    const struct report_opts *o = cli->opts;
    struct rp_err no_home;
    RP_FREE char *seen = rp_ledger_verified_path(&no_home);
    const struct rp_verify_opts vo = {
        .trust = o->trust, .any_key = o->any_key, .seen = seen, .ledger = o->ledger, .original = o->original};
    for (int i = 0; i < cli->argc; i++) {
        struct rp_err why = {0};
        const int failed = rp_page_bundles_add(s, cli->argv[i], vo, &why) < 0;
        if (failed && (why.code == RP_IO || why.code == RP_USAGE)) {
            *err = why;
            return -1;
        }
        if (!cli->quiet && !cli->json)
            print_verdict(&s->b[i]);
        if (!failed && rp_verdict_accepts(&s->v[i], &why) == 0)
            continue;
        if (cli->argc > 1)
            (void)rp_wrap(&why, "%s", cli->argv[i]);
        if (worst->code == RP_OK || rp_cli_is_worse(why.code, worst->code))
            *worst = why;
    }
    return 0;
}

static json_t *summary_json(const struct rp_page_bundles *s, const struct rp_buf *page, int markdown, const char *file)
{
    json_t *list = json_array();
    for (int i = 0; i < s->n; i++)
        json_array_append_new(list, rp_verification_json(&s->v[i]));
    return json_pack("{s:s, s:s*, s:I, s:o, s:s*}", "format", markdown ? "md" : "html", "file", file, "bytes",
                     (json_int_t)page->size, "bundles", list, "report", file ? NULL : rp_buf_text(page));
}

static int write_page(struct rp_cli *cli, const struct rp_page_bundles *s, const struct report_opts *o, int markdown,
                      struct rp_err *err)
{
    RP_BUF page = {0};
    if (markdown)
        rp_page_markdown(&page, s->b, s->n);
    else
        rp_page_html(&page, s->b, s->n);
    if (rp_cli_write_output(cli, o->output, o->force, &page, err) < 0)
        return -1;
    if (cli->json)
        cli->result = summary_json(s, &page, markdown, o->output);
    if (o->output && !cli->json)
        printf("%s\n", o->output);
    return 0;
}

static int cmd_report(struct rp_cli *cli, struct rp_err *err)
{
    const struct report_opts *o = cli->opts;
    struct rp_err worst = {0};
    int markdown;
    if (o->trust && o->any_key)
        return rp_fail(err, RP_USAGE, "--trust names the signer, and --any-key accepts every one: give one of them");
    if (cli->argc > RP_PAGE_BUNDLES)
        return rp_fail(err, RP_USAGE, "a report has at most %d bundles; 'repro compare' takes more", RP_PAGE_BUNDLES);
    if (cli->argc > 1 && (o->ledger || o->original))
        return rp_fail(err, RP_USAGE, "--%s needs exactly one bundle", o->ledger ? "ledger" : "original");
    if (rp_cli_check_ledger("ledger", o->ledger, err) < 0 ||
        rp_cli_check_bundle("original", o->original, err) < 0 || choose_format(o, cli->json, &markdown, err) < 0)
        return -1;
    __attribute__((cleanup(rp_page_bundles_free))) struct rp_page_bundles *s = rp_alloc(sizeof *s);
    if (verify_bundles(s, cli, &worst, err) < 0 || write_page(cli, s, o, markdown, err) < 0)
        return -1;
    if (worst.code == RP_OK)
        return 0;
    *err = worst;
    return -1;
}

const struct rp_command rp_cmd_report = {
    .name = "report",
    .operands = "BUNDLE...",
    .summary = "write a report of bundles: figures, plots, machine",
    .details =
        "Verifies each bundle and writes one self-contained HTML file: no scripts, no network requests, no fonts. It "
        "begins with throughput and the machine. The verdict of 'repro verify' is a line that opens to trust and all "
        "checks; with --ledger and --original also to the attempts of the signer and the comparison with the original. "
        "Then follow every step, phases, losses, telemetry, ceilings, memory, published results, topology, "
        "environment, the commands that check it, and the raw data as CSV. Pointing at a plot shows its values. "
        "Several bundles have one chart, the fastest first, and one plot of losses. The Markdown report has the same "
        "figures as tables, below the verdict.\n"
        "\n"
        "The report is written whatever the verdict, of a bundle that fails with its failed checks only. Each verdict "
        "is printed on standard error, and the exit status is that of 'repro verify', of several bundles the worst: 8 "
        "if the key is unknown, which --any-key makes 0, and 10 if the run did not reach its end. Bundles of the key "
        "that were verified here are compared as 'repro verify' does, which shows a forked ledger; nothing is added to "
        "that record.\n"
        "\n"
        "Every figure names its source. The body is a function of the bundle, without a date: made again by the same "
        "version of repro it has the same bytes.\n"
        "\n"
        "Examples:\n"
        "  repro report a.repro.tar.zst b.repro.tar.zst -o both.html\n"
        "  repro report bert_fp32.repro.tar.zst -o report.md\n",
    .opts = opts,
    .opts_size = sizeof(struct report_opts),
    .run = cmd_report,
};
