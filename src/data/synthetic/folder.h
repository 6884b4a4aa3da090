/* A folder of class folders as TFRecord files, for `data make imagenet_tfrecord`.
 *
 * What:    the files' bytes as they are, in records like those of the public ImageNet builder (imagenet_tfrecord.c), in
 *          the order of image_folder.
 * Flow:    folder -> shards of about RP_FOLDER_SHARD bytes, or as many as asked for -> files in a directory.
 * Extend:  features of a record are rows in folder.c.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define RP_FOLDER_SHARD (128ll << 20)

struct rp_folder_made {
    int64_t images, classes;
    long shards; /* in: 0 chooses */
};

/* Every image's header is read, and one that cannot be decoded is refused; files that were finished before it stay.
 * RP_USAGE: a file exists, unless force. */
int rp_make_from_folder(const char *folder, const char *dir, int force, struct rp_folder_made *made,
                        struct rp_err *err) rp_must_check;
