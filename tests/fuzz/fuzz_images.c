/* Any bytes as files of images: refused with one line, or read, and then every label is in its range. The first byte
 * chooses: a TFRecord file, its message alone in a good frame, OneFlow's part file, its message alone after a good
 * length, MXNet's .rec with the right index, the .rec and an index from the bytes before it, a record alone in good
 * parts; the low bit skips damaged images. */
#include "base/buf.h"
#include "data/dataset.h"
#include "data/tfrecord.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 8, ROW = SIZE * SIZE * 3, CLASSES = 5, SAMPLES = 8 };

static char directory[] = "/tmp/rp-fuzz-images-XXXXXX", rec[64], idx[64];

static void remove_directory(void)
{
    unlink(rec);
    unlink(idx);
    rmdir(directory);
}

static void make_directory(void)
{
    if (*rec)
        return;
    must(mkdtemp(directory) != NULL);
    snprintf(rec, sizeof rec, "%s/a.rec", directory);
    snprintf(idx, sizeof idx, "%s/a.idx", directory);
    atexit(remove_directory);
}

static void put(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    must(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static void read_all(const char *name, const char *path, int skip)
{
    static const struct rp_sample_field want[] = {{"image", RP_U8, ROW, 0}, {"label", RP_I32, 1, CLASSES}};
    static uint8_t image[ROW];
    int32_t label;
    void *const row[] = {image, &label};
    const struct rp_data_format *format = rp_data_format_find(name);
    const struct rp_data_opts o = {
        .image = {.crop = {.image_size = SIZE, .short_side = SIZE}, .skip_damaged = skip, .threads = 1}};
    struct rp_data_check c;
    struct rp_err err = {0};
    struct rp_dataset *d = format->open(path, want, 2, &o, &err);
    if (!d) {
        must_be_refusal(&err);
        return;
    }
    must(format->count(d) > 0);
    for (int64_t i = 0; i < format->count(d) && i < SAMPLES; i++) {
        label = -1;
        if (format->get(d, i, row, &err) == 0)
            must(label >= 0 && label < CLASSES);
        else
            must_be_refusal(&err);
    }
    if (format->check(d, &c, NULL, NULL, &err) < 0)
        must_be_refusal(&err);
    format->close(d);
}

static void put_u32(struct rp_buf *out, uint32_t v)
{
    const unsigned char b[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                                (unsigned char)(v >> 24)};
    rp_buf_add(out, b, 4);
}

static void put_part(struct rp_buf *out, unsigned kind, const uint8_t *data, size_t size)
{
    put_u32(out, 0xced7230au);
    put_u32(out, kind << 29 | (uint32_t)size);
    rp_buf_add(out, data, size);
    rp_buf_add(out, "\0\0\0", -size & 3);
}

/* The offsets of the parts that begin a record, if the file is good. */
static void put_right_index(const uint8_t *p, size_t size)
{
    RP_BUF lines = {0};
    for (size_t at = 0; at + 8 <= size;) {
        uint32_t word = p[at + 4] | (uint32_t)p[at + 5] << 8 | (uint32_t)p[at + 6] << 16 | (uint32_t)p[at + 7] << 24;
        if (word >> 29 < 2)
            rp_buf_printf(&lines, "%zu\t%zu\n", at, at);
        at += 8 + (((word & 0x1fffffff) + 3) & ~3u);
    }
    put(idx, rp_buf_text(&lines), lines.size);
}

static void read_recordio(unsigned choice, const uint8_t *data, size_t size)
{
    RP_BUF parts = {0};
    if (choice == 5 && size > 0) { /* the first byte: length of the index */
        size_t n = data[0] < size - 1 ? data[0] : size - 1;
        put(idx, data + 1, n);
        put(rec, data + 1 + n, size - 1 - n);
    } else if (choice == 6) {
        size_t cut = size / 2 & ~(size_t)3;
        put_part(&parts, 0, data, size);
        put_part(&parts, 1, data, cut);
        put_part(&parts, 3, data + cut, size - cut);
        put(rec, parts.data, parts.size);
        put_right_index((const uint8_t *)parts.data, parts.size);
    } else {
        put(rec, data, size);
        put_right_index(data, size);
    }
    read_all("recordio", rec, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    RP_BUF framed = {0};
    if (size == 0 || size > 65536)
        return 0;
    make_directory();
    unsigned choice = data[0] >> 1 & 7;
    int skip = data[0] & 1;
    data++, size--;
    if (choice >= 4) {
        read_recordio(choice, data, size);
        return 0;
    }
    if (choice == 1)
        rp_tfrecord_append(&framed, data, size);
    if (choice == 3) {
        put_u32(&framed, (uint32_t)size);
        put_u32(&framed, 0);
    }
    if (choice != 1)
        rp_buf_add(&framed, data, size);
    put(rec, rp_buf_text(&framed), framed.size);
    read_all(choice < 2 ? "imagenet_tfrecord" : "ofrecord", rec, skip);
    return 0;
}
