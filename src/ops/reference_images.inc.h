/* The literal definition of convolution, batch norm, pooling and pixels: a part of reference.c, which includes it
 * once. */

/* The channels of a pixel of an NHWC image, or NULL outside it, where all are +0. */
static const float *pixel_of(const float *x, long n, long h, long w, long height, long width, long channels)
{
    return h < 0 || h >= height || w < 0 || w >= width ? NULL : x + ((n * height + h) * width + w) * channels;
}

static float pixel_at(const float *x, long n, long h, long w, long c, long height, long width, long channels)
{
    const float *pixel = pixel_of(x, n, h, w, height, width, channels);
    return pixel ? pixel[c] : 0.0f;
}

/* The sum of chains of `segment` terms, 0: of one, that grows term by term; begins as {0}. */
struct reference_chains {
    float total, s;
    long terms, in_chain;
};

static void chains_end(struct reference_chains *c, long segment)
{
    c->total = c->terms <= segment ? c->s + 0.0f : c->total + (c->s + 0.0f);
    c->s = 0.0f;
    c->in_chain = 0;
}

static void chains_add(struct reference_chains *c, float a, float b, long segment, long all)
{
    c->s = __builtin_fmaf(a, b, c->s);
    c->terms++;
    c->in_chain++;
    if (c->terms == all || c->in_chain == segment)
        chains_end(c, segment ? segment : all);
}

/* The output pixel that takes input pixel i at place k of the window, or -1. */
static long output_of(long i, long pad, long k, long stride, long size)
{
    const long at = i + pad - k;
    return at < 0 || at % stride || at / stride >= size ? -1 : at / stride;
}

/* ---- mixed precision: one term of each sum, k counted with the zeros that fill blocks ---- */

struct low_conv {
    const struct rp_conv *c;
    const float *x, *dy, *w;
};

static struct low_term forward_term(const void *product, long r, long o, long k)
{
    const struct low_conv *p = product;
    const struct rp_conv *c = p->c;
    const long row = rp_low_row(c->kernel_w, c->in_c), each = rp_low_channels(c->in_c);
    const long kh = k / row, kw = k % row / each, i = k % row % each;
    const long n = r / (c->out_h * c->out_w), oh = r / c->out_w % c->out_h, ow = r % c->out_w;
    if (kw >= c->kernel_w || i >= c->in_c)
        return (struct low_term){0.0f, 0.0f};
    return (struct low_term){pixel_at(p->x, n, oh * c->stride + kh - c->pad_top, ow * c->stride + kw - c->pad_left, i,
                                      c->in_h, c->in_w, c->in_c),
                             p->w[((o * c->kernel_h + kh) * c->kernel_w + kw) * c->in_c + i]};
}

static struct low_term dgrad_term(const void *product, long pixel, long i, long k)
{
    const struct low_conv *p = product;
    const struct rp_conv *c = p->c;
    const long row = rp_low_row(c->kernel_w, c->out_c), each = rp_low_channels(c->out_c);
    const long kh = k / row, kw = k % row / each, o = k % row % each;
    const long n = pixel / (c->in_h * c->in_w), ih = pixel / c->in_w % c->in_h, iw = pixel % c->in_w;
    const long oh = output_of(ih, c->pad_top, kh, c->stride, c->out_h),
               ow = output_of(iw, c->pad_left, kw, c->stride, c->out_w);
    if (kw >= c->kernel_w || o >= c->out_c)
        return (struct low_term){0.0f, 0.0f};
    return (struct low_term){oh < 0 || ow < 0 ? 0.0f : p->dy[((n * c->out_h + oh) * c->out_w + ow) * c->out_c + o],
                             p->w[((o * c->kernel_h + kh) * c->kernel_w + kw) * c->in_c + i]};
}

/* Term r of output channel o and tap e. */
static struct low_term wgrad_term(const void *product, long o, long e, long r)
{
    const struct low_conv *p = product;
    const struct rp_conv *c = p->c;
    const long kh = e / c->in_c / c->kernel_w, kw = e / c->in_c % c->kernel_w, oh = r / c->out_w % c->out_h,
               ow = r % c->out_w;
    return (struct low_term){p->dy[r * c->out_c + o],
                             pixel_at(p->x, r / (c->out_h * c->out_w), oh * c->stride + kh - c->pad_top,
                                      ow * c->stride + kw - c->pad_left, e % c->in_c, c->in_h, c->in_w, c->in_c)};
}

/* ---- convolution ---- */

static void ref_conv_forward(struct rp_dev *dev, float *y, float *mean, const float *x, const float *w,
                             const struct rp_conv *c, float *work)
{
    const long rows = rp_conv_rows(c), taps = rp_conv_taps(c), segment = rp_segment((int)taps);
    for (long r = 0; r < rows; r++)
        for (long o = 0; o < c->out_c; o++) {
            const long n = r / (c->out_h * c->out_w), oh = r / c->out_w % c->out_h, ow = r % c->out_w;
            const float *f = w + o * taps;
            struct reference_chains s = {0};
            for (long kh = 0; kh < c->kernel_h && !is_mixed(dev); kh++)
                for (long kw = 0; kw < c->kernel_w; kw++, f += c->in_c) {
                    const float *pixel = pixel_of(x, n, oh * c->stride + kh - c->pad_top,
                                                  ow * c->stride + kw - c->pad_left, c->in_h, c->in_w, c->in_c);
                    for (long i = 0; i < c->in_c; i++)
                        chains_add(&s, pixel ? pixel[i] : 0.0f, f[i], segment, taps);
                }
            if (is_mixed(dev))
                s.total = stored(dev, low_sum(dev, forward_term, &(struct low_conv){c, x, NULL, w}, r, o,
                                              (long)c->kernel_h * rp_low_row(c->kernel_w, c->in_c)));
            y[r * c->out_c + o] = s.total;
            if (mean)
                colsum_add(work, r, o, c->out_c, s.total);
        }
    if (mean)
        colsum_tree(mean, work, rows, c->out_c);
    for (long o = 0; mean && o < c->out_c; o++)
        mean[o] = mean[o] * (1.0f / (float)rows);
}

static void ref_conv_dgrad(struct rp_dev *dev, float *dx, const float *dy, const float *w, const float *add,
                           const struct rp_conv *c)
{
    const long taps = (long)c->kernel_h * c->kernel_w, terms = taps * c->out_c, segment = rp_segment((int)terms);
    const long pixels = (long)c->batch * c->in_h * c->in_w;
    for (long p = 0; p < pixels; p++)
        for (long i = 0; i < c->in_c; i++) {
            const long n = p / (c->in_h * c->in_w), ih = p / c->in_w % c->in_h, iw = p % c->in_w;
            struct reference_chains s = {0};
            for (long tap = 0; tap < taps && !is_mixed(dev); tap++) {
                const long oh = output_of(ih, c->pad_top, tap / c->kernel_w, c->stride, c->out_h);
                const long ow = output_of(iw, c->pad_left, tap % c->kernel_w, c->stride, c->out_w);
                const float *pixel = pixel_of(dy, n, oh, ow, c->out_h, c->out_w, c->out_c);
                for (long o = 0; o < c->out_c; o++)
                    chains_add(&s, pixel ? pixel[o] : 0.0f, w[(o * taps + tap) * c->in_c + i], segment, terms);
            }
            if (is_mixed(dev))
                s.total = low_sum(dev, dgrad_term, &(struct low_conv){c, NULL, dy, w}, p, i,
                                  (long)c->kernel_h * rp_low_row(c->kernel_w, c->out_c));
            dx[p * c->in_c + i] = stored(dev, add ? s.total + add[p * c->in_c + i] : s.total);
        }
}

static void ref_conv_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, const struct rp_conv *c,
                           float *work)
{
    const long rows = rp_conv_rows(c), taps = rp_conv_taps(c), all = c->out_c * taps,
               groups = (rows + RP_CONV_GROUP - 1) / RP_CONV_GROUP;
    for (long e = 0; is_mixed(dev) && e < all; e++)
        dw[e] = low_weight(dev, wgrad_term, &(struct low_conv){c, x, dy, NULL}, e / taps, e % taps, c->out_c, (int)taps,
                           (int)rows);
    for (long e = 0; !is_mixed(dev) && e < all; e++) {
        const long o = e / taps, kh = e % taps / c->in_c / c->kernel_w, kw = e % taps / c->in_c % c->kernel_w,
                   i = e % c->in_c;
        for (long g = 0; g < groups; g++) {
            const long end = rows < (g + 1) * RP_CONV_GROUP ? rows : (g + 1) * RP_CONV_GROUP;
            long r = g * RP_CONV_GROUP, n = r / (c->out_h * c->out_w), oh = r / c->out_w % c->out_h, ow = r % c->out_w;
            struct reference_chains s = {0};
            for (; r < end; r++) {
                const float b = pixel_at(x, n, oh * c->stride + kh - c->pad_top, ow * c->stride + kw - c->pad_left, i,
                                         c->in_h, c->in_w, c->in_c);
                chains_add(&s, dy[r * c->out_c + o], b, RP_CONV_CHAIN, end - g * RP_CONV_GROUP);
                if (++ow < c->out_w)
                    continue;
                ow = 0;
                n += oh + 1 == c->out_h;
                oh = (oh + 1) % c->out_h;
            }
            (groups > 1 ? work + g * all : dw)[e] = s.total;
        }
        if (groups > 1)
            dw[e] = tree(work + e, groups, all);
    }
}

static float normalised(float x, float mean, float rstd)
{
    return (x - mean) * rstd;
}

static void ref_batchnorm_apply(struct rp_dev *dev, const struct rp_batchnorm *n)
{
    for (long i = 0; i < (long)n->rows * n->width; i++) {
        const long j = i % n->width;
        float v = __builtin_fmaf(normalised(n->x[i], n->mean[j], n->rstd[j]), n->gamma[j], n->beta[j]);
        if (n->add)
            v = v + n->add[i];
        n->y[i] = stored(dev, !n->relu || v > 0.0f ? v : 0.0f);
    }
}

static void ref_batchnorm_forward(struct rp_dev *dev, const struct rp_batchnorm *n)
{
    const long width = n->width;
    const float inv = 1.0f / (float)n->rows;
    for (long r = 0; r < n->rows; r++)
        for (long j = 0; j < width; j++) {
            const float d = n->x[r * width + j] - n->mean[j];
            colsum_add(n->work, r, j, width, d * d);
        }
    colsum_tree(n->var, n->work, n->rows, width);
    for (long j = 0; j < width; j++) {
        n->var[j] = n->var[j] * inv;
        n->rstd[j] = 1.0f / __builtin_sqrtf(n->var[j] + n->eps);
    }
    if (n->y)
        ref_batchnorm_apply(dev, n);
}

static void ref_batchnorm_backward(struct rp_dev *dev, const struct rp_batchnorm_grad *g)
{
    const long rows = g->rows, width = g->width;
    const float inv = 1.0f / (float)rows, *y = g->y;
    float *second = g->work + rp_colsum_work(rows, width);
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            const long i = r * width + j;
            const float dz = y && !(y[i] > 0.0f) ? 0.0f : g->dy[i];
            colsum_add(g->work, r, j, width, dz * normalised(g->x[i], g->mean[j], g->rstd[j]));
            colsum_add(second, r, j, width, dz);
        }
    colsum_tree(g->dgamma, g->work, rows, width);
    colsum_tree(g->dbeta, second, rows, width);
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            const long i = r * width + j;
            const float dz = y && !(y[i] > 0.0f) ? 0.0f : g->dy[i], s1 = g->dbeta[j] * inv, s2 = g->dgamma[j] * inv;
            if (g->dadd)
                g->dadd[i] = dz;
            g->dx[i] = stored(dev, __builtin_fmaf(-normalised(g->x[i], g->mean[j], g->rstd[j]), s2,
                                                  dz - s1) * (g->gamma[j] * g->rstd[j]));
        }
}

static void ref_maxpool_forward(struct rp_dev *dev, float *y, uint8_t *which, const float *x, const struct rp_conv *c)
{
    for (long i = 0; i < rp_conv_rows(c) * c->out_c; i++) {
        const long r = i / c->out_c, n = r / (c->out_h * c->out_w), oh = r / c->out_w % c->out_h, ow = r % c->out_w;
        int found = 0;
        for (int k = 0; k < c->kernel_h * c->kernel_w; k++) {
            const long ih = oh * c->stride + k / c->kernel_w - c->pad_top,
                       iw = ow * c->stride + k % c->kernel_w - c->pad_left;
            if (ih < 0 || ih >= c->in_h || iw < 0 || iw >= c->in_w)
                continue;
            const float v = x[((n * c->in_h + ih) * c->in_w + iw) * c->in_c + i % c->out_c];
            if (!found || v > y[i]) {
                y[i] = v;
                which[i] = (uint8_t)k;
            }
            found = 1;
        }
    }
}

static void ref_maxpool_backward(struct rp_dev *dev, float *dx, const float *dy, const uint8_t *which,
                                 const struct rp_conv *c)
{
    for (long i = 0; i < (long)c->batch * c->in_h * c->in_w * c->in_c; i++) {
        const long p = i / c->in_c, n = p / (c->in_h * c->in_w), ih = p / c->in_w % c->in_h, iw = p % c->in_w;
        float s = 0.0f;
        /* the window that has this pixel at its end comes first */
        for (int k = c->kernel_h * c->kernel_w - 1; k >= 0; k--) {
            const long oh = output_of(ih, c->pad_top, k / c->kernel_w, c->stride, c->out_h);
            const long ow = output_of(iw, c->pad_left, k % c->kernel_w, c->stride, c->out_w);
            const long at = ((n * c->out_h + oh) * c->out_w + ow) * c->out_c + i % c->in_c;
            if (oh >= 0 && ow >= 0 && which[at] == k)
                s = s + dy[at];
        }
        dx[i] = stored(dev, s);
    }
}

static void ref_avgpool_forward(struct rp_dev *dev, float *y, const float *x, int batch, int pixels, int width)
{
    const float inv = 1.0f / (float)pixels;
    for (long i = 0; i < (long)batch * width; i++) {
        struct reference_sum128 s;
        sum128_start(&s);
        for (long p = 0; p < pixels; p++)
            sum128_add(&s, p, x[(i / width * pixels + p) * width + i % width]);
        y[i] = stored(dev, sum128_end(&s) * inv);
    }
}

static void ref_avgpool_backward(struct rp_dev *dev, float *dx, const float *dy, int batch, int pixels, int width)
{
    const float inv = 1.0f / (float)pixels;
    for (long i = 0; i < (long)batch * pixels * width; i++)
        dx[i] = stored(dev, dy[i / width / pixels * width + i % width] * inv);
}

static void ref_scale_pixels(struct rp_dev *dev, float *x, const uint8_t *pixel, const float *scale, const float *shift,
                             size_t n, int width)
{
    for (size_t i = 0; i < n * (size_t)width; i++)
        x[i] = stored(dev, __builtin_fmaf((float)pixel[i], scale[i % (size_t)width], shift[i % (size_t)width]));
}

static void ref_argmax_rows(struct rp_dev *dev, int32_t *index, const float *x, long ld, int n, int classes)
{
    for (long i = 0; i < n; i++) {
        index[i] = 0;
        for (int c = 1; c < classes; c++)
            if (x[i * ld + c] > x[i * ld + index[i]])
                index[i] = c;
    }
}
