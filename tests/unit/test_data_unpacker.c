/* TFRecord files that gzip or zlib compressed as a whole: every byte at every place, and what is hostile in them. */
#include "tests/unit/tap.h"

#include "tests/unit/data_fixture.h"

#include "data/unpacker.h"

#include <zlib.h>

enum { GZIP = MAX_WBITS + 16, ZLIB = MAX_WBITS };

/* Appends size bytes, compressed; flush: after every so many bytes a block ends, 0: where zlib likes. */
static void deflate_to(struct rp_buf *out, const void *data, size_t size, int window_bits, int level, int strategy,
                       size_t flush)
{
    static unsigned char bytes[1 << 16];
    z_stream z = {.next_in = (unsigned char *)data};
    CHECK(deflateInit2(&z, level, Z_DEFLATED, window_bits, 9, strategy) == Z_OK);
    for (size_t at = 0, n; at < size || !size; at += n) {
        n = flush && size - at > flush ? flush : size - at;
        z.avail_in = (unsigned)n;
        do {
            z.next_out = bytes;
            z.avail_out = sizeof bytes;
            deflate(&z, at + n == size ? Z_FINISH : Z_SYNC_FLUSH);
            rp_buf_add(out, bytes, sizeof bytes - z.avail_out);
        } while (!z.avail_out);
        if (!size)
            break;
    }
    deflateEnd(&z);
}

/* As tf.io.TFRecordOptions(compression_type="GZIP" or "ZLIB") writes it. */
static const char *put_deflated(const char *name, const struct rp_buf *file, int window_bits)
{
    RP_BUF out = {0};
    deflate_to(&out, file->data, file->size, window_bits, Z_DEFAULT_COMPRESSION, Z_DEFAULT_STRATEGY, 0);
    return put_file(name, out.data, out.size);
}

static void add_samples(struct rp_buf *file, int n)
{
    struct sample s;
    for (int i = 0; i < n; i++) {
        good_sample(&s, i);
        add_sample(file, &s);
    }
}

/* ---- what is read ---- */

struct truth {
    const unsigned char *data;
    size_t at;
    int wrong;
};

static int compare_piece(void *arg, const unsigned char *data, size_t size, struct rp_err *err)
{
    struct truth *t = arg;
    (void)err;
    t->wrong += memcmp(t->data + t->at, data, size) != 0;
    t->at += size;
    return 0;
}

/* Reads at random and in order. Returns the places. */
static int check_reads(const char *path, enum rp_packing packing, const unsigned char *data, size_t size,
                       uint64_t distance)
{
    static unsigned char out[200000];
    struct rp_files files;
    struct rp_err err;
    uint64_t unpacked = 0, seed = 7;
    struct truth t = {.data = data};
    CHECK(rp_files_open(&files, path, "", &err) == 0, "%s", err.msg);
    struct rp_unpacker *u = rp_unpacker_new(&files, distance);
    CHECK(rp_unpacker_scan(u, 0, packing, compare_piece, &t, &unpacked, &err) == 0, "%s", err.msg);
    CHECK(unpacked == size && t.at == size && !t.wrong, "%llu of %zu bytes", (unsigned long long)unpacked, size);
    for (int i = 0; i < 200; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(seed >> 33) % size, n = (size_t)(seed >> 13) % (i % 4 ? 100 : sizeof out);
        n = n > size - at ? size - at : n;
        t.wrong += rp_unpacker_read(u, 0, at, out, n, &err) < 0 || memcmp(out, data + at, n) != 0;
    }
    for (size_t at = 0, n; at < size; at += n + 50) {
        n = size - at < 1000 ? size - at : 1000;
        t.wrong += rp_unpacker_read(u, 0, at, out, n, &err) < 0 || memcmp(out, data + at, n) != 0;
    }
    CHECK(t.wrong == 0, "%s: %d reads differ", path, t.wrong);
    const int places = rp_unpacker_places(u);
    rp_unpacker_free(u);
    rp_files_close(&files);
    return places;
}

TEST(every_form_of_deflate_gives_the_same_bytes_at_any_place)
{
    static const struct {
        int level, strategy;
        size_t flush;
    } form[] = {{0, Z_DEFAULT_STRATEGY, 0}, {1, Z_DEFAULT_STRATEGY, 0}, {9, Z_DEFAULT_STRATEGY, 0}, {6, Z_FIXED, 0},
                {6, Z_HUFFMAN_ONLY, 3000}};
    enum { SIZE = 700000 };
    unsigned char *data = rp_alloc(SIZE);
    for (uint32_t i = 0, x = 1; i < SIZE; i++)
        data[i] = (x = x * 1664525u + 1013904223u) >> 30 ? (unsigned char)(i >> 9) : (unsigned char)(x >> 24);
    for (size_t i = 0; i < sizeof form / sizeof *form; i++)
        for (int zlib = 0; zlib < 2; zlib++) {
            RP_BUF out = {0};
            deflate_to(&out, data, SIZE, zlib ? ZLIB : GZIP, form[i].level, form[i].strategy, form[i].flush);
            const char *path = put_file("a.z", out.data, out.size);
            const int places = check_reads(path, zlib ? RP_PACKING_ZLIB : RP_PACKING_GZIP, data, SIZE, 20000);
            CHECK(places > 2 && places < SIZE / 20000, "form %zu: %d places", i, places);
        }
    /* Three members, the second empty: gzip -dc A B C. */
    RP_BUF out = {0};
    deflate_to(&out, data, 100000, GZIP, 6, Z_DEFAULT_STRATEGY, 0);
    deflate_to(&out, data, 0, GZIP, 6, Z_DEFAULT_STRATEGY, 0);
    deflate_to(&out, data + 100000, SIZE - 100000, GZIP, 6, Z_DEFAULT_STRATEGY, 0);
    const char *path = put_file("a.z", out.data, out.size);
    check_reads(path, RP_PACKING_GZIP, data, SIZE, 5000);
    check_reads(path, RP_PACKING_GZIP, data, SIZE, 100000);
    free(data);
}

TEST(places_are_bounded)
{
    const size_t each = 2048, size = each * (RP_UNPACKER_PLACES + 700);
    unsigned char *data = rp_alloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 7 + i / 1021);
    RP_BUF out = {0};
    deflate_to(&out, data, size, ZLIB, 0, Z_DEFAULT_STRATEGY, each);
    const int places = check_reads(put_file("a.z", out.data, out.size), RP_PACKING_ZLIB, data, size, 1024);
    CHECK(places > RP_UNPACKER_PLACES / 2 && places < RP_UNPACKER_PLACES, "%d places", places);
    free(data);
}

TEST(compressed_records_are_those_of_the_plain_file)
{
    RP_BUF file = {0};
    struct rp_err err;
    struct rows plain[40], r;
    struct rp_data_check check[3];
    add_samples(&file, 40);
    const char *paths[] = {put_file("p-plain.tfrecord", file.data, file.size),
                           put_deflated("p-gzip.tfrecord.gz", &file, GZIP),
                           put_deflated("p-zlib.tfrecord", &file, ZLIB)};
    for (int k = 0; k < 3; k++) {
        struct rp_dataset *d = open_bert(paths[k], NULL, 1, 5, &err);
        CHECK(d != NULL, "%s", err.msg);
        for (int i = 0; i < 40; i++) {
            CHECK(get_sample(d, i, k ? &r : &plain[i], &err) == 0, "%s", err.msg);
            CHECK(!k || memcmp(&r, &plain[i], sizeof r) == 0, "sample %d of %s", i, paths[k]);
        }
        CHECK(check_data(d, &check[k], &err) == 0, "%s", err.msg);
        CHECK(check[k].records == 40 && fact(&check[k], "tokens") == fact(&check[0], "tokens"));
        close_data(d);
    }
    CHECK(check[1].bytes < check[0].bytes && strcmp(check[0].digest, check[1].digest) != 0,
          "the digest is that of the files");
    /* All three together, in the order of their names. */
    struct rp_dataset *d = open_bert(scratch("p-*"), NULL, 0, 0, &err);
    CHECK(d && d->format->count(d) == 120, "%s", err.msg);
    for (int i = 119; d && i >= 0; i--)
        CHECK(get_sample(d, i, &r, &err) == 0 && r.next == i % 40 % 2, "%s", err.msg);
    close_data(d);
}

/* ---- what is hostile ---- */

/* 0, or the code of the refusal; samples that differ count in *other. */
static int read_samples(const char *path, int n, int *other, struct rp_err *err)
{
    struct rp_dataset *d = open_bert(path, NULL, 0, 0, err);
    struct rows r;
    if (!d)
        return err->code;
    *other += d->format->count(d) != n;
    int code = 0;
    for (int i = 0; !code && i < n && i < d->format->count(d); i++)
        if (get_sample(d, i, &r, err) < 0)
            code = err->code;
        else
            *other += r.ids[0] != 10 + i % 40;
    close_data(d);
    return code;
}

TEST(every_changed_byte_and_every_truncation_is_refused_or_harmless)
{
    static const int bits[] = {GZIP, ZLIB};
    RP_BUF file = {0};
    struct rp_err err;
    add_samples(&file, 5);
    for (int k = 0; k < 2; k++) {
        RP_BUF packed = {0};
        int other = 0, code, silent = 0;
        deflate_to(&packed, file.data, file.size, bits[k], 9, Z_DEFAULT_STRATEGY, 0);
        for (size_t i = 0; i < packed.size; i++) {
            packed.data[i] ^= (char)0x41;
            code = read_samples(put_file("x.tfrecord", packed.data, packed.size), 5, &other, &err);
            silent += !code && i > 9;
            CHECK(!code || code == RP_MALFORMED, "byte %zu: %s", i, err.msg);
            packed.data[i] ^= (char)0x41;
        }
        CHECK(other == 0 && silent == 0, "%d other samples, %d changes that pass", other, silent);
        for (size_t n = 0; n < packed.size; n++)
            silent += !read_samples(put_file("x.tfrecord", packed.data, n), 5, &other, &err);
        CHECK(silent == 0, "%d truncations pass", silent);
    }
}

static void expect_refusal(const char *what, const struct rp_buf *packed)
{
    struct rp_err err;
    int other = 0;
    CHECK(read_samples(put_file("x.tfrecord", packed->data, packed->size), 5, &other, &err) == RP_MALFORMED, "%s",
          what);
    REFUSED(1, err.msg);
}

TEST(refusals_name_the_file_and_the_place)
{
    RP_BUF file = {0}, none = {0}, half = {0}, bomb = {0}, records = {0}, packed = {0};
    struct rp_err err;
    add_samples(&file, 5);
    deflate_to(&packed, file.data, file.size, GZIP, 9, Z_DEFAULT_STRATEGY, 0);
    rp_buf_puts(&packed, "garbage");
    expect_refusal("bytes after the end", &packed);
    packed.size = 0;
    deflate_to(&packed, file.data, file.size, ZLIB, 9, Z_DEFAULT_STRATEGY, 0);
    deflate_to(&packed, file.data, file.size, ZLIB, 9, Z_DEFAULT_STRATEGY, 0);
    expect_refusal("two streams of zlib", &packed);
    packed.size = 0;
    deflate_to(&packed, file.data, file.size, GZIP, 9, Z_DEFAULT_STRATEGY, 0);
    packed.size -= 5;
    expect_refusal("truncated", &packed);
    packed.size = 0;
    deflate_to(&packed, file.data, file.size - 3, GZIP, 9, Z_DEFAULT_STRATEGY, 0);
    expect_refusal("a record that ends early", &packed);
    packed.size = 0;
    deflate_to(&packed, "these are not records of any kind", 33, ZLIB, 9, Z_DEFAULT_STRATEGY, 0);
    expect_refusal("no records", &packed);
    packed.size = 0;
    deflate_to(&packed, "", 0, GZIP, 9, Z_DEFAULT_STRATEGY, 0);
    CHECK(!open_bert(put_file("x.tfrecord", packed.data, packed.size), NULL, 0, 0, &err) && err.code == RP_MALFORMED,
          "no records at all");

    char *zeros = rp_alloc(1 << 20);
    rp_tfrecord_append(&bomb, zeros, 1 << 20);
    for (int i = 0; i < 20; i++)
        rp_buf_add(&none, bomb.data, bomb.size);
    packed.size = 0;
    deflate_to(&packed, none.data, none.size, GZIP, 9, Z_DEFAULT_STRATEGY, 0);
    expect_refusal("a bomb", &packed);
    free(zeros);

    rp_tfrecord_append(&half, "", 0);
    for (uint32_t i = 0, x = 1; i < 1100; i++) {
        unsigned char noise[300];
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
        for (int k = 0; k < 1000; k++)
            rp_buf_add(&records, half.data, half.size);
        rp_tfrecord_append(&records, noise, sizeof noise);
    }
    packed.size = 0;
    deflate_to(&packed, records.data, records.size, GZIP, 1, Z_DEFAULT_STRATEGY, 0);
    expect_refusal("more records than bytes", &packed);
}

TEST(a_file_that_changes_under_a_run_is_an_error)
{
    RP_BUF file = {0}, other = {0};
    struct rp_err err;
    struct rows r;
    add_samples(&file, 40);
    const char *path = put_deflated("x.tfrecord", &file, GZIP);
    struct rp_dataset *d = open_bert(path, NULL, 0, 0, &err);
    CHECK(d && get_sample(d, 39, &r, &err) == 0, "%s", err.msg);
    rp_buf_add(&other, file.data, file.size);
    other.data[20] ^= 1;
    put_deflated("x.tfrecord", &other, GZIP);
    CHECK(get_sample(d, 0, &r, &err) < 0 && (err.code == RP_MALFORMED || err.code == RP_IO), "another file");
    close_data(d);
}
