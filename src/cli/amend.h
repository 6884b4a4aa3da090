/* Adding members to a sealed bundle: what `sign` and `timestamp attach` share.
 *
 * What:    lock the file, verify it, read it as a whole, add members, write it again.
 * Flow:    rp_amend_open() -> rp_verify() -> rp_amend_read() -> rp_bundle_add()... -> rp_amend_write().
 * Owner:   the caller closes the descriptor, which holds the lock, and frees the bundle.
 * Extend:  another kind of member that is added after sealing is a row of bundle/members.def and a prefix of
 *          is_added_later() in bundle/bundle.c.
 */
#pragma once

#include "bundle/bundle.h"

#include <sys/stat.h>

/* Opens and locks the file: of two concurrent writers the second reads the result of the first. -1 on failure. *path,
 * to be freed, is its name without links: a link stays, and its target is replaced. output: the other file to write, or
 * NULL. */
int rp_amend_open(char **path, struct stat *st, const char *name, const char *output, int force,
                  struct rp_err *err) rp_must_check;
/* The whole bundle, which must be the verified one: verification keeps only the digests of large members. */
int rp_amend_read(struct rp_bundle *whole, const char *path, const struct rp_bundle *verified,
                  struct rp_err *err) rp_must_check;
/* All of it or nothing; `fresh`: the name must be free. */
int rp_amend_write(const struct rp_bundle *b, const char *path, int fresh, mode_t mode,
                   struct rp_err *err) rp_must_check;
