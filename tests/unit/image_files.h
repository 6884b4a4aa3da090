/* Twelve images with their labels, written in each of the four formats.
 *
 * Flow:    write_formats() -> scratch files tf/, of/, rec/, folder/; add_*(): one record of a format at the end of a
 *          buffer.
 * Extend:  include after tap.h.
 */
#pragma once

#include "data/example.h"
#include "data/image/image_set.h"
#include "data/tfrecord.h"
#include "tests/unit/image_fixture.h"
#include "tests/unit/scratch.h"

#include <stdio.h>

enum { IMAGES = 12, CLASSES = 3, SIZE = 32, ROW = SIZE * SIZE * 3 };

static struct rp_err err;
static struct rp_buf jpeg[IMAGES];

static void make_images(void)
{
    /* one is larger than the windows of readers */
    for (int i = 0; i < IMAGES && !jpeg[i].size; i++)
        noisy_jpeg(&jpeg[i], i == 9 ? 400 : 40 + 7 * i, i == 9 ? 300 : 90 - 5 * i,
                   &(struct rp_jpeg_form){.components = i == 3   ? 1
                                                        : i == 5 ? 4
                                                                 : 3,
                                          .quality = 80, .progressive = i == 7});
}

/* Image i has class i / 4. */
static struct rp_data_opts options(int threads)
{
    struct rp_data_opts o = {.image = {.crop = {.random = 1, .image_size = SIZE, .short_side = 40, .area_min = 0.08,
                                                .area_max = 1, .ratio_min = 0.75, .ratio_max = 1.3333333333333333,
                                                .attempts = 10, .flip = 0.5, .seed = 4},
                                       .fancy = 1, .threads = threads}};
    return o;
}

static struct rp_dataset *open_images(const char *format, const char *path, const struct rp_data_opts *o)
{
    static const struct rp_sample_field want[] = {{"image", RP_U8, ROW, 0}, {"label", RP_I32, 1, CLASSES}};
    err = (struct rp_err){0};
    return rp_data_format_find(format)->open(path, want, 2, o, &err);
}

static void close_images(struct rp_dataset *d)
{
    if (d)
        d->format->close(d);
}

/* ---- writers ---- */

static void add_example(struct rp_buf *out, const struct rp_buf *image, int64_t label, const char *name)
{
    RP_BUF message = {0};
    struct rp_example_bytes encoded = {(const unsigned char *)image->data, image->size},
                            named = {(const unsigned char *)name, strlen(name)};
    struct rp_example_field field[] = {
        {.name = "image/class/label", .want = RP_EXAMPLE_INT64, .out.i64 = &label, .count = 1},
        {.name = "image/filename", .want = RP_EXAMPLE_BYTES, .out.bytes = &named, .count = 1},
        {.name = "image/encoded", .want = RP_EXAMPLE_BYTES, .out.bytes = &encoded, .count = 1},
    };
    rp_example_write(&message, field, 3);
    rp_tfrecord_append(out, message.data, message.size);
}

static void put_le(struct rp_buf *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        rp_buf_add(out, &(char){(char)(v >> 8 * i)}, 1);
}

static void put_varint(struct rp_buf *out, uint64_t v)
{
    for (; v > 127; v >>= 7)
        put_le(out, (v & 127) | 128, 1);
    put_le(out, v, 1);
}

static void put_field(struct rp_buf *out, int number, const void *data, size_t size)
{
    put_varint(out, (uint64_t)number << 3 | 2);
    put_varint(out, size);
    rp_buf_add(out, data, size);
}

/* An entry of OFRecord's map: key, Feature with a list of the kind of that number. */
static void put_feature(struct rp_buf *out, const char *key, int kind, const void *list, size_t size)
{
    RP_BUF feature = {0}, entry = {0};
    put_field(&feature, kind, list, size);
    put_field(&entry, 1, key, strlen(key));
    put_field(&entry, 2, feature.data, feature.size);
    put_field(out, 1, entry.data, entry.size);
}

static void add_ofrecord(struct rp_buf *out, const struct rp_buf *image, int label)
{
    RP_BUF message = {0}, list = {0}, number = {0}, labels = {0};
    put_field(&list, 1, image->data, image->size);
    put_feature(&message, "encoded", 1, list.data, list.size);
    put_varint(&number, (uint64_t)(int64_t)label);
    put_field(&labels, 1, number.data, number.size);
    put_feature(&message, "class/label", 4, labels.data, labels.size); /* an int32 list */
    put_feature(&message, "other", 3, "\x0a\x08" "12345678", 10);      /* doubles are skipped */
    put_le(out, message.size, 8);
    rp_buf_add(out, message.data, message.size);
}

static void put_part(struct rp_buf *out, unsigned kind, const void *data, size_t size)
{
    put_le(out, 0xced7230a, 4);
    put_le(out, (uint64_t)kind << 29 | size, 4);
    rp_buf_add(out, data, size);
    put_le(out, 0, (int)(-size & 3));
}

/* As dmlc's RecordIOWriter: cut at aligned magic numbers. labels: 0 writes the label into the head. */
static void add_recordio(struct rp_buf *rec, struct rp_buf *idx, const struct rp_buf *image, float label,
                         unsigned labels, int id)
{
    RP_BUF whole = {0};
    uint32_t bits;
    size_t from = 0;
    memcpy(&bits, &label, 4);
    rp_buf_printf(idx, "%d\t%zu\n", id, rec->size);
    put_le(&whole, labels, 4);
    put_le(&whole, labels ? 0 : bits, 4);
    put_le(&whole, (uint64_t)id, 8);
    put_le(&whole, 0, 8);
    for (unsigned i = 0; i < labels; i++)
        put_le(&whole, i ? 0x7fc00000 : bits, 4);
    rp_buf_add(&whole, image->data, image->size);
    for (size_t i = 0; i + 4 <= whole.size; i += 4)
        if (memcmp(whole.data + i, "\x0a\x23\xd7\xce", 4) == 0) {
            put_part(rec, from ? 2 : 1, whole.data + from, i - from);
            from = i + 4;
        }
    put_part(rec, from ? 3 : 0, whole.data + from, whole.size - from);
}

/* The images in every format; image_folder's order of paths is that of the others. */
static void write_formats(void)
{
    RP_BUF tf = {0}, of = {0}, rec = {0}, idx = {0};
    static int done;
    if (done++)
        return;
    make_images();
    mkdir(scratch("folder"), 0777);
    for (int i = 0; i < IMAGES; i++) {
        char name[60];
        add_example(&tf, &jpeg[i], 1 + i / 4, RP_FORMAT(name, "n0_%d.JPEG", i));
        add_ofrecord(&of, &jpeg[i], i / 4);
        add_recordio(&rec, &idx, &jpeg[i], (float)(i / 4), i % 3 == 1 ? 2 : 0, 100 + i);
        mkdir(scratch(RP_FORMAT(name, "folder/%c", "abc"[i / 4])), 0777);
        put_file(RP_FORMAT(name, "folder/%c/%02d.%s", "abc"[i / 4], i, i % 2 ? "JPEG" : "jpg"), jpeg[i].data,
                 jpeg[i].size);
    }
    put_file("folder/a/readme.txt", "x", 1);
    mkdir(scratch("tf"), 0777);
    mkdir(scratch("of"), 0777);
    mkdir(scratch("rec"), 0777);
    put_file("tf/train-00000-of-00001", tf.data, tf.size);
    put_file("of/part-00000", of.data, of.size);
    put_file("rec/train.rec", rec.data, rec.size);
    put_file("rec/train.idx", idx.data, idx.size);
}

static const char *const formats[][2] = {
    {"imagenet_tfrecord", "tf"}, {"image_folder", "folder"}, {"ofrecord", "of"}, {"recordio", "rec"}};
