/* The command line: one table of commands, one table of options per command; parsing, help, man page and completion follow.
 *
 * What:    rp_commands[] (cli/commands.c) and the parser that serves them.
 * Flow:    argv -> command -> options struct -> cmd_<name>() -> exit status.
 * Owner:   option structs live on the stack of rp_cli_main(); texts point into argv.
 * Extend:  "Adding a command": write cli/cmd_<name>.c with its option table and function, add one row to rp_commands[].
 */
#ifndef RP_CLI_CLI_H
#define RP_CLI_CLI_H

#include "base/err.h"

#include <stddef.h>

/* Option types and the C type of the field at `offset`. */
enum rp_opt_type {
    RP_OPT_FLAG,  /* int, set to 1 */
    RP_OPT_TEXT,  /* const char * */
    RP_OPT_INT,   /* long, checked against lo..hi */
    RP_OPT_LIST,  /* struct rp_opt_list: may be given several times */
    RP_OPT_CHOICE /* const char *, one of `choices` */
};
struct rp_opt_list {
    const char **item;
    int n;
};

struct rp_opt {
    const char *name; /* "backend" -> --backend */
    char letter;      /* 'b' -> -b, 0: none */
    enum rp_opt_type type;
    size_t offset;    /* into the command's options struct */
    const char *arg;  /* "FILE" in the help; NULL for flags */
    const char *choices; /* "a|b|c" for RP_OPT_CHOICE */
    long lo, hi;
    const char *help; /* one line, no full stop */
};
/* rows end with an all-zero row; RP_OPTS_COMMON (--json, --help, --quiet) belong to every command and are added by the parser */

struct rp_cli {           /* what every command gets */
    int json, quiet;      /* --json: the result as one JSON document on stdout; --quiet: no progress */
    int argc;             /* operands left after options */
    const char **argv;
    void *opts;           /* the command's own struct, zeroed, filled */
    const struct rp_command *command;
};

struct rp_command {
    const char *name;     /* "key" or, for a subcommand, "key new" */
    const char *operands; /* "RECIPE", "BUNDLE...", "" */
    int min_operands, max_operands; /* max -1: any number */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs for --help and the man page, with examples */
    const struct rp_opt *opts;
    size_t opts_size;
    int (*run)(struct rp_cli *cli, struct rp_err *err); /* 0, or -1 with *err (printed by rp_cli_main) */
    int hidden;           /* not in help (the worker) */
};

extern const struct rp_command *const rp_commands[]; /* ended by NULL */

int rp_cli_main(int argc, char **argv); /* returns the exit status */

/* Errors and results in the chosen form: text or {"error": {"code", "message"}}. */
void rp_cli_print_error(const struct rp_cli *cli, const struct rp_err *err);

/* Generated documents: `repro help --man`, `--completion bash|zsh` are hidden switches the Makefile uses for install. */
void rp_cli_man(void);
void rp_cli_completion_bash(void);
void rp_cli_completion_zsh(void);

#endif
