/* Pooling of NHWC images, and images as bytes. Four neighbouring channels of a pixel at a time; bytes moved: each
 * tensor once, where the caches keep what windows have in common. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/stored.cuh"
#include "ops/ops.h"

struct pixel {
    unsigned image;
    int y, x, channel;
    size_t at; /* of the first of its four channels in the tensor */
    long n;    /* channels from there on */
};

/* Quad `number` of images of height x width pixels. */
RP_DEVICE struct pixel pixel_of(unsigned number, int height, int width, int channels)
{
    const unsigned quads = ((unsigned)channels + 3) / 4, pixel = number / quads, row = pixel / (unsigned)width;
    struct pixel p;
    p.channel = (int)(number - pixel * quads) * 4;
    p.x = (int)(pixel - row * (unsigned)width);
    p.image = row / (unsigned)height;
    p.y = (int)(row - p.image * (unsigned)height);
    p.at = (size_t)pixel * (unsigned)channels + (unsigned)p.channel;
    p.n = channels - p.channel;
    return p;
}
RP_DEVICE int larger(int a, int b)
{
    return a > b ? a : b;
}
RP_DEVICE int smaller(int a, int b)
{
    return a < b ? a : b;
}
#define EACH_PIXEL(a, height, width, one)                                                                                                  \
    for (size_t i_ = rp_thread(); i_ < (a)->quads; i_ += rp_threads())                                                                     \
        if ((a)->wide)                                                                                                                     \
            one(a, pixel_of((unsigned)i_, height, width, (a)->conv.in_c), 1);                                                              \
        else                                                                                                                               \
            one(a, pixel_of((unsigned)i_, height, width, (a)->conv.in_c), 0)

/* ---- the largest value of a window ---- */

struct found {
    float4 value;
    unsigned place[4];
};
RP_DEVICE void take(float *value, unsigned *place, float v, unsigned k)
{
    if (v > *value) {
        *value = v;
        *place = k;
    }
}

RP_DEVICE void maxpool4(const rp_args_maxpool_forward *a, struct pixel p, int wide)
{
    const struct rp_conv *c = &a->conv;
    const int top = p.y * c->stride - c->pad_top, left = p.x * c->stride - c->pad_left;
    const int h0 = larger(0, -top), h1 = smaller(c->kernel_h, c->in_h - top);
    const int w0 = larger(0, -left), w1 = smaller(c->kernel_w, c->in_w - left);
    struct found f = {make_float4(0.0f, 0.0f, 0.0f, 0.0f), {0, 0, 0, 0}};
    RP_NO_UNROLL
    for (int kh = h0; kh < h1; kh++)
        RP_NO_UNROLL
        for (int kw = w0; kw < w1; kw++) {
            const size_t pixel = ((size_t)p.image * (unsigned)c->in_h + (unsigned)(top + kh)) * (unsigned)c->in_w + (unsigned)(left + kw);
            const float4 v = rp_stored_get4(a->x + (pixel * (unsigned)c->in_c + (unsigned)p.channel), p.n, wide);
            const unsigned k = (unsigned)(kh * c->kernel_w + kw);
            if (kh == h0 && kw == w0) {
                f.value = v;
                f.place[0] = f.place[1] = f.place[2] = f.place[3] = k;
            }
            take(&f.value.x, &f.place[0], v.x, k);
            take(&f.value.y, &f.place[1], v.y, k);
            take(&f.value.z, &f.place[2], v.z, k);
            take(&f.value.w, &f.place[3], v.w, k);
        }
    rp_stored_put4(a->y + p.at, f.value, p.n, wide);
    if (wide)
        *(uint32_t *)(void *)(a->which + p.at) = f.place[0] | f.place[1] << 8 | f.place[2] << 16 | f.place[3] << 24;
    else
        for (int e = 0; e < 4 && e < p.n; e++)
            a->which[p.at + (unsigned)e] = (uint8_t)(e == 0 ? f.place[0] : e == 1 ? f.place[1] : e == 2 ? f.place[2] : f.place[3]);
}
RP_KERNEL(maxpool_forward)
{
    EACH_PIXEL(&a, a.conv.out_h, a.conv.out_w, maxpool4);
}

RP_DEVICE uint32_t places4(const uint8_t *which, long n, int wide)
{
    if (wide)
        return *(const uint32_t *)(const void *)which;
    return (uint32_t)which[0] | (n > 1 ? (uint32_t)which[1] : 0) << 8 | (n > 2 ? (uint32_t)which[2] : 0) << 16 |
           (n > 3 ? (uint32_t)which[3] : 0) << 24;
}
RP_DEVICE float if_place(float sum, float dy, uint32_t place, unsigned k)
{
    return (place & 255) == k ? sum + dy : sum;
}

/* The windows that have this input pixel, in ascending order. */
RP_DEVICE void spread4(const rp_args_maxpool_backward *a, struct pixel p, int wide)
{
    const struct rp_conv *c = &a->conv;
    const int y = p.y + c->pad_top, x = p.x + c->pad_left;
    const int h0 = larger(0, (y - c->kernel_h + c->stride) / c->stride), h1 = smaller(c->out_h - 1, y / c->stride);
    const int w0 = larger(0, (x - c->kernel_w + c->stride) / c->stride), w1 = smaller(c->out_w - 1, x / c->stride);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    RP_NO_UNROLL
    for (int oh = h0; oh <= h1; oh++)
        RP_NO_UNROLL
        for (int ow = w0; ow <= w1; ow++) {
            const unsigned k = (unsigned)((y - oh * c->stride) * c->kernel_w + x - ow * c->stride);
            const size_t pixel = ((size_t)p.image * (unsigned)c->out_h + (unsigned)oh) * (unsigned)c->out_w + (unsigned)ow;
            const size_t at = pixel * (unsigned)c->out_c + (unsigned)p.channel;
            const float4 dy = rp_stored_get4(a->dy + at, p.n, wide);
            const uint32_t places = places4(a->which + at, p.n, wide);
            sum.x = if_place(sum.x, dy.x, places, k);
            sum.y = if_place(sum.y, dy.y, places >> 8, k);
            sum.z = if_place(sum.z, dy.z, places >> 16, k);
            sum.w = if_place(sum.w, dy.w, places >> 24, k);
        }
    rp_stored_put4(a->dx + p.at, sum, p.n, wide);
}
RP_KERNEL(maxpool_backward)
{
    EACH_PIXEL(&a, a.conv.in_h, a.conv.in_w, spread4);
}

/* ---- averages ---- */

/* A block for an image and a strip of 32 channels: warp w adds up the pixels of lanes w, w + 8, ... of sum128, then
 * halves are added. */
RP_KERNEL(avgpool_forward)
{
    const int strips = (a.width + RP_WARP - 1) / RP_WARP, warp = (int)(threadIdx.x / RP_WARP), warps = (int)(blockDim.x / RP_WARP);
    const unsigned image = blockIdx.x / (unsigned)strips;
    const int channel = (int)(blockIdx.x % (unsigned)strips) * RP_WARP + rp_lane();
    const rp_stored *x = a.x + ((size_t)image * (unsigned)a.pixels * (unsigned)a.width + (unsigned)channel);
    float *sums = RP_SHARED(float) + rp_lane(); /* [128][32] */
    for (int l = warp; l < 128; l += warps) {
        float sum = 0.0f;
        for (int p = l; p < a.pixels && channel < a.width; p += 128)
            sum = sum + rp_stored_get(x + (size_t)p * (unsigned)a.width);
        sums[l * RP_WARP] = sum;
    }
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        for (int l = warp; l < half; l += warps)
            sums[l * RP_WARP] = sums[l * RP_WARP] + sums[(l + half) * RP_WARP];
    }
    if (warp == 0 && channel < a.width)
        rp_stored_put(a.y + ((size_t)image * (unsigned)a.width + (unsigned)channel), sums[0] * a.inv);
}

RP_DEVICE void average4(const rp_args_avgpool_backward *a, unsigned number, int wide)
{
    const unsigned quads = ((unsigned)a->width + 3) / 4, pixel = number / quads, image = pixel / (unsigned)a->pixels;
    const unsigned channel = (number - pixel * quads) * 4;
    const long n = a->width - (long)channel;
    const float4 dy = rp_stored_get4(a->dy + ((size_t)image * (unsigned)a->width + channel), n, wide);
    const float4 inv = make_float4(a->inv, a->inv, a->inv, a->inv);
    rp_stored_put4(a->dx + ((size_t)pixel * (unsigned)a->width + channel), rp_mul4(dy, inv), n, wide);
}
RP_KERNEL(avgpool_backward)
{
    for (size_t i = rp_thread(); i < a.quads; i += rp_threads())
        if (a.wide)
            average4(&a, (unsigned)i, 1);
        else
            average4(&a, (unsigned)i, 0);
}

/* ---- images as bytes ---- */

RP_DEVICE unsigned next_channel(unsigned channel, int width)
{
    return channel + 1 == (unsigned)width ? 0 : channel + 1;
}
RP_DEVICE float scaled(const rp_args_scale_pixels *a, uint32_t pixel, unsigned channel)
{
    return fmaf((float)(pixel & 255), a->scale[channel], a->shift[channel]);
}
RP_KERNEL(scale_pixels)
{
    unsigned period = a.width == 3 ? 3 : 1; /* of the first channel of four elements, as 4 % 3 is 1 */
    RP_OPAQUE(period);
    RP_NO_UNROLL
    for (size_t i = 4 * rp_thread(); i < a.n; i += 4 * rp_threads()) {
        const int wide = a.wide && a.n - i >= 4;
        const uint32_t v = places4(a.pixel + i, (long)(a.n - i), wide);
        const unsigned first = (unsigned)(i / 4) % period, second = next_channel(first, a.width), third = next_channel(second, a.width);
        const float4 x = make_float4(scaled(&a, v, first), scaled(&a, v >> 8, second), scaled(&a, v >> 16, third),
                                     scaled(&a, v >> 24, next_channel(third, a.width)));
        rp_stored_put4(a.x + i, x, (long)(a.n - i), wide);
    }
}
