/* A device that keeps stored tensors in 16 bits, as GPUs do, and whose operations are the definitions.
 *
 * What:    narrow_backend, narrow_ops(): every operation on a stored tensor reads it into fp32 numbers, has the definition
 *          compute with these, and keeps the 16 bits of the results. Mixed precision alone.
 * Flow:    fixture_device_for(.., "narrow", ..): what addresses of stored tensors, their sizes and exchanges assume of an
 *          element of 4 bytes shows as other bits, or to the address sanitizer.
 * Owner:   nothing is kept between operations.
 * Extend:  an operation on stored tensors has narrow_NAME() here and a row in narrow_ops(); without it, its definition reads
 *          16-bit values as floats.
 */
#pragma once

#include "backend/backend.h"
#include "base/buf.h"
#include "base/err.h"
#include "ops/functions.h"
#include "ops/low.h"

#include <stdlib.h>

#define NARROW_TENSORS 8

/* The stored tensors of one call, as fp32 numbers. */
struct narrow {
    enum rp_tc_format format;
    struct {
        uint16_t *at;
        float *x;
        size_t n;
        int is_result;
    } tensor[NARROW_TENSORS];
    int tensors;
};

static inline struct narrow narrow_begin(const struct rp_dev *dev)
{
    RP_BUG_IF(!rp_is_mixed(dev->numerics) || dev->stored_bytes != sizeof(uint16_t));
    return (struct narrow){.format = rp_arithmetic_of(dev->numerics)->format};
}

/* n elements from `at` on; in place: a tensor that was named before. */
static inline void *narrow_tensor(struct narrow *w, const void *at, size_t n, int is_result)
{
    int i = 0;
    if (!at)
        return NULL;
    while (i < w->tensors && w->tensor[i].at != at)
        i++;
    RP_BUG_IF(i == NARROW_TENSORS || (i < w->tensors && w->tensor[i].n != n));
    if (i == w->tensors) {
        w->tensor[w->tensors++].at = (uint16_t *)(uintptr_t)at;
        w->tensor[i].n = n;
        w->tensor[i].x = rp_alloc((n ? n : 1) * sizeof(float));
        for (size_t k = 0; k < n; k++)
            w->tensor[i].x[k] = r_float(rp_low_value(w->format, w->tensor[i].at[k]));
    }
    w->tensor[i].is_result |= is_result;
    return w->tensor[i].x;
}
#define READ(p, n) narrow_tensor(&w, p, (size_t)(n), 0)
#define WRITTEN(p, n) narrow_tensor(&w, p, (size_t)(n), 1)
#define DEFINED rp_reference_ops

static inline void narrow_end(struct narrow *w)
{
    for (int i = 0; i < w->tensors; i++) {
        for (size_t k = 0; w->tensor[i].is_result && k < w->tensor[i].n; k++)
            w->tensor[i].at[k] = rp_low_of(w->format, r_bits(w->tensor[i].x[k]));
        free(w->tensor[i].x);
    }
}

#define NARROW(name, ...)                                                                                              \
    static inline void narrow_##name(struct rp_dev *dev, __VA_ARGS__)                                                  \
    {                                                                                                                  \
        struct narrow w = narrow_begin(dev);
#define NARROW_END                                                                                                     \
    narrow_end(&w);                                                                                                    \
    }

/* Elements from the first of a matrix to its last. */
static inline size_t narrow_matrix(long rows, long cols, long ld)
{
    return rows && cols ? (size_t)((rows - 1) * ld + cols) : 0;
}

static inline long narrow_rows(const int32_t *index, long n)
{
    long most = -1;
    for (long i = 0; i < n; i++)
        most = index[i] > most ? index[i] : most;
    return most + 1;
}

NARROW(gemm, const struct rp_gemm *g)
    struct rp_gemm h = *g;
    h.a = READ(g->a, g->ta ? narrow_matrix(g->k, g->m, g->lda) : narrow_matrix(g->m, g->k, g->lda));
    h.b = READ(g->b, g->tb ? narrow_matrix(g->n, g->k, g->ldb) : narrow_matrix(g->k, g->n, g->ldb));
    h.c = WRITTEN(g->c, narrow_matrix(g->m, g->n, g->ldc));
    h.add = READ(g->add, narrow_matrix(g->m, g->n, g->ldadd));
    DEFINED.gemm(dev, &h);
NARROW_END

NARROW(embed_forward, rp_stored *z, const int32_t *ids, const int32_t *types, const int32_t *positions, const rp_stored *word,
       const rp_stored *type, const rp_stored *position, int rows, int seq, int width)
    DEFINED.embed_forward(dev, WRITTEN(z, rows * width), ids, types, positions, READ(word, narrow_rows(ids, rows) * width),
                          READ(type, type ? narrow_rows(types, rows) * width : 0),
                          READ(position, (positions ? narrow_rows(positions, rows) : rows < seq ? rows : seq) * width), rows, seq, width);
NARROW_END

#define NORM(name, whole)                                                                                              \
    NARROW(name, const struct rp_layernorm *n)                                                                         \
        struct rp_layernorm h = *n;                                                                                    \
        const size_t all = (size_t)n->rows * (size_t)n->width;                                                         \
        h.x = READ(n->x, all);                                                                                         \
        h.residual = READ(whole ? n->residual : NULL, all);                                                            \
        h.y = WRITTEN(n->y, all);                                                                                      \
        h.kept = WRITTEN(n->kept, all);                                                                                \
        h.z = WRITTEN(whole ? n->z : NULL, all);                                                                       \
        DEFINED.name(dev, &h);                                                                                         \
    NARROW_END
NORM(layernorm_forward, 0)
NORM(residual_layernorm_forward, 1)
NORM(layernorm_apply, 0)

NARROW(layernorm_backward, const struct rp_layernorm_grad *g)
    struct rp_layernorm_grad h = *g;
    const size_t all = (size_t)g->rows * (size_t)g->width;
    h.dy = READ(g->dy, all);
    h.add = READ(g->add, all);
    h.kept = READ(g->kept, all);
    h.dz = WRITTEN(g->dz, all);
    h.dx = WRITTEN(g->dx, all);
    DEFINED.layernorm_backward(dev, &h);
NARROW_END

NARROW(dropout_forward, rp_stored *y, uint8_t *mask, const rp_stored *x, const struct rp_dropout *drop, int rows, int width)
    DEFINED.dropout_forward(dev, WRITTEN(y, rows * width), mask, READ(x, rows * width), drop, rows, width);
NARROW_END
NARROW(dropout_backward, rp_stored *dx, const rp_stored *dy, const uint8_t *mask, const struct rp_dropout *drop, int rows, int width)
    DEFINED.dropout_backward(dev, WRITTEN(dx, rows * width), READ(dy, rows * width), mask, drop, rows, width);
NARROW_END

#define POINTWISE(name)                                                                                                \
    NARROW(name##_forward, rp_stored *y, const rp_stored *x, int rows, int width)                                      \
        DEFINED.name##_forward(dev, WRITTEN(y, rows * width), READ(x, rows * width), rows, width);                     \
    NARROW_END                                                                                                         \
    NARROW(name##_backward, rp_stored *dx, float *dbias, const rp_stored *dy, const rp_stored *x, int rows, int width, \
           float *work)                                                                                                \
        DEFINED.name##_backward(dev, WRITTEN(dx, rows * width), dbias, READ(dy, rows * width), READ(x, rows * width),  \
                                rows, width, work);                                                                    \
    NARROW_END
POINTWISE(gelu)
POINTWISE(gelu_tanh)
POINTWISE(tanh)

NARROW(colsum, float *dbias, const rp_stored *dy, int rows, int width, float *work)
    DEFINED.colsum(dev, dbias, READ(dy, rows * width), rows, width, work);
NARROW_END
NARROW(bias_add, rp_stored *y, const float *x, const float *bias, int rows, int width)
    DEFINED.bias_add(dev, WRITTEN(y, rows * width), x, bias, rows, width);
NARROW_END

NARROW(attention_forward, rp_stored *o, float *row_max, float *row_inv, uint8_t *mask, const rp_stored *qkv,
       const struct rp_attention *a)
    const size_t all = (size_t)a->batch * (size_t)a->seq * (size_t)(a->heads * a->head_dim);
    DEFINED.attention_forward(dev, WRITTEN(o, all), row_max, row_inv, mask, READ(qkv, 3 * all), a);
NARROW_END
NARROW(attention_backward, const struct rp_attention_grad *g)
    struct rp_attention_grad h = *g;
    const size_t all = (size_t)g->a->batch * (size_t)g->a->seq * (size_t)(g->a->heads * g->a->head_dim);
    h.d_o = READ(g->d_o, all);
    h.qkv = READ(g->qkv, 3 * all);
    h.o = READ(g->o, all);
    h.dqkv = WRITTEN(g->dqkv, 3 * all);
    DEFINED.attention_backward(dev, &h);
NARROW_END

NARROW(gather_rows, rp_stored *y, const rp_stored *x, const int32_t *index, int n, int width)
    DEFINED.gather_rows(dev, WRITTEN(y, n * width), READ(x, narrow_rows(index, n) * width), index, n, width);
NARROW_END
NARROW(row_sums, float *dst, const rp_stored *src, const struct rp_row_groups *g, int width, int add)
    DEFINED.row_sums(dev, dst, READ(src, narrow_rows(g->source, g->start[g->n]) * width), g, width, add);
NARROW_END

static inline size_t narrow_in(const struct rp_conv *c)
{
    return (size_t)c->batch * (size_t)c->in_h * (size_t)c->in_w * (size_t)c->in_c;
}
static inline size_t narrow_out(const struct rp_conv *c)
{
    return (size_t)rp_conv_rows(c) * (size_t)c->out_c;
}
NARROW(conv_forward, rp_stored *y, float *mean, const rp_stored *x, const rp_stored *f, const struct rp_conv *c, float *work)
    DEFINED.conv_forward(dev, WRITTEN(y, narrow_out(c)), mean, READ(x, narrow_in(c)), READ(f, c->out_c * rp_conv_taps(c)), c, work);
NARROW_END
NARROW(conv_dgrad, rp_stored *dx, const rp_stored *dy, const rp_stored *f, const rp_stored *add, const struct rp_conv *c)
    DEFINED.conv_dgrad(dev, WRITTEN(dx, narrow_in(c)), READ(dy, narrow_out(c)), READ(f, c->out_c * rp_conv_taps(c)),
                       READ(add, narrow_in(c)), c);
NARROW_END
NARROW(conv_wgrad, float *dw, const rp_stored *dy, const rp_stored *x, const struct rp_conv *c, float *work)
    DEFINED.conv_wgrad(dev, dw, READ(dy, narrow_out(c)), READ(x, narrow_in(c)), c, work);
NARROW_END

#define BATCHNORM(name)                                                                                                \
    NARROW(name, const struct rp_batchnorm *n)                                                                         \
        struct rp_batchnorm h = *n;                                                                                    \
        const size_t all = (size_t)n->rows * (size_t)n->width;                                                         \
        h.x = READ(n->x, all);                                                                                         \
        h.add = READ(n->add, all);                                                                                     \
        h.y = WRITTEN(n->y, all);                                                                                      \
        DEFINED.name(dev, &h);                                                                                         \
    NARROW_END
BATCHNORM(batchnorm_forward)
BATCHNORM(batchnorm_apply)
NARROW(batchnorm_backward, const struct rp_batchnorm_grad *g)
    struct rp_batchnorm_grad h = *g;
    const size_t all = (size_t)g->rows * (size_t)g->width;
    h.dy = READ(g->dy, all);
    h.x = READ(g->x, all);
    h.y = READ(g->y, all);
    h.dx = WRITTEN(g->dx, all);
    h.dadd = WRITTEN(g->dadd, all);
    DEFINED.batchnorm_backward(dev, &h);
NARROW_END

NARROW(maxpool_forward, rp_stored *y, uint8_t *which, const rp_stored *x, const struct rp_conv *c)
    DEFINED.maxpool_forward(dev, WRITTEN(y, narrow_out(c)), which, READ(x, narrow_in(c)), c);
NARROW_END
NARROW(maxpool_backward, rp_stored *dx, const rp_stored *dy, const uint8_t *which, const struct rp_conv *c)
    DEFINED.maxpool_backward(dev, WRITTEN(dx, narrow_in(c)), READ(dy, narrow_out(c)), which, c);
NARROW_END
NARROW(avgpool_forward, rp_stored *y, const rp_stored *x, int batch, int pixels, int width)
    DEFINED.avgpool_forward(dev, WRITTEN(y, batch * width), READ(x, batch * pixels * width), batch, pixels, width);
NARROW_END
NARROW(avgpool_backward, rp_stored *dx, const rp_stored *dy, int batch, int pixels, int width)
    DEFINED.avgpool_backward(dev, WRITTEN(dx, batch * pixels * width), READ(dy, batch * width), batch, pixels, width);
NARROW_END
NARROW(scale_pixels, rp_stored *x, const uint8_t *pixel, const float *scale, const float *shift, size_t n, int width)
    DEFINED.scale_pixels(dev, WRITTEN(x, n * (size_t)width), pixel, scale, shift, n, width);
NARROW_END

NARROW(argmax_rows, int32_t *index, const rp_stored *x, long ld, int n, int classes)
    DEFINED.argmax_rows(dev, index, READ(x, narrow_matrix(n, classes, ld)), ld, n, classes);
NARROW_END
NARROW(softmax_xent, float *loss, rp_stored *z, long ld, const int32_t *labels, const float *coef, float scale, int n, int classes,
       int shards)
    DEFINED.softmax_xent(dev, loss, WRITTEN(z, narrow_matrix(n, classes, ld)), ld, labels, coef, scale, n, classes, shards);
NARROW_END
NARROW(softmax_xent_smoothed, float *loss, rp_stored *z, long ld, const int32_t *labels, const float *coef, float scale, int n,
       int classes, float smoothing)
    DEFINED.softmax_xent_smoothed(dev, loss, WRITTEN(z, narrow_matrix(n, classes, ld)), ld, labels, coef, scale, n, classes, smoothing);
NARROW_END

NARROW(round_stored, rp_stored *dst, const float *src, const rp_stored *add, size_t n)
    DEFINED.round_stored(dev, WRITTEN(dst, n), src, READ(add, n), n);
NARROW_END
NARROW(add_stored, rp_stored *dst, const rp_stored *a, const rp_stored *b, size_t n)
    DEFINED.add_stored(dev, WRITTEN(dst, n), READ(a, n), READ(b, n), n);
NARROW_END
NARROW(find_nonfinite_stored, int64_t *index, const rp_stored *x, size_t n)
    DEFINED.find_nonfinite_stored(dev, index, READ(x, n), n);
NARROW_END

static inline struct rp_ops narrow_ops(void)
{
    struct rp_ops t = rp_reference_ops;
#define ROW(name) t.name = narrow_##name;
#define ROWS(X)                                                                                                        \
    X(gemm) X(embed_forward) X(layernorm_forward) X(residual_layernorm_forward) X(layernorm_apply) X(layernorm_backward) \
    X(dropout_forward) X(dropout_backward) X(gelu_forward) X(gelu_backward) X(gelu_tanh_forward) X(gelu_tanh_backward) \
    X(tanh_forward) X(tanh_backward) X(colsum) X(bias_add) X(attention_forward) X(attention_backward) X(gather_rows)   \
    X(row_sums) X(conv_forward) X(conv_dgrad) X(conv_wgrad) X(batchnorm_forward) X(batchnorm_apply)                    \
    X(batchnorm_backward) X(maxpool_forward) X(maxpool_backward) X(avgpool_forward) X(avgpool_backward)                \
    X(scale_pixels) X(argmax_rows) X(softmax_xent) X(softmax_xent_smoothed) X(round_stored) X(add_stored)              \
    X(find_nonfinite_stored)
    ROWS(ROW)
#undef ROW
#undef ROWS
    return t;
}
