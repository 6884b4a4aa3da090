/* JPEG decoding against libjpeg's whole images, with and without its vector code; damage, bombs and other formats. */
/* exhaustive */
#include "tests/unit/tap.h"

#include "base/clock.h"
#include "base/hash.h"
#include "data/image/jpeg.h"
#include "ops/philox.h"
#include "tests/unit/image_fixture.h"

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
