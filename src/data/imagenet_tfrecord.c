/* ImageNet in TFRecord files, as the public builders write them (build_imagenet_data.py and its descendants): 1,024
 * files train-00000-of-01024, 128 files validation-00000-of-00128, each record a tf.Example with these features among
 * others:
 *
 *     image/encoded       bytes, 1 value      the JPEG file
 *     image/class/label   int64, 1 value      from 1; 0 is left to a background class
 *     image/filename      bytes, 1 value      for messages; may be missing
 *
 * or as TensorFlow Datasets write imagenet2012 and others (imagenet2012-train.tfrecord-00000-of-01024), which the first
 * record shows:
 *
 *     image, label        the same, but labels count from 0
 *     file_name           as image/filename */
#include "data/image/image_set.h"

#include "base/buf.h"
#include "base/text.h"
#include "data/example.h"
#include "data/image/image_record.h"
#include "data/tfrecord.h"

#include <stdlib.h>
#include <string.h>

struct imagenet {
    struct rp_image_set set;
    struct rp_tfrecord_set records;
    const struct rp_image_keys *keys;
};

static const struct rp_image_keys builder = {"image/encoded", "image/class/label", "image/filename", rp_example_parse};
static const struct rp_image_keys tfds = {"image", "label", "file_name", rp_example_parse};

static int read_example(struct rp_image_set *s, int64_t record, struct rp_image_room *room, struct rp_image_record *out,
                        struct rp_err *err)
{
    const struct imagenet *x = (struct imagenet *)s;
    return rp_image_read_message(&((struct imagenet *)s)->records, record, x->keys, room, out, err);
}

static int place_example(const struct rp_image_set *s, int64_t record, struct rp_err *err)
{
    return rp_tfrecord_set_bad(&((const struct imagenet *)s)->records, record, err);
}

static const struct rp_image_reader reader = {.label_base = 1, .read = read_example, .place = place_example};

/* By the names in the first record; the builder's, if it has neither or cannot be read, which is an error when it is
 * used. */
static void choose_keys(struct imagenet *x, const struct rp_data_opts *o)
{
    struct rp_example_field field[] = {{.name = builder.image, .want = RP_EXAMPLE_BYTES},
                                       {.name = tfds.image, .want = RP_EXAMPLE_BYTES}};
    const unsigned char *data;
    size_t size;
    struct rp_err ignored;
    x->keys = &builder;
    if (rp_tfrecord_set_record(&x->records, 0, &data, &size, &ignored) < 0 ||
        rp_example_parse(data, size, field, 2, &ignored) < 0 || field[0].found || field[1].found != RP_EXAMPLE_BYTES)
        return;
    x->keys = &tfds;
    if (!o->image.label_base)
        x->set.label_base = 0;
}

static void imagenet_close(struct rp_dataset *d)
{
    struct imagenet *x = (struct imagenet *)d;
    if (!x)
        return;
    rp_image_set_fini(&x->set);
    rp_tfrecord_set_fini(&x->records);
    free(x);
}

static struct rp_dataset *imagenet_open(const char *path, const struct rp_sample_field *field, int n,
                                        const struct rp_data_opts *o, struct rp_err *err)
{
    struct imagenet *x = rp_alloc(sizeof *x);
    x->records.files.last = -1;
    x->set.files = &x->records.files;
    if (rp_image_set_init(&x->set, &rp_data_format_imagenet_tfrecord, &reader, field, n, o, err) < 0 ||
        rp_tfrecord_set_init(&x->records, &rp_data_format_imagenet_tfrecord, &rp_framing_tfrecord, path, err) < 0) {
        imagenet_close(&x->set.base);
        return NULL;
    }
    x->set.count = x->records.count;
    choose_keys(x, o);
    return &x->set.base;
}

/* Bytes of a file's name before "-00000-of-00128", all of it if it has no such ending. */
static int name_of_shards(const char *path)
{
    const char *name = rp_base_name(path), *of = strstr(name, "-of-");
    int n = of ? (int)(of - name) : (int)strlen(name);
    while (of && n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    return n;
}

/* A directory with the training and the validation files would silently train on both. */
static int list_shards(struct rp_files *files, const char *path, struct rp_err *err)
{
    if (rp_files_open(files, path, rp_data_format_imagenet_tfrecord.in_name, err) < 0)
        return -1;
    const char *first = rp_base_name(files->file[0].name);
    int length = name_of_shards(files->file[0].name);
    for (int i = 1; i < files->n; i++) {
        const char *name = rp_base_name(files->file[i].name);
        if (!strstr(first, "-of-") || !strstr(name, "-of-") ||
            (name_of_shards(files->file[i].name) == length && strncmp(first, name, (size_t)length) == 0))
            continue;
        char one[72], two[72];
        const int is_tfds = strstr(first, "-train") || strstr(name, "-train");
        rp_fail(err, RP_MALFORMED,
                "'%s' has files of two sets, such as '%s' and '%s'; give a quoted glob of one, such as '%s/%strain%s*'",
                path, rp_excerpt(one, first), rp_excerpt(two, name), path, is_tfds ? "*-" : "", is_tfds ? "." : "-");
        rp_files_close(files);
        return -1;
    }
    return 0;
}

static int imagenet_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                          struct rp_err *err)
{
    struct rp_files files;
    *n = 0;
    if (list_shards(&files, path, err) < 0)
        return -1;
    rp_files_close(&files);
    rp_image_fields(o, 1000, field, n);
    return 0;
}

const struct rp_data_format rp_data_format_imagenet_tfrecord = {
    .name = "imagenet_tfrecord",
    .summary = "images: TFRecord files of tf.Example, as the public ImageNet builder's and TensorFlow Datasets'",
    .in_name = "-of-|" RP_TFRECORD_IN_NAME,
    .endings = {""},
    .list = list_shards,
    .probe = imagenet_probe,
    .open = imagenet_open,
    .close = imagenet_close,
    .count = rp_image_count,
    .get = rp_image_get,
    .get_batch = rp_image_get_batch,
    .working_bytes = rp_image_working_bytes,
    .check = rp_image_check,
};
