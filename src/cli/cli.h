/* The command line: a table of commands, and of each one's options; parsing, help, man page and completion follow.
 *
 * What:    rp_commands[] (cli/commands.c) and their parser.
 * Flow:    argv -> command -> options struct -> cmd_<name>() -> exit status.
 * Owner:   rp_cli_main() owns the options struct and the result document; texts point into argv.
 * Extend:  a command is a row of commands.def, whose head says what belongs to it.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "report/template.h"

#include <jansson.h>
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
    int standard; /* text "-" is as if the option were not given: standard output is the default */
    const char *help; /* no full stop; --help prints one line, up to the first semicolon */
};
/* Rows end with an all-zero row; a row with an empty name is skipped. rp_opts_common (--json, --quiet, --help) belong
 * to every command; their offsets are into struct rp_cli. */
extern const struct rp_opt rp_opts_common[];

struct rp_cli {           /* what every command gets */
    int json, quiet;      /* --json: the result as one JSON document on stdout; --quiet: no progress */
    int help;             /* --help was seen: the command does not run */
    int events;           /* stderr has one JSON object a line: errors too */
    int silent;           /* the exit status is the answer: no text is printed, not even why it is not 0 */
    int argc;             /* operands left after options */
    const char **argv;
    void *opts;           /* the command's own struct, zeroed, filled */
    const struct rp_command *command;
    int status; /* of the command that `exec` ran: the exit status, unless it is 0 */
    /* What the command returns. With --json rp_cli_main() prints it. If the command fails, the document gets an "error"
     * member: stdout is always one document. */
    json_t *result;
};

struct rp_command {
    const char *name;     /* "key" or, for a subcommand, "key new" */
    const char *operands; /* "RECIPE", "BUNDLE...", "BUNDLE [MEMBER]", "BUNDLE | --list", "": also gives their number */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs for `repro help` and the man page, refilled; indented lines are kept */
    const struct rp_opt *opts;
    size_t opts_size;
    int (*run)(struct rp_cli *cli, struct rp_err *err); /* 0, or -1 with *err (printed by rp_cli_main); NULL: a group */
    /* Options from `more` on are only in `repro help COMMAND`, and --help calls them `more_are`; NULL: none. */
    const char *more, *more_are;
    int output; /* version of the document that it returns; 0: the first */
};

extern const struct rp_command *const rp_commands[]; /* ended by NULL; subcommands follow their group */
struct rp_command_section {
    const struct rp_command *first;
    const char *title;
};
/* of the help, in the order of the commands; ended by NULL */
extern const struct rp_command_section rp_command_sections[];

int rp_cli_main(int argc, char **argv); /* returns the exit status */

/* The text on stderr, and with --json {"error": {"code", "exit", "message"}} on stdout, merged into a cli->result.
 * Without a result, every command prints a document with the schema RP_ERROR_SCHEMA. */
#define RP_ERROR_SCHEMA "repro-error/1"
void rp_cli_print_error(const struct rp_cli *cli, const struct rp_err *err);
json_t *rp_cli_error_json(const struct rp_err *err); /* what "error" has */
/* The id of a command's document: "repro-key-show-output/1". */
const char *rp_cli_output_id(char out[80], const char *command);
/* Takes a command's document as its result and, without --json, prints it by a template (report/template.h). */
void rp_cli_return(struct rp_cli *cli, json_t *document, const char *template);
/* RP_UNAVAILABLE if the stack that is allowed here would overflow, which ends a process without a message. */
int rp_cli_check_stack(struct rp_err *err) rp_must_check;
/* Whether the exit status of the first of two bundles' errors is the worse news. */
int rp_cli_is_worse(enum rp_code code, enum rp_code than);
/* What a command made, as the last line of its text, for scripts: as it is, also where it is not UTF-8. */
void rp_cli_print_path(const struct rp_cli *cli, const char *path);
/* A path, or a text with one, for a document: cleaned where it is not UTF-8; null for NULL. */
json_t *rp_cli_path(const char *path);
/* Characters in a line of standard output: of the terminal, elsewhere $COLUMNS; 0: unlimited. */
int rp_cli_width(void);
enum rp_fill rp_cli_fill(void); /* a text, for a terminal with colours */
/* Writes to standard output; rp_cli_main() reports errors. */
void rp_cli_print(const struct rp_buf *b);
/* --quiet also hides that a signing key was made; where REPRO_KEY names its file, perhaps a mistyped one, that is said
 * all the same. print: its fingerprint. */
void rp_cli_note_new_key(const struct rp_cli *cli, const char *print);
int rp_cli_has_stdout(void); /* 0: the process was started without one: no summary is printed besides a file */
/* Before the work begins: --output names a new file, with `force` an existing one, or a device such as /dev/null; never
 * a pipe, which would wait for a reader. */
int rp_cli_check_output(const char *path, int force, struct rp_err *err) rp_must_check;
/* The same for a bundle, which replaces a file or is a new one: no device either. option: that names it. */
int rp_cli_check_bundle_output(const char *path, const char *option, int force, struct rp_err *err) rp_must_check;
/* The whole file or nothing; without `force` only devices exist already. path NULL: stdout, but not with --json. */
int rp_cli_write_output(const struct rp_cli *cli, const char *path, int force, const struct rp_buf *text,
                        struct rp_err *err) rp_must_check;
/* Standard input to its end, for an operand "-"; RP_MALFORMED: it has more than `most` bytes. */
#define RP_CLI_INPUT "stdin" /* its name in messages */
int rp_cli_read_input(struct rp_buf *out, size_t most, struct rp_err *err) rp_must_check;
/* The file that --OPTION names (NULL: none) can be read: a mistyped name is reported before the work begins. */
int rp_cli_check_readable(const char *option, const char *path, struct rp_err *err) rp_must_check;
/* The same, and that it is a bundle, or a ledger. What is wrong in one is for `verify` to find. */
int rp_cli_check_bundle(const char *option, const char *path, struct rp_err *err) rp_must_check;
int rp_cli_check_ledger(const char *option, const char *path, struct rp_err *err) rp_must_check;
