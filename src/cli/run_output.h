/* The file that a run's bundle is written to.
 *
 * What:    its name, chosen and tested before training, and the fallbacks hours later.
 * Flow:    --output, recipe name, start time -> path; bytes -> path, or standard output for "-";
 *          "path-2" if it exists by then, or $TMPDIR if it cannot be written.
 * Owner:   rp_run_output_fini() frees the path.
 */
#pragma once

#include "base/buf.h"
#include "base/term.h"

#define RP_BUNDLE_ENDING ".repro.tar.zst" /* of names that `run` chooses */

struct rp_run_output {
    const char *option; /* that names it, for messages; NULL: --output */
    char *path;
    int named;                /* by the user */
    int piped;                /* to standard output: path is "-" */
    int memory;               /* piped: a file in memory with the bundle, for its verification; 0: none */
    int taken;                /* the name appeared while the run trained: path is another */
    struct rp_err unwritable; /* why path is in $TMPDIR, or "" */
};

/* given: --output, a file or an existing directory, or NULL. */
int rp_run_output_choose(struct rp_run_output *out, const char *given, int force, const char *recipe_name,
                         uint64_t started_ns, struct rp_err *err) rp_must_check;
int rp_run_output_write(struct rp_run_output *out, int force, const struct rp_buf *file, struct rp_progress *progress,
                        struct rp_err *err) rp_must_check;
/* -1: not where the user requested */
int rp_run_output_judge(const struct rp_run_output *out, struct rp_err *err) rp_must_check;
/* Reads the file again and checks it as `repro verify` does. */
int rp_run_output_verify(const struct rp_run_output *out, struct rp_err *err) rp_must_check;
void rp_run_output_fini(struct rp_run_output *out);
int rp_run_can_create(const char *path, struct rp_err *err) rp_must_check;
