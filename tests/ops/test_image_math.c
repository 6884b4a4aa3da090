/* The definitions of ResNet's operations: gradients against finite differences, results against the formulas in double
 * precision, special values, orders of summation. As in test_math.c it is the reference that is checked; test_bits.c
 * compares devices with it. */
#include "base/hash.h"
#include "ops/functions.h"
#include "tests/ops/device.h"
#include "tests/ops/gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct rp_ops *const ref = &rp_reference_ops;

#define MOST 4096 /* elements of a tensor here */

/* ---- convolution ---- */

struct conv_case {
    struct rp_conv c;
    const float *x, *w, *dy;
};

static const struct rp_conv convs[] = {
    {2, 5, 6, 3, 5, 6, 4, 3, 3, 1, 1, 1},  /* symmetric padding */
    {1, 8, 7, 5, 4, 4, 3, 3, 3, 2, 1, 1},
    {2, 6, 6, 2, 3, 3, 5, 3, 3, 2, 0, 0},  /* all padding after the image */
    {1, 11, 12, 3, 6, 6, 4, 7, 7, 2, 3, 3},
    {2, 5, 4, 6, 3, 2, 7, 1, 1, 2, 0, 0},  /* pixels that no window takes */
    {2, 4, 3, 6, 4, 3, 5, 1, 1, 1, 0, 0},
    {1, 7, 5, 2, 3, 2, 3, 2, 3, 3, 1, 2},
};
#define CONVS ((int)(sizeof convs / sizeof *convs))

/* Output pixel (n, oh, ow), channel o, in double; x or w replace those of the case. */
static double conv_at(const struct conv_case *e, const double *x, const double *w, int n, int oh, int ow, int o)
{
    const struct rp_conv *c = &e->c;
    double sum = 0;
    for (int kh = 0; kh < c->kernel_h; kh++)
        for (int kw = 0; kw < c->kernel_w; kw++)
            for (int i = 0; i < c->in_c; i++) {
                const int ih = oh * c->stride + kh - c->pad_top, iw = ow * c->stride + kw - c->pad_left;
                if (ih < 0 || iw < 0 || ih >= c->in_h || iw >= c->in_w)
                    continue;
                const int at = ((n * c->in_h + ih) * c->in_w + iw) * c->in_c + i;
                const int wt = ((o * c->kernel_h + kh) * c->kernel_w + kw) * c->in_c + i;
                sum += (x ? x[at] : (double)e->x[at]) * (w ? w[wt] : (double)e->w[wt]);
            }
    return sum;
}

static double conv_loss(const struct conv_case *e, const double *x, const double *w)
{
    double sum = 0;
    const float *dy = e->dy;
    for (int n = 0; n < e->c.batch; n++)
        for (int oh = 0; oh < e->c.out_h; oh++)
            for (int ow = 0; ow < e->c.out_w; ow++)
                for (int o = 0; o < e->c.out_c; o++)
                    sum += (double)*dy++ * conv_at(e, x, w, n, oh, ow, o);
    return sum;
}

static double conv_of_x(const double *x, const void *arg) { return conv_loss(arg, x, NULL); }
static double conv_of_w(const double *x, const void *arg) { return conv_loss(arg, NULL, x); }

TEST(convolution_and_its_gradients)
{
    static float x[MOST], w[MOST], y[MOST], dy[MOST], dx[MOST], dw[MOST], add[MOST], mean[8], work[MOST];
    for (int k = 0; k < CONVS; k++) {
        const struct rp_conv *c = &convs[k];
        const int in = c->batch * c->in_h * c->in_w * c->in_c, rows = (int)rp_conv_rows(c), out = rows * c->out_c;
        const int weights = c->out_c * rp_conv_taps(c);
        const struct conv_case e = {*c, x, w, dy};
        fill_noise(x, in, 1, 1);
        fill_noise(w, weights, 1, 2);
        fill_noise(dy, out, 1, 3);
        fill_noise(add, in, 1, 4);
        ref->conv_forward(NULL, y, mean, x, w, c, work);
        for (int i = 0; i < out; i++) {
            const int r = i / c->out_c, n = r / (c->out_h * c->out_w);
            const double exact = conv_at(&e, NULL, NULL, n, r / c->out_w % c->out_h, r % c->out_w, i % c->out_c);
            CHECK(fabs((double)y[i] - exact) < 2e-5, "case %d, output %d: %g, not %g", k, i, (double)y[i], exact);
        }
        for (int o = 0; o < c->out_c; o++) {
            double sum = 0;
            for (int r = 0; r < rows; r++)
                sum += (double)y[r * c->out_c + o];
            CHECK(fabs((double)mean[o] - sum / rows) < 1e-6, "case %d, mean of channel %d", k, o);
        }
        ref->conv_dgrad(NULL, dx, dy, w, NULL, c);
        check_gradient("dx", conv_of_x, &e, x, dx, in);
        ref->conv_wgrad(NULL, dw, dy, x, c, work);
        check_gradient("dw", conv_of_w, &e, w, dw, weights);
        memcpy(y, dx, sizeof y);
        ref->conv_dgrad(NULL, dx, dy, w, add, c);
        for (int i = 0; i < in; i++)
            CHECK(dx[i] == y[i] + add[i], "case %d, sum %d", k, i);
    }
}

/* Rows 0 and 512 are in two chains, 0 and 4096 in two groups: 2^24 + 1 is 2^24 in one chain; three groups are a tree of
 * two and one. */
TEST(weight_gradients_are_chains_in_groups_in_a_tree)
{
    enum { ROWS = 2 * RP_CONV_GROUP + 1 };
    static float x[ROWS], dy[ROWS], work[3], dw;
    const struct rp_conv c = {1, 1, ROWS, 1, 1, ROWS, 1, 1, 1, 1, 0, 0};
    static const struct {
        int at[3];
        float value[3], sum;
    } cases[] = {
        {{0, 1, 2}, {0x1p24f, 1, 1}, 0x1p24f},                              /* one chain */
        {{0, 512, 513}, {0x1p24f, 1, 1}, 0x1p24f + 2},                      /* two chains */
        {{0, 512, 1024}, {0x1p24f, 1, 1}, 0x1p24f},                         /* three, in order */
        {{0, RP_CONV_GROUP, RP_CONV_GROUP + 512}, {0x1p24f, 1, 1}, 0x1p24f + 2}, /* the second group first */
        {{0, RP_CONV_GROUP, 2 * RP_CONV_GROUP}, {0x1p24f, 1, 1}, 0x1p24f},  /* (a + b) + c */
    };
    for (int k = 0; k < (int)(sizeof cases / sizeof *cases); k++) {
        for (int i = 0; i < ROWS; i++) {
            x[i] = 0;
            dy[i] = 1;
        }
        for (int i = 0; i < 3; i++)
            x[cases[k].at[i]] = cases[k].value[i];
        ref->conv_wgrad(NULL, &dw, dy, x, &c, work);
        CHECK(dw == cases[k].sum, "case %d: %a", k, (double)dw);
    }
}

/* A 3x3 data gradient over 520 channels at stride 2: chains end within taps, and absent taps count. */
TEST(absent_terms_count_where_chains_end)
{
    enum { OC = 520 };
    static float dy[4 * OC], w[OC * 9], dx[16];
    const struct rp_conv c = {1, 4, 4, 1, 2, 2, OC, 3, 3, 2, 1, 1};
    /* pixel (0, 0) has tap 4 alone: k from 4 * 520 = 2080 to 2599, all in the second chain of 2048..4095 */
    for (int o = 0; o < OC; o++) {
        dy[o] = o == 0 ? 0x1p24f : o < 3 ? 1.0f : 0.0f;
        for (int t = 0; t < 9; t++)
            w[o * 9 + t] = 1;
    }
    ref->conv_dgrad(NULL, dx, dy, w, NULL, &c);
    CHECK(dx[0] == 0x1p24f, "%a", (double)dx[0]);
    /* pixel (1, 1) has taps 8, 6, 2, 0 of the four output pixels; tap 0 begins the first chain, tap 8 (from 4160) is in
     * the third */
    memset(dy, 0, sizeof dy);
    dy[3 * OC] = 0x1p24f;                /* output (1, 1), tap 0 */
    dy[0] = dy[1] = 1;                   /* output (0, 0), tap 8 */
    ref->conv_dgrad(NULL, dx, dy, w, NULL, &c);
    CHECK(dx[5] == 0x1p24f + 2, "%a", (double)dx[5]);
}

/* ---- batch norm ---- */

enum { BR = 70, BW = 7, BN = BR * BW };

struct batch_case {
    const float *x, *gamma, *beta, *add, *dy;
    int relu;
};

static double batch_loss(const struct batch_case *e, const double *x, const double *gamma, const double *beta,
                         const double *add)
{
    double sum = 0;
    for (int j = 0; j < BW; j++) {
        double mean = 0, var = 0;
        for (int r = 0; r < BR; r++)
            mean += (x ? x[r * BW + j] : (double)e->x[r * BW + j]) / BR;
        for (int r = 0; r < BR; r++)
            var += pow((x ? x[r * BW + j] : (double)e->x[r * BW + j]) - mean, 2) / BR;
        for (int r = 0; r < BR; r++) {
            const int i = r * BW + j;
            double y =
                ((x ? x[i] : (double)e->x[i]) - mean) / sqrt(var + 1e-5) * (gamma ? gamma[j] : (double)e->gamma[j]) +
                (beta ? beta[j] : (double)e->beta[j]);
            if (e->add)
                y += add ? add[i] : (double)e->add[i];
            sum += (double)e->dy[i] * (e->relu && y < 0 ? 0 : y);
        }
    }
    return sum;
}

static double batch_of_x(const double *x, const void *arg) { return batch_loss(arg, x, NULL, NULL, NULL); }
static double batch_of_gamma(const double *x, const void *arg) { return batch_loss(arg, NULL, x, NULL, NULL); }
static double batch_of_beta(const double *x, const void *arg) { return batch_loss(arg, NULL, NULL, x, NULL); }
static double batch_of_add(const double *x, const void *arg) { return batch_loss(arg, NULL, NULL, NULL, x); }

TEST(batch_norm_and_its_gradients)
{
    float x[BN], y[BN], again[BN], dy[BN], dx[BN], dadd[BN], add[BN], gamma[BW], beta[BW], mean[BW], var[BW], rstd[BW];
    float dgamma[BW], dbeta[BW], work[2 * 2 * BW];
    for (int k = 0; k < 4; k++) {
        const int relu = k & 1, added = k >> 1;
        struct rp_conv identity = {1, BR, 1, BW, BR, 1, BW, 1, 1, 1, 0, 0};
        float w[BW * BW];
        fill_noise(x, BN, 2, 1);
        fill_noise(gamma, BW, 2, 2);
        fill_noise(beta, BW, 1, 3);
        fill_noise(add, BN, 1, 4);
        fill_noise(dy, BN, 1, 5);
        for (int i = 0; i < BW * BW; i++)
            w[i] = i / BW == i % BW;
        ref->conv_forward(NULL, y, mean, x, w, &identity, work);
        struct rp_batchnorm n = {.rows = BR, .width = BW, .eps = 1e-5f, .relu = relu, .x = x, .mean = mean,
                                 .gamma = gamma, .beta = beta, .add = added ? add : NULL, .y = y, .var = var,
                                 .rstd = rstd, .work = work};
        const struct rp_batchnorm_grad g = {.rows = BR, .width = BW, .dy = dy, .x = x, .y = relu ? y : NULL,
                                            .mean = mean, .rstd = rstd, .gamma = gamma, .dx = dx,
                                            .dadd = added ? dadd : NULL, .dgamma = dgamma, .dbeta = dbeta,
                                            .work = work};
        ref->batchnorm_forward(NULL, &n);
        n.y = again;
        ref->batchnorm_apply(NULL, &n);
        CHECK(!memcmp(y, again, sizeof y), "the output again");
        ref->batchnorm_backward(NULL, &g);
        const struct batch_case e = {x, gamma, beta, added ? add : NULL, dy, relu};
        double total = 0;
        for (int i = 0; i < BN; i++)
            total += (double)dy[i] * (double)y[i];
        CHECK(fabs(total - batch_loss(&e, NULL, NULL, NULL, NULL)) < 1e-4, "%g", total);
        check_gradient("dx", batch_of_x, &e, x, dx, BN);
        check_gradient("dgamma", batch_of_gamma, &e, gamma, dgamma, BW);
        check_gradient("dbeta", batch_of_beta, &e, beta, dbeta, BW);
        if (added)
            check_gradient("dadd", batch_of_add, &e, add, dadd, BN);
    }
}

/* ---- pools ---- */

enum { PN = 2 * 7 * 8 * 3 };
static const struct rp_conv pool = {2, 7, 8, 3, 4, 4, 3, 3, 3, 2, 1, 1};

static double pool_loss(const double *x, const void *arg)
{
    const float *dy = arg;
    double sum = 0;
    for (int i = 0; i < 2 * 4 * 4 * 3; i++) {
        const int r = i / 3, n = r / 16, oh = r / 4 % 4, ow = r % 4;
        double most = -INFINITY;
        for (int ih = 2 * oh - 1; ih < 2 * oh + 2; ih++)
            for (int iw = 2 * ow - 1; iw < 2 * ow + 2; iw++)
                if (ih >= 0 && iw >= 0 && ih < 7 && iw < 8)
                    most = fmax(most, x[((n * 7 + ih) * 8 + iw) * 3 + i % 3]);
        sum += (double)dy[i] * most;
    }
    return sum;
}

static double mean_loss(const double *x, const void *arg)
{
    const float *dy = arg;
    double sum = 0;
    for (int i = 0; i < PN; i++)
        sum += (double)dy[i / 3 / 56 * 3 + i % 3] * x[i] / 56;
    return sum;
}

TEST(pool_gradients)
{
    float x[PN], y[2 * 16 * 3], dy[2 * 16 * 3], dx[PN];
    uint8_t which[2 * 16 * 3];
    double at[PN], total = 0;
    fill_noise(x, PN, 1, 1);
    fill_noise(dy, 2 * 16 * 3, 1, 2);
    for (int i = 0; i < PN; i++)
        at[i] = (double)x[i];
    ref->maxpool_forward(NULL, y, which, x, &pool);
    for (int i = 0; i < 2 * 16 * 3; i++)
        total += (double)dy[i] * (double)y[i];
    CHECK(fabs(total - pool_loss(at, dy)) < 1e-12, "%g", total);
    ref->maxpool_backward(NULL, dx, dy, which, &pool);
    check_gradient("max pool", pool_loss, dy, x, dx, PN);
    ref->avgpool_forward(NULL, y, x, 2, 56, 3);
    total = 0;
    for (int i = 0; i < 6; i++)
        total += (double)dy[i] * (double)y[i];
    CHECK(fabs(total - mean_loss(at, dy)) < 1e-6, "%g", total);
    ref->avgpool_backward(NULL, dx, dy, 2, 56, 3);
    check_gradient("average pool", mean_loss, dy, x, dx, PN);
}

/* ---- loss ---- */

enum { XN = 3, XC = 37 };
static const int32_t labels[XN] = {0, 36, 17};

static double smoothed_loss(const double *z, const void *arg)
{
    const float *coef = arg;
    double sum = 0;
    for (int i = 0; i < XN; i++) {
        double l = 0, mean = 0;
        for (int c = 0; c < XC; c++) {
            l += exp(z[i * XC + c]);
            mean += z[i * XC + c] / XC;
        }
        sum += (double)coef[i] * (0.9 * (log(l) - z[i * XC + labels[i]]) + 0.1 * (log(l) - mean));
    }
    return sum;
}

TEST(smoothed_cross_entropy_and_its_gradient)
{
    float z[XN * XC], logits[XN * XC], loss[XN], coef[XN] = {0.5f, 0.2f, 0.3f}, total;
    double x[XN * XC];
    fill_noise(z, XN * XC, 5, 1);
    memcpy(logits, z, sizeof z);
    for (int i = 0; i < XN * XC; i++)
        x[i] = (double)z[i];
    ref->softmax_xent_smoothed(NULL, loss, logits, XC, labels, coef, 1.0f, XN, XC, 0.1f);
    ref->weighted_sum(NULL, &total, loss, coef, XN);
    check_gradient("dlogits", smoothed_loss, coef, z, logits, XN * XC);
    CHECK(fabs((double)total - smoothed_loss(x, coef)) < 1e-6 * fabs(smoothed_loss(x, coef)), "%a", (double)total);
}

TEST(argmax_takes_the_first_of_equal_values)
{
    const float x[4 * 5] = {1, 2, 3, 2, 9, 3, 3, 3, 3, 9, -1, -0.0f, 0, 0, 9, NAN, 1, 2, 3, 9};
    for (int isa = -1; isa < RP_ISA_COUNT; isa++) {
        struct rp_dev *dev = isa < 0 ? NULL : device((enum rp_isa)isa, 2);
        int32_t index[4] = {-1, -1, -1, -1};
        if (isa >= 0 && !dev)
            continue;
        (dev ? dev->op : ref)->argmax_rows(dev, index, x, 5, 4, 4);
        CHECK(index[0] == 2 && index[1] == 0 && index[2] == 1 && index[3] == 0, "%d %d %d %d", index[0], index[1],
              index[2], index[3]);
    }
}

/* ---- pixels and optimizers against the formulas ---- */

TEST(pixels_are_scaled_per_channel)
{
    const uint8_t pixel[6] = {0, 128, 255, 7, 8, 9};
    const float scale[3] = {0.5f, 2, -1}, shift[3] = {1, -3, 0.25f}, exact[6] = {1, 253, -254.75f, 4.5f, 13, -8.75f};
    float x[6];
    ref->scale_pixels(NULL, x, pixel, scale, shift, 2, 3);
    CHECK(!memcmp(x, exact, sizeof x));
}

/* PyTorch's SGD: d = g + decay*w; m = momentum*m + d; w -= lr * (nesterov ? d + momentum*m : m). */
TEST(sgd_is_the_textbook_update)
{
    enum { N = 33 };
    for (int k = 0; k < 4; k++) {
        const struct rp_sgd a = {
            .grad_scale = 0.5f, .lr = 0.1f, .momentum = 0.875f, .weight_decay = k & 2 ? 0.01f : 0, .nesterov = k & 1};
        float w[N], m[N], g[N];
        double dw[N], dm[N];
        fill_noise(w, N, 1, 1);
        fill_noise(m, N, 1, 2);
        fill_noise(g, N, 1, 3);
        for (int i = 0; i < N; i++) {
            const double d = (double)g[i] * 0.5 + (double)a.weight_decay * (double)w[i];
            dm[i] = 0.875 * (double)m[i] + d;
            dw[i] = (double)w[i] - (double)a.lr * (k & 1 ? d + 0.875 * dm[i] : dm[i]);
        }
        ref->sgd_update(NULL, w, m, g, N, &a);
        for (int i = 0; i < N; i++)
            CHECK(fabs((double)w[i] - dw[i]) < 3e-7 && fabs((double)m[i] - dm[i]) < 3e-7, "variant %d, element %d", k,
                  i);
    }
}

/* MLPerf's LARS: rate = lr * eeta*|w| / (|g| + decay*|w| + eps); v = rate * (g + decay*w); m = momentum*m - v; w += m,
 * or with Nesterov momentum*m - v once more. */
TEST(lars_is_the_update_of_mlperf)
{
    enum { N = 33 };
    for (int k = 0; k < 8; k++) {
        const struct rp_lars a = {.grad_scale = 0.5f, .lr = 9, .momentum = 0.9f, .weight_decay = 0.01f, .eeta = 0.001f,
                                  .eps = 1e-6f, .adapt = k & 1, .nesterov = k >> 1 & 1};
        float w[N], m[N], g[N], sums[2] = {0, 0};
        double dw[N], dm[N], nw = 0, ng = 0;
        fill_noise(w, N, k & 4 ? 0 : 1, 1);
        fill_noise(m, N, 1, 2);
        fill_noise(g, N, 1, 3);
        for (int i = 0; i < N; i++) {
            nw += (double)w[i] * (double)w[i];
            ng += (double)g[i] * (double)g[i];
        }
        sums[0] = (float)nw;
        sums[1] = (float)ng;
        nw = sqrt(nw);
        ng = sqrt(ng) * 0.5;
        const double decay = (double)a.weight_decay;
        const double rate = (double)a.lr * (a.adapt && nw > 0 ? (double)a.eeta * nw / (ng + decay * nw + 1e-6) : 1);
        for (int i = 0; i < N; i++) {
            const double v = rate * ((double)g[i] * 0.5 + (a.adapt ? decay * (double)w[i] : 0));
            dm[i] = 0.9 * (double)m[i] - v;
            dw[i] = (double)w[i] + (a.nesterov ? 0.9 * dm[i] - v : dm[i]);
        }
        ref->lars_update(NULL, w, m, g, sums, N, &a);
        for (int i = 0; i < N; i++)
            CHECK(fabs((double)w[i] - dw[i]) < 3e-6 && fabs((double)m[i] - dm[i]) < 3e-6, "variant %d, element %d", k,
                  i);
    }
}

TEST(running_statistics_move_towards_the_batch)
{
    float r[2] = {1, -2};
    const float x[2] = {3, 4};
    ref->running_update(NULL, r, x, 1.25f, 0.25f, 2);
    CHECK(r[0] == 0.25f * 3.75f + 0.75f && r[1] == 0.25f * 5 - 1.5f, "%a %a", (double)r[0], (double)r[1]);
}

/* ---- special values, on every instruction set ---- */

TEST(relu_gives_plus_zero_and_nan_reaches_the_gradient)
{
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        struct rp_dev *dev = device((enum rp_isa)isa, 2);
        const float x[3] = {-0.0f, NAN, 1}, mean[3] = {0}, beta[3] = {-0.0f, 0, 0}, dy[3] = {5, 6, NAN};
        float y[3], dx[3], dgamma[3], dbeta[3], work[6], one[3] = {1, 1, 1};
        struct rp_batchnorm n = {.rows = 1, .width = 3, .relu = 1, .x = x, .mean = mean, .gamma = one, .beta = beta,
                                 .y = y, .rstd = one};
        const struct rp_batchnorm_grad g = {.rows = 1, .width = 3, .dy = dy, .x = one, .y = y, .mean = mean,
                                            .rstd = one, .gamma = one, .dx = dx, .dgamma = dgamma, .dbeta = dbeta,
                                            .work = work};
        if (!dev)
            continue;
        dev->op->batchnorm_apply(dev, &n);
        CHECK(y[0] == 0 && !signbit(y[0]) && y[1] == 0 && y[2] == 1, "%s: %g", rp_isa_name((enum rp_isa)isa),
              (double)y[1]);
        dev->op->batchnorm_backward(dev, &g);
        CHECK(dbeta[0] == 0 && dbeta[1] == 0 && isnan(dbeta[2]), "%g %g %g", (double)dbeta[0], (double)dbeta[1],
              (double)dbeta[2]);
        n.relu = 0;
        dev->op->batchnorm_apply(dev, &n);
        CHECK(isnan(y[1]), "a NaN must stay without a relu");
    }
}

/* ---- the reference itself, pinned ---- */

static void check_digest(const char *what, const void *data, size_t size, const char *expected)
{
    char hex[RP_SHA256_HEX];
    rp_sha256_hex(hex, data, size);
    CHECK(!strcmp(hex, expected), "%s: %s", what, hex);
}

/* As in test_math.c: a reference compiled with contraction would agree with kernels compiled so. */
TEST(reference_bits)
{
    enum { ROWS = 3 * 5 * 6, OUT = ROWS * 20, IN = 3 * 9 * 11 * 12, WEIGHTS = 20 * 9 * 12, CLASSES = 77 };
    static float x[IN], w[WEIGHTS], y[OUT], z[OUT], dy[OUT], dx[OUT], mean[20], var[20], rstd[20], gamma[20], beta[20],
        dgamma[40];
    static float work[4 * 20], logits[3 * CLASSES], loss[3];
    const struct rp_conv c = {3, 9, 11, 12, 5, 6, 20, 3, 3, 2, 1, 1};
    const int32_t label[3] = {0, 76, 5};
    const float coef[3] = {0.3f, 0.2f, 0.5f};
    fill_noise(x, IN, 3, 1);
    fill_noise(w, WEIGHTS, 2, 2);
    fill_noise(gamma, 20, 2, 3);
    fill_noise(beta, 20, 2, 4);
    fill_noise(dy, OUT, 1, 5);
    fill_noise(logits, 3 * CLASSES, 4, 6);
    ref->conv_forward(NULL, y, mean, x, w, &c, work);
    check_digest("convolution", y, sizeof y,
                 "b686a42326269e1beecd7d894c5283930c553552e5993664bf898fe096fdd391");
    const struct rp_batchnorm n = {.rows = ROWS, .width = 20, .eps = 1e-5f, .relu = 1, .x = y, .mean = mean,
                                   .gamma = gamma, .beta = beta, .add = dy, .y = z, .var = var, .rstd = rstd,
                                   .work = work};
    ref->batchnorm_forward(NULL, &n);
    check_digest("batch norm", z, sizeof z,
                 "b2e157c4607c52c4b1fb1b7f9253e8e630505bc4f632120d77817b697d383cdc");
    const struct rp_batchnorm_grad g = {.rows = ROWS, .width = 20, .dy = dy, .x = y, .y = z, .mean = mean, .rstd = rstd,
                                        .gamma = gamma, .dx = dx, .dgamma = dgamma, .dbeta = dgamma + 20, .work = work};
    ref->batchnorm_backward(NULL, &g);
    check_digest("its gradient", dx, sizeof dx,
                 "3d5dfa5c66d63afd68f6732d18ce3acc6de24fc3cbc1b17ef16da7ce7f89ca01");
    check_digest("its column sums", dgamma, sizeof dgamma,
                 "366da51d0ba1faeb65ff5750b16ac228aeef1e96baf13429c37e8df88186641b");
    ref->conv_wgrad(NULL, w, dx, x, &c, work);
    check_digest("weight gradient", w, sizeof w,
                 "a2cb3b58516cb5d0c438bd507d4d591082524f0e31fdc672b160b52ee1dca6dc");
    ref->conv_dgrad(NULL, x, dx, w, NULL, &c);
    check_digest("data gradient", x, sizeof x,
                 "db07c6a807297e0e8095b94ad59ff946314cbad5bc44a2d6a9fa99d6f6cdcd71");
    ref->softmax_xent_smoothed(NULL, loss, logits, CLASSES, label, coef, 1.0f, 3, CLASSES, 0.1f);
    check_digest("smoothed loss", loss, sizeof loss,
                 "b735f7059794739a43808b790daf4127727ec47eb5fddecd82a5f69f421c3905");
    check_digest("its gradient", logits, sizeof logits,
                 "6b0436eddd374be464b15543aff7aafbce99b10b0488e60f62a5bcfc561a0bb4");
}
