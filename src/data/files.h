/* The files of a data set: which they are, in which order, and what they hash to.
 *
 * What:    a path that is a file, a directory, a glob, or "embedded:NAME" becomes a sorted list of readable files.
 * Flow:    path -> rp_files -> rp_files_read() at offsets, rp_files_digest().
 * Owner:   rp_files owns descriptors, names and the bytes of files held in memory; rp_files_close() frees them.
 * Extend:  another place where samples may live is one branch in rp_files_open().
 *
 * Order: byte-wise by path (LC_ALL=C sort), so the same files are the same samples everywhere.
 * A directory gives its regular files whose names contain the `in_name` of the data format; hidden files never count. If it holds none
 * and exactly one directory, that directory is used: an archive may have one folder on top.
 * "embedded:NAME" is the archive NAME inside this program, unpacked into memory: it needs no file system.
 */
#ifndef RP_DATA_FILES_H
#define RP_DATA_FILES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_FILES_EMBEDDED "embedded:"
#define RP_FILES_MAX 100000

struct rp_file {
    char *name;                /* path as opened, or "embedded:NAME/member" */
    int fd;                    /* -1: in memory, or not open now (files are opened as they are read, few at a time) */
    unsigned char *data;       /* in memory */
    uint64_t size;
};

struct rp_files {
    struct rp_file *file;
    int n;
    int last; /* the one file that is open, -1 for none */
};

/* in_name: part of the names of the files that count in directories and archives, ".tfrecord". */
int rp_files_open(struct rp_files *f, const char *path, const char *in_name, struct rp_err *err) rp_must_check;
void rp_files_close(struct rp_files *f);
/* Exactly size bytes at offset of file i; a file that became shorter or another meanwhile is RP_IO. */
int rp_files_read(struct rp_files *f, int i, uint64_t offset, void *out, size_t size, struct rp_err *err) rp_must_check;
/* SHA-256 of one file, and of the whole set: SHA-256 over the lines "<hex of file>\n" in order, which is what
 * `sha256sum FILES | cut -c1-64 | sha256sum` prints. */
int rp_files_digest_one(struct rp_files *f, int i, char hex[65], struct rp_err *err) rp_must_check;
int rp_files_digest(struct rp_files *f, char hex[65], struct rp_err *err) rp_must_check;

#endif
