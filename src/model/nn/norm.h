/* Layer norm of a sum, as in post-LN transformers: y = LN(dropout(x) + residual); plain: of x alone.
 *
 * What:    R rows, H wide; keeps what the backward pass needs.
 * Flow:    declare() -> forward(x, residual) -> y; backward(dy) -> gradients of scale, shift, x, residual and the bias
 *          that made x.
 * Owner:   pointers are set by the model's list of tensors; weights are declared by the model, under its public names.
 */
#pragma once

#include "model/model.h"

struct rp_nn_norm {
    float *w, *b;            /* [H] */
    rp_stored *kept, *y;     /* [R, H]; x is written to kept, see struct rp_layernorm */
    float *mean, *rstd;      /* [R]; mean in mixed precision alone */
    uint8_t *mask;           /* dropout decisions */
    int rows, width, plain;
    int stage;               /* 0: that of the layer */
    int site;                /* of the dropout */
    float eps;
    double p;
};

/* n: complete except for pointers. Activations of layer `layer` (from 1; 0: none), with the names of kept and y, and
 * the operations that write kept. */
void rp_nn_norm_declare(struct rp_net *m, struct rp_nn_norm *n, const char *normalised, const char *name,
                        const char *made_by, int layer);
/* Input: kept. residual: NULL if plain. */
void rp_nn_norm_forward(struct rp_net *m, const struct rp_nn_norm *n, const rp_stored *residual);
/* dy becomes the gradient of the residual, dx (another tensor) that of x, dbias its column sums. Plain: dy becomes that
 * of x; dx, dbias NULL. */
void rp_nn_norm_backward(struct rp_net *m, const struct rp_nn_norm *n, rp_stored *dy, rp_stored *dx, float *dbias);
