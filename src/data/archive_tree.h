/* Files, directories and links below one directory, written with few system calls each: an archive may have 100,000
 * members.
 *
 * What:    creates what does not exist yet and lists every file with its SHA-256, which is computed while it is
 *          written.
 * Flow:    path, then the file's blocks -> open, write, close below a descriptor of the path's directory, which is kept
 *          for the next path.
 * Owner:   rp_archive_tree_fini() closes the descriptors and frees the list.
 * Extend:  paths passed rp_name_check() and rp_path_set_add(); no component of one is followed if it is a link, and
 *          nothing is replaced.
 *
 * To measure, use a fresh file system: ext4 looks for inodes that were not deleted in the last minutes, so that
 * unpacking 100,000 files after `rm -r` of as many takes a minute of system time.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "data/marker.h"

struct rp_archive_tree {
    int root, dir; /* dir: of the directory `at`, relative to root; -1: none is open */
    char *at;
    struct rp_marker_list list;
    int file; /* being written, or -1 */
    struct rp_sha256 hash;
    int64_t size; /* of it so far, holes included */
};

/* dir: an existing directory. */
int rp_archive_tree_init(struct rp_archive_tree *w, const char *dir, struct rp_err *err) rp_must_check;
void rp_archive_tree_fini(struct rp_archive_tree *w);
/* Mode 0755, also of the directories above; one that exists already is fine. */
int rp_archive_tree_directory(struct rp_archive_tree *w, const char *path, struct rp_err *err) rp_must_check;
int rp_archive_tree_link(struct rp_archive_tree *w, const char *path, const char *target,
                         struct rp_err *err) rp_must_check;
/* Mode 0644. Blocks come in the order of their offsets; what is between them is a hole. size: at the end, with a hole
 * where data lacks. */
int rp_archive_tree_begin(struct rp_archive_tree *w, const char *path, struct rp_err *err) rp_must_check;
int rp_archive_tree_add(struct rp_archive_tree *w, const void *data, size_t size, int64_t offset,
                        struct rp_err *err) rp_must_check;
int rp_archive_tree_end(struct rp_archive_tree *w, const char *path, int64_t size, struct rp_err *err) rp_must_check;
