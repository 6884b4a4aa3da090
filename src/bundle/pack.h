/* The outer form of a bundle: one canonical ustar archive in one zstd frame.
 *
 * What:    members -> bytes and back; every byte other than a member's name, size or content has exactly one allowed
 *          value.
 * Flow:    rp_tar_add... -> rp_zst_pack -> file -> rp_unpack_file -> rp_tar_next, rp_tar_piece...
 * Owner:   the caller owns every buffer; a struct rp_unpack takes constant memory and borrows its source.
 * Extend:  another kind of member needs a row in members.def, nothing here.
 *
 *   zstd frame   28 B5 2F FD | descriptor: checksum yes, dictionary no, reserved bits 0 | content size | blocks | XXH64
 *                at most 4096 blocks, and one more for each 4 KiB of content
 *   tar          (header 512 | content | zeros to 512)* | 1024 zeros
 *   header       name 100 | mode 0000644 | uid 0 | gid 0 | size | mtime 0 | checksum | '0' | zeros | "ustar\0" "00" |
 *                zeros
 * The reader builds each header again from name and size and compares all 512 bytes.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

#define RP_TAR_NAME_MAX 99

/* Appends header, content and padding; name at most RP_TAR_NAME_MAX bytes. */
void rp_tar_add(struct rp_buf *tar, const char *name, const void *data, size_t size);
void rp_tar_add_header(struct rp_buf *tar, const char *name, size_t size); /* without the content */
void rp_tar_end(struct rp_buf *tar);
int rp_zst_pack(struct rp_buf *out, const void *data, size_t size, struct rp_err *err) rp_must_check;

struct rp_unpack; /* reads one tar, front to back */
/* From a zstd frame that is exactly the file, with at most `limit` bytes of content. NULL on failure. The descriptor's
 * offset is neither used nor moved. */
struct rp_unpack *rp_unpack_file(int fd, size_t limit, struct rp_err *err) rp_must_check;
void rp_unpack_free(struct rp_unpack *u);
/* The next member: 1 with its name and size; 0 at a proper end, of the tar and of what it is in; -1 RP_MALFORMED. The
 * rest of the member before is skipped. */
int rp_tar_next(struct rp_unpack *u, char name[RP_TAR_NAME_MAX + 1], size_t *size, struct rp_err *err) rp_must_check;
/* The next bytes of that member, borrowed until the next call: 1; 0 when it has no more; -1. */
int rp_tar_piece(struct rp_unpack *u, const char **data, size_t *size, struct rp_err *err) rp_must_check;
