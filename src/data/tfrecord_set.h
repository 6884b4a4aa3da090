/* The records of a set of TFRecord files, by number.
 *
 * What:    an index over every frame of every file, and a reader of one record: what all formats inside TFRecord files share.
 * Flow:    path -> files -> index; record number -> checked bytes.
 * Owner:   the set owns files, index and the bytes of the record that was read last; rp_tfrecord_set_fini() frees them.
 * Extend:  records of compressed files need an index of their own here; formats do not see it.
 */
#ifndef RP_DATA_TFRECORD_SET_H
#define RP_DATA_TFRECORD_SET_H

#include "base/err.h"
#include "data/files.h"

#include <stddef.h>
#include <stdint.h>

#define RP_TFRECORD_IN_NAME ".tfrecord"

struct rp_tfrecord_set {
    struct rp_files files;
    uint64_t *offset;     /* [count] of every record's frame in its file */
    int64_t *first;       /* [files.n + 1] number of the first record of each file */
    int64_t count;        /* records in all files, at least 1 */
    unsigned char *bytes; /* one record and its checksum */
    size_t bytes_cap;
};

/* path as in data/files.h. Opens every file, reads every frame head (lengths and their checksums) and counts; records themselves are
 * checked when they are read. A failure leaves nothing to free. */
int rp_tfrecord_set_init(struct rp_tfrecord_set *s, const char *path, struct rp_err *err) rp_must_check;
void rp_tfrecord_set_fini(struct rp_tfrecord_set *s);
/* One record, its checksum verified. *data is valid until the next call. */
int rp_tfrecord_set_read(struct rp_tfrecord_set *s, int64_t record, const unsigned char **data, size_t *size,
                         struct rp_err *err) rp_must_check;
/* Puts "'FILE', record 17 (from 0)" before the message in *err; always -1. */
int rp_tfrecord_set_bad(const struct rp_tfrecord_set *s, int64_t record, struct rp_err *err);

#endif
