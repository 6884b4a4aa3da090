/* Images: pooling, bytes to floats, the largest class. Compiled once per instruction set by ops_<isa>.c. Some loops
 * over channels, which have no dependence between elements (ivdep), are left to the compiler's vectoriser. */

/* ---- max pooling: a part is one row of output pixels, or of input pixels, of one image ---- */

#define POOL_CHANNELS 64 /* places of one pixel, as floats, at a time */

struct pool_job {
    float *y, *dx;
    uint8_t *which;
    const float *x, *dy;
    const uint8_t *chosen;
    const struct rp_conv *c;
    int streams; /* dx bypasses the caches, as in batch norms */
};

/* The part of the window of an output pixel that is inside the image. */
struct pool_window {
    const float *x; /* the channels of place (h0, w0) */
    int h0, h1, w0, w1;
};

/* Places kernel0..kernel1 of a window whose first place is row, or column, `first` of `size`. */
static void pool_inside(int *from, int *to, long first, int kernel, long size)
{
    *from = (int)least_of(first < 0 ? -first : 0, kernel);
    *to = (int)(size - first < kernel ? size - first : kernel);
}

/* One vector of channels. Places are whole numbers in floats, and each is greater than those before it: the result is
 * the larger of the place found before and the one at hand, or 0 where its value is not larger. x - most > 0 just
 * where x > most, since subnormal numbers are kept. */
RP_LANE vf pool_largest(const struct pool_window *p, const struct rp_conv *c, long j, int n, vf *most)
{
    vf where = vset1((float)(p->h0 * c->kernel_w + p->w0));
    *most = vget(p->x + j, n);
    for (int kh = p->h0; kh < p->h1; kh++) {
        const float *row = p->x + (long)(kh - p->h0) * c->in_w * c->in_c + j;
        for (int kw = p->w0; kw < p->w1; kw++, row += c->in_c) {
            const vf x = vget(row, n);
            where = vmax(vpositive(x - *most, vset1((float)(kh * c->kernel_w + kw))), where);
            *most = vmax(x, *most);
        }
    }
    return where;
}

static void pool_pixel(const struct pool_job *o, const struct pool_window *p, float *y, uint8_t *restrict which)
{
    const struct rp_conv *c = o->c;
    for (long c0 = 0; c0 < c->out_c; c0 += POOL_CHANNELS) {
        const long channels = least_of(POOL_CHANNELS, c->out_c - c0);
        float where[POOL_CHANNELS];
        for (long j = 0; j < channels; j += W) {
            const int n = (int)least_of(W, channels - j);
            vf most;
            vput(where + j, pool_largest(p, c, c0 + j, n, &most), n);
            vput(y + c0 + j, most, n);
        }
#pragma GCC ivdep
        for (long i = 0; i < channels; i++)
            which[c0 + i] = (uint8_t)(int32_t)where[i];
    }
}

static void maxpool_part(void *arg, int part, int thread)
{
    const struct pool_job *o = arg;
    const struct rp_conv *c = o->c;
    const long n = part / c->out_h, first = (long)(part % c->out_h) * c->stride - c->pad_top;
    struct pool_window p;
    (void)thread;
    pool_inside(&p.h0, &p.h1, first, c->kernel_h, c->in_h);
    for (long ow = 0; ow < c->out_w; ow++) {
        const long left = ow * c->stride - c->pad_left, at = ((long)part * c->out_w + ow) * c->out_c;
        pool_inside(&p.w0, &p.w1, left, c->kernel_w, c->in_w);
        if (p.h0 >= p.h1 || p.w0 >= p.w1)
            continue;
        p.x = o->x + ((n * c->in_h + first + p.h0) * c->in_w + left + p.w0) * c->in_c;
        pool_pixel(o, &p, o->y + at, o->which + at);
    }
}

static void cpu_maxpool_forward(struct rp_dev *dev, float *y, uint8_t *which, const float *x, const struct rp_conv *c)
{
    struct pool_job o = {.y = y, .which = which, .x = x, .c = c};
    rp_pool_run(rp_cpu_of(dev)->pool, c->batch * c->out_h, maxpool_part, &o);
}

static void pool_add_chosen(float *restrict sum, const float *restrict dy, const uint8_t *restrict chosen, int place,
                            long channels)
{
#pragma GCC ivdep
    for (long i = 0; i < channels; i++)
        sum[i] = sum[i] + (chosen[i] == place ? dy[i] : 0.0f);
}

/* The windows along one side that have pixel `at`: window `first` has it at the greatest place, which is `last`; the
 * next one at `stride` before that. Returns how many there are. */
static int pool_windows(long *first, int *last, long at, long pad, int kernel, int stride, long windows)
{
    const long shifted = at + pad, newest = least_of(shifted / stride, windows - 1);
    const long oldest = shifted < kernel ? 0 : (shifted - kernel) / stride + 1;
    *first = oldest;
    *last = (int)(shifted - oldest * stride);
    return newest < oldest ? 0 : (int)(newest - oldest + 1);
}

/* Windows in ascending order have this pixel at descending places. Adding +0 is neutral: a sum that starts at +0 is
 * never -0. */
static void pool_gradient(const struct pool_job *o, long n, long h, long w)
{
    const struct rp_conv *c = o->c;
    float *dx = o->dx + ((n * c->in_h + h) * c->in_w + w) * c->in_c;
    long y, x;
    int kh, kw;
    const int rows = pool_windows(&y, &kh, h, c->pad_top, c->kernel_h, c->stride, c->out_h);
    const int columns = pool_windows(&x, &kw, w, c->pad_left, c->kernel_w, c->stride, c->out_w);
    for (long c0 = 0; c0 < c->in_c; c0 += POOL_CHANNELS) {
        const long channels = least_of(POOL_CHANNELS, c->in_c - c0);
        float sum[POOL_CHANNELS] = {0};
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < columns; i++) {
                const long at = ((n * c->out_h + y + r) * c->out_w + x + i) * c->out_c + c0;
                const int place = (kh - r * c->stride) * c->kernel_w + kw - i * c->stride;
                pool_add_chosen(sum, o->dy + at, o->chosen + at, place, channels);
            }
        for (long j = 0; j < channels; j += W) {
            const int vector = (int)least_of(W, channels - j);
            if (o->streams)
                vstream(dx + c0 + j, vget(sum + j, vector));
            else
                vput(dx + c0 + j, vget(sum + j, vector), vector);
        }
    }
}

static void maxpool_gradient_part(void *arg, int part, int thread)
{
    const struct pool_job *o = arg;
    (void)thread;
    for (long w = 0; w < o->c->in_w; w++)
        pool_gradient(o, part / o->c->in_h, part % o->c->in_h, w);
}

static void cpu_maxpool_backward(struct rp_dev *dev, float *dx, const float *dy, const uint8_t *which,
                                 const struct rp_conv *c)
{
    struct pool_job o = {.dx = dx, .dy = dy, .chosen = which, .c = c};
    o.streams = batch_streams(dx, (long)c->batch * c->in_h * c->in_w, c->in_c);
    rp_pool_run(rp_cpu_of(dev)->pool, c->batch * c->in_h, maxpool_gradient_part, &o);
    low_store(dev, dx, (size_t)c->batch * (size_t)c->in_h * (size_t)c->in_w * (size_t)c->in_c);
}

/* ---- average pooling ---- */

struct mean_job {
    float *y;
    const float *x;
    long pixels, width;
};

/* One vector of channels of an image: the 128 lanes of its sum over the pixels are vectors. */
static void avgpool_part(void *arg, int part, int thread)
{
    const struct mean_job *o = arg;
    const long width = o->width, vectors = blocks_of(width, W), j = part % vectors * W;
    const float *x = o->x + part / vectors * o->pixels * width + j;
    const int n = (int)least_of(W, width - j);
    vf lane[128];
    (void)thread;
    for (int l = 0; l < 128; l++)
        lane[l] = vset1(0.0f);
    for (long p = 0; p < o->pixels; p++)
        lane[p % 128] = lane[p % 128] + vget(x + p * width, n);
    for (int half = 64; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] = lane[l] + lane[l + half];
    vput(o->y + part / vectors * width + j, lane[0] * vset1(1.0f / (float)o->pixels), n);
}

static void cpu_avgpool_forward(struct rp_dev *dev, float *y, const float *x, int batch, int pixels, int width)
{
    struct mean_job o = {y, x, pixels, width};
    rp_pool_run(rp_cpu_of(dev)->pool, batch * blocks_of(width, W), avgpool_part, &o);
    low_store(dev, y, (size_t)batch * (size_t)width);
}

static void avgpool_gradient_part(void *arg, int part, int thread)
{
    const struct mean_job *o = arg;
    const vf inv = vset1(1.0f / (float)o->pixels);
    (void)thread;
    for (long p = 0; p < o->pixels; p++) {
        float *dx = o->y + (part * o->pixels + p) * o->width;
        EACH_VECTOR(o->width, { vput(dx + j, vget(o->x + part * o->width + j, n) * inv, n); });
    }
}

static void cpu_avgpool_backward(struct rp_dev *dev, float *dx, const float *dy, int batch, int pixels, int width)
{
    struct mean_job o = {dx, dy, pixels, width};
    rp_pool_run(rp_cpu_of(dev)->pool, batch, avgpool_gradient_part, &o);
    low_store(dev, dx, (size_t)batch * (size_t)pixels * (size_t)width);
}

/* ---- bytes to floats ---- */

#define PIXEL_RUN (12 * 16) /* scale and shift repeated: a multiple of 1, 2, 3 and 4 */

struct pixel_job {
    float *x;
    const uint8_t *pixel;
    float scale[PIXEL_RUN], shift[PIXEL_RUN];
    size_t n;
};

static void pixel_run(float *restrict x, const uint8_t *restrict pixel, const struct pixel_job *o, long n)
{
#pragma GCC ivdep
    for (long i = 0; i < n; i++)
        x[i] = __builtin_fmaf((float)pixel[i], o->scale[i], o->shift[i]);
}

#define PIXEL_PART (64l * PIXEL_RUN)

static void pixel_part(void *arg, int part, int thread)
{
    const struct pixel_job *o = arg;
    const size_t end = (size_t)part * PIXEL_PART + PIXEL_PART < o->n ? (size_t)part * PIXEL_PART + PIXEL_PART : o->n;
    (void)thread;
    for (size_t i = (size_t)part * PIXEL_PART; i < end; i += PIXEL_RUN)
        pixel_run(o->x + i, o->pixel + i, o, end - i < PIXEL_RUN ? (long)(end - i) : PIXEL_RUN);
}

static void cpu_scale_pixels(struct rp_dev *dev, float *x, const uint8_t *pixel, const float *scale, const float *shift,
                             size_t n, int width)
{
    struct pixel_job o = {.x = x, .pixel = pixel, .n = n * (size_t)width};
    RP_BUG_IF(width < 1 || width > 4);
    for (int i = 0; i < PIXEL_RUN; i++) {
        o.scale[i] = scale[i % width];
        o.shift[i] = shift[i % width];
    }
    rp_pool_run(rp_cpu_of(dev)->pool, (int)((o.n + PIXEL_PART - 1) / PIXEL_PART), pixel_part, &o);
    low_store(dev, x, o.n);
}

/* ---- the largest class ---- */

struct argmax_job {
    int32_t *index;
    const float *x;
    long ld;
    int classes;
};

static void argmax_part(void *arg, int part, int thread)
{
    const struct argmax_job *o = arg;
    const float *x = o->x + part * o->ld;
    int at = 0;
    (void)thread;
    for (int c = 1; c < o->classes; c++)
        if (x[c] > x[at])
            at = c;
    o->index[part] = at;
}

static void cpu_argmax_rows(struct rp_dev *dev, int32_t *index, const float *x, long ld, int n, int classes)
{
    struct argmax_job o = {index, x, ld, classes};
    rp_pool_run(rp_cpu_of(dev)->pool, n, argmax_part, &o);
}
