/* Resizing of a window to a square of pixels, bilinear, in integers. ops/NUMERICS.md, "Images", is the definition.
 *
 * What:    two passes with weights of 22 binary digits: along each row as it arrives, then down the columns. Each
 *          rounds to 8 bits.
 * Flow:    rp_resize_begin(window, size) -> rp_resize_row() for each row of the window -> rp_resize_end(): the sample's
 *          bytes.
 * Owner:   struct rp_resize owns tables and rows, which grow to the largest window so far; zero-initialise it,
 *          rp_resize_fini() it.
 * Extend:  another filter is another numerator in make_taps(); a vector form is another row of `forms`, with the same
 *          bytes.
 */
#pragma once

#include "recipe/choices.h"

#include <stddef.h>
#include <stdint.h>

/* Weights of the inputs that an output pixel is made of. */
struct rp_resize_taps {
    int32_t *first, *count; /* [outputs] */
    int32_t *weight;        /* [outputs][stride], of 2^22 */
    int stride;
    int groups;      /* of four inputs: as many as the output with the most weights needs */
    int32_t *start;  /* [outputs] first input of the groups, which may come before `first` */
    int16_t *packed; /* [outputs][groups][32]: weights as across_avx2() multiplies them */
    size_t packed_cap;
    size_t cap;      /* elements of weight */
    int outputs_cap;
};

struct rp_resize_form; /* one per instruction set */

struct rp_resize {
    int size, flip, rows; /* rows: of the window that have arrived */
    struct rp_resize_taps across, down;
    uint8_t *row; /* [window.height][3 * size]: rows after the first pass */
    size_t row_cap;
    const struct rp_resize_form *form;
};

void rp_resize_fini(struct rp_resize *r);
/* width, height: of the window, 1..65535. size: of the square, 1..4096. flip: the result is mirrored left to right. */
void rp_resize_begin(struct rp_resize *r, int width, int height, int size, enum rp_resize_filter filter, int flip);
/* rgb: 3 * width bytes, followed by at least 16 that may be read. An rp_jpeg_row_fn with the struct as its argument. */
void rp_resize_row(void *r, const uint8_t *rgb);
void rp_resize_end(struct rp_resize *r, uint8_t *out); /* [size][size][3] */

/* The form in use, "scalar" or "avx2"; NULL is the fastest that this CPU has. For tests; 0, or -1 if this CPU does not
 * have it. */
int rp_resize_use(const char *form);
