/* The outer form of a bundle: one canonical ustar archive in one zstd frame.
 *
 * What:    members -> bytes and back; every byte that is not a member's name, size or content has exactly one allowed value.
 * Flow:    rp_tar_write -> rp_zst_pack -> file -> rp_zst_unpack -> rp_tar_read.
 * Owner:   the caller owns every buffer.
 * Extend:  another kind of member needs a row in members.def, nothing here.
 *
 *   zstd frame   28 B5 2F FD | descriptor: checksum yes, dictionary no, reserved bits 0 | content size | blocks | XXH64
 *   tar          (header 512 | content | zeros to 512)* | 1024 zeros
 *   header       name 100 | mode 0000644 | uid 0 | gid 0 | size | mtime 0 | checksum | '0' | zeros | "ustar\0" "00" | zeros
 * The reader builds each header again from name and size and compares all 512 bytes.
 */
#ifndef RP_BUNDLE_PACK_H
#define RP_BUNDLE_PACK_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

#define RP_TAR_NAME_MAX 99

/* Appends header, content and padding; name at most RP_TAR_NAME_MAX bytes. */
void rp_tar_add(struct rp_buf *tar, const char *name, const void *data, size_t size);
void rp_tar_end(struct rp_buf *tar);
/* The next member at *at: 1 and name, data (borrowed from tar), size; 0 at a proper end; -1 RP_MALFORMED. */
int rp_tar_next(const struct rp_buf *tar, size_t *at, char name[RP_TAR_NAME_MAX + 1], const char **data, size_t *size,
                struct rp_err *err) rp_must_check;

int rp_zst_pack(struct rp_buf *out, const void *data, size_t size, struct rp_err *err) rp_must_check;
/* limit: most bytes that may come out. The frame must fill the input exactly. */
int rp_zst_unpack(struct rp_buf *out, const void *data, size_t size, size_t limit, struct rp_err *err) rp_must_check;

#endif
