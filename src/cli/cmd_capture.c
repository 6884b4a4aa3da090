/* `repro capture`: the environment document on its own. */
#include "capture/capture.h"
#include "base/json.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

struct capture_opts {
    const char *output;
    int identify;
};

#define AT(field) offsetof(struct capture_opts, field)
static const struct rp_opt opts[] = {
    {.name = "output", .letter = 'o', .type = RP_OPT_TEXT, .offset = AT(output), .arg = "FILE",
     .help = "write the JSON document to this file; - is standard output"},
    {.name = "identify", .type = RP_OPT_FLAG, .offset = AT(identify),
     .help = "host name, serial numbers and UUIDs in clear instead of hashed"},
    {0},
};

static int cmd_capture(struct rp_cli *cli, struct rp_err *err)
{
    const struct capture_opts *o = cli->opts;
    struct rp_capture_opts c = {.root = "/", .identify = o->identify};
    RP_JSON *env = rp_capture(&c, err);
    if (!env)
        return -1;
    RP_BUF text = {0}, summary = {0};
    rp_json_write(&text, env);
    int to_stdout = o->output && strcmp(o->output, "-") == 0;
    if (o->output && !to_stdout && rp_write_file(o->output, text.data, text.size, 0644, err) < 0)
        return -1;
    if (cli->json) {
        cli->result = json_incref(env);
    } else if (to_stdout) {
        rp_cli_print(&text);
    } else {
        rp_capture_summary(&summary, env);
        rp_cli_print(&summary);
    }
    return 0;
}

const struct rp_command rp_cmd_capture = {
    .name = "capture",
    .operands = "",
    .summary = "say what this machine is",
    .details = "Prints a summary; the full document (schema repro-env/1) goes to a file with -o, or to standard output with --json. "
               "Nothing is written unless asked for: 'repro run' captures by itself, before and after, into its bundle.\n"
               "\n"
               "Every value carries a state: ok, absent, denied or error. Environment variables are taken by an allow-list; host "
               "name and serial numbers are salted hashes unless --identify.\n"
               "\n"
               "Examples:\n"
               "  repro capture\n"
               "  repro capture -o env.json\n"
               "  repro capture --json | jq .memory\n",
    .opts = opts,
    .opts_size = sizeof(struct capture_opts),
    .run = cmd_capture,
};
