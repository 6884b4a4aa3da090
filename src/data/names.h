/* Member names of an archive: which of them may be unpacked, and the set of those seen so far.
 *
 * What:    checks one path or one symbolic link; the set of paths finds duplicates and files used as directories.
 * Flow:    path -> RP_MALFORMED with the reason, or an entry of the set.
 * Owner:   struct rp_path_set owns copies of the paths.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* A relative path of at most RP_ARCHIVE_NAME bytes without "..", ".", empty components, control characters or broken
 * UTF-8. */
int rp_name_check(const char *path, struct rp_err *err) rp_must_check;
/* The target of a symbolic link at `path`: relative, ".." only at its start and at most as many as path has
 * directories. Such a link stays inside the archive even if its target is another such link, because its ".." climb
 * real directories only. */
int rp_name_check_link(const char *path, const char *target, struct rp_err *err) rp_must_check;

struct rp_path_set {
    void *root; /* of a tsearch() tree of texts: a kind letter, then the path in lower-case ASCII */
    size_t bytes;
};
/* all paths together, implied directories included: bounds the memory a hostile archive takes */
#define RP_PATH_SET_BYTES (64u << 20)
/* kind: 'f' file, 'd' directory, 'l' link. Directories that a path implies are added too. Refused: a path seen before,
 * whatever its kind and the case of its ASCII letters, and a path below something that is not a directory. */
int rp_path_set_add(struct rp_path_set *s, const char *path, char kind, struct rp_err *err) rp_must_check;
void rp_path_set_fini(struct rp_path_set *s);
