/* Which part of an image becomes a sample, and whether it is mirrored: integers drawn by Philox, the same on every
 * machine.
 *
 * What:    the random-resized crops of the published recipes, the centre crop of validation. ops/NUMERICS.md, "Images",
 *          is the definition.
 * Flow:    keys of the recipe -> rp_crop_init() -> (size of the image, sample number) -> window and flip.
 * Extend:  another crop is a function here and a choice of data.augment or data.crop_law.
 */
#pragma once

#include "data/image/jpeg.h"
#include "recipe/choices.h"

#include <stdint.h>

#define RP_CROP_STREAM 0x43524f50u /* "CROP": counter word 3 */
#define RP_FLIP_STREAM 0x464c4950u /* "FLIP" */

struct rp_crop_opts {
    int random;                 /* 0: the centre */
    int image_size, short_side; /* the centre is image_size / short_side of the shorter side */
    double area_min, area_max;  /* shares of the image's area, in [0, 1] */
    double ratio_min, ratio_max; /* width / height, in [1/64, 64] */
    int attempts;               /* at least 1 */
    enum rp_crop_law law;
    double flip;                /* probability */
    uint64_t seed;
};

struct rp_crop { /* the same with 24 binary digits after the point */
    int random, image_size, short_side, attempts;
    enum rp_crop_law law;
    uint64_t area_min, area_max, ratio_min, ratio_max;
    int64_t log_min, log_max; /* log2 of the ratios */
    uint64_t flip;            /* of 2^32 */
    uint64_t seed;
};

void rp_crop_init(struct rp_crop *c, const struct rp_crop_opts *o);
/* width * height: at most RP_IMAGE_PIXELS_MAX */
void rp_crop_draw(const struct rp_crop *c, int width, int height, int64_t sample, struct rp_image_window *w, int *flip);

/* For tests: log2 of x, and its inverse, both numbers with 24 binary digits after the point. */
int64_t rp_log2_fixed(uint64_t x);
uint64_t rp_exp2_fixed(int64_t x);
