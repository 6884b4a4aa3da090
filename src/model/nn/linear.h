/* The three products of a linear layer y = x w^T + b with w [out, in], in the canonical order of roundings.
 *
 * What:    forward, data gradient and weight gradient as one rp_gemm each, and their uses; the only place that chooses segments.
 * Flow:    device tensors in, one operation out.
 */
#ifndef RP_MODEL_NN_LINEAR_H
#define RP_MODEL_NN_LINEAR_H

#include "model/model.h"

/* For declare(): the three calls of a layer of this size. */
static inline void rp_linear_use(struct rp_net *m, int rows, int in, int out)
{
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = out, .depth = in, .segment = rp_segment(in)});
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = in, .depth = out, .segment = rp_segment(out)});
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = out, .width = in, .depth = rows, .segment = RP_SEGMENT_WGRAD});
}

/* y [rows, out] = x [rows, in] w^T + b */
static inline void rp_linear_forward(struct rp_dev *dev, float *y, const float *x, const float *w, const float *b, int rows, int in,
                                     int out)
{
    struct rp_gemm g = {.tb = 1, .m = rows, .n = out, .k = in, .segment = rp_segment(in), .a = x, .lda = in, .b = w, .ldb = in,
                        .c = y, .ldc = out, .bias = b};
    dev->op->gemm(dev, &g);
}

/* dx [rows, in] = dy [rows, out] w + add; add [rows, in] may be NULL or dx itself */
static inline void rp_linear_dgrad(struct rp_dev *dev, float *dx, const float *dy, const float *w, const float *add, int rows, int in,
                                   int out)
{
    struct rp_gemm g = {.m = rows, .n = in, .k = out, .segment = rp_segment(out), .a = dy, .lda = out, .b = w, .ldb = in, .c = dx,
                        .ldc = in, .add = add, .ldadd = in};
    dev->op->gemm(dev, &g);
}

/* dw [out, in] = dy^T x */
static inline void rp_linear_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, int rows, int in, int out)
{
    struct rp_gemm g = {.ta = 1, .m = out, .n = in, .k = rows, .segment = RP_SEGMENT_WGRAD, .a = dy, .lda = out, .b = x, .ldb = in,
                        .c = dw, .ldc = in};
    dev->op->gemm(dev, &g);
}

#endif
