/* Files that stand where data should be: what a clone without git-lfs, or a failed download, leaves under the name of
 * the file.
 *
 * What:    a Git LFS pointer or a web page, by its first bytes.
 * Flow:    head of a file -> a sentence for a message, or NULL.
 * Owner:   nothing is allocated.
 * Extend:  another kind is a row in foreign.c. No format that this program reads may begin so.
 */
#pragma once

#include <stddef.h>

#define RP_FOREIGN_HEAD 64 /* bytes that suffice */

/* What the file is, and what to do, to follow its name: "is a Git LFS pointer, ...". NULL: neither. */
const char *rp_foreign_kind(const void *head, size_t n);
const char *rp_foreign_kind_fd(int fd); /* of an open file; NULL also if it cannot be read */
