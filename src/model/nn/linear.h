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

/* A layer and the number of rows that it is applied to. */
struct rp_linear {
    const rp_stored *w; /* [out, in]; in_first: [in, out] */
    const float *b;     /* [out]; NULL: none */
    int rows, in, out, in_first;
};

static inline struct rp_gemm rp_linear_forward_gemm(const struct rp_linear *l, rp_stored *y, const rp_stored *x)
{
    return (struct rp_gemm){.tb = !l->in_first, .m = l->rows, .n = l->out, .k = l->in, .segment = rp_segment(l->in),
                            .a = x, .lda = l->in, .b = l->w, .ldb = l->in_first ? l->out : l->in, .c = y,
                            .ldc = l->out, .bias = l->b};
}

/* y [rows, out] = x [rows, in] w^T + b */
static inline void rp_linear_forward(struct rp_net *m, const struct rp_linear *l, rp_stored *y, const rp_stored *x)
{
    struct rp_gemm g = rp_linear_forward_gemm(l, y, x);
    m->dev->op->gemm(m->dev, &g);
}

static inline struct rp_gemm rp_linear_dgrad_gemm(const struct rp_linear *l, rp_stored *dx, const rp_stored *dy,
                                                  const rp_stored *add)
{
    return (struct rp_gemm){.tb = l->in_first, .m = l->rows, .n = l->in, .k = l->out, .segment = rp_segment(l->out),
                            .a = dy, .lda = l->out, .b = l->w, .ldb = l->in_first ? l->out : l->in, .c = dx,
                            .ldc = l->in, .add = add, .ldadd = l->in};
}

/* dx [rows, in] = dy [rows, out] w + add; add [rows, in] may be NULL or dx itself */
static inline void rp_linear_dgrad(struct rp_net *m, const struct rp_linear *l, rp_stored *dx, const rp_stored *dy,
                                   const rp_stored *add)
{
    struct rp_gemm g = rp_linear_dgrad_gemm(l, dx, dy, add);
    m->dev->op->gemm(m->dev, &g);
}

/* The gradient of w: dy^T x [out, in], or x^T dy [in, out] */
static inline void rp_linear_wgrad(struct rp_net *m, const struct rp_linear *l, const rp_stored *dy,
                                   const rp_stored *x)
{
    float *dw = rp_net_grad(m, l->w);
    struct rp_gemm g = {.ta = 1, .m = l->out, .n = l->in, .k = l->rows, .segment = RP_SEGMENT_WGRAD, .a = dy,
                        .lda = l->out, .b = x, .ldb = l->in, .c32 = dw, .ldc = l->in};
    struct rp_gemm t = {.ta = 1, .m = l->in, .n = l->out, .k = l->rows, .segment = RP_SEGMENT_WGRAD, .a = x,
                        .lda = l->in, .b = dy, .ldb = l->out, .c32 = dw, .ldc = l->out};
    m->dev->op->gemm(m->dev, l->in_first ? &t : &g);
}

/* For declare(): a product [rows, width] over `depth` that is divided. */
void rp_linear_use_parts(struct rp_net *m, int rows, int width, int depth, int pieces);
/* As rp_linear_forward(), `in` divided. */
void rp_linear_forward_parts(struct rp_net *m, const struct rp_linear *l, rp_stored *y, const rp_stored *x);
/* As rp_linear_dgrad(), `out` divided. pieces: w is several matrices side by side, and a part is the same share of
 * each; needs in_first. */
void rp_linear_dgrad_parts(struct rp_net *m, const struct rp_linear *l, rp_stored *dx, const rp_stored *dy,
                           const rp_stored *add, int pieces);
