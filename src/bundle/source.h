/* Where a bundle is read from: a file, standard input, or a directory into which it was unpacked.
 *
 * What:    a descriptor from which the bundle can be read twice, or its members at once.
 * Flow:    path -> rp_bundle_open(), or rp_bundle_source_open() -> rp_bundle_scan(), rp_bundle_again().
 * Owner:   the caller closes the descriptor with rp_bundle_source_close().
 * Extend:  another source is a case of rp_bundle_source_open().
 *
 * A file is opened as it is. What comes on standard input ("-") is copied into memory first. The members of a directory
 * are packed again, which gives the bytes of the bundle that was unpacked, if nothing was added, changed or lost.
 */
#pragma once

#include "base/err.h"
#include "bundle/bundle.h"

struct rp_bundle_source {
    int fd;
    int unpacked; /* packed again from a directory: its container proves nothing */
};

/* RP_IO: it cannot be read. RP_MALFORMED: it cannot be a bundle. */
int rp_bundle_source_open(struct rp_bundle_source *out, const char *path, struct rp_err *err) rp_must_check;
void rp_bundle_source_close(struct rp_bundle_source *s);
#define RP_BUNDLE_SOURCE __attribute__((cleanup(rp_bundle_source_close))) struct rp_bundle_source

/* Reads the bundle at `path` as rp_bundle_read() does, or as rp_bundle_scan(). */
int rp_bundle_open(struct rp_bundle *b, const char *path, struct rp_err *err) rp_must_check;
int rp_bundle_skim(struct rp_bundle *b, const char *path, struct rp_err *err) rp_must_check;
