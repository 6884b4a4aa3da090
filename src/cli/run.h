/* One run, from a recipe to a sealed bundle: shared by `run` and `replicate`.
 *
 * What:    rp_run() of run_session.c, and where its recipe comes from.
 * Flow:    options + recipe -> data, capture, training, bundle, lines of the ledger.
 * Owner:   everything here is borrowed.
 * Extend:  another origin of recipes is another load().
 */
#pragma once

#include "cli/cli.h"
#include "cli/run_opts.h"
#include "recipe/recipe.h"
#include "verify/verify.h"

/* The original of a replication. */
struct rp_original {
    const char *path;
    const struct rp_verification *v;
    const struct rp_verified *kept;
};

struct rp_run_from {
    /* As rp_recipe_load(). Called twice: without a backend, to know it, and with it. */
    int (*load)(const struct rp_run_from *from, struct rp_recipe *r, const char *backend, const char *const *set, int n,
                struct rp_err *err);
    const char *where;             /* operand of `run` */
    const struct rp_buf *text;     /* of standard input, for the operand "-"; NULL: where names the recipe */
    const struct rp_original *first;  /* NULL: not a replication */
};
int rp_run(struct rp_cli *cli, const struct rp_run_opts *o, const struct rp_run_from *from,
           struct rp_err *err) rp_must_check;
