/* Exporters: a verified bundle in the format of another program.
 *
 * What:    one table (exporters.def), one function per format.
 * Flow:    a verified bundle -> text.
 * Owner:   everything except the buffer is borrowed.
 * Extend:  one row in exporters.def and export/export_<id>.c.
 *
 * Values that a format requires and a bundle lacks are null, or explained in the metadata; nothing is made up.
 */
#pragma once

#include "base/buf.h"
#include "verify/verify.h"

struct rp_export_source {
    const struct rp_verification *verification; /* not FAILED */
    const struct rp_verified *kept;
    const char *name;        /* of the bundle, for documents */
    const json_t *result;    /* of the bundle: a comparable result of compare */
    const char *org, *status; /* submission_org, NULL: the fingerprint of the signer; submission_status */
};

struct rp_exporter {
    const char *name, *writes;
    int (*write)(struct rp_buf *out, const struct rp_export_source *from, struct rp_err *err);
};
extern const struct rp_exporter rp_exporters[]; /* ended by a row without a name */

#define EXPORT(id, writes)                                                                                             \
    int rp_export_##id(struct rp_buf *out, const struct rp_export_source *from, struct rp_err *err) rp_must_check;
#include "export/exporters.def"
#undef EXPORT
