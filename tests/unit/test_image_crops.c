/* Resizing against the definition as plain loops; crops against the published formula in double. */
#include "tests/unit/tap.h"

#include "base/hash.h"
#include "data/image/crop.h"
#include "data/image/resize.h"
#include "ops/philox.h"
#include "tests/unit/image_fixture.h"

#include <math.h>
#include <stdio.h>

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
