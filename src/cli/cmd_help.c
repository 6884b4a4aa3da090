/* `repro help`: the texts that are made from the command table. */
#include "cli/help.h"
#include "cli/opts.h"
#include "cli/parse.h"

#include <string.h>

struct help_opts {
    int man;
    const char *completion;
};

#define AT(field) offsetof(struct help_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_FLAG(man, "man", 0, "print the man page; with COMMAND the page of that command"),
    RP_OPTION_CHOICE(completion, "completion", 0, "bash|zsh|fish", "print the completion script of a shell"),
    {0},
};

static int cmd_help(struct rp_cli *cli, struct rp_err *err)
{
    const struct help_opts *o = cli->opts;
    RP_BUF out = {0};
    int used = 0;
    const struct rp_command *c = cli->argc ? rp_cli_find(cli->argv, cli->argc, &used, err) : NULL;
    if (cli->argc && !c)
        return -1;
    if (used < cli->argc)
        return rp_fail(err, RP_USAGE, "'%s' has no subcommand '%s'", cli->argv[0], cli->argv[used]);
    if (o->man && c)
        rp_man_command(&out, c);
    else if (o->man)
        rp_man_page(&out);
    else if (o->completion && strcmp(o->completion, "zsh") == 0)
        rp_completion_zsh(&out);
    else if (o->completion && strcmp(o->completion, "fish") == 0)
        rp_completion_fish(&out);
    else if (o->completion)
        rp_completion_bash(&out);
    if (o->man || o->completion) {
        if (cli->json)
            cli->result = json_pack("{s:s}", o->man ? "man" : "completion", rp_buf_text(&out));
        else
            rp_cli_print(&out);
        return 0;
    }
    if (cli->json) {
        cli->result = rp_help_json(c);
        return 0;
    }
    if (c)
        rp_help_command(&out, c);
    else
        rp_help_top(&out);
    rp_cli_print(&out);
    return 0;
}

const struct rp_command rp_cmd_help = {
    .name = "help",
    .operands = "[COMMAND]...",
    .summary = "explain COMMAND, or everything; man page, completion; COMMAND --help: its options",
    .details = "'repro COMMAND --help' prints one line for each option; this prints the whole explanation. With "
               "--json: the table of commands, options and exit statuses, or the part of COMMAND.\n"
               "\n"
               "Examples:\n"
               "  repro help key new\n"
               "  repro help run --man | man -l -\n"
               "  . <(repro help --completion bash)\n"
               "  repro help --completion fish >~/.config/fish/completions/repro.fish\n",
    .opts = opts,
    .opts_size = sizeof(struct help_opts),
    .run = cmd_help,
};
