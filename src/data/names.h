/* Names inside an archive: what may be unpacked, and what was seen already.
 *
 * What:    the checks of one path, of one symbolic link, and the set of paths that finds duplicates and files used as directories.
 * Flow:    path -> RP_MALFORMED with the reason, or taken into the set.
 * Owner:   struct rp_path_set owns copies of the paths.
 * Extend:  another refusal of a name is one line in rp_name_check().
 */
#ifndef RP_DATA_NAMES_H
#define RP_DATA_NAMES_H

#include "base/err.h"

#include <stddef.h>

/* A relative path of at most RP_ARCHIVE_NAME bytes without "..", ".", empty components, control characters or broken UTF-8. */
int rp_name_check(const char *path, struct rp_err *err) rp_must_check;
/* The target of a symbolic link at `path`: relative, ".." only in front and no more of them than directories above path. A link that
 * obeys this stays inside even when what it names is such a link too, because its ".." climb real directories only. */
int rp_name_check_link(const char *path, const char *target, struct rp_err *err) rp_must_check;

struct rp_path_set {
    char **slot; /* open addressing; each text is a kind letter and the path in lower case ASCII */
    size_t cap, n, bytes;
};
#define RP_NAMES_BYTES (64u << 20) /* of all paths together, implied directories included: what a hostile archive may cost */
/* kind: 'f' file, 'd' directory, 'l' link. Directories that a path implies are taken too. Refused: a path seen before, whatever its
 * kind and the case of its ASCII letters, and a path below something that is no directory. */
int rp_names_take(struct rp_path_set *s, const char *path, char kind, struct rp_err *err) rp_must_check;
void rp_names_fini(struct rp_path_set *s);

#endif
