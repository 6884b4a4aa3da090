/* Scripts and manifests that start a job: what `repro launch KIND` prints.
 *
 * What:    texts in launch/forms/, whose placeholders are replaced.
 * Flow:    forms.def, embedded files, options -> rp_form_write() -> text.
 * Owner:   the caller's buffer.
 * Extend:  a row of forms.def and a file in launch/forms/; tests/unit/test_launch_forms.c checks manifests.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct rp_form_opts {
    /* of the job, and the beginning of other names: a DNS label of at most 40 characters */
    const char *name;
    const char *image, *recipe;          /* image: NULL if none was given */
    long nodes, ranks_per_node, gpus_per_node; /* gpus_per_node 0: no GPUs */
    /* train.accumulation_steps that gives every rank a micro-batch; 0: the recipe's */
    long accumulation;
};

struct rp_form {
    const char *id, *file, *what;
};
extern const struct rp_form rp_forms[]; /* ended by a row with NULL */

/* RP_USAGE: the form is unknown, an option is missing, or has characters that the form cannot hold. */
int rp_form_write(struct rp_buf *out, const char *id, const struct rp_form_opts *o, struct rp_err *err) rp_must_check;
