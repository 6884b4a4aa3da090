/* A synthetic corpus for image classification: JPEG files in the records of imagenet_tfrecord. Version 1; integers
 * only. Another byte is a new version.
 *
 * An image shows a textured body before a soft background, both with noise of several scales, as photographs have. The
 * class, 1 + i mod 8, decides the two colours of the body and the direction of its stripes; everything else is drawn:
 * sizes (96 to 319 pixels a side), place, width of the stripes, background, light. Of 32 images 2 are gray, 2
 * progressive, 4 with chroma of full size, 1 is CMYK: forms that ImageNet has. */
#include "data/synthetic/make.h"

#include "data/example.h"
#include "data/synthetic/jpeg_write.h"
#include "data/synthetic/words.h"
#include "data/tfrecord.h"

#include <stdio.h>
#include <string.h>

#define STREAM 0x494d4731u /* "IMG1" */
#define CLASSES 8
#define SHORTEST_SIDE 96
#define SIDES 224
#define OCTAVES 4

static const uint8_t colours[CLASSES][2][3] = {
    {{200, 60, 40}, {240, 210, 120}},  {{40, 90, 190}, {220, 230, 240}}, {{50, 140, 60}, {190, 220, 90}},
    {{120, 60, 150}, {230, 160, 210}}, {{230, 150, 40}, {90, 50, 20}},   {{30, 150, 160}, {20, 40, 60}},
    {{160, 160, 150}, {60, 60, 70}},   {{220, 190, 170}, {150, 90, 80}},
};
static const int directions[CLASSES][2] = {{4, 0}, {0, 4}, {3, 3}, {3, -3}, {4, 1}, {1, 4}, {4, -1}, {1, -4}};

struct picture {
    int width, height, class;
    int x, y, across, down;  /* of the body: centre and half axes */
    int period;              /* of the stripes */
    uint32_t noise;          /* seed of the noise */
    uint8_t back[2][3];      /* colours of the background */
    int light;               /* percent, at the left; 200 - light at the right */
};

static uint32_t draw_below(struct rp_words *s, uint32_t n)
{
    return rp_words_below(rp_words_next(s), n);
}

static void draw_picture(struct picture *p, struct rp_words *s, int class)
{
    p->class = class;
    p->width = SHORTEST_SIDE + (int)draw_below(s, SIDES);
    p->height = SHORTEST_SIDE + (int)draw_below(s, SIDES);
    p->x = p->width / 3 + (int)draw_below(s, (uint32_t)p->width / 3);
    p->y = p->height / 3 + (int)draw_below(s, (uint32_t)p->height / 3);
    p->across = p->width / 4 + (int)draw_below(s, (uint32_t)p->width / 6);
    p->down = p->height / 4 + (int)draw_below(s, (uint32_t)p->height / 6);
    p->period = 8 + (int)draw_below(s, 24);
    p->noise = rp_words_next(s);
    for (int i = 0; i < 6; i++)
        p->back[i / 3][i % 3] = (uint8_t)(40 + draw_below(s, 176));
    p->light = 80 + (int)draw_below(s, 41);
}

/* A byte for a point of a lattice. */
static int lattice(uint32_t seed, int x, int y)
{
    uint32_t h = seed ^ (uint32_t)x * 0x9e3779b1u ^ (uint32_t)y * 0x85ebca77u;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return (int)((h ^ h >> 15) >> 24);
}

/* 0..255: lattices of 64, 32, 16 and 8 pixels, interpolated, each with half the weight of the one before. */
static int noise_at(uint32_t seed, int x, int y)
{
    int sum = 0, all = 0;
    for (int i = 0; i < OCTAVES; i++) {
        int step = 64 >> i, a = x % step, b = y % step, u = x / step, v = y / step, weight = 8 >> i;
        int top = lattice(seed + (uint32_t)i, u, v) * (step - a) + lattice(seed + (uint32_t)i, u + 1, v) * a;
        int low = lattice(seed + (uint32_t)i, u, v + 1) * (step - a) + lattice(seed + (uint32_t)i, u + 1, v + 1) * a;
        sum += weight * ((top * (step - b) + low * b) / (step * step));
        all += weight;
    }
    return sum / all;
}

static int mix_bytes(int a, int b, int share) /* of 255 */
{
    return (a * (255 - share) + b * share) / 255;
}

static void draw_pixel(const struct picture *p, int x, int y, uint8_t rgb[3])
{
    int noise = noise_at(p->noise, x, y), dx = 256 * (x - p->x) / p->across, dy = 256 * (y - p->y) / p->down;
    int distance = dx * dx + dy * dy, inside = distance < 65536;
    int along = x * directions[p->class][0] + y * directions[p->class][1] + 4096 * p->period;
    /* 0..2 periods and back */
    int wave = along % (4 * p->period), share = wave < 2 * p->period ? wave : 4 * p->period - wave;
    int light = p->light + (200 - 2 * p->light) * x / p->width - (inside ? distance * 40 / 65536 : 0);
    for (int k = 0; k < 3; k++) {
        int body = mix_bytes(colours[p->class][0][k], colours[p->class][1][k], 255 * share / (2 * p->period));
        int value = inside ? body + (noise - 128) / 4 : mix_bytes(p->back[0][k], p->back[1][k], noise);
        value = value * light / 100;
        rgb[k] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

/* [height][width][components] (free it) */
static uint8_t *draw_pixels(const struct picture *p, int components)
{
    uint8_t *pixels = rp_alloc((size_t)p->width * (size_t)p->height * (size_t)components), *at = pixels;
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++, at += components) {
            uint8_t rgb[3];
            draw_pixel(p, x, y, rgb);
            for (int k = 0; k < 3 && components > 1; k++)
                at[k] = rgb[k];
            if (components == 1)
                at[0] = (uint8_t)((rgb[0] * 77 + rgb[1] * 150 + rgb[2] * 29) >> 8);
            if (components == 4) /* inverted: no black, cyan is the complement of red */
                at[3] = 255;
        }
    return pixels;
}

static void image_sample(struct rp_buf *out, const struct rp_make_opts *o, int64_t i)
{
    struct rp_words s = {.seed = (uint64_t)o->seed, .sequence = (uint64_t)i, .stream = STREAM};
    struct picture p;
    RP_BUF jpeg = {0}, example = {0};
    char name[40], class[16];
    int64_t label = 1 + i % CLASSES;
    draw_picture(&p, &s, (int)(i % CLASSES));
    struct rp_jpeg_form form = {.components = i % 16 == 5    ? 1
                                              : i % 32 == 22 ? 4
                                                             : 3,
                                .quality = 60 + (int)draw_below(&s, 31), .progressive = i % 16 == 10,
                                .across = i % 8 == 3 ? 1 : 2, .down = i % 8 == 3 ? 1 : 2};
    RP_FREE uint8_t *pixels = draw_pixels(&p, form.components);
    rp_jpeg_write(&jpeg, pixels, p.width, p.height, &form);
    snprintf(name, sizeof name, "generated_%08lld.JPEG", (long long)i);
    snprintf(class, sizeof class, "class %lld", (long long)label);
    int64_t height = p.height, width = p.width;
    struct rp_example_bytes encoded = {(const unsigned char *)jpeg.data, jpeg.size},
                            named = {(const unsigned char *)name, strlen(name)},
                            text = {(const unsigned char *)class, strlen(class)};
    struct rp_example_field field[] = {
        {.name = "image/height", .want = RP_EXAMPLE_INT64, .out.i64 = &height, .count = 1},
        {.name = "image/width", .want = RP_EXAMPLE_INT64, .out.i64 = &width, .count = 1},
        {.name = "image/class/label", .want = RP_EXAMPLE_INT64, .out.i64 = &label, .count = 1},
        {.name = "image/class/text", .want = RP_EXAMPLE_BYTES, .out.bytes = &text, .count = 1},
        {.name = "image/filename", .want = RP_EXAMPLE_BYTES, .out.bytes = &named, .count = 1},
        {.name = "image/encoded", .want = RP_EXAMPLE_BYTES, .out.bytes = &encoded, .count = 1},
    };
    rp_example_write(&example, field, (int)(sizeof field / sizeof *field));
    rp_tfrecord_append(out, example.data, example.size);
}

extern const struct rp_generator rp_generator_images;
const struct rp_generator rp_generator_images = {
    .name = "images",
    .format = &rp_data_format_imagenet_tfrecord,
    .defaults = {.sequences = 64, .shards = 1, .seed = 1},
    .sample = image_sample,
};
