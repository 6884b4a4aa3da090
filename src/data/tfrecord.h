/* TFRecord: the framing of records in a file, its checksum, and the records of a set of files by number.
 *
 * What:    CRC32C (hardware where the CPU has it), the masked form TFRecord stores, frames; and what all formats in
 *          TFRecord files share: an index over every frame of every file, and a reader of one record.
 * Flow:    path -> files -> index; record number -> checked bytes; record -> framed bytes. A file may be compressed as
 *          a whole (unpacker.h).
 * Owner:   struct rp_tfrecord_set owns files, index and the bytes of the record that was read last;
 *          rp_tfrecord_set_fini() frees them.
 * Extend:  another format inside TFRecord files opens a struct rp_tfrecord_set and parses what it reads; other frames
 *          are a struct rp_framing (ofrecord.c).
 *
 * A frame, little endian:
 *     u64 length | u32 masked_crc32c(the 8 bytes of length) | length bytes | u32 masked_crc32c(those bytes)
 * masked(c) = rotate_right(c, 15) + 0xa282ead8: the CRC of data that contains its own CRC would be weak.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "data/files.h"

#include <stddef.h>
#include <stdint.h>

#define RP_TFRECORD_HEAD 12                   /* bytes before the data */
#define RP_TFRECORD_FRAME 16                  /* bytes around the data */
#define RP_TFRECORD_MAX (64u << 20)           /* longest record accepted */

/* CRC-32C (Castagnoli) of data, continuing from crc (0 to start). */
uint32_t rp_crc32c(uint32_t crc, const void *data, size_t size);
/* the definition, without special instructions */
uint32_t rp_crc32c_portable(uint32_t crc, const void *data, size_t size);
uint32_t rp_crc32c_mask(uint32_t crc);

/* The record's length, checked, from the 12 bytes of a frame's head. left: bytes from the head to the end of the file.
 * The caller adds file and record number to the message. */
int rp_tfrecord_head(uint64_t *length, const unsigned char *head, uint64_t left, struct rp_err *err) rp_must_check;
/* Compares the data's checksum with the 4 bytes that follow it. */
int rp_tfrecord_body(const unsigned char *data, uint64_t length, struct rp_err *err) rp_must_check;

void rp_tfrecord_append(struct rp_buf *out, const void *data, size_t size);

#define RP_TFRECORD_IN_NAME ".tfrecord"
#define RP_OFRECORD_IN_NAME "part-"

/* How records follow each other in a file: head, data, tail. */
struct rp_framing {
    size_t head, tail; /* bytes; head at most 16 */
    /* as rp_tfrecord_head() */
    int (*length)(uint64_t *length, const unsigned char *head, uint64_t left, struct rp_err *err);
    /* with the tail after them; or NULL */
    int (*body)(const unsigned char *data, uint64_t length, struct rp_err *err);
};
extern const struct rp_framing rp_framing_tfrecord;
extern const struct rp_framing rp_framing_ofrecord; /* ofrecord.c */

struct rp_tfrecord_set {
    const struct rp_framing *framing;
    struct rp_files files;
    struct rp_unpacker *unpacker; /* NULL: no file is compressed */
    uint64_t *unpacked;   /* [files.n] one more than the bytes that a file unpacks to; 0: it is not compressed */
    uint64_t *offset;     /* [count] of every record's frame in its file, unpacked */
    int64_t *first;       /* [files.n + 1] number of the first record of each file */
    int64_t count;        /* records in all files, at least 1 */
    unsigned char *bytes; /* one record and its checksum */
    size_t bytes_cap;
};

struct rp_data_format;
/* The files of `path` as `format` lists them. Reads and checks every frame head, and unpacks compressed files once;
 * records are checked when they are read. A failure leaves nothing to free. */
int rp_tfrecord_set_init(struct rp_tfrecord_set *s, const struct rp_data_format *format,
                         const struct rp_framing *framing, const char *path, struct rp_err *err) rp_must_check;
void rp_tfrecord_set_fini(struct rp_tfrecord_set *s);
/* One record, its checksum verified. *data is valid until the next call. The message of a failure has neither the file
 * nor the record: rp_tfrecord_set_bad(). */
int rp_tfrecord_set_record(struct rp_tfrecord_set *s, int64_t record, const unsigned char **data, size_t *size,
                           struct rp_err *err) rp_must_check;
/* Puts "'FILE', record 17 (from 0)" before the message in *err; always -1. */
int rp_tfrecord_set_bad(const struct rp_tfrecord_set *s, int64_t record, struct rp_err *err);
