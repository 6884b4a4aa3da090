/* Files that somebody relies on: keys, the trust store, the ledger. Checked as ssh's StrictModes does.
 *
 * What:    a regular file, not a symbolic link; it and its directory belong to this user or root, and only the owner
 *          may write to them. A directory with the sticky bit, such as /tmp, may be writable: users cannot replace the
 *          files of others there. Root may use files and directories of any owner: in a container, a key and HOME are
 *          often volumes of a user outside. Directories further up are not looked at: those above a volume are not of
 *          this system.
 * Flow:    path -> rp_private_open() -> descriptor -> fstat() -> rp_private_check().
 * Owner:   the caller closes the descriptor.
 * Extend:  another file of this kind calls these two; what: its name in messages, which end with the command that
 *          helps.
 */
#pragma once

#include "base/err.h"

#include <sys/stat.h>

/* Read only; RP_IO if it cannot be opened, RP_USAGE for a symbolic link. The kind of file is not checked. */
int rp_private_open(const char *path, const char *what, struct rp_err *err) rp_must_check;
/* RP_USAGE: others may change the file with this status, or replace it. */
int rp_private_check(const struct stat *st, const char *path, const char *what, struct rp_err *err) rp_must_check;
/* A file of root in memory (tmpfs), as a Secret of Kubernetes is mounted: it may be readable by
 * others in the pod, because that is how a process of another user gets it. */
int rp_private_in_memory(int fd, const struct stat *st);
