/* JPEG: bytes to rows of RGB pixels.
 *
 * What:    libjpeg-turbo behind a struct, with its errors, warnings and limits turned into refusals. A decoder serves
 *          one image at a time and one thread, and is used again for the next image.
 * Flow:    rp_jpeg_open(bytes) -> sizes and form; rp_jpeg_rows(window) -> the window's rows, from top to bottom.
 * Owner:   the caller owns the bytes, which must stay until the next open(); the decoder owns its buffers.
 * Extend:  another picture format is another file with these two functions.
 *
 * The pixels are integers that do not depend on the CPU: accurate integer inverse DCT (islow); chroma either
 * interpolated with weights 3/4 and 1/4 (`fancy`) or repeated. A window gives the bytes that the whole image has there,
 * although only the blocks around it are computed.
 *
 * form                        what comes out
 * three components            RGB, from YCbCr unless the file says RGB (Adobe transform 0)
 * one component               the gray value three times
 * four components             CMYK, or YCCK converted to it, stored inverted as Adobe does: with stored c, m, y, k
 *                             R = k - d((255 - c) * k), d(x) = (x + 128 + ((x + 128) >> 8)) >> 8, likewise G and B
 *                             (Pillow's conversion)
 * progressive, several scans  the image after its last scan; where scans are left out, blocks are not smoothed
 * EXIF orientation            ignored, as torchvision and TensorFlow do; OpenCV and newer releases of DALI turn such
 *                             images; rp_jpeg_orientation() reports it
 *
 * Refused, RP_MALFORMED: other formats by their name, two or more than four components, 12 bits per sample, lossless,
 * hierarchical and arithmetic-coded files (whose decoder does not notice that data are missing), images above the
 * limits below, and damage: data that end before the last row of the image (truncated; rows below the window are read
 * only where the end marker is missing), impossible codes, missing or misplaced markers. (libjpeg decodes a cut
 * progressive file, whose last scans are missing, without a warning: the end marker tells.) Not damage: bytes between a
 * segment and the next marker, a missing end marker of a file with one scan, damage below the window of a file that has
 * its end marker. Messages have the byte at which the decoder was; it may have read a few bytes past the damage.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RP_IMAGE_PIXELS_MAX (1 << 26)           /* the largest image of ImageNet has 61 million */
#define RP_IMAGE_SCANS_MAX 100                  /* of a progressive file */
#define RP_IMAGE_SCAN_PIXELS_MAX (1ll << 30)    /* scans times pixels: what a small file can make the decoder do */
#define RP_IMAGE_COEFFICIENT_BYTES (256l << 20) /* kept while a file of several scans is read */

enum rp_jpeg_colour { RP_JPEG_GRAY, RP_JPEG_RGB, RP_JPEG_CMYK };

struct rp_jpeg_info {
    int width, height;
    enum rp_jpeg_colour colour;
    int scans; /* 0: one scan; 1: several, which are kept in memory */
};

struct rp_image_window { /* of an image, in pixels; inside it and not empty */
    int x, y, width, height;
};

struct rp_jpeg;
struct rp_jpeg *rp_jpeg_new(void);
void rp_jpeg_free(struct rp_jpeg *j); /* NULL is fine */

int rp_jpeg_open(struct rp_jpeg *j, const void *data, size_t size, struct rp_jpeg_info *info,
                 struct rp_err *err) rp_must_check;

/* rgb: 3 * window.width bytes, followed by at least 16 that may be read; valid during the call. */
typedef void (*rp_jpeg_row_fn)(void *arg, const uint8_t *rgb);
/* Once after open(). Rows that were delivered before a failure are those of the image before its damage. */
int rp_jpeg_rows(struct rp_jpeg *j, const struct rp_image_window *w, int fancy, rp_jpeg_row_fn row, void *arg,
                 struct rp_err *err) rp_must_check;

/* EXIF orientation 1..8 of JPEG bytes, 1 where there is none or what there is cannot be read. */
int rp_jpeg_orientation(const void *data, size_t size);
