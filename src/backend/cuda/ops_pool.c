/* Pools, and images as bytes. */
#include "backend/cuda/inner.h"

static size_t quads_of(size_t pixels, int width)
{
    return pixels * (((size_t)width + 3) / 4);
}

void rp_cuda_op_maxpool_forward(struct rp_dev *dev, rp_stored *y, uint8_t *which, const rp_stored *x,
                                const struct rp_conv *v)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t quads = quads_of((size_t)rp_conv_rows(v), v->out_c);
    RP_LAUNCH_STORED(c, maxpool_forward, rp_cuda_spread(c, RP_KERNEL_maxpool_forward, quads), 0, .y = y, .which = which,
                     .x = x, .quads = quads, .conv = *v, .wide = v->out_c % 4 == 0 && RP_ALIGNED(y, which, x));
}

void rp_cuda_op_maxpool_backward(struct rp_dev *dev, rp_stored *dx, const rp_stored *dy, const uint8_t *which,
                                 const struct rp_conv *v)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t quads = quads_of((size_t)v->batch * (size_t)v->in_h * (size_t)v->in_w, v->in_c);
    RP_LAUNCH_STORED(c, maxpool_backward, rp_cuda_spread(c, RP_KERNEL_maxpool_backward, quads), 0, .dx = dx, .dy = dy,
                     .which = which, .quads = quads, .conv = *v, .wide = v->in_c % 4 == 0 && RP_ALIGNED(dx, dy, which));
}

void rp_cuda_op_avgpool_forward(struct rp_dev *dev, rp_stored *y, const rp_stored *x, int batch, int pixels, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const unsigned blocks = (unsigned)batch * (((unsigned)width + 31) / 32);
    RP_LAUNCH_STORED(c, avgpool_forward, ((struct rp_grid){blocks, 1, 1}), RP_AVGPOOL_FLOATS * sizeof(float), .y = y,
                     .x = x, .inv = 1.0f / (float)pixels, .pixels = pixels, .width = width);
}

void rp_cuda_op_avgpool_backward(struct rp_dev *dev, rp_stored *dx, const rp_stored *dy, int batch, int pixels,
                                 int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t quads = quads_of((size_t)batch * (size_t)pixels, width);
    RP_LAUNCH_STORED(c, avgpool_backward, rp_cuda_spread(c, RP_KERNEL_avgpool_backward, quads), 0, .dx = dx, .dy = dy,
                     .quads = quads, .inv = 1.0f / (float)pixels, .pixels = pixels, .width = width,
                     .wide = width % 4 == 0 && RP_ALIGNED(dx, dy));
}

void rp_cuda_op_scale_pixels(struct rp_dev *dev, rp_stored *x, const uint8_t *pixel, const float *scale,
                             const float *shift, size_t n, int width)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    const size_t all = n * (size_t)width;
    struct rp_scale_pixels_args a = {.x = x, .pixel = pixel, .n = all, .width = width, .wide = RP_ALIGNED(x, pixel)};
    RP_BUG_IF(width < 1 || width > 4);
    for (int i = 0; i < width; i++) {
        a.scale[i] = scale[i];
        a.shift[i] = shift[i];
    }
    rp_cuda_launch(c, RP_STORED_KERNEL(c, scale_pixels), SPREAD4(c, scale_pixels, all), 0, &a);
}
