/* The definitions themselves: gradients against finite differences, dropout's statistics, special values, orders of
 * summation.
 *
 * The operations of a device equal rp_reference_ops bit for bit (test_bits.c), so it is the reference that is checked
 * here. */
#include "backend/cpu/inner.h"
#include "base/hash.h"
#include "ops/functions.h"
#include "tests/ops/device.h"
#include "tests/ops/gradient.h"

#include <math.h>
#include <stdlib.h>

static const struct rp_ops *const ref = &rp_reference_ops;

/* ---- layer norm, with dropout before it ---- */

enum { LR = 5, LW = 33 };

struct norm {
    const float *gamma, *beta, *residual, *dy;
    const float *add; /* the gradient of z from its other uses, or NULL */
    const uint8_t *mask; /* NULL: none */
    double scale;
    const float *x;
};

static double norm_loss(const double *x, const double *gamma, const double *beta, const double *bias,
                        const struct norm *o)
{
    double sum = 0;
    for (int r = 0; r < LR; r++) {
        double z[LW], mean = 0, var = 0;
        for (int j = 0; j < LW; j++) {
            double h = (x ? x[r * LW + j] : (double)o->x[r * LW + j]) + (bias ? bias[j] : 0);
            if (o->mask)
                h = o->mask[r * 16 + j / 8] >> (j & 7) & 1 ? h * o->scale : 0;
            z[j] = h + (double)o->residual[r * LW + j];
            mean += z[j] / LW;
            sum += o->add ? (double)o->add[r * LW + j] * z[j] : 0;
        }
        for (int j = 0; j < LW; j++)
            var += (z[j] - mean) * (z[j] - mean) / LW;
        for (int j = 0; j < LW; j++)
            sum += (double)o->dy[r * LW + j] *
                   ((z[j] - mean) / sqrt(var + 1e-5) * (gamma ? gamma[j] : (double)o->gamma[j]) +
                    (beta ? beta[j] : (double)o->beta[j]));
    }
    return sum;
}

static double norm_of_x(const double *x, const void *arg) { return norm_loss(x, NULL, NULL, NULL, arg); }
static double norm_of_gamma(const double *x, const void *arg) { return norm_loss(NULL, x, NULL, NULL, arg); }
static double norm_of_beta(const double *x, const void *arg) { return norm_loss(NULL, NULL, x, NULL, arg); }
static double norm_of_bias(const double *x, const void *arg) { return norm_loss(NULL, NULL, NULL, x, arg); }

TEST(layernorm_gradient)
{
    float x[LR * LW], residual[LR * LW], gamma[LW], beta[LW], dy[LR * LW], y[LR * LW], xhat[LR * LW], rstd[LR],
        dz[LR * LW], dx[LR * LW];
    float dgamma[LW], dbeta[LW], dbias[LW], work[3 * LW], none[LW] = {0}, add[LR * LW], z[LR * LW];
    uint8_t mask[LR * 16];
    for (int i = 0; i < 4; i++) {
        int on = i & 1, prenorm = i >> 1;
        struct rp_dropout d = {.seed = 4, .rows_per_sample = LR, .threshold = on ? 1u << 30 : 0, .scale = 1.0f / 0.75f};
        fill_noise(x, LR * LW, 2, 1);
        fill_noise(residual, LR * LW, 2, 2);
        fill_noise(gamma, LW, 2, 3);
        fill_noise(beta, LW, 2, 4);
        fill_noise(dy, LR * LW, 1, 5);
        fill_noise(add, LR * LW, 1, 6);
        const struct rp_layernorm n = {.rows = LR, .width = LW, .eps = 1e-5f, .x = x, .residual = residual, .drop = &d,
                                       .gamma = gamma, .beta = beta, .y = y, .kept = xhat, .rstd = rstd,
                                       .z = prenorm ? z : NULL, .mask = mask};
        const struct rp_layernorm_grad g = {.rows = LR, .width = LW, .dy = dy, .add = prenorm ? add : NULL,
                                            .kept = xhat, .rstd = rstd, .gamma = gamma, .drop = &d, .mask = mask,
                                            .dz = dz, .dx = dx, .dgamma = dgamma, .dbeta = dbeta, .dbias = dbias,
                                            .work = work};
        ref->residual_layernorm_forward(NULL, &n);
        ref->layernorm_backward(NULL, &g);
        struct norm o = {.gamma = gamma, .beta = beta, .residual = residual, .dy = dy, .add = prenorm ? add : NULL,
                         .mask = on ? mask : NULL, .scale = (double)d.scale, .x = x};
        check_gradient("dx", norm_of_x, &o, x, dx, LR * LW);
        check_gradient("dgamma", norm_of_gamma, &o, gamma, dgamma, LW);
        check_gradient("dbeta", norm_of_beta, &o, beta, dbeta, LW);
        check_gradient("dbias", norm_of_bias, &o, none, dbias, LW);
        if (!on)
            CHECK(!memcmp(dz, dx, sizeof dz));
        for (int j = 0; prenorm && j < LR * LW; j++) {
            int keep = !on || (mask[j / LW * 16 + j % LW / 8] >> (j % LW & 7) & 1);
            CHECK(z[j] == (keep ? (on ? x[j] * d.scale : x[j]) : 0) + residual[j], "element %d of the sum is %a", j,
                  (double)z[j]);
        }
        ref->layernorm_apply(
            NULL, &(struct rp_layernorm){.rows = LR, .width = LW, .gamma = gamma, .beta = beta, .y = dz, .kept = xhat});
        CHECK(!memcmp(dz, y, sizeof y), "a layer norm's output again");
    }
}

/* ---- activations and dropout ---- */

enum { AN = 97 };

static double gelu_loss(const double *x, const void *arg)
{
    const float *dy = arg;
    double sum = 0;
    for (int i = 0; i < AN; i++)
        sum += (double)dy[i] * x[i] * 0.5 * erfc(-x[i] / sqrt(2.0));
    return sum;
}

static double gelu_tanh_loss(const double *x, const void *arg)
{
    const float *dy = arg;
    double sum = 0;
    for (int i = 0; i < AN; i++)
        sum += (double)dy[i] * x[i] * 0.5 * (1 + tanh(sqrt(2 / M_PI) * (x[i] + 0.044715 * x[i] * x[i] * x[i])));
    return sum;
}

static double tanh_loss(const double *x, const void *arg)
{
    const float *dy = arg;
    double sum = 0;
    for (int i = 0; i < AN; i++)
        sum += (double)dy[i] * tanh(x[i]);
    return sum;
}

TEST(activation_gradients)
{
    float x[AN], y[AN], dy[AN], dx[AN], dbias[AN], work[AN];
    fill_noise(x, AN, 4, 1);
    fill_noise(dy, AN, 1, 2);
    ref->gelu_backward(NULL, dx, dbias, dy, x, 1, AN, work);
    check_gradient("gelu", gelu_loss, dy, x, dx, AN);
    CHECK(!memcmp(dx, dbias, sizeof dx), "the column sums of one row are the row");
    ref->gelu_tanh_backward(NULL, dx, dbias, dy, x, 1, AN, work);
    check_gradient("tanh GELU", gelu_tanh_loss, dy, x, dx, AN);
    CHECK(!memcmp(dx, dbias, sizeof dx), "the column sums of one row are the row");
    ref->tanh_forward(NULL, y, x, 1, AN);
    ref->tanh_backward(NULL, dx, dbias, dy, y, 1, AN, work);
    check_gradient("tanh", tanh_loss, dy, x, dx, AN);
}

/* The backward pass keeps exactly what the forward pass kept, and the rate is what was asked for: within 5 standard
 * deviations. */
TEST(dropout_rate_and_decisions)
{
    enum { ROWS = 200, WIDTH = 301 };
    static float ones[ROWS * WIDTH], y[ROWS * WIDTH], dx[ROWS * WIDTH];
    static uint8_t mask[ROWS * 48];
    for (int i = 0; i < ROWS * WIDTH; i++)
        ones[i] = 1;
    for (int step = 0; step < 4; step++) {
        double p = step == 3 ? 0.5 : 0.1, n = ROWS * WIDTH, dropped = 0, pairs = 0;
        struct rp_dropout d = {.seed = 99, .step = (uint32_t)step, .rows_per_sample = 20,
                               .threshold = (uint32_t)(p * 4294967296.0), .scale = (float)(1 / (1 - p))};
        ref->dropout_forward(NULL, y, mask, ones, &d, ROWS, WIDTH);
        ref->dropout_backward(NULL, dx, ones, mask, &d, ROWS, WIDTH);
        CHECK(!memcmp(y, dx, sizeof y));
        for (int i = 0; i < ROWS * WIDTH; i++) {
            CHECK(y[i] == 0 || y[i] == d.scale);
            dropped += y[i] == 0;
            pairs += i && y[i] == 0 && y[i - 1] == 0;
        }
        CHECK(fabs(dropped - n * p) < 5 * sqrt(n * p * (1 - p)), "rate %g of %g", dropped / n, p);
        CHECK(fabs(pairs - n * p * p) < 8 * sqrt(n * p * p), "neighbours dropped together: %g, expected %g", pairs,
              n * p * p);
    }
}

/* Samples are counted over the global batch: two halves of a batch, done apart, decide as the whole does. */
TEST(dropout_does_not_depend_on_the_grouping)
{
    enum { ROWS = 24, WIDTH = 77, BYTES = 16 };
    float x[ROWS * WIDTH], whole[ROWS * WIDTH], parts[ROWS * WIDTH];
    uint8_t mask_whole[ROWS * BYTES], mask_parts[ROWS * BYTES];
    struct rp_dropout d = {.seed = 5, .step = 1, .site = 2, .first_sample = 10, .rows_per_sample = 4,
                           .threshold = 1u << 30, .scale = 1.25f};
    fill_noise(x, ROWS * WIDTH, 1, 8);
    ref->dropout_forward(NULL, whole, mask_whole, x, &d, ROWS, WIDTH);
    ref->dropout_forward(NULL, parts, mask_parts, x, &d, 8, WIDTH);
    d.first_sample += 2;
    ref->dropout_forward(NULL, parts + 8 * WIDTH, mask_parts + 8 * BYTES, x + 8 * WIDTH, &d, ROWS - 8, WIDTH);
    CHECK(!memcmp(whole, parts, sizeof whole) && !memcmp(mask_whole, mask_parts, sizeof mask_whole));
}

/* ---- attention ---- */

enum { AB = 2, AS = 9, AH = 2, AD = 5, AW = AH * AD, AROWS = AB * AS };

struct att {
    const float *d_o;
    const uint8_t *keys, *mask; /* keys NULL: causal; mask NULL: no dropout */
    const int32_t *first;       /* causal: NULL: 0 */
    double scale, keep_scale;
};

static double attention_loss(const double *qkv, const void *arg)
{
    const struct att *o = arg;
    double sum = 0;
    for (int bh = 0; bh < AB * AH; bh++)
        for (int q = 0; q < AS; q++) {
            int b = bh / AH, first = b * AS, column = bh % AH * AD;
            double p[AS], l = 0;
            for (int k = 0; k < AS; k++) {
                double s = 0;
                for (int d = 0; d < AD; d++)
                    s += qkv[(first + q) * 3 * AW + column + d] * qkv[(first + k) * 3 * AW + AW + column + d];
                p[k] = (o->keys ? o->keys[first + k] : k <= q && (!o->first || k >= o->first[first + q]))
                           ? exp(s * o->scale)
                           : 0;
                l += p[k];
            }
            for (int k = 0; k < AS; k++) {
                double pd = p[k] / l;
                if (o->mask)
                    pd = o->mask[(bh * AS + q) * 16 + k / 8] >> (k & 7) & 1 ? pd * o->keep_scale : 0;
                for (int d = 0; d < AD; d++)
                    sum += pd * qkv[(first + k) * 3 * AW + 2 * AW + column + d] *
                           (double)o->d_o[(first + q) * AW + column + d];
            }
        }
    return sum;
}

TEST(attention_gradient)
{
    float qkv[AROWS * 3 * AW], d_o[AROWS * AW], out[AROWS * AW], dqkv[AROWS * 3 * AW], dbias[3 * AW], work[3 * AW];
    float row_max[AB * AH * AS], row_inv[AB * AH * AS];
    uint8_t keys[AROWS], mask[AB * AH * AS * 16];
    static const int32_t firsts[AROWS] = {0, 0, 0, 0, 4, 4, 4, 7, 8, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    fill_noise(qkv, AROWS * 3 * AW, 2, 1);
    fill_noise(d_o, AROWS * AW, 1, 2);
    for (int i = 0; i < AROWS; i++)
        keys[i] = i % AS < 7 - i / AS && i % 4 != 1; /* shorter than the sequence, and with holes */
    for (int i = 0; i < 6; i++) {
        int on = i & 1, causal = i >> 1 != 0;
        struct rp_attention a = {
            .batch = AB, .seq = AS, .heads = AH, .head_dim = AD, .scale = 1.0f / sqrtf(AD), .causal = causal,
            .key_mask = causal ? NULL : keys, .first_key = i >> 1 == 2 ? firsts : NULL,
            .drop = {.seed = 3, .rows_per_sample = AH * AS, .threshold = on ? 1u << 30 : 0, .scale = 1.0f / 0.75f}};
        ref->attention_forward(NULL, out, row_max, row_inv, mask, qkv, &a);
        const struct rp_attention_grad g = {.a = &a, .d_o = d_o, .qkv = qkv, .o = out, .row_max = row_max,
                                            .row_inv = row_inv, .mask = mask, .dqkv = dqkv, .dbias = dbias,
                                            .work = work};
        ref->attention_backward(NULL, &g);
        struct att o = {d_o, a.key_mask, on ? mask : NULL, a.first_key, (double)a.scale, (double)a.drop.scale};
        check_gradient(a.first_key ? "dqkv, documents"
                       : causal    ? "dqkv, causal"
                                   : "dqkv",
                       attention_loss, &o, qkv, dqkv, AROWS * 3 * AW);
        for (int r = 0; r < AROWS; r++)
            for (int j = AW; j < 3 * AW && !causal && !keys[r]; j++)
                CHECK(r_bits(dqkv[r * 3 * AW + j]) == 0, "a masked key has gradient %a", (double)dqkv[r * 3 * AW + j]);
        for (int r = 0; r < AB * AH * AS && on && causal; r++)
            for (int k = r % AS + 1; k < 128; k++)
                CHECK(!(mask[r * 16 + k / 8] >> (k & 7) & 1), "row %d has a decision for key %d", r, k);
    }
}

/* ---- loss ---- */

enum { XN = 3, XC = 42 };

struct xent {
    const int32_t *labels;
    const float *coef;
};

static double xent_loss(const double *z, const void *arg)
{
    const struct xent *o = arg;
    double sum = 0;
    for (int i = 0; i < XN; i++) {
        double l = 0;
        for (int c = 0; c < XC; c++)
            l += exp(z[i * XC + c]);
        sum += (double)o->coef[i] * (log(l) - z[i * XC + o->labels[i]]);
    }
    return sum;
}

TEST(cross_entropy_gradient_and_value)
{
    float z[XN * XC], logits[XN * XC], loss[XN], coef[XN] = {0.5f, 0.25f, 0.0f}, total;
    double x[XN * XC];
    const int32_t labels[XN] = {0, XC - 1, 7};
    struct xent o = {labels, coef};
    for (int shards = 1; shards <= 7; shards += shards == 1 ? 2 : 4) { /* 1, 3, 7 */
        fill_noise(z, XN * XC, 5, 1);
        memcpy(logits, z, sizeof z);
        ref->softmax_xent(NULL, loss, logits, XC, labels, coef, 1.0f, XN, XC, shards);
        ref->weighted_sum(NULL, &total, loss, coef, XN);
        for (int i = 0; i < XN * XC; i++)
            x[i] = (double)z[i];
        check_gradient("dlogits", xent_loss, &o, z, logits, XN * XC);
        CHECK(fabs((double)total - xent_loss(x, &o)) < 1e-6 * fabs(xent_loss(x, &o)), "%d shards: %a", shards,
              (double)total);
    }
}

/* A shard's sum has lanes of its own; the tree over shards splits at a power of two. */
TEST(cross_entropy_sums_shards_in_a_tree)
{
    enum { C = 3 * 200 };
    float z[C], e[C], loss, one = 1, sum[3] = {0};
    const int32_t label = 0;
    fill_noise(z, C, 2, 1);
    z[0] = 3;
    for (int c = 0; c < C; c++)
        e[c] = r_exp(z[c] - 3.0f);
    for (int s = 0; s < 3; s++) {
        float lane[128] = {0};
        for (int c = 0; c < 200; c++)
            lane[c % 128] = lane[c % 128] + e[s * 200 + c];
        ref->weighted_sum(NULL, &sum[s], lane, (float[128]){[0 ... 127] = 1}, 128);
    }
    ref->softmax_xent(NULL, &loss, z, C, &label, &one, 1.0f, 1, C, 3);
    CHECK(loss == r_log((sum[0] + sum[1]) + sum[2]) - 0.0f, "%a", (double)loss);
}

/* <gather(x), y> = <x, row_sums(y)>: the sums are the gradient of the gathering, and adding adds. */
TEST(row_sums_are_the_gradient_of_gathering)
{
    enum { V = 6, N = 11, D = 3 };
    const int32_t index[N] = {4, 1, 1, 0, 4, 4, 1, 5, 4, 1, 4};
    const int32_t key[4] = {0, 1, 4, 5}, start[5] = {0, 1, 5, 10, 11}, source[N] = {3, 1, 2, 6, 9, 0, 4, 5, 8, 10, 7};
    struct rp_row_groups g = {4, key, start, source};
    float x[V * D], y[N * D], gathered[N * D], dx[V * D] = {0}, twice[V * D];
    double a = 0, b = 0;
    fill_noise(x, V * D, 1, 1);
    fill_noise(y, N * D, 1, 2);
    ref->gather_rows(NULL, gathered, x, index, N, D);
    ref->row_sums(NULL, dx, y, &g, D, 0);
    for (int i = 0; i < N * D; i++)
        a += (double)gathered[i] * (double)y[i];
    for (int i = 0; i < V * D; i++)
        b += (double)x[i] * (double)dx[i];
    CHECK(fabs(a - b) < 1e-5, "%g %g", a, b);
    memcpy(twice, dx, sizeof dx);
    ref->row_sums(NULL, twice, y, &g, D, 1);
    for (int i = 0; i < V * D; i++)
        CHECK(twice[i] == 2 * dx[i]);
}

/* ---- orders that another order would not give ---- */

TEST(tree_splits_at_the_largest_power_of_two)
{
    float x[7] = {0x1p24f, 1, 1, 1, -0x1p24f, 1, 1}, y;
    ref->tree_sum(NULL, &y, x, 7);
    CHECK(y == (((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + x[6])), "%a", (double)y);
    CHECK(rp_tree_split(2) == 1 && rp_tree_split(3) == 2 && rp_tree_split(5) == 4 && rp_tree_split(8) == 4 &&
          rp_tree_split(9) == 8);
}

TEST(column_sums_are_blocks_then_a_tree)
{
    float x[130], work[3], y, s[3] = {0};
    fill_noise(x, 130, 1, 3);
    for (int i = 0; i < 130; i++)
        s[i / 64] = s[i / 64] + x[i];
    ref->colsum(NULL, &y, x, 130, 1, work);
    CHECK(y == (s[0] + s[1]) + s[2]);
}

/* ---- rule 12, on every instruction set ---- */

TEST(special_values)
{
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        struct rp_dev *dev = device((enum rp_isa)isa, 2);
        if (!dev)
            continue;
        static float x[9000];
        int64_t at;
        float y, nan = NAN, one = 1, loss, z[3] = {NAN, 1, 2};
        int32_t label = 1;
        fill_noise(x, 9000, 1, 1);
        dev->op->find_nonfinite(dev, &at, x, 9000);
        CHECK(at == -1);
        x[8999] = -INFINITY;
        x[4500] = NAN;
        dev->op->find_nonfinite(dev, &at, x, 9000);
        CHECK(at == 4500, "%lld", (long long)at);
        dev->op->find_nonfinite(dev, &at, x, 0);
        CHECK(at == -1);
        dev->op->square_sums(dev, &y, &nan, 1.0f, 1);
        CHECK(isnan(y), "a NaN must reach the norm");
        dev->op->softmax_xent(dev, &loss, z, 3, &label, &one, 1.0f, 1, 3, 1);
        CHECK(isnan(loss), "a NaN among the logits must reach the loss");
        uint8_t a[32], b[32];
        uint32_t odd = 0xffc0dead;
        memcpy(&y, &odd, 4);
        dev->op->digest_leaves(dev, a, &y, 1);
        dev->op->digest_leaves(dev, b, &nan, 1);
        CHECK(!memcmp(a, b, 32), "all NaN are one NaN in a digest");
        y = -0.0f;
        dev->op->digest_leaves(dev, a, &y, 1);
        y = 0;
        dev->op->digest_leaves(dev, b, &y, 1);
        CHECK(memcmp(a, b, 32), "-0 and +0 are two values");
    }
}

/* ---- the reference itself, pinned ---- */

static void check_digest(const char *what, const void *data, size_t size, const char *expected)
{
    char hex[RP_SHA256_HEX];
    rp_sha256_hex(hex, data, size);
    CHECK(!strcmp(hex, expected), "%s: %s", what, hex);
}

/* A reference compiled with contraction would agree with kernels compiled so: these bits are fixed once and for all. */
TEST(reference_bits)
{
    enum { R = 65, C = 240, SEQ = 33, HEADS = 2, DIM = 5, WIDTH = HEADS * DIM };
    static float x[R * C], y[R * C], xhat[R * C], dz[R * C], dx[R * C], rstd[R], gamma[C], beta[C], sums[3 * C],
        work[2 * 3 * C];
    static float qkv[SEQ * 3 * WIDTH], out[SEQ * WIDTH], d_o[SEQ * WIDTH], dqkv[SEQ * 3 * WIDTH], top[HEADS * SEQ],
        inv[HEADS * SEQ];
    static uint8_t mask[R * 32], decisions[HEADS * SEQ * 16], keys[SEQ];
    struct rp_dropout d = {
        .seed = 11, .step = 2, .site = 3, .rows_per_sample = 13, .threshold = 429496729u, .scale = 1 / 0.9f};
    fill_noise(x, R * C, 3, 1);
    fill_noise(dx, R * C, 2, 2);
    fill_noise(gamma, C, 2, 3);
    fill_noise(beta, C, 2, 4);
    const struct rp_layernorm n = {.rows = R, .width = C, .eps = 1e-12f, .x = x, .residual = dx, .drop = &d,
                                   .gamma = gamma, .beta = beta, .y = y, .kept = xhat, .rstd = rstd, .mask = mask};
    ref->residual_layernorm_forward(NULL, &n);
    check_digest("layer norm", y, sizeof y,
                 "87ede696f0b6d86b6d4361375e78ec635cf523032d11a859c83fa7a341996544");
    const struct rp_layernorm_grad g = {.rows = R, .width = C, .dy = y, .kept = xhat, .rstd = rstd, .gamma = gamma,
                                        .drop = &d, .mask = mask, .dz = dz, .dx = dx, .dgamma = sums, .dbeta = sums + C,
                                        .dbias = sums + 2 * C, .work = work};
    ref->layernorm_backward(NULL, &g);
    check_digest("its gradient", dx, sizeof dx,
                 "03f1b993725937abf8b2aee42d6e6e266752f951a171bf991fcb87a19ca11079");
    check_digest("its column sums", sums, sizeof sums,
                 "0e55bf968e3bc09c2b5df05b7b5b352af97e901ff6197b0434e88f960d7d97f3");
    fill_noise(qkv, SEQ * 3 * WIDTH, 3, 5);
    fill_noise(d_o, SEQ * WIDTH, 1, 6);
    memset(keys, 1, sizeof keys);
    keys[4] = keys[32] = 0;
    d.rows_per_sample = HEADS * SEQ;
    struct rp_attention a = {.batch = 1, .seq = SEQ, .heads = HEADS, .head_dim = DIM, .scale = 1.0f / sqrtf(DIM),
                             .key_mask = keys, .drop = d};
    ref->attention_forward(NULL, out, top, inv, decisions, qkv, &a);
    const struct rp_attention_grad gradient = {.a = &a, .d_o = d_o, .qkv = qkv, .o = out, .row_max = top,
                                               .row_inv = inv, .mask = decisions, .dqkv = dqkv, .dbias = sums,
                                               .work = work};
    ref->attention_backward(NULL, &gradient);
    check_digest("attention", out, sizeof out,
                 "dd3f5130c480b9a35e4251101847515e32c14d53137ad3851b04c6c07c4014cd");
    check_digest("its gradient", dqkv, sizeof dqkv,
                 "e4d3cd862d8f1bd7a52e91171cc746813f2ce01bf9731bede695e0cfbd771902");
}
