/* Files of data by the writers that people use (tests/vectors/data/README.md), HDF5 files above all; and what is
 * hostile in those. */
#include "tests/unit/tap.h"

#include "tests/unit/data_fixture.h"

#include "data/hdf5.h"

#define VECTORS "tests/vectors/data/"

static struct rp_err err;

static struct rp_dataset *open_as(const char *format, const char *path)
{
    const struct rp_data_opts o = {0};
    err = (struct rp_err){0};
    return rp_data_format_find(format)->open(path, small_fields, BERT_FIELDS, &o, &err);
}

/* What data_formats.py made: the samples of data_fixture.h, of which the second has one prediction. */
static int is_sample(const struct rows *r, int n)
{
    static const int32_t mask[SEQ] = {1, 1, 1, 1, 1, 1, 0, 0}, segment[SEQ] = {0, 0, 0, 0, 1, 1, 0, 0};
    int good = r->next == n % 2 && r->positions[0] == 1 && r->labels[0] == 11 && r->weights[0] == 1;
    good &=
        r->positions[1] == (n == 1 ? 0 : 4) && r->labels[1] == (n == 1 ? 0 : 14) && r->weights[1] == (n == 1 ? 0 : 1);
    for (int k = 0; k < SEQ; k++)
        good &= r->ids[k] == (k < 6 ? 10 + (k + n) % 40 : 0) && r->mask[k] == mask[k] && r->segments[k] == segment[k];
    return good;
}

TEST(files_of_real_writers_have_the_samples_that_were_written)
{
    static const char *const file[][2] = {
        {"gzip.tfrecord", "bert_tfrecord"}, {"zlib.tfrecord", "bert_tfrecord"}, {"part-00000", "bert_ofrecord"},
        {"gzip.hdf5", "bert_hdf5"},         {"contiguous.hdf5", "bert_hdf5"},   {"chunks.hdf5", "bert_hdf5"},
    };
    static const int order[] = {2, 0, 1, 1, 2, 0};
    const struct rp_data_opts o = {0};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        char path[128];
        struct rows r;
        struct rp_data_check c;
        struct rp_sample_field own[RP_SAMPLE_FIELDS_MAX];
        int n;
        snprintf(path, sizeof path, VECTORS "%s", file[i][0]);
        struct rp_dataset *d = open_as(file[i][1], path);
        if (!CHECK(d && d->format->count(d) == 3, "%s: %s", path, err.msg))
            continue;
        for (size_t k = 0; k < sizeof order / sizeof *order; k++)
            CHECK(get_sample(d, order[k], &r, &err) == 0 && is_sample(&r, order[k]), "%s, sample %d: %s", path,
                  order[k], err.msg);
        CHECK(check_data(d, &c, &err) == 0 && fact(&c, "tokens") == 18 && fact(&c, "predictions") == 5 &&
                  fact(&c, "random_next") == 1,
              "%s: %s", path, err.msg);
        CHECK(d->format->probe(path, &o, own, &n, &err) == 0 && n == BERT_FIELDS && own[0].count == SEQ &&
                  own[5].count == PREDICTIONS,
              "%s", path);
        close_data(d);
    }
}

TEST(images_of_real_writers)
{
    static const struct rp_sample_field want[] = {{"image", RP_U8, 32 * 32 * 3, 0}, {"label", RP_I32, 1, 2}};
    static const char *const file[][2] = {{"mxnet.rec", "recordio"},
                                          {"imagenet2012-train.tfrecord-00000-of-00001", "imagenet_tfrecord"}};
    static uint8_t image[2][2][32 * 32 * 3];
    const struct rp_data_opts o = {.image = {.crop = {.image_size = 32, .short_side = 40}, .threads = 1}};
    for (int i = 0; i < 2; i++) {
        char path[128];
        int32_t label = -1;
        snprintf(path, sizeof path, VECTORS "%s", file[i][0]);
        struct rp_dataset *d = rp_data_format_find(file[i][1])->open(path, want, 2, &o, &err);
        if (!CHECK(d && d->format->count(d) == 2, "%s: %s", path, err.msg))
            continue;
        for (int k = 0; k < 2; k++) { /* TensorFlow Datasets shuffle what they write; labels are those of the images */
            CHECK(d->format->get(d, k, (void *[]){image[i][k], &label}, &err) == 0 && label >= 0 && label < 2, "%s: %s",
                  path, err.msg);
            if (label != k && i)
                memcpy(image[i][label], image[i][k], sizeof image[i][k]);
        }
        close_data(d);
    }
    CHECK(memcmp(image[0], image[1], sizeof image[0]) == 0 || memcmp(image[0][0], image[1][1], sizeof image[0][0]) == 0,
          "other images");
    /* With labels that count from 1, as the public builder's, one label is out of range. */
    struct rp_data_opts from_1 = o;
    from_1.image.label_base = 2;
    struct rp_data_check c;
    const char *path = VECTORS "imagenet2012-train.tfrecord-00000-of-00001";
    struct rp_dataset *d = rp_data_format_find("imagenet_tfrecord")->open(path, want, 2, &from_1, &err);
    CHECK(d && check_data(d, &c, &err) < 0 && strstr(err.msg, "data.label_base"), "%s", err.msg);
    close_data(d);
}

/* ---- hostile HDF5 ---- */

static int code_of(const void *data, size_t size)
{
    struct rp_dataset *d = open_as("bert_hdf5", put_file("x.hdf5", data, size));
    struct rows r;
    int code = d ? 0 : (int)err.code;
    for (int i = 0; d && !code && i < d->format->count(d) && i < 4; i++)
        code = get_sample(d, i, &r, &err) < 0 ? (int)err.code : 0;
    close_data(d);
    return code;
}

TEST(every_changed_byte_of_hdf5_is_refused_or_gives_values_in_range)
{
    static const char *const file[] = {"contiguous.hdf5", "chunks.hdf5"};
    for (int i = 0; i < 2; i++) {
        RP_BUF b = {0};
        char path[128];
        int odd = 0, refused = 0;
        snprintf(path, sizeof path, VECTORS "%s", file[i]);
        CHECK(rp_read_file(&b, path, 1 << 20, &err) == 0, "%s", err.msg);
        for (size_t k = 0; k < b.size; k++) {
            if (i && !b.data[k] && k % 8) /* trees are mostly empty */
                continue;
            b.data[k] ^= (char)0x81;
            const int code = code_of(b.data, b.size);
            odd += code != 0 && code != RP_MALFORMED;
            refused += code != 0;
            b.data[k] ^= (char)0x81;
        }
        CHECK(odd == 0 && refused > 300, "%s: %d refused, %d in another way", file[i], refused, odd);
        for (size_t n = 0; n < b.size; n += 7)
            odd += code_of(b.data, n) != RP_MALFORMED;
        CHECK(odd == 0, "%s: %d truncations pass", file[i], odd);
    }
}

static size_t find_bytes(const struct rp_buf *b, const char *what, size_t n, size_t from)
{
    for (size_t k = from; k + n <= b->size; k++)
        if (memcmp(b->data + k, what, n) == 0)
            return k;
    CHECK(0, "not in the file");
    return 0;
}

/* One change of a good file, refused in its own words. */
static void expect_refusal(const struct rp_buf *good, size_t at, const char *bytes, size_t n)
{
    RP_BUF b = {0};
    rp_buf_add(&b, good->data, good->size);
    memcpy(b.data + at, bytes, n);
    CHECK(code_of(b.data, b.size) == RP_MALFORMED, "byte %zu", at);
    REFUSED(1, err.msg);
}

TEST(refusals_of_hdf5_name_the_data_set_or_the_byte)
{
    RP_BUF b = {0}, plain = {0};
    CHECK(rp_read_file(&b, VECTORS "gzip.hdf5", 1 << 20, &err) == 0, "%s", err.msg);
    CHECK(rp_read_file(&plain, VECTORS "contiguous.hdf5", 1 << 20, &err) == 0, "%s", err.msg);
    CHECK(!open_as("bert_hdf5", VECTORS "latest.hdf5") && err.code == RP_MALFORMED, "the newer form");
    REFUSED(1, err.msg);
    expect_refusal(&b, 0, "X", 1);
    expect_refusal(&b, 24, "\1", 1);
    expect_refusal(&b, 64, "\xff\xff\xff\x7f", 4);
    expect_refusal(&b, find_bytes(&b, "input_mask", 10, 0), "input_musk", 10);
    expect_refusal(&b, find_bytes(&b, "input_mask\0", 11, 0), "input_ids\0\0", 11); /* now twice */
    size_t node = find_bytes(&b, "TREE\1", 5, 0);
    expect_refusal(&b, node, "LEAF", 4);
    expect_refusal(&b, node + 5, "\1", 1);              /* a level that its only node cannot have */
    expect_refusal(&b, node + 6, "\2", 1);              /* an entry too many */
    expect_refusal(&b, node + 24 + 8, "\1", 1);         /* not the place of a chunk */
    expect_refusal(&b, node + 24 + 3, "\1", 1);         /* stored bytes */
    expect_refusal(&b, node + 24 + 32 + 4, "\1", 1);    /* an address outside */
    size_t filters = find_bytes(&b, "\1\1\0\0\0\0\0\0\1\0", 10, 0);
    expect_refusal(&b, filters + 8, "\0\x7d", 2);       /* LZF */
    expect_refusal(&b, filters + 1, "\3", 1);
    size_t chunk = find_bytes(&b, "\x78\x5e", 2, 0);
    expect_refusal(&b, chunk + 6, "\xff\xff", 2);
    size_t type = find_bytes(&plain, "\x10\x08\0\0\4\0\0\0", 8, 0);
    expect_refusal(&plain, type, "\x19", 1);            /* lists of variable length */
    expect_refusal(&plain, type, "\x11", 1);            /* floats */
    expect_refusal(&plain, type + 1, "\x09", 1);        /* big-endian */
    expect_refusal(&plain, type + 4, "\3", 1);
    size_t space = find_bytes(&plain, "\1\2\1\0\0\0\0\0\3\0\0\0\0\0\0\0", 16, 0);
    expect_refusal(&plain, space + 1, "\3", 1);
    expect_refusal(&plain, space + 8, "\4", 1);         /* more rows than data */
    expect_refusal(&plain, space + 15, "\x7f", 1);
}

/* Chunks of a sound file are read in any order with room for hardly one. */
TEST(a_small_cache_gives_the_same_rows)
{
    static const char *const names[] = {"input_ids", "input_mask", "segment_ids"};
    struct rp_files files;
    struct rp_h5 h;
    struct rp_h5_cache *cache = rp_h5_cache_new(20);
    CHECK(rp_files_open(&files, VECTORS "chunks.hdf5", "", &err) == 0 &&
              rp_h5_open(&h, &files, 0, cache, names, 3, &err) == 0,
          "%s", err.msg);
    for (int i = 0; i < 30; i++) {
        int64_t x[SEQ];
        const int row = i * 7 % 3, table = i % 3;
        CHECK(rp_h5_row(&h, table, row, x, &err) == 0, "%s", err.msg);
        CHECK(x[5] == (table == 0 ? 15 + row : 1) && x[7] == 0, "table %d, row %d: %lld", table, row, (long long)x[5]);
    }
    rp_h5_close(&h);
    rp_h5_cache_free(cache);
    rp_files_close(&files);
}
