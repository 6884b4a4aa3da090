/* The three products of a linear layer y = x w^T + b with w [out, in], in the canonical order of roundings.
 *
 * What:    forward, data gradient and weight gradient as one rp_gemm each, and their uses; the only place that chooses
 *          segments.
 * Flow:    device tensors in, one operation out.
 *
 * in_first: w is [in, out], as GPT-2's public checkpoints have it; the sums are the same.
 * _parts: products whose long sum tensor-parallel ranks divide: with degree T, T equal parts of k, each summed as a
 * product of its own, and a balanced tree over them, then bias or addend. Of t ranks each has T/t parts: what is
 * divided (`in` or `out`, the width of that operand and the length of that side of w) is a rank's own share, and every
 * rank gets the whole result.
 */
#pragma once

#include "model/model.h"

/* For declare(): the three calls of a layer of this size. */
static inline void rp_linear_use(struct rp_net *m, int rows, int in, int out, int in_first)
{
    rp_net_use(
        m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = out, .depth = in, .segment = rp_segment(in)});
    rp_net_use(
        m, (struct rp_op_use){.op = RP_OP_gemm, .rows = rows, .width = in, .depth = out, .segment = rp_segment(out)});
    rp_net_use(m, (struct rp_op_use){.op = RP_OP_gemm, .rows = in_first ? in : out, .width = in_first ? out : in,
                                     .depth = rows, .segment = RP_SEGMENT_WGRAD});
}

static inline struct rp_gemm rp_linear_forward_gemm(rp_stored *y, const rp_stored *x, const rp_stored *w,
                                                    const float *b, int rows, int in, int out, int in_first)
{
    return (struct rp_gemm){.tb = !in_first, .m = rows, .n = out, .k = in, .segment = rp_segment(in), .a = x, .lda = in,
                            .b = w, .ldb = in_first ? out : in, .c = y, .ldc = out, .bias = b};
}

/* y [rows, out] = x [rows, in] w^T + b */
static inline void rp_linear_forward(struct rp_dev *dev, rp_stored *y, const rp_stored *x, const rp_stored *w,
                                     const float *b, int rows, int in, int out, int in_first)
{
    struct rp_gemm g = rp_linear_forward_gemm(y, x, w, b, rows, in, out, in_first);
    dev->op->gemm(dev, &g);
}

static inline struct rp_gemm rp_linear_dgrad_gemm(rp_stored *dx, const rp_stored *dy, const rp_stored *w,
                                                  const rp_stored *add, int rows, int in, int out, int in_first)
{
    return (struct rp_gemm){.tb = in_first, .m = rows, .n = in, .k = out, .segment = rp_segment(out), .a = dy,
                            .lda = out, .b = w, .ldb = in_first ? out : in, .c = dx, .ldc = in, .add = add,
                            .ldadd = in};
}

/* dx [rows, in] = dy [rows, out] w + add; add [rows, in] may be NULL or dx itself */
static inline void rp_linear_dgrad(struct rp_dev *dev, rp_stored *dx, const rp_stored *dy, const rp_stored *w,
                                   const rp_stored *add, int rows, int in, int out, int in_first)
{
    struct rp_gemm g = rp_linear_dgrad_gemm(dx, dy, w, add, rows, in, out, in_first);
    dev->op->gemm(dev, &g);
}

/* dw [out, in] = dy^T x, or dw [in, out] = x^T dy */
static inline void rp_linear_wgrad(struct rp_dev *dev, float *dw, const rp_stored *dy, const rp_stored *x, int rows,
                                   int in, int out, int in_first)
{
    struct rp_gemm g = {.ta = 1, .m = out, .n = in, .k = rows, .segment = RP_SEGMENT_WGRAD, .a = dy, .lda = out, .b = x,
                        .ldb = in, .c32 = dw, .ldc = in};
    struct rp_gemm t = {.ta = 1, .m = in, .n = out, .k = rows, .segment = RP_SEGMENT_WGRAD, .a = x, .lda = in, .b = dy,
                        .ldb = out, .c32 = dw, .ldc = out};
    dev->op->gemm(dev, in_first ? &t : &g);
}

/* For declare(): a product [rows, width] over `depth` that is divided. */
void rp_linear_use_parts(struct rp_net *m, int rows, int width, int depth, int pieces);
/* As rp_linear_forward(), `in` divided. */
void rp_linear_forward_parts(struct rp_net *m, rp_stored *y, const rp_stored *x, const rp_stored *w, const float *b,
                             int rows, int in, int out, int in_first);
/* As rp_linear_dgrad(), `out` divided. pieces: w is several matrices side by side, and a part is the same share of
 * each; needs in_first. */
void rp_linear_dgrad_parts(struct rp_net *m, rp_stored *dx, const rp_stored *dy, const rp_stored *w,
                           const rp_stored *add, int rows, int in, int out, int in_first, int pieces);
