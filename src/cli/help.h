/* Texts made from the command table: help, man page, completion.
 *
 * What:    all documentation of commands and options, each fact written once.
 * Flow:    rp_commands[], option rows, RP_CODES, RP_ENVIRONMENT -> text in a buffer.
 * Owner:   the caller owns the buffer.
 * Extend:  an environment variable is one row of RP_ENVIRONMENT; another shell is one function in completion.c.
 */
#pragma once

#include "base/buf.h"
#include "cli/cli.h"

#define RP_TAGLINE "measures AI training and seals results that a stranger can check"

#define RP_ENVIRONMENT(X)                                                                                              \
    X("REPRO_KEY", "path of the private key that signs bundles")                                                       \
    X("REPRO_LEDGER", "file of the ledger of attempts, instead of the one next to the key")                            \
    X("REPRO_STORE", "directory where data archives are unpacked")                                                     \
    X("REPRO_JOB_KEY", "key of a job of several processes, or REPRO_JOB_KEY_FILE: a file with it")                     \
    X("REPRO_IMAGE", "image of this container, NAME[:TAG]@sha256:DIGEST, where its engine does not show it")           \
    X("REPRO_SSH", "with run --hosts: command to use instead of ssh, such as ssh -p 2222")                             \
    X("XDG_CONFIG_HOME", "parent of repro/: key.pem, its ledger, verified.jsonl and trust/; default ~/.config")   \
    X("XDG_CACHE_HOME", "parent of repro/, the store when REPRO_STORE is not set; default ~/.cache")                   \
    X("TMPDIR", "directory for a bundle whose own place can no longer be written; default /tmp")                       \
    X("NO_COLOR", "when not empty: no colour")                                                                         \
    X("COLUMNS", "width of the progress line and of wrapped text")                                                     \
    X("TERM", "dumb: plain lines instead of a progress line that rewrites itself")

#define RP_FILES(X)                                                                                                    \
    X("~/.config/repro/key.pem", "the signing key, made by 'repro key new' or the first run; never publish it")        \
    X("~/.config/repro/ledger-*.jsonl", "the ledger of attempts of each key")                                          \
    X("~/.config/repro/trust/", "public keys of 'repro key trust'")                                                    \
    X("~/.config/repro/verified.jsonl", "bundles that were verified here")                                             \
    X("~/.cache/repro/", "unpacked data archives")

/* Paragraphs of `details`. */
#define RP_FIRST_STEPS                                                                                                 \
    "First steps:\n"                                                                                                   \
    "  repro run bert_tiny_fp32      a small model, seconds\n"                                                         \
    "  repro run bert_fp32           BERT-base, minutes\n"                                                             \
    "  repro recipes                 all recipes: BERT, GPT and ResNet-50\n"                                           \
    "  repro verify FILE             check the result, or a bundle that you received\n"                                \
    "\n"                                                                                                               \
    "In a container, with volumes for bundles and for the key (podman: with --userns keep-id):\n"                      \
    "  docker run --rm --gpus all -u \"$(id -u):$(id -g)\" -v \"$PWD:/work\" \\\n"                                     \
    "    -v repro-key:/key repro:VERSION-cuda run bert_fp32\n"

/* --help: at most 25 lines of 100 columns, one line for each option or subcommand, its help up to the first
 * semicolon. */
void rp_help_screen(struct rp_buf *out, const struct rp_command *c);
void rp_help_top_screen(struct rp_buf *out);
/* `repro help [COMMAND]`: the whole text. */
void rp_help_command(struct rp_buf *out, const struct rp_command *c);
void rp_help_top(struct rp_buf *out);
json_t *rp_help_json(const struct rp_command *only); /* the table of commands, or that command and its subcommands */

void rp_man_page(struct rp_buf *out);
void rp_man_command(struct rp_buf *out, const struct rp_command *c); /* a page of its own: repro-run(1) */
/* The names of the list that FORMAT or KIND of `operands` stands for, a blank before each; of other operands nothing.
 */
void rp_help_operand_names(struct rp_buf *out, const struct rp_command *c);
void rp_completion_bash(struct rp_buf *out);
void rp_completion_zsh(struct rp_buf *out);
void rp_completion_fish(struct rp_buf *out);

void rp_schema_names(struct rp_buf *out); /* " facts run ...", of cmd_schema.c */

/* Shared by help and completion. */
const char *rp_opt_arg(const struct rp_opt *o);     /* "FILE", "a|b|c", NULL for flags */
const char *rp_opt_choices(const struct rp_opt *o); /* "a|b|c" or NULL */
/* group NULL: is it a subcommand at all */
int rp_command_is_sub(const struct rp_command *c, const struct rp_command *group);
