/* The files of a data set: their list, order and digest.
 *
 * What:    a path that is a file, a directory, a glob, or "embedded:NAME" becomes a sorted list of readable files.
 * Flow:    path -> rp_files -> rp_files_read() at offsets, rp_files_digest().
 * Owner:   rp_files owns descriptors, names and the bytes of files held in memory; rp_files_close() frees them.
 *
 * Order: byte-wise by path (LC_ALL=C sort), so the same files are the same samples everywhere.
 * Of a directory, the regular files whose names contain the data format's `in_name`, or one of several separated by
 * '|', are used; hidden files never are. If there are none, and exactly one directory, that directory is used instead:
 * archives often have one top-level folder. "embedded:NAME" is the archive NAME inside this program, unpacked into
 * memory without a file system.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_FILES_EMBEDDED "embedded:"
#define RP_FILES_MAX 100000

struct rp_file {
    char *name;                /* path as opened, or "embedded:NAME/member" */
    int fd;                    /* -1: in memory, or not open now */
    unsigned char *data;       /* in memory */
    uint64_t size;
};

struct rp_files {
    struct rp_file *file;
    int n;
    int last; /* index of the file that is open, -1: none. A set may have more files than a process may open */
};

/* in_name: in directories and archives, only files with this in their names are used: ".tfrecord", ".bin|.idx". */
int rp_files_open(struct rp_files *f, const char *path, const char *in_name, struct rp_err *err) rp_must_check;
/* Adds n regular files in their places of the order; after a failure too, *f can be closed. */
int rp_files_add(struct rp_files *f, char *const *path, int n, struct rp_err *err) rp_must_check;
/* RP_MALFORMED: file i is not data, but what stands where data should be (base/foreign.h). */
int rp_files_check_kind(struct rp_files *f, int i, struct rp_err *err) rp_must_check;
int rp_files_find(const struct rp_files *f, const char *name); /* index, -1: not listed */
void rp_files_close(struct rp_files *f);
/* Exactly size bytes at offset of file i. RP_IO also if the file has been truncated or replaced since
 * rp_files_open(). */
int rp_files_read(struct rp_files *f, int i, uint64_t offset, void *out, size_t size, struct rp_err *err) rp_must_check;
/* SHA-256 of the set: over the lines "<SHA-256 of a file in hex>\n" in order, as `sha256sum FILES | cut -c1-64 |
 * sha256sum` prints it. */
int rp_files_digest(struct rp_files *f, char hex[65], struct rp_err *err) rp_must_check;
/* SHA-256 over device, inode, size and modification time of every file on disk: equal as long as none was written to.
 */
void rp_files_stamp(const struct rp_files *f, char hex[65]);
