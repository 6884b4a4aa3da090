/* .repro-files: the files that an unpacked directory must contain, with their digests.
 *
 * What:    writes the list of a directory tree, and compares a tree with its list.
 * Flow:    what was unpacked -> sorted lines "<sha256> <path>\n" for files, "# link <path> -> <target>\n" for links ->
 *          .repro-files; directory -> the same lines.
 * Extend:  another property to be checked is another kind of '#' line; sha256sum -c skips them.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define RP_MARKER ".repro-files"
#define RP_MARKER_MAX (64u << 20)

struct rp_marker_list {
    char **line; /* path first, so that sorting is by path: "<path>\n<rest of the line>" */
    size_t n;
};
void rp_marker_list_add_file(struct rp_marker_list *l, const char *path, const char *sha256);
void rp_marker_list_add_link(struct rp_marker_list *l, const char *path, const char *target);
void rp_marker_list_text(struct rp_buf *out, struct rp_marker_list *l); /* sorts it */
void rp_marker_list_fini(struct rp_marker_list *l);

/* Flushes every file and directory to the disk, then writes the list. */
int rp_marker_write(const char *dir, const struct rp_buf *list, struct rp_err *err) rp_must_check;
/* RP_MISMATCH names the first difference. */
int rp_marker_check(const char *dir, struct rp_err *err) rp_must_check;
/* Removes a tree as far as possible, without following links. */
void rp_tree_remove(const char *dir);
