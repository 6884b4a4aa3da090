/* The data of a recipe, made ready: found, hashed, unpacked once, checked at every use.
 *
 * What:    rp_data_prepare() for `run`, and the content-addressed store beneath it for `data list|unpack`.
 * Flow:    recipe -> archive (beside the recipe, else embedded) -> SHA-256 -> STORE/sha256-<hex>/ -> directory + data digest;
 *          or the user's own data.path -> its digest, not pinned.
 * Owner:   struct rp_data_set owns its texts; directories in the store belong to whoever owns the store.
 * Extend:  another place to find archives is one branch in find_archive() of prepare.c.
 *
 * Where the store is: rp_store_path() in base/buf.h; /tmp/repro-<uid> only if it is ours and closed to others. Where none of the
 * defaults can be written, an embedded archive is used from memory (path "embedded:NAME"); a store that was named and cannot be
 * written is an error.
 *
 *     STORE/sha256-<hex of the archive>/           renamed into place when complete, never changed after
 *                         .repro-files             sha256sum lines of every file: `sha256sum -c .repro-files` checks it by hand
 *     STORE/tmp.<pid>.<n>/lock                     flock()ed while somebody unpacks; a free lock marks a leftover, which is removed
 *                         data/                    what becomes sha256-<hex>
 * Two runs at once: both unpack, one rename wins, the other uses the winner's after checking it.
 */
#ifndef RP_DATA_STORE_H
#define RP_DATA_STORE_H

#include "base/err.h"
#include "recipe/recipe.h"

#include <stdint.h>

struct rp_data_set {
    int pinned;    /* 1: the archive has the SHA-256 that the recipe names */
    char *path;    /* directory, file, glob or "embedded:NAME": what open() of a format takes (dataset.h) */
    char *archive; /* file name of the archive; NULL when not pinned */
    char *sha256;  /* of the archive; NULL when not pinned */
    char *digest;  /* of the files, as in data/files.h */
};
void rp_data_set_fini(struct rp_data_set *s);

/* store: directory given with --store, or NULL. A failure leaves *out empty. RP_USAGE: the recipe names no data; RP_MISMATCH: wrong
 * digest, or files in the store were changed; RP_IO: not found, disk full, store not writable; RP_MALFORMED: a hostile archive. */
int rp_data_prepare(const struct rp_recipe *r, const char *store, struct rp_data_set *out, struct rp_err *err) rp_must_check;

/* Unpack an archive, a file or else an embedded one, into the store, or find it there: `data unpack`. sha256: expected hex, or NULL. *dir
 * (free it) is the directory, hex receives the archive's digest. */
int rp_store_unpack(const char *archive, const char *sha256, const char *store, char **dir, char hex[65],
                    struct rp_err *err) rp_must_check;

/* What that and rp_data_prepare() share. *fd is to be closed by the caller even on failure (-1: it was not opened). */
struct rp_archive_source;
int rp_store_open_archive(const char *path, int *fd, struct rp_archive_source *s, char hex[65], struct rp_err *err) rp_must_check;
int rp_store_add(const struct rp_archive_source *s, const char *hex, const char *store, char **dir, struct rp_err *err) rp_must_check;

/* One entry per directory of the store: `data list`. A store that does not exist has none. */
struct rp_store_entry {
    char sha256[65];
    char *dir;
    uint64_t files, bytes; /* from its .repro-files; 0 when that is unreadable */
};
int rp_store_list(const char *store, struct rp_store_entry **entry, int *n, struct rp_err *err) rp_must_check;
void rp_store_list_free(struct rp_store_entry *entry, int n);

#endif
