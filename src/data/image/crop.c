#include "data/image/crop.h"

#include "ops/philox.h"

#define POINT 24
#define ONE (1 << POINT)

/* 2^(2^-i) with 31 binary digits after the point, i = 1..24, rounded. */
static const uint32_t roots[POINT] = {
    0xb504f334, 0x9837f052, 0x8b95c1e4, 0x85aac368, 0x82cd8699, 0x8164d1f4, 0x80b1ed50, 0x8058d7d3,
    0x802c6437, 0x8016302f, 0x800b179d, 0x80058baf, 0x8002c5d0, 0x800162e6, 0x8000b173, 0x800058b9,
    0x80002c5d, 0x8000162e, 0x80000b17, 0x8000058c, 0x800002c6, 0x80000163, 0x800000b1, 0x80000059,
};

/* Digits of the logarithm by squaring: m in [1, 2), and m^2 >= 2 gives a 1. */
int64_t rp_log2_fixed(uint64_t x)
{
    int top = 63 - __builtin_clzll(x);
    uint64_t m = top > 31 ? x >> (top - 31) : x << (31 - top);
    int64_t log = (int64_t)(top - POINT) * ONE;
    for (int i = 1; i <= POINT; i++) {
        m = m * m >> 31;
        if (m >> 32) {
            m >>= 1;
            log += ONE >> i;
        }
    }
    return log;
}

uint64_t rp_exp2_fixed(int64_t x)
{
    int64_t whole = x >> POINT;
    uint64_t m = 1u << 31;
    for (int i = 1; i <= POINT; i++)
        if (x & ONE >> i)
            m = m * roots[i - 1] >> 31;
    return m >> (31 - POINT - whole);
}

/* Largest s with s * s <= x. */
static uint64_t root(uint64_t x)
{
    uint64_t s = 0;
    for (uint64_t bit = 1u << 31; bit; bit >>= 1)
        if ((s + bit) * (s + bit) <= x)
            s += bit;
    return s;
}

/* (root(4x) + 1) / 2: the root of x to the nearest whole number. */
static uint64_t near_root(uint64_t four_x)
{
    return (root(four_x) + 1) / 2;
}

static uint64_t to_fixed(double x)
{
    return (uint64_t)(x * ONE + 0.5);
}

void rp_crop_init(struct rp_crop *c, const struct rp_crop_opts *o)
{
    *c = (struct rp_crop){
        .random = o->random,
        .image_size = o->image_size,
        .short_side = o->short_side,
        .attempts = o->attempts,
        .law = o->law,
        .area_min = to_fixed(o->area_min),
        .area_max = to_fixed(o->area_max),
        .ratio_min = to_fixed(o->ratio_min),
        .ratio_max = to_fixed(o->ratio_max),
        .flip = (uint64_t)(o->flip * 4294967296.0),
        .seed = o->seed,
    };
    if (!c->random)
        return;
    c->log_min = rp_log2_fixed(c->ratio_min);
    c->log_max = rp_log2_fixed(c->ratio_max);
}

static void philox(uint32_t x[4], const struct rp_crop *c, int64_t sample, uint32_t word0, uint32_t stream)
{
    x[0] = word0;
    x[1] = (uint32_t)sample;
    x[2] = (uint32_t)((uint64_t)sample >> 32);
    x[3] = stream;
    rp_philox(x, c->seed);
}

/* Word u as a whole number below n. */
static int scale_word(uint32_t u, int n)
{
    return (int)((uint64_t)u * (uint32_t)n >> 32);
}

static int try_window(const struct rp_crop *c, int width, int height, const uint32_t u[4], struct rp_image_window *w)
{
    uint64_t share = c->area_min + ((c->area_max - c->area_min) * u[0] >> 32);
    uint64_t area = ((uint64_t)width * (uint64_t)height * share) >> 20; /* 4 digits after the point */
    uint64_t ratio = rp_exp2_fixed(c->log_min + (int64_t)((uint64_t)(c->log_max - c->log_min) * u[1] >> 32));
    w->width = (int)near_root(area * ratio >> 26);
    w->height = (int)near_root((area << 22) / ratio);
    if (w->width < 1 || w->height < 1 || w->width > width || w->height > height)
        return 0;
    w->x = scale_word(u[2], width - w->width + 1);
    w->y = scale_word(u[3], height - w->height + 1);
    return 1;
}

/* TensorFlow's: the ratio is drawn, then a height between those of the smallest and the largest area. Like there, a
 * window that could be at the end of a side ends one pixel before it. */
static int try_height(const struct rp_crop *c, int width, int height, const uint32_t u[4], struct rp_image_window *w)
{
    const uint64_t pixels = (uint64_t)width * (uint64_t)height, least = pixels * c->area_min,
                   most = pixels * c->area_max;
    const uint64_t ratio = c->ratio_min + ((c->ratio_max - c->ratio_min) * u[0] >> 32);
    const uint64_t widest = (((uint64_t)width + 1) * ONE - ONE / 2 - 1) / ratio; /* whose width is within the image */
    uint64_t low = near_root((least << 2) / ratio), high = near_root((most << 2) / ratio);
    high = high > widest ? widest : high;
    high = high > (uint64_t)height ? (uint64_t)height : high;
    uint64_t h = low < high ? low + ((high - low + 1) * u[1] >> 32) : high, across = (h * ratio + ONE / 2) >> POINT;
    if (across * h * ONE < least) {
        h++;
        across = (h * ratio + ONE / 2) >> POINT;
    }
    if (across * h * ONE > most) {
        h--;
        across = (h * ratio + ONE / 2) >> POINT;
    }
    const uint64_t area = across * h;
    if (!area || area * ONE < least || area * ONE > most || across > (uint64_t)width || h > (uint64_t)height ||
        10 * area < pixels)
        return 0;
    w->width = (int)across;
    w->height = (int)h;
    w->x = scale_word(u[2], width - w->width);
    w->y = scale_word(u[3], height - w->height);
    return 1;
}

static int clamp(uint64_t x, int most)
{
    return x < 1 ? 1 : x > (uint64_t)most ? most : (int)x;
}

/* The largest window in the middle whose ratio is in the range. */
static void middle_window(const struct rp_crop *c, int width, int height, struct rp_image_window *w)
{
    *w = (struct rp_image_window){0, 0, width, height};
    if ((uint64_t)width << POINT < c->ratio_min * (uint64_t)height)
        w->height = clamp((((uint64_t)width << POINT) + c->ratio_min / 2) / c->ratio_min, height);
    else if ((uint64_t)width << POINT > c->ratio_max * (uint64_t)height)
        w->width = clamp(((uint64_t)height * c->ratio_max + ONE / 2) >> POINT, width);
    w->x = (width - w->width) / 2;
    w->y = (height - w->height) / 2;
}

static void centre_window(const struct rp_crop *c, int width, int height, struct rp_image_window *w)
{
    int side = width < height ? width : height;
    side = clamp((2ull * (unsigned)side * (unsigned)c->image_size + (unsigned)c->short_side) /
                     (2ull * (unsigned)c->short_side),
                 side);
    *w = (struct rp_image_window){(width - side) / 2, (height - side) / 2, side, side};
}

void rp_crop_draw(const struct rp_crop *c, int width, int height, int64_t sample, struct rp_image_window *w, int *flip)
{
    uint32_t x[4];
    *flip = 0;
    if (!c->random) {
        centre_window(c, width, height, w);
        return;
    }
    philox(x, c, sample, 0, RP_FLIP_STREAM);
    *flip = x[0] < c->flip;
    for (uint32_t k = 0; k < (uint32_t)c->attempts; k++) {
        philox(x, c, sample, k, RP_CROP_STREAM);
        if (c->law == RP_CROP_LAW_tensorflow ? try_height(c, width, height, x, w) : try_window(c, width, height, x, w))
            return;
    }
    if (c->law == RP_CROP_LAW_tensorflow)
        *w = (struct rp_image_window){0, 0, width, height};
    else
        middle_window(c, width, height, w);
}
