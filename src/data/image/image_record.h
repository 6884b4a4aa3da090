/* Images in messages of the form of tf.Example: what imagenet_tfrecord and ofrecord share.
 *
 * What:    one record of a struct rp_tfrecord_set, parsed into a struct rp_image_record; and the message of a record,
 *          for `data make`.
 * Flow:    record number + names of the features -> bytes in the caller's room, label, name.
 */
#pragma once

#include "data/example.h"
#include "data/image/image_set.h"
#include "data/tfrecord.h"

struct rp_image_keys {
    const char *image, *label, *name; /* name: of a feature that may be missing, or NULL */
    int (*parse)(const void *data, size_t size, struct rp_example_field *field, int n, struct rp_err *err);
};

/* RP_MALFORMED without the place. */
int rp_image_read_message(struct rp_tfrecord_set *records, int64_t record, const struct rp_image_keys *keys,
                          struct rp_image_room *room, struct rp_image_record *out, struct rp_err *err) rp_must_check;
