/* JPEG decoding against libjpeg's whole images, with and without its vector code; resizing against the definition as
 * plain loops; crops against the published formula in double; damage, bombs and other formats. One file: all of them
 * share its generated images. */
/* Longer than 600 lines: the cases share their images. */
/* exhaustive */
#include "tests/unit/tap.h"

#include "base/clock.h"
#include "base/hash.h"
#include "data/image/crop.h"
#include "data/image/jpeg.h"
#include "data/image/resize.h"
#include "ops/philox.h"
#include "tests/unit/image_fixture.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include <jpeglib.h>

static struct rp_err err;

static const struct {
    const char *name;
    struct rp_jpeg_form form;
} forms[] = {
    {"4:2:0", {.components = 3, .quality = 85}},
    {"4:2:2", {.components = 3, .quality = 85, .across = 2, .down = 1}},
    {"4:4:0", {.components = 3, .quality = 85, .across = 1, .down = 2}},
    {"4:4:4", {.components = 3, .quality = 95, .across = 1, .down = 1}},
    {"gray", {.components = 1, .quality = 85}},
    {"CMYK", {.components = 4, .quality = 85}},
    {"YCCK", {.components = 4, .quality = 85, .ycck = 1}},
    {"progressive", {.components = 3, .quality = 85, .progressive = 1}},
    {"progressive gray", {.components = 1, .quality = 50, .progressive = 1}},
    {"restarts", {.components = 3, .quality = 85, .restart_rows = 1}},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- decoding ---- */

struct rows {
    uint8_t *at;
    size_t bytes;
    int n;
};

static void keep_row(void *arg, const uint8_t *rgb)
{
    struct rows *r = arg;
    memcpy(r->at + r->bytes * (size_t)r->n++, rgb, r->bytes);
}

/* The window's RGB (free it), or NULL. */
static uint8_t *decode_window(struct rp_jpeg *j, const struct rp_buf *file, const struct rp_image_window *w, int fancy)
{
    struct rp_jpeg_info info;
    struct rows r = {.at = rp_alloc(3 * (size_t)w->width * (size_t)w->height), .bytes = 3 * (size_t)w->width};
    if (rp_jpeg_open(j, file->data, file->size, &info, &err) == 0 &&
        rp_jpeg_rows(j, w, fancy, keep_row, &r, &err) == 0 && r.n == w->height)
        return r.at;
    free(r.at);
    return NULL;
}

/* The whole image by libjpeg alone, CMYK by the formula of the header. */
static uint8_t *decode_plainly(const struct rp_buf *file, int fancy)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, (const unsigned char *)file->data, file->size);
    jpeg_read_header(&c, TRUE);
    c.dct_method = JDCT_ISLOW;
    c.do_fancy_upsampling = fancy;
    c.out_color_space = c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&c);
    uint8_t *out = rp_alloc(3 * (size_t)c.output_width * c.output_height), *at = out, line[4 * 1024];
    while (c.output_scanline < c.output_height) {
        JSAMPROW row = line;
        jpeg_read_scanlines(&c, &row, 1);
        for (unsigned x = 0; x < c.output_width; x++)
            for (int k = 0; k < 3; k++)
                if (c.output_components == 4) {
                    int v = (255 - line[4 * x + (unsigned)k]) * line[4 * x + 3] + 128;
                    *at++ = (uint8_t)(line[4 * x + 3] - ((v + (v >> 8)) >> 8));
                } else {
                    *at++ = line[3 * x + (unsigned)k];
                }
    }
    jpeg_finish_decompress(&c);
    jpeg_destroy_decompress(&c);
    return out;
}

static int window_differs(struct rp_jpeg *j, const struct rp_buf *file, const uint8_t *whole, int width,
                          const struct rp_image_window *w, int fancy)
{
    RP_FREE uint8_t *part = decode_window(j, file, w, fancy);
    int bad = !part;
    for (int y = 0; part && y < w->height; y++)
        bad |= memcmp(part + 3 * (size_t)y * (size_t)w->width,
                      whole + 3 * ((size_t)(w->y + y) * (size_t)width + (size_t)w->x), 3 * (size_t)w->width) != 0;
    return bad;
}

static void compare_windows(int form, int width, int height, int fancy, uint32_t *seed)
{
    RP_BUF file = {0};
    struct rp_jpeg *j = rp_jpeg_new();
    noisy_jpeg(&file, width, height, &forms[form].form);
    RP_FREE uint8_t *whole = decode_plainly(&file, fancy);
    struct rp_image_window w = {0, 0, width, height};
    CHECK(!window_differs(j, &file, whole, width, &w, fancy), "%s %dx%d fancy %d: whole: %s", forms[form].name, width,
          height, fancy, err.msg);
    for (int i = 0; i < 60; i++) {
        w.x = (int)((next_random(seed) >> 8) % (unsigned)width);
        w.y = (int)((next_random(seed) >> 8) % (unsigned)height);
        w.width = 1 + (int)((next_random(seed) >> 8) % (unsigned)(width - w.x));
        w.height = 1 + (int)((next_random(seed) >> 8) % (unsigned)(height - w.y));
        if (!CHECK(!window_differs(j, &file, whole, width, &w, fancy), "%s %dx%d fancy %d, window %d %d %d %d",
                   forms[form].name, width, height, fancy, w.x, w.y, w.width, w.height))
            break;
    }
    rp_jpeg_free(j);
}

TEST(a_window_has_the_bytes_of_the_whole_image)
{
    static const int sizes[][2] = {{211, 157}, {64, 48}, {17, 130}, {130, 17}, {1, 1}, {9, 8}};
    uint32_t seed = 5;
    for (int f = 0; f < FORMS; f++)
        for (int s = 0; s < 6; s++)
            for (int fancy = 0; fancy < 2; fancy++)
                compare_windows(f, sizes[s][0], sizes[s][1], fancy, &seed);
}

/* All forms, whole and one window each, as one digest. */
static void digest_of_forms(char hex[65])
{
    struct rp_sha256 h;
    struct rp_jpeg *j = rp_jpeg_new();
    unsigned char digest[RP_SHA256_SIZE];
    rp_sha256_init(&h);
    for (int f = 0; f < FORMS; f++)
        for (int fancy = 0; fancy < 2; fancy++) {
            RP_BUF file = {0};
            noisy_jpeg(&file, 211, 157, &forms[f].form);
            for (int part = 0; part < 2; part++) {
                struct rp_image_window w =
                    part ? (struct rp_image_window){50, 41, 99, 77} : (struct rp_image_window){0, 0, 211, 157};
                RP_FREE uint8_t *rgb = decode_window(j, &file, &w, fancy);
                if (CHECK(rgb, "%s: %s", forms[f].name, err.msg))
                    rp_sha256_update(&h, rgb, 3 * (size_t)w.width * (size_t)w.height);
            }
        }
    rp_sha256_final(&h, digest);
    rp_hex(hex, digest, sizeof digest);
    rp_jpeg_free(j);
}

/* libjpeg-turbo asks the environment once per thread. */
static void *digest_in_thread(void *hex)
{
    digest_of_forms(hex);
    return NULL;
}

TEST(the_bytes_do_not_depend_on_vector_instructions)
{
    static const char *const off[] = {NULL, "JSIMD_FORCENONE", "JSIMD_FORCESSE2"};
    char hex[3][65];
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (off[i])
            setenv(off[i], "1", 1);
        CHECK(pthread_create(&thread, NULL, digest_in_thread, hex[i]) == 0);
        pthread_join(thread, NULL);
        if (off[i])
            unsetenv(off[i]);
        CHECK_STR(hex[i], hex[0]);
    }
    CHECK_STR(hex[0], "204e2d88a8ba922fb54effd11560b2e29616032d9e69329c30358cc26dff1730");
}

/* ---- damage ---- */

static int decode_all(struct rp_jpeg *j, const struct rp_buf *file)
{
    struct rp_jpeg_info info;
    struct rows r = {0};
    err = (struct rp_err){0};
    if (rp_jpeg_open(j, file->data, file->size, &info, &err) < 0)
        return -1;
    const struct rp_image_window w = {0, 0, info.width, info.height};
    r.bytes = 3 * (size_t)w.width;
    r.at = rp_alloc(r.bytes * (size_t)w.height);
    int rc = rp_jpeg_rows(j, &w, 1, keep_row, &r, &err);
    free(r.at);
    return rc;
}

/* A run draws other windows in every epoch: whether a cut file is refused must not depend on the draw. As Pillow, which
 * decodes all rows. */
TEST(a_window_above_the_cut_of_a_file_is_refused_unless_it_has_its_end_marker)
{
    struct rp_jpeg *j = rp_jpeg_new();
    const struct rp_image_window top = {3, 0, 20, 8};
    for (int f = 0; f < FORMS; f++) {
        RP_BUF file = {0};
        struct rp_jpeg_info info;
        struct rows r = {.bytes = 3 * 20};
        noisy_jpeg(&file, 41, 155, &forms[f].form);
        r.at = rp_alloc(3 * 20 * 8);
        file.size -= file.size / 4;
        CHECK(rp_jpeg_open(j, file.data, file.size, &info, &err) == 0, "%s: %s", forms[f].name, err.msg);
        CHECK(rp_jpeg_rows(j, &top, 1, keep_row, &r, &err) < 0 && err.code == RP_MALFORMED &&
                  strstr(err.msg, "truncated"),
              "%s", forms[f].name);
        rp_buf_add(&file, "\xff\xd9", 2);
        r.n = 0;
        CHECK(rp_jpeg_open(j, file.data, file.size, &info, &err) == 0, "%s: %s", forms[f].name, err.msg);
        const int read = rp_jpeg_rows(j, &top, 1, keep_row, &r, &err) == 0;
        CHECK(read || forms[f].form.progressive, "%s: %s", forms[f].name, err.msg);
        free(r.at);
    }
    rp_jpeg_free(j);
}

TEST(every_truncation_is_refused_and_every_changed_byte_survived)
{
    struct rp_jpeg *j = rp_jpeg_new();
    for (int f = 0; f < FORMS; f++) {
        RP_BUF file = {0};
        noisy_jpeg(&file, 41, 35, &forms[f].form);
        CHECK(decode_all(j, &file) == 0, "%s: %s", forms[f].name, err.msg);
        size_t full = file.size;
        int bad = 0, refused = 0, changed = 0;
        /* without its last two bytes, the end marker, it is whole */
        for (file.size = 0; file.size + 2 < full; file.size++)
            bad += decode_all(j, &file) == 0 || err.code != RP_MALFORMED;
        /* the last bits may be padding, so the last bytes of data may be missed */
        CHECK(bad <= 2, "%s: %d truncations unnoticed", forms[f].name, bad);
        for (file.size = full - 2; file.size < full; file.size++)
            CHECK((decode_all(j, &file) == 0) == !forms[f].form.progressive, "%s without its end marker: %s",
                  forms[f].name, err.msg);
        file.size = full;
        for (size_t i = 0; i < full; i++, changed++) {
            file.data[i] ^= (char)(1 << i % 8);
            refused += decode_all(j, &file) < 0;
            bad += err.code != RP_OK && err.code != RP_MALFORMED;
            file.data[i] ^= (char)(1 << i % 8);
        }
        CHECK(bad <= 2 && refused > 20 && refused < changed, "%s: %d of %d refused", forms[f].name, refused, changed);
    }
    rp_jpeg_free(j);
}

static size_t find_marker(const struct rp_buf *file, unsigned char marker, size_t from)
{
    for (size_t i = from; i + 1 < file->size; i++)
        if ((unsigned char)file->data[i] == 0xff && (unsigned char)file->data[i + 1] == marker)
            return i;
    return 0;
}

static void set_size(struct rp_buf *file, unsigned char frame, unsigned width, unsigned height)
{
    unsigned char *p = (unsigned char *)file->data + find_marker(file, frame, 2) + 5;
    p[0] = (unsigned char)(height >> 8), p[1] = (unsigned char)height, p[2] = (unsigned char)(width >> 8),
    p[3] = (unsigned char)width;
}

/* A valid progressive file of 127 scans: each coefficient alone, and its last bit alone. */
static void write_scans(struct rp_buf *out)
{
    static jpeg_scan_info scan[1 + 2 * 63];
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL, line[16] = {0};
    unsigned long size = 0;
    scan[0] = (jpeg_scan_info){.comps_in_scan = 1};
    for (int i = 0; i < 126; i++)
        scan[1 + i] =
            (jpeg_scan_info){.comps_in_scan = 1, .Ss = 1 + i % 63, .Se = 1 + i % 63, .Ah = i / 63, .Al = 1 - i / 63};
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &size);
    c.image_width = c.image_height = 16;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    c.scan_info = scan;
    c.num_scans = 127;
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < 16)
        jpeg_write_scanlines(&c, &(JSAMPROW){line}, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    rp_buf_add(out, bytes, size);
    free(bytes);
}

/* Neither gray nor colour. */
static void write_two_components(struct rp_buf *out)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL, line[2 * 16] = {0};
    unsigned long size = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &size);
    c.image_width = c.image_height = 16;
    c.input_components = 2;
    c.in_color_space = JCS_UNKNOWN;
    jpeg_set_defaults(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < 16)
        jpeg_write_scanlines(&c, &(JSAMPROW){line}, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    rp_buf_add(out, bytes, size);
    free(bytes);
}

TEST(refusals_name_the_reason)
{
    struct rp_jpeg *j = rp_jpeg_new();
    RP_BUF file = {0}, other = {0}, gray = {0}, bomb = {0};
    noisy_jpeg(&file, 200, 150, &forms[0].form);
    size_t full = file.size;
    file.size = full / 2;
    REFUSED(decode_all(j, &file) < 0, err.msg);
    file.size = 100;
    REFUSED(decode_all(j, &file) < 0, err.msg);
    file.size = full;
    memset(file.data + full / 2, 0xa5, 40);
    memset(file.data + full / 2 + 7, 0xff, 3);
    REFUSED(decode_all(j, &file) < 0, err.msg);
    static const char *const others[] = {"\x89PNG\r\n\x1a\n", "GIF89a..", "RIFF....WEBPVP8 ", "", "text"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        other.size = 0;
        rp_buf_puts(&other, others[i]);
        REFUSED(decode_all(j, &other) < 0 && err.code == RP_MALFORMED, err.msg);
    }
    /* 20000x20000, and 8000x8000 from a few bytes: at once, without the memory that they would need */
    noisy_jpeg(&gray, 16, 16, &forms[4].form);
    set_size(&gray, 0xc0, 20000, 20000);
    REFUSED(decode_all(j, &gray) < 0, err.msg);
    set_size(&gray, 0xc0, 8000, 8000);
    uint64_t start = rp_now_ns();
    REFUSED(decode_all(j, &gray) < 0, err.msg);
    CHECK(rp_now_ns() - start < 3000000000ull, "the decoder goes on after the end of the data");
    set_size(&gray, 0xc0, 0, 16);
    REFUSED(decode_all(j, &gray) < 0, err.msg);
    set_size(&gray, 0xc0, 16, 16);
    gray.data[find_marker(&gray, 0xc0, 2) + 4] = 12;
    REFUSED(decode_all(j, &gray) < 0, err.msg);
    gray.data[find_marker(&gray, 0xc0, 2) + 1] = (char)0xc3;
    REFUSED(decode_all(j, &gray) < 0, err.msg);
    bomb.size = 0;
    noisy_jpeg(&bomb, 16, 16, &(struct rp_jpeg_form){.components = 3, .quality = 50, .arithmetic = 1});
    REFUSED(decode_all(j, &bomb) < 0, err.msg);
    bomb.size = 0;
    write_two_components(&bomb);
    REFUSED(decode_all(j, &bomb) < 0 && err.code == RP_MALFORMED, err.msg);
    bomb.size = 0;
    write_scans(&bomb);
    REFUSED(decode_all(j, &bomb) < 0, err.msg);
    rp_jpeg_free(j);
}

/* libjpeg keeps tables from one image to the next. */
TEST(an_image_does_not_depend_on_the_one_before_it)
{
    struct rp_jpeg *j = rp_jpeg_new();
    RP_BUF good = {0}, bare = {0};
    noisy_jpeg(&good, 40, 30, &forms[4].form);
    size_t tables = find_marker(&good, 0xdb, 2),
           length = (size_t)(unsigned char)good.data[tables + 2] << 8 | (unsigned char)good.data[tables + 3];
    rp_buf_add(&bare, good.data, tables);
    rp_buf_add(&bare, good.data + tables + 2 + length, good.size - tables - 2 - length);
    REFUSED(decode_all(j, &bare) < 0, err.msg);
    CHECK(decode_all(j, &good) == 0, "%s", err.msg);
    REFUSED(decode_all(j, &bare) < 0, err.msg);
    rp_jpeg_free(j);
}

TEST(a_progressive_image_beyond_the_memory_limit_is_refused)
{
    struct rp_jpeg *j = rp_jpeg_new();
    RP_BUF file = {0};
    noisy_jpeg(&file, 16, 16,
               &(struct rp_jpeg_form){.components = 3, .quality = 50, .across = 1, .down = 1, .progressive = 1});
    set_size(&file, 0xc2, 8000, 8000);
    REFUSED(decode_all(j, &file) < 0 && err.code == RP_MALFORMED, err.msg);
    rp_jpeg_free(j);
}

TEST(exif_orientation)
{
    static const unsigned char little[] =
        "\xff\xd8\xff\xe1\x00\x22"
        "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0\xff\xda\0\x02";
    static const unsigned char big[] =
        "\xff\xd8\xff\xe0\0\x04zz\xff\xe1\x00\x22"
        "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0\xff\xda\0\x02";
    CHECK(rp_jpeg_orientation(little, sizeof little - 1) == 6);
    CHECK(rp_jpeg_orientation(big, sizeof big - 1) == 8);
    for (size_t n = 0; n < sizeof little - 1; n++) { /* cut anywhere: an answer, within the bytes */
        RP_FREE unsigned char *part = rp_alloc(n + 1);
        memcpy(part, little, n);
        int turned = rp_jpeg_orientation(part, n);
        CHECK(turned == 1 || (turned == 6 && n >= 38), "%d after %zu bytes", turned, n);
    }
}

/* The same image with and without an orientation in front of it. */
TEST(an_orientation_changes_no_pixel)
{
    static const char app1[] = "\xff\xe1\x00\x22"
                               "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    struct rp_jpeg *j = rp_jpeg_new();
    const struct rp_image_window w = {0, 0, 40, 30};
    RP_BUF plain = {0}, turned = {0};
    noisy_jpeg(&plain, 40, 30, &forms[0].form);
    rp_buf_add(&turned, plain.data, 2);
    rp_buf_add(&turned, app1, sizeof app1 - 1);
    rp_buf_add(&turned, plain.data + 2, plain.size - 2);
    CHECK(rp_jpeg_orientation(plain.data, plain.size) == 1 && rp_jpeg_orientation(turned.data, turned.size) == 6);
    RP_FREE uint8_t *a = decode_window(j, &plain, &w, 1), *b = decode_window(j, &turned, &w, 1);
    CHECK(a && b && memcmp(a, b, 3 * 40 * 30) == 0, "%s", err.msg);
    rp_jpeg_free(j);
}

/* ---- resizing ---- */

/* The definition, weight by weight: every input for every output. */
static void literal_weights(int64_t *weight, int n, int m, int out, enum rp_resize_filter filter)
{
    int64_t reach = 2ll * (filter == RP_RESIZE_FILTER_triangular && n > m ? n : m), sum = 0;
    for (int64_t x = 0; x < n; x++) {
        int64_t d = (2 * x + 1) * m - (2ll * out + 1) * n;
        weight[x] = reach - (d < 0 ? -d : d);
        weight[x] = weight[x] < 0 ? 0 : weight[x];
        sum += weight[x];
    }
    for (int x = 0; x < n; x++)
        weight[x] = (int64_t)floorl((long double)weight[x] * 4194304 / sum + 0.5L);
}

static void literal_resize(uint8_t *out, const uint8_t *in, int width, int height, int size,
                           enum rp_resize_filter filter, int flip)
{
    RP_FREE int64_t *weight = rp_alloc((size_t)(width > height ? width : height) * sizeof *weight);
    RP_FREE uint8_t *across = rp_alloc(3 * (size_t)size * (size_t)height);
    for (int x = 0; x < size; x++) {
        literal_weights(weight, width, size, x, filter);
        for (int y = 0; y < height; y++)
            for (int k = 0; k < 3; k++) {
                int64_t sum = 1 << 21;
                for (int i = 0; i < width; i++)
                    sum += in[3 * (y * width + i) + k] * weight[i];
                sum >>= 22;
                across[3 * (y * size + (flip ? size - 1 - x : x)) + k] = (uint8_t)(sum > 255 ? 255 : sum);
            }
    }
    for (int y = 0; y < size; y++) {
        literal_weights(weight, height, size, y, filter);
        for (int i = 0; i < 3 * size; i++) {
            int64_t sum = 1 << 21;
            for (int r = 0; r < height; r++)
                sum += across[3 * r * size + i] * weight[r];
            sum >>= 22;
            out[3 * y * size + i] = (uint8_t)(sum > 255 ? 255 : sum);
        }
    }
}

static void compare_resize(struct rp_resize *r, int width, int height, int size, int filter, int flip, const char *form)
{
    size_t bytes = 3 * (size_t)size * (size_t)size;
    RP_FREE uint8_t *in = noisy_pixels(width, height, 3, (uint32_t)(width + size)), *want = rp_alloc(bytes),
                    *got = rp_alloc(bytes);
    RP_FREE uint8_t *row = rp_alloc(3 * (size_t)width + 16);
    literal_resize(want, in, width, height, size, (enum rp_resize_filter)filter, flip);
    rp_resize_begin(r, width, height, size, (enum rp_resize_filter)filter, flip);
    for (int y = 0; y < height; y++) {
        memcpy(row, in + 3 * (size_t)y * (size_t)width, 3 * (size_t)width);
        memset(row + 3 * width, 0xee, 16); /* what follows a row counts for nothing */
        rp_resize_row(r, row);
    }
    rp_resize_end(r, got);
    CHECK(memcmp(want, got, bytes) == 0, "%s: %dx%d to %d, filter %d, flip %d", form, width, height, size, filter,
          flip);
}

TEST(resizing_equals_its_definition)
{
    static const int sizes[][3] = {{1, 1, 8},      {2, 3, 5},     {224, 224, 224}, {100, 75, 224},
                                   {333, 257, 64}, {500, 20, 33}, {7, 300, 50},    {225, 223, 224}};
    static const char *const instructions[] = {"scalar", "avx2"};
    struct rp_resize r = {0};
    for (int f = 0; f < 2; f++) {
        if (rp_resize_use(instructions[f]) < 0)
            continue; /* this CPU does not have it */
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int filter = 0; filter < 2; filter++)
                compare_resize(&r, sizes[i][0], sizes[i][1], sizes[i][2], filter, (int)(i % 2), instructions[f]);
    }
    CHECK(rp_resize_use("sse9") < 0 && rp_resize_use(NULL) == 0);
    rp_resize_fini(&r);
}

/* Digests of Pillow 13.0.0's Image.resize((224, 224), BILINEAR) of the same pixels. (Of images that are twice as high
 * as wide or more it resizes the columns first.) */
TEST(triangular_resizing_is_pillows)
{
    static const struct {
        int width, height;
        const char *digest;
    } cases[] = {
        {500, 375, "d6749b3226773ab7c1cbe8249fe6fc92b722a8916458e6cc6bb0c211e8acaa77"},
        {224, 224, "bbe7c6123bca02df5f2c8e89689fe3910e3ec0cbbdfb71a6f47ccee197bd1e6b"},
        {97, 131, "7c3b3536b0a5d66710d6bfd95843f53c1dcd38ef829519fb7a80cb4d2f6e2b08"},
        {640, 224, "20b86336997eabd538f6f7e3917450c6b2d4d575bb2b74322d8f8769f8742ceb"},
        {1200, 33, "65c9d16be69d3d1b2afd5392285ba18332f078cbbb2a34e84e7ea9dee3df8d8a"},
        {375, 500, "1e3ba2c7344c0360131fd960a789f15c4fe677eaa0a9e3e739847b37daf5c138"},
    };
    struct rp_resize r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int width = cases[i].width, height = cases[i].height;
        RP_FREE uint8_t *in = noisy_pixels(width, height, 3, 1), *out = rp_alloc(3 * 224 * 224);
        char hex[65];
        rp_resize_begin(&r, width, height, 224, RP_RESIZE_FILTER_triangular, 0);
        for (int y = 0; y < height; y++)
            rp_resize_row(&r, in + 3 * (size_t)y * (size_t)width);
        rp_resize_end(&r, out);
        rp_sha256_hex(hex, out, 3 * 224 * 224);
        CHECK_STR(hex, cases[i].digest);
    }
    rp_resize_fini(&r);
}

/* ---- crops ---- */

TEST(logarithm_and_power_in_fixed_point)
{
    for (double x = 0.02; x < 50; x *= 1.01) {
        uint64_t fixed = (uint64_t)(x * 16777216 + 0.5);
        double log = (double)rp_log2_fixed(fixed) / 16777216,
               power = (double)rp_exp2_fixed(rp_log2_fixed(fixed)) / 16777216;
        CHECK(fabs(log - log2(x)) < 1e-5 && fabs(power / x - 1) < 1e-5, "%g: %g, %g", x, log, power);
    }
    CHECK(rp_log2_fixed(1 << 24) == 0 && rp_exp2_fixed(0) == 1 << 24 && rp_exp2_fixed(3 << 24) == 8u << 24);
}

/* torchvision's RandomResizedCrop.get_params() in double, from the same words. */
static int published_crop(const struct rp_crop_opts *o, int width, int height, int64_t sample,
                          struct rp_image_window *w)
{
    for (uint32_t k = 0; k < (uint32_t)o->attempts; k++) {
        uint32_t u[4] = {k, (uint32_t)sample, (uint32_t)(sample >> 32), RP_CROP_STREAM};
        rp_philox(u, o->seed);
        double area = (double)width * height * (o->area_min + (o->area_max - o->area_min) * (u[0] / 4294967296.0));
        double ratio = exp(log(o->ratio_min) + (log(o->ratio_max) - log(o->ratio_min)) * (u[1] / 4294967296.0));
        w->width = (int)floor(sqrt(area * ratio) + 0.5);
        w->height = (int)floor(sqrt(area / ratio) + 0.5);
        if (w->width > 0 && w->height > 0 && w->width <= width && w->height <= height) {
            w->x = (int)floor(u[2] / 4294967296.0 * (width - w->width + 1));
            w->y = (int)floor(u[3] / 4294967296.0 * (height - w->height + 1));
            return 1;
        }
    }
    return 0;
}

/* TensorFlow's sample_distorted_bounding_box in double, from the same words; the only box is the whole image, covered
 * by a tenth. */
static int tensorflow_crop(const struct rp_crop_opts *o, int width, int height, int64_t sample,
                           struct rp_image_window *w)
{
    const double all = (double)width * height, least = o->area_min * all, most = o->area_max * all;
    for (uint32_t k = 0; k < (uint32_t)o->attempts; k++) {
        uint32_t u[4] = {k, (uint32_t)sample, (uint32_t)(sample >> 32), RP_CROP_STREAM};
        rp_philox(u, o->seed);
        const double ratio = o->ratio_min + (o->ratio_max - o->ratio_min) * (u[0] / 4294967296.0);
        int low = (int)floor(sqrt(least / ratio) + 0.5), high = (int)floor(sqrt(most / ratio) + 0.5);
        while (floor(high * ratio + 0.5) > width)
            high--;
        high = high > height ? height : high;
        int h = low < high ? low + (int)floor(u[1] / 4294967296.0 * (high - low + 1)) : high;
        h += floor(h * ratio + 0.5) * h < least;
        h -= floor(h * ratio + 0.5) * h > most;
        const double across = floor(h * ratio + 0.5), area = across * h;
        if (area < least || area > most || across > width || h > height || h <= 0 || across <= 0 || area < 0.1 * all)
            continue;
        *w = (struct rp_image_window){0, 0, (int)across, h};
        w->x = (int)floor(u[2] / 4294967296.0 * (width - w->width));
        w->y = (int)floor(u[3] / 4294967296.0 * (height - w->height));
        return 1;
    }
    return 0;
}

static void follow_formula(enum rp_crop_law law, int (*formula)(const struct rp_crop_opts *o, int width, int height,
                                                                int64_t sample, struct rp_image_window *w))
{
    struct rp_crop c;
    const struct rp_crop_opts o = {.random = 1, .image_size = 224, .short_side = 256, .area_min = law ? 0.05 : 0.08,
                                   .area_max = 1, .ratio_min = 0.75, .ratio_max = law ? 1.33 : 4.0 / 3, .attempts = 10,
                                   .law = law, .flip = 0.5, .seed = 77};
    rp_crop_init(&c, &o);
    int flips = 0, other = 0, drawn = 0;
    enum { N = 20000 };
    for (int i = 0; i < N; i++) {
        struct rp_image_window w, p;
        int flip, width = 100 + i % 400, height = 80 + i * 7 % 300;
        rp_crop_draw(&c, width, height, i, &w, &flip);
        if (!CHECK(w.x >= 0 && w.y >= 0 && w.width > 0 && w.height > 0 && w.x + w.width <= width &&
                   w.y + w.height <= height))
            break;
        flips += flip;
        if (!formula(&o, width, height, i, &p))
            continue;
        drawn++;
        other += w.x != p.x || w.y != p.y || w.width != p.width || w.height != p.height;
    }
    CHECK(abs(flips - N / 2) < 300 && drawn > N / 2, "%d flips, %d drawn", flips, drawn);
    /* roundings of 24 digits */
    CHECK(other < drawn / 1000, "%d of %d windows are not those of the formula", other, drawn);
}

TEST(random_crops_follow_the_published_formula)
{
    follow_formula(RP_CROP_LAW_torchvision, published_crop);
    follow_formula(RP_CROP_LAW_tensorflow, tensorflow_crop);
}

TEST(crops_are_pinned)
{
    static const int sizes[][2] = {{500, 375}, {1, 1}, {4000, 30}, {30, 4000}, {8192, 8192}, {224, 225}};
    struct rp_crop c[3];
    struct rp_crop_opts o = {.random = 1, .image_size = 224, .short_side = 256, .area_min = 0.08, .area_max = 1,
                             .ratio_min = 0.75, .ratio_max = 1.3333333333333333, .attempts = 10, .flip = 0.5,
                             .seed = 4};
    rp_crop_init(&c[0], &o);
    o.random = 0;
    rp_crop_init(&c[1], &o);
    o.random = 1;
    o.law = RP_CROP_LAW_tensorflow;
    rp_crop_init(&c[2], &o);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int s = 0; s < (k == 1 ? 1 : 3); s++) {
                struct rp_image_window w;
                int flip;
                char text[120];
                rp_crop_draw(&c[k], sizes[i][0], sizes[i][1], s * 3000000000ll, &w, &flip);
                SAID(RP_FORMAT(text, "%dx%d sample %d: %d %d, %dx%d, flip %d", sizes[i][0], sizes[i][1], s, w.x, w.y,
                               w.width, w.height, flip));
            }
}
