/* Archives: bounded, suspicious unpacking of tar and zip, plain or compressed (gz, xz, zst, lz4, bz2), and writing of a
 * tar.
 *
 * What:    libarchive restricted by a list of refusals.
 * Flow:    archive file or bytes -> files below a directory, or members in memory; members -> archive.
 * Extend:  another format is one archive_read_support_...() line in archive.c; a refusal is one check in check_entry()
 *          with a case in tests/unit/test_data_archive.c.
 *
 * Refused, with the member's name and the reason: absolute paths, "..", empty components, names longer than
 * RP_ARCHIVE_NAME bytes, names that are not UTF-8 or hold control characters, names that begin with ".repro" (ours),
 * the same name twice or twice up to ASCII case, a file used as a directory, hard links, symbolic links that leave the
 * directory (".." only in front and no deeper than the link's own place), devices, FIFOs, sockets, more than the limits
 * below, encrypted members, a stream compressed more than once. Sparse members count with the size they claim. Archives
 * inside archives stay what they are: files.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_ARCHIVE_NAME 1024 /* bytes of a member's path */

struct rp_archive_limits {
    uint64_t entries; /* members, directories included */
    uint64_t bytes;   /* of all members together */
    uint64_t ratio;   /* unpacked bytes per archive byte, looked at once RP_ARCHIVE_RATIO_FREE bytes are out */
};
#define RP_ARCHIVE_RATIO_FREE (16u << 20)
#define RP_ARCHIVE_LIMITS {.entries = 100000, .bytes = 1ull << 40, .ratio = 250}

/* The bytes of an archive: a descriptor, which is read from its start, or memory. name: for messages. */
struct rp_archive_source {
    const char *name;
    int fd; /* -1: memory */
    const void *data;
    uint64_t size;
};

/* Unpacks below dir, which exists and is empty, in a child process, so that a crash in a decompressor is an error here;
 * every path is resolved below dir (archive_tree.h). After a failure the caller removes what was written. Files get
 * mode 0644, directories 0755; owners and times are not restored. list: the files as marker.h lists them, with the
 * digests of what was written. */
int rp_archive_unpack(const struct rp_archive_source *s, const char *dir, const struct rp_archive_limits *limits,
                      struct rp_buf *list, struct rp_err *err) rp_must_check;

/* Loads regular files into memory, for the embedded sample without a file system; at most max_bytes in all. */
struct rp_archive_member {
    char *name;
    unsigned char *data;
    size_t size;
};
int rp_archive_load(const struct rp_archive_source *s, uint64_t max_bytes, struct rp_archive_member **member, int *n,
                    struct rp_err *err) rp_must_check;
void rp_archive_members_free(struct rp_archive_member *member, int n);

/* Visits every member without unpacking (`data list ARCHIVE`); the same refusals. type: 'f' file, 'd' directory, 'l'
 * link. */
typedef int (*rp_archive_visit_fn)(void *arg, const char *name, char type, uint64_t size);
int rp_archive_list(const struct rp_archive_source *s, const struct rp_archive_limits *limits,
                    rp_archive_visit_fn visit, void *arg, struct rp_err *err) rp_must_check;

/* Members in the order given as ustar with owner 0, time 0, mode 0644; compressed by the ending of `path`: .tar,
 * .tar.gz, .tar.xz, .tar.zst, .tar.bz2, .tar.lz4. Into memory; `path` is its name in messages. */
int rp_archive_make(struct rp_buf *out, const char *path, const struct rp_archive_member *member, int n,
                    struct rp_err *err) rp_must_check;
