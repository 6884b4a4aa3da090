/* Where a bundle is read from: a file, standard input, or a directory into which it was unpacked.
 *
 * What:    a descriptor from which the bundle can be read twice.
 * Flow:    path -> rp_bundle_source_open() -> rp_bundle_scan(), rp_bundle_again().
 * Owner:   the caller closes the descriptor with rp_bundle_source_close().
 * Extend:  another source is a case of rp_bundle_source_open().
 *
 * A file is opened as it is. What comes on standard input ("-") is copied into memory first. The members of a directory
 * are packed again, which gives the bytes of the bundle that was unpacked, if nothing was added, changed or lost.
 */
#pragma once

#include "base/err.h"

struct rp_bundle_source {
    int fd;
    int unpacked; /* packed again from a directory: its container proves nothing */
};

/* RP_IO: it cannot be read. RP_MALFORMED: it cannot be a bundle. */
int rp_bundle_source_open(struct rp_bundle_source *out, const char *path, struct rp_err *err) rp_must_check;
void rp_bundle_source_close(struct rp_bundle_source *s);
#define RP_BUNDLE_SOURCE __attribute__((cleanup(rp_bundle_source_close))) struct rp_bundle_source
