/* Shared by the tests of images: pictures without a pattern that a mistake could hide behind, as pixels and as JPEG
 * bytes.
 *
 * What:    noise over ramps, so that neighbours differ; encoded in any form that rp_jpeg_write() knows.
 * Extend:  include after tap.h.
 */
#pragma once

#include "base/buf.h"
#include "data/synthetic/jpeg_write.h"

#include <stdint.h>

static inline uint32_t next_random(uint32_t *x)
{
    return *x = *x * 1664525u + 1013904223u;
}

/* [height][width][components] (free it) */
static inline uint8_t *noisy_pixels(int width, int height, int components, uint32_t seed)
{
    uint8_t *p = rp_alloc((size_t)width * (size_t)height * (size_t)components + 16);
    for (int i = 0; i < width * height * components; i++)
        p[i] = (uint8_t)((i / components % width * 3 + i / components / width * 2 + (int)(next_random(&seed) >> 25)) &
                         255);
    return p;
}

static inline void noisy_jpeg(struct rp_buf *out, int width, int height, const struct rp_jpeg_form *form)
{
    RP_FREE uint8_t *pixels = noisy_pixels(width, height, form->components, (uint32_t)(width * 7 + height));
    rp_jpeg_write(out, pixels, width, height, form);
}
