/* `repro export`: a verified bundle in another format. */
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "compare/result.h"
#include "export/export.h"

#include <string.h>

struct export_opts {
    const char *output, *trust, *org, *status;
    int force;
};

#define AT(field) offsetof(struct export_opts, field)
static const struct rp_opt opts[] = {
    RP_OPT_OUTPUT_OR_STDOUT(output, "file to write; default -, standard output"),
    RP_OPT_FORCE(force),
    RP_OPT_TRUST(trust),
    RP_OPTION_TEXT(org, "org", 0, "NAME", "submission_org; default: the fingerprint of the key that signed"),
    RP_OPTION_CHOICE(status, "status", 0, "research|preview|onprem|cloud", "submission_status; default: research"),
    {0},
};

static const struct rp_exporter *find_exporter(const char *name, struct rp_err *err)
{
    char shown[72];
    for (const struct rp_exporter *e = rp_exporters; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e;
    return rp_fail_null(err, RP_USAGE, "unknown format '%s'; expected %s", rp_excerpt(shown, name),
                        rp_exporters[0].name);
}

static int check_options(const struct export_opts *o, struct rp_err *err)
{
    if (o->org && !*o->org)
        return rp_fail(err, RP_USAGE, "--org: the name is empty");
    for (size_t at = 0, n; o->org && o->org[at]; at += n) {
        unsigned c;
        n = rp_utf8(o->org + at, strlen(o->org + at), &c);
        if (!n || rp_is_control(c) || rp_is_invisible(c))
            return rp_fail(err, RP_USAGE, "--org: the name has control or invisible characters");
    }
    return o->output ? rp_cli_check_output(o->output, o->force, err) : 0;
}

static int write_text(struct rp_cli *cli, const struct rp_buf *text, struct rp_err *err)
{
    const struct export_opts *o = cli->opts;
    if (cli->json)
        cli->result = json_pack("{s:s, s:s}", "format", cli->argv[0], "text", text->data);
    return rp_cli_write_output(cli, o->output, o->force, text, err);
}

static int cmd_export(struct rp_cli *cli, struct rp_err *err)
{
    const struct export_opts *o = cli->opts;
    const struct rp_exporter *e = find_exporter(cli->argv[0], err);
    if (!e || check_options(o, err) < 0)
        return -1;
    char shown[72];
    RP_BUF text = {0};
    RP_ROWS rows = {0};
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_verify_opts vo = {.trust = o->trust, .keep = &kept};
    struct rp_export_source from = {.verification = &v,
                                    .kept = &kept,
                                    .name = rp_base_name(cli->argv[1]),
                                    .org = o->org,
                                    .status = o->status ? o->status : "research"};
    if (rp_verify(&v, cli->argv[1], &vo, err) < 0)
        return err->code == RP_IO || err->code == RP_VERSION /* it was not checked */
                   ? -1
                   : rp_wrap(err, "'%s' does not verify and is not exported", rp_excerpt(shown, cli->argv[1]));
    RP_JSON *result = rp_result_to_json(rp_rows_add_verified(&rows, &v, &kept));
    from.result = result;
    return e->write(&text, &from, err) < 0 ? -1 : write_text(cli, &text, err);
}

const struct rp_command rp_cmd_export = {
    .name = "export",
    .operands = "FORMAT BUNDLE",
    .summary = "write a verified bundle in another format, such as MLLOG",
    .details =
        "Formats:\n"
#define EXPORT(id, writes) "  " #id ": " writes "\n"
#include "export/exporters.def"
#undef EXPORT
        "\n"
        "The bundle is verified first, without a replay; one that fails is not exported. The public MLPerf checker "
        "(mlperf_logging.compliance_checker) accepts the mllog output by the rulesets 3.1.0 to 5.0.0. It is not a "
        "submission: nothing was evaluated (eval_samples is 0, the status aborted). eval_accuracy, which the checker "
        "requires, is exp(-loss) of the last training step, as the log states. Of a command (repro exec --log mllog) "
        "it is the lines of its own log.\n"
        "\n"
        "Examples:\n"
        "  repro export mllog bert_fp32.repro.tar.zst --org 'Some Lab' -o result_0.txt\n",
    .opts = opts,
    .opts_size = sizeof(struct export_opts),
    .run = cmd_export,
};
