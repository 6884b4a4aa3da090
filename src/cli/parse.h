/* The parser: which command, which options, which operands.
 *
 * What:    argv against rp_commands[] and the option tables.
 * Flow:    argv -> struct rp_cli with command, opts, argc/argv filled; a mistake names the nearest valid word.
 * Owner:   rp_cli_fini() frees what parsing allocated; texts point into argv.
 * Extend:  a new type of option gets its case in store() and, if it takes no value, in takes_value().
 *
 * Forms: --name value, --name=value, -xVALUE, -x VALUE, -abc for three flags, -abVALUE, options after operands, and --
 * before operands that begin with a dash. A lone "-" is an operand.
 */
#pragma once

#include "cli/cli.h"

/* cli->command stays NULL for the general help (cli->help is set). */
int rp_cli_parse(struct rp_cli *cli, int argc, char **argv, struct rp_err *err) rp_must_check;
void rp_cli_fini(struct rp_cli *cli);

/* The command named by these words ("key", "new"); *used: how many words it took. A group if its subcommand is
 * missing. */
const struct rp_command *rp_cli_find(const char *const *words, int n, int *used, struct rp_err *err) rp_must_check;
