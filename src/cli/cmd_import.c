/* `repro import`: logs of other programs as unsigned results for `compare`. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "import/import.h"

#include <stdio.h>

struct import_opts {
    const char *output, *unit, *from, *to;
    struct rp_opt_list set;
    int force;
};

#define AT(field) offsetof(struct import_opts, field)
static const struct rp_opt opts[] = {
    RP_OPT_OUTPUT_OR_STDOUT(output, "file to write; default -, standard output"),
    RP_OPT_FORCE(force),
    RP_OPTION_LIST(set, "set", "KEY=VALUE",
                   "a value that the log lacks; the document marks it as set on the command line"),
    RP_OPTION_CHOICE(unit, "unit", 0, "sequences/s|images/s|tokens/s|samples/s",
                     "unit of throughput; needed if the log lacks it"),
    RP_OPTION_TEXT(from, "from", 0, "STEP", "first step of the timed window; default depends on the format"),
    RP_OPTION_TEXT(to, "to", 0, "STEP", "last step of the timed window"),
    {0},
};

static int read_files(struct rp_import *im, const struct rp_cli *cli, struct rp_import_opts *io, struct rp_err *err)
{
    const struct import_opts *o = cli->opts;
    *io = (struct rp_import_opts){.from = -1, .to = -1, .set = o->set.item, .sets = o->set.n, .unit = o->unit};
    if (rp_import_step(&io->from, "from", o->from, err) < 0 || rp_import_step(&io->to, "to", o->to, err) < 0)
        return -1;
    if (io->from >= 0 && io->to >= 0 && io->from >= io->to)
        return rp_fail(err, RP_USAGE, "the timed window is empty: --from %s, --to %s", o->from, o->to);
    if (!(im->importer = rp_importer_find(cli->argv[0], err)))
        return -1;
    for (int i = 1; i < cli->argc; i++)
        if (rp_import_file(im, cli->argv[i], io, err) < 0)
            return -1;
    return rp_import_finish(im, err);
}

static const char rows_text[] =
    "[/rows:{/label t}\r{/throughput/value d3}[/throughput/unit: {/throughput/unit t}]\n]"
    "[/rows:[/source/note:note on {/label t}: {/source/note p}\n]]";

static int write_document(struct rp_cli *cli, const json_t *doc, struct rp_err *err)
{
    const struct import_opts *o = cli->opts;
    RP_BUF text = {0};
    rp_json_write(&text, doc);
    if (rp_cli_write_output(cli, o->output, o->force, &text, err) < 0)
        return -1;
    rp_cli_return(cli, json_incref((json_t *)doc), o->output && !cli->quiet && rp_cli_has_stdout() ? rows_text : "");
    return 0;
}

static int cmd_import(struct rp_cli *cli, struct rp_err *err)
{
    const struct import_opts *o = cli->opts;
    struct rp_import im = {0};
    struct rp_import_opts io;
    char at[32];
    if (o->output && rp_cli_check_output(o->output, o->force, err) < 0)
        return -1;
    int failed = read_files(&im, cli, &io, err) < 0;
    if (!failed) {
        rp_rfc3339(at, rp_wall_ns());
        RP_JSON *doc = rp_import_document(&im, &io, at);
        failed = write_document(cli, doc, err) < 0;
    }
    rp_import_fini(&im);
    return failed ? -1 : 0;
}

const struct rp_command rp_cmd_import = {
    .name = "import",
    .operands = "FORMAT FILE...",
    .summary = "convert logs of other programs to unsigned results for 'compare'",
    .details = "Formats:\n"
#define FORMAT(id, reads) "  " #id ": " reads "\n"
#include "import/formats.def"
#undef FORMAT
               "\n"
               "Throughput is computed from the times of a log, samples over seconds, and the document names the "
               "lines. The log's own rate is kept, with a note if they disagree. For a log with rates but without "
               "times, the mean of the rates is marked as such. Missing values stay absent. Nothing is signed; the "
               "document has the digest of every file, so that the logs can be imported again.\n"
               "\n"
               "The timed window: for dlperf that of its own scripts, step 20 to step 120 for most programs; else all "
               "steps except the first. Repeats (logs named ..._1.log, ..._2.log with equal facts) become one row, the "
               "median over the logs.\n"
               "\n"
               "MLPerf: give all results/NAME/BENCHMARK/result_*.txt, and systems/NAME.json for the machine. A log "
               "has a time to train, run_start to run_stop with status success. The logs of a folder are one row; it "
               "has a score, the mean without the fastest and the slowest run, if they are as many as MLPerf's rule "
               "asks for. MLPerf's own normalization is not applied.\n"
               "\n"
               "Keys of --set:\n"
#define FACT(kind, key, meaning) "  " #key ": " meaning "\n"
#include "import/facts.def"
#undef FACT
               "\n"
               "Examples:\n"
               "  repro import dlperf logs/1n8g/bert_b32_fp32_*.log -o oneflow.json\n"
               "  repro import mllog results/NAME/bert/result_*.txt systems/NAME.json -o mlperf.json\n"
               "  repro import csv steps.csv --set global_batch=256 --unit images/s\n",
    .opts = opts,
    .opts_size = sizeof(struct import_opts),
    .run = cmd_import,
};
