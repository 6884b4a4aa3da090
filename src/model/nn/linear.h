/* The three products of a linear layer y = x w^T + b with w [out, in], in the canonical order of roundings.
 *
 * What:    forward, data gradient and weight gradient as one rp_gemm each, and their uses; the only place that chooses segments.
 * Flow:    device tensors in, one operation out.
 *
 * in_first: w is [in, out], as GPT-2's public checkpoints have it; the sums are the same.
 */
#ifndef RP_MODEL_NN_LINEAR_H
#define RP_MODEL_NN_LINEAR_H

#include "model/model.h"

/* For declare(): the three calls of a layer of this size. */
static inline void rp_linear_use(struct rp_net *m, int rows, int in, int out, int in_first)
{
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = out, .depth = in, .segment = rp_segment(in)});
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = in, .depth = out, .segment = rp_segment(out)});
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = in_first ? in : out, .width = in_first ? out : in, .depth = rows,
                                    .segment = RP_SEGMENT_WGRAD});
}

/* y [rows, out] = x [rows, in] w^T + b */
static inline void rp_linear_forward(struct rp_dev *dev, float *y, const float *x, const float *w, const float *b, int rows, int in,
                                     int out, int in_first)
{
    struct rp_gemm g = {.tb = !in_first, .m = rows, .n = out, .k = in, .segment = rp_segment(in), .a = x, .lda = in, .b = w,
                        .ldb = in_first ? out : in, .c = y, .ldc = out, .bias = b};
    dev->op->gemm(dev, &g);
}

/* dx [rows, in] = dy [rows, out] w + add; add [rows, in] may be NULL or dx itself */
static inline void rp_linear_dgrad(struct rp_dev *dev, float *dx, const float *dy, const float *w, const float *add, int rows, int in,
                                   int out, int in_first)
{
    struct rp_gemm g = {.tb = in_first, .m = rows, .n = in, .k = out, .segment = rp_segment(out), .a = dy, .lda = out, .b = w,
                        .ldb = in_first ? out : in, .c = dx, .ldc = in, .add = add, .ldadd = in};
    dev->op->gemm(dev, &g);
}

/* dw [out, in] = dy^T x, or dw [in, out] = x^T dy */
static inline void rp_linear_wgrad(struct rp_dev *dev, float *dw, const float *dy, const float *x, int rows, int in, int out, int in_first)
{
    struct rp_gemm g = {.ta = 1, .m = out, .n = in, .k = rows, .segment = RP_SEGMENT_WGRAD, .a = dy, .lda = out, .b = x, .ldb = in,
                        .c = dw, .ldc = in};
    struct rp_gemm t = {.ta = 1, .m = in, .n = out, .k = rows, .segment = RP_SEGMENT_WGRAD, .a = x, .lda = in, .b = dy, .ldb = out,
                        .c = dw, .ldc = out};
    dev->op->gemm(dev, in_first ? &t : &g);
}

#endif
