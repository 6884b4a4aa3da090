/* OneFlow's OFRecord part files (part-00000, ...), as its image tools write them: messages one after the other, each
 * after its length.
 *
 *     i64 length, little endian | length bytes: message OFRecord (data/example.h)
 *
 * Features: `encoded`, bytes, the JPEG file; `class/label`, int32, from 0. The format has no checksum: damage is
 * detected by the structure of the message and by the decoder. Lengths above 64 MiB are refused, as OneFlow does. */
#include "base/buf.h"
#include "data/example.h"
#include "data/image/image_record.h"
#include "data/tfrecord.h"

#include <stdlib.h>

#define HEAD 8

static int check_length(uint64_t *length, const unsigned char *head, uint64_t left, struct rp_err *err)
{
    uint64_t n = 0;
    if (left < HEAD)
        return rp_fail(err, RP_MALFORMED,
                       "the file ends after %llu of the %d bytes of a record's length: it is truncated",
                       (unsigned long long)left, HEAD);
    for (int i = 0; i < HEAD; i++)
        n |= (uint64_t)head[i] << 8 * i;
    if (n > RP_TFRECORD_MAX)
        return rp_fail(err, RP_MALFORMED,
                       "length %llu is above the limit of %u bytes: damaged, or not an OFRecord file",
                       (unsigned long long)n, RP_TFRECORD_MAX);
    if (n > left - HEAD)
        return rp_fail(err, RP_MALFORMED, "length %llu, but the file ends %llu bytes after it: it is truncated",
                       (unsigned long long)n, (unsigned long long)(left - HEAD));
    *length = n;
    return 0;
}

const struct rp_framing rp_framing_ofrecord = {.head = HEAD, .length = check_length};

struct oneflow {
    struct rp_image_set set;
    struct rp_tfrecord_set records;
};

static int read_ofrecord(struct rp_image_set *s, int64_t record, struct rp_image_room *room,
                         struct rp_image_record *out, struct rp_err *err)
{
    static const struct rp_image_keys keys = {"encoded", "class/label", NULL, rp_ofrecord_parse};
    return rp_image_read_message(&((struct oneflow *)s)->records, record, &keys, room, out, err);
}

static int place_ofrecord(const struct rp_image_set *s, int64_t record, struct rp_err *err)
{
    return rp_tfrecord_set_bad(&((const struct oneflow *)s)->records, record, err);
}

static const struct rp_image_reader reader = {.label_base = 0, .read = read_ofrecord, .place = place_ofrecord};

static void ofrecord_close(struct rp_dataset *d)
{
    struct oneflow *x = (struct oneflow *)d;
    if (!x)
        return;
    rp_image_set_fini(&x->set);
    rp_tfrecord_set_fini(&x->records);
    free(x);
}

static struct rp_dataset *ofrecord_open(const char *path, const struct rp_sample_field *field, int n,
                                        const struct rp_data_opts *o, struct rp_err *err)
{
    struct oneflow *x = rp_alloc(sizeof *x);
    x->records.files.last = -1;
    x->set.files = &x->records.files;
    if (rp_image_set_init(&x->set, &rp_data_format_ofrecord, &reader, field, n, o, err) < 0 ||
        rp_tfrecord_set_init(&x->records, &rp_data_format_ofrecord, &rp_framing_ofrecord, path, err) < 0) {
        ofrecord_close(&x->set.base);
        return NULL;
    }
    x->set.count = x->records.count;
    return &x->set.base;
}

static int ofrecord_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                          struct rp_err *err)
{
    struct rp_files files;
    *n = 0;
    if (rp_data_list(&rp_data_format_ofrecord, &files, path, err) < 0)
        return -1;
    rp_files_close(&files);
    rp_image_fields(o, 1000, field, n);
    return 0;
}

const struct rp_data_format rp_data_format_ofrecord = {
    .name = "ofrecord",
    .summary = "images: OneFlow's OFRecord part files",
    .in_name = RP_OFRECORD_IN_NAME,
    .endings = {""},
    .probe = ofrecord_probe,
    .open = ofrecord_open,
    .close = ofrecord_close,
    .count = rp_image_count,
    .get = rp_image_get,
    .get_batch = rp_image_get_batch,
    .working_bytes = rp_image_working_bytes,
    .check = rp_image_check,
};
