/* The four formats of images: the same images and labels give the same samples in each, with any number of threads;
 * labels, checksums and damage are named; lists of files. */
#include "tests/unit/tap.h"

#include "base/hash.h"
#include "tests/unit/image_files.h"

/* ---- samples ---- */

struct batch {
    uint8_t image[2 * IMAGES + 1][ROW];
    int32_t label[2 * IMAGES + 1];
};

TEST(every_format_and_every_number_of_threads_gives_the_same_samples)
{
    static struct batch first, other, single;
    write_formats();
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int f = 0; f < 4; f++)
            for (int threads = 1; threads < 6; threads += 2) {
                struct rp_data_opts o = options(threads);
                o.shuffle = shuffle;
                struct rp_dataset *d = open_images(formats[f][0], scratch(formats[f][1]), &o);
                struct batch *b = f == 0 && threads == 1 ? &first : &other;
                void *const column[] = {b->image, b->label};
                if (!CHECK(d && d->format->count(d) == IMAGES, "%s: %s", formats[f][0], err.msg))
                    continue;
                memset(b, 0xee, sizeof *b);
                CHECK(d->format->get_batch(d, 0, 2 * IMAGES, column, &err) == 0, "%s: %s", formats[f][0], err.msg);
                CHECK(b == &first || memcmp(b, &first, sizeof *b) == 0, "%s with %d threads", formats[f][0], threads);
                memset(&single, 0xee, sizeof single);
                for (int i = 2 * IMAGES - 1; i >= 0; i--) {
                    void *const row[] = {single.image[i], &single.label[i]};
                    CHECK(d->format->get(d, i, row, &err) == 0, "%s", err.msg);
                    CHECK(shuffle || single.label[i] == i % IMAGES / 4, "image %d has label %d", i, single.label[i]);
                }
                CHECK(memcmp(&single, &first, sizeof single) == 0, "%s: one by one", formats[f][0]);
                CHECK(b->image[2 * IMAGES][0] == 0xee && b->label[2 * IMAGES] == (int32_t)0xeeeeeeee,
                      "beyond the batch");
                close_images(d);
            }
}

TEST(samples_of_the_pinned_archive)
{
    static uint8_t image[64 * ROW];
    static int32_t label[64];
    void *const column[] = {image, label};
    static const struct rp_sample_field want[] = {{"image", RP_U8, ROW, 0}, {"label", RP_I32, 1, 8}};
    char hex[65];
    for (int k = 0; k < 3; k++) {
        struct rp_data_opts o = options(2);
        o.image.crop.random = k != 1;
        o.image.filter = k == 2 ? RP_RESIZE_FILTER_linear : RP_RESIZE_FILTER_triangular;
        o.image.fancy = k != 2;
        struct rp_dataset *d =
            rp_data_format_find("imagenet_tfrecord")->open("embedded:imagenet_sample.tar.zst", want, 2, &o, &err);
        if (!CHECK(d, "%s", err.msg))
            return;
        CHECK(d->format->get_batch(d, 0, 64, column, &err) == 0, "%s", err.msg);
        rp_sha256_hex(hex, image, sizeof image);
        static const char *const pinned[] = {"1dda164b15924ff1da0ff61075f252808e34b06591e059987b6f533f91190f45",
                                             "23c35e218dec3adfdeca99fd16f97b901cfe77f9566329673de1a451aebd371f",
                                             "8b14599af768e4abed5d081acf538319ae1388c33a6218b405bd63cd009c0296"};
        CHECK_STR(hex, pinned[k]);
        for (int i = 0; i < 64; i++)
            CHECK(label[i] == i % 8);
        close_images(d);
    }
}

TEST(facts_of_a_set)
{
    write_formats();
    for (int f = 0; f < 4; f++) {
        struct rp_data_opts o = options(3);
        struct rp_data_check c;
        struct rp_dataset *d = open_images(formats[f][0], scratch(formats[f][1]), &o);
        if (!CHECK(d && d->format->check(d, &c, NULL, NULL, &err) == 0, "%s: %s", formats[f][0], err.msg)) {
            close_images(d);
            continue;
        }
        static const struct {
            const char *name;
            int64_t value;
        } want[] = {{"classes", 3}, {"gray", 1}, {"cmyk", 1}, {"several_scans", 1}, {"oriented", 0}, {"damaged", 0}};
        for (size_t i = 0; i < sizeof want / sizeof *want; i++)
            for (int k = 0; k < c.facts; k++)
                CHECK(strcmp(c.fact[k].name, want[i].name) != 0 || c.fact[k].value == want[i].value, "%s %s: %lld",
                      formats[f][0], want[i].name, (long long)c.fact[k].value);
        CHECK(c.records == IMAGES && c.facts == 10);
        close_images(d);
    }
}

/* ---- refusals ---- */

/* -1: opening or the whole check failed. */
static int check_path(const char *format, const char *path, const struct rp_data_opts *o, int64_t *damaged)
{
    struct rp_data_check c = {0};
    struct rp_dataset *d = open_images(format, path, o);
    int rc = d ? d->format->check(d, &c, NULL, NULL, &err) : -1;
    if (damaged)
        *damaged = c.facts ? c.fact[c.facts - 1].value : -1;
    close_images(d);
    return rc;
}

TEST(labels_that_contradict_the_base)
{
    struct rp_data_opts o = options(2);
    write_formats();
    o.image.label_base = 1 + 0;
    REFUSED(check_path("imagenet_tfrecord", scratch("tf"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    o.image.label_base = 1 + 1;
    REFUSED(check_path("ofrecord", scratch("of"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    o.image.skip_damaged = 1; /* skips no wrong label */
    REFUSED(check_path("recordio", scratch("rec"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    REFUSED(check_path("image_folder", scratch("folder"), &o, NULL) < 0 && err.code == RP_USAGE, err.msg);
    RP_BUF tf = {0};
    add_example(&tf, &jpeg[0], INT64_MIN, "low");
    put_file("low.tfrecord", tf.data, tf.size);
    REFUSED(check_path("imagenet_tfrecord", scratch("low.tfrecord"), &o, NULL) < 0 && err.code == RP_MALFORMED,
            err.msg);
}

/* Record 2 is cut, record 5 has a wrong checksum. */
static const char *write_damaged(void)
{
    RP_BUF tf = {0}, cut = {0};
    make_images();
    rp_buf_add(&cut, jpeg[2].data, jpeg[2].size / 2);
    for (int i = 0; i < 8; i++)
        add_example(&tf, i == 2 ? &cut : &jpeg[i], 1 + i % 3, "n01440764_18.JPEG");
    return put_file("damaged.tfrecord", tf.data, tf.size);
}

TEST(damaged_images_are_refused_or_replaced_and_counted)
{
    static struct batch b, good;
    struct rp_data_opts o = options(3);
    void *const column[] = {b.image, b.label};
    const char *path = write_damaged();
    int64_t damaged;
    REFUSED(check_path("imagenet_tfrecord", path, &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    struct rp_dataset *d = open_images("imagenet_tfrecord", path, &o);
    REFUSED(d && d->format->get_batch(d, 0, 8, column, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    CHECK(d->skipped == 0);
    close_images(d);
    o.image.skip_damaged = 1;
    CHECK(check_path("imagenet_tfrecord", path, &o, &damaged) == 0 && damaged == 1, "%s", err.msg);
    d = open_images("imagenet_tfrecord", path, &o);
    CHECK(d && d->format->get_batch(d, 0, 16, column, &err) == 0, "%s", err.msg);
    CHECK(d->skipped == 2, "%lld", (long long)d->skipped);
    for (int i = 0; i < 8; i++)
        CHECK(b.label[i] == (i == 2 ? 3 : i) % 3, "sample %d has label %d", i, b.label[i]);
    /* sample 2 is record 3 with the crop of sample 2, whatever thread came first */
    memcpy(&good, &b, sizeof good);
    CHECK(d->format->get_batch(d, 0, 16, column, &err) == 0 && memcmp(&good, &b, sizeof good) == 0);
    close_images(d);
    RP_BUF tf = {0}, none = {0};
    rp_buf_puts(&none, "\xff\xd8\xff\xd9");
    for (int i = 0; i < 3; i++)
        add_example(&tf, &none, 1, "");
    path = put_file("none.tfrecord", tf.data, tf.size);
    REFUSED(check_path("imagenet_tfrecord", path, &o, NULL) < 0, err.msg);
    d = open_images("imagenet_tfrecord", path, &o);
    REFUSED(d && d->format->get_batch(d, 0, 1, column, &err) < 0, err.msg);
    close_images(d);
}

TEST(a_changed_byte_of_a_tfrecord_is_noticed)
{
    RP_BUF tf = {0};
    struct rp_data_opts o = options(1);
    int unnoticed = 0;
    make_images();
    add_example(&tf, &jpeg[11], 1, "a");
    for (size_t i = 0; i < tf.size; i += 13) {
        tf.data[i] ^= 4;
        unnoticed += check_path("imagenet_tfrecord", put_file("flip.tfrecord", tf.data, tf.size), &o, NULL) == 0 ||
                     err.code != RP_MALFORMED;
        tf.data[i] ^= 4;
    }
    CHECK(unnoticed == 0, "%d changes unnoticed", unnoticed);
    tf.data[tf.size / 2] ^= 1;
    REFUSED(check_path("imagenet_tfrecord", put_file("flip.tfrecord", tf.data, tf.size), &o, NULL) < 0, err.msg);
}

TEST(messages_that_are_not_images)
{
    struct rp_data_opts o = options(1);
    RP_BUF tf = {0}, message = {0}, of = {0};
    int64_t two[2] = {1, 1};
    struct rp_example_field field[] = {
        {.name = "image/class/label", .want = RP_EXAMPLE_INT64, .out.i64 = two, .count = 2},
        {.name = "image/encoded", .want = RP_EXAMPLE_INT64, .out.i64 = two, .count = 1}};
    rp_example_write(&message, field, 1);
    rp_tfrecord_append(&tf, message.data, message.size);
    REFUSED(check_path("imagenet_tfrecord", put_file("m.tfrecord", tf.data, tf.size), &o, NULL) < 0, err.msg);
    message.size = tf.size = 0;
    rp_example_write(&message, field, 2);
    rp_tfrecord_append(&tf, message.data, message.size);
    REFUSED(check_path("imagenet_tfrecord", put_file("m.tfrecord", tf.data, tf.size), &o, NULL) < 0, err.msg);
    struct rp_example_bytes image = {(const unsigned char *)"x", 1};
    struct rp_example_field labels[] = {
        {.name = "image/class/label", .want = RP_EXAMPLE_INT64, .out.i64 = two, .count = 2},
        {.name = "image/encoded", .want = RP_EXAMPLE_BYTES, .out.bytes = &image, .count = 1}};
    message.size = tf.size = 0;
    rp_example_write(&message, labels, 2);
    rp_tfrecord_append(&tf, message.data, message.size);
    REFUSED(check_path("imagenet_tfrecord", put_file("m.tfrecord", tf.data, tf.size), &o, NULL) < 0 &&
                err.code == RP_MALFORMED,
            err.msg);
    put_le(&of, 9, 8);
    rp_buf_puts(&of, "short");
    REFUSED(check_path("ofrecord", put_file("part-1", of.data, of.size), &o, NULL) < 0 && err.code == RP_MALFORMED,
            err.msg);
    of.size = 0;
    put_le(&of, 7, 8);
    rp_buf_puts(&of, "\x0a\x09truncated");
    REFUSED(check_path("ofrecord", put_file("part-1", of.data, of.size), &o, NULL) < 0, err.msg);
    of.size = 15;
    REFUSED(check_path("ofrecord", put_file("part-1", of.data, of.size), &o, NULL) < 0, err.msg);
    of.data[4] = 1;
    REFUSED(check_path("ofrecord", put_file("part-1", of.data, of.size), &o, NULL) < 0, err.msg);
    of.size = 3;
    REFUSED(check_path("ofrecord", put_file("part-1", of.data, of.size), &o, NULL) < 0, err.msg);
}

TEST(recordio_and_its_index)
{
    struct rp_data_opts o = options(1);
    RP_BUF rec = {0}, idx = {0}, other = {0}, magic = {0};
    make_images();
    write_formats();
    /* an image with the magic number at an aligned place, in a comment segment: three parts */
    rp_buf_add(&magic, "\xff\xd8\xff\xfe\x00\x0e" "zz\x0a\x23\xd7\xce\x0a\x23\xd7\xce" "zz", 18);
    rp_buf_add(&magic, jpeg[0].data + 2, jpeg[0].size - 2);
    add_recordio(&rec, &idx, &magic, 2, 0, 1);
    add_recordio(&rec, &idx, &jpeg[1], 1, 0, 2);
    put_file("r.rec", rec.data, rec.size);
    put_file("r.idx", idx.data, idx.size);
    CHECK((unsigned char)rec.data[7] >> 5 == 1, "no part");
    CHECK(check_path("recordio", scratch("r.rec"), &o, NULL) == 0, "%s", err.msg);
    CHECK(check_path("recordio", scratch("r.idx"), &o, NULL) == 0, "%s", err.msg);
    static const char *const wrong[] = {"1\t0\n",       "1\t0\n2\t8\n", "1 0\n2\t8\n",
                                        "1\t0\n2\tx\n", "\t0\n1\t1\n",  "1\t0\n2\t99999999999999999999999\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_file("r.idx", wrong[i], strlen(wrong[i]));
        REFUSED(check_path("recordio", scratch("r.rec"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    }
    /* any order, any line end */
    rp_buf_printf(&other, "2\t%zu\r\n1\t0", rec.size - (jpeg[1].size + 24 + 8 + 3) / 4 * 4);
    put_file("r.idx", other.data, other.size);
    CHECK(check_path("recordio", scratch("r.rec"), &o, NULL) == 0, "%s", err.msg);
    put_file("r.idx", idx.data, idx.size);
    size_t full = rec.size;
    for (rec.size = 0; rec.size < full; rec.size += 97) {
        put_file("r.rec", rp_buf_text(&rec), rec.size);
        CHECK(check_path("recordio", scratch("r.rec"), &o, NULL) < 0 && err.code == RP_MALFORMED, "%zu bytes: %s",
              rec.size, err.msg);
    }
    rec.size = full;
    rec.data[7] = (char)(rec.data[7] & 0x1f); /* the first part alone is no record any more */
    put_file("r.rec", rec.data, rec.size);
    REFUSED(check_path("recordio", scratch("r.rec"), &o, NULL) < 0, err.msg);
    rec.data[0] = 0;
    put_file("r.rec", rec.data, rec.size);
    REFUSED(check_path("recordio", scratch("r.rec"), &o, NULL) < 0, err.msg);
    rec.size = idx.size = 0;
    add_recordio(&rec, &idx, &jpeg[1], 0.5f, 0, 2);
    put_file("r.rec", rec.data, rec.size);
    put_file("r.idx", idx.data, idx.size);
    REFUSED(check_path("recordio", scratch("r.rec"), &o, NULL) < 0, err.msg);
    memset(rec.data + 8, 0xff, 4);
    put_file("r.rec", rec.data, rec.size);
    REFUSED(check_path("recordio", scratch("r.rec"), &o, NULL) < 0, err.msg);
}

/* Without an .idx the same samples, by their places; an .idx without its .rec is an error. */
TEST(recordio_without_an_index)
{
    struct rp_data_opts o = options(1);
    static uint8_t image[2][ROW];
    int32_t label[2] = {-1, -2};
    RP_BUF rec = {0}, idx = {0};
    make_images();
    for (int i = 0; i < 3; i++)
        add_recordio(&rec, &idx, &jpeg[i], (float)i, 0, (uint64_t)i);
    mkdir(scratch("pair"), 0777);
    mkdir(scratch("alone"), 0777);
    put_file("pair/a.rec", rec.data, rec.size);
    put_file("pair/a.idx", idx.data, idx.size);
    put_file("alone/a.rec", rec.data, rec.size);
    put_file("alone/b.rec", rec.data, rec.size); /* a directory may have both kinds */
    put_file("alone/b.idx", idx.data, idx.size);
    for (int i = 0; i < 3; i++) {
        static const char *const path[] = {"pair", "alone/a.rec"};
        for (int k = 0; k < 2; k++) {
            void *const row[] = {image[k], &label[k]};
            struct rp_dataset *d = open_images("recordio", scratch(path[k]), &o);
            CHECK(d && d->format->count(d) == 3 && d->format->get(d, i, row, &err) == 0, "%s", err.msg);
            close_images(d);
        }
        CHECK(label[0] == i && label[1] == i && memcmp(image[0], image[1], ROW) == 0, "sample %d", i);
    }
    struct rp_dataset *both = open_images("recordio", scratch("alone"), &o);
    CHECK(both && both->format->count(both) == 6, "%s", err.msg);
    close_images(both);
    unlink(scratch("alone/b.rec"));
    REFUSED(check_path("recordio", scratch("alone"), &o, NULL) < 0 && err.code == RP_IO, err.msg);
    REFUSED(check_path("recordio", scratch("alone/b.idx"), &o, NULL) < 0 && err.code == RP_IO, err.msg);
    put_file("alone/a.rec", rec.data, rec.size - 5);
    REFUSED(check_path("recordio", scratch("alone/a.rec"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
}

/* Sizes that no record has, of files that take no room on the disk. */
TEST(recordio_of_a_size_that_is_refused_before_it_is_read)
{
    struct rp_data_opts o = options(1);
    RP_BUF rec = {0}, idx = {0};
    make_images();
    add_recordio(&rec, &idx, &jpeg[1], 1, 0, 2);
    mkdir(scratch("large"), 0777);
    put_file("large/a.rec", rec.data, rec.size);
    put_file("large/a.idx", idx.data, idx.size);
    CHECK(truncate(scratch("large/a.idx"), (1l << 30) + 1) == 0, "no sparse file");
    REFUSED(check_path("recordio", scratch("large"), &o, NULL) < 0 && err.code == RP_MALFORMED &&
                strstr(err.msg, "more than 1073741824 bytes"),
            err.msg);
    put_file("large/a.idx", idx.data, idx.size);
    const uint32_t head[2] = {0xced7230a, 65u << 20}; /* one part of 65 MiB */
    put_file("large/a.rec", head, sizeof head);
    CHECK(truncate(scratch("large/a.rec"), (66l << 20)) == 0, "no sparse file");
    REFUSED(check_path("recordio", scratch("large"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    const uint32_t first[3] = {0xced7230a, 1u << 29 | 4, 0}; /* the first part of several, and no other */
    put_file("large/a.rec", first, sizeof first);
    REFUSED(check_path("recordio", scratch("large"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
}

/* One part, with these three bits before its length. */
TEST(parts_of_recordio_that_are_no_record)
{
    static const struct {
        unsigned kind;
        uint32_t length;
        const char *data;
    } rows[] = {{4, 4, "abcd"}, {7, 4, "abcd"}, {0, 0x1fffffff, "abcd"}, {1, 4, "abcd"},
                {2, 4, "abcd"}, {3, 4, "abcd"}, {0, 4, "abcd"},          {0, 400, "abcd"}};
    struct rp_data_opts o = options(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RP_BUF rec = {0};
        put_le(&rec, 0xced7230a, 4);
        put_le(&rec, rows[i].kind << 29 | rows[i].length, 4);
        rp_buf_puts(&rec, rows[i].data);
        put_file("p.rec", rec.data, rec.size);
        put_file("p.idx", "1\t0\n", 4);
        REFUSED(check_path("recordio", scratch("p.rec"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    }
}

/* A hole of a gigabyte is read as no image. */
TEST(a_file_that_is_too_large_for_an_image)
{
    struct rp_data_opts o = options(1);
    mkdir(scratch("large"), 0777);
    mkdir(scratch("large/a"), 0777);
    const char *path = put_file("large/a/x.jpg", "x", 1);
    CHECK(truncate(path, 1 << 30) == 0, "no hole");
    REFUSED(check_path("image_folder", scratch("large"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    unlink(scratch("large/a/x.jpg"));
}

TEST(lists_of_files)
{
    struct rp_data_opts o = options(1);
    write_formats();
    make_images();
    /* classes are ordered by their names, although "a-b/" comes before "a/" in paths */
    static const char *const dirs[] = {"classes",     "classes/a",        "classes/a-b",
                                       "classes/a.b", "classes/a.b/deep", "classes/a.b/deep/er"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        mkdir(scratch(dirs[i]), 0777);
    put_file("classes/a/x.jpg", jpeg[0].data, jpeg[0].size);
    put_file("classes/a-b/x.jpg", jpeg[1].data, jpeg[1].size);
    put_file("classes/a.b/deep/er/x.JPG", jpeg[2].data, jpeg[2].size);
    put_file("classes/a.b/x.JPG", jpeg[2].data, jpeg[2].size);
    struct rp_dataset *d = open_images("image_folder", scratch("classes"), &o);
    static const int32_t labels[] = {1, 2, 2, 0};
    for (int i = 0; CHECK(d && d->format->count(d) == 4, "%s", err.msg) && i < 4; i++) {
        static uint8_t image[ROW];
        int32_t label = -1;
        void *const row[] = {image, &label};
        CHECK(d->format->get(d, i, row, &err) == 0 && label == labels[i], "%d: %d %s", i, label, err.msg);
    }
    close_images(d);
    mkdir(scratch("one"), 0777);
    CHECK(rename(scratch("classes"), scratch("one/classes")) == 0);
    CHECK(check_path("image_folder", scratch("one"), &o, NULL) == 0, "%s", err.msg);
    mkdir(scratch("one/classes/d"), 0777);
    put_file("one/classes/d/x.jpg", jpeg[0].data, jpeg[0].size);
    REFUSED(check_path("image_folder", scratch("one"), &o, NULL) < 0, err.msg); /* four classes, three are wanted */
    put_file("one/classes/a/y.jpg", "", 0);
    mkdir(scratch("none"), 0777);
    REFUSED(check_path("image_folder", scratch("none"), &o, NULL) < 0 && err.code == RP_IO, err.msg);
    REFUSED(check_path("image_folder", scratch("one/classes/a/x.jpg"), &o, NULL) < 0 && err.code == RP_IO, err.msg);
    mkdir(scratch("both"), 0777);
    put_file("both/train-00000-of-00001", "", 0);
    put_file("both/validation-00000-of-00001", "", 0);
    REFUSED(check_path("imagenet_tfrecord", scratch("both"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    REFUSED(check_path("imagenet_tfrecord", scratch("one"), &o, NULL) < 0 && err.code == RP_IO, err.msg);
}

/* What torchvision's ImageFolder (0.21) makes of these folders: IMG_EXTENSIONS at any depth, every folder a class,
 * hidden ones too, and FileNotFoundError for a class without an image. */
TEST(what_image_folder_reads_is_read_or_refused)
{
    static const char *const others[] = {"b/1.png",  "b/1.PPM",  "b/1.bmp",  "b/1.pgm",   "b/1.tif",
                                         "b/1.tiff", "b/1.webp", "b/.1.jpg", "b/in/1.png"};
    struct rp_data_opts o = options(1);
    make_images();
    static const char *const dirs[] = {"foreign", "foreign/a", "foreign/b", "foreign/b/in", "foreign/.c", "foreign/c"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        mkdir(scratch(dirs[i]), 0777);
    put_file("foreign/a/x.jpg", jpeg[0].data, jpeg[0].size);
    put_file("foreign/c/x.jpg", jpeg[0].data, jpeg[0].size);
    put_file("foreign/top.png", "x", 1); /* in no class */
    put_file("foreign/a/notes.txt", "x", 1);
    REFUSED(check_path("image_folder", scratch("foreign"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    CHECK(rmdir(scratch("foreign/.c")) == 0);
    REFUSED(check_path("image_folder", scratch("foreign"), &o, NULL) < 0 && strstr(err.msg, "foreign/b' has no image"),
            err.msg);
    mkdir(scratch("foreign/.c"), 0777);
    put_file("foreign/b/x.jpg", jpeg[0].data, jpeg[0].size);
    put_file("foreign/.c/x.jpg", jpeg[0].data, jpeg[0].size);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char name[64];
        const char *path = put_file(RP_FORMAT(name, "foreign/%s", others[i]), "x", 1);
        CHECK(check_path("image_folder", scratch("foreign"), &o, NULL) < 0 && strstr(err.msg, "has 1 image that") &&
                  strstr(err.msg, others[i]),
              "%s: %s", others[i], err.msg);
        unlink(path);
    }
    put_file("foreign/b/1.png", "x", 1);
    put_file("foreign/b/2.png", "x", 1);
    REFUSED(check_path("image_folder", scratch("foreign"), &o, NULL) < 0 && strstr(err.msg, "has 2 images") &&
                strstr(err.msg, "b/1.png"),
            err.msg);
}

/* A sample or a class that cannot be read is not left out. */
TEST(links_that_lead_nowhere)
{
    static const char *const names[] = {"linked/a/gone.jpg", "linked/b", "linked/a/queue.jpeg"};
    struct rp_data_opts o = options(1);
    make_images();
    mkdir(scratch("linked"), 0777);
    mkdir(scratch("linked/a"), 0777);
    put_file("linked/a/x.jpg", jpeg[0].data, jpeg[0].size);
    for (int i = 0; i < 3; i++) {
        CHECK((i < 2 ? symlink("nowhere", scratch(names[i])) : mkfifo(scratch(names[i]), 0600)) == 0);
        REFUSED(check_path("image_folder", scratch("linked"), &o, NULL) < 0 && err.code == RP_IO, err.msg);
        CHECK(unlink(scratch(names[i])) == 0);
    }
    CHECK(symlink("nowhere", scratch("linked/a/notes.txt")) == 0 &&
              check_path("image_folder", scratch("linked"), &o, NULL) == 0,
          "%s", err.msg);
    CHECK(symlink(".", scratch("linked/a/folder.jpg")) == 0);
    REFUSED(check_path("image_folder", scratch("linked"), &o, NULL) < 0 && err.code == RP_MALFORMED, err.msg);
    mkdir(scratch("shards"), 0777);
    put_file("shards/train-00000-of-00002", "", 0);
    CHECK(symlink("nowhere", scratch("shards/train-00001-of-00002")) == 0);
    REFUSED(check_path("imagenet_tfrecord", scratch("shards"), &o, NULL) < 0 && err.code == RP_IO, err.msg);
}

TEST(fields_that_are_not_there)
{
    struct rp_data_opts o = options(1);
    write_formats();
    static const struct rp_sample_field wrong[] = {
        {"tokens", RP_I32, 1, 0}, {"image", RP_U8, ROW + 1, 0}, {"label", RP_U8, 1, 0}};
    for (int i = 0; i < 3; i++) {
        struct rp_dataset *d = rp_data_format_find("ofrecord")->open(scratch("of"), &wrong[i], 1, &o, &err);
        REFUSED(!d && err.code == RP_USAGE, err.msg);
        close_images(d);
    }
}
