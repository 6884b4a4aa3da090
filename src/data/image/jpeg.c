/* libjpeg calls error_exit() and emit_message() in the middle of its work. Both leave by longjmp to the call of this
 * file that entered the library; nothing of ours is on the stack in between, and the library's memory belongs to its
 * pools, which jpeg_abort() empties. */
#include "data/image/jpeg.h"

#include "base/buf.h"
#include "base/foreign.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#define ROW_SPARE 16 /* readable bytes after a row, for vector loads */
/* rows are not aligned: into aligned ones libjpeg-turbo stores past the caches, from where they are read next */
#define ROW_SHIFT 8

struct rp_jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    size_t size;          /* of the file's bytes */
    int ended;            /* the decoder asked for bytes after them */
    const char *limit;    /* the limit that was exceeded, or NULL */
    uint8_t *line, *rgb;  /* a row as libjpeg delivers it; a row converted from CMYK */
    size_t line_cap;
};

static struct rp_jpeg *of_source(j_decompress_ptr c)
{
    return (struct rp_jpeg *)((char *)c - offsetof(struct rp_jpeg, c));
}

/* ---- errors ---- */

__attribute__((noreturn)) static void on_error(j_common_ptr c)
{
    longjmp(of_source((j_decompress_ptr)c)->leave, 1);
}

/* level -1: a warning. Those that do not change pixels are ignored, the others mean damage. */
static void on_message(j_common_ptr c, int level)
{
    int code = c->err->msg_code;
    if (level >= 0 || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_BOGUS_ICC ||
        code == JWRN_EXTRANEOUS_DATA || code == JWRN_NOT_SEQUENTIAL)
        return;
    on_error(c);
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

static void on_progress(j_common_ptr common)
{
    j_decompress_ptr c = (j_decompress_ptr)common;
    struct rp_jpeg *j = of_source(c);
    if (c->input_scan_number > RP_IMAGE_SCANS_MAX)
        j->limit = "it has more than 100 scans";
    else if ((long long)c->input_scan_number * c->image_width * c->image_height > RP_IMAGE_SCAN_PIXELS_MAX)
        j->limit = "its scans have more than 2^30 pixels together";
    if (j->limit)
        on_error(common);
}

static int report_error(struct rp_jpeg *j, struct rp_err *err)
{
    char text[JMSG_LENGTH_MAX];
    size_t at = j->size - (j->ended ? 0 : j->source.bytes_in_buffer);
    const char *p = text;
    int memory = j->errors.msg_code == JERR_NO_BACKING_STORE;
    j->errors.format_message((j_common_ptr)&j->c, text);
    jpeg_abort_decompress(&j->c);
    if (j->errors.msg_code == JERR_OUT_OF_MEMORY)
        return rp_fail(err, RP_UNAVAILABLE, "no memory to decode a JPEG image");
    if (j->limit || memory)
        return rp_fail(err, RP_MALFORMED, "the JPEG image is refused: %s",
                       j->limit ? j->limit : "its scans need more than 256 MiB of coefficients");
    switch (j->errors.msg_code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_COMPONENT_COUNT:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_EMPTY_IMAGE:
        return rp_fail(err, RP_MALFORMED, "a kind of JPEG that is not decoded: %s", p);
    default: break;
    }
    if (j->ended)
        return rp_fail(err, RP_MALFORMED, "the JPEG data are truncated: they end at byte %zu, before the last row", at);
    if (strncmp(p, "Corrupt JPEG data: ", 19) == 0)
        p += 19;
    return rp_fail(err, RP_MALFORMED, "the JPEG data are damaged at byte %zu of %zu: %s", at, j->size, p);
}

/* ---- source ---- */

static void on_start(j_decompress_ptr c)
{
    (void)c;
}

/* After the end comes an end marker as often as it is asked for; who needed more reports that it met a marker. */
static boolean on_empty(j_decompress_ptr c)
{
    static const JOCTET end[2] = {0xff, JPEG_EOI};
    struct rp_jpeg *j = of_source(c);
    j->ended = 1;
    j->source.next_input_byte = end;
    j->source.bytes_in_buffer = sizeof end;
    return TRUE;
}

static void on_skip(j_decompress_ptr c, long n)
{
    struct rp_jpeg *j = of_source(c);
    if (n <= 0)
        return;
    if ((size_t)n > j->source.bytes_in_buffer) {
        on_empty(c);
        return;
    }
    j->source.next_input_byte += n;
    j->source.bytes_in_buffer -= (size_t)n;
}

/* ---- open ---- */

static void create_decoder(struct rp_jpeg *j)
{
    if (setjmp(j->leave))
        rp_bug(__FILE__, __LINE__, "jpeg_create_decompress() failed");
    jpeg_create_decompress(&j->c);
    j->c.src = &j->source;
    j->c.progress = &j->progress;
    j->c.mem->max_memory_to_use = RP_IMAGE_COEFFICIENT_BYTES;
}

struct rp_jpeg *rp_jpeg_new(void)
{
    struct rp_jpeg *j = rp_alloc(sizeof *j);
    j->c.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->errors.output_message = on_output;
    j->source = (struct jpeg_source_mgr){.init_source = on_start,
                                         .fill_input_buffer = on_empty,
                                         .skip_input_data = on_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = on_start};
    j->progress.progress_monitor = on_progress;
    create_decoder(j);
    return j;
}

void rp_jpeg_free(struct rp_jpeg *j)
{
    if (!j)
        return;
    jpeg_destroy_decompress(&j->c);
    free(j->line);
    free(j->rgb);
    free(j);
}

/* What the bytes are if they do not begin as JPEG does. */
static int refuse_other_format(const uint8_t *p, size_t size, struct rp_err *err)
{
    static const struct {
        size_t at;
        const char *bytes, *name;
    } known[] = {
        {0, "\x89PNG", "a PNG"}, {0, "GIF8", "a GIF"}, {0, "BM", "a BMP"},
        {8, "WEBP", "a WebP"},   {0, "II*", "a TIFF"}, {0, "MM", "a TIFF"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].bytes);
        if (size >= known[i].at + n && memcmp(p + known[i].at, known[i].bytes, n) == 0)
            return rp_fail(err, RP_MALFORMED, "%s image, expected JPEG: convert it", known[i].name);
    }
    const char *kind = rp_foreign_kind(p, size);
    if (kind)
        return rp_fail(err, RP_MALFORMED, "expected JPEG, but the file %s", kind);
    return rp_fail(err, RP_MALFORMED, "not a JPEG image: %zu bytes that do not begin with ff d8 ff", size);
}

int rp_jpeg_open(struct rp_jpeg *j, const void *data, size_t size, struct rp_jpeg_info *info, struct rp_err *err)
{
    const uint8_t *p = data;
    struct jpeg_decompress_struct *c = &j->c;
    *info = (struct rp_jpeg_info){0};
    if (size < 3 || p[0] != 0xff || p[1] != 0xd8 || p[2] != 0xff)
        return refuse_other_format(p, size, err);
    /* A decoder keeps its tables for files that have none of their own: an image would depend on the one before it. */
    jpeg_destroy_decompress(c);
    create_decoder(j);
    j->size = size;
    j->ended = 0;
    j->limit = NULL;
    j->errors.num_warnings = 0;
    j->source.next_input_byte = p;
    j->source.bytes_in_buffer = size;
    if (setjmp(j->leave))
        return report_error(j, err);
    jpeg_read_header(c, TRUE);
    info->width = (int)c->image_width;
    info->height = (int)c->image_height;
    info->scans = jpeg_has_multiple_scans(c);
    info->colour = c->num_components == 1 ? RP_JPEG_GRAY : c->num_components == 4 ? RP_JPEG_CMYK : RP_JPEG_RGB;
    if (c->num_components != 1 && c->num_components != 3 && c->num_components != 4)
        return rp_fail(err, RP_MALFORMED, "a JPEG image of %d components, expected 1 (gray), 3 (colour) or 4 (CMYK)",
                       c->num_components);
    if (c->arith_code)
        return rp_fail(err, RP_MALFORMED, "a kind of JPEG that is not decoded: arithmetic coding");
    if ((long long)c->image_width * c->image_height > RP_IMAGE_PIXELS_MAX)
        return rp_fail(err, RP_MALFORMED, "a JPEG image of %ux%u pixels; at most %d (2^26) pixels are decoded",
                       c->image_width, c->image_height, RP_IMAGE_PIXELS_MAX);
    return 0;
}

/* ---- rows ---- */

/* Room for a row of the whole image: more than any window of it needs. */
static void size_line(struct rp_jpeg *j)
{
    size_t need = (size_t)j->c.image_width * 4 + ROW_SHIFT + ROW_SPARE + 64;
    if (need <= j->line_cap)
        return;
    j->line_cap = need;
    j->line = rp_realloc(j->line, need);
    j->rgb = rp_realloc(j->rgb, need);
    memset(j->line, 0, need);
    memset(j->rgb, 0, need);
}

static uint8_t of_ink(int colour, int black)
{
    int x = (255 - colour) * black + 128;
    return (uint8_t)(black - ((x + (x >> 8)) >> 8));
}

static const uint8_t *convert_cmyk(uint8_t *rgb, const uint8_t *cmyk, int width)
{
    for (int i = 0; i < width; i++)
        for (int k = 0; k < 3; k++)
            rgb[3 * i + k] = of_ink(cmyk[4 * i + k], cmyk[4 * i + 3]);
    return rgb;
}

/* Upsampling looks at neighbours, so one more block on each side is computed where there is one. */
static void limit_output(struct rp_jpeg *j, const struct rp_image_window *w, int *left, int *top)
{
    struct jpeg_decompress_struct *c = &j->c;
    int block_w = c->max_h_samp_factor * DCTSIZE, block_h = c->max_v_samp_factor * DCTSIZE;
    JDIMENSION x = (JDIMENSION)(w->x > block_w ? w->x - block_w : 0), end = (JDIMENSION)(w->x + w->width + block_w);
    JDIMENSION width = (end < c->output_width ? end : c->output_width) - x;
    if (width < c->output_width)
        jpeg_crop_scanline(c, &x, &width);
    *left = (int)x;
    *top = w->y / block_h > 1 ? (w->y / block_h - 1) * block_h : 0;
    if (*top)
        *top = (int)jpeg_skip_scanlines(c, (JDIMENSION)*top);
}

/* Whether an end marker follows what was read: in the data of a scan there is none by chance. */
static int has_end(const struct rp_jpeg *j)
{
    static const uint8_t end[2] = {0xff, JPEG_EOI};
    return !j->ended && memmem(j->source.next_input_byte, j->source.bytes_in_buffer, end, sizeof end) != NULL;
}

int rp_jpeg_rows(struct rp_jpeg *j, const struct rp_image_window *w, int fancy, rp_jpeg_row_fn row, void *arg,
                 struct rp_err *err)
{
    struct jpeg_decompress_struct *c = &j->c;
    int left = 0, top = 0;
    RP_BUG_IF(w->x < 0 || w->y < 0 || w->width < 1 || w->height < 1 || w->x + w->width > (int)c->image_width ||
              w->y + w->height > (int)c->image_height);
    size_line(j);
    if (setjmp(j->leave))
        return report_error(j, err);
    c->dct_method = JDCT_ISLOW;
    c->do_fancy_upsampling = fancy ? TRUE : FALSE;
    c->do_block_smoothing = FALSE;
    c->out_color_space = c->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(c);
    if (jpeg_has_multiple_scans(c) && j->ended)
        return report_error(j, err); /* scans may be missing */
    limit_output(j, w, &left, &top);
    for (int y = top; y < w->y + w->height; y++) {
        JSAMPROW line = j->line + ROW_SHIFT;
        jpeg_read_scanlines(c, &line, 1);
        if (y < w->y)
            continue;
        const uint8_t *at = line + (w->x - left) * c->output_components;
        row(arg, c->output_components == 4 ? convert_cmyk(j->rgb, at, w->width) : at);
    }
    const int is_cut = !jpeg_has_multiple_scans(c) && !has_end(j);
    /* are all rows there? */
    for (JSAMPROW line = j->line + ROW_SHIFT; is_cut && c->output_scanline < c->output_height;)
        jpeg_read_scanlines(c, &line, 1);
    jpeg_abort_decompress(c);
    return 0;
}

/* ---- EXIF ---- */

static unsigned read_u16(const uint8_t *p, int little)
{
    return little ? p[0] | (unsigned)p[1] << 8 : (unsigned)p[0] << 8 | p[1];
}

static size_t read_u32(const uint8_t *p, int little)
{
    return little ? read_u16(p, 1) | (size_t)read_u16(p + 2, 1) << 16
                  : (size_t)read_u16(p, 0) << 16 | read_u16(p + 2, 0);
}

/* The orientation in the TIFF inside an APP1 segment: byte order, 42, offset of the first directory; entries of 12
 * bytes: tag, type, count, value. */
static int tiff_orientation(const uint8_t *p, size_t size)
{
    if (size < 8 || (memcmp(p, "II", 2) != 0 && memcmp(p, "MM", 2) != 0))
        return 1;
    int little = *p == 'I';
    size_t at = read_u32(p + 4, little);
    if (at > size - 2)
        return 1;
    unsigned entries = read_u16(p + at, little);
    for (at += 2; entries && size - at >= 12; entries--, at += 12)
        if (read_u16(p + at, little) == 0x0112) {
            unsigned value = read_u16(p + at + 8, little);
            return value >= 1 && value <= 8 ? (int)value : 1;
        }
    return 1;
}

int rp_jpeg_orientation(const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t at = 2; at + 4 <= size && p[at] == 0xff && p[at + 1] != 0xda;) {
        size_t length = read_u16(p + at + 2, 0);
        if (length < 2 || length > size - at - 2)
            break;
        if (p[at + 1] == 0xe1 && length >= 8 && memcmp(p + at + 4, "Exif\0", 6) == 0)
            return tiff_orientation(p + at + 10, length - 8);
        at += 2 + length;
    }
    return 1;
}
