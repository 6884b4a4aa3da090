/* Pixels to JPEG, for generated data sets and tests.
 *
 * Flow:    rows of samples -> bytes of a file. The bytes depend on the version of libjpeg-turbo, not on the CPU.
 */
#pragma once

#include "base/buf.h"

#include <stdint.h>

struct rp_jpeg_form {
    int components;  /* 1 gray, 3 RGB, 4 CMYK stored inverted, as Adobe does */
    int quality;     /* 1..100 */
    int across, down; /* sampling of luma against chroma: 1 or 2; 0: 2 */
    int progressive, restart_rows, arithmetic, ycck;
};

/* Appends a file. pixels: [height][width][components]. */
void rp_jpeg_write(struct rp_buf *out, const uint8_t *pixels, int width, int height, const struct rp_jpeg_form *form);
