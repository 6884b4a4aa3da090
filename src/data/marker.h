/* .repro-files: the files that an unpacked directory must contain, with their digests.
 *
 * What:    writes the list of a directory tree, and compares a tree with its list.
 * Flow:    directory -> sorted lines "<sha256>  <path>\n" for files, "# link <path> -> <target>\n" for links -> .repro-files.
 * Extend:  another property to be checked is another kind of '#' line; sha256sum -c skips them.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define RP_MARKER ".repro-files"
#define RP_MARKER_MAX (64u << 20)

/* Lists the files that exist now; sync: also flushes every file and directory to the disk. */
int rp_marker_make(struct rp_buf *out, const char *dir, int sync, struct rp_err *err) rp_must_check;
int rp_marker_write(const char *dir, struct rp_err *err) rp_must_check;
/* RP_MISMATCH names the first difference. */
int rp_marker_check(const char *dir, struct rp_err *err) rp_must_check;
/* Removes a tree as far as possible, without following links. */
void rp_tree_remove(const char *dir);
