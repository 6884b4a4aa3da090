/* The feed-forward part of a transformer layer: u = x Wup^T + b, g = gelu(u), y = g Wdown^T + b.
 *
 * What:    R rows, H wide outside, I wide inside. Of t tensor-parallel ranks each has I/t columns of u and g, and the
 *          weights of these.
 * Flow:    declare() -> forward(x) -> y; backward(dy) -> gradients of the weights, and of x.
 * Owner:   pointers are set by the model's list of tensors; weights are declared by the model, under its public names.
 */
#pragma once

#include "model/model.h"

struct rp_nn_mlp {
    rp_stored *up_w, *down_w;    /* [I, H], [H, I]; in_first: [H, I], [I, H] */
    float *up_b, *down_b;        /* [I], [H] */
    rp_stored *u, *g;            /* [R, I] before and after GELU */
    int rows, hidden, inner;     /* inner: of this rank */
    int in_first;                /* see linear.h */
    enum rp_activation act;
    enum rp_recompute recompute; /* what all layers share, because backward computes it again: g, or u and g */
};

/* GELU in the form that model.hidden_act names. */
void rp_nn_gelu_use(struct rp_net *m, enum rp_activation act, long rows, long width);
void rp_nn_gelu_forward(struct rp_dev *dev, enum rp_activation act, rp_stored *g, const rp_stored *u, int rows,
                        int width);
/* du: the gradient of g, which becomes that of u; b: the bias in u, whose gradient is added up. */
void rp_nn_gelu_backward(struct rp_net *m, enum rp_activation act, rp_stored *du, const float *b, const rp_stored *u,
                         int rows, int width);

/* a: complete except for pointers and sizes. Activations of layer `layer` (from 1). inner: of all ranks; room: least
 * elements of u, for what overwrites it; g has at least [R, H/t]. */
void rp_nn_mlp_declare(struct rp_net *m, struct rp_nn_mlp *a, int rows, int hidden, int inner, size_t room, int layer);
/* g from u. */
void rp_nn_mlp_activate(struct rp_net *m, const struct rp_nn_mlp *a);
/* u from x, and g. */
void rp_nn_mlp_inner(struct rp_net *m, const struct rp_nn_mlp *a, const rp_stored *x);
void rp_nn_mlp_forward(struct rp_net *m, const struct rp_nn_mlp *a, rp_stored *y, const rp_stored *x);
/* dx = gradient of x + add; g is overwritten by a gradient. The caller, which computed dy, computes the gradient of
 * down_b. add may be NULL or dx itself; dx may be x. */
void rp_nn_mlp_backward(struct rp_net *m, const struct rp_nn_mlp *a, rp_stored *dx, const rp_stored *add,
                        const rp_stored *dy, const rp_stored *x);
