/* Convolutions in mixed precision on the GPU: both tiles, windows with and without stride and padding, channels that
 * come in eights and others, sums of several chains. All give the bits of ops/reference_images.inc.h and write nothing
 * else.
 * timeout: 600
 * shims: 800 700 ptx */
#include "tests/cuda/families.h"

static struct matrix image, filter, result, gradient, more, image_gradient, filter_gradient;

static void compare(const struct rp_conv *v, const struct matrix *x, size_t n, int f32, const char *what)
{
    size_t at;
    const size_t bad = count_wrong(x, n, f32, &at);
    CHECK(bad == 0,
          "%s: %s of %d x %d x %d x %d to %d, window %d x %d, stride %d, padding %d: %zu of %zu differ, the first at "
          "%zu: %a, expected %a",
          rp_numerics_name(dev->numerics), what, v->batch, v->in_h, v->in_w, v->in_c, v->out_c, v->kernel_h,
          v->kernel_w, v->stride, v->pad_top, bad, n, at,
          fetched(x, at, f32), (double)x->value[at]);
}

static rp_stored *stored(const struct matrix *x, size_t offset)
{
    return (rp_stored *)(x->value + offset);
}

/* offset: numbers by which tensors are off their alignment; turn: which tile each of the three has */
static void compare_conv(const struct rp_conv *v, size_t offset, int kind, int turn)
{
    struct rp_cuda *c = rp_cuda_of(dev);
    struct rp_dev reference = {.op = &rp_reference_ops, .numerics = dev->numerics};
    const size_t rows = (size_t)rp_conv_rows(v), taps = (size_t)rp_conv_taps(v),
                 pixels = (size_t)v->batch * (size_t)v->in_h * (size_t)v->in_w;
    const size_t images = offset + pixels * (size_t)v->in_c, filters = offset + (size_t)v->out_c * taps,
                 results = offset + rows * (size_t)v->out_c, end = 64;
    static float work[1 << 20];
    next_order();
    fill(&image, images, 0, kind);
    fill(&filter, filters, 0, kind);
    fill(&result, results + end, 0, RANDOM);
    fill(&gradient, results, 0, kind);
    fill(&more, images, 0, RANDOM);
    fill(&image_gradient, images + end, 0, RANDOM);
    fill(&filter_gradient, filters + end, 1, RANDOM);
    rp_reference_ops.conv_forward(&reference, stored(&result, offset), NULL, stored(&image, offset),
                                  stored(&filter, offset), v, work);
    c->convs = turn;
    rp_cuda_conv16_forward(c, moved(&result, offset, 0), moved(&image, offset, 0), moved(&filter, offset, 0), v);
    compare(v, &result, results + end, 0, "outputs");
    rp_reference_ops.conv_dgrad(&reference, stored(&image_gradient, offset), stored(&gradient, offset),
                                stored(&filter, offset), mix % 2 ? stored(&more, offset) : NULL, v);
    c->convs = turn;
    rp_cuda_conv16_dgrad(c, moved(&image_gradient, offset, 0), moved(&gradient, offset, 0), moved(&filter, offset, 0),
                         mix % 2 ? (rp_stored *)moved(&more, offset, 0) : NULL, v);
    compare(v, &image_gradient, images + end, 0, "gradients of the image");
    rp_reference_ops.conv_wgrad(&reference, filter_gradient.value + offset, stored(&gradient, offset),
                                stored(&image, offset), v, work);
    c->convs = turn;
    rp_cuda_conv16_wgrad(c, moved(&filter_gradient, offset, 1), moved(&gradient, offset, 0), moved(&image, offset, 0),
                         v);
    compare(v, &filter_gradient, filters + end, 1, "gradients of the window");
}

static void compare_all(int is_short)
{
    static const struct {
        int batch, h, w, in, out, kh, kw, stride, pad;
        size_t offset;
        int kind;
    } shapes[] = {{1, 9, 8, 16, 24, 3, 3, 1, 1, 0, 0},  {2, 8, 7, 32, 16, 3, 3, 2, 1, 0, 0},
                  {1, 14, 14, 3, 8, 7, 7, 2, 3, 0, 0},  {1, 6, 7, 5, 7, 2, 3, 1, 0, 1, 0},
                  {1, 10, 9, 24, 16, 1, 1, 2, 0, 0, 0}, {2, 11, 12, 64, 72, 3, 3, 1, 1, 0, 0},
                  {1, 3, 3, 1024, 8, 3, 3, 1, 1, 0, 0}, {2, 33, 34, 8, 8, 3, 3, 1, 1, 0, 0},
                  {1, 12, 11, 20, 16, 4, 1, 3, 2, 0, 0}, {1, 7, 7, 40, 136, 1, 1, 1, 0, 0, 0},
                  {1, 1, 1, 16, 8, 3, 3, 1, 1, 0, 0},   {1, 9, 8, 16, 24, 3, 3, 1, 1, 0, UNDERFLOW},
                  {2, 8, 8, 8, 1032, 3, 3, 2, 1, 0, 0},  {1, 13, 12, 5, 7, 3, 3, 1, 1, 0, 0}};
    struct matrix *const all[] = {&image, &filter, &result, &gradient, &more, &image_gradient, &filter_gradient};
    struct rp_cuda *c = rp_cuda_of(dev);
    take(all, COUNT(all));
    for (int i = 0; i < (tap_long() ? COUNT(shapes) : is_short ? 4 : 9); i++) {
        const int kh = shapes[i].kh, kw = shapes[i].kw, stride = shapes[i].stride, pad = shapes[i].pad,
                  wide = kw > 1 ? pad : 0;
        const struct rp_conv v = {.batch = shapes[i].batch,
                                  .in_h = shapes[i].h,
                                  .in_w = shapes[i].w,
                                  .in_c = shapes[i].in,
                                  .out_h = (shapes[i].h + 2 * pad - kh) / stride + 1,
                                  .out_w = (shapes[i].w + 2 * wide - kw) / stride + 1,
                                  .out_c = shapes[i].out,
                                  .kernel_h = kh,
                                  .kernel_w = kw,
                                  .stride = stride,
                                  .pad_top = pad,
                                  .pad_left = wide};
        c->gemm_rotates = 1; /* the tile is that of `turn`, and of another launch of the same call another one */
        for (int again = 0; again < (tap_long() || (!is_short && i <= 2) ? 2 : 1); again++)
            compare_conv(&v, shapes[i].offset, shapes[i].kind, i + again);
    }
    for (int k = 0; k < RP_CUDA_KERNELS; k++) {
        const char *name = rp_cuda_kernels[k].name, *type = arithmetic()->format == RP_TC_BF16 ? "_bf16_" : "_f16_";
        CHECK(strncmp(name, "rp_conv16", 9) != 0 || !strstr(name, type) ||
                  (c->image->arch < 80 && strstr(name, "128")) || c->launches[k],
              "%s was not used", name);
    }
}

TEST(both_tiles_have_the_bits_of_the_reference_in_the_arithmetic_of_each_family)
{
    compare_families("CONV16", compare_all);
}
