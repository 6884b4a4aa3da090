/* TFRecord: the framing of records in a file, and its checksum.
 *
 * What:    CRC32C (hardware where the CPU has it), the masked form TFRecord stores, a frame reader and a frame writer.
 * Flow:    bytes at an offset -> one checked record; record -> framed bytes.
 * Owner:   nothing is allocated here; a decoded record points into the caller's bytes.
 * Extend:  a new instruction set for the CRC is one function and one line in pick() of crc32c.c.
 *
 * A frame, little endian:
 *     u64 length | u32 masked_crc32c(the 8 bytes of length) | length bytes | u32 masked_crc32c(those bytes)
 * masked(c) = rotate_right(c, 15) + 0xa282ead8, so that a checksum over data that holds checksums stays good.
 */
#ifndef RP_DATA_TFRECORD_H
#define RP_DATA_TFRECORD_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_TFRECORD_HEAD 12                   /* bytes before the data */
#define RP_TFRECORD_FRAME 16                  /* bytes around the data */
#define RP_TFRECORD_MAX (64u << 20)           /* longest record accepted */

/* CRC-32C (Castagnoli) of data, continuing from crc (0 to start). */
uint32_t rp_crc32c(uint32_t crc, const void *data, size_t size);
uint32_t rp_crc32c_portable(uint32_t crc, const void *data, size_t size); /* slicing by 8; the definition the others are tested against */
int rp_crc32c_have_sse42(void);
uint32_t rp_crc32c_sse42(uint32_t crc, const void *data, size_t size); /* only where rp_crc32c_have_sse42() */

uint32_t rp_crc32c_mask(uint32_t crc);

/* Read the 12 bytes of a frame's head: the record's length, checked. `left` is the number of bytes from the head to the end of the
 * file. The message says what is wrong; the caller adds file and record number. */
int rp_tfrecord_head(uint64_t *length, const unsigned char *head, uint64_t left, struct rp_err *err) rp_must_check;
/* The data's checksum against the 4 bytes that follow it. */
int rp_tfrecord_body(const unsigned char *data, uint64_t length, struct rp_err *err) rp_must_check;

/* Append one frame. */
void rp_tfrecord_append(struct rp_buf *out, const void *data, size_t size);

#endif
