/* .repro-files: what an unpacked directory must hold, byte for byte.
 *
 * What:    lists a tree, hashes its files, writes the list, and compares a tree with its list.
 * Flow:    directory -> sorted lines "<sha256>  <path>\n" for files, "# link <path> -> <target>\n" for links -> .repro-files.
 * Owner:   the caller owns the directory.
 * Extend:  another property to be checked is another kind of '#' line; sha256sum -c skips them.
 */
#ifndef RP_DATA_MARKER_H
#define RP_DATA_MARKER_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define RP_MARKER ".repro-files"
#define RP_MARKER_MAX (64u << 20)

/* The list of what is there now; every file and directory is flushed to the disk on the way when `sync`. */
int rp_marker_make(struct rp_buf *out, const char *dir, int sync, struct rp_err *err) rp_must_check;
int rp_marker_write(const char *dir, struct rp_err *err) rp_must_check;
/* RP_MISMATCH names the first difference and says what to do. */
int rp_marker_check(const char *dir, struct rp_err *err) rp_must_check;
/* Remove a tree without ever following a link. Best effort: what cannot be removed stays. */
void rp_tree_remove(const char *dir);

#endif
