/* The literal definition of every operation: plain loops over scalars, one rounding per operator. This file is
 * the specification, with its parts reference_low.inc.h (products in mixed precision), reference_attention.inc.h,
 * reference_images.inc.h and reference_whole.inc.h (whole tensors, updates of weights); a backend may compute in any
 * way that produces the same bits. Compiled without contraction. */
#define RP_STORED_TYPE float /* values of 16 bits lie in memory as the fp32 numbers that they are */
#include "ops/ops.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "ops/functions.h"
#include "ops/low.h"
#include "ops/philox.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* dev: plain loops need no device */

/* ---- the two shapes of summation ---- */

/* sum128: element e is added to lane e mod 128, lanes start at +0; then lanes are halved: 64, 32, ... 1. */
struct reference_sum128 {
    float lane[128];
};

static void sum128_start(struct reference_sum128 *s)
{
    for (int l = 0; l < 128; l++)
        s->lane[l] = 0.0f;
}

static void sum128_add(struct reference_sum128 *s, long e, float x)
{
    s->lane[e % 128] = s->lane[e % 128] + x;
}

static float sum128_end(struct reference_sum128 *s)
{
    for (int half = 64; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            s->lane[l] = s->lane[l] + s->lane[l + half];
    return s->lane[0];
}

/* Balanced tree over n >= 1 floats, `stride` apart. */
static float tree(const float *x, long n, long stride)
{
    if (n == 1)
        return x[0];
    long left = rp_tree_split(n);
    float a = tree(x, left, stride), b = tree(x + left * stride, n - left, stride);
    return a + b;
}

/* Column sums of rows whose 64-row sums are already in work[block, width]. */
static void colsum_tree(float *sum, const float *work, long rows, long width)
{
    long blocks = (rows + RP_COLSUM_ROWS - 1) / RP_COLSUM_ROWS;
    for (long j = 0; j < width; j++)
        sum[j] = tree(work + j, blocks, width);
}

/* work[row / 64, j] = work[row / 64, j] + x, from +0 in row order. */
static void colsum_add(float *work, long row, long j, long width, float x)
{
    float *w = work + row / RP_COLSUM_ROWS * width + j;
    *w = (row % RP_COLSUM_ROWS == 0 ? 0.0f : *w) + x;
}

/* ---- what is stored ---- */

#include "ops/reference_low.inc.h"

/* ---- dropout decisions ---- */

static int dropout_on(const struct rp_dropout *d)
{
    return d && d->threshold != 0;
}

/* Decide element (row, col), row counted over the whole tensor, whose samples have `before` rows more on other ranks,
 * before these; and note the decision in the mask. The byte's bits past the width are 0. */
static int decide(uint8_t *mask, const struct rp_dropout *d, long before, long row, long col, long width)
{
    long stride = rp_mask_stride(width), e = (before + row % d->rows_per_sample) * stride + col;
    uint32_t x[4] = {(uint32_t)(e / 4), d->first_sample + (uint32_t)(row / d->rows_per_sample), d->site, d->step};
    rp_philox(x, d->seed);
    int keep = x[e % 4] >= d->threshold;
    uint8_t *row_mask = mask + row * (stride / 8);
    if (col == 0)
        memset(row_mask, 0, (size_t)stride / 8);
    row_mask[col / 8] = (uint8_t)(row_mask[col / 8] | keep << (col & 7));
    return keep;
}

static int decided(const uint8_t *mask, long row, long col, long width)
{
    return mask[row * (rp_mask_stride(width) / 8) + col / 8] >> (col & 7) & 1;
}

/* ---- matrix product ---- */

static void ref_gemm(struct rp_dev *dev, const struct rp_gemm *g)
{
    if (is_mixed(dev)) {
        low_gemm(dev, g);
        return;
    }
    int length = g->segment ? g->segment : g->k;
    for (long i = 0; i < g->m; i++)
        for (long j = 0; j < g->n; j++) {
            float total = 0.0f;
            for (int k0 = 0; k0 < g->k; k0 += length) {
                int end = g->k - k0 < length ? g->k : k0 + length;
                float s = 0.0f;
                for (long k = k0; k < end; k++)
                    s = __builtin_fmaf(g->ta ? g->a[k * g->lda + i] : g->a[i * g->lda + k],
                                       g->tb ? g->b[j * g->ldb + k] : g->b[k * g->ldb + j], s);
                s = s + 0.0f;
                total = k0 == 0 ? s : total + s;
            }
            gemm_end(dev, g, i, j, total);
        }
}

/* ---- rows ---- */

static void ref_embed_forward(struct rp_dev *dev, float *z, const int32_t *ids, const int32_t *type_ids,
                              const int32_t *position_ids, const float *word, const float *type, const float *position,
                              int rows, int seq, int width)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            float x = word[(long)ids[r] * width + j];
            if (type)
                x = x + type[(long)type_ids[r] * width + j];
            z[r * width + j] = stored(dev, x + position[(position_ids ? position_ids[r] : r % seq) * width + j]);
        }
}

/* xhat of element i of row r, from what was kept. */
static float xhat_of(const struct rp_dev *dev, const rp_stored *kept, const float *mean, const float *rstd, long r,
                     long i)
{
    return is_mixed(dev) ? (kept[i] - mean[r]) * rstd[r] : kept[i];
}

/* Row r: z -> y, statistics, what is kept, which may be z. */
static void layernorm_row(const struct rp_dev *dev, const struct rp_layernorm *n, long r, const float *z)
{
    struct reference_sum128 s;
    long width = n->width;
    float inv = 1.0f / (float)width;
    sum128_start(&s);
    for (long j = 0; j < width; j++)
        sum128_add(&s, j, z[j]);
    float mean = sum128_end(&s) * inv;
    sum128_start(&s);
    for (long j = 0; j < width; j++) {
        float d = z[j] - mean;
        sum128_add(&s, j, d * d);
    }
    float var = sum128_end(&s) * inv;
    n->rstd[r] = 1.0f / __builtin_sqrtf(var + n->eps);
    if (is_mixed(dev))
        n->mean[r] = mean;
    for (long j = 0; j < width; j++) {
        const float xhat = (z[j] - mean) * n->rstd[r];
        n->kept[r * width + j] = is_mixed(dev) ? z[j] : xhat;
        n->y[r * width + j] = stored(dev, __builtin_fmaf(xhat, n->gamma[j], n->beta[j]));
    }
}

static void ref_layernorm_forward(struct rp_dev *dev, const struct rp_layernorm *n)
{
    for (long r = 0, width = n->width; r < n->rows; r++)
        layernorm_row(dev, n, r, n->x + r * width);
}

static void ref_residual_layernorm_forward(struct rp_dev *dev, const struct rp_layernorm *n)
{
    for (long r = 0, width = n->width; r < n->rows; r++) {
        float *sum = n->kept + r * width;
        for (long j = 0; j < width; j++) {
            float h = n->x[r * width + j];
            if (dropout_on(n->drop))
                h = decide(n->mask, n->drop, 0, r, j, width) ? h * n->drop->scale : 0.0f;
            sum[j] = stored(dev, h + n->residual[r * width + j]);
            if (n->z)
                n->z[r * width + j] = sum[j];
        }
        layernorm_row(dev, n, r, sum);
    }
}

static void ref_layernorm_apply(struct rp_dev *dev, const struct rp_layernorm *n)
{
    for (long r = 0, width = n->width; r < n->rows; r++)
        for (long j = 0; j < width; j++) {
            const float xhat = xhat_of(dev, n->kept, n->mean, n->rstd, r, r * width + j);
            n->y[r * width + j] = stored(dev, __builtin_fmaf(xhat, n->gamma[j], n->beta[j]));
        }
}

static void ref_layernorm_backward(struct rp_dev *dev, const struct rp_layernorm_grad *g)
{
    long width = g->width, n = (long)rp_colsum_work(g->rows, width);
    float inv = 1.0f / (float)width, *work = g->work;
    for (long r = 0; r < g->rows; r++) {
        struct reference_sum128 sum1, sum2;
        sum128_start(&sum1);
        sum128_start(&sum2);
        for (long j = 0; j < width; j++) {
            float dy = g->dy[r * width + j], dh = dy * g->gamma[j];
            float h = xhat_of(dev, g->kept, g->mean, g->rstd, r, r * width + j);
            sum128_add(&sum1, j, dh);
            sum128_add(&sum2, j, dh * h);
            colsum_add(work, r, j, width, dy * h);
            colsum_add(work + n, r, j, width, dy);
        }
        float s1 = sum128_end(&sum1) * inv, s2 = sum128_end(&sum2) * inv;
        for (long j = 0; j < width; j++) {
            long i = r * width + j;
            float dh = g->dy[i] * g->gamma[j];
            float d = __builtin_fmaf(-xhat_of(dev, g->kept, g->mean, g->rstd, r, i), s2, dh - s1) * g->rstd[r];
            if (g->add)
                d = d + g->add[i];
            d = stored(dev, d);
            float e = d;
            if (dropout_on(g->drop))
                e = stored(dev, decided(g->mask, r, j, width) ? d * g->drop->scale : 0.0f);
            g->dz[i] = d;
            if (g->dx)
                g->dx[i] = e;
            if (g->dbias)
                colsum_add(work + 2 * n, r, j, width, e);
        }
    }
    colsum_tree(g->dgamma, work, g->rows, width);
    colsum_tree(g->dbeta, work + n, g->rows, width);
    if (g->dbias)
        colsum_tree(g->dbias, work + 2 * n, g->rows, width);
}

static void ref_dropout_forward(struct rp_dev *dev, float *y, uint8_t *mask, const float *x,
                                const struct rp_dropout *drop, int rows, int width)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            float v = x[r * width + j];
            if (dropout_on(drop))
                v = decide(mask, drop, 0, r, j, width) ? v * drop->scale : 0.0f;
            y[r * width + j] = stored(dev, v);
        }
}

static void ref_dropout_backward(struct rp_dev *dev, float *dx, const float *dy, const uint8_t *mask,
                                 const struct rp_dropout *drop, int rows, int width)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            float v = dy[r * width + j];
            if (dropout_on(drop))
                v = decided(mask, r, j, width) ? v * drop->scale : 0.0f;
            dx[r * width + j] = stored(dev, v);
        }
}

static void ref_gelu_forward(struct rp_dev *dev, float *g, const float *u, int rows, int width)
{
    for (long i = 0; i < (long)rows * width; i++)
        g[i] = stored(dev, r_gelu(u[i]));
}

static void ref_gelu_backward(struct rp_dev *dev, float *du, float *dbias, const float *dg, const float *u, int rows,
                              int width, float *work)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            long i = r * width + j;
            du[i] = stored(dev, dg[i] * r_gelu_grad(u[i]));
            colsum_add(work, r, j, width, du[i]);
        }
    colsum_tree(dbias, work, rows, width);
}

static void ref_gelu_tanh_forward(struct rp_dev *dev, float *g, const float *u, int rows, int width)
{
    for (long i = 0; i < (long)rows * width; i++)
        g[i] = stored(dev, r_gelu_tanh(u[i]));
}

static void ref_gelu_tanh_backward(struct rp_dev *dev, float *du, float *dbias, const float *dg, const float *u,
                                   int rows, int width, float *work)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            long i = r * width + j;
            du[i] = stored(dev, dg[i] * r_gelu_tanh_grad(u[i]));
            colsum_add(work, r, j, width, du[i]);
        }
    colsum_tree(dbias, work, rows, width);
}

static void ref_tanh_forward(struct rp_dev *dev, float *y, const float *x, int rows, int width)
{
    for (long i = 0; i < (long)rows * width; i++)
        y[i] = stored(dev, r_tanh(x[i]));
}

static void ref_tanh_backward(struct rp_dev *dev, float *dx, float *dbias, const float *dy, const float *y, int rows,
                              int width, float *work)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++) {
            long i = r * width + j;
            dx[i] = stored(dev, dy[i] * __builtin_fmaf(-y[i], y[i], 1.0f));
            colsum_add(work, r, j, width, dx[i]);
        }
    colsum_tree(dbias, work, rows, width);
}

static void ref_colsum(struct rp_dev *dev, float *dbias, const float *dy, int rows, int width, float *work)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++)
            colsum_add(work, r, j, width, dy[r * width + j]);
    colsum_tree(dbias, work, rows, width);
}

static void ref_bias_add(struct rp_dev *dev, float *y, const float *x, const float *bias, int rows, int width)
{
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < width; j++)
            y[r * width + j] = stored(dev, x[r * width + j] + bias[j]);
}

/* ---- attention ---- */

#include "ops/reference_attention.inc.h"

/* ---- gathering rows and adding them up ---- */

static void ref_gather_rows(struct rp_dev *dev, float *y, const float *x, const int32_t *index, int n, int width)
{
    for (long i = 0; i < n; i++)
        for (long j = 0; j < width; j++)
            y[i * width + j] = x[(long)index[i] * width + j];
}

static void ref_copy_columns(struct rp_dev *dev, void *dst, long ldd, const void *src, long lds, int rows, int cols,
                             int bytes)
{
    for (long r = 0; r < rows; r++)
        memcpy((char *)dst + r * ldd * bytes, (const char *)src + r * lds * bytes, (size_t)cols * (size_t)bytes);
}

static float row_tree(const float *src, const int32_t *source, long n, long j, long width)
{
    if (n == 1)
        return src[(long)source[0] * width + j];
    long left = rp_tree_split(n);
    float a = row_tree(src, source, left, j, width), b = row_tree(src, source + left, n - left, j, width);
    return a + b;
}

static void ref_row_sums(struct rp_dev *dev, float *dst, const float *src, const struct rp_row_groups *groups,
                         int width, int add)
{
    for (long g = 0; g < groups->n; g++)
        for (long j = 0; j < width; j++) {
            float *d = dst + (long)groups->key[g] * width + j;
            float t =
                row_tree(src, groups->source + groups->start[g], groups->start[g + 1] - groups->start[g], j, width);
            *d = add ? *d + t : t;
        }
}

/* ---- convolutions and images ---- */

#include "ops/reference_images.inc.h"

/* ---- loss ---- */

/* The tree over the sum128 of each shard of `each` classes; z becomes e. */
static float sum_of_shards(float *z, float m, long shards, long each)
{
    struct reference_sum128 sum;
    long left = shards > 1 ? rp_tree_split(shards) : 0;
    if (left) {
        float a = sum_of_shards(z, m, left, each), b = sum_of_shards(z + left * each, m, shards - left, each);
        return a + b;
    }
    sum128_start(&sum);
    for (long c = 0; c < each; c++) {
        z[c] = r_exp(z[c] - m);
        sum128_add(&sum, c, z[c]);
    }
    return sum128_end(&sum);
}

static void ref_softmax_xent(struct rp_dev *dev, float *loss, float *logits, long ld, const int32_t *labels,
                             const float *coef, float scale, int n, int classes, int shards)
{
    for (long i = 0; i < n; i++) {
        const float each = coef[i] * scale;
        float *z = logits + i * ld, m = -__builtin_inff();
        for (long c = 0; c < classes; c++)
            m = z[c] > m ? z[c] : m;
        m = m + 0.0f;
        float at_label = z[labels[i]] - m;
        float l = sum_of_shards(z, m, shards, classes / shards), inv = 1.0f / l;
        loss[i] = r_log(l) - at_label;
        for (long c = 0; c < classes; c++)
            z[c] = stored(dev, (z[c] * inv - (c == labels[i] ? 1.0f : 0.0f)) * each);
    }
}

static void ref_softmax_xent_smoothed(struct rp_dev *dev, float *loss, float *logits, long ld, const int32_t *labels,
                                      const float *coef, float scale, int n, int classes, float smoothing)
{
    const float share = 1.0f / (float)classes, rest = 1.0f - smoothing, each = smoothing * share;
    for (long i = 0; i < n; i++) {
        float *z = logits + i * ld, m = -__builtin_inff();
        struct reference_sum128 sum;
        sum128_start(&sum);
        for (long c = 0; c < classes; c++) {
            m = z[c] > m ? z[c] : m;
            sum128_add(&sum, c, z[c]);
        }
        m = m + 0.0f;
        const float mean = sum128_end(&sum) * share, at_label = z[labels[i]] - m;
        const float l = sum_of_shards(z, m, 1, classes), inv = 1.0f / l, log = r_log(l);
        loss[i] = __builtin_fmaf(smoothing, log - (mean - m), rest * (log - at_label));
        for (long c = 0; c < classes; c++)
            z[c] = stored(dev, (z[c] * inv - each - (c == labels[i] ? rest : 0.0f)) * (coef[i] * scale));
    }
}

static void ref_weighted_sum(struct rp_dev *dev, float *out, const float *loss, const float *coef, int n)
{
    struct reference_sum128 sum;
    sum128_start(&sum);
    for (long i = 0; i < n; i++)
        sum128_add(&sum, i, coef[i] * loss[i]);
    out[0] = sum128_end(&sum);
}

/* ---- whole tensors ---- */

#include "ops/reference_whole.inc.h"

const struct rp_ops rp_reference_ops = {
#define OP(name, types, args, names) .name = ref_##name,
#include "ops/ops.def"
#undef OP
};

const struct rp_op_info rp_op_info[RP_OP_COUNT] = {
#define OP(name, types, args, names) {#name, types},
#include "ops/ops.def"
#undef OP
};
