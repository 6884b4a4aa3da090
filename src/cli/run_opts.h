/* Options of `run`: the fixed ones, and one for every recipe key that has a flag.
 *
 * What:    the option table of cmd_run.c; rows for keys come from recipe/keys.def, so a key and its flag are one line.
 * Flow:    argv -> struct rp_run_opts -> "key=value" texts for the recipe.
 * Owner:   texts are borrowed from argv.
 * Extend:  a recipe key gets a flag by naming it in keys.def; nothing changes here.
 */
#pragma once

#include "cli/opts.h"
#include "supervise/joining.h"

struct rp_run_opts {
    struct rp_opt_list set, scan; /* scan and runs: of `run` alone */
    long runs; /* 0: not given */
    const char *key, *output, *store, *challenge, *layout, *progress, *trust; /* trust: of `replicate` alone */
    struct rp_joining_opts joining; /* of `run` alone, as the following */
    const char *hosts, *ssh;
    int keep_program, other_programs;
    long passphrase_fd; /* 0: none given (0 is standard input of this process and never a passphrase file) */
    long ranks; /* 0: not given */
    int plan, profile, force, identify, no_ledger; /* profile: of `run` alone */
    /* by key; NULL where the flag was not given */
#define KEY(name, field, type, models, def, lo, hi, choices, flag, help) const char *field;
#include "recipe/keys.def"
#undef KEY
};

#define RP_RANKS_MAX 512 /* processes of one machine */

/* Rows that `run` and `replicate` share. */
#define RP_RUN_ROWS                                                                                                    \
    RP_OPTION_FLAG(plan, "plan", 0, "print memory plan and time, here and for GPUs of four sizes, and stop"),          \
        RP_OPT_OUTPUT(output, "bundle to write; - for standard output; default NAME-TIME.repro.tar.zst here"),         \
        RP_OPTION_INT(ranks, "ranks", 0, 1, RP_RANKS_MAX,                                                              \
                      "train with N ranks on this machine: each a GPU or part of the processors"),                     \
        RP_OPTION_TEXT(layout, "layout", 0, "DxTxP",                                                                   \
                       "ranks that divide micro-batches, tensors (gpt) and layers (gpt)"),                             \
        RP_OPT_FORCE(force), RP_OPT_KEY(key), RP_OPT_NO_LEDGER(no_ledger), RP_OPT_STORE(store),                        \
        RP_OPTION_CHOICE(progress, "progress", 0, "text|json",                                                         \
                         "messages on standard error as text, or as one JSON object a line"),                          \
        RP_OPT_PASSPHRASE_FD(passphrase_fd), RP_OPT_IDENTIFY(identify)
#define RP_RUN_CHALLENGE                                                                                               \
    RP_OPTION_TEXT(challenge, "challenge", 0, "FILE", "derive the seeds from this challenge or public value")

extern const struct rp_opt rp_run_opt_table[];

/* All overrides of the command line as "key=value", flags first; free() each and the array. */
char **rp_run_settings(const struct rp_run_opts *o, int *n);
