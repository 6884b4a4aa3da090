/* Between preparing data and the store: an archive in hand becomes a checked directory.
 *
 * What:    the two calls that prepare.c and store.c share.
 * Flow:    archive path -> descriptor and SHA-256 -> STORE/sha256-<hex>.
 * Owner:   the caller closes the descriptor and frees the directory's name.
 * Extend:  nothing here: the store's rules are in store.h.
 */
#ifndef RP_DATA_UNPACK_H
#define RP_DATA_UNPACK_H

#include "base/err.h"
#include "data/archive.h"

/* *fd is to be closed by the caller even on failure (-1 when it was not opened). */
int rp_unpack_open(const char *path, int *fd, struct rp_archive_source *s, char hex[65], struct rp_err *err) rp_must_check;
int rp_unpack(const struct rp_archive_source *s, const char *hex, const char *store, char **dir, struct rp_err *err) rp_must_check;

#endif
