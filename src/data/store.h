/* The data set of a recipe: found, hashed, unpacked once, and checked at every use.
 *
 * What:    rp_data_prepare() for `run`, and the content-addressed store that it uses, for `data list|unpack`.
 * Flow:    recipe -> archive (next to the recipe, else embedded) -> SHA-256 -> STORE/sha256-<hex>/ -> directory + data
 *          digest; or data.path -> its digest, not pinned.
 * Owner:   struct rp_data_set owns its texts.
 * Extend:  another place to look for archives is one branch in find_archive() of prepare.c.
 *
 * rp_store_path() (base/buf.h) chooses the store; /tmp/repro-<uid> is used only if no other user can write in it. If
 * none of the default stores is writable, an embedded archive is read from memory (path "embedded:NAME"); a store given
 * by name that is not writable is an error.
 *
 *     STORE/sha256-<hex of the archive>/           renamed into place when complete, never changed after
 *                         .repro-files             sha256sum lines of every file: `sha256sum -c .repro-files` checks it
 *                                                  by hand
 *     STORE/tmp.<pid>.<n>/lock                     flock()ed while unpacking; if the lock is free, the directory is a
 *                                                  leftover: removed
 *                         data/                    renamed to sha256-<hex>
 * Two concurrent runs both unpack; one rename wins, and the other run checks and uses the winner's directory.
 */
#pragma once

#include "base/err.h"
#include "recipe/recipe.h"

#include <stdint.h>

struct rp_data_set {
    int pinned;    /* 1: the archive has the SHA-256 that the recipe names */
    char *path;    /* directory, file, glob or "embedded:NAME", for open() of a data format (dataset.h) */
    char *archive; /* file name of the archive; NULL when not pinned */
    char *sha256;  /* of the archive; NULL when not pinned */
    char *digest;  /* of the files, see rp_files_digest() */
    char stamp[65]; /* of the files before they were read, see rp_files_stamp() */
};
void rp_data_set_fini(struct rp_data_set *s);

/* store: directory given with --store, or NULL. A failure leaves *out empty. RP_USAGE: the recipe names no data;
 * RP_MISMATCH: wrong digest, or modified files in the store; RP_IO: not found, disk full, store not writable;
 * RP_MALFORMED: a hostile archive. */
int rp_data_prepare(const struct rp_recipe *r, const char *store, struct rp_data_set *out,
                    struct rp_err *err) rp_must_check;
/* After training: RP_MISMATCH if the files have another digest by now. They are read again only if their stamp differs;
 * any other failure: they could not be read. */
int rp_data_check_same(const struct rp_recipe *r, const struct rp_data_set *s, struct rp_err *err) rp_must_check;

/* `data unpack`: unpacks an archive, a file or else an embedded one, unless the store already has it. sha256: expected
 * digest, or NULL. *dir (free it): the directory; hex: the archive's digest. */
int rp_store_unpack(const char *archive, const char *sha256, const char *store, char **dir, char hex[65],
                    struct rp_err *err) rp_must_check;

/* Steps of both. The caller closes *fd, also on failure; -1: it was not opened. */
struct rp_archive_source;
int rp_store_open_archive(const char *path, int *fd, struct rp_archive_source *s, char hex[65],
                          struct rp_err *err) rp_must_check;
int rp_store_add(const struct rp_archive_source *s, const char *hex, const char *store, char **dir,
                 struct rp_err *err) rp_must_check;

/* An archive of that digest that was unpacked before: 1 and *dir (free it); 0: none; -1: its files were changed. */
int rp_store_find(const char *hex, const char *store, char **dir, struct rp_err *err) rp_must_check;

/* One entry per directory of the store: `data list`. A store that does not exist has none. */
struct rp_store_entry {
    char sha256[65];
    char *dir;
    uint64_t files, bytes; /* from its .repro-files; 0 when that is unreadable */
};
int rp_store_list(const char *store, struct rp_store_entry **entry, int *n, struct rp_err *err) rp_must_check;
void rp_store_list_free(struct rp_store_entry *entry, int n);
