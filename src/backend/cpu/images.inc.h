/* Images: pooling, bytes to floats, the largest class. Compiled once per instruction set by ops_<isa>.c. Loops over channels have no
 * dependence between elements (ivdep) and are left to the compiler's vectoriser. */

/* ---- max pooling: a part is one row of output pixels, or of input pixels, of one image ---- */

#define POOL_CHANNELS 64 /* at a time: values and places of one pixel in L1 */

struct pool_job {
    float *y, *dx;
    uint8_t *which;
    const float *x, *dy;
    const uint8_t *chosen;
    const struct rp_conv *c;
};

/* Channels of one place of the window: larger values and where they are. */
static void pool_larger(float *restrict most, int32_t *restrict where, const float *restrict x, int32_t place, long channels)
{
#pragma GCC ivdep
    for (long i = 0; i < channels; i++) {
        const int larger = x[i] > most[i];
        most[i] = larger ? x[i] : most[i];
        where[i] = larger ? place : where[i];
    }
}

/* channels of output pixel (oh, ow) of image n, from channel c0 */
static void pool_pixel(const struct pool_job *o, long n, long oh, long ow, long c0, long channels)
{
    const struct rp_conv *c = o->c;
    const long at = ((n * c->out_h + oh) * c->out_w + ow) * c->out_c + c0;
    float most[POOL_CHANNELS];
    int32_t where[POOL_CHANNELS];
    int found = 0;
    for (int kh = 0; kh < c->kernel_h; kh++)
        for (int kw = 0; kw < c->kernel_w; kw++) {
            const long h = oh * c->stride + kh - c->pad_top, w = ow * c->stride + kw - c->pad_left;
            if (h < 0 || h >= c->in_h || w < 0 || w >= c->in_w)
                continue;
            const float *x = o->x + ((n * c->in_h + h) * c->in_w + w) * c->in_c + c0;
            if (found) {
                pool_larger(most, where, x, kh * c->kernel_w + kw, channels);
                continue;
            }
            memcpy(most, x, (size_t)channels * sizeof *most);
            for (long i = 0; i < channels; i++)
                where[i] = kh * c->kernel_w + kw;
            found = 1;
        }
    if (!found)
        return;
    memcpy(o->y + at, most, (size_t)channels * sizeof *most);
    uint8_t *restrict which = o->which + at;
#pragma GCC ivdep
    for (long i = 0; i < channels; i++)
        which[i] = (uint8_t)where[i];
}

static void maxpool_part(void *arg, int part, int thread)
{
    const struct pool_job *o = arg;
    const long height = o->c->out_h, channels = o->c->out_c;
    (void)thread;
    for (long ow = 0; ow < o->c->out_w; ow++)
        for (long c0 = 0; c0 < channels; c0 += POOL_CHANNELS)
            pool_pixel(o, part / height, part % height, ow, c0, least_of(POOL_CHANNELS, channels - c0));
}

static void cpu_maxpool_forward(struct rp_dev *dev, float *y, uint8_t *which, const float *x, const struct rp_conv *c)
{
    struct pool_job o = {.y = y, .which = which, .x = x, .c = c};
    rp_pool_run(rp_cpu_of(dev)->pool, c->batch * c->out_h, maxpool_part, &o);
}

static void pool_add_chosen(float *restrict dx, const float *restrict dy, const uint8_t *restrict chosen, int place, long channels)
{
#pragma GCC ivdep
    for (long i = 0; i < channels; i++)
        dx[i] = dx[i] + (chosen[i] == place ? dy[i] : 0.0f);
}

/* Windows in ascending order have this pixel at descending places. Adding +0 is neutral: a sum that starts at +0 is never -0. */
static void pool_gradient(const struct pool_job *o, long n, long h, long w)
{
    const struct rp_conv *c = o->c;
    float *dx = o->dx + ((n * c->in_h + h) * c->in_w + w) * c->in_c;
    memset(dx, 0, (size_t)c->in_c * sizeof *dx);
    for (int kh = c->kernel_h - 1; kh >= 0; kh--)
        for (int kw = c->kernel_w - 1; kw >= 0; kw--) {
            const long y = h + c->pad_top - kh, x = w + c->pad_left - kw;
            if (y < 0 || x < 0 || y % c->stride || x % c->stride || y / c->stride >= c->out_h || x / c->stride >= c->out_w)
                continue;
            const long at = ((n * c->out_h + y / c->stride) * c->out_w + x / c->stride) * c->out_c;
            pool_add_chosen(dx, o->dy + at, o->chosen + at, kh * c->kernel_w + kw, c->in_c);
        }
}

static void maxpool_gradient_part(void *arg, int part, int thread)
{
    const struct pool_job *o = arg;
    (void)thread;
    for (long w = 0; w < o->c->in_w; w++)
        pool_gradient(o, part / o->c->in_h, part % o->c->in_h, w);
}

static void cpu_maxpool_backward(struct rp_dev *dev, float *dx, const float *dy, const uint8_t *which, const struct rp_conv *c)
{
    struct pool_job o = {.dx = dx, .dy = dy, .chosen = which, .c = c};
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

static void cpu_scale_pixels(struct rp_dev *dev, float *x, const uint8_t *pixel, const float *scale, const float *shift, size_t n,
                             int width)
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
