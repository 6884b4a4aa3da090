/* Self-attention with its projections: qkv = x Wqkv^T + b, ctx = attention(qkv), y = ctx Wout^T + b.
 *
 * What:    part of every transformer layer; R rows, H wide. Of t tensor-parallel ranks each has H/t columns of q, k, v
 *          and ctx, and the weights of these: whole heads.
 * Flow:    declare() -> forward(x) -> y; backward(dy) -> gradients of the weights, and of x.
 * Owner:   pointers are set by the model's list of tensors; weights are declared by the model, under its public names.
 */
#pragma once

#include "model/model.h"

struct rp_nn_attention {
    rp_stored *qkv_w, *out_w;    /* [3H, H], [H, H]; in_first: [H, 3H] */
    float *qkv_b, *out_b;        /* [3H], [H] */
    rp_stored *qkv, *ctx;        /* [R, 3H], [R, H] */
    float *row_max, *row_inv;    /* [R * heads] */
    uint8_t *mask;               /* dropout decisions, a bit each */
    int in_first;                /* see linear.h */
    enum rp_recompute recompute; /* what all layers share, because backward computes it again: all but qkv, or all */
};

/* a: complete except for pointers; at: of this rank's heads. Activations of layer `layer` (from 1); p: dropout of
 * probabilities. */
void rp_nn_attention_declare(struct rp_net *m, struct rp_nn_attention *a, const struct rp_attention *at, double p,
                             int layer);
/* Everything up to ctx; x NULL: from qkv, which is there. */
void rp_nn_attention_context(struct rp_net *m, const struct rp_nn_attention *a, const struct rp_attention *at,
                             const rp_stored *x);
void rp_nn_attention_forward(struct rp_net *m, const struct rp_nn_attention *a, const struct rp_attention *at,
                             rp_stored *y, const rp_stored *x);
/* dx = gradient of x + add, by dy, that of y. The caller, which computed dy, computes the gradient of out_b. */
struct rp_nn_attention_grad {
    rp_stored *dx;           /* [R, H]; may be x */
    const rp_stored *add;    /* [R, H]; NULL: none; may be dx */
    const rp_stored *dy, *x; /* [R, H] */
    rp_stored *dctx, *dqkv;  /* scratch: [R, H/t], [R, 3H/t] */
};
void rp_nn_attention_backward(struct rp_net *m, const struct rp_nn_attention *a, const struct rp_attention *at,
                              const struct rp_nn_attention_grad *to);
