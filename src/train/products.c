/* Operations that count their products before the device's own compute them. */
#define RP_STORED_TYPE float /* counted are those of devices that keep stored tensors as fp32 numbers, in this memory */
#include "train/products.h"

#include "base/buf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const struct rp_ops *op; /* the device's own; NULL: nothing is counted */
    struct rp_ops counting;
    struct rp_products sum;
    double depth;            /* of the last matrix product, for a bias that is added after it */
} the;

static void add_products(double all, double spared)
{
    the.sum.all += all;
    the.sum.spared += spared < all ? spared : all;
}

static int is_zero(const float *x, long n)
{
    for (long i = 0; i < n; i++)
        if (x[i] != 0)
            return 0;
    return 1;
}

/* Adds to count[j] the elements of column j that are not 0; x [rows, width], rows ld apart. */
static void count_columns(double *count, const float *x, long rows, long width, long ld)
{
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < width; j++)
            count[j] += x[i * ld + j] != 0;
}

static void count_rows(double *count, const float *x, long rows, long width, long ld)
{
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < width; j++)
            count[i] += x[i * ld + j] != 0;
}

/* Elements of x [rows, width] that are exactly bias[j]. */
static double count_absorbed(const float *x, long ld, const float *bias, long row, long width)
{
    double n = 0;
    for (long j = 0; j < width; j++)
        n += x[row * ld + j] == bias[j];
    return n;
}

static void count_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    const double all = (double)g->m * g->n * g->k;
    RP_FREE double *a = rp_alloc((size_t)g->k * sizeof *a + 1), *b = rp_alloc((size_t)g->k * sizeof *b + 1);
    double needed = 0, again = 0, absorbed = 0;
    (g->ta ? count_rows : count_columns)(a, g->a, g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda);
    (g->tb ? count_columns : count_rows)(b, g->b, g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb);
    for (int i = 0; i < g->k; i++)
        needed += a[i] * b[i];
    RP_FREE char *idle = rp_alloc((size_t)g->m + 1); /* rows of A that are 0, or the row before */
    for (long i = 0; i < g->m && !g->ta; i++) {
        const float *row = g->a + i * g->lda;
        idle[i] = is_zero(row, g->k) ? 1 : i && memcmp(row, row - g->lda, (size_t)g->k * sizeof *row) == 0 ? 2 : 0;
        again += idle[i] == 2;
    }
    the.op->gemm(dev, g);
    for (long i = 0; i < g->m && g->c && g->bias && !g->add; i++)
        absorbed += idle[i] ? 0 : count_absorbed(g->c, g->ldc, g->bias, i, g->n);
    the.depth = g->k;
    add_products(all, all - needed + again * g->n * g->k + absorbed * g->k);
}

/* Products were counted with the sums before it. */
static void count_bias_add(struct rp_dev *dev, float *y, const float *x, const float *bias, int rows, int width)
{
    double absorbed = 0;
    the.op->bias_add(dev, y, x, bias, rows, width);
    for (long i = 0; i < rows; i++)
        absorbed += count_absorbed(y, width, bias, i, width);
    the.sum.spared += absorbed * the.depth;
}

/* ---- convolutions: shares of each channel, as if zeros of one factor were where those of the other are only by chance
 * ---- */

static double conv_products(const struct rp_conv *c)
{
    return (double)c->batch * c->out_h * c->out_w * c->out_c * c->kernel_h * c->kernel_w * c->in_c;
}

/* Means over `width` channels of the product of two shares; y NULL: of one. */
static double mean_share(const double *x, double of_x, const double *y, double of_y, long width)
{
    double sum = 0;
    for (long i = 0; i < width; i++)
        sum += x[i] / of_x * (y ? y[i] / of_y : 1);
    return sum / (double)width;
}

static void count_conv_forward(struct rp_dev *dev, float *y, float *mean, const float *x, const float *w,
                               const struct rp_conv *c, float *work)
{
    const long pixels = (long)c->batch * c->in_h * c->in_w, taps = (long)c->out_c * c->kernel_h * c->kernel_w;
    RP_FREE double *of_x = rp_alloc((size_t)c->in_c * sizeof *of_x), *of_w = rp_alloc((size_t)c->in_c * sizeof *of_w);
    count_columns(of_x, x, pixels, c->in_c, c->in_c);
    count_columns(of_w, w, taps, c->in_c, c->in_c);
    add_products(conv_products(c),
                 conv_products(c) * (1 - mean_share(of_x, (double)pixels, of_w, (double)taps, c->in_c)));
    the.op->conv_forward(dev, y, mean, x, w, c, work);
}

static void count_conv_dgrad(struct rp_dev *dev, float *dx, const float *dy, const float *w, const float *add,
                             const struct rp_conv *c)
{
    const long pixels = (long)c->batch * c->out_h * c->out_w, taps = (long)c->kernel_h * c->kernel_w * c->in_c;
    RP_FREE double *of_y = rp_alloc((size_t)c->out_c * sizeof *of_y), *of_w = rp_alloc((size_t)c->out_c * sizeof *of_w);
    count_columns(of_y, dy, pixels, c->out_c, c->out_c);
    count_rows(of_w, w, c->out_c, taps, taps);
    add_products(conv_products(c),
                 conv_products(c) * (1 - mean_share(of_y, (double)pixels, of_w, (double)taps, c->out_c)));
    the.op->conv_dgrad(dev, dx, dy, w, add, c);
}

static void count_conv_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, const struct rp_conv *c,
                             float *work)
{
    const long in = (long)c->batch * c->in_h * c->in_w, out = (long)c->batch * c->out_h * c->out_w;
    RP_FREE double *of_x = rp_alloc((size_t)c->in_c * sizeof *of_x), *of_y = rp_alloc((size_t)c->out_c * sizeof *of_y);
    count_columns(of_x, x, in, c->in_c, c->in_c);
    count_columns(of_y, dy, out, c->out_c, c->out_c);
    const double needed =
        mean_share(of_x, (double)in, NULL, 1, c->in_c) * mean_share(of_y, (double)out, NULL, 1, c->out_c);
    add_products(conv_products(c), conv_products(c) * (1 - needed));
    the.op->conv_wgrad(dev, dw, dy, x, c, work);
}

/* ---- attention: a row whose exponentials sum up to 1 has one key; the others' are 0 or absorbed ---- */

static double visible_keys(const struct rp_attention *a, int sample, int query)
{
    double n = 0;
    if (a->causal)
        return query + 1 - (a->first_key ? a->first_key[(long)sample * a->seq + query] : 0);
    for (int k = 0; k < a->seq && a->key_mask; k++)
        n += a->key_mask[(long)sample * a->seq + k] != 0;
    return a->key_mask ? n : a->seq;
}

/* products: of each query and key; spared: of those, with a probability of 0. */
static void count_attention(const struct rp_attention *a, const float *row_inv, double products, double spared)
{
    for (int b = 0; b < a->batch; b++)
        for (int q = 0; q < a->seq; q++) {
            const double keys = visible_keys(a, b, q);
            for (int h = 0; h < a->heads; h++) {
                const int single = row_inv[((long)b * a->heads + h) * a->seq + q] == 1.0f;
                add_products(products * keys * a->head_dim, single ? spared * (keys - 1) * a->head_dim : 0);
            }
        }
}

static void count_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask,
                                    const float *qkv, const struct rp_attention *a)
{
    the.op->attention_forward(dev, o, row_max, row_inv, mask, qkv, a);
    count_attention(a, row_inv, 2, 1);
}

static void count_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    count_attention(g->a, g->row_inv, 5, 4); /* scores once more; dp, dq, dk and dv */
    the.op->attention_backward(dev, g);
}

double rp_products_needed(const struct rp_products *p)
{
    return p->all > 0 ? 1 - p->spared / p->all : NAN;
}

void rp_products_begin(struct rp_dev *dev)
{
    RP_BUG_IF(dev->backend->separate_memory || dev->stored_bytes != sizeof(rp_stored));
    the.op = dev->op;
    the.sum = (struct rp_products){0};
    the.counting = *dev->op;
    the.counting.gemm = count_gemm;
    the.counting.bias_add = count_bias_add;
    the.counting.conv_forward = count_conv_forward;
    the.counting.conv_dgrad = count_conv_dgrad;
    the.counting.conv_wgrad = count_conv_wgrad;
    the.counting.attention_forward = count_attention_forward;
    the.counting.attention_backward = count_attention_backward;
    dev->op = &the.counting;
}

struct rp_products rp_products_end(struct rp_dev *dev)
{
    dev->op = the.op;
    return the.sum;
}
