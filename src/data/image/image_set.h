/* A data set of images: what the formats imagenet_tfrecord, ofrecord, recordio and image_folder share.
 *
 * What:    records of encoded bytes and a label -> samples with the fields "image" and "label", decoded by several
 *          threads.
 * Flow:    a format fills struct rp_image_set and a reader, then its rp_data_format uses the functions below.
 * Owner:   struct rp_image_set, with which a format's own struct begins, owns the threads and their decoders.
 * Extend:  another format is a file with a struct rp_image_reader and a struct rp_data_format; names of fields never
 *          change.
 *
 *     image   u8  [task.image_size][task.image_size][3]   RGB, rows from top to bottom
 *     label   i32 [1]                                     from 0
 *
 * Sample s is record rp_sample_record(s) (shuffle.h), cropped by draws of sample number s (crop.h). Threads take
 * samples of one get_batch() in any order and write only their rows, so their number never changes a byte. A record is
 * damaged if its checksum, its message or its image is refused as RP_MALFORMED; a label out of range is an error of the
 * data set or of data.label_base and is never skipped.
 */
#pragma once

#include "data/dataset.h"
#include "data/image/options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define RP_IMAGE_BYTES_MAX (64u << 20) /* of an encoded image */

/* The bytes of one record; grows, and belongs to a thread. */
struct rp_image_room {
    uint8_t *p;
    size_t cap;
};
uint8_t *rp_image_room(struct rp_image_room *room, size_t size); /* for that many bytes; those before are lost */

struct rp_image_record {
    const uint8_t *bytes; /* in the room */
    size_t size;
    int64_t label;   /* as stored */
    char name[200];  /* of the image, or "" */
};

struct rp_image_set;
struct rp_image_reader {
    int label_base; /* of the format's public writers */
    /* One record. At most one thread is in here at a time. RP_MALFORMED: the record is damaged. */
    int (*read)(struct rp_image_set *s, int64_t record, struct rp_image_room *room, struct rp_image_record *out,
                struct rp_err *err);
    /* Puts the file and the record's number there before the message in *err; always -1. */
    int (*place)(const struct rp_image_set *s, int64_t record, struct rp_err *err);
};

struct rp_image_set {
    struct rp_dataset base;
    const struct rp_image_reader *reader;
    struct rp_files *files;  /* the format's */
    int64_t count;           /* records */
    struct rp_data_opts opts;
    struct rp_crop crop;
    int image_size, label_base, threads;
    int64_t below;           /* labels, from 0 */
    int image_row, label_row; /* among the wanted fields, -1: not wanted */
    pthread_mutex_t reading;
    struct rp_pool *pool;    /* of `threads` threads; started when it is needed */
    struct rp_image_lane *lane; /* [threads] */
};

/* The fields that are wanted, and the options. After a failure the format calls fini() all the same. */
int rp_image_set_init(struct rp_image_set *s, const struct rp_data_format *format, const struct rp_image_reader *reader,
                      const struct rp_sample_field *field, int fields, const struct rp_data_opts *o,
                      struct rp_err *err) rp_must_check;
void rp_image_set_fini(struct rp_image_set *s);

/* Members of struct rp_data_format. */
int64_t rp_image_count(const struct rp_dataset *d);
int rp_image_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err);
int rp_image_get_batch(struct rp_dataset *d, int64_t sample, int64_t n, void *const *column, struct rp_err *err);
int rp_image_check(struct rp_dataset *d, struct rp_data_check *out, int (*tick)(void *arg, int64_t done, int64_t all),
                   void *arg, struct rp_err *err);
/* with images of up to 2000 x 1500 pixels in one scan and 1 MiB */
uint64_t rp_image_working_bytes(const struct rp_data_opts *o);
void rp_image_fields(const struct rp_data_opts *o, int64_t classes, struct rp_sample_field *field, int *n);
int64_t rp_image_folder_classes(const struct rp_dataset *d); /* of data.format image_folder */
